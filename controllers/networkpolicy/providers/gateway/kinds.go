package gateway

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
)

var (
	gatewayKind = providers.Kind{Group: gatewayv1.GroupName, Kind: "Gateway", Versions: []string{"v1"}}
	httpKind    = providers.Kind{Group: gatewayv1.GroupName, Kind: "HTTPRoute", Versions: []string{"v1"}}

	routeKinds = []providers.Kind{httpKind}
)

// kindOf the routes of a protocol.
func kindOf(v1alpha1.PortProtocol) providers.Kind { return httpKind }

// parts of a route, whatever its kind.
type parts struct {
	parents []gatewayv1.ParentReference
	hosts   []gatewayv1.Hostname
	answers []gatewayv1.RouteParentStatus
	path    string
	// split are the backends that share requests by weight.
	split []gatewayv1.BackendRef
	// services that are named in any way.
	services map[string]bool
}

// partsOf an object; ok is false where it is no route.
func partsOf(o client.Object) (p parts, ok bool) {
	p.services = map[string]bool{}
	switch r := o.(type) {
	case *gatewayv1.HTTPRoute:
		p.parents, p.hosts, p.answers, p.path = r.Spec.ParentRefs, r.Spec.Hostnames, r.Status.Parents, pathOf(r)
		for i, rule := range r.Spec.Rules {
			p.rule(backendsOf(rule), i == len(r.Spec.Rules)-1)
			for _, f := range rule.Filters {
				if f.RequestMirror != nil {
					p.services[string(f.RequestMirror.BackendRef.Name)] = true
				}
			}
		}
	default:
		return p, false
	}
	return p, true
}

// rule adds the backends of a rule. The last one splits by weight: one with more
// matches goes before it, by GEP-718's order of precedence.
func (p *parts) rule(backends []gatewayv1.BackendRef, last bool) {
	for _, b := range backends {
		p.services[string(b.Name)] = true
	}
	if last {
		p.split = backends
	}
}

func (p *parts) hostnames() []string {
	out := make([]string, 0, len(p.hosts))
	for _, h := range p.hosts {
		out = append(out, string(h))
	}
	return out
}

func (p *parts) weights() map[string]int {
	out := map[string]int{}
	for _, b := range p.split {
		out[string(b.Name)] = 1
		if b.Weight != nil {
			out[string(b.Name)] = int(*b.Weight)
		}
	}
	return out
}

func backendsOf(rule gatewayv1.HTTPRouteRule) []gatewayv1.BackendRef {
	out := make([]gatewayv1.BackendRef, 0, len(rule.BackendRefs))
	for _, b := range rule.BackendRefs {
		out = append(out, b.BackendRef)
	}
	return out
}

// pathOf is the path prefix of a route of ours: that of the rule that splits.
func pathOf(route *gatewayv1.HTTPRoute) string {
	for _, rule := range route.Spec.Rules {
		for _, m := range rule.Matches {
			if m.Path != nil && m.Path.Value != nil {
				return *m.Path.Value
			}
		}
	}
	return "/"
}

// sameRules says whether two routes lead the same requests to the same places. Only
// what we write is compared: what a server adds anew after each write, such as a
// default for timeouts, must not keep a route from ever being confirmed.
func sameRules(old, want client.Object) bool {
	switch want := want.(type) {
	case *gatewayv1.HTTPRoute:
		old, ok := old.(*gatewayv1.HTTPRoute)
		return ok && slices.EqualFunc(old.Spec.Rules, want.Spec.Rules, sameHTTPRule)
	}
	return false
}

func sameHTTPRule(old, want gatewayv1.HTTPRouteRule) bool {
	return equality.Semantic.DeepEqual(old.Matches, want.Matches) &&
		slices.EqualFunc(old.BackendRefs, want.BackendRefs, func(a, b gatewayv1.HTTPBackendRef) bool {
			return sameBackend(a.BackendRef, b.BackendRef) && len(a.Filters) == len(b.Filters)
		}) &&
		slices.EqualFunc(old.Filters, want.Filters, func(a, b gatewayv1.HTTPRouteFilter) bool {
			x, y := deref(a.RequestMirror), deref(b.RequestMirror)
			return a.Type == b.Type && sameObject(x.BackendRef, y.BackendRef) && deref(x.Percent) == deref(y.Percent)
		})
}

func sameBackend(a, b gatewayv1.BackendRef) bool {
	return sameObject(a.BackendObjectReference, b.BackendObjectReference) && deref(a.Weight) == deref(b.Weight)
}

func sameObject(a, b gatewayv1.BackendObjectReference) bool {
	return a.Name == b.Name && deref(a.Port) == deref(b.Port)
}

func equalFunc[T any](a, b []T, same func(a, b T) bool) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !same(a[i], b[i]) {
			return false
		}
	}
	return true
}
