package web

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/heighliner/heighliner/internal/version"
	"github.com/heighliner/heighliner/internal/view"
)

// query selects and sorts the services of the board. It is part of the URL.
type query struct {
	// State is a view.Class; Namespace and Search narrow the selection further. An empty field selects all
	// services.
	State, Namespace, Search string
	// Sort is name, version, share or age. If it is empty, services that need the reader's attention
	// come first.
	Sort string
}

// orders are the values of the sort parameter.
var orders = []string{"", "name", "version", "share", "age"}

func queryOf(q url.Values) query {
	out := query{State: q.Get("state"), Namespace: q.Get("namespace"), Search: strings.TrimSpace(q.Get("q")), Sort: q.Get("sort")}
	if !slices.Contains(orders, out.Sort) {
		out.Sort = ""
	}
	return out
}

// With returns the URL of the board with the given parameter changed.
func (q query) With(name, value string) string {
	v := url.Values{}
	for k, x := range map[string]string{"state": q.State, "namespace": q.Namespace, "q": q.Search, "sort": q.Sort, name: value} {
		if k == name {
			x = value
		}
		if x != "" {
			v.Set(k, x)
		}
	}
	if len(v) == 0 {
		return "/"
	}
	return "/?" + v.Encode()
}

// matches reports whether a service has the selected state and namespace, and contains the search words.
func (q query) matches(s *view.Service) bool {
	if q.Namespace != "" && s.Namespace != q.Namespace || q.State != "" && !s.Is(view.Class(q.State)) {
		return false
	}
	for _, word := range strings.Fields(strings.ToLower(q.Search)) {
		if !has(s, word) {
			return false
		}
	}
	return true
}

// has reports whether a word occurs in the names, state, versions, hosts, images, commits or pull requests of a service.
func has(s *view.Service, word string) bool {
	in := func(texts ...string) bool {
		return slices.ContainsFunc(texts, func(t string) bool { return strings.Contains(strings.ToLower(t), word) })
	}
	if in(s.Namespace+"/"+s.Name, s.State.Sentence) {
		return true
	}
	for _, list := range [][]view.Group{s.Groups, s.Previews} {
		for _, g := range list {
			if in(g.Name) {
				return true
			}
			if p := g.PullRequest; p != nil && (in(p.Title, p.Author, p.Head) || fmt.Sprintf("#%d", p.Number) == word) {
				return true
			}
			for _, h := range g.Hosts {
				if in(h.Host, h.URL) {
					return true
				}
			}
			for _, r := range g.Releases {
				if in(r.Version, r.Name, r.Commit) || in(r.Images...) {
					return true
				}
			}
		}
	}
	return false
}

// sort sorts the services of a board. By default, services that need the reader's attention come
// first.
func (q query) sort(list []view.Service) {
	var by func(a, b view.Service) int
	switch q.Sort {
	case "name":
		by = func(a, b view.Service) int {
			return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Namespace, b.Namespace))
		}
	case "version":
		by = func(a, b view.Service) int { return version.Compare(active(b), active(a)) }
	case "share":
		by = func(a, b view.Service) int { return cmp.Compare(canary(b), canary(a)) }
	case "age":
		by = func(a, b view.Service) int { return cmp.Compare(since(b), since(a)) }
	default:
		return
	}
	slices.SortStableFunc(list, by)
}

func active(s view.Service) string {
	for _, g := range s.Groups {
		if g.Active != "" {
			return g.Active
		}
	}
	return ""
}

func canary(s view.Service) (out int32) {
	for _, g := range s.Groups {
		if g.CanaryWeight != nil {
			out = max(out, *g.CanaryWeight+1)
		}
	}
	return out
}

func since(s view.Service) int64 {
	if s.State.Since == nil {
		return 0
	}
	return s.State.Since.UnixNano()
}

// boardPage returns the page with the table of the selected services.
func (s *Server) boardPage(ctx context.Context, m *moments, u *url.URL) (*page, error) {
	q := queryOf(u.Query())
	inNamespace := m.board
	if q.Namespace != "" {
		inNamespace = m.board.Where(func(x view.Service) bool { return x.Namespace == q.Namespace })
	}
	shown := inNamespace.Where(func(x view.Service) bool { return q.matches(&x) })
	q.sort(shown.Services)
	var namespaces []string
	for _, x := range m.board.Services {
		namespaces = append(namespaces, x.Namespace)
	}
	slices.Sort(namespaces)
	namespaces = slices.Compact(namespaces)
	data := map[string]any{"Query": q, "Counts": inNamespace.Counts, "Shown": len(shown.Services), "Namespaces": namespaces, "Total": len(m.board.Services), "Orders": []struct{ Value, Name string }{{"", "urgency"}, {"name", "name"}, {"version", "version"}, {"share", "canary share"}, {"age", "last change"}}}
	data["Frozen"], data["MoreFrozen"] = activeFreezes(m, q.Namespace)
	p := &page{title: "Board", value: shown, live: true, wide: true}
	for _, c := range []struct{ template, id string }{{"board-head", ""}, {"banner-freezes", "frozen"}, {"board-counts", "counts"}, {"board-table", ""}} {
		if err := p.add(s, c.template, c.id, data); err != nil {
			return nil, err
		}
	}
	may := s.permissions(ctx)
	for i := range shown.Services {
		x := &shown.Services[i]
		row, err := s.row(m.services[keyOf(x.Namespace, x.Name)], may)
		if err != nil {
			return nil, err
		}
		p.chunks = append(p.chunks, chunk{id: "s-" + x.Namespace + "." + x.Name, parent: "services", html: row.html, sum: row.sum})
	}
	if err := p.add(s, "board-foot", "", data); err != nil {
		return nil, err
	}
	return p, p.add(s, "board-empty", "empty", data)
}

// add appends a chunk that is rendered by a template.
func (p *page) add(s *Server, name, id string, data any) error {
	html, err := s.templates.execute(name, data)
	p.chunks = append(p.chunks, chunk{id: id, html: html})
	return err
}
