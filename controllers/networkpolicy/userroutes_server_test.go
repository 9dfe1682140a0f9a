package networkpolicy

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/resources"
	"github.com/heighliner/heighliner/controllers/networkpolicy/traffic"
	"github.com/heighliner/heighliner/test/await"
)

// webRoute returns a user-managed route in the namespace.
func (p *place) webRoute() *unstructured.Unstructured {
	u := parse(strings.ReplaceAll(usersRoute, "    fromTheFuture: {keep: me}\n", ""))
	unstructured.RemoveNestedField(u.Object, "metadata", "generation")
	u.SetNamespace(p.namespace)
	return u
}

// readWeb reads the user-managed route.
func (p *place) readWeb() *unstructured.Unstructured {
	p.t.Helper()
	u := p.webRoute()
	p.get("web", u)
	return u
}

// refs returns the backends of a rule in their order, as "<policy>/<release>=<weight>" or
// "<Service>=<weight>".
func refs(u *unstructured.Unstructured, name string) string {
	rules, _, _ := unstructured.NestedSlice(u.Object, "spec", "rules")
	var parts []string
	for _, rule := range rules {
		rule := rule.(map[string]any)
		if rule["name"] != name {
			continue
		}
		list, _ := rule["backendRefs"].([]any)
		for _, ref := range list {
			ref := ref.(map[string]any)
			service := fmt.Sprint(ref["name"])
			for _, release := range []string{"a", "b"} {
				for _, policy := range []string{"shop", "younger"} {
					if service == resources.ReleaseServiceName(policy, "shop", release) {
						service = policy + "/" + release
					}
				}
			}
			parts = append(parts, fmt.Sprintf("%s=%v", service, ref["weight"]))
		}
	}
	return strings.Join(parts, " ")
}

// eventuallyWeb waits until a rule routes to the expected backends.
func (p *place) eventuallyWeb(what, rule, wanted string) *unstructured.Unstructured {
	p.t.Helper()
	var u *unstructured.Unstructured
	await.Nil(p.t, func(context.Context) error {
		if u = p.readWeb(); refs(u, rule) != wanted {
			return fmt.Errorf("%s: rule %q routes to %q, want %q: %s", what, rule, refs(u, rule), wanted, mustJSON(u))
		}
		return nil
	})
	return u
}

// borrows creates a policy that manages rules of the route.
func (p *place) borrows(name string, deletion v1alpha1.DeletionPolicy, rules ...string) {
	p.t.Helper()
	p.policy(name, "", func(h *v1alpha1.NetworkPolicy) {
		h.Spec.Domains, h.Spec.DeletionPolicy = nil, deletion
		h.Spec.Provider = &v1alpha1.NetworkProvider{RouteRef: &v1alpha1.RouteReference{Kind: "HTTPRoute", Name: "web", RuleNames: rules}}
	})
}

// gatewayHere creates the Gateway to which the route is attached.
func (p *place) gatewayHere() {
	g := openGateway()
	g.ObjectMeta = metav1.ObjectMeta{Name: "public"}
	p.create(g)
}

// editWeb changes the rules of the route in the same way as a client that reads, changes, and writes the whole
// route.
func (p *place) editWeb(change func(rules []any)) {
	p.t.Helper()
	p.updateWeb(func(u *unstructured.Unstructured) {
		rules, _, _ := unstructured.NestedSlice(u.Object, "spec", "rules")
		change(rules)
		if err := unstructured.SetNestedSlice(u.Object, rules, "spec", "rules"); err != nil {
			p.t.Fatal(err)
		}
	})
}

// updateWeb changes the route in the same way as kubectl edit. It retries after a conflict.
func (p *place) updateWeb(change func(*unstructured.Unstructured)) {
	p.t.Helper()
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		u := p.readWeb()
		change(u)
		return server.Update(p.t.Context(), u, client.FieldOwner("kubectl-edit"))
	})
	if err != nil {
		p.t.Fatal(err)
	}
}

// oldService creates the Service to which the route previously routed.
func (p *place) oldService() {
	p.t.Helper()
	p.create(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "users-old"}, Spec: corev1.ServiceSpec{Selector: oldSelector, Ports: []corev1.ServicePort{{Port: 8080}}}})
}

// TestServerRoutesRulesOfAUser runs a canary on a rule of a user-managed route while the user edits
// the route. All of the user's content is retained, except the backendRefs of that rule.
func TestServerRoutesRulesOfAUser(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.gatewayHere()
	p.create(p.webRoute())
	p.microservice(group("1-x", 1, "a 1.0.0 active 100"))
	p.pod("a")
	p.borrows("shop", v1alpha1.DeletionRestore, "main")
	p.eventuallyWeb("taken over", "main", "shop/a=100")
	now := p.eventually("shop", "programmed", has("Ready", "Programmed"))
	want(t, "url", now.Status.URL, "http://first.example.com/shop")
	want(t, "backends", mustJSON(now.Status.Domains[0].Backends), `[{"release":"a","version":"1.0.0","weight":100}]`)
	u := p.readWeb()
	want(t, "the other rule", refs(u, "static"), "users-static=1")
	want(t, "labels", len(u.GetLabels()), 0)
	want(t, "owners", len(u.GetOwnerReferences()), 0)
	p.quiet()

	p.pod("b")
	p.rollout(group("1-x", 2, "b 1.1.0 canary 10", "a 1.0.0 active 90"))
	p.eventuallyWeb("canary", "main", "shop/a=90 shop/b=10")
	p.eventually("shop", "canary", confirmed("1-x", 2, "a", "b"))

	// A user adds a filter to the managed rule, and changes the match of the other rule.
	p.editWeb(func(rules []any) {
		rules[1].(map[string]any)["filters"] = append(rules[1].(map[string]any)["filters"].([]any), map[string]any{
			"type": "RequestHeaderModifier", "requestHeaderModifier": map[string]any{"add": []any{map[string]any{"name": "X-Team", "value": "web"}}},
		})
		rules[0].(map[string]any)["matches"] = []any{map[string]any{"path": map[string]any{"type": "Exact", "value": "/robots.txt"}}}
	})
	p.rollout(group("1-x", 3, "b 1.1.0 canary 50", "a 1.0.0 active 50"))
	u = p.eventuallyWeb("next step", "main", "shop/a=50 shop/b=50")
	p.eventually("shop", "next step", confirmed("1-x", 3, "a", "b"))
	for _, text := range []string{"X-Team", "/robots.txt", `"Server"`, `"team":"web"`} {
		want(t, "the route keeps "+text, strings.Contains(mustJSON(u.Object), text), true)
	}

	// A user applies the whole route again, with the previous backendRefs and an additional first
	// rule, as a tool that forces ownership of its fields would do.
	applied := p.webRoute()
	rules, _, _ := unstructured.NestedSlice(applied.Object, "spec", "rules")
	more := map[string]any{"name": "more", "matches": []any{map[string]any{"path": map[string]any{"type": "PathPrefix", "value": "/more"}}}, "backendRefs": []any{map[string]any{"name": "users-more", "port": int64(80)}}}
	if err := unstructured.SetNestedSlice(applied.Object, append([]any{more}, rules...), "spec", "rules"); err != nil {
		t.Fatal(err)
	}
	if err := server.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(applied), client.FieldOwner("gitops"), client.ForceOwnership); err != nil {
		t.Fatal(err)
	}
	u = p.eventuallyWeb("after an apply", "main", "shop/a=50 shop/b=50")
	want(t, "the additional rule", refs(u, "more"), "users-more=1")
	p.eventually("shop", "after an apply", func(p *v1alpha1.NetworkPolicy) bool {
		return confirmed("1-x", 3, "a", "b")(p) && has("Ready", "Programmed")(p)
	})

	// A user removes the annotation of the policy, and then sets the backendRefs of the managed
	// rule. These backendRefs are restored later, because the earlier backendRefs are no longer
	// known.
	p.updateWeb(func(u *unstructured.Unstructured) { u.SetAnnotations(nil) })
	p.eventually("shop", "annotation", func(*v1alpha1.NetworkPolicy) bool { return len(p.readWeb().GetAnnotations()) > 0 })
	p.editWeb(func(rules []any) {
		rules[2].(map[string]any)["backendRefs"] = []any{map[string]any{"name": "users-old", "port": int64(8080), "weight": int64(3)}}
	})
	p.eventuallyWeb("after an edit", "main", "shop/a=50 shop/b=50")

	p.rollout(group("1-x", 4, "b 1.1.0 active 100", "a 1.0.0 deprecated 0"))
	p.eventuallyWeb("promotion", "main", "shop/b=100")
	p.eventually("shop", "promotion", confirmed("1-x", 4, "b"))
	p.quiet()

	// The policy is deleted when the Service to which the rule previously routed has a ready
	// endpoint.
	p.oldService()
	p.remove("shop")
	time.Sleep(3 * time.Second) // The test checks that nothing changes during this time.
	want(t, "rule while no previous backend is ready", refs(p.readWeb(), "main"), "shop/b=100")
	p.oldPod()
	u = p.eventuallyWeb("restored", "main", "users-old=3")
	want(t, "annotations", len(u.GetAnnotations()), 0)
	p.gone(&v1alpha1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})
	want(t, "the additional rule", refs(p.readWeb(), "more"), "users-more=1")
}

// TestServerReportsTheGatewayOfAUsersRoute checks that a policy reports that the Gateway of its route was deleted and created
// again, and that the listeners of the Gateway have other hosts, although the status of the route does not change.
func TestServerReportsTheGatewayOfAUsersRoute(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.gatewayHere()
	p.create(p.webRoute())
	p.microservice(group("1-x", 1, "a 1.0.0 active 100"))
	p.pod("a")
	p.borrows("shop", v1alpha1.DeletionRestore, "main")
	p.eventually("shop", "Gateway", has("Ready", "Programmed"))
	p.quiet()
	if err := server.Delete(t.Context(), &gatewayv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "public"}}); err != nil {
		t.Fatal(err)
	}
	p.eventually("shop", "Gateway deleted", has("Ready", "ParentNotFound"))
	p.quiet()
	p.gatewayHere()
	p.eventually("shop", "Gateway created again", has("Ready", "Programmed"))
	p.quiet()
	listeners := func(host gatewayv1.Hostname) {
		t.Helper()
		g := &gatewayv1.Gateway{}
		p.get("public", g)
		for i := range g.Spec.Listeners {
			if g.Spec.Listeners[i].Protocol == gatewayv1.HTTPProtocolType {
				g.Spec.Listeners[i].Hostname = &host
			}
		}
		if err := server.Update(t.Context(), g); err != nil {
			t.Fatal(err)
		}
	}
	listeners("other.example.com")
	p.eventually("shop", "listeners for another host", has("Ready", "NoMatchingListener"))
	p.quiet()
	listeners("first.example.com")
	p.eventually("shop", "listeners for the host of the route", has("Ready", "Programmed"))
}

// TestServerFollowsReleasesDuringDeletion checks that rules follow the releases while the deletion
// of a policy waits until the previous backends of the rules are ready.
func TestServerFollowsReleasesDuringDeletion(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.gatewayHere()
	p.create(p.webRoute())
	p.microservice(group("1-x", 1, "a 1.0.0 active 100"))
	p.pod("a")
	p.borrows("shop", v1alpha1.DeletionRestore, "main")
	p.eventuallyWeb("taken over", "main", "shop/a=100")
	b := p.pod("b")
	p.rollout(group("1-x", 2, "b 1.1.0 canary 50", "a 1.0.0 active 50"))
	p.eventuallyWeb("canary", "main", "shop/a=50 shop/b=50")
	p.oldService() // The Service has no ready pod.
	p.remove("shop")
	p.eventually("shop", "deleted", func(h *v1alpha1.NetworkPolicy) bool { return h.DeletionTimestamp != nil })

	if err := server.Delete(t.Context(), b, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	p.eventuallyWeb("a canary without pods", "main", "shop/a=100")
	p.eventually("shop", "withheld", func(h *v1alpha1.NetworkPolicy) bool {
		return slices.Equal(traffic.Find(h.Status.Groups, "1-x").Withheld, []string{"b"})
	})
	p.rollout(group("1-x", 3, "b 1.1.0 error 0", "a 1.0.0 active 100"))
	p.eventually("shop", "abort", confirmed("1-x", 3, "a"))
	p.pod("c") // The policy no longer creates the Service of this release.
	p.rollout(group("1-x", 4, "c 1.2.0 canary 50", "a 1.0.0 active 50"))
	p.eventually("shop", "a new canary", func(h *v1alpha1.NetworkPolicy) bool {
		return confirmed("1-x", 4, "a")(h) && slices.Equal(traffic.Find(h.Status.Groups, "1-x").Withheld, []string{"c"})
	})
	want(t, "a new canary", refs(p.readWeb(), "main"), "shop/a=100")
	p.quiet()

	p.oldPod()
	p.eventuallyWeb("restored", "main", "users-old=3")
	p.gone(&v1alpha1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})
	want(t, "rule at the end", refs(p.readWeb(), "main"), "users-old=3")
}

// TestServerConflictOnAUsersRoute checks that a write to a route fails with a conflict if the route
// has changed since it was read.
func TestServerConflictOnAUsersRoute(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.create(p.webRoute())
	read := p.readWeb()
	next := read.DeepCopy()
	rules, _, _ := unstructured.NestedSlice(next.Object, "spec", "rules")
	rules[1].(map[string]any)["backendRefs"] = []any{map[string]any{"name": "ours", "port": int64(80)}}
	if err := unstructured.SetNestedSlice(next.Object, rules, "spec", "rules"); err != nil {
		t.Fatal(err)
	}
	p.editWeb(func(rules []any) { rules[0], rules[1] = rules[1], rules[0] })
	r := &Reconciler{Client: server, Live: server, Now: time.Now}
	_, err := r.patchUser(t.Context(), read, next)
	want(t, "conflict", apierrors.IsConflict(err), true)
	want(t, "nothing was written", strings.Contains(mustJSON(p.readWeb()), `"ours"`), false)
}

// names returns a function that changes a policy so that it manages the only rule of a route.
func names(route string) func(*v1alpha1.NetworkPolicy) {
	return func(h *v1alpha1.NetworkPolicy) {
		h.Spec.Domains, h.Spec.DeletionPolicy, h.Spec.DrainDelay = nil, v1alpha1.DeletionRestore, "1s"
		h.Spec.Provider = &v1alpha1.NetworkProvider{RouteRef: &v1alpha1.RouteReference{Kind: "HTTPRoute", Name: route}}
	}
}

// TestServerRefusesARouteOfAPolicy checks that a route that a policy owns cannot be used as a
// user-managed route, either by another policy or by the same policy.
func TestServerRefusesARouteOfAPolicy(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.microservice(group("1-x", 1, "a 1.0.0 active 100"))
	p.pod("a")
	p.policy("shop", "written.example.com")
	p.eventually("shop", "owner", has("Ready", "Programmed"))
	name := p.route().Name
	p.policy("thief", "", names(name))
	now := p.eventually("thief", "rejected", has("Accepted", "RuleConflict"))
	if c := meta.FindStatusCondition(now.Status.Conditions, "Accepted"); !strings.Contains(c.Message, `is managed by NetworkPolicy "shop"`) {
		t.Errorf("message is %q", c.Message)
	}
	p.eventually("shop", "owner", has("Ready", "Programmed"))
	p.quiet()

	var shop v1alpha1.NetworkPolicy
	p.get("shop", &shop)
	before := shop.DeepCopy()
	names(name)(&shop)
	if err := server.Patch(t.Context(), &shop, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	p.eventually("shop", "rejected", has("Accepted", "RuleConflict"))
	p.rollout(group("1-x", 2, "b 1.1.0 pending 0", "a 1.0.0 active 100"))
	time.Sleep(2 * time.Second) // The drain delay is one second.
	p.quiet()
	if route := p.route(); route.Name != name || route.DeletionTimestamp != nil {
		t.Errorf("the route is %s", mustJSON(route))
	}
}

// TestServerLeavesARuleThatIsReverted checks that a client that reverts a rule after each write is reported, and
// that its changes are not overwritten in a loop.
func TestServerLeavesARuleThatIsReverted(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.gatewayHere()
	p.create(p.webRoute())
	p.microservice(group("1-x", 1, "a 1.0.0 active 100"))
	p.pod("a")
	p.borrows("shop", v1alpha1.DeletionRestore, "main")
	u := p.eventuallyWeb("taken over", "main", "shop/a=100")
	before, began := len(successes.in(p.namespace)), time.Now()
	wrote := func() (n int) { // A write that fails because of a conflict is retried immediately.
		for _, line := range successes.in(p.namespace)[before:] {
			if strings.Contains(line, "/httproutes/web") {
				n++
			}
		}
		return n
	}
	var now *v1alpha1.NetworkPolicy
	await.Nil(t, func(ctx context.Context) error { // This function is the other client: it reverts the rule after each write that it observes.
		if u = p.readWeb(); refs(u, "main") == "shop/a=100" {
			p.editWeb(func(rules []any) {
				rules[1].(map[string]any)["backendRefs"] = []any{map[string]any{"name": "users-old", "port": int64(8080)}}
			})
		}
		now = &v1alpha1.NetworkPolicy{}
		p.get("shop", now)
		if n := wrote(); n <= freeWrites || !has("Ready", "RuleConflict")(now) {
			return fmt.Errorf("%d writes to the route, status %s", n, mustJSON(now.Status))
		}
		return nil
	})
	// After freeWrites writes, the delays are 1 s, 2 s, 4 s, and so on.
	if n, took := wrote(), time.Since(began); n > freeWrites+2+bits.Len(uint(took.Seconds())) {
		t.Errorf("%d writes to the route in %s", n, took)
	}
	if c := meta.FindStatusCondition(now.Status.Conditions, "Ready"); !strings.Contains(c.Message, `field manager "kubectl-edit" reverts the rules of HTTPRoute "web"`) {
		t.Errorf("message is %q", c.Message)
	}
	p.pod("b")
	p.rollout(group("1-x", 2, "b 1.1.0 canary 50", "a 1.0.0 active 50"))
	p.eventuallyWeb("new content is written immediately", "main", "shop/a=50 shop/b=50")
	p.eventually("shop", "ready again", has("Ready", "Programmed"))
}

// TestServerDeletesPolicyWithUnreadableRouteAfterTheDeadline checks that a policy is deleted after the deadline even
// if the route whose rules the policy manages cannot be read.
func TestServerDeletesPolicyWithUnreadableRouteAfterTheDeadline(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.gatewayHere()
	p.create(p.webRoute())
	p.microservice(group("1-x", 1, "a 1.0.0 active 100"))
	p.pod("a")
	p.borrows("shop", v1alpha1.DeletionRestore, "main")
	p.eventuallyWeb("taken over", "main", "shop/a=100")
	p.remove("shop")
	policy := p.eventually("shop", "deleted", func(h *v1alpha1.NetworkPolicy) bool { return h.DeletionTimestamp != nil && len(h.Status.Routes) > 0 })
	soon := time.Now().Add(time.Hour)
	late := &Reconciler{
		Client: indexed(), Live: server, Now: func() time.Time { return time.Now().Add(deletionDeadline + time.Minute) },
		kinds: &kinds{now: time.Now, seen: map[string]seenKind{}, next: map[string]time.Time{"HTTPRoute": soon}, unread: map[string]error{"HTTPRoute": context.DeadlineExceeded}},
	}
	// The running controller also writes to the policy, so the test retries after a conflict, as a work queue does.
	await.Nil(t, func(ctx context.Context) error {
		if err := server.Get(ctx, client.ObjectKeyFromObject(policy), policy); err != nil {
			return client.IgnoreNotFound(err)
		}
		_, err := late.finalize(ctx, policy)
		return errors.Join(errors.New("the policy still exists"), err)
	})
}
