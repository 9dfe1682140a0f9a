package versionedmicroservice

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/versionedmicroservice/resources"
	"github.com/heighliner/heighliner/internal/hook"
)

// TestTimeoutOfACachedJob checks that job.timeout determines when a Job counts as not started, even for a Job
// from the cache.
func TestTimeoutOfACachedJob(t *testing.T) {
	t.Parallel()
	job := resources.Job(newRelease("default", 1), hook.Call{
		Hook: v1alpha1.Hook{Name: "load", Type: v1alpha1.HookRollout, Job: &v1alpha1.HookJob{Timeout: "2h"}},
		Body: hook.Body{ID: "0123456789abcdef", Release: releaseName},
	})
	job.CreationTimestamp = metav1.NewTime(noon)
	trimJob(job)
	at, ok := hook.NotStartedBy(job)
	if !ok || !at.Equal(noon.Add(2*time.Hour)) {
		t.Errorf("the timeout is 2h, but the Job counts as not started after %s", at.Sub(noon))
	}
}

// TestJobWithAPodThatIsNotReady checks that a pod with a node counts as started although it is not ready,
// because init containers are running, a native sidecar is not ready, or the pod has just ended. In these
// cases, the migration must not be deleted, and the round must not count as unanswered.
func TestJobWithAPodThatIsNotReady(t *testing.T) {
	t.Parallel()
	now := noon.Add(11 * time.Minute)
	for name, test := range map[string]struct {
		pod     func(*corev1.Pod)
		deleted bool
	}{
		"no pod":                        {nil, true},
		"a pod without a node":          {func(*corev1.Pod) {}, true},
		"a pod of another Job":          {func(p *corev1.Pod) { p.Spec.NodeName, p.OwnerReferences = "node", nil }, true},
		"init containers are running":   {func(p *corev1.Pod) { p.Spec.NodeName, p.Status.Phase = "node", corev1.PodPending }, false},
		"the pod has just ended":        {func(p *corev1.Pod) { p.Spec.NodeName, p.Status.Phase = "node", corev1.PodSucceeded }, false},
		"a failed pod that was counted": {func(p *corev1.Pod) { p.Spec.NodeName, p.Status.Phase, p.Finalizers = "node", corev1.PodFailed, nil }, true},
		"the node of the pod is lost":   {func(p *corev1.Pod) { p.Spec.NodeName, p.DeletionTimestamp = "node", &metav1.Time{Time: noon} }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := migrating(t)
			o.microservice.Status.ReleaseGroups[1].Rollout, o.microservice.Status.ReleaseGroups[1].Releases = nil, nil // superseded
			job := o.jobs[0].Job
			job.UID, job.CreationTimestamp, job.Status = "job", metav1.NewTime(noon), batchv1.JobStatus{Active: 1, Ready: ptr.To(int32(0))}
			objects := []client.Object{job}
			if test.pod != nil {
				pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
					Namespace: job.Namespace, Name: "pod", Labels: map[string]string{batchv1.JobNameLabel: job.Name}, Finalizers: []string{batchv1.JobTrackingFinalizer},
					OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(job, batchv1.SchemeGroupVersion.WithKind("Job"))},
				}}
				test.pod(pod)
				objects = append(objects, pod)
			}
			o.jobs = nil
			if err := fakeReconciler(t, now, objects...).observeJobs(t.Context(), o); err != nil {
				t.Fatal(err)
			}
			c := runChecks(&answers{}, see(o), now)
			if deleted := len(c.jobs.remove) == 1; deleted != test.deleted {
				t.Errorf("the Job is deleted: %t, want %t", deleted, test.deleted)
			}
			round := hook.JobOutcome(o.jobs[0].Job, v1alpha1.Hook{Type: v1alpha1.HookRollout, Job: &v1alpha1.HookJob{}}, "", now)
			if round.Unanswered != test.deleted {
				t.Errorf("for a round, the outcome is %+v", round)
			}
		})
	}
}
