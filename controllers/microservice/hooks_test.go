package microservice

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/analysis"
	"github.com/heighliner/heighliner/internal/release"
)

func TestReadSpec(t *testing.T) {
	t.Parallel()
	now := time.Date(2030, 1, 31, 12, 0, 0, 0, time.UTC)
	defaults := func(edit func(*release.Spec)) release.Spec {
		s := release.Spec{Replicas: 1, Standby: 1, MinimumAvailable: 3, Deadline: 10 * time.Minute, Drain: 30 * time.Second, Previews: release.Previews{MaxGroups: 20}}
		edit(&s)
		return s
	}
	hook := func(kind v1alpha1.HookType, steps ...string) v1alpha1.Hook {
		return v1alpha1.Hook{Name: string(kind), Type: kind, Steps: steps}
	}
	for name, test := range map[string]struct {
		spec v1alpha1.MicroserviceSpec
		want release.Spec
		err  string
	}{
		"nothing": {v1alpha1.MicroserviceSpec{}, defaults(func(*release.Spec) {}), ""},
		"previews": {v1alpha1.MicroserviceSpec{Previews: &v1alpha1.Previews{MaxAge: "48h", KeepAfterClose: "1h30m"}}, defaults(func(s *release.Spec) {
			s.Previews.MaxAge, s.Previews.KeepAfterClose = 48*time.Hour, 90*time.Minute
		}), ""},
		"preview slots": {v1alpha1.MicroserviceSpec{Previews: &v1alpha1.Previews{MaxGroups: 5}}, defaults(func(s *release.Spec) {
			s.Previews.MaxGroups = 5
		}), ""},
		"minReplicas of the autoscaler": {v1alpha1.MicroserviceSpec{Availability: v1alpha1.Availability{
			Replicas: 2, Autoscaling: &v1alpha1.Autoscaling{MinReplicas: ptr.To[int32](4), MaxReplicas: 9},
		}}, defaults(func(s *release.Spec) { s.Replicas, s.Autoscaled, s.SplitBy = 4, true, release.SplitByRoutes }), ""},
		"an autoscaler without minReplicas": {v1alpha1.MicroserviceSpec{Availability: v1alpha1.Availability{
			Replicas: 2, Autoscaling: &v1alpha1.Autoscaling{MaxReplicas: 9}, StandbyReplicas: ptr.To(intstr.FromString("Full")),
		}}, defaults(func(s *release.Spec) {
			s.Replicas, s.StandbyFull, s.Standby, s.Autoscaled, s.SplitBy = 2, true, 0, true, release.SplitByRoutes
		}), ""},
		"steps of all kinds": {v1alpha1.MicroserviceSpec{UpdateStrategy: v1alpha1.UpdateStrategy{Canary: &v1alpha1.CanaryStrategy{
			Scale: v1alpha1.ScaleMatchWeight, Analysis: &v1alpha1.CanaryAnalysis{},
			Steps: []v1alpha1.CanaryStep{
				{Match: true, Approval: &v1alpha1.CanaryApproval{}},
				{Name: "copies", MirrorPercent: 20, Pause: &v1alpha1.CanaryPause{Duration: "1m"}},
				{Name: "half", Weight: 50, Window: &v1alpha1.DeployWindow{To: "12:30"}},
			},
			Hooks: []v1alpha1.Hook{hook("ConfirmPromotion"), hook("ConfirmTrafficIncrease", "half"), hook("Event"), hook("PreRollout")},
		}}}, defaults(func(s *release.Spec) {
			s.Analysis, s.MatchWeight = true, true
			s.Gates = []release.Point{release.PreRollout, release.ConfirmPromotion}
			s.Steps = []release.Step{
				{Match: true, Approval: true},
				{Name: "copies", Mirror: 20, Pause: time.Minute},
				{Name: "half", Weight: 50, Confirm: true, Window: &release.Window{Open: true, Next: now.Add(30 * time.Minute)}},
			}
		}), ""},
		"a hook for all steps": {v1alpha1.MicroserviceSpec{UpdateStrategy: v1alpha1.UpdateStrategy{Canary: &v1alpha1.CanaryStrategy{
			Scale: v1alpha1.ScaleFull, Steps: []v1alpha1.CanaryStep{{Weight: 1}, {Weight: 2}},
			Hooks: []v1alpha1.Hook{hook("ConfirmTrafficIncrease"), hook("ConfirmRollout"), {Name: "early", Type: "ConfirmRollout", Previews: true}},
		}}}, defaults(func(s *release.Spec) {
			s.SplitBy = release.SplitByRoutes // required by the scale of this case
			s.PreviewGates = []release.Point{release.ConfirmRollout}
			s.Gates = []release.Point{release.ConfirmRollout}
			s.Steps = []release.Step{{Weight: 1, Confirm: true}, {Weight: 2, Confirm: true}}
		}), ""},
		"percentages of pods": {v1alpha1.MicroserviceSpec{UpdateStrategy: v1alpha1.UpdateStrategy{Canary: &v1alpha1.CanaryStrategy{
			Traffic: v1alpha1.TrafficPods, Steps: []v1alpha1.CanaryStep{{Weight: 1}},
		}}}, defaults(func(s *release.Spec) { s.SplitBy, s.Steps = release.SplitByPods, []release.Step{{Weight: 1}} }), ""},
		"hooks that are called in rounds": {v1alpha1.MicroserviceSpec{UpdateStrategy: v1alpha1.UpdateStrategy{Canary: &v1alpha1.CanaryStrategy{
			Steps: []v1alpha1.CanaryStep{{Weight: 1}}, Hooks: []v1alpha1.Hook{hook("Rollout")},
		}}}, defaults(func(s *release.Spec) {
			s.Analysis = true
			s.Steps = []release.Step{{Weight: 1}}
		}), ""},
		"an unknown time zone": {v1alpha1.MicroserviceSpec{UpdateStrategy: v1alpha1.UpdateStrategy{Canary: &v1alpha1.CanaryStrategy{
			Steps: []v1alpha1.CanaryStep{{Weight: 1}, {Weight: 2, Window: &v1alpha1.DeployWindow{TimeZone: "Mars"}}},
		}}}, defaults(func(s *release.Spec) {
			s.Steps = []release.Step{{Weight: 1}, {Weight: 2, Window: &release.Window{}}}
		}), `spec.updateStrategy.canary.steps[1].window.timeZone: time zone "Mars" does not exist; use a name from the IANA time zone database, such as Europe/Zurich`},
	} {
		got, err := readSpec(&v1alpha1.Microservice{Spec: test.spec}, 5*time.Second, now)
		text := ""
		if err != nil {
			text = err.Error()
		}
		same(t, name, got, test.want)
		same(t, name+": error", text, test.err)
	}
}

// TestOutcomes checks that hook results and measurements count only if they are for the current rollout and its gate.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	since := metav1.NewMicroTime(time.Unix(1_900_000_000, 5000))
	before := metav1.NewMicroTime(since.Add(-time.Minute))
	canary := &v1alpha1.CanaryStrategy{
		Steps: []v1alpha1.CanaryStep{{Name: "tenth", Weight: 10}, {Name: "half", Weight: 50}},
		Hooks: []v1alpha1.Hook{
			{Name: "a", Type: "ConfirmTrafficIncrease"}, {Name: "b", Type: "ConfirmTrafficIncrease", Steps: []string{"half"}},
			{Name: "c", Type: "ConfirmTrafficIncrease", Steps: []string{"tenth"}},
			{Name: "pre", Type: "PreRollout"}, {Name: "back", Type: "Rollback"}, {Name: "early", Type: "ConfirmRollout", Previews: true}, {Name: "late", Type: "ConfirmRollout"},
		},
	}
	hook := func(name string, kind v1alpha1.HookType, phase v1alpha1.HookPhase, message string) v1alpha1.HookStatus {
		return v1alpha1.HookStatus{Name: name, Type: kind, Run: 7, Step: 1, Since: &since, Phase: phase, Message: message}
	}
	more := func(name string, phase v1alpha1.HookPhase, message string) v1alpha1.HookStatus {
		return hook(name, "ConfirmTrafficIncrease", phase, message)
	}
	with := func(h v1alpha1.HookStatus, edit func(*v1alpha1.HookStatus)) v1alpha1.HookStatus {
		edit(&h)
		return h
	}
	run := v1alpha1.Rollout{Release: "shop-1", Sequence: 7, Step: 1, Gate: "ConfirmTrafficIncrease", GateTime: &since}
	atStart := run
	atStart.Step, atStart.Gate = 0, "PreRollout"
	gate := func(r v1alpha1.Rollout, open, failed bool, message string) []release.GateFact {
		return []release.GateFact{{Rollout: 7, Step: int(r.Step), Point: release.Point(r.Gate), Since: since.Time, Open: open, Failed: failed, Message: message}}
	}
	free := run
	free.Gate, free.GateTime = "", nil
	early := run
	early.Gate, early.Step = "ConfirmRollout", 0
	for name, test := range map[string]struct {
		run  v1alpha1.Rollout
		hook []v1alpha1.HookStatus
		want release.Object
	}{
		"all hooks of a gate": {early, []v1alpha1.HookStatus{hook("early", "ConfirmRollout", "Open", "")}, release.Object{Gates: gate(early, false, false, "late has not been called yet")}},
		"no gate":             {free, []v1alpha1.HookStatus{more("a", "Open", "")}, release.Object{}},
		"no hook called yet":  {run, nil, release.Object{Gates: gate(run, false, false, "a has not been called yet, b has not been called yet")}},
		"one hook approves": {run, []v1alpha1.HookStatus{more("a", "Open", ""), more("b", "Waiting", "HTTP 409: freeze until Monday")},
			release.Object{Gates: gate(run, false, false, "b responded: HTTP 409: freeze until Monday")}},
		"all hooks approve": {run, []v1alpha1.HookStatus{more("a", "Open", ""), more("b", "Open", "")}, release.Object{Gates: gate(run, true, false, "")}},
		"another rollout": {run, []v1alpha1.HookStatus{with(more("a", "Open", ""), func(h *v1alpha1.HookStatus) { h.Run = 6 }), more("b", "Open", "")},
			release.Object{Gates: gate(run, false, false, "a has not been called yet")}},
		"another wait": {run, []v1alpha1.HookStatus{with(more("a", "Open", ""), func(h *v1alpha1.HookStatus) { h.Since = &before }), more("b", "Open", "")},
			release.Object{Gates: gate(run, false, false, "a has not been called yet")}},
		"no wait": {run, []v1alpha1.HookStatus{with(more("a", "Open", ""), func(h *v1alpha1.HookStatus) { h.Since = nil }), more("b", "Open", "")},
			release.Object{Gates: gate(run, false, false, "a has not been called yet")}},
		"another type": {run, []v1alpha1.HookStatus{with(more("a", "Open", ""), func(h *v1alpha1.HookStatus) { h.Type = "Rollback" }), more("b", "Open", "")},
			release.Object{Gates: gate(run, false, false, "a has not been called yet"), Rollback: &release.RollbackFact{Rollout: 7, Message: "a is open"}}},
		"a check passed": {atStart, []v1alpha1.HookStatus{hook("pre", "PreRollout", "Delivered", "")}, release.Object{Gates: gate(atStart, true, false, "")}},
		"a check without a response": {atStart, []v1alpha1.HookStatus{with(hook("pre", "PreRollout", "Waiting", "connection refused"), func(h *v1alpha1.HookStatus) { h.Attempts = 2 })},
			release.Object{Gates: []release.GateFact{{Rollout: 7, Point: "PreRollout", Since: since.Time, Unanswered: true, Message: "pre did not respond: connection refused"}}}},
		"a check in progress": {atStart, []v1alpha1.HookStatus{hook("pre", "PreRollout", "Waiting", "")}, release.Object{Gates: gate(atStart, false, false, "pre is waiting")}},
		"a check failed":      {atStart, []v1alpha1.HookStatus{hook("pre", "PreRollout", "Failed", "HTTP 409: 2 of 9 tests")}, release.Object{Gates: gate(atStart, false, true, "pre responded: HTTP 409: 2 of 9 tests")}},
		"one hook requests a rollback": {free, []v1alpha1.HookStatus{hook("back", "Rollback", "Open", "HTTP 200: orders are dropping")},
			release.Object{Rollback: &release.RollbackFact{Rollout: 7, Message: "back responded: HTTP 200: orders are dropping"}}},
		"no rollback requested":                        {free, []v1alpha1.HookStatus{hook("back", "Rollback", "Waiting", "")}, release.Object{}},
		"a rollback requested in the previous rollout": {free, []v1alpha1.HookStatus{with(hook("back", "Rollback", "Open", ""), func(h *v1alpha1.HookStatus) { h.Run = 6 })}, release.Object{}},
		"a gate whose hooks were removed": {func() v1alpha1.Rollout { r := run; r.Gate = "ConfirmPromotion"; return r }(), nil,
			release.Object{Gates: []release.GateFact{{Rollout: 7, Step: 1, Point: "ConfirmPromotion", Since: since.Time, Open: true}}}},
	} {
		ms := &v1alpha1.Microservice{}
		ms.Spec.UpdateStrategy.Canary = canary
		r := test.run
		ms.Status.ReleaseGroups = []v1alpha1.ReleaseGroup{{Slug: "other"}, {Slug: "1-x", Rollout: &r}}
		c := &v1alpha1.VersionedMicroservice{ObjectMeta: metav1.ObjectMeta{Name: "shop-1"}}
		c.Status.Hooks = test.hook
		var got release.Object
		readHooks(ms, c, &got)
		same(t, name, got, test.want)
		if r.Gate == "ConfirmRollout" { // one hook of this gate is for previews
			ms.Status.ReleaseGroups[1].Level, got = v1alpha1.LevelPreview, release.Object{}
			readHooks(ms, c, &got)
			same(t, name+", of a preview", got, release.Object{Gates: gate(r, true, false, "")})
			continue
		}

		c.Name = "shop-2"
		got = release.Object{}
		readHooks(ms, c, &got)
		same(t, name+": of a release that is not in progress", got, release.Object{})
	}
}

// TestJobsOfAFailure checks that the Jobs of a failed release's hooks count as soon as the hooks are called,
// even while a quota rejects the Jobs.
func TestJobsOfAFailure(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		kind  v1alpha1.HookType
		job   *v1alpha1.HookJob
		state v1alpha1.ReleaseStatus
		phase v1alpha1.HookPhase
		want  bool
	}{
		"no row":            {v1alpha1.HookPostRollout, &v1alpha1.HookJob{}, v1alpha1.ReleaseError, v1alpha1.HookWaiting, false},
		"the hook waits":    {v1alpha1.HookPostRollout, &v1alpha1.HookJob{}, v1alpha1.ReleaseError, v1alpha1.HookWaiting, true},
		"the Job has ended": {v1alpha1.HookPostRollout, &v1alpha1.HookJob{}, v1alpha1.ReleaseError, v1alpha1.HookDelivered, false},
		"a URL":             {v1alpha1.HookPostRollout, nil, v1alpha1.ReleaseError, v1alpha1.HookWaiting, false},
		"an active release": {v1alpha1.HookPostRollout, &v1alpha1.HookJob{}, v1alpha1.ReleaseActive, v1alpha1.HookWaiting, false},
		"a gate":            {v1alpha1.HookConfirmRollout, &v1alpha1.HookJob{}, v1alpha1.ReleaseError, v1alpha1.HookWaiting, false},
	} {
		ms, c := &v1alpha1.Microservice{}, &v1alpha1.VersionedMicroservice{}
		c.Name = "shop-1-1-0"
		if name != "no row" {
			ms.Status.ReleaseGroups = []v1alpha1.ReleaseGroup{{Releases: []v1alpha1.Release{{VersionedMicroservice: c.Name}}}}
		}
		ms.Spec.UpdateStrategy.Canary = &v1alpha1.CanaryStrategy{Hooks: []v1alpha1.Hook{{Name: "revert", Type: test.kind, Job: test.job}}}
		c.Status.Release = test.state
		c.Status.Hooks = []v1alpha1.HookStatus{{Name: "revert", Type: test.kind, Phase: test.phase}}
		if got := (&observed{ms: ms}).readObject(c).ActiveJobs; got != test.want {
			t.Errorf("%s: %t", name, got)
		}
		c.Status.Hooks[0].Message = "cannot create Job shop-1-1-0-0123456789: exceeded quota"
		if got := (&observed{ms: ms}).readObject(c).UncreatedJob; (got == "revert") != test.want {
			t.Errorf("%s: the Job of hook %q is rejected", name, got)
		}
		var spec release.Spec
		if err := readCanary(ms.Spec.UpdateStrategy.Canary, &spec, time.Time{}); err != nil || spec.FailureJobs != (test.kind == v1alpha1.HookPostRollout && test.job != nil) {
			t.Errorf("%s: a Job is created for a failure: %t, %v", name, spec.FailureJobs, err)
		}
		if spec.GateJobs != (test.kind == v1alpha1.HookConfirmRollout && test.job != nil) {
			t.Errorf("%s: a gate waits for a Job: %t", name, spec.GateJobs)
		}
	}
}

// TestJobsOfGates checks that a gate's Job counts until it has ended, even if the rollout ended earlier.
func TestJobsOfGates(t *testing.T) {
	t.Parallel()
	cleanup := v1alpha1.HookStatus{Type: v1alpha1.HookPostRollout, Phase: v1alpha1.HookWaiting, Job: "c"}
	for name, test := range map[string]struct {
		jobs  int32
		hooks []v1alpha1.HookStatus
		want  bool
	}{
		"a migration":                        {1, []v1alpha1.HookStatus{{Type: v1alpha1.HookConfirmRollout, Phase: v1alpha1.HookWaiting, Job: "a"}}, true},
		"a test":                             {1, []v1alpha1.HookStatus{{Type: v1alpha1.HookPreRollout, Phase: v1alpha1.HookWaiting, Job: "a"}}, true},
		"a migration that succeeded":         {1, []v1alpha1.HookStatus{{Type: v1alpha1.HookConfirmRollout, Phase: v1alpha1.HookOpen, Job: "a"}, cleanup}, false},
		"a migration whose hook was renamed": {1, nil, true},
		"a migration whose hook was renamed, next to a cleanup": {2, []v1alpha1.HookStatus{cleanup}, true},
		"a migration that was deleted":                          {0, []v1alpha1.HookStatus{{Type: v1alpha1.HookConfirmRollout, Phase: v1alpha1.HookWaiting, Job: "a"}}, false},
		"a call to a URL":                                       {1, []v1alpha1.HookStatus{{Type: v1alpha1.HookConfirmRollout, Phase: v1alpha1.HookWaiting}, cleanup}, false},
		"a cleanup":                                             {1, []v1alpha1.HookStatus{cleanup}, false},
	} {
		c := &v1alpha1.VersionedMicroservice{}
		c.Status.ActiveJobs, c.Status.Hooks = test.jobs, test.hooks
		if got := (&observed{ms: &v1alpha1.Microservice{}}).readObject(c).GateJobs; got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestReadVerdict(t *testing.T) {
	t.Parallel()
	if got := readVerdict(nil); got != nil {
		t.Errorf("without measurements, the result is %v", got)
	}
	since := metav1.NewMicroTime(time.Unix(1_900_000_000, 5000))
	for _, phase := range []release.VerdictPhase{release.VerdictRunning, release.VerdictPassed, release.VerdictFailed, release.VerdictInconclusive, release.VerdictNoTraffic} {
		got := readVerdict(&v1alpha1.ReleaseAnalysis{Run: 7, Step: 2, Since: since, Phase: v1alpha1.AnalysisPhase(phase), Message: "m", Rounds: 3})
		same(t, string(phase), got, &release.Verdict{Rollout: 7, Step: 2, Since: since.Time, Phase: phase, Message: "m"})
	}
}

// TestWords checks that the API and the planner use the same values.
func TestWords(t *testing.T) {
	t.Parallel()
	for api, planner := range map[string]string{
		string(v1alpha1.AnalysisRunning): string(release.VerdictRunning), string(v1alpha1.AnalysisPassed): string(release.VerdictPassed),
		string(v1alpha1.AnalysisFailed): string(release.VerdictFailed), string(v1alpha1.AnalysisInconclusive): string(release.VerdictInconclusive),
		string(v1alpha1.AnalysisNoTraffic):          string(release.VerdictNoTraffic),
		string(v1alpha1.GateConfirmRollout):         string(release.ConfirmRollout),
		string(v1alpha1.GatePreRollout):             string(release.PreRollout),
		string(v1alpha1.GateTogether):               string(release.Together),
		string(v1alpha1.GateConfirmTrafficIncrease): string(release.ConfirmTrafficIncrease),
		string(v1alpha1.GateConfirmPromotion):       string(release.ConfirmPromotion),
	} {
		if api != planner {
			t.Errorf("the API uses %q, and the planner %q", api, planner)
		}
	}
}

func TestResultsOfAnEditedAnalysisDoNotCount(t *testing.T) {
	spec := func(count int32) *v1alpha1.CanaryAnalysis {
		return &v1alpha1.CanaryAnalysis{Count: count, Metrics: []v1alpha1.AnalysisMetric{{Name: "a", SuccessRate: &v1alpha1.SuccessRateMetric{}, ThresholdRange: v1alpha1.ValueRange{Min: new(99.0)}}}}
	}
	for name, tc := range map[string]struct {
		current  *v1alpha1.CanaryAnalysis // nil means that the template cannot be used
		measured *v1alpha1.CanaryAnalysis // nil means that only hooks were called
		phase    v1alpha1.AnalysisPhase
		want     release.VerdictPhase
	}{
		"the current analysis":          {spec(1), spec(1), v1alpha1.AnalysisPassed, release.VerdictPassed},
		"another":                       {spec(1), spec(3), v1alpha1.AnalysisPassed, release.VerdictRunning},
		"a failure":                     {spec(1), spec(3), v1alpha1.AnalysisFailed, release.VerdictFailed},
		"hooks before":                  {spec(1), nil, v1alpha1.AnalysisPassed, release.VerdictRunning},
		"without a template":            {nil, spec(1), v1alpha1.AnalysisPassed, release.VerdictRunning},
		"hooks before, and no template": {nil, nil, v1alpha1.AnalysisPassed, release.VerdictRunning},
		"a failure, without a template": {nil, spec(1), v1alpha1.AnalysisFailed, release.VerdictFailed},
	} {
		t.Run(name, func(t *testing.T) {
			c := &v1alpha1.VersionedMicroservice{}
			c.Status.Analysis = &v1alpha1.ReleaseAnalysis{Phase: tc.phase, SpecHash: analysis.SpecHash(tc.measured)}
			object := release.Object{Analysis: readVerdict(c.Status.Analysis)}
			ms := &v1alpha1.Microservice{}
			ms.Spec.UpdateStrategy.Canary = &v1alpha1.CanaryStrategy{AnalysisTemplateRef: &v1alpha1.AnalysisTemplateReference{Name: "http"}}
			(&observed{ms: ms, analysis: tc.current}).readMeasured(c, &object)
			same(t, "phase", object.Analysis.Phase, tc.want)
		})
	}
}
