package compact

import (
	"hash/maphash"
	stdmaps "maps"
	"sync"
)

const (
	// tableSize is the number of strings after which a table forgets those that were not used recently.
	tableSize = 1 << 15
	// maxString is the maximum length of a string that is shared, in bytes. Kubernetes does not limit the names in owner references, so without
	// this limit, the table could use all memory.
	maxString = 256
)

// table returns the same string for equal strings, so that they share memory. It contains at most twice tableSize
// strings: those that were used most recently. The zero value is ready to use. It is safe for concurrent use.
//
// Package unique is not used: it forgets a value when nothing refers to its Handle, even if its string is in use.
type table struct {
	mu sync.Mutex
	// recent contains the strings that were used since it was last empty, and earlier those that were used before.
	recent, earlier map[string]string
}

// shared returns a string with the same content. A string that is longer than maxString is not shared.
func (t *table) shared(s string) string {
	if s == "" || len(s) > maxString {
		return s
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if known, ok := t.recent[s]; ok {
		return known
	}
	if len(t.recent) >= tableSize || t.recent == nil {
		t.recent, t.earlier = map[string]string{}, t.recent
	}
	if known, ok := t.earlier[s]; ok {
		s = known
	}
	t.recent[s] = s
	return s
}

const (
	// mapsSize is the number of maps after which maps forgets those that were not used recently. The objects of a release, which have
	// equal labels, are usually written shortly after one another.
	mapsSize = 1 << 12
	// maxKeys is the maximum number of keys of a map that is shared, and maxMap is the maximum length of its keys and values, in bytes.
	// Kubernetes does not limit the number of labels of an object, so without these limits, a few objects with many labels could use all memory.
	maxKeys, maxMap = 16, 1 << 10
)

// maps returns the same map for equal maps, so that they share memory. These maps must not be changed. It contains at most twice mapsSize
// maps: those that were used most recently. The zero value is ready to use. It is safe for concurrent use.
type maps struct {
	mu sync.Mutex
	// recent contains the maps that were used since it was last empty, by hash, and earlier those that were used before.
	recent, earlier map[uint64]map[string]string
}

var seed = maphash.MakeSeed()

// length returns the length of all keys and values of a map.
func length(m map[string]string) (n int) {
	for k, v := range m {
		n += len(k) + len(v)
	}
	return n
}

// hashOf returns a hash of a map that does not depend on the order of its keys.
func hashOf(m map[string]string) (sum uint64) {
	for k, v := range m {
		sum += maphash.Comparable(seed, [2]string{k, v})
	}
	return sum
}

// shared returns a map with the same content. A map with more than maxKeys keys or maxMap bytes is not shared. Of different maps with the same hash, only one is shared.
func (t *maps) shared(m map[string]string) map[string]string {
	if len(m) == 0 || len(m) > maxKeys || length(m) > maxMap {
		return m
	}
	hash := hashOf(m)
	t.mu.Lock()
	defer t.mu.Unlock()
	if known, ok := t.recent[hash]; ok {
		if stdmaps.Equal(known, m) {
			return known
		}
		return m
	}
	if len(t.recent) >= mapsSize || t.recent == nil {
		t.recent, t.earlier = map[uint64]map[string]string{}, t.recent
	}
	if known, ok := t.earlier[hash]; ok && stdmaps.Equal(known, m) {
		m = known
	}
	t.recent[hash] = m
	return m
}
