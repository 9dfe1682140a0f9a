package microservice

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/freeze"
)

// observeFreezes reads all freezes, and determines the freeze that currently applies to the Microservice.
func (r *Reconciler) observeFreezes(ctx context.Context, o *observed) error {
	var freezes v1alpha1.FreezeList
	if err := r.readable(r.List(ctx, &freezes, client.InNamespace(o.ms.Namespace), client.UnsafeDisableDeepCopy)); err != nil {
		return fmt.Errorf("list Freezes: %w", err)
	}
	var cluster v1alpha1.ClusterFreezeList
	if err := r.readable(r.List(ctx, &cluster, client.UnsafeDisableDeepCopy)); err != nil {
		return fmt.Errorf("list ClusterFreezes: %w", err)
	}
	all := freeze.All(freezes.Items, cluster.Items)
	if len(all) == 0 {
		return nil
	}
	subject := freeze.Subject{Namespace: o.ms.Namespace, Name: o.ms.Name, Labels: o.ms.Labels}
	if slices.ContainsFunc(all, freeze.Freeze.NeedsNamespaceLabels) {
		var err error
		if subject.NamespaceLabels, err = r.namespaceLabels(ctx, o.ms.Namespace); err != nil {
			return err
		}
	}
	o.freezes = freeze.Calendar{Freezes: all, Subject: subject}
	o.facts.Spec.Freeze = freeze.Of(all, subject, r.clock.Now())
	return nil
}

// namespaceLabels returns a namespace's labels.
func (r *Reconciler) namespaceLabels(ctx context.Context, name string) (map[string]string, error) {
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if err := r.readable(client.IgnoreNotFound(r.Get(ctx, client.ObjectKey{Name: name}, namespace))); err != nil {
		return nil, fmt.Errorf("get namespace %q: %w", name, err)
	}
	return namespace.Labels, nil
}

// readable returns the error from a read, or nil if a plan is computed for a user who has no access to the
// objects. Such objects, for example freezes, are omitted from the plan's input. The user can still see in the
// status of the Microservice whether it is waiting for a freeze to end.
func (r *Reconciler) readable(err error) error {
	if r.guest && (apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || meta.IsNoMatchError(err)) {
		return nil
	}
	return err
}

// forFreeze enqueues the Microservices to which a Freeze or ClusterFreeze may apply. The reconcile of an
// unaffected Microservice writes nothing.
func (r *Reconciler) forFreeze(ctx context.Context, o client.Object) []reconcile.Request {
	var f freeze.Freeze
	switch o := o.(type) {
	case *v1alpha1.Freeze:
		f = freeze.Namespaced(o)
	case *v1alpha1.ClusterFreeze:
		f = freeze.Cluster(o)
	default:
		return nil
	}
	// The reconcile evaluates the namespace selector.
	f.NamespaceSelector = nil
	return r.microservices(ctx, f.Namespace, func(ms *v1alpha1.Microservice) bool {
		return f.Selects(freeze.Subject{Namespace: ms.Namespace, Name: ms.Name, Labels: ms.Labels})
	})
}

// forNamespace enqueues the Microservices in a namespace when the labels of the namespace change, if a
// ClusterFreeze selects namespaces by label.
func (r *Reconciler) forNamespace(ctx context.Context, o client.Object) []reconcile.Request {
	var cluster v1alpha1.ClusterFreezeList
	if err := r.List(ctx, &cluster, client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "failed to list ClusterFreezes", "namespace", o.GetName())
		return nil
	}
	for i := range cluster.Items {
		if cluster.Items[i].Spec.NamespaceSelector != nil {
			return r.microservices(ctx, o.GetName(), func(*v1alpha1.Microservice) bool { return true })
		}
	}
	return nil
}

// microservices returns requests for the Microservices that are in a namespace and satisfy a predicate. An
// empty namespace means all namespaces.
func (r *Reconciler) microservices(ctx context.Context, namespace string, is func(*v1alpha1.Microservice) bool) []reconcile.Request {
	var list v1alpha1.MicroserviceList
	if err := r.List(ctx, &list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "failed to list the Microservices that a changed object may affect", "namespace", namespace)
		return nil
	}
	var requests []reconcile.Request
	for i := range list.Items {
		if is(&list.Items[i]) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}
	return requests
}

// watchFreezes adds watches for the objects that determine whether a Microservice is frozen.
func (r *Reconciler) watchFreezes(b *builder.Builder) *builder.Builder {
	return b.
		Watches(&v1alpha1.Freeze{}, handler.EnqueueRequestsFromMapFunc(r.forFreeze), builder.WithPredicates(freezeChanged())).
		Watches(&v1alpha1.ClusterFreeze{}, handler.EnqueueRequestsFromMapFunc(r.forFreeze), builder.WithPredicates(freezeChanged())).
		WatchesMetadata(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(r.forNamespace), builder.WithPredicates(labelsChanged()))
}

// freezeChanged admits changes to a freeze's specification, and changes to its status when a freeze period
// starts or ends.
func freezeChanged() predicate.Predicate {
	active := func(o client.Object) bool {
		switch o := o.(type) {
		case *v1alpha1.Freeze:
			return o.Status.Active
		case *v1alpha1.ClusterFreeze:
			return o.Status.Active
		}
		return false
	}
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() || active(e.ObjectOld) != active(e.ObjectNew)
	}}
}

// labelsChanged admits only changes to labels.
func labelsChanged() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false },
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return !maps.Equal(e.ObjectOld.GetLabels(), e.ObjectNew.GetLabels())
		},
	}
}
