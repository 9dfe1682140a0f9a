package microservice

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/microservice/resources"
)

// Indexes of the cache that this controller reads.
const (
	indexImagePolicy     = "microservice.spec.imagePolicyRef"
	indexReleases        = "microservice.release.microserviceName"
	indexNetworkPolicies = "microservice.networkpolicy.microservice"
	indexConfigMaps      = "microservice.spec.template.configMaps"
	indexCopies          = "microservice.copy.microservice"
	indexTogether        = "microservice.spec.updateStrategy.canary.together"
)

// indexes of the cache, with the objects that they are of.
var indexes = []struct {
	object client.Object
	field  string
	values client.IndexerFunc
}{
	{&v1alpha1.Microservice{}, indexImagePolicy, func(o client.Object) []string {
		return []string{o.(*v1alpha1.Microservice).Spec.ImagePolicyRef.Name}
	}},
	{&v1alpha1.VersionedMicroservice{}, indexReleases, func(o client.Object) []string {
		return []string{o.(*v1alpha1.VersionedMicroservice).Spec.MicroserviceName}
	}},
	{&v1alpha1.NetworkPolicy{}, indexNetworkPolicies, func(o client.Object) []string {
		return []string{o.(*v1alpha1.NetworkPolicy).MicroserviceName()}
	}},
	{&v1alpha1.Microservice{}, indexConfigMaps, func(o client.Object) []string {
		return configMapsOf(o.(*v1alpha1.Microservice))
	}},
	{&v1alpha1.Microservice{}, indexTogether, func(o client.Object) []string {
		if name := togetherWith(o.(*v1alpha1.Microservice)); name != "" {
			return []string{name}
		}
		return nil
	}},
	{&corev1.ConfigMap{}, indexCopies, func(o client.Object) []string {
		if name, _ := resources.ReleaseOfCopy(o); name != "" {
			return []string{name}
		}
		return nil
	}},
}

func setupIndexes(ctx context.Context, mgr ctrl.Manager) error {
	for _, x := range indexes {
		if err := mgr.GetFieldIndexer().IndexField(ctx, x.object, x.field, x.values); err != nil {
			return err
		}
	}
	return nil
}

// forImagePolicy enqueues the Microservices that an ImagePolicy concerns.
func (r *Reconciler) forImagePolicy(ctx context.Context, o client.Object) []reconcile.Request {
	return r.enqueue(ctx, indexImagePolicy, o)
}

// enqueue gives the Microservices that name an object of their namespace, by an
// index.
func (r *Reconciler) enqueue(ctx context.Context, index string, o client.Object) []reconcile.Request {
	var list v1alpha1.MicroserviceList
	if err := r.List(ctx, &list, client.InNamespace(o.GetNamespace()), client.MatchingFields{index: o.GetName()}, client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "list Microservices that name an object", "index", index, "name", o.GetName())
		return nil
	}
	var requests []reconcile.Request
	for i := range list.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return requests
}

// forNetworkPolicy enqueues the Microservice that a NetworkPolicy routes to.
func forNetworkPolicy(_ context.Context, o client.Object) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: o.GetNamespace(), Name: o.(*v1alpha1.NetworkPolicy).MicroserviceName()}}}
}
