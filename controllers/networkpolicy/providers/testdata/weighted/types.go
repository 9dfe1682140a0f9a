package weighted

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of the API.
var GroupVersion = schema.GroupVersion{Group: "example.com", Version: "v1"}

// AddToScheme adds WeightedRoutes to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &WeightedRoute{}, &WeightedRouteList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}

// WeightedRoute is the route object of a provider.
type WeightedRoute struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              Spec   `json:"spec"`
	Status            Status `json:"status"`
}

// WeightedRouteList is a list of WeightedRoutes.
type WeightedRouteList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []WeightedRoute `json:"items"`
}

// Spec defines the hosts and the path of a route, and the Services to which it routes.
type Spec struct {
	Hosts    []string  `json:"hosts"`
	Path     string    `json:"path"`
	Backends []Backend `json:"backends"`
}

// Backend is a Service and its share of the requests.
type Backend struct {
	Service string `json:"service"`
	Port    int32  `json:"port"`
	Weight  int32  `json:"weight"`
}

// Status contains the report from the controller that serves the route.
type Status struct {
	ObservedGeneration int64 `json:"observedGeneration"`
	// Error explains why the route is not served; empty if it is served.
	Error string `json:"error,omitempty"`
}

// DeepCopyObject copies the route.
func (r *WeightedRoute) DeepCopyObject() runtime.Object {
	out := *r
	r.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Spec.Hosts, out.Spec.Backends = slices.Clone(r.Spec.Hosts), slices.Clone(r.Spec.Backends)
	return &out
}

// DeepCopyObject copies the list.
func (l *WeightedRouteList) DeepCopyObject() runtime.Object {
	out := *l
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	out.Items = make([]WeightedRoute, len(l.Items))
	for i := range l.Items {
		out.Items[i] = *l.Items[i].DeepCopyObject().(*WeightedRoute)
	}
	return &out
}
