package versionedmicroservice

import (
	"fmt"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/analysis"
	"github.com/heighliner/heighliner/internal/hook"
)

// loaded adds a Job with a load test to each round.
func loaded(ms *v1alpha1.Microservice) {
	ms.Spec.UpdateStrategy.Canary.Hooks = []v1alpha1.Hook{{Name: "load", Type: v1alpha1.HookRollout, Job: &v1alpha1.HookJob{Command: []string{"/load"}}}}
}

// jobFor returns the Job for a call.
func jobFor(id string) hookJob {
	return hookJob{Job: &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "job-" + id, Labels: map[string]string{v1alpha1.LabelHook: "load"}, Annotations: map[string]string{
		v1alpha1.AnnotationHookCall: id, v1alpha1.AnnotationHookType: string(v1alpha1.HookRollout),
	}}}}
}

// TestFinishedJobsOfRounds checks that a hook that is called once a minute for a day does not leave behind 1,440 Jobs and their pods.
func TestFinishedJobsOfRounds(t *testing.T) {
	t.Parallel()
	o := rolloutScene(loaded)
	see(o)
	now := noon.Add(24 * time.Hour)
	for i := range 1439 {
		job := jobFor(fmt.Sprint(i))
		job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Add(-time.Duration(i) * time.Minute))}}
		o.jobs = append(o.jobs, job)
	}
	p := planJobs(o, nil, nil, now)
	if left := len(o.jobs) - len(p.remove); left > 3 {
		t.Errorf("%d finished Jobs of one hook of one release are kept", left)
	}
}

// TestRequeueForAJobWithoutANode checks that the release is requeued for the time at which a Job whose pod has
// no node counts as not started, because no event reports this.
func TestRequeueForAJobWithoutANode(t *testing.T) {
	t.Parallel()
	o := rolloutScene(loaded)
	see(o)
	job := jobFor("a")
	job.CreationTimestamp = metav1.NewTime(noon)
	o.jobs = []hookJob{job}
	call := hook.Call{Hook: o.microservice.Spec.UpdateStrategy.Canary.Hooks[0], Body: hook.Body{ID: "a"}}
	calls := []hook.Call{call}
	if at := planJobs(o, calls, calls, noon.Add(time.Minute)).next; !at.Equal(noon.Add(10 * time.Minute)) {
		t.Errorf("the next reconcile is at %v", at)
	}
	if p := planJobs(o, calls, calls, noon.Add(10*time.Minute)); !p.next.IsZero() || len(p.remove) > 0 {
		t.Errorf("afterwards: requeue at %v, %d Jobs deleted", p.next, len(p.remove))
	}
	if got := o.jobOutcomes(calls, noon.Add(10*time.Minute))["a"]; !got.Unanswered {
		t.Errorf("the outcome is %+v", got)
	}
	calls[0].Hook.Job = nil // edited to a URL
	if at := planJobs(o, calls, calls, noon.Add(time.Minute)).next; !at.IsZero() {
		t.Errorf("for a URL, the next reconcile is at %v", at)
	}
}

// TestLogOfAJob checks that a Job reports the message of the release's container, or of one of its failed
// init containers. A native sidecar, which exits after these containers, reports nothing.
func TestLogOfAJob(t *testing.T) {
	t.Parallel()
	ended := func(name string, code int32, message string, after time.Duration) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Message: message, FinishedAt: metav1.NewTime(noon.Add(after))}}}
	}
	waiting := corev1.ContainerStatus{Name: "shop", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "PodInitializing"}}}
	for name, test := range map[string]struct {
		init, containers []corev1.ContainerStatus
		want             string
	}{
		"an init container fails":                   {[]corev1.ContainerStatus{ended("wait", 1, "no database", 0)}, []corev1.ContainerStatus{waiting}, "no database"},
		"an init container fails, with a sidecar":   {[]corev1.ContainerStatus{ended("proxy", 143, "", time.Second), ended("wait", 1, "no database", 0)}, []corev1.ContainerStatus{waiting}, "no database"},
		"an init container fails after another one": {[]corev1.ContainerStatus{ended("read", 0, "read", 0), ended("wait", 1, "no database", time.Second)}, []corev1.ContainerStatus{waiting}, "no database"},
		"a sidecar ends last":                       {[]corev1.ContainerStatus{ended("proxy", 143, "", time.Second)}, []corev1.ContainerStatus{ended("shop", 1, "locked", 0)}, "locked"},
		"the Job succeeds, with a sidecar":          {[]corev1.ContainerStatus{ended("proxy", 0, "", time.Second)}, []corev1.ContainerStatus{ended("shop", 0, "3 tables", 0)}, "3 tables"},
		"an injected container failed":              {nil, []corev1.ContainerStatus{ended("mesh", 1, "reset", -time.Second), ended("shop", 0, "3 tables", 0)}, "3 tables"},
		"no container has ended":                    {nil, []corev1.ContainerStatus{waiting}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			job := jobFor("a")
			job.Namespace, job.UID = "shop", "uid"
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
				Namespace: "shop", Name: "job-a-1", Labels: map[string]string{batchv1.JobNameLabel: job.Name},
				OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(job, batchv1.SchemeGroupVersion.WithKind("Job"))},
			}}
			pod.Status = corev1.PodStatus{InitContainerStatuses: test.init, ContainerStatuses: test.containers}
			if got := fakeReconciler(t, noon, pod).jobLog(t.Context(), job, "shop"); got != test.want {
				t.Errorf("the log is %q", got)
			}
		})
	}
}

// TestFailingMetricsBehindAJob checks that metrics outside of their ranges fail the canary, even while a
// Rollout hook's Job has no node: "failed: any metric is outside of its ranges"
// (docs/explanation/analysis.md).
func TestFailingMetricsBehindAJob(t *testing.T) {
	t.Parallel()
	o := rolloutScene(func(ms *v1alpha1.Microservice) { measured(ms); loaded(ms) })
	ask := &answers{round: &analysis.Round{Measurements: []analysis.Measurement{{Metric: "rate", Result: v1alpha1.MeasurementFailed, Value: "12"}}}}
	for minute := range 61 {
		c := runChecks(ask, see(o), noon.Add(time.Duration(minute)*time.Minute))
		o.release.Status.Analysis, o.release.Status.Hooks = c.analysis, c.hooks
		for _, q := range c.jobs.create {
			o.jobs = []hookJob{jobFor(q.Body.ID)} // The Job has no pod yet.
		}
	}
	if a := o.release.Status.Analysis; a.Phase != v1alpha1.AnalysisFailed {
		t.Errorf("after %d rounds that measured a failing canary within an hour, the analysis is %s, with %d failed rounds", len(ask.asked), a.Phase, a.Failures)
	}
}

// TestRoundOfAReleaseWithoutARow checks that the load test of a superseded release is stopped, but that its
// migration runs to completion.
func TestRoundOfAReleaseWithoutARow(t *testing.T) {
	t.Parallel()
	o := migrating(t)
	load, ended := jobFor("a"), jobFor("b")
	load.Status.Active, load.Status.Ready = 1, ptr.To(int32(1))
	ended.end(noon)
	o.jobs = append(o.jobs, load, ended)
	o.microservice.Status.ReleaseGroups = nil
	c := runChecks(&answers{}, see(o), noon.Add(time.Minute))
	if len(c.jobs.remove) != 1 || c.jobs.remove[0].Name != load.Name {
		t.Errorf("deleted: %v", c.jobs.remove)
	}
}

// TestMessagesOfEarlierJobs checks that the messages of Jobs are not read from the API server in each reconcile until
// the Jobs are deleted, and that the message of a Job whose result is not in the status yet is read.
func TestMessagesOfEarlierJobs(t *testing.T) {
	t.Parallel()
	status := func(id string, phase v1alpha1.HookPhase, at time.Duration) []v1alpha1.HookStatus {
		written := metav1.NewMicroTime(noon.Add(at))
		return []v1alpha1.HookStatus{{Name: "load", Type: v1alpha1.HookRollout, ID: id, Phase: phase, Time: &written}}
	}
	for name, test := range map[string]struct {
		known []v1alpha1.HookStatus
		now   time.Duration
		want  bool
	}{
		"the call has its result":               {status("a", v1alpha1.HookDelivered, time.Second), time.Minute, false},
		"the call is waiting":                   {status("a", v1alpha1.HookWaiting, -time.Hour), time.Minute, true},
		"the call is waiting after an outage":   {status("a", v1alpha1.HookWaiting, -time.Hour), 12 * time.Hour, true},
		"a later round has its result":          {status("b", v1alpha1.HookDelivered, time.Minute), time.Minute, false},
		"a later round is in progress":          {status("b", v1alpha1.HookWaiting, time.Minute), time.Minute, false},
		"only the earlier round has its result": {status("b", v1alpha1.HookDelivered, -time.Minute), time.Second, true},
		"the same after an outage":              {status("b", v1alpha1.HookDelivered, -time.Minute), 12 * time.Hour, true},
		"no status was written yet":             {nil, time.Minute, true},
		"the hook was removed":                  {nil, 12 * time.Hour, false},
		"another hook has a status":             {[]v1alpha1.HookStatus{{Name: "other", ID: "b", Phase: v1alpha1.HookWaiting}}, time.Minute, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := rolloutScene(loaded)
			o.release.Status.Hooks = test.known
			job := jobFor("a")
			job.end(noon)
			if got := o.awaitsResult(job, noon.Add(test.now)); got != test.want {
				t.Errorf("the message of the Job is read: %v, want %v", got, test.want)
			}
		})
	}
}
