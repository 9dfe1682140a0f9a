package traffic

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
	"github.com/heighliner/heighliner/internal/release"
)

// The tests in this file cover policies that are confirmed late or never.

// TestUnconfirmedPolicyWithholdsNothing checks that a policy withholds no release before a gateway
// has accepted its routes. In its first reconcile, which creates the Services, the policy observes
// no endpoints.
func TestUnconfirmedPolicyWithholdsNothing(t *testing.T) {
	for name, gateways := range map[string]map[string]*gatewayv1.Gateway{
		"its gateway has not responded yet": newWorld(t).gateways,
		"its gateway does not exist":        {},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, group("1-x", 2, "b 1.1.0 canary 50", "a 1.0.0 active 50"))
			w.ready = map[string]int{"a": 4, "b": 1}
			there := w.gateways["infra/public"]
			w.gateways = gateways
			for i := range 4 {
				w.pass()
				if got := w.groupTraffic("1-x"); got.Revision != 0 || got.Withheld != nil {
					t.Errorf("reconcile %d: revision %d, withheld %v, before any gateway responded", i, got.Revision, got.Withheld)
				}
			}
			w.ready["a"] = 0
			w.pass()
			want(t, "withheld while no gateway has responded", len(w.groupTraffic("1-x").Withheld), 0)
			w.gateways = map[string]*gatewayv1.Gateway{"infra/public": there}
			w.settle()
			want(t, "confirmed", w.groupTraffic("1-x").Revision, 2)
			want(t, "withheld after the gateway responded", cmp.Diff([]string{"a"}, w.groupTraffic("1-x").Withheld), "")
		})
	}
}

// TestUnconfirmedPolicyReportsItsReferences checks that previous writes of a policy count as
// references only if a gateway might serve them. Otherwise, a policy with a Gateway that does not
// exist would retain the pods of more and more releases.
func TestUnconfirmedPolicyReportsItsReferences(t *testing.T) {
	for name, confirmed := range map[string]bool{"never confirmed": false, "confirmed before its Gateway was deleted": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, group("1-x", 1, "a 1.0.0 active 100"))
			w.ready = map[string]int{"a": 1, "b": 1, "c": 1}
			there := w.gateways
			if !confirmed {
				w.gateways = map[string]*gatewayv1.Gateway{}
			}
			w.settle()
			w.gateways = map[string]*gatewayv1.Gateway{}
			w.rollout(group("1-x", 2, "b 1.1.0 active 100", "a 1.0.0 deprecated 0"))
			w.settle()
			named := []string{"a", "b"} // The gateway might still accept the first route.
			if confirmed {
				named = []string{"a"} // The new release serves, and is removed only by a later revision.
			}
			want(t, "references at first", cmp.Diff(named, w.groupTraffic("1-x").References), "")
			f := w.facts()
			_, requeueAfter := Status(f, Plan(f), Applied{})
			want(t, "checked again", requeueAfter > 0 && requeueAfter <= providers.Grace, true)
			if confirmed {
				w.now = w.now.Add(providers.Grace)
				w.settle()
				want(t, "references after the grace period", cmp.Diff([]string{"a", "b"}, w.groupTraffic("1-x").References), "")
			}
			w.now = w.now.Add(providers.Grace)
			w.rollout(group("1-x", 3, "c 1.2.0 active 100", "b 1.1.0 deprecated 0", "a 1.0.0 deprecated 0"))
			w.settle()
			w.now = w.now.Add(providers.Grace)
			w.settle()
			named = []string{"c"}
			if confirmed {
				named = []string{"a", "b", "c"} // The gateway might serve any of these releases.
			}
			want(t, "references", cmp.Diff(named, w.groupTraffic("1-x").References), "")
			want(t, "reason without confirmation", w.groupTraffic("1-x").Reason, reasonParentNotFound)
			w.gateways = there
			w.settle()
			want(t, "confirmed", w.groupTraffic("1-x").Revision, 3)
			want(t, "references afterwards", cmp.Diff([]string{"c"}, w.groupTraffic("1-x").References), "")
		})
	}
}

// TestGatewayIsAwayForAWhile deletes and re-creates a Gateway. The policy reports the missing
// Gateway, confirms no revision in the meantime, and confirms the latest revision as soon as the
// Gateway accepts the routes.
func TestGatewayIsAwayForAWhile(t *testing.T) {
	w := newWorld(t, group("1-x", 1, "a 1.0.0 active 100"))
	w.ready = map[string]int{"a": 1, "b": 1}
	w.settle()
	there := w.gateways
	w.gateways = map[string]*gatewayv1.Gateway{}
	w.rollout(group("1-x", 2, "b 1.1.0 canary 10", "a 1.0.0 active 90"))
	w.settle()
	w.now = w.now.Add(providers.Grace)
	w.settle()
	got := w.groupTraffic("1-x")
	want(t, "revision", got.Revision, 1)
	want(t, "reason", got.Reason, reasonParentNotFound)
	want(t, "message "+got.Message, strings.Contains(got.Message, `Gateway "infra/public" does not exist`), true)
	want(t, "withheld", len(got.Withheld), 0)
	want(t, "domain", w.policy.Status.Domains[0].Reason, reasonParentNotFound)
	want(t, "last split of the domain", cmp.Diff([]v1alpha1.DomainBackend{{Release: "a", Version: "1.0.0", Weight: 100}}, w.policy.Status.Domains[0].Backends), "")
	want(t, "condition", w.condition("Ready"), "False "+reasonParentNotFound)
	w.gateways = there
	w.settle()
	want(t, "revision after the Gateway returns", w.groupTraffic("1-x").Revision, 2)
	want(t, "reason after the Gateway returns", w.groupTraffic("1-x").Reason, "")
}

// TestPausesAndTheReasonsOfReports checks in which cases the pause of a step ends. The confirmed
// revision alone does not determine whether the pause ends, because the revision does not
// change. Without its Gateway, a policy routes nothing. If one of its domains is not programmed, it
// still serves the other domains. If the active release has no endpoints, the routes target the
// canary, which may be the fix.
func TestPausesAndTheReasonsOfReports(t *testing.T) {
	for name, test := range map[string]struct {
		happens        func(p *pair)
		reason, canary string
	}{
		"no problem": {func(*pair) {}, "", "canary 50"},
		"the Gateway is deleted": {func(p *pair) {
			delete(p.nets["shop"].gateways, pairGateway)
		}, reasonParentNotFound, "canary 10"},
		"the Gateway no longer admits the namespace": {func(p *pair) {
			p.nets["shop"].gateways[pairGateway].Spec.Listeners[0].AllowedRoutes = &gatewayv1.AllowedRoutes{Namespaces: &gatewayv1.RouteNamespaces{From: new(gatewayv1.NamespacesFromSame)}}
		}, ReasonNotAccepted, "canary 10"},
		"a domain is added that its Gateway does not admit": {func(p *pair) {
			n := p.nets["shop"]
			n.policy.Spec.Domains = append(n.policy.Spec.Domains, v1alpha1.Domain{Domain: "new.example.com", Port: "http", ParentRefs: []v1alpha1.ParentReference{{Namespace: "infra", Name: "internal"}}})
			n.policy.Generation++
			internal := gateway(80, gatewayv1.HTTPProtocolType, "")
			internal.Name = "internal"
			internal.Spec.Listeners[0].AllowedRoutes = &gatewayv1.AllowedRoutes{Namespaces: &gatewayv1.RouteNamespaces{From: new(gatewayv1.NamespacesFromSame)}}
			n.gateways["infra/internal"] = internal
		}, ReasonNotAccepted, "canary 50"},
		"the active release has no endpoints": {func(p *pair) {
			for _, o := range p.objects {
				if o.Version == "1.0.0" {
					o.ready, o.why = 0, "CrashLoopBackOff"
				}
			}
		}, "", "canary 50"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair()
			p.policy("shop").policy.Spec.Domains = someDomains(1)
			p.setSteps([]release.Step{{Weight: 10, Pause: 5 * time.Minute}, {Weight: 50, Pause: time.Hour}})
			p.push("1.0.0")
			p.run(time.Minute)
			p.push("1.1.0")
			p.run(time.Minute)
			want(t, "before", p.stands("1.1.0"), "canary 10")
			test.happens(p)
			p.run(8 * time.Minute)
			want(t, "reason", p.nets["shop"].groupTraffic("1-x").Reason, test.reason)
			want(t, "the canary", p.stands("1.1.0"), test.canary)
			if p.err != nil {
				t.Error(p.err)
			}
		})
	}
}

// stands returns the status and weight of a version in the rollout state, such as "canary 10".
func (p *pair) stands(version string) string {
	for _, g := range p.rollout.Groups {
		for _, r := range g.Releases {
			if r.Version == version {
				return fmt.Sprintf("%s %d", r.Status, r.Weight)
			}
		}
	}
	return ""
}

// TestGroupClosesBehindASharedRoute changes groupBy, so that a domain moves from the group that is
// closing to its successor. Until the gateway has accepted the route, the gateway serves the group
// that is closing.
func TestGroupClosesBehindASharedRoute(t *testing.T) {
	for name, domain := range map[string]v1alpha1.Domain{
		"newest": {Domain: newestHost},
		"named":  {Domain: newestHost, Groups: &v1alpha1.DomainGroups{Policy: v1alpha1.GroupsNamed, Names: []string{"2-x", "1-x"}}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, group("2-x", 2, "b 2.0.0 active 100"), group("1-x", 1, "a 1.9.0 active 100"))
			w.policy.Spec.Domains = []v1alpha1.Domain{domain}
			w.ready = map[string]int{"a": 1, "b": 1}
			w.settle()
			want(t, "before", w.split(newestHost), "2.0.0=100")
			closing := group("2-x", 3, "b 2.0.0 deprecated 0")
			closing.Phase = v1alpha1.GroupClosing
			w.rollout(closing, group("1-x", 1, "a 1.9.0 active 100"))
			for i := range 6 {
				w.pass() // The gateway does not report on the written routes.
				if got := w.groupTraffic("2-x"); got.Revision != 2 || !slices.Contains(got.References, "b") {
					t.Errorf("reconcile %d: confirmed at %d with references %v, although the gateway serves b", i, got.Revision, got.References)
				}
				w.now = w.now.Add(providers.Grace / 2)
			}
			want(t, "written", w.split(newestHost), "1.9.0=100")
			w.settle()
			want(t, "confirmed", w.groupTraffic("2-x").Revision, 3)
			want(t, "references", len(w.groupTraffic("2-x").References), 0)
		})
	}
}

// TestGroupClosesBehindADomainThatIsEdited edits a domain while the domain moves away from a group
// that is closing. Until the gateway has accepted the route, the gateway serves the previous host,
// which routes to that group.
func TestGroupClosesBehindADomainThatIsEdited(t *testing.T) {
	const renamed, again = "store.example.com", "store.example.org"
	for name, edits := range map[string][]v1alpha1.Domain{
		"another host":       {{Domain: renamed}},
		"host changed twice": {{Domain: renamed}, {Domain: again}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, group("2-x", 2, "b 2.0.0 active 100"), group("1-x", 1, "a 1.9.0 active 100"))
			w.policy.Spec.Domains = []v1alpha1.Domain{{Domain: newestHost}}
			w.ready = map[string]int{"a": 1, "b": 1}
			w.settle()
			closing := group("2-x", 3, "b 2.0.0 deprecated 0")
			closing.Phase = v1alpha1.GroupClosing
			w.rollout(closing, group("1-x", 1, "a 1.9.0 active 100"))
			w.pass()
			for i := range 6 {
				if i < len(edits) {
					w.policy.Spec.Domains = []v1alpha1.Domain{edits[i]}
				}
				w.pass() // The gateway does not report on the written routes.
				if got := w.groupTraffic("2-x"); got.Revision != 2 || !slices.Contains(got.References, "b") {
					t.Errorf("reconcile %d: confirmed at %d with references %v, although the gateway serves b", i, got.Revision, got.References)
				}
				w.now = w.now.Add(providers.Grace / 2)
			}
			w.settle()
			want(t, "confirmed", w.groupTraffic("2-x").Revision, 3)
			want(t, "references", len(w.groupTraffic("2-x").References), 0)
		})
	}
}

// TestGroupClosesNextToARefusedRoute checks that a group ends even if the Gateway of a domain that
// the groups share does not exist, which means that this domain never routed to the group.
func TestGroupClosesNextToARefusedRoute(t *testing.T) {
	w := newWorld(t, group("2-x", 2, "b 2.0.0 active 100"), group("1-x", 1, "a 1.9.0 active 100"))
	w.policy.Spec.Domains = []v1alpha1.Domain{
		{Domain: "{{.ReleaseGroupName}}.shop.example.com"},
		{Domain: newestHost, ParentRefs: []v1alpha1.ParentReference{{Name: "missing"}}},
	}
	w.ready = map[string]int{"a": 1, "b": 1}
	w.settle()
	closing := group("2-x", 3, "b 2.0.0 deprecated 0")
	closing.Phase = v1alpha1.GroupClosing
	w.rollout(closing, group("1-x", 1, "a 1.9.0 active 100"))
	w.settle()
	w.now = w.now.Add(providers.Grace)
	w.settle()
	want(t, "references", len(w.groupTraffic("2-x").References), 0)
	want(t, "confirmed", w.groupTraffic("2-x").Revision, 3)
}

// TestClosingGroupWaitsForAnIngressClass checks the report of a group that is closing and whose
// route stays because the IngressClass of the new route does not exist. The report states that the
// class is missing, not that objects are being deleted.
func TestClosingGroupWaitsForAnIngressClass(t *testing.T) {
	w := newWorld(t, group("2-x", 1, "b 2.0.0 active 100"), group("1-x", 1, "a 1.9.0 active 100"))
	w.policy.Spec.Provider = &byNginx
	w.ready = map[string]int{"a": 1, "b": 1}
	w.settle()
	want(t, "before", splitOfEntry(w.facts(), shopHost, "ingress"), "1.9.0=100")
	w.classes = nil
	w.policy.Spec.Domains = []v1alpha1.Domain{{Domain: shopHost, Path: "/api"}} // The path requires another Ingress.
	w.policy.Generation++
	closing := group("1-x", 2, "a 1.9.0 deprecated 0")
	closing.Phase = v1alpha1.GroupClosing
	w.rollout(group("2-x", 1, "b 2.0.0 active 100"), closing)
	for range 2 {
		w.settle()
		w.now = w.now.Add(providers.Grace)
	}
	report := w.groupTraffic("1-x")
	want(t, "reason", report.Reason, reasonParentNotFound)
	if cause := `IngressClass "nginx" does not exist`; !strings.Contains(report.Message, cause) {
		t.Errorf("message %q does not contain %q", report.Message, cause)
	}
	want(t, "references", cmp.Diff([]string{"a"}, report.References), "")
	w.classes = map[string]bool{"nginx": true}
	w.settle()
	want(t, "confirmed", w.groupTraffic("1-x").Revision, 2)
	want(t, "references at the end", len(w.groupTraffic("1-x").References), 0)
}

// TestCanaryReplacesAnUnavailableActiveReleaseWithoutSplit checks that a canary replaces an active
// release without endpoints even if traffic cannot be split. Otherwise, the release with the fix
// could not be confirmed.
func TestCanaryReplacesAnUnavailableActiveReleaseWithoutSplit(t *testing.T) {
	w := newWorld(t, group("1-x", 1, "a 1.0.0 active 100"))
	w.policy.Spec.Provider = &byPlain
	w.policy.Spec.Domains = []v1alpha1.Domain{{Domain: newestHost}}
	w.settle()
	split := func() string { return splitOfEntry(w.facts(), newestHost, "ingress") }
	want(t, "split of a release without endpoints", split(), "")
	w.ready["b"] = 1
	w.rollout(group("1-x", 2, "b 1.0.1 canary 10", "a 1.0.0 active 90"))
	w.settle()
	want(t, "the fix", split(), "1.0.1=100")
	want(t, "confirmed", w.groupTraffic("1-x").Revision, 2)
	want(t, "withheld", cmp.Diff([]string{"a"}, w.groupTraffic("1-x").Withheld), "")
	want(t, "mode", w.groupTraffic("1-x").Split, v1alpha1.SplitWhole)
	w.ready["a"] = 1
	w.settle()
	want(t, "the active release is back", split(), "1.0.0=100")
	want(t, "withheld afterwards", len(w.groupTraffic("1-x").Withheld), 0)
	w.ready["a"] = 0
	w.settle()
	want(t, "withheld again", split(), "1.0.1=100")
}
