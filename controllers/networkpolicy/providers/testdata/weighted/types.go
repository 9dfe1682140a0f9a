package weighted

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// WeightedRoute is the kind that carries a route.
type WeightedRoute struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              Spec   `json:"spec"`
	Status            Status `json:"status"`
}

// Spec routes hosts, below a path, to Services.
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

// Status is what serves the route reports.
type Status struct {
	ObservedGeneration int64 `json:"observedGeneration"`
	// Error why the route is not served; "": it is.
	Error string `json:"error,omitempty"`
}

// DeepCopyObject copies the route.
func (r *WeightedRoute) DeepCopyObject() runtime.Object {
	out := *r
	r.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Spec.Hosts, out.Spec.Backends = slices.Clone(r.Spec.Hosts), slices.Clone(r.Spec.Backends)
	return &out
}
