package forecast

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/freeze"
	"github.com/heighliner/heighliner/internal/release"
	"github.com/heighliner/heighliner/internal/window"
)

var start = time.Date(2026, 11, 25, 14, 0, 0, 0, time.UTC)

// shop returns a Microservice with 1.0.0 active, and 1.1.0 offered.
func shop(steps ...release.Step) *Facts {
	candidate := func(version string) release.Candidate {
		return release.Candidate{Slug: "1-x", Name: "1.x", Level: "Release", Version: version, Release: "shop-" + version}
	}
	f := newFacts(release.Observed{
		Spec:       release.Spec{Replicas: 2, Standby: 1, MinimumAvailable: 3, Deadline: 10 * time.Minute, Drain: 30 * time.Second, Previews: release.Previews{MaxGroups: 20}, Steps: steps},
		Config:     "config",
		Candidates: []release.Candidate{candidate("1.0.0")},
		Policies:   []release.Policy{{Name: "shop"}},
	}, nil)
	played := f.Play(start.Add(-time.Hour))
	if len(played.Events) == 0 {
		panic("1.0.0 does not start")
	}
	// Executing the plans until 1.0.0 is active results in the state that a cluster would have.
	advance(f, start.Add(-time.Hour), 20, (*play).world)
	f.Candidates = append(f.Candidates, candidate("1.1.0"))
	return f
}

// advance replaces the facts with the facts that result from a number of successive plans. The now parameter is the time of
// all plans. respond changes the cluster after each plan.
func advance(f *Facts, now time.Time, plans int, respond func(*play, release.Result) bool) {
	p := &play{o: f.Observed, objects: slices.Clone(f.objects), windows: f.windows, start: start, now: now, asked: map[string]bool{}}
	for range plans {
		r := p.plan()
		p.apply(r)
		respond(p, r)
	}
	f.Observed, f.objects = p.o, p.objects
}

// onlyRoutes confirms routes, and approves nothing.
func onlyRoutes(p *play, _ release.Result) bool { return p.routes() }

// TestPlay checks that a simulated rollout includes pauses and approvals, and that nothing else takes time.
func TestPlay(t *testing.T) {
	t.Parallel()
	f := shop(
		release.Step{Name: "tenth", Weight: 10, Pause: 10 * time.Minute},
		release.Step{Weight: 50, Approval: true},
		release.Step{Weight: 100, Pause: 5 * time.Minute})
	f.Spec.Analysis = true
	f.Spec.Gates = []release.Point{release.ConfirmRollout, release.PreRollout, release.ConfirmPromotion}
	before := len(f.objects)
	got := f.Play(start)
	if got.Duration != 15*time.Minute || got.People != 1 || got.Pods != 2 || got.Open != "" {
		t.Errorf("%s, %d approvals, %d additional pods, open %q; want 15m, 1, 2 and nothing\n%s", got.Duration, got.People, got.Pods, got.Open, strings.Join(got.Lines(), "\n"))
	}
	lines := got.Lines()
	for _, want := range []string{"1.x: 1.1.0 waits in step \"2\" for approval", "after 15m0s: 1.x: "} {
		if !slices.ContainsFunc(lines, func(l string) bool { return strings.Contains(l, want) }) {
			t.Errorf("no line with %q in:\n%s", want, strings.Join(lines, "\n"))
		}
	}
	if text := strings.Join(lines, "\n"); strings.Contains(text, "decision") {
		t.Errorf("a missing approval is shown as given:\n%s", text)
	}
	if len(f.objects) != before {
		t.Error("the simulation changed its input")
	}
	if diff := cmp.Diff(got, f.Play(start)); diff != "" {
		t.Errorf("a second simulation differs: %s", diff)
	}
}

// TestPlayOfTwoApprovals checks that a step waits for all required approvals: after the first approval, the second approval is
// still missing.
func TestPlayOfTwoApprovals(t *testing.T) {
	t.Parallel()
	f := shop(release.Step{Name: "half", Weight: 50, Approval: true, Approvers: 2, ApproversFrom: []string{"managers"}})
	if got := f.Play(start); got.People != 2 || got.Open != "" {
		t.Errorf("%d approvals, open %q:\n%s", got.People, got.Open, strings.Join(got.Lines(), "\n"))
	}
	advance(f, start, 3, onlyRoutes) // until the canary is in its step
	f.Decide("shop-1.1.0", release.Decision{Action: release.Continue, ID: "1", Step: "half", By: "ana", Groups: []string{"managers"}})
	got := f.Play(start)
	if text := strings.Join(got.Lines(), "\n"); got.People != 1 || !strings.Contains(text, `waits in step "half" for 2 approvals by members of managers (1 so far: ana)`) {
		t.Errorf("%d approvals:\n%s", got.People, text)
	}
}

func TestPlayOfNothing(t *testing.T) {
	t.Parallel()
	f := shop()
	f.Candidates = f.Candidates[:1]
	if got := f.Play(start); got.Duration != 0 || got.Pods > 0 || !slices.Equal(got.Lines(), []string{"nothing changes"}) {
		t.Errorf("%+v", got)
	}
}

func TestPlayShowsProblems(t *testing.T) {
	t.Parallel()
	f := shop()
	f.Problem, f.SourceStale = errors.New("spec.imagePolicyRef.name: there is no ImagePolicy"), true
	if got := f.Play(start).Lines(); len(got) == 0 || got[0] != "spec.imagePolicyRef.name: there is no ImagePolicy" {
		t.Errorf("%q", got)
	}
}

// TestPlayOfAPause checks that the forecast reports a wait without a time limit as open.
func TestPlayOfAPause(t *testing.T) {
	t.Parallel()
	f := shop(release.Step{Weight: 10, Pause: time.Minute})
	f.Play(start)
	advance(f, start, 3, (*play).world) // until the canary is in its step
	f.Spec.Paused = true
	if got := f.Play(start); !strings.Contains(got.Open, "paused") {
		t.Errorf("open %q: %s", got.Open, strings.Join(got.Lines(), "\n"))
	}
}

// TestPlayOfWindows checks that windows open and close in the course of the simulation. A step whose window is closed begins when the window opens,
// and a window that is open at the start of the forecast closes when it ends.
func TestPlayOfWindows(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		first, second *v1alpha1.DeployWindow
		begins        time.Duration // until the second step begins
		duration      time.Duration
	}{
		"no window":                 {nil, nil, 10 * time.Minute, 15 * time.Minute},
		"always open":               {nil, &v1alpha1.DeployWindow{TimeZone: "UTC"}, 10 * time.Minute, 15 * time.Minute},
		"closed at the start":       {nil, &v1alpha1.DeployWindow{TimeZone: "Europe/Zurich", From: "17:00", To: "18:00"}, 2 * time.Hour, 2*time.Hour + 5*time.Minute},
		"first step closed":         {&v1alpha1.DeployWindow{TimeZone: "UTC", From: "15:00", To: "16:00"}, nil, 70 * time.Minute, 75 * time.Minute},
		"closes during a pause":     {nil, &v1alpha1.DeployWindow{TimeZone: "UTC", From: "13:00", To: "14:05"}, 23 * time.Hour, 23*time.Hour + 5*time.Minute},
		"closes on Wednesday":       {nil, &v1alpha1.DeployWindow{TimeZone: "UTC", Days: []v1alpha1.Weekday{"Wednesday"}, To: "14:05"}, 6*24*time.Hour + 10*time.Hour, 6*24*time.Hour + 10*time.Hour + 5*time.Minute},
		"closes before a promotion": {nil, &v1alpha1.DeployWindow{TimeZone: "UTC", From: "13:00", To: "14:12"}, 10 * time.Minute, 23 * time.Hour},
	} {
		f := shop(release.Step{Weight: 10, Pause: 10 * time.Minute}, release.Step{Weight: 50, Pause: 5 * time.Minute})
		ms := &v1alpha1.Microservice{}
		ms.Spec.UpdateStrategy.Canary = &v1alpha1.CanaryStrategy{Steps: []v1alpha1.CanaryStep{{Weight: 10, Window: c.first}, {Weight: 50, Window: c.second}}}
		f.windows = windowsOf(ms)
		for i, w := range f.windows {
			f.Spec.Steps[i].Window, _ = window.Resolve(w, start)
		}
		before := slices.Clone(f.Spec.Steps)
		got := f.Play(start)
		i := slices.IndexFunc(got.Events, func(e Event) bool { return strings.Contains(e.Text, "50%") })
		if i < 0 || got.Events[i].After != c.begins || got.Duration != c.duration || got.Open != "" {
			t.Errorf("%s: duration %s, open %q; want the second step after %s, and duration %s:\n%s", name, got.Duration, got.Open, c.begins, c.duration, strings.Join(got.Lines(), "\n"))
		}
		if diff := cmp.Diff(before, f.Spec.Steps); diff != "" {
			t.Errorf("%s: the simulation changed its input: %s", name, diff)
		}
	}
}

// TestPlayOfFreezes checks that freezes begin and end in the course of the simulation.
func TestPlayOfFreezes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		from, to time.Duration
		begins   time.Duration // until the second step begins
		duration time.Duration
	}{
		"during the first pause":      {5 * time.Minute, 3 * time.Hour, 3 * time.Hour, 3*time.Hour + 5*time.Minute},
		"ends within the first pause": {5 * time.Minute, 6 * time.Minute, 10 * time.Minute, 15 * time.Minute},
		"during the last pause":       {12 * time.Minute, 3 * time.Hour, 10 * time.Minute, 3 * time.Hour},
		"after the rollout":           {time.Hour, 3 * time.Hour, 10 * time.Minute, 15 * time.Minute},
		"in another namespace":        {5 * time.Minute, 3 * time.Hour, 10 * time.Minute, 15 * time.Minute},
	} {
		f := shop(release.Step{Weight: 10, Pause: 10 * time.Minute}, release.Step{Weight: 50, Pause: 5 * time.Minute})
		weekend := freeze.Freeze{Kind: "Freeze", Namespace: "shop", Name: "weekend", Rules: v1alpha1.FreezeRules{
			Periods: []v1alpha1.FreezePeriod{{From: metav1.NewTime(start.Add(c.from)), To: metav1.NewTime(start.Add(c.to))}},
		}}
		if name == "in another namespace" {
			weekend.Namespace = "other"
		}
		f.freezes = freeze.Calendar{Freezes: []freeze.Freeze{weekend}, Subject: freeze.Subject{Namespace: "shop", Name: "shop"}}
		got := f.Play(start)
		i := slices.IndexFunc(got.Events, func(e Event) bool { return strings.Contains(e.Text, "50%") })
		if i < 0 || got.Events[i].After != c.begins || got.Duration != c.duration || got.Open != "" {
			t.Errorf("%s: duration %s, open %q; want the second step after %s, and duration %s:\n%s", name, got.Duration, got.Open, c.begins, c.duration, strings.Join(got.Lines(), "\n"))
		}
	}
}

// TestPlayOfAWindowThatNeverOpens checks that a rollout waits at a step whose window has an unknown time zone.
func TestPlayOfAWindowThatNeverOpens(t *testing.T) {
	t.Parallel()
	f := shop(release.Step{Weight: 10}, release.Step{Weight: 50})
	f.windows = []*v1alpha1.DeployWindow{nil, {TimeZone: "Europe/Bern"}}
	if got := f.Play(start); !strings.Contains(got.Open, "window") {
		t.Errorf("open %q: %s", got.Open, strings.Join(got.Lines(), "\n"))
	}
}

// TestDecide checks that the forecast simulates a decision in the same way as the planner would handle it.
func TestDecide(t *testing.T) {
	t.Parallel()
	f := shop(release.Step{Weight: 10, Approval: true})
	advance(f, start, 3, onlyRoutes)
	f.Decide("shop-1.1.0", release.Decision{Action: release.Deprecate, ID: "1", By: "ana"})
	got := strings.Join(f.Play(start).Lines(), "\n")
	if !strings.Contains(got, "Deprecate") || !strings.Contains(got, "ana") {
		t.Errorf("%s", got)
	}
}

// TestPlayOfJobs checks that, after a release is superseded or aborted, the forecast calls the next version's hooks, which run Jobs. The
// forecast does not wait for a report from the superseded or aborted release.
func TestPlayOfJobs(t *testing.T) {
	t.Parallel()
	for what, end := range map[string]func(f *Facts){
		"superseded": func(*Facts) {},
		"aborted": func(f *Facts) {
			f.Decide("shop-1.1.0", release.Decision{Action: release.Deprecate, ID: "1", By: "ana"})
		},
	} {
		f := shop(release.Step{Weight: 10, Pause: time.Minute}, release.Step{Weight: 50, Pause: time.Minute})
		f.Spec.Gates, f.Spec.GateJobs, f.Spec.FailureJobs = []release.Point{release.ConfirmRollout}, true, true
		advance(f, start, 4, (*play).world) // until the canary is in its step
		end(f)
		f.Candidates = append(slices.Clone(f.Candidates), release.Candidate{Slug: "1-x", Name: "1.x", Level: "Release", Version: "1.2.0", Release: "shop-1.2.0"})
		if got := f.Play(start); got.Open != "" {
			t.Errorf("%s: open %q:\n%s", what, got.Open, strings.Join(got.Lines(), "\n"))
		}
	}
}
