package web

import (
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/heighliner/heighliner/internal/cluster"
	"github.com/heighliner/heighliner/internal/view"
	"github.com/heighliner/heighliner/internal/view/text"
)

// The ages of the shared board: it is made again after a change, though not more often than every
// minAge, and after maxAge because ages are part of sentences.
const (
	minAge = 200 * time.Millisecond
	maxAge = 5 * time.Second
)

// shared is the board that all readers share.
type shared struct {
	mu      sync.Mutex
	current *moments
}

// moments is the board at a moment. It is not changed.
type moments struct {
	data     cluster.Data
	now      time.Time
	board    view.Board
	services map[string]*entry // by namespace/name
}

// entry is a service with its part of the board.
type entry struct {
	view.Service
	// with and without what the reader can do.
	with, without       []byte
	sumWith, sumWithout uint64
}

func keyOf(namespace, name string) string { return namespace + "/" + name }

// get gives the newest board.
func (b *shared) get(s *Server) (*moments, <-chan struct{}, error) {
	data, changed := s.Store.Data()
	now := s.Clock.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	if c := b.current; c != nil {
		age := now.Sub(c.now)
		if age >= 0 && age < maxAge && (c.data.Revision == data.Revision || age < minAge) {
			fresh := *c
			fresh.data.Outage, fresh.data.Missing = data.Outage, data.Missing
			return &fresh, changed, nil
		}
	}
	m := &moments{data: data, now: now, board: view.New(data.Input, now), services: make(map[string]*entry, len(data.Microservices))}
	for _, x := range m.board.Services {
		k := keyOf(x.Namespace, x.Name)
		if b.current != nil {
			if old := b.current.services[k]; old != nil && reflect.DeepEqual(old.Service, x) {
				m.services[k] = old
				continue
			}
		}
		e, err := s.entry(x, now)
		if err != nil {
			return nil, nil, err
		}
		m.services[k] = e
	}
	b.current = m
	return m, changed, nil
}

// entry renders the part of the board that a service has.
func (s *Server) entry(x view.Service, now time.Time) (*entry, error) {
	type line struct {
		text.Row
		Group *view.Group
	}
	rows := text.Rows(x)
	lines := make([]line, len(rows))
	for i := range rows {
		lines[i].Row = rows[i]
		if i < len(x.Groups) {
			lines[i].Group = &x.Groups[i]
		}
	}
	e := &entry{Service: x}
	data := map[string]any{"S": x, "Lines": lines, "Now": now, "ID": "s-" + x.Namespace + "." + x.Name, "Acts": false}
	var err error
	if e.without, err = s.templates.execute("board-row", data); err != nil {
		return nil, err
	}
	e.with = e.without
	if slices.ContainsFunc(lines, func(l line) bool { return len(l.State.Next) > 0 }) {
		data["Acts"] = true
		e.with, err = s.templates.execute("board-row", data)
	}
	e.sumWith, e.sumWithout = sumOf(e.with), sumOf(e.without)
	return e, err
}
