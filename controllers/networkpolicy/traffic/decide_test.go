package traffic

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
	"github.com/heighliner/heighliner/controllers/networkpolicy/resources"
)

const host = "1-x.shop.example.com"

func TestCanaryFromFirstReleaseToPromotion(t *testing.T) {
	w := newWorld(t, group("1-x", 1, "a 1.0.0 active 100"))
	w.pass()
	want(t, "split before any endpoint is ready", w.split(host), "")
	want(t, "reason", w.groupTraffic("1-x").Reason, reasonNoReadyEndpoints)

	w.ready["a"] = 2
	w.settle()
	want(t, "split", w.split(host), "1.0.0=100")
	want(t, "revision", w.groupTraffic("1-x").Revision, 1)
	want(t, "url", w.policy.Status.URL, "http://"+host)
	want(t, "domains", w.policy.Status.Summary.Domains, "1/1")
	want(t, "ready", w.condition("Ready"), "True Programmed")

	w.rollout(group("1-x", 2, "b 1.1.0 canary 10", "a 1.0.0 active 90"))
	w.pass()
	want(t, "split while the canary has no endpoint", w.split(host), "1.0.0=100")

	w.ready["b"] = 1
	_, now := w.pass()
	want(t, "split", w.split(host), "1.0.0=90 1.1.0=10")
	want(t, "revision before acceptance", w.groupTraffic("1-x").Revision, 1)
	want(t, "Programmed stays while the gateway has not responded", w.condition("Programmed"), "True Programmed")
	want(t, "references before acceptance", cmp.Diff([]string{"a"}, now.Groups[0].References), "")

	w.settle()
	want(t, "references", cmp.Diff([]string{"a", "b"}, w.groupTraffic("1-x").References), "")
	want(t, "revision", w.groupTraffic("1-x").Revision, 2)
	want(t, "summary", w.policy.Status.Summary.Split, "1.0.0=90 1.1.0=10")
	confirmed := w.groupTraffic("1-x").ConfirmedTime

	w.now = w.now.Add(time.Minute)
	w.settle()
	want(t, "the confirmation time does not change", w.groupTraffic("1-x").ConfirmedTime.Equal(confirmed), true)

	w.rollout(group("1-x", 3, "b 1.1.0 active 100", "a 1.0.0 deprecated 0"))
	w.pass()
	want(t, "references until confirmed", cmp.Diff([]string{"a", "b"}, w.groupTraffic("1-x").References), "")
	w.settle()
	want(t, "references", cmp.Diff([]string{"b"}, w.groupTraffic("1-x").References), "")
	want(t, "revision", w.groupTraffic("1-x").Revision, 3)
	want(t, "group Service", w.facts().Selected("shop-1-x"), "b")
	want(t, "own Service", w.facts().Selected("shop"), "b")
	want(t, "Service of the retained release", w.services[w.facts().ReleaseService("a")] != nil, true)
	want(t, "confirmed again", w.groupTraffic("1-x").ConfirmedTime.Equal(confirmed), false)

	w.rollout(group("1-x", 3, "b 1.1.0 active 100"))
	w.settle()
	want(t, "Service of the deleted release", w.services[w.facts().ReleaseService("a")] == nil, true)
}

func TestPromotionToAReleaseWithoutEndpointsMovesNothing(t *testing.T) {
	w := newWorld(t, group("1-x", 1, "a 1.0.0 active 100"))
	w.ready["a"] = 1
	w.settle()
	w.rollout(group("1-x", 2, "b 1.1.0 active 100", "a 1.0.0 deprecated 0"))
	w.settle()
	want(t, "split", w.split(host), "1.0.0=100")
	want(t, "group Service", w.facts().Selected("shop-1-x"), "a")
	want(t, "revision", w.groupTraffic("1-x").Revision, 1)
	want(t, "references", cmp.Diff([]string{"a"}, w.groupTraffic("1-x").References), "")
	want(t, "the route's stamp", revisionOf(w), 1)
	w.ready["b"] = 1
	w.settle()
	want(t, "split", w.split(host), "1.1.0=100")
	want(t, "revision", w.groupTraffic("1-x").Revision, 2)
	want(t, "the route's stamp", revisionOf(w), 2)
}

func revisionOf(w *world) int64 {
	for _, route := range w.routes {
		s, _ := resources.StampOf(route)
		return s.Revision
	}
	return -1
}

func TestWithheld(t *testing.T) {
	canary := func(revision int64) v1alpha1.ReleaseGroup {
		return group("1-x", revision, "b 1.1.0 canary 10", "a 1.0.0 active 90")
	}
	w := newWorld(t, canary(2))
	w.ready["a"], w.ready["b"] = 1, 1
	w.settle()

	w.ready["a"] = 0
	w.settle()
	want(t, "stand-in", w.split(host), "1.1.0=100")
	want(t, "withheld", cmp.Diff([]string{"a"}, w.groupTraffic("1-x").Withheld), "")
	want(t, "revision", w.groupTraffic("1-x").Revision, 2)
	want(t, "the Service still references the withheld release", cmp.Diff([]string{"a", "b"}, w.groupTraffic("1-x").References), "")

	w.ready["a"] = 1
	unavailable := canary(2)
	unavailable.Releases[1].Available = false
	w.rollout(unavailable)
	w.settle()
	want(t, "no traffic when only the first endpoint is ready", w.split(host), "1.1.0=100")
	w.rollout(canary(2))
	w.settle()
	want(t, "traffic returns when available", w.split(host), "1.0.0=90 1.1.0=10")
	want(t, "withheld", len(w.groupTraffic("1-x").Withheld), 0)

	t.Run("an abort removes the canary although no release is ready", func(t *testing.T) {
		w.ready["a"], w.ready["b"] = 0, 0
		w.settle()
		want(t, "no change", w.split(host), "1.0.0=90 1.1.0=10")
		w.rollout(group("1-x", 3, "b 1.1.0 error 0", "a 1.0.0 active 100"))
		w.settle()
		want(t, "split", w.split(host), "1.0.0=100")
		want(t, "reason", w.groupTraffic("1-x").Reason, "")
		want(t, "references", cmp.Diff([]string{"a"}, w.groupTraffic("1-x").References), "")
	})
}

func TestUnmaskIsNotReportedBeforeItIsAccepted(t *testing.T) {
	w := newWorld(t, group("1-x", 2, "b 1.1.0 canary 10", "a 1.0.0 active 90"))
	w.ready["a"] = 1
	w.settle()
	want(t, "revision", w.groupTraffic("1-x").Revision, 2)
	want(t, "withheld", cmp.Diff([]string{"b"}, w.groupTraffic("1-x").Withheld), "")
	w.ready["b"] = 1
	w.pass()
	want(t, "split as written", w.split(host), "1.0.0=90 1.1.0=10")
	want(t, "withheld until accepted", cmp.Diff([]string{"b"}, w.groupTraffic("1-x").Withheld), "")
	w.settle()
	want(t, "withheld", len(w.groupTraffic("1-x").Withheld), 0)
}

func TestServicesOnly(t *testing.T) {
	w := newWorld(t, group("1-x", 1, "a 1.0.0 active 100"))
	w.policy.Spec.Provider, w.policy.Spec.Domains = nil, nil
	w.ready["a"] = 1
	w.settle()
	want(t, "split mode", w.groupTraffic("1-x").Split, v1alpha1.SplitWhole)
	want(t, "revision", w.groupTraffic("1-x").Revision, 1)
	want(t, "summary", w.policy.Status.Summary.Split, "1.0.0=100")
	want(t, "ready", w.condition("Ready"), "True Programmed")

	w.rollout(group("1-x", 2, "b 1.1.0 canary 50", "a 1.0.0 active 50"))
	w.ready["b"] = 1
	w.settle()
	want(t, "revision of the step", w.groupTraffic("1-x").Revision, 2)
	want(t, "Service", w.facts().Selected("shop-1-x"), "a")

	w.rollout(group("1-x", 3, "b 1.1.0 active 100", "a 1.0.0 deprecated 0"))
	w.lag["shop-1-x"] = "a"
	w.settle()
	want(t, "Service", w.facts().Selected("shop-1-x"), "b")
	want(t, "revision while the slices lag", w.groupTraffic("1-x").Revision, 2)
	want(t, "references", cmp.Diff([]string{"a", "b"}, w.groupTraffic("1-x").References), "")
	delete(w.lag, "shop-1-x")
	w.settle()
	want(t, "revision", w.groupTraffic("1-x").Revision, 3)
	want(t, "references", cmp.Diff([]string{"b"}, w.groupTraffic("1-x").References), "")
}

// TestSharedDomainAdvisesWiderGroups checks that the warning suggests only groupBy values that
// result in groups with more versions.
func TestSharedDomainAdvisesWiderGroups(t *testing.T) {
	preview := group("pr-7", 1, "a 1.0.0 active 100")
	preview.PullRequest = 7
	for name, test := range map[string]struct {
		group  v1alpha1.ReleaseGroup
		advice string
	}{
		"Major":   {group("1-x", 1, "a 1.0.0 active 100"), "set spec.updateStrategy.canary.steps of the Microservice, use {{.ReleaseGroupName}} in the domain, or set versioning.groupBy of the ImagePolicy to All"},
		"Minor":   {group("1-2-x", 1, "a 1.2.0 active 100"), "set spec.updateStrategy.canary.steps of the Microservice, use {{.ReleaseGroupName}} in the domain, or set versioning.groupBy of the ImagePolicy to Major or All"},
		"preview": {preview, "use {{.ReleaseGroupName}} in the domain"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, test.group)
			w.policy.Spec.Domains[0].Domain = "shop.example.com"
			w.ms.Spec.UpdateStrategy.Canary = &v1alpha1.CanaryStrategy{}
			w.ready["a"] = 1
			w.settle()
			_, advice, _ := strings.Cut(meta.FindStatusCondition(w.policy.Status.Conditions, v1alpha1.ConditionDomainShared).Message, "canary steps: ")
			want(t, "advice", advice, test.advice)
		})
	}
}

func TestNewestDomainMovesBetweenGroups(t *testing.T) {
	const fixed = "shop.example.com"
	one := group("1-x", 1, "a 1.0.0 active 100")
	w := newWorld(t, one)
	w.policy.Spec.Domains[0].Domain = fixed
	w.ms.Spec.UpdateStrategy.Canary = &v1alpha1.CanaryStrategy{}
	w.ready["a"] = 1
	w.settle()
	want(t, "split", w.split(fixed), "1.0.0=100")
	want(t, "warning before the first move", w.condition("DomainShared"), "True DomainShared")

	w.rollout(group("2-x", 1, "b 2.0.0 active 100"), one)
	w.settle()
	want(t, "stays until the new group serves", w.split(fixed), "1.0.0=100")
	want(t, "own Service", w.facts().Selected("shop"), "a")

	name := providers.Sorted(w.routes)[0]
	w.ready["b"] = 1
	w.pass()
	want(t, "the domain has moved", w.split(fixed), "2.0.0=100")
	want(t, "the same route", cmp.Diff([]string{name}, providers.Sorted(w.routes)), "")
	want(t, "the old group's references", slices.Contains(w.groupTraffic("1-x").References, "a"), true)
	w.pass()
	want(t, "the new group is not confirmed", w.groupTraffic("2-x").Revision, 0)
	w.settle()
	want(t, "revision", w.groupTraffic("2-x").Revision, 1)
	want(t, "the group's own Service stays", cmp.Diff([]string{"a"}, w.groupTraffic("1-x").References), "")
	want(t, "mode", w.groupTraffic("1-x").Split, v1alpha1.SplitWhole)

	w.ready["b"] = 0
	w.settle()
	want(t, "endpoints do not move the domain back", w.split(fixed), "2.0.0=100")
}

func TestGroupThatIsAbsentIsRemoved(t *testing.T) {
	w := newWorld(t, group("fix-7", 1, "p 0.0.0-7 active 100"), group("1-x", 1, "a 1.0.0 active 100"))
	w.ready["a"], w.ready["p"] = 1, 1
	w.settle()
	closing := group("fix-7", 2, "p 0.0.0-7 deprecated 0")
	closing.Phase = v1alpha1.GroupClosing
	w.rollout(closing, group("1-x", 1, "a 1.0.0 active 100"))
	w.pass()
	want(t, "route", w.split("fix-7.shop.example.com"), "")
	want(t, "references until the removal is observed", cmp.Diff([]string{"p"}, w.groupTraffic("fix-7").References), "")
	w.settle()
	want(t, "revision", w.groupTraffic("fix-7").Revision, 2)
	want(t, "references", len(w.groupTraffic("fix-7").References), 0)
	want(t, "group Service", w.services["shop-fix-7"] == nil, true)
	want(t, "release Service stays with its release", w.services[w.facts().ReleaseService("p")] != nil, true)
	w.rollout(group("1-x", 1, "a 1.0.0 active 100"))
	w.settle()
	want(t, "release Service", w.services[w.facts().ReleaseService("p")] == nil, true)
	want(t, "groups", len(w.policy.Status.Groups), 1)
}

func TestPin(t *testing.T) {
	const old = "old.example.com"
	groups := []v1alpha1.ReleaseGroup{group("1-x", 2, "b 1.1.0 active 100", "a 1.0.0 deprecated 0", "c 0.9.0 error 0", "d 0.8.0 pending 0")}
	for name, tc := range map[string]struct{ version, split, reason, ready string }{
		"retained": {"1.0.0", "1.0.0=100", "", "True Programmed"},
		"active":   {"1.1.0", "1.1.0=100", "", "True Programmed"},
		"error":    {"0.9.0", "", reasonPinnedUnavailable, "False PinnedReleaseUnavailable"},
		"pending":  {"0.8.0", "", reasonPinnedUnavailable, "False PinnedReleaseUnavailable"},
		"absent":   {"7.0.0", "", reasonPinnedUnavailable, "False PinnedReleaseUnavailable"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, groups...)
			w.policy.Spec.Domains = append(w.policy.Spec.Domains, v1alpha1.Domain{Domain: old, Release: &v1alpha1.DomainRelease{Version: tc.version}})
			w.ready = map[string]int{"a": 1, "b": 1, "c": 1, "d": 1}
			w.settle()
			want(t, "split", w.split(old), tc.split)
			want(t, "reason", w.policy.Status.Domains[1].Reason, tc.reason)
			want(t, "ready", w.condition("Ready"), tc.ready)
			want(t, "revision", w.groupTraffic("1-x").Revision, 2)
			if tc.version == "1.0.0" {
				want(t, "pinned", cmp.Diff([]string{"a"}, w.groupTraffic("1-x").Pinned), "")
				want(t, "references", cmp.Diff([]string{"a", "b"}, w.groupTraffic("1-x").References), "")
			}
		})
	}
}

func TestInvalidDomainKeepsLiveRoutes(t *testing.T) {
	w := newWorld(t, group("1-x", 1, "a 1.0.0 active 100"))
	w.ready["a"] = 1
	w.settle()
	w.policy.Spec.Domains[0].Domain = "{{.Version}}_.example.com"
	w.policy.Generation++
	w.settle()
	want(t, "split", w.split(host), "1.0.0=100")
	want(t, "accepted", w.condition("Accepted"), "False InvalidDomain")
	want(t, "ready", w.condition("Ready"), "False InvalidDomain")
	w.rollout(group("1-x", 2, "b 1.1.0 active 100", "a 1.0.0 deprecated 0"))
	w.ready["b"] = 1
	w.settle()
	want(t, "the host follows the releases", w.split(host), "1.1.0=100")
	want(t, "revision", w.groupTraffic("1-x").Revision, 2)
	w.policy.Spec.Domains[0].Domain = "good.example.com"
	w.settle()
	want(t, "fixed", w.split("good.example.com"), "1.1.0=100")
	want(t, "the old host", w.split(host), "")
	want(t, "ready", w.condition("Ready"), "True Programmed")
}

// paths returns the paths of all routes, with the weights of their releases.
func (w *world) paths() (out []string) {
	d := newPlanner(w.facts())
	for _, name := range providers.Sorted(d.Live) {
		out = append(out, fmt.Sprint(d.Live[name].Path, " ", d.backendsOf(d.Live[name])))
	}
	slices.Sort(out)
	return out
}

func TestEditedPathKeepsTheOldOneUntilItIsServed(t *testing.T) {
	w := newWorld(t, group("1-x", 1, "b 1.1.0 canary 50", "a 1.0.0 active 50"))
	w.ready["a"], w.ready["b"] = 1, 1
	w.policy.Spec.Domains = []v1alpha1.Domain{{Domain: "www.example.com", Path: "/shop"}}
	w.settle()
	w.policy.Spec.Domains[0].Path = "/cart"
	w.pass()
	w.pass()
	want(t, "no gateway has accepted the new path", cmp.Diff([]string{"/cart map[a:50 b:50]", "/shop map[a:50 b:50]"}, w.paths()), "")
	w.accept()
	w.settle()
	want(t, "accepted", cmp.Diff([]string{"/cart map[a:50 b:50]"}, w.paths()), "")

	w.claims = []Claim{{host: "www.example.com", path: "/old", policy: "other/older"}}
	w.policy.Spec.Domains[0].Path = "/old"
	w.settle()
	want(t, "claimed by another policy", cmp.Diff([]string{"/cart map[a:50 b:50]"}, w.paths()), "")
	want(t, "ready", w.condition("Ready"), "False DomainConflict")
	w.rollout(group("1-x", 2, "b 1.1.0 error 0", "a 1.0.0 active 100"))
	w.settle()
	want(t, "rolled back", cmp.Diff([]string{"/cart map[a:100]"}, w.paths()), "")
	w.claims = append(w.claims, Claim{host: "www.example.com", path: "/cart", policy: "other/older"})
	w.settle()
	want(t, "the other path is claimed too", len(w.paths()), 0)
}

func TestWrongGatewayKeepsTheOldOne(t *testing.T) {
	w := newWorld(t, group("1-x", 1, "a 1.0.0 active 100"))
	w.ready["a"] = 1
	w.settle()
	w.policy.Spec.Provider.Gateway.ParentRefs = []v1alpha1.ParentReference{{Name: "typo"}}
	w.policy.Generation++
	w.settle()
	parents := func() (names []string) {
		for _, route := range w.routes {
			for _, p := range route.Spec.ParentRefs {
				names = append(names, string(p.Name))
			}
		}
		return names
	}
	want(t, "parents", cmp.Diff([]string{"typo", "public"}, parents()), "")
	want(t, "ready", w.condition("Ready"), "False ParentNotFound")
	w.gateways["prod/typo"] = gateway(80, "HTTP", "")
	w.settle()
	want(t, "parents", cmp.Diff([]string{"typo"}, parents()), "")
	want(t, "ready", w.condition("Ready"), "True Programmed")
}

func TestNoAnswerBecomesAFaultAfterTheGrace(t *testing.T) {
	w := newWorld(t, group("1-x", 1, "a 1.0.0 active 100"))
	w.ready["a"] = 1
	w.pass()
	w.pass()
	want(t, "ready", w.condition("Ready"), "False Pending")
	want(t, "reconciling", w.condition("Reconciling"), "True Pending")
	w.now = w.now.Add(providers.Grace + time.Second)
	w.pass()
	want(t, "ready", w.condition("Ready"), "False NotAccepted")
	want(t, "group", w.groupTraffic("1-x").Reason, ReasonNotAccepted)
	w.accept()
	w.settle()
	want(t, "ready", w.condition("Ready"), "True Programmed")
}

func TestNameConflictDoesNotStopTheRest(t *testing.T) {
	w := newWorld(t, group("1-x", 1, "a 1.0.0 active 100"))
	w.foreign["shop"] = true
	w.ready["a"] = 1
	w.settle()
	want(t, "conflict", w.condition("NameConflict"), "True NameConflict")
	want(t, "ready", w.condition("Ready"), "True Programmed")
	want(t, "revision", w.groupTraffic("1-x").Revision, 1)
	delete(w.foreign, "shop")
	w.settle()
	want(t, "conflict", w.condition("NameConflict"), "")
}

func TestMicroserviceGoneAndBack(t *testing.T) {
	w := newWorld(t, group("1-x", 7, "a 1.0.0 active 100"))
	w.ready["a"] = 1
	w.settle()
	gone := w.ms
	w.ms = nil
	out, _ := w.pass()
	want(t, "writes", len(out.Services)+len(out.Routes)+len(out.DeleteRoutes)+len(out.DeleteServices), 0)
	want(t, "resolved", w.condition("ResolvedRefs"), "False MicroserviceNotFound")
	want(t, "still reported", w.groupTraffic("1-x").Revision, 7)

	w.ms = gone.DeepCopy()
	w.ms.UID, w.ms.Status = "another", v1alpha1.MicroserviceStatus{}
	w.settle()
	want(t, "an empty rollout state removes nothing", w.split(host), "a=100")
	w.rollout(group("1-x", 1, "b 1.0.0 pending 0"))
	w.settle()
	want(t, "no active release yet", w.split(host), "a=100")
	want(t, "revision of the old rollout state", w.groupTraffic("1-x").Revision, 0)
	w.rollout(group("1-x", 2, "b 1.0.0 active 100"))
	w.ready["b"] = 1
	w.settle()
	want(t, "split", w.split(host), "1.0.0=100")
	want(t, "revision", w.groupTraffic("1-x").Revision, 2)
	want(t, "references", cmp.Diff([]string{"b"}, w.groupTraffic("1-x").References), "")
	want(t, "Service of the lost release", w.services[w.facts().ReleaseService("a")] == nil, true)
}

func TestGatewayAPIMissing(t *testing.T) {
	w := newWorld(t, group("1-x", 1, "a 1.0.0 active 100"))
	w.ready["a"], w.noAPI = 1, true
	w.settle()
	want(t, "accepted", w.condition("Accepted"), "False GatewayAPIMissing")
	want(t, "revision", w.groupTraffic("1-x").Revision, 0)
	want(t, "Services", w.facts().Selected("shop"), "a")
}

func TestHostsStayInTheirRoutes(t *testing.T) {
	w := newWorld(t, group("1-x", 1, "a 1.0.0 active 100"))
	w.ready["a"] = 1
	w.policy.Spec.Domains = nil
	for _, c := range "bcdefghijklmnopqrst" {
		w.policy.Spec.Domains = append(w.policy.Spec.Domains, v1alpha1.Domain{Domain: string(c) + ".example.com"})
	}
	w.settle()
	want(t, "routes", len(w.routes), 2)
	before := map[string]string{}
	for name, route := range w.routes {
		for _, h := range hostsOf(route) {
			before[h] = name
		}
	}
	w.policy.Spec.Domains = append([]v1alpha1.Domain{{Domain: "a.example.com"}}, w.policy.Spec.Domains...)
	w.settle()
	for name, route := range w.routes {
		for _, h := range hostsOf(route) {
			if before[h] != "" && before[h] != name {
				t.Errorf("%s moved from %s to %s", h, before[h], name)
			}
		}
	}
	want(t, "domains", w.policy.Status.Summary.Domains, "20/20")
}

func TestConflicts(t *testing.T) {
	w := newWorld(t, group("1-x", 1, "a 1.0.0 active 100"))
	w.ready["a"] = 1
	w.policy.Spec.Domains = []v1alpha1.Domain{
		{Domain: "shop.example.com"}, {Domain: "shop.example.com"}, {Domain: "shop.example.com", Path: "/api"}, {Domain: "taken.example.com"},
	}
	w.claims = []Claim{{host: "taken.example.com", path: "/", policy: "other/first"}}
	now := w.settle()
	var reasons []string
	for _, d := range now.Domains {
		reasons = append(reasons, d.Reason)
	}
	want(t, "reasons", cmp.Diff([]string{"", reasonDomainConflict, "", reasonDomainConflict}, reasons), "")
	want(t, "revision follows the routes", w.groupTraffic("1-x").Revision, 1)
	want(t, "ready", w.condition("Ready"), "False DomainConflict")
	w.claims = nil
	w.policy.Spec.Domains = w.policy.Spec.Domains[2:]
	w.settle()
	want(t, "ready", w.condition("Ready"), "True Programmed")
}

// TestBranchNamedLikeAHostOfTheSamePolicy checks that a preview whose branch is named like a host
// of the policy does not get that host.
func TestBranchNamedLikeAHostOfTheSamePolicy(t *testing.T) {
	production := &v1alpha1.DomainGroups{Policy: v1alpha1.GroupsNamed, Names: []string{"1.x"}}
	for name, tc := range map[string]struct {
		templated, literal v1alpha1.Domain
		split              string
	}{
		"the literal entry is routed":       {literal: v1alpha1.Domain{Groups: production}, split: "1.0.0=100"},
		"the literal entry has no group":    {literal: v1alpha1.Domain{Groups: &v1alpha1.DomainGroups{Policy: v1alpha1.GroupsNamed, Names: []string{"9.x"}}}},
		"the preview has another path":      {templated: v1alpha1.Domain{Path: "/api"}, literal: v1alpha1.Domain{Groups: production}, split: "1.0.0=100"},
		"the literal domain has no release": {literal: v1alpha1.Domain{Release: &v1alpha1.DomainRelease{Version: "9.0.0"}}},
	} {
		t.Run(name, func(t *testing.T) {
			pr := group("www-17", 1, "p 0.0.0-abc active 100")
			pr.Name, pr.Level, pr.PullRequest = "www", v1alpha1.LevelPreview, 17
			w := newWorld(t, pr, group("1-x", 1, "a 1.0.0 active 100"))
			w.ready["a"], w.ready["p"] = 1, 1
			tc.templated.Domain, tc.literal.Domain = "{{.StreamName}}.example.com", "www.example.com"
			w.policy.Spec.Domains = []v1alpha1.Domain{tc.templated, tc.literal}
			status := w.settle()
			want(t, "split", w.split("www.example.com"), tc.split)
			want(t, "reason", status.Domains[0].Reason, reasonDomainConflict)
		})
	}
}

// TestBranchNamedLikeAHostOfAnotherPolicy checks that a preview does not get a host of another
// policy, and that no other policy gets a host that a preview already serves.
func TestBranchNamedLikeAHostOfAnotherPolicy(t *testing.T) {
	for name, tc := range map[string]struct {
		claim  Claim
		served bool
		split  string
	}{
		"younger, and served":                      {claim: Claim{path: "/", literal: true, younger: true}},
		"younger, with another path":               {claim: Claim{path: "/shop", literal: true, younger: true}},
		"older, with another path":                 {claim: Claim{path: "/shop", literal: true}},
		"younger, preview already served":          {claim: Claim{path: "/", literal: true, younger: true}, served: true, split: "0.0.0-abc=100"},
		"older, also a preview":                    {claim: Claim{path: "/"}},
		"older, also a preview, with another path": {claim: Claim{path: "/shop"}, split: "0.0.0-abc=100"},
	} {
		t.Run(name, func(t *testing.T) {
			pr := group("www-17", 1, "p 0.0.0-abc active 100")
			pr.Name, pr.Level, pr.PullRequest = "www", v1alpha1.LevelPreview, 17
			w := newWorld(t, pr)
			w.ready["p"] = 1
			w.policy.Spec.Domains = []v1alpha1.Domain{{Domain: "{{.StreamName}}.example.com"}}
			if tc.served {
				w.settle()
			}
			tc.claim.host, tc.claim.policy = "www.example.com", "other/shop"
			w.claims = []Claim{tc.claim}
			w.settle()
			want(t, "split", w.split("www.example.com"), tc.split)
		})
	}
	w := newWorld(t, group("1-x", 1, "a 1.0.0 active 100"))
	w.ready["a"] = 1
	w.claims = []Claim{{host: host, path: "/", policy: "other/shop", literal: true, younger: true}}
	w.settle()
	want(t, "a group other than a preview", w.split(host), "1.0.0=100")
}

// TestTooManyPreviews checks that new previews do not remove hosts that are served, or hosts of
// groups that are not previews.
func TestTooManyPreviews(t *testing.T) {
	groups := []v1alpha1.ReleaseGroup{group("1-x", 1, "a 1.0.0 active 100")}
	open := func(name string) {
		pr := group(name, 1, name+" 0.0.0 active 100")
		pr.Level = v1alpha1.LevelPreview
		groups = append([]v1alpha1.ReleaseGroup{pr}, groups...)
	}
	w := newWorld(t)
	w.ready["a"] = 1
	w.policy.Spec.Domains = []v1alpha1.Domain{
		{Domain: "{{.ReleaseGroupName}}.a.example.com"}, {Domain: "{{.ReleaseGroupName}}.b.example.com"},
		{Domain: "www.example.com", Groups: &v1alpha1.DomainGroups{Policy: v1alpha1.GroupsNamed, Names: []string{"1.x"}}},
	}
	for i := range 253 {
		open(fmt.Sprintf("p%d", i))
		w.ready[fmt.Sprintf("p%d", i)] = 1
	}
	w.rollout(groups...)
	w.settle()
	want(t, "the previews fit", w.condition("Ready"), "True Programmed")
	routed := func() map[string]string {
		d, out := newPlanner(w.facts()), map[string]string{}
		for _, route := range d.Live {
			for _, host := range route.Hostnames {
				out[host] = fmt.Sprint(d.backendsOf(route))
			}
		}
		return out
	}
	served := routed()
	open("new")
	w.ready["new"] = 1
	w.rollout(groups...)
	w.settle()
	want(t, "condition", w.condition("Ready"), "True Programmed")
	open("newer")
	w.ready["newer"] = 1
	w.rollout(groups...)
	status := w.settle()
	want(t, "condition", w.condition("Ready"), "False TooManyDomains")
	want(t, "rows", len(status.Domains), maxRows)
	now := routed()
	for host, split := range served {
		want(t, host, now[host], split)
	}
	for _, text := range []string{"spec.domains expands to 513 hosts", `"newer.b.example.com" of spec.domains[1]`} {
		if c := meta.FindStatusCondition(status.Conditions, "Ready"); !strings.Contains(c.Message, text) {
			t.Errorf("%q is not in %q", text, c.Message)
		}
	}
	w.ready["c"] = 1
	w.rollout(append([]v1alpha1.ReleaseGroup{group("2-x", 1, "c 2.0.0 active 100")}, groups...)...)
	w.settle()
	want(t, "a new group", w.split("2-x.a.example.com"), "2.0.0=100")
	want(t, "the old group", w.split("www.example.com"), "1.0.0=100")
}

// TestMissingTargetRemovesNoRoute checks that a missing group or version removes no
// route, and that the remaining route follows the releases.
func TestMissingTargetRemovesNoRoute(t *testing.T) {
	named := func(names ...string) *v1alpha1.DomainGroups {
		return &v1alpha1.DomainGroups{Policy: v1alpha1.GroupsNamed, Names: names}
	}
	version := func(v string) *v1alpha1.DomainRelease { return &v1alpha1.DomainRelease{Version: v} }
	const www, each = "www.example.com", "{{.ReleaseGroupName}}.example.com"
	for name, tc := range map[string]struct {
		before, after v1alpha1.Domain
		host          string
		// kept is the split after the edit, and followed is the split after a promotion.
		kept, followed, ready string
	}{
		"no group with the name":         {v1alpha1.Domain{Domain: www}, v1alpha1.Domain{Domain: www, Groups: named("1.y")}, www, "1.0.0=100", "1.1.0=100", "False GroupNotFound"},
		"no group, with a template":      {v1alpha1.Domain{Domain: each}, v1alpha1.Domain{Domain: each, Groups: named("1.y")}, "1-x.example.com", "1.0.0=100", "1.1.0=100", "False GroupNotFound"},
		"no release of the version":      {v1alpha1.Domain{Domain: www}, v1alpha1.Domain{Domain: www, Release: version("9.0.0")}, www, "1.0.0=100", "1.1.0=100", "False PinnedReleaseUnavailable"},
		"pinned, no other release":       {v1alpha1.Domain{Domain: www, Release: version("1.0.0")}, v1alpha1.Domain{Domain: www, Release: version("9.0.0")}, www, "1.0.0=100", "1.0.0=100", "False PinnedReleaseUnavailable"},
		"pinned, no group with the name": {v1alpha1.Domain{Domain: www, Release: version("1.0.0")}, v1alpha1.Domain{Domain: www, Groups: named("1.y")}, www, "1.0.0=100", "1.0.0=100", "False GroupNotFound"},
		"another host":                   {v1alpha1.Domain{Domain: www}, v1alpha1.Domain{Domain: "w.example.com", Groups: named("1.y")}, www, "", "", "False GroupNotFound"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, group("1-x", 1, "a 1.0.0 active 100"))
			w.ready["a"], w.ready["b"] = 1, 1
			w.policy.Spec.Domains = []v1alpha1.Domain{tc.before}
			w.settle()
			w.policy.Spec.Domains = []v1alpha1.Domain{tc.after}
			w.settle()
			want(t, "split", w.split(tc.host), tc.kept)
			want(t, "ready", w.condition("Ready"), tc.ready)
			w.rollout(group("1-x", 2, "b 1.1.0 active 100", "a 1.0.0 deprecated 0"))
			w.settle()
			want(t, "after a promotion", w.split(tc.host), tc.followed)
			want(t, "revision", w.groupTraffic("1-x").Revision, 2)
			closing := group("1-x", 3, "b 1.1.0 deprecated 0")
			closing.Phase = v1alpha1.GroupClosing
			w.ready["c"] = 1
			w.rollout(group("2-x", 1, "c 2.0.0 active 100"), closing)
			w.settle()
			want(t, "after its group is gone", w.split(tc.host), "")
		})
	}
}

// TestTargetWithoutEndpointsRemovesNoRoute checks that a domain or listener keeps its live target
// until its new target has a ready endpoint, and that the group of the target is confirmed meanwhile.
func TestTargetWithoutEndpointsRemovesNoRoute(t *testing.T) {
	const www = "www.example.com"
	pin, older := &v1alpha1.DomainRelease{Version: "1.0.0"}, &v1alpha1.DomainGroups{Policy: v1alpha1.GroupsNamed, Names: []string{"0-x"}}
	for name, tc := range map[string]struct {
		edit func(*v1alpha1.NetworkPolicySpec)
		// awaited is the version without endpoints.
		awaited string
		pinned  []string
	}{
		"version":                {func(s *v1alpha1.NetworkPolicySpec) { s.Domains[0].Release = pin }, "1.0.0", []string{"a"}},
		"version and path":       {func(s *v1alpha1.NetworkPolicySpec) { s.Domains[0].Release, s.Domains[0].Path = pin, "/v1" }, "1.0.0", []string{"a"}},
		"group":                  {func(s *v1alpha1.NetworkPolicySpec) { s.Domains[0].Groups = older }, "0.1.0", nil},
		"group and path":         {func(s *v1alpha1.NetworkPolicySpec) { s.Domains[0].Groups, s.Domains[0].Path = older, "/v0" }, "0.1.0", nil},
		"group and protocol":     {func(s *v1alpha1.NetworkPolicySpec) { s.Domains[0].Groups, s.Domains[0].Port = older, "tls" }, "0.1.0", nil},
		"version for a listener": {func(s *v1alpha1.NetworkPolicySpec) { s.Listeners[0].Release = pin }, "1.0.0", []string{"a"}},
		"group for a listener":   {func(s *v1alpha1.NetworkPolicySpec) { s.Listeners[0].Groups = older }, "0.1.0", nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := manyPorts(t)
			zero := group("0-x", 1, "z 0.1.0 active 100")
			w.rollout(group("1-x", 1, "b 1.1.0 active 100", "a 1.0.0 deprecated 0"), zero)
			w.ready = map[string]int{"b": 1}
			w.policy.Spec.Domains = []v1alpha1.Domain{{Domain: www, Port: "http"}, {Domain: "other.example.com", Port: "http", Path: "/other"}}
			w.policy.Spec.Listeners = []v1alpha1.Listener{listener("tcp", "first")}
			w.settle()
			versions := strings.NewReplacer("map[a:100]", "1.0.0=100", "map[b:100]", "1.1.0=100", "map[z:100]", "0.1.0=100")
			edited := func() (split, reason string) {
				if w.policy.Spec.Listeners[0].Release != nil || w.policy.Spec.Listeners[0].Groups != nil {
					if live := w.facts().Live[listenerKey("tcp", w.policy.Spec.Ports[4]).Name("shop", 0)]; live != nil {
						split = versions.Replace(fmt.Sprint(newPlanner(w.facts()).backendsOf(live)))
					}
					return split, w.policy.Status.Listeners[0].Reason
				}
				return w.splitOf(www), w.policy.Status.Domains[0].Reason
			}
			w.change(tc.edit)
			for range 2 { // The second round follows a write.
				w.settle()
				split, reason := edited()
				want(t, "previous target", split, "1.1.0=100")
				want(t, "reason", reason, reasonNoReadyEndpoints)
				want(t, "pinned, so that the planner starts pods", cmp.Diff(tc.pinned, w.groupTraffic("1-x").Pinned), "")
				want(t, "ready", w.condition("Ready"), "False "+reasonNoReadyEndpoints)
				w.rollout(group("1-x", 2, "b 1.1.0 active 100", "a 1.0.0 deprecated 0"), zero)
			}
			want(t, "the other domain", w.split("other.example.com"), "1.1.0=100")
			want(t, "revision", w.groupTraffic("1-x").Revision, 2)
			w.ready["a"], w.ready["z"] = 1, 1
			w.settle()
			split, reason := edited()
			want(t, "then", split, tc.awaited+"=100")
			want(t, "then: reason", reason, "")
		})
	}
}

// TestInvalidDomainWithoutEndpointsKeepsItsTarget checks that a live host keeps its route and target
// if its domain becomes invalid in the same edit that moves it from a version to a release without
// endpoints.
func TestInvalidDomainWithoutEndpointsKeepsItsTarget(t *testing.T) {
	const host = "old.example.com"
	w := newWorld(t, group("1-x", 1, "b 1.1.0 active 100", "a 1.0.0 deprecated 0"))
	w.ready["a"] = 1
	w.policy.Spec.Domains = []v1alpha1.Domain{{Domain: host, Release: &v1alpha1.DomainRelease{Version: "1.0.0"}}}
	w.settle()
	want(t, "before", w.split(host), "1.0.0=100")
	w.change(func(s *v1alpha1.NetworkPolicySpec) {
		s.Domains[0].Domain, s.Domains[0].Release = "bad_{{.ReleaseGroupName}}.example.com", nil
	})
	w.settle()
	want(t, "after", w.split(host), "1.0.0=100")
	want(t, "reason", w.policy.Status.Domains[0].Reason, reasonInvalidDomain)
	want(t, "ready", w.condition("Ready"), "False "+reasonInvalidDomain)
}

// TestRowsOfOneKeyWithDifferentTargets checks that hosts that keep different targets do not share a
// route although their domains are equal, and that they share a route when their targets are equal.
func TestRowsOfOneKeyWithDifferentTargets(t *testing.T) {
	version := func(v string) *v1alpha1.DomainRelease { return &v1alpha1.DomainRelease{Version: v} }
	const first, second, third = "a.example.com", "b.example.com", "c.example.com"
	for name, hosts := range map[string][]string{"the pinned host is first": {first, second}, "the pinned host is last": {second, first}} {
		t.Run(name, func(t *testing.T) {
			old, www := hosts[0], hosts[1]
			w := newWorld(t, group("1-x", 1, "b 1.1.0 active 100", "a 1.0.0 deprecated 0"))
			w.ready["a"], w.ready["b"] = 1, 1
			w.policy.Spec.Domains = []v1alpha1.Domain{{Domain: old, Release: version("1.0.0")}, {Domain: www}}
			w.settle()
			w.change(func(s *v1alpha1.NetworkPolicySpec) {
				for i := range s.Domains {
					s.Domains[i].Release = version("9.0.0")
				}
			})
			for range 2 {
				w.settle()
				want(t, "the pinned host", w.split(old), "1.0.0=100")
				want(t, "the other host", w.split(www), "1.1.0=100")
				w.rollout(group("1-x", 2, "b 1.1.0 active 100", "a 1.0.0 deprecated 0"))
			}
			w.change(func(s *v1alpha1.NetworkPolicySpec) {
				s.Domains = []v1alpha1.Domain{{Domain: old, Release: version("1.0.0")}, {Domain: www, Release: version("1.0.0")}, {Domain: third, Release: version("1.0.0")}}
			})
			w.settle()
			want(t, "then: split", w.split(old)+" "+w.split(www)+" "+w.split(third), "1.0.0=100 1.0.0=100 1.0.0=100")
			want(t, "then: routes", len(w.routes), 1)
		})
	}
}
