// Package gateway routes by the routes of the Gateway API.
//
// A view (gateway.go) looks at routes of any kind through their parts (kinds.go), makes
// them (build.go), and tells how far Gateways are with them (accept.go).
package gateway

import (
	"cmp"
	"fmt"
	"slices"

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

// Writes are the kinds of routes.
func (Provider) Writes() []providers.Kind { return routeKinds }

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
		if kind := kindOf(port.Protocol); !slices.ContainsFunc(out, func(k providers.Kind) bool { return k.Kind == kind.Kind }) {
			out = append(out, kind)
		}
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
				"spec.provider.gateway: the API server does not know %s of %s/%s: install the Gateway API, or leave spec.provider out", kind.Kind, kind.Group, kind.Versions[0])}
		}
	}
	return nil
}

// Unsupported finds nothing: all that a route says has a field.
func (v *view) Unsupported(providers.Route) *providers.Problem { return nil }

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

// allParents are those of the provider and those of single routes.
func allParents(p *v1alpha1.NetworkPolicy) []providers.Parent { return ownParents(p) }

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
