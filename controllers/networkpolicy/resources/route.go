package resources

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// MaxHostnames is the number of hosts that an HTTPRoute may hold.
const MaxHostnames = 16

// Route is what an HTTPRoute of a policy is made from: hosts that lead, under
// one path, to the releases of one group.
type Route struct {
	// Name of the HTTPRoute.
	Name string
	// Hostnames, sorted; 1 to MaxHostnames.
	Hostnames []string
	// Path prefix, "/" for all.
	Path string
	// Port of the Services behind.
	Port int32
	// Backends in the order in which they are written.
	Backends []Backend
	// Stamp of the ledger that the route carries.
	Stamp Stamp
}

// Backend is a Service and its share of the traffic.
type Backend struct {
	Service string
	// Weight is from 1 to 100: what gets nothing is not in the route.
	Weight int32
}

// Build gives the HTTPRoute as it is applied. What the API server would fill in
// is spelled out, so that a comparison with the live object finds no difference.
func (r Route) Build(policy *v1alpha1.NetworkPolicy, microservice string) *gatewayv1.HTTPRoute {
	route := &gatewayv1.HTTPRoute{
		TypeMeta: metav1.TypeMeta{APIVersion: gatewayv1.GroupVersion.String(), Kind: "HTTPRoute"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: policy.Namespace, Name: r.Name,
			Labels: labelsOf(policy, microservice, r.Stamp.Group), Annotations: r.Stamp.annotations(),
		},
	}
	for _, p := range policy.Spec.Provider.Gateway.ParentRefs {
		route.Spec.ParentRefs = append(route.Spec.ParentRefs, parentRef(p))
	}
	for _, h := range r.Hostnames {
		route.Spec.Hostnames = append(route.Spec.Hostnames, gatewayv1.Hostname(h))
	}
	rule := gatewayv1.HTTPRouteRule{Matches: []gatewayv1.HTTPRouteMatch{{
		Path: &gatewayv1.HTTPPathMatch{Type: new(gatewayv1.PathMatchPathPrefix), Value: new(r.Path)},
	}}}
	for _, b := range r.Backends {
		rule.BackendRefs = append(rule.BackendRefs, gatewayv1.HTTPBackendRef{BackendRef: gatewayv1.BackendRef{
			BackendObjectReference: gatewayv1.BackendObjectReference{
				Group: new(gatewayv1.Group("")), Kind: new(gatewayv1.Kind("Service")),
				Name: gatewayv1.ObjectName(b.Service), Port: new(gatewayv1.PortNumber(r.Port)),
			},
			Weight: new(b.Weight),
		}})
	}
	route.Spec.Rules = []gatewayv1.HTTPRouteRule{rule}
	return route
}

func parentRef(p v1alpha1.ParentReference) gatewayv1.ParentReference {
	ref := gatewayv1.ParentReference{
		Group: new(gatewayv1.Group(gatewayv1.GroupName)), Kind: new(gatewayv1.Kind("Gateway")),
		Name: gatewayv1.ObjectName(p.Name),
	}
	if p.Namespace != "" {
		ref.Namespace = new(gatewayv1.Namespace(p.Namespace))
	}
	if p.SectionName != "" {
		ref.SectionName = new(gatewayv1.SectionName(p.SectionName))
	}
	return ref
}
