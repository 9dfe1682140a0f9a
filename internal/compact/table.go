package compact

import "sync"

// tableSize is the number of strings after which a table forgets those that were not used recently.
const tableSize = 1 << 15

// table returns the same string for equal strings, so that they share memory. It contains at most twice tableSize
// strings: those that were used most recently. The zero value is ready to use. It is safe for concurrent use.
//
// Package unique is not used: it forgets a value when nothing refers to its Handle, even if its string is in use.
type table struct {
	mu sync.Mutex
	// recent contains the strings that were used since it was last empty, and earlier those that were used before.
	recent, earlier map[string]string
}

// shared returns a string with the same content.
func (t *table) shared(s string) string {
	if s == "" {
		return ""
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
