package versionedmicroservice

import (
	"fmt"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/versionedmicroservice/resources"
	"github.com/heighliner/heighliner/internal/apply"
	"github.com/heighliner/heighliner/internal/hook"
)

// jobs returns the Jobs in a stage's namespace.
func (s *stage) jobs() []batchv1.Job {
	s.t.Helper()
	var list batchv1.JobList
	if err := world.List(s.t.Context(), &list, client.InNamespace(s.ms.Namespace)); err != nil {
		s.t.Fatal(err)
	}
	return list.Items
}

// end simulates the kubelet: the pod of the only Job ends with an exit code and a termination message.
func (s *stage) end(code int32, message string) {
	s.t.Helper()
	eventually(s.t, func() string {
		var pods corev1.PodList
		if err := world.List(s.t.Context(), &pods, client.InNamespace(s.ms.Namespace), client.HasLabels{v1alpha1.LabelHook}); err != nil {
			s.t.Fatal(err)
		}
		if len(pods.Items) != 1 {
			return fmt.Sprintf("%d pods of the Job", len(pods.Items))
		}
		pod := &pods.Items[0]
		pod.Status.Phase = corev1.PodSucceeded
		if code != 0 {
			pod.Status.Phase = corev1.PodFailed
		}
		now := metav1.Now()
		pod.Status.StartTime = &now
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: pod.Spec.Containers[0].Name, State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Message: message, StartedAt: now, FinishedAt: now},
		}}}
		if err := world.Status().Update(s.t.Context(), pod); err != nil {
			return err.Error()
		}
		return ""
	})
}

// migration returns a strategy with a gate that runs a Job.
func migration() *v1alpha1.CanaryStrategy {
	return &v1alpha1.CanaryStrategy{
		Steps: []v1alpha1.CanaryStep{{Weight: 10}},
		Hooks: []v1alpha1.Hook{{Name: "migrate", Type: v1alpha1.HookConfirmRollout, Job: &v1alpha1.HookJob{Command: []string{"/app", "migrate"}, Timeout: "2m"}}},
	}
}

func (s *stage) gate() {
	s.t.Helper()
	at := metav1.NowMicro()
	s.write(v1alpha1.Release{Status: v1alpha1.ReleasePending, Reason: "Started"}, &v1alpha1.Rollout{Sequence: 5, Gate: v1alpha1.GateConfirmRollout, GateTime: &at})
}

// TestJobOpensAGate checks that a gate's Job is created once, even after a restart of the manager, that its
// pod is built from the release but is not matched by any of the release's selectors, and that the gate opens
// when the Job succeeds.
func TestJobOpensAGate(t *testing.T) {
	t.Parallel()
	s := newStage(t, migration())
	s.gate()
	waiting := s.hook("migrate", v1alpha1.HookWaiting)
	eventually(t, func() string {
		if got := s.hook("migrate", v1alpha1.HookWaiting); !strings.Contains(got.Message, "has no ready pod yet") {
			return fmt.Sprintf("the hook is %+v", got)
		}
		return ""
	})
	jobs := s.jobs()
	if len(jobs) != 1 {
		t.Fatalf("%d Jobs", len(jobs))
	}
	job := jobs[0]
	pod := job.Spec.Template
	if _, found := pod.Labels[v1alpha1.LabelRelease]; found || pod.Labels["app"] != "" {
		t.Errorf("selectors of the release or of users match the pod: %v", pod.Labels)
	}
	c := pod.Spec.Containers[0]
	if c.Image != s.release.Spec.Template.Spec.Containers[0].Image || fmt.Sprint(c.Command) != "[/app migrate]" || *pod.Spec.ActiveDeadlineSeconds != 120 || *job.Spec.BackoffLimit != 0 {
		t.Errorf("the Job runs %+v", pod.Spec)
	}

	t.Log("another manager, whose cache does not contain the Job")
	next := &reconciler{client: world.Client, live: world.Client, writer: apply.Writer{Client: world.Client, Live: world.Client}, clock: clock.RealClock{}}
	q := hook.Call{Hook: s.ms.Spec.UpdateStrategy.Canary.Hooks[0], Body: hook.Body{ID: waiting.ID, Release: s.release.Name}}
	fetch(t, s.release)
	s.release.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("VersionedMicroservice"))
	if outcomes, err := next.applyJobs(t.Context(), &observed{release: s.release}, jobPlan{create: []hook.Call{q}}); err != nil || !outcomes[q.Body.ID].Running || outcomes[q.Body.ID].Job != job.Name {
		t.Errorf("the existing Job counts as a failure: %+v %v", outcomes, err)
	}
	if n := len(s.jobs()); n != 1 {
		t.Errorf("%d Jobs after a restart", n)
	}

	s.end(0, "3 tables")
	open := s.hook("migrate", v1alpha1.HookOpen)
	if open.Job != job.Name || open.Log != "3 tables" || open.Attempts != 1 || !strings.Contains(open.Message, "succeeded") {
		t.Errorf("the open gate: %+v", open)
	}

	t.Log("a Job that is deleted after its result is known is not created again")
	if err := world.Delete(t.Context(), &job, client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() string {
		if n := len(s.jobs()); n > 0 {
			return fmt.Sprintf("%d Jobs", n)
		}
		return ""
	})
	pass(t, s.release, 3)
	if n := len(s.jobs()); n > 0 {
		t.Errorf("%d Jobs", n)
	}
}

// TestJobOfAResizableSidecar checks that the API server accepts the Job of a release whose native sidecar restarts when it
// is resized, which no container of a Job's pod may do.
func TestJobOfAResizableSidecar(t *testing.T) {
	t.Parallel()
	release := newRelease(namespace(t, nil), 1)
	release.Spec.Template.Spec.InitContainers = []corev1.Container{{
		Name: "proxy", Image: "registry.example.com/proxy:1.0.0", RestartPolicy: new(corev1.ContainerRestartPolicyAlways),
		ResizePolicy: []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceMemory, RestartPolicy: corev1.RestartContainer}},
	}}
	q := hook.Call{Hook: migration().Hooks[0], Body: hook.Body{ID: "0123456789abcdef", Release: release.Name}}
	if err := world.Create(t.Context(), resources.Job(release, q), client.DryRunAll); err != nil {
		t.Error(err)
	}
}

// TestJobEndsAGate checks that a failed Job is a final rejection, and that the status shows the end of the Job's log.
func TestJobEndsAGate(t *testing.T) {
	t.Parallel()
	s := newStage(t, migration())
	s.gate()
	s.end(1, "connecting\ntable orders is locked\n")
	failed := s.hook("migrate", v1alpha1.HookFailed)
	if !strings.Contains(failed.Message, "table orders is locked") || failed.Log != "connecting\ntable orders is locked" {
		t.Errorf("the gate: %+v", failed)
	}
	pass(t, s.release, 3)
	if n := len(s.jobs()); n != 1 {
		t.Errorf("%d Jobs: a failed Job runs again", n)
	}
}

// TestJobOfAForkShowsNoLog checks that the status does not show the log of code from a fork.
func TestJobOfAForkShowsNoLog(t *testing.T) {
	t.Parallel()
	release := newRelease("a", 1)
	release.Spec.Template.Spec.ServiceAccountName = "default"
	no := false
	release.Spec.Template.Spec.AutomountServiceAccountToken = &no
	o := &observed{release: release, rollout: &rollout{place: &hook.Rollout{Microservice: &v1alpha1.Microservice{}}}}
	s := newStage(t, migration())
	s.gate()
	s.end(1, "a secret")
	s.hook("migrate", v1alpha1.HookFailed)
	o.release.Namespace, o.release.Name, o.release.UID = s.release.Namespace, s.release.Name, s.release.UID
	r := &reconciler{client: world.manager.GetClient(), live: world.Client, clock: clock.RealClock{}}
	if err := r.observeJobs(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if len(o.jobs) != 1 || o.jobs[0].log != "" {
		t.Errorf("the log is read: %+v", o.jobs)
	}
	o.release.Spec.Template.Spec.ServiceAccountName = "shop"
	o.jobs = nil
	if err := r.observeJobs(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if len(o.jobs) != 1 || o.jobs[0].log != "a secret" {
		t.Errorf("the log of the repository's own code is not read: %+v", o.jobs)
	}
}

// TestJobWaitsForQuota checks that a Job that a quota rejects does not count as a failure of the release, and
// that the status shows the quota.
func TestJobWaitsForQuota(t *testing.T) {
	t.Parallel()
	s := newStage(t, migration())
	none := corev1.ResourceList{"count/jobs.batch": resource.MustParse("0")}
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: s.ms.Namespace, Name: "jobs"}, Spec: corev1.ResourceQuotaSpec{Hard: none}}
	if err := world.Create(t.Context(), quota); err != nil {
		t.Fatal(err)
	}
	quota.Status = corev1.ResourceQuotaStatus{Hard: none, Used: none}
	if err := world.Status().Update(t.Context(), quota); err != nil {
		t.Fatal(err)
	}
	trial := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: s.ms.Namespace, Name: "trial"}}
	trial.Spec.Template.Spec = corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "shop", Image: "shop"}}}
	refused(t, trial)
	s.gate()
	eventually(t, func() string {
		if got := s.hook("migrate", v1alpha1.HookWaiting); !strings.Contains(got.Message, "cannot create Job") || !strings.Contains(got.Message, "exceeded quota") {
			return fmt.Sprintf("the hook is %+v", got)
		}
		return ""
	})
	eventually(t, func() string {
		fetch(t, s.release)
		c := meta.FindStatusCondition(s.release.Status.Conditions, v1alpha1.ConditionReady)
		if c == nil || c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, "exceeded quota") {
			return fmt.Sprintf("Ready is %+v", c)
		}
		return ""
	})
}
