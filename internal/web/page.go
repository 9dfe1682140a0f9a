package web

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/internal/cluster"
	"github.com/heighliner/heighliner/internal/status"
	"github.com/heighliner/heighliner/internal/view"
	"github.com/heighliner/heighliner/internal/view/text"
)

// page is a response that consists of a value for JSON and chunks of HTML.
type page struct {
	title string
	value any
	// chunks are the parts of the page, in order. Chunks with an id are replaced when their content changes.
	chunks []chunk
	// live is true if a stream updates the page.
	live bool
	// wide is true if the page uses the whole width.
	wide bool
}

// chunk is a part of a page. If it has an id, it is an element with that id.
type chunk struct {
	id string
	// parent is the id of the element that contains the chunk, if chunks are added to and removed from that element; empty otherwise.
	parent string
	html   []byte
	// sum is the fingerprint of html; 0 if it has not been computed yet.
	sum uint64
}

// sumOf returns a fingerprint of a part of a page.
func sumOf(html []byte) uint64 {
	h := fnv.New64a()
	_, _ = h.Write(html)
	return h.Sum64()
}

// layout is the data that all pages share.
type layout struct {
	Title, Name, Version, Section string
	CSS, Script, Icon             string
	// Stream is the path and query of the page, and State is the fingerprint of the page. The stream of changes uses both.
	Stream, State string
	Live, Wide    bool
	// User is the reader, if the board has many readers. Logout reports whether they can log out.
	User   string
	Logout bool
	// Retry is the number of seconds after which the page is loaded again; 0 means never.
	Retry int
}

// templates are the templates of all pages.
type templates struct {
	set   *template.Template
	names map[string]string
}

func parseTemplates(names map[string]string) (*templates, error) {
	set, err := template.New("").Funcs(functions).ParseFS(files, "templates/*.html")
	if err != nil {
		return nil, fmt.Errorf("parse templates: %w", err)
	}
	return &templates{set, names}, nil
}

func (t *templates) execute(name string, data any) ([]byte, error) {
	var b bytes.Buffer
	if err := t.set.ExecuteTemplate(&b, name, data); err != nil {
		return nil, fmt.Errorf("render %s: %w", name, err)
	}
	return b.Bytes(), nil
}

// layout returns the layout of a page in a section of the navigation.
func (s *Server) layout(r *http.Request, section string) layout {
	n := s.templates.names
	user := ReaderOf(r.Context()).User
	return layout{
		Name: s.Title, Version: s.Version, Section: section, CSS: n["board.css"], Script: n["board.mjs"], Icon: n["icon.svg"],
		Stream: streamOf(r.URL), Live: true,
		User: user, Logout: user != "" && s.Identity != nil && s.Identity.Login() != "",
	}
}

// streamOf returns the path and query of a page for the stream of its changes. It omits the parameter "done", because the notice that this
// parameter selects is not updated live.
func streamOf(u *url.URL) string {
	q := u.Query()
	q.Del("done")
	return (&url.URL{Path: u.Path, RawQuery: q.Encode()}).RequestURI()
}

// banner returns the chunk that reports outdated data and objects that could not be read.
func (s *Server) banner(data cluster.Data, now time.Time) (chunk, error) {
	x := map[string]any{"Missing": data.Missing}
	if data.Outage != nil {
		x["Outage"], x["Since"] = data.Outage, view.Clock(data.Outage.Since, now)
	}
	html, err := s.templates.execute("banner", x)
	return chunk{id: "banner", html: html}, err
}

// state returns a fingerprint of the parts of a page that can change.
func (p *page) state() string {
	h := fnv.New64a()
	for _, c := range p.chunks {
		if c.id == "" {
			continue
		}
		if c.sum == 0 {
			c.sum = sumOf(c.html)
		}
		_, _ = h.Write(binary.BigEndian.AppendUint64(nil, c.sum))
	}
	return strconv.FormatUint(h.Sum64(), 36)
}

// write writes a page as HTML.
func (s *Server) write(w http.ResponseWriter, r *http.Request, section string, p *page) error {
	l := s.layout(r, section)
	l.Title, l.Live, l.Wide, l.State = p.title, p.live, p.wide, p.state()
	head, err := s.templates.execute("head", l)
	if err != nil {
		return err
	}
	foot, err := s.templates.execute("foot", l)
	if err != nil {
		return err
	}
	chunks := [][]byte{head}
	for _, c := range p.chunks {
		chunks = append(chunks, c.html)
	}
	respond(w, r, http.StatusOK, "text/html; charset=utf-8", append(chunks, foot)...)
	return nil
}

// moment is a point in time as shown on pages: a short text, the full time for a tooltip, and an ISO form for programs.
type moment struct{ ISO, Full, Text string }

// part is a release in the bar of a group, with its share in percent as the width.
type part struct {
	Class, Label string
	X, Width     int32
}

// functions are the functions of the templates.
var functions = template.FuncMap{
	"short":    status.Short,
	"sentence": text.Sentence,
	"headline": text.Headline,
	"lower":    strings.ToLower,
	"digest":   func(image string) string { _, d, _ := strings.Cut(image, "@"); return d },
	"ago": func(now time.Time, t *metav1.Time) *moment {
		if t == nil || t.IsZero() {
			return nil
		}
		return momentOf(now, t.Time, view.Age(now.Sub(t.Time)))
	},
	"clock": func(now time.Time, t *metav1.Time) *moment {
		if t == nil || t.IsZero() {
			return nil
		}
		return momentOf(now, t.Time, view.Clock(t.Time, now))
	},
	"clockOf": func(now time.Time, t metav1.Time) *moment { return momentOf(now, t.Time, view.Clock(t.Time, now)) },
	"share":   func(now time.Time, s view.Share) string { return s.String(now) },
	"percent": func(p int32) string { return fmt.Sprintf("%d%%", p) },
	"bar":     bar,
	"mark":    func(s string) string { return marks[s] },
	"service": func(namespace, name string) string { return servicePath(namespace, name) },
	"release": func(namespace, name, release string) string {
		return servicePath(namespace, name) + "/releases/" + url.PathEscape(release)
	},
	"act":        actPath,
	"actOf":      func(namespace, name, verb string) string { return actPath(namespace, name, view.Action{Verb: verb}) },
	"freezePath": freezePath,
	"freezeID":   func(f view.Freeze) string { return strings.ToLower(f.Kind) + "." + f.Namespace + "." + f.Name },
	"servicePath": func(name string) string {
		namespace, service, _ := strings.Cut(name, "/")
		return servicePath(namespace, service)
	},
	"first":       func(n int, list []string) []string { return list[:min(n, len(list))] },
	"drawWeights": drawWeights,
	"newestFirst": func(points []view.WeightPoint) []view.WeightPoint {
		out := slices.Clone(points)
		slices.Reverse(out)
		return out
	},
	"clockAt": func(now, t time.Time) *moment { return momentOf(now, t, view.Clock(t, now)) },
	"metric":  func(m view.Metric) string { return m.String() },
	"spark":   spark,
	"safeURL": func(u string) string {
		if strings.HasPrefix(u, "https://") || strings.HasPrefix(u, "http://") {
			return u
		}
		return ""
	},
	"span":   func(seconds int64) string { return view.Span(time.Duration(seconds) * time.Second) },
	"dict":   dict,
	"pods":   func(p *view.Pods) string { return fmt.Sprintf("%d/%d", p.Available, p.Wanted) },
	"others": others,
	"may":    mayAct,
	"titled": func(verb string) string { return cmp.Or(actVerbs[verb], verb) },
	"about":  func(verb string) string { return abouts[verb] },
	"brief":  brief,
	"parts":  func(object string) []string { return strings.Split(object, "/") },
	"result": result,
}

// marks are the symbols for classes, statuses and types of events. A word always follows a mark.
var marks = map[string]string{
	"waiting": "!", "failed": "✖", "moving": "…", "stable": "✔",
	"active": "✔", "canary": "◐", "deprecated": "○", "error": "✖", "pending": "…", "passed": "✔",
	"Normal": "·", "Warning": "!",
}

// others returns the actions that are possible for a release in addition to those that its state lists.
func others(r view.Release) (out []view.Action) {
	verbs := map[string][]string{"canary": {"adopt", "deprecate"}, "pending": {"adopt", "deprecate"}, "active": {"pin"}, "deprecated": {"rollback"}}[r.Status]
	// A rollback is impossible if the release is not retained, if the group is already returning to it, or if its version is denied.
	if r.Status == "deprecated" && (!r.Retained || r.Rollout != nil || len(r.State.Next) == 0) {
		verbs = nil
	}
	for _, verb := range verbs {
		if verb == "adopt" && (r.Rollout == nil || !r.Rollout.Adoptable) {
			continue
		}
		if !slices.ContainsFunc(r.State.Next, func(a view.Action) bool { return a.Verb == verb }) {
			out = append(out, view.Action{Verb: verb, Target: r.Name})
		}
	}
	return out
}

func momentOf(now, t time.Time, short string) *moment {
	return &moment{ISO: t.UTC().Format(time.RFC3339), Full: t.In(now.Location()).Format("Mon 2006-01-02 15:04:05 MST"), Text: short}
}

func dict(pairs ...any) (map[string]any, error) {
	out := map[string]any{}
	for i := 0; i+1 < len(pairs); i += 2 {
		k, ok := pairs[i].(string)
		if !ok {
			return nil, fmt.Errorf("dict: key %d is not a string", i)
		}
		out[k] = pairs[i+1]
	}
	return out, nil
}

// bar returns the required shares of a group's releases, beginning with the active release.
func bar(g view.Group) (out []part) {
	x := int32(0)
	for _, status := range []string{"active", "canary"} {
		for _, r := range g.Releases {
			if r.Status != status || r.Share.Asked == nil || *r.Share.Asked <= 0 {
				continue
			}
			width := min(*r.Share.Asked, 100-x)
			out = append(out, part{Class: status, Label: fmt.Sprintf("%s %d%%", cut(r.Version), *r.Share.Asked), X: x, Width: width})
			x += width
		}
	}
	return out
}

func cut(version string) string { return status.Short(version) }

func servicePath(namespace, name string) string {
	return "/services/" + url.PathEscape(namespace) + "/" + url.PathEscape(name)
}

func actPath(namespace, name string, a view.Action) string {
	p := servicePath(namespace, name) + "/acts/" + url.PathEscape(a.Verb)
	values := url.Values{}
	if a.Target != "" {
		values.Set("target", a.Target)
	}
	if a.Group != "" {
		values.Set("group", a.Group)
	}
	if len(values) > 0 {
		p += "?" + values.Encode()
	}
	return p
}
