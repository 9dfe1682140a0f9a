package gateway

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
	"github.com/heighliner/heighliner/controllers/networkpolicy/resources"
)

// Same reports whether a live route has the desired content.
func Same(old, want resources.Object) bool {
	a, _ := resources.StampOf(old)
	b, _ := resources.StampOf(want)
	had, _ := partsOf(old)
	has, _ := partsOf(want)
	return a == b && slices.Equal(had.hosts, has.hosts) && slices.EqualFunc(had.parents, has.parents, func(p, q gatewayv1.ParentReference) bool {
		return ofSet(p) == ofSet(q) && keyOf(p, old.GetNamespace()) == keyOf(q, old.GetNamespace()) && deref(p.SectionName) == deref(q.SectionName) && deref(p.Port) == deref(q.Port)
	}) && sameRules(old, want)
}

// answer reports whether a parent accepts a live route, and if not, why. An acceptance counts only
// if the Gateway's spec allows the route to attach to the parent, because some gateways report the
// status of one parent for all parents of a route.
func (v *view) answer(route resources.Object, p attachment) providers.Verdict {
	a, g := acceptance(route, p), v.gateway(p.ParentReference)
	switch {
	case !a.Accepted:
		return a
	case g == nil:
		return providers.Verdict{Reason: providers.ReasonParentNotFound}
	case several(route) && v.noListener(p):
		return providers.Verdict{Reason: string(gatewayv1.RouteReasonNoMatchingParent), Message: "the Gateway has no listener with the name in sectionName"}
	case p.set == "" && !admits(g, p.SectionName, v.Policy.Namespace):
		return providers.Verdict{Reason: string(gatewayv1.RouteReasonNotAllowedByListeners), Message: "the listeners of this parent do not accept routes from the policy's namespace"}
	}
	return a
}

// several reports whether a route has more than one parent.
func several(route resources.Object) bool {
	p, _ := partsOf(route)
	return len(p.parents) > 1
}

// Acceptance reports whether the given parent accepts a live route, according to the status of the
// route. Only a report for the current generation of the route counts; a parent without such a
// report is pending. If several controllers report on a parent, one acceptance is sufficient.
func Acceptance(route resources.Object, parent v1alpha1.ParentReference) providers.Verdict {
	return acceptance(route, attachment{Parent: providers.Parent{ParentReference: parent}})
}

func acceptance(route resources.Object, parent attachment) providers.Verdict {
	out := providers.Verdict{Pending: true}
	parts, _ := partsOf(route)
	for _, p := range parts.answers {
		if !names(p.ParentRef, parent, route.GetNamespace()) {
			continue
		}
		a := judge(p.Conditions, route.GetGeneration())
		if a.Accepted {
			return a
		}
		if !a.Pending {
			out = a
		}
	}
	return out
}

func judge(conditions []metav1.Condition, generation int64) providers.Verdict {
	for _, kind := range []gatewayv1.RouteConditionType{gatewayv1.RouteConditionAccepted, gatewayv1.RouteConditionResolvedRefs} {
		c := meta.FindStatusCondition(conditions, string(kind))
		if c == nil || c.ObservedGeneration != generation || c.Status == metav1.ConditionUnknown {
			return providers.Verdict{Pending: true}
		}
		if c.Status != metav1.ConditionTrue {
			return providers.Verdict{Reason: c.Reason, Message: c.Message}
		}
	}
	return providers.Verdict{Accepted: true}
}

// names reports whether a parent reference of a route refers to the attachment.
func names(ref gatewayv1.ParentReference, a attachment, namespace string) bool {
	if a.set != "" {
		return ofSet(ref) && string(ref.Name) == a.set && cmp.Or(string(deref(ref.Namespace)), namespace) == namespace
	}
	if ref.Kind != nil && *ref.Kind != "Gateway" || ref.Group != nil && *ref.Group != gatewayv1.GroupName {
		return false
	}
	return keyOf(ref, namespace) == key(namespace, a.ParentReference) && string(deref(ref.SectionName)) == a.SectionName
}

// Health returns a problem if a Gateway reports that it is not programmed, and nil otherwise.
func (v *view) Health() *providers.Problem {
	for _, p := range allParents(v.Policy) {
		g := v.gateway(p.ParentReference)
		if g == nil {
			continue
		}
		c := meta.FindStatusCondition(g.Status.Conditions, string(gatewayv1.GatewayConditionProgrammed))
		if c != nil && c.Status == metav1.ConditionFalse && c.ObservedGeneration == g.Generation {
			return &providers.Problem{Reason: providers.ReasonUnprogrammed, Message: fmt.Sprintf(
				"%s: Gateway %q is not programmed: %s: %s", p.Field, key(v.Policy.Namespace, p.ParentReference), c.Reason, c.Message)}
		}
	}
	return nil
}
