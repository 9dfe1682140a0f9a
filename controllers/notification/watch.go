package notification

import (
	"context"
	"errors"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// settleDelay is the time between a change and a policy's reconcile, so that several changes in quick
// succession cause only one reconcile.
const settleDelay = 300 * time.Millisecond

// maxSettleDelay is the maximum time between a change and a policy's reconcile. The time increases with the number of services that the
// policy selects, because each reconcile evaluates all of them.
const maxSettleDelay = 10 * time.Second

// settle returns the time between a change and a policy's reconcile. It is long enough that, during rollouts of many services, the policy's
// reconciles need at most about a twentieth of one core, unless a reconcile takes longer than half a second.
func (r *reconciler) settle(policy types.NamespacedName) time.Duration {
	took, _ := r.took.Load(policy)
	last, _ := took.(time.Duration)
	return min(max(settleDelay, 20*last), maxSettleDelay)
}

// soon enqueues the policies that a change affects.
func (r *reconciler) soon() handler.EventHandler {
	add := func(ctx context.Context, o client.Object, q workqueue.TypedRateLimitingInterface[ctrl.Request]) {
		for _, request := range r.about(ctx, o) {
			q.AddAfter(request, r.settle(request.NamespacedName))
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q workqueue.TypedRateLimitingInterface[ctrl.Request]) {
			add(ctx, e.Object, q)
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q workqueue.TypedRateLimitingInterface[ctrl.Request]) {
			add(ctx, e.ObjectNew, q)
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q workqueue.TypedRateLimitingInterface[ctrl.Request]) {
			add(ctx, e.Object, q)
		},
	}
}

// about returns requests for the policies that may select an object: the policies in its namespace, and the
// policies in the manager's namespace that select namespaces. For a Namespace, it returns only the latter.
func (r *reconciler) about(ctx context.Context, o client.Object) (requests []ctrl.Request) {
	namespaces := []string{o.GetNamespace()}
	if r.selects() && !slices.Contains(namespaces, r.namespace) {
		namespaces = append(namespaces, r.namespace)
	}
	for _, namespace := range namespaces {
		if namespace == "" {
			continue // The object is a Namespace.
		}
		var list v1alpha1.NotificationPolicyList
		err := r.List(ctx, &list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy)
		var early *cache.ErrResourceNotCached
		if errors.As(err, &early) {
			return nil // Policies are not watched yet. When the watch starts, each policy is reconciled.
		}
		if err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "failed to list the NotificationPolicies of a namespace", "namespace", namespace)
			continue
		}
		for i := range list.Items {
			p := &list.Items[i]
			if namespace == o.GetNamespace() || p.Spec.NamespaceSelector != nil {
				requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(p)})
			}
		}
	}
	return requests
}

// selects reports whether policies in the manager's namespace may select other namespaces. This requires that
// the manager's namespace is known and watched.
func (r *reconciler) selects() bool {
	return r.namespace != "" && (len(r.watched) == 0 || slices.Contains(r.watched, r.namespace))
}
