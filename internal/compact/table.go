package compact

import "sync"

const (
	// maxString is the maximum length, in bytes, of a string that is shared. Longer strings, such as messages, rarely occur twice.
	maxString = 256
	// maxValue is the maximum size, in bytes, of a value that is shared. hasher calculates the size.
	maxValue = 16 << 10

	// stringsSize and valuesSize limit the tables, in bytes: when the recently used values of a table reach this size, the table forgets all other
	// values. The objects of a release have equal parts, and are usually written shortly after one another. Therefore, larger tables would find only
	// a few more equal parts, but would keep more parts to which no object refers: with 3,000 services, tables of 4 MiB save less memory than they
	// use.
	stringsSize, valuesSize = 1 << 20, 1 << 20
	// entrySize is the approximate size, in bytes, of a table entry without its value.
	entrySize = 112
)

// table returns the same value for all equal values, so that equal values share memory. It contains the most recently used values, up to
// approximately 2*size bytes. It is safe for concurrent use.
//
// Package unique is not used: it forgets a value when nothing refers to the Handle of the value, even if the value itself is in use.
type table[K comparable, V any] struct {
	size  int
	equal func(a, b V) bool

	mu sync.Mutex
	// recent contains the values that were used since recent was last emptied, and earlier contains the values that were used before that.
	recent, earlier map[K]entry[V]
	// used is the size of recent, in bytes.
	used int
}

type entry[V any] struct {
	value V
	size  int
}

// known returns the value in the table that is equal to v, and true. If there is no such value, it returns v and false. If different values have the
// same key, the table contains only one of these values.
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

// add adds a value of size bytes, unless recent already contains a value with this key. It returns the value to use.
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

// put adds an entry to recent. The caller must hold mu.
func (t *table[K, V]) put(key K, e entry[V]) {
	if t.used >= t.size || t.recent == nil {
		t.recent, t.earlier, t.used = map[K]entry[V]{}, t.recent, 0
	}
	t.recent[key] = e
	t.used += entrySize + e.size
}
