package gateway

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"

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

// newest is the version of the Gateway API whose Go types the project uses.
const newest = "v1.6.3"

// fullPolicy returns a policy with all settings that a route can have.
func fullPolicy(namespace string) *v1alpha1.NetworkPolicy {
	p := policy()
	p.Namespace = namespace
	p.Spec.Timeouts = &v1alpha1.RouteTimeouts{Request: "10s", BackendRequest: "2s"}
	p.Spec.SessionAffinity = &v1alpha1.SessionAffinity{Cookie: &v1alpha1.AffinityCookie{Name: "sticky", Lifetime: "1h"}}
	p.Spec.Provider.Gateway.Filters = []v1alpha1.RouteFilter{
		{RequestHeaderModifier: &v1alpha1.HeaderModifier{
			Set: []v1alpha1.HeaderValue{{Name: "X-A", Value: "a"}}, Add: []v1alpha1.HeaderValue{{Name: "X-B", Value: "b"}}, Remove: []string{"X-C"},
		}},
		{ResponseHeaderModifier: &v1alpha1.HeaderModifier{Remove: []string{"Server"}}},
		{URLRewrite: &v1alpha1.URLRewrite{Hostname: "inside.example.com", ReplacePrefixMatch: "/v1"}},
		{ExtensionRef: &v1alpha1.ExtensionReference{Group: "traefik.io", Kind: "Middleware", Name: "limit"}},
	}
	return p
}

// fullRoute returns a route of a protocol with all fields that a decision can set.
func fullRoute(protocol v1alpha1.PortProtocol) providers.Route {
	r := providers.Route{
		Name: "shop-" + strings.ToLower(string(protocol)), Protocol: protocol, Port: 80, Stamp: resources.Stamp{Group: "1-x", Revision: 7, RolloutState: "uid", Sequence: 12},
		Backends: []providers.Backend{{Service: "shop-a", Weight: 90}, {Service: "shop-b", Weight: 10}},
	}
	header := []v1alpha1.MatchValue{{Name: "X-User", Value: "b.*", Type: v1alpha1.MatchRegularExpression}}
	cookie := &v1alpha1.MatchCookie{Name: "canary", Value: "yes"}
	switch protocol {
	case v1alpha1.ProtocolHTTP, v1alpha1.ProtocolHTTPS:
		r.Path, r.Canary, r.Mirror, r.MirrorPercent = "/", "shop-b", "shop-b", 25
		r.Matches = []v1alpha1.CanaryMatch{
			{Headers: header, Cookie: cookie, QueryParams: []v1alpha1.MatchValue{{Name: "v", Value: "2"}}, Method: "POST"},
			{Path: &v1alpha1.MatchPath{Value: "/v2"}},
		}
	case v1alpha1.ProtocolGRPC:
		r.Canary, r.Mirror, r.MirrorPercent = "shop-b", "shop-b", 25
		r.Matches = []v1alpha1.CanaryMatch{{Headers: header, Cookie: cookie, GRPC: &v1alpha1.MatchGRPC{Service: "shop.v1.Cart", Method: "Add"}}}
	}
	if protocol != v1alpha1.ProtocolTCP && protocol != v1alpha1.ProtocolUDP {
		for i := range providers.MaxHostnames {
			r.Hostnames = append(r.Hostnames, fmt.Sprintf("h%02d.example.com", i))
		}
	}
	return r
}

// TestDefinitionsTakeTheRoutes installs each channel of the newest Gateway API, creates a complete
// route of each protocol, and checks that the API server stores it without changes.
func TestDefinitionsTakeTheRoutes(t *testing.T) {
	for _, channel := range []string{"standard", "experimental"} {
		t.Run(channel, func(t *testing.T) {
			env, err := apiserver.Start(apiserver.Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := env.Stop(); err != nil {
					t.Error(err)
				}
			})
			dir, err := apiserver.GatewayAPI(newest, channel)
			if err != nil {
				t.Fatal(err)
			}
			namespace, served := env.Namespace(t), map[string]providers.Served{}
			var definitions []string
			for _, kind := range append(slices.Clone(routeKinds), listenerSetKind) {
				definitions = append(definitions, filepath.Join(dir, "gateway.networking.k8s.io_"+strings.ToLower(kind.Kind)+"s.yaml"))
				served[kind.Kind] = providers.Served{Version: kind.Versions[0], Experimental: channel == "experimental"}
			}
			if _, err := envtest.InstallCRDs(env.Config, envtest.CRDInstallOptions{Paths: definitions, ErrorIfPathMissing: true, MaxTime: await.Limit}); err != nil {
				t.Fatal(err)
			}
			for _, protocol := range []v1alpha1.PortProtocol{"HTTP", "HTTPS", "GRPC", "TLS", "TCP", "UDP"} {
				v := Provider{}.NewView(providers.Input{Policy: fullPolicy(namespace), Microservice: "shop", Served: served})
				want := v.Build(fullRoute(protocol))[0]
				live := want.DeepCopyObject().(resources.Object)
				await.Nil(t, func(ctx context.Context) error { // The kind might not be served immediately.
					return env.Client.Create(ctx, live, client.FieldValidation("Strict"))
				})
				if !Same(live, want) {
					t.Errorf("%s: the API server stores a different route", protocol)
				}
				if diff := cmp.Diff(specOf(t, want), specOf(t, live)); diff != "" {
					t.Errorf("%s: the API server stores a different specification: %s", protocol, diff)
				}
				// The policy no longer uses the provider. A route that already has the decided
				// weights is not written again. Otherwise, only the weights change.
				live.GetObjectKind().SetGroupVersionKind(want.GetObjectKind().GroupVersionKind()) // Objects that are read have a kind.
				left := Provider{}.NewView(providers.Input{Policy: leftPolicy(namespace), Microservice: "shop", Served: served, Objects: []resources.Object{live}})
				r := fullRoute(protocol)
				seen := left.Live()[r.Name]
				if again := providers.Carry(left, seen, r); again != nil {
					t.Errorf("%s: an unchanged route is written again: %s", protocol, cmp.Diff(specOf(t, live), specOf(t, again[0])))
				}
				r.Backends = []providers.Backend{{Service: "shop-a", Weight: 50}, {Service: "shop-b", Weight: 50}}
				kept := providers.Carry(left, seen, r)
				if len(kept) != 1 {
					t.Fatalf("%s: got %d objects to update, want 1", protocol, len(kept))
				}
				if err := env.Client.Update(t.Context(), onto(live, kept[0]), client.FieldValidation("Strict")); err != nil {
					t.Errorf("%s: %v", protocol, err)
				}
			}
			takesListenerSet(t, env, namespace, served)
		})
	}
}

// TestPreviousDefinitionTakesListenerSets installs the definition of the previous kind, and creates
// a ListenerSet.
func TestPreviousDefinitionTakesListenerSets(t *testing.T) {
	env, err := apiserver.Start(apiserver.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := env.Stop(); err != nil {
			t.Error(err)
		}
	})
	dir, err := apiserver.GatewayAPI(apiserver.GatewayAPIVersion, "experimental")
	if err != nil {
		t.Fatal(err)
	}
	definition := filepath.Join(dir, previousGroupVersion.Group+"_xlistenersets.yaml")
	if _, err := envtest.InstallCRDs(env.Config, envtest.CRDInstallOptions{Paths: []string{definition}, ErrorIfPathMissing: true, MaxTime: await.Limit}); err != nil {
		t.Fatal(err)
	}
	if err := AddToScheme(env.Client.Scheme()); err != nil {
		t.Fatal(err)
	}
	previous := listenerSetKind.Previous
	takesListenerSet(t, env, env.Namespace(t), map[string]providers.Served{
		listenerSetKind.Kind: {Group: previous.Group, Kind: previous.Kind, Version: previous.Versions[0]},
	})
}

// takesListenerSet creates the ListenerSet for a host, and checks that the API server stores it
// without changes and that the view finds it.
func takesListenerSet(t *testing.T, env *apiserver.Env, namespace string, served map[string]providers.Served) {
	t.Helper()
	host := "*." + strings.Repeat("a", 63) + ".example.com"
	r := providers.Route{Name: "shop", Hostnames: []string{host}, TLS: map[string]providers.TLS{
		host: {Mode: v1alpha1.TLSListenerSet, Secret: "shop-tls", Port: 8443},
	}}
	input := providers.Input{Policy: fullPolicy(namespace), Microservice: "shop", Served: served}
	want := providers.SharedOf(Provider{}.NewView(input), []providers.Route{r})
	if len(want) != 1 {
		t.Fatalf("got %d ListenerSets, want 1", len(want))
	}
	live := want[0].Object.DeepCopyObject().(resources.Object)
	await.Nil(t, func(ctx context.Context) error {
		return env.Client.Create(ctx, live, client.FieldValidation("Strict"))
	})
	if diff := cmp.Diff(specOf(t, want[0].Object), specOf(t, live)); diff != "" {
		t.Errorf("the API server stores a different ListenerSet: %s", diff)
	}
	input.Objects = []resources.Object{live}
	if _, problem := (Provider{}).NewView(input).Serves(r, host); problem == nil || problem.Reason != providers.ReasonListenerNotReady {
		t.Errorf("problem of a listener without a status: %+v", problem)
	}
}

// specOf returns the spec of an object as generic JSON.
func specOf(t *testing.T, o resources.Object) any {
	t.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		t.Fatal(err)
	}
	return content["spec"]
}

// leftPolicy returns a policy that no longer has a provider.
func leftPolicy(namespace string) *v1alpha1.NetworkPolicy {
	p := policy()
	p.Namespace, p.Spec.Provider, p.Spec.Domains = namespace, nil, nil
	return p
}

// onto returns next with the resource version and UID of a live object, for an update.
func onto(live, next resources.Object) resources.Object {
	next.SetResourceVersion(live.GetResourceVersion())
	next.SetUID(live.GetUID())
	return next
}
