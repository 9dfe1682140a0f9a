package traffic

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// TestRoutesWaitForFirstEndpoints checks that routes are written only once, with the canary, if the
// canary's first endpoints appear moments after the rollout state changes, as they usually do.
func TestRoutesWaitForFirstEndpoints(t *testing.T) {
	deadline := int32(600)
	step := func(w *world, revision int64, releases ...string) {
		g := group("1-x", revision, releases...)
		g.TrafficTime = &metav1.MicroTime{Time: w.now}
		w.rollout(g)
		w.ms.Spec.UpdateStrategy.ProgressDeadlineSeconds = deadline
	}
	stamp := func(w *world) int64 {
		t.Helper()
		for _, route := range w.facts().Live {
			s, _ := route.Stamp()
			return s.Revision
		}
		t.Fatal("the policy has no route")
		return 0
	}
	start := func(t *testing.T) *world {
		w := newWorld(t)
		step(w, 1, "a 1.0.0 active 100")
		w.ready = map[string]int{"a": 2}
		w.settle()
		want(t, "confirmed", w.groupTraffic("1-x").Revision, 1)
		step(w, 2, "b 1.1.0 canary 20", "a 1.0.0 active 80")
		w.settle()
		return w
	}

	t.Run("endpoints become ready", func(t *testing.T) {
		w := start(t)
		want(t, "route revision while the canary has no endpoints", stamp(w), 1)
		got := w.groupTraffic("1-x")
		want(t, "confirmed", got.Revision, 1)
		want(t, "withheld", len(got.Withheld), 0)
		w.now = w.now.Add(time.Second)
		w.ready["b"] = 1
		w.settle()
		want(t, "route revision", stamp(w), 2)
		want(t, "confirmed with the canary", w.groupTraffic("1-x").Revision, 2)
		want(t, "withheld", len(w.groupTraffic("1-x").Withheld), 0)
	})
	t.Run("endpoints never become ready", func(t *testing.T) {
		w := start(t)
		f := w.facts()
		_, requeue := Status(f, Plan(f), Applied{})
		if requeue <= 0 || requeue > 30*time.Second {
			t.Errorf("reconciled again after %v, want within 30 s", requeue)
		}
		w.now = w.now.Add(29 * time.Second)
		w.settle()
		want(t, "route revision before the end of the delay", stamp(w), 1)
		w.now = w.now.Add(time.Second)
		w.settle()
		want(t, "route revision", stamp(w), 2)
		want(t, "confirmed without the canary", w.groupTraffic("1-x").Revision, 2)
		want(t, "withheld", cmp.Diff([]string{"b"}, w.groupTraffic("1-x").Withheld), "")
		step(w, 3, "b 1.1.0 canary 50", "a 1.0.0 active 50")
		w.settle()
		want(t, "revision while the canary is known to be withheld", w.groupTraffic("1-x").Revision, 3)
	})
	t.Run("a release other than the canary has no endpoints", func(t *testing.T) {
		w := newWorld(t)
		step(w, 1, "a 1.0.0 active 100")
		w.ready = map[string]int{"a": 2}
		w.settle()
		step(w, 2, "b 1.1.0 active 100", "a 1.0.0 deprecated 0") // A rollback to b, whose pods are not running.
		w.settle()
		want(t, "route revision while the release has no endpoints", stamp(w), 1)
		w.now = w.now.Add(5 * time.Second)
		w.settle()
		want(t, "withheld", cmp.Diff([]string{"b"}, w.groupTraffic("1-x").Withheld), "")
	})
	t.Run("the progress deadline is short", func(t *testing.T) {
		for seconds, want := range map[int32]time.Duration{10: 5 * time.Second, 40: 10 * time.Second} {
			deadline = seconds
			w := start(t)
			w.now = w.now.Add(want - time.Millisecond)
			w.settle()
			if got := stamp(w); got != 1 {
				t.Errorf("deadline %d s: revision %d before %s", seconds, got, want)
			}
			w.now = w.now.Add(time.Millisecond)
			w.settle()
			if diff := cmp.Diff([]string{"b"}, w.groupTraffic("1-x").Withheld); diff != "" {
				t.Errorf("deadline %d s: withheld after %s (-want +got):\n%s", seconds, want, diff)
			}
		}
		deadline = 600
	})
	t.Run("a canary in a match step loses its endpoints", func(t *testing.T) {
		w := newWorld(t)
		step(w, 1, "a 1.0.0 active 100")
		w.ready = map[string]int{"a": 2}
		w.settle()
		w.ready["b"] = 2
		g := group("1-x", 2, "b 1.1.0 canary 0", "a 1.0.0 active 100")
		g.TrafficTime = &metav1.MicroTime{Time: w.now}
		g.Releases[0].Match = true
		w.rollout(g)
		w.ms.Spec.UpdateStrategy.ProgressDeadlineSeconds = deadline
		w.settle()
		want(t, "confirmed", w.groupTraffic("1-x").Revision, 2)
		w.now = w.now.Add(time.Second)
		w.ready["b"] = 0
		w.settle()
		want(t, "withheld", cmp.Diff([]string{"b"}, w.groupTraffic("1-x").Withheld), "")
	})
	t.Run("weights change in the meantime", func(t *testing.T) {
		w := start(t)
		step(w, 3, "a 1.0.0 active 100", "b 1.1.0 error 0")
		w.settle()
		want(t, "confirmed without the canary", w.groupTraffic("1-x").Revision, 3)
	})
	t.Run("the clock of the previous manager was ahead", func(t *testing.T) {
		w := start(t)
		w.now = w.now.Add(-time.Hour)
		w.settle()
		want(t, "confirmed without the canary", w.groupTraffic("1-x").Revision, 2)
	})
	t.Run("no release serves", func(t *testing.T) {
		w := newWorld(t)
		step(w, 1, "a 1.0.0 active 100")
		w.settle()
		want(t, "reason", w.groupTraffic("1-x").Reason, reasonNoReadyEndpoints)
	})
}

// TestFirstTrafficDelay checks that a route refers to a release only after the release has been ready
// for FirstTrafficDelay, because the gateway may receive a route before the EndpointSlices.
func TestFirstTrafficDelay(t *testing.T) {
	step := func(w *world, revision int64, change func(*v1alpha1.ReleaseGroup), releases ...string) {
		g := group("1-x", revision, releases...)
		g.TrafficTime = &metav1.MicroTime{Time: w.now}
		if change != nil {
			change(&g)
		}
		w.rollout(g)
	}
	becomes := func(w *world, release string) {
		w.ready[release] = 1
		w.readySince = map[string]time.Time{release: w.now}
	}
	live := func(t *testing.T, releases ...string) *world {
		w := newWorld(t)
		step(w, 1, nil, releases...)
		w.ready = map[string]int{"a": 2, "b": 2}
		w.settle()
		want(t, "confirmed", w.groupTraffic("1-x").Revision, 1)
		return w
	}
	requeued := func(t *testing.T, w *world) {
		t.Helper()
		f := w.facts()
		if _, requeue := Status(f, Plan(f), Applied{}); requeue <= 0 || requeue > FirstTrafficDelay {
			t.Errorf("reconciled again after %v, want within %v", requeue, FirstTrafficDelay)
		}
	}

	t.Run("canary", func(t *testing.T) {
		w := live(t, "a 1.0.0 active 100")
		step(w, 2, nil, "c 1.1.0 canary 20", "a 1.0.0 active 80")
		becomes(w, "c")
		w.settle()
		want(t, "split when the canary becomes ready", w.split(host), "1.0.0=100")
		want(t, "confirmed", w.groupTraffic("1-x").Revision, 1)
		want(t, "withheld", len(w.groupTraffic("1-x").Withheld), 0)
		requeued(t, w)
		w.now = w.now.Add(FirstTrafficDelay)
		w.settle()
		want(t, "split", w.split(host), "1.0.0=80 1.1.0=20")
		want(t, "confirmed with the canary", w.groupTraffic("1-x").Revision, 2)
		becomes(w, "c")
		step(w, 3, nil, "c 1.1.0 canary 50", "a 1.0.0 active 50")
		w.settle()
		want(t, "split of a release that has traffic", w.split(host), "1.0.0=50 1.1.0=50")
	})
	t.Run("canary that was reported as withheld", func(t *testing.T) {
		w := live(t, "a 1.0.0 active 100")
		step(w, 2, nil, "c 1.1.0 canary 20", "a 1.0.0 active 80")
		w.now = w.now.Add(canaryEndpointDelay)
		w.settle()
		want(t, "withheld", cmp.Diff([]string{"c"}, w.groupTraffic("1-x").Withheld), "")
		becomes(w, "c")
		writes := w.writes
		w.settle()
		want(t, "writes when the canary becomes ready", w.writes-writes, 0)
		requeued(t, w)
		w.now = w.now.Add(FirstTrafficDelay)
		w.settle()
		want(t, "split", w.split(host), "1.0.0=80 1.1.0=20")
		want(t, "withheld later", len(w.groupTraffic("1-x").Withheld), 0)
	})
	t.Run("selected requests", func(t *testing.T) {
		w := live(t, "a 1.0.0 active 100")
		w.policy.Spec.Domains[0].CanaryMatches = beta()
		step(w, 2, func(g *v1alpha1.ReleaseGroup) { *g = testTraffic(*g, true, 0) }, "c 1.1.0 canary 0", "a 1.0.0 active 100")
		becomes(w, "c")
		w.settle()
		want(t, "rules when the canary becomes ready", len(onlyRoute(t, w).Spec.Rules), 1)
		want(t, "confirmed", w.groupTraffic("1-x").Revision, 1)
		requeued(t, w)
		w.now = w.now.Add(FirstTrafficDelay)
		w.settle()
		want(t, "rules", len(onlyRoute(t, w).Spec.Rules), 2)
		want(t, "confirmed with the canary", w.groupTraffic("1-x").Revision, 2)
	})
	t.Run("other weights change", func(t *testing.T) {
		w := live(t, "b 1.1.0 canary 50", "a 1.0.0 active 50")
		step(w, 1, nil, "c 1.2.0 pending 0", "b 1.1.0 canary 50", "a 1.0.0 active 50")
		w.settle()
		step(w, 2, nil, "c 1.2.0 canary 20", "b 1.1.0 error 0", "a 1.0.0 active 80")
		becomes(w, "c")
		w.settle()
		want(t, "split", w.split(host), "1.0.0=80 1.2.0=20")
	})
	t.Run("active release is replaced without steps", func(t *testing.T) {
		w := live(t, "a 1.0.0 active 100")
		step(w, 1, nil, "c 1.1.0 pending 0", "a 1.0.0 active 100")
		w.settle()
		step(w, 2, nil, "c 1.1.0 active 100", "a 1.0.0 deprecated 0")
		becomes(w, "c")
		w.settle()
		want(t, "split when the new release becomes ready", w.split(host), "1.0.0=100")
		want(t, "confirmed", w.groupTraffic("1-x").Revision, 1)
		want(t, "reason", w.groupTraffic("1-x").Reason, "")
		requeued(t, w)
		w.now = w.now.Add(FirstTrafficDelay)
		w.settle()
		want(t, "split", w.split(host), "1.1.0=100")
		want(t, "confirmed with the new release", w.groupTraffic("1-x").Revision, 2)
	})
	t.Run("canary is aborted when another release becomes ready", func(t *testing.T) {
		w := live(t, "b 1.1.0 canary 50", "a 1.0.0 active 50")
		step(w, 1, nil, "c 1.2.0 pending 0", "b 1.1.0 canary 50", "a 1.0.0 active 50")
		w.settle()
		step(w, 2, nil, "c 1.2.0 active 100", "b 1.1.0 error 0", "a 1.0.0 deprecated 0")
		becomes(w, "c")
		w.settle()
		want(t, "split", w.split(host), "1.2.0=100")
	})
	t.Run("canary domain", func(t *testing.T) {
		w := newWorld(t)
		w.policy.Spec.Domains = append(w.policy.Spec.Domains, v1alpha1.Domain{Domain: "try.example.com", Release: canaryOf("")})
		step(w, 1, nil, "a 1.0.0 active 100")
		w.ready = map[string]int{"a": 2}
		w.settle()
		want(t, "split without a canary", w.split("try.example.com"), "1.0.0=100")
		step(w, 2, nil, "c 1.1.0 canary 20", "a 1.0.0 active 80")
		becomes(w, "c")
		w.settle()
		want(t, "split when the canary becomes ready", w.split("try.example.com"), "1.0.0=100")
		want(t, "canary domains", w.groupTraffic("1-x").CanaryDomains, true)
		w.now = w.now.Add(FirstTrafficDelay)
		w.settle()
		want(t, "split", w.split("try.example.com"), "1.1.0=100")
	})
	t.Run("newest domain moves to another group", func(t *testing.T) {
		w := newWorld(t)
		const fixed = "shop.example.com"
		w.policy.Spec.Domains[0].Domain = fixed
		step(w, 1, nil, "a 1.0.0 active 100")
		w.ready = map[string]int{"a": 2}
		w.settle()
		newer := group("2-x", 2, "c 2.0.0 active 100")
		newer.TrafficTime = &metav1.MicroTime{Time: w.now}
		w.rollout(newer, w.ms.Status.ReleaseGroups[0])
		becomes(w, "c")
		for range 4 {
			w.pass()
			if split := w.split(fixed); split != "1.0.0=100" && split != "2.0.0=100" {
				t.Errorf("split %q: the host must remain reachable", split)
			}
		}
		want(t, "split", w.split(fixed), "2.0.0=100")
	})
	t.Run("no live release is ready", func(t *testing.T) {
		w := live(t, "a 1.0.0 active 100")
		w.ready["a"] = 0
		step(w, 2, nil, "c 1.1.0 active 100", "a 1.0.0 deprecated 0")
		becomes(w, "c")
		w.settle()
		want(t, "split", w.split(host), "1.1.0=100")
	})
	t.Run("first route", func(t *testing.T) {
		w := newWorld(t)
		step(w, 1, nil, "a 1.0.0 active 100")
		becomes(w, "a")
		w.settle()
		want(t, "split", w.split(host), "1.0.0=100")
	})
	t.Run("the clock went back", func(t *testing.T) {
		w := live(t, "a 1.0.0 active 100")
		step(w, 2, nil, "c 1.1.0 canary 20", "a 1.0.0 active 80")
		becomes(w, "c")
		w.readySince["c"] = w.now.Add(time.Hour)
		w.settle()
		want(t, "split", w.split(host), "1.0.0=80 1.1.0=20")
	})
	t.Run("domain with a version", func(t *testing.T) {
		w := live(t, "a 1.0.0 active 100")
		w.policy.Spec.Domains[0].Release = &v1alpha1.DomainRelease{Version: "1.1.0"}
		step(w, 2, nil, "c 1.1.0 deprecated 0", "a 1.0.0 active 100")
		becomes(w, "c")
		w.settle()
		want(t, "split when the release becomes ready", w.split(host), "1.0.0=100")
		requeued(t, w)
		w.now = w.now.Add(FirstTrafficDelay)
		w.settle()
		want(t, "split", w.split(host), "1.1.0=100")
	})
}
