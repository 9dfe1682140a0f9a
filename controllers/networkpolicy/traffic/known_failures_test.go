package traffic

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
	gatewayapi "github.com/heighliner/heighliner/controllers/networkpolicy/providers/gateway"
	"github.com/heighliner/heighliner/controllers/networkpolicy/resources"
)

// TestKnownFailures checks that known failures that other controllers had with routes and Services
// do not occur. The name of each test begins with the number of its row in
// docs/design/known-failures.md.
func TestKnownFailures(t *testing.T) {
	for name, play := range map[string]func(*testing.T){
		"03 no route refers to a release that was rolled back": nothingNamesWhatWasRolledBack,
		"05 the reported split is the one in use":              splitIsTheOneInUse,
		"09 the rules of a step are removed with the step":     noRuleOutlivesItsStep,
		"10 a superseded canary leaves no rule":                displacedCanaryLeavesNoRule,
		"11 many reconciles create one rule":                   manyPassesMakeOneRule,
		"12 edits to a policy keep the step":                   editsKeepTheStep,
		"14 the order of headers makes no difference":          orderOfHeadersMakesNoDifference,
		"28 the Service moves with one ready endpoint of many": oneEndpointMovesTheService,
		"65 a restart loses no state":                          restartForgetsNothing,
		"67 objects that a user emptied":                       emptiedObjects,
		"68 a name without a namespace":                        nameWithoutANamespace,
		"72 an abort with Services only":                       abortWithServicesOnly,
	} {
		t.Run(name, play)
	}
}

// stepOf returns the group 1-x with the given releases.
func stepOf(revision int64, rows ...string) v1alpha1.ReleaseGroup {
	return group("1-x", revision, rows...)
}

// nothingNamesWhatWasRolledBack checks that, after a canary ends for any reason, no route refers to
// a Service without a ready endpoint, and every Service that follows a group routes to the active
// release.
func nothingNamesWhatWasRolledBack(t *testing.T) {
	for name, rows := range map[string][]string{
		"failed":     {"b 1.1.0 error 0", "a 1.0.0 active 100"},
		"superseded": {"c 1.2.0 pending 0", "b 1.1.0 deprecated 0", "a 1.0.0 active 100"},
		"displaced":  {"c 1.2.0 canary 10", "b 1.1.0 deprecated 0", "a 1.0.0 active 90"},
		"forgotten":  {"a 1.0.0 active 100"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, stepOf(2, "b 1.1.0 canary 50", "a 1.0.0 active 50"))
			w.ready["a"], w.ready["b"] = 2, 2
			w.settle()
			want(t, "split", w.split(host), "1.0.0=50 1.1.0=50")
			w.rollout(stepOf(3, rows...))
			w.settle()
			for _, route := range w.routes {
				if servicesOf(route)[w.facts().ReleaseService("b")] {
					t.Errorf("route %s refers to the release that was rolled back", route.Name)
				}
			}
			w.ready["b"] = 0 // The pods of the canary are deleted after the drain delay.
			w.settle()
			f := w.facts()
			for _, route := range w.routes {
				for service := range servicesOf(route) {
					if len(f.Endpoints[service].Ready) == 0 {
						t.Errorf("route %s refers to Service %s, which has no ready endpoint", route.Name, service)
					}
				}
			}
			for _, service := range []string{"shop", "shop-1-x"} {
				want(t, "Service "+service, f.Selected(service), "a")
			}
			want(t, "b is referenced", slices.Contains(w.groupTraffic("1-x").References, "b"), false)
			if name == "forgotten" {
				want(t, "its Service exists", w.services[f.ReleaseService("b")] != nil, false)
			}
		})
	}
}

// splitIsTheOneInUse checks that, in every reconcile during an upgrade, the split in the status is
// the current split or a previous split of the routes, and that it is the current split in a stable
// state.
func splitIsTheOneInUse(t *testing.T) {
	w := newWorld(t, stepOf(1, "a 1.0.0 active 100"))
	w.ready["a"], w.ready["b"] = 1, 1
	routed := []string{""}
	for revision, rows := range [][]string{
		{"a 1.0.0 active 100"},
		{"b 1.1.0 canary 0", "a 1.0.0 active 100"},
		{"b 1.1.0 canary 10", "a 1.0.0 active 90"},
		{"b 1.1.0 canary 99", "a 1.0.0 active 1"},
		{"b 1.1.0 active 100", "a 1.0.0 deprecated 0"},
		{"b 1.1.0 deprecated 0", "a 1.0.0 active 100"},
		{"b 1.1.0 error 0", "a 1.0.0 active 100"},
	} {
		w.rollout(stepOf(int64(revision+1), rows...))
		for range 6 {
			w.pass()
			routed = append(routed, w.split(host))
			if note := w.policy.Status.Summary.Split; !slices.Contains(routed, note) {
				t.Errorf("revision %d: the status reports %q, but the routes had %q", revision+1, note, routed)
			}
			if w.groupTraffic("1-x").Revision == int64(revision+1) {
				want(t, "split after the confirmation", w.policy.Status.Summary.Split, w.split(host))
			}
			w.accept()
		}
		want(t, "confirmed", w.groupTraffic("1-x").Revision, int64(revision+1))
		w.ready["b"] = 0
		w.settle()
		want(t, "split without an endpoint of 1.1.0", w.policy.Status.Summary.Split, w.split(host))
		w.ready["b"] = 1
		w.settle()
		routed = []string{w.split(host)}
	}
}

// matched returns a world whose canary gets matched and mirrored requests, and has no weight.
func matched(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, testTraffic(stepOf(2, "b 1.1.0 canary 0", "a 1.0.0 active 100"), true, 20))
	w.policy.Spec.Domains[0].CanaryMatches = beta()
	w.ready["a"], w.ready["b"], w.ready["c"] = 1, 1, 1
	w.settle()
	route := onlyRoute(t, w)
	want(t, "rules of the step", len(route.Spec.Rules), 2)
	want(t, "filters of the step", len(route.Spec.Rules[len(route.Spec.Rules)-1].Filters), 1)
	return w
}

func noRuleOutlivesItsStep(t *testing.T) {
	for name, rows := range map[string][]string{
		"promoted":                 {"b 1.1.0 active 100", "a 1.0.0 deprecated 0"},
		"failed":                   {"b 1.1.0 error 0", "a 1.0.0 active 100"},
		"a plain step":             {"b 1.1.0 canary 10", "a 1.0.0 active 90"},
		"forgotten":                {"a 1.0.0 active 100"},
		"rolled back":              {"b 1.1.0 deprecated 0", "a 1.0.0 active 100"},
		"a step at zero":           {"b 1.1.0 canary 0", "a 1.0.0 active 100"},
		"start of another release": {"c 1.2.0 pending 0", "b 1.1.0 deprecated 0", "a 1.0.0 active 100"},
	} {
		t.Run(name, func(t *testing.T) {
			w := matched(t)
			w.rollout(stepOf(3, rows...))
			w.settle()
			route := onlyRoute(t, w)
			want(t, "rules", len(route.Spec.Rules), 1)
			want(t, "filters", len(route.Spec.Rules[0].Filters), 0)
			want(t, "revision", w.groupTraffic("1-x").Revision, 3)
		})
	}
}

// displacedCanaryLeavesNoRule checks that one write moves all matches from an older canary to a
// newer canary, so that the pods of the older canary can be deleted.
func displacedCanaryLeavesNoRule(t *testing.T) {
	w := matched(t)
	w.ready["c"] = 0
	w.rollout(testTraffic(stepOf(3, "c 1.2.0 canary 0", "b 1.1.0 deprecated 0", "a 1.0.0 active 100"), true, 20))
	w.settle()
	route := onlyRoute(t, w)
	want(t, "rules while the newer canary has no endpoint", len(route.Spec.Rules), 1)
	want(t, "filters while the newer canary has no endpoint", len(route.Spec.Rules[0].Filters), 0)
	want(t, "the older canary is referenced", slices.Contains(w.groupTraffic("1-x").References, "b"), false)
	w.ready["b"], w.ready["c"] = 0, 1
	w.settle()
	want(t, "rules", len(onlyRoute(t, w).Spec.Rules), 2)
	for service := range servicesOf(onlyRoute(t, w)) {
		if service == w.facts().ReleaseService("b") {
			t.Errorf("the route refers to the Service of the superseded canary")
		}
	}
}

func manyPassesMakeOneRule(t *testing.T) {
	w := matched(t)
	before := mustJSON(onlyRoute(t, w).Spec)
	for range 50 {
		w.pass()
		w.accept()
	}
	if diff := cmp.Diff(before, mustJSON(onlyRoute(t, w).Spec)); diff != "" {
		t.Errorf("after fifty reconciles: %s", diff)
	}
	w.rollout(stepOf(3, "b 1.1.0 canary 40", "a 1.0.0 active 60"))
	for range 50 {
		w.pass()
		w.accept()
	}
	rules := onlyRoute(t, w).Spec.Rules
	want(t, "rules", len(rules), 1)
	want(t, "backends", len(rules[0].BackendRefs), 2)
}

// editsKeepTheStep checks that edits to other settings during a step never change or remove the
// split of a host.
func editsKeepTheStep(t *testing.T) {
	web := intstr.FromString("web")
	for name, edit := range map[string]func(*world){
		"an additional host": func(w *world) {
			w.spec().Domains = append(w.spec().Domains, v1alpha1.Domain{Domain: "more.example.com"})
		},
		"an additional path": func(w *world) {
			w.spec().Domains = append(w.spec().Domains, v1alpha1.Domain{Domain: "{{.ReleaseGroupName}}.shop.example.com", Path: "/api"})
		},
		"an additional pinned host": func(w *world) {
			w.spec().Domains = append(w.spec().Domains, v1alpha1.Domain{Domain: "pin.example.com", Release: &v1alpha1.DomainRelease{Version: "1.0.0"}})
		},
		"the target port":   func(w *world) { w.spec().Ports[0].TargetPort = &web },
		"the port protocol": func(w *world) { w.spec().Ports[0].AppProtocol = "kubernetes.io/h2c" },
		"another port": func(w *world) {
			w.spec().Ports = append(w.spec().Ports, v1alpha1.NetworkPort{Name: "dns", Port: 53, Protocol: v1alpha1.ProtocolUDP})
			w.spec().Domains[0].Port = "http"
		},
		"the port number":  func(w *world) { w.spec().Ports[0].Port = 8080 },
		"another listener": func(w *world) { w.spec().Provider.Gateway.ParentRefs[0].SectionName = "web" },
		"another Gateway": func(w *world) {
			w.gateways["infra/private"] = gateway(81, "HTTP", "")
			w.spec().Provider.Gateway.ParentRefs[0].Name = "private"
		},
		"an additional Gateway": func(w *world) {
			w.gateways["infra/private"] = gateway(81, "HTTP", "")
			w.spec().Provider.Gateway.ParentRefs = append(w.spec().Provider.Gateway.ParentRefs, v1alpha1.ParentReference{Namespace: "infra", Name: "private"})
		},
		"matches": func(w *world) { w.spec().Domains[0].CanaryMatches = beta() },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, stepOf(2, "b 1.1.0 canary 30", "a 1.0.0 active 70"))
			w.ready["a"], w.ready["b"] = 1, 1
			w.settle()
			edit(w)
			w.policy.Generation++
			for range 8 {
				w.pass()
				for _, route := range w.routes {
					if got := splitOf(w, route); !pinRoute(route) && got != "1.0.0=70 1.1.0=30" {
						t.Errorf("route %s has %q", route.Name, got)
					}
				}
				want(t, "split of the host", w.split(host) != "", true)
				want(t, "revision", w.groupTraffic("1-x").Revision, 2)
				w.accept()
			}
		})
	}
}

func (w *world) spec() *v1alpha1.NetworkPolicySpec { return &w.policy.Spec }

// splitOf returns the split of a route's weighted rule, in the format of w.split.
func splitOf(w *world, route *gatewayv1.HTTPRoute) string {
	only := *w
	only.routes = map[string]*gatewayv1.HTTPRoute{route.Name: route}
	return only.split(hostsOf(route)[0])
}

func orderOfHeadersMakesNoDifference(t *testing.T) {
	build := func(matches []v1alpha1.CanaryMatch) resources.Object {
		w := newWorld(t)
		return gatewayapi.Provider{}.NewView(w.input(w.policy)).Build(providers.Route{
			Name: "r", Hostnames: []string{host}, Path: "/", Port: 80, Backends: []providers.Backend{{Service: "a", Weight: 100}},
			Canary: "b", Matches: matches,
		})[0]
	}
	match := func(names ...string) []v1alpha1.CanaryMatch {
		var m v1alpha1.CanaryMatch
		for _, n := range names {
			m.Headers = append(m.Headers, v1alpha1.MatchValue{Name: "X-" + n, Value: n})
			m.QueryParams = append(m.QueryParams, v1alpha1.MatchValue{Name: n, Value: n})
		}
		m.Cookie = &v1alpha1.MatchCookie{Name: "canary", Value: "yes"}
		return []v1alpha1.CanaryMatch{m}
	}
	old := build(match("c", "a", "b"))
	if diff := cmp.Diff(old, build(match("b", "c", "a"))); diff != "" {
		t.Errorf("the order changes the route: %s", diff)
	}
	want(t, "a route with another order is the same", gatewayapi.Same(old, build(match("a", "b", "c"))), true)
	want(t, "a route with another value is the same", gatewayapi.Same(old, build(match("a", "b", "d"))), false)
}

// oneEndpointMovesTheService checks that a Service moves as soon as the first endpoint is ready: a
// pod that never becomes ready does not prevent the move.
func oneEndpointMovesTheService(t *testing.T) {
	w := newWorld(t, stepOf(1, "a 1.0.0 active 100"))
	w.ready["a"] = 10
	w.settle()
	promoted := stepOf(2, "b 1.1.0 active 100", "a 1.0.0 deprecated 0")
	promoted.Releases[0].Available = false
	w.rollout(promoted)
	w.settle()
	want(t, "Service without an endpoint to move to", w.facts().Selected("shop-1-x"), "a")
	w.ready["b"] = 1
	w.settle()
	for _, service := range []string{"shop", "shop-1-x"} {
		want(t, "Service "+service, w.facts().Selected(service), "b")
	}
	want(t, "split", w.split(host), "1.1.0=100")
	want(t, "revision", w.groupTraffic("1-x").Revision, 2)
}

// restartForgetsNothing checks that a manager that has just started restores its state from
// objects.
func restartForgetsNothing(t *testing.T) {
	w := matched(t)
	w.written = map[string]time.Time{}
	before, status := w.writes, mustJSON(w.policy.Status)
	w.pass()
	want(t, "writes after a restart", w.writes, before)
	want(t, "status after a restart", mustJSON(w.policy.Status), status)
	want(t, "rules after a restart", len(onlyRoute(t, w).Spec.Rules), 2)

	w.rollout(stepOf(3, "b 1.1.0 error 0", "a 1.0.0 active 100"))
	w.written = map[string]time.Time{} // The manager does not know when the rules were written.
	w.settle()
	want(t, "rules after a restart and an abort", len(onlyRoute(t, w).Spec.Rules), 1)
}

// emptiedObjects checks that a manager does not fail if a user removes any field of an object, and
// that it restores all of these fields.
func emptiedObjects(t *testing.T) {
	w := matched(t)
	good := mustJSON(onlyRoute(t, w).Spec)
	for name, empty := range map[string]func(*gatewayv1.HTTPRoute, *corev1.Service){
		"annotations": func(r *gatewayv1.HTTPRoute, s *corev1.Service) { r.Annotations, s.Annotations = nil, nil },
		"labels":      func(r *gatewayv1.HTTPRoute, s *corev1.Service) { r.Labels, s.Labels = nil, nil },
		"rules":       func(r *gatewayv1.HTTPRoute, s *corev1.Service) { r.Spec.Rules, s.Spec.Ports = nil, nil },
		"matches":     func(r *gatewayv1.HTTPRoute, s *corev1.Service) { r.Spec.Rules[0].Matches, s.Spec.Selector = nil, nil },
		"an empty rule": func(r *gatewayv1.HTTPRoute, s *corev1.Service) {
			r.Spec.Rules = []gatewayv1.HTTPRouteRule{{}}
			s.Spec = corev1.ServiceSpec{}
		},
		"backends": func(r *gatewayv1.HTTPRoute, s *corev1.Service) {
			r.Spec.Rules = []gatewayv1.HTTPRouteRule{{Filters: []gatewayv1.HTTPRouteFilter{{}}, BackendRefs: []gatewayv1.HTTPBackendRef{{}}}}
		},
		"hosts and parents": func(r *gatewayv1.HTTPRoute, s *corev1.Service) { r.Spec.Hostnames, r.Spec.ParentRefs = nil, nil },
		"everything": func(r *gatewayv1.HTTPRoute, s *corev1.Service) {
			r.Spec, s.Spec, r.Status = gatewayv1.HTTPRouteSpec{}, corev1.ServiceSpec{}, gatewayv1.HTTPRouteStatus{}
		},
	} {
		t.Run(name, func(t *testing.T) {
			old := onlyRoute(t, w).DeepCopy()
			service := w.services[w.facts().ReleaseService("b")].DeepCopy()
			empty(old, service)
			old.Generation++
			w.routes, w.services[service.Name] = map[string]*gatewayv1.HTTPRoute{old.Name: old}, service
			f := w.facts()
			w.carryOut(f, Plan(f)) // The checks of the world would fail at this point.
			w.accept()
			w.settle()
			if diff := cmp.Diff(good, mustJSON(onlyRoute(t, w).Spec)); diff != "" {
				t.Errorf("the object is not restored: %s", diff)
			}
			want(t, "selector", w.services[service.Name].Spec.Selector[v1alpha1.LabelRelease], "b")
		})
	}
	t.Run("an empty policy and an empty rollout state", func(t *testing.T) {
		for _, f := range []*Observed{
			{Policy: &v1alpha1.NetworkPolicy{}},
			{Policy: &v1alpha1.NetworkPolicy{}, Microservice: &v1alpha1.Microservice{}},
			{Policy: &v1alpha1.NetworkPolicy{Spec: v1alpha1.NetworkPolicySpec{Provider: &v1alpha1.NetworkProvider{}, Domains: []v1alpha1.Domain{{}}}}, Microservice: &v1alpha1.Microservice{}},
			{Policy: &v1alpha1.NetworkPolicy{}, Microservice: &v1alpha1.Microservice{Status: v1alpha1.MicroserviceStatus{ReleaseGroups: []v1alpha1.ReleaseGroup{{Releases: []v1alpha1.Release{{}}}}}}},
		} {
			f.SetViews(newWorld(t).input(f.Policy))
			out := Plan(f)
			Status(f, out, Applied{})
			want(t, "routes", len(out.Routes), 0)
		}
	})
}

// nameWithoutANamespace checks that references without a namespace, or with an empty namespace,
// refer to the namespace of the referring object.
func nameWithoutANamespace(t *testing.T) {
	empty, other := gatewayv1.Namespace(""), gatewayv1.Namespace("infra")
	for name, tc := range map[string]struct {
		ref  gatewayv1.ParentReference
		want string
	}{
		"none":  {gatewayv1.ParentReference{Name: "public"}, "prod/public"},
		"empty": {gatewayv1.ParentReference{Name: "public", Namespace: &empty}, "prod/public"},
		"other": {gatewayv1.ParentReference{Name: "public", Namespace: &other}, "infra/public"},
	} {
		t.Run(name, func(t *testing.T) {
			want(t, "Gateway", refNamespace(tc.ref, "prod")+"/"+string(tc.ref.Name), tc.want)
			policy := v1alpha1.ParentReference{Name: "public", Namespace: string(deref(tc.ref.Namespace))}
			w := newWorld(t)
			w.policy.Spec.Provider.Gateway.ParentRefs = []v1alpha1.ParentReference{policy}
			of := gatewayapi.Provider{}.Refers(w.policy)[0]
			want(t, "Gateway of the policy", of.Namespace+"/"+of.Name, tc.want)
			route := &gatewayv1.HTTPRoute{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Generation: 1}}
			route.Status.Parents = []gatewayv1.RouteParentStatus{answer(tc.ref, 1, "True", "Accepted")}
			want(t, "the parent's status is found", gatewayapi.Acceptance(route, policy).Accepted, true)
		})
	}
	w := newWorld(t, stepOf(1, "a 1.0.0 active 100"))
	w.policy.Spec.Provider.Gateway.ParentRefs = []v1alpha1.ParentReference{{Name: "public"}}
	w.ready["a"] = 1
	w.settle()
	want(t, "only the Gateway of another namespace exists", w.condition("Ready"), "False ParentNotFound")
	w.gateways["prod/public"] = gateway(80, "HTTP", "")
	w.settle()
	want(t, "with a Gateway in its own namespace", w.condition("Ready"), "True Programmed")
	for _, n := range []string{resources.ReleaseServiceName("shop", "shop", "my.shop-1.0.0-abc"), resources.RouteName("shop", "group/1.x", "/a.b", "http", 0)} {
		for _, c := range n {
			if c == '.' {
				t.Errorf("%q is not a DNS label", n)
			}
		}
	}
}

func abortWithServicesOnly(t *testing.T) {
	w := newWorld(t, stepOf(2, "b 1.1.0 canary 50", "a 1.0.0 active 50"))
	w.policy.Spec.Provider, w.policy.Spec.Domains = nil, nil
	w.ready["a"], w.ready["b"] = 1, 1
	w.settle()
	w.rollout(stepOf(3, "b 1.1.0 error 0", "a 1.0.0 active 100"))
	w.settle()
	want(t, "Service", w.facts().Selected("shop-1-x"), "a")
	want(t, "revision", w.groupTraffic("1-x").Revision, 3)
	want(t, "references", cmp.Diff([]string{"a"}, w.groupTraffic("1-x").References), "")

	bare := newWorld(t, stepOf(2, "b 1.1.0 canary 50", "a 1.0.0 active 50")) // No Service exists in this world.
	bare.policy.Spec.Provider, bare.policy.Spec.Domains = nil, nil
	bare.rollout(stepOf(3, "b 1.1.0 error 0", "a 1.0.0 active 100"))
	bare.settle()
	want(t, "references", cmp.Diff([]string{"a"}, bare.groupTraffic("1-x").References), "")
}
