package traffic

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
)

// probedWorld returns a world with an active release, a ready pod of a later canary, and a policy
// whose Gateway has an address and is probed.
func probedWorld(t *testing.T) *world {
	w := newWorld(t, group("1-x", 1, "a 1.0.0 active 100"))
	w.policy.Spec.Provider.Gateway.Confirm = v1alpha1.ConfirmProbe
	w.gateways["infra/public"].Status.Addresses = []gatewayv1.GatewayStatusAddress{{Value: "192.0.2.1"}}
	w.ready["a"], w.ready["b"] = 1, 1
	return w
}

// open returns the probes that a reconcile would start.
func (w *world) open() []providers.Probe {
	f := w.facts()
	return Probes(f, Plan(f), Applied{})
}

// ask sets the results of the current probes: correct responses if serves is true, and responses
// for an earlier version of the routes if serves is false.
func (w *world) ask(serves bool) {
	w.probed = maps.Clone(w.probed)
	if w.probed == nil {
		w.probed = map[providers.Probe]providers.Probed{}
	}
	for _, p := range w.open() {
		known := w.probed[p]
		if known.Since.IsZero() {
			known.Since = w.now
		}
		known.Served, known.Problem = serves, ""
		if !serves {
			known.Problem = "its response belongs to an earlier version of the route"
		}
		w.probed[p] = known
	}
}

// TestNothingIsConfirmedBeforeItIsServed checks that an accepted revision is confirmed when all
// addresses serve it, and that the previous revision stays confirmed until then.
func TestNothingIsConfirmedBeforeItIsServed(t *testing.T) {
	w := probedWorld(t)
	w.settle()
	want(t, "revision of the first route, accepted", w.groupTraffic("1-x").Revision, 0)
	w.ask(true)
	w.settle()
	want(t, "revision of the first route, served", w.groupTraffic("1-x").Revision, 1)
	want(t, "condition", w.condition("Programmed"), "True Programmed")

	w.rollout(group("1-x", 2, "b 1.1.0 canary 10", "a 1.0.0 active 90"))
	w.settle()
	want(t, "split as written", w.split(host), "1.0.0=90 1.1.0=10")
	want(t, "revision, accepted", w.groupTraffic("1-x").Revision, 1)
	w.ask(false)
	w.settle()
	want(t, "revision, not served", w.groupTraffic("1-x").Revision, 1)
	want(t, "condition within the grace period", w.condition("Programmed"), "True Programmed")
	want(t, "references within the grace period", cmp.Diff([]string{"a"}, w.groupTraffic("1-x").References), "")

	w.now = w.now.Add(providers.Grace + time.Second)
	w.pass()
	want(t, "references after the grace period", cmp.Diff([]string{"a", "b"}, w.groupTraffic("1-x").References), "")
	want(t, "condition after the grace period", w.condition("Programmed"), "False ProbeUnanswered")
	want(t, "reason for the group", w.groupTraffic("1-x").Reason, "ProbeUnanswered")
	for _, part := range []string{`spec.provider.gateway.parentRefs[0]: Gateway "infra/public"`, "http://192.0.2.1:80", `listener "web"`, `host "1-x.shop.example.com"`, "an earlier version of the route", "confirm to Status"} {
		if message := w.groupTraffic("1-x").Message; !strings.Contains(message, part) {
			t.Errorf("message %q, want %q", message, part)
		}
	}
	want(t, "revision after the grace period", w.groupTraffic("1-x").Revision, 1)

	w.ask(true)
	w.settle()
	want(t, "revision, served", w.groupTraffic("1-x").Revision, 2)
	want(t, "condition, served", w.condition("Programmed"), "True Programmed")
	want(t, "split, served", w.policy.Status.Summary.Split, "1.0.0=90 1.1.0=10")
}

// TestEachWriteHasItsOwnAnswer checks that a gateway that lags and serves earlier weights is not
// mistaken for a gateway that serves the same weights again, and that an unchanged route is not
// written again to get a new response.
func TestEachWriteHasItsOwnAnswer(t *testing.T) {
	w := probedWorld(t)
	w.settle()
	seen := map[string]bool{}
	for range 3 {
		for _, ready := range []int{1, 0} { // The canary is withheld, and then routed to again, in one revision.
			w.ready["b"] = ready
			w.rollout(group("1-x", 2, "b 1.1.0 canary 10", "a 1.0.0 active 90"))
			w.settle()
			ask := w.open()
			if len(ask) != 1 {
				t.Fatalf("probes are %v, want one", ask)
			}
			if seen[ask[0].Answer] {
				t.Errorf("the response %q is expected for more than one write", ask[0].Answer)
			}
			seen[ask[0].Answer] = true
			before := w.writes
			w.ask(true)
			w.settle()
			w.now = w.now.Add(time.Hour)
			w.settle()
			if got := w.writes - before; got > 1 {
				t.Errorf("%d writes after the response, want only the status write", got)
			}
		}
	}
}

// TestProbesAfterARestart checks that a manager without results sends probes again, and reports no
// problem until the gateway has had time to respond.
func TestProbesAfterARestart(t *testing.T) {
	w := probedWorld(t)
	w.settle()
	w.ask(true)
	w.settle()
	w.now = w.now.Add(time.Hour)
	w.probed, w.written = nil, map[string]time.Time{}
	before := mustJSON(w.policy.Status)
	w.pass()
	want(t, "status of a new manager", mustJSON(w.policy.Status), before)
	want(t, "probes of a new manager", len(w.open()), 1)
	w.ask(false)
	w.now = w.now.Add(providers.Grace + time.Second)
	w.pass()
	want(t, "condition without a response", w.condition("Programmed"), "False ProbeUnanswered")
	want(t, "revision without a response", w.groupTraffic("1-x").Revision, 1)
	w.ask(true)
	w.pass()
	want(t, "condition", w.condition("Programmed"), "True Programmed")
}

// TestAnotherAddressIsProbed checks that an additional address of a Gateway must also serve the
// routes.
func TestAnotherAddressIsProbed(t *testing.T) {
	w := probedWorld(t)
	w.settle()
	w.ask(true)
	w.settle()
	w.gateways["infra/public"].Status.Addresses = append(w.gateways["infra/public"].Status.Addresses, gatewayv1.GatewayStatusAddress{Value: "2001:db8::1"})
	w.pass()
	want(t, "condition within the grace period", w.condition("Programmed"), "True Programmed")
	want(t, "probes", len(w.open()), 2)
	w.ask(false)
	w.now = w.now.Add(providers.Grace + time.Second)
	w.pass()
	want(t, "condition", w.condition("Programmed"), "False ProbeUnanswered")
}

// TestAGatewayWithoutAddress checks that a Gateway without an address is reported, because it
// cannot be probed.
func TestAGatewayWithoutAddress(t *testing.T) {
	w := probedWorld(t)
	w.gateways["infra/public"].Status.Addresses = nil
	w.settle()
	w.now = w.now.Add(providers.Grace + time.Second)
	w.pass()
	want(t, "condition", w.condition("Programmed"), "False ProbeUnanswered")
	if message := w.groupTraffic("1-x").Message; !strings.Contains(message, "the status of the Gateway has no address") {
		t.Errorf("message is %q", message)
	}
}

// TestReplacementServesBeforeTheOldRouteIsDeleted checks that a route is deleted only when its
// replacement is served: acceptance is not sufficient.
func TestReplacementServesBeforeTheOldRouteIsDeleted(t *testing.T) {
	w := probedWorld(t)
	w.settle()
	w.ask(true)
	w.settle()
	old := slices.Collect(maps.Keys(w.routes))[0]
	w.policy.Spec.Domains[0].CanaryMatches = []v1alpha1.CanaryMatch{{Method: "GET"}} // The matches require a route with another name.
	w.settle()
	want(t, "old route, while the new route is only accepted", w.routes[old] != nil, true)
	w.ask(true)
	w.settle()
	want(t, "old route, when the new route serves", w.routes[old] != nil, false)
}

// TestBackToStatus checks that, after probes are disabled, the rule for probes is removed and no
// probe is sent.
func TestBackToStatus(t *testing.T) {
	w := probedWorld(t)
	w.settle()
	w.policy.Spec.Provider.Gateway.Confirm = ""
	w.settle()
	for name, route := range w.routes {
		want(t, "rules of "+name, len(route.Spec.Rules), 1)
	}
	want(t, "probes", len(w.open()), 0)
	want(t, "revision", w.groupTraffic("1-x").Revision, 1)
}

// TestOnlyHTTPRoutesAreProbed checks that routes of other kinds are confirmed by their status, and
// that a condition reports that probes are not supported for these routes.
func TestOnlyHTTPRoutesAreProbed(t *testing.T) {
	for _, protocol := range []v1alpha1.PortProtocol{v1alpha1.ProtocolGRPC, v1alpha1.ProtocolTLS} {
		t.Run(string(protocol), func(t *testing.T) {
			w := probedWorld(t)
			w.policy.Spec.Ports[0].Protocol = protocol
			if protocol == v1alpha1.ProtocolTLS {
				w.gateways["infra/public"].Spec.Listeners[0].Protocol = gatewayv1.TLSProtocolType
			}
			w.settle()
			want(t, "revision", w.groupTraffic("1-x").Revision, 1)
			want(t, "condition", w.condition("SettingsNotApplied"), "True NotSupported")
			want(t, "probes", len(w.open()), 0)
		})
	}
}
