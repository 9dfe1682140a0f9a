package imagepolicy

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// Indexes of the cache that this controller reads.
const (
	indexUsers = "imagepolicy.microservice.imagePolicyRef"
	indexPins  = "imagepolicy.networkpolicy.microservice"
)

func setupIndexes(ctx context.Context, mgr ctrl.Manager) error {
	f := mgr.GetFieldIndexer()
	if err := f.IndexField(ctx, &v1alpha1.Microservice{}, indexUsers, func(o client.Object) []string {
		return []string{o.(*v1alpha1.Microservice).Spec.ImagePolicyRef.Name}
	}); err != nil {
		return err
	}
	return f.IndexField(ctx, &v1alpha1.NetworkPolicy{}, indexPins, func(o client.Object) []string {
		p := o.(*v1alpha1.NetworkPolicy)
		if len(pins(p)) == 0 {
			return nil
		}
		return []string{microserviceOf(p)}
	})
}

func microserviceOf(p *v1alpha1.NetworkPolicy) string {
	if p.Spec.MicroserviceRef != nil {
		return p.Spec.MicroserviceRef.Name
	}
	return p.Name
}

// pins are the versions that a NetworkPolicy's domains name.
func pins(p *v1alpha1.NetworkPolicy) []string {
	var versions []string
	for _, d := range p.Spec.Domains {
		if d.Release != nil {
			versions = append(versions, d.Release.Version)
		}
	}
	return versions
}

// builderPredicates let a policy's own specification and requests through, and
// not its status, which is ours.
func builderPredicates() builder.ForOption {
	return builder.WithPredicates(predicate.Or(
		predicate.GenerationChangedPredicate{},
		predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
			return e.ObjectOld.GetAnnotations()[v1alpha1.AnnotationRequestedAt] != e.ObjectNew.GetAnnotations()[v1alpha1.AnnotationRequestedAt]
		}},
	))
}

func pinsChanged() builder.WatchesOption {
	return builder.WithPredicates(predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			return !slices.Equal(pins(e.ObjectOld.(*v1alpha1.NetworkPolicy)), pins(e.ObjectNew.(*v1alpha1.NetworkPolicy)))
		},
	})
}

// forMicroservice enqueues the ImagePolicy that a Microservice uses.
func forMicroservice(_ context.Context, o client.Object) []reconcile.Request {
	ms := o.(*v1alpha1.Microservice)
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: ms.Namespace, Name: ms.Spec.ImagePolicyRef.Name}}}
}

// forNetworkPolicy enqueues the ImagePolicy behind a NetworkPolicy's Microservice.
func (r *Reconciler) forNetworkPolicy(ctx context.Context, o client.Object) []reconcile.Request {
	var ms v1alpha1.Microservice
	key := client.ObjectKey{Namespace: o.GetNamespace(), Name: microserviceOf(o.(*v1alpha1.NetworkPolicy))}
	if err := r.Get(ctx, key, &ms); err != nil {
		if client.IgnoreNotFound(err) != nil {
			ctrl.LoggerFrom(ctx).Error(err, "get Microservice of networkpolicies.hlnr.io", "microservice", key.Name)
		}
		return nil
	}
	return forMicroservice(ctx, &ms)
}
