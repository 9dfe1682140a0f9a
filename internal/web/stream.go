package web

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// settle is how long changes are collected before they are sent. refresh is the interval after which ages are sent again. takeTimeout is the time
// after which a client that does not read is disconnected.
const (
	settle      = 250 * time.Millisecond
	refresh     = 15 * time.Second
	takeTimeout = 20 * time.Second
)

// patch contains the changes to an open page.
type patch struct {
	// Set contains elements that replace the elements with the same id. A new element is inserted after the element with the id After, or at the
	// beginning of the element with the id Parent.
	Set []element `json:"set,omitempty"`
	// Gone contains the ids of removed elements.
	Gone []string `json:"gone,omitempty"`
}

type element struct {
	ID     string `json:"id"`
	After  string `json:"after,omitempty"`
	Parent string `json:"parent,omitempty"`
	HTML   string `json:"html"`
}

// between returns the changes from one page to the next, or nil if there are none.
func between(old, now *page) *patch {
	known := make(map[string][]byte, len(old.chunks))
	for _, c := range old.chunks {
		if c.id != "" {
			known[c.id] = c.html
		}
	}
	var p patch
	last := ""
	for _, c := range now.chunks {
		if c.id == "" {
			continue
		}
		html, is := known[c.id]
		delete(known, c.id)
		if !is || !same(html, c.html) {
			e := element{ID: c.id, Parent: c.parent, HTML: string(c.html)}
			if c.parent != "" {
				e.After = last
			}
			p.Set = append(p.Set, e)
		}
		if c.parent != "" {
			last = c.id
		}
	}
	for _, c := range old.chunks {
		if _, gone := known[c.id]; gone && c.id != "" {
			p.Gone = append(p.Gone, c.id)
		}
	}
	if len(p.Set) == 0 && len(p.Gone) == 0 {
		return nil
	}
	return &p
}

// same reports whether two renderings are equal. It first compares the addresses, because shared renderings use the same memory.
func same(a, b []byte) bool {
	if len(a) != len(b) {
		return false
	}
	return len(a) == 0 || &a[0] == &b[0] || string(a) == string(b)
}

// live sends a reader the changes to an open page until the reader disconnects.
func (s *Server) live(w http.ResponseWriter, r *http.Request) {
	select {
	case s.streams <- struct{}{}:
		defer func() { <-s.streams }()
	default:
		s.fail(w, r, &Problem{Status: http.StatusServiceUnavailable, Title: "Too many open pages", Text: "Close some pages, and reload this page."})
		return
	}
	reader := ReaderOf(r.Context())
	if !s.follows(reader.User, 1) {
		s.fail(w, r, &Problem{Status: http.StatusTooManyRequests, Title: "You have too many open pages", Text: "Close some pages, and reload this page."})
		return
	}
	defer s.follows(reader.User, -1)
	u, err := url.ParseRequestURI(r.URL.Query().Get("page"))
	if err != nil || u.Host != "" || u.Path == "/live" {
		s.fail(w, r, &Problem{Status: http.StatusBadRequest, Title: "The request does not contain a valid page", Text: "Reload the page."})
		return
	}
	seen := r.Header.Get("Last-Event-ID")
	if seen == "" {
		seen = r.URL.Query().Get("state")
	}
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	stream := &stream{Server: s, w: w, control: http.NewResponseController(w), url: u}
	// Remove the read deadline of the request. Otherwise, it would also end the stream.
	_ = stream.control.SetReadDeadline(time.Time{})
	if err := stream.begin(r, seen); err != nil {
		return // The reader has disconnected, or must load the page again.
	}
	_ = stream.run(r)
}

// stream sends the changes to an open page.
type stream struct {
	*Server
	w       http.ResponseWriter
	control *http.ResponseController
	url     *url.URL
	last    *page
	changed <-chan struct{}
}

// errEnded is returned when the server ends a stream. The client then reconnects or reloads the page.
var errEnded = errors.New("the stream ended")

// begin sends only a keep-alive if the page shows the current state. Otherwise, it requests that the client load the page again.
func (s *stream) begin(r *http.Request, seen string) error {
	p, err := s.render(r)
	if err != nil {
		return err
	}
	s.last = p
	if seen != p.state() {
		return s.send("stale", p.state(), "{}")
	}
	return s.send("", "", "")
}

// render renders the page again. If that fails, or if the reader has logged out, it requests that the client load the page again. The page then
// shows the error.
func (s *stream) render(r *http.Request) (*page, error) {
	if s.Identity != nil {
		if _, err := s.Identity.Reader(r); err != nil {
			return nil, errors.Join(errEnded, s.send("stale", "", "{}"), err)
		}
	}
	p, _, changed, err := s.page(r.Context(), s.url)
	if changed != nil {
		s.changed = changed
	}
	if err != nil {
		return nil, errors.Join(errEnded, s.send("stale", "", "{}"), err)
	}
	return p, nil
}

// run sends changes until the reader disconnects or must authenticate again.
func (s *stream) run(r *http.Request) error {
	var until <-chan time.Time
	if reader := ReaderOf(r.Context()); !reader.Until.IsZero() {
		left := reader.Until.Sub(s.Clock.Now())
		if left <= 0 {
			return errEnded
		}
		end := s.Clock.NewTimer(left)
		defer end.Stop()
		until = end.C()
	}
	for {
		tick := s.Clock.NewTimer(refresh)
		select {
		case <-r.Context().Done():
			tick.Stop()
			return r.Context().Err()
		case <-until:
			tick.Stop()
			return errEnded
		case <-tick.C():
		case <-s.changed:
			tick.Stop()
			pause := s.Clock.NewTimer(settle)
			select {
			case <-r.Context().Done():
				pause.Stop()
				return r.Context().Err()
			case <-pause.C():
			}
		}
		now, err := s.render(r)
		if err != nil {
			return err
		}
		p := between(s.last, now)
		s.last = now
		if p == nil {
			if err := s.send("", "", ""); err != nil {
				return err
			}
			continue
		}
		raw, err := json.Marshal(p)
		if err != nil {
			return fmt.Errorf("write patch: %w", err)
		}
		if err := s.send("patch", now.state(), string(raw)); err != nil {
			return err
		}
	}
}

// send sends an event. If the name is empty, it sends a comment that keeps the connection open.
func (s *stream) send(name, id, data string) error {
	_ = s.control.SetWriteDeadline(s.Clock.Now().Add(takeTimeout)) // The error is ignored, because response recorders in tests do not support deadlines.
	text := ": open\n\n"
	if name != "" {
		text = fmt.Sprintf("event: %s\nid: %s\ndata: %s\n\n", name, id, data)
	}
	if _, err := s.w.Write([]byte(text)); err != nil {
		return err
	}
	return s.control.Flush()
}
