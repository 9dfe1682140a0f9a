package traffic

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
	"github.com/heighliner/heighliner/controllers/networkpolicy/resources"
	"github.com/heighliner/heighliner/internal/status"
)

// goTo switches the provider, and removes fields that the next provider does not support.
func (w *world) goTo(provider *v1alpha1.NetworkProvider) {
	w.change(func(s *v1alpha1.NetworkPolicySpec) {
		if s.Provider = provider; provider == nil {
			s.Domains = nil
		}
	})
}

func (w *world) splitBy(provider string) string {
	return splitOfEntry(w.facts(), shopHost, provider)
}

func (w *world) switching() string { return w.condition(v1alpha1.ConditionProviderSwitching) }

func (w *world) routesBy() string {
	return strings.Join(providersOf(w.facts()), " ")
}

// TestPreviousFollowsUnconfirmed checks that, until the next provider has accepted its routes, the
// previous routes follow the rollout state, so that the switch blocks neither a step nor an abort.
// The previous routes do not confirm the group.
func TestPreviousFollowsUnconfirmed(t *testing.T) {
	w := routedBy(t, byGateway)
	w.goTo(&byAPISIX)
	w.pass()
	want(t, "switching", w.switching(), "True Replacing")
	w.rollout(group("1-x", 2, "b 1.1.0 canary 50", "a 1.0.0 active 50"))
	for range 3 {
		w.pass()
	}
	want(t, "step in the previous route", w.splitBy("gateway"), "1.0.0=50 1.1.0=50")
	want(t, "step in the next route", w.splitBy("apisix"), "1.0.0=50 1.1.0=50")
	want(t, "revision before a response", w.groupTraffic("1-x").Revision, 1)
	w.rollout(group("1-x", 3, "b 1.1.0 error 0", "a 1.0.0 active 100"))
	for range 3 {
		w.pass()
	}
	want(t, "abort in the previous route", w.splitBy("gateway"), "1.0.0=100")
	w.settle()
	want(t, "revision", w.groupTraffic("1-x").Revision, 3)
	want(t, "references", strings.Join(w.groupTraffic("1-x").References, " "), "a")
}

// TestPreviousIsWaitedFor checks that a group is not confirmed until the previous gateway has
// responded, so that a canary that this gateway serves keeps its pods. The wait is limited, so that
// a gateway that no longer exists does not block anything.
func TestPreviousIsWaitedFor(t *testing.T) {
	w := routedBy(t, byGateway)
	w.goTo(&byNginx)
	w.settle()
	w.rollout(group("1-x", 2, "b 1.1.0 error 0", "a 1.0.0 active 100"))
	w.pass() // This reconcile writes the routes of both providers.
	w.pass() // The Ingress counts as accepted, but the previous gateway has not reported yet.
	want(t, "revision before the previous gateway has responded", w.groupTraffic("1-x").Revision, 1)
	want(t, "references", strings.Join(w.groupTraffic("1-x").References, " "), "a b")
	w.now = w.now.Add(31 * time.Second)
	w.pass()
	want(t, "revision", w.groupTraffic("1-x").Revision, 2)
}

// TestRejectedGroupIsRemovedFromPreviousRoutes checks that a rejected first release of a group is also removed
// from the routes of the previous provider, regardless of whether the next provider has accepted
// its routes, because nothing would ever replace the previous route of the group.
func TestRejectedGroupIsRemovedFromPreviousRoutes(t *testing.T) {
	for _, answered := range []bool{false, true} {
		t.Run(fmt.Sprint("next provider accepted: ", answered), func(t *testing.T) {
			w := newWorld(t, group("2-x", 1, "b 2.0.0 canary 100"), group("1-x", 1, "a 1.0.0 active 100"))
			w.ready["a"], w.ready["b"] = 2, 2
			w.settle()
			want(t, "split", splitOfEntry(w.facts(), "2-x.shop.example.com", "gateway"), "2.0.0=100")
			w.goTo(&byNginx)
			w.pass()
			if answered {
				w.settle()
			}
			w.rollout(group("2-x", 2, "b 2.0.0 pending 0"), group("1-x", 1, "a 1.0.0 active 100"))
			w.settle()
			for name, route := range newPlanner(w.facts()).Live {
				want(t, "group of route "+name, route.Group(), "1-x")
			}
			want(t, "references", len(w.groupTraffic("2-x").References), 0)
			want(t, "revision", w.groupTraffic("2-x").Revision, 2)
		})
	}
}

// TestPreviousOfARejectedVersionGoes checks that, if the version of a domain is rolled back during
// a provider switch, the version is also removed from the routes of the previous provider.
// Otherwise, nothing would replace the previous route of the domain, and the switch would never end.
func TestPreviousOfARejectedVersionGoes(t *testing.T) {
	for _, status := range []string{"error", "deprecated"} {
		t.Run(status, func(t *testing.T) {
			w := newWorld(t, group("1-x", 1, "b 1.1.0 canary 10", "a 1.0.0 active 90"))
			w.ready["a"], w.ready["b"] = 2, 2
			w.policy.Spec.Domains = []v1alpha1.Domain{{Domain: shopHost}, {Domain: "pin.example.com", Release: &v1alpha1.DomainRelease{Version: "1.1.0"}}}
			w.settle()
			want(t, "backends of the domain", splitOfEntry(w.facts(), "pin.example.com", "gateway"), "1.1.0=100")
			w.goTo(&byNginx)
			w.pass()
			failed := group("1-x", 2, "b 1.1.0 "+status+" 0", "a 1.0.0 active 100")
			failed.Releases[0].Promoted = 0
			w.rollout(failed)
			for range 3 {
				w.settle()
				w.now = w.now.Add(time.Minute)
			}
			w.settle()
			want(t, "backends of the domain", splitOfEntry(w.facts(), "pin.example.com", "gateway"), "")
			want(t, "references", strings.Join(w.groupTraffic("1-x").References, " "), "a")
			want(t, "routes by", w.routesBy(), "ingress")
			want(t, "switching", w.switching(), "")
		})
	}
}

// TestPreviousRetainsReleases checks that a release to which the previous route still refers is
// retained.
func TestPreviousRetainsReleases(t *testing.T) {
	w := routedBy(t, byGateway)
	w.goTo(&byNginx)
	w.settle()
	service := newPlanner(w.facts()).ReleaseService("b")
	// The rollout state no longer contains the release, although the previous route still refers to
	// it.
	w.rollout(group("1-x", 2, "a 1.0.0 active 100"))
	out := Plan(w.facts())
	want(t, "the Service of the release is deleted", slices.Contains(out.DeleteServices, service), false)
	w.pass()
	want(t, "references", strings.Join(w.groupTraffic("1-x").References, " "), "a b")
	w.settle()
	want(t, "references afterwards", strings.Join(w.groupTraffic("1-x").References, " "), "a")
	want(t, "the Service of the release exists", w.services[service] != nil, false)
}

// TestDrainOfPrevious checks that the drain delay comes from the policy or, if the policy does not
// set it, from the Microservice, and that the delay starts again with each switch.
func TestDrainOfPrevious(t *testing.T) {
	for name, tc := range map[string]struct {
		policy, microservice v1alpha1.Duration
		drain                time.Duration
	}{
		"nothing is specified":                  {"", "", 30 * time.Second},
		"set by the Microservice":               {"", "90s", 90 * time.Second},
		"set by the policy":                     {"10m", "90s", 10 * time.Minute},
		"below the minimum in the Microservice": {"", "1s", 5 * time.Second},
		"below the minimum in the policy":       {"1s", "90s", time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			w := routedBy(t, byGateway)
			w.policy.Spec.DrainDelay, w.ms.Spec.UpdateStrategy.DrainDelay = tc.policy, tc.microservice
			w.goTo(&byNginx)
			w.settle()
			want(t, "switching", w.switching(), "True Draining")
			f := w.facts()
			_, requeueAfter := Status(f, Plan(f), Applied{})
			want(t, "checked again", requeueAfter, tc.drain)
			w.now = w.now.Add(tc.drain - time.Millisecond)
			w.settle()
			want(t, "routes before the end", w.routesBy(), "gateway ingress")
			w.now = w.now.Add(time.Millisecond)
			w.settle()
			want(t, "routes at the end", w.routesBy(), "ingress")
			want(t, "switching at the end", w.switching(), "")
		})
	}
	t.Run("again", func(t *testing.T) {
		w := routedBy(t, byGateway)
		w.goTo(&byNginx)
		w.settle()
		w.now = w.now.Add(29 * time.Second)
		w.settle()
		w.now = w.now.Add(time.Hour) // The policy is not reconciled during this time.
		w.goTo(&byGateway)
		w.settle()
		want(t, "routes halfway back", w.routesBy(), "gateway ingress")
		w.goTo(&byAPISIX)
		w.settle()
		want(t, "routes of three providers", w.routesBy(), "apisix gateway ingress")
		want(t, "from", strings.Join(w.policy.Status.ProviderSwitch.From, " "), "gateway ingress")
		w.now = w.now.Add(30 * time.Second)
		w.settle()
		want(t, "routes at the end", w.routesBy(), "apisix")
	})
	t.Run("interrupted", func(t *testing.T) {
		w := routedBy(t, byNginx)
		w.goTo(&byGateway)
		w.settle()
		w.now = w.now.Add(20 * time.Second)
		delete(w.gateways, "infra/public")
		w.settle()
		want(t, "switching", w.switching(), "True Replacing")
		w.now = w.now.Add(time.Hour)
		w.settle()
		want(t, "routes without the Gateway", w.routesBy(), "gateway ingress")
		w.gateways["infra/public"] = gateway(80, "HTTP", "")
		w.settle()
		want(t, "drains again", w.policy.Status.ProviderSwitch.ReplacedTime.Time, w.now)
	})
}

// TestNextCannotServe checks that, without a time limit, the previous provider serves the routes
// that the next provider cannot serve.
func TestNextCannotServe(t *testing.T) {
	for name, tc := range map[string]struct {
		from, to v1alpha1.NetworkProvider
		cause    func(w *world)
		fix      func(w *world)
		message  string
	}{
		"no such Gateway": {
			byNginx, byGateway, func(w *world) { w.gateways = map[string]*gatewayv1.Gateway{} },
			func(w *world) { w.gateways["infra/public"] = gateway(80, "HTTP", "") }, `Gateway "infra/public" does not exist`,
		},
		"no such class": {
			byGateway, byNginx, func(w *world) { w.classes = nil }, func(w *world) { w.classes = map[string]bool{"nginx": true} }, `IngressClass "nginx" does not exist: create it`,
		},
		"no such kind": {
			byGateway, byAPISIX, func(w *world) { w.lacks = map[string]bool{"ApisixRoute": true} }, func(w *world) { w.lacks = nil }, "ApisixRoute of apisix.apache.org/v2",
		},
		"a host that another policy holds": {
			byGateway, byNginx, func(w *world) { w.claims = []Claim{{host: shopHost, path: "/", policy: "other/older"}} }, func(w *world) { w.claims = nil }, "is already used by",
		},
		"matches without annotations": {
			byGateway, byNginx,
			func(w *world) {
				w.change(func(s *v1alpha1.NetworkPolicySpec) {
					s.Domains[0].CanaryMatches = []v1alpha1.CanaryMatch{{Method: "POST"}}
				})
			},
			func(w *world) {
				w.change(func(s *v1alpha1.NetworkPolicySpec) { s.Domains[0].CanaryMatches = nil })
			}, "omit path, method",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := routedBy(t, tc.from)
			from := ProviderOf(w.policy).Name()
			tc.cause(w)
			w.goTo(&tc.to)
			for range 3 {
				w.settle()
				w.now = w.now.Add(time.Hour)
			}
			want(t, "serving routes", w.splitBy(from), "1.0.0=90 1.1.0=10")
			want(t, "switching", w.switching(), "True Replacing")
			ready := slices.IndexFunc(w.policy.Status.Conditions, func(c metav1.Condition) bool { return c.Type == v1alpha1.ConditionProviderSwitching })
			if m := w.policy.Status.Conditions[ready].Message; !strings.Contains(m, tc.message) {
				t.Errorf("message: %s", m)
			}
			if w.condition("Ready") == "True Programmed" {
				t.Error("condition Ready is True")
			}
			w.rollout(group("1-x", 2, "b 1.1.0 error 0", "a 1.0.0 active 100"))
			w.settle()
			want(t, "an abort changes the serving route", w.splitBy(from), "1.0.0=100")
			tc.fix(w)
			w.settle()
			want(t, "draining", w.switching(), "True Draining")
			w.now = w.now.Add(time.Hour)
			w.settle()
			want(t, "routes", w.routesBy(), ProviderOf(w.policy).Name())
			want(t, "Ready", w.condition("Ready"), "True Programmed")
		})
	}
}

// TestSwitchAcrossRestarts checks that a manager that starts during a switch restores its state
// from the objects.
func TestSwitchAcrossRestarts(t *testing.T) {
	restart := func(w *world) { w.written = map[string]time.Time{} }
	w := routedBy(t, byGateway)
	restart(w)
	w.goTo(&byNginx)
	w.pass()
	restart(w)
	w.settle()
	since := w.policy.Status.ProviderSwitch.ReplacedTime
	w.now = w.now.Add(10 * time.Second)
	restart(w)
	w.settle()
	want(t, "since", w.policy.Status.ProviderSwitch.ReplacedTime.Time, since.Time)
	w.now = w.now.Add(20 * time.Second)
	restart(w)
	w.pass()
	restart(w)
	w.settle()
	want(t, "routes", w.routesBy(), "ingress")
	want(t, "switch", w.policy.Status.ProviderSwitch == nil, true)
}

// TestToServicesAndBack removes the provider together with its domains. The domains are served
// until the callers use the Services.
func TestToServicesAndBack(t *testing.T) {
	w := routedBy(t, byGateway)
	w.lag["shop-1-x"] = "b" // The EndpointSlices lag behind.
	domains := slices.Clone(w.policy.Spec.Domains)
	w.goTo(nil)
	w.settle()
	want(t, "switching", w.switching(), "True Replacing")
	want(t, "split of a route that can no longer split traffic", w.splitBy("gateway"), "1.0.0=100")
	want(t, "mode", w.groupTraffic("1-x").Split, v1alpha1.SplitWhole)
	delete(w.lag, "shop-1-x")
	w.settle()
	want(t, "switching", w.switching(), "True Draining")
	w.rollout(group("1-x", 2, "b 1.1.0 active 100", "a 1.0.0 deprecated 0"))
	w.settle()
	want(t, "promotion", w.splitBy("gateway"), "1.1.0=100")
	want(t, "revision", w.groupTraffic("1-x").Revision, 2)
	w.now = w.now.Add(time.Minute)
	w.settle()
	want(t, "routes", len(w.routes), 0)
	w.change(func(s *v1alpha1.NetworkPolicySpec) { s.Provider, s.Domains = &byGateway, domains })
	w.settle()
	want(t, "switching back", w.switching(), "")
	want(t, "split", w.splitOf(shopHost), "1.1.0=100")
}

// TestHostTakenOutWithItsProvider checks that a host that is removed together with the provider is
// no longer served, while the other hosts drain.
func TestHostTakenOutWithItsProvider(t *testing.T) {
	w := routedBy(t, byGateway)
	w.change(func(s *v1alpha1.NetworkPolicySpec) {
		s.Domains = append(s.Domains, v1alpha1.Domain{Domain: "also.example.com"})
	})
	w.settle()
	w.change(func(s *v1alpha1.NetworkPolicySpec) { s.Provider, s.Domains = &byNginx, s.Domains[:1] })
	w.settle()
	d := newPlanner(w.facts())
	want(t, "the other host", splitOfEntry(d.Observed, "also.example.com", "gateway"), "")
	want(t, "the host that stays", w.splitBy("gateway"), "1.0.0=90 1.1.0=10")
}

// TestGroupClosesDuringSwitch checks that the routes of a group that is closing are deleted
// immediately, including those of a previous provider.
func TestGroupClosesDuringSwitch(t *testing.T) {
	w := routedBy(t, byGateway)
	w.goTo(&byNginx)
	w.settle()
	g := group("1-x", 2, "b 1.1.0 deprecated 0", "a 1.0.0 deprecated 0")
	g.Phase = v1alpha1.GroupClosing
	w.rollout(g)
	w.settle()
	want(t, "routes", w.routesBy(), "")
	want(t, "references", len(w.groupTraffic("1-x").References), 0)
	want(t, "revision", w.groupTraffic("1-x").Revision, 2)
}

// TestGroupOfSharedDomainClosesDuringSwitch checks that the routes of a group that is closing are
// deleted immediately even if the domain is shared and there is no other group to which the domain
// can route yet.
func TestGroupOfSharedDomainClosesDuringSwitch(t *testing.T) {
	w := routedBy(t, byGateway)
	w.change(func(s *v1alpha1.NetworkPolicySpec) { s.Domains[0].Domain = "shop.example.com" })
	w.settle()
	w.classes = nil
	w.goTo(&byNginx)
	w.settle()
	want(t, "routes", w.routesBy(), "gateway ingress")
	g := group("1-x", 2, "b 1.1.0 deprecated 0", "a 1.0.0 deprecated 0")
	g.Phase = v1alpha1.GroupClosing
	w.rollout(group("2-x", 1, "c 2.0.0 pending 0"), g)
	w.settle()
	want(t, "routes of a group that is closing", w.routesBy(), "")
	want(t, "revision", w.groupTraffic("1-x").Revision, 2)
}

// TestPreviousKindRemoved checks that routes of a kind that the API server no longer serves do not
// block a switch.
func TestPreviousKindRemoved(t *testing.T) {
	w := routedBy(t, byAPISIX)
	w.goTo(&byGateway)
	w.settle()
	w.others, w.lacks = map[string]resources.Object{}, map[string]bool{"ApisixRoute": true}
	w.settle()
	want(t, "switching", w.switching(), "")
	want(t, "Ready", w.condition("Ready"), "True Programmed")
	w.rollout(group("1-x", 2, "b 1.1.0 active 100", "a 1.0.0 deprecated 0"))
	w.settle()
	want(t, "revision", w.groupTraffic("1-x").Revision, 2)
}

// TestPreviousIsNotChanged checks that routes whose weights change keep their parents, filters,
// timeouts and TLS settings, and the annotations of other owners, and that routes without a change
// are not written.
func TestPreviousIsNotChanged(t *testing.T) {
	t.Run("gateway", func(t *testing.T) {
		w := newWorld(t, group("1-x", 1, "b 1.1.0 canary 10", "a 1.0.0 active 90"))
		w.ready["a"], w.ready["b"] = 1, 1
		w.policy.Spec.Provider.Gateway.Filters = []v1alpha1.RouteFilter{{URLRewrite: &v1alpha1.URLRewrite{ReplacePrefixMatch: "/v1"}}}
		w.policy.Spec.Timeouts = &v1alpha1.RouteTimeouts{Request: "5s"}
		w.settle()
		w.change(func(s *v1alpha1.NetworkPolicySpec) { s.Provider, s.Timeouts = &byNginx, nil })
		before := maps.Clone(w.routes)
		w.pass()
		want(t, "routes immediately after the switch", mustJSON(w.routes), mustJSON(before))
		g := group("1-x", 2, "b 1.1.0 canary 50", "a 1.0.0 active 50")
		w.rollout(g)
		w.settle()
		for name, route := range w.routes {
			was, is := before[name].Spec, route.Spec
			want(t, "split", w.splitBy("gateway"), "1.0.0=50 1.1.0=50")
			want(t, "parents", mustJSON(is.ParentRefs), mustJSON(was.ParentRefs))
			want(t, "filters", mustJSON(is.Rules[0].Filters), mustJSON(was.Rules[0].Filters))
			want(t, "timeouts", mustJSON(is.Rules[0].Timeouts), mustJSON(was.Rules[0].Timeouts))
		}
	})
	t.Run("ingress", func(t *testing.T) {
		w := routedBy(t, byNginx)
		main := func() *networkingv1.Ingress {
			for name, o := range w.others {
				if !strings.HasSuffix(name, "-canary") {
					return o.(*networkingv1.Ingress)
				}
			}
			return nil
		}
		main().Annotations["cert-manager.io/cluster-issuer"] = "letsencrypt"
		main().Spec.TLS = []networkingv1.IngressTLS{{Hosts: []string{shopHost}, SecretName: "tls"}}
		w.rollout(group("1-x", 2, "b 1.1.0 error 0", "a 1.0.0 active 100"))
		w.others = maps.Clone(w.others)
		w.goTo(&byGateway)
		w.settle()
		want(t, "objects after the abort", len(w.others), 1)
		w.rollout(group("1-x", 3, "b 1.1.0 canary 50", "a 1.0.0 active 50"))
		w.settle()
		want(t, "objects of a canary", len(w.others), 2) // The annotation of the main Ingress contains the prefix.
		want(t, "split", w.splitBy("ingress"), "1.0.0=50 1.1.0=50")
		want(t, "annotation of another owner", main().Annotations["cert-manager.io/cluster-issuer"], "letsencrypt")
		want(t, "TLS", main().Spec.TLS[0].SecretName, "tls")
		want(t, "class", *main().Spec.IngressClassName, "nginx")
	})
	t.Run("plain ingress", func(t *testing.T) {
		w := routedBy(t, byPlain)
		w.goTo(&byGateway)
		w.settle()
		want(t, "split of a route that cannot split traffic", w.splitBy("ingress"), "1.0.0=100")
		want(t, "split", w.splitBy("gateway"), "1.0.0=90 1.1.0=10")
	})
}

// TestPreviousIsRefused checks that a failed write of a previous route is reported and does not
// block anything. The releases of the route are retained.
func TestPreviousIsRefused(t *testing.T) {
	w := routedBy(t, byGateway)
	w.goTo(&byNginx)
	w.settle()
	w.rollout(group("1-x", 2, "b 1.1.0 error 0", "a 1.0.0 active 100"))
	f := w.facts()
	out := Plan(f)
	refused := map[string]*status.Error{}
	for _, route := range out.Previous {
		refused[AppliedRouteKey(route.Name)] = status.NewTerminal(status.ReasonForbidden, errors.New("the quota is exhausted"))
	}
	out.Routes = nil // These routes are already written.
	now, _ := Status(f, out, Applied{Changed: map[string]bool{}, Refused: refused})
	want(t, "references", strings.Join(Find(now.Groups, "1-x").References, " "), "a b")
	for _, c := range now.Conditions {
		if c.Type == v1alpha1.ConditionProviderSwitching && !strings.Contains(c.Message, "the quota is exhausted") {
			t.Errorf("message: %s", c.Message)
		}
	}
}

// TestIngressChangesInPlace checks that the Ingress of a host is updated in place for any change,
// because a second Ingress with the same host and path might be rejected.
func TestIngressChangesInPlace(t *testing.T) {
	for name, change := range map[string]func(*v1alpha1.NetworkPolicySpec){
		"matches": func(s *v1alpha1.NetworkPolicySpec) {
			s.Domains[0].CanaryMatches = []v1alpha1.CanaryMatch{{Headers: []v1alpha1.MatchValue{{Name: "X-Team", Value: "shop"}}}}
		},
		"port": func(s *v1alpha1.NetworkPolicySpec) {
			s.Ports = append(s.Ports, v1alpha1.NetworkPort{Name: "other", Port: 81})
			s.Domains[0].Port = "other"
		},
		"groups": func(s *v1alpha1.NetworkPolicySpec) {
			s.Domains[0].Groups = &v1alpha1.DomainGroups{Policy: v1alpha1.GroupsNamed, Names: []string{"1-x"}}
		},
		"a pin": func(s *v1alpha1.NetworkPolicySpec) {
			s.Domains[0].Release = &v1alpha1.DomainRelease{Version: "1.0.0"}
		},
		"a second host": func(s *v1alpha1.NetworkPolicySpec) {
			s.Domains = append(s.Domains, v1alpha1.Domain{Domain: "a.example.com", Port: "http"})
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := routedBy(t, byNginx)
			w.change(func(s *v1alpha1.NetworkPolicySpec) {
				s.Domains = []v1alpha1.Domain{{Domain: shopHost, Port: "http"}}
			})
			w.settle()
			before := providers.Sorted(w.others)
			w.change(change)
			for range 4 {
				w.pass()
				hosts := map[string]int{}
				for name, o := range w.others {
					if !strings.HasSuffix(name, "-canary") {
						for _, rule := range o.(*networkingv1.Ingress).Spec.Rules {
							hosts[rule.Host]++
						}
					}
				}
				for host, n := range hosts {
					if n > 1 {
						t.Fatalf("%d Ingresses have host %s", n, host)
					}
				}
			}
			if w.others[before[0]] == nil {
				t.Errorf("Ingress %s was replaced by %v", before[0], providers.Sorted(w.others))
			}
			want(t, "Ready", w.condition("Ready"), "True Programmed")
			want(t, "domains", fmt.Sprint(len(w.policy.Status.Domains)), fmt.Sprint(len(w.policy.Spec.Domains)))
		})
	}
}

// TestPreviousServesUntilTheCertificateIsReady checks that the route of a host with TLS is replaced
// only when the host's certificate exists.
func TestPreviousServesUntilTheCertificateIsReady(t *testing.T) {
	w := routedBy(t, byNginx)
	w.uncertain = map[string]string{"shop-tls": "Issuing"}
	w.change(func(s *v1alpha1.NetworkPolicySpec) {
		s.Provider = &byGateway
		s.Domains[0].TLS = &v1alpha1.DomainTLS{Mode: v1alpha1.TLSListenerSet, SecretName: "shop-tls", IssuerRef: &v1alpha1.IssuerReference{Name: "a"}}
	})
	w.settle()
	want(t, "switching", w.switching(), "True Replacing")
	w.now = w.now.Add(time.Hour)
	w.settle()
	want(t, "routes without the certificate", w.routesBy(), "gateway ingress")
	w.uncertain = nil
	w.settle()
	want(t, "switching with the certificate", w.switching(), "True Draining")
}
