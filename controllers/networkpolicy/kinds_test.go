package networkpolicy

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
	"github.com/heighliner/heighliner/test/apiserver"
)

// watched are kinds whose API server has what the mapper knows, and the watches that
// were started.
func watched(mapper meta.RESTMapper, every time.Duration) (*kinds, *[]string) {
	started := &[]string{}
	return &kinds{
		mapper: mapper, every: every, channel: func(schema.GroupVersionKind) (bool, error) { return false, nil },
		watch: func(gvk schema.GroupVersionKind, written bool) error {
			if !written {
				gvk.Kind += " (read)"
			}
			*started = append(*started, gvk.Version+" "+gvk.Kind)
			return nil
		},
	}, started
}

func gatewayGVK(version, kind string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: gatewayv1.GroupName, Version: version, Kind: kind}
}

func TestOnlyKindsThatExistAreWatched(t *testing.T) {
	mapper := meta.NewDefaultRESTMapper(nil)
	for _, gvk := range []schema.GroupVersionKind{gatewayGVK("v1", "Gateway"), gatewayGVK("v1", "HTTPRoute"), gatewayGVK("v1alpha2", "TCPRoute")} {
		mapper.Add(gvk, meta.RESTScopeNamespace)
	}
	k, started := watched(mapper, time.Nanosecond)
	for range 2 { // A second look starts nothing twice.
		if err := k.look(allKinds()); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]string{"v1 Gateway (read)", "v1 HTTPRoute", "v1alpha2 TCPRoute"}, *started); diff != "" {
		t.Error(diff)
	}
	udp := []providers.Kind{{Group: gatewayv1.GroupName, Kind: "UDPRoute", Versions: []string{"v1", "v1alpha2"}}}
	want(t, "UDPRoute is missing", k.lacks(udp), true)
	mapper.Add(gatewayGVK("v1", "UDPRoute"), meta.RESTScopeNamespace)
	time.Sleep(time.Microsecond) // Not for luck: half of every must be over.
	if err := k.look(udp); err != nil {
		t.Fatal(err)
	}
	want(t, "UDPRoute is missing once it is installed", k.lacks(udp), false)
	want(t, "the last watch", (*started)[len(*started)-1], "v1 UDPRoute")
}

func TestAKindIsNotLookedForAtEachPass(t *testing.T) {
	mapper := meta.NewDefaultRESTMapper(nil)
	k, started := watched(mapper, time.Hour)
	gateways := []providers.Kind{{Group: gatewayv1.GroupName, Kind: "Gateway", Versions: []string{"v1"}}}
	for range 2 {
		if err := k.look(gateways); err != nil {
			t.Fatal(err)
		}
		mapper.Add(gatewayGVK("v1", "Gateway"), meta.RESTScopeNamespace)
	}
	want(t, "watches", len(*started), 0)
}

func TestAWatchThatFailsIsStartedAgain(t *testing.T) {
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(gatewayGVK("v1", "Gateway"), meta.RESTScopeNamespace)
	k, started := watched(mapper, time.Hour)
	start, fails := k.watch, errors.New("no answer")
	k.watch = func(gvk schema.GroupVersionKind, written bool) error { return fails }
	gateways := []providers.Kind{{Group: gatewayv1.GroupName, Kind: "Gateway", Versions: []string{"v1"}}}
	want(t, "error", errors.Is(k.look(gateways), fails), true)
	want(t, "missing", k.lacks(gateways), true)
	k.watch = start
	want(t, "error afterwards", k.look(gateways), nil)
	want(t, "watches", len(*started), 1)
}

// channels answers reads of definitions.
type channels struct {
	client.Reader
	annotations map[string]string
	err         error
}

func (c channels) Get(_ context.Context, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	if key.Name != "httproutes.gateway.networking.k8s.io" {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "customresourcedefinitions"}, key.Name)
	}
	o.SetAnnotations(c.annotations)
	return c.err
}

func TestChannel(t *testing.T) {
	channel := func(value string) map[string]string {
		return map[string]string{"gateway.networking.k8s.io/channel": value}
	}
	for name, tc := range map[string]struct {
		reader       channels
		experimental bool
		fails        bool
	}{
		"standard":     {channels{annotations: channel("standard")}, false, false},
		"experimental": {channels{annotations: channel("experimental")}, true, false},
		"unnamed":      {channels{}, false, false},
		"no right to":  {channels{err: apierrors.NewForbidden(schema.GroupResource{}, "", nil)}, false, false},
		"no answer":    {channels{err: errors.New("no answer")}, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := (&Reconciler{Live: tc.reader}).channel(gatewayGVK("v1", "HTTPRoute"))
			want(t, "experimental", got, tc.experimental)
			want(t, "error", err != nil, tc.fails)
		})
	}
}

// TestServerWithoutTheGatewayAPI starts the manager's cache and the controller where
// no kind of any provider is installed.
func TestServerWithoutTheGatewayAPI(t *testing.T) {
	env, err := apiserver.Start(apiserver.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := env.Stop(); err != nil {
			t.Error(err)
		}
	})
	scheme := env.Client.Scheme()
	if err := AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	mgr, err := ctrl.NewManager(env.Config, ctrl.Options{
		Scheme: scheme, NewCache: NewCache, Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
		Controller: config.Controller{SkipNameValidation: new(true)}, // The tests' shared manager has the name.
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := SetupWithManager(mgr, Options{Metrics: prometheus.NewRegistry()}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	policy := newWorld(t).policy.DeepCopy()
	policy.ObjectMeta = metav1.ObjectMeta{Namespace: env.Namespace(t), Name: "shop"}
	policy.Spec.Domains[0].Domain = "shop.example.com"
	if err := env.Client.Create(t.Context(), policy); err != nil {
		t.Fatal(err)
	}
	apiserver.Eventually(t, func(ctx context.Context) error {
		var now v1alpha1.NetworkPolicy
		if err := env.Client.Get(ctx, client.ObjectKeyFromObject(policy), &now); err != nil {
			return err
		}
		if !has("Accepted", reasonGatewayAPIMissing)(&now) {
			return errors.New("status is " + mustJSON(now.Status))
		}
		return nil
	})
}
