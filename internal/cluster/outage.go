package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// Outage describes a period in which the objects may be outdated: when it began, and its cause.
type Outage struct {
	Since time.Time
	Cause string
}

// Monitor observes the list and watch requests that are sent through the transport that Wrap returns. An outage lasts as long as there is
// at least one resource for which the most recent request failed.
type Monitor struct {
	now     func() time.Time
	changed func(*Outage)

	mu      sync.Mutex
	failing map[string]string // causes, keyed by request path
	since   time.Time
}

// NewMonitor returns a monitor that calls changed with each outage when it begins, and with nil when it ends.
func NewMonitor(now func() time.Time, changed func(*Outage)) *Monitor {
	return &Monitor{now: now, changed: changed, failing: map[string]string{}}
}

// Wrap returns a transport that sends requests through next and observes them.
func (m *Monitor) Wrap(next http.RoundTripper) http.RoundTripper { return observed{next, m} }

type observed struct {
	next    http.RoundTripper
	monitor *Monitor
}

// RoundTrip sends a request and records the result if it is a list or watch request.
func (o observed) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := o.next.RoundTrip(r)
	if q := r.URL.Query(); !q.Has("watch") && !q.Has("resourceVersion") {
		return response, err // This is a discovery request.
	}
	switch {
	case errors.Is(err, context.Canceled) || r.Context().Err() != nil:
	case err != nil:
		o.monitor.failed(r.URL.Path, err.Error())
	case response.StatusCode >= 400 && response.StatusCode != http.StatusGone:
		o.monitor.failed(r.URL.Path, fmt.Sprintf("the API server responded with %s", response.Status))
	default:
		o.monitor.succeeded(r.URL.Path)
	}
	return response, err
}

func (m *Monitor) failed(path, cause string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	first := len(m.failing) == 0
	if first {
		m.since = m.now()
	}
	m.failing[path] = cause
	if first {
		m.changed(&Outage{m.since, cause})
	}
}

func (m *Monitor) succeeded(path string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, was := m.failing[path]; !was {
		return
	}
	delete(m.failing, path)
	if len(m.failing) == 0 {
		m.changed(nil)
	}
}
