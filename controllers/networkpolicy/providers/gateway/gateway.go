// Package gateway implements the provider of the Gateway API. Its files refer only to files further
// down in this list:
//
//	gateway.go                 the provider of spec.provider.gateway
//	routeref.go                the provider of spec.provider.routeRef
//	user_route_rules.go        rules in user-managed routes, their previous backendRefs, and the detection of changes by users
//	user_route_backendrefs.go  the backendRefs of rules in user-managed routes, and patches for them
//	live_routes.go             updates to the weights of live routes
//	unsupported.go             settings that a route, or the API server, does not support
//	build.go                   the routes to apply
//	rules.go                   the rules, filters and weighted backends of routes; traffic/weights.go decides the weights
//	route_confirmed.go         whether a route has the desired content, is accepted, and is served
//	probe.go                   the rule that responds to probes, and the addresses to which probes are sent
//	parent_acceptance.go       the status that Gateways report for routes
//	listeners.go               which listener of a Gateway serves a host, and its status
//	listener_sets.go           ListenerSets
//	view.go                    the view of one reconcile, with its Gateways
//	kinds.go                   the route kinds, and the parts that they have in common
//
// internal/apply decides whether a route that another client changed is written again.
package gateway

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
	"github.com/heighliner/heighliner/controllers/networkpolicy/resources"
)

// Provider writes routes of the Gateway API.
type Provider struct{}

var (
	_ interface {
		providers.Provider
		providers.Referrer
		providers.Selective
	} = Provider{}
	_ interface {
		providers.View
		providers.Switcher
		providers.Certificates
		providers.SharedObjects
		providers.Configurable
		providers.Dependent
		providers.ConflictChecker
	} = (*view)(nil)
)

// Name returns "gateway".
func (Provider) Name() string { return "gateway" }

// writtenKinds are the route kinds and the ListenerSet kind. Appending to the slice copies it, because it has no
// spare capacity.
var writtenKinds = slices.Clip(append(slices.Clone(routeKinds), listenerSetKind))

// Writes returns the route kinds and the ListenerSet kind.
func (Provider) Writes() []providers.Kind { return writtenKinds }

// Reads returns the Gateway kind.
func (Provider) Reads() []providers.Kind { return []providers.Kind{gatewayKind} }

// Chosen reports whether spec.provider.gateway is set.
func (Provider) Chosen(p *v1alpha1.NetworkPolicy) bool {
	return chosen(p)
}

// Needs returns the Gateway kind, and the route and ListenerSet kinds that the domains and listeners of the
// policy require.
func (Provider) Needs(p *v1alpha1.NetworkPolicy) []providers.Kind {
	out := []providers.Kind{gatewayKind}
	for _, port := range p.Spec.Ports {
		kind := kindOf(port.Protocol)
		routed := slices.ContainsFunc(p.Spec.Domains, func(d v1alpha1.Domain) bool { return d.Port == port.Name || d.Port == "" && len(p.Spec.Ports) == 1 }) ||
			slices.ContainsFunc(p.Spec.Listeners, func(l v1alpha1.Listener) bool { return l.Port == port.Name })
		if routed && !slices.ContainsFunc(out, func(k providers.Kind) bool { return k.Kind == kind.Kind }) {
			out = append(out, kind)
		}
	}
	if slices.ContainsFunc(p.Spec.Domains, func(d v1alpha1.Domain) bool { return d.TLS != nil && d.TLS.Mode == v1alpha1.TLSListenerSet }) {
		out = append(out, listenerSetKind)
	}
	return out
}

// Refers returns the Gateways to which the policy refers.
func (Provider) Refers(p *v1alpha1.NetworkPolicy) []providers.Reference {
	var out []providers.Reference
	for _, parent := range allParents(p) {
		if ref := reference(p.Namespace, parent.ParentReference); !slices.Contains(out, ref) {
			out = append(out, ref)
		}
	}
	return out
}

// NewView returns the view of one reconcile.
func (Provider) NewView(s providers.Input) providers.View {
	v := &view{Input: s, live: map[string]*providers.Live{}}
	for _, o := range s.Objects {
		p, ok := partsOf(o)
		if !ok {
			continue
		}
		v.live[o.GetName()] = &providers.Live{
			Name: o.GetName(), Objects: []resources.Object{o}, Deleting: o.GetDeletionTimestamp() != nil,
			Hostnames: p.hostnames(), Path: p.path, Weights: p.weights(), Services: providers.Sorted(p.services),
			Accepted: taken(o, p), Acknowledged: len(p.parents) > 0 && taken(o, p),
		}
	}
	return v
}

// Live returns the routes by name. Routes of different kinds never have the same name, because the name
// depends on the protocol.
func (v *view) Live() map[string]*providers.Live { return v.live }

// Referent returns a problem that names the first Gateway that does not exist or cannot be read, or
// the Gateway kind if the API server does not serve it. It returns nil if there is no such problem.
func (v *view) Referent() *providers.Problem {
	if _, served := v.Served[gatewayKind.Kind]; !served {
		return v.Missing(v1alpha1.ProtocolHTTP)
	}
	return v.missingParent(allParents(v.Policy))
}

// taken reports whether all parents of a route have accepted its current generation.
func taken(route resources.Object, p parts) bool {
	same := func(a, b gatewayv1.ParentReference) bool {
		return keyOf(a, route.GetNamespace()) == keyOf(b, route.GetNamespace()) && ofSet(a) == ofSet(b) && deref(a.SectionName) == deref(b.SectionName)
	}
	return !slices.ContainsFunc(p.parents, func(named gatewayv1.ParentReference) bool {
		return !slices.ContainsFunc(p.answers, func(a gatewayv1.RouteParentStatus) bool {
			return same(a.ParentRef, named) && judge(a.Conditions, route.GetGeneration()).Accepted
		})
	})
}

// MayConflict reports whether two policies refer to the same Gateway, except when they refer to
// different listeners of that Gateway.
func (v *view) MayConflict(other *v1alpha1.NetworkPolicy) bool {
	for _, p := range allParents(v.Policy) {
		for _, q := range allParents(other) {
			if key(v.Policy.Namespace, p.ParentReference) == key(other.Namespace, q.ParentReference) &&
				(p.SectionName == "" || q.SectionName == "" || p.SectionName == q.SectionName) {
				return true
			}
		}
	}
	return false
}

// AddToScheme adds to a scheme the kinds for which the Gateway API no longer has Go types.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(previousGroupVersion, &XListenerSet{}, &XListenerSetList{})
	metav1.AddToGroupVersion(s, previousGroupVersion)
	return nil
}
