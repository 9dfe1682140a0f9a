package web

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/heighliner/heighliner/internal/cluster"
	"github.com/heighliner/heighliner/internal/view"
	"github.com/heighliner/heighliner/internal/view/text"
)

// These durations limit the age of a shared board. A changed board is computed again, but at most once per minAge. Without a change, it is
// computed again after maxAge, because its sentences contain ages, such as "5m ago".
const (
	minAge = 200 * time.Millisecond
	maxAge = 5 * time.Second
)

// shared is the board of readers with the same scope.
type shared struct {
	mu      sync.Mutex
	current *moments
}

// maxBoards is the maximum number of boards that are kept. Boards of the most recently used scopes are kept.
const maxBoards = 64

// boards contains the boards of all scopes. Boards share the rows of equal services.
type boards struct {
	mu    sync.Mutex
	byKey map[string]*shared
	used  []string // keys, the most recently used last
	rows  map[string]*entry
}

// of returns the board of a scope.
func (b *boards) of(key string) *shared {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.byKey == nil {
		b.byKey, b.rows = map[string]*shared{}, map[string]*entry{}
	}
	if i := slices.Index(b.used, key); i >= 0 {
		b.used = append(slices.Delete(b.used, i, i+1), key)
		return b.byKey[key]
	}
	if len(b.used) == maxBoards {
		delete(b.byKey, b.used[0])
		b.used = slices.Delete(b.used, 0, 1)
	}
	b.used, b.byKey[key] = append(b.used, key), &shared{}
	return b.byKey[key]
}

// row returns the stored row of a service with the given key, or nil if there is none or if the stored service differs from x.
func (b *boards) row(key string, x view.Service) *entry {
	b.mu.Lock()
	e := b.rows[key]
	b.mu.Unlock()
	if e == nil || !reflect.DeepEqual(e.Service, x) {
		return nil
	}
	return e
}

// keep stores rows for other boards. If there are too many rows, it first drops all stored rows, including those of deleted services.
func (b *boards) keep(rows map[string]*entry, services int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.rows) > 2*services {
		clear(b.rows)
	}
	maps.Copy(b.rows, rows)
}

// namespaces contains the namespaces of the services in the latest data.
type namespaces struct {
	mu       sync.Mutex
	revision uint64
	names    []string
}

func (n *namespaces) of(data cluster.Data) []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.revision == data.Revision {
		return n.names
	}
	var names []string
	for i := range data.Microservices {
		names = append(names, data.Microservices[i].Namespace)
	}
	slices.Sort(names)
	n.revision, n.names = data.Revision, slices.Compact(names)
	return n.names
}

// moments is the board at a point in time. It is immutable.
type moments struct {
	data     cluster.Data
	now      time.Time
	board    view.Board
	services map[string]*entry // keyed by namespace/name
}

// entry is a service with its rendered rows for the board.
type entry struct {
	view.Service
	// verbs are the verbs of the actions in the rows.
	verbs []string
	// data is the data for the template, without the verbs.
	data map[string]any

	mu sync.Mutex
	// rows contains the rendered rows, keyed by the verbs that a reader may use.
	rows map[string]rendered
}

// rendered is a part of a page with its fingerprint.
type rendered struct {
	html []byte
	sum  uint64
}

func keyOf(namespace, name string) string { return namespace + "/" + name }

// get returns the current board. If the stored board is out of date, get computes it again.
func (b *shared) get(s *Server, data cluster.Data, scope Scope) (*moments, error) {
	now := s.Clock.Now()
	missing := slices.Concat(data.Missing, scope.Missing)
	b.mu.Lock()
	defer b.mu.Unlock()
	if c := b.current; c != nil {
		age := now.Sub(c.now)
		if age >= 0 && age < maxAge && (c.data.Revision == data.Revision || age < minAge) {
			fresh := *c
			fresh.data.Outage, fresh.data.Missing = data.Outage, missing
			return &fresh, nil
		}
	}
	services := len(data.Microservices)
	if scope.Filter != nil {
		data.Objects = scope.Filter(data.Objects)
	}
	data.Missing = missing
	m := &moments{data: data, now: now, board: view.New(data.Input, now), services: make(map[string]*entry, len(data.Microservices))}
	for _, x := range m.board.Services {
		k := keyOf(x.Namespace, x.Name)
		if old := s.boards.row(k, x); old != nil {
			m.services[k] = old
			continue
		}
		m.services[k] = newEntry(x, now)
	}
	s.boards.keep(m.services, services)
	b.current = m
	return m, nil
}

// newEntry returns an entry for a service with the data of its rows.
func newEntry(x view.Service, now time.Time) *entry {
	type line struct {
		text.Row
		Group *view.Group
	}
	rows := text.Rows(x)
	lines := make([]line, len(rows))
	e := &entry{Service: x, rows: map[string]rendered{}}
	for i := range rows {
		lines[i].Row = rows[i]
		if i < len(x.Groups) {
			lines[i].Group = &x.Groups[i]
		}
		for _, next := range rows[i].State.Next {
			if !slices.Contains(e.verbs, next.Verb) {
				e.verbs = append(e.verbs, next.Verb)
			}
		}
	}
	e.data = map[string]any{"S": x, "Lines": lines, "Now": now, "ID": "s-" + x.Namespace + "." + x.Name}
	return e
}

// row returns the row of a service for a reader. The may function returns the actions that the reader may perform. Readers with the same
// permissions share the row.
func (s *Server) row(e *entry, may func(namespace string) []string) (rendered, error) {
	var verbs []string
	if len(e.verbs) > 0 { // Check the permission only if it changes the row.
		mine := may(e.Namespace)
		verbs = slices.DeleteFunc(slices.Clone(e.verbs), func(verb string) bool { return !slices.Contains(mine, verb) })
	}
	key := strings.Join(verbs, " ")
	e.mu.Lock()
	defer e.mu.Unlock()
	if known, is := e.rows[key]; is {
		return known, nil
	}
	data := maps.Clone(e.data)
	data["Acts"] = verbs
	html, err := s.templates.execute("board-row", data)
	if err != nil {
		return rendered{}, err
	}
	e.rows[key] = rendered{html: html, sum: sumOf(html)}
	return e.rows[key], nil
}
