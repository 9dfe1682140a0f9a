package notification

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/notify"
	"github.com/heighliner/heighliner/internal/view"
)

// Reasons for errors that a user must correct.
const (
	reasonInvalidSelector     = "InvalidSelector"
	reasonNamespaceSelector   = "NamespaceSelectorNotAllowed"
	reasonInvalidTemplate     = "InvalidTemplate"
	reasonSuspended           = "Suspended"
	reasonDeliveryFailing     = "DeliveryFailing"
	reasonTooManyDeliveries   = "TooManyReleases"
	namespaceSelectorRejected = "spec.namespaceSelector is allowed only in the namespace of the manager: remove it"
)

// observed is a policy with the input to its plan.
type observed struct {
	policy *v1alpha1.NotificationPolicy
	// reason and wrong describe an error that a user must correct; both are empty if there is no such
	// error. If there is an error, observe reads no releases, Microservices or namespaces.
	reason, wrong string
	// releases are the selected releases, in the order of the cache.
	releases []view.ReleaseState
	// services reports which existing Microservices are selected. It is keyed by namespace and name.
	services map[[2]string]bool
	// existing are all Microservices in the namespaces that observe reads, including those that are not
	// selected.
	existing map[[2]string]bool
	// chosen reports whether a namespace is selected.
	chosen func(namespace string) bool
	// state is the state of the receivers in this process.
	state map[string]receiverState
}

// receiver returns a receiver of the policy by name, or nil.
func (o *observed) receiver(name string) *v1alpha1.NotificationReceiver {
	i := slices.IndexFunc(o.policy.Spec.Receivers, func(r v1alpha1.NotificationReceiver) bool { return r.Name == name })
	if i < 0 {
		return nil
	}
	return &o.policy.Spec.Receivers[i]
}

// observe reads the cluster and writes nothing.
func (r *reconciler) observe(ctx context.Context, policy *v1alpha1.NotificationPolicy) (*observed, error) {
	o := &observed{policy: policy, services: map[[2]string]bool{}, existing: map[[2]string]bool{}}
	spec := &policy.Spec
	selector, err := selectorOf(spec.Selector)
	if err != nil {
		o.reason, o.wrong = reasonInvalidSelector, "spec.selector: "+err.Error()
		return o, nil
	}
	namespaces, err := selectorOf(spec.NamespaceSelector)
	if err != nil {
		o.reason, o.wrong = reasonInvalidSelector, "spec.namespaceSelector: "+err.Error()
		return o, nil
	}
	if spec.NamespaceSelector != nil && (!r.selects() || policy.Namespace != r.namespace) {
		o.reason, o.wrong = reasonNamespaceSelector, namespaceSelectorRejected
		return o, nil
	}
	for i := range spec.Receivers {
		if t := spec.Receivers[i].Template; t != "" {
			if err := notify.CheckTemplate(t); err != nil {
				o.reason, o.wrong = reasonInvalidTemplate, fmt.Sprintf("spec.receivers: template of %q: %s", spec.Receivers[i].Name, err)
				return o, nil
			}
		}
	}
	if spec.Suspend {
		return o, nil
	}
	o.chosen = func(namespace string) bool { return namespace == policy.Namespace }
	where := policy.Namespace
	if spec.NamespaceSelector != nil {
		where = ""
		if o.chosen, err = r.namespacesOf(ctx, namespaces); err != nil {
			return nil, err
		}
	}
	return o, r.observeReleases(ctx, o, where, selector)
}

// selectorOf converts a selector; nil selects everything.
func selectorOf(s *metav1.LabelSelector) (labels.Selector, error) {
	if s == nil {
		return labels.Everything(), nil
	}
	return metav1.LabelSelectorAsSelector(s)
}

// namespacesOf returns a function that reports whether a selector selects a namespace.
func (r *reconciler) namespacesOf(ctx context.Context, selector labels.Selector) (func(string) bool, error) {
	if selector.Empty() {
		return func(string) bool { return true }, nil
	}
	var list metav1.PartialObjectMetadataList
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NamespaceList"))
	if err := r.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list namespaces: %w", err)
	}
	chosen := map[string]bool{}
	for i := range list.Items {
		chosen[list.Items[i].Name] = selector.Matches(labels.Set(list.Items[i].Labels))
	}
	return func(namespace string) bool { return chosen[namespace] }, nil
}

// observeReleases reads the states of the selected releases in a namespace, or in all selected namespaces if
// namespace is empty.
func (r *reconciler) observeReleases(ctx context.Context, o *observed, namespace string, selector labels.Selector) error {
	var (
		services v1alpha1.MicroserviceList
		releases v1alpha1.VersionedMicroserviceList
		routes   v1alpha1.NetworkPolicyList
	)
	for _, list := range []client.ObjectList{&services, &releases, &routes} {
		if err := r.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
			return fmt.Errorf("list %T: %w", list, err)
		}
	}
	in := view.Input{Microservices: services.Items, Releases: releases.Items, NetworkPolicies: routes.Items}
	o.releases = view.ReleaseStates(in, r.clock.Now(), func(ms *v1alpha1.Microservice) bool {
		name := [2]string{ms.Namespace, ms.Name}
		o.existing[name] = true
		ok := o.chosen(ms.Namespace) && selector.Matches(labels.Set(ms.Labels))
		o.services[name] = ok
		return ok
	})
	return nil
}
