// Package gateway routes by the routes of the Gateway API.
//
// A view (gateway.go) looks at routes of any kind through their parts (kinds.go), makes
// them (build.go), and tells how far Gateways are with them (accept.go, probe.go).
package gateway

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
)

// Provider writes routes of the Gateway API.
type Provider struct{}

var (
	_ providers.Provider = Provider{}
	_ providers.View     = (*view)(nil)
)

// Name is "gateway".
func (Provider) Name() string { return "gateway" }

// Writes are the kinds of routes, and ListenerSets.
func (Provider) Writes() []providers.Kind { return append(slices.Clone(routeKinds), listenerSetKind) }

// Reads are Gateways.
func (Provider) Reads() []providers.Kind { return []providers.Kind{gatewayKind} }

// Chosen says whether spec.provider.gateway is set.
func (Provider) Chosen(p *v1alpha1.NetworkPolicy) bool {
	return p.Spec.Provider != nil && p.Spec.Provider.Gateway != nil
}

// Needs are Gateways, and the kinds of the routes of all that the policy routes.
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

// Refers are the Gateways that the policy names.
func (Provider) Refers(p *v1alpha1.NetworkPolicy) []providers.Reference {
	var out []providers.Reference
	for _, parent := range allParents(p) {
		if ref := reference(p.Namespace, parent.ParentReference); !slices.Contains(out, ref) {
			out = append(out, ref)
		}
	}
	return out
}

// See gives the view of one pass.
func (Provider) See(s providers.Scene) providers.View {
	v := &view{Scene: s, live: map[string]*providers.Live{}}
	for _, o := range s.Objects {
		p, ok := partsOf(o)
		if !ok {
			continue
		}
		v.live[o.GetName()] = &providers.Live{
			Name: o.GetName(), Objects: []client.Object{o}, Leaving: o.GetDeletionTimestamp() != nil,
			Hostnames: p.hostnames(), Path: p.path, Weights: p.weights(), Services: providers.Sorted(p.services),
			Taken: taken(o, p),
		}
	}
	return v
}

type view struct {
	providers.Scene
	live map[string]*providers.Live
}

// Live are the routes by name. No two kinds meet in one, because the protocol is part
// of what a name is made from.
func (v *view) Live() map[string]*providers.Live { return v.live }

// Missing names the kind that the API server lacks.
func (v *view) Missing(protocol v1alpha1.PortProtocol) *providers.Problem {
	for _, kind := range []providers.Kind{gatewayKind, kindOf(protocol)} {
		if _, served := v.Served[kind.Kind]; !served {
			return &providers.Problem{Reason: providers.ReasonAPIMissing, Message: fmt.Sprintf(
				"spec.provider.gateway: the API server does not know %s of %s/%s: %s", kind.Kind, kind.Group, strings.Join(kind.Versions, " or "), mendMissing(kind))}
		}
	}
	return nil
}

func mendMissing(kind providers.Kind) string {
	if len(kind.Versions) == 1 {
		return "install the Gateway API, or leave spec.provider out"
	}
	return "install it from the experimental channel of the Gateway API, or from a release that has it in the standard channel, or take what needs it out of the specification"
}

// Unsupported names matches that gRPC does not have, and listeners that the API server
// does not know.
func (v *view) Unsupported(r providers.Route) *providers.Problem {
	for _, t := range r.TLS {
		if _, served := v.Served[listenerSetKind.Kind]; t.Mode == v1alpha1.TLSListenerSet && !served {
			return &providers.Problem{Reason: providers.ReasonAPIMissing, Message: fmt.Sprintf(
				"tls.mode: the API server does not know %s of %s/v1, nor %s of %s: install a release of the Gateway API that has it, or use mode Gateway",
				listenerSetKind.Kind, listenerSetKind.Group, listenerSetKind.Former.Kind, formerGroupVersion)}
		}
	}
	for i, m := range r.Matches {
		field := ""
		switch grpc := r.Protocol == v1alpha1.ProtocolGRPC; {
		case grpc && len(m.QueryParams) > 0:
			field = "queryParams"
		case grpc && m.Path != nil:
			field = "path"
		case grpc && m.Method != "":
			field = "method"
		case !grpc && m.GRPC != nil:
			return &providers.Problem{Reason: providers.ReasonNotSupported, Message: fmt.Sprintf("canaryMatches[%d].grpc goes with a port of protocol GRPC: use path", i)}
		}
		if field != "" {
			return &providers.Problem{Reason: providers.ReasonNotSupported, Message: fmt.Sprintf("canaryMatches[%d].%s does not go with a port of protocol GRPC: use headers or grpc", i, field)}
		}
	}
	return nil
}

// Unapplied names a setting for which these routes have no field.
func (v *view) Unapplied(routes []providers.Route) *providers.Problem {
	spec := v.Policy.Spec
	for _, r := range routes {
		kind := kindOf(r.Protocol)
		text := ""
		switch requests := kind.Kind == httpKind.Kind || kind.Kind == grpcKind.Kind; {
		case spec.SessionAffinity != nil && spec.SessionAffinity.ClientIP != nil:
			text = fmt.Sprintf("spec.sessionAffinity.clientIP holds for callers of the Services only: %ss have no affinity by address; use cookie for domains", kind.Kind)
		case requests && spec.SessionAffinity != nil && !v.Served[kind.Kind].Experimental:
			text = fmt.Sprintf("spec.sessionAffinity.cookie: this %s has no sessionPersistence: install the experimental channel of the Gateway API, or take the field out", kind.Kind)
		case kind.Kind != httpKind.Kind && v.probes(v1alpha1.ProtocolHTTP):
			text = fmt.Sprintf("spec.provider.gateway.confirm: %ss are counted by their status: only HTTPRoutes have an answer for probes", kind.Kind)
		case kind.Kind == grpcKind.Kind && spec.Timeouts != nil:
			text = "spec.timeouts: GRPCRoutes have none: set deadlines in the callers"
		case kind.Kind == grpcKind.Kind && slices.ContainsFunc(v.filters(), func(f v1alpha1.RouteFilter) bool { return f.URLRewrite != nil }):
			text = "spec.provider.gateway.filters[].urlRewrite: GRPCRoutes have none: give HTTP and GRPC policies of their own"
		}
		if text != "" {
			return &providers.Problem{Reason: providers.ReasonNotSupported, Message: text}
		}
	}
	return nil
}

func (v *view) filters() []v1alpha1.RouteFilter {
	if p := v.Policy.Spec.Provider; p != nil && p.Gateway != nil {
		return p.Gateway.Filters
	}
	return nil
}

// Referent names the first Gateway that does not exist, or the kind where the API
// server does not know it.
func (v *view) Referent() *providers.Problem {
	if _, served := v.Served[gatewayKind.Kind]; !served {
		return v.Missing(v1alpha1.ProtocolHTTP)
	}
	return v.missingParent(allParents(v.Policy))
}

func (v *view) missingParent(parents []providers.Parent) *providers.Problem {
	for _, p := range parents {
		if v.gateway(p.ParentReference) == nil {
			return &providers.Problem{Reason: providers.ReasonParentNotFound, Message: fmt.Sprintf(
				"%s: Gateway %q does not exist: create it, or name one that does", p.Field, key(v.Policy.Namespace, p.ParentReference))}
		}
	}
	return nil
}

// taken says whether all parents that a route names have accepted it as it is.
func taken(route client.Object, p parts) bool {
	same := func(a, b gatewayv1.ParentReference) bool {
		return keyOf(a, route.GetNamespace()) == keyOf(b, route.GetNamespace()) && ofSet(a) == ofSet(b) && deref(a.SectionName) == deref(b.SectionName)
	}
	return !slices.ContainsFunc(p.parents, func(named gatewayv1.ParentReference) bool {
		return !slices.ContainsFunc(p.answers, func(a gatewayv1.RouteParentStatus) bool {
			return same(a.ParentRef, named) && judge(a.Conditions, route.GetGeneration()).Accepted
		})
	})
}

// Apart is false: a route has many hosts, and Gateways take two for one.
func (v *view) Apart() bool { return false }

// Splits is true: all kinds of routes have weights.
func (v *view) Splits() bool { return true }

// Shares says whether two policies name the same Gateway, and not different listeners
// of it.
func (v *view) Shares(other *v1alpha1.NetworkPolicy) bool {
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

// parents of a route.
func (v *view) parents(r providers.Route) []providers.Parent {
	if len(r.Parents) > 0 {
		return r.Parents
	}
	return ownParents(v.Policy)
}

// ownParents are those of the provider.
func ownParents(p *v1alpha1.NetworkPolicy) []providers.Parent {
	if !(Provider{}).Chosen(p) {
		return nil
	}
	var out []providers.Parent
	for i, ref := range p.Spec.Provider.Gateway.ParentRefs {
		out = append(out, providers.Parent{Field: fmt.Sprintf("spec.provider.gateway.parentRefs[%d]", i), ParentReference: ref})
	}
	return out
}

// allParents are those of the provider and those of single domains and listeners. Where
// there are listeners alone, those of the provider serve nothing, and still are named.
func allParents(p *v1alpha1.NetworkPolicy) []providers.Parent {
	out := ownParents(p)
	for i := range p.Spec.Domains {
		out = append(out, providers.DomainParents(p, i)...)
	}
	for i := range p.Spec.Listeners {
		out = append(out, providers.ListenerParent(p, i))
	}
	return out
}

// gateway that a parent names; nil where it does not exist.
func (v *view) gateway(p v1alpha1.ParentReference) *gatewayv1.Gateway {
	g, _ := v.Referents[reference(v.Policy.Namespace, p)].(*gatewayv1.Gateway)
	return g
}

func reference(namespace string, p v1alpha1.ParentReference) providers.Reference {
	return providers.Reference{Kind: gatewayKind.Kind, Namespace: cmp.Or(p.Namespace, namespace), Name: p.Name}
}

// key of a Gateway for people: namespace and name.
func key(namespace string, p v1alpha1.ParentReference) string {
	return cmp.Or(p.Namespace, namespace) + "/" + p.Name
}

// keyOf is the key of a route's own reference.
func keyOf(p gatewayv1.ParentReference, namespace string) string {
	return cmp.Or(string(deref(p.Namespace)), namespace) + "/" + string(p.Name)
}

func deref[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}
