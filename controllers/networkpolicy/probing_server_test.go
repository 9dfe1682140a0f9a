package networkpolicy

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/resources"
	"github.com/heighliner/heighliner/test/await"
)

// playedGateway serves the routes of a namespace on the loopback interface with a delay, like a
// gateway that throttles updates. It does not set a status. Instead, acceptRoutes accepts routes
// immediately, so that the acceptance does not show that a route is served.
type playedGateway struct {
	*httptest.Server
	mu       sync.Mutex
	asked    int
	stuck    bool
	loaded   []gatewayv1.HTTPRoute
	revision map[int64]time.Time // revision contains the times at which revisions were first served.
}

func playGateway(t *testing.T, namespace string, throttle time.Duration) *playedGateway {
	g := &playedGateway{revision: map[int64]time.Time{}}
	g.Server = httptest.NewServer(g)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = wait.PollUntilContextCancel(ctx, throttle, true, func(ctx context.Context) (bool, error) {
			var routes gatewayv1.HTTPRouteList
			if err := server.List(ctx, &routes, client.InNamespace(namespace)); err == nil {
				time.AfterFunc(throttle, func() { g.load(routes.Items) })
			}
			return false, nil
		})
	}()
	t.Cleanup(func() { cancel(); <-done; g.Close() })
	return g
}

func (g *playedGateway) load(routes []gatewayv1.HTTPRoute) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.stuck {
		return
	}
	g.loaded = routes
	for i := range routes {
		if s, ok := resources.StampOf(&routes[i]); ok && g.revision[s.Revision].IsZero() {
			g.revision[s.Revision] = time.Now()
		}
	}
}

// ServeHTTP returns the redirects of rules with an exact path. It responds to all other requests
// like a backend that does not know about probes.
func (g *playedGateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asked++
	for _, route := range g.loaded {
		if !slices.Contains(route.Spec.Hostnames, gatewayv1.Hostname(r.Host)) {
			continue
		}
		for _, rule := range route.Spec.Rules {
			if len(rule.Filters) == 1 && rule.Filters[0].RequestRedirect != nil && *rule.Matches[0].Path.Value == r.URL.Path {
				w.Header().Set("Location", "http://"+string(*rule.Filters[0].RequestRedirect.Hostname)+r.URL.Path)
				w.WriteHeader(http.StatusFound)
				return
			}
		}
	}
	w.WriteHeader(http.StatusNotFound)
}

func (g *playedGateway) stick(stuck bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stuck = stuck
}

func (g *playedGateway) requests() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.asked
}

func (g *playedGateway) since(revision int64) time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.revision[revision]
}

// TestProbeThroughAPlayedGateway checks, on a real API server and with a gateway that serves routes
// with a delay of half a second, that no revision is confirmed before it is served, that each
// revision is confirmed soon after, and that a stable state causes no probes and no writes.
func TestProbeThroughAPlayedGateway(t *testing.T) {
	p := newPlace(t)
	gateway := playGateway(t, p.namespace, 500*time.Millisecond)
	p.gateway("probed", gateway.Listener.Addr().String())
	p.microservice(group("1-x", 1, "a 1.0.0 active 100"))
	p.pod("a")
	p.pod("b")
	p.policy("shop", "shop.example.com", func(policy *v1alpha1.NetworkPolicy) {
		policy.Spec.Provider.Gateway = &v1alpha1.GatewayProvider{ParentRefs: []v1alpha1.ParentReference{{Name: "probed"}}, Confirm: v1alpha1.ConfirmProbe}
	})
	p.eventually("shop", "the first revision to be confirmed", confirmed("1-x", 1, "a"))

	for revision := int64(2); revision < 6; revision++ {
		weight := strconv.Itoa(int(revision) * 10)
		rest := strconv.Itoa(100 - int(revision)*10)
		p.rollout(group("1-x", revision, "b 1.1.0 canary "+weight, "a 1.0.0 active "+rest))
		p.eventually("shop", "revision "+weight, confirmed("1-x", revision, "a", "b"))
		at := time.Now() // ConfirmedTime is the time at which the reconcile began.
		served := gateway.since(revision)
		if served.IsZero() || at.Before(served) {
			t.Errorf("revision %d was confirmed at %s, but was not served until %s", revision, at, served)
		}
		t.Logf("revision %d was confirmed %s after it was served", revision, at.Sub(served).Round(time.Millisecond))
	}

	await.Nil(t, func(context.Context) error { // The last status write triggers one more reconcile.
		before := gateway.requests()
		p.quiet()
		if after := gateway.requests(); after != before {
			return fmt.Errorf("%d probes in the stable state", after-before)
		}
		return nil
	})
	if n := observed(t, "Probe"); n < 5 {
		t.Errorf("heighliner_route_confirmation_seconds has %d observations for Probe, want at least 5", n)
	}

	gateway.stick(true) // The gateway no longer serves changes, but routes are still accepted.
	p.rollout(group("1-x", 6, "b 1.1.0 canary 60", "a 1.0.0 active 40"))
	asked := gateway.requests()
	await.Until(t, "more probes", func() bool { return gateway.requests() > asked+5 })
	p.eventually("shop", "the previous revision to stay", confirmed("1-x", 5, "a", "b"))
	gateway.stick(false)
	p.eventually("shop", "revision 6", confirmed("1-x", 6, "a", "b"))

	var policy v1alpha1.NetworkPolicy
	p.get("shop", &policy)
	policy.Spec.Provider.Gateway.Confirm = v1alpha1.ConfirmStatus
	if err := server.Update(t.Context(), &policy); err != nil {
		t.Fatal(err)
	}
	p.eventually("shop", "the removal of the probe rule", func(*v1alpha1.NetworkPolicy) bool {
		var routes gatewayv1.HTTPRouteList
		err := server.List(t.Context(), &routes, client.InNamespace(p.namespace))
		return err == nil && len(routes.Items) == 1 && len(routes.Items[0].Spec.Rules) == 1
	})
	p.eventually("shop", "the revision to stay", confirmed("1-x", 6, "a", "b"))
	p.quiet()
}

// gateway creates a Gateway that is in the namespace and is served at an address.
func (p *place) gateway(name, address string) {
	p.t.Helper()
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		p.t.Fatal(err)
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		p.t.Fatal(err)
	}
	g := &gatewayv1.Gateway{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: gatewayv1.GatewaySpec{
		GatewayClassName: "played", Listeners: []gatewayv1.Listener{{Name: "web", Port: gatewayv1.PortNumber(port), Protocol: gatewayv1.HTTPProtocolType}},
	}}
	p.create(g)
	g.Status.Addresses = []gatewayv1.GatewayStatusAddress{{Type: new(gatewayv1.IPAddressType), Value: host}}
	if err := server.Status().Update(p.t.Context(), g); err != nil {
		p.t.Fatal(err)
	}
}

// observed returns the number of confirmation times that the controller has recorded for a
// confirmation mode.
func observed(t *testing.T, confirm string) (n uint64) {
	t.Helper()
	families, err := prometheus.Gatherer(gauges).Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			for _, label := range m.GetLabel() {
				if family.GetName() == "heighliner_route_confirmation_seconds" && strings.EqualFold(label.GetValue(), confirm) {
					n += m.GetHistogram().GetSampleCount()
				}
			}
		}
	}
	return n
}
