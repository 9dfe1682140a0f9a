package apisix

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of the API.
var GroupVersion = schema.GroupVersion{Group: "apisix.apache.org", Version: "v2"}

// AddToScheme adds ApisixRoutes and ApisixTlses to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &ApisixRoute{}, &ApisixRouteList{}, &ApisixTls{}, &ApisixTlsList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}

// ApisixRoute contains the fields of ApisixRoute of apisix.apache.org/v2 that this package reads
// and writes.
type ApisixRoute struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              RouteSpec   `json:"spec"`
	Status            RouteStatus `json:"status,omitempty"`
}

// ApisixRouteList is a list of ApisixRoutes.
type ApisixRouteList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ApisixRoute `json:"items"`
}

// RouteSpec is the specification of an ApisixRoute.
type RouteSpec struct {
	// IngressClassName is the class of the route; if empty, every controller serves the route.
	IngressClassName string `json:"ingressClassName,omitempty"`
	// HTTP contains the rules for HTTP requests.
	HTTP []Rule `json:"http,omitempty"`
}

// RouteStatus is the status of an ApisixRoute.
type RouteStatus struct {
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Rule routes requests to backends.
type Rule struct {
	// Name is the name of the rule. It is unique in the route.
	Name string `json:"name"`
	// Priority decides between rules with the same path: the rule with the higher priority applies.
	Priority int `json:"priority,omitempty"`
	// Match selects requests.
	Match Match `json:"match"`
	// WebSocket allows connections to be upgraded to WebSocket.
	WebSocket bool `json:"websocket"`
	// Backends share the requests by weight.
	Backends []Backend `json:"backends,omitempty"`
}

// Match selects requests that meet all of its conditions.
type Match struct {
	// Hosts lists the hosts of matching requests.
	Hosts []string `json:"hosts,omitempty"`
	// Paths lists the paths of matching requests. "*" at the end of a path matches any suffix.
	Paths []string `json:"paths"`
	// Methods lists the HTTP methods of matching requests.
	Methods []string `json:"methods,omitempty"`
	// Exprs are additional conditions. All of them must be true.
	Exprs []Expr `json:"exprs,omitempty"`
}

// Expr compares a part of a request with a value.
type Expr struct {
	Subject Subject `json:"subject"`
	// Op is Equal or RegexMatch.
	Op    string `json:"op"`
	Value string `json:"value"`
}

// Subject is a part of a request.
type Subject struct {
	// Scope is Header, Cookie or Query.
	Scope string `json:"scope"`
	Name  string `json:"name,omitempty"`
}

// Backend is a Service and its weight among the backends of a rule.
type Backend struct {
	ServiceName string `json:"serviceName"`
	ServicePort int32  `json:"servicePort"`
	Weight      int32  `json:"weight"`
}

// DeepCopyObject copies the route.
func (r *ApisixRoute) DeepCopyObject() runtime.Object {
	if r == nil {
		return nil
	}
	out := &ApisixRoute{TypeMeta: r.TypeMeta, Spec: r.Spec}
	r.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Spec.HTTP = slices.Clone(r.Spec.HTTP)
	for i := range out.Spec.HTTP {
		rule := &out.Spec.HTTP[i]
		rule.Backends = slices.Clone(rule.Backends)
		m := &rule.Match
		m.Hosts, m.Paths, m.Methods, m.Exprs = slices.Clone(m.Hosts), slices.Clone(m.Paths), slices.Clone(m.Methods), slices.Clone(m.Exprs)
	}
	out.Status.Conditions = slices.Clone(r.Status.Conditions) // Conditions contain only pointers to immutable values.
	return out
}

// DeepCopyObject copies the list.
func (l *ApisixRouteList) DeepCopyObject() runtime.Object {
	if l == nil {
		return nil
	}
	out := &ApisixRouteList{TypeMeta: l.TypeMeta}
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	for i := range l.Items {
		out.Items = append(out.Items, *l.Items[i].DeepCopyObject().(*ApisixRoute))
	}
	return out
}

// ApisixTls contains the fields of ApisixTls of apisix.apache.org/v2 that this package reads and
// writes.
type ApisixTls struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              TLSSpec     `json:"spec"`
	Status            RouteStatus `json:"status,omitempty"`
}

// ApisixTlsList is a list of ApisixTlses.
type ApisixTlsList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ApisixTls `json:"items"`
}

// TLSSpec assigns a certificate to hosts.
type TLSSpec struct {
	// IngressClassName is the class of the object; if empty, every controller serves it.
	IngressClassName string `json:"ingressClassName,omitempty"`
	// Hosts are the server names to which the certificate applies.
	Hosts []string `json:"hosts"`
	// Secret refers to the Secret that contains the certificate.
	Secret Secret `json:"secret"`
}

// Secret refers to a Secret.
type Secret struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
}

// DeepCopyObject copies the ApisixTls.
func (t *ApisixTls) DeepCopyObject() runtime.Object {
	if t == nil {
		return nil
	}
	out := &ApisixTls{TypeMeta: t.TypeMeta, Spec: t.Spec}
	t.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Spec.Hosts = slices.Clone(t.Spec.Hosts)
	out.Status.Conditions = slices.Clone(t.Status.Conditions)
	return out
}

// DeepCopyObject copies the list.
func (l *ApisixTlsList) DeepCopyObject() runtime.Object {
	if l == nil {
		return nil
	}
	out := &ApisixTlsList{TypeMeta: l.TypeMeta}
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	for i := range l.Items {
		out.Items = append(out.Items, *l.Items[i].DeepCopyObject().(*ApisixTls))
	}
	return out
}
