package hook

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

var (
	began  = time.Date(2030, 1, 31, 12, 0, 0, 0, time.UTC)
	gated  = metav1.NewMicroTime(began.Add(time.Minute))
	waited = began.Add(2 * time.Minute)
)

// canary returns a Microservice with 1.4.2 active, 1.4.3 as a canary in step 1 of 2, and all hooks.
func canary() *v1alpha1.Microservice {
	ms := &v1alpha1.Microservice{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "shop"}}
	ms.Spec.UpdateStrategy.Canary = &v1alpha1.CanaryStrategy{Steps: []v1alpha1.CanaryStep{{Name: "tenth", Weight: 10}, {Name: "half", Weight: 50}}}
	for _, t := range []v1alpha1.HookType{
		v1alpha1.HookConfirmRollout, v1alpha1.HookPreRollout, v1alpha1.HookRollout, v1alpha1.HookConfirmTrafficIncrease,
		v1alpha1.HookConfirmPromotion, v1alpha1.HookPostRollout, v1alpha1.HookRollback, v1alpha1.HookEvent, v1alpha1.HookPostPreview,
	} {
		ms.Spec.UpdateStrategy.Canary.Hooks = append(ms.Spec.UpdateStrategy.Canary.Hooks, v1alpha1.Hook{
			Name: strings.ToLower(string(t)), Type: t, URL: "http://hooks.example.com/" + string(t),
			Metadata: map[string]v1alpha1.HookMetadataValue{"team": "checkout"},
		})
	}
	ms.Status.ReleaseGroups = []v1alpha1.ReleaseGroup{{
		Name: "1.x", Slug: "1-x", Level: v1alpha1.LevelRelease, Active: "1.4.2",
		Rollout: &v1alpha1.Rollout{Release: "new", Sequence: 41, Step: 1},
		Releases: []v1alpha1.Release{
			{VersionedMicroservice: "new", SemVer: v1alpha1.SemVer{Version: "1.4.3"}, Status: v1alpha1.ReleaseCanary, Weight: 10, Reason: "Step", LastTransitionTime: metav1.NewMicroTime(began)},
			{VersionedMicroservice: "old", SemVer: v1alpha1.SemVer{Version: "1.4.2"}, Status: v1alpha1.ReleaseActive, Weight: 90, Reason: "Promoted", Promoted: 7, LastTransitionTime: metav1.NewMicroTime(began)},
		},
	}}
	return ms
}

func vsvc(name string) *v1alpha1.VersionedMicroservice {
	v := &v1alpha1.VersionedMicroservice{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: "uid-of-" + "release"}}
	v.Status.Release = v1alpha1.ReleaseCanary
	if name == "old" {
		v.Status.Release = v1alpha1.ReleaseActive
	}
	return v
}

// names returns the names of the hooks that are called.
func names(questions []Call) []string {
	var out []string
	for _, q := range questions {
		out = append(out, q.Hook.Name)
	}
	return out
}

func TestQuestions(t *testing.T) {
	t.Parallel()
	type world struct {
		ms      *v1alpha1.Microservice
		group   *v1alpha1.ReleaseGroup
		run     *v1alpha1.Rollout
		row     *v1alpha1.Release
		release *v1alpha1.VersionedMicroservice
		known   []v1alpha1.HookStatus
		round   time.Time
	}
	at := func(gate v1alpha1.Gate) func(*world) {
		return func(w *world) { w.run.Gate, w.run.GateTime = gate, &gated }
	}
	inProgress := []string{"rollback", "event"}
	for name, test := range map[string]struct {
		change func(*world)
		want   []string
	}{
		"in a step":                       {func(*world) {}, inProgress},
		"before pods":                     {at(v1alpha1.GateConfirmRollout), []string{"confirmrollout", "rollback", "event"}},
		"before traffic":                  {at(v1alpha1.GatePreRollout), []string{"prerollout", "rollback", "event"}},
		"before more traffic":             {at(v1alpha1.GateConfirmTrafficIncrease), []string{"confirmtrafficincrease", "rollback", "event"}},
		"before promotion":                {at(v1alpha1.GateConfirmPromotion), []string{"confirmpromotion", "rollback", "event"}},
		"a round of checks":               {func(w *world) { w.round = waited }, []string{"rollout", "rollback", "event"}},
		"no checks before the first step": {func(w *world) { w.run.Step = 0 }, inProgress},
		"more traffic, hook for this step": {func(w *world) {
			at(v1alpha1.GateConfirmTrafficIncrease)(w)
			w.ms.Spec.UpdateStrategy.Canary.Hooks[3].Steps = []string{"half"}
		}, []string{"confirmtrafficincrease", "rollback", "event"}},
		"more traffic, hook for another step": {func(w *world) {
			at(v1alpha1.GateConfirmTrafficIncrease)(w)
			w.ms.Spec.UpdateStrategy.Canary.Hooks[3].Steps = []string{"tenth"}
		}, inProgress},
		"checks for another step": {func(w *world) {
			w.round = waited
			w.ms.Spec.UpdateStrategy.Canary.Hooks[2].Steps = []string{"half"}
		}, inProgress},
		"a preview before traffic": {func(w *world) {
			at(v1alpha1.GatePreRollout)(w)
			w.group.Level = v1alpha1.LevelPreview
		}, []string{"event"}},
		"a preview before traffic, with a hook for previews": {func(w *world) {
			at(v1alpha1.GatePreRollout)(w)
			w.group.Level, w.ms.Spec.UpdateStrategy.Canary.Hooks[1].Previews = v1alpha1.LevelPreview, true
		}, []string{"prerollout", "event"}},
		"the first release of a group before traffic": {func(w *world) {
			at(v1alpha1.GatePreRollout)(w)
			w.group.Active = ""
		}, []string{"prerollout", "event"}},
		"a preview is not rolled back":         {func(w *world) { w.group.Level = v1alpha1.LevelPreview }, []string{"event"}},
		"the first release is not rolled back": {func(w *world) { w.group.Active = "" }, []string{"event"}},
		"the rollout of another release":       {func(w *world) { w.run.Release = "newer"; at(v1alpha1.GateConfirmPromotion)(w) }, nil},
		"stable": {func(w *world) {
			w.group.Rollout, w.row.Status, w.release.Status.Release = nil, v1alpha1.ReleaseActive, v1alpha1.ReleaseActive
		}, nil},
		"promoted": {func(w *world) { w.group.Rollout, w.row.Status = nil, v1alpha1.ReleaseActive }, []string{"postrollout", "event"}},
		"adopted without its steps": {func(w *world) {
			w.group.Rollout, w.row.Status, w.row.Reason, w.release.Status.Release = nil, v1alpha1.ReleaseActive, "Adopted", v1alpha1.ReleasePending
		}, []string{"postrollout", "event"}},
		"failed": {func(w *world) { w.group.Rollout, w.row.Status = nil, v1alpha1.ReleaseError }, []string{"postrollout", "event"}},
		"replaced": {func(w *world) {
			w.group.Rollout, w.row.Status, w.release.Status.Release = nil, v1alpha1.ReleaseDeprecated, v1alpha1.ReleaseActive
		}, []string{"event"}},
		"promoted, and not yet reported": {func(w *world) {
			w.group.Rollout, w.row.Status = nil, v1alpha1.ReleaseActive
			p := RolloutOf(w.ms, w.release)
			w.known = p.Fold(nil, p.Calls(nil), nil, waited)
			w.release.Status.Release = v1alpha1.ReleaseActive // This is the write that recorded both.
		}, []string{"postrollout", "event"}},
		"the end of a preview": {func(w *world) {
			w.group.Level, w.group.Phase, w.group.Rollout = v1alpha1.LevelPreview, v1alpha1.GroupClosing, nil
			w.row.Status, w.release.Status.Release = v1alpha1.ReleaseDeprecated, v1alpha1.ReleaseDeprecated
			w.group.End = &v1alpha1.PreviewEnd{Release: "new", Time: gated}
		}, []string{"postpreview"}},
		"the end of a preview, by another release": {func(w *world) {
			w.group.Level, w.group.Phase, w.group.Rollout = v1alpha1.LevelPreview, v1alpha1.GroupClosing, nil
			w.row.Status, w.release.Status.Release = v1alpha1.ReleaseDeprecated, v1alpha1.ReleaseDeprecated
			w.group.End = &v1alpha1.PreviewEnd{Release: "old", Time: gated}
		}, nil},
		"canary removed": {func(w *world) { w.ms.Spec.UpdateStrategy.Canary = nil }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &world{ms: canary(), release: vsvc("new")}
			w.group = &w.ms.Status.ReleaseGroups[0]
			w.run, w.row = w.group.Rollout, &w.group.Releases[0]
			test.change(w)
			before := w.ms.DeepCopy()
			p := RolloutOf(w.ms, w.release)
			p.Round = w.round
			questions := p.Calls(w.known)
			if diff := cmp.Diff(test.want, names(questions)); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(questions, placeIn(w.ms, w.release, w.round).Calls(w.known)); diff != "" {
				t.Errorf("the same state causes other calls (-first +second):\n%s", diff)
			}
			if diff := cmp.Diff(before, w.ms); diff != "" {
				t.Errorf("the Microservice was changed:\n%s", diff)
			}
		})
	}
}

// placeIn does the same as RolloutOf, with a round of checks in progress.
func placeIn(ms *v1alpha1.Microservice, release *v1alpha1.VersionedMicroservice, round time.Time) *Rollout {
	p := RolloutOf(ms, release)
	p.Round = round
	return p
}

func TestNoCallsWithoutARow(t *testing.T) {
	t.Parallel()
	if p := RolloutOf(canary(), vsvc("third")); p != nil {
		t.Errorf("a release that is not in the rollout state has the rollout %+v", p)
	}
}

// TestID checks that the ID of a call changes if and only if the call changes.
func TestID(t *testing.T) {
	t.Parallel()
	ask := func(hook string, change func(*v1alpha1.ReleaseGroup)) string {
		ms, release := canary(), vsvc("new")
		group := &ms.Status.ReleaseGroups[0]
		group.Rollout.Gate, group.Rollout.GateTime = v1alpha1.GateConfirmTrafficIncrease, &gated
		release.Status.Release = v1alpha1.ReleasePending
		change(group)
		p := RolloutOf(ms, release)
		p.Round = waited
		for _, q := range p.Calls(nil) {
			if q.Hook.Name == hook {
				return q.Body.ID
			}
		}
		t.Fatalf("%s is not called", hook)
		return ""
	}
	same := func(*v1alpha1.ReleaseGroup) {}
	later := metav1.NewMicroTime(gated.Add(time.Microsecond))
	for name, test := range map[string]struct {
		hook   string
		change func(*v1alpha1.ReleaseGroup)
		other  bool
	}{
		"another weight":               {"confirmtrafficincrease", func(g *v1alpha1.ReleaseGroup) { g.Releases[0].Weight = 20 }, false},
		"another step":                 {"confirmtrafficincrease", func(g *v1alpha1.ReleaseGroup) { g.Rollout.Step = 0 }, true},
		"another run":                  {"confirmtrafficincrease", func(g *v1alpha1.ReleaseGroup) { g.Rollout.Sequence++ }, true},
		"the gate again":               {"confirmtrafficincrease", func(g *v1alpha1.ReleaseGroup) { g.Rollout.GateTime = &later }, true},
		"a rollback in another step":   {"rollback", func(g *v1alpha1.ReleaseGroup) { g.Rollout.Step = 2 }, false},
		"a rollback of another run":    {"rollback", func(g *v1alpha1.ReleaseGroup) { g.Rollout.Sequence++ }, true},
		"an event of another step":     {"event", func(g *v1alpha1.ReleaseGroup) { g.Rollout.Step = 2 }, true},
		"an event with another reason": {"event", func(g *v1alpha1.ReleaseGroup) { g.Releases[0].Reason = "Adopted" }, true},
		"an event with another status": {"event", func(g *v1alpha1.ReleaseGroup) { g.Releases[0].Status = v1alpha1.ReleaseError }, true},
		"an event of another attempt":  {"event", func(g *v1alpha1.ReleaseGroup) { g.Releases[0].Attempt++ }, true},
		"an event with another weight": {"event", func(g *v1alpha1.ReleaseGroup) { g.Releases[0].Weight++ }, false},
		"checks of another step":       {"rollout", func(g *v1alpha1.ReleaseGroup) { g.Rollout.Step = 2 }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first, second := ask(test.hook, same), ask(test.hook, test.change)
			if first != ask(test.hook, same) || len(first) != 32 {
				t.Errorf("id %q is not stable", first)
			}
			if (first != second) != test.other {
				t.Errorf("ids %q and %q, want different IDs: %t", first, second, test.other)
			}
		})
	}
}

// TestBodyIsAsDocumented checks that the body is equal to the body in docs/explanation/hooks.md, field by field.
func TestBodyIsAsDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/explanation/hooks.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(page), "```json\n")
	block, _, found := strings.Cut(block, "```")
	if !found {
		t.Fatal("docs/explanation/hooks.md shows no body")
	}
	ms, release := canary(), vsvc("shop-1-4-3-5b1c0d9e3f")
	group := &ms.Status.ReleaseGroups[0]
	group.Rollout.Gate, group.Rollout.GateTime, group.Rollout.Release = v1alpha1.GateConfirmTrafficIncrease, &gated, release.Name
	group.Releases[0].VersionedMicroservice = release.Name
	ms.Spec.UpdateStrategy.Canary.Hooks[3].Name = "freeze"
	place := RolloutOf(ms, release)
	place.Services, place.URL = []string{release.Name + "-r1f0c9a7b"}, "https://canary.shop.example.com"
	calls := place.Calls(nil)
	SetPassed(calls, []v1alpha1.HookStatus{{Name: "migrate", Type: v1alpha1.HookConfirmRollout, Phase: v1alpha1.HookOpen}})
	body := calls[0].Body
	body.ID, body.Time = "0d6f0b4c1c6e4a5f9d1c2b3a4e5f6071", began
	raw, err := json.MarshalIndent(body, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	want := strings.NewReplacer(
		`{"team": "checkout"}`, "{\n    \"team\": \"checkout\"\n  }", `["shop-1-4-3-5b1c0d9e3f-r1f0c9a7b"]`, "[\n    \"shop-1-4-3-5b1c0d9e3f-r1f0c9a7b\"\n  ]",
		`["migrate"]`, "[\n    \"migrate\"\n  ]",
	).Replace(strings.TrimSpace(block))
	if diff := cmp.Diff(want, string(raw)); diff != "" {
		t.Errorf("(-documented +sent):\n%s", diff)
	}
}

// TestBodyAfterTheEnd checks that a notification after the end of a rollout contains the active version only if that version is not
// the version of the release.
func TestBodyAfterTheEnd(t *testing.T) {
	t.Parallel()
	ms, release := canary(), vsvc("new")
	group := &ms.Status.ReleaseGroups[0]
	group.Rollout, group.Active = nil, "1.4.3"
	group.Releases[0].Status, group.Releases[0].Weight, group.Releases[0].Reason = v1alpha1.ReleaseActive, 100, "Promoted"
	got := RolloutOf(ms, release).Calls(nil)[0].Body
	got.ID = ""
	want := Body{
		APIVersion: APIVersion, Type: v1alpha1.HookPostRollout, Name: "postrollout", Namespace: "shop", Microservice: "shop", Group: "1-x",
		Release: "new", Services: []string{}, Version: "1.4.3", Weight: 100, Phase: v1alpha1.ReleaseActive, Reason: "Promoted", Passed: []string{},
		Metadata: map[string]v1alpha1.HookMetadataValue{"team": "checkout"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestEndOfAPreview checks that the hooks at the end of a preview wait until its pods have terminated and are called once each time the preview ends, and that a
// failed hook is final.
func TestEndOfAPreview(t *testing.T) {
	t.Parallel()
	ms := canary()
	g := &ms.Status.ReleaseGroups[0]
	g.Level, g.Phase, g.Rollout, g.End = v1alpha1.LevelPreview, v1alpha1.GroupClosing, nil, &v1alpha1.PreviewEnd{Release: "new", Time: gated}
	g.Releases[0].Status = v1alpha1.ReleaseDeprecated
	release := vsvc("new")
	release.Status.Release = v1alpha1.ReleaseDeprecated
	p := RolloutOf(ms, release)
	if p.PodsLeft = true; len(p.Calls(nil)) > 0 {
		t.Errorf("hooks are called while there are pods: %v", names(p.Calls(nil)))
	}
	p.LatePod = "pod a on node b has not terminated"
	late := p.Calls(nil)
	if shown := p.Fold(nil, late, Waiting(late), waited); len(Due(nil, late)) > 0 || len(shown) != 1 || shown[0].Phase != v1alpha1.HookWaiting || shown[0].Message != p.LatePod {
		t.Errorf("while a pod has not terminated, the status is %+v, and the due hooks are %v", shown, names(Due(nil, late)))
	}
	p.PodsLeft, p.LatePod = false, ""
	calls := p.Calls(nil)
	if known := p.Fold(nil, late, Waiting(late), waited); len(Due(known, calls)) != 1 {
		t.Error("when the pod has terminated, the hook is not called")
	}
	if len(calls) != 1 || calls[0].Since == nil || !calls[0].Since.Time.Equal(gated.Time) {
		t.Fatalf("calls %+v", calls)
	}
	first := calls[0].Body.ID
	known := p.Fold(nil, calls, map[string]Outcome{first: {Attempts: 4, Message: "HTTP 500"}}, waited)
	if len(known) != 1 || known[0].Phase != v1alpha1.HookFailed || len(Due(known, p.Calls(known))) > 0 {
		t.Errorf("a failed hook is %+v, and due: %v", known, Due(known, p.Calls(known)))
	}
	g.End.Time = metav1.NewMicroTime(gated.Add(time.Hour)) // The preview was opened again, and ends again.
	if again := p.Calls(known); len(again) != 1 || again[0].Body.ID == first || len(Due(known, again)) != 1 {
		t.Errorf("when the preview ends a second time, the hook is not called again: %+v", again)
	}
}

// reverting returns a Microservice with the two hooks of docs/how-to/database-migration.md: "migrate up" before the first pod, and "migrate
// down" after a failed rollout. Neither hook applies to previews.
func reverting(level v1alpha1.ReleaseLevel, row v1alpha1.Release) *v1alpha1.Microservice {
	ms := &v1alpha1.Microservice{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "shop"}}
	ms.Spec.UpdateStrategy.Canary = &v1alpha1.CanaryStrategy{Steps: []v1alpha1.CanaryStep{{Weight: 10}}, Hooks: []v1alpha1.Hook{
		{Name: "migrate", Type: v1alpha1.HookConfirmRollout, Job: &v1alpha1.HookJob{Command: []string{"/app/shop", "migrate", "up"}}},
		{Name: "revert", Type: v1alpha1.HookPostRollout, Job: &v1alpha1.HookJob{Command: []string{"/bin/sh", "-c", "[ $HLNR_STATUS = active ] || /app/shop migrate down"}}},
	}}
	row.VersionedMicroservice, row.LastTransitionTime = "new", metav1.NewMicroTime(began)
	ms.Status.ReleaseGroups = []v1alpha1.ReleaseGroup{{Name: "g", Slug: "g", Level: level, Releases: []v1alpha1.Release{row}}}
	return ms
}

// TestPostRolloutOfAPreview checks that a preview whose pods fail does not run the Job that reverts a migration: "A Job runs for previews only with
// previews: true on the hook" (docs/how-to/database-migration.md), "Previews of pull requests call only hooks with previews: true"
// (docs/how-to/gates.md).
func TestPostRolloutOfAPreview(t *testing.T) {
	t.Parallel()
	for _, status := range []v1alpha1.ReleaseStatus{v1alpha1.ReleaseError, v1alpha1.ReleaseActive} {
		ms := reverting(v1alpha1.LevelPreview, v1alpha1.Release{Status: status, Reason: "ProgressDeadlineExceeded"})
		ms.Status.ReleaseGroups[0].PullRequest = 7
		release := vsvc("new")
		release.Status.Release = v1alpha1.ReleasePending
		calls := RolloutOf(ms, release).Calls(nil)
		if got := names(Due(nil, calls)); len(got) > 0 {
			t.Errorf("a preview of pull request 7 that is %s runs the Jobs %v, want none", status, got)
		}
	}
}
