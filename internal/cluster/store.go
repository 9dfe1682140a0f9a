package cluster

import "sync"

// Data is what a store has at one moment.
type Data struct {
	Objects
	// Revision grows with each change of the objects.
	Revision uint64
	// Outage; nil: what is shown is up to date.
	Outage *Outage
	// Missing are sentences about kinds that could not be read.
	Missing []string
}

// Store keeps the newest objects for many readers.
type Store struct {
	mu      sync.Mutex
	data    Data
	changed chan struct{}
}

// NewStore returns a store of objects that were read.
func NewStore(o Objects, missing ...string) *Store {
	return &Store{data: Data{Objects: o, Revision: 1, Missing: missing}, changed: make(chan struct{})}
}

// Data returns the newest objects, which are not to be changed, and a channel that is closed when there are newer
// ones.
func (s *Store) Data() (Data, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.data, s.changed
}

// Set replaces the objects.
func (s *Store) Set(o Objects) {
	s.change(func(d *Data) { d.Objects, d.Revision = o, d.Revision+1 })
}

// SetOutage records an outage, or with nil its end.
func (s *Store) SetOutage(o *Outage) { s.change(func(d *Data) { d.Outage = o }) }

func (s *Store) change(f func(*Data)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.data)
	close(s.changed)
	s.changed = make(chan struct{})
}
