package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// GatewaysOf returns the namespaces and names of the Gateways to which the routes of a policy refer.
func GatewaysOf(p *v1alpha1.NetworkPolicy) (out [][2]string) {
	if p.Spec.Provider == nil || p.Spec.Provider.Gateway == nil {
		return nil
	}
	for _, ref := range p.Spec.Provider.Gateway.ParentRefs {
		if name := [2]string{cmp.Or(ref.Namespace, p.Namespace), ref.Name}; !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// HostNamespaces returns, in sorted order, the namespaces of the policies that [WhyHost] could use to explain a host and a path. It
// also returns all hosts of the given policies.
func HostNamespaces(policies []v1alpha1.NetworkPolicy, host, path string) (namespaces, hosts []string) {
	best, hosts := newIndex(Input{NetworkPolicies: policies}, time.Time{}).domainsOf(strings.ToLower(strings.TrimSuffix(host, ".")), path)
	for _, p := range best {
		namespaces = append(namespaces, p.policy.Namespace)
	}
	slices.Sort(namespaces)
	return slices.Compact(namespaces), hosts
}

// gatewayLines adds the status of the routes and Gateways of a domain to an answer, if they were read.
func (p policyDomain) gatewayLines(a *Answer) {
	for i := range p.service.Routes {
		r := &p.service.Routes[i]
		if r.Namespace == p.policy.Namespace && slices.Contains(r.Spec.Hostnames, gatewayv1.Hostname(p.domain.Domain)) {
			a.add("httproute", "HTTPRoute "+r.Namespace+"/"+r.Name, "%s", routeText(r))
		}
	}
	for _, name := range GatewaysOf(p.policy) {
		for i := range p.service.Gateways {
			if g := &p.service.Gateways[i]; g.Namespace == name[0] && g.Name == name[1] {
				a.add("gateway", "Gateway "+g.Namespace+"/"+g.Name, "%s", gatewayText(g))
			}
		}
	}
}

// routeText describes which parents accept a route, and why the other parents do not accept it.
func routeText(r *gatewayv1.HTTPRoute) string {
	if len(r.Status.Parents) == 0 {
		return "no gateway reports the status of the route: check the parents of the route, and check that a controller for their GatewayClass is running"
	}
	var texts []string
	for _, p := range r.Status.Parents {
		namespace := r.Namespace
		if p.ParentRef.Namespace != nil {
			namespace = string(*p.ParentRef.Namespace)
		}
		name := namespace + "/" + string(p.ParentRef.Name)
		bad := faultOf(p.Conditions, string(gatewayv1.RouteConditionAccepted), string(gatewayv1.RouteConditionResolvedRefs))
		accepted := meta.FindStatusCondition(p.Conditions, string(gatewayv1.RouteConditionAccepted))
		switch {
		case bad != "":
			texts = append(texts, "not accepted by "+name+": "+bad)
		case accepted == nil || accepted.Status != metav1.ConditionTrue:
			texts = append(texts, name+" does not report whether it accepts the route")
		case accepted.ObservedGeneration < r.Generation:
			texts = append(texts, name+" has not observed the latest change to the route")
		default:
			texts = append(texts, "accepted by "+name)
		}
	}
	return strings.Join(texts, " · ")
}

// gatewayText describes the programmed state of a Gateway.
func gatewayText(g *gatewayv1.Gateway) string {
	if bad := faultOf(g.Status.Conditions, string(gatewayv1.GatewayConditionAccepted), string(gatewayv1.GatewayConditionProgrammed)); bad != "" {
		return "not programmed: " + bad
	}
	text := "programmed"
	if !meta.IsStatusConditionTrue(g.Status.Conditions, string(gatewayv1.GatewayConditionProgrammed)) {
		text = "does not report whether it is programmed"
	}
	var listeners []string
	for _, l := range g.Status.Listeners {
		one := fmt.Sprintf("%s (%d routes)", l.Name, l.AttachedRoutes)
		if l.AttachedRoutes == 1 {
			one = string(l.Name) + " (1 route)"
		}
		if bad := faultOf(l.Conditions, string(gatewayv1.ListenerConditionAccepted), string(gatewayv1.ListenerConditionProgrammed), string(gatewayv1.ListenerConditionResolvedRefs)); bad != "" {
			one = fmt.Sprintf("%s not programmed: %s", l.Name, bad)
		}
		listeners = append(listeners, one)
	}
	if len(listeners) > 0 {
		text += ", listeners " + strings.Join(listeners, ", ")
	}
	return text
}

// faultOf returns the reason and message of the first of the given conditions that is False. It returns "" if none
// is False.
func faultOf(conditions []metav1.Condition, kinds ...string) string {
	for _, kind := range kinds {
		if c := meta.FindStatusCondition(conditions, kind); c != nil && c.Status == metav1.ConditionFalse {
			return strings.TrimSuffix(c.Reason+": "+c.Message, ": ")
		}
	}
	return ""
}
