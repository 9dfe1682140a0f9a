// Package freeze reports in the status of Freezes and ClusterFreezes whether they currently apply, and to how
// many Microservices. The package does not enforce freezes: the Microservice controller does, based on the
// specifications.
//
//	controller.go  setup, RBAC, Reconcile, and the freezes that a change affects
//	observe.go     the input of a reconcile
//	status.go      status and conditions, pure
package freeze

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/queue"
	"github.com/heighliner/heighliner/internal/shard"
	"github.com/heighliner/heighliner/internal/status"
)

// FieldOwner is the field manager for all writes by this controller.
const FieldOwner = "heighliner-freeze"

// Options of the controllers.
type Options struct {
	// Clock is the source of all timestamps. Defaults to the real clock.
	Clock clock.PassiveClock
	// Shards define which namespaces this replica reconciles; nil means all.
	Shards *shard.Shards
}

// reconciler reconciles Freezes, or ClusterFreezes.
type reconciler struct {
	client.Client
	events status.Recorder
	clock  clock.PassiveClock
	// cluster reports whether the reconciler handles ClusterFreezes.
	cluster bool
}

// +kubebuilder:rbac:groups=hlnr.io,resources=freezes;clusterfreezes;microservices,verbs=get;list;watch
// +kubebuilder:rbac:groups=hlnr.io,resources=freezes/status;clusterfreezes/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// SetupWithManager registers a controller for Freezes, and a controller for ClusterFreezes.
func SetupWithManager(mgr ctrl.Manager, o Options) error {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	for name, of := range map[string]struct {
		object  client.Object
		list    client.ObjectList
		cluster bool
	}{
		"freeze":        {&v1alpha1.Freeze{}, &v1alpha1.FreezeList{}, false},
		"clusterfreeze": {&v1alpha1.ClusterFreeze{}, &v1alpha1.ClusterFreezeList{}, true},
	} {
		r := &reconciler{
			Client: mgr.GetClient(), clock: o.Clock, cluster: of.cluster,
			events: status.Recorder{Events: mgr.GetEventRecorder(FieldOwner)},
		}
		gate := o.Shards.Gate(mgr.GetCache(), of.list)
		b := ctrl.NewControllerManagedBy(mgr).
			Named(name).
			For(of.object, builder.WithPredicates(queue.SpecChanged())).
			Watches(&v1alpha1.Microservice{}, handler.EnqueueRequestsFromMapFunc(r.forMicroservice), builder.WithPredicates(labelsChanged())).
			WatchesRawSource(gate).
			WithOptions(queue.Options(1))
		if of.cluster {
			b = b.WatchesMetadata(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(r.forMicroservice), builder.WithPredicates(labelsChanged()))
		}
		if err := b.Complete(gate.Reconciler(r)); err != nil {
			return fmt.Errorf("set up controller %s: %w", name, err)
		}
	}
	return nil
}

// labelsChanged admits creations, deletions, and changes to labels.
func labelsChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return !maps.Equal(e.ObjectOld.GetLabels(), e.ObjectNew.GetLabels())
	}}
}

// forMicroservice enqueues the freezes that may select a Microservice or the Microservices of a namespace.
func (r *reconciler) forMicroservice(ctx context.Context, o client.Object) []reconcile.Request {
	freezes, err := r.list(ctx, o.GetNamespace())
	var early *cache.ErrResourceNotCached
	if errors.As(err, &early) {
		return nil // Freezes are not watched yet. When the watch starts, each Freeze is reconciled.
	}
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "failed to list the freezes of a namespace", "namespace", o.GetNamespace())
		return nil
	}
	var requests []reconcile.Request
	for _, f := range freezes {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKey{Namespace: f.Namespace, Name: f.Name}})
	}
	return requests
}

// Reconcile reports the state of one freeze.
func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	o, err := r.observe(ctx, req)
	if err != nil || o == nil {
		return ctrl.Result{}, err
	}
	now := r.clock.Now()
	before, ok := o.object.DeepCopyObject().(client.Object)
	if !ok {
		return ctrl.Result{}, fmt.Errorf("copy %s: %T is not an object", o.freeze, o.object)
	}
	next := setStatus(o, now)
	wrote, err := status.Patch(ctx, r.Client, FieldOwner, o.object, before, status.KnownFields)
	if err != nil {
		return status.Again(ctx, client.IgnoreNotFound(err)) // A freeze that was deleted in the meantime has no state.
	}
	if wrote {
		r.recordState(o, statusOf(before))
	}
	if next.IsZero() {
		return ctrl.Result{}, nil
	}
	return ctrl.Result{RequeueAfter: max(time.Millisecond, next.Sub(now))}, nil
}

// recordState records an event when a freeze begins or ceases to apply.
func (r *reconciler) recordState(o *observed, before *v1alpha1.FreezeStatus) {
	now := o.status
	switch {
	case now.Active && !before.Active:
		r.events.Normal(o.object, "FreezeBegan", "Freeze", began(now))
	case !now.Active && before.Active:
		r.events.Normal(o.object, "FreezeEnded", "Freeze", ended(before))
	}
}
