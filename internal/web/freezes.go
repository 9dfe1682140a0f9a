package web

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/internal/view"
)

// Freeze is a user's request to begin or end a freeze.
type Freeze struct {
	// Thaw is true to end a freeze, and false to begin one.
	Thaw bool
	// Namespace is the namespace of the freeze; empty for a freeze of the cluster.
	Namespace string
	// Name is the name of the Freeze or ClusterFreeze. If it is empty, the default of "hlnr freeze" or "hlnr thaw" applies.
	Name string
	// Until is the end of the freeze, in the format that "hlnr freeze" accepts. Indefinite is true for a freeze
	// without an end.
	Until, Reason string
	Indefinite    bool
	// Selector selects services, and Namespaces selects namespaces of the cluster. Both are label selectors in kubectl syntax; empty for all.
	Selector, Namespaces string
	// UID and Generation identify the freeze to end, as in the [Outcome] of the preview. If they are set, no other freeze is deleted.
	UID        string
	Generation int64
}

// freezePath returns the path of the form that begins or ends a freeze.
func freezePath(verb, namespace, name string) string {
	q := url.Values{}
	for k, v := range map[string]string{"namespace": namespace, "name": name} {
		if v != "" {
			q.Set(k, v)
		}
	}
	if len(q) == 0 {
		return "/freezes/" + verb
	}
	return "/freezes/" + verb + "?" + q.Encode()
}

// maxShown is the maximum number of freezes in the banner of a page. The freezes page lists all of them.
const maxShown = 3

// activeFreezes returns the active freezes of a namespace and of the cluster, or of all namespaces if namespace is empty. It ignores freezes that
// apply to no service. more is the number of omitted freezes.
func activeFreezes(m *moments, namespace string) (shown []view.Freeze, more int) {
	for _, f := range m.board.Freezes {
		if f.Active && f.Effect.Services > 0 && (namespace == "" || f.Namespace == "" || f.Namespace == namespace) {
			shown = append(shown, f)
		}
	}
	n := min(len(shown), maxShown)
	return shown[:n], len(shown) - n
}

// thaws returns a function that reports whether the reader may end a freeze. The function checks each namespace
// of a page only once.
func (s *Server) thaws(ctx context.Context) func(f view.Freeze) bool {
	known := map[string]bool{}
	return func(f view.Freeze) bool {
		if s.Acts == nil {
			return false
		}
		may, is := known[f.Namespace]
		if !is {
			_, may = s.Acts.MayFreeze(ctx, f.Namespace)
			known[f.Namespace] = may
		}
		return may
	}
}

// mayFreeze reports whether the reader may freeze a namespace.
func (s *Server) mayFreeze(ctx context.Context, namespace string) bool {
	if s.Acts == nil {
		return false
	}
	may, _ := s.Acts.MayFreeze(ctx, namespace)
	return may
}

// maxAsked is the maximum number of namespaces in the form for a freeze. For other namespaces, readers use the button on the service's page.
const maxAsked = 100

// freezable returns which of the services' namespaces the reader may freeze, and whether the reader may freeze the
// cluster.
func (s *Server) freezable(ctx context.Context, m *moments) (namespaces []string, cluster bool) {
	if s.Acts == nil {
		return nil, false
	}
	for _, x := range m.board.Services {
		namespaces = append(namespaces, x.Namespace)
	}
	slices.Sort(namespaces)
	namespaces = slices.Compact(namespaces)
	namespaces = namespaces[:min(len(namespaces), maxAsked)]
	may := make([]bool, len(namespaces))
	var asked sync.WaitGroup
	for i, n := range namespaces {
		asked.Go(func() { may[i], _ = s.Acts.MayFreeze(ctx, n) })
	}
	cluster, _ = s.Acts.MayFreeze(ctx, "")
	asked.Wait()
	var out []string
	for i, n := range namespaces {
		if may[i] {
			out = append(out, n)
		}
	}
	return out, cluster
}

// freezesPage returns the page with current and future freezes.
func (s *Server) freezesPage(ctx context.Context, m *moments, u *url.URL) (*page, error) {
	value := view.Freezes{TypeMeta: metav1.TypeMeta{APIVersion: view.APIVersion, Kind: view.KindFreezes}, Time: m.board.Time, Freezes: append([]view.Freeze{}, m.board.Freezes...)}
	p := &page{title: "Freezes", value: value, live: true}
	if err := p.add(s, "done", "", map[string]any{"Done": s.done.get(u.Query().Get("done"), m.data)}); err != nil {
		return nil, err
	}
	namespaces, cluster := s.freezable(ctx, m)
	return p, p.add(s, "freezes", "content", map[string]any{"Freezes": m.board.Freezes, "Now": m.now, "Thaws": s.thaws(ctx), "May": cluster || len(namespaces) > 0, "Read": m.data.Freezes != nil})
}

// freezeOf parses a freeze from the values of a form.
func freezeOf(r *http.Request, values url.Values) Freeze {
	text := func(name string) string { return strings.TrimSpace(values.Get(name)) }
	generation, _ := strconv.ParseInt(text("generation"), 10, 64) // An invalid generation does not match the generation in the preview.
	return Freeze{
		Thaw: r.PathValue("verb") == "thaw", Namespace: text("namespace"), Name: text("name"), Until: text("until"), Reason: text("reason"),
		Indefinite: text("indefinite") != "", Selector: text("selector"), Namespaces: text("namespaces"),
		UID: text("uid"), Generation: generation,
	}
}

// fingerprint identifies the freeze that a preview shows. It does not include the reason.
func (f Freeze) fingerprint() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%+q", []string{fmt.Sprint(f.Thaw, f.Indefinite), f.Namespace, f.Name, f.Until, f.Selector, f.Namespaces, f.UID, fmt.Sprint(f.Generation)}))
	return hex.EncodeToString(sum[:12])
}

// where describes the scope of a freeze.
func (f Freeze) where() string {
	if f.Namespace == "" {
		return "the cluster"
	}
	return "namespace " + f.Namespace
}

// checkFreeze rejects a freeze that the reader may not begin or end.
func (s *Server) checkFreeze(r *http.Request, f Freeze) (*moments, error) {
	verb := r.PathValue("verb")
	if s.Acts == nil {
		return nil, &Problem{Status: http.StatusForbidden, Title: "This board is read-only", Text: "It was started with --read-only. Use the command hlnr " + verb + "."}
	}
	if verb != "freeze" && verb != "thaw" {
		return nil, &Problem{Status: http.StatusNotFound, Title: "Unknown action", Text: "The freezes page has a button for each action."}
	}
	m, _, err := s.moments(r.Context())
	if err != nil {
		return nil, err
	}
	freeze, thaw := s.Acts.MayFreeze(r.Context(), f.Namespace)
	if f.Thaw && !thaw || !f.Thaw && !freeze {
		return nil, &Problem{Status: http.StatusForbidden, Title: "You are not allowed to " + verb + " " + f.where(), Text: "Ask an administrator for the role heighliner-freeze in the namespace, or heighliner-freeze-cluster for the cluster. Nothing was changed."}
	}
	return m, nil
}

// showFreeze shows the form for a freeze, or the effects of beginning or ending a freeze.
func (s *Server) showFreeze(w http.ResponseWriter, r *http.Request) {
	f := freezeOf(r, r.URL.Query())
	if !f.Thaw && f.Namespace == "" && !r.URL.Query().Has("namespace") { // The reader has not chosen a namespace yet: use one that they may freeze.
		if err := s.choose(r, &f); err != nil {
			s.failed(w, r, err)
			return
		}
	}
	m, err := s.checkFreeze(r, f)
	if err != nil {
		s.failed(w, r, err)
		return
	}
	s.writeFreeze(w, r, m, f, nil)
}

// choose sets the namespace to the first one that the reader may freeze.
func (s *Server) choose(r *http.Request, f *Freeze) error {
	m, _, err := s.moments(r.Context())
	if err != nil {
		return err
	}
	if namespaces, _ := s.freezable(r.Context(), m); len(namespaces) > 0 {
		f.Namespace = namespaces[0]
	}
	return nil
}

// writeFreeze writes the form that begins or ends a freeze. refused is the error of the previous attempt, or nil.
func (s *Server) writeFreeze(w http.ResponseWriter, r *http.Request, m *moments, f Freeze, refused *Problem) {
	complete := f.Thaw || f.Reason != "" || f.Until != "" || f.Indefinite
	var outcome Outcome
	problem := refused
	f.UID, f.Generation = "", 0 // The preview shows the current freeze, which may differ from the freeze that was shown before.
	if complete {
		var err error
		if outcome, err = s.Acts.PreviewFreeze(r.Context(), f); err != nil {
			complete, problem = false, cmp.Or(problem, problemOf(err))
		}
		f.UID, f.Generation = outcome.UID, outcome.Generation
	}
	if f.Thaw && len(outcome.Effects) == 0 {
		outcome.Effects = continues(m, f)
	}
	if wantsJSON(r) {
		if problem != nil {
			respondJSON(w, r, problem.Status, problem)
			return
		}
		respondJSON(w, r, http.StatusOK, outcome)
		return
	}
	const most = 20 // maximum number of effects that are shown
	more := max(0, len(outcome.Effects)-most)
	outcome.Effects = outcome.Effects[:len(outcome.Effects)-more]
	title, verb := "Freeze", "freeze"
	if f.Thaw {
		title, verb = "End the freeze", "thaw"
	}
	namespaces, cluster := s.freezable(r.Context(), m)
	if f.Namespace != "" && !slices.Contains(namespaces, f.Namespace) {
		namespaces = append(namespaces, f.Namespace)
	}
	data := map[string]any{"F": f, "Where": f.where(), "Title": title, "Verb": verb, "Outcome": outcome, "More": more, "Problem": problem, "Possible": complete, "Shown": f.fingerprint(), "ID": rand.Text(), "Namespaces": namespaces, "Cluster": cluster}
	status := http.StatusOK
	if refused != nil {
		status = refused.Status
	}
	s.writeForm(w, r, status, title, "freeze", data)
}

// continues lists the services that continue when a freeze ends.
func continues(m *moments, f Freeze) (out []string) {
	for _, x := range m.board.Freezes {
		if x.Namespace != f.Namespace || x.Name != f.Name {
			continue
		}
		for _, name := range x.Effect.Waiting {
			out = append(out, name+" waits for the end of the freeze")
		}
	}
	return out
}

// doFreeze begins or ends a freeze, and redirects to the freezes page.
func (s *Server) doFreeze(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		s.fail(w, r, &Problem{Status: http.StatusBadRequest, Title: "The form cannot be read", Text: "Nothing was changed. Go back, reload the page, and submit the form again."})
		return
	}
	f := freezeOf(r, r.PostForm)
	m, err := s.checkFreeze(r, f)
	if err != nil {
		s.failed(w, r, err)
		return
	}
	if shown := r.PostForm.Get("shown"); shown != "" && shown != f.fingerprint() {
		s.writeFreeze(w, r, m, f, &Problem{Status: http.StatusConflict, Title: "The form changed after the preview", Text: "Nothing was changed. Below is what will happen with the new values: check it, and confirm."})
		return
	}
	form := r.PostForm.Get("id")
	key := fmt.Sprintf("%q", []any{ReaderOf(r.Context()).User, form, f})
	result, err := s.submitted.once(r.Context(), form, key, s.Clock.Now, func(ctx context.Context) (done, error) {
		outcome, err := s.Acts.Freeze(ctx, f)
		return done{Outcome: outcome}, err
	})
	if err != nil {
		s.writeFreeze(w, r, m, f, problemOf(err))
		return
	}
	if wantsJSON(r) {
		respondJSON(w, r, http.StatusOK, result.Outcome)
		return
	}
	id := rand.Text()
	s.done.put(id, result)
	http.Redirect(w, r, "/freezes?done="+id, http.StatusSeeOther)
}
