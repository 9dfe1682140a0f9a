package traffic

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
	"github.com/heighliner/heighliner/controllers/networkpolicy/resources"
)

// TestRouteWithoutAnnotations checks that a reconcile succeeds after another user has removed all
// annotations from a route.
func TestRouteWithoutAnnotations(t *testing.T) {
	strip := func(w *world) {
		w.routes = maps.Clone(w.routes)
		for name, r := range w.routes {
			r = r.DeepCopy()
			r.Annotations = nil
			w.routes[name] = r
		}
		w.others = maps.Clone(w.others)
		for name, o := range w.others {
			o = o.DeepCopyObject().(resources.Object)
			o.SetAnnotations(nil)
			w.others[name] = o
		}
	}
	for name, play := range map[string]func(t *testing.T){
		"switch from a Gateway": func(t *testing.T) {
			w := routedBy(t, byGateway)
			strip(w)
			w.goTo(&byNginx)
			w.pass()
		},
		"switch from APISIX": func(t *testing.T) {
			w := routedBy(t, byAPISIX)
			strip(w)
			w.goTo(&byGateway)
			w.pass()
		},
		"switch from Ingresses": func(t *testing.T) {
			w := routedBy(t, byNginx)
			strip(w)
			w.goTo(&byGateway)
			w.pass()
		},
		"a path is edited, and the canary fails": func(t *testing.T) {
			w := routedBy(t, byGateway)
			strip(w)
			w.policy = w.policy.DeepCopy()
			w.policy.Spec.Domains[0].Path = "/v2"
			w.rollout(group("1-x", 2, "b 1.1.0 error 0", "a 1.0.0 active 100"))
			w.pass()
		},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if x := recover(); x != nil {
					t.Errorf("panic: %v", x)
				}
			}()
			play(t)
		})
	}
}

// TestPathEditedWithProvider checks that a route of the previous provider stays until the routes of
// its hosts are accepted, even if the same edit changes the path of the domain.
func TestPathEditedWithProvider(t *testing.T) {
	for name, to := range map[string]v1alpha1.NetworkProvider{
		"a Gateway that responds later": byGateway,
		"a Gateway that does not exist": {Gateway: &v1alpha1.GatewayProvider{ParentRefs: []v1alpha1.ParentReference{
			{Namespace: "infra", Name: "typo"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, group("1-x", 1, "a 1.0.0 active 100"))
			w.policy.Spec.Provider, w.policy.Spec.Domains = &byNginx, []v1alpha1.Domain{{Domain: "www.example.com", Path: "/shop"}}
			w.ready["a"] = 2
			w.settle()
			want(t, "before", splitOfEntry(w.facts(), "www.example.com", "ingress"), "1.0.0=100")
			w.change(func(s *v1alpha1.NetworkPolicySpec) {
				s.Provider, s.Domains = &to, []v1alpha1.Domain{{Domain: "www.example.com"}}
			})
			w.pass() // No gateway has accepted a route yet.
			w.pass()
			want(t, "the Ingress, while no gateway has accepted the route that replaces it", splitOfEntry(w.facts(), "www.example.com", "ingress"), "1.0.0=100")
		})
	}
}

// TestHostOfTwoGroups checks that, if two groups render the same host, the older group keeps it
// until the newer group has a ready endpoint for the first time.
func TestHostOfTwoGroups(t *testing.T) {
	w := newWorld(t, group("1-x", 1, "b 1.1.0 active 100"), group("release", 1, "a 1.1.0 active 100"))
	w.policy.Spec.Domains = []v1alpha1.Domain{{Domain: "{{.Version}}.example.com"}}
	w.ready["a"] = 2
	w.settle()
	want(t, "split", w.split("1.1.0.example.com"), "1.1.0=100")
}

// TestStatusOfAcceptedRouteWithoutGroups checks that the status of a domain shows that its route
// was accepted, even if the rollout state has no group.
func TestStatusOfAcceptedRouteWithoutGroups(t *testing.T) {
	p := newPair()
	n := p.policy("shop")
	n.policy.Spec.Domains = someDomains(1)
	p.push("1.0.0")
	p.plan(0)
	p.pods()
	p.plan(0)
	n.policy.Spec.Domains = someDomains(2)
	p.pass("shop", 0)
	p.pass("shop", 0)
	p.accept("shop")
	n.change(func(s *v1alpha1.NetworkPolicySpec) { s.Domains = someDomains(2 | 128) })
	p.pass("shop", 0)
	p.loseRecord()
	delete(p.offers, "1.0.0")
	p.advance(0)
	p.accept("shop")
	for range 3 {
		p.pass("shop", 0)
		p.accept("shop")
		p.advance(3600e9)
	}
	for _, d := range n.policy.Status.Domains {
		if d.Reason == ReasonPending {
			t.Errorf("three hours after the gateway accepted the route: %+v", d)
		}
	}
}

// TestSwitchingPolicyHoldsItsHosts checks that a policy that switches from a Gateway to Ingresses
// keeps its hosts on the Gateway until its HTTPRoutes are deleted, because the older route receives
// the requests.
func TestSwitchingPolicyHoldsItsHosts(t *testing.T) {
	a := routedBy(t, byGateway)
	a.policy.CreationTimestamp.Time = a.now.Add(-time.Hour)
	younger := func() *world {
		b := newWorld(t, group("1-x", 1, "a 1.0.0 active 100"))
		b.policy.Name, b.policy.Namespace, b.policy.UID = "other", "other", "other"
		b.policy.CreationTimestamp.Time = b.now
		b.policy.Spec.Domains = []v1alpha1.Domain{{Domain: shopHost}}
		b.ready["a"] = 1
		f := b.facts()
		b.claims = ClaimsOf(f, []v1alpha1.NetworkPolicy{*a.policy})
		b.settle()
		return b
	}
	want(t, "before: reason for the younger policy", younger().policy.Status.Domains[0].Reason, "DomainConflict")
	a.goTo(&byNginx)
	a.settle()
	want(t, "providers of the older policy's routes", a.routesBy(), "gateway ingress")
	b := younger()
	want(t, "during the drain: reason for the younger policy", b.policy.Status.Domains[0].Reason, "DomainConflict")
	want(t, "during the drain: programmed by the younger policy", b.policy.Status.Domains[0].Programmed, false)
}

// TestMissingTargetKeepsTheListener checks that a host keeps its listener and its certificate if the
// version or the group of its domain does not exist.
func TestMissingTargetKeepsTheListener(t *testing.T) {
	for name, edit := range map[string]func(*v1alpha1.Domain){
		"version": func(d *v1alpha1.Domain) { d.Release = &v1alpha1.DomainRelease{Version: "9.0.0"} },
		"group": func(d *v1alpha1.Domain) {
			d.Groups = &v1alpha1.DomainGroups{Policy: v1alpha1.GroupsNamed, Names: []string{"9-x"}}
		},
	} {
		for _, secret := range []string{"www-tls", "{{.ReleaseGroupName}}-tls"} {
			t.Run(name+" "+secret, func(t *testing.T) {
				w := encrypted(t, byGateway, nil)
				w.policy.Spec.Domains = []v1alpha1.Domain{{Domain: "www.example.com", TLS: ownListener(secret)}}
				w.settle()
				listeners, certificates := mustJSON(w.sets()), mustJSON(w.certificates())
				w.change(func(s *v1alpha1.NetworkPolicySpec) { edit(&s.Domains[0]) })
				w.settle()
				want(t, "split", w.split("www.example.com"), "2.0.0=100")
				want(t, "listeners", mustJSON(w.sets()), listeners)
				want(t, "certificates", mustJSON(w.certificates()), certificates)
			})
		}
	}
}

// TestPolicyWithAnInvalidEditHoldsItsHosts checks that a policy keeps its hosts while its live routes
// stay because of an edit that cannot be routed, even if the host shares its route with another host.
func TestPolicyWithAnInvalidEditHoldsItsHosts(t *testing.T) {
	ofHeader := []v1alpha1.CanaryMatch{{Headers: []v1alpha1.MatchValue{{Name: "x_team", Value: "a"}}}}
	for name, tc := range map[string]struct {
		provider v1alpha1.NetworkProvider
		edit     func(w *world, s *v1alpha1.NetworkPolicySpec)
	}{
		"matches for an Ingress": {byNginx, func(_ *world, s *v1alpha1.NetworkPolicySpec) {
			s.Domains[0].CanaryMatches = []v1alpha1.CanaryMatch{{Method: "POST"}}
		}},
		"matches for APISIX": {byAPISIX, func(_ *world, s *v1alpha1.NetworkPolicySpec) { s.Domains[0].CanaryMatches = ofHeader }},
		"missing Certificate kind": {byAPISIX, func(w *world, s *v1alpha1.NetworkPolicySpec) {
			w.lacks = map[string]bool{"Certificate": true}
			s.Domains[0].TLS = &v1alpha1.DomainTLS{SecretName: "tls", IssuerRef: &v1alpha1.IssuerReference{Name: "ca"}}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			a := newWorld(t, group("1-x", 1, "a 1.0.0 active 100"))
			a.policy.Spec.Provider = &tc.provider
			a.policy.Spec.Domains = []v1alpha1.Domain{{Domain: shopHost}, {Domain: "other.example.com"}}
			a.policy.CreationTimestamp.Time = a.now.Add(-time.Hour)
			younger := func() string {
				b := newWorld(t, group("1-x", 1, "a 1.0.0 active 100"))
				b.policy.Name, b.policy.Namespace, b.policy.UID = "other", "other", "other"
				b.policy.CreationTimestamp.Time = b.now
				b.policy.Spec.Provider, b.policy.Spec.Domains = &tc.provider, []v1alpha1.Domain{{Domain: shopHost}}
				b.ready["a"] = 1
				b.claims = ClaimsOf(b.facts(), []v1alpha1.NetworkPolicy{*a.policy})
				b.settle()
				return b.policy.Status.Domains[0].Reason
			}
			valid := a.policy.Spec.DeepCopy()
			a.ready["a"] = 1
			a.change(func(s *v1alpha1.NetworkPolicySpec) { tc.edit(a, s) })
			a.settle()
			want(t, "for a policy that never had a route", younger(), "")
			a.lacks = nil
			a.change(func(s *v1alpha1.NetworkPolicySpec) { *s = *valid })
			a.settle()
			want(t, "before", younger(), reasonDomainConflict)
			a.change(func(s *v1alpha1.NetworkPolicySpec) { tc.edit(a, s) })
			a.settle()
			want(t, "live", newPlanner(a.facts()).hasRoute(shopHost), true)
			want(t, "after", younger(), reasonDomainConflict)
		})
	}
}

// TestConditionOfRoutesThatStay checks that, if a policy switches to a rule of a user-managed route, and this rule does not exist,
// its condition shows why its routes stay, and does not show a time in the past.
func TestConditionOfRoutesThatStay(t *testing.T) {
	w := borrowing(t, "none")
	to := w.policy.Spec.Provider
	w.policy.Spec.Provider, w.policy.Spec.Domains = &byGateway, []v1alpha1.Domain{{Domain: shopHost}}
	w.ready["a"] = 1
	w.settle()
	w.goTo(to)
	w.policy = w.policy.DeepCopy()
	w.policy.Spec.Domains = nil
	w.settle()
	for range 3 {
		w.now = w.now.Add(time.Hour)
		w.settle()
	}
	want(t, "routes by", w.routesBy(), "gateway route")
	want(t, "switching", w.switching(), "True Replacing")
}

// TestRestoredRuleKeepsPodsUntilItIsAccepted checks that, when a group ends, its pods are kept until
// the gateway has accepted the restored rules of a user-managed route, and that the pods are then
// deleted.
func TestRestoredRuleKeepsPodsUntilItIsAccepted(t *testing.T) {
	p, n, play := restoredRule(t)
	play(false)
	if len(p.objects) == 0 {
		t.Errorf("the pods were removed before the gateway accepted the restored route: %+v", n.policy.Status.Groups)
	}
	play(true)
	if len(p.objects) != 0 {
		t.Errorf("pods remain after the gateway accepted the restored route: %+v", n.policy.Status.Groups)
	}
}

// TestRestoredRuleOfAGatewayThatIsGone checks that restored rules do not retain any pods if their Gateway does
// not exist.
func TestRestoredRuleOfAGatewayThatIsGone(t *testing.T) {
	p, n, play := restoredRule(t)
	n.gateways = map[string]*gatewayv1.Gateway{}
	play(false)
	if len(p.objects) != 0 {
		t.Errorf("pods remain because of a deleted Gateway: %+v", n.policy.Status.Groups)
	}
}

// restoredRule returns a policy that manages a rule of a user-managed route and whose only group is
// ending. The play function restores the rule. Its argument determines whether the gateway accepts
// the restored rule.
func restoredRule(t *testing.T) (p *pair, n *front, play func(accepts bool)) {
	t.Helper()
	p = newPair()
	p.policy("shop")
	n = p.nets["shop"]
	n.users["HTTPRoute/web"] = parse(strings.ReplaceAll(usersRoute, "{name: public}", "{name: public, namespace: infra}"))
	n.change(func(s *v1alpha1.NetworkPolicySpec) {
		s.Provider = &v1alpha1.NetworkProvider{RouteRef: &v1alpha1.RouteReference{Kind: "HTTPRoute", Name: "web", RuleNames: []string{"main"}}}
		s.Domains, s.DeletionPolicy = nil, v1alpha1.DeletionRestore
	})
	p.push("1.0.0")
	p.settle()
	r := n.policy.Status.Routes[0]
	if !r.Programmed || len(p.objects) != 1 {
		t.Fatalf("before: %+v, %v", r, p.objects)
	}
	p.spec.Ended = []string{"1.x"}
	play = func(accepts bool) {
		for range 20 {
			if accepts {
				n.world.accept()
			}
			p.plan(0)
			p.endpoints()
			n.ms = p.ms
			n.world.pass()
			p.now = p.now.Add(5 * time.Second)
			n.now = p.now
		}
	}
	return p, n, play
}

// TestEditOfOneOfTwoHostsRemovesNoHost checks that a host stays in a route that it shares with
// another host until the host is served elsewhere.
func TestEditOfOneOfTwoHostsRemovesNoHost(t *testing.T) {
	const first, second = "a.example.com", "b.example.com"
	version := &v1alpha1.DomainRelease{Version: "9.0.0"}
	for name, tc := range map[string]struct {
		provider *v1alpha1.NetworkProvider
		edit     func(w *world, d *v1alpha1.Domain)
		// served reports whether a gateway serves the edited host as specified in the end. removed reports
		// whether the edit removes the host.
		served, removed bool
	}{
		"matches that are not supported": {&byGateway, func(_ *world, d *v1alpha1.Domain) {
			d.CanaryMatches = []v1alpha1.CanaryMatch{{GRPC: &v1alpha1.MatchGRPC{Service: "x.Y"}}}
		}, false, false},
		"header that APISIX does not support": {&byAPISIX, func(_ *world, d *v1alpha1.Domain) {
			d.CanaryMatches = []v1alpha1.CanaryMatch{{Headers: []v1alpha1.MatchValue{{Name: "x_team", Value: "a"}}}}
		}, false, false},
		"wrong Gateway": {&byGateway, func(_ *world, d *v1alpha1.Domain) { d.ParentRefs = []v1alpha1.ParentReference{{Name: "typo"}} }, false, false},
		"TTL":           {&byGateway, func(_ *world, d *v1alpha1.Domain) { d.RecordTTLSeconds = 60 }, true, false},
		"path":          {&byAPISIX, func(_ *world, d *v1alpha1.Domain) { d.Path = "/b" }, true, false},
		"version":       {&byGateway, func(_ *world, d *v1alpha1.Domain) { d.Release = version }, true, false},
		"certificate":   {&byGateway, func(_ *world, d *v1alpha1.Domain) { d.TLS = ownListener("b-tls") }, true, false},
		"missing Gateway API kind": {&byGateway, func(w *world, d *v1alpha1.Domain) {
			w.lacks, d.TLS = map[string]bool{"ListenerSet": true}, ownListener("b-tls")
		}, false, false},
		"path of another policy": {&byGateway, func(w *world, d *v1alpha1.Domain) {
			w.claims, d.Path = []Claim{{host: second, path: "/b", policy: "other/older"}}, "/b"
		}, false, false},
		"host of another policy": {&byGateway, func(w *world, _ *v1alpha1.Domain) {
			w.claims = []Claim{{host: second, path: "/", policy: "other/older"}}
		}, false, true},
		"host of another policy, wrong Gateway": {&byGateway, func(w *world, d *v1alpha1.Domain) {
			w.claims, d.ParentRefs = []Claim{{host: second, path: "/", policy: "other/older"}}, []v1alpha1.ParentReference{{Name: "typo"}}
		}, false, true},
		"another host": {&byGateway, func(_ *world, d *v1alpha1.Domain) { d.Domain = "c.example.com" }, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, group("1-x", 1, "a 1.0.0 active 100"))
			w.ready["a"], w.ready["b"] = 1, 1
			w.policy.Spec.Provider, w.policy.Spec.Domains = tc.provider, []v1alpha1.Domain{{Domain: first}, {Domain: second}}
			w.settle()
			live := providers.Sorted(w.facts().Live)
			want(t, "routes", len(live), 1)
			has := func(host string) bool { return slices.Contains(w.facts().Live[live[0]].Hostnames, host) }
			w.change(func(s *v1alpha1.NetworkPolicySpec) { tc.edit(w, &s.Domains[1]) })
			w.pass()
			w.pass() // No gateway has accepted a change.
			want(t, "the edited host in its live route", has(second), !tc.removed)
			w.settle()
			want(t, "the edited host in its live route in the end", has(second), !tc.removed && !tc.served)
			want(t, "the edited host is served", newPlanner(w.facts()).hasRoute(second), !tc.removed)
			want(t, "the other host", has(first), true)
			w.rollout(group("1-x", 2, "b 1.1.0 active 100", "a 1.0.0 deprecated 0"))
			w.settle()
			if !tc.removed && !tc.served {
				want(t, "revision that is not programmed", w.groupTraffic("1-x").Revision, 1)
			}
			if !tc.removed {
				want(t, "after a promotion", strings.ReplaceAll(w.splitOf(second), "1.1.0=100 ", ""), "1.1.0=100")
			}
			w.claims, w.lacks = nil, nil
			w.change(func(s *v1alpha1.NetworkPolicySpec) { s.Domains[1] = v1alpha1.Domain{Domain: second} })
			w.settle()
			want(t, "routes after the correction", len(w.facts().Live), 1)
			want(t, "revision", w.groupTraffic("1-x").Revision, 2)
			w.change(func(s *v1alpha1.NetworkPolicySpec) { s.Domains = s.Domains[:1] })
			w.pass()
			want(t, "a deleted domain", newPlanner(w.facts()).hasRoute(second), false)
		})
	}
}

// TestListenersOfAHostThatRemains checks that a host keeps its listener and its certificate in a
// route that it shares with another host, while it cannot be routed as specified.
func TestListenersOfAHostThatRemains(t *testing.T) {
	const first, second = "a.example.com", "b.example.com"
	issued := func(issuer string) *v1alpha1.DomainTLS {
		t := ownListener("shop-tls")
		t.IssuerRef = &v1alpha1.IssuerReference{Name: issuer}
		return t
	}
	for name, edit := range map[string]func(*v1alpha1.Domain){
		"matches": func(d *v1alpha1.Domain) {
			d.CanaryMatches = []v1alpha1.CanaryMatch{{GRPC: &v1alpha1.MatchGRPC{Service: "x.Y"}}}
		},
		"wrong Gateway": func(d *v1alpha1.Domain) { d.ParentRefs = []v1alpha1.ParentReference{{Name: "typo"}} },
		"issuer":        func(d *v1alpha1.Domain) { d.TLS = issued("other") },
		"TLS":           func(d *v1alpha1.Domain) { d.TLS, d.ParentRefs = nil, []v1alpha1.ParentReference{{Name: "typo"}} },
		"TLS mode": func(d *v1alpha1.Domain) {
			d.TLS, d.ParentRefs = &v1alpha1.DomainTLS{}, []v1alpha1.ParentReference{{Name: "typo"}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, group("1-x", 1, "a 1.0.0 active 100"))
			w.ready["a"] = 1
			w.policy.Spec.Domains = []v1alpha1.Domain{{Domain: first, TLS: issued("ca")}, {Domain: second, TLS: issued("ca")}}
			w.settle()
			live := providers.Sorted(w.routes)[0]
			parents, certificates, others := mustJSON(w.routes[live].Spec.ParentRefs), mustJSON(w.certificates()), maps.Clone(w.others)
			w.change(func(s *v1alpha1.NetworkPolicySpec) { edit(&s.Domains[1]) })
			w.pass()
			w.settle()
			want(t, "hosts", mustJSON(hostsOf(w.routes[live])), mustJSON([]string{first, second}))
			want(t, "parents", mustJSON(w.routes[live].Spec.ParentRefs), parents)
			want(t, "certificates", mustJSON(w.certificates()), certificates)
			for name, o := range others {
				want(t, name, mustJSON(w.others[name]), mustJSON(o))
			}
		})
	}
}

// TestEditOfAllHostsOfOneOfTwoRoutes checks that, if equal domains are divided into two routes,
// edits to all hosts of one route replace that route.
func TestEditOfAllHostsOfOneOfTwoRoutes(t *testing.T) {
	for name, part := range map[string][2]int{"first": {0, providers.MaxHostnames}, "second": {providers.MaxHostnames, providers.MaxHostnames + 1}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, group("1-x", 1, "a 1.0.0 active 100"))
			w.ready["a"] = 1
			w.policy.Spec.Domains = nil
			for i := range providers.MaxHostnames + 1 {
				w.policy.Spec.Domains = append(w.policy.Spec.Domains, v1alpha1.Domain{Domain: fmt.Sprintf("h%02d.example.com", i)})
			}
			w.settle()
			want(t, "routes", len(w.routes), 2)
			w.change(func(s *v1alpha1.NetworkPolicySpec) {
				for i := part[0]; i < part[1]; i++ {
					s.Domains[i].RecordTTLSeconds = 60
				}
			})
			w.settle()
			want(t, "routes", len(w.routes), 2)
			want(t, "Ready", w.condition("Ready"), "True Programmed")
			for _, d := range w.policy.Spec.Domains {
				want(t, d.Domain, w.split(d.Domain), "1.0.0=100")
			}
		})
	}
}

// TestHostWithNewListenerRemains checks that a host of a shared route stays in this route until its
// own listener serves, even if other settings of the domain change too.
func TestHostWithNewListenerRemains(t *testing.T) {
	const first, second = "a.example.com", "b.example.com"
	w := newWorld(t, group("1-x", 1, "a 1.0.0 active 100"))
	w.ready["a"] = 1
	w.policy.Spec.Domains = []v1alpha1.Domain{{Domain: first}, {Domain: second}}
	w.settle()
	live := providers.Sorted(w.routes)[0]
	w.uncertain = map[string]string{"b-tls": "Pending"}
	w.change(func(s *v1alpha1.NetworkPolicySpec) {
		s.Domains[1].TLS, s.Domains[1].RecordTTLSeconds = ownListener("b-tls"), 60
	})
	w.settle()
	want(t, "while the certificate is not issued", mustJSON(hostsOf(w.routes[live])), mustJSON([]string{first, second}))
	w.uncertain = nil
	w.settle()
	want(t, "when it is issued", mustJSON(hostsOf(w.routes[live])), mustJSON([]string{first}))
}

// TestHostLeavesTheHTTPRouteForAGRPCRoute checks that a host leaves a shared HTTPRoute when it is
// added to a GRPCRoute, because gateways do not accept the GRPCRoute otherwise.
func TestHostLeavesTheHTTPRouteForAGRPCRoute(t *testing.T) {
	const first, second = "a.example.com", "b.example.com"
	w := manyPorts(t)
	w.policy.Spec.Domains = []v1alpha1.Domain{{Domain: first, Port: "http"}, {Domain: second, Port: "http"}}
	w.settle()
	live := providers.Sorted(w.routes)[0]
	w.change(func(s *v1alpha1.NetworkPolicySpec) { s.Domains[1].Port = "grpc" })
	w.pass()
	w.pass() // No gateway has accepted the GRPCRoute.
	want(t, "hosts of the HTTPRoute", mustJSON(hostsOf(w.routes[live])), mustJSON([]string{first}))
}
