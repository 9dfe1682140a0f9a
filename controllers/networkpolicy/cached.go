package networkpolicy

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/compact"
)

// CacheByObject configures a manager's cache for this controller. For Services and EndpointSlices, the cache
// contains only objects with the label of a policy, and only those fields of endpoints that the controller
// reads. For the kinds that providers write, NewCache also restricts the cache to objects with this label.
func CacheByObject() map[client.Object]cache.ByObject {
	ours, err := labels.NewRequirement(v1alpha1.LabelPolicy, selection.Exists, nil)
	if err != nil {
		return nil // This cannot happen, because the label is a constant.
	}
	return map[client.Object]cache.ByObject{
		&corev1.Service{}:            {Label: labels.NewSelector().Add(*ours)},
		&discoveryv1.EndpointSlice{}: {Label: labels.NewSelector().Add(*ours), Transform: compact.Trimmed(trimEndpoints)},
	}
}

// trimEndpoints keeps the name, the namespace and the labels of an EndpointSlice, and the identity and the
// conditions of its endpoints.
func trimEndpoints(s *discoveryv1.EndpointSlice) {
	s.Annotations, s.GenerateName, s.OwnerReferences, s.Ports = nil, "", nil, nil
	for i, e := range s.Endpoints {
		s.Endpoints[i] = discoveryv1.Endpoint{Conditions: discoveryv1.EndpointConditions{
			Ready: shared(e.Conditions.Ready), Serving: shared(e.Conditions.Serving), Terminating: shared(e.Conditions.Terminating),
		}}
		if id := identity(e); id != "" {
			s.Endpoints[i].Addresses = []string{id} // The cached endpoint has no TargetRef, so identity returns this address.
		}
	}
}

// yes and no are the values to which the conditions of all cached endpoints point.
var yes, no = true, false

// shared returns a pointer to an equal value that all endpoints in the cache share.
func shared(condition *bool) *bool {
	switch {
	case condition == nil:
		return nil
	case *condition:
		return &yes
	default:
		return &no
	}
}

// identity returns a value that identifies an endpoint: the UID of its pod, which does not depend on the address
// family, or its first address if it has no pod.
func identity(e discoveryv1.Endpoint) string {
	if e.TargetRef != nil && e.TargetRef.UID != "" {
		return string(e.TargetRef.UID)
	}
	return cmp.Or(slices.Concat(e.Addresses, []string{""})...)
}
