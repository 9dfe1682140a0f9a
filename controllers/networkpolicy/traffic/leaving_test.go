package traffic

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
	"github.com/heighliner/heighliner/internal/release"
)

// ending returns a group in the Closing phase, whose routes are deleted.
func ending(g v1alpha1.ReleaseGroup) v1alpha1.ReleaseGroup {
	g.Phase = v1alpha1.GroupClosing
	return g
}

// TestGatewayAcceptedTheRoutesOfAnEndedGroup checks that a release stays in the references if the
// gateway accepted the routes of its group late, after the last reconcile before the group ended,
// and if the gateway then does not report on the routes that moved to another group.
func TestGatewayAcceptedTheRoutesOfAnEndedGroup(t *testing.T) {
	older, newer := group("1-x", 1, "a 1.0.0 active 100"), group("2-x", 2, "b 2.0.0 active 100")
	w := newWorld(t, newer, older)
	w.policy.Spec.Domains = []v1alpha1.Domain{{Domain: newestHost}}
	w.ready = map[string]int{"a": 1, "b": 1}
	for range 3 {
		w.pass()
	}
	want(t, "written", w.split(newestHost), "2.0.0=100")
	w.now = w.now.Add(2 * providers.Grace)
	w.accept()
	w.rollout(ending(group("2-x", 3, "b 2.0.0 deprecated 0")), older)
	for range 4 {
		w.pass()
		w.now = w.now.Add(2 * providers.Grace)
		want(t, "written", w.split(newestHost), "1.0.0=100")
		want(t, "the gateway might still serve the release", slices.Contains(w.groupTraffic("2-x").References, "b"), true)
	}
	w.settle()
	want(t, "the gateway accepted the route of the other group", len(w.groupTraffic("2-x").References), 0)
	want(t, "confirmed", w.groupTraffic("2-x").Revision, 3)
}

// TestMatchedReleaseIsReferencedUntilItsRouteIsAccepted checks that a release that receives only
// matched or mirrored requests, without a weight, stays in the references of its group until the
// gateway has accepted a route that does not refer to this release.
func TestMatchedReleaseIsReferencedUntilItsRouteIsAccepted(t *testing.T) {
	for name, to := range map[string]func(r *v1alpha1.Release){
		"match":  func(r *v1alpha1.Release) { r.Match = true },
		"mirror": func(r *v1alpha1.Release) { r.MirrorPercent = 10 },
	} {
		t.Run(name, func(t *testing.T) {
			older, newer := group("1-x", 1, "a 1.0.0 active 100"), group("2-x", 2, "b 2.0.0 canary 0")
			to(&newer.Releases[0])
			w := newWorld(t, newer, older)
			w.policy.Spec.Domains = []v1alpha1.Domain{{Domain: newestHost, CanaryMatches: beta()}}
			w.ready = map[string]int{"a": 1, "b": 1}
			w.settle()
			want(t, "backends", cmp.Diff([]v1alpha1.DomainBackend{{Release: "a", Version: "1.0.0", Weight: 100}, {Release: "b", Version: "2.0.0"}}, w.policy.Status.Domains[0].Backends), "")
			w.rollout(ending(group("2-x", 3, "b 2.0.0 deprecated 0")), older)
			for range 3 {
				w.pass()
				want(t, "the gateway might still route to the release", slices.Contains(w.groupTraffic("2-x").References, "b"), true)
				w.now = w.now.Add(time.Minute)
			}
			w.settle()
			want(t, "the gateway accepted the route without the release", len(w.groupTraffic("2-x").References), 0)
		})
	}
}

// TestLostRecordAndTheServiceOfThePolicy simulates the loss of the rollout state while only the policy's own
// Service routes to a release. The policy still reports the release, so that the release keeps its pods until
// the Service selects another release.
func TestLostRecordAndTheServiceOfThePolicy(t *testing.T) {
	w := newWorld(t, group("release", 1, "a 1.0.0 active 100"))
	w.change(func(s *v1alpha1.NetworkPolicySpec) { s.Provider, s.Domains = nil, nil })
	w.ready = map[string]int{"a": 1, "b": 1}
	w.settle()
	want(t, "the group has no Service", w.services["shop-release"] == nil, true)
	w.rollout()
	w.pass()
	want(t, "the rollout state is lost", slices.Contains(w.groupTraffic("release").References, "a"), true)
	w.rollout(ending(group("release", 2)), group("2-x", 2, "b 2.0.0 active 100"))
	w.settle()
	want(t, "selected", w.services["shop"].Spec.Selector[v1alpha1.LabelRelease], "b")
	want(t, "the group has ended", len(w.groupTraffic("release").References), 0)
}

// TestGroupThatIsGoneHasNoCanaryDomains deletes the releases of the older group while the active
// release of the newer group has no endpoints and the release with the fix is waiting for its
// PreRollout hooks. The deleted group no longer has canary domains, which would block these hooks.
func TestGroupThatIsGoneHasNoCanaryDomains(t *testing.T) {
	for name, lose := range map[string]bool{"its releases are deleted": false, "the rollout state is also lost": true} {
		t.Run(name, func(t *testing.T) {
			p := newPair()
			p.policy("web").policy.Spec.Domains = []v1alpha1.Domain{
				{Domain: "{{.ReleaseGroupName}}.example.com", Groups: &v1alpha1.DomainGroups{Policy: v1alpha1.GroupsEach}},
				{Domain: "try-{{.ReleaseGroupName}}.example.com", Groups: &v1alpha1.DomainGroups{Policy: v1alpha1.GroupsEach}, Release: canaryOf("")},
			}
			p.push("1.0.0")
			p.push("2.0.0")
			p.run(20 * time.Minute)
			for name, o := range p.objects {
				if o.Slug == "1-x" {
					delete(p.objects, name)
				} else {
					o.ready, o.why = 0, "CrashLoopBackOff"
				}
			}
			if delete(p.offers, "1.0.0"); lose {
				p.loseRecord()
			}
			p.push("2.0.1")
			p.spec.Gates = []release.Point{release.PreRollout}
			p.run(time.Hour)
			if a := p.rollout.Groups[0].ActiveRow(); a == nil || a.Version != "2.0.1" {
				t.Errorf("the fix is not active after an hour: %+v", a)
			}
		})
	}
}

// TestGroupWithoutTheReleaseThatItsRouteNames deletes the only release that was ever active
// in a group, while the next release does not exist or its pods are pending. The route and the Service
// of the deleted release are deleted, and the next release continues with its steps.
func TestGroupWithoutTheReleaseThatItsRouteNames(t *testing.T) {
	p := newPair()
	p.policy("web").policy.Spec.Domains = []v1alpha1.Domain{
		{Domain: "example.com"},
		{Domain: "{{.ReleaseGroupName}}.example.com", Groups: &v1alpha1.DomainGroups{Policy: v1alpha1.GroupsEach}},
		{Domain: "try.example.com", Release: canaryOf("")},
	}
	p.push("1.0.0")
	p.push("2.0.0")
	p.run(20 * time.Minute)
	p.config = "" // The ConfigMap of the template does not exist.
	for name, o := range p.objects {
		if o.Slug == "2-x" {
			delete(p.objects, name)
		}
	}
	p.spec.Gates = []release.Point{release.PreRollout}
	p.run(time.Hour)
	n := p.nets["web"]
	if hosts := hostsOfGroup(n, "2-x"); len(hosts) > 0 || n.services["web-2-x"] != nil {
		t.Errorf("routes to the group that lost its release remain: %v", hosts)
	}
	p.config = "c2"
	p.run(time.Hour)
	if a := p.rollout.Groups[0].ActiveRow(); a == nil || a.Version != "2.0.0" {
		t.Errorf("the next release is not active after an hour: %+v", a)
	}
}

// TestHeldWeightsArePercentages checks that the weights of a live route add up to 100 again after
// the weight of a deleted group is removed.
func TestHeldWeightsArePercentages(t *testing.T) {
	g := group("1-x", 2, "a 1.0.0 error 0")
	if got, _ := hold(map[string]int{"a": 90}, &g); got["a"] != 100 {
		t.Errorf("weights %v", got)
	}
}

// TestLostRecordWhileTheGatewayIsAway simulates the loss of the rollout state while the Gateway of a group
// that is ending does not exist and the route of the group's host already belongs to another group. The
// release that the gateway serves stays in the references of its group until the gateway has accepted the
// route.
func TestLostRecordWhileTheGatewayIsAway(t *testing.T) {
	for name, moved := range map[string]bool{"the route moved before": true, "the route moves after": false} {
		t.Run(name, func(t *testing.T) {
			older, newer := group("1-x", 1, "a 1.0.0 active 100"), group("2-x", 2, "b 2.0.0 active 100")
			w := newWorld(t, newer, older)
			w.policy.Spec.Domains = []v1alpha1.Domain{{Domain: newestHost}}
			w.ready = map[string]int{"a": 1, "b": 1}
			w.settle()
			away := w.gateways["infra/public"]
			delete(w.gateways, "infra/public")
			w.accept()
			serves := func(what string) {
				t.Helper()
				for range 3 {
					w.pass()
					want(t, what, slices.Contains(w.groupTraffic("2-x").References, "b"), true)
					w.now = w.now.Add(2 * providers.Grace)
				}
			}
			end := []v1alpha1.ReleaseGroup{ending(group("2-x", 3, "b 2.0.0 deprecated 0")), older}
			if moved {
				w.rollout(end...)
				serves("the group is ending")
			}
			w.rollout()
			serves("no group is known")
			w.rollout(end...)
			serves("the groups are known again")
			want(t, "written", w.split(newestHost), "1.0.0=100")
			w.gateways["infra/public"] = away
			w.settle()
			want(t, "the gateway accepted the route", len(w.groupTraffic("2-x").References), 0)
		})
	}
}

// TestGroupThatOpensAgainBeforeItHasRoutes ends a group and reopens it before its objects are written for the
// first time. The next release, to which domains move in steps, is not blocked by a revision that can never be
// confirmed.
func TestGroupThatOpensAgainBeforeItHasRoutes(t *testing.T) {
	p := newPair()
	p.policy("web").policy.Spec.Domains = []v1alpha1.Domain{
		{Domain: "example.com"},
		{Domain: "{{.ReleaseGroupName}}.example.com", Groups: &v1alpha1.DomainGroups{Policy: v1alpha1.GroupsEach}},
		{Domain: "try.example.com", Release: canaryOf("")},
	}
	p.setSteps(pairSteps[1])
	p.push("2.1.0")
	p.plan(0)
	p.pods()
	p.plan(0)
	p.plan(0)
	if a := p.rollout.Groups[0].ActiveRow(); a == nil {
		t.Fatal("2.1.0 is not active")
	}
	p.push("1.0.0")
	p.push("2.2.0")
	p.spec.Gates, p.spec.Ended = []release.Point{release.PreRollout}, []string{"2-x"}
	p.plan(0)
	p.spec.Ended = nil
	p.pass("web", 0)
	p.run(time.Hour)
	if a := p.rollout.Groups[0].ActiveRow(); a == nil || a.Version != "2.2.0" {
		t.Errorf("the next release is not active after an hour: %+v", a)
	}
}

// TestGroupThatOpensAgainBeforeItsRoutesLeft ends a group and reopens it before the policy has written
// anything. The release to which the group's route refers is active again, and the next release runs its
// steps.
func TestGroupThatOpensAgainBeforeItsRoutesLeft(t *testing.T) {
	p := newPair()
	p.policy("web").policy.Spec.Domains = []v1alpha1.Domain{{Domain: "example.com"}}
	p.setSteps(pairSteps[1])
	p.push("1.0.0")
	p.push("2.1.0")
	p.run(time.Hour)
	p.push("2.2.0")
	p.spec.Ended = []string{"2-x"}
	p.plan(0)
	if a := p.rollout.Groups[0].ActiveRow(); a != nil {
		t.Fatalf("the group has not ended: %+v", a)
	}
	p.spec.Ended = nil
	p.run(2 * time.Minute)
	if a, split := p.rollout.Groups[0].ActiveRow(), p.nets["web"].split("example.com"); a == nil || a.Version != "2.1.0" || split != "2.1.0=90 2.2.0=10" && split != "2.1.0=50 2.2.0=50" {
		t.Errorf("active release %+v, but the routes split %s", a, split)
	}
	p.run(time.Hour)
	if a := p.rollout.Groups[0].ActiveRow(); a == nil || a.Version != "2.2.0" {
		t.Errorf("the next release is not active after an hour: %+v", a)
	}
}

// TestFixOfAReleaseThatNoServiceSelected checks that a fix becomes active even if the pods of the active release
// failed before the Service of its group selected it: the Service keeps the previous release, and no policy is
// blocked by the failed release.
func TestFixOfAReleaseThatNoServiceSelected(t *testing.T) {
	p := newPair()
	n := p.policy("web")
	n.change(func(s *v1alpha1.NetworkPolicySpec) { s.Provider, s.Domains = nil, nil })
	p.setSteps(pairSteps[2])
	p.push("1.0.0")
	p.run(time.Hour)
	p.push("1.1.0")
	for range 20 {
		p.plan(0)
		p.pods()
		if a := p.rollout.Groups[0].ActiveRow(); a.Version == "1.1.0" {
			break
		}
		p.pass("web", 0)
		p.advance(time.Second)
	}
	for _, o := range p.objects {
		if o.Version == "1.1.0" {
			o.ready, o.why = 0, "CrashLoopBackOff"
		}
	}
	p.push("1.2.0")
	p.run(time.Minute)
	a := p.rollout.Groups[0].ActiveRow()
	if a == nil || a.Version != "1.2.0" {
		t.Fatalf("the fix is not active: %+v", a)
	}
	want(t, "release that the Service selects", n.services["web-1-x"].Spec.Selector[v1alpha1.LabelRelease], a.Release)
}

// hostsOfGroup returns the hosts of the routes of a group.
func hostsOfGroup(n *front, slug string) (hosts []string) {
	for _, live := range n.facts().Live {
		if live.Group() == slug {
			hosts = append(hosts, live.Hostnames...)
		}
	}
	return hosts
}
