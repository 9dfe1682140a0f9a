package versionedmicroservice

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/versionedmicroservice/resources"
	"github.com/heighliner/heighliner/internal/hook"
	"github.com/heighliner/heighliner/internal/status"
)

// hookJob is one of the release's Jobs for hook calls.
type hookJob struct {
	*batchv1.Job
	// log is the last pod's termination message. It is read when the Job has ended.
	log string
}

// call returns the ID of the call for which the Job was created.
func (j hookJob) call() string { return j.Annotations[v1alpha1.AnnotationHookCall] }

// observeJobs reads the release's Jobs, and the termination messages of Jobs whose results may not be in the status yet.
func (r *reconciler) observeJobs(ctx context.Context, o *observed) error {
	var list batchv1.JobList
	if err := r.client.List(ctx, &list, client.InNamespace(o.release.Namespace), client.MatchingFields{indexRelease: o.release.Name}, client.HasLabels{v1alpha1.LabelHook}, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list Jobs of release %q: %w", o.release.Name, err)
	}
	slices.SortFunc(list.Items, func(a, b batchv1.Job) int { return cmp.Compare(a.Name, b.Name) }) // The cache lists them in no particular order.
	for i := range list.Items {
		job := hookJob{Job: &list.Items[i]}
		if !metav1.IsControlledBy(job, o.release) {
			continue
		}
		if o.awaitsResult(job, r.clock.Now()) && !resources.Confined(o.release) {
			job.log = r.jobLog(ctx, job, resources.MainContainer(o.release).Name)
		}
		o.jobs = append(o.jobs, job)
	}
	if err := r.findJobs(ctx, o); err != nil {
		return err
	}
	return r.findPods(ctx, o)
}

// findJobs reads from the API server those Jobs that the status shows as running and that are not in the cache. They may have lost their
// labels, or have been deleted.
func (r *reconciler) findJobs(ctx context.Context, o *observed) error {
	for _, h := range o.release.Status.Hooks {
		if h.Job == "" || h.Phase != v1alpha1.HookWaiting || h.Attempts > 0 || slices.ContainsFunc(o.jobs, func(j hookJob) bool { return j.Name == h.Job }) {
			continue
		}
		job, err := get(ctx, r.live, client.ObjectKey{Namespace: o.release.Namespace, Name: h.Job}, &batchv1.Job{})
		switch {
		case err != nil:
			return err
		case job != nil && metav1.IsControlledBy(job, o.release):
			o.jobs, o.uncached = append(o.jobs, hookJob{Job: job}), true
		default:
			if o.lostJobs == nil {
				o.lostJobs = map[string]bool{}
			}
			o.lostJobs[h.Job] = true
		}
	}
	return nil
}

// podsMargin allows for the time between reading the pods of Jobs and planning the Jobs.
const podsMargin = time.Minute

// findPods reads from the API server the pods of those Jobs that would otherwise count as not started. The
// cache does not contain these pods. A pod that is assigned to a node counts as started: its init containers may be
// running, a native sidecar may not be ready, or the pod may have just ended. The kubelet stops such a pod
// when its timeout expires.
func (r *reconciler) findPods(ctx context.Context, o *observed) error {
	for _, job := range o.jobs {
		if at, ok := hook.NotStartedBy(job.Job); !ok || r.clock.Now().Add(podsMargin).Before(at) {
			continue
		}
		var pods corev1.PodList
		if err := r.live.List(ctx, &pods, client.InNamespace(job.Namespace), client.MatchingLabels{batchv1.JobNameLabel: job.Name}); err != nil {
			return fmt.Errorf("list pods of Job %q: %w", job.Name, err)
		}
		if slices.ContainsFunc(pods.Items, func(pod corev1.Pod) bool { return metav1.IsControlledBy(&pod, job) && started(&pod) }) {
			job.Status.Ready = ptr.To(int32(1))
		}
	}
	return nil
}

// started reports whether a Job's pod is assigned to a node, is not being deleted, and is not yet counted as
// ended in the Job's status.
func started(pod *corev1.Pod) bool {
	over := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	return pod.Spec.NodeName != "" && pod.DeletionTimestamp == nil && (!over || slices.Contains(pod.Finalizers, batchv1.JobTrackingFinalizer))
}

// activeJobs returns the number of Jobs that have not ended. Jobs of rounds do not count, because they are deleted when their step ends.
func (o *observed) activeJobs() (n int32) {
	for _, job := range o.jobs {
		if job.DeletionTimestamp == nil && !job.ofRound() && hook.Finished(job.Job) == nil {
			n++
		}
	}
	return n
}

// unreportedTime is the time after the end of a Job during which its message is read if its hook has no status, for example because the
// hook was removed.
const unreportedTime = time.Hour

// awaitsResult reports whether a Job has ended and its result may not be in the status yet: the status shows that its call is
// waiting, or the Job ended after the last write to the status of its hook. The status contains only the latest call of a hook, but
// the Jobs of earlier calls are kept.
func (o *observed) awaitsResult(job hookJob, now time.Time) bool {
	end, since := hook.Finished(job.Job), now.Add(-unreportedTime)
	if end == nil {
		return false
	}
	for _, h := range o.release.Status.Hooks {
		switch {
		case h.ID == job.call():
			return h.Phase == v1alpha1.HookWaiting
		case h.Name == job.Labels[v1alpha1.LabelHook] && h.Time != nil:
			since = h.Time.Truncate(time.Second) // Times in a Job have a precision of one second.
		}
	}
	return !end.LastTransitionTime.Time.Before(since)
}

// maxJobPods is the maximum number of pods to read for a Job: one more than the maximum of backoffLimit.
const maxJobPods = 11

// jobLog returns the termination message of the Job's pod that ended last. It reads from the API server,
// because the cache does not contain the pods of Jobs. container is the name of the release's container. If
// the message cannot be read, the result is less specific.
func (r *reconciler) jobLog(ctx context.Context, job hookJob, container string) string {
	var pods corev1.PodList
	if err := r.live.List(ctx, &pods, client.InNamespace(job.Namespace), client.Limit(maxJobPods), client.MatchingLabels{batchv1.JobNameLabel: job.Name}); err != nil {
		return ""
	}
	var last *corev1.ContainerStateTerminated
	for i := range pods.Items {
		if !metav1.IsControlledBy(&pods.Items[i], job) {
			continue
		}
		if end := explains(&pods.Items[i].Status, container); end != nil && (last == nil || last.FinishedAt.Before(&end.FinishedAt)) {
			last = end
		}
	}
	if last == nil {
		return ""
	}
	return last.Message
}

// explains returns the termination state of the container that explains how a pod ended: the release's
// container, or the first container that failed, such as an init container. Native sidecars exit after these containers.
func explains(pod *corev1.PodStatus, container string) (first *corev1.ContainerStateTerminated) {
	for _, c := range slices.Concat(pod.InitContainerStatuses, pod.ContainerStatuses) {
		end := c.State.Terminated
		switch {
		case end == nil:
		case c.Name == container:
			return end
		case end.ExitCode != 0 && (first == nil || end.FinishedAt.Before(&first.FinishedAt)):
			first = end
		}
	}
	return first
}

// jobOutcomes returns the outcomes of hook Jobs, keyed by the ID of their call. They include the outcomes of calls that are no
// longer required but have no result yet.
func (o *observed) jobOutcomes(questions []hook.Call, now time.Time) map[string]hook.Outcome {
	out := map[string]hook.Outcome{}
	for _, s := range o.release.Status.Hooks {
		if slices.ContainsFunc(questions, func(q hook.Call) bool { return q.Body.ID == s.ID }) {
			continue
		}
		for _, job := range o.jobs {
			if s.ID == job.call() && !job.ofRound() {
				out[s.ID] = hook.JobOutcome(job.Job, v1alpha1.Hook{Type: s.Type}, job.log, now)
			}
		}
	}
	for _, q := range questions {
		for _, job := range o.jobs {
			if job.call() == q.Body.ID && q.Hook.Job != nil {
				out[q.Body.ID] = hook.JobOutcome(job.Job, q.Hook, job.log, now)
			}
		}
		if s := hook.Known(o.release.Status.Hooks, q); s != nil && o.lostJobs[s.Job] {
			out[q.Body.ID] = hook.Lost(q, s.Job, now)
		}
	}
	return out
}

// jobPlan contains the writes to hook Jobs.
type jobPlan struct {
	// create contains the calls for which Jobs must be created.
	create []hook.Call
	// remove contains the Jobs that are no longer required.
	remove []hookJob
	// next is the earliest time at which a Job that has ended should be deleted, or at which a Job counts as not started;
	// zero if there is no such time.
	next time.Time
}

// by sets the next field to the given time if the field is not set or is later than that time.
func (p *jobPlan) by(at time.Time) {
	if p.next.IsZero() || at.Before(p.next) {
		p.next = at
	}
}

// keptRounds is the number of finished Jobs to keep for a Rollout hook. There is one Job for each
// round. By default, CronJobs keep the same number of successful Jobs.
const keptRounds = 3

// ofRound reports whether the Job belongs to a round.
func (j hookJob) ofRound() bool {
	return j.Annotations[v1alpha1.AnnotationHookType] == string(v1alpha1.HookRollout)
}

// newestFirst sorts Jobs by the time at which they ended. Jobs that have not ended come first.
func newestFirst(jobs []hookJob) []hookJob {
	end := func(j hookJob) time.Time {
		if c := hook.Finished(j.Job); c != nil {
			return c.LastTransitionTime.Time
		}
		return time.Unix(1<<40, 0)
	}
	return slices.SortedStableFunc(slices.Values(jobs), func(a, b hookJob) int {
		return cmp.Or(end(b).Compare(end(a)), cmp.Compare(a.Name, b.Name))
	})
}

// awaitJobs makes calls wait for Jobs that have not ended and whose calls are no longer required. A migration
// and its reverse, or two Jobs of one hook, must never run at the same time, and the hooks for the end of a
// preview remove objects that the preview's other Jobs create. Calls do not wait for a round's Job, which is
// deleted when its step ends. Hooks of the types Rollback and Event do not wait, because they do not change the
// objects that a Job may be changing.
func (o *observed) awaitJobs(questions []hook.Call) {
	asked := func(job hookJob) bool {
		return slices.ContainsFunc(questions, func(q hook.Call) bool { return q.Body.ID == job.call() })
	}
	for i := range questions {
		q := &questions[i]
		if q.Hook.Type == v1alpha1.HookRollback || q.Hook.Type == v1alpha1.HookEvent || slices.ContainsFunc(o.jobs, func(j hookJob) bool { return j.call() == q.Body.ID }) {
			continue
		}
		for _, job := range o.jobs {
			if !asked(job) && !job.ofRound() && hook.Finished(job.Job) == nil {
				q.Wait = cmp.Or(q.Wait, fmt.Sprintf("waits until Job %s of an earlier call has ended", job.Name))
			}
		}
	}
}

// strayJobs plans the Jobs of a release that the rollout state does not list. The release is deleted when its
// Jobs have ended. Unfinished Jobs of rounds are deleted immediately.
func strayJobs(o *observed, now time.Time) (p jobPlan) {
	for _, job := range o.jobs {
		switch at, ok := hook.NotStartedBy(job.Job); {
		case job.DeletionTimestamp != nil:
		case job.ofRound() && hook.Finished(job.Job) == nil:
			p.remove = append(p.remove, job)
		case !ok:
		case at.After(now):
			p.by(at)
		default:
			p.remove = append(p.remove, job)
		}
	}
	return p
}

// planJobs plans the creation of Jobs for the calls that are due, and the deletion of obsolete Jobs. It is pure.
func planJobs(o *observed, questions, due []hook.Call, now time.Time) jobPlan {
	var p jobPlan
	exists, kept := map[string]bool{}, map[string]int{}
	for _, job := range newestFirst(o.jobs) {
		exists[job.call()] = true
		if job.DeletionTimestamp != nil {
			continue
		}
		// Use the status from the API server, not the new status that is about to be written.
		switch obsolete, at := o.rollout.place.Obsolete(job.Job, o.release.Status.Hooks, questions); {
		case !obsolete:
		case job.ofRound() && kept[job.Labels[v1alpha1.LabelHook]] >= keptRounds:
			p.remove = append(p.remove, job)
		case at.After(now):
			kept[job.Labels[v1alpha1.LabelHook]]++
			p.by(at)
		default:
			p.remove = append(p.remove, job)
		}
	}
	for _, q := range due {
		if q.Hook.Job == nil {
			continue
		}
		if !exists[q.Body.ID] && hook.Known(o.release.Status.Hooks, q) == nil && !hook.JobLost(o.release.Status.Hooks, q) {
			p.create = append(p.create, q)
		}
		for _, job := range o.jobs {
			if at, ok := hook.NotStartedBy(job.Job); ok && job.ofRound() && job.call() == q.Body.ID && at.After(now) {
				p.by(at)
			}
		}
	}
	return p
}

// applyJobs executes the plan. It returns the outcomes of the calls whose Jobs it created or could not create yet, and
// the first error that requires a retry. It adds created Jobs to the observed Jobs, because the cache may not contain
// them before the status is written.
func (r *reconciler) applyJobs(ctx context.Context, o *observed, p jobPlan) (map[string]hook.Outcome, error) {
	outcomes := map[string]hook.Outcome{}
	var failed error
	for _, q := range p.create {
		job, err := r.createJob(ctx, o.release, resources.Job(o.release, q))
		switch {
		case err != nil:
			why := status.Classify(err)
			outcomes[q.Body.ID] = hook.NotCreated(q, why.Error())
			failed = cmp.Or(failed, err)
		case job != nil && hook.Finished(job) == nil:
			o.jobs = append(o.jobs, hookJob{Job: job})
			outcomes[q.Body.ID] = hook.JobOutcome(job, q.Hook, "", r.clock.Now())
		}
	}
	for _, job := range p.remove {
		err := r.client.Delete(ctx, job.Job, client.PropagationPolicy(metav1.DeletePropagationBackground), client.Preconditions{UID: &job.UID})
		if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
			failed = cmp.Or(failed, fmt.Errorf("delete Job %q: %w", job.Name, err))
		}
	}
	return outcomes, failed
}

// createJob creates a Job exactly once. The Job's name depends only on the call, so a stale cache, or a process that
// exits between its writes, does not cause a second run. createJob returns the existing Job, if any.
func (r *reconciler) createJob(ctx context.Context, release *v1alpha1.VersionedMicroservice, job *batchv1.Job) (*batchv1.Job, error) {
	if err := controllerutil.SetControllerReference(release, job, r.client.Scheme()); err != nil {
		return nil, fmt.Errorf("set owner of Job %q: %w", job.Name, err)
	}
	err := r.client.Create(ctx, job, client.FieldOwner(fieldOwner))
	if !apierrors.IsAlreadyExists(err) {
		if err != nil {
			return nil, fmt.Errorf("create Job %q: %w", job.Name, err)
		}
		return job, nil
	}
	live, err := get(ctx, r.live, client.ObjectKeyFromObject(job), &batchv1.Job{})
	if err != nil || live == nil {
		return nil, err
	}
	return live, r.writer.Claim(release, live)
}
