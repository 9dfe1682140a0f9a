package release

import (
	"fmt"
	"testing"
	"time"
)

// tale is a named history in progress. It contains a world, and the first expectation that was
// not met.
type tale struct{ *world }

// scene is a named history.
type scene struct {
	name string
	play func(tale)
}

// want checks the status and weight of versions, as in "active 100". The text is "" for a version without a row.
func (h tale) want(when string, versions map[string]string) {
	for version, stand := range versions {
		got := ""
		for _, g := range h.rolloutState.Groups {
			for _, r := range g.Releases {
				if r.Version == version && (got == "" || r.Status == Active) {
					got = fmt.Sprintf("%s %d", r.Status, r.Weight)
				}
			}
		}
		if got != stand {
			h.fail("%s: %s is %q, want %q", when, version, got, stand)
		}
	}
}

func (h tale) state(when string, reason Reason, there bool) {
	o, _, _ := h.observe(lags{})
	_, p := h.make(o)
	for _, n := range p.Notes {
		if n.Reason == reason && !n.Event {
			if !there {
				h.fail("%s: there is a state %s: %s", when, reason, n.Message)
			}
			return
		}
	}
	if there {
		h.fail("%s: there is no state %s", when, reason)
	}
}

// requeues checks that the next plan is requested within the given time.
func (h tale) requeues(what string, within time.Duration) {
	if at := h.requeue(); at.IsZero() || at.Sub(h.now) > within {
		h.fail("%s: the requeue is at %s", what, at)
	}
}

func (h tale) pin(pins ...Pin) { h.edit("pin", func(s *Spec) { s.Pins = pins }) }

// object returns the object of the release that has this version and the first template.
func (h tale) object(version string) *object {
	if o := h.objects[h.release(version)]; o != nil {
		return o
	}
	h.fail("there is no object of %s", version)
	return &object{}
}

func (h tale) decideOn(version string, a Action, step string) {
	h.decide(h.release(version), Decision{Action: a, ID: fmt.Sprint(h.id()), Step: step, By: "ann"})
}

// live makes 1.0.0 active with a policy.
func (h tale) live() {
	h.policy("web")
	h.push("1.0.0")
	h.run(time.Minute)
	h.want("at first", map[string]string{"1.0.0": "active 100"})
}

// awaitsWindow makes 1.1.0 wait for the window of its last step, which is approved. Its routes are confirmed a moment after the step begins.
func (h tale) awaitsWindow() {
	h.live()
	h.run(25 * time.Minute) // Windows are open for the first twenty minutes of each hour.
	h.steps(Step{Weight: 10, Approval: true}, Step{Weight: 50, Approval: true})
	h.push("1.1.0")
	h.run(time.Minute)
	h.nets["web"].stuck = true
	h.decideOn("1.1.0", Continue, "1")
	h.run(time.Second)
	h.nets["web"].stuck = false
	h.run(time.Second)
	h.steps(Step{Weight: 10, Approval: true}, Step{Weight: 50, Approval: true, Window: &Window{}})
	h.decideOn("1.1.0", Continue, "2")
}

var twoSteps = []Step{{Weight: 10, Pause: time.Minute}, {Weight: 50, Pause: time.Minute}}

// analysed makes 1.0.0 active, and measures all later canaries.
func (h tale) analysed(steps ...Step) {
	h.live()
	h.edit("analysis", func(s *Spec) { s.Analysis, s.Steps = true, steps })
}

func (h tale) gates(points ...Point) { h.edit("gates", func(s *Spec) { s.Gates = points }) }

func (h tale) steps(steps ...Step) { h.edit("steps", func(s *Spec) { s.Steps = steps }) }

// histories are named after the rules of the protocol that they require.
var histories = []scene{
	{"a first release becomes active immediately", func(h tale) {
		h.steps(twoSteps...)
		h.live()
	}},
	{"a canary goes through its steps", func(h tale) {
		h.live()
		h.steps(twoSteps...)
		h.push("1.1.0")
		h.run(time.Second)
		h.want("step 1", map[string]string{"1.0.0": "active 90", "1.1.0": "canary 10"})
		h.run(70 * time.Second)
		h.want("step 2", map[string]string{"1.0.0": "active 50", "1.1.0": "canary 50"})
		h.run(70 * time.Second)
		h.want("end", map[string]string{"1.0.0": "deprecated 0", "1.1.0": "active 100"})
	}},
	{"rule 03: a newer patch below a failed version is released", func(h tale) {
		h.live()
		h.broken["1.2.0"] = "CrashLoopBackOff"
		h.push("1.2.0")
		h.run(time.Hour)
		h.want("failed", map[string]string{"1.0.0": "active 100", "1.2.0": "error 0"})
		h.push("1.1.0")
		h.run(time.Hour)
		h.want("a patch below the failed version", map[string]string{"1.1.0": "active 100", "1.2.0": "error 0"})
		h.run(24 * time.Hour)
		h.want("next day", map[string]string{"1.1.0": "active 100", "1.2.0": "error 0"})
		h.push("1.3.0")
		h.run(time.Hour)
		h.want("a version above the failed version", map[string]string{"1.3.0": "active 100", "1.2.0": ""})
	}},
	{"rule 04: a missing version stays active, and a denied version does not", func(h tale) {
		h.live()
		h.push("1.1.0")
		h.run(time.Hour)
		h.drop("1.0.0", "1.1.0")
		h.run(time.Hour)
		h.want("missing", map[string]string{"1.1.0": "active 100", "1.0.0": "deprecated 0"})
		h.push("1.0.0")
		h.withdraw("1.1.0", Denied)
		h.run(time.Hour)
		h.want("denied", map[string]string{"1.0.0": "active 100"})
	}},
	{"rule 03: a failure below a withdrawn active release is remembered", func(h tale) {
		h.live()
		h.push("1.1.0")
		h.run(time.Hour)
		h.edit("minimumAvailable", func(s *Spec) { s.MinimumAvailable = 1 })
		h.run(time.Hour)
		h.want("only one release is retained", map[string]string{"1.0.0": "", "1.1.0": "active 100"})
		h.broken["1.0.0"] = "CrashLoopBackOff"
		h.withdraw("1.1.0", Denied)
		h.run(24 * time.Hour)
		h.want("failed once", map[string]string{"1.0.0": "error 0", "1.1.0": "active 100"})
		if n := h.stats.failures; n != 1 {
			h.fail("it failed %d times", n)
		}
	}},
	{"rule 06: a canary without pods gets no more weight when the steps are edited", func(h tale) {
		h.edit("size", func(s *Spec) { s.Replicas = 4 })
		h.live()
		h.steps(Step{Weight: 10, Pause: time.Hour})
		h.push("1.1.0")
		h.run(time.Minute)
		h.want("step 1", map[string]string{"1.1.0": "canary 10"})
		h.kill(h.object("1.1.0"), 4)
		h.object("1.1.0").up = h.now.Add(5 * time.Minute)
		h.report(h.object("1.1.0"))
		h.steps(Step{Weight: 50, Pause: time.Hour})
		h.run(time.Minute)
		h.want("without pods", map[string]string{"1.0.0": "active 90", "1.1.0": "canary 10"})
		h.run(5 * time.Minute)
		h.want("with pods", map[string]string{"1.0.0": "active 50", "1.1.0": "canary 50"})
	}},
	{"a first release that crashes does not block its fix", func(h tale) {
		h.policy("web")
		h.push("1.0.0")
		h.nets["web"].stuck = true
		h.run(time.Minute)
		h.spoil(h.object("1.0.0"), "CrashLoopBackOff")
		h.nets["web"].stuck = false
		h.steps(twoSteps...)
		h.push("1.1.0")
		h.run(time.Hour)
		h.want("fixed", map[string]string{"1.1.0": "active 100"})
	}},
	{"a first release that crashes before its policy exists does not block its fix", func(h tale) {
		h.push("1.0.0")
		h.run(time.Minute)
		h.spoil(h.object("1.0.0"), "CrashLoopBackOff")
		h.run(time.Second)
		h.policy("web")
		h.push("1.1.0")
		h.run(5 * time.Minute)
		h.want("fixed", map[string]string{"1.1.0": "active 100"})
	}},
	{"a release that fails as the target of a rollback stays retained", func(h tale) {
		h.live()
		h.push("1.1.0")
		h.run(time.Hour)
		h.spoil(h.object("1.0.0"), "CrashLoopBackOff")
		h.pin(Pin{Group: "1.x", Version: "1.0.0"})
		h.run(time.Hour)
		h.want("failed", map[string]string{"1.1.0": "active 100", "1.0.0": "error 0"})
		h.state("failed", "PinnedReleaseFailed", true)
		h.object("1.0.0").why = ""
		h.decideOn("1.0.0", Retry, "")
		h.run(time.Minute)
		h.want("retried", map[string]string{"1.0.0": "active 100", "1.1.0": "deprecated 0"})
		h.spoil(h.object("1.1.0"), "CrashLoopBackOff")
		h.pin(Pin{Group: "1.x", Version: "1.1.0"})
		h.run(time.Hour)
		h.want("the other direction", map[string]string{"1.0.0": "active 100", "1.1.0": "error 0"})
		h.pin(Pin{Group: "1.x", Version: "1.0.0"})
		h.run(24 * time.Hour)
		h.want("retained", map[string]string{"1.0.0": "active 100", "1.1.0": "error 0"})
	}},
	{"the object of a forgotten failed release does not count as a lost rollout state", func(h tale) {
		h.policy("web")
		h.broken["1.0.0"] = "CrashLoopBackOff"
		h.push("1.0.0")
		h.run(time.Hour)
		h.object("1.0.0").why = ""
		h.withdraw("1.0.0", Denied)
		h.run(time.Hour)
		h.want("denied", map[string]string{"1.0.0": ""})
		if len(h.objects) > 0 {
			h.fail("objects remain")
		}
	}},
	{"rule 12: the gateway does not program the routes", func(h tale) {
		h.live()
		h.steps(twoSteps...)
		h.nets["web"].stuck = true
		h.push("1.1.0")
		h.run(time.Hour / 2)
		h.want("deadline", map[string]string{"1.0.0": "active 100", "1.1.0": "pending 0"})
		h.state("deadline", Blocked, true)
		h.nets["web"].stuck = false
		h.run(3 * time.Minute)
		h.want("programmed again", map[string]string{"1.1.0": "active 100"})
	}},
	{"rule 14: a closed group is drained and removed", func(h tale) {
		h.policy("web")
		h.push("pr-7-a")
		h.run(time.Minute)
		h.want("1.1.0 is active", map[string]string{"pr-7-a": "active 100"})
		h.withdrawGroup("pr-7", Closed)
		h.run(time.Second)
		h.want("closing", map[string]string{"pr-7-a": "deprecated 0"})
		h.run(time.Hour)
		h.want("gone", map[string]string{"pr-7-a": ""})
		if len(h.rolloutState.Groups)+len(h.objects) > 0 {
			h.fail("objects or rows of the closed group remain")
		}
	}},
	{"rule 14: a closing group that is offered again becomes active again", func(h tale) {
		h.edit("long drain", func(s *Spec) { s.Drain = time.Hour })
		h.policy("web")
		h.push("pr-7-a")
		h.run(time.Minute)
		h.withdrawGroup("pr-7", Closed)
		h.run(time.Minute)
		h.offerGroup("pr-7", "pr-7-a")
		h.run(time.Minute)
		h.want("again", map[string]string{"pr-7-a": "active 100"})
	}},
	{"rule 15: a pin to a version that no group has starts nothing", func(h tale) {
		h.live()
		h.pin(Pin{Version: "9.9.9", Global: true})
		h.push("1.1.0", "2.0.0")
		h.run(time.Hour)
		h.want("blocked", map[string]string{"1.0.0": "active 100", "1.1.0": "", "2.0.0": ""})
		h.state("blocked", "PinnedVersionMissing", true)
		h.pin()
		h.run(time.Hour)
		h.want("unpinned", map[string]string{"1.1.0": "active 100", "2.0.0": "active 100"})
	}},
	{"rule 16: adding or removing a pin to a retained release skips the steps", func(h tale) {
		h.live()
		h.push("1.1.0")
		h.run(time.Hour)
		h.steps(twoSteps...)
		h.pin(Pin{Group: "1.x", Version: "1.0.0"})
		h.run(time.Second)
		h.want("pinned", map[string]string{"1.0.0": "active 100", "1.1.0": "deprecated 0"})
		h.push("1.2.0")
		h.run(time.Hour)
		h.want("newer waits", map[string]string{"1.0.0": "active 100", "1.2.0": ""})
		h.pin()
		h.drop("1.2.0")
		h.run(time.Second)
		h.want("unpinned", map[string]string{"1.1.0": "active 100", "1.0.0": "deprecated 0"})
	}},
	{"a pin expires", func(h tale) {
		h.live()
		h.pin(Pin{Group: "1.x", Version: "1.0.0", Expire: h.now.Add(time.Hour)})
		h.push("1.1.0")
		h.run(time.Minute)
		h.want("pinned", map[string]string{"1.0.0": "active 100", "1.1.0": ""})
		h.run(2 * time.Hour)
		h.want("expired", map[string]string{"1.1.0": "active 100"})
	}},
	{"rule 18: a release that never had traffic is retained without pods", func(h tale) {
		h.push("1.0.0")
		h.run(time.Minute)
		h.push("1.1.0")
		h.run(time.Hour)
		h.want("retained", map[string]string{"1.1.0": "active 100", "1.0.0": "deprecated 0"})
		if n := h.object("1.0.0").Replicas; n != 0 {
			h.fail("the retained release that never had traffic has %d replicas", n)
		}
	}},
	{"rule 18: without a policy, steps move no traffic and only wait", func(h tale) {
		h.push("1.0.0")
		h.run(time.Minute)
		h.steps(twoSteps...)
		h.push("1.1.0")
		h.run(time.Second)
		h.want("step 1", map[string]string{"1.0.0": "active 90", "1.1.0": "canary 10"})
		h.state("no traffic to lose", "TrafficLost", false)
		h.run(2 * time.Minute)
		h.want("end", map[string]string{"1.1.0": "active 100"})
	}},
	{"rule 10: a canary without a policy waits for one, and its pause restarts", func(h tale) {
		h.live()
		h.steps(Step{Weight: 10, Pause: 10 * time.Minute})
		h.push("1.1.0")
		h.run(6 * time.Minute)
		h.removePolicy("web")
		h.run(time.Minute)
		h.state("lost", "TrafficLost", true)
		h.policy("web")
		h.run(9 * time.Minute)
		h.want("the pause restarts", map[string]string{"1.1.0": "canary 10"})
		h.run(2 * time.Minute)
		h.want("end", map[string]string{"1.1.0": "active 100"})
		h.push("1.2.0")
		h.run(time.Minute)
		h.removePolicy("web")
		h.run(24 * time.Hour)
		h.want("it waits", map[string]string{"1.1.0": "active 90", "1.2.0": "canary 10"})
		h.policy("web").stuck = true
		h.run(9 * time.Minute)
		h.want("its deadline restarts", map[string]string{"1.1.0": "active 90", "1.2.0": "canary 10"})
		h.run(2 * time.Minute)
		h.want("the deadline expires, and it loses its traffic", map[string]string{"1.1.0": "active 100", "1.2.0": "pending 0"})
	}},
	{"rule 18: a release whose policy was created later is retained with standby pods", func(h tale) {
		h.push("1.0.0")
		h.run(time.Minute)
		h.policy("web")
		h.run(time.Minute)
		h.push("1.1.0")
		h.run(time.Hour)
		h.want("replaced", map[string]string{"1.1.0": "active 100", "1.0.0": "deprecated 0"})
		if n := h.object("1.0.0").Replicas; n != 1 {
			h.fail("the retained release that had traffic has %d replicas", n)
		}
	}},
	{"a retained release that had traffic has standby pods", func(h tale) {
		h.live()
		h.push("1.1.0")
		h.run(time.Hour)
		if n := h.object("1.0.0").Replicas; n != 1 {
			h.fail("the retained release has %d replicas, want 1", n)
		}
	}},
	{"rule 21: Continue approves a step", func(h tale) {
		h.live()
		h.steps(Step{Name: "check", Weight: 20, Approval: true})
		h.push("1.1.0")
		h.run(24 * time.Hour)
		h.want("waits", map[string]string{"1.1.0": "canary 20"})
		h.decideOn("1.1.0", Continue, "other")
		h.run(time.Hour)
		h.want("another step", map[string]string{"1.1.0": "canary 20"})
		h.decideOn("1.1.0", Continue, "check")
		h.run(time.Minute)
		h.want("passed", map[string]string{"1.1.0": "active 100"})
	}},
	{"rule 21: Adopt skips steps", func(h tale) {
		h.live()
		h.steps(Step{Weight: 20, Approval: true})
		h.push("1.1.0")
		h.run(time.Minute)
		h.decideOn("1.1.0", Adopt, "")
		h.run(time.Second)
		h.want("adopted", map[string]string{"1.1.0": "active 100"})
	}},
	{"rule 21: Deprecate aborts, Retry starts again", func(h tale) {
		h.live()
		h.steps(twoSteps...)
		h.push("1.1.0")
		h.run(time.Second)
		h.decideOn("1.1.0", Deprecate, "")
		h.run(time.Minute)
		h.want("aborted", map[string]string{"1.0.0": "active 100", "1.1.0": "error 0"})
		h.decideOn("1.1.0", Retry, "")
		h.run(time.Second)
		h.want("again", map[string]string{"1.0.0": "active 90", "1.1.0": "canary 10"})
	}},
	{"rule 22: spec.paused stops new rollouts, but not a pin to a retained release", func(h tale) {
		h.live()
		h.push("1.1.0")
		h.run(time.Hour)
		h.edit("pause", func(s *Spec) { s.Paused = true })
		h.push("1.2.0")
		h.run(time.Hour)
		h.want("paused", map[string]string{"1.1.0": "active 100", "1.2.0": ""})
		h.pin(Pin{Group: "1.x", Version: "1.0.0"})
		h.run(time.Minute)
		h.want("pinned", map[string]string{"1.0.0": "active 100"})
	}},
	{"rule 23: a canary that crashes during its pause is rolled back", func(h tale) {
		h.live()
		h.steps(Step{Weight: 20, Pause: 24 * time.Hour})
		h.push("1.1.0")
		h.run(time.Hour)
		h.want("pause", map[string]string{"1.1.0": "canary 20"})
		h.spoil(h.object("1.1.0"), "CrashLoopBackOff")
		h.run(30 * time.Minute)
		h.want("rolled back", map[string]string{"1.0.0": "active 100", "1.1.0": "error 0"})
	}},
	{"rule 23: only healthy time counts toward a pause", func(h tale) {
		h.live()
		h.steps(Step{Weight: 20, Pause: 10 * time.Minute})
		h.push("1.1.0")
		h.run(6 * time.Minute)
		h.spoil(h.object("1.1.0"), "CrashLoopBackOff")
		h.run(5 * time.Minute)
		h.want("unhealthy", map[string]string{"1.1.0": "canary 20"})
		h.object("1.1.0").why = ""
		h.run(3 * time.Minute)
		h.want("healthy, but not for long enough", map[string]string{"1.1.0": "canary 20"})
		h.run(2 * time.Minute)
		h.want("healthy for ten minutes", map[string]string{"1.1.0": "active 100"})
	}},
	{"rule 24: a superseded canary is removed, and the newest version goes through all steps", func(h tale) {
		h.live()
		h.steps(twoSteps...)
		h.push("1.1.0")
		h.run(time.Second)
		h.push("1.2.0")
		h.run(time.Second)
		h.want("superseded", map[string]string{"1.1.0": "deprecated 0", "1.2.0": "canary 10"})
		h.run(40 * time.Second)
		h.want("drained", map[string]string{"1.1.0": "", "1.2.0": "canary 10"})
	}},
	{"rule 27: a rollback does not wait for full capacity while the active release has no pods", func(h tale) {
		h.edit("size", func(s *Spec) { s.Replicas = 4 })
		h.live()
		h.push("1.1.0")
		h.run(time.Hour)
		h.spoil(h.object("1.1.0"), "CrashLoopBackOff")
		h.object("1.0.0").up = h.now.Add(time.Hour) // The pods beyond its standby become available only much later.
		h.startup = time.Hour
		h.pin(Pin{Group: "1.x", Version: "1.0.0"})
		h.run(time.Second)
		h.want("immediately", map[string]string{"1.0.0": "active 100"})
	}},
	{"rule 28: frequent pushes do not keep versions from becoming active", func(h tale) {
		h.live()
		h.steps(Step{Weight: 10, Pause: 5 * time.Minute})
		h.edit("steps", func(s *Spec) { s.Steps = []Step{{Weight: 10, Pause: 5 * time.Minute}, {Weight: 20}} })
		for _, v := range []string{"1.1.0", "1.1.1", "1.2.0", "1.3.0", "1.4.0"} {
			h.push(v)
			h.run(time.Minute)
		}
		h.want("the fourth version is finished first", map[string]string{"1.3.0": "canary 10", "1.4.0": ""})
		h.run(10 * time.Minute)
		h.run(20 * time.Minute)
		h.want("then the fifth version", map[string]string{"1.4.0": "active 100"})
	}},
	{"rule 28: a canary in its last step is finished first", func(h tale) {
		h.live()
		h.steps(Step{Weight: 10, Pause: time.Hour}, Step{Weight: 50, Pause: time.Hour})
		h.push("1.1.0")
		h.run(90 * time.Minute)
		h.want("last step", map[string]string{"1.1.0": "canary 50"})
		h.state("no newer version", "FinishFirst", false)
		h.push("1.1.1")
		h.run(time.Minute)
		h.want("continues", map[string]string{"1.1.0": "canary 50", "1.1.1": ""})
		h.state("a newer version", "FinishFirst", true)
		h.withdraw("1.1.0", Denied)
		h.run(time.Second)
		h.want("denied", map[string]string{"1.0.0": "active 90", "1.1.0": "deprecated 0", "1.1.1": "canary 10"})
	}},
	{"rule 28: a canary that waited longer than its deadline finishes first although a pod restarts", func(h tale) {
		h.live()
		h.steps(Step{Weight: 10}, Step{Weight: 50, Approval: true})
		h.push("1.1.0")
		h.run(time.Hour)
		h.want("last step", map[string]string{"1.1.0": "canary 50"})
		h.push("1.2.0")
		h.run(time.Minute)
		h.startup = time.Minute
		h.kill(h.object("1.1.0"), 1)
		h.report(h.object("1.1.0"))
		h.run(time.Second)
		h.want("a pod restarts", map[string]string{"1.1.0": "canary 50", "1.2.0": ""})
	}},
	{"rule 28: a canary finishes first although it needs more replicas after a long pause", func(h tale) {
		h.edit("autoscaling", func(s *Spec) { s.Autoscaled = true })
		h.live()
		h.steps(Step{Weight: 50, Pause: time.Hour})
		h.push("1.1.0")
		h.run(30 * time.Minute)
		h.push("1.2.0")
		h.autoscale(h.object("1.0.0"), 5)
		h.startup = time.Minute
		h.run(30*time.Minute + time.Second)
		h.want("more replicas start", map[string]string{"1.1.0": "canary 50", "1.2.0": ""})
		h.state("more replicas start", Blocked, false)
		h.run(2 * time.Minute)
		h.want("finished", map[string]string{"1.1.0": "active 50", "1.2.0": "canary 50"})
	}},
	{"rule 28: an approved canary that waits for its window finishes first although more replicas are specified", func(h tale) {
		h.awaitsWindow()
		h.run(time.Minute)
		h.state("approved", AwaitingWindow, true)
		h.push("1.2.0")
		h.run(15 * time.Minute)
		h.want("after the deadline", map[string]string{"1.1.0": "canary 50", "1.2.0": ""})
		h.edit("more replicas", func(s *Spec) { s.Replicas = 4 })
		h.run(time.Second)
		h.want("more replicas", map[string]string{"1.1.0": "canary 50", "1.2.0": ""})
		h.state("more replicas", FinishFirst, true)
		h.state("more replicas", Blocked, false)
		h.run(time.Minute)
		h.want("more replicas run", map[string]string{"1.1.0": "canary 50", "1.2.0": ""})
		h.state("more replicas run", AwaitingWindow, true)
		if n := h.object("1.1.0").Replicas; n != 4 {
			h.fail("the canary has %d replicas", n)
		}
		h.run(30 * time.Minute)
		h.want("the window is open", map[string]string{"1.1.0": "active 90", "1.2.0": "canary 10"})
	}},
	{"rule 28: an approved canary that waits for its window is blocked if more replicas are rejected until the deadline", func(h tale) {
		h.awaitsWindow()
		h.run(15 * time.Minute)
		h.state("approved", AwaitingWindow, true)
		h.denied[h.release("1.1.0")] = true
		h.edit("more replicas", func(s *Spec) { s.Replicas = 4 })
		h.run(8 * time.Minute)
		h.state("within the deadline", Blocked, false)
		h.run(3 * time.Minute)
		h.state("after the deadline", Blocked, true)
		h.want("after the deadline", map[string]string{"1.0.0": "active 50", "1.1.0": "canary 50"})
		h.run(2 * time.Hour)
		h.state("hours later", Blocked, true)
		delete(h.denied, h.release("1.1.0"))
		h.run(time.Hour)
		h.want("accepted", map[string]string{"1.1.0": "active 100"})
	}},
	{"rule 28: a canary that waited longer than its deadline becomes active when it is approved", func(h tale) {
		h.live()
		h.steps(Step{Weight: 10}, Step{Weight: 50, Approval: true})
		h.push("1.1.0")
		h.run(time.Hour)
		h.push("1.2.0")
		h.run(time.Minute)
		h.want("last step", map[string]string{"1.1.0": "canary 50", "1.2.0": ""})
		h.decideOn("1.1.0", Continue, "2")
		h.run(time.Second)
		h.want("approved", map[string]string{"1.1.0": "active 50", "1.2.0": "canary 50"})
	}},
	{"a stale source starts no rollout, and does not prevent a rollback", func(h tale) {
		h.live()
		h.push("1.1.0")
		h.run(time.Hour)
		h.broken["1.2.0"] = "CrashLoopBackOff"
		h.push("1.2.0")
		h.run(time.Hour)
		h.want("failed", map[string]string{"1.1.0": "active 100", "1.2.0": "error 0"})
		h.stale = true
		h.push("1.3.0")
		h.decideOn("1.2.0", Retry, "")
		h.run(time.Hour)
		h.want("the source is stale", map[string]string{"1.1.0": "active 100", "1.3.0": ""})
		if h.rolloutState.Groups[0].Rollout != nil {
			h.fail("a rollout is in progress")
		}
		h.pin(Pin{Group: "1.x", Version: "1.0.0"})
		h.run(time.Minute)
		h.want("rolled back", map[string]string{"1.0.0": "active 100", "1.1.0": "deprecated 0"})
	}},
	{"rule 22: a pin to a version that was never active waits while paused", func(h tale) {
		h.live()
		h.edit("pause", func(s *Spec) { s.Paused = true })
		h.push("1.1.0")
		h.run(time.Hour)
		h.state("paused", "Paused", true)
		h.pin(Pin{Group: "1.x", Version: "1.1.0"})
		h.run(time.Hour)
		h.want("pinned", map[string]string{"1.0.0": "active 100", "1.1.0": ""})
		h.edit("end of pause", func(s *Spec) { s.Paused = false })
		h.run(time.Hour)
		h.want("end", map[string]string{"1.1.0": "active 100"})
	}},
	{"rule 22: a pin to a retained release rolls back a paused canary", func(h tale) {
		h.live()
		h.push("1.1.0")
		h.run(time.Hour)
		h.steps(twoSteps...)
		h.push("1.2.0")
		h.run(time.Second)
		h.edit("pause", func(s *Spec) { s.Paused = true })
		h.push("1.3.0")
		h.run(time.Hour)
		h.want("paused", map[string]string{"1.1.0": "active 90", "1.2.0": "canary 10", "1.3.0": ""})
		h.pin(Pin{Group: "1.x", Version: "1.0.0"})
		h.run(time.Second)
		h.want("pinned", map[string]string{"1.0.0": "active 100", "1.1.0": "deprecated 0", "1.2.0": "deprecated 0"})
	}},
	{"rule 29: a release waits for capacity, and starts when there is capacity", func(h tale) {
		h.live()
		h.broken["1.1.0"] = "Unschedulable"
		h.push("1.1.0")
		h.run(24 * time.Hour)
		h.want("no capacity", map[string]string{"1.0.0": "active 100", "1.1.0": "pending 0"})
		h.state("no capacity", Blocked, true)
		h.object("1.1.0").why = ""
		h.run(time.Second)
		h.want("capacity", map[string]string{"1.1.0": "active 100"})
		h.state("capacity", Blocked, false)
	}},
	{"rule 29: a first install on a full cluster does not start older versions", func(h tale) {
		h.policy("web")
		versions := []string{"1.4.0", "1.3.0", "1.2.0", "1.1.0", "1.0.0"}
		for _, v := range versions {
			h.broken[v] = "Unschedulable"
		}
		h.push(versions...)
		h.run(6 * time.Hour)
		h.want("no capacity", map[string]string{"1.4.0": "pending 0", "1.3.0": "", "1.2.0": "", "1.1.0": "", "1.0.0": ""})
		h.state("no capacity", Blocked, true)
		clear(h.broken)
		h.object("1.4.0").why = ""
		h.run(time.Second)
		h.want("capacity", map[string]string{"1.4.0": "active 100"})
	}},
	{"rule 29: an older version starts after a failed release, but not after a blocked release", func(h tale) {
		h.broken["1.2.0"], h.broken["1.1.0"] = "CrashLoopBackOff", "ImagePullBackOff"
		h.push("1.2.0", "1.1.0", "1.0.0")
		h.run(6 * time.Hour)
		h.want("the registry does not respond", map[string]string{"1.2.0": "error 0", "1.1.0": "pending 0", "1.0.0": ""})
		h.push("1.3.0")
		h.run(time.Minute)
		h.want("a newer version", map[string]string{"1.3.0": "active 100", "1.1.0": ""})
	}},
	{"rule 29: a blocked version does not block a newer version", func(h tale) {
		h.live()
		for _, v := range []string{"1.1.0", "1.2.0", "1.3.0", "1.4.0", "1.5.0"} {
			h.broken[v] = "AdmissionUnavailable"
			h.push(v)
			h.run(time.Minute)
			h.want("newest", map[string]string{"1.0.0": "active 100", v: "pending 0"})
		}
		h.push("1.6.0")
		h.run(time.Minute)
		h.want("end", map[string]string{"1.6.0": "active 100"})
	}},
	{"rule 29: a name conflict does not start an older version", func(h tale) {
		h.broken["1.1.0"] = "NameConflict"
		h.push("1.1.0", "1.0.0")
		h.run(time.Hour)
		h.want("the name is taken", map[string]string{"1.1.0": "pending 0", "1.0.0": ""})
		h.object("1.1.0").why = ""
		h.run(time.Minute)
		h.want("the other Deployment is deleted", map[string]string{"1.1.0": "active 100"})
	}},
	{"rule 29: the clock stops while a rollout is blocked by a problem outside the release", func(h tale) {
		h.live()
		h.broken["1.1.0"] = "ImagePullBackOff"
		h.push("1.1.0")
		h.run(time.Hour)
		h.want("no image", map[string]string{"1.1.0": "pending 0"})
		h.object("1.1.0").why = "CrashLoopBackOff"
		h.report(h.object("1.1.0"))
		h.run(9 * time.Minute)
		h.want("its own failure, before the deadline", map[string]string{"1.1.0": "pending 0"})
		h.run(2 * time.Minute)
		h.want("its own failure, after the deadline", map[string]string{"1.1.0": "error 0"})
	}},
	{"rule 29: a canary without capacity loses its traffic, and restarts when it has capacity", func(h tale) {
		h.live()
		h.steps(Step{Weight: 10, Pause: time.Hour})
		h.push("1.1.0", "1.0.5")
		h.run(time.Minute)
		h.spoil(h.object("1.1.0"), "Unschedulable")
		h.run(9 * time.Minute)
		h.want("before the deadline", map[string]string{"1.0.0": "active 90", "1.1.0": "canary 10"})
		h.run(3 * time.Minute)
		h.want("after the deadline", map[string]string{"1.0.0": "active 100", "1.1.0": "pending 0", "1.0.5": ""})
		h.run(6 * time.Hour)
		h.want("it remains the target", map[string]string{"1.0.0": "active 100", "1.1.0": "pending 0", "1.0.5": ""})
		h.object("1.1.0").why = ""
		h.run(time.Second)
		h.want("capacity", map[string]string{"1.0.0": "active 90", "1.1.0": "canary 10"})
		h.spoil(h.object("1.1.0"), "Unschedulable")
		h.run(11 * time.Minute)
		h.object("1.1.0").why = ""
		h.run(6 * time.Minute)
		h.want("the second time, it waits before it restarts", map[string]string{"1.0.0": "active 100", "1.1.0": "pending 0"})
		h.state("the second time", Blocked, true)
		h.run(4 * time.Minute)
		h.want("then it restarts", map[string]string{"1.1.0": "canary 10"})
		h.run(2 * time.Hour)
		h.want("end", map[string]string{"1.1.0": "active 100"})
	}},
	{"rule 29: a canary without capacity for its next step keeps its traffic", func(h tale) {
		h.edit("size", func(s *Spec) { s.Replicas, s.MatchWeight = 4, true })
		h.live()
		h.steps(Step{Weight: 25, Pause: time.Minute}, Step{Weight: 75, Pause: time.Minute})
		h.push("1.1.0")
		h.run(time.Second)
		h.want("first step", map[string]string{"1.1.0": "canary 25"})
		o := h.object("1.1.0")
		o.why, o.ready = "QuotaExceeded", 1
		h.run(6 * time.Hour)
		h.want("it waits in its step", map[string]string{"1.0.0": "active 75", "1.1.0": "canary 25"})
		h.state("it waits", Blocked, true)
		o.why = ""
		h.run(time.Second)
		h.want("capacity", map[string]string{"1.1.0": "canary 75"})
	}},
	{"rule 29: a policy that does not confirm interrupts a canary only once", func(h tale) {
		h.policy("web")
		h.policy("api")
		h.push("1.0.0")
		h.run(time.Minute)
		h.steps(twoSteps...)
		h.nets["api"].stuck = true
		h.push("1.1.0")
		h.run(11 * time.Minute)
		h.want("it lost its traffic", map[string]string{"1.0.0": "active 100", "1.1.0": "pending 0"})
		h.run(15 * time.Minute)
		h.want("the policy that lags is ignored", map[string]string{"1.1.0": "active 100"})
	}},
	{"rule 31: the rollout state is lost", func(h tale) {
		h.live()
		h.push("1.1.0")
		h.run(time.Hour)
		h.loseState()
		h.run(time.Minute)
		h.want("rebuilt", map[string]string{"1.1.0": "active 100", "1.0.0": "deprecated 0"})
	}},
	{"rule 31: the rollout state is lost while a group closes", func(h tale) {
		h.live()
		h.push("2.0.0")
		h.run(time.Minute)
		h.nets["web"].stuck = true
		h.withdrawGroup("1-x", Closed)
		h.run(time.Minute)
		h.loseState()
		h.run(time.Hour)
		h.want("its routes are still there", map[string]string{"1.0.0": "deprecated 0", "2.0.0": "active 100"})
		if n := h.object("1.0.0").ready; n != 2 {
			h.fail("it has %d pods", n)
		}
		h.nets["web"].stuck = false
		h.run(time.Hour)
		h.want("gone", map[string]string{"1.0.0": "", "2.0.0": "active 100"})
	}},
	{"rule 31: a route refers to a release without a row", func(h tale) {
		h.live()
		h.steps(Step{Weight: 50, Pause: time.Hour})
		h.push("1.1.0")
		h.run(time.Minute)
		h.want("canary", map[string]string{"1.1.0": "canary 50"})
		h.nets["web"].stuck = true
		h.drop("1.1.0")
		g := h.rolloutState.Groups[0].clone()
		g.Releases, g.Rollout = g.Releases[1:], nil
		g.Releases[0].Weight = 100
		h.rolloutState.Groups, h.version = []Group{g}, h.version+1
		h.run(time.Hour)
		h.want("row created", map[string]string{"1.0.0": "active 100", "1.1.0": "deprecated 0"})
		h.state("row created", "OrphanReferenced", true)
		if n := h.object("1.1.0").ready; n != 2 {
			h.fail("it has %d pods", n)
		}
		h.nets["web"].stuck = false
		h.run(time.Second)
		h.want("draining", map[string]string{"1.1.0": "deprecated 0"})
		h.run(time.Hour)
		h.want("gone", map[string]string{"1.0.0": "active 100", "1.1.0": ""})
	}},
	{"rule 31: an object without a row is drained", func(h tale) {
		h.live()
		h.steps(Step{Weight: 50, Pause: time.Hour})
		h.push("1.1.0")
		h.run(time.Minute)
		h.want("canary", map[string]string{"1.1.0": "canary 50"})
		h.drop("1.1.0")
		g := h.rolloutState.Groups[0].clone()
		g.Releases, g.Rollout, g.TrafficRevision = g.Releases[1:], nil, g.TrafficRevision+1
		g.Releases[0].Weight = 100
		h.rolloutState.Groups, h.version = []Group{g}, h.version+1
		h.neighbors() // When the manager checks, routes no longer refer to it.
		h.run(h.spec.Drain - time.Second)
		if h.object("1.1.0").Terminating {
			h.fail("the release is deleted before the end of its drain")
		}
		h.requeues("the end of its drain", time.Second)
		h.run(2 * time.Second)
		if o := h.objects[h.release("1.1.0")]; o != nil {
			h.fail("the release exists after the end of its drain")
		}
		h.want("gone", map[string]string{"1.0.0": "active 100", "1.1.0": ""})
	}},
	{"rule 31: the object of the active release is deleted by hand, and its version is offered", func(h tale) {
		h.live()
		h.remove(h.object("1.0.0"))
		h.run(time.Minute)
		h.want("created again", map[string]string{"1.0.0": "active 100"})
		if h.object("1.0.0").ready == 0 {
			h.fail("the release has no pods")
		}
	}},
	{"rule 31: the object of the active release is deleted by hand, and its version is not offered", func(h tale) {
		h.live()
		h.push("1.1.0")
		h.run(time.Hour)
		h.drop("1.1.0")
		h.remove(h.object("1.1.0"))
		h.run(time.Minute)
		h.want("the retained release serves", map[string]string{"1.0.0": "active 100", "1.1.0": ""})
	}},
	{"the object of a retained release is deleted by hand", func(h tale) {
		h.live()
		h.push("1.1.0")
		h.run(time.Hour)
		h.remove(h.object("1.0.0"))
		h.run(time.Minute)
		h.want("the row is removed", map[string]string{"1.0.0": "", "1.1.0": "active 100"})
	}},
	{"rule 32: steps are edited during a rollout", func(h tale) {
		h.live()
		h.steps(twoSteps...)
		h.push("1.1.0")
		h.run(time.Second)
		h.steps(Step{Weight: 5, Pause: time.Hour}, Step{Weight: 30, Pause: time.Hour})
		h.run(time.Second)
		h.want("the first step with the same or a higher weight", map[string]string{"1.1.0": "canary 30"})
		h.steps()
		h.run(time.Second)
		h.want("no steps", map[string]string{"1.1.0": "active 100"})
	}},
	{"rule 32: a canary that waits for its first step, now with a higher weight, counts as a canary with traffic", func(h tale) {
		h.live()
		h.steps(Step{Weight: 10, Pause: time.Hour})
		h.push("1.1.0")
		h.run(25 * time.Minute) // Windows are open for the first twenty minutes of each hour.
		h.steps(Step{Weight: 20, Pause: time.Hour, Window: &Window{}})
		h.run(10 * time.Minute)
		h.want("window closed", map[string]string{"1.0.0": "active 90", "1.1.0": "canary 10"})
		h.state("window closed", "AwaitingWindow", true)
		h.spoil(h.object("1.1.0"), "Unschedulable")
		h.run(12 * time.Minute)
		h.want("without capacity, after the deadline", map[string]string{"1.0.0": "active 100", "1.1.0": "pending 0"})
	}},
	{"rule 10: a policy that lags while no rollout is in progress blocks nothing", func(h tale) {
		h.live()
		slow := h.policy("slow")
		h.run(time.Minute)
		slow.stuck = true
		h.push("1.1.0")
		h.run(time.Second)
		h.run(24 * time.Hour)
		h.push("1.2.0")
		h.run(24 * time.Hour)
		h.want("continues", map[string]string{"1.2.0": "active 100"})
	}},
	{"rule 38: an excluded group closes when another group serves", func(h tale) {
		h.live()
		h.withdrawGroup("1-x", Excluded)
		h.run(time.Hour)
		h.want("no other group serves", map[string]string{"1.0.0": "active 100"})
		h.push("2.0.0")
		h.run(time.Hour)
		h.want("another group serves", map[string]string{"1.0.0": "", "2.0.0": "active 100"})
	}},
	{"rule 14: a closed group forgets its failures", func(h tale) {
		h.policy("web")
		h.push("pr-7-a")
		h.run(time.Minute)
		h.broken["pr-7-b"] = "CrashLoopBackOff"
		h.push("pr-7-b")
		h.run(time.Hour)
		h.want("failed", map[string]string{"pr-7-a": "active 100", "pr-7-b": "error 0"})
		h.withdrawGroup("pr-7", Closed)
		h.run(time.Hour)
		if len(h.rolloutState.Groups)+len(h.objects) > 0 {
			h.fail("objects or rows of the closed group remain")
		}
	}},
	{"rule 24: a superseded release that becomes the target again is not removed in the same plan", func(h tale) {
		h.live()
		h.steps(Step{Weight: 10, Pause: time.Hour}, Step{Weight: 50})
		h.edit("a drain as long as the deadline", func(s *Spec) { s.Drain = s.Deadline })
		h.push("1.1.0")
		h.run(time.Second)
		h.want("in progress", map[string]string{"1.1.0": "canary 10"})
		before := h.object("1.1.0").uid
		h.broken["1.2.0"] = "CrashLoopBackOff"
		h.push("1.2.0")
		h.run(h.spec.Deadline - time.Second)
		h.want("superseded", map[string]string{"1.1.0": "deprecated 0", "1.2.0": "pending 0"})
		h.run(time.Minute)
		h.want("the newer version failed", map[string]string{"1.1.0": "canary 10", "1.2.0": "error 0"})
		if h.object("1.1.0").uid != before {
			h.fail("1.1.0 was removed and created again")
		}
	}},
	{"rule 39: a pin to a failed release does not retain more releases", func(h tale) {
		h.live()
		h.push("1.1.0")
		h.run(time.Hour)
		h.broken["1.2.0"] = "CrashLoopBackOff"
		h.push("1.2.0")
		h.pin(Pin{Group: "1.x", Version: "1.2.0"})
		h.run(time.Hour)
		h.want("failed", map[string]string{"1.0.0": "deprecated 0", "1.1.0": "active 100", "1.2.0": "error 0"})
		h.edit("fewer are retained", func(s *Spec) { s.MinimumAvailable = 1 })
		h.run(time.Hour)
		h.want("fewer releases", map[string]string{"1.0.0": "", "1.1.0": "active 100", "1.2.0": "error 0"})
	}},
	{"rule 39: an older release remains until the routes no longer refer to the replaced one", func(h tale) {
		h.policy("web")
		h.push("1.2.0")
		h.run(time.Hour)
		h.push("1.0.0")
		h.pin(Pin{Group: "1.x", Version: "1.0.0"})
		h.run(time.Hour)
		h.want("pinned", map[string]string{"1.0.0": "active 100", "1.2.0": "deprecated 0"})
		h.nets["web"].stuck = true
		h.push("1.1.0")
		h.pin(Pin{Group: "1.x", Version: "1.1.0"})
		h.run(time.Minute)
		h.want("routes lag", map[string]string{"1.1.0": "active 100", "1.0.0": "deprecated 0", "1.2.0": "deprecated 0"})
		h.nets["web"].stuck = false
		h.run(time.Hour)
		h.want("routes follow", map[string]string{"1.1.0": "active 100", "1.0.0": "deprecated 0", "1.2.0": ""})
	}},
	{"rule 22: while paused, previously active releases remain, and superseded canaries do not", func(h tale) {
		h.live()
		h.push("1.1.0")
		h.run(time.Hour)
		h.steps(twoSteps...)
		h.push("1.2.0")
		h.run(time.Second)
		h.push("1.3.0")
		h.run(time.Second)
		h.want("superseded", map[string]string{"1.2.0": "deprecated 0", "1.3.0": "canary 10"})
		h.edit("paused, and fewer are retained", func(s *Spec) { s.Paused, s.MinimumAvailable = true, 1 })
		h.run(time.Hour)
		h.want("paused", map[string]string{"1.0.0": "deprecated 0", "1.1.0": "active 90", "1.2.0": "", "1.3.0": "canary 10"})
		h.edit("continues", func(s *Spec) { s.Paused = false })
		h.run(time.Hour)
		h.want("continues", map[string]string{"1.0.0": "", "1.1.0": "", "1.3.0": "active 100"})
	}},
	{"rule 22: a closed group is removed while paused", func(h tale) {
		h.policy("web")
		h.push("pr-7-a")
		h.run(time.Minute)
		h.edit("paused", func(s *Spec) { s.Paused = true })
		h.withdrawGroup("pr-7", Closed)
		h.run(time.Hour)
		h.want("gone", map[string]string{"pr-7-a": ""})
	}},
	{"rule 39: minimumAvailable sets the number of releases", func(h tale) {
		h.live()
		for _, v := range []string{"1.1.0", "1.1.1", "1.2.0"} {
			h.push(v)
			h.run(time.Hour)
		}
		h.want("two releases", map[string]string{"1.2.0": "active 100", "1.1.1": "deprecated 0", "1.1.0": "", "1.0.0": ""})
	}},
	{"a change to the template creates a release, and scaling does not", func(h tale) {
		h.live()
		h.edit("scale", func(s *Spec) { s.Replicas = 5 })
		h.run(time.Minute)
		if len(h.objects) != 1 || h.object("1.0.0").Replicas != 5 {
			h.fail("scaling created a release, or no pods")
		}
		h.configure("c2")
		h.run(time.Hour)
		if a := h.rolloutState.Groups[0].ActiveRow(); a == nil || a.Config != "c2" || len(h.rolloutState.Groups[0].Releases) != 2 {
			h.fail("another template does not create another release of the same version")
		}
	}},
	{"analysis: each step with traffic is measured", func(h tale) {
		h.analysed(Step{Weight: 0}, Step{Weight: 10}, Step{Weight: 50, Pause: 2 * time.Minute})
		h.push("1.1.0")
		h.run(time.Second)
		h.want("the first step needs no measurement", map[string]string{"1.1.0": "canary 10"})
		h.state("measures", "AnalysisRunning", true)
		h.run(interval)
		h.want("passed", map[string]string{"1.1.0": "canary 50"})
		h.run(time.Minute)
		h.want("the pause is not over", map[string]string{"1.1.0": "canary 50"})
		h.run(time.Minute)
		h.want("end", map[string]string{"1.1.0": "active 100"})
	}},
	{"analysis: a bad canary fails in its first step, and is not retried automatically", func(h tale) {
		h.analysed(twoSteps...)
		h.quality["1.1.0"] = VerdictFailed
		h.push("1.1.0")
		h.run(interval + time.Second)
		h.want("rolled back", map[string]string{"1.0.0": "active 100", "1.1.0": "error 0"})
		h.run(24 * time.Hour)
		h.want("next day", map[string]string{"1.0.0": "active 100", "1.1.0": "error 0"})
		delete(h.quality, "1.1.0")
		h.decideOn("1.1.0", Retry, "")
		h.run(time.Hour)
		h.want("another rollout is measured again", map[string]string{"1.1.0": "active 100"})
	}},
	{"analysis: an inconclusive result waits for a decision", func(h tale) {
		h.analysed(Step{Name: "few", Weight: 10}, Step{Weight: 50})
		h.quality["1.1.0"] = VerdictInconclusive
		h.push("1.1.0")
		h.run(24 * time.Hour)
		h.want("inconclusive", map[string]string{"1.1.0": "canary 10"})
		h.state("inconclusive", "AnalysisInconclusive", true)
		h.quality["1.1.0"] = VerdictNoTraffic
		h.run(24 * time.Hour)
		h.state("no traffic", "AnalysisNoTraffic", true)
		h.decideOn("1.1.0", Continue, "few")
		h.run(time.Second)
		h.want("continues", map[string]string{"1.1.0": "canary 50"})
		h.quality["1.1.0"] = VerdictPassed
		h.run(time.Hour)
		h.want("end", map[string]string{"1.1.0": "active 100"})
	}},
	{"analysis: Continue does not override a failure", func(h tale) {
		h.analysed(Step{Name: "few", Weight: 10, Pause: time.Hour}, Step{Weight: 50})
		h.push("1.1.0")
		h.run(time.Minute)
		h.quality["1.1.0"] = VerdictFailed
		h.measure(h.object("1.1.0"), 0)
		h.decideOn("1.1.0", Continue, "few")
		h.run(time.Second)
		h.want("rolled back", map[string]string{"1.0.0": "active 100", "1.1.0": "error 0"})
	}},
	{"rule 43: a release that fails in its last step is rolled back", func(h tale) {
		h.analysed(Step{Weight: 10}, Step{Weight: 100, Pause: time.Hour})
		h.push("1.1.0")
		h.run(30 * time.Minute)
		h.want("last step", map[string]string{"1.0.0": "active 0", "1.1.0": "canary 100"})
		if n := h.object("1.0.0").ready; n != 2 {
			h.fail("the previous release has %d pods", n)
		}
		h.quality["1.1.0"] = VerdictFailed
		h.run(time.Second)
		h.want("rolled back", map[string]string{"1.0.0": "active 100", "1.1.0": "error 0"})
	}},
	{"rule 22: a failed analysis rolls back a paused canary", func(h tale) {
		h.analysed(twoSteps...)
		h.push("1.1.0")
		h.run(time.Second)
		h.edit("pause", func(s *Spec) { s.Paused = true })
		h.run(time.Hour)
		h.want("paused", map[string]string{"1.1.0": "canary 10"})
		h.quality["1.1.0"] = VerdictFailed
		h.run(time.Second)
		h.want("rolled back", map[string]string{"1.0.0": "active 100", "1.1.0": "error 0"})
	}},
	{"analysis: an interruption restarts the measurements", func(h tale) {
		h.analysed(Step{Weight: 10, Pause: 2 * interval})
		h.push("1.1.0")
		h.run(interval + time.Second)
		h.kill(h.object("1.1.0"), 2)
		h.object("1.1.0").up = h.now.Add(2 * time.Minute)
		h.run(3*time.Minute - 2*interval + time.Second)
		h.want("pods are ready again", map[string]string{"1.1.0": "canary 10"})
		h.run(interval - 2*time.Second)
		h.want("the pause is over, the measurements are not", map[string]string{"1.1.0": "canary 10"})
		h.run(interval)
		h.want("end", map[string]string{"1.1.0": "active 100"})
	}},
	{"hooks: no pods before ConfirmRollout", func(h tale) {
		h.live()
		h.steps(twoSteps...)
		h.gates(ConfirmRollout)
		h.hooks[ConfirmRollout] = "no"
		h.push("1.1.0")
		h.run(24 * time.Hour)
		h.want("waits", map[string]string{"1.1.0": "pending 0"})
		h.state("waits", "AwaitingGate", true)
		if n := h.object("1.1.0").Replicas; n != 0 {
			h.fail("it has %d replicas", n)
		}
		h.startup = 5 * time.Minute
		h.hooks[ConfirmRollout] = ""
		h.run(time.Minute)
		h.want("its deadline starts now", map[string]string{"1.1.0": "pending 0"})
		h.run(time.Hour)
		h.want("end", map[string]string{"1.1.0": "active 100"})
		h.run(time.Hour)
		h.push("2.0.0")
		h.hooks[ConfirmRollout] = "no"
		h.run(time.Hour)
		h.want("the first release of a group waits too", map[string]string{"2.0.0": "pending 0"})
		h.pin(Pin{Group: "1.x", Version: "1.0.0"})
		h.run(time.Hour)
		h.want("a rollback does not wait", map[string]string{"1.0.0": "active 100"})
	}},
	{"hooks: ConfirmRollout is removed from the spec while a release waits for it", func(h tale) {
		h.live()
		h.steps(twoSteps...)
		h.gates(ConfirmRollout)
		h.hooks[ConfirmRollout] = "no"
		h.push("1.1.0")
		h.run(time.Hour)
		h.gates()
		h.run(time.Hour)
		h.want("end", map[string]string{"1.1.0": "active 100"})
	}},
	{"hooks: the active release is lost while a release waits for ConfirmRollout", func(h tale) {
		h.live()
		h.gates(ConfirmRollout)
		h.hooks[ConfirmRollout] = "no"
		h.push("1.1.0")
		h.run(time.Hour)
		h.want("waits", map[string]string{"1.1.0": "pending 0"})
		h.drop("1.0.0")
		h.remove(h.object("1.0.0"))
		h.run(time.Hour)
		h.want("it is still waiting", map[string]string{"1.1.0": "pending 0"})
		h.hooks[ConfirmRollout] = ""
		h.run(time.Minute)
		h.want("it becomes active", map[string]string{"1.1.0": "active 100"})
	}},
	{"rule 22: a release that its hooks approve gets no pods while paused", func(h tale) {
		h.live()
		h.gates(ConfirmRollout)
		h.hooks[ConfirmRollout] = "no"
		h.push("1.1.0")
		h.run(time.Hour)
		h.edit("pause", func(s *Spec) { s.Paused = true })
		h.hooks[ConfirmRollout] = ""
		h.run(time.Hour)
		h.state("paused", "Paused", true)
		if n := h.object("1.1.0").Replicas; n != 0 {
			h.fail("paused: %d replicas", n)
		}
		h.edit("end of pause", func(s *Spec) { s.Paused = false })
		h.run(time.Hour)
		h.want("end", map[string]string{"1.1.0": "active 100"})
	}},
	{"hooks: PreRollout is called once, before the first step", func(h tale) {
		h.live()
		h.steps(Step{Weight: 10, Pause: time.Minute, Confirm: true}, Step{Weight: 50, Pause: time.Minute, Confirm: true})
		h.gates(PreRollout)
		h.hooks[PreRollout] = "no"
		h.push("1.1.0")
		h.run(24 * time.Hour)
		h.want("waits", map[string]string{"1.1.0": "pending 0"})
		h.hooks[PreRollout], h.hooks[ConfirmTrafficIncrease] = "", "no"
		h.run(24 * time.Hour)
		h.want("waits at the next gate", map[string]string{"1.1.0": "pending 0"})
		h.hooks[PreRollout], h.hooks[ConfirmTrafficIncrease] = "no", ""
		h.run(time.Second)
		h.want("step", map[string]string{"1.1.0": "canary 10"})
		h.run(time.Hour)
		h.want("end", map[string]string{"1.1.0": "active 100"})
	}},
	{"hooks: a failed PreRollout hook fails the release", func(h tale) {
		h.live()
		h.steps(twoSteps...)
		h.gates(PreRollout)
		h.hooks[PreRollout] = "fail"
		h.push("1.1.0")
		h.run(24 * time.Hour)
		h.want("rolled back", map[string]string{"1.0.0": "active 100", "1.1.0": "error 0"})
	}},
	{"hooks: neither a timer nor Continue opens a gate", func(h tale) {
		h.live()
		h.steps(Step{Weight: 10}, Step{Name: "half", Weight: 50, Pause: time.Minute, Confirm: true})
		h.gates(ConfirmPromotion)
		h.hooks[ConfirmTrafficIncrease] = "no"
		h.push("1.1.0")
		h.run(24 * time.Hour)
		h.want("waits", map[string]string{"1.1.0": "canary 10"})
		h.state("waits", "AwaitingGate", true)
		h.decideOn("1.1.0", Continue, "1")
		h.run(time.Hour)
		h.want("still waiting", map[string]string{"1.1.0": "canary 10"})
		h.kill(h.object("1.1.0"), 2)
		h.object("1.1.0").up = h.now.Add(5 * time.Minute)
		h.run(time.Hour)
		h.want("the day at the gate does not count against the deadline", map[string]string{"1.1.0": "canary 10"})
		h.hooks[ConfirmTrafficIncrease], h.hooks[ConfirmPromotion] = "", "no"
		h.run(24 * time.Hour)
		h.want("before the promotion", map[string]string{"1.1.0": "canary 50"})
		h.hooks[ConfirmPromotion] = ""
		h.run(time.Minute)
		h.want("end", map[string]string{"1.1.0": "active 100"})
	}},
	{"hooks: each gate can reject a release permanently", func(h tale) {
		for i, p := range []Point{ConfirmRollout, ConfirmTrafficIncrease, ConfirmPromotion} {
			version := fmt.Sprintf("1.%d.0", i+1)
			if i == 0 {
				h.live()
				h.steps(Step{Weight: 10}, Step{Weight: 50, Confirm: true})
				h.gates(ConfirmRollout, ConfirmPromotion)
			}
			h.hooks = map[Point]string{p: "no"}
			h.push(version)
			h.run(24 * time.Hour)
			if r := h.rolloutState.Groups[0].Rollout; r == nil || r.Gate != p {
				h.fail("%s: the release does not wait: %+v", p, r)
			}
			h.hooks[p] = "fail"
			h.run(time.Minute)
			h.want("refused at "+string(p), map[string]string{"1.0.0": "active 100", version: "error 0"})
			h.run(24 * time.Hour)
			h.want("refused at "+string(p)+", later", map[string]string{"1.0.0": "active 100", version: "error 0"})
		}
		h.hooks = map[Point]string{}
		h.decideOn("1.3.0", Retry, "1")
		h.run(time.Hour)
		h.want("retried by a user", map[string]string{"1.3.0": "active 100"})
	}},
	{"hooks: a step that adds no traffic calls no hook", func(h tale) {
		h.live()
		h.steps(Step{Weight: 10, Match: true, Mirror: 20}, Step{Weight: 10, Mirror: 10, Confirm: true, Pause: time.Minute})
		h.hooks[ConfirmTrafficIncrease] = "no"
		h.push("1.1.0")
		h.run(time.Second)
		if step := h.rolloutState.Groups[0].Rollout.Step; step != 2 {
			h.fail("it is in step %d", step)
		}
		h.steps(Step{Weight: 10, Mirror: 10, Pause: time.Minute}, Step{Weight: 10, Match: true, Confirm: true})
		h.run(time.Hour)
		h.want("matched users count as more traffic", map[string]string{"1.1.0": "canary 10"})
	}},
	{"hooks: a release loses pods at its first gate", func(h tale) {
		h.live()
		h.steps(twoSteps...)
		h.gates(PreRollout)
		h.hooks[PreRollout] = "no"
		h.push("1.1.0")
		h.run(time.Hour)
		h.kill(h.object("1.1.0"), 1)
		h.object("1.1.0").up = h.now.Add(5 * time.Minute)
		h.run(6 * time.Minute)
		h.want("pods are ready again", map[string]string{"1.1.0": "pending 0"})
		h.spoil(h.object("1.1.0"), "CrashLoopBackOff")
		h.run(time.Hour)
		h.want("lost", map[string]string{"1.1.0": "error 0"})
	}},
	{"hooks: steps that are edited after an approval need another approval", func(h tale) {
		h.live()
		h.steps(Step{Weight: 10}, Step{Weight: 20, Confirm: true, Window: &Window{}})
		h.hooks[ConfirmTrafficIncrease] = "no"
		h.push("1.1.0")
		h.run(2 * time.Minute)
		h.want("waits at the gate", map[string]string{"1.1.0": "canary 10"})
		h.run(25 * time.Minute) // The window is closed.
		h.hooks[ConfirmTrafficIncrease] = ""
		h.run(time.Minute)
		h.hooks[ConfirmTrafficIncrease] = "no"
		h.steps(Step{Weight: 10}, Step{Weight: 90, Confirm: true, Window: &Window{}})
		h.run(24 * time.Hour)
		h.want("the hooks have not approved this step", map[string]string{"1.1.0": "canary 10"})
	}},
	{"hooks: a Rollback hook requests a rollback", func(h tale) {
		h.live()
		h.steps(twoSteps...)
		h.push("1.1.0")
		h.run(time.Minute)
		h.back["1.1.0"] = true
		h.run(time.Second)
		h.want("rolled back", map[string]string{"1.0.0": "active 100", "1.1.0": "error 0"})
		delete(h.back, "1.1.0")
		h.decideOn("1.1.0", Retry, "")
		h.run(time.Hour)
		h.want("another rollout", map[string]string{"1.1.0": "active 100"})
	}},
	{"hooks: Adopt skips gates", func(h tale) {
		h.live()
		h.steps(twoSteps...)
		h.gates(ConfirmRollout, PreRollout, ConfirmPromotion)
		for _, p := range []Point{ConfirmRollout, PreRollout, ConfirmPromotion} {
			h.hooks[p] = "no"
		}
		h.push("1.1.0")
		h.run(time.Hour)
		h.decideOn("1.1.0", Adopt, "")
		h.run(time.Minute)
		h.want("adopted", map[string]string{"1.1.0": "active 100"})
	}},
	{"rule 34: matched and mirrored requests are routed to the canary", func(h tale) {
		h.live()
		h.steps(Step{Weight: 0, Match: true, Pause: time.Minute}, Step{Weight: 0, Match: true, Mirror: 50, Pause: time.Minute}, Step{Weight: 50, Pause: time.Minute})
		h.push("1.1.0")
		traffic := func(when string, match bool, mirror int) {
			for _, r := range h.rolloutState.Groups[0].Releases {
				if r.Version == "1.1.0" && (r.Match != match || r.Mirror != mirror) {
					h.fail("%s: match %t, mirror %d", when, r.Match, r.Mirror)
				}
			}
		}
		h.run(time.Second)
		traffic("step 1", true, 0)
		revision := h.rolloutState.Groups[0].TrafficRevision
		h.run(time.Minute)
		traffic("step 2", true, 50)
		if h.rolloutState.Groups[0].TrafficRevision == revision {
			h.fail("mirrored requests do not increase the revision")
		}
		if !h.nets["web"].routes["1-x"].accepts(h.release("1.1.0")) {
			h.fail("no route refers to the canary")
		}
		h.run(time.Minute)
		traffic("step 3", false, 0)
		h.want("step 3", map[string]string{"1.0.0": "active 50", "1.1.0": "canary 50"})
		h.steps(Step{Weight: 50, Match: true, Pause: time.Hour})
		h.run(time.Minute)
		h.steps(Step{Weight: 50, Pause: time.Hour})
		h.run(time.Minute)
		traffic("edited", false, 0)
		h.steps(Step{Weight: 50, Match: true, Pause: time.Hour})
		h.run(time.Minute)
		traffic("edited again", true, 0)
		h.decideOn("1.1.0", Deprecate, "")
		h.run(time.Hour)
		traffic("rolled back", false, 0)
		h.want("rolled back", map[string]string{"1.0.0": "active 100", "1.1.0": "error 0"})
		if n := h.object("1.1.0").Replicas; n != 0 {
			h.fail("it has %d replicas", n)
		}
	}},
	{"a step begins in its window, and the promotion in the window of the last step", func(h tale) {
		h.live()
		h.steps(Step{Weight: 10, Pause: 25 * time.Minute}, Step{Weight: 50, Pause: 25 * time.Minute, Window: &Window{}})
		h.push("1.1.0")
		h.run(58 * time.Minute)
		h.want("window closed", map[string]string{"1.1.0": "canary 10"})
		h.state("window closed", "AwaitingWindow", true)
		h.run(2 * time.Minute)
		h.want("window open", map[string]string{"1.1.0": "canary 50"})
		h.run(58 * time.Minute)
		h.want("window closed again", map[string]string{"1.1.0": "canary 50"})
		h.run(2 * time.Minute)
		h.want("window open again", map[string]string{"1.1.0": "active 100"})
	}},
	{"capacity: the canary gets the replicas that an autoscaler gave the active release", func(h tale) {
		h.live()
		h.autoscale(h.object("1.0.0"), 12)
		h.steps(Step{Weight: 50, Pause: time.Minute})
		h.startup = time.Minute
		h.push("1.1.0")
		h.run(time.Second)
		if n := h.object("1.1.0").Replicas; n != 12 {
			h.fail("the release starts with %d pods", n)
		}
		h.run(time.Minute)
		h.want("step", map[string]string{"1.1.0": "canary 50"})
		if a, c := h.object("1.0.0").Replicas, h.object("1.1.0").ready; a != 12 || c != 12 {
			h.fail("the active release has %d replicas, the canary has %d", a, c)
		}
		h.autoscale(h.object("1.0.0"), 15)
		h.startup = 2 * time.Minute
		h.run(90 * time.Second)
		h.want("not before its pods are available", map[string]string{"1.1.0": "canary 50"})
		h.run(5 * time.Minute)
		h.want("end", map[string]string{"1.1.0": "active 100"})
		h.autoscale(h.object("1.1.0"), 15)
		h.pin(Pin{Group: "1.x", Version: "1.0.0"})
		h.run(time.Second)
		h.want("a rollback waits until 1.0.0 has as many pods", map[string]string{"1.1.0": "active 100"})
		h.run(time.Hour)
		h.want("rolled back", map[string]string{"1.0.0": "active 100"})
	}},
	{"capacity: a release keeps the replicas of its rollout until its autoscaler has measured all requests", func(h tale) {
		h.edit("autoscaling", func(s *Spec) { s.Autoscaled = true })
		h.live()
		h.steps(Step{Weight: 10, Pause: time.Minute})
		size := func(when, version string, n int) {
			if have := h.object(version).Replicas; have != n {
				h.fail("%s: %s has %d replicas, want %d", when, version, have, n)
			}
		}
		h.autoscale(h.object("1.0.0"), 12)
		h.push("1.1.0")
		h.run(2 * time.Minute)
		h.want("promoted", map[string]string{"1.1.0": "active 100"})
		size("promoted", "1.1.0", 12)
		h.run(3 * time.Minute)
		size("its autoscaler measures", "1.1.0", 12)
		h.run(2 * time.Minute)
		size("its autoscaler has measured", "1.1.0", 2)
		h.autoscale(h.object("1.1.0"), 9)
		h.push("1.2.0")
		h.run(30 * time.Second)
		h.want("step", map[string]string{"1.2.0": "canary 10"})
		h.decideOn("1.2.0", Deprecate, "")
		h.run(time.Minute)
		h.want("aborted", map[string]string{"1.1.0": "active 100"})
		size("aborted", "1.1.0", 9)
		h.run(3 * time.Minute)
		h.edit("a smaller size", func(s *Spec) { s.Replicas = 1 })
		h.run(30 * time.Second)
		size("the size is edited", "1.1.0", 9)
		h.run(time.Minute)
		size("afterwards", "1.1.0", 1)
	}},
	{"capacity: immediately after a promotion, a fixed size can be reduced, and the minimum of an autoscaler can be increased", func(h tale) {
		h.live()
		h.push("1.1.0")
		h.run(10 * time.Second)
		h.want("promoted", map[string]string{"1.1.0": "active 100"})
		h.edit("a smaller size", func(s *Spec) { s.Replicas = 1 })
		h.run(time.Second)
		if n := h.object("1.1.0").Replicas; n != 1 {
			h.fail("it has %d replicas, want the fixed size 1", n)
		}
		h.edit("autoscaling", func(s *Spec) { s.Autoscaled, s.Replicas = true, 3 })
		h.run(time.Second)
		if n := h.object("1.1.0").Replicas; n != 3 {
			h.fail("it has %d replicas, want the minimum 3", n)
		}
	}},
	{"capacity: Adopt waits for the replicas of the active release", func(h tale) {
		h.live()
		h.steps(Step{Weight: 10, Approval: true})
		h.push("1.1.0")
		h.run(time.Minute)
		h.autoscale(h.object("1.0.0"), 9)
		h.startup = time.Minute
		h.decideOn("1.1.0", Adopt, "")
		h.run(time.Second)
		h.want("waits", map[string]string{"1.1.0": "canary 10"})
		h.run(time.Hour)
		h.want("adopted", map[string]string{"1.1.0": "active 100"})
	}},
	{"capacity: with MatchWeight, the replicas follow the weight", func(h tale) {
		h.edit("size", func(s *Spec) { s.Replicas, s.MatchWeight = 10, true })
		h.live()
		h.steps(Step{Weight: 0, Pause: time.Minute}, Step{Weight: 20, Mirror: 10, Pause: 3 * time.Minute}, Step{Weight: 50, Pause: 3 * time.Minute})
		h.startup = time.Minute
		h.push("1.1.0")
		pods := func(when, stand string, n int) {
			h.want(when, map[string]string{"1.1.0": stand})
			if have := h.object("1.1.0").Replicas; have != n {
				h.fail("%s: %d replicas, want %d", when, have, n)
			}
		}
		h.run(30 * time.Second)
		pods("at first", "pending 0", 1)
		h.run(time.Minute)
		pods("before 20", "canary 0", 3)
		h.run(2 * time.Minute)
		pods("before 50", "canary 20", 5)
		h.state("available at its weight", "Waiting", true)
		h.run(3 * time.Minute)
		pods("before the promotion", "canary 50", 10)
		h.run(time.Hour)
		pods("end", "active 100", 10)
	}},
	{"capacity: the pods for the next weight never start", func(h tale) {
		h.edit("size", func(s *Spec) { s.Replicas, s.MatchWeight = 10, true })
		h.live()
		h.steps(Step{Weight: 10, Pause: time.Hour}, Step{Weight: 90})
		h.push("1.1.0")
		h.run(time.Second)
		o := h.object("1.1.0")
		o.up = h.now.Add(48 * time.Hour)
		o.ready = 1
		h.run(30 * time.Minute)
		h.want("healthy at its weight", map[string]string{"1.1.0": "canary 10"})
		h.run(2 * time.Hour)
		h.want("rolled back", map[string]string{"1.0.0": "active 100", "1.1.0": "error 0"})
	}},
	{"a failure with an old template is forgotten", func(h tale) {
		h.live()
		h.broken["1.1.0"] = "CrashLoopBackOff"
		h.push("1.1.0")
		h.run(time.Hour)
		h.want("failed", map[string]string{"1.1.0": "error 0"})
		h.broken = map[string]string{}
		h.configure("c2")
		h.run(time.Hour)
		h.want("with another template", map[string]string{"1.1.0": "active 100"})
		for _, r := range h.rolloutState.Groups[0].Releases {
			if r.Status == Error {
				h.fail("failure of %s is still recorded", r.Release)
			}
		}
	}},
}

// allRules are all rules of the planner. When a history is run without one of the rules, plans are
// not compared, because these comparisons alone would find most of the faults.
var allRules = rules

// playTale runs a history with a list of rules.
func playTale(play func(tale), rules []rule) (w *world) {
	w = newWorld()
	w.rules = rules
	w.quick = len(rules) < len(allRules)
	defer func() {
		if x := recover(); x != nil {
			w.fail("panic: %v", x)
		}
	}()
	play(tale{w})
	return w
}

func TestHistories(t *testing.T) {
	for _, h := range histories {
		t.Run(h.name, func(t *testing.T) {
			if w := playTale(h.play, rules); w.err != nil {
				t.Errorf("%v\n%s", w.err, w.played())
			}
		})
	}
}
