package traffic

import (
	"strings"
	"testing"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// TestParentThatRejectsRoutesRemovesNoRoute checks that a route keeps the parent that serves it even though the
// gateway reports the status of one parent for all parents of the route, as Traefik 3.6 does.
func TestParentThatRejectsRoutesRemovesNoRoute(t *testing.T) {
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

func TestMissingParentRemovesNoRoute(t *testing.T) {
	w := newWorld(t, group("1-x", 1, "a 1.0.0 active 100"))
	w.ready["a"] = 2
	w.settle()
	w.policy.Spec.Provider.Gateway.ParentRefs = []v1alpha1.ParentReference{{Namespace: "infra", Name: "absent"}}
	w.policy.Generation++
	w.pass()
	for name, route := range w.routes {
		for _, p := range route.Spec.ParentRefs {
			route.Status.Parents = append(route.Status.Parents, answer(p, route.Generation, "True", "Accepted"))
		}
		w.routes[name] = route
	}
	w.pass()
	want(t, "parents", parentNames(w), "absent public")
	want(t, "refs", w.condition("ResolvedRefs"), "False ParentNotFound")
}

// TestMissingListenerRemovesNoRoute checks that a listener that does not exist does not cause any
// parent to be removed from a route, regardless of how the serving parent is specified and what the
// gateway reports.
func TestMissingListenerRemovesNoRoute(t *testing.T) {
	for name, tc := range map[string]struct {
		from, to string
		// These fields contain the sections of the parents before and after the Gateway gets the
		// listener.
		meanwhile, then string
	}{
		"from another listener":   {"http", "later", "later http", "later"},
		"from the Gateway itself": {"", "later", "", "later"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, group("1-x", 1, "a 1.0.0 active 100"))
			w.ready["a"] = 1
			public := w.gateways["infra/public"]
			public.Spec.Listeners[0].Name = "http"
			parent := &w.policy.Spec.Provider.Gateway.ParentRefs[0]
			parent.SectionName = tc.from
			w.settle()
			want(t, "sections", sections(w), tc.from)
			parent.SectionName = tc.to
			w.policy.Generation++
			now := w.settle()
			want(t, "sections", sections(w), tc.meanwhile)
			want(t, "programmed", w.condition("Programmed"), "False NotAccepted")
			for _, text := range []string{"spec.provider.gateway.parentRefs[0]", "listener", "sectionName"} {
				want(t, text+" is named in "+now.Domains[0].Message, strings.Contains(now.Domains[0].Message, text), true)
			}
			later := *public.Spec.Listeners[0].DeepCopy()
			later.Name = gatewayv1.SectionName(tc.to)
			public.Spec.Listeners = append(public.Spec.Listeners, later)
			w.settle()
			want(t, "sections", sections(w), tc.then)
			want(t, "programmed", w.condition("Programmed"), "True Programmed")
		})
	}
}

// sections returns the sections of the parents of all routes.
func sections(w *world) string {
	var names []string
	for _, route := range w.routes {
		for _, p := range route.Spec.ParentRefs {
			names = append(names, string(deref(p.SectionName)))
		}
	}
	return strings.Join(names, " ")
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
