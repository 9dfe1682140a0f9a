package cluster

import "sync"

// Data is the content of a store at a point in time.
type Data struct {
	Objects
	// Revision increases with each change to the objects.
	Revision uint64
	// Outage is nil if the objects are up to date.
	Outage *Outage
	// Missing contains messages about kinds that could not be read.
	Missing []string
}

// Store keeps the latest objects for many readers.
type Store struct {
	mu      sync.Mutex
	data    Data
	changed chan struct{}
}

// NewStore returns a store with the given objects.
func NewStore(o Objects, missing ...string) *Store {
	return &Store{data: Data{Objects: o, Revision: 1, Missing: missing}, changed: make(chan struct{})}
}

// Data returns the latest data, which must not be changed, and a channel that is closed when newer data is available.
func (s *Store) Data() (Data, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.data, s.changed
}

// Set replaces the objects.
func (s *Store) Set(o Objects) {
	s.change(func(d *Data) { d.Objects, d.Revision = o, d.Revision+1 })
}

// SetOutage records an outage; nil ends the outage.
func (s *Store) SetOutage(o *Outage) { s.change(func(d *Data) { d.Outage = o }) }

func (s *Store) change(f func(*Data)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.data)
	close(s.changed)
	s.changed = make(chan struct{})
}
