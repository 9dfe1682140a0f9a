package hook

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// endedJob returns a Job that ran for 90 s.
func endedJob(condition batchv1.JobConditionType, message string) *batchv1.Job {
	begin := metav1.NewTime(time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC))
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "shop-1-0-0-abc", Labels: map[string]string{v1alpha1.LabelHook: "migrate"}, Annotations: map[string]string{
		v1alpha1.AnnotationHookCall: "a", v1alpha1.AnnotationHookType: string(v1alpha1.HookConfirmRollout),
	}}}
	job.Status.StartTime = &begin
	job.Status.Conditions = []batchv1.JobCondition{{Type: condition, Status: corev1.ConditionTrue, Message: message, LastTransitionTime: metav1.NewTime(begin.Add(90 * time.Second))}}
	return job
}

func TestJobName(t *testing.T) {
	t.Parallel()
	name := func(release, id string) string {
		return JobName(Call{Body: Body{Release: release, ID: id}})
	}
	const id = "0123456789abcdef0123456789abcdef"
	for release, want := range map[string]string{
		"shop-1-0-0-abc":               "shop-1-0-0-abc-0123456789",
		strings.Repeat("a", 63):        strings.Repeat("a", 52) + "-0123456789",
		strings.Repeat("a", 51) + "-b": strings.Repeat("a", 51) + "-0123456789",
	} {
		if got := name(release, id); got != want || len(got) > 63 {
			t.Errorf("the Job of %s is %s, want %s", release, got, want)
		}
	}
	if name("shop", id) == name("shop", "1"+id[1:]) {
		t.Error("two calls have the same Job")
	}
}

func TestJobOutcome(t *testing.T) {
	t.Parallel()
	running := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "shop-1-0-0-abc"}}
	started := running.DeepCopy()
	started.Status.Active, started.Status.Ready = 1, ptr.To(int32(1))
	end := time.Date(2030, 1, 1, 12, 1, 30, 0, time.UTC)
	for name, test := range map[string]struct {
		job  *batchv1.Job
		kind v1alpha1.HookType
		log  string
		want Outcome
	}{
		"no pod":  {running, v1alpha1.HookConfirmRollout, "", Outcome{Running: true, Job: running.Name, Message: "Job shop-1-0-0-abc has no ready pod yet: if no pod becomes ready, see the events of the Job and of its pod"}},
		"running": {started, v1alpha1.HookConfirmRollout, "a", Outcome{Running: true, Job: running.Name, Message: "Job shop-1-0-0-abc is running"}},
		"success": {endedJob(batchv1.JobComplete, ""), v1alpha1.HookConfirmRollout, "3 tables\n", Outcome{Yes: true, Attempts: 1, Job: running.Name, Log: "3 tables", Message: "Job shop-1-0-0-abc succeeded after 1m30s", Time: end}},
		"a gate that fails": {endedJob(batchv1.JobFailed, "Job has reached the specified backoff limit"), v1alpha1.HookConfirmPromotion, "a\n\x1b[31mno table orders\x1b[0m\n", Outcome{
			Refused: true, Attempts: 1, Job: running.Name, Log: "a\n[31mno table orders[0m", Message: "Job shop-1-0-0-abc failed after 1m30s: [31mno table orders[0m", Time: end,
		}},
		"a check that fails": {endedJob(batchv1.JobFailed, "Job has reached the specified backoff limit"), v1alpha1.HookRollout, "", Outcome{
			Attempts: 1, Job: running.Name, Message: "Job shop-1-0-0-abc failed after 1m30s: Job has reached the specified backoff limit", Time: end,
		}},
	} {
		if diff := cmp.Diff(test.want, JobOutcome(test.job, v1alpha1.Hook{Type: test.kind, Job: &v1alpha1.HookJob{}}, test.log, end)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	log := JobOutcome(endedJob(batchv1.JobFailed, ""), v1alpha1.Hook{Type: v1alpha1.HookRollout}, strings.Repeat("ä\n", 3000)+"the end", end).Log
	if len(log) > maxLog || !strings.HasSuffix(log, "\nthe end") || strings.ContainsRune(log, '\uFFFD') {
		t.Errorf("the log is %d bytes long and ends with %q", len(log), log[max(0, len(log)-20):])
	}
}

// TestJobWithoutANode checks that a round does not wait longer for a Job whose pod has no node than for a Job
// whose pod is running. Gates continue to wait for a Job whose pod has no node.
func TestJobWithoutANode(t *testing.T) {
	t.Parallel()
	created := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "shop-1-0-0-abc", CreationTimestamp: metav1.NewTime(created)}}
	job.Status.Active = 1
	job.Spec.Template.Spec.ActiveDeadlineSeconds = ptr.To(int64(120))
	round := v1alpha1.Hook{Name: "smoke", Type: v1alpha1.HookRollout, Job: &v1alpha1.HookJob{Timeout: "2m"}}
	gate := round
	gate.Type = v1alpha1.HookConfirmPromotion
	ready := job.DeepCopy()
	ready.Status.Ready = ptr.To(int32(1))
	again := job.DeepCopy()
	again.Status.Failed = 1
	ended, met, target := job.DeepCopy(), job.DeepCopy(), job.DeepCopy()
	ended.Status.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{Succeeded: []types.UID{"pod"}}
	met.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobSuccessCriteriaMet, Status: corev1.ConditionTrue}}
	target.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobFailureTarget, Status: corev1.ConditionTrue}}
	for name, test := range map[string]struct {
		job   *batchv1.Job
		hook  v1alpha1.Hook
		after time.Duration
		want  bool
	}{
		"before its timeout":               {job, round, 2*time.Minute - time.Second, false},
		"after its timeout":                {job, round, 2 * time.Minute, true},
		"a pod that runs":                  {ready, round, time.Hour, false},
		"a pod that has just ended":        {ended, round, time.Hour, false},
		"a Job that has just succeeded":    {met, round, time.Hour, false},
		"a Job that has just failed":       {target, round, time.Hour, false},
		"a pod that replaces a failed one": {again, round, 9 * time.Minute, false},
		"a second pod without a node":      {again, round, 10 * time.Minute, true},
		"a gate":                           {job, gate, time.Hour, false},
		"a Job that has ended meanwhile":   {endedJob(batchv1.JobComplete, ""), round, time.Hour, false},
		"a Job that has no pod object":     {&batchv1.Job{ObjectMeta: job.ObjectMeta}, round, 10 * time.Minute, true},
		"the default timeout is 10 min":    {&batchv1.Job{ObjectMeta: job.ObjectMeta}, round, 9 * time.Minute, false},
	} {
		got := JobOutcome(test.job, test.hook, "", created.Add(test.after))
		if got.Unanswered != test.want || test.want && !strings.Contains(got.Message, "Job shop-1-0-0-abc has no scheduled pod after ") {
			t.Errorf("%s: %+v", name, got)
		}
		s := answer(v1alpha1.HookStatus{Type: test.hook.Type, Phase: v1alpha1.HookWaiting}, got, created.Add(test.after))
		if Unanswered(s) != test.want {
			t.Errorf("%s: the status is %+v", name, s)
		}
	}
}

// TestJobPhase checks that the outcomes of Jobs are converted to the phases that are read by the gates of a
// rollout, and that the outcome of a running Job is written only once.
func TestJobPhase(t *testing.T) {
	t.Parallel()
	at := metav1.NowMicro()
	later := at.Add(time.Hour)
	for name, test := range map[string]struct {
		kind v1alpha1.HookType
		o    Outcome
		want v1alpha1.HookPhase
	}{
		"a gate waits":           {v1alpha1.HookConfirmRollout, Outcome{Running: true, Message: "a"}, v1alpha1.HookWaiting},
		"a check waits":          {v1alpha1.HookPreRollout, Outcome{Running: true, Message: "a"}, v1alpha1.HookWaiting},
		"a notification waits":   {v1alpha1.HookPostRollout, Outcome{Running: true, Message: "a"}, v1alpha1.HookWaiting},
		"a gate opens":           {v1alpha1.HookConfirmRollout, Outcome{Yes: true, Attempts: 1}, v1alpha1.HookOpen},
		"a gate fails":           {v1alpha1.HookConfirmRollout, Outcome{Refused: true, Attempts: 1}, v1alpha1.HookFailed},
		"a check passes":         {v1alpha1.HookRollout, Outcome{Yes: true, Attempts: 1}, v1alpha1.HookDelivered},
		"a check fails":          {v1alpha1.HookRollout, Outcome{Attempts: 1}, v1alpha1.HookFailed},
		"a notification fails":   {v1alpha1.HookPostRollout, Outcome{Attempts: 1}, v1alpha1.HookFailed},
		"a notification is done": {v1alpha1.HookPostRollout, Outcome{Yes: true, Attempts: 1}, v1alpha1.HookDelivered},
	} {
		first := answer(v1alpha1.HookStatus{Type: test.kind, Phase: v1alpha1.HookWaiting, Time: &at}, test.o, later)
		if first.Phase != test.want {
			t.Errorf("%s: %s", name, first.Phase)
		}
		if again := answer(first, test.o, later.Add(time.Hour)); test.o.Running && !cmp.Equal(first, again) {
			t.Errorf("%s: it is written again: %s", name, cmp.Diff(first, again))
		}
	}
}

func TestObsoleteJob(t *testing.T) {
	t.Parallel()
	p := &Rollout{Microservice: &v1alpha1.Microservice{}}
	p.Microservice.Spec.UpdateStrategy.Canary = &v1alpha1.CanaryStrategy{Hooks: []v1alpha1.Hook{{Name: "migrate", Job: &v1alpha1.HookJob{TTLAfterFinished: "1h"}}}}
	asked := []Call{{Hook: p.hooks()[0], Body: Body{ID: "a"}}}
	done := endedJob(batchv1.JobComplete, "")
	end := done.Status.Conditions[0].LastTransitionTime.Time
	load := &batchv1.Job{ObjectMeta: *done.ObjectMeta.DeepCopy()}
	load.Annotations[v1alpha1.AnnotationHookType] = string(v1alpha1.HookRollout)
	status := func(phase v1alpha1.HookPhase) []v1alpha1.HookStatus {
		return []v1alpha1.HookStatus{{Name: "migrate", ID: "a", Phase: phase}}
	}
	for name, test := range map[string]struct {
		job      *batchv1.Job
		known    []v1alpha1.HookStatus
		asked    []Call
		obsolete bool
		at       time.Time
	}{
		"its result is not in the status": {done, nil, asked, false, time.Time{}},
		"it is in the status as running":  {done, status(v1alpha1.HookWaiting), asked, false, time.Time{}},
		"its result is in the status":     {done, status(v1alpha1.HookOpen), asked, true, end.Add(time.Hour)},
		"it ended, and is not needed":     {done, nil, nil, true, end.Add(time.Hour)},
		"a migration runs, and is not needed": {func() *batchv1.Job {
			j := &batchv1.Job{ObjectMeta: *done.ObjectMeta.DeepCopy()}
			j.Status.Active, j.Status.Ready = 1, ptr.To(int32(1))
			return j
		}(), nil, nil, false, time.Time{}},
		"a migration that has not started is not needed": {&batchv1.Job{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(end), Annotations: done.Annotations}}, nil, nil, true, end.Add(10 * time.Minute)},
		"a load test runs":                        {load, nil, asked, false, time.Time{}},
		"a load test runs in a step that is over": {load, status(v1alpha1.HookDelivered), nil, true, time.Time{}},
		"the hook is removed: the default is 24 h": {func() *batchv1.Job {
			j := done.DeepCopy()
			j.Labels[v1alpha1.LabelHook] = "gone"
			return j
		}(), nil, nil, true, end.Add(24 * time.Hour)},
	} {
		if obsolete, at := p.Obsolete(test.job, test.known, test.asked); obsolete != test.obsolete || !at.Equal(test.at) {
			t.Errorf("%s: obsolete %v, at %s", name, obsolete, at)
		}
	}
	p.Unmeasured = true // The template of the analysis is deleted, and may be created again within the round.
	if obsolete, _ := p.Obsolete(load, nil, nil); obsolete {
		t.Error("a load test is stopped when its analysis cannot be used, and would run a second time")
	}
}

func TestJobVariables(t *testing.T) {
	t.Parallel()
	q := Call{
		Hook: v1alpha1.Hook{Name: "smoke", Type: v1alpha1.HookPreRollout, Job: &v1alpha1.HookJob{Env: []v1alpha1.HookJobVariable{{Name: "TARGET", Value: "$(HLNR_URL)"}}}},
		Body: Body{ID: "a", Type: v1alpha1.HookPreRollout, Name: "smoke", Namespace: "shop", Microservice: "shop", Group: "1-x", Release: "shop-1", Version: "1.0.0", PreviousVersion: "0.9.0", Services: []string{"web-1", "api-1"}, URL: "https://canary.example.com", Step: 1, StepName: "tenth", Weight: 10, Phase: v1alpha1.ReleaseCanary, Reason: "Started", Passed: []string{"migrate", "freeze"}},
	}
	got := map[string]string{}
	for _, e := range Variables(q) {
		got[e.Name] = e.Value
	}
	want := map[string]string{
		"HLNR_HOOK": "smoke", "HLNR_HOOK_TYPE": "PreRollout", "HLNR_CALL": "a", "HLNR_NAMESPACE": "shop", "HLNR_MICROSERVICE": "shop", "HLNR_GROUP": "1-x",
		"HLNR_RELEASE": "shop-1", "HLNR_VERSION": "1.0.0", "HLNR_PREVIOUS_VERSION": "0.9.0", "HLNR_STATUS": "canary", "HLNR_REASON": "Started", "HLNR_STEP": "1",
		"HLNR_STEP_NAME": "tenth", "HLNR_WEIGHT": "10", "HLNR_SERVICES": "web-1,api-1", "HLNR_URL": "https://canary.example.com", "HLNR_PASSED": "migrate,freeze", "TARGET": "$(HLNR_URL)",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestLostJob checks that the message about a Job that was deleted before its result was known contains only a fix that applies to the type of
// the hook. The Retry decision starts a release again if a gate of the release failed, and is rejected for an active release.
func TestLostJob(t *testing.T) {
	t.Parallel()
	for kind, want := range map[v1alpha1.HookType]string{
		v1alpha1.HookConfirmRollout: "set spec.decision.action to Retry and spec.decision.id to a new value to start the release again",
		v1alpha1.HookRollout:        "the next round creates another Job",
		v1alpha1.HookPostRollout:    "if its work is not complete, complete it manually",
		v1alpha1.HookPostPreview:    "if its work is not complete, complete it manually",
	} {
		o := Lost(Call{Hook: v1alpha1.Hook{Type: kind}}, "shop-1", time.Time{})
		if _, got, _ := strings.Cut(o.Message, ": "); got != want {
			t.Errorf("%s: %q, want %q", kind, got, want)
		}
	}
}
