package versionedmicroservice

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// podWaits contains the releases that are waiting for pods in their group to terminate. The zero value is
// ready to use.
type podWaits struct {
	mu sync.Mutex
	// groups contains the group of each waiting release, keyed by the name of the release.
	groups map[types.NamespacedName]groupKey
}

// groupKey identifies a group in a cluster.
type groupKey struct{ namespace, microservice, group string }

func groupOf(obj client.Object) groupKey {
	return groupKey{obj.GetNamespace(), obj.GetLabels()[v1alpha1.LabelMicroservice], obj.GetLabels()[v1alpha1.LabelGroup]}
}

// wait records that a release is waiting for pods in its group to terminate. forget removes this record.
func (e *podWaits) wait(release types.NamespacedName, group groupKey) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.groups == nil {
		e.groups = map[types.NamespacedName]groupKey{}
	}
	e.groups[release] = group
}

func (e *podWaits) forget(release types.NamespacedName) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.groups, release)
}

// releases returns a group's waiting releases.
func (e *podWaits) releases(group groupKey) []types.NamespacedName {
	e.mu.Lock()
	defer e.mu.Unlock()
	var names []types.NamespacedName
	for name, g := range e.groups {
		if g == group {
			names = append(names, name)
		}
	}
	return names
}

// othersToWaiting enqueues a group's waiting releases when a release, Deployment, or pod in the group changes
// or is deleted.
func (r *reconciler) othersToWaiting() handler.EventHandler {
	enqueue := func(obj client.Object, q workQueue) {
		for _, waits := range []*podWaits{&r.exclusive.podWaits, &r.ending} {
			for _, name := range waits.releases(groupOf(obj)) {
				q.Add(ctrl.Request{NamespacedName: name})
			}
		}
	}
	return handler.Funcs{
		UpdateFunc: func(_ context.Context, x event.UpdateEvent, q workQueue) { enqueue(x.ObjectNew, q) },
		DeleteFunc: func(_ context.Context, x event.DeleteEvent, q workQueue) { enqueue(x.Object, q) },
	}
}

// observeEnd records whether pods of a preview that is ending are still running. The hooks for the end of the
// preview are called when none of these pods remain. If one of these pods should already have terminated, the
// status of the hooks describes this pod, and the hooks continue to wait.
func (r *reconciler) observeEnd(ctx context.Context, o *observed, w *rollout) error {
	name := client.ObjectKeyFromObject(o.release)
	if end := w.place.Group.End; end == nil || end.Release != o.release.Name {
		r.ending.forget(name)
		return nil
	}
	key := groupKey{o.release.Namespace, o.release.Spec.MicroserviceName, o.release.Spec.Group}
	r.ending.wait(name, key) // This precedes the reads, so that later changes enqueue the release.
	var pods corev1.PodList
	if err := r.client.List(ctx, &pods, client.InNamespace(key.namespace), client.MatchingLabels{v1alpha1.LabelMicroservice: key.microservice, v1alpha1.LabelGroup: key.group}); err != nil {
		return fmt.Errorf("list pods of group %q: %w", key.group, err)
	}
	left := firstOther(pods.Items, "")
	if left == nil {
		r.ending.forget(name)
		return nil
	}
	if w.place.PodsLeft, w.podsDue = true, left.late; left.isLate(r.clock.Now()) {
		w.place.LatePod = left.lateText()
	}
	return nil
}
