package networkpolicy

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providertest"
	"github.com/heighliner/heighliner/controllers/networkpolicy/resources"
	"github.com/heighliner/heighliner/controllers/networkpolicy/traffic"
	"github.com/heighliner/heighliner/internal/apply"
	"github.com/heighliner/heighliner/internal/status"
	"github.com/heighliner/heighliner/test/await"
)

func TestServerRollout(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.microservice(group("1-x", 1, "a 1.0.0 active 100"))
	p.policy("shop", "{{.ReleaseGroupName}}.rollout.example.com")
	p.pod("a")
	p.eventually("shop", "first release", confirmed("1-x", 1, "a"))
	p.eventually("shop", "first release", has("Ready", "Programmed"))
	p.quiet()
	// A policy that has not reported yet may refer to any release, so its objects are written
	// first.
	made := requests.in(p.namespace)
	want(t, "the first write", strings.Contains(made[0], "/services"), true)
	unnamed := p.watchServices()

	b := p.pod("b")
	p.rollout(group("1-x", 1, "b 1.1.0 pending 0", "a 1.0.0 active 100"))
	p.endpoints(resources.ReleaseServiceName("shop", "shop", "b"))
	p.quiet()
	before := len(requests.in(p.namespace))
	p.rollout(group("1-x", 2, "b 1.1.0 canary 10", "a 1.0.0 active 90"))
	p.eventually("shop", "canary", confirmed("1-x", 2, "a", "b"))
	p.quiet()
	// The writes are the route, the report with the reference to the canary, and the report that
	// the route is accepted.
	p.atMost(before, 3)
	before = len(requests.in(p.namespace))
	p.rollout(group("1-x", 3, "b 1.1.0 canary 50", "a 1.0.0 active 50"))
	p.eventually("shop", "second step", confirmed("1-x", 3, "a", "b"))
	p.quiet()
	// In each step, the controller writes a route and a status. Another controller writes the rollout
	// state.
	p.atMost(before, 2)

	if got := p.route().Annotations[v1alpha1.AnnotationRevision]; got != "1-x=3" {
		t.Errorf("stamp of the route: %q", got)
	}
	p.rollout(group("1-x", 4, "b 1.1.0 active 100", "a 1.0.0 deprecated 0"))
	p.eventually("shop", "promotion", confirmed("1-x", 4, "b"))
	p.rollout(group("1-x", 4, "b 1.1.0 active 100"))
	p.gone(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: resources.ReleaseServiceName("shop", "shop", "a")}})
	unnamed()

	// The only pod is deleted: the Service stays, and the route keeps its weights.
	if err := server.Delete(t.Context(), b, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	p.eventually("shop", "lost pod", func(p *v1alpha1.NetworkPolicy) bool {
		return slices.Equal(traffic.Find(p.Status.Groups, "1-x").Withheld, []string{"b"})
	})
	if n := len(p.route().Spec.Rules[0].BackendRefs); n != 1 {
		t.Errorf("the route has %d backends", n)
	}
}

// endpoints waits until a Service has one endpoint, which is ready.
func (p *place) endpoints(service string) {
	p.t.Helper()
	p.readyEndpoints(service, 1)
}

// readyEndpoints waits until a Service has the given number of endpoints, and all of them are ready.
func (p *place) readyEndpoints(service string, count int) {
	p.t.Helper()
	await.Nil(p.t, func(ctx context.Context) error {
		var list discoveryv1.EndpointSliceList
		if err := server.List(ctx, &list, client.InNamespace(p.namespace), client.MatchingLabels{discoveryv1.LabelServiceName: service}); err != nil {
			return err
		}
		all, ready := 0, 0
		for i := range list.Items {
			for _, e := range list.Items[i].Endpoints {
				all++
				if serving(e) {
					ready++
				}
			}
		}
		if all != count || ready != count {
			return fmt.Errorf("Service %s has %d endpoints, of which %d are ready, want %d", service, all, ready, count)
		}
		return nil
	})
}

// atMost checks that the number of writes has increased from before by at most limit.
func (p *place) atMost(before, limit int) {
	p.t.Helper()
	if now := requests.in(p.namespace); len(now)-before > limit {
		p.t.Errorf("%d writes, want at most %d: %q", len(now)-before, limit, now[before:])
	}
}

func (p *place) route() *gatewayv1.HTTPRoute {
	p.t.Helper()
	var list gatewayv1.HTTPRouteList
	if err := server.List(p.t.Context(), &list, client.InNamespace(p.namespace)); err != nil {
		p.t.Fatal(err)
	}
	if len(list.Items) != 1 {
		p.t.Fatalf("%d routes", len(list.Items))
	}
	return &list.Items[0]
}

func (p *place) gone(o client.Object) {
	p.t.Helper()
	o.SetNamespace(p.namespace)
	await.Nil(p.t, func(ctx context.Context) error {
		switch err := server.Get(ctx, client.ObjectKeyFromObject(o), o); {
		case apierrors.IsNotFound(err):
			return nil
		case err != nil:
			return err
		default:
			return fmt.Errorf("%s still exists", o.GetName())
		}
	})
}

// watchServices checks that no Service is deleted while a route refers to it. The returned function
// ends the watch.
func (p *place) watchServices() (end func()) {
	p.t.Helper()
	w, err := server.Watch(p.t.Context(), &corev1.ServiceList{}, client.InNamespace(p.namespace))
	if err != nil {
		p.t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for e := range w.ResultChan() {
			if e.Type != watch.Deleted {
				continue
			}
			name := e.Object.(*corev1.Service).Name
			var routes gatewayv1.HTTPRouteList
			if err := server.List(context.Background(), &routes, client.InNamespace(p.namespace)); err != nil {
				continue
			}
			for i := range routes.Items {
				if providertest.ServicesOf(&routes.Items[i])[name] {
					p.t.Errorf("Service %s was deleted while route %s referred to it", name, routes.Items[i].Name)
				}
			}
		}
	}()
	return func() {
		w.Stop()
		<-done
	}
}

func TestServerForeignService(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	own := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "shop"}, Spec: corev1.ServiceSpec{
		Selector: map[string]string{"app": "old"}, Ports: []corev1.ServicePort{{Port: 9999}},
	}}
	p.create(own)
	p.microservice(group("1-x", 1, "a 1.0.0 active 100"))
	p.policy("shop", "foreign.example.com")
	p.pod("a")
	p.eventually("shop", "conflict", has("NameConflict", "NameConflict"))
	p.eventually("shop", "other objects are written", confirmed("1-x", 1, "a"))
	var now corev1.Service
	p.get("shop", &now)
	if now.ResourceVersion != own.ResourceVersion {
		t.Errorf("the user's Service was written: %v", now.Spec)
	}
}

func TestServerDomainConflictAcrossNamespaces(t *testing.T) {
	t.Parallel()
	first, second := newPlace(t), newPlace(t)
	const host = "conflict.example.com"
	for _, p := range []*place{first, second} {
		p.microservice(group("1-x", 1, "a 1.0.0 active 100"))
		p.pod("a")
	}
	first.policy("shop", host)
	first.eventually("shop", "older", has("Ready", "Programmed"))
	time.Sleep(1100 * time.Millisecond) // Creation timestamps have a resolution of one second.
	second.policy("shop", host)
	second.eventually("shop", "younger", has("Ready", "DomainConflict"))
	first.eventually("shop", "older", has("Ready", "Programmed"))
	if err := server.Delete(t.Context(), &v1alpha1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: first.namespace, Name: "shop"}}); err != nil {
		t.Fatal(err)
	}
	second.eventually("shop", "younger policy after the older one is deleted", has("Ready", "Programmed"))
}

func TestServerGatewayComesLater(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.microservice(group("1-x", 1, "a 1.0.0 active 100"))
	p.pod("a")
	p.policy("shop", "later.example.com", func(h *v1alpha1.NetworkPolicy) {
		h.Spec.Provider.Gateway.ParentRefs = []v1alpha1.ParentReference{{Name: "own"}}
	})
	p.eventually("shop", "no Gateway", has("Ready", "ParentNotFound"))
	own := gateway(8080, gatewayv1.HTTPProtocolType, "*.example.com")
	own.Name = "own"
	p.create(own)
	now := p.eventually("shop", "Gateway", has("Ready", "Programmed"))
	if now.Status.URL != "http://later.example.com:8080" {
		t.Errorf("url: %q", now.Status.URL)
	}
}

func TestServerKeepsFieldsOfOthers(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.microservice(group("1-x", 1, "a 1.0.0 active 100"))
	p.pod("a")
	p.policy("shop", "others.example.com")
	p.eventually("shop", "ready", has("Ready", "Programmed"))
	route := p.route()
	route.Annotations["example.com/note"] = "mine"
	if err := server.Update(t.Context(), route, client.FieldOwner("someone")); err != nil {
		t.Fatal(err)
	}
	p.quiet()
	p.rollout(group("1-x", 2, "a 1.0.0 active 100"))
	p.eventually("shop", "next revision", confirmed("1-x", 2, "a"))
	if p.route().Annotations["example.com/note"] != "mine" {
		t.Error("the annotation of another user is gone")
	}
	if err := server.Delete(t.Context(), p.route()); err != nil {
		t.Fatal(err)
	}
	p.eventually("shop", "route is created again", func(*v1alpha1.NetworkPolicy) bool {
		var list gatewayv1.HTTPRouteList
		return server.List(t.Context(), &list, client.InNamespace(p.namespace)) == nil && len(list.Items) == 1 && list.Items[0].UID != route.UID
	})
}

func TestServerMicroserviceDeleted(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.microservice(group("1-x", 5, "a 1.0.0 active 100"))
	p.pod("a")
	p.policy("shop", "deleted.example.com")
	p.eventually("shop", "ready", has("Ready", "Programmed"))
	uid := p.route().UID
	if err := server.Delete(t.Context(), &v1alpha1.Microservice{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "shop"}}); err != nil {
		t.Fatal(err)
	}
	p.eventually("shop", "no Microservice", has("Ready", "MicroserviceNotFound"))
	p.pod("b")
	p.microservice(group("1-x", 1, "b 1.0.0 active 100"))
	p.eventually("shop", "a new rollout state", confirmed("1-x", 1, "b"))
	if p.route().UID != uid {
		t.Error("the route was deleted and created again with a new creation time")
	}
}

// TestServerLateWriteOfAnOldLeader checks that a late write of a previous decision, by a leader
// that lost its Lease, does not revert a newer decision.
func TestServerLateWriteOfAnOldLeader(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.microservice(group("1-x", 1, "b 1.1.0 pending 0", "a 1.0.0 active 100"))
	p.pod("a")
	p.pod("b")
	p.policy("shop", "late.example.com")
	p.eventually("shop", "ready", has("Ready", "Programmed"))
	p.endpoints(resources.ReleaseServiceName("shop", "shop", "b"))

	p.rollout(group("1-x", 2, "b 1.1.0 canary 50", "a 1.0.0 active 50"))
	p.eventually("shop", "canary", confirmed("1-x", 2, "a", "b"))
	late := &Reconciler{
		Client: indexed(), Live: server, Now: time.Now, kinds: allKnown(),
		Writer: apply.Writer{Client: server, Live: server, Owner: fieldOwner},
	}
	var policy v1alpha1.NetworkPolicy
	p.get("shop", &policy)
	f := &traffic.Observed{Policy: &policy, Now: time.Now()}
	for _, read := range []func(context.Context, *traffic.Observed) error{late.readServices, late.readEndpoints, late.readRoutes, late.readMicroservice} {
		if err := read(t.Context(), f); err != nil {
			t.Fatal(err)
		}
	}
	f.Microservice.Status.ReleaseGroups[0] = group("1-x", 3, "b 1.1.0 canary 90", "a 1.0.0 active 10")

	p.rollout(group("1-x", 4, "b 1.1.0 error 0", "a 1.0.0 active 100"))
	p.eventually("shop", "abort", confirmed("1-x", 4, "a"))
	if _, err := late.write(t.Context(), f, traffic.Plan(f)); !apierrors.IsConflict(err) {
		t.Errorf("the late write: %v", err)
	}
	if n := len(p.route().Spec.Rules[0].BackendRefs); n != 1 {
		t.Errorf("the aborted canary is back: %d backends", n)
	}
}

// allKnown returns a kinds value in which all kinds of the server have been discovered.
func allKnown() *kinds {
	k := &kinds{
		now:    time.Now,
		mapper: server.RESTMapper(), watch: func(schema.GroupVersionKind, bool) error { return nil },
		channel: func(schema.GroupVersionKind) (bool, error) { return false, nil },
	}
	if k.discover(traffic.AllKinds()); k.problem(traffic.AllKinds()) != nil {
		panic(k.problem(traffic.AllKinds()).Message)
	}
	return k
}

func TestServerRefusedRoute(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.microservice(group("1-x", 1, "a 1.0.0 active 100"))
	p.pod("a")
	p.policy("shop", "refused.example.com", func(h *v1alpha1.NetworkPolicy) {
		h.Spec.Provider.Gateway.ParentRefs = []v1alpha1.ParentReference{{Namespace: "infra", Name: "public", SectionName: refusedSection}}
	})
	// Until the gateway has reported, the policy reports that the listener does not exist.
	now := p.eventually("shop", "rejection", func(h *v1alpha1.NetworkPolicy) bool {
		c := meta.FindStatusCondition(h.Status.Conditions, "Ready")
		return c != nil && c.Reason == traffic.ReasonNotAccepted && !slices.ContainsFunc([]string{"spec.provider.gateway.parentRefs[0]", "infra/public", "NotAllowedByListeners", "allowedRoutes"},
			func(text string) bool { return !strings.Contains(c.Message, text) })
	})
	if got := traffic.Find(now.Status.Groups, "1-x"); got.Revision != 0 || got.Reason != traffic.ReasonNotAccepted {
		t.Errorf("group: %+v", got)
	}
}

// TestServerRefusedEdit checks that the live route stays if the route for an edited path cannot be
// written.
func TestServerRefusedEdit(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.microservice(group("1-x", 1, "a 1.0.0 active 100"))
	p.pod("a")
	p.policy("shop", "edited.example.com", func(h *v1alpha1.NetworkPolicy) { h.Spec.Domains[0].Path = "/shop" })
	p.eventually("shop", "live", has("Ready", "Programmed"))
	live := p.route()
	next := traffic.RouteKey{Target: "newest", Path: "/cart", Port: "http"}.Name("shop", 0)
	p.create(&gatewayv1.HTTPRoute{ObjectMeta: metav1.ObjectMeta{Name: next}})
	var policy v1alpha1.NetworkPolicy
	p.get("shop", &policy)
	before := policy.DeepCopy()
	policy.Spec.Domains[0].Path = "/cart"
	if err := server.Patch(t.Context(), &policy, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	p.eventually("shop", "conflict", has("Ready", traffic.ReasonNameConflict))
	p.quiet()
	p.get(live.Name, &gatewayv1.HTTPRoute{})
}

// TestServerRefusedSpecificationKeepsNoTraffic checks that a release without pods loses its traffic
// even if the API server rejects the specified route, and that the rejection is reported.
func TestServerRefusedSpecificationKeepsNoTraffic(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.microservice(group("1-x", 1, "a 1.0.0 active 100"))
	p.pod("a")
	p.policy("shop", p.namespace+".example.com")
	p.eventually("shop", "served", has("Ready", "Programmed"))
	b := p.pod("b")
	p.rollout(group("1-x", 2, "b 1.1.0 canary 50", "a 1.0.0 active 50"))
	p.eventually("shop", "split", confirmed("1-x", 2, "a", "b"))

	const name, header = "no-such-header", "X-Refused"
	rules := admissionv1.MatchResources{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: p.namespace}}}
	rules.ResourceRules = []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
		Operations: []admissionv1.OperationType{admissionv1.OperationAll},
		Rule:       admissionv1.Rule{APIGroups: []string{gatewayv1.GroupName}, APIVersions: []string{"*"}, Resources: []string{"httproutes"}},
	}}}
	for _, o := range []client.Object{
		&admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &rules, Validations: []admissionv1.Validation{{
				Expression: `object.spec.rules.all(r, !has(r.filters) || r.filters.all(f, !has(f.requestHeaderModifier) || f.requestHeaderModifier.set.all(h, h.name != "` + header + `")))`,
			}},
		}},
		&admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
		}},
	} {
		if err := server.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = server.Delete(context.Background(), o) })
	}
	backends := func() (route gatewayv1.HTTPRoute, out []string) {
		var routes gatewayv1.HTTPRouteList
		if err := server.List(t.Context(), &routes, client.InNamespace(p.namespace)); err != nil {
			t.Fatal(err)
		}
		want(t, "routes", len(routes.Items), 1)
		for _, b := range routes.Items[0].Spec.Rules[0].BackendRefs {
			out = append(out, fmt.Sprintf("%s=%d", b.Name, *b.Weight))
		}
		return routes.Items[0], out
	}
	filter := v1alpha1.RouteFilter{RequestHeaderModifier: &v1alpha1.HeaderModifier{Set: []v1alpha1.HeaderValue{{Name: header, Value: "a"}}}}
	await.Nil(t, func(ctx context.Context) error { // The admission policy takes effect a moment later.
		route, _ := backends()
		route.Spec.Rules[0].Filters = []gatewayv1.HTTPRouteFilter{{
			Type: gatewayv1.HTTPRouteFilterRequestHeaderModifier, RequestHeaderModifier: &gatewayv1.HTTPHeaderFilter{Set: []gatewayv1.HTTPHeader{{Name: header, Value: "a"}}},
		}}
		if err := server.Update(ctx, &route, client.DryRunAll); !apierrors.IsInvalid(err) {
			return fmt.Errorf("the route is accepted: %w", err)
		}
		return nil
	})
	var policy v1alpha1.NetworkPolicy
	await.Nil(t, func(ctx context.Context) error {
		p.get("shop", &policy)
		policy.Spec.Provider.Gateway.Filters = []v1alpha1.RouteFilter{filter}
		return server.Update(ctx, &policy)
	})
	p.eventually("shop", "rejected", has("Accepted", status.ReasonInvalid))
	_, split := backends()
	want(t, "backends while the route is rejected", len(split), 2)
	if err := server.Delete(t.Context(), b, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	await.Nil(t, func(context.Context) error {
		if _, left := backends(); len(left) != 1 {
			return fmt.Errorf("backends without a pod of the canary: %q", left)
		}
		return nil
	})
	p.eventually("shop", "withheld", func(h *v1alpha1.NetworkPolicy) bool {
		return has("Accepted", status.ReasonInvalid)(h) && slices.Contains(traffic.Find(h.Status.Groups, "1-x").Withheld, "b")
	})
	time.Sleep(time.Second) // The reconcile after the status write repeats the rejected write once.
	p.quiet()
	await.Nil(t, func(ctx context.Context) error {
		p.get("shop", &policy)
		policy.Spec.Provider.Gateway.Filters = nil
		return server.Update(ctx, &policy)
	})
	p.eventually("shop", "fixed", func(h *v1alpha1.NetworkPolicy) bool { return has("Ready", "Programmed")(h) })
}
