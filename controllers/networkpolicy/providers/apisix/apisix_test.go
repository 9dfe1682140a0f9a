package apisix

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
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

func policy(class string) *v1alpha1.NetworkPolicy {
	return &v1alpha1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "shop", Namespace: "prod"},
		Spec: v1alpha1.NetworkPolicySpec{
			Ports:    []v1alpha1.NetworkPort{{Name: "http", Port: 80}},
			Provider: &v1alpha1.NetworkProvider{APISIX: &v1alpha1.APISIXProvider{ClassName: class}},
		},
	}
}

func see(p *v1alpha1.NetworkPolicy, objects ...resources.Object) providers.View {
	return Provider{}.NewView(providers.Input{Policy: p, Microservice: "shop", Served: map[string]providers.Served{"ApisixRoute": {Version: "v2"}}, Objects: objects})
}

// route returns a route with all fields that a decision can set.
func route() providers.Route {
	return providers.Route{
		Name: "shop-1-x-0", Hostnames: []string{"*.example.com", "shop.example.com"}, Path: "/api", Port: 80, Active: "shop-a", Canary: "shop-b",
		Backends: []providers.Backend{{Service: "shop-a", Weight: 70}, {Service: "shop-b", Weight: 20}, {Service: "shop-c", Weight: 10}},
		Stamp:    resources.Stamp{Group: "1-x", Revision: 7, RolloutState: "uid", Sequence: 12},
		Matches: []v1alpha1.CanaryMatch{
			{
				Headers: []v1alpha1.MatchValue{{Name: "X-User", Value: "b.*", Type: v1alpha1.MatchRegularExpression}, {Name: "X-Team", Value: "shop"}},
				Cookie:  &v1alpha1.MatchCookie{Name: "canary", Value: "yes"}, QueryParams: []v1alpha1.MatchValue{{Name: "v", Value: "2"}}, Method: "POST",
			},
			{Path: &v1alpha1.MatchPath{Value: "/v2", Type: v1alpha1.PathExact}},
			{Path: &v1alpha1.MatchPath{Value: "/v3/"}},
		},
	}
}

func TestApisixRouteGolden(t *testing.T) {
	text, err := yaml.Marshal(see(policy("apisix")).Build(route())[0])
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.TrimPrefix(`
apiVersion: apisix.apache.org/v2
kind: ApisixRoute
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
  http:
  - backends:
    - serviceName: shop-b
      servicePort: 80
      weight: 100
    match:
      exprs:
      - op: Equal
        subject:
          name: X-Team
          scope: Header
        value: shop
      - op: RegexMatch
        subject:
          name: X-User
          scope: Header
        value: b.*
      - op: Equal
        subject:
          name: canary
          scope: Cookie
        value: "yes"
      - op: Equal
        subject:
          name: v
          scope: Query
        value: "2"
      hosts:
      - '*.example.com'
      - shop.example.com
      methods:
      - POST
      paths:
      - /api
      - /api/*
    name: canary-0
    priority: 1
    websocket: true
  - backends:
    - serviceName: shop-b
      servicePort: 80
      weight: 100
    match:
      hosts:
      - '*.example.com'
      - shop.example.com
      paths:
      - /v2
    name: canary-1
    priority: 1
    websocket: true
  - backends:
    - serviceName: shop-b
      servicePort: 80
      weight: 100
    match:
      hosts:
      - '*.example.com'
      - shop.example.com
      paths:
      - /v3/
      - /v3
      - /v3/*
    name: canary-2
    priority: 1
    websocket: true
  - backends:
    - serviceName: shop-a
      servicePort: 80
      weight: 70
    - serviceName: shop-b
      servicePort: 80
      weight: 20
    - serviceName: shop-c
      servicePort: 80
      weight: 10
    match:
      hosts:
      - '*.example.com'
      - shop.example.com
      paths:
      - /api
      - /api/*
    name: weights
    websocket: true
  ingressClassName: apisix
status: {}
`, "\n"), string(text)); diff != "" {
		t.Error(diff)
	}
}

// TestBuiltObjectsAreRead checks that, for any path, the view reads the object that Build returns
// and obtains the desired route.
func TestBuiltObjectsAreRead(t *testing.T) {
	for _, path := range []string{"/", "/api", "/api/", "/a/b"} {
		r := route()
		r.Path = path
		live := see(policy(""), see(policy("")).Build(r)...).Live()[r.Name]
		want := &providers.Live{
			Name: r.Name, Objects: live.Objects, Hostnames: r.Hostnames, Path: path,
			Weights: map[string]int{"shop-a": 70, "shop-b": 20, "shop-c": 10}, Services: []string{"shop-a", "shop-b", "shop-c"},
		}
		if diff := cmp.Diff(want, live); diff != "" {
			t.Errorf("%s: %s", path, diff)
		}
	}
}

func TestVerdict(t *testing.T) {
	condition := func(kind string, status metav1.ConditionStatus, generation int64) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, ObservedGeneration: generation, Reason: "Why", Message: "so."}
	}
	for name, tc := range map[string]struct {
		conditions []metav1.Condition
		edit       func(*ApisixRoute)
		want       providers.Verdict
		message    string
	}{
		"no report":                          {want: providers.Verdict{Pending: true, Reason: "Pending", Late: "NotAccepted"}, message: `className "apisix"`},
		"accepted by an earlier version":     {conditions: []metav1.Condition{condition("ResourcesAvailable", "True", 3)}, want: providers.Verdict{Accepted: true}},
		"accepted":                           {conditions: []metav1.Condition{condition("Accepted", "True", 3)}, want: providers.Verdict{Accepted: true}},
		"accepted for an earlier generation": {conditions: []metav1.Condition{condition("ResourcesAvailable", "True", 2)}, want: providers.Verdict{Pending: true, Reason: "Pending", Late: "NotAccepted"}, message: "is version 2 or later"},
		"rejected for an earlier generation": {conditions: []metav1.Condition{condition("ResourcesAvailable", "False", 2)}, want: providers.Verdict{Pending: true, Reason: "Pending", Late: "NotAccepted"}, message: "earlier generation"},
		"unknown":                            {conditions: []metav1.Condition{condition("Accepted", "Unknown", 3)}, want: providers.Verdict{Pending: true, Reason: "Pending", Late: "NotAccepted"}, message: "no controller has reported the status"},
		"rejected":                           {conditions: []metav1.Condition{condition("ResourcesAvailable", "False", 3)}, want: providers.Verdict{Reason: "NotAccepted"}, message: "Why: so: see its status"},
		"condition of an earlier version remains": {
			conditions: []metav1.Condition{condition("ResourcesAvailable", "False", 2), condition("Accepted", "True", 3)}, want: providers.Verdict{Accepted: true},
		},
		"changed": {
			conditions: []metav1.Condition{condition("Accepted", "True", 3)}, edit: func(r *ApisixRoute) { r.Spec.HTTP[3].Backends[0].Weight = 1 },
			want: providers.Verdict{Pending: true, Reason: "Pending"}, message: "is being written",
		},
		"being deleted": {
			conditions: []metav1.Condition{condition("Accepted", "True", 3)}, edit: func(r *ApisixRoute) { r.DeletionTimestamp = new(metav1.Now()) },
			want: providers.Verdict{Pending: true, Reason: "Pending"}, message: "is being written",
		},
	} {
		t.Run(name, func(t *testing.T) {
			built := see(policy("apisix")).Build(route())
			live := built[0].DeepCopyObject().(*ApisixRoute)
			live.Generation, live.Status.Conditions = 3, tc.conditions
			if tc.edit != nil {
				tc.edit(live)
			}
			got := see(policy("apisix"), live).Verdict(route(), built)
			if !strings.Contains(got.Message, tc.message) {
				t.Errorf("message %q lacks %q", got.Message, tc.message)
			}
			got.Message = ""
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestDeepCopy checks that a copy shares no memory with the original.
func TestDeepCopy(t *testing.T) {
	list := &ApisixRouteList{}
	list.Items = append(list.Items, *see(policy("apisix")).Build(route())[0].(*ApisixRoute))
	list.Items[0].Status.Conditions = []metav1.Condition{{Type: "Accepted"}}
	next := list.DeepCopyObject().(*ApisixRouteList)
	if diff := cmp.Diff(list, next); diff != "" {
		t.Fatal(diff)
	}
	r := &next.Items[0]
	r.Labels["a"], r.Status.Conditions[0].Type = "b", "Other"
	for i := range r.Spec.HTTP {
		rule := &r.Spec.HTTP[i]
		rule.Name, rule.Backends[0].Weight, rule.Match.Hosts[0], rule.Match.Paths[0] = "x", 9, "x", "x"
	}
	r.Spec.HTTP[0].Match.Methods[0], r.Spec.HTTP[0].Match.Exprs[0].Value = "x", "x"
	first := see(policy("apisix")).Build(route())[0].(*ApisixRoute)
	first.Status.Conditions = []metav1.Condition{{Type: "Accepted"}}
	if diff := cmp.Diff(first, &list.Items[0]); diff != "" {
		t.Error(diff)
	}
	if (*ApisixRoute)(nil).DeepCopyObject() != nil || (*ApisixRouteList)(nil).DeepCopyObject() != nil {
		t.Error("the copy of nil is not nil")
	}
}

func TestProblems(t *testing.T) {
	with := func(m v1alpha1.CanaryMatch) func(*providers.Route) {
		return func(r *providers.Route) { r.Matches = []v1alpha1.CanaryMatch{m} }
	}
	for name, tc := range map[string]struct {
		edit func(*providers.Route)
		want string
	}{
		"none":             {func(*providers.Route) {}, ""},
		"path":             {func(r *providers.Route) { r.Path = "/a*" }, "path: "},
		"path of a match":  {with(v1alpha1.CanaryMatch{Path: &v1alpha1.MatchPath{Value: `/a"`}}), "canaryMatches[0].path.value"},
		"gRPC match":       {with(v1alpha1.CanaryMatch{GRPC: &v1alpha1.MatchGRPC{Service: "a"}}), "canaryMatches[0].grpc"},
		"ambiguous header": {with(v1alpha1.CanaryMatch{Headers: []v1alpha1.MatchValue{{Name: "X_A", Value: "a"}}}), "canaryMatches[0].headers[0].name"},
	} {
		t.Run(name, func(t *testing.T) {
			r := route()
			tc.edit(&r)
			report(t, see(policy("")).Unsupported(r), providers.ReasonNotSupported, tc.want)
		})
	}
	for protocol, text := range map[v1alpha1.PortProtocol]string{"": "", "HTTP": "", "HTTPS": "HTTPS", "GRPC": "GRPC", "TLS": "TLS"} {
		report(t, see(policy("")).Missing(protocol), providers.ReasonNotSupported, text)
	}
	none := Provider{}.NewView(providers.Input{Policy: policy("")})
	report(t, none.Missing("HTTP"), providers.ReasonProviderAPIMissing, "ApisixRoute of apisix.apache.org/v2")
	report(t, providers.Referent(none), providers.ReasonProviderAPIMissing, "ApisixRoute of apisix.apache.org/v2")
	mirrored := route()
	mirrored.Mirror = "shop-b"
	report(t, providers.Unapplied(see(policy("")), []providers.Route{route()}), "", "")
	report(t, providers.Unapplied(see(policy("")), []providers.Route{mirrored}), providers.ReasonNotSupported, "mirrorPercent")
	p := policy("")
	p.Spec.Timeouts = &v1alpha1.RouteTimeouts{Request: "1s"}
	report(t, providers.Unapplied(see(p), []providers.Route{route()}), providers.ReasonNotSupported, "spec.timeouts")
	p.Spec.SessionAffinity = &v1alpha1.SessionAffinity{Cookie: &v1alpha1.AffinityCookie{}}
	report(t, providers.Unapplied(see(p), []providers.Route{route()}), providers.ReasonNotSupported, "spec.sessionAffinity.cookie")
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

func TestShares(t *testing.T) {
	for name, tc := range map[string]struct {
		class, other string
		want         bool
	}{
		"one class": {"a", "a", true}, "two classes": {"a", "b", false}, "any and one": {"", "b", true}, "one and any": {"a", "", true},
	} {
		if got := see(policy(tc.class)).(providers.ConflictChecker).MayConflict(policy(tc.other)); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	other := policy("a")
	other.Spec.Provider = nil
	if see(policy("")).(providers.ConflictChecker).MayConflict(other) {
		t.Error("a policy without a provider conflicts")
	}
}

// TestCRDAcceptsTheRoute creates a complete route, and checks that the API server stores it
// without changes.
func TestCRDAcceptsTheRoute(t *testing.T) {
	env, err := apiserver.Start(apiserver.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := env.Stop(); err != nil {
			t.Error(err)
		}
	})
	dir, err := apiserver.APISIX()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := envtest.InstallCRDs(env.Config, envtest.CRDInstallOptions{Paths: []string{filepath.Join(dir, "ApisixRoute.yaml"), filepath.Join(dir, "ApisixTls.yaml")}, ErrorIfPathMissing: true, MaxTime: await.Limit}); err != nil {
		t.Fatal(err)
	}
	if err := AddToScheme(env.Client.Scheme()); err != nil {
		t.Fatal(err)
	}
	p := policy("apisix")
	p.Namespace = env.Namespace(t)
	r := route()
	for range providers.MaxHostnames - 2 {
		r.Hostnames = append(r.Hostnames, strings.Repeat("a", len(r.Hostnames))+".example.com")
	}
	for _, method := range []string{"GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"} {
		r.Matches = append(r.Matches, v1alpha1.CanaryMatch{Method: method})
	}
	want := see(p).Build(r)[0]
	live := want.DeepCopyObject().(*ApisixRoute)
	await.Nil(t, func(ctx context.Context) error { // The kind might not be served immediately.
		return env.Client.Create(ctx, live, client.FieldValidation("Strict"))
	})
	if !Same(live, want) {
		t.Errorf("the API server stores a different route: %s", cmp.Diff(want, live))
	}
	if !slices.Equal(see(p, live).Live()[r.Name].Hostnames, r.Hostnames) {
		t.Error("hosts are lost")
	}

	r.Hostnames = append(r.Hostnames, "*.example.com")
	r.TLS = map[string]providers.TLS{"*.example.com": {Secret: "a"}, r.Hostnames[0]: {Secret: "a"}}
	shared := providers.SharedOf(see(p), []providers.Route{r})
	if len(shared) != 1 {
		t.Fatalf("got %d ApisixTlses, want 1", len(shared))
	}
	tls := shared[0].Object.DeepCopyObject().(*ApisixTls)
	await.Nil(t, func(ctx context.Context) error {
		return env.Client.Create(ctx, tls, client.FieldValidation("Strict"))
	})
	if diff := cmp.Diff(shared[0].Object.(*ApisixTls).Spec, tls.Spec); diff != "" {
		t.Errorf("the API server stores a different ApisixTls: %s", diff)
	}
}
