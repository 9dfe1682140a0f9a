package web

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/internal/view"
)

// get responds with a page.
func (s *Server) get(w http.ResponseWriter, r *http.Request) {
	p, section, _, err := s.page(r.Context(), r.URL)
	if err != nil {
		s.failed(w, r, err)
		return
	}
	if wantsJSON(r) {
		respondJSON(w, r, http.StatusOK, p.value)
		return
	}
	if err := s.write(w, r, section, p); err != nil {
		s.failed(w, r, err)
	}
}

// failed responds with an error, which is a [Problem] or an internal error.
func (s *Server) failed(w http.ResponseWriter, r *http.Request, err error) {
	var problem *Problem
	if !errors.As(err, &problem) {
		problem = &Problem{Status: http.StatusInternalServerError, Title: "The page could not be rendered", Text: err.Error()}
	}
	s.fail(w, r, problem)
}

// page returns the page for a URL, its section of the navigation, and a channel that is closed at the next
// change.
func (s *Server) page(ctx context.Context, u *url.URL) (*page, string, <-chan struct{}, error) {
	m, changed, err := s.moments(ctx)
	if err != nil {
		return nil, "", nil, err
	}
	p, section, err := s.content(ctx, m, u)
	if err != nil {
		return nil, section, changed, err
	}
	banner, err := s.banner(m.data, m.now)
	if err != nil {
		return nil, section, changed, err
	}
	p.chunks = append([]chunk{banner}, p.chunks...)
	return p, section, changed, nil
}

// content returns the page for a path, and its section.
func (s *Server) content(ctx context.Context, m *moments, u *url.URL) (*page, string, error) {
	parts := strings.Split(strings.Trim(u.Path, "/"), "/")
	var p *page
	var err error
	section := parts[0]
	switch {
	case u.Path == "/":
		p, err = s.boardPage(ctx, m, u)
	case u.Path == "/previews":
		p, err = s.previewsPage(m)
	case u.Path == "/freezes":
		p, err = s.freezesPage(ctx, m, u)
	case u.Path == "/discovery":
		p, err = s.discoveryPage(m)
	case u.Path == "/events":
		p, err = s.eventsPage(m, u)
	case parts[0] == "services" && len(parts) >= 3:
		section = ""
		e := m.services[keyOf(parts[1], parts[2])]
		switch {
		case e == nil:
			err = &Problem{Status: http.StatusNotFound, Title: "There is no service " + parts[2] + " in namespace " + parts[1], Text: "It may have been deleted, or the name may be wrong. The board lists all services."}
		case len(parts) == 3:
			p, err = s.servicePage(ctx, m, e.Service, u)
		case len(parts) == 4 && parts[3] == "discovery":
			section = "discovery"
			p, err = s.versionsPage(m, e.Service)
		case len(parts) == 4 && parts[3] == "history":
			p, err = s.historyPage(m, e.Service)
		case len(parts) == 5 && parts[3] == "releases":
			p, err = s.releasePage(ctx, m, e.Service, parts[4])
		}
	}
	if p == nil && err == nil {
		err = &Problem{Status: http.StatusNotFound, Title: "There is no such page", Text: "The board lists all services."}
	}
	return p, section, err
}

// single returns a page that consists of one chunk.
func (s *Server) single(title, template string, value any, data map[string]any) (*page, error) {
	p := &page{title: title, value: value, live: true}
	return p, p.add(s, template, "content", data)
}

// whole returns a service as a separate JSON object, which is not part of a board.
func whole(m *moments, x view.Service) view.Service {
	x.TypeMeta = metav1.TypeMeta{APIVersion: view.APIVersion, Kind: view.KindService}
	now := metav1.Time{Time: m.now.UTC()}
	x.Time = &now
	return x
}

// maxEvents is the maximum number of events on the page of a service.
const maxEvents = 50

func (s *Server) servicePage(ctx context.Context, m *moments, x view.Service, u *url.URL) (*page, error) {
	events := view.NewEvents(m.data.Input, m.data.Events, x.Namespace, x.Name, m.now).Events
	more := max(0, len(events)-maxEvents)
	events = newestFirst(events[more:])
	x.Weights = s.weights.of(x.Namespace, x.Name)
	data := map[string]any{
		"S": x, "Now": m.now, "Weights": x.Weights, "Events": events, "EventsRead": m.data.Events != nil, "MoreEvents": more, "History": x.History(m.now),
		"May": s.permissions(ctx)(x.Namespace), "PodsRead": m.data.Pods != nil, "Done": s.done.get(u.Query().Get("done"), m.data), "MayFreeze": s.mayFreeze(ctx, x.Namespace),
		"Pins": pinsOf(x), "Problems": problemsOf(x),
	}
	p := &page{title: x.Name, value: whole(m, x), live: true}
	if err := p.add(s, "done", "", data); err != nil { // The notice is only for this reader, so it is not updated live.
		return nil, err
	}
	return p, p.add(s, "service", "content", data)
}

func (s *Server) historyPage(m *moments, x view.Service) (*page, error) {
	h := x.History(m.now)
	return s.single("History of "+x.Name, "history-page", h, map[string]any{"S": x, "Now": m.now, "History": h})
}

func (s *Server) releasePage(ctx context.Context, m *moments, x view.Service, name string) (*page, error) {
	d, ok := view.NewRelease(m.data.Input, x, name, m.now)
	if !ok {
		return nil, &Problem{Status: http.StatusNotFound, Title: "There is no release " + name + " of " + x.Name, Text: "It may have been removed, or the name may be wrong. The page of the service lists its releases."}
	}
	return s.single(x.Name+" "+cut(d.Release.Version), "release-page", d, map[string]any{"S": x, "D": d, "R": d.Release, "Now": m.now, "May": s.permissions(ctx)(x.Namespace)})
}

func (s *Server) previewsPage(m *moments) (*page, error) {
	p := m.board.Previews("")
	return s.single("Previews", "previews", p, map[string]any{"P": p, "Now": m.now})
}

func (s *Server) discoveryPage(m *moments) (*page, error) {
	return s.single("Discovery", "discovery", m.board, map[string]any{"Services": m.board.Services, "Now": m.now})
}

func (s *Server) versionsPage(m *moments, x view.Service) (*page, error) {
	v := view.NewVersions(m.data.Input, x, m.now)
	return s.single("Versions of "+x.Name, "versions", v, map[string]any{"S": x, "V": v, "Now": m.now})
}
