package release

import (
	"strings"
	"testing"
	"time"
)

// checkFrozen checks a write of the rollout state against users' expectations about a freeze. A release that was never active
// does not start, and gets no additional traffic. There are three exceptions: a release that replaces a lost active release, a
// release that was recovered after the rollout state was lost, and a release of an exclusive group in which the pods of the
// active release have terminated.
func (w *world) checkFrozen(o Observed, g, h *Group) {
	f := o.Spec.Freeze
	if f == nil {
		return
	}
	for _, r := range h.Releases {
		was := Row{}
		if x := g.Row(r.Release); x != nil {
			was = *x
		}
		recovered := g.Row(r.Release) == nil && hasObject(o, r.Release) && !objectOf(o, r.Release).NeverActive
		if was.Promoted > 0 || recovered || r.Reason == Rebuilt || r.Reason == ActiveLost {
			continue
		}
		ran := g.Rollout != nil && g.Rollout.Release == r.Release
		if runs := h.Rollout != nil && h.Rollout.Release == r.Release; runs && !ran {
			w.fail("freeze: %s starts while it is %s\n%s%s", r.Release, f, renderGroup(g), renderGroup(h))
		}
		if ran && g.Rollout.Step == 0 && activeStoppedIn(o, g) {
			continue
		}
		if r.Weight > was.Weight || r.Match && !was.Match || r.Mirror > was.Mirror || r.Status == Active {
			w.fail("freeze: %s gets more traffic while it is %s\n%s%s", r.Release, f, renderGroup(g), renderGroup(h))
		}
	}
}

// activeStoppedIn reports whether the pods of the active release of an exclusive group have terminated.
func activeStoppedIn(o Observed, g *Group) bool {
	a := g.ActiveRow()
	return o.Spec.Exclusive && a != nil && objectOf(o, a.Release).Replicas == 0
}

// freeze begins a freeze that lasts for the given time. If the time is 0, the freeze lasts until
// thaw is called.
func (w *world) freeze(d time.Duration) {
	w.edit("freeze", func(s *Spec) {
		s.Freeze = &Freeze{Name: `Freeze "fair"`, Reason: "trade fair"}
		if d > 0 {
			s.Freeze.Until = w.now.Add(d)
		}
	})
}

func (w *world) thaw() { w.edit("thaw", func(s *Spec) { s.Freeze = nil }) }

// writes checks that the number of changes to the Microservice since the given version is within a
// limit.
func (h tale) writes(when string, since, limit int) {
	if n := h.version - since; n > limit {
		h.fail("%s: the rollout state was written %d times, want at most %d", when, n, limit)
	}
}

// freezes are histories with freezes.
var freezes = []scene{
	{"rule 33: a freeze is reported while a pod of the canary is missing, and during a pause", func(h tale) {
		h.live()
		h.steps(Step{Weight: 10, Pause: time.Hour}, Step{Weight: 50})
		h.push("1.1.0")
		h.run(time.Minute)
		h.freeze(24 * time.Hour)
		h.run(time.Minute)
		h.state("a healthy canary", Frozen, true)
		h.object("1.1.0").ready = 1
		h.object("1.1.0").why = "Unschedulable"
		h.run(time.Minute)
		h.want("a pod is missing", map[string]string{"1.1.0": "canary 10"})
		h.state("a pod is missing", Frozen, true)
		h.object("1.1.0").why = ""
		h.edit("pause", func(s *Spec) { s.Paused = true })
		h.run(time.Minute)
		h.state("paused", Frozen, true)
		h.state("paused", Paused, true)
	}},
	{"rule 45: a canary keeps its weight in a freeze, and continues at the end of the freeze", func(h tale) {
		h.live()
		h.steps(Step{Weight: 10, Pause: time.Minute}, Step{Weight: 50, Pause: time.Minute})
		h.push("1.1.0")
		h.run(time.Second)
		h.freeze(10 * time.Hour)
		since := h.version
		h.run(9 * time.Hour)
		h.want("frozen", map[string]string{"1.0.0": "active 90", "1.1.0": "canary 10"})
		h.message("frozen", Frozen, `1.1.0 is waiting at 10%: frozen until 2026-01-01T10:01:01Z by Freeze "fair" ("trade fair")`)
		h.writes("frozen", since, 1)
		h.run(time.Hour)
		h.want("over", map[string]string{"1.0.0": "active 50", "1.1.0": "canary 50"})
		h.state("over", Frozen, false)
		h.run(time.Hour)
		h.want("end", map[string]string{"1.1.0": "active 100"})
	}},
	{"rule 45: a version that is pushed in a freeze starts at the end of the freeze", func(h tale) {
		h.live()
		h.freeze(10 * time.Hour)
		since := h.version
		h.run(time.Hour)
		h.writes("nothing to freeze", since, 0)
		h.state("nothing to freeze", Frozen, false)
		h.push("1.1.0")
		h.run(8 * time.Hour)
		h.writes("a version waits", since, 1)
		h.want("frozen", map[string]string{"1.0.0": "active 100", "1.1.0": ""})
		h.state("frozen", Frozen, true)
		h.run(time.Hour + time.Minute)
		h.want("end", map[string]string{"1.1.0": "active 100"})
	}},
	{"rule 45: neither a new group nor the first release of a Microservice starts in a freeze", func(h tale) {
		h.policy("web")
		h.freeze(0)
		h.push("1.0.0")
		h.run(time.Hour)
		h.state("first", Frozen, true)
		h.want("first", map[string]string{"1.0.0": ""})
		h.thaw()
		h.run(time.Minute)
		h.want("thawed", map[string]string{"1.0.0": "active 100"})
		h.freeze(time.Hour)
		h.push("2.0.0")
		h.run(time.Minute)
		h.state("group", Frozen, true)
		h.want("group", map[string]string{"2.0.0": ""})
		h.run(time.Hour)
		h.want("end", map[string]string{"1.0.0": "active 100", "2.0.0": "active 100"})
	}},
	{"rule 45: a first release that becomes ready in a freeze becomes active at the end of the freeze", func(h tale) {
		h.policy("web")
		h.startup = time.Minute
		h.push("1.0.0")
		h.run(time.Second)
		h.freeze(time.Hour)
		h.run(50 * time.Minute)
		h.want("ready", map[string]string{"1.0.0": "pending 0"})
		h.state("ready", Frozen, true)
		h.kill(h.object("1.0.0"), 1)
		h.run(5 * time.Minute)
		h.want("lost a pod", map[string]string{"1.0.0": "pending 0"})
		h.run(10 * time.Minute)
		h.want("end", map[string]string{"1.0.0": "active 100"})
	}},
	{"rule 45: a pin rolls back in a freeze, and the newer version returns at the end of the freeze", func(h tale) {
		h.live()
		h.push("1.1.0")
		h.run(time.Hour)
		h.freeze(10 * time.Hour)
		h.pin(Pin{Group: "1.x", Version: "1.0.0"})
		h.run(time.Minute)
		h.want("pinned", map[string]string{"1.0.0": "active 100", "1.1.0": "deprecated 0"})
		h.pin()
		h.run(9 * time.Hour)
		h.want("no longer pinned", map[string]string{"1.0.0": "active 100", "1.1.0": "deprecated 0"})
		h.state("no longer pinned", Frozen, true)
		h.run(time.Hour)
		h.want("end", map[string]string{"1.1.0": "active 100"})
	}},
	{"rule 45: a pin to a version that was never active waits for the end of a freeze", func(h tale) {
		h.live()
		h.steps(twoSteps...)
		h.push("1.1.0")
		h.run(time.Second)
		h.freeze(10 * time.Hour)
		h.push("1.2.0")
		h.run(time.Hour)
		h.want("a newer version supersedes nothing", map[string]string{"1.0.0": "active 90", "1.1.0": "canary 10", "1.2.0": ""})
		h.pin(Pin{Group: "1.x", Version: "1.2.0"})
		h.run(time.Hour)
		h.want("pinned", map[string]string{"1.0.0": "active 100", "1.2.0": ""})
		h.state("pinned", Frozen, true)
		h.run(9 * time.Hour)
		h.want("end", map[string]string{"1.2.0": "active 100"})
	}},
	{"rule 45: Deprecate is the only decision that takes effect during a freeze", func(h tale) {
		h.live()
		h.steps(Step{Name: "first", Weight: 10, Approval: true}, Step{Weight: 50, Pause: time.Minute})
		h.push("1.1.0")
		h.run(time.Second)
		h.freeze(0)
		for _, a := range []Action{Continue, Adopt} {
			h.decideOn("1.1.0", a, "first")
			h.run(time.Minute)
			h.outcome(string(a), "1.1.0", DecisionNotApplicable+`: frozen indefinitely by Freeze "fair" ("trade fair"); decide when the freeze is over, or add the Microservice to spec.exceptions of the freeze`)
			h.want(string(a), map[string]string{"1.0.0": "active 90", "1.1.0": "canary 10"})
		}
		h.decideOn("1.1.0", Deprecate, "")
		h.run(time.Minute)
		h.want("aborted", map[string]string{"1.0.0": "active 100", "1.1.0": "error 0"})
		h.decideOn("1.1.0", Retry, "")
		h.run(time.Minute)
		h.want("no other attempt", map[string]string{"1.0.0": "active 100", "1.1.0": "error 0"})
		h.thaw()
		h.run(time.Minute)
		h.want("the rejected decision is not applied later", map[string]string{"1.0.0": "active 100", "1.1.0": "error 0"})
	}},
	{"rule 45: a canary that was adopted before a freeze waits for the end of the freeze", func(h tale) {
		h.live()
		h.steps(Step{Weight: 10, Approval: true})
		h.startup = time.Minute
		h.push("1.1.0")
		h.run(time.Second)
		h.decideOn("1.1.0", Adopt, "")
		h.run(time.Second)
		h.freeze(10 * time.Hour)
		h.run(9 * time.Hour)
		h.want("frozen", map[string]string{"1.0.0": "active 100", "1.1.0": "pending 0"})
		h.state("frozen", Frozen, true)
		h.run(time.Hour)
		h.want("end", map[string]string{"1.1.0": "active 100"})
	}},
	{"rule 45: a canary that fails in a freeze is rolled back", func(h tale) {
		h.live()
		h.steps(twoSteps...)
		h.push("1.1.0")
		h.run(time.Second)
		h.freeze(10 * time.Hour)
		h.run(time.Hour)
		h.spoil(h.object("1.1.0"), "CrashLoopBackOff")
		h.run(time.Hour)
		h.want("rolled back", map[string]string{"1.0.0": "active 100", "1.1.0": "error 0"})
	}},
	{"rule 45: the progress deadline does not expire because of a freeze", func(h tale) {
		h.live()
		h.steps(twoSteps...)
		h.push("1.1.0")
		h.run(time.Second)
		h.freeze(10 * time.Hour)
		h.run(5 * time.Hour)
		o := h.object("1.1.0")
		h.spoil(o, "CrashLoopBackOff")
		h.run(5 * time.Minute) // half the deadline
		h.want("crashes", map[string]string{"1.0.0": "active 90", "1.1.0": "canary 10"})
		o.why = ""
		h.run(time.Hour)
		h.want("healthy again", map[string]string{"1.0.0": "active 90", "1.1.0": "canary 10"})
		h.run(5 * time.Hour)
		h.want("end", map[string]string{"1.1.0": "active 100"})
	}},
	{"rule 45: in a freeze, a retained release replaces a denied active version, and a new release does not", func(h tale) {
		h.live()
		h.push("1.1.0")
		h.run(time.Hour)
		h.freeze(10 * time.Hour)
		h.push("1.2.0")
		h.withdraw("1.1.0", Denied)
		h.run(time.Hour)
		h.want("denied", map[string]string{"1.0.0": "active 100", "1.2.0": ""})
		h.run(9 * time.Hour)
		h.want("end", map[string]string{"1.2.0": "active 100"})
	}},
	{"rule 45: an active release that was deleted is created again in a freeze", func(h tale) {
		h.live()
		h.freeze(0)
		h.remove(h.object("1.0.0"))
		h.run(time.Minute)
		h.want("deleted", map[string]string{"1.0.0": "active 100"})
		if n := h.object("1.0.0").ready; n < 2 {
			h.fail("it has %d pods", n)
		}
		h.edit("replicas", func(s *Spec) { s.Replicas = 4 })
		h.run(time.Minute)
		if n := h.object("1.0.0").ready; n < 4 {
			h.fail("scaled to 4: got %d pods", n)
		}
	}},
	{"rule 45: no preview starts or changes in a freeze, and a closed preview is removed", func(h tale) {
		h.policy("web")
		h.push("pr-7-a")
		h.push("pr-9-a")
		h.run(time.Minute)
		h.want("before", map[string]string{"pr-7-a": "active 100", "pr-9-a": "active 100"})
		h.freeze(10 * time.Hour)
		h.push("pr-7-b")
		h.push("pr-8-a")
		h.withdrawGroup("pr-9", Closed)
		h.run(9 * time.Hour)
		h.want("frozen", map[string]string{"pr-7-a": "active 100", "pr-7-b": "", "pr-8-a": "", "pr-9-a": ""})
		h.run(2 * time.Hour)
		h.want("end", map[string]string{"pr-7-b": "active 100", "pr-8-a": "active 100"})
	}},
	{"rule 45: a preview that waits for a slot gets one when a freeze ends", func(h tale) {
		h.policy("web")
		h.edit("one slot", func(s *Spec) { s.Previews.MaxGroups = 1 })
		h.push("pr-7-a")
		h.run(time.Minute)
		h.push("pr-9-a")
		h.run(time.Minute)
		h.freeze(10 * time.Hour)
		h.withdrawGroup("pr-7", Closed)
		h.run(9 * time.Hour)
		h.want("frozen", map[string]string{"pr-7-a": "", "pr-9-a": ""})
		h.state("frozen", Frozen, true)
		h.run(2 * time.Hour)
		h.want("end", map[string]string{"pr-9-a": "active 100"})
	}},
	{"rule 45: a group that the specification no longer includes keeps serving in a freeze", func(h tale) {
		h.live()
		h.push("2.0.0")
		h.run(time.Minute)
		h.freeze(10 * time.Hour)
		h.regroup("all")
		h.run(9 * time.Hour)
		h.want("frozen", map[string]string{"1.0.0": "active 100", "2.0.0": "active 100"})
		h.state("frozen", Frozen, true)
		h.thaw()
		h.run(time.Hour)
		h.want("end", map[string]string{"1.0.0": "", "2.0.0": "active 100"})
	}},
	{"rule 45: in a freeze, a release that its hooks have not approved gets no pods", func(h tale) {
		h.live()
		h.edit("gates", func(s *Spec) { s.Gates = []Point{ConfirmRollout} })
		h.hooks[ConfirmRollout] = "no"
		h.push("1.1.0")
		h.run(time.Minute)
		h.freeze(time.Hour)
		delete(h.hooks, ConfirmRollout)
		h.run(50 * time.Minute)
		if n := h.object("1.1.0").Replicas; n > 0 {
			h.fail("frozen: %d replicas", n)
		}
		h.state("frozen", Frozen, true)
		h.run(time.Hour)
		h.want("end", map[string]string{"1.1.0": "active 100"})
	}},
	{"rule 45: in a freeze, a group without a serving release is not rolled back to a release that was never active", func(h tale) {
		h.live()
		h.steps(twoSteps...)
		h.push("1.1.0")
		h.run(time.Second)
		h.freeze(time.Hour)
		h.spoil(h.object("1.0.0"), "CrashLoopBackOff")
		h.run(30 * time.Minute)
		h.want("the active release crashes", map[string]string{"1.0.0": "active 90", "1.1.0": "canary 10"})
	}},
}

func init() { histories = append(histories, freezes...) }

// TestFrozenText checks the text that describes a freeze for users.
func TestFrozenText(t *testing.T) {
	f := Freeze{Name: `Freeze "fair"`, Reason: "trade fair"}
	if got, want := f.String(), `frozen indefinitely by Freeze "fair" ("trade fair")`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	f.Until = time.Date(2027, 1, 4, 8, 0, 0, 0, time.FixedZone("CET", 3600))
	if got, want := f.String(), `frozen until 2027-01-04T07:00:00Z by Freeze "fair" ("trade fair")`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestFreezeCanFail runs random histories with faults in the planner that only the check on
// freezes can find.
func TestFreezeCanFail(t *testing.T) {
	for name, faulty := range map[string][]rule{
		"versions start in a freeze": instead("Start", func(s *scope) {
			f := s.o.Spec.Freeze
			s.o.Spec.Freeze = nil
			start(s)
			s.o.Spec.Freeze = f
		}),
		"steps begin in a freeze": instead("Step", func(s *scope) {
			f := s.o.Spec.Freeze
			s.o.Spec.Freeze = nil
			step(s)
			s.o.Spec.Freeze = f
		}),
		"first releases become active in a freeze": instead("Promote the first release", func(s *scope) {
			f := s.o.Spec.Freeze
			s.o.Spec.Freeze = nil
			promoteFirst(s)
			s.o.Spec.Freeze = f
		}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := uint64(1); seed <= 3000; seed++ {
				if w := playSeed(seed, faulty); w.err != nil && strings.Contains(w.err.Error(), "freeze:") {
					t.Logf("seed %d: %v", seed, w.err)
					return
				}
			}
			t.Error("no history fails")
		})
	}
}
