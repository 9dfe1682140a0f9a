package gateway

import (
	"cmp"
	"fmt"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
)

type view struct {
	providers.Input
	live map[string]*providers.Live
}

func fixMissing(kind providers.Kind) string {
	if len(kind.Versions) == 1 {
		return "install the Gateway API, or omit spec.provider"
	}
	return "install it from the experimental channel of the Gateway API, or from a release that has it in the standard channel, or remove the fields that need it"
}

func (v *view) filters() []v1alpha1.RouteFilter {
	if p := v.Policy.Spec.Provider; p != nil && p.Gateway != nil {
		return p.Gateway.Filters
	}
	return nil
}

func (v *view) missingParent(parents []providers.Parent) *providers.Problem {
	for _, p := range parents {
		if at := cmp.Or(p.Namespace, v.Policy.Namespace); v.Unwatched[at] {
			return &providers.Problem{Reason: providers.ReasonParentNotFound, Message: fmt.Sprintf(
				"%s: Gateway %q cannot be read: %s", p.Field, key(v.Policy.Namespace, p.ParentReference), unwatched(at))}
		}
		if v.gateway(p.ParentReference) == nil {
			return &providers.Problem{Reason: providers.ReasonParentNotFound, Message: fmt.Sprintf(
				"%s: Gateway %q does not exist: create it, or correct the name", p.Field, key(v.Policy.Namespace, p.ParentReference))}
		}
	}
	return nil
}

// unwatched returns the fix for a parent in a namespace that the manager does not watch.
func unwatched(namespace string) string {
	return fmt.Sprintf("the manager does not watch namespace %q: add it to the chart value namespaces, or to the manager's --namespace flag; the manager needs the same permissions there", namespace)
}

// parents returns the parents of a route.
func (v *view) parents(r providers.Route) []providers.Parent {
	if len(r.Parents) > 0 {
		return r.Parents
	}
	return ownParents(v.Policy)
}

// chosen reports whether spec.provider.gateway is set.
func chosen(p *v1alpha1.NetworkPolicy) bool {
	return p.Spec.Provider != nil && p.Spec.Provider.Gateway != nil
}

// ownParents returns the parents in spec.provider.gateway.
func ownParents(p *v1alpha1.NetworkPolicy) []providers.Parent {
	if !chosen(p) {
		return nil
	}
	var out []providers.Parent
	for i, ref := range p.Spec.Provider.Gateway.ParentRefs {
		out = append(out, providers.Parent{Field: fmt.Sprintf("spec.provider.gateway.parentRefs[%d]", i), ParentReference: ref})
	}
	return out
}

// allParents returns the parents in spec.provider.gateway and those of individual domains and
// listeners. If a policy has only listeners, the provider's parents do not serve any traffic, but
// they are still included.
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

// gateway returns the Gateway to which a parent refers, or nil if it does not exist.
func (v *view) gateway(p v1alpha1.ParentReference) *gatewayv1.Gateway {
	g, _ := v.Referents[reference(v.Policy.Namespace, p)].(*gatewayv1.Gateway)
	return g
}

func reference(namespace string, p v1alpha1.ParentReference) providers.Reference {
	return providers.Reference{Kind: gatewayKind.Kind, Namespace: cmp.Or(p.Namespace, namespace), Name: p.Name}
}
