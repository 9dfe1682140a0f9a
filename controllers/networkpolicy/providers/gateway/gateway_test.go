package gateway

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	gatewayv1alpha2 "sigs.k8s.io/gateway-api/apis/v1alpha2"
	"sigs.k8s.io/yaml"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
	"github.com/heighliner/heighliner/controllers/networkpolicy/resources"
)

func policy() *v1alpha1.NetworkPolicy {
	return &v1alpha1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "shop", Namespace: "prod", Labels: map[string]string{"team": "a"}},
		Spec: v1alpha1.NetworkPolicySpec{
			Ports:    []v1alpha1.NetworkPort{{Name: "http", Port: 80}},
			Provider: &v1alpha1.NetworkProvider{Gateway: &v1alpha1.GatewayProvider{ParentRefs: []v1alpha1.ParentReference{{Namespace: "infra", Name: "public", SectionName: "web"}}}},
		},
	}
}

// see returns the view of a policy on an API server that serves every kind in the preferred
// version.
func see(p *v1alpha1.NetworkPolicy, objects ...resources.Object) providers.View {
	s := providers.Input{Policy: p, Microservice: "shop", Served: map[string]providers.Served{}, Objects: objects}
	for _, kind := range append(Provider{}.Writes(), gatewayKind) {
		s.Served[kind.Kind] = providers.Served{Version: kind.Versions[0]}
	}
	return Provider{}.NewView(s)
}

func TestRouteGolden(t *testing.T) {
	got := see(policy()).Build(providers.Route{
		Name: "shop-1-x-0", Hostnames: []string{"shop.example.com"}, Path: "/", Port: 80,
		Backends: []providers.Backend{{Service: "shop-a", Weight: 90}, {Service: "shop-b", Weight: 10}}, Stamp: resources.Stamp{Group: "1-x", Revision: 7, RolloutState: "uid", Sequence: 12},
	})[0]
	golden(t, got, `
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata:
  annotations:
    hlnr.io/ledger: uid/12
    hlnr.io/traffic-revision: 1-x=7
  labels:
    hlnr.io/group: 1-x
    hlnr.io/microservice: shop
    hlnr.io/policy: shop
  name: shop-1-x-0
  namespace: prod
spec:
  hostnames:
  - shop.example.com
  parentRefs:
  - group: gateway.networking.k8s.io
    kind: Gateway
    name: public
    namespace: infra
    sectionName: web
  rules:
  - backendRefs:
    - group: ""
      kind: Service
      name: shop-a
      port: 80
      weight: 90
    - group: ""
      kind: Service
      name: shop-b
      port: 80
      weight: 10
    matches:
    - path:
        type: PathPrefix
        value: /
status:
  parents: null
`)
}

// rewritingPolicy returns a policy that replaces the path of its domains.
func rewritingPolicy(prefix string) *v1alpha1.NetworkPolicy {
	p := policy()
	p.Spec.Provider.Gateway.Filters = []v1alpha1.RouteFilter{{URLRewrite: &v1alpha1.URLRewrite{ReplacePrefixMatch: prefix}}}
	return p
}

// routeWithCanaryPath returns a route whose canary gets the requests below a path.
func routeWithCanaryPath(path, match string) providers.Route {
	return providers.Route{
		Name: "shop-1-x-0", Hostnames: []string{"shop.example.com"}, Path: path, Port: 80, Backends: []providers.Backend{{Service: "shop-a", Weight: 100}},
		Canary: "shop-b", Matches: []v1alpha1.CanaryMatch{{Path: &v1alpha1.MatchPath{Value: match}}},
	}
}

func TestReplacedPrefixOfACanaryPathGolden(t *testing.T) {
	route := see(rewritingPolicy("/")).Build(routeWithCanaryPath("/shop", "/shop/new"))[0].(*gatewayv1.HTTPRoute)
	golden(t, route.Spec.Rules, `
- backendRefs:
  - group: ""
    kind: Service
    name: shop-b
    port: 80
    weight: 100
  filters:
  - type: URLRewrite
    urlRewrite:
      path:
        replacePrefixMatch: /new
        type: ReplacePrefixMatch
  matches:
  - path:
      type: PathPrefix
      value: /shop/new
- backendRefs:
  - group: ""
    kind: Service
    name: shop-a
    port: 80
    weight: 100
  filters:
  - type: URLRewrite
    urlRewrite:
      path:
        replacePrefixMatch: /
        type: ReplacePrefixMatch
  matches:
  - path:
      type: PathPrefix
      value: /shop
`)
}

// TestAllReleasesGetTheSamePath checks that a canary that is selected by path gets the same path for a request as the
// active release, even after the policy has changed its provider and only the weights of the route change.
func TestAllReleasesGetTheSamePath(t *testing.T) {
	for _, path := range []string{"/", "/shop"} {
		for _, prefix := range []string{"/", "/v1", "/v1/"} {
			for _, match := range []string{"/shop", "/shop/", "/shop/new", "/shop/new/"} {
				r := routeWithCanaryPath(path, match)
				written := see(rewritingPolicy(prefix)).Build(r)[0].(*gatewayv1.HTTPRoute)
				r.Backends = []providers.Backend{{Service: "shop-a", Weight: 90}, {Service: "shop-b", Weight: 10}}
				left := see(leftPolicy("prod"), written)
				kept := providers.Carry(left, left.Live()[r.Name], r)[0].(*gatewayv1.HTTPRoute)
				for state, route := range map[string]*gatewayv1.HTTPRoute{"written": written, "kept": kept} {
					for _, end := range []string{"", "/", "/x"} {
						request := strings.TrimSuffix(match, "/") + end
						if got, want := rewritten(route.Spec.Rules[0], request), rewritten(route.Spec.Rules[1], request); got != want {
							t.Errorf("%s: domain path %s, replacement %s, match %s: for %s, the canary gets %s, and the active release gets %s", state, path, prefix, match, request, got, want)
						}
					}
				}
			}
		}
	}
	long := "/" + strings.Repeat("a", 511) // The maximum length in a policy.
	route := see(rewritingPolicy(long)).Build(routeWithCanaryPath("/", long))[0].(*gatewayv1.HTTPRoute)
	if n := len(*route.Spec.Rules[0].Filters[0].URLRewrite.Path.ReplacePrefixMatch); n != 1024 {
		t.Errorf("the longest replacement has %d characters, want 1024, which is the maximum of the Gateway API", n)
	}
}

// rewritten returns the path that the pods get for a request that a rule matches, as the Gateway API specifies it.
func rewritten(rule gatewayv1.HTTPRouteRule, request string) string {
	replacement := *rule.Filters[0].URLRewrite.Path.ReplacePrefixMatch
	path := strings.TrimSuffix(replacement, "/") + strings.TrimPrefix(request, strings.TrimSuffix(*rule.Matches[0].Path.Value, "/"))
	if path == "" {
		return "/"
	}
	return path
}

func golden(t *testing.T, got any, want string) {
	t.Helper()
	text, err := yaml.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.TrimPrefix(want, "\n"), string(text)); diff != "" {
		t.Error(diff)
	}
}

// seen returns the view of a policy with all settings, on an API server with the experimental
// channel.
func seen() providers.View {
	s := providers.Input{Policy: fullPolicy("prod"), Microservice: "shop", Served: map[string]providers.Served{}}
	for _, kind := range routeKinds {
		s.Served[kind.Kind] = providers.Served{Version: "v1", Experimental: true}
	}
	return Provider{}.NewView(s)
}

func TestEachRuleHasTheSettingsOfAllRequests(t *testing.T) {
	route := seen().Build(fullRoute(v1alpha1.ProtocolHTTP))[0].(*gatewayv1.HTTPRoute)
	if n := len(route.Spec.Rules); n != 3 {
		t.Fatalf("%d rules, want 3: one for each match, because a prefix is replaced, and one for the weights", n)
	}
	for i, rule := range route.Spec.Rules {
		filters := 4
		if i == 2 {
			filters = 5 // The last rule also has the mirror.
		}
		if len(rule.Filters) != filters || rule.Timeouts == nil || rule.SessionPersistence == nil || len(rule.Matches) != 1 {
			t.Errorf("rule %d has %d filters, timeouts %v, session %v, %d matches", i, len(rule.Filters), rule.Timeouts, rule.SessionPersistence, len(rule.Matches))
		}
	}
	calls := seen().Build(fullRoute(v1alpha1.ProtocolGRPC))[0].(*gatewayv1.GRPCRoute)
	for i, rule := range calls.Spec.Rules {
		filters := 3 // GRPCRoutes have no URL rewrite.
		if i == 1 {
			filters = 4
		}
		if len(rule.Filters) != filters || rule.SessionPersistence == nil {
			t.Errorf("rule %d of the GRPCRoute has %d filters, session %v", i, len(rule.Filters), rule.SessionPersistence)
		}
	}
	if got := *calls.Spec.Rules[0].Matches[0].Method.Service; got != "shop.v1.Cart" {
		t.Errorf("the canary rule matches service %q", got)
	}
}

// TestSame checks that Same detects changes by users, and ignores defaults that a server adds.
func TestSame(t *testing.T) {
	for name, tc := range map[string]struct {
		edit func(*gatewayv1.HTTPRoute)
		same bool
	}{
		"nothing":                     {func(*gatewayv1.HTTPRoute) {}, true},
		"timeouts":                    {func(r *gatewayv1.HTTPRoute) { r.Spec.Rules[2].Timeouts.Request = new(gatewayv1.Duration("1h")) }, false},
		"no timeouts":                 {func(r *gatewayv1.HTTPRoute) { r.Spec.Rules[2].Timeouts = nil }, false},
		"session":                     {func(r *gatewayv1.HTTPRoute) { r.Spec.Rules[0].SessionPersistence.SessionName = new("other") }, false},
		"a header":                    {func(r *gatewayv1.HTTPRoute) { r.Spec.Rules[1].Filters[0].RequestHeaderModifier.Set[0].Value = "b" }, false},
		"a filter":                    {func(r *gatewayv1.HTTPRoute) { r.Spec.Rules[2].Filters = r.Spec.Rules[2].Filters[1:] }, false},
		"the mirror's Service":        {func(r *gatewayv1.HTTPRoute) { r.Spec.Rules[2].Filters[4].RequestMirror.BackendRef.Name = "x" }, false},
		"a weight":                    {func(r *gatewayv1.HTTPRoute) { r.Spec.Rules[2].BackendRefs[0].Weight = new(int32(1)) }, false},
		"a host":                      {func(r *gatewayv1.HTTPRoute) { r.Spec.Hostnames = r.Spec.Hostnames[1:] }, false},
		"a parent":                    {func(r *gatewayv1.HTTPRoute) { r.Spec.ParentRefs[0].SectionName = nil }, false},
		"the stamp":                   {func(r *gatewayv1.HTTPRoute) { r.Annotations = nil }, false},
		"a rule name from the server": {func(r *gatewayv1.HTTPRoute) { r.Spec.Rules[0].Name = new(gatewayv1.SectionName("rule-0")) }, true},
		"the mirror's kind":           {func(r *gatewayv1.HTTPRoute) { r.Spec.Rules[2].Filters[4].RequestMirror.BackendRef.Kind = nil }, true},
	} {
		t.Run(name, func(t *testing.T) {
			want := seen().Build(fullRoute(v1alpha1.ProtocolHTTP))[0].(*gatewayv1.HTTPRoute)
			old := want.DeepCopy()
			tc.edit(old)
			if got := Same(old, want); got != tc.same {
				t.Errorf("Same returns %v, want %v", got, tc.same)
			}
		})
	}
	tcp, alpha := &gatewayv1.TCPRoute{}, &gatewayv1alpha2.TCPRoute{}
	if Same(tcp, alpha) {
		t.Error("routes of two versions are the same")
	}
}

// TestGatewayOfANamespaceThatIsNotWatched checks that a Gateway that the manager cannot read is not reported as missing:
// the message states the namespace and the setting to change.
func TestGatewayOfANamespaceThatIsNotWatched(t *testing.T) {
	s := providers.Input{Policy: policy(), Served: map[string]providers.Served{gatewayKind.Kind: {Version: gatewayKind.Versions[0]}}, Unwatched: map[string]bool{"infra": true}}
	got := providers.Referent(Provider{}.NewView(s))
	want := &providers.Problem{
		Reason: providers.ReasonParentNotFound,
		Message: `spec.provider.gateway.parentRefs[0]: Gateway "infra/public" cannot be read: the manager does not watch namespace "infra": ` +
			`add it to the chart value namespaces, or to the manager's --namespace flag; the manager needs the same permissions there`,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("problem (-want +got):\n%s", d)
	}
}

// TestListenersOfUserRoutes checks that a user-managed GRPCRoute is served by a listener that accepts only GRPCRoutes.
func TestListenersOfUserRoutes(t *testing.T) {
	const host = "api.example.com"
	gateway := &gatewayv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "public"}}
	gateway.Spec.Listeners = []gatewayv1.Listener{{
		Name: "grpc", Port: 80, Protocol: gatewayv1.HTTPProtocolType,
		AllowedRoutes: &gatewayv1.AllowedRoutes{Kinds: []gatewayv1.RouteGroupKind{{Kind: "GRPCRoute"}}},
	}}
	for kind, want := range map[string]string{"GRPCRoute": "", "HTTPRoute": providers.ReasonNoMatchingListener} {
		p := policy()
		p.Spec.Provider = &v1alpha1.NetworkProvider{RouteRef: &v1alpha1.RouteReference{Kind: kind, Name: "api"}}
		route := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "gateway.networking.k8s.io/v1", "kind": kind, "metadata": map[string]any{"namespace": "prod", "name": "api"},
			"spec": map[string]any{"parentRefs": []any{map[string]any{"name": "public"}}, "hostnames": []any{host}, "rules": []any{map[string]any{}}},
		}}
		s := providers.Input{Policy: p, Microservice: "shop", Served: map[string]providers.Served{}, Users: []*unstructured.Unstructured{route}}
		s.Referents = map[providers.Reference]resources.Object{reference("prod", v1alpha1.ParentReference{Name: "public"}): gateway}
		for _, k := range append(Provider{}.Writes(), gatewayKind) {
			s.Served[k.Kind] = providers.Served{Version: k.Versions[0]}
		}
		_, problem := (RouteRef{}).NewView(s).Serves(providers.Route{}, host)
		if got := deref(problem).Reason; got != want {
			t.Errorf("%s: reason %q, want %q", kind, got, want)
		}
	}
}
