package release

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

// causes contains histories of problems that a review of the planner found.
var causes = []scene{
	{"a policy that never confirmed does not make the active release count as unavailable", func(h tale) {
		h.edit("size", func(s *Spec) { s.Replicas = 4 })
		h.live()
		h.push("1.1.0")
		h.run(time.Hour)
		h.blind("odd")
		h.pin(Pin{Group: "1.x", Version: "1.0.0"})
		h.startup = time.Minute
		h.run(30 * time.Second)
		h.want("not all pods are up", map[string]string{"1.1.0": "active 100", "1.0.0": "deprecated 0"})
		h.run(time.Minute)
		h.want("all pods are up", map[string]string{"1.0.0": "active 100", "1.1.0": "deprecated 0"})
	}},
	{"a policy that never confirmed does not cause the removal of the active release's pods", func(h tale) {
		h.edit("size", func(s *Spec) { s.Replicas = 4 })
		h.live()
		h.blind("odd")
		h.broken["1.1.0"] = "QuotaExceeded"
		h.push("1.1.0")
		h.run(time.Hour)
		h.ready("it has all the traffic", "1.0.0", 4)
	}},
	{"a policy that never confirmed does not keep a bad canary from being rolled back", func(h tale) {
		h.edit("size", func(s *Spec) { s.Replicas = 4 })
		h.live()
		h.steps(Step{Weight: 50, Pause: 24 * time.Hour})
		h.push("1.1.0")
		h.run(time.Minute)
		h.want("half", map[string]string{"1.0.0": "active 50", "1.1.0": "canary 50"})
		h.blind("odd")
		o := h.object("1.1.0")
		o.ready, o.why = 1, "CrashLoopBackOff"
		h.run(time.Hour)
		h.want("rolled back", map[string]string{"1.0.0": "active 100", "1.1.0": "error 0"})
		h.state("rolled back", "OnlyServing", false)
	}},
	{"a denied canary does not become active while a pin with a typo blocks the groups", func(h tale) {
		h.live()
		h.steps(Step{Weight: 10, Pause: time.Hour}, Step{Weight: 50, Pause: time.Hour})
		h.push("1.1.0")
		h.run(time.Minute)
		h.want("canary", map[string]string{"1.1.0": "canary 10"})
		h.pin(Pin{Version: "9.9.9", Global: true})
		h.withdraw("1.1.0", Denied)
		h.run(time.Minute)
		h.want("denied", map[string]string{"1.0.0": "active 100"})
		h.run(24 * time.Hour)
		h.want("a day later", map[string]string{"1.0.0": "active 100", "1.1.0": ""})
	}},
	{"the highest retained version replaces a denied version while the template has no configuration", func(h tale) {
		h.edit("more are retained", func(s *Spec) { s.MinimumAvailable = 4 })
		h.live()
		for _, v := range []string{"1.1.0", "1.2.0", "1.3.0"} {
			h.push(v)
			h.run(time.Hour)
		}
		h.configure("")
		h.withdraw("1.2.0", Denied)
		h.run(time.Hour)
		h.want("a version that is not active is denied", map[string]string{"1.3.0": "active 100", "1.2.0": "deprecated 0", "1.1.0": "deprecated 0"})
		h.withdraw("1.3.0", Denied)
		h.run(time.Hour)
		h.want("denied", map[string]string{"1.3.0": "deprecated 0", "1.2.0": "deprecated 0", "1.1.0": "active 100"})
		h.configure("c2")
		h.run(time.Hour)
		h.active("with a configuration again", "1.1.0-c2")
	}},
	{"an excluded group waits for the group that replaces it while the template has no configuration", func(h tale) {
		h.policy("web")
		for _, v := range []string{"1.0.0", "2.0.0"} {
			h.push(v)
			h.run(time.Hour)
		}
		h.broken["1.0.0"] = "Unschedulable" // in the group that should take over
		h.regroup("minor")
		h.run(time.Hour)
		h.configure("")
		h.run(time.Hour)
		h.phase("the replacement group cannot start", "1-x", "Live")
		h.message("the replacement group cannot start", "GroupExcluded", "the specification no longer includes group 1.x: the group that replaces it is not known while spec.template cannot be used (see the Ready condition)")
		h.configure("c1")
		clear(h.broken)
		h.object("1.0.0").why = ""
		h.run(time.Hour)
		h.phase("the replacement group is active", "1-x", "")
		h.want("the replacement group is active", map[string]string{"1.0.0": "active 100", "2.0.0": "active 100"})
	}},
	{"a canary that is denied while the template has no configuration is rolled back", func(h tale) {
		h.live()
		h.steps(twoSteps...)
		h.push("1.1.0")
		h.run(time.Second)
		h.configure("")
		h.withdraw("1.1.0", Denied)
		h.run(time.Hour)
		h.want("denied", map[string]string{"1.0.0": "active 100", "1.1.0": ""})
	}},
	{"a denied version that still has traffic is reported", func(h tale) {
		h.live()
		h.push("1.1.0")
		h.run(time.Hour)
		h.nets["web"].pins = []string{"1.0.0"}
		h.run(time.Hour)
		h.withdraw("1.0.0", Denied)
		h.run(time.Hour)
		h.message("a domain refers to it", DeniedServes, `1.0.0 is denied, but a domain of networkpolicies.hlnr.io "web" refers to it: change the version of that domain, or remove the domain`)
		h.nets["web"].pins = nil
		h.run(time.Hour)
		h.state("the domain is gone", DeniedServes, false)
		h.withdraw("1.1.0", Denied)
		h.run(time.Hour)
		h.want("nothing else", map[string]string{"1.1.0": "active 100"})
		h.message("nothing else", DeniedServes, "1.1.0 is denied but keeps serving, because group 1.x has no release to replace it: push another version, or end the group in spec.endedGroups")
		h.push("1.2.0")
		h.run(time.Hour)
		h.want("replaced", map[string]string{"1.2.0": "active 100"})
		h.state("replaced", DeniedServes, false)
	}},
	{"a preview whose pods are down keeps its slot when a newer preview loses its only release", func(h tale) {
		h.reviewed()
		h.refuse = true
		h.push("pr-8-a")
		h.run(time.Second)
		h.want("its object is rejected", map[string]string{"pr-7-a": "active 100", "pr-8-a": "pending 0"})
		revision := h.group("pr-7").TrafficRevision
		h.drop("pr-8-a")
		h.kill(h.object("pr-7-a"), 2)
		h.report(h.object("pr-7-a"))
		h.bounds(Previews{MaxGroups: 1})
		h.run(time.Second)
		h.want("one slot, while its pods start", map[string]string{"pr-7-a": "active 100", "pr-8-a": ""})
		h.run(time.Minute)
		h.want("later", map[string]string{"pr-7-a": "active 100", "pr-8-a": ""})
		if h.group("pr-7").TrafficRevision != revision {
			h.fail("the traffic revision changed")
		}
	}},
	{"a canary that serves instead of an active release without ready pods finishes before a newer version starts", func(h tale) {
		h.live()
		h.steps(Step{Weight: 10, Pause: 10 * time.Minute}, Step{Weight: 50, Pause: 10 * time.Minute})
		h.push("1.1.0")
		h.run(time.Minute)
		h.spoil(h.object("1.0.0"), "CrashLoopBackOff")
		h.run(time.Minute)
		h.want("the canary gets all traffic", map[string]string{"1.0.0": "active 90", "1.1.0": "canary 10"})
		h.broken["1.2.0"] = "CrashLoopBackOff"
		h.push("1.2.0")
		h.run(time.Minute)
		h.want("a newer version is pushed", map[string]string{"1.1.0": "canary 10", "1.2.0": ""})
		h.message("a newer version is pushed", FinishFirst, "1.2.0 is waiting: the rollout of 1.1.0 must finish first")
		h.run(30 * time.Minute)
		h.want("finished", map[string]string{"1.1.0": "active 100", "1.2.0": "error 0"})
	}},
	{"a canary that serves instead of an active release finishes first although one of its pods restarts after a long pause", func(h tale) {
		h.live()
		h.steps(Step{Weight: 10, Pause: time.Hour}, Step{Weight: 50, Pause: 10 * time.Minute})
		h.push("1.1.0")
		h.run(time.Minute)
		h.spoil(h.object("1.0.0"), "CrashLoopBackOff")
		h.run(20 * time.Minute)
		h.broken["1.2.0"] = "CrashLoopBackOff"
		h.push("1.2.0")
		h.run(time.Minute)
		h.want("the canary gets all traffic", map[string]string{"1.0.0": "active 90", "1.1.0": "canary 10", "1.2.0": ""})
		h.startup = time.Minute
		h.kill(h.object("1.1.0"), 1)
		h.report(h.object("1.1.0"))
		h.run(time.Second)
		h.want("a pod restarts", map[string]string{"1.1.0": "canary 10", "1.2.0": ""})
	}},
	{"a canary that is not healthy within its deadline is superseded by a newer version, although only the canary serves", func(h tale) {
		h.live()
		h.steps(Step{Weight: 10, Pause: time.Hour})
		h.push("1.1.0")
		h.run(time.Minute)
		h.spoil(h.object("1.0.0"), "CrashLoopBackOff")
		canary := h.object("1.1.0")
		canary.ready, canary.why = 1, "CrashLoopBackOff"
		h.run(time.Minute)
		h.push("1.2.0")
		h.run(5 * time.Minute)
		h.want("within the deadline", map[string]string{"1.1.0": "canary 10", "1.2.0": ""})
		h.run(20 * time.Minute)
		h.want("after the deadline", map[string]string{"1.1.0": "", "1.2.0": "canary 10"})
	}},
	{"a release that is superseded without traffic is recorded until it starts again, or until the next promotion", func(h tale) {
		h.live()
		h.steps(Step{Weight: 10, Pause: time.Hour})
		h.broken["1.1.0"] = "Unschedulable"
		h.push("1.1.0")
		h.run(time.Minute)
		first := h.release("1.1.0")
		h.push("1.2.0")
		h.run(time.Minute)
		last := func(when, want string) {
			if got := h.group("1-x").LastSuperseded; got != want {
				h.fail("%s: %q was superseded last, want %q", when, got, want)
			}
		}
		h.want("superseded", map[string]string{"1.1.0": "", "1.2.0": "canary 10"})
		last("superseded", first)
		h.pin(Pin{Group: "1.x", Version: "1.1.0"})
		h.run(time.Minute)
		h.want("pinned", map[string]string{"1.1.0": "pending 0", "1.2.0": ""})
		last("pinned", "")
		h.pin()
		h.run(time.Minute)
		h.want("superseded again", map[string]string{"1.1.0": "", "1.2.0": "canary 10"})
		last("superseded again", first)
		h.run(2 * time.Hour)
		h.want("promoted", map[string]string{"1.2.0": "active 100"})
		last("promoted", "")
	}},
	{"a failed release without pods does not wait for a gateway after the rollout state is lost", func(h tale) {
		h.reviewed()
		odd := h.policy("odd")
		h.run(time.Minute)
		h.broken["pr-7-b"] = "CrashLoopBackOff"
		h.push("pr-7-b")
		h.run(time.Hour)
		h.want("failed", map[string]string{"pr-7-a": "active 100", "pr-7-b": "error 0"})
		odd.never = true
		h.loseState()
		h.push("pr-7-c")
		h.run(24 * time.Hour)
		h.want("replaced", map[string]string{"pr-7-c": "active 100", "pr-7-b": "", "pr-7-a": "deprecated 0"})
		h.message("replaced", "TrafficUnconfirmed", `pr-7-a keeps its pods until it is confirmed that no route points to it: networkpolicies.hlnr.io "odd": NotAccepted`)
	}},
	{"a release with pods waits for a missing gateway after the rollout state is lost, and reports it", func(h tale) {
		h.reviewed()
		odd := h.policy("odd")
		h.run(time.Minute)
		h.startup = time.Hour
		h.push("pr-7-b")
		h.run(time.Second)
		odd.never = true
		h.loseState()
		h.push("pr-7-a")
		h.run(24 * time.Hour)
		h.want("back at the first commit", map[string]string{"pr-7-a": "active 100", "pr-7-b": "deprecated 0"})
		h.message("back at the first commit", "TrafficUnconfirmed", `pr-7-b keeps its pods until it is confirmed that no route points to it: networkpolicies.hlnr.io "odd": NotAccepted`)
		odd.never = false
		h.run(time.Minute)
		h.want("the gateway exists again", map[string]string{"pr-7-a": "active 100", "pr-7-b": ""})
	}},
	{"a retained release replaces a denied version with its own configuration and without steps", func(h tale) {
		h.live()
		kept := h.release("1.0.0")
		h.steps(Step{Weight: 10, Pause: 6 * time.Hour}, Step{Weight: 50, Pause: 6 * time.Hour})
		h.configure("c2")
		h.push("1.1.0")
		h.run(24 * time.Hour)
		h.want("1.1.0 is active", map[string]string{"1.1.0": "active 100", "1.0.0": "deprecated 0"})
		h.withdraw("1.1.0", Denied)
		h.run(time.Minute)
		if a := h.rolloutState.Groups[0].ActiveRow(); a.Release != kept {
			h.fail("a minute after 1.1.0 was denied, %s is active, want %s", a.Release, kept)
		}
	}},
	{"a healthy canary keeps its weight when its policy is created again during a long pause", func(h tale) {
		h.live()
		h.steps(Step{Weight: 10, Pause: 2 * time.Hour}, Step{Weight: 50, Pause: time.Hour})
		h.push("1.1.0")
		h.run(time.Hour)
		h.removePolicy("web")
		h.policy("web")
		h.once()
		h.run(time.Second)
		h.want("created again", map[string]string{"1.0.0": "active 90", "1.1.0": "canary 10"})
	}},
	{"a healthy canary keeps its weight when its policy loses its status during a long pause", func(h tale) {
		h.live()
		h.steps(Step{Weight: 10, Pause: 2 * time.Hour}, Step{Weight: 50, Pause: time.Hour})
		h.push("1.1.0")
		h.run(time.Hour)
		h.nets["web"].reports = map[string]Report{}
		h.once()
		h.run(time.Second)
		h.want("lost", map[string]string{"1.0.0": "active 90", "1.1.0": "canary 10"})
		h.run(58 * time.Minute)
		h.want("the pause is not over", map[string]string{"1.1.0": "canary 10"})
		h.run(2 * time.Minute)
		h.want("the pause is over", map[string]string{"1.1.0": "canary 50"})
	}},
	{"a version that a pin rolled back does not return when the pinned version is denied", func(h tale) {
		h.edit("more are retained", func(s *Spec) { s.MinimumAvailable = 4 })
		h.live()
		h.push("1.1.0")
		h.run(time.Hour)
		h.steps(twoSteps...)
		h.push("1.2.0")
		h.run(time.Hour)
		h.want("1.2.0 is active", map[string]string{"1.2.0": "active 100"})
		h.pin(Pin{Group: "1.x", Version: "1.1.0"})
		h.run(time.Hour)
		h.want("pinned", map[string]string{"1.1.0": "active 100"})
		h.withdraw("1.1.0", Denied)
		h.run(time.Minute)
		h.want("denied", map[string]string{"1.2.0": "deprecated 0", "1.0.0": "active 100"})
	}},
	{"a version that a pin rolled back does not return when the pinned version is denied while paused", func(h tale) {
		h.edit("more are retained", func(s *Spec) { s.MinimumAvailable = 4 })
		h.live()
		h.push("1.1.0")
		h.run(time.Hour)
		h.push("1.2.0")
		h.run(time.Hour)
		h.pin(Pin{Group: "1.x", Version: "1.1.0"})
		h.run(time.Hour)
		h.edit("pause", func(s *Spec) { s.Paused = true })
		h.withdraw("1.1.0", Denied)
		h.run(time.Minute)
		h.want("denied", map[string]string{"1.2.0": "deprecated 0", "1.0.0": "active 100"})
	}},
	{"a group that a user ends reports what the next group waits for", func(h tale) {
		h.newest(twoSteps...)
		h.push("1.0.0")
		h.run(time.Minute)
		h.fill(2, "Unschedulable")
		h.push("2.0.0")
		h.run(time.Hour)
		h.edit("end 1.x", func(s *Spec) { s.Ended = []string{"1.x"} })
		h.run(time.Hour)
		h.want("it keeps serving", map[string]string{"1.0.0": "active 100", "2.0.0": "pending 0"})
		h.message("it waits", "GroupExcluded", "group 1.x is in spec.endedGroups: it closes when its domains have moved to group 2.x, which has no active release yet (2.0.0 is blocked: Unschedulable); to end both groups, list both")
	}},
	{"an active version that is missing and denied is reported as denied", func(h tale) {
		h.live()
		h.withdraw("1.0.0", Gone)
		h.withdraw("1.0.0", Denied)
		h.run(time.Hour)
		h.want("it keeps serving", map[string]string{"1.0.0": "active 100"})
		h.state("it keeps serving", DeniedServes, true)
	}},
	{"the outcome of a decision with an invalid step fits into the status", func(h tale) {
		h.live()
		h.steps(Step{Weight: 10, Approval: true})
		h.push("1.1.0")
		h.run(time.Minute)
		c := h.object("1.1.0")
		h.decide(c.Release, Decision{Action: Continue, ID: "odd", Step: strings.Repeat("\u200b", 63)})
		h.run(time.Minute)
		for _, r := range h.group("1-x").Releases {
			if r.Release != c.Release {
				continue
			}
			if r.Decision == nil || r.Decision.Outcome == DecisionApplied || len(r.Decision.Outcome) > maxOutcome {
				h.fail("decision = %+v, want an error of at most %d bytes", r.Decision, maxOutcome)
			}
		}
	}},
	{"a pause does not count while the Gateway of its policy is deleted", func(h tale) {
		h.live()
		h.steps(Step{Weight: 10, Pause: time.Hour}, Step{Weight: 50, Pause: time.Hour})
		h.push("1.1.0")
		h.run(50 * time.Minute)
		h.want("in its pause", map[string]string{"1.0.0": "active 90", "1.1.0": "canary 10"})
		h.nets["web"].away = true
		h.run(9 * time.Minute)
		h.nets["web"].away = false
		h.run(9 * time.Minute)
		h.want("the time without a Gateway prolongs the pause", map[string]string{"1.0.0": "active 90", "1.1.0": "canary 10"})
		h.run(2 * time.Minute)
		h.want("the pause is over", map[string]string{"1.0.0": "active 50", "1.1.0": "canary 50"})
	}},
	{"a canary loses its traffic when its Gateway remains deleted, and waits for the Gateway", func(h tale) {
		h.live()
		h.steps(Step{Weight: 10, Pause: time.Hour}, Step{Weight: 50, Pause: time.Hour})
		h.push("1.1.0")
		h.run(20 * time.Minute)
		h.nets["web"].away = true
		h.run(24 * time.Hour)
		h.want("it waits", map[string]string{"1.0.0": "active 100", "1.1.0": "pending 0"})
		h.message("it waits", Blocked, `1.1.0 is blocked at 0%: the previous traffic change is not confirmed (TrafficNotProgrammed: networkpolicies.hlnr.io "web": ParentNotFound)`)
		h.nets["web"].away = false
		h.run(time.Minute)
		h.want("the first step begins again", map[string]string{"1.0.0": "active 90", "1.1.0": "canary 10"})
		h.run(2 * time.Hour)
		h.want("active", map[string]string{"1.1.0": "active 100"})
	}},
	{"a canary continues while its Gateway serves and the active release has no endpoints", func(h tale) {
		h.live()
		h.steps(Step{Weight: 0, Pause: time.Hour}, Step{Weight: 50, Pause: time.Hour})
		h.push("1.1.0")
		h.run(time.Minute)
		o := h.object("1.0.0")
		o.ready, o.why = 0, "CrashLoopBackOff"
		h.run(time.Hour)
		h.want("the next step", map[string]string{"1.0.0": "active 50", "1.1.0": "canary 50"})
	}},
	{"weights withheld by a policy whose Gateway is deleted do not make the active release count as unavailable", func(h tale) {
		h.edit("size", func(s *Spec) { s.Replicas = 4 })
		h.live()
		h.push("1.1.0")
		h.run(time.Hour)
		o := h.object("1.1.0")
		o.ready, o.why = 0, "CrashLoopBackOff"
		h.run(time.Minute)
		h.nets["web"].away = true
		h.run(time.Minute)
		o.why = ""
		h.run(time.Hour)
		if !slices.Contains(h.nets["web"].reports["1-x"].Withheld, o.Release) {
			h.fail("the policy withholds nothing, want the weight of 1.1.0")
		}
		h.startup = time.Minute
		h.pin(Pin{Group: "1.x", Version: "1.0.0"})
		h.run(30 * time.Second)
		h.want("not all pods are up", map[string]string{"1.1.0": "active 100", "1.0.0": "deprecated 0"})
		h.run(time.Minute)
		h.want("all pods are up", map[string]string{"1.0.0": "active 100", "1.1.0": "deprecated 0"})
	}},
	{"a group whose last release was deleted by hand ends if no version is offered", func(h tale) {
		h.live()
		h.push("2.0.0")
		h.run(time.Hour)
		h.withdraw("1.0.0", Excluded)
		h.run(time.Hour)
		h.want("it keeps serving", map[string]string{"1.0.0": "active 100", "2.0.0": "active 100"})
		h.remove(h.object("1.0.0"))
		h.run(24 * time.Hour)
		if g := h.rolloutState.group("1-x"); g != nil {
			h.fail("group 1-x is still there, %s, with %d rows", g.Phase, len(g.Releases))
		}
		if g := h.rolloutState.group("2-x"); g == nil || g.ActiveRow() == nil {
			h.fail("group 2-x does not serve")
		}
	}},
	{"a group whose last release was deleted by hand starts the offered version", func(h tale) {
		h.live()
		h.push("1.1.0")
		h.run(time.Hour)
		for _, v := range []string{"1.0.0", "1.1.0"} {
			h.remove(h.object(v))
		}
		h.run(time.Hour)
		h.want("created again", map[string]string{"1.1.0": "active 100"})
	}},
	{"one of two canaries waits if the route of their domain has no room for both", func(h tale) {
		h.newest(twoSteps...)
		h.push("2.0.0")
		h.run(time.Hour)
		h.nets["web"].room = 2
		h.push("2.1.0", "3.0.0")
		h.run(24 * time.Hour)
		h.want("both have ended", map[string]string{"2.1.0": "active 100", "3.0.0": "active 100"})
	}},
	{"a version that already failed in another Microservice waits, and nothing is written", func(h tale) {
		h.live()
		h.edit("together", func(s *Spec) { s.RollBack, s.Steps = true, twoSteps })
		h.peers = map[string]*world{"m1": failedPeer("1.1.0")}
		h.push("1.1.0")
		h.run(time.Hour)
		h.want("blocked by the failure", map[string]string{"1.0.0": "active 100", "1.1.0": ""})
		h.state("blocked by the failure", "TogetherHeld", true)
		h.pin(Pin{Group: "1.x", Version: "1.1.0"})
		h.run(time.Hour)
		h.want("pinned", map[string]string{"1.0.0": "active 100", "1.1.0": ""})
		h.state("pinned", "PinnedReleaseFailed", true)
		h.pin()
		h.peers["m1"].rolloutState.Groups[0].Releases[0].Status = Active
		h.run(time.Hour)
		h.want("fixed in the other Microservice", map[string]string{"1.1.0": "active 100"})
	}},
	{"a failed release that was rolled back with others and deleted by hand is not restarted repeatedly", func(h tale) {
		h.live()
		h.edit("together", func(s *Spec) { s.RollBack, s.Steps = true, []Step{{Weight: 10, Pause: time.Hour}} })
		h.push("1.1.0")
		h.run(time.Minute)
		h.peers = map[string]*world{"m1": failedPeer("1.1.0")}
		h.run(time.Minute)
		h.want("rolled back", map[string]string{"1.0.0": "active 100", "1.1.0": "error 0"})
		h.decideOn("1.1.0", Retry, "")
		h.run(time.Minute)
		h.want("not before it is retried in the other Microservice", map[string]string{"1.1.0": "error 0"})
		h.remove(h.object("1.1.0"))
		h.run(time.Hour)
		h.want("deleted", map[string]string{"1.0.0": "active 100", "1.1.0": ""})
	}},
	{"a rollout does not wait for a Microservice that has a newer version", func(h tale) {
		h.live()
		h.steps(twoSteps...)
		h.push("1.1.0")
		peer := failedPeer("1.2.0")
		peer.rolloutState.Groups[0].Releases[0].Status = Canary
		h.peers = map[string]*world{"m1": peer}
		h.run(time.Hour)
		h.want("in progress in the other Microservice", map[string]string{"1.1.0": "canary 10"})
		peer.rolloutState.Groups[0].Releases[0].Status = Active
		h.run(time.Hour)
		h.want("the other Microservice has a newer version", map[string]string{"1.1.0": "active 100"})
	}},
	{"steps that are all below the weight of a canary reduce its weight, and do not promote it", func(h tale) {
		h.live()
		h.steps(Step{Weight: 50, Pause: time.Hour})
		h.push("1.1.0")
		h.run(time.Minute)
		h.want("half", map[string]string{"1.0.0": "active 50", "1.1.0": "canary 50"})
		h.steps(Step{Weight: 5, Pause: time.Hour}, Step{Weight: 20, Pause: time.Hour})
		h.run(59 * time.Minute)
		h.want("with smaller weights", map[string]string{"1.0.0": "active 80", "1.1.0": "canary 20"})
		h.run(2 * time.Minute)
		h.want("the last step is over", map[string]string{"1.1.0": "active 100"})
	}},
	{"a pin accepts the tag of its version", func(h tale) {
		h.live()
		h.push("1.1.0")
		h.run(time.Hour)
		h.pin(Pin{Group: "1.x", Version: "v1.0.0"})
		h.run(time.Minute)
		h.want("pinned", map[string]string{"1.0.0": "active 100", "1.1.0": "deprecated 0"})
		h.pin(Pin{Version: "v9.0.0", Global: true})
		h.run(time.Minute)
		h.state("no version matches", "PinnedVersionMissing", true)
	}},
	{"a stamp that was written by hand is ignored", func(h tale) {
		h.live()
		h.object("1.0.0").Stamp = math.MaxInt64
		h.push("1.1.0")
		h.run(time.Hour)
		h.push("1.2.0")
		h.edit("minimumAvailable", func(s *Spec) { s.MinimumAvailable = 1 })
		h.run(time.Hour)
		h.want("removed", map[string]string{"1.0.0": "", "1.2.0": "active 100"})
		if h.objects["1.0.0-c1"] != nil {
			h.fail("the object of 1.0.0 remains")
		}
	}},
}

func init() { histories = append(histories, causes...) }

// blind adds a policy whose gateway accepts nothing, and whose first reconcile observed no endpoints of any
// release.
func (h tale) blind(name string) {
	n := h.policy(name)
	n.stuck = true
	for _, o := range h.objects {
		r := n.reports[o.Slug]
		r.Slug, r.Reason = o.Slug, "NotAccepted"
		r.Withheld = union(r.Withheld, []string{o.Release})
		n.reports[o.Slug] = r
	}
}

// once makes one plan, before any other part of the world acts.
func (h tale) once() {
	h.plan(h.leaders[0], lags{})
	for h.perform(h.leaders[0]) {
	}
}

// failedPeer returns another Microservice, in which a version failed.
func failedPeer(version string) *world {
	w := newWorld()
	w.rolloutState.Groups = []Group{{Slug: "1-x", Name: "1.x", Level: "Release", Phase: Live, Releases: []Row{{Release: version, Version: version, Status: Error, Reason: "CrashLoopBackOff"}}}}
	return w
}

// regrouped returns the facts after a change of groupBy from All to Major. 1.9.0 is active in the
// previous single group, which also contains the given row of another release.
func regrouped(other Row, candidates ...string) Observed {
	at := t0.Add(-time.Hour)
	group := Group{
		Slug: "release", Name: "release", Level: "Release", Phase: Live, TrafficRevision: 3, TrafficTime: at, Target: Target{Release: "all-1.9.0", Reason: "Latest"},
		Releases: []Row{{Release: "all-1.9.0", Version: "1.9.0", Config: "c1", Status: Active, Weight: 100 - other.Weight, Available: true, Promoted: 1, Since: at}, other},
	}
	if other.Status == Canary {
		group.Rollout = &Rollout{Release: other.Release, Sequence: 3, Step: 1, Started: at, StepRevision: 3, StepsHash: stepsHash(twoSteps)}
	}
	o := Observed{
		Config:    "c1",
		Spec:      Spec{Replicas: 1, Standby: 1, MinimumAvailable: 2, Deadline: 10 * time.Minute, Drain: 30 * time.Second, Steps: twoSteps},
		Withdrawn: []Withdrawal{{Slug: "release", Reason: Excluded}},
		State:     State{Sequence: 3, Groups: []Group{group}},
	}
	for _, r := range group.Releases {
		o.Objects = append(o.Objects, Object{Release: r.Release, Slug: "release", Name: "release", Level: "Release", Version: r.Version, Config: "c1", Created: at, Stamp: 1, Replicas: 1, Available: 1, Current: 1})
	}
	for _, v := range candidates {
		c := candidate(v)
		c.Release = v
		o.Candidates = append(o.Candidates, c)
	}
	return o
}

// serve makes plans and executes them, with pods that become available immediately, until nothing changes.
func serve(t *testing.T, o Observed) State {
	t.Helper()
	for range 20 {
		p := Plan(o, t0)
		if !p.Changed && len(p.Ensure) == 0 {
			return o.State
		}
		o.State = p.State
		for _, e := range p.Ensure {
			if !e.Create {
				continue
			}
			for _, c := range o.Candidates {
				if c.Release == e.Release {
					o.Objects = append(o.Objects, Object{Release: e.Release, Slug: c.Slug, Name: c.Name, Level: c.Level, Version: c.Version, Config: "c1", Created: t0, Stamp: e.Stamp, Replicas: e.Replicas, Available: e.Replicas})
				}
			}
		}
	}
	t.Fatal("the plans do not become stable")
	return State{}
}

func TestGroupByChangesOnALiveService(t *testing.T) {
	failed := Row{Release: "all-2.0.0", Version: "2.0.0", Config: "c1", Status: Error, Reason: "CrashLoopBackOff"}
	t.Run("a failed version does not block a patch of the active version in its group", func(t *testing.T) {
		l := serve(t, regrouped(failed, "1.9.0", "1.9.1"))
		if g := l.group("1-x"); g == nil || g.ActiveRow() == nil || g.ActiveRow().Version != "1.9.1" {
			t.Errorf("1.9.1 is not active:\n%s", describe(Observed{}, Result{State: l}))
		}
		if g := l.group("release"); g != nil && g.Phase == Live {
			t.Error("the group that groupBy no longer creates is still live")
		}
	})
	t.Run("the active version keeps serving when the canary gets its own group", func(t *testing.T) {
		canary := Row{Release: "all-2.0.0", Version: "2.0.0", Config: "c1", Status: Canary, Weight: 10, Available: true}
		l := serve(t, regrouped(canary, "1.9.0", "2.0.0"))
		if g := l.group("1-x"); g == nil || g.ActiveRow() == nil || g.ActiveRow().Version != "1.9.0" {
			t.Errorf("1.9.0 had 90%% of the traffic, but is not active in any group:\n%s", describe(Observed{}, Result{State: l}))
		}
	})
	t.Run("a group does not close in favor of a group that does not replace it", func(t *testing.T) {
		o := regrouped(failed, "1.9.0", "2.0.1")
		o.Objects = append(o.Objects, Object{Release: "1.9.0", Slug: "1-x", Name: "1.x", Level: "Release", Version: "1.9.0", Config: "c1", Created: t0, Stamp: 4, Replicas: 1, Failure: "CrashLoopBackOff"})
		o.State.Sequence = 4
		o.State.Groups = append(o.State.Groups, Group{
			Slug: "1-x", Name: "1.x", Level: "Release", Phase: Live, Target: Target{Release: "1.9.0", Reason: "Latest"}, Releases: []Row{{Release: "1.9.0", Version: "1.9.0", Config: "c1", Status: Pending}},
			Rollout: &Rollout{Release: "1.9.0", Sequence: 4, Started: t0, StepsHash: stepsHash(twoSteps)},
		})
		l := serve(t, o)
		if g := l.group("2-x"); g == nil || g.ActiveRow() == nil {
			t.Error("2.0.1 is not active")
		}
		if g := l.group("release"); g == nil || g.Phase != Live || g.ActiveRow() == nil {
			t.Error("1.9.0 no longer serves, and its group has no other release")
		}
	})
}

// TestRefusedCreationWaits checks that, after the API server rejects a creation, the rollout waits without an object and does
// not begin again, and no other version becomes the target.
func TestRefusedCreationWaits(t *testing.T) {
	now := t0
	o := Observed{
		Config:     "c1",
		Spec:       Spec{Replicas: 1, MinimumAvailable: 1, Deadline: 10 * time.Minute},
		Candidates: []Candidate{{Slug: "1-x", Name: "1.x", Level: "Release", Version: "1.1.0", Release: "b"}, {Slug: "1-x", Name: "1.x", Level: "Release", Version: "1.0.0", Release: "a"}},
	}
	writes := 0
	for range 24 {
		for tries := 0; ; tries++ {
			p := Plan(o, now)
			if !p.Changed {
				break
			}
			if o.State, writes = p.State, writes+1; tries > 3 {
				t.Fatal("the rollout state is written without limit")
			}
		}
		now = now.Add(time.Hour)
	}
	g := o.State.group("1-x")
	if g == nil || g.Rollout == nil || g.Rollout.Release != "b" || g.Rollout.WaitsFor != notCreated || len(g.Releases) != 1 {
		t.Fatalf("after a day:\n%s", describe(o, Result{State: o.State}))
	}
	if writes != 2 {
		t.Errorf("the rollout state was written %d times in a day, want 2: when the rollout started, and when the rollout began to wait", writes)
	}
	o.Objects = []Object{{Release: "b", Slug: "1-x", Name: "1.x", Level: "Release", Version: "1.1.0", Config: "c1", Created: now, Stamp: 1, Replicas: 1, Available: 1}}
	p := Plan(o, now)
	if g := p.State.group("1-x"); g.ActiveRow() == nil || g.ActiveRow().Release != "b" {
		t.Error("the release was created but is not active")
	}
}
