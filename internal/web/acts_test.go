package web

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/html"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// form is a form on a page, as used by a browser without JavaScript.
type form struct {
	action, method string
	values         url.Values
	// options are the options of the select element, and buttons are the labels of the buttons.
	options, buttons []string
}

// formsOf returns the forms in the main part of a page.
func formsOf(t testing.TB, page string) (out []form) {
	t.Helper()
	root, err := html.Parse(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	for n := range root.Descendants() {
		if n.Data != "form" || !inside(n, "main") {
			continue
		}
		f := form{action: attribute(n, "action"), method: attribute(n, "method"), values: url.Values{}}
		for e := range n.Descendants() {
			switch e.Data {
			case "input":
				f.values.Set(attribute(e, "name"), attribute(e, "value"))
			case "option":
				f.options = append(f.options, inner(e))
				if name := attribute(e.Parent, "name"); attribute(e, "selected") != "no" || !f.values.Has(name) {
					f.values.Set(name, attribute(e, "value"))
				}
			case "button":
				f.buttons = append(f.buttons, inner(e))
			}
		}
		out = append(out, f)
	}
	return out
}

// inner returns the text in an element.
func inner(n *html.Node) (out string) {
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			out += d.Data
		}
	}
	return out
}

// only returns the only form of a page.
func only(t testing.TB, page string) form {
	t.Helper()
	all := formsOf(t, page)
	if len(all) != 1 {
		t.Fatalf("%d forms in %s", len(all), page)
	}
	return all[0]
}

// row adds a release to the only group.
func row(ms *v1alpha1.Microservice, version string, status v1alpha1.ReleaseStatus, promoted int64) {
	g := &ms.Status.ReleaseGroups[0]
	r := *g.Releases[0].DeepCopy()
	r.VersionedMicroservice, r.SemVer.Version, r.Status, r.Promoted = "shop-"+strings.ReplaceAll(version, ".", "-")+"-ffff0000", version, status, promoted
	if promoted == 0 && status == v1alpha1.ReleaseCanary { // Releases are sorted by version.
		g.Releases = slices.Insert(g.Releases, 0, r)
		return
	}
	g.Releases = append(g.Releases, r)
}

// rollbacks returns a board on which 1.1.0 is active, 1.3.0 is a canary, 1.0.0 was previously active, and 0.9.0 was active before 1.0.0. Each preview
// contains the target of its action.
func rollbacks(t *testing.T) *board {
	b := story(t, "promoted")
	b.change(func(ms *v1alpha1.Microservice) {
		row(ms, "1.3.0", v1alpha1.ReleaseCanary, 0)
		row(ms, "0.9.0", v1alpha1.ReleaseDeprecated, 0)
		for i := range ms.Status.ReleaseGroups[0].Releases {
			r := &ms.Status.ReleaseGroups[0].Releases[i]
			r.Promoted = map[string]int64{"0.9.0": 1, "1.0.0": 2, "1.1.0": 3}[r.SemVer.Version]
		}
	})
	b.acts.preview = func(a Act) Outcome {
		text := "pinned to " + a.Target
		if a.Until != "" {
			text += " until Mon 2030-02-04 08:00 UTC"
		}
		if a.Reason != "" {
			text += fmt.Sprintf(" (%q)", a.Reason)
		}
		return Outcome{Text: text, Effects: []string{"after 10m0s: 1.x: the previous one"}, By: "ana"}
	}
	return b
}

// TestRollback checks that the rollback form selects the version that its preview shows, offers only versions that were previously active, and does what
// the preview showed.
func TestRollback(t *testing.T) {
	t.Parallel()
	b := rollbacks(t)
	const path = "/services/shop/shop/acts/rollback"
	f := only(t, b.get(path))
	if f.action != path || f.method != "post" || f.values.Get("target") != "shop-1-0-0-0a1b2c3d" || !slices.Equal(f.options, []string{"1.0.0", "0.9.0"}) || !slices.Equal(f.buttons, []string{"Show what happens", "Roll back"}) {
		t.Errorf("%+v", f)
	}
	if got := textOf(t, b.get(path)); !strings.Contains(got, "pinned to shop-1-0-0") {
		t.Error(got)
	}
	if f := only(t, b.get(path+"?target=0.9.0")); f.values.Get("target") != "shop-0-9-0-ffff0000" {
		t.Errorf("chosen by version: %+v", f)
	}

	// The reader selects another version without requesting another preview.
	other := url.Values{}
	for k, v := range f.values {
		other[k] = v
	}
	other.Set("target", "shop-0-9-0-ffff0000")
	w := b.request("POST", path, other)
	if got := textOf(t, w.Body.String()); w.Code != http.StatusConflict || !strings.Contains(got, "You chose a different version") || !strings.Contains(got, "pinned to shop-0-9-0") || len(b.acts.done) > 0 {
		t.Errorf("%d %s %+v", w.Code, got, b.acts.done)
	}
	next := only(t, w.Body.String())
	next.values.Set("until", "Mon 08:00")
	next.values.Set("reason", "sessions lost")
	if w := b.request("POST", path, next.values); w.Code != http.StatusSeeOther || len(b.acts.done) != 1 || b.acts.done[0].Target != "shop-0-9-0-ffff0000" || b.acts.done[0].Until != "Mon 08:00" {
		t.Errorf("%d %s %+v", w.Code, w.Body, b.acts.done)
	}

	b.change(func(ms *v1alpha1.Microservice) {
		ms.Status.ReleaseGroups[0].Rollout = &v1alpha1.Rollout{Release: "shop-1-3-0-ffff0000"}
	})
	if f := only(t, b.get(path)); !slices.Equal(f.options, []string{"1.0.0", "0.9.0", "1.1.0, active now"}) || f.values.Get("target") != "shop-1-1-0-0a1b2c3d" {
		t.Errorf("during a rollout: %+v", f)
	}
	if f := only(t, b.get(path+"?target=1.1.0")); f.values.Get("target") != "shop-1-1-0-0a1b2c3d" {
		t.Errorf("back to the active release: %+v", f)
	}
	b.change(func(ms *v1alpha1.Microservice) { ms.Status.ReleaseGroups[0].Rollout = nil })

	for name, target := range map[string]string{"canary": "1.3.0", "active": "1.1.0", "unknown": "7.0.0"} {
		page := b.get(path + "?target=" + target)
		if got := textOf(t, page); !strings.Contains(got, "This is not a rollback") || slices.Contains(only(t, page).buttons, "Roll back") {
			t.Errorf("%s: %s", name, got)
		}
		if w := b.request("POST", path, url.Values{"target": {target}}); w.Code != http.StatusConflict {
			t.Errorf("%s: %d", name, w.Code)
		}
	}
	if w := b.request("POST", path, url.Values{}); w.Code != http.StatusConflict || !strings.Contains(w.Body.String(), "Choose a version") {
		t.Errorf("without a target: %d", w.Code)
	}
	if got := textOf(t, story(t, "active").get(path)); !strings.Contains(got, "There is no release to roll back to") {
		t.Error(got)
	}
	if len(b.acts.done) != 1 {
		t.Errorf("%+v", b.acts.done)
	}
}

// TestRollbackAfterAnother checks that a form does what its preview showed, even if another release has been active in the meantime.
func TestRollbackAfterAnother(t *testing.T) {
	t.Parallel()
	b := rollbacks(t)
	const path = "/services/shop/shop/acts/rollback"
	f := only(t, b.get(path))
	b.change(func(ms *v1alpha1.Microservice) {
		for i := range ms.Status.ReleaseGroups[0].Releases {
			r := &ms.Status.ReleaseGroups[0].Releases[i]
			switch r.SemVer.Version {
			case "1.3.0":
				r.Status, r.Promoted = v1alpha1.ReleaseActive, 4
			case "1.1.0":
				r.Status = v1alpha1.ReleaseDeprecated
			}
		}
	})
	if w := b.request("POST", path, f.values); w.Code != http.StatusSeeOther || len(b.acts.done) != 1 || b.acts.done[0].Target != "shop-1-0-0-0a1b2c3d" {
		t.Errorf("%d %s %+v", w.Code, w.Body, b.acts.done)
	}
	if f := only(t, b.get(path)); f.values.Get("target") != "shop-1-1-0-0a1b2c3d" {
		t.Errorf("%+v", f)
	}
}

// TestOutdatedPreview checks that, for each action, a form whose preview has changed is rejected, and that the response shows the new preview and
// keeps the input. Different times alone do not make a preview outdated.
func TestOutdatedPreview(t *testing.T) {
	t.Parallel()
	for verb, path := range map[string]string{
		"continue": "approval", "adopt": "approval", "deprecate": "approval", "retry": "crashes", "pin": "promoted", "rollback": "promoted", "unpin": "pinned", "pause": "active", "resume": "paused",
	} {
		b := story(t, path)
		effect := "after 9m58s: 1.x: 1.1.0 gets 50% at 12:00"
		b.acts.preview = func(a Act) Outcome { return Outcome{Text: "would " + verb, Effects: []string{effect}} }
		path := "/services/shop/shop/acts/" + verb
		target := ""
		if verb == "pin" {
			target = "?target=1.0.0"
		}
		f := only(t, b.get(path+target))
		if f.values.Get("shown") == "no" || len(f.values.Get("shown")) < 20 || f.values.Get("target") != f.values.Get("previewed") {
			t.Errorf("%s: %v", verb, f.values)
		}
		effect = "1.x: 1.1.0 becomes active"
		f.values.Set("reason", "my reason")
		w := b.request("POST", path, f.values)
		got := textOf(t, w.Body.String())
		if w.Code != http.StatusConflict || !strings.Contains(got, "The preview was out of date") || !strings.Contains(got, "becomes active") || len(b.acts.done) > 0 {
			t.Errorf("%s: %d %s", verb, w.Code, got)
		}
		again := only(t, w.Body.String())
		if verb != "pause" && verb != "resume" && verb != "unpin" && again.values.Get("reason") != "my reason" {
			t.Errorf("%s: %v", verb, again.values)
		}
		if again.values.Get("id") != f.values.Get("id") {
			t.Errorf("%s: the form has another ID", verb)
		}
		effect = "after 3m2s: 1.x: 1.1.0 becomes active"
		if w := b.request("POST", path, again.values); w.Code != http.StatusSeeOther || len(b.acts.done) != 1 {
			t.Errorf("%s: %d %s", verb, w.Code, w.Body)
		}
	}
}

// TestTargetOfDecision checks that a form contains the release that its preview shows, even if the link did not contain it.
func TestTargetOfDecision(t *testing.T) {
	t.Parallel()
	for verb, name := range map[string]string{"continue": "approval", "adopt": "approval", "deprecate": "approval", "retry": "crashes"} {
		b := story(t, name)
		if f := only(t, b.get("/services/shop/shop/acts/"+verb)); f.values.Get("target") != "1.1.0" {
			t.Errorf("%s: %v", verb, f.values)
		}
	}
	// The form that opens from a link to a release selects the version of the release, and shows this
	// version.
	b := story(t, "promoted")
	if f := only(t, b.get("/services/shop/shop/acts/pin?target=shop-1-0-0-0a1b2c3d")); f.values.Get("target") != "1.0.0" || !slices.Equal(f.options, []string{"1.1.0", "1.0.0"}) {
		t.Errorf("%+v", f)
	}
	if f := only(t, b.get("/services/shop/shop/acts/pin")); slices.Contains(f.buttons, "Pin") || f.method != "get" {
		t.Errorf("a pin without a version: %+v", f)
	}
}

// TestOutcome checks that the board shows a decision as a success only if the manager applied it.
func TestOutcome(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ outcome, class, want string }{
		"applied":     {"Applied", "stable", "shop 1.1.0: retry by ana: applied"},
		"not applied": {"DecisionNotApplicable: the target of the group is 1.0.0 (Pinned)", "failed", "shop 1.1.0: retry by ana: not applied: the target of the group is 1.0.0 (Pinned)"},
		"not handled": {"", "moving", "shop 1.1.0: retry by ana: not handled yet"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := story(t, "crashes")
			if tc.outcome != "" {
				b.outcomeTimeout = time.Minute
				b.acts.handle = func(a Act) { b.handle(a, tc.outcome) }
			}
			w := b.request("POST", "/services/shop/shop/acts/retry", only(t, b.get("/services/shop/shop/acts/retry")).values)
			page := b.get(w.Header().Get("Location"))
			if got := textOf(t, page); !strings.Contains(got, tc.want) || !strings.Contains(page, `class="notice `+tc.class+`"`) {
				t.Error(got)
			}
			if tc.outcome != "" {
				return
			}
			b.handle(b.acts.done[0], "DecisionNotApplicable: too late")
			if got := textOf(t, b.get(w.Header().Get("Location"))); !strings.Contains(got, "not applied: too late") {
				t.Error(got)
			}
		})
	}
	b := story(t, "crashes")
	b.outcomeTimeout = time.Minute
	b.acts.handle = func(a Act) { b.handle(a, "DecisionNotApplicable: no") }
	w := b.request("POST", "/services/shop/shop/acts/retry", url.Values{"target": {"1.1.0"}}, func(r *http.Request) { r.Header.Set("Accept", "application/json") })
	if !strings.Contains(w.Body.String(), `"outcome": "DecisionNotApplicable: no"`) {
		t.Error(w.Body)
	}
}

// handle records the outcome of a decision, as the manager does.
func (b *board) handle(a Act, outcome string) {
	b.change(func(ms *v1alpha1.Microservice) {
		r := &ms.Status.ReleaseGroups[0].Releases[0]
		r.Decision = &v1alpha1.HandledDecision{ID: a.ID, Action: "Retry", Outcome: outcome, Time: metav1.NewMicroTime(b.clock.Now())}
	})
}

// TestNotApplicable checks that an action that the manager would not apply cannot be submitted.
func TestNotApplicable(t *testing.T) {
	t.Parallel()
	b := story(t, "crashes")
	b.acts.preview = func(Act) Outcome {
		return Outcome{Text: "shop 1.1.0: Retry by ana", Effects: []string{`1.x: decision Retry by "ana" on 1.1.0: DecisionNotApplicable: the target of the group is 1.0.0 (Pinned)`, "1.x: nothing else"}}
	}
	const path = "/services/shop/shop/acts/retry"
	page := b.get(path)
	if got := textOf(t, page); !strings.Contains(got, "would not apply this now. The cause: the target of the group is 1.0.0 (Pinned).") || len(formsOf(t, page)) > 0 || strings.Contains(got, "decision Retry") {
		t.Error(got)
	}
	w := b.request("POST", path, url.Values{"target": {"1.1.0"}})
	if w.Code != http.StatusConflict || !strings.Contains(w.Body.String(), "The manager would not apply this action") || len(b.acts.done) > 0 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestRetryOfTarget checks that there is no Retry button if the group would keep another target.
func TestRetryOfTarget(t *testing.T) {
	t.Parallel()
	b := story(t, "crashes")
	paths := []string{"/", "/services/shop/shop", "/services/shop/shop/releases/shop-1-1-0-0a1b2c3d"}
	for _, path := range paths {
		if !strings.Contains(b.get(path), "/acts/retry") {
			t.Errorf("%s: no button", path)
		}
	}
	b.change(func(ms *v1alpha1.Microservice) {
		ms.Status.ReleaseGroups[0].Target = v1alpha1.GroupTarget{Release: "shop-1-0-0-0a1b2c3d", Reason: "Pinned"}
	})
	for _, path := range paths {
		if strings.Contains(b.get(path), "/acts/retry") {
			t.Errorf("%s: a button for a release that is not the target", path)
		}
	}
	frozen := story(t, "frozen failure")
	for _, path := range paths {
		if strings.Contains(frozen.get(path), "/acts/retry") {
			t.Errorf("%s: a button during a freeze", path)
		}
	}
}

// TestReadable checks that a preview omits decisions that the forecast only assumes and that no user has made.
func TestReadable(t *testing.T) {
	t.Parallel()
	got := readable(Outcome{Effects: []string{
		`1.x: decision Continue by "ana" on 1.3.0: Applied`,
		`1.x: 1.3.0 gets 50%`,
		`after 10m0s: 1.x: 1.3.0 waits in step "approve" for approval`,
		`after 10m0s: 1.x: decision Continue by "approver 1" on 1.3.0: Applied`,
		`1.x: 1.3.0 waits in step "both" for 2 approvals by members of sre (1 so far: ana)`,
		`1.x: 1.3.0 waits in step "both" for 2 approvals by members of sre (2 so far: ana, approver 2)`,
		`1.x: decision Continue by "approver 2" on 1.3.0: DecisionNotApplicable: no`,
		`1.3.0 is active`,
	}}, "continue")
	want := Outcome{Effects: []string{
		"1.x: 1.3.0 is continued by this decision",
		"1.x: 1.3.0 gets 50%",
		"after 10m0s: 1.x: then 1.3.0 waits for an approval in step approve",
		"1.x: then 1.3.0 waits for 2 approvals by members of sre (1 so far: ana) in step both",
		"1.3.0 is active",
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
