package release

import (
	"testing"
	"time"
)

// exclusives are histories with interrupted rollouts in exclusive groups, and with releases that end while their hook Jobs are running.
var exclusives = []scene{
	{"a freeze, a pause and the end of a window during a replacement do not leave the group without traffic", func(all tale) {
		for what, set := range map[string]func(*Spec){
			"freeze": func(s *Spec) { s.Freeze = &Freeze{Name: "f", Reason: "r"} },
			"pause":  func(s *Spec) { s.Paused = true },
			"window": func(s *Spec) { s.Steps = []Step{{Weight: 100, Pause: time.Hour, Window: &Window{}}} },
		} {
			for _, steps := range [][]Step{nil, {{Weight: 100, Pause: time.Hour}}} {
				if what == "window" && steps == nil {
					continue
				}
				h := tale{newWorld()}
				h.exclusive(1)
				h.run(25 * time.Minute) // Windows are open for the first twenty minutes of each hour.
				h.steps(steps...)
				h.startup = time.Minute
				h.push("1.1.0")
				h.run(30 * time.Second)
				h.runs("replacement", 0, 0)
				h.edit(what, set)
				h.run(3 * time.Minute)
				h.runs("after it", 0, 1)
				if steps == nil {
					h.want("complete", map[string]string{"1.0.0": "deprecated 0", "1.1.0": "active 100"})
				} else {
					h.want("complete", map[string]string{"1.0.0": "active 0", "1.1.0": "canary 100"})
					h.run(5 * time.Hour)
					if what != "window" {
						h.want("no further step", map[string]string{"1.0.0": "active 0", "1.1.0": "canary 100"})
					}
				}
				if h.err != nil {
					all.fail("%s with %d steps: %v", what, len(steps), h.err)
				}
			}
		}
	}},
	{"rule 22: Adopt begins the replacement while paused", func(h tale) {
		h.exclusive(1)
		h.run(25 * time.Minute) // Windows are open for the first twenty minutes of each hour.
		h.steps(Step{Weight: 100, Window: &Window{}})
		h.push("1.1.0")
		h.run(time.Minute)
		h.edit("paused", func(s *Spec) { s.Paused = true })
		h.run(time.Minute)
		h.want("paused", map[string]string{"1.0.0": "active 100", "1.1.0": "pending 0"})
		h.decideOn("1.1.0", Adopt, "")
		h.run(5 * time.Minute)
		h.want("adopted", map[string]string{"1.0.0": "deprecated 0", "1.1.0": "active 100"})
	}},
	{"a freeze while pods are replaced for an automatic return does not leave the group without traffic", func(h tale) {
		h.exclusive(1)
		h.push("1.1.0")
		h.run(time.Minute)
		h.startup = time.Minute
		h.edit("pin", func(s *Spec) { s.Pins = []Pin{{Version: "1.0.0"}} })
		h.run(5 * time.Minute)
		h.want("pinned", map[string]string{"1.0.0": "active 100", "1.1.0": "deprecated 0"})
		h.edit("unpin", func(s *Spec) { s.Pins = nil })
		h.run(30 * time.Second)
		h.runs("replacement", 0, 0)
		h.edit("freeze", func(s *Spec) { s.Freeze = &Freeze{Name: "f", Reason: "r"} })
		h.run(3 * time.Minute)
		h.want("the newer version is active again", map[string]string{"1.0.0": "deprecated 0", "1.1.0": "active 100"})
	}},
	{"a release that is superseded while the Job of its PreRollout hook runs loses its pods", func(h tale) {
		h.exclusive(1)
		h.gates(PreRollout)
		h.hooks[PreRollout] = "no" // Its Job, a smoke test, is running.
		h.push("1.1.0")
		h.run(time.Minute)
		h.runs("1.1.0 has all the work, and is tested", 0, 1)
		h.object("1.1.0").ActiveJobs = true
		delete(h.hooks, PreRollout)
		h.push("1.2.0") // its fix
		h.run(9 * time.Hour)
		h.want("nine hours later", map[string]string{"1.0.0": "deprecated 0", "1.1.0": "", "1.2.0": "active 100"})
		if n := h.object("1.1.0").ready; n != 0 {
			h.fail("1.1.0 has no row, but %d ready pods and %d replicas", n, h.object("1.1.0").Replicas)
		}
	}},
	{"a release that is denied while the Job of its PreRollout hook runs returns the pods to the active release", func(h tale) {
		h.exclusive(1)
		h.gates(PreRollout)
		h.hooks[PreRollout] = "no"
		h.push("1.1.0")
		h.run(time.Minute)
		h.runs("1.1.0 has all the work, and is tested", 0, 1)
		h.object("1.1.0").ActiveJobs = true
		h.withdraw("1.1.0", Denied)
		h.run(time.Hour)
		h.runs("an hour after it was denied", 1, 0)
	}},
	{"not exclusive: a denied canary ends while a Job of its hooks runs", func(h tale) {
		h.worker(10)
		h.steps(Step{Weight: 50, Pause: time.Hour})
		h.push("1.1.0")
		h.run(time.Minute)
		h.replicas("step", 5, 5)
		h.object("1.1.0").ActiveJobs = true // a Job of a ConfirmTrafficIncrease hook
		h.withdraw("1.1.0", Denied)
		h.run(time.Hour)
		h.replicas("an hour after it was denied", 10, 0)
	}},
	{"not exclusive: a release that is denied while the Job of its PreRollout hook runs loses its pods", func(h tale) {
		h.worker(10)
		h.gates(PreRollout)
		h.hooks[PreRollout] = "no"
		h.steps(Step{Weight: 50, Pause: time.Hour})
		h.push("1.1.0")
		h.run(time.Minute)
		h.replicas("tested", 10, 5)
		h.object("1.1.0").ActiveJobs = true
		h.withdraw("1.1.0", Denied)
		h.run(time.Hour)
		h.replicas("an hour after it was denied", 10, 0)
	}},
	{"the pods of a closed pull request terminate while a Job of its hooks runs", func(h tale) {
		h.push("pr-7-a")
		h.run(time.Minute)
		h.want("opened", map[string]string{"pr-7-a": "active 100"})
		h.object("pr-7-a").ActiveJobs = true
		h.withdrawGroup("pr-7", Closed)
		h.run(time.Hour)
		if o := h.object("pr-7-a"); o.ready > 0 || o.Replicas > 0 {
			h.fail("an hour after the pull request closed: %d ready pods, want 0", o.ready)
		}
	}},
	{"a group that a user ends has no pods while a Job of its hooks runs", func(h tale) {
		h.worker(10)
		h.object("1.0.0").ActiveJobs = true // a cleanup Job of a PostRollout hook
		h.edit("end", func(s *Spec) { s.Ended = []string{"1.x"} })
		h.run(time.Hour)
		if o := h.object("1.0.0"); o.Replicas > 0 || o.ready > 0 {
			h.fail("an hour after the end of the group: %d ready pods, want 0", o.ready)
		}
	}},
	{"a retained release replaces a denied active release even after a newer release failed", func(h tale) {
		h.exclusive(1)
		h.push("1.1.0")
		h.run(time.Minute)
		h.want("1.1.0", map[string]string{"1.0.0": "deprecated 0", "1.1.0": "active 100"})
		h.broken["1.2.0"] = "CrashLoopBackOff"
		h.push("1.2.0")
		h.run(30 * time.Minute)
		h.want("1.2.0 failed", map[string]string{"1.1.0": "active 100", "1.2.0": "error 0"})
		h.withdraw("1.1.0", Denied)
		h.run(30 * time.Minute)
		h.want("1.1.0 is denied", map[string]string{"1.0.0": "active 100", "1.1.0": "deprecated 0"})
	}},
	{"an autoscaler of the Microservice, or a user, scales down during a step", func(h tale) {
		h.exclusive(10)
		h.steps(Step{Weight: 100, Pause: 24 * time.Hour})
		h.push("1.1.0")
		h.run(time.Minute)
		h.replicas("step", 0, 10)
		h.edit("size", func(s *Spec) { s.Replicas = 2 })
		h.run(time.Hour)
		h.replicas("an hour after spec.availability.replicas was set to 2", 0, 2)
	}},
	{"a group whose end is undone during a step does not make the canary active without its steps", func(h tale) {
		h.exclusive(1)
		h.steps(Step{Weight: 100, Pause: 10 * time.Hour}, Step{Weight: 100, Pause: 10 * time.Hour})
		h.grace = 30 * time.Second
		h.push("1.1.0")
		h.run(3 * time.Minute)
		h.want("step", map[string]string{"1.0.0": "active 0", "1.1.0": "canary 100"})
		h.edit("end", func(s *Spec) { s.Ended = []string{"1.x"} })
		h.run(time.Second)
		h.edit("undo", func(s *Spec) { s.Ended = nil })
		h.run(5 * time.Minute)
		if r := h.rolloutState.group("1-x").Row(h.release("1.1.0")); r != nil && r.Status == Active {
			h.fail("1.1.0 is active, without its two steps of ten hours (%s)", r.Reason)
		}
	}},
	{"a release fails in a freeze during a replacement, and the active release gets its pods back", func(h tale) {
		h.exclusive(1)
		h.startup = 2 * time.Hour
		h.push("1.1.0")
		h.run(time.Minute)
		h.edit("freeze", func(s *Spec) { s.Freeze = &Freeze{Name: "f", Reason: "r"} })
		h.startup = time.Second
		h.object("1.1.0").why = "CrashLoopBackOff"
		h.run(20 * time.Minute)
		h.runs("after its deadline", 1, 0)
	}},
	{"a release fails in a pause during a replacement", func(h tale) {
		h.exclusive(1)
		h.broken["1.1.0"] = "CrashLoopBackOff"
		h.push("1.1.0")
		h.run(time.Minute)
		h.edit("pause", func(s *Spec) { s.Paused = true })
		h.run(20 * time.Minute)
		h.runs("after its deadline", 1, 0)
	}},
	{"a rollback to a retained release that crashes returns the pods to the active release", func(h tale) {
		h.exclusive(1)
		h.push("1.1.0")
		h.run(time.Minute)
		h.spoil(h.object("1.0.0"), "CrashLoopBackOff")
		h.edit("pin", func(s *Spec) { s.Pins = []Pin{{Version: "1.0.0"}} })
		h.run(30 * time.Minute)
		h.runs("after the deadline", 0, 1)
		h.want("after the deadline", map[string]string{"1.1.0": "active 100"})
	}},
	{"a rollback to a retained release that is rejected", func(h tale) {
		h.exclusive(1)
		h.push("1.1.0")
		h.run(time.Minute)
		h.object("1.0.0").why = "Forbidden"
		h.edit("pin", func(s *Spec) { s.Pins = []Pin{{Version: "1.0.0"}} })
		h.run(30 * time.Minute)
		h.runs("after the deadline", 0, 1)
	}},
	{"the rollout state is lost during a replacement", func(h tale) {
		h.exclusive(1)
		h.steps(Step{Weight: 100, Pause: 10 * time.Hour}, Step{Weight: 100, Pause: 10 * time.Hour})
		h.grace = 30 * time.Second
		h.push("1.1.0")
		h.run(3 * time.Minute)
		h.loseState()
		h.run(3 * time.Minute)
		if r := h.rolloutState.group("1-x").Row(h.release("1.1.0")); r != nil && r.Status == Active {
			h.fail("1.1.0 is active, without its two steps of ten hours (%s)", r.Reason)
		}
	}},
}

func TestExclusive(t *testing.T) {
	for _, sc := range exclusives {
		t.Run(sc.name, func(t *testing.T) {
			t.Parallel()
			h := tale{newWorld()}
			sc.play(h)
			if h.err != nil {
				t.Error(h.err)
			}
		})
	}
}

// TestReplacementThatMayNotBegin checks that the active release of an exclusive group and its successor do not wait for each other because of
// a freeze or a pause. When the freeze or pause began, the active release was waiting for terminating pods, and the successor was
// rejected.
func TestReplacementThatMayNotBegin(t *testing.T) {
	for what, set := range map[string]func(*Spec){
		"freeze": func(s *Spec) { s.Freeze = &Freeze{Name: "f", Reason: "r"} },
		"pause":  func(s *Spec) { s.Paused = true },
	} {
		h := tale{newWorld()}
		h.exclusive(1)
		h.grace = 5 * time.Minute
		h.steps(Step{Weight: 100, Pause: 10 * time.Hour})
		h.push("1.1.0")
		h.run(10 * time.Minute)
		h.runs("in its step", 0, 1)
		h.decide(h.release("1.1.0"), Decision{Action: Deprecate, ID: "1", By: "ann"}) // and its pods take five minutes to terminate
		h.run(30 * time.Second)
		h.broken["1.2.0"] = "Forbidden"
		h.push("1.2.0")
		h.run(time.Minute)
		h.edit(what, set)
		h.run(30 * time.Second)
		h.object("1.2.0").why = "" // the webhook, or the quota, accepts it
		h.run(time.Hour)
		n := h.object("1.0.0").ready + h.object("1.2.0").ready
		if n == 0 {
			t.Errorf("%s: an hour later, no release of the group has a pod\n%s", what, renderGroup(h.rolloutState.group("1-x")))
		}
		if h.err != nil {
			t.Error(h.err)
		}
	}
}

// TestAutoscalerBeforeAReplacement checks that a release starts with as many replicas as an autoscaler gave the active release while the
// rollout was waiting for hooks.
func TestAutoscalerBeforeAReplacement(t *testing.T) {
	h := tale{newWorld()}
	h.exclusive(2)
	h.gates(ConfirmRollout)
	h.hooks[ConfirmRollout] = "no"
	h.push("1.1.0")
	h.run(time.Minute)
	o := h.object("1.0.0")
	h.autoscale(o, 8)
	h.run(time.Minute)
	delete(h.hooks, ConfirmRollout)
	h.startup = time.Minute
	h.run(30 * time.Second)
	if n := h.object("1.1.0").Replicas; n < 8 {
		t.Errorf("1.1.0 has %d replicas, want the 8 of 1.0.0", n)
	}
}

// TestFreezeOfAReleaseThatDoesNotBegin checks that a release that gives way to pods of the active release during a freeze or a pause does
// not fail during that time. The release cannot start during this time, and starts when the freeze or the pause ends.
func TestFreezeOfAReleaseThatDoesNotBegin(t *testing.T) {
	for what, set := range map[string]func(*Spec){
		"freeze": func(s *Spec) { s.Freeze = &Freeze{Name: "f", Reason: "r"} },
		"pause":  func(s *Spec) { s.Paused = true },
	} {
		h := tale{newWorld()}
		h.exclusive(1)
		h.grace = 50 * time.Minute // A node is lost.
		h.steps(Step{Weight: 100, Pause: 10 * time.Hour})
		h.push("1.1.0")
		h.run(2 * time.Hour)
		h.runs("in its step", 0, 1)
		h.decideOn("1.1.0", Deprecate, "")
		h.run(30 * time.Second)
		h.broken["1.2.0"] = "Forbidden"
		h.push("1.2.0")
		h.run(time.Minute)
		h.edit(what, set)
		h.run(30 * time.Second)
		h.object("1.2.0").why = ""
		delete(h.broken, "1.2.0")
		for range 12 {
			h.run(10 * time.Minute)
			h.want(what, map[string]string{"1.0.0": "active 100", "1.2.0": "pending 0"})
		}
		if n := h.object("1.0.0").ready; n != 1 {
			h.fail("%s: 1.0.0 has %d ready pods", what, n)
		}
		h.edit("end", func(s *Spec) { s.Freeze, s.Paused = nil, false })
		h.run(12 * time.Hour)
		h.want("after it", map[string]string{"1.0.0": "deprecated 0", "1.2.0": "active 100"})
		if h.err != nil {
			t.Errorf("%s: %v", what, h.err)
		}
	}
}
