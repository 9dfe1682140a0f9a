package networkpolicy

import (
	"strings"
	"testing"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// A gateway that says of each parent what is true of any of them (Traefik 3.6 does where a route has several) must not
// talk a live route out of the parent that serves it.
func TestParentThatAdmitsNoRouteTakesNothingAway(t *testing.T) {
	w := newWorld(t, group("1-x", 1, "a 1.0.0 active 100"))
	w.ready["a"] = 2
	w.settle()

	closed := gateway(80, gatewayv1.HTTPProtocolType, "")
	closed.Name = "closed"
	admit := func(from gatewayv1.FromNamespaces) {
		closed.Spec.Listeners[0].AllowedRoutes = &gatewayv1.AllowedRoutes{Namespaces: &gatewayv1.RouteNamespaces{From: &from}}
	}
	admit(gatewayv1.NamespacesFromSame)
	w.gateways["infra/closed"] = closed
	w.policy.Spec.Provider.Gateway.ParentRefs = []v1alpha1.ParentReference{{Namespace: "infra", Name: "closed"}}
	w.policy.Generation++
	now := w.settle()
	want(t, "parents", parentNames(w), "closed public")
	want(t, "programmed", w.condition("Programmed"), "False NotAccepted")
	for _, text := range []string{"spec.provider.gateway.parentRefs[0]", "infra/closed", "allowedRoutes", `"prod"`} {
		want(t, text+" is named", strings.Contains(now.Domains[0].Message, text), true)
	}

	admit(gatewayv1.NamespacesFromAll)
	w.settle()
	want(t, "parents", parentNames(w), "closed")
	want(t, "programmed", w.condition("Programmed"), "True Programmed")
}

func TestParentThatDoesNotExistTakesNothingAway(t *testing.T) {
	w := newWorld(t, group("1-x", 1, "a 1.0.0 active 100"))
	w.ready["a"] = 2
	w.settle()
	w.policy.Spec.Provider.Gateway.ParentRefs = []v1alpha1.ParentReference{{Namespace: "infra", Name: "nobody"}}
	w.policy.Generation++
	w.pass()
	for name, route := range w.routes {
		for _, p := range route.Spec.ParentRefs {
			route.Status.Parents = append(route.Status.Parents, answer(p, route.Generation, "True", "Accepted"))
		}
		w.routes[name] = route
	}
	w.pass()
	want(t, "parents", parentNames(w), "nobody public")
	want(t, "refs", w.condition("ResolvedRefs"), "False ParentNotFound")
}

func parentNames(w *world) string {
	var names []string
	for _, route := range w.routes {
		for _, p := range route.Spec.ParentRefs {
			names = append(names, string(p.Name))
		}
	}
	return strings.Join(names, " ")
}
