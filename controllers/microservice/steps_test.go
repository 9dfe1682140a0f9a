package microservice

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testingclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/analysis"
)

// steps replaces the strategy of the Microservice.
func steps(c v1alpha1.CanaryStrategy) func(*v1alpha1.Microservice) {
	return func(ms *v1alpha1.Microservice) { ms.Spec.UpdateStrategy.Canary = &c }
}

// inProgress returns the rollout of the only group, or nil if no rollout is in progress.
func (s *story) inProgress() *v1alpha1.Rollout {
	s.Helper()
	for _, g := range s.ms().Status.ReleaseGroups {
		if g.Rollout != nil {
			return g.Rollout
		}
	}
	return nil
}

// outcome writes a version's status, as the VersionedMicroservice controller does.
func (s *story) outcome(version string, write func(*v1alpha1.VersionedMicroserviceStatus, *v1alpha1.Rollout)) {
	s.Helper()
	c := s.release(version)
	before := c.DeepCopy()
	write(&c.Status, s.inProgress())
	s.report(c, before)
}

// answer sets the answers of all hooks at the gate where the rollout is waiting.
func (s *story) answer(version string, phase v1alpha1.HookPhase) {
	s.Helper()
	s.outcome(version, func(st *v1alpha1.VersionedMicroserviceStatus, run *v1alpha1.Rollout) {
		st.Hooks = nil
		for _, h := range s.ms().Spec.UpdateStrategy.Canary.Hooks {
			if string(h.Type) == string(run.Gate) {
				st.Hooks = append(st.Hooks, v1alpha1.HookStatus{
					Name: h.Name, Type: h.Type, ID: "x", Run: run.Sequence, Step: run.Step, Since: run.GateTime, Phase: phase,
				})
			}
		}
	})
}

// verdict sets the result of the measurements in the rollout's current step.
func (s *story) verdict(version string, phase v1alpha1.AnalysisPhase, message string) {
	s.Helper()
	s.outcome(version, func(st *v1alpha1.VersionedMicroserviceStatus, run *v1alpha1.Rollout) {
		if run.WaitingSince == nil {
			s.Fatalf("the rollout state has no start time for the measurements of step %d", run.Step)
		}
		st.Analysis = &v1alpha1.ReleaseAnalysis{Run: run.Sequence, Step: run.Step, Since: *run.WaitingSince, Phase: phase, Message: message, SpecHash: analysis.SpecHash(s.ms().Spec.UpdateStrategy.Canary.Analysis)}
	})
}

// rest reconciles and simulates the other controllers until nothing changes, without advancing the clock to
// the next requeue time. Use rest for rollouts that are waiting for an answer.
func (s *story) rest() {
	s.Helper()
	for range 20 {
		writes := len(s.writes)
		if _, err := s.pass(); err != nil {
			s.Fatalf("reconcile: %v", err)
		}
		acted := s.kubelet()
		acted = s.gateway() || acted
		if len(s.writes) == writes && !acted {
			return
		}
	}
	s.Fatalf("the rollout does not become stable: %s", s.rolloutState())
}

// TestGates checks that each gate stops the rollout at its point until its hooks approve, and that
// the status reports the gate.
func TestGates(t *testing.T) {
	t.Parallel()
	hook := func(kind v1alpha1.HookType) v1alpha1.Hook {
		return v1alpha1.Hook{Name: strings.ToLower(string(kind)), Type: kind, URL: "http://hooks.example.com/a"}
	}
	s := begin(t, steps(v1alpha1.CanaryStrategy{
		Steps: []v1alpha1.CanaryStep{{Weight: 10}, {Weight: 50}},
		Hooks: []v1alpha1.Hook{hook("ConfirmRollout"), hook("PreRollout"), hook("ConfirmTrafficIncrease"), hook("ConfirmPromotion")},
	}))
	s.route()
	s.offer("1.0.0")
	for _, at := range []struct {
		version  string
		gate     v1alpha1.Gate
		phase    v1alpha1.HookPhase
		row      string
		replicas int32
	}{
		{"1.0.0", "ConfirmRollout", "Open", "1.0.0 pending 0%", 0},
		{"1.0.0", "PreRollout", "Delivered", "1.0.0 pending 0%", 2},
		{"1.1.0", "ConfirmRollout", "Open", "1.1.0 pending 0%", 0},
		{"1.1.0", "PreRollout", "Delivered", "1.1.0 pending 0%", 2},
		{"1.1.0", "ConfirmTrafficIncrease", "Open", "1.1.0 pending 0%", 2},
		{"1.1.0", "ConfirmTrafficIncrease", "Open", "1.1.0 canary 10%", 2},
		{"1.1.0", "ConfirmPromotion", "Open", "1.1.0 canary 50%", 2},
	} {
		s.rest()
		run := s.inProgress()
		if run == nil || run.Gate != at.gate || run.GateTime == nil {
			t.Fatalf("the rollout is at %+v, want gate %s: %s", run, at.gate, s.rolloutState())
		}
		if !s.until(at.row)() {
			t.Fatalf("at %s: %s", at.gate, s.rolloutState())
		}
		same(t, "replicas at "+string(at.gate), s.release(at.version).Spec.Replicas, at.replicas)
		if got := condition(s.ms(), "Progressing"); !strings.HasPrefix(got, "True Gate: ") {
			t.Errorf("at %s Progressing is %q", at.gate, got)
		}
		s.clock.Step(24 * time.Hour)
		s.rest()
		if !s.until(at.row)() {
			t.Fatalf("time opened gate %s: %s", at.gate, s.rolloutState())
		}
		s.restart()
		s.answer(at.version, "Waiting")
		s.rest()
		if !s.until(at.row)() {
			t.Fatalf("a rejection opened gate %s: %s", at.gate, s.rolloutState())
		}
		s.answer(at.version, at.phase)
		if at.version == "1.0.0" && at.gate == "PreRollout" { // a first release has no other gates
			s.play()
			same(t, "active", s.active().Spec.SemVer.Version, "1.0.0")
			s.offer("1.1.0", "1.0.0")
		}
	}
	s.rest()
	same(t, "active at the end", s.active().Spec.SemVer.Version, "1.1.0")
}

// TestVerdicts checks that, depending on the result of an analysis, the canary completes its step, waits in the
// step, or is rolled back.
func TestVerdicts(t *testing.T) {
	t.Parallel()
	s := begin(t, steps(v1alpha1.CanaryStrategy{
		Steps: []v1alpha1.CanaryStep{{Weight: 10}, {Weight: 50}},
		Analysis: &v1alpha1.CanaryAnalysis{Metrics: []v1alpha1.AnalysisMetric{{
			Name: "rate", SuccessRate: &v1alpha1.SuccessRateMetric{}, ThresholdRange: v1alpha1.ValueRange{Min: ptr.To(99.0)},
		}}},
	}))
	s.route()
	s.offer("1.0.0")
	s.play()
	s.offer("1.1.0", "1.0.0")
	s.rest()
	same(t, "column", s.ms().Status.Summary.Canary, "1.1.0 10% step 1/2 Analysis")
	s.clock.Step(24 * time.Hour)
	s.rest()
	s.verdict("1.1.0", v1alpha1.AnalysisInconclusive, "rate is 98.5")
	s.rest()
	if got := condition(s.ms(), "AnalysisInconclusive"); !strings.Contains(got, "rate is 98.5") {
		t.Errorf("AnalysisInconclusive is %q", got)
	}
	same(t, "column", s.ms().Status.Summary.Canary, "1.1.0 10% step 1/2 Inconclusive")
	s.verdict("1.1.0", v1alpha1.AnalysisNoTraffic, "")
	s.rest()
	if got := condition(s.ms(), "AnalysisInconclusive"); !strings.HasPrefix(got, "True AnalysisNoTraffic: ") {
		t.Errorf("conditions = %v", s.ms().Status.Conditions)
	}
	s.verdict("1.1.0", v1alpha1.AnalysisPassed, "")
	s.rest()
	if !s.until("1.1.0 canary 50%")() {
		t.Fatalf("the rollout does not continue: %s", s.rolloutState())
	}
	first := s.inProgress().Sequence
	s.verdict("1.1.0", v1alpha1.AnalysisFailed, "rate is 94")
	s.rest()
	same(t, "rollout state", s.rolloutState(), lines(
		"release Live target Latest",
		"  1.1.0 error 0% AnalysisFailed, 2 replicas",
		"  1.0.0 active 100% First, 2 replicas",
	))
	s.clock.Step(24 * time.Hour)
	s.play()
	if !s.until("1.1.0 error 0% AnalysisFailed, 0 replicas")() {
		t.Errorf("the release starts again automatically: %s", s.rolloutState())
	}
	c := s.release("1.1.0")
	c.Spec.Decision = &v1alpha1.Decision{Action: v1alpha1.DecisionRetry, ID: "1"}
	if err := env.Client.Update(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	s.rest()
	if run := s.inProgress(); run == nil || run.Sequence <= first || !s.until("1.1.0 canary 10%")() {
		t.Errorf("a result of the previous rollout counts for a retry: %+v %s", run, s.rolloutState())
	}
}

// TestMatchesCopiesScaleAndWindows checks that a canary with scale MatchWeight grows with its weight, gets
// matching requests while its weight is 0, and waits while its window is closed.
func TestMatchesCopiesScaleAndWindows(t *testing.T) {
	t.Parallel()
	s := begin(t, steps(v1alpha1.CanaryStrategy{
		Scale: v1alpha1.ScaleMatchWeight,
		Steps: []v1alpha1.CanaryStep{
			{Weight: 0, Match: true, MirrorPercent: 5, Pause: &v1alpha1.CanaryPause{Duration: "1m"}},
			{Weight: 50, Window: &v1alpha1.DeployWindow{TimeZone: "Europe/Zurich", Days: []v1alpha1.Weekday{"Monday"}, From: "09:00", To: "10:00"}},
		},
	}), func(ms *v1alpha1.Microservice) {
		ms.Spec.Availability.Replicas = 10
		ms.Spec.Availability.Autoscaling = &v1alpha1.Autoscaling{MaxReplicas: 20}
	})
	s.clock = testingclock.NewFakeClock(time.Date(2040, 1, 7, 12, 0, 0, 0, time.UTC)) // a Saturday
	s.restart()
	s.route()
	s.offer("1.0.0")
	s.play()
	if a := s.release("1.0.0").Spec.Availability.Autoscaling; a == nil || a.MaxReplicas != 20 {
		t.Errorf("the active release's autoscaler is %v", a)
	}
	s.offer("1.1.0", "1.0.0")
	s.rest()
	row := s.ms().Status.ReleaseGroups[0].Releases[0]
	same(t, "row", []any{row.SemVer.Version, row.Weight, row.Match, row.MirrorPercent}, []any{"1.1.0", int32(0), true, int32(5)})
	s.clock.Step(time.Minute)
	s.rest()
	if got := condition(s.ms(), "Progressing"); !strings.HasPrefix(got, "True Window: ") || !strings.HasSuffix(got, "2040-01-09T08:00:00Z") {
		t.Errorf("Progressing is %q", got)
	}
	result, err := s.pass()
	if err != nil {
		t.Fatal(err)
	}
	same(t, "when the window opens", s.clock.Now().Add(result.RequeueAfter).UTC(), time.Date(2040, 1, 9, 8, 0, 0, 0, time.UTC))
	if n := s.release("1.1.0").Spec.Replicas; n >= 10 {
		t.Errorf("the release has %d replicas without a weight", n)
	}
	s.clock.Step(result.RequeueAfter)
	s.rest()
	same(t, "active", s.active().Spec.SemVer.Version, "1.1.0")
	same(t, "replicas", s.release("1.1.0").Spec.Replicas, int32(10))
	s.play() // until the drain of 1.0.0 has ended
	if a := s.release("1.0.0").Spec.Availability.Autoscaling; a != nil {
		t.Errorf("a standby release has the autoscaler %v", a)
	}
}

// TestUnknownTimeZone checks that a window with an unknown time zone is closed, and that a condition reports the
// time zone.
func TestUnknownTimeZone(t *testing.T) {
	t.Parallel()
	s := begin(t, steps(v1alpha1.CanaryStrategy{Steps: []v1alpha1.CanaryStep{
		{Weight: 10}, {Weight: 50, Window: &v1alpha1.DeployWindow{TimeZone: "Europe/Bern"}},
	}}))
	s.route()
	s.offer("1.0.0")
	s.play()
	s.offer("1.1.0", "1.0.0")
	s.play()
	if !s.until("1.1.0 canary 10%")() {
		t.Errorf("rollout state: %s", s.rolloutState())
	}
	same(t, "Stalled", condition(s.ms(), "Stalled"),
		`True TimeZoneUnknown: spec.updateStrategy.canary.steps[1].window.timeZone: time zone "Europe/Bern" does not exist; use a name from the IANA time zone database, such as Europe/Zurich`)
	s.edit(func(spec *v1alpha1.MicroserviceSpec) {
		spec.UpdateStrategy.Canary.Steps[1].Window.TimeZone = "Europe/Zurich"
	})
	s.play()
	same(t, "active", s.active().Spec.SemVer.Version, "1.1.0")
	same(t, "Stalled at the end", condition(s.ms(), "Stalled"), "")
}

// TestRollbackHook checks that a Rollback hook rolls the release back only if it answers for the current rollout.
func TestRollbackHook(t *testing.T) {
	t.Parallel()
	s := begin(t, steps(v1alpha1.CanaryStrategy{
		Steps: []v1alpha1.CanaryStep{{Weight: 10, Approval: &v1alpha1.CanaryApproval{}}},
		Hooks: []v1alpha1.Hook{{Name: "back", Type: "Rollback", URL: "http://hooks.example.com/a"}},
	}))
	s.route()
	s.offer("1.0.0")
	s.play()
	s.offer("1.1.0", "1.0.0")
	s.rest()
	asks := func(run int64) {
		s.outcome("1.1.0", func(st *v1alpha1.VersionedMicroserviceStatus, _ *v1alpha1.Rollout) {
			now := metav1.NowMicro()
			st.Hooks = []v1alpha1.HookStatus{{Name: "back", Type: "Rollback", ID: "x", Run: run, Phase: "Open", Time: &now, Message: "orders are dropping"}}
		})
		s.rest()
	}
	asks(s.inProgress().Sequence - 1)
	if !s.until("1.1.0 canary 10%")() {
		t.Errorf("an answer for another rollout causes a rollback: %s", s.rolloutState())
	}
	asks(s.inProgress().Sequence)
	if !s.until("1.1.0 error 0% RollbackRequested")() {
		t.Errorf("the canary is not rolled back: %s", s.rolloutState())
	}
}

// TestFirstReleaseOfAGateWithoutItsRecord checks that a first release that has not passed its hooks has a
// mark, so that it does not become active when the Microservice's status is lost. A release that was active
// has no mark, and remains active.
func TestFirstReleaseOfAGateWithoutItsRecord(t *testing.T) {
	t.Parallel()
	s := begin(t, steps(v1alpha1.CanaryStrategy{
		Steps: []v1alpha1.CanaryStep{{Weight: 10}},
		Hooks: []v1alpha1.Hook{{Name: "try", Type: "PreRollout", URL: "http://hooks.example.com/a"}},
	}))
	lose := func() {
		ms := s.ms()
		ms.Status = v1alpha1.MicroserviceStatus{}
		if err := env.Client.Status().Update(t.Context(), ms); err != nil {
			t.Fatal(err)
		}
		s.restart()
		s.rest()
	}
	mark := func() string { return s.release("1.0.0").Annotations[v1alpha1.AnnotationNeverActive] }
	s.offer("1.0.0")
	s.rest()
	same(t, "mark of a release that waits", mark(), "true")
	lose()
	if !s.until("1.0.0 pending 0%")() {
		t.Errorf("without the rollout state, a release that hooks have not approved is %s", s.rolloutState())
	}
	s.answer("1.0.0", "Open")
	s.rest()
	if !s.until("1.0.0 active 100%")() {
		t.Fatalf("the release does not pass the gate: %s", s.rolloutState())
	}
	same(t, "mark of an active release", mark(), "")
	lose()
	if !s.until("1.0.0 active 100%")() {
		t.Errorf("without the rollout state, the active release is %s", s.rolloutState())
	}
}

// TestFailedReleaseWithoutItsRecord checks that, when the Microservice's status is lost, a failed release
// goes through its steps again and does not count as active, because its own status shows the failure.
func TestFailedReleaseWithoutItsRecord(t *testing.T) {
	t.Parallel()
	s := begin(t, steps(v1alpha1.CanaryStrategy{Steps: []v1alpha1.CanaryStep{{Weight: 10, Pause: &v1alpha1.CanaryPause{Duration: "1s"}}}}))
	s.route()
	s.offer("1.0.0")
	s.play()
	s.broken["1.2.0"] = true
	s.offer("1.2.0", "1.0.0")
	s.play()
	s.offer("1.2.0", "1.1.0", "1.0.0")
	s.play()
	if got := s.rolloutState(); !strings.Contains(got, "1.2.0 error 0%") || !strings.Contains(got, "1.1.0 active 100%") {
		t.Fatalf("before: %s", got)
	}
	for version, reported := range map[string]v1alpha1.ReleaseStatus{"1.2.0": v1alpha1.ReleaseError, "1.1.0": v1alpha1.ReleaseActive, "1.0.0": v1alpha1.ReleaseDeprecated} {
		s.outcome(version, func(st *v1alpha1.VersionedMicroserviceStatus, _ *v1alpha1.Rollout) { st.Release = reported })
	}
	s.broken["1.2.0"] = false
	s.edit(func(spec *v1alpha1.MicroserviceSpec) {
		spec.UpdateStrategy.Canary.Steps[0].Pause = &v1alpha1.CanaryPause{Duration: "100h"}
	})
	ms := s.ms()
	ms.Status = v1alpha1.MicroserviceStatus{}
	if err := env.Client.Status().Update(t.Context(), ms); err != nil {
		t.Fatal(err)
	}
	s.restart()
	s.rest()
	if got := s.rolloutState(); !strings.Contains(got, "1.2.0 canary 10%") || !strings.Contains(got, "1.1.0 active 90%") || !strings.Contains(got, "1.0.0 deprecated 0%") {
		t.Errorf("without the rollout state, a failed release is %s", got)
	}
}
