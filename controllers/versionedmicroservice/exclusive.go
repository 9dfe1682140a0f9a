package versionedmicroservice

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// exclusiveGroups prevents releases of an exclusive group from running at the same time. The Microservice
// decides which release should have pods (protocol rule 47). Before the controller creates this release's
// first pod, it checks with the API server, not the cache, that no other release of the group has pods, including terminating pods,
// or should have pods. The group's lock prevents two workers from both completing such checks and starting two releases.
//
// The zero value is ready to use.
type exclusiveGroups struct {
	locks [64]sync.Mutex
	podWaits
}

// errChanged is the cause of a conflict error if a release's specification has changed.
var errChanged = errors.New("its specification changed")

// lock returns the lock of a group. Several groups may share a lock.
func (e *exclusiveGroups) lock(key groupKey) *sync.Mutex {
	h := fnv.New32a()
	fmt.Fprintf(h, "%q", key)
	return &e.locks[h.Sum32()%uint32(len(e.locks))]
}

// predecessor is a release whose pods must terminate before an exclusive release starts.
type predecessor struct {
	release string
	// pod is the pod that should terminate first, and node is its node; empty if no pod is terminating.
	pod, node string
	// late is the time by which this pod should have terminated; zero if no pod is terminating.
	late time.Time
}

// failure describes why a release has no pods yet.
func (p *predecessor) failure(now time.Time) failure {
	f := failure{reason: v1alpha1.FailureOtherReleaseRunning, message: fmt.Sprintf("the release is exclusive, and pods of release %q are still running", p.release)}
	switch {
	case p.isLate(now):
		f.message = "the release is exclusive, and " + p.lateText()
	case !p.late.IsZero():
		f.requeueAt = p.late
	}
	return f
}

// isLate reports whether the pod should have terminated by now, and lateText describes this pod.
func (p *predecessor) isLate(now time.Time) bool { return !p.late.IsZero() && !now.Before(p.late) }

func (p *predecessor) lateText() string {
	return fmt.Sprintf("pod %q of release %q on node %q did not terminate by %s: if that node is lost, delete the pod with --force once you are sure that its containers have stopped",
		p.pod, p.release, p.node, p.late.UTC().Format(time.RFC3339))
}

// startsExclusive reports whether a release of an exclusive group is about to get its first pods.
func (o *observed) startsExclusive() bool {
	if !o.release.Spec.Availability.Exclusive || o.release.Spec.Replicas == 0 {
		return false
	}
	return o.deployment == nil || o.own() != nil && o.deployment.Spec.Replicas != nil && *o.deployment.Spec.Replicas == 0
}

// awaitExclusive sets o.predecessor to the release whose pods must terminate before a release of an exclusive group
// gets its first pods. The caller must call the returned function after it has requested the pods. The error
// is a conflict if the release changed in the meantime, because it may no longer be the release that should
// have pods.
func (r *reconciler) awaitExclusive(ctx context.Context, o *observed) (done func(), err error) {
	release, none := o.release, func() {}
	name := client.ObjectKeyFromObject(release)
	if !o.startsExclusive() {
		r.exclusive.forget(name)
		return none, nil
	}
	key := groupKey{release.Namespace, release.Spec.MicroserviceName, release.Spec.Group}
	r.exclusive.wait(name, key) // This precedes the reads, so that later changes enqueue the release.
	if o.predecessor, err = r.predecessorOf(ctx, r.client, release); err != nil || o.predecessor != nil {
		return none, err
	}
	lock := r.exclusive.lock(key)
	lock.Lock()
	if o.predecessor, err = r.predecessorOf(ctx, r.live, release); err != nil || o.predecessor != nil {
		lock.Unlock()
		return none, err
	}
	return lock.Unlock, nil
}

// predecessorOf returns another release of the group that should have pods or has pods, or nil if there is none.
func (r *reconciler) predecessorOf(ctx context.Context, from client.Reader, release *v1alpha1.VersionedMicroservice) (*predecessor, error) {
	in := []client.ListOption{client.InNamespace(release.Namespace), client.MatchingLabels{
		v1alpha1.LabelMicroservice: release.Spec.MicroserviceName, v1alpha1.LabelGroup: release.Spec.Group,
	}}
	var releases v1alpha1.VersionedMicroserviceList
	if err := from.List(ctx, &releases, in...); err != nil {
		return nil, fmt.Errorf("list releases of group %q: %w", release.Spec.Group, err)
	}
	for i := range releases.Items {
		switch x := &releases.Items[i]; {
		case x.Name == release.Name && x.Generation != release.Generation:
			return nil, apierrors.NewConflict(v1alpha1.GroupVersion.WithResource("versionedmicroservices").GroupResource(), x.Name, errChanged)
		case x.Name != release.Name && x.DeletionTimestamp == nil && x.Spec.Replicas > 0:
			return &predecessor{release: x.Name}, nil
		}
	}
	var deployments appsv1.DeploymentList
	if err := from.List(ctx, &deployments, in...); err != nil {
		return nil, fmt.Errorf("list Deployments of group %q: %w", release.Spec.Group, err)
	}
	for i := range deployments.Items {
		if d := &deployments.Items[i]; d.Name != release.Name && mayHavePods(d) {
			return &predecessor{release: d.Name}, nil
		}
	}
	var pods corev1.PodList
	if err := from.List(ctx, &pods, in...); err != nil {
		return nil, fmt.Errorf("list pods of group %q: %w", release.Spec.Group, err)
	}
	return firstOther(pods.Items, release.Name), nil
}

// mayHavePods reports whether a Deployment should have pods, has pods, or has a specification that its controller has not observed yet.
func mayHavePods(d *appsv1.Deployment) bool {
	return d.Spec.Replicas == nil || *d.Spec.Replicas > 0 || d.Status.ObservedGeneration < d.Generation || d.Status.Replicas > 0
}

// firstOther returns another release that has pods, or nil if there is none. If pods are terminating, it returns the release of the pod that should
// terminate first. It ignores pods of hooks, and pods whose containers have all terminated, such as evicted pods.
func firstOther(pods []corev1.Pod, release string) *predecessor {
	pods = slices.DeleteFunc(pods, func(p corev1.Pod) bool {
		return p.Labels[v1alpha1.LabelRelease] == release || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed || p.Labels[v1alpha1.LabelHook] != ""
	})
	if len(pods) == 0 {
		return nil
	}
	slices.SortFunc(pods, func(a, b corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	first := &predecessor{release: pods[0].Labels[v1alpha1.LabelRelease]}
	for i := range pods {
		// The API server sets DeletionTimestamp to the time at which the grace period ends.
		if at := pods[i].DeletionTimestamp; at != nil && (first.late.IsZero() || at.Time.Before(first.late)) {
			*first = predecessor{release: pods[i].Labels[v1alpha1.LabelRelease], pod: pods[i].Name, node: pods[i].Spec.NodeName, late: at.Time}
		}
	}
	return first
}
