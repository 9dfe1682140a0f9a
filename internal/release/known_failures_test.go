package release

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// knownFailures are histories that other progressive delivery controllers handle incorrectly. Names
// begin with the number of the row in docs/design/known-failures.md.
var knownFailures = []scene{
	{"06 weights that do not divide 100 evenly", func(h tale) {
		h.live()
		h.steps(Step{Weight: 30}, Step{Weight: 60}, Step{Weight: 97, Pause: time.Minute})
		h.push("1.1.0")
		h.run(time.Second)
		h.want("last step", map[string]string{"1.0.0": "active 3", "1.1.0": "canary 97"})
		h.run(2 * time.Minute)
		h.want("end", map[string]string{"1.0.0": "deprecated 0", "1.1.0": "active 100"})
	}},
	{"08 pods stay until the last weight is confirmed", func(h tale) {
		h.edit("keep one", func(s *Spec) { s.MinimumAvailable = 1 })
		h.live()
		h.steps(Step{Weight: 50, Pause: time.Minute})
		h.push("1.1.0")
		h.run(30 * time.Second)
		h.want("step", map[string]string{"1.1.0": "canary 50"})
		h.nets["web"].stuck = true
		h.run(24 * time.Hour)
		h.want("promoted", map[string]string{"1.0.0": "deprecated 0", "1.1.0": "active 100"})
		h.ready("unconfirmed", "1.0.0", 2)
		h.state("unconfirmed", "TrafficUnconfirmed", true)
		h.nets["web"].stuck = false
		h.run(time.Minute)
		h.want("confirmed and drained", map[string]string{"1.0.0": "", "1.1.0": "active 100"})
	}},
	{"10 a superseded canary gets no matched requests", func(h tale) {
		h.live()
		h.steps(Step{Weight: 0, Match: true, Mirror: 50, Pause: time.Hour}, Step{Weight: 50})
		h.push("1.1.0")
		h.run(time.Second)
		if !h.nets["web"].routes["1-x"].accepts(h.release("1.1.0")) {
			h.fail("no route refers to the canary in its step")
		}
		h.startup = time.Hour
		h.push("1.2.0")
		h.run(time.Second)
		h.want("superseded", map[string]string{"1.1.0": "deprecated 0", "1.2.0": "pending 0"})
		if r := h.rolloutState.Groups[0].Row(h.release("1.1.0")); r.Match || r.Mirror > 0 {
			h.fail("the superseded canary keeps its matches: %+v", r)
		}
		if h.nets["web"].routes["1-x"].accepts(h.release("1.1.0")) {
			h.fail("a route refers to the superseded canary")
		}
	}},
	{"12 edits outside of the steps change no weight", func(h tale) {
		h.live()
		h.steps(Step{Weight: 10}, Step{Weight: 50, Pause: 24 * time.Hour})
		h.push("1.1.0")
		h.run(time.Minute)
		revision := h.rolloutState.Groups[0].TrafficRevision
		for what, edit := range map[string]func(*Spec){
			"replicas": func(s *Spec) { s.Replicas = 5 }, "fewer": func(s *Spec) { s.Replicas = 1 },
			"standby": func(s *Spec) { s.Standby = 2 }, "kept": func(s *Spec) { s.MinimumAvailable = 1 },
			"deadline": func(s *Spec) { s.Deadline = time.Hour }, "drain": func(s *Spec) { s.Drain = time.Minute },
			"paused": func(s *Spec) { s.Paused = true }, "resumed": func(s *Spec) { s.Paused = false },
		} {
			h.edit(what, edit)
			h.run(time.Minute)
			h.want(what, map[string]string{"1.0.0": "active 50", "1.1.0": "canary 50"})
		}
		if now := h.rolloutState.Groups[0].TrafficRevision; now != revision {
			h.fail("edits that change no traffic raised the revision of the traffic from %d to %d", revision, now)
		}
	}},
	{"16 retained releases free capacity for a release that has none", func(h tale) {
		h.live()
		h.push("1.1.0")
		h.run(time.Hour)
		h.ready("standby", "1.0.0", 1)
		h.broken["1.2.0"] = "Unschedulable"
		h.push("1.2.0")
		h.run(4 * time.Minute)
		h.ready("before half of the deadline", "1.0.0", 1)
		h.run(2 * time.Minute)
		h.ready("after half of the deadline", "1.0.0", 0)
		h.want("still kept", map[string]string{"1.0.0": "deprecated 0", "1.1.0": "active 100"})
		h.object("1.2.0").why = ""
		h.run(time.Minute)
		h.want("there is room", map[string]string{"1.2.0": "active 100"})
	}},
	{"16 an active release without ready pods frees capacity for its fix", func(h tale) {
		h.live()
		h.spoil(h.object("1.0.0"), "CrashLoopBackOff")
		h.run(time.Hour)
		h.broken["1.1.0"] = "QuotaExceeded"
		h.push("1.1.0")
		h.run(4 * time.Minute)
		if n := h.object("1.0.0").Replicas; n != 2 {
			h.fail("before half of the deadline: the active release has %d replicas, want 2", n)
		}
		h.run(2 * time.Minute)
		if n := h.object("1.0.0").Replicas; n != 1 {
			h.fail("after half of the deadline: the active release without ready pods has %d replicas, want 1", n)
		}
		h.broken = map[string]string{}
		h.object("1.1.0").why = ""
		h.run(time.Hour)
		h.want("there is room", map[string]string{"1.1.0": "active 100"})
	}},
	{"17 a drain that a rollback interrupts begins again", func(h tale) {
		h.live()
		h.push("1.1.0")
		h.run(20 * time.Second)
		h.want("promoted", map[string]string{"1.0.0": "deprecated 0", "1.1.0": "active 100"})
		h.pin(Pin{Group: "1.x", Version: "1.0.0"})
		h.run(20 * time.Second)
		h.want("rolled back", map[string]string{"1.0.0": "active 100", "1.1.0": "deprecated 0"})
		h.ready("its first drain would have ended", "1.0.0", 2)
		h.pin()
		h.run(20 * time.Second)
		h.want("forward", map[string]string{"1.0.0": "deprecated 0", "1.1.0": "active 100"})
		h.ready("the second drain", "1.0.0", 2)
		h.ready("the interrupted drain", "1.1.0", 2)
		h.run(15 * time.Second)
		h.ready("drained", "1.0.0", 1)
	}},
	{"19 a rollback waits until its release has as many pods as the release that it replaces", func(h tale) {
		h.edit("size", func(s *Spec) { s.Replicas = 4 })
		h.live()
		h.push("1.1.0")
		h.run(time.Hour)
		h.ready("standby", "1.0.0", 1)
		h.startup = 2 * time.Minute
		h.pin(Pin{Group: "1.x", Version: "1.0.0"})
		h.run(time.Minute)
		h.want("one of four", map[string]string{"1.0.0": "deprecated 0", "1.1.0": "active 100"})
		h.ready("meanwhile", "1.1.0", 4)
		h.run(90 * time.Second)
		h.want("four of four", map[string]string{"1.0.0": "active 100", "1.1.0": "deprecated 0"})
	}},
	{"28 one of four pods never becomes ready", func(h tale) {
		h.edit("size", func(s *Spec) { s.Replicas = 4 })
		h.live()
		h.broken["1.1.0"] = "CrashLoopBackOff"
		h.push("1.1.0")
		h.run(time.Second)
		h.object("1.1.0").ready = 3
		h.run(11 * time.Minute)
		h.want("rolled back", map[string]string{"1.0.0": "active 100", "1.1.0": "error 0"})
	}},
	{"29 a canary that is unhealthy again and again", func(h tale) {
		h.live()
		h.steps(Step{Weight: 10, Pause: 24 * time.Hour})
		h.push("1.1.0")
		h.run(time.Minute)
		h.want("at first", map[string]string{"1.1.0": "canary 10"})
		for range 14 { // It is unhealthy for 50 of every 60 seconds, so its unhealthy time exceeds ten minutes in the 13th round.
			h.kill(h.object("1.1.0"), 2)
			h.object("1.1.0").up = h.now.Add(50 * time.Second)
			h.run(time.Minute)
		}
		h.want("rolled back", map[string]string{"1.0.0": "active 100", "1.1.0": "error 0"})
	}},
	{"29 pods that become ready again and again are not progress", func(h tale) {
		h.edit("size", func(s *Spec) { s.Replicas = 4 })
		h.live()
		h.broken["1.1.0"] = "CrashLoopBackOff"
		h.push("1.1.0")
		for i := range 21 {
			h.run(30 * time.Second)
			h.object("1.1.0").ready = i % 4
		}
		h.want("rolled back", map[string]string{"1.0.0": "active 100", "1.1.0": "error 0"})
	}},
	{"30 an active release without ready pods does not block its fix", func(h tale) {
		h.live()
		h.steps(twoSteps...)
		h.spoil(h.object("1.0.0"), "CrashLoopBackOff")
		h.run(24 * time.Hour)
		h.want("without pods for a day", map[string]string{"1.0.0": "active 100"})
		h.push("1.1.0")
		h.run(5 * time.Minute)
		h.want("fixed", map[string]string{"1.1.0": "active 100"})
	}},
	{"31 no deadline while a healthy release waits", func(h tale) {
		h.live()
		h.steps(Step{Weight: 10, Pause: time.Minute}, Step{Weight: 50, Approval: true})
		h.startup = time.Minute
		h.push("1.1.0")
		h.run(time.Second)
		h.edit("paused before the first step", func(s *Spec) { s.Paused = true })
		h.run(24 * time.Hour)
		h.want("paused before the first step", map[string]string{"1.0.0": "active 100", "1.1.0": "pending 0"})
		h.edit("resumed", func(s *Spec) { s.Paused = false })
		h.run(time.Second)
		h.edit("paused in a step", func(s *Spec) { s.Paused = true })
		h.run(24 * time.Hour)
		h.want("paused in a step", map[string]string{"1.0.0": "active 90", "1.1.0": "canary 10"})
		h.edit("resumed", func(s *Spec) { s.Paused = false })
		h.run(24 * time.Hour)
		h.want("approval", map[string]string{"1.0.0": "active 50", "1.1.0": "canary 50"})
	}},
	{"31 no deadline during a drain", func(h tale) {
		h.edit("long drain", func(s *Spec) { s.Drain = 2 * time.Hour })
		h.live()
		h.push("1.1.0")
		h.run(time.Hour)
		h.want("draining", map[string]string{"1.0.0": "deprecated 0", "1.1.0": "active 100"})
		h.push("1.2.0")
		h.run(time.Hour)
		h.want("another version during the drain", map[string]string{"1.2.0": "active 100"})
		if n := h.stats.failures; n > 0 {
			h.fail("%d releases failed", n)
		}
	}},
	{"33 contradictory decisions end in a stable state", func(h tale) {
		h.live()
		h.steps(Step{Weight: 10, Approval: true})
		h.push("1.1.0")
		h.run(time.Minute)
		for _, a := range []Action{Deprecate, Adopt, Retry, Adopt, Deprecate, Retry, Continue, Deprecate} {
			h.decideOn("1.1.0", a, "1")
			h.run(time.Second)
		}
		h.rest("a promoted release that is to be rolled back")
		h.push("1.2.0")
		h.run(time.Minute)
		h.decideOn("1.2.0", Adopt, "")
		h.decideOn("1.2.0", Deprecate, "")
		h.run(time.Minute)
		h.rest("an aborted release that was to be promoted")
		h.edit("paused", func(s *Spec) { s.Paused = true })
		h.push("1.3.0")
		h.run(time.Minute)
		h.rest("paused")
	}},
	{"34 an abort applies to one release", func(h tale) {
		h.live()
		h.steps(twoSteps...)
		h.push("1.1.0")
		h.run(time.Second)
		h.decideOn("1.1.0", Deprecate, "")
		h.run(time.Hour)
		h.want("aborted", map[string]string{"1.0.0": "active 100", "1.1.0": "error 0"})
		h.push("1.1.1")
		h.run(time.Second)
		h.want("another version", map[string]string{"1.0.0": "active 90", "1.1.1": "canary 10"})
		h.decideOn("1.1.1", Deprecate, "")
		h.run(time.Minute)
		h.configure("c2")
		h.run(time.Second)
		h.want("another template", map[string]string{"1.0.0": "active 90"})
		if run := h.rolloutState.Groups[0].Rollout; run == nil || run.Release != h.release("1.1.1") {
			h.fail("the aborted version is not rolled out with its fixed configuration")
		}
	}},
	{"36 no deadline outside of a rollout", func(h tale) {
		h.live()
		h.push("1.1.0")
		h.run(time.Hour)
		h.spoil(h.object("1.1.0"), "CrashLoopBackOff")
		h.spoil(h.object("1.0.0"), "CrashLoopBackOff")
		h.run(48 * time.Hour)
		h.want("unhealthy", map[string]string{"1.0.0": "deprecated 0", "1.1.0": "active 100"})
	}},
	{"36 three releases are live at the same time", func(h tale) {
		h.edit("size", func(s *Spec) { s.Replicas, s.Drain = 3, time.Hour })
		h.live()
		h.steps(Step{Weight: 40, Pause: time.Minute}, Step{Weight: 60})
		h.push("1.1.0")
		h.run(time.Second)
		h.push("1.1.1")
		h.run(time.Second)
		h.want("two at a time", map[string]string{"1.0.0": "active 60", "1.1.0": "deprecated 0", "1.1.1": "canary 40"})
		h.push("1.2.0")
		h.run(time.Second)
		h.want("three at a time", map[string]string{"1.0.0": "active 60", "1.1.0": "deprecated 0", "1.1.1": "deprecated 0", "1.2.0": "canary 40"})
		for _, v := range []string{"1.0.0", "1.1.0", "1.1.1", "1.2.0"} {
			h.ready("in the drain", v, 3)
		}
		h.run(5 * time.Hour)
		h.want("the end", map[string]string{"1.0.0": "deprecated 0", "1.1.0": "", "1.1.1": "", "1.2.0": "active 100"})
	}},
	{"37 Adopt skips steps and waits for pods", func(h tale) {
		h.live()
		h.steps(twoSteps...)
		h.startup = 5 * time.Minute
		h.push("1.1.0")
		h.run(time.Second)
		h.decideOn("1.1.0", Adopt, "")
		h.run(4 * time.Minute)
		h.want("without pods", map[string]string{"1.0.0": "active 100", "1.1.0": "pending 0"})
		h.run(2 * time.Minute)
		h.want("with pods", map[string]string{"1.0.0": "deprecated 0", "1.1.0": "active 100"})
	}},
	{"40 size and template in one write", func(h tale) {
		h.live()
		h.config = "c2"
		h.edit("both", func(s *Spec) { s.Replicas = 5 })
		h.run(time.Hour)
		g := h.rolloutState.Groups[0]
		if a := g.ActiveRow(); a == nil || a.Config != "c2" || len(g.Releases) != 2 {
			h.fail("after one write of both: %s", renderGroup(&g))
		}
		h.ready("the new size", "1.0.0", 5)
		revision, promotions := g.TrafficRevision, h.stats.promotions
		h.startup = time.Minute
		for _, size := range []int{3, 6} {
			h.edit("size alone", func(s *Spec) { s.Replicas = size })
			h.run(time.Hour)
			h.ready("another size", "1.0.0", size)
		}
		if g = h.rolloutState.Groups[0]; g.TrafficRevision != revision || h.stats.promotions != promotions || g.Rollout != nil {
			h.fail("scaling created a release: %s", renderGroup(&g))
		}
	}},
	{"41 a result of an earlier rollout decides nothing", func(h tale) {
		h.analysed(Step{Weight: 10}, Step{Weight: 50})
		h.push("1.1.0")
		h.run(time.Second)
		run := h.rolloutState.Groups[0].Rollout
		for _, late := range []VerdictPhase{VerdictPassed, VerdictFailed} {
			h.decideOn("1.1.0", Deprecate, "")
			h.run(time.Minute)
			h.object("1.1.0").Analysis = &Verdict{Rollout: run.Sequence, Step: 1, Since: run.WaitingSince, Phase: late}
			h.decideOn("1.1.0", Retry, "")
			h.run(interval - time.Second)
			h.want("late "+string(late), map[string]string{"1.0.0": "active 90", "1.1.0": "canary 10"})
		}
		h.run(2 * interval)
		h.want("its own results", map[string]string{"1.1.0": "active 100"})
	}},
	{"41 a result of a superseded release affects no other release", func(h tale) {
		h.analysed(Step{Weight: 10}, Step{Weight: 50})
		h.push("1.1.0")
		h.run(time.Second)
		run := *h.rolloutState.Groups[0].Rollout
		h.push("1.2.0")
		h.run(time.Second)
		h.object("1.1.0").Analysis = &Verdict{Rollout: run.Sequence, Step: 1, Since: run.WaitingSince, Phase: VerdictFailed}
		h.object("1.1.0").Rollback = &RollbackFact{Rollout: run.Sequence}
		h.run(5 * interval)
		h.want("the end", map[string]string{"1.0.0": "deprecated 0", "1.1.0": "", "1.2.0": "active 100"})
	}},
	{"45 Adopt during a pause, then the pause ends", func(h tale) {
		h.live()
		h.steps(twoSteps...)
		h.push("1.1.0")
		h.run(time.Second)
		h.edit("paused", func(s *Spec) { s.Paused = true })
		h.decideOn("1.1.0", Adopt, "")
		h.run(time.Minute)
		h.want("adopted", map[string]string{"1.0.0": "deprecated 0", "1.1.0": "active 100"})
		revision := h.rolloutState.Groups[0].TrafficRevision
		h.edit("resumed", func(s *Spec) { s.Paused = false })
		h.run(time.Hour)
		h.want("resumed", map[string]string{"1.0.0": "deprecated 0", "1.1.0": "active 100"})
		if now := h.rolloutState.Groups[0].TrafficRevision; now != revision {
			h.fail("the end of the pause moved traffic")
		}
	}},
	{"45 Continue during a pause, then the pause ends", func(h tale) {
		h.live()
		h.steps(Step{Weight: 10, Approval: true}, Step{Weight: 50, Approval: true})
		h.push("1.1.0")
		h.run(time.Second)
		h.edit("paused", func(s *Spec) { s.Paused = true })
		h.decideOn("1.1.0", Continue, "1")
		h.run(time.Hour)
		h.want("paused", map[string]string{"1.1.0": "canary 10"})
		h.edit("resumed", func(s *Spec) { s.Paused = false })
		h.run(time.Hour)
		h.want("one step, and not two", map[string]string{"1.1.0": "canary 50"})
	}},
	{"52 a rollback does not wait for measurements", func(h tale) {
		h.live()
		h.push("1.1.0")
		h.run(time.Hour)
		h.edit("analysis", func(s *Spec) { s.Analysis, s.Steps = true, twoSteps })
		h.quality["1.0.0"], h.quality["1.1.0"] = VerdictFailed, VerdictFailed
		h.pin(Pin{Group: "1.x", Version: "1.0.0"})
		h.run(time.Second)
		h.want("rolled back", map[string]string{"1.0.0": "active 100", "1.1.0": "deprecated 0"})
	}},
	{"72 an abort where there are no Services", func(h tale) {
		h.push("1.0.0")
		h.run(time.Minute)
		h.steps(Step{Weight: 20, Approval: true})
		h.push("1.1.0")
		h.run(time.Minute)
		h.want("canary", map[string]string{"1.0.0": "active 80", "1.1.0": "canary 20"})
		h.decideOn("1.1.0", Deprecate, "")
		h.run(time.Minute)
		h.want("aborted", map[string]string{"1.0.0": "active 100", "1.1.0": "error 0"})
		h.ready("aborted", "1.1.0", 0)
	}},
}

// ready checks how many pods of a version with the current template are ready.
func (h tale) ready(when, version string, want int) {
	if o := h.object(version); o.ready != want || o.Replicas != want {
		h.fail("%s: %s has %d ready pods and %d replicas, want %d", when, version, o.ready, o.Replicas, want)
	}
}

// rest checks that a day without changes requires no writes and almost no plans.
func (h tale) rest(when string) {
	h.run(time.Hour) // The drains end.
	plans, sequence := h.stats.plans, h.rolloutState.Sequence
	h.run(24 * time.Hour)
	if n := h.stats.plans - plans; n > 4 {
		h.fail("%s: %d plans in a day without changes", when, n)
	}
	if h.rolloutState.Sequence != sequence {
		h.fail("%s: %d writes in a day without changes", when, h.rolloutState.Sequence-sequence)
	}
}

func TestKnownFailures(t *testing.T) {
	for _, h := range knownFailures {
		t.Run(h.name, func(t *testing.T) { played(t, h.play) })
	}
}

func played(t *testing.T, play func(tale)) {
	t.Helper()
	if w := playTale(play, rules); w.err != nil {
		t.Errorf("%v\n%s", w.err, w.played())
	}
}

// aborts are the ways in which a canary loses its weight, with the resulting state of its row.
var aborts = []struct {
	name string
	do   func(tale)
	row  string
}{
	{"aborted", func(h tale) { h.decideOn("1.1.0", Deprecate, "") }, "error 0"},
	{"crashes", func(h tale) { h.spoil(h.object("1.1.0"), "CrashLoopBackOff") }, "error 0"},
	{"pin to the previous version", func(h tale) { h.pin(Pin{Group: "1.x", Version: "1.0.0"}) }, ""},
	{"withdrawn", func(h tale) { h.withdraw("1.1.0", Denied) }, ""},
	{"crashes while paused", func(h tale) {
		h.edit("paused", func(s *Spec) { s.Paused = true })
		h.spoil(h.object("1.1.0"), "CrashLoopBackOff")
	}, "error 0"},
}

// TestAbortsAtEachStep (rows 1, 18 and 26) checks, at every step, that the end of a canary, whatever its
// cause, gives all weight to the active release, which had all its pods throughout, and removes all pods of
// the canary. The simulation checks the weights at every write.
func TestAbortsAtEachStep(t *testing.T) {
	steps := []Step{{Weight: 0, Pause: time.Hour}, {Weight: 1, Pause: time.Hour}, {Weight: 50, Pause: time.Hour}, {Weight: 99, Pause: time.Hour}, {Weight: 100, Pause: time.Hour}}
	for _, abort := range aborts {
		for at := range steps {
			t.Run(fmt.Sprintf("%s at %d percent", abort.name, steps[at].Weight), func(t *testing.T) {
				played(t, func(h tale) {
					h.edit("size", func(s *Spec) { s.Replicas = 3 })
					h.live()
					h.steps(steps...)
					h.push("1.1.0")
					h.run(time.Minute)
					h.run(time.Duration(at) * (time.Hour + time.Minute))
					h.want("during the steps", map[string]string{"1.1.0": fmt.Sprintf("canary %d", steps[at].Weight)})
					h.ready("during the steps", "1.0.0", 3)
					abort.do(h)
					h.run(time.Second)
					h.ready("at the abort", "1.0.0", 3)
					h.run(30 * time.Minute)
					h.want("rolled back", map[string]string{"1.0.0": "active 100", "1.1.0": abort.row})
					h.ready("rolled back", "1.0.0", 3)
					if o := h.objects[h.release("1.1.0")]; o != nil && (o.Replicas > 0 || o.ready > 0) {
						h.fail("the canary still has %d of %d pods", o.ready, o.Replicas)
					}
				})
			})
		}
	}
}

// TestDecisionsOnEachStatus (row 36) makes each decision in each status of a
// release. An entry is the state of the row a moment later, or "" if the decision
// is not applicable and changes nothing.
func TestDecisionsOnEachStatus(t *testing.T) {
	step := Step{Name: "check", Weight: 20, Approval: true}
	canary := func(h tale) {
		h.live()
		h.steps(step)
		h.push("1.1.0")
		h.run(time.Minute)
	}
	type m = map[Action]string
	for name, test := range map[string]struct {
		play func(tale)
		then m
	}{
		"pending": {func(h tale) {
			h.live()
			h.steps(step)
			h.startup = time.Minute
			h.push("1.1.0")
			h.run(time.Second)
		}, m{Adopt: "pending 0", Deprecate: "error 0"}},
		"canary": {canary, m{Continue: "active 100", Adopt: "active 100", Deprecate: "error 0"}},
		"canary of a paused Microservice": {func(h tale) {
			canary(h)
			h.edit("paused", func(s *Spec) { s.Paused = true })
		}, m{Continue: "canary 20", Adopt: "active 100", Deprecate: "error 0"}},
		"active": {func(h tale) {
			h.live()
			h.push("1.1.0")
			h.run(time.Hour)
		}, m{}},
		"error": {func(h tale) {
			canary(h)
			h.decideOn("1.1.0", Deprecate, "")
			h.run(time.Hour)
		}, m{Retry: "canary 20"}},
		"kept": {func(h tale) {
			h.live()
			h.push("1.1.0")
			h.run(time.Hour)
			h.push("1.2.0")
			h.run(time.Hour)
		}, m{}},
		"target of a rollback": {func(h tale) {
			h.live()
			h.push("1.1.0")
			h.run(time.Hour)
			h.push("1.2.0")
			h.run(time.Hour)
			h.startup = time.Minute
			h.pin(Pin{Group: "1.x", Version: "1.1.0"})
			h.run(time.Second)
		}, m{}},
		"superseded": {func(h tale) {
			canary(h)
			h.steps(step, Step{Weight: 50}) // From the last step on, no release supersedes it.
			h.push("1.2.0")
			h.run(time.Second)
		}, m{}},
		"closing": {func(h tale) {
			canary(h)
			h.withdrawGroup("1-x", Closed)
			h.run(time.Second)
		}, m{}},
	} {
		for _, action := range []Action{Continue, Adopt, Deprecate, Retry, "Explode", ""} {
			t.Run(fmt.Sprintf("%s %s", action, name), func(t *testing.T) {
				played(t, func(h tale) {
					test.play(h)
					release := h.release("1.1.0")
					before := h.stand(release)
					h.decideOn("1.1.0", action, "check")
					h.run(time.Second)
					want, applied := test.then[action]
					if !applied {
						want = before
					}
					if got := h.stand(release); got != want {
						h.fail("before %q, now %q, want %q", before, got, want)
					}
					row := h.rolloutState.Groups[0].Row(release)
					if row == nil || row.Decision == nil || (row.Decision.Outcome == DecisionApplied) != applied {
						h.fail("the outcome is missing or wrong, want applied %t: %+v", applied, row)
					}
				})
			})
		}
	}
}

// stand returns the status and weight of a release.
func (h tale) stand(release string) string {
	for _, g := range h.rolloutState.Groups {
		if r := g.Row(release); r != nil {
			return fmt.Sprintf("%s %d", r.Status, r.Weight)
		}
	}
	return ""
}

// TestAnySizesEnd (row 20) checks that, for any sizes, an upgrade of healthy releases ends with a
// promotion, and that the group then has the required number of pods and becomes stable.
func TestAnySizesEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := Spec{
			Replicas: rapid.IntRange(1, 60).Draw(t, "replicas"), Standby: rapid.IntRange(0, 80).Draw(t, "standby"),
			StandbyFull: rapid.Bool().Draw(t, "standby full"), MinimumAvailable: rapid.IntRange(1, 4).Draw(t, "minimumAvailable"),
			Deadline: time.Hour, Drain: 5 * time.Second,
		}
		weights := rapid.SliceOfN(rapid.IntRange(0, 100), 0, 6).Draw(t, "weights")
		slices.Sort(weights)
		for _, w := range weights {
			spec.Steps = append(spec.Steps, Step{Weight: w, Pause: time.Duration(rapid.IntRange(0, 2).Draw(t, "minutes")) * time.Minute})
		}
		later := rapid.IntRange(1, 60).Draw(t, "replicas later")
		w := playTale(func(h tale) {
			h.edit("sizes", func(s *Spec) { *s = spec })
			h.startup = 10 * time.Second
			h.live()
			h.push("1.1.0")
			h.run(20 * time.Second)
			h.edit("scaled during the rollout", func(s *Spec) { s.Replicas = later })
			h.run(2 * time.Hour)
			h.want("the end", map[string]string{"1.1.0": "active 100"})
			h.ready("the end", "1.1.0", later)
			h.rest("the end")
		}, rules)
		if w.err != nil {
			t.Fatalf("%v\n%s", w.err, w.played())
		}
	})
}

// TestStepListsAreSwitched (row 70) replaces a list of steps with another list
// during each of the steps of a rollout. The rollout ends, and no unnecessary pods remain.
func TestStepListsAreSwitched(t *testing.T) {
	lists := map[string][]Step{
		"no steps":   nil,
		"canary":     {{Weight: 10, Pause: 5 * time.Minute}, {Weight: 50, Pause: 5 * time.Minute}, {Weight: 90, Pause: 5 * time.Minute}},
		"blue/green": {{Weight: 0, Pause: 5 * time.Minute}, {Weight: 100, Pause: 5 * time.Minute}},
		"one step":   {{Weight: 40, Pause: 5 * time.Minute}},
	}
	for from, first := range lists {
		for to, second := range lists {
			for at := range len(first) + 1 { // 0 means before its pods are available.
				t.Run(fmt.Sprintf("%s to %s in step %d", from, to, at), func(t *testing.T) {
					played(t, func(h tale) {
						h.live()
						h.steps(first...)
						h.startup = time.Minute
						h.push("1.1.0")
						if h.run(time.Second); at > 0 {
							h.run(time.Minute + time.Duration(at-1)*5*time.Minute + 10*time.Second)
							h.want("before", map[string]string{"1.1.0": fmt.Sprintf("canary %d", first[at-1].Weight)})
						}
						h.steps(second...)
						h.run(time.Hour)
						h.want("after", map[string]string{"1.0.0": "deprecated 0", "1.1.0": "active 100"})
						h.ready("after", "1.0.0", 1)
						h.ready("after", "1.1.0", 2)
						h.push("1.2.0")
						h.run(time.Hour)
						h.want("the next", map[string]string{"1.0.0": "", "1.1.0": "deprecated 0", "1.2.0": "active 100"})
						h.rest("the end")
					})
				})
			}
		}
	}
}

// TestRetainedAtTheLimits (row 71) promotes one release fewer than the number of retained releases, exactly that number,
// one more, and two more. A release to which a domain refers is retained in addition to the other retained releases.
func TestRetainedAtTheLimits(t *testing.T) {
	all := []string{"1.0.0", "1.1.0", "1.1.1", "1.2.0", "1.3.0"}
	for limit := 1; limit <= 3; limit++ {
		for _, pinned := range []bool{false, true} {
			for promoted := max(1, limit-1); promoted <= limit+2; promoted++ {
				t.Run(fmt.Sprintf("%d promoted, %d kept, pinned %t", promoted, limit, pinned), func(t *testing.T) {
					played(t, func(h tale) {
						h.edit("kept", func(s *Spec) { s.MinimumAvailable = limit })
						h.live()
						if pinned {
							h.nets["web"].pins = []string{"1.0.0"}
						}
						for _, v := range all[1:promoted] {
							h.push(v)
							h.run(time.Hour)
						}
						for i, v := range all[:promoted] {
							want := "deprecated 0"
							switch {
							case i == promoted-1:
								want = "active 100"
							case i < promoted-limit && !(pinned && i == 0):
								want = ""
							}
							h.want("the end", map[string]string{v: want})
							if there := h.objects[h.release(v)] != nil; there != (want != "") {
								h.fail("%s: object exists: %t", v, there)
							}
						}
						if pinned {
							h.ready("a domain refers to it", "1.0.0", 2)
						}
					})
				})
			}
		}
	}
}
