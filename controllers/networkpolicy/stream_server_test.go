package networkpolicy

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providertest"
	"github.com/heighliner/heighliner/controllers/networkpolicy/resources"
	"github.com/heighliner/heighliner/controllers/networkpolicy/traffic"
)

// routeOfHost returns the route that has a host, or nil.
func (p *place) routeOfHost(host string) *gatewayv1.HTTPRoute {
	p.t.Helper()
	var list gatewayv1.HTTPRouteList
	if err := server.List(p.t.Context(), &list, client.InNamespace(p.namespace)); err != nil {
		p.t.Fatal(err)
	}
	for i := range list.Items {
		if slices.Contains(providertest.ReadRoute(&list.Items[i]).Hostnames, host) {
			return &list.Items[i]
		}
	}
	return nil
}

// routesTo returns a condition that is true if the status has the given backends for a host, such
// as "1.0.0=90 2.0.0=10".
func routesTo(host, wanted string) func(*v1alpha1.NetworkPolicy) bool {
	return func(p *v1alpha1.NetworkPolicy) bool {
		for _, d := range p.Status.Domains {
			if d.Domain != host || !d.Programmed {
				continue
			}
			var parts []string
			for _, b := range d.Backends {
				parts = append(parts, fmt.Sprintf("%s=%d", b.Version, b.Weight))
			}
			slices.Sort(parts)
			return strings.Join(parts, " ") == wanted
		}
		return wanted == ""
	}
}

// TestServerMovesToANewerGroup moves a domain to a newer group, back, and to the newer group again.
// The route stays the same, and the route of the older group is never written.
func TestServerMovesToANewerGroup(t *testing.T) {
	t.Parallel()
	const shared, older, newer = "moves.example.com", "1-x.moves.example.com", "2-x.moves.example.com"
	p := newPlace(t)
	p.gatewayHere()
	before := group("1-x", 1, "a 1.0.0 active 100")
	p.microservice(before)
	p.policy("shop", "{{.ReleaseGroupName}}."+shared, func(h *v1alpha1.NetworkPolicy) {
		h.Spec.Provider.Gateway.ParentRefs = []v1alpha1.ParentReference{{Name: "public"}}
		h.Spec.Domains = append(h.Spec.Domains, v1alpha1.Domain{Domain: shared})
	})
	p.pod("a")
	p.eventually("shop", "first release", has("Ready", "Programmed"))
	now := p.eventually("shop", "first release", confirmed("1-x", 1, "a"))
	want(t, "the newest domains are in 1.x", traffic.Find(now.Status.Groups, "1-x").Newest, true)
	kept, own := p.routeOfHost(shared), p.routeOfHost(older)

	p.pod("b")
	p.rollout(group("2-x", 0, "b 2.0.0 pending 0"), before)
	p.endpoints(resources.ReleaseServiceName("shop", "shop", "b"))
	p.quiet()
	step := func(revision int64, weight int, split string, writes int) {
		t.Helper()
		then := len(requests.in(p.namespace))
		p.rollout(group("2-x", revision, fmt.Sprintf("b 2.0.0 canary %d", weight)), before)
		p.eventually("shop", split, confirmed("2-x", revision, "b"))
		p.eventually("shop", split, confirmed("1-x", 1, "a"))
		now := p.eventually("shop", split, routesTo(shared, split))
		want(t, "its own domain", routesTo(newer, "2.0.0=100")(now), true)
		want(t, "ready", has("Ready", "Programmed")(now), true)
		p.quiet()
		p.atMost(then, writes)
	}
	// The controller writes the reserved references, the Service and the route of the group, the route of the shared
	// domain, and status reports about accepted routes. In each step, it writes a route and such reports. Writes
	// that conflict with the gateway's writes are retried once.
	step(2, 10, "1.0.0=90 2.0.0=10", 11)
	want(t, "stamp", p.routeOfHost(shared).Annotations[v1alpha1.AnnotationRevision], "1-x=1")
	step(3, 50, "1.0.0=50 2.0.0=50", 7)

	p.rollout(group("2-x", 4, "b 2.0.0 error 0"), before)
	p.eventually("shop", "back", confirmed("2-x", 4))
	p.eventually("shop", "back", routesTo(shared, "1.0.0=100"))
	p.gone(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: resources.GroupServiceName("shop", "2-x")}})
	if route := p.routeOfHost(newer); route != nil {
		t.Errorf("route %s still has the domain of the group that was rejected", route.Name)
	}
	p.quiet()

	step(5, 50, "1.0.0=50 2.0.0=50", 9)
	p.rollout(group("2-x", 6, "b 2.0.0 active 100"), before)
	p.eventually("shop", "promotion", routesTo(shared, "2.0.0=100"))
	now = p.eventually("shop", "promotion", confirmed("2-x", 6, "b"))
	want(t, "the newest domains are in 2.x", traffic.Find(now.Status.Groups, "2-x").Newest, true)
	want(t, "the newest domains are in 1.x after the promotion", traffic.Find(now.Status.Groups, "1-x").Newest, false)
	want(t, "the older domain", routesTo(older, "1.0.0=100")(now), true)
	want(t, "the same route", p.routeOfHost(shared).UID, kept.UID)
	want(t, "the route of the older group", p.routeOfHost(older).Generation, own.Generation)
	p.quiet()
}

// TestServerMoveOfAnIngress checks that a move between groups that would require an Ingress to
// route to three releases is reported, because an Ingress can route to only two, and that the move
// continues when the rollout of the older group has ended.
func TestServerMoveOfAnIngress(t *testing.T) {
	t.Parallel()
	const shared = "moves-by-ingress.example.com"
	p := newPlace(t)
	p.microservice(group("1-x", 1, "a 1.0.0 active 100"))
	p.policy("shop", shared, func(h *v1alpha1.NetworkPolicy) {
		h.Spec.Provider = &v1alpha1.NetworkProvider{Ingress: &v1alpha1.IngressProvider{ClassName: "nginx", AnnotationPrefix: "nginx.ingress.kubernetes.io"}}
	})
	p.pod("a")
	p.eventually("shop", "first release", confirmed("1-x", 1, "a"))
	older := group("1-x", 2, "c 1.1.0 canary 10", "a 1.0.0 active 90")
	p.pod("b")
	p.pod("c")
	p.rollout(older)
	p.eventually("shop", "canary", confirmed("1-x", 2, "a", "c"))
	p.rollout(group("2-x", 3, "b 2.0.0 canary 10"), older)
	now := p.eventually("shop", "three releases", has("Programmed", traffic.ReasonNotSupported))
	want(t, "message "+traffic.Find(now.Status.Groups, "2-x").Message, strings.Contains(traffic.Find(now.Status.Groups, "2-x").Message, "at most two releases"), true)
	want(t, "nothing is confirmed", traffic.Find(now.Status.Groups, "2-x").Revision, int64(0))
	p.rollout(group("2-x", 3, "b 2.0.0 canary 10"), group("1-x", 4, "c 1.1.0 active 100"))
	p.eventually("shop", "two releases", confirmed("2-x", 3, "b"))
	p.eventually("shop", "two releases", routesTo(shared, "1.1.0=90 2.0.0=10"))
	p.eventually("shop", "two releases", has("Ready", "Programmed"))
	p.quiet()
}
