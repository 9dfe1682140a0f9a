package web

import (
	"encoding/xml"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/heighliner/heighliner/internal/view"
)

// These are the maximum numbers of events on the page and in the feed.
const (
	maxOnPage = 300
	maxAtom   = 100
)

// eventQuery selects the events of the page. It is part of the URL.
type eventQuery struct {
	// Namespace and Search select all events if they are empty. Warnings omits normal events.
	Namespace, Search string
	Warnings          bool
}

func eventQueryOf(q url.Values) eventQuery {
	return eventQuery{Namespace: q.Get("namespace"), Search: strings.TrimSpace(q.Get("q")), Warnings: q.Get("type") == "Warning"}
}

func (q eventQuery) matches(e view.Event) bool {
	if q.Namespace != "" && e.Namespace != q.Namespace || q.Warnings && e.Type != "Warning" {
		return false
	}
	line := strings.ToLower(strings.Join([]string{e.Namespace, e.Object, e.Related, e.Reason, e.Note}, " "))
	for _, word := range strings.Fields(strings.ToLower(q.Search)) {
		if !strings.Contains(line, word) {
			return false
		}
	}
	return true
}

// events returns up to limit of the newest matching events, newest first, and the total number of matching events.
func (q eventQuery) events(m *moments, limit int) (view.Events, int) {
	all := view.NewEvents(m.data.Input, m.data.Events, "", "", m.now)
	all.Events = slices.DeleteFunc(all.Events, func(e view.Event) bool { return !q.matches(e) })
	n := len(all.Events)
	all.Events = newestFirst(all.Events[max(0, n-limit):])
	return all, n
}

func newestFirst(list []view.Event) []view.Event {
	out := slices.Clone(list)
	slices.Reverse(out)
	return out
}

// eventsPage returns the page that shows events of all services.
func (s *Server) eventsPage(m *moments, u *url.URL) (*page, error) {
	q := eventQueryOf(u.Query())
	events, n := q.events(m, maxOnPage)
	p := &page{title: "Events", value: events, live: true}
	data := map[string]any{"Query": q, "Events": events.Events, "More": n - len(events.Events), "Now": m.now, "Read": m.data.Events != nil, "Feed": feedOf(u)}
	if err := p.add(s, "events-head", "", data); err != nil {
		return nil, err
	}
	return p, p.add(s, "all-events", "content", data)
}

// feedOf returns the path of the feed with the same filter as the page.
func feedOf(u *url.URL) string {
	if u.RawQuery == "" {
		return "/events.atom"
	}
	return "/events.atom?" + u.Query().Encode()
}

// These types are the elements of an Atom feed (RFC 4287).
type (
	feed struct {
		XMLName xml.Name   `xml:"http://www.w3.org/2005/Atom feed"`
		Title   string     `xml:"title"`
		ID      string     `xml:"id"`
		Updated string     `xml:"updated"`
		Link    []feedLink `xml:"link"`
		Author  string     `xml:"author>name"`
		Entries []feedItem `xml:"entry"`
	}
	feedLink struct {
		Rel  string `xml:"rel,attr"`
		Href string `xml:"href,attr"`
	}
	feedItem struct {
		Title   string   `xml:"title"`
		ID      string   `xml:"id"`
		Updated string   `xml:"updated"`
		Link    feedLink `xml:"link"`
		Content string   `xml:"content"`
	}
)

// atom responds with the events as a feed.
func (s *Server) atom(w http.ResponseWriter, r *http.Request) {
	m, _, err := s.moments(r.Context())
	if err != nil {
		s.failed(w, r, err)
		return
	}
	events, _ := eventQueryOf(r.URL.Query()).events(m, maxAtom)
	base := s.scheme() + "://" + r.Host // The secure handler has checked the host.
	f := feed{Title: "Heighliner: " + s.Title, ID: base + r.URL.Path, Updated: m.now.UTC().Format(time.RFC3339), Author: "Heighliner", Link: []feedLink{{"self", base + r.URL.RequestURI()}, {"alternate", base + "/events"}}}
	if len(events.Events) > 0 {
		f.Updated = events.Events[0].Time.UTC().Format(time.RFC3339)
	}
	for _, e := range events.Events {
		at := e.Time.UTC().Format(time.RFC3339)
		_, name, _ := strings.Cut(e.Object, "/")
		f.Entries = append(f.Entries, feedItem{
			Title: fmt.Sprintf("%s: %s", name, e.Reason), ID: base + "/events#" + url.PathEscape(e.Namespace+"/"+e.Object+"/"+e.Reason+"/"+at), Updated: at,
			Link: feedLink{"alternate", base + "/events?" + url.Values{"namespace": {e.Namespace}, "q": {name}}.Encode()}, Content: e.Note,
		})
	}
	body, err := xml.MarshalIndent(f, "", " ")
	if err != nil {
		s.failed(w, r, err)
		return
	}
	respond(w, r, http.StatusOK, "application/atom+xml; charset=utf-8", []byte(xml.Header), body, []byte("\n"))
}
