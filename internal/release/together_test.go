package release

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// choir contains, by name, Microservices whose releases are rolled out together.
type choir map[string]tale

// sing creates n Microservices, each with a policy and with 1.0.0 active.
func sing(n int, rollBack bool) choir {
	c := choir{}
	for i := range n {
		c[fmt.Sprintf("m%d", i+1)] = tale{newWorld()}
	}
	for name, h := range c {
		h.peers = map[string]*world{}
		for other, x := range c {
			if other != name {
				h.peers[other] = x.world
			}
		}
		h.live()
		h.edit("together", func(s *Spec) { s.RollBack = rollBack })
	}
	return c
}

func (c choir) each(do func(h tale)) {
	for _, name := range slices.Sorted(maps.Keys(c)) {
		do(c[name])
	}
}

// run runs all Microservices for the given time. Each Microservice reads what the others write.
func (c choir) run(d time.Duration) {
	names := slices.Sorted(maps.Keys(c))
	end := c[names[0]].now.Add(d)
	for turns := 0; c.err() == nil; turns++ {
		if turns > 2000 {
			c[names[0]].fail("the Microservices do not become stable")
		}
		at, before, after := end, "", ""
		for _, name := range names {
			h := c[name]
			before += fmt.Sprint(h.rolloutState.Sequence, " ")
			if requeue := h.settle(); !requeue.IsZero() && requeue.Before(at) {
				at = requeue
			}
			after += fmt.Sprint(h.rolloutState.Sequence, " ")
		}
		if before != after {
			continue
		}
		now := c[names[0]].now
		if !at.After(now) && !now.Before(end) {
			return
		}
		c.each(func(h tale) { h.advance(at.Sub(h.now)) })
	}
}

func (c choir) err() error {
	for name, h := range c {
		if h.err != nil {
			return fmt.Errorf("%s: %w", name, h.err)
		}
	}
	return nil
}

// stand returns the states of 1.1.0 in all Microservices, in the form "canary 10, error 0".
func (c choir) stand() string {
	var all []string
	c.each(func(h tale) {
		stand := "-"
		for _, r := range h.rolloutState.Groups[0].Releases {
			if r.Version == "1.1.0" {
				stand = fmt.Sprintf("%s %d", r.Status, r.Weight)
			}
		}
		all = append(all, stand)
	})
	return strings.Join(all, ", ")
}

func (c choir) want(when, stand string) {
	if got := c.stand(); got != stand {
		c["m1"].fail("%s: %s, want %s", when, got, stand)
	}
}

// together contains histories of two to four Microservices.
var together = map[string]func() choir{
	"the faster rollout waits for the slower one at each step": func() choir {
		c := sing(2, false)
		c["m1"].steps(Step{Weight: 10}, Step{Weight: 50})
		c["m2"].steps(Step{Weight: 10, Pause: time.Hour}, Step{Weight: 50, Pause: time.Hour})
		c.each(func(h tale) { h.push("1.1.0") })
		c.run(30 * time.Minute)
		c.want("in the first step", "canary 10, canary 10")
		c["m1"].state("in the first step", "AwaitingTogether", true)
		c.run(time.Hour)
		c.want("in the second step", "canary 50, canary 50")
		c.run(time.Hour)
		c.want("end", "active 100, active 100")
		return c
	},
	"one Microservice gets the version a day later": func() choir {
		c := sing(3, false)
		c.each(func(h tale) { h.steps(twoSteps...) })
		c["m1"].push("1.1.0")
		c["m3"].push("1.1.0")
		c.run(24 * time.Hour)
		c.want("two of three", "canary 10, -, canary 10")
		c["m1"].message("two of three", "AwaitingTogether", "1.1.0 is waiting at 10% for Microservice m2")
		c["m2"].push("1.1.0")
		c.run(time.Hour)
		c.want("end", "active 100, active 100, active 100")
		return c
	},
	"different numbers of steps": func() choir {
		c := sing(2, false)
		c["m1"].steps(Step{Weight: 50, Pause: time.Minute})
		c["m2"].steps(Step{Weight: 10, Pause: time.Minute}, Step{Weight: 20, Pause: time.Minute}, Step{Weight: 50, Pause: time.Minute})
		c.each(func(h tale) { h.push("1.1.0") })
		c.run(time.Hour)
		c.want("end", "active 100, active 100")
		return c
	},
	"hooks after the gate": func() choir {
		c := sing(2, false)
		c.each(func(h tale) {
			h.steps(Step{Weight: 10}, Step{Weight: 50, Confirm: true})
			h.gates(PreRollout, ConfirmPromotion)
		})
		c["m1"].hooks[ConfirmTrafficIncrease], c["m2"].hooks[ConfirmPromotion] = "no", "no"
		c.each(func(h tale) { h.push("1.1.0") })
		c.run(time.Hour)
		c.want("m1 has passed the gate, and waits for its hooks", "canary 10, canary 50")
		delete(c["m1"].hooks, ConfirmTrafficIncrease)
		c.run(time.Hour)
		c.want("m2 follows", "active 100, canary 50")
		delete(c["m2"].hooks, ConfirmPromotion)
		c.run(time.Hour)
		c.want("end", "active 100, active 100")
		return c
	},
	"a newer version supersedes one that waits in its last step": func() choir {
		c := sing(2, false)
		c["m1"].steps(Step{Weight: 10})
		c["m2"].steps(Step{Weight: 10, Pause: time.Hour}, Step{Weight: 50})
		c.each(func(h tale) { h.push("1.1.0") })
		c.run(time.Minute)
		c.each(func(h tale) { h.push("1.2.0") })
		c.run(24 * time.Hour)
		c.each(func(h tale) { h.want("end", map[string]string{"1.2.0": "active 100"}) })
		return c
	},
	"Adopt continues one rollout alone, and a pin rolls it back": func() choir {
		c := sing(2, false)
		c.each(func(h tale) { h.steps(twoSteps...) })
		c["m1"].push("1.1.0")
		c.run(time.Hour)
		c["m1"].decideOn("1.1.0", Adopt, "")
		c.run(time.Minute)
		c.want("adopted", "active 100, -")
		c["m1"].pin(Pin{Group: "1.x", Version: "1.0.0"})
		c["m2"].push("1.1.0")
		c.run(24 * time.Hour)
		c.want("the version that was rolled back does not count", "deprecated 0, canary 10")
		c["m1"].pin()
		c.run(time.Hour)
		c.want("end", "active 100, active 100")
		return c
	},
	"the Microservices in which the version failed are listed in order": func() choir {
		c := sing(4, false)
		c.each(func(h tale) { h.steps(twoSteps...) })
		c["m2"].broken["1.1.0"], c["m3"].broken["1.1.0"], c["m4"].broken["1.1.0"] = "ImageNotFound", "CrashLoopBackOff", "CrashLoopBackOff"
		c.each(func(h tale) { h.push("1.1.0") })
		c.run(time.Hour)
		c.want("blocked by the failure", "canary 10, error 0, error 0, error 0")
		c["m1"].message("blocked by the failure", "TogetherHeld", "1.1.0 is waiting at 10%: it failed in Microservices m2 (ImageNotFound), m3 (CrashLoopBackOff), m4 (CrashLoopBackOff); retry the version where it failed, push another version, or in VersionedMicroservice "+c["m1"].release("1.1.0")+", set spec.decision.action to Adopt or Deprecate and spec.decision.id to a new value")
		return c
	},
	"failed releases are retried by decision, and then all continue": func() choir {
		c := sing(2, true)
		c.each(func(h tale) { h.steps(Step{Weight: 10, Pause: time.Minute}, Step{Weight: 50, Pause: time.Minute}) })
		c["m1"].broken["1.1.0"] = "CrashLoopBackOff"
		c.each(func(h tale) { h.push("1.1.0") })
		c.run(time.Hour)
		c.want("both are rolled back", "error 0, error 0")
		c["m2"].decideOn("1.1.0", Retry, "")
		c.run(time.Hour)
		c.want("not before m1 is retried", "error 0, error 0")
		c["m1"].object("1.1.0").why = ""
		c["m1"].decideOn("1.1.0", Retry, "")
		c.run(time.Hour)
		c.want("m1 waits for m2", "canary 10, error 0")
		c["m2"].decideOn("1.1.0", Retry, "")
		c.run(time.Hour)
		c.want("end", "active 100, active 100")
		return c
	},
}

// failuresTogether contains failures of the last Microservice, at different points in its rollout.
var failuresTogether = []struct {
	point string
	fail  func(h tale)
	after time.Duration
	held  string // the resulting state of each other Microservice
}{
	{"before it has pods", func(h tale) { h.broken["1.1.0"] = "CrashLoopBackOff" }, 0, "canary 10"},
	{"in the first step", func(h tale) { h.spoil(h.object("1.1.0"), "CrashLoopBackOff") }, 30 * time.Second, "canary 10"},
	{"in the second step", func(h tale) { h.spoil(h.object("1.1.0"), "CrashLoopBackOff") }, 90 * time.Second, "canary 50"},
	{"aborted by a user", func(h tale) { h.decideOn("1.1.0", Deprecate, "") }, 90 * time.Second, "canary 50"},
}

func TestTogether(t *testing.T) {
	t.Parallel()
	for name, play := range together {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c := play(); c.err() != nil {
				t.Errorf("%v\n%s", c.err(), c["m1"].played())
			}
		})
	}
	for _, members := range []int{2, 3} {
		for _, rollBack := range []bool{false, true} {
			for _, f := range failuresTogether {
				t.Run(fmt.Sprintf("%d members, rollBack %t, failure %s", members, rollBack, f.point), func(t *testing.T) {
					t.Parallel()
					c := sing(members, rollBack)
					c.each(func(h tale) { h.steps(twoSteps...) })
					bad := c[fmt.Sprintf("m%d", members)]
					if f.after == 0 {
						f.fail(bad)
					}
					c.each(func(h tale) { h.push("1.1.0") })
					if f.after > 0 {
						c.run(f.after)
						f.fail(bad)
					}
					c.run(24 * time.Hour)
					others := f.held
					if rollBack {
						others = "error 0"
					}
					c.want("after the failure", strings.Repeat(others+", ", members-1)+"error 0")
					c["m1"].state("after the failure", "TogetherHeld", !rollBack)
					c.each(func(h tale) { h.push("1.2.0") })
					c.run(24 * time.Hour)
					c.each(func(h tale) { h.want("the fix", map[string]string{"1.2.0": "active 100"}) })
					if c.err() != nil {
						t.Errorf("%v\n%s", c.err(), c["m1"].played())
					}
				})
			}
		}
	}
}
