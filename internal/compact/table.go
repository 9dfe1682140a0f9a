package compact

import "sync"

const (
	// maxString is the maximum length of a string that is shared, in bytes. Longer strings, such as messages, rarely occur twice.
	maxString = 256
	// maxValue is the maximum size of a value that is shared, in bytes, as hasher calculates it.
	maxValue = 16 << 10

	// stringsSize and valuesSize are the sizes, in bytes, after which a table forgets the values that were not used recently. The objects of a release,
	// which have equal parts, are usually written shortly after one another, so larger tables find few more equal parts, and keep more parts that no object
	// refers to: with 3,000 services, tables of 4 MiB save less memory than they use.
	stringsSize, valuesSize = 1 << 20, 1 << 20
	// entrySize is the approximate size of an entry of a table without its value, in bytes.
	entrySize = 112
)

// table returns the same value for equal values, so that they share memory. It contains values of approximately twice size bytes at most: those
// that were used most recently. It is safe for concurrent use.
//
// Package unique is not used: it forgets a value when nothing refers to its Handle, even if the value is in use.
type table[K comparable, V any] struct {
	size  int
	equal func(a, b V) bool

	mu sync.Mutex
	// recent contains the values that were used since it was last empty, and earlier those that were used before.
	recent, earlier map[K]entry[V]
	// used is the size of recent.
	used int
}

type entry[V any] struct {
	value V
	size  int
}

// known returns the value of the table that is equal to v. Of different values with the same key, the table contains only one.
func (t *table[K, V]) known(key K, v V) (V, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	known, ok := t.recent[key]
	if !ok {
		if known, ok = t.earlier[key]; ok {
			t.put(key, known)
		}
	}
	if !ok || !t.equal(known.value, v) {
		return v, false
	}
	return known.value, true
}

// add adds a value of size bytes, unless the table contains another one with this key. It returns the value to use.
func (t *table[K, V]) add(key K, v V, size int) V {
	t.mu.Lock()
	defer t.mu.Unlock()
	known, ok := t.recent[key]
	if !ok {
		t.put(key, entry[V]{v, size})
		return v
	}
	if t.equal(known.value, v) {
		return known.value
	}
	return v
}

// put adds an entry to the recent ones. The caller has locked mu.
func (t *table[K, V]) put(key K, e entry[V]) {
	if t.used >= t.size || t.recent == nil {
		t.recent, t.earlier, t.used = map[K]entry[V]{}, t.recent, 0
	}
	t.recent[key] = e
	t.used += entrySize + e.size
}
