package versionedmicroservice

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/analysis"
	"github.com/heighliner/heighliner/internal/analysistemplate"
	"github.com/heighliner/heighliner/internal/hook"
)

// answers fakes the pools: it returns the results that a test sets, and records requests.
type answers struct {
	round    *analysis.Round // nil means that there is no result yet
	outcomes map[string]hook.Outcome
	asked    []string
	next     time.Time
}

func (a *answers) Round(_ types.NamespacedName, r analysis.Request) (analysis.Round, bool) {
	a.note("round at %s of %s", r.At.Sub(noon), r.Canary.Release)
	if a.round == nil {
		return analysis.Round{}, false
	}
	round := *a.round
	round.At = r.At
	return round, true
}

func (a *answers) StopMeasuring(types.NamespacedName) { a.note("measure nothing") }

func (a *answers) Outcomes(types.NamespacedName) map[string]hook.Outcome { return a.outcomes }

func (a *answers) Ask(_ types.NamespacedName, _, due []hook.Call) time.Time {
	for _, q := range due {
		a.note("%s", q.Hook.Name)
	}
	return a.next
}

func (a *answers) Forget(types.NamespacedName) { a.note("forget") }

func (a *answers) note(format string, args ...any) {
	a.asked = append(a.asked, fmt.Sprintf(format, args...))
}

// rolloutScene returns a release that has been in step 1 of 2 since noon, next to an active release.
func rolloutScene(edit func(*v1alpha1.Microservice)) *observed {
	o := scene(2, 2)
	since := metav1.NewMicroTime(noon)
	ms := inRollout(v1alpha1.Release{Status: v1alpha1.ReleaseCanary, Weight: 10, Reason: "Step"}, &v1alpha1.Rollout{Release: releaseName, Sequence: 7, Step: 1, WaitingSince: &since})
	group := &ms.Status.ReleaseGroups[1]
	group.Active = "0.9.0"
	group.Releases[0] = v1alpha1.Release{VersionedMicroservice: "other", Status: v1alpha1.ReleaseActive, Weight: 90, SemVer: v1alpha1.SemVer{Version: "0.9.0"}}
	o.release.Status.Release = v1alpha1.ReleaseCanary
	edit(ms)
	o.microservice = ms
	return o
}

// see sets a scene's rollout without a client. There are no Services.
func see(o *observed) *observed {
	o.rollout = nil
	if place := hook.RolloutOf(o.microservice, o.release); place != nil {
		o.rollout = &rollout{place: place, point: pointOf(place)}
		o.rollout.spec, _, _ = analysistemplate.Read(context.Background(), nil, o.microservice)
		if o.rollout.point != nil && o.rollout.spec != nil {
			o.rollout.request = analysis.Request{Spec: *o.rollout.spec, Canary: analysis.Target{Release: o.release.Name}}
		}
	}
	return o
}

func measured(ms *v1alpha1.Microservice) {
	ms.Spec.UpdateStrategy.Canary.Analysis = &v1alpha1.CanaryAnalysis{Interval: "1m", Count: 1, Metrics: []v1alpha1.AnalysisMetric{{Name: "rate"}}}
}

func hooked(types ...v1alpha1.HookType) func(*v1alpha1.Microservice) {
	return func(ms *v1alpha1.Microservice) {
		for _, t := range types {
			ms.Spec.UpdateStrategy.Canary.Hooks = append(ms.Spec.UpdateStrategy.Canary.Hooks, v1alpha1.Hook{Name: strings.ToLower(string(t)), Type: t})
		}
	}
}

// TestListenAsks checks which measurements and hook calls are requested in each state of a rollout.
func TestListenAsks(t *testing.T) {
	t.Parallel()
	both := func(more ...func(*v1alpha1.Microservice)) func(*v1alpha1.Microservice) {
		return func(ms *v1alpha1.Microservice) {
			measured(ms)
			hooked(v1alpha1.HookRollout, v1alpha1.HookRollback, v1alpha1.HookEvent)(ms)
			for _, f := range more {
				f(ms)
			}
		}
	}
	run := func(edit func(*v1alpha1.Rollout, *v1alpha1.Release)) func(*v1alpha1.Microservice) {
		return func(ms *v1alpha1.Microservice) {
			edit(ms.Status.ReleaseGroups[1].Rollout, &ms.Status.ReleaseGroups[1].Releases[1])
		}
	}
	for name, test := range map[string]struct {
		edit  func(*v1alpha1.Microservice)
		after time.Duration
		want  string
	}{
		"the first interval":                 {both(), time.Second, "rollout rollback event"},
		"the end of the first interval":      {both(), time.Minute, "round at 1m0s of " + releaseName + " rollout rollback event"},
		"an interval was missed":             {both(), 150 * time.Second, "round at 2m0s of " + releaseName + " rollout rollback event"},
		"interrupted":                        {both(run(func(r *v1alpha1.Rollout, _ *v1alpha1.Release) { r.Interrupted, r.WaitingSince = true, nil })), time.Minute, "measure nothing rollback event"},
		"not yet confirmed":                  {both(run(func(r *v1alpha1.Rollout, _ *v1alpha1.Release) { r.WaitingSince = nil })), time.Minute, "measure nothing rollback event"},
		"before the first step":              {both(run(func(r *v1alpha1.Rollout, row *v1alpha1.Release) { r.Step, row.Status = 0, v1alpha1.ReleasePending })), time.Minute, "measure nothing rollback event"},
		"before a raised first step":         {both(run(func(r *v1alpha1.Rollout, _ *v1alpha1.Release) { r.Step = 0 })), time.Minute, "round at 1m0s of " + releaseName + " rollout rollback event"},
		"a step without traffic":             {both(run(func(_ *v1alpha1.Rollout, row *v1alpha1.Release) { row.Weight = 0 })), time.Minute, "measure nothing rollback event"},
		"a step with a match":                {both(run(func(_ *v1alpha1.Rollout, row *v1alpha1.Release) { row.Weight, row.Match = 0, true })), time.Second, "rollout rollback event"},
		"a step with a mirror":               {both(run(func(_ *v1alpha1.Rollout, row *v1alpha1.Release) { row.Weight, row.MirrorPercent = 0, 5 })), time.Second, "rollout rollback event"},
		"paused at a gate, still measured":   {both(run(func(r *v1alpha1.Rollout, _ *v1alpha1.Release) { r.Gate = v1alpha1.GateConfirmPromotion })), time.Minute, "round at 1m0s of " + releaseName + " rollout rollback event"},
		"stable":                             {both(func(ms *v1alpha1.Microservice) { ms.Status.ReleaseGroups[1].Rollout = nil }), time.Minute, "measure nothing"},
		"another release is in progress":     {both(run(func(r *v1alpha1.Rollout, _ *v1alpha1.Release) { r.Release = "other" })), time.Minute, "measure nothing"},
		"no row":                             {func(ms *v1alpha1.Microservice) { ms.Status.ReleaseGroups = nil }, time.Minute, "forget"},
		"hooks without an analysis":          {hooked(v1alpha1.HookRollout), time.Second, "rollout"},
		"neither":                            {func(*v1alpha1.Microservice) {}, time.Minute, "measure nothing"},
		"an analysis without hooks":          {measured, time.Second, ""},
		"no longer a canary strategy":        {func(ms *v1alpha1.Microservice) { ms.Spec.UpdateStrategy.Canary = nil }, time.Minute, "measure nothing"},
		"events do not delay the next check": {hooked(v1alpha1.HookEvent, v1alpha1.HookPostRollout), time.Minute, "measure nothing event"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, a := see(rolloutScene(test.edit)), &answers{}
			before := o.microservice.DeepCopy()
			h := runChecks(a, o, noon.Add(test.after))
			if diff := cmp.Diff(test.want, strings.Join(a.asked, " ")); diff != "" {
				t.Errorf("asked (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, o.microservice); diff != "" {
				t.Errorf("the Microservice was changed:\n%s", diff)
			}
			if !h.requeueAt.IsZero() && !h.requeueAt.After(noon.Add(test.after)) {
				t.Errorf("requeued at %s, which is in the past", h.requeueAt)
			}
		})
	}
}

// player simulates reconciles, each of which reads the status that the previous reconcile wrote.
type player struct {
	*testing.T
	o      *observed
	a      *answers
	now    time.Time
	result checks
}

func playWay(t *testing.T, edit func(*v1alpha1.Microservice)) *player {
	return &player{T: t, o: rolloutScene(edit), a: &answers{outcomes: map[string]hook.Outcome{}}, now: noon}
}

// pass reconciles, and returns the phases that are written.
func (p *player) pass(after time.Duration) string {
	p.Helper()
	p.now, p.a.asked = noon.Add(after), nil
	see(p.o)
	p.result = runChecks(p.a, p.o, p.now)
	see(p.o)
	if again := runChecks(p.a, p.o, p.now); !cmp.Equal(p.result, again, cmp.AllowUnexported(checks{}, jobPlan{}, hookJob{})) {
		p.Errorf("repeating the reconcile gives another result:\n%s", cmp.Diff(p.result, again, cmp.AllowUnexported(checks{}, jobPlan{}, hookJob{})))
	}
	p.o.release.Status.Analysis, p.o.release.Status.Hooks = p.result.analysis, p.result.hooks
	var words []string
	if a := p.result.analysis; a != nil {
		words = append(words, fmt.Sprintf("step %d %s %d/%d", a.Step, a.Phase, a.Rounds, a.Failures))
	}
	for _, h := range p.result.hooks {
		words = append(words, h.Name+" "+string(h.Phase))
	}
	return strings.Join(words, ", ")
}

func (p *player) want(after time.Duration, want string) {
	p.Helper()
	if got := p.pass(after); got != want {
		p.Errorf("after %s: %q, want %q", after, got, want)
	}
}

// answer sets the answer to a hook's current call.
func (p *player) answer(name string, yes bool) {
	p.Helper()
	see(p.o)
	if p.o.rollout.point != nil {
		status := analysis.Begin(p.o.release.Status.Analysis, p.o.rollout.spec, *p.o.rollout.point)
		p.o.rollout.place.Round = roundOf(status, p.o.rollout.spec, p.now)
	}
	questions := p.o.rollout.place.Calls(p.o.release.Status.Hooks)
	i := slices.IndexFunc(questions, func(q hook.Call) bool { return q.Hook.Name == name })
	if i < 0 {
		p.Fatalf("%s is not called", name)
	}
	p.a.outcomes[questions[i].Body.ID] = hook.Outcome{Yes: yes, Attempts: 1, Message: "its answer"}
}

// unanswered makes a hook's current call fail without an answer.
func (p *player) unanswered(name string) {
	p.Helper()
	p.answer(name, false)
	for id, o := range p.a.outcomes {
		if o.Message == "its answer" && !o.Yes {
			o.Unanswered, o.Message = true, "HTTP 503"
			p.a.outcomes[id] = o
		}
	}
}

func (p *player) measure(result v1alpha1.MeasurementResult) {
	p.a.round = &analysis.Round{Measurements: []analysis.Measurement{{Metric: "rate", Result: result}}}
}

func (p *player) step(n int32, since time.Duration) {
	at := metav1.NewMicroTime(noon.Add(since))
	p.o.microservice.Status.ReleaseGroups[1].Rollout.Step, p.o.microservice.Status.ReleaseGroups[1].Rollout.WaitingSince = n, &at
}

// TestRoundOfMetricsAndHooks checks that a round requires the measurements and an answer from each hook.
func TestRoundOfMetricsAndHooks(t *testing.T) {
	t.Parallel()
	p := playWay(t, func(ms *v1alpha1.Microservice) { measured(ms); hooked(v1alpha1.HookRollout)(ms) })
	p.want(0, "step 1 Running 0/0")
	p.measure(v1alpha1.MeasurementPassed)
	p.want(time.Minute, "step 1 Running 0/0") // the hook has not answered
	p.answer("rollout", true)
	p.want(61*time.Second, "step 1 Passed 1/0, rollout Delivered")
	if p.pass(62 * time.Second); !slices.Equal(p.a.asked, []string{"rollout", "rollout"}) { // pass reconciles twice
		t.Errorf("at the beginning of the next interval: %q", p.a.asked)
	}
	p.answer("rollout", false)
	p.want(90*time.Second, "step 1 Passed 1/0, rollout Failed")
	p.want(121*time.Second, "step 1 Failed 1/1, rollout Failed")
	if got := p.result.analysis.Message; !strings.Contains(got, "hook rollout: its answer") {
		t.Errorf("message %q does not name the hook", got)
	}
	if p.pass(5 * time.Minute); len(p.a.asked) > 0 {
		t.Errorf("after the result: %q", p.a.asked)
	}
}

func TestMetricsWithoutHooks(t *testing.T) {
	t.Parallel()
	p := playWay(t, measured)
	p.want(0, "step 1 Running 0/0")
	if want := noon.Add(time.Minute); !p.result.requeueAt.Equal(want) {
		t.Errorf("requeued at %s, want %s", p.result.requeueAt, want)
	}
	p.want(time.Minute, "step 1 Running 0/0")
	if !p.result.requeueAt.IsZero() {
		t.Errorf("requeued at %s while it waits for an answer", p.result.requeueAt)
	}
	p.measure(v1alpha1.MeasurementFailed)
	p.want(61*time.Second, "step 1 Failed 0/1")
}

// TestHooksWithoutMetrics checks that hooks have rounds even if there are no metrics, that the first round
// starts immediately, and that each failure counts.
func TestHooksWithoutMetrics(t *testing.T) {
	t.Parallel()
	p := playWay(t, hooked(v1alpha1.HookRollout))
	p.want(0, "step 1 Running 0/0")
	p.answer("rollout", true)
	p.want(2*time.Second, "step 1 Passed 1/0, rollout Delivered")
	if p.pass(30 * time.Second); len(p.a.asked) > 0 {
		t.Errorf("within the interval: %q", p.a.asked)
	}
	if want := noon.Add(65 * time.Second); !p.result.requeueAt.Equal(want) {
		t.Errorf("requeued at %s, want %s", p.result.requeueAt, want)
	}
	if p.pass(66 * time.Second); len(p.a.asked) == 0 {
		t.Error("the second round calls no receiver")
	}
	p.answer("rollout", false)
	p.want(67*time.Second, "step 1 Failed 1/1, rollout Failed")
}

// TestHookWithoutAnAnswer checks that a round in which a hook call gets no answer counts as not measured.
func TestHookWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	p := playWay(t, hooked(v1alpha1.HookRollout))
	p.unanswered("rollout")
	p.want(2*time.Second, "step 1 Running 0/0, rollout Waiting")
	if got := p.result.analysis; got.Errors != 1 || !strings.Contains(got.Message, "hook rollout did not respond: HTTP 503") {
		t.Errorf("%+v", got)
	}
	p.pass(66 * time.Second)
	p.answer("rollout", true)
	p.want(67*time.Second, "step 1 Passed 1/0, rollout Delivered")
}

// TestMetricsNextToAHookWithoutAnAnswer checks that a failing metric counts while a hook call gets no answer,
// and that an answer within the round also counts.
func TestMetricsNextToAHookWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	both := func(ms *v1alpha1.Microservice) { measured(ms); hooked(v1alpha1.HookRollout)(ms) }
	p := playWay(t, both)
	p.want(0, "step 1 Running 0/0")
	p.unanswered("rollout")
	p.measure(v1alpha1.MeasurementFailed)
	p.want(61*time.Second, "step 1 Failed 0/1, rollout Waiting")

	p = playWay(t, both)
	p.want(0, "step 1 Running 0/0")
	p.unanswered("rollout")
	p.want(30*time.Second, "step 1 Running 0/0, rollout Waiting")
	p.answer("rollout", true)
	p.measure(v1alpha1.MeasurementPassed)
	p.want(61*time.Second, "step 1 Passed 1/0, rollout Delivered")
}

// TestHooksForAnotherStep checks that a step without hooks does not wait.
func TestHooksForAnotherStep(t *testing.T) {
	t.Parallel()
	p := playWay(t, func(ms *v1alpha1.Microservice) {
		hooked(v1alpha1.HookRollout)(ms)
		ms.Spec.UpdateStrategy.Canary.Hooks[0].Steps = []string{"check"}
	})
	p.want(time.Second, "step 1 Passed 1/0")
	p.step(3, time.Minute)
	p.want(61*time.Second, "step 3 Running 0/0")
}

// TestFailuresAreOfTheRun checks that failures count across all steps of a rollout, and that another rollout
// starts without failures.
func TestFailuresAreOfTheRun(t *testing.T) {
	t.Parallel()
	one := int32(1)
	p := playWay(t, func(ms *v1alpha1.Microservice) {
		measured(ms)
		ms.Spec.UpdateStrategy.Canary.Analysis.FailureLimit = &one
	})
	p.pass(0)
	p.measure(v1alpha1.MeasurementFailed)
	p.want(time.Minute, "step 1 Running 0/1")
	p.measure(v1alpha1.MeasurementPassed)
	p.want(2*time.Minute, "step 1 Passed 1/1")
	p.a.round = nil
	p.step(2, 3*time.Minute)
	p.want(3*time.Minute, "step 2 Running 0/1")
	p.measure(v1alpha1.MeasurementFailed)
	p.want(4*time.Minute, "step 2 Failed 0/2")
	p.a.round = nil
	p.o.microservice.Status.ReleaseGroups[1].Rollout.Sequence++
	p.step(1, 5*time.Minute)
	p.want(5*time.Minute, "step 1 Running 0/0")
}

// TestGateDoesNotCountAsFailure checks that a gate reports the answer of its hook, that a negative answer does not count as a failure, and that a
// positive answer is final.
func TestGateDoesNotCountAsFailure(t *testing.T) {
	t.Parallel()
	p := playWay(t, func(ms *v1alpha1.Microservice) {
		measured(ms)
		hooked(v1alpha1.HookConfirmPromotion)(ms)
		at := metav1.NewMicroTime(noon)
		ms.Status.ReleaseGroups[1].Rollout.Gate, ms.Status.ReleaseGroups[1].Rollout.GateTime = v1alpha1.GateConfirmPromotion, &at
	})
	p.measure(v1alpha1.MeasurementPassed)
	p.want(0, "step 1 Running 0/0, confirmpromotion Waiting")
	p.answer("confirmpromotion", false)
	p.want(time.Minute, "step 1 Passed 1/0, confirmpromotion Waiting")
	p.want(2*time.Minute, "step 1 Passed 2/0, confirmpromotion Waiting")
	p.answer("confirmpromotion", true)
	p.want(3*time.Minute, "step 1 Passed 3/0, confirmpromotion Open")
	p.answer("confirmpromotion", false)
	p.want(4*time.Minute, "step 1 Passed 4/0, confirmpromotion Open")
	if slices.Contains(p.a.asked, "confirmpromotion") {
		t.Error("the hook of an open gate is called again")
	}
}
