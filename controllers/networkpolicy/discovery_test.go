package networkpolicy

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers/apisix"
	"github.com/heighliner/heighliner/controllers/networkpolicy/traffic"
	"github.com/heighliner/heighliner/test/apiserver"
	"github.com/heighliner/heighliner/test/await"
)

// TestScheme checks that the Go types of all provider kinds are registered, as well as the list types of kinds that are
// written. Otherwise, the reconciles of all policies would fail, because a kind could not be listed.
func TestScheme(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	for _, kind := range traffic.AllKinds() {
		for _, version := range kind.Versions {
			gvk := schema.GroupVersionKind{Group: kind.Group, Version: version, Kind: kind.Kind}
			if _, err := newObject(scheme, gvk); err != nil {
				t.Errorf("AddToScheme of discovery.go: %v", err)
			}
			if !traffic.Written(kind.Kind) {
				continue
			}
			if _, err := newList(scheme, gvk); err != nil {
				t.Errorf("AddToScheme of discovery.go: %v", err)
			}
		}
	}
}

// watched returns a kinds value for an API server that serves the kinds in the mapper, and the list
// of watches that were started.
func watched(mapper meta.RESTMapper, every time.Duration) (*kinds, *[]string) {
	started := &[]string{}
	return &kinds{
		now:    time.Now,
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
	for range 2 { // The second discovery does not start another watch.
		k.discover(traffic.AllKinds())
	}
	if diff := cmp.Diff([]string{"v1 Gateway (read)", "v1 HTTPRoute", "v1alpha2 TCPRoute"}, *started); diff != "" {
		t.Error(diff)
	}
	udp := []providers.Kind{{Group: gatewayv1.GroupName, Kind: "UDPRoute", Versions: []string{"v1", "v1alpha2"}}}
	want(t, "UDPRoute is missing", k.lacks(udp), true)
	mapper.Add(gatewayGVK("v1", "UDPRoute"), meta.RESTScopeNamespace)
	time.Sleep(time.Microsecond) // The next check is due after half of k.every.
	k.discover(udp)
	want(t, "UDPRoute is missing after its installation", k.lacks(udp), false)
	want(t, "the last watch", (*started)[len(*started)-1], "v1 UDPRoute")
}

func TestDiscoveryIsNotRepeatedAtEachReconcile(t *testing.T) {
	mapper := meta.NewDefaultRESTMapper(nil)
	k, started := watched(mapper, time.Hour)
	gateways := []providers.Kind{{Group: gatewayv1.GroupName, Kind: "Gateway", Versions: []string{"v1"}}}
	for range 2 {
		k.discover(gateways)
		mapper.Add(gatewayGVK("v1", "Gateway"), meta.RESTScopeNamespace)
	}
	want(t, "watches", len(*started), 0)
}

// TestAWatchThatFailsIsStartedAgain checks that a kind that cannot be watched is reported and
// checked again after the interval, and that a kind whose definition was deleted counts as missing.
func TestAWatchThatFailsIsStartedAgain(t *testing.T) {
	gateways := []providers.Kind{{Group: gatewayv1.GroupName, Kind: "Gateway", Versions: []string{"v1"}}}
	certificates := []providers.Kind{{Group: "cert-manager.io", Kind: "Certificate", Versions: []string{"v1"}}}
	refused := apierrors.NewForbidden(schema.GroupResource{Resource: "gateways"}, "", errors.New("no permission"))
	for name, tc := range map[string]struct {
		kinds  []providers.Kind
		err    error
		reason string
	}{
		"kind of the Gateway API":      {gateways, refused, traffic.ReasonGatewayAPIMissing},
		"kind of another API":          {certificates, errors.New("no webhook"), providers.ReasonProviderAPIMissing},
		"kind deleted in the meantime": {gateways, apierrors.NewNotFound(schema.GroupResource{Resource: "gateways"}, ""), ""},
	} {
		t.Run(name, func(t *testing.T) {
			mapper := meta.NewDefaultRESTMapper(nil)
			mapper.Add(schema.GroupVersionKind{Group: tc.kinds[0].Group, Version: "v1", Kind: tc.kinds[0].Kind}, meta.RESTScopeNamespace)
			k, started := watched(mapper, time.Hour)
			start, tries := k.watch, 0
			k.watch = func(schema.GroupVersionKind, bool) error { tries++; return tc.err }
			for range 2 {
				k.discover(tc.kinds)
			}
			want(t, "attempts", tries, 1)
			want(t, "missing", k.lacks(tc.kinds), true)
			p := k.problem(tc.kinds)
			want(t, "reported", p != nil, tc.reason != "")
			if p != nil {
				want(t, "reason", p.Reason, tc.reason)
				want(t, "the message names the kind and the cause", strings.Contains(p.Message, tc.kinds[0].Kind) && strings.Contains(p.Message, tc.err.Error()), true)
			}
			k.watch, k.every = start, time.Nanosecond
			k.next = map[string]time.Time{} // The next check is due.
			k.discover(tc.kinds)
			want(t, "watches", len(*started), 1)
			want(t, "reported afterwards", k.problem(tc.kinds) != nil, false)
		})
	}
}

// TestDiscoveryDoesNotBlockReconciles checks that, while one reconcile is waiting for the discovery of a
// kind, other reconciles continue without the kind.
func TestDiscoveryDoesNotBlockReconciles(t *testing.T) {
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(gatewayGVK("v1", "Gateway"), meta.RESTScopeNamespace)
	k, _ := watched(mapper, time.Hour)
	begun, resume := make(chan struct{}), make(chan struct{})
	k.watch = func(schema.GroupVersionKind, bool) error { close(begun); <-resume; return nil }
	gateways := []providers.Kind{{Group: gatewayv1.GroupName, Kind: "Gateway", Versions: []string{"v1"}}}
	done := make(chan struct{})
	go func() { k.discover(gateways); close(done) }()
	<-begun
	k.discover(gateways)
	want(t, "known during the discovery", len(k.known()), 0)
	want(t, "missing during the discovery", k.lacks(gateways), true)
	close(resume)
	<-done
	want(t, "known", len(k.known()), 1)
}

// TestKindsThatAPolicyRequires checks which kinds must be readable before a decision about a policy
// is made: the kinds of its objects.
func TestKindsThatAPolicyRequires(t *testing.T) {
	names := func(change func(*v1alpha1.NetworkPolicy)) []string {
		p := newWorld(t).Policy.DeepCopy()
		change(p)
		var out []string
		for _, k := range traffic.ReadKinds(p) {
			out = append(out, k.Kind)
		}
		return out
	}
	onIngress := func(p *v1alpha1.NetworkPolicy) {
		p.Spec.Provider = &v1alpha1.NetworkProvider{Ingress: &v1alpha1.IngressProvider{ClassName: "nginx"}}
	}
	for name, tc := range map[string]struct {
		change func(*v1alpha1.NetworkPolicy)
		want   []string
	}{
		"kinds that the provider needs": {func(*v1alpha1.NetworkPolicy) {}, []string{"Gateway", "HTTPRoute"}},
		"kinds of the provider in the status": {func(p *v1alpha1.NetworkPolicy) {
			onIngress(p)
			p.Status.Provider = "apisix"
		}, []string{"Ingress", "ApisixRoute", "ApisixTls"}},
		"kinds of a previous provider": {func(p *v1alpha1.NetworkPolicy) {
			onIngress(p)
			p.Status.Provider, p.Status.ProviderSwitch = "ingress", &v1alpha1.ProviderSwitch{From: []string{"apisix"}}
		}, []string{"Ingress", "ApisixRoute", "ApisixTls"}},
		"kind of a user-managed route": {func(p *v1alpha1.NetworkPolicy) {
			onIngress(p)
			p.Status.Routes = []v1alpha1.RouteStatus{{Kind: "GRPCRoute", Name: "theirs"}}
		}, []string{"Ingress", "GRPCRoute"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, names(tc.change)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// channels is a Reader of definitions.
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
		"standard":      {channels{annotations: channel("standard")}, false, false},
		"experimental":  {channels{annotations: channel("experimental")}, true, false},
		"no annotation": {channels{}, false, false},
		"no permission": {channels{err: apierrors.NewForbidden(schema.GroupResource{}, "", nil)}, false, false},
		"no response":   {channels{err: errors.New("no response")}, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := (&Reconciler{Live: tc.reader}).channel(gatewayGVK("v1", "HTTPRoute"))
			want(t, "experimental", got, tc.experimental)
			want(t, "error", err != nil, tc.fails)
		})
	}
}

// TestServerWithoutTheGatewayAPI starts the manager's cache and the controller on an API server
// that serves none of the providers' kinds.
func TestServerWithoutTheGatewayAPI(t *testing.T) {
	t.Parallel()
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
		Controller: config.Controller{SkipNameValidation: new(true)}, // The shared manager of the tests has the same name.
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
	policy := newWorld(t).Policy.DeepCopy()
	policy.ObjectMeta = metav1.ObjectMeta{Namespace: env.Namespace(t), Name: "shop"}
	policy.Spec.Domains[0].Domain = "shop.example.com"
	if err := env.Client.Create(t.Context(), policy); err != nil {
		t.Fatal(err)
	}
	await.Nil(t, func(ctx context.Context) error {
		var now v1alpha1.NetworkPolicy
		if err := env.Client.Get(ctx, client.ObjectKeyFromObject(policy), &now); err != nil {
			return err
		}
		if !has("Accepted", traffic.ReasonGatewayAPIMissing)(&now) {
			return errors.New("status is " + mustJSON(now.Status))
		}
		return nil
	})
}

// kindGone is a Reader of an API server that no longer serves a kind whose objects the cache still
// contains.
type kindGone struct{ client.Reader }

func (kindGone) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return &meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: "apisix.apache.org", Kind: "ApisixRoute"}}
}

// TestPreviousKindIsReadFromTheServer checks that objects in the cache do not count as routes if
// the API server no longer serves their kind.
func TestPreviousKindIsReadFromTheServer(t *testing.T) {
	f := newFleet(t, 1, ownHosts)
	var policy v1alpha1.NetworkPolicy
	if err := f.Get(t.Context(), client.ObjectKey{Namespace: fleetNamespace, Name: "shop-000"}, &policy); err != nil {
		t.Fatal(err)
	}
	route := &apisix.ApisixRoute{ObjectMeta: metav1.ObjectMeta{Namespace: fleetNamespace, Name: "left"}}
	if _, err := f.reconciler.Writer.Apply(t.Context(), &policy, withPolicy(route, policy.Name)); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		live client.Reader
		want bool
	}{"its kind is served": {f, true}, "its kind is no longer served": {kindGone{f}, false}} {
		t.Run(name, func(t *testing.T) {
			f.reconciler.Live = tc.live
			facts := &traffic.Observed{Policy: &policy}
			if err := f.reconciler.readRoutes(t.Context(), facts); err != nil {
				t.Fatal(err)
			}
			want(t, "previous route", facts.Live["left"] != nil, tc.want)
		})
	}
}

func withPolicy(o client.Object, policy string) client.Object {
	o.SetLabels(map[string]string{v1alpha1.LabelPolicy: policy})
	return o
}
