package gateway

import (
	"fmt"
	"strings"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
	"github.com/heighliner/heighliner/controllers/networkpolicy/resources"
)

// fixes maps some of the reasons for which a parent rejects a route to the fix, as a format string
// whose arguments are the kind and the namespace of the route.
var fixes = map[string]string{
	string(gatewayv1.RouteReasonNotAllowedByListeners):      "allow %ss from namespace %q in allowedRoutes of a listener",
	string(gatewayv1.RouteReasonNoMatchingListenerHostname): "add to the Gateway a listener that accepts %ss from namespace %q and whose hostname matches spec.domains",
	string(gatewayv1.RouteReasonNoMatchingParent):           "set sectionName to the name of a listener of the Gateway that accepts %ss from namespace %q, or omit sectionName",
}

// Verdict reports whether a desired route exists unchanged, is accepted by every parent, and, if
// spec.provider.gateway.confirm is Probe, is served at all addresses.
func (v *view) Verdict(r providers.Route, built []resources.Object) providers.Verdict {
	kind := kindOf(r.Protocol).Kind
	live := v.live[r.Name]
	if live == nil || live.Deleting || !Same(live.Objects[0], built[0]) {
		if p := v.missingParent(v.parents(r)); p != nil {
			return providers.Verdict{Reason: p.Reason, Message: p.Message}
		}
		return providers.Verdict{Pending: true, Reason: providers.ReasonPending, Message: fmt.Sprintf("%s %q is being written", kind, r.Name)}
	}
	for _, p := range v.attachments(r) {
		a := v.answer(live.Objects[0], p)
		if a.Accepted {
			continue
		}
		if problem := v.setProblem(p); problem != nil {
			return providers.Verdict{Reason: problem.Reason, Message: problem.Message}
		}
		if problem := v.brokenListener(r); problem != nil && !a.Pending {
			// Some gateways reject the route because of the listener, with a reason that does not
			// mention the listener.
			return providers.Verdict{Reason: problem.Reason, Message: p.Field + ": " + problem.Message}
		}
		key, g := key(v.Policy.Namespace, p.ParentReference), v.gateway(p.ParentReference)
		switch {
		case g == nil:
			missing := v.missingParent(v.parents(r))
			return providers.Verdict{Reason: missing.Reason, Message: missing.Message}
		case a.Pending && v.noListener(p):
			return providers.Verdict{Reason: providers.ReasonNotAccepted, Message: fmt.Sprintf(
				"%s: Gateway %q has no listener %q: set sectionName to the name of one of its listeners, or omit sectionName", p.Field, key, p.SectionName)}
		case a.Pending:
			return providers.Verdict{Pending: true, Late: providers.ReasonNotAccepted, Reason: providers.ReasonPending, Message: fmt.Sprintf(
				"%s: Gateway %q has not reported the status of %s %q: check that a controller serves its GatewayClass %q", p.Field, key, kind, r.Name, g.Spec.GatewayClassName)}
		}
		fix := fmt.Sprintf("see the status of the %s", kind)
		if text, ok := fixes[a.Reason]; ok {
			fix = fmt.Sprintf(text, kind, v.Policy.Namespace)
		}
		return providers.Verdict{Reason: providers.ReasonNotAccepted, Message: fmt.Sprintf(
			"%s: Gateway %q does not accept %s %q: %s: %s: %s", p.Field, key, kind, r.Name, a.Reason, strings.TrimSuffix(a.Message, "."), fix)}
	}
	return v.proven(r, live.Objects[0])
}
