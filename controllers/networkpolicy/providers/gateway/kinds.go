package gateway

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	gatewayv1alpha2 "sigs.k8s.io/gateway-api/apis/v1alpha2"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
	"github.com/heighliner/heighliner/controllers/networkpolicy/resources"
)

var (
	gatewayKind = providers.Kind{Group: gatewayv1.GroupName, Kind: "Gateway", Versions: []string{"v1"}}
	httpKind    = providers.Kind{Group: gatewayv1.GroupName, Kind: "HTTPRoute", Versions: []string{"v1"}}
	grpcKind    = providers.Kind{Group: gatewayv1.GroupName, Kind: "GRPCRoute", Versions: []string{"v1"}}
	// TLSRoute was experimental, as v1alpha2, before Gateway API 1.5. TCPRoute and UDPRoute were
	// experimental before 1.6.
	tlsKind = providers.Kind{Group: gatewayv1.GroupName, Kind: "TLSRoute", Versions: []string{"v1", "v1alpha2"}}
	tcpKind = providers.Kind{Group: gatewayv1.GroupName, Kind: "TCPRoute", Versions: []string{"v1", "v1alpha2"}}
	udpKind = providers.Kind{Group: gatewayv1.GroupName, Kind: "UDPRoute", Versions: []string{"v1", "v1alpha2"}}

	routeKinds = []providers.Kind{httpKind, grpcKind, tlsKind, tcpKind, udpKind}
)

// kindOf returns the route kind for a protocol.
func kindOf(protocol v1alpha1.PortProtocol) providers.Kind {
	switch protocol {
	case v1alpha1.ProtocolGRPC:
		return grpcKind
	case v1alpha1.ProtocolTLS:
		return tlsKind
	case v1alpha1.ProtocolTCP:
		return tcpKind
	case v1alpha1.ProtocolUDP:
		return udpKind
	}
	return httpKind
}

// parts contains the parts that routes of all kinds have in common.
type parts struct {
	parents []gatewayv1.ParentReference
	hosts   []gatewayv1.Hostname
	answers []gatewayv1.RouteParentStatus
	path    string
	// split contains the backends that share requests by weight.
	split []gatewayv1.BackendRef
	// services contains the names of the Services to which the route refers in any way.
	services map[string]bool
}

// partsOf returns the parts of a route; ok is false if the object is not a route.
func partsOf(o resources.Object) (p parts, ok bool) {
	p.services = map[string]bool{}
	switch r := o.(type) {
	case *gatewayv1.HTTPRoute:
		p.parents, p.hosts, p.answers, p.path = r.Spec.ParentRefs, r.Spec.Hostnames, r.Status.Parents, pathOf(r)
		for i, rule := range r.Spec.Rules {
			p.rule(backendsOf(rule), i == len(r.Spec.Rules)-1)
			for _, f := range rule.Filters {
				p.mirror(f.RequestMirror)
			}
		}
	case *gatewayv1.GRPCRoute:
		p.parents, p.hosts, p.answers = r.Spec.ParentRefs, r.Spec.Hostnames, r.Status.Parents
		for i, rule := range r.Spec.Rules {
			p.rule(grpcBackends(rule), i == len(r.Spec.Rules)-1)
			for _, f := range rule.Filters {
				p.mirror(f.RequestMirror)
			}
		}
	case *gatewayv1.TLSRoute:
		p.parents, p.hosts, p.answers = r.Spec.ParentRefs, r.Spec.Hostnames, r.Status.Parents
		for _, rule := range r.Spec.Rules {
			p.rule(rule.BackendRefs, true)
		}
	case *gatewayv1alpha2.TLSRoute:
		p.parents, p.hosts, p.answers = r.Spec.ParentRefs, r.Spec.Hostnames, r.Status.Parents
		for _, rule := range r.Spec.Rules {
			p.rule(rule.BackendRefs, true)
		}
	case *gatewayv1.TCPRoute:
		p.parents, p.answers = r.Spec.ParentRefs, r.Status.Parents
		for _, rule := range r.Spec.Rules {
			p.rule(rule.BackendRefs, true)
		}
	case *gatewayv1alpha2.TCPRoute:
		p.parents, p.answers = r.Spec.ParentRefs, r.Status.Parents
		for _, rule := range r.Spec.Rules {
			p.rule(rule.BackendRefs, true)
		}
	case *gatewayv1.UDPRoute:
		p.parents, p.answers = r.Spec.ParentRefs, r.Status.Parents
		for _, rule := range r.Spec.Rules {
			p.rule(rule.BackendRefs, true)
		}
	case *gatewayv1alpha2.UDPRoute:
		p.parents, p.answers = r.Spec.ParentRefs, r.Status.Parents
		for _, rule := range r.Spec.Rules {
			p.rule(rule.BackendRefs, true)
		}
	default:
		return p, false
	}
	return p, true
}

func (p *parts) mirror(m *gatewayv1.HTTPRequestMirrorFilter) {
	if m != nil {
		p.services[string(m.BackendRef.Name)] = true
	}
}

// rule adds the backends of a rule. The last rule splits requests by weight. Rules with more specific
// matches precede it, in accordance with the order of precedence in GEP-718.
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

func grpcBackends(rule gatewayv1.GRPCRouteRule) []gatewayv1.BackendRef {
	out := make([]gatewayv1.BackendRef, 0, len(rule.BackendRefs))
	for _, b := range rule.BackendRefs {
		out = append(out, b.BackendRef)
	}
	return out
}

// pathOf returns the path prefix of a managed route, which is the path of its last rule.
func pathOf(route *gatewayv1.HTTPRoute) string {
	for _, rule := range slices.Backward(route.Spec.Rules) {
		for _, m := range rule.Matches {
			if m.Path != nil && m.Path.Value != nil {
				return *m.Path.Value
			}
		}
	}
	return "/"
}

// sameRules reports whether two routes send the same requests to the same backends. It compares
// only the fields that this package writes. Otherwise, a field that a server adds after each write,
// such as a default for timeouts, would prevent the route from ever being accepted.
func sameRules(old, want resources.Object) bool {
	switch want := want.(type) {
	case *gatewayv1.HTTPRoute:
		old, ok := old.(*gatewayv1.HTTPRoute)
		return ok && slices.EqualFunc(old.Spec.Rules, want.Spec.Rules, sameHTTPRule)
	case *gatewayv1.GRPCRoute:
		old, ok := old.(*gatewayv1.GRPCRoute)
		return ok && slices.EqualFunc(old.Spec.Rules, want.Spec.Rules, sameGRPCRule)
	}
	// The other kinds have one rule, which contains only backends.
	had, _ := partsOf(old)
	has, ok := partsOf(want)
	return ok && fmt.Sprintf("%T", old) == fmt.Sprintf("%T", want) && slices.EqualFunc(had.split, has.split, sameBackend)
}

func sameGRPCRule(old, want gatewayv1.GRPCRouteRule) bool {
	return equality.Semantic.DeepEqual(old.Matches, want.Matches) && sameSession(old.SessionPersistence, want.SessionPersistence) &&
		slices.EqualFunc(grpcBackends(old), grpcBackends(want), sameBackend) &&
		slices.EqualFunc(old.Filters, want.Filters, func(a, b gatewayv1.GRPCRouteFilter) bool {
			a.RequestMirror, b.RequestMirror = plain(a.RequestMirror), plain(b.RequestMirror)
			return equality.Semantic.DeepEqual(a, b)
		})
}

func sameHTTPRule(old, want gatewayv1.HTTPRouteRule) bool {
	return equality.Semantic.DeepEqual(old.Matches, want.Matches) && sameSession(old.SessionPersistence, want.SessionPersistence) &&
		(want.Timeouts == nil || equality.Semantic.DeepEqual(old.Timeouts, want.Timeouts)) &&
		slices.EqualFunc(old.BackendRefs, want.BackendRefs, func(a, b gatewayv1.HTTPBackendRef) bool {
			return sameBackend(a.BackendRef, b.BackendRef) && len(a.Filters) == len(b.Filters)
		}) &&
		slices.EqualFunc(old.Filters, want.Filters, func(a, b gatewayv1.HTTPRouteFilter) bool {
			a.RequestMirror, b.RequestMirror = plain(a.RequestMirror), plain(b.RequestMirror)
			return equality.Semantic.DeepEqual(a, b)
		})
}

// plain returns a copy of a mirror filter that contains only the fields that this package writes.
func plain(m *gatewayv1.HTTPRequestMirrorFilter) *gatewayv1.HTTPRequestMirrorFilter {
	if m == nil {
		return nil
	}
	return &gatewayv1.HTTPRequestMirrorFilter{
		BackendRef: gatewayv1.BackendObjectReference{Name: m.BackendRef.Name, Port: m.BackendRef.Port}, Percent: m.Percent,
	}
}

func sameSession(old, want *gatewayv1.SessionPersistence) bool {
	return want == nil || old != nil && deref(old.SessionName) == deref(want.SessionName) && deref(old.AbsoluteTimeout) == deref(want.AbsoluteTimeout)
}

func sameBackend(a, b gatewayv1.BackendRef) bool {
	return sameObject(a.BackendObjectReference, b.BackendObjectReference) && deref(a.Weight) == deref(b.Weight)
}

func sameObject(a, b gatewayv1.BackendObjectReference) bool {
	return a.Name == b.Name && deref(a.Port) == deref(b.Port)
}

// key returns the namespace and name of a Gateway, as "namespace/name".
func key(namespace string, p v1alpha1.ParentReference) string {
	return cmp.Or(p.Namespace, namespace) + "/" + p.Name
}

// keyOf returns the namespace and name to which a parent reference in a route refers, as "namespace/name".
func keyOf(p gatewayv1.ParentReference, namespace string) string {
	return cmp.Or(string(deref(p.Namespace)), namespace) + "/" + string(p.Name)
}

func deref[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}
