// Package gateway routes by the routes of the Gateway API. Its files, each of which refers
// only to those after it:
//
//	gateway.go        the provider of spec.provider.gateway
//	routeref.go       the provider of spec.provider.routeRef
//	managed_rules.go  rules in user-managed routes, and what they had before
//	backendrefs.go    the backendRefs of rules, and patches of them
//	live_routes.go    live routes of which only the weights change
//	unsupported.go    what a route, or the API server, cannot express
//	build.go          routes as they are applied
//	rules.go          their rules, filters and backends
//	verdict.go        how far a route is
//	probe.go          the rule that answers probes, and what is asked of which address
//	acceptance.go     what Gateways report of routes and listeners
//	listeners.go      ListenerSets
//	view.go           the view of one reconcile, with its Gateways
//	kinds.go          routes of any kind, through their parts
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

// Name is "gateway".
func (Provider) Name() string { return "gateway" }

// Writes returns the kinds of routes, and ListenerSets.
func (Provider) Writes() []providers.Kind { return append(slices.Clone(routeKinds), listenerSetKind) }

// Reads returns Gateways.
func (Provider) Reads() []providers.Kind { return []providers.Kind{gatewayKind} }

// Chosen reports whether spec.provider.gateway is set.
func (Provider) Chosen(p *v1alpha1.NetworkPolicy) bool {
	return chosen(p)
}

// Needs returns Gateways, and the kinds of the routes of all that the policy routes.
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

// Refers returns the Gateways that the policy names.
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

// Live returns the routes by name. No two kinds meet in one, because the protocol is part of what a
// name is made from.
func (v *view) Live() map[string]*providers.Live { return v.live }

// Referent names the first Gateway that does not exist, or the kind where the API
// server does not know it.
func (v *view) Referent() *providers.Problem {
	if _, served := v.Served[gatewayKind.Kind]; !served {
		return v.Missing(v1alpha1.ProtocolHTTP)
	}
	return v.missingParent(allParents(v.Policy))
}

// taken reports whether all parents that a route names have accepted it as it is.
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

// MayConflict reports whether two policies name the same Gateway, and not different listeners
// of it.
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

// AddToScheme adds the kinds that the Gateway API has no types for any more to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(previousGroupVersion, &XListenerSet{}, &XListenerSetList{})
	metav1.AddToGroupVersion(s, previousGroupVersion)
	return nil
}
