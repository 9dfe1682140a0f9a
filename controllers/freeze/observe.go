package freeze

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/freeze"
)

// observed is a freeze together with the data from which its status is computed.
type observed struct {
	object client.Object
	freeze freeze.Freeze
	// status is the status of the object.
	status *v1alpha1.FreezeStatus
	// services is the number of Microservices that the freeze selects, excluding exceptions.
	services int
}

// statusOf returns the status of a freeze.
func statusOf(o client.Object) *v1alpha1.FreezeStatus {
	switch o := o.(type) {
	case *v1alpha1.Freeze:
		return &o.Status
	case *v1alpha1.ClusterFreeze:
		return &o.Status
	}
	return &v1alpha1.FreezeStatus{}
}

// observe reads the cluster and writes nothing. It returns nil if the freeze does not exist.
func (r *reconciler) observe(ctx context.Context, req ctrl.Request) (*observed, error) {
	o := &observed{}
	if r.cluster {
		f := &v1alpha1.ClusterFreeze{}
		if err := r.Get(ctx, req.NamespacedName, f); err != nil {
			return nil, client.IgnoreNotFound(err)
		}
		o.object, o.freeze = f, freeze.Cluster(f)
	} else {
		f := &v1alpha1.Freeze{}
		if err := r.Get(ctx, req.NamespacedName, f); err != nil {
			return nil, client.IgnoreNotFound(err)
		}
		o.object, o.freeze = f, freeze.Namespaced(f)
	}
	o.status = statusOf(o.object)
	var list v1alpha1.MicroserviceList
	if err := r.List(ctx, &list, client.InNamespace(o.freeze.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list Microservices: %w", err)
	}
	labels, err := r.namespaceLabels(ctx, o.freeze)
	if err != nil {
		return nil, err
	}
	for i := range list.Items {
		ms := &list.Items[i]
		if o.freeze.Selects(freeze.Subject{Namespace: ms.Namespace, Name: ms.Name, Labels: ms.Labels, NamespaceLabels: labels[ms.Namespace]}) {
			o.services++
		}
	}
	return o, nil
}

// namespaceLabels reads the labels of all namespaces if a freeze selects namespaces by label.
func (r *reconciler) namespaceLabels(ctx context.Context, f freeze.Freeze) (map[string]map[string]string, error) {
	if !f.NeedsNamespaceLabels() {
		return nil, nil
	}
	var namespaces metav1.PartialObjectMetadataList
	namespaces.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NamespaceList"))
	if err := r.List(ctx, &namespaces, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list namespaces: %w", err)
	}
	labels := map[string]map[string]string{}
	for i := range namespaces.Items {
		labels[namespaces.Items[i].Name] = namespaces.Items[i].Labels
	}
	return labels, nil
}

// list returns the freezes that can apply to a namespace.
func (r *reconciler) list(ctx context.Context, namespace string) ([]freeze.Freeze, error) {
	if r.cluster {
		var list v1alpha1.ClusterFreezeList
		err := r.List(ctx, &list, client.UnsafeDisableDeepCopy)
		return freeze.All(nil, list.Items), err
	}
	var list v1alpha1.FreezeList
	err := r.List(ctx, &list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy)
	return freeze.All(list.Items, nil), err
}
