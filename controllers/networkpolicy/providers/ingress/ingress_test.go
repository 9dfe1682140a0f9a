package ingress

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/yaml"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
	"github.com/heighliner/heighliner/controllers/networkpolicy/resources"
	"github.com/heighliner/heighliner/test/apiserver"
	"github.com/heighliner/heighliner/test/await"
)

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

const nginx = "nginx.ingress.kubernetes.io"

func policy(prefix string) *v1alpha1.NetworkPolicy {
	return &v1alpha1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "shop", Namespace: "prod"},
		Spec: v1alpha1.NetworkPolicySpec{
			Ports:    []v1alpha1.NetworkPort{{Name: "http", Port: 80}},
			Provider: &v1alpha1.NetworkProvider{Ingress: &v1alpha1.IngressProvider{ClassName: "nginx", AnnotationPrefix: prefix}},
		},
	}
}

func see(p *v1alpha1.NetworkPolicy, objects ...resources.Object) providers.View {
	return Provider{}.NewView(providers.Input{Policy: p, Microservice: "shop", Served: map[string]providers.Served{"Ingress": {Version: "v1"}}, Objects: objects})
}

// route returns a route with the given backends. By default, it has two backends with the weights
// 90 and 10.
func route(backends ...providers.Backend) providers.Route {
	if backends == nil {
		backends = []providers.Backend{{Service: "shop-a", Weight: 90}, {Service: "shop-b", Weight: 10}}
	}
	return providers.Route{
		Name: "shop-1-x-0", Hostnames: []string{"a.example.com", "b.example.com"}, Path: "/api", Port: 80, Active: "shop-a", Backends: backends,
		Stamp: resources.Stamp{Group: "1-x", Revision: 7, RolloutState: "uid", Sequence: 12},
	}
}

func TestIngressGolden(t *testing.T) {
	r := route()
	r.Canary = "shop-b"
	r.Matches = []v1alpha1.CanaryMatch{
		{Headers: []v1alpha1.MatchValue{{Name: "X-Team", Value: "shop"}}},
		{Cookie: &v1alpha1.MatchCookie{Name: "canary", Value: "always"}},
	}
	var text strings.Builder
	for _, o := range see(policy(nginx)).Build(r) {
		part, err := yaml.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		text.WriteString("---\n")
		text.Write(part)
	}
	if diff := cmp.Diff(strings.TrimPrefix(`
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  annotations:
    hlnr.io/annotation-prefix: nginx.ingress.kubernetes.io
    hlnr.io/ledger: uid/12
    hlnr.io/traffic-revision: 1-x=7
  labels:
    hlnr.io/group: 1-x
    hlnr.io/microservice: shop
    hlnr.io/policy: shop
  name: shop-1-x-0
  namespace: prod
spec:
  ingressClassName: nginx
  rules:
  - host: a.example.com
    http:
      paths:
      - backend:
          service:
            name: shop-a
            port:
              number: 80
        path: /api
        pathType: Prefix
  - host: b.example.com
    http:
      paths:
      - backend:
          service:
            name: shop-a
            port:
              number: 80
        path: /api
        pathType: Prefix
status:
  loadBalancer: {}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  annotations:
    hlnr.io/ledger: uid/12
    hlnr.io/traffic-revision: 1-x=7
    nginx.ingress.kubernetes.io/canary: "true"
    nginx.ingress.kubernetes.io/canary-by-cookie: canary
    nginx.ingress.kubernetes.io/canary-by-header: X-Team
    nginx.ingress.kubernetes.io/canary-by-header-value: shop
    nginx.ingress.kubernetes.io/canary-weight: "10"
    nginx.ingress.kubernetes.io/canary-weight-total: "100"
  labels:
    hlnr.io/group: 1-x
    hlnr.io/microservice: shop
    hlnr.io/policy: shop
  name: shop-1-x-0-canary
  namespace: prod
spec:
  ingressClassName: nginx
  rules:
  - host: a.example.com
    http:
      paths:
      - backend:
          service:
            name: shop-b
            port:
              number: 80
        path: /api
        pathType: Prefix
  - host: b.example.com
    http:
      paths:
      - backend:
          service:
            name: shop-b
            port:
              number: 80
        path: /api
        pathType: Prefix
status:
  loadBalancer: {}
`, "\n"), text.String()); diff != "" {
		t.Error(diff)
	}
}

// TestSharesOfARoute checks that the view reads the desired route back from the objects that Build
// returns, that it accepts these objects, and that it rejects splits that an Ingress cannot
// express.
func TestSharesOfARoute(t *testing.T) {
	a, b, c := "shop-a", "shop-b", "shop-c"
	chosen := []v1alpha1.CanaryMatch{{Headers: []v1alpha1.MatchValue{{Name: "X-Team", Value: "s.*", Type: v1alpha1.MatchRegularExpression}}}}
	for name, tc := range map[string]struct {
		prefix   string
		backends []providers.Backend
		canary   string
		objects  int
		weights  map[string]int
		services []string
		refused  bool
	}{
		"one":                                     {nginx, []providers.Backend{{Service: a, Weight: 100}}, "", 1, map[string]int{a: 100}, []string{a}, false},
		"one release, class without annotations":  {"", []providers.Backend{{Service: a, Weight: 100}}, "", 1, map[string]int{a: 100}, []string{a}, false},
		"two":                                     {nginx, []providers.Backend{{Service: a, Weight: 1}, {Service: b, Weight: 99}}, "", 2, map[string]int{a: 1, b: 99}, []string{a, b}, false},
		"the canary has all traffic":              {nginx, []providers.Backend{{Service: b, Weight: 100}}, "", 1, map[string]int{b: 100}, []string{b}, false},
		"the active release is last":              {nginx, []providers.Backend{{Service: b, Weight: 50}, {Service: a, Weight: 50}}, "", 2, map[string]int{a: 50, b: 50}, []string{a, b}, false},
		"a canary with only matches":              {nginx, []providers.Backend{{Service: a, Weight: 100}}, b, 2, map[string]int{a: 100}, []string{a, b}, false},
		"a canary with matches and all traffic":   {nginx, []providers.Backend{{Service: b, Weight: 100}}, b, 1, map[string]int{b: 100}, []string{b}, false},
		"three":                                   {nginx, []providers.Backend{{Service: a, Weight: 50}, {Service: b, Weight: 30}, {Service: c, Weight: 20}}, "", 2, map[string]int{a: 70, b: 30}, []string{a, b}, true},
		"matches for a third release":             {nginx, []providers.Backend{{Service: a, Weight: 50}, {Service: b, Weight: 50}}, c, 2, map[string]int{a: 50, b: 50}, []string{a, b}, true},
		"two releases, class without annotations": {"", []providers.Backend{{Service: a, Weight: 90}, {Service: b, Weight: 10}}, "", 1, map[string]int{a: 100}, []string{a}, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := route(tc.backends...)
			if tc.canary != "" {
				r.Canary, r.Matches = tc.canary, chosen
			}
			built := see(policy(tc.prefix)).Build(r)
			v := see(policy(tc.prefix), built...)
			live := v.Live()[r.Name]
			if diff := cmp.Diff(tc.weights, live.Weights); diff != "" {
				t.Error("weights:", diff)
			}
			if diff := cmp.Diff(tc.services, live.Services); diff != "" {
				t.Error("services:", diff)
			}
			if diff := cmp.Diff(r.Hostnames, live.Hostnames); diff != "" || live.Path != r.Path || len(live.Objects) != tc.objects {
				t.Errorf("path %q, %d objects, hosts: %s", live.Path, len(live.Objects), diff)
			}
			if got := v.Verdict(r, built); got.Accepted == tc.refused || tc.refused && got.Reason != providers.ReasonNotSupported {
				t.Errorf("verdict: %+v", got)
			}
		})
	}
}

// TestVerdictSeesEachObject checks that a route is not accepted if a canary Ingress remains or a
// user has changed an object, and that additions by other owners do not matter.
func TestVerdictSeesEachObject(t *testing.T) {
	one := []providers.Backend{{Service: "shop-a", Weight: 100}}
	for name, tc := range map[string]struct {
		backends []providers.Backend
		edit     func(main, canary *networkingv1.Ingress)
		accepted bool
	}{
		"as decided":          {nil, func(_, _ *networkingv1.Ingress) {}, true},
		"an annotation added": {nil, func(main, _ *networkingv1.Ingress) { main.Annotations[nginx+"/proxy-body-size"] = "8m" }, true},
		"a certificate added": {nil, func(main, _ *networkingv1.Ingress) {
			main.Spec.TLS = []networkingv1.IngressTLS{{Hosts: []string{"a.example.com"}, SecretName: "theirs"}}
		}, true},
		"a canary remains": {one, func(_, _ *networkingv1.Ingress) {}, false},
		"the weight":       {nil, func(_, c *networkingv1.Ingress) { c.Annotations[nginx+"/canary-weight"] = "11" }, false},
		"no annotation":    {nil, func(_, c *networkingv1.Ingress) { delete(c.Annotations, nginx+"/canary") }, false},
		"another controller's protocol": {nil, func(main, _ *networkingv1.Ingress) {
			main.Annotations["alb.ingress.kubernetes.io/backend-protocol"] = "HTTP"
		}, true},
		"the protocol":              {nil, func(main, _ *networkingv1.Ingress) { main.Annotations[nginx+"/backend-protocol"] = "HTTPS" }, false},
		"another canary annotation": {nil, func(_, c *networkingv1.Ingress) { c.Annotations["other.example.com/canary-by-cookie"] = "x" }, false},
		"the class":                 {nil, func(main, _ *networkingv1.Ingress) { main.Spec.IngressClassName = nil }, false},
		"the service":               {nil, func(main, _ *networkingv1.Ingress) { main.Spec.Rules[0].HTTP.Paths[0].Backend.Service.Name = "x" }, false},
		"a host":                    {nil, func(main, _ *networkingv1.Ingress) { main.Spec.Rules = main.Spec.Rules[1:] }, false},
		"the stamp":                 {nil, func(main, _ *networkingv1.Ingress) { delete(main.Annotations, v1alpha1.AnnotationRevision) }, false},
		"is being deleted":          {nil, func(_, c *networkingv1.Ingress) { c.DeletionTimestamp = new(metav1.Now()) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			live := see(policy(nginx)).Build(route())
			tc.edit(live[0].(*networkingv1.Ingress), live[1].(*networkingv1.Ingress))
			v := see(policy(nginx), live[1], live[0])
			wanted := route(tc.backends...)
			if got := v.Verdict(wanted, v.Build(wanted)); got.Accepted != tc.accepted || got.Pending == tc.accepted {
				t.Errorf("verdict: %+v", got)
			}
		})
	}
}

func TestCanaryWithoutItsRoute(t *testing.T) {
	built := see(policy(nginx)).Build(route())
	live := see(policy(nginx), built[1]).Live()["shop-1-x-0"]
	if live == nil || len(live.Weights) != 0 || len(live.Objects) != 1 || live.Group() != "1-x" {
		t.Errorf("live: %+v", live)
	}
}

func TestUnsupported(t *testing.T) {
	header := func(name, value string, as v1alpha1.MatchType) v1alpha1.CanaryMatch {
		return v1alpha1.CanaryMatch{Headers: []v1alpha1.MatchValue{{Name: name, Value: value, Type: as}}}
	}
	cookie := func(name, value string) v1alpha1.CanaryMatch {
		return v1alpha1.CanaryMatch{Cookie: &v1alpha1.MatchCookie{Name: name, Value: value}}
	}
	both := header("X-A", "a", "")
	both.Cookie = cookie("c", "always").Cookie
	for name, tc := range map[string]struct {
		prefix  string
		matches []v1alpha1.CanaryMatch
		want    string
	}{
		"none":                      {"", nil, ""},
		"header":                    {nginx, []v1alpha1.CanaryMatch{header("X-A", "a", "")}, ""},
		"pattern":                   {nginx, []v1alpha1.CanaryMatch{header("X-A", "a b.*", v1alpha1.MatchRegularExpression)}, ""},
		"header or cookie":          {nginx, []v1alpha1.CanaryMatch{header("X-A", "a", ""), cookie("c", "always")}, ""},
		"without annotations":       {"", []v1alpha1.CanaryMatch{header("X-A", "a", "")}, "spec.provider.ingress.annotationPrefix"},
		"header and cookie":         {nginx, []v1alpha1.CanaryMatch{both}, "canaryMatches[0]: "},
		"two headers":               {nginx, []v1alpha1.CanaryMatch{header("X-A", "a", ""), header("X-B", "b", "")}, "canaryMatches[1]: "},
		"two cookies":               {nginx, []v1alpha1.CanaryMatch{cookie("a", "always"), cookie("b", "always")}, "canaryMatches[1]: "},
		"cookie's value":            {nginx, []v1alpha1.CanaryMatch{cookie("c", "yes")}, "canaryMatches[0].cookie.value"},
		"cookie's name":             {nginx, []v1alpha1.CanaryMatch{cookie("c$", "always")}, "canaryMatches[0].cookie.name"},
		"header's name":             {nginx, []v1alpha1.CanaryMatch{header("X_A", "a", "")}, "canaryMatches[0].headers[0].name"},
		"header's value":            {nginx, []v1alpha1.CanaryMatch{header("X-A", "a b", "")}, "canaryMatches[0].headers[0].value"},
		"path":                      {nginx, []v1alpha1.CanaryMatch{{Path: &v1alpha1.MatchPath{Value: "/v2"}}}, "canaryMatches[0]: "},
		"method":                    {nginx, []v1alpha1.CanaryMatch{{Method: "GET"}}, "canaryMatches[0]: "},
		"query in the second match": {nginx, []v1alpha1.CanaryMatch{cookie("c", "always"), {QueryParams: []v1alpha1.MatchValue{{Name: "a", Value: "b"}}}}, "canaryMatches[1]: "},
	} {
		t.Run(name, func(t *testing.T) {
			r := route()
			r.Matches = tc.matches
			report(t, see(policy(tc.prefix)).Unsupported(r), providers.ReasonNotSupported, tc.want)
		})
	}
}

// report checks that a problem has the given reason and contains the given text. An empty reason
// means that there must be no problem.
func report(t *testing.T, p *providers.Problem, reason, text string) {
	t.Helper()
	switch {
	case text == "" && p != nil:
		t.Errorf("problem: %+v", *p)
	case text != "" && (p == nil || p.Reason != reason || !strings.Contains(p.Message, text)):
		t.Errorf("problem: %+v, want %s with %q", p, reason, text)
	}
}

func TestMissing(t *testing.T) {
	for name, tc := range map[string]struct {
		prefix   string
		protocol v1alpha1.PortProtocol
		want     string
	}{
		"HTTP":        {"", v1alpha1.ProtocolHTTP, ""},
		"HTTPS":       {nginx, v1alpha1.ProtocolHTTPS, ""},
		"plain HTTPS": {"", v1alpha1.ProtocolHTTPS, "annotationPrefix"},
		"GRPC":        {nginx, v1alpha1.ProtocolGRPC, "protocol GRPC"},
		"TLS":         {nginx, v1alpha1.ProtocolTLS, "protocol TLS"},
	} {
		t.Run(name, func(t *testing.T) {
			report(t, see(policy(tc.prefix)).Missing(tc.protocol), providers.ReasonNotSupported, tc.want)
		})
	}
	none := Provider{}.NewView(providers.Input{Policy: policy(nginx)})
	report(t, none.Missing(v1alpha1.ProtocolHTTP), providers.ReasonProviderAPIMissing, "Ingress of networking.k8s.io/v1")
	report(t, providers.Referent(none), providers.ReasonProviderAPIMissing, "Ingress of networking.k8s.io/v1")
}

func TestUnapplied(t *testing.T) {
	mirrored := route()
	mirrored.Mirror = "shop-b"
	for name, tc := range map[string]struct {
		edit  func(*v1alpha1.NetworkPolicySpec)
		route providers.Route
		want  string
	}{
		"nothing":  {func(*v1alpha1.NetworkPolicySpec) {}, route(), ""},
		"mirror":   {func(*v1alpha1.NetworkPolicySpec) {}, mirrored, "mirrorPercent"},
		"timeouts": {func(s *v1alpha1.NetworkPolicySpec) { s.Timeouts = &v1alpha1.RouteTimeouts{Request: "1s"} }, route(), "spec.timeouts"},
		"cookie": {func(s *v1alpha1.NetworkPolicySpec) {
			s.SessionAffinity = &v1alpha1.SessionAffinity{Cookie: &v1alpha1.AffinityCookie{}}
		}, route(), "spec.sessionAffinity.cookie"},
		"client IP": {func(s *v1alpha1.NetworkPolicySpec) {
			s.SessionAffinity = &v1alpha1.SessionAffinity{ClientIP: &v1alpha1.AffinityClientIP{}}
		}, route(), "spec.sessionAffinity.clientIP"},
	} {
		t.Run(name, func(t *testing.T) {
			p := policy(nginx)
			tc.edit(&p.Spec)
			report(t, providers.Unapplied(see(p), []providers.Route{tc.route}), providers.ReasonNotSupported, tc.want)
		})
	}
}

// TestMissingClass checks that a missing class is reported, unless the manager has no permission to
// read classes.
func TestMissingClass(t *testing.T) {
	p := policy(nginx)
	served := map[string]providers.Served{"Ingress": {Version: "v1"}, "IngressClass": {Version: "v1"}}
	seeing := func(referents ...providers.Reference) providers.View {
		s := providers.Input{Policy: p, Served: served, Referents: map[providers.Reference]resources.Object{}}
		for _, r := range referents {
			s.Referents[r] = &networkingv1.IngressClass{}
		}
		return Provider{}.NewView(s)
	}
	report(t, providers.Referent(seeing()), providers.ReasonParentNotFound, `IngressClass "nginx" does not exist`)
	if v := seeing().Verdict(route(), nil); v.Reason != providers.ReasonParentNotFound {
		t.Errorf("verdict: %+v", v)
	}
	report(t, providers.Referent(seeing(Provider{}.Refers(p)...)), "", "")
	delete(served, "IngressClass")
	report(t, providers.Referent(seeing()), "", "")
}

func TestShares(t *testing.T) {
	other := policy("")
	if !see(policy(nginx)).(providers.ConflictChecker).MayConflict(other) {
		t.Error("policies with the same class do not conflict")
	}
	other.Spec.Provider.Ingress.ClassName = "traefik"
	if see(policy(nginx)).(providers.ConflictChecker).MayConflict(other) {
		t.Error("policies with different classes conflict")
	}
	other.Spec.Provider = nil
	if see(policy(nginx)).(providers.ConflictChecker).MayConflict(other) {
		t.Error("a policy without a provider conflicts")
	}
}

// TestServerTakesTheIngresses creates the Ingresses of a complete route, and checks that the API
// server stores them without changes.
func TestServerTakesTheIngresses(t *testing.T) {
	env, err := apiserver.Start(apiserver.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := env.Stop(); err != nil {
			t.Error(err)
		}
	})
	p := policy(nginx)
	p.Namespace = env.Namespace(t)
	r := route()
	r.Protocol, r.Hostnames = v1alpha1.ProtocolHTTPS, []string{"*.example.com", strings.Repeat("a", 63) + ".example.com"}
	r.Canary = "shop-b"
	r.Matches = []v1alpha1.CanaryMatch{{Headers: []v1alpha1.MatchValue{{Name: "X-Team", Value: "s.*", Type: v1alpha1.MatchRegularExpression}}}}
	r.RecordTTL, r.TLS = 300, map[string]providers.TLS{r.Hostnames[0]: {Secret: "b"}, r.Hostnames[1]: {Secret: "a"}}
	want := see(p).Build(r)
	var live []resources.Object
	for _, o := range want {
		o := o.DeepCopyObject().(resources.Object)
		await.Nil(t, func(ctx context.Context) error { return env.Client.Create(ctx, o, client.FieldValidation("Strict")) })
		live = append(live, o)
	}
	if got := see(p, live...).Verdict(r, want); !got.Accepted {
		t.Errorf("verdict: %+v", got)
	}
}
