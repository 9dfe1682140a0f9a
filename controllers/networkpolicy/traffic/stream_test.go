package traffic

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
)

const newestHost = "shop.example.com"

// moving returns a world in which 2.0.0, the first release of 2.x, has the given weight on the
// domains that follow the newest group.
func moving(t fatal, weight string, older ...string) *world {
	w := newWorld(t, group("1-x", 1, "a 1.0.0 active 100"))
	w.ms.Spec.UpdateStrategy.Canary = &v1alpha1.CanaryStrategy{Steps: []v1alpha1.CanaryStep{{Weight: 10}}}
	w.policy.Spec.Domains = append(w.policy.Spec.Domains, v1alpha1.Domain{Domain: newestHost})
	w.ready = map[string]int{"a": 1, "b": 1, "c": 1}
	w.settle()
	if older == nil {
		older = []string{"a 1.0.0 active 100"}
	}
	one := group("1-x", 1, older...)
	w.rollout(group("2-x", 0, "b 2.0.0 pending 0"), one)
	w.settle()
	w.rollout(group("2-x", 3, "b 2.0.0 canary "+weight), one)
	return w
}

func TestNewestDomainMovesByWeights(t *testing.T) {
	w := moving(t, "10")
	name := providers.Sorted(w.routes)
	w.pass()
	want(t, "split", w.split(newestHost), "1.0.0=90 2.0.0=10")
	want(t, "not confirmed before it is accepted", w.groupTraffic("2-x").Revision, 0)
	w.settle()
	want(t, "in place", slices.Contains(providers.Sorted(w.routes), name[0]), true)
	want(t, "confirmed", w.groupTraffic("2-x").Revision, 3)
	want(t, "the older group stays confirmed", w.groupTraffic("1-x").Revision, 1)
	want(t, "its own domain", w.split("2-x.shop.example.com"), "2.0.0=100")
	want(t, "its own Service", w.facts().Selected("shop-2-x"), "b")
	want(t, "the policy's Service", w.facts().Selected("shop"), "a")
	want(t, "the domains route to the older group", w.groupTraffic("1-x").Newest, true)
	want(t, "the domains route to the newer group", w.groupTraffic("2-x").Newest, false)
	want(t, "mode", w.groupTraffic("2-x").Split, v1alpha1.SplitWeighted)
	want(t, "shared", w.condition("DomainShared"), "")
	want(t, "ready", w.condition("Ready"), "True Programmed")
	want(t, "references", cmp.Diff([]string{"b"}, w.groupTraffic("2-x").References), "")

	w.rollout(group("2-x", 4, "b 2.0.0 active 100"), group("1-x", 1, "a 1.0.0 active 100"))
	w.settle()
	want(t, "promoted", w.split(newestHost), "2.0.0=100")
	want(t, "confirmed after the promotion", w.groupTraffic("2-x").Revision, 4)
	want(t, "the domains route to the newer group", w.groupTraffic("2-x").Newest, true)
	want(t, "the policy's Service", w.facts().Selected("shop"), "b")
}

// TestNewestDomainReturns checks that a rejected release keeps its pods until the gateway has
// accepted a route of the older group that does not refer to the rejected release.
func TestNewestDomainReturns(t *testing.T) {
	w := moving(t, "50")
	w.settle()
	want(t, "split", w.split(newestHost), "1.0.0=50 2.0.0=50")
	w.rollout(group("2-x", 4, "b 2.0.0 error 0"), group("1-x", 1, "a 1.0.0 active 100"))
	w.pass()
	want(t, "removed from the route", w.split(newestHost), "1.0.0=100")
	want(t, "its own domain", w.split("2-x.shop.example.com"), "")
	want(t, "still referenced", slices.Contains(w.groupTraffic("2-x").References, "b"), true)
	w.pass()
	want(t, "referenced until removal is accepted", slices.Contains(w.groupTraffic("2-x").References, "b"), true)
	want(t, "not confirmed", w.groupTraffic("2-x").Revision, 3)
	w.settle()
	want(t, "remaining references", len(w.groupTraffic("2-x").References), 0)
	want(t, "confirmed", w.groupTraffic("2-x").Revision, 4)
	want(t, "its Service", w.services["shop-2-x"] == nil, true)
}

// TestNewestDomainReturnsToAGroupWithoutRelease rolls back or supersedes the canary of a newer
// group while the older group has no endpoints and the domain routes only to the canary. The domain
// returns to the older group, and is served as soon as that group has an endpoint. The route of the
// domain is not deleted.
func TestNewestDomainReturnsToAGroupWithoutRelease(t *testing.T) {
	for back, named := range map[string][]string{"b 2.0.0 error 0": nil, "b 2.0.0 deprecated 0": {"b"}} {
		w, route := onlyNewest(t)
		w.rollout(group("2-x", 2, "b 2.0.0 canary 50"), group("1-x", 1, "a 1.0.0 active 100"))
		w.ready["a"] = 0
		w.settle()
		want(t, "split", splitOf(w, w.routes[route]), "2.0.0=100")
		w.rollout(group("2-x", 3, back), group("1-x", 1, "a 1.0.0 active 100"))
		w.settle()
		if w.routes[route] == nil {
			t.Fatalf("%s: the route of the domain is deleted", back)
		}
		want(t, back+": the domain is back", splitOf(w, w.routes[route]), "1.0.0=100")
		want(t, back+": only the Service of the group refers to the release", slices.Equal(w.groupTraffic("2-x").References, named), true)
	}
}

// TestNewestDomainReturnsAndItsGroupEnds rolls back the canary of a newer group while the gateway
// is stuck. The group to which the domain returns ends and is reopened, while a quota prevents the
// deletion of the group's route. The canary keeps its pods until the gateway has accepted the route
// without the canary.
func TestNewestDomainReturnsAndItsGroupEnds(t *testing.T) {
	w, route := onlyNewest(t)
	w.rollout(group("2-x", 2, "b 2.0.0 canary 50"), group("1-x", 1, "a 1.0.0 active 100"))
	w.settle()
	back, none := group("2-x", 3, "b 2.0.0 error 0"), group("0-x", 0, "z 0.9.0 pending 0")
	ends := group("1-x", 4, "a 1.0.0 deprecated 0")
	ends.Phase = v1alpha1.GroupClosing
	w.rollout(back, group("1-x", 1, "a 1.0.0 active 100"))
	w.pass()
	want(t, "rolled back", splitOf(w, w.routes[route]), "1.0.0=100")
	w.full = true
	for _, groups := range [][]v1alpha1.ReleaseGroup{{back, ends, none}, {back, group("1-x", 5, "a 1.0.0 active 100"), none}} {
		w.rollout(groups...)
		for range 3 {
			w.pass()
			want(t, "the canary is referenced until the gateway has accepted a route without it", slices.Contains(w.groupTraffic("2-x").References, "b"), true)
		}
	}
	w.settle()
	want(t, "remaining references", len(w.groupTraffic("2-x").References), 0)
}

func TestNewestDomainBetweenGroups(t *testing.T) {
	for name, tc := range map[string]struct {
		weight   string
		older    []string
		down     []string
		split    string
		withheld []string
	}{
		"both have a canary":                         {"50", []string{"c 1.1.0 canary 10", "a 1.0.0 active 90"}, nil, "1.0.0=45 1.1.0=5 2.0.0=50", nil},
		"the newer group has no endpoints":           {"50", nil, []string{"b"}, "1.0.0=100", []string{"b"}},
		"the older group has no endpoints":           {"10", nil, []string{"a"}, "2.0.0=100", nil},
		"the older group has no endpoints, weight 0": {"0", nil, []string{"a"}, "2.0.0=100", nil},
		"weight 0":               {"0", nil, nil, "1.0.0=100", nil},
		"weight 100":             {"100", nil, nil, "2.0.0=100", nil},
		"no group has endpoints": {"10", nil, []string{"a", "b"}, "1.0.0=100", []string{"b"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := moving(t, tc.weight, tc.older...)
			for _, release := range tc.down {
				w.ready[release] = 0
			}
			w.settle()
			want(t, "split", w.split(newestHost), tc.split)
			want(t, "withheld", cmp.Diff(tc.withheld, w.groupTraffic("2-x").Withheld), "")
		})
	}
}

// TestNewestDomainIsStampedByBothGroups checks that a rollout state from before the rejection of a
// release does not give the release traffic again.
func TestNewestDomainIsStampedByBothGroups(t *testing.T) {
	w := moving(t, "50")
	w.settle()
	old := w.ms
	w.rollout(group("2-x", 4, "b 2.0.0 error 0"), group("1-x", 1, "a 1.0.0 active 100"))
	w.settle()
	want(t, "behind", Behind(old, w.facts()), true)
	want(t, "fresh", Behind(w.ms, w.facts()), false)
}

// TestOwnStatusIsNewerThanAnOldMicroservice checks that a policy whose objects have been deleted
// uses its own status to recognize an older state of the Microservice. The policy must not remove
// its confirmations because of an older state: otherwise, the pods would be deleted at the same time
// as the routes to these pods.
func TestOwnStatusIsNewerThanAnOldMicroservice(t *testing.T) {
	w := moving(t, "50")
	w.settle()
	f := w.facts()
	f.Services, f.Live = nil, nil
	want(t, "the state that the policy read is behind", Behind(w.ms, f), false)
	f.Policy.Status.Groups[0].Revision = w.ms.Status.Sequence() + 1
	want(t, "an older state is behind", Behind(w.ms, f), true)
}

func TestCanaryOfTheNewestGroupIsIncoming(t *testing.T) {
	w := moving(t, "0", "c 1.1.0 canary 10", "a 1.0.0 active 90")
	w.policy.Spec.Domains = append(w.policy.Spec.Domains, v1alpha1.Domain{Domain: "try.example.com", Release: canaryOf("")})
	w.settle()
	want(t, "split", w.split("try.example.com"), "2.0.0=100")
	want(t, "revision", w.groupTraffic("2-x").Revision, 3)
}

// TestNewestDomainOfAnIngress checks that nothing counts as programmed while two groups have a
// canary, and that the condition reports the cause: an Ingress supports only one canary.
func TestNewestDomainOfAnIngress(t *testing.T) {
	w := newWorld(t, group("1-x", 1, "a 1.0.0 active 100"))
	w.policy.Spec.Provider = &v1alpha1.NetworkProvider{Ingress: &v1alpha1.IngressProvider{ClassName: "nginx", AnnotationPrefix: "nginx.ingress.kubernetes.io"}}
	w.policy.Spec.Domains = []v1alpha1.Domain{{Domain: newestHost}}
	w.ready = map[string]int{"a": 1, "b": 1, "c": 1}
	w.settle()
	older := group("1-x", 2, "c 1.1.0 canary 10", "a 1.0.0 active 90")
	w.rollout(older)
	w.settle()
	w.rollout(group("2-x", 3, "b 2.0.0 canary 10"), older)
	w.settle()
	want(t, "condition", w.condition("Programmed"), "False NotSupported")
	want(t, "group", w.groupTraffic("2-x").Reason, ReasonNotSupported)
	want(t, "message", strings.Contains(w.groupTraffic("2-x").Message, "an Ingress routes to at most two releases with spec.provider.ingress.annotationPrefix, and to one release without annotationPrefix"), true)
	want(t, "revision", w.groupTraffic("2-x").Revision, 0)
	w.rollout(group("2-x", 3, "b 2.0.0 canary 10"), group("1-x", 4, "c 1.1.0 active 100"))
	w.settle()
	want(t, "condition", w.condition("Programmed"), "True Programmed")
	want(t, "split", splitOfEntry(w.facts(), newestHost, "ingress"), "1.1.0=90 2.0.0=10")
	want(t, "revision", w.groupTraffic("2-x").Revision, 3)
}

// TestMovesImmediately checks that the policy reports domains, listeners, and routes that follow the
// newest group but cannot move in steps.
func TestMovesImmediately(t *testing.T) {
	steps := &v1alpha1.CanaryStrategy{Steps: []v1alpha1.CanaryStep{{Weight: 10}}}
	listener := func(w *world) {
		w.policy.Spec.Ports = []v1alpha1.NetworkPort{{Name: "main", Port: 8080, Protocol: v1alpha1.ProtocolTCP}}
		w.policy.Spec.Listeners = []v1alpha1.Listener{{Name: "first", Port: "main", ParentRef: v1alpha1.ParentReference{Name: "public", SectionName: "first"}}}
	}
	for name, tc := range map[string]struct {
		edit  func(*world)
		field string
	}{
		"a domain":                      {func(w *world) { w.policy.Spec.Domains = []v1alpha1.Domain{{Domain: newestHost}} }, `spec.domains[0].domain "shop.example.com"`},
		"a listener":                    {listener, `spec.listeners[0] "first"`},
		"rules of a user-managed route": {func(*world) {}, `spec.provider.routeRef: the rules of HTTPRoute "web"`},
	} {
		t.Run(name, func(t *testing.T) {
			w := borrowing(t, "main")
			if !strings.Contains(tc.field, "routeRef") {
				w.policy.Spec.Provider = newWorld(t).policy.Spec.Provider
			}
			tc.edit(w)
			w.ready = map[string]int{"a": 1, "b": 1}
			older := group("1-x", 1, "a 1.0.0 active 100")
			w.rollout(group("2-x", 0, "b 2.0.0 pending 0"), older)
			w.settle()
			want(t, "without steps", w.condition(v1alpha1.ConditionDomainShared), "True DomainShared")
			c := meta.FindStatusCondition(w.policy.Status.Conditions, v1alpha1.ConditionDomainShared)
			want(t, "message "+c.Message, strings.HasPrefix(c.Message, tc.field) && strings.Contains(c.Message, "immediately, without canary steps: set spec.updateStrategy.canary.steps of the Microservice, "), true)
			w.ms.Spec.UpdateStrategy.Canary = steps
			w.settle()
			want(t, "with steps", w.condition(v1alpha1.ConditionDomainShared), "")
			want(t, "newest", w.groupTraffic("1-x").Newest, true)
		})
	}
}

// TestCanaryDomainIsNotMovedBySteps checks that a canary domain does not follow weights and does
// not move in steps.
func TestCanaryDomainIsNotMovedBySteps(t *testing.T) {
	w := newWorld(t, group("1-x", 1, "a 1.0.0 active 100"))
	w.policy.Spec.Domains = append(w.policy.Spec.Domains, v1alpha1.Domain{Domain: "try.example.com", Release: canaryOf("")})
	w.ready = map[string]int{"a": 1}
	w.settle()
	want(t, "newest", w.groupTraffic("1-x").Newest, false)
}

// TestReserves checks that the references of a group without a confirmed revision are reported
// before the objects are written. This does not apply to a policy that has not reported anything
// yet, because such a policy may refer to any release.
func TestReserves(t *testing.T) {
	w := newWorld(t, group("1-x", 1, "a 1.0.0 active 100"))
	w.ready = map[string]int{"a": 1, "b": 1}
	note := func() (string, bool) {
		f := w.facts()
		now, more := Reserve(f, Plan(f))
		w.policy.Status = now
		return strings.Join(w.groupTraffic("1-x").References, " "), more
	}
	names, more := note()
	want(t, "before the policy has reported", names, "")
	want(t, "more", more, false)
	w.policy.Status.Provider = "gateway"
	names, more = note()
	want(t, "first", names, "a")
	want(t, "more", more, true)
	want(t, "reason without confirmation", w.groupTraffic("1-x").Reason, ReasonPending)
	_, more = note()
	want(t, "only once", more, false)
	w.pass() // The route has not been accepted yet.
	w.rollout(group("1-x", 2, "b 1.1.0 active 100", "a 1.0.0 deprecated 0"))
	w.services = maps.Clone(w.services)
	f := w.facts()
	w.carryOut(f, &Decision{Services: Plan(f).Services[:2]}) // This creates the Service of release b.
	names, more = note()
	want(t, "before anything is confirmed", names, "a b")
	want(t, "more", more, true)
	w.settle()
	w.rollout(group("1-x", 3, "c 1.2.0 canary 10", "b 1.1.0 active 90"))
	w.ready["c"] = 1
	w.settle()
	_, more = note()
	want(t, "for a confirmed group", more, false)
}

// TestNewestDomainIsEditedDuringAMove edits a path during a move. The edit requires a new route. The
// old route continues the move until the gateway has accepted the new route.
func TestNewestDomainIsEditedDuringAMove(t *testing.T) {
	w := moving(t, "10")
	w.settle()
	old := providers.Sorted(w.routes)
	w.policy.Spec.Domains[1].Path = "/shop"
	w.policy.Generation++
	w.rollout(group("2-x", 4, "b 2.0.0 canary 50"), group("1-x", 1, "a 1.0.0 active 100"))
	w.pass()
	var splits []string
	d := newPlanner(w.facts())
	for _, name := range providers.Sorted(w.routes) {
		if slices.Contains(hostsOf(w.routes[name]), newestHost) {
			weights := d.backendsOf(d.Live[name])
			splits = append(splits, fmt.Sprintf("%t a=%d b=%d", slices.Contains(old, name), weights["a"], weights["b"]))
		}
	}
	slices.Sort(splits)
	want(t, "both routes", strings.Join(splits, ", "), "false a=50 b=50, true a=50 b=50")
	w.settle()
	want(t, "the new route", w.split(newestHost), "1.0.0=50 2.0.0=50")
	want(t, "confirmed", w.groupTraffic("2-x").Revision, 4)
}

// TestNewestDomainIsOrphanedDuringAMove checks that a route that is orphaned during a move routes only
// to the older group.
func TestNewestDomainIsOrphanedDuringAMove(t *testing.T) {
	w := moving(t, "50")
	w.settle()
	w.policy.Spec.DeletionPolicy = v1alpha1.DeletionOrphan
	w.policy.DeletionTimestamp = &metav1.Time{Time: w.now}
	f := w.facts()
	w.carryOut(f, Plan(f))
	want(t, "the newest domain", w.split(newestHost), "1.0.0=100")
	want(t, "the domain of the newer group", w.split("2-x.shop.example.com"), "2.0.0=100")
	w.accept()
	f = w.facts()
	out := Plan(f)
	want(t, "nothing to wait for", Unsettled(f, out, w.carryOut(f, out)), "")
}

// acceptOnly makes the gateway accept only the given routes.
func (w *world) acceptOnly(names ...string) {
	before := w.routes
	w.accept()
	for name := range w.routes {
		if !slices.Contains(names, name) {
			w.routes[name] = before[name]
		}
	}
}

// onlyNewest returns a world with one domain, which follows the newest group, and the name of its
// route.
func onlyNewest(t *testing.T) (w *world, route string) {
	t.Helper()
	w = newWorld(t, group("1-x", 1, "a 1.0.0 active 100"))
	w.policy.Spec.Domains = []v1alpha1.Domain{{Domain: newestHost}}
	w.ready = map[string]int{"a": 1, "b": 1}
	w.settle()
	return w, onlyRoute(t, w).Name
}

// TestReplacedRouteIgnoresANewMove checks that a route that stays until its replacement is accepted
// does not route to a newer group that starts a canary in the meantime, because no report would
// contain that traffic.
func TestReplacedRouteIgnoresANewMove(t *testing.T) {
	w, old := onlyNewest(t)
	w.change(func(s *v1alpha1.NetworkPolicySpec) { s.Domains[0].RecordTTLSeconds = 60 })
	w.pass()
	w.acceptOnly(old)
	for revision, weight := range []string{"10", "50", "0", "100"} {
		w.rollout(group("2-x", int64(revision+2), "b 2.0.0 canary "+weight), group("1-x", 1, "a 1.0.0 active 100"))
		for range 3 {
			w.pass()
			w.acceptOnly(old)
		}
		want(t, "routes", len(w.routes), 2)
		want(t, "split of the route that stays", splitOf(w, w.routes[old]), "1.0.0=100")
		want(t, "not confirmed", w.groupTraffic("2-x").Revision, 0)
	}
	w.rollout(group("2-x", 6, "b 2.0.0 canary 10"), group("1-x", 1, "a 1.0.0 active 100"))
	w.settle()
	want(t, "the old route is replaced", w.routes[old] == nil, true)
	want(t, "split", w.split(newestHost), "1.0.0=90 2.0.0=10")
	want(t, "confirmed", w.groupTraffic("2-x").Revision, 6)
}

// TestReplacedRouteFollowsItsMove checks that, if the canary started before the replacement, the
// replaced route follows the canary's weights, and that the canary keeps its pods until the gateway
// has accepted a route that does not refer to the canary.
func TestReplacedRouteFollowsItsMove(t *testing.T) {
	w, old := onlyNewest(t)
	w.rollout(group("2-x", 2, "b 2.0.0 canary 10"), group("1-x", 1, "a 1.0.0 active 100"))
	w.settle()
	w.change(func(s *v1alpha1.NetworkPolicySpec) { s.Domains[0].RecordTTLSeconds = 60 })
	w.rollout(group("2-x", 3, "b 2.0.0 canary 50"), group("1-x", 1, "a 1.0.0 active 100"))
	for range 3 {
		w.pass()
		w.acceptOnly(old)
	}
	for _, route := range w.routes {
		want(t, "split of "+route.Name, splitOf(w, route), "1.0.0=50 2.0.0=50")
	}
	w.rollout(group("2-x", 4, "b 2.0.0 error 0"), group("1-x", 1, "a 1.0.0 active 100"))
	for range 5 { // The gateway is stuck with both routes.
		w.pass()
		want(t, "rolled back", splitOf(w, w.routes[old]), "1.0.0=100")
		want(t, "the canary is referenced until the gateway has accepted a route without it", slices.Contains(w.groupTraffic("2-x").References, "b"), true)
	}
	w.settle()
	want(t, "remaining references", len(w.groupTraffic("2-x").References), 0)
	want(t, "the old route is replaced", w.routes[old] == nil, true)
}

// TestReplacedRouteNoLongerFollowsTheNewestGroup checks that a domain that no longer follows the newest
// group gives no traffic to a newer group, even while the gateway has not accepted the domain's new
// route.
func TestReplacedRouteNoLongerFollowsTheNewestGroup(t *testing.T) {
	const other = "other.example.com"
	w, old := onlyNewest(t)
	w.change(func(s *v1alpha1.NetworkPolicySpec) {
		s.Domains = append(s.Domains, v1alpha1.Domain{Domain: other, RecordTTLSeconds: 60})
	})
	w.rollout(group("2-x", 2, "b 2.0.0 canary 10"), group("1-x", 1, "a 1.0.0 active 100"))
	w.settle()
	taken := providers.Sorted(w.routes)
	want(t, "split", splitOf(w, w.routes[old]), "1.0.0=90 2.0.0=10")
	w.change(func(s *v1alpha1.NetworkPolicySpec) {
		s.Domains[0].Groups = &v1alpha1.DomainGroups{Policy: v1alpha1.GroupsNamed, Names: []string{"1.x"}}
	})
	w.rollout(group("2-x", 3, "b 2.0.0 canary 50"), group("1-x", 1, "a 1.0.0 active 100"))
	for range 3 {
		w.pass()
		w.acceptOnly(taken...)
	}
	want(t, "routes", len(w.routes), 3)
	want(t, "split of the route that stays", splitOf(w, w.routes[old]), "1.0.0=100")
	want(t, "split of the other domain", w.split(other), "1.0.0=50 2.0.0=50")
	want(t, "confirmed", w.groupTraffic("2-x").Revision, 3)
	w.settle()
	want(t, "the old route is replaced", w.routes[old] == nil, true)
}

// TestReplacedCanaryRouteFollowsTheCanary checks that, while the route of a canary domain is being
// replaced, this route follows the canary, as the new route does, so that clients of the domain
// reach no other release.
func TestReplacedCanaryRouteFollowsTheCanary(t *testing.T) {
	w := newWorld(t)
	w.policy.Spec.Domains = []v1alpha1.Domain{{Domain: "try.example.com", Release: &v1alpha1.DomainRelease{Status: v1alpha1.DomainCanary}}, {Domain: newestHost}}
	w.ready = map[string]int{"a": 1, "b": 1}
	w.rollout(group("1-x", 1, "a 1.0.0 active 100"))
	w.settle()
	old := providers.Sorted(w.routes)[0]
	w.change(func(s *v1alpha1.NetworkPolicySpec) { s.Domains[0].RecordTTLSeconds = 60 })
	w.pass()
	w.acceptOnly(old)
	w.rollout(group("1-x", 2, "b 1.1.0 canary 10", "a 1.0.0 active 90"))
	for range 3 {
		w.pass()
		w.acceptOnly(old)
	}
	of := func(host string) (out []string) {
		for _, name := range providers.Sorted(w.routes) {
			if slices.Contains(readRoute(w.routes[name]).Hostnames, host) {
				out = append(out, splitOf(w, w.routes[name]))
			}
		}
		return out
	}
	want(t, "splits of both routes", strings.Join(of("try.example.com"), ", "), "1.1.0=100, 1.1.0=100")
	w.settle()
	want(t, "the old route is replaced", strings.Join(of("try.example.com"), ", "), "1.1.0=100")
	want(t, "the group's domain", w.split(newestHost), "1.0.0=90 1.1.0=10")
}

// TestAcceptedBeforeTheGatewayWasDeletedIsServed checks that a route that was accepted before its Gateway was deleted
// counts as served. The releases of the route stay referenced until the replacement of the route is accepted.
func TestAcceptedBeforeTheGatewayWasDeletedIsServed(t *testing.T) {
	w := newWorld(t, group("1-x", 1, "a 1.0.0 active 100"))
	w.ready["a"], w.ready["b"] = 1, 1
	w.policy.Spec.Domains = []v1alpha1.Domain{{Domain: "shop.example.com"}}
	for range 3 {
		w.pass()
	}
	w.accept()
	delete(w.gateways, "infra/public")
	w.pass()
	d := w.policy.Status.Domains[0]
	want(t, "programmed", d.Programmed, false)
	want(t, "reason", d.Reason, reasonParentNotFound)
	if len(d.Backends) != 1 || d.Backends[0].Release != "a" {
		t.Fatalf("backends %v, want release a, whose route the gateway has accepted", d.Backends)
	}
	w.rollout(group("2-x", 1, "b 2.0.0 active 100"), group("1-x", 1, "a 1.0.0 active 100"))
	for range 3 {
		w.pass()
	}
	closing := group("1-x", 2)
	closing.Phase = v1alpha1.GroupClosing
	w.rollout(group("2-x", 1, "b 2.0.0 active 100"), closing)
	for range 3 {
		w.pass()
	}
	want(t, "split", w.split("shop.example.com"), "2.0.0=100")
	if g := w.groupTraffic("1-x"); g.Revision == 2 || !slices.Contains(g.References, "a") {
		t.Errorf("revision %d, references %v: no gateway has accepted the route that replaces the route to release a", g.Revision, g.References)
	}
	w.gateways["infra/public"] = gateway(80, "HTTP", "")
	w.settle()
	want(t, "revision", w.groupTraffic("1-x").Revision, 2)
	want(t, "references", len(w.groupTraffic("1-x").References), 0)
}

// TestNewDomainDoesNotMoveOthers checks that a domain that is added while the newest group has no
// endpoints routes to the group that serves, and that the other domains stay in the newest group.
func TestNewDomainDoesNotMoveOthers(t *testing.T) {
	for _, added := range []string{"app.example.com", "zzz.example.com"} {
		t.Run(added, func(t *testing.T) {
			w := newWorld(t, group("2-x", 1, "c 2.0.0 active 100"), group("1-x", 1, "a 1.0.0 active 100"))
			w.ready["a"], w.ready["c"] = 1, 1
			w.policy.Spec.Domains = []v1alpha1.Domain{{Domain: "www.example.com"}}
			w.settle()
			w.ready["c"] = 0
			w.change(func(s *v1alpha1.NetworkPolicySpec) { s.Domains = append(s.Domains, v1alpha1.Domain{Domain: added}) })
			w.settle()
			want(t, "the existing domain", w.split("www.example.com"), "2.0.0=100")
			want(t, "the new domain", w.split(added), "1.0.0=100")
			want(t, "its group", w.policy.Status.Domains[1].Group, "1-x")
			w.ready["c"] = 1
			w.settle()
			want(t, "then", w.split(added), "2.0.0=100")
			want(t, "then: routes", len(w.routes), 1)
		})
	}
}
