package release

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// protocol contains histories for rules that the other histories do not cover.
// They run together with the other histories, and with a crash at each of their writes.
var protocol = []scene{
	{"rule 01: equal weights are not a confirmation", func(h tale) {
		h.live()
		h.steps(Step{Weight: 10, Pause: time.Hour})
		web := h.nets["web"]
		h.push("1.1.0")
		h.settle()
		h.run(time.Second)
		h.want("step 1", map[string]string{"1.1.0": "canary 10"})
		web.stuck = true // From now on, written routes are not programmed.
		h.decideOn("1.1.0", Deprecate, "")
		h.run(time.Second)
		h.decideOn("1.1.0", Retry, "")
		h.run(time.Second)
		h.decideOn("1.1.0", Deprecate, "")
		h.run(2 * time.Minute) // The gateway had these weights before, and reported them.
		h.ready("until it is confirmed", "1.1.0", 2)
		if !web.routes["1-x"].accepts(h.release("1.1.0")) {
			h.fail("the gateway does not route to the canary, want the route that it accepted before")
		}
		h.decideOn("1.1.0", Retry, "")
		h.run(time.Minute)
		h.want("no step before the last change is programmed", map[string]string{"1.1.0": "pending 0"})
		web.stuck = false
		h.run(time.Second)
		h.want("after the change is programmed", map[string]string{"1.1.0": "canary 10"})
	}},
	{"rule 02: an old leader scales down a release that a rollback makes active again", func(h tale) {
		h.live()
		h.push("1.1.0")
		h.run(time.Second)
		h.want("replaced", map[string]string{"1.0.0": "deprecated 0", "1.1.0": "active 100"})
		h.advance(h.spec.Drain)
		old := h.leaders[1]
		h.plan(old, lags{}) // The old manager plans, but does not write.
		if !slices.ContainsFunc(old.todo, func(x write) bool { return x.retire != nil && x.retire.Release == h.release("1.0.0") }) {
			h.fail("the old leader does not plan to scale down 1.0.0")
		}
		h.pin(Pin{Group: "1.x", Version: "1.0.0"})
		h.run(time.Second)
		h.want("rolled back", map[string]string{"1.0.0": "active 100"})
		for h.perform(old) {
		}
		h.ready("after the writes of the old leader", "1.0.0", 2)
	}},
	{"rule 02: an old leader deletes a release that is wanted again", func(h tale) {
		h.live()
		h.steps(Step{Weight: 10, Pause: time.Hour}, Step{Weight: 50})
		h.push("1.1.0")
		h.run(time.Second)
		h.push("1.1.1")
		h.run(time.Second)
		h.want("superseded", map[string]string{"1.1.0": "deprecated 0", "1.1.1": "canary 10"})
		h.advance(h.spec.Drain)
		old := h.leaders[1]
		h.plan(old, lags{})
		h.withdraw("1.1.1", Denied) // 1.1.0 is wanted again.
		h.run(time.Second)
		h.want("wanted again", map[string]string{"1.1.0": "canary 10"})
		for h.perform(old) {
		}
		h.run(time.Second)
		h.want("after the writes of the old leader", map[string]string{"1.1.0": "canary 10"})
		h.ready("after the writes of the old leader", "1.1.0", 2)
	}},
	{"rule 05: the active release loses all pods, and the canary gets all traffic and continues", func(h tale) {
		h.live()
		h.steps(twoSteps...)
		h.push("1.1.0")
		h.run(time.Second)
		h.spoil(h.object("1.0.0"), "CrashLoopBackOff")
		h.run(time.Second)
		h.served("withheld", map[string]int{"1.1.0": 100})
		h.run(5 * time.Minute)
		h.want("the canary becomes active", map[string]string{"1.1.0": "active 100"})
	}},
	{"rule 05: a canary without pods is withheld, and does not advance", func(h tale) {
		h.live()
		h.steps(twoSteps...)
		h.push("1.1.0")
		h.run(time.Second)
		h.kill(h.object("1.1.0"), 2)
		h.object("1.1.0").up = h.now.Add(5 * time.Minute)
		h.run(4 * time.Minute)
		h.served("withheld", map[string]int{"1.0.0": 100})
		h.want("no next step", map[string]string{"1.0.0": "active 90", "1.1.0": "canary 10"})
		h.run(90 * time.Second)
		h.served("pods are ready again", map[string]int{"1.0.0": 90, "1.1.0": 10})
		h.run(time.Hour)
		h.want("end", map[string]string{"1.1.0": "active 100"})
	}},
	{"rule 05: neither a failed nor a pending release replaces an active release without pods", func(h tale) {
		h.live()
		h.gates(PreRollout)
		h.hooks[PreRollout] = "no"
		h.steps(twoSteps...)
		h.push("1.1.0")
		h.run(time.Second)
		h.ready("the pending release is ready", "1.1.0", 2)
		h.spoil(h.object("1.0.0"), "CrashLoopBackOff")
		h.run(time.Second)
		h.served("the hook has not approved", map[string]int{"1.0.0": 100})
		h.decideOn("1.1.0", Deprecate, "")
		h.run(time.Second)
		h.served("aborted", map[string]int{"1.0.0": 100})
	}},
	{"rule 10: a policy that never confirmed a change does not block rollouts, and is reported", func(h tale) {
		h.live()
		h.policy("odd").stuck = true
		h.run(time.Minute)
		h.steps(twoSteps...)
		h.push("1.1.0")
		h.run(10 * time.Minute)
		h.want("continues", map[string]string{"1.1.0": "active 100"})
		h.state("the policy does not confirm", "PolicyNotProgrammed", true)
		h.nets["odd"].stuck = false
		h.run(time.Minute)
		h.state("fixed", "PolicyNotProgrammed", false)
	}},
	{"rule 10: a policy that never confirmed and refers to no release does not block a drain", func(h tale) {
		h.live()
		h.push("1.1.0")
		h.run(time.Second)
		h.want("replaced", map[string]string{"1.0.0": "deprecated 0", "1.1.0": "active 100"})
		h.policy("odd").stuck = true
		h.run(time.Hour)
		h.ready("drained", "1.0.0", 1)
	}},
	{"rule 10: a canary does not continue if its only policy never confirmed", func(h tale) {
		h.policy("odd").stuck = true
		h.push("1.0.0")
		h.run(time.Minute)
		h.want("a first release does not wait for a gateway", map[string]string{"1.0.0": "active 100"})
		h.steps(twoSteps...)
		h.push("1.1.0")
		h.run(5 * time.Minute)
		h.want("waits", map[string]string{"1.0.0": "active 100", "1.1.0": "pending 0"})
		h.run(time.Hour)
		h.want("after an hour", map[string]string{"1.0.0": "active 100", "1.1.0": "pending 0"})
		h.state("after an hour", Blocked, true)
	}},
	{"rule 10: every policy that ever confirmed must confirm each change", func(h tale) {
		h.live()
		slow := h.policy("slow")
		h.run(time.Minute)
		h.steps(twoSteps...)
		slow.stuck = true
		h.push("1.1.0")
		h.run(5 * time.Minute)
		h.want("waits", map[string]string{"1.0.0": "active 90", "1.1.0": "canary 10"})
		slow.stuck = false
		h.run(5 * time.Minute)
		h.want("end", map[string]string{"1.1.0": "active 100"})
	}},
	{"a pause begins when the last policy has confirmed the step", func(h tale) {
		h.live()
		slow := h.policy("api") // This policy sorts before web.
		h.run(time.Minute)
		h.steps(Step{Weight: 10, Pause: 5 * time.Minute})
		slow.stuck = true
		h.push("1.1.0")
		h.run(2 * time.Minute)
		slow.stuck = false
		h.run(4 * time.Minute)
		h.want("five minutes since web confirmed", map[string]string{"1.1.0": "canary 10"})
		h.run(2 * time.Minute)
		h.want("five minutes since api confirmed", map[string]string{"1.1.0": "active 100"})
	}},
	{"rule 12: the state names only the policies that do not confirm", func(h tale) {
		h.live()
		slow := h.policy("slow")
		h.run(time.Minute)
		slow.stuck = true
		h.push("1.1.0")
		h.run(time.Second)
		h.state("at first", "TrafficUnconfirmed", false)
		h.run(11 * time.Minute)
		h.message("later", "TrafficUnconfirmed", `1.0.0 keeps its pods until it is confirmed that no route points to it: networkpolicies.hlnr.io "slow": NotAccepted`)
	}},
	{"rule 10: a canary that waits for a policy is not measured, and fails if it loses its pods", func(h tale) {
		h.analysed(Step{Weight: 10, Pause: 10 * time.Minute})
		h.quality["1.1.0"] = VerdictRunning
		h.push("1.1.0")
		h.run(time.Minute)
		h.removePolicy("web")
		h.run(time.Second)
		h.quality["1.1.0"] = VerdictFailed // 1.1.0 has no requests to measure.
		h.run(24 * time.Hour)
		h.want("the policy is removed", map[string]string{"1.0.0": "active 90", "1.1.0": "canary 10"})
		h.kill(h.object("1.1.0"), 1)
		h.object("1.1.0").up = h.now.Add(5 * time.Minute)
		h.run(6 * time.Minute)
		h.want("within its deadline", map[string]string{"1.1.0": "canary 10"})
		h.state("within its deadline", "TrafficLost", true)
		h.run(24 * time.Hour)
		h.spoil(h.object("1.1.0"), "CrashLoopBackOff")
		h.run(time.Hour)
		h.want("after the deadline, without pods", map[string]string{"1.0.0": "active 100", "1.1.0": "error 0"})
	}},
	{"rule 11: a release is not removed while a domain refers to it, and drains afterwards", func(h tale) {
		h.edit("one is retained", func(s *Spec) { s.MinimumAvailable = 1 })
		h.live()
		h.nets["web"].pins = []string{"1.0.0"}
		h.run(time.Minute)
		h.push("1.1.0")
		h.run(24 * time.Hour)
		h.want("a domain refers to it", map[string]string{"1.0.0": "deprecated 0", "1.1.0": "active 100"})
		h.ready("a domain refers to it", "1.0.0", 2)
		h.nets["web"].pins = nil
		h.nets["web"].stuck = true
		h.run(time.Hour)
		h.ready("not yet confirmed by the policy", "1.0.0", 2)
		h.nets["web"].stuck = false
		h.settle()
		h.run(20 * time.Second)
		h.ready("draining", "1.0.0", 2)
		h.run(time.Minute)
		h.want("gone", map[string]string{"1.0.0": ""})
		if h.objects[h.release("1.0.0")] != nil {
			h.fail("the object of 1.0.0 remains")
		}
	}},
	{"rule 13: restarts and unready pods during a pause neither prolong nor shorten the pause", func(h tale) {
		h.live()
		h.steps(Step{Weight: 10}, Step{Weight: 50, Pause: 10 * time.Minute})
		h.push("1.1.0")
		h.run(4 * time.Minute)
		for range 2 { // two minutes each
			h.kill(h.object("1.1.0"), 1)
			h.object("1.1.0").up = h.now.Add(time.Minute)
			h.run(30 * time.Second)
			h.leaders = [2]*leader{{}, {}}
			h.run(90 * time.Second)
		}
		h.leaders = [2]*leader{{}, {}}
		h.run(3*time.Minute + 50*time.Second) // 9m50s of health
		h.want("not yet", map[string]string{"1.1.0": "canary 50"})
		h.run(20 * time.Second)
		h.want("ten minutes", map[string]string{"1.1.0": "active 100"})
	}},
	{"rule 13: a pause of less than 20 seconds is not recorded, and a restart does not change it", func(h tale) {
		h.live()
		h.steps(Step{Weight: 20, Pause: 15 * time.Second})
		h.push("1.1.0")
		h.run(10 * time.Second)
		h.leaders = [2]*leader{{}, {}}
		h.run(4 * time.Second)
		h.want("in its pause", map[string]string{"1.1.0": "canary 20"})
		if run := h.group("1-x").Rollout; run == nil || !run.WaitingSince.IsZero() {
			h.fail("the pause is recorded: %+v", run)
		}
		h.run(2 * time.Second)
		h.want("after its pause", map[string]string{"1.1.0": "active 100"})
	}},
	{"rule 13: a longer pause is recorded after 20 seconds, with the time of its start", func(h tale) {
		h.live()
		h.steps(Step{Weight: 20, Pause: 5 * time.Minute})
		h.push("1.1.0")
		h.run(21 * time.Second)
		if since := h.group("1-x").Rollout.WaitingSince; since.IsZero() || h.now.Sub(since) < 20*time.Second {
			h.fail("recorded since %s, at %s", since, h.now)
		}
		h.state("recorded", Waiting, true)
	}},
	{"rule 23: a pause that is interrupted before it is recorded begins again", func(h tale) {
		h.live()
		h.steps(Step{Weight: 20, Pause: 5 * time.Minute})
		h.push("1.1.0")
		h.run(10 * time.Second)
		h.kill(h.object("1.1.0"), 1)
		h.object("1.1.0").up = h.now.Add(time.Minute)
		h.run(30 * time.Second)
		h.leaders = [2]*leader{{}, {}}
		h.run(4*time.Minute + 40*time.Second) // 5m20s after the start of the pause, healthy for 4m10s
		h.want("not yet", map[string]string{"1.1.0": "canary 20"})
		h.run(time.Minute)
		h.want("healthy for five minutes", map[string]string{"1.1.0": "active 100"})
	}},
	{"the oldest release keeps its size until it is removed", func(h tale) {
		h.live()
		h.push("1.1.0")
		h.run(time.Hour)
		h.push("1.2.0")
		h.run(time.Second)
		h.want("promoted", map[string]string{"1.2.0": "active 100"})
		if o := h.object("1.0.0"); o.Replicas != h.spec.Standby {
			h.fail("1.0.0 has %d replicas, want the standby replicas until it is removed", o.Replicas)
		}
		h.run(time.Minute)
		h.want("gone", map[string]string{"1.0.0": "", "1.1.0": "deprecated 0"})
		if h.objects[h.release("1.0.0")] != nil {
			h.fail("the object of 1.0.0 remains")
		}
	}},
	{"rule 17: a group that is older than the oldest live group does not start", func(h tale) {
		h.policy("web")
		h.push("2.0.0", "3.0.0")
		h.run(time.Minute)
		h.want("both groups of the first plan", map[string]string{"2.0.0": "active 100", "3.0.0": "active 100"})
		h.push("1.9.0", "4.0.0", "pr-7-a")
		h.run(time.Minute)
		h.want("older and newer groups", map[string]string{"1.9.0": "", "4.0.0": "active 100", "pr-7-a": "active 100"})
		h.state("older", "OlderGroup", true)
		h.withdrawGroup("2-x", Closed)
		h.run(time.Hour)
		h.want("no older group starts when a group ends", map[string]string{"1.9.0": "", "2.0.0": "", "3.0.0": "active 100"})
	}},
	{"rule 25: three commits in a minute, and the live commit again", func(h tale) {
		h.policy("web")
		h.steps(Step{Weight: 10, Pause: 10 * time.Minute})
		h.startup = 30 * time.Second
		h.push("pr-7-b")
		h.run(time.Minute)
		for _, v := range []string{"pr-7-c", "pr-7-d", "pr-7-a"} { // The commits have no order.
			for o := range maps.Clone(h.offers) {
				h.drop(o)
			}
			h.push(v)
			h.run(10 * time.Second)
			h.want(v, map[string]string{"pr-7-b": "active 100", v: "pending 0"})
		}
		h.want("only one rollout is in progress", map[string]string{"pr-7-c": "", "pr-7-d": ""})
		h.run(time.Minute)
		h.want("without steps", map[string]string{"pr-7-a": "active 100"})
		h.run(time.Hour)
		if n := len(h.rolloutState.Groups[0].Releases); n != 1 {
			h.fail("%d releases are retained", n)
		}
		sequence := h.rolloutState.Sequence
		h.drop("pr-7-a")
		h.push("pr-7-a")
		h.run(time.Hour)
		if h.rolloutState.Sequence != sequence {
			h.fail("a push of the live commit changes the rollout state")
		}
	}},
	{"rule 33: a domain does not deploy a release, and protects only releases that were active", func(h tale) {
		h.live()
		h.nets["web"].pins = []string{"1.1.0", "1.2.0"}
		h.broken["1.1.0"] = "CrashLoopBackOff"
		h.push("1.1.0")
		h.run(time.Hour)
		h.want("failed", map[string]string{"1.0.0": "active 100", "1.1.0": "error 0", "1.2.0": ""})
		if n := h.object("1.1.0").Replicas; n != 0 {
			h.fail("the release that was never active has %d replicas", n)
		}
		h.nets["web"].pins = []string{"1.0.0"}
		h.run(time.Minute)
		for _, v := range []string{"1.3.0", "1.4.0", "1.5.0"} {
			h.push(v)
			h.run(time.Hour)
		}
		h.want("in addition to the retained releases", map[string]string{"1.0.0": "deprecated 0", "1.3.0": "", "1.4.0": "deprecated 0", "1.5.0": "active 100"})
		h.ready("full size", "1.0.0", 2)
		h.edit("size", func(s *Spec) { s.Replicas = 5 })
		h.run(time.Minute)
		h.ready("same size as the active release", "1.0.0", 5)
		h.edit("size", func(s *Spec) { s.Replicas = 1 })
		h.run(time.Minute)
		h.ready("smaller size", "1.0.0", 1)
	}},
	{"rule 35: retained releases lose their pods when a rollout has no capacity", func(h tale) {
		h.live()
		h.push("1.1.0")
		h.run(time.Hour)
		h.ready("standby", "1.0.0", 1)
		h.broken["1.2.0"] = "QuotaExceeded"
		h.push("1.2.0")
		h.run(4 * time.Minute)
		h.ready("before half of the deadline", "1.0.0", 1)
		h.requeues("half of the deadline", time.Minute)
		h.run(2 * time.Minute)
		h.ready("after half of the deadline", "1.0.0", 0)
		h.want("still retained", map[string]string{"1.0.0": "deprecated 0"})
		clear(h.broken)
		h.object("1.2.0").why = ""
		h.run(time.Hour)
		h.want("there is capacity again", map[string]string{"1.2.0": "active 100"})
	}},
	{"rule 35: retained releases keep their pods when a rollout does not lack capacity", func(h tale) {
		h.live()
		h.push("1.1.0")
		h.run(time.Hour)
		h.broken["1.2.0"] = "CrashLoopBackOff"
		h.push("1.2.0")
		h.run(6 * time.Minute)
		h.want("crashes", map[string]string{"1.2.0": "pending 0"})
		h.ready("after half of the deadline", "1.0.0", 1)
	}},
	{"rule 35: retained releases keep their pods when a canary with traffic loses its pods", func(h tale) {
		h.live()
		h.push("1.1.0")
		h.run(time.Hour)
		h.steps(Step{Weight: 10, Pause: time.Hour})
		h.push("1.2.0")
		h.run(time.Minute)
		h.spoil(h.object("1.2.0"), "Unschedulable")
		h.run(6 * time.Minute)
		h.want("in its step", map[string]string{"1.2.0": "canary 10"})
		h.ready("after half of the deadline", "1.0.0", 1)
	}},
	{"rule 27: if a policy withholds the active release, a rollback takes effect as soon as there is one endpoint", func(h tale) {
		h.edit("size", func(s *Spec) { s.Replicas = 4 })
		h.live()
		h.push("1.1.0")
		h.run(time.Hour)
		o := h.object("1.1.0")
		o.ready, o.why = 0, "CrashLoopBackOff" // The object still reports that the release is available.
		for _, n := range h.nets {
			h.read(n, 0)
			h.write(n)
			h.accept(n)
			h.answer(n)
		}
		h.startup = time.Hour
		h.pin(Pin{Group: "1.x", Version: "1.0.0"})
		l := h.leaders[0]
		for range 4 {
			h.plan(l, lags{})
			for h.perform(l) {
			}
			h.report(h.object("1.0.0"))
		}
		h.want("immediately", map[string]string{"1.0.0": "active 100"})
	}},
	{"rule 22: a first release waits while paused", func(h tale) {
		h.policy("web")
		h.startup = time.Minute
		h.push("1.0.0")
		h.run(time.Second)
		h.edit("pause", func(s *Spec) { s.Paused = true })
		h.run(time.Hour)
		h.want("paused", map[string]string{"1.0.0": "pending 0"})
		h.kill(h.object("1.0.0"), 1)
		h.report(h.object("1.0.0"))
		h.run(10 * time.Second)
		h.want("a pod restarts", map[string]string{"1.0.0": "pending 0"})
		h.run(time.Hour)
		h.edit("end of pause", func(s *Spec) { s.Paused = false })
		h.run(time.Minute)
		h.want("end", map[string]string{"1.0.0": "active 100"})
	}},
	{"rule 32: Adopt waits for the traffic change that is in progress", func(h tale) {
		h.live()
		h.steps(Step{Weight: 10, Approval: true})
		h.push("1.1.0")
		h.run(time.Second)
		h.nets["web"].stuck = true
		h.steps(Step{Weight: 20, Approval: true})
		h.run(time.Second)
		h.want("weight 20 is requested", map[string]string{"1.1.0": "canary 20"})
		h.decideOn("1.1.0", Adopt, "")
		h.run(time.Minute)
		h.want("weight 20 is not programmed", map[string]string{"1.1.0": "canary 20"})
		h.nets["web"].stuck = false
		h.run(time.Second)
		h.want("the change is programmed", map[string]string{"1.1.0": "active 100"})
	}},
	{"an active release without pods blocks nothing, even if its change is not programmed", func(h tale) {
		h.live()
		h.steps(twoSteps...)
		h.push("1.1.0")
		h.run(time.Hour)
		h.want("replaced", map[string]string{"1.1.0": "active 100"})
		slow := h.policy("slow")
		h.run(time.Minute)
		slow.stuck = true
		h.pin(Pin{Group: "1.x", Version: "1.0.0"})
		h.run(time.Second)
		h.want("not programmed", map[string]string{"1.0.0": "active 100"})
		h.pin()
		h.drop("1.1.0")
		h.push("1.2.0")
		h.run(time.Minute)
		h.want("the next release waits for the active release", map[string]string{"1.0.0": "active 100", "1.2.0": "pending 0"})
		h.spoil(h.object("1.0.0"), "CrashLoopBackOff")
		h.run(time.Minute)
		h.want("the active release has no pods", map[string]string{"1.0.0": "active 90", "1.2.0": "canary 10"})
	}},
}

func init() { histories = append(histories, protocol...) }

// served checks the weights that the gateway of the web policy has programmed for group 1-x.
func (h tale) served(when string, want map[string]int) {
	got := map[string]int{}
	for release, weight := range h.nets["web"].routes["1-x"].accepted {
		got[h.objects[release].Version] = weight
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		h.fail("%s: the gateway routes to %v, want %v", when, got, want)
	}
}

// TestProtocol runs only the histories in this file.
func TestProtocol(t *testing.T) {
	t.Parallel()
	for _, h := range protocol {
		t.Run(h.name, func(t *testing.T) {
			t.Parallel()
			if w := playTale(h.play, rules); w.err != nil {
				t.Errorf("%v\n%s", w.err, w.played())
			}
		})
	}
}

// TestConfirmations checks how the confirmation of a policy determines which releases the policy blocks, which states are
// reported, and when the next plan is requested.
func TestConfirmations(t *testing.T) {
	t.Parallel()
	const deadline, drain = 10 * time.Minute, 30 * time.Second
	for name, test := range map[string]struct {
		policy  Report
		settled int64
		now     time.Duration // the time since revision 6 removed 1.0.0 from the routes
		states  string
		requeue time.Duration
		gone    bool  // whether the row of 1.0.0 is dropped
		mark    int64 // the resulting settled revision
	}{
		"confirmed, draining":                         {Report{Revision: 6, Confirmed: t0.Add(time.Minute)}, 0, time.Minute, "", time.Minute + drain, false, 0},
		"confirmed, drained":                          {Report{Revision: 6, Confirmed: t0.Add(time.Minute)}, 0, time.Minute + drain, "", 0, true, 0},
		"confirmed with a time before the change":     {Report{Revision: 6, Confirmed: t0.Add(-time.Hour)}, 0, 0, "", drain, false, 0},
		"behind, without references":                  {Report{Revision: 5}, 0, time.Minute, "", deadline, false, 0},
		"still behind at the deadline":                {Report{Revision: 5}, 0, deadline, "TrafficUnconfirmed PolicyNotProgrammed", 0, false, 6},
		"behind the settled revision":                 {Report{Revision: 4}, 5, time.Minute, "PolicyNotProgrammed", deadline, false, 5},
		"at the settled revision, behind revision 6":  {Report{Revision: 5}, 5, time.Minute, "", deadline, false, 5},
		"refers to the release, at the revision":      {Report{Revision: 6, References: []string{"old"}}, 0, deadline - 1, "", deadline, false, 0},
		"still refers to the release at the deadline": {Report{Revision: 6, References: []string{"old"}}, 0, deadline, "TrafficUnconfirmed", 0, false, 0},
		"never confirmed, without references":         {Report{}, 0, drain, "PolicyNotProgrammed", 0, true, 0},
		"never confirmed, draining":                   {Report{}, 0, drain - 1, "", drain, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.policy.Slug = "1-x"
			o := Observed{
				Spec: Spec{Replicas: 1, MinimumAvailable: 1, Deadline: deadline, Drain: drain}, Config: "c",
				Candidates: []Candidate{{Slug: "1-x", Name: "1.x", Version: "1.1.0", Release: "new"}},
				Objects: []Object{
					{Release: "old", Slug: "1-x", Name: "1.x", Version: "1.0.0", Config: "c", Replicas: 1, Available: 1},
					{Release: "new", Slug: "1-x", Name: "1.x", Version: "1.1.0", Config: "c", Replicas: 1, Available: 1},
				},
				Policies: []Policy{{Name: "web", Groups: []Report{test.policy}}},
				State: State{Sequence: 6, Groups: []Group{{
					Slug: "1-x", Name: "1.x", Phase: Live, TrafficRevision: 6, TrafficTime: t0, SettledRevision: test.settled, Target: Target{Release: "new", Reason: "Latest"},
					Releases: []Row{
						{Release: "new", Version: "1.1.0", Config: "c", Status: Active, Weight: 100, Available: true, Promoted: 2, Since: t0},
						{Release: "old", Version: "1.0.0", Config: "c", Status: Deprecated, Promoted: 1, Routed: true, Since: t0, Zero: &Zero{Revision: 6, Time: t0}},
					},
				}}},
			}
			plan := Plan(o, t0.Add(test.now))
			var states []string
			for _, n := range plan.Notes {
				if !n.Event {
					states = append(states, string(n.Reason))
				}
			}
			slices.Sort(states)
			slices.Reverse(states)
			g := plan.State.Groups[0]
			requeue := time.Duration(0)
			if !plan.RequeueTime.IsZero() {
				requeue = plan.RequeueTime.Sub(t0)
			}
			got := fmt.Sprint(states, requeue, g.Row("old") == nil, g.SettledRevision)
			if want := fmt.Sprint(strings.Fields(test.states), test.requeue, test.gone, test.mark); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}

// TestDistinct checks that a message about two releases names their versions, or the releases if both have the same version.
func TestDistinct(t *testing.T) {
	s := &scope{g: &Group{Releases: []Row{{Release: "1.0.0-c1", Version: "1.0.0"}, {Release: "1.0.0-c2", Version: "1.0.0"}, {Release: "1.1.0-c2", Version: "1.1.0"}}}}
	for other, want := range map[string][2]string{"1.1.0-c2": {"1.1.0", "1.0.0"}, "1.0.0-c2": {"1.0.0-c2", "1.0.0-c1"}} {
		if next, earlier := s.distinct(other, &s.g.Releases[0]); next != want[0] || earlier != want[1] {
			t.Errorf("%s and 1.0.0-c1: %q and %q, want %q", other, next, earlier, want)
		}
	}
}
