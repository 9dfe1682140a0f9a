package release

import "time"

// denials are histories with denied versions. Such versions get no traffic if another version can
// get it, even if the group is paused, frozen, or pinned.
var denials = []scene{
	{"rule 24: a denied first release without a successor is reported in an event", func(h tale) {
		h.policy("web")
		h.gates(ConfirmRollout)
		h.hooks[ConfirmRollout] = "no"
		h.push("1.0.0")
		h.run(time.Minute)
		h.withdraw("1.0.0", Denied)
		h.events("denied", Superseded, "1.0.0 is not rolled out, because no version of the group may be deployed")
	}},
	{"rule 04: a release that is pinned by name does not come back when its version is denied", func(h tale) {
		h.live()
		first := h.release("1.0.0")
		h.push("1.1.0")
		h.run(time.Hour)
		h.withdraw("1.0.0", Denied)
		h.pin(Pin{Global: true, Release: first})
		h.run(time.Hour)
		h.want("pinned", map[string]string{"1.1.0": "active 100"})
		h.state("pinned", "PinnedVersionMissing", true)
	}},
	{"rule 04: a pin does not protect a denied active version, and another version gets its traffic", func(h tale) {
		h.live()
		h.push("1.1.0")
		h.run(time.Hour)
		h.pin(Pin{Group: "1.x", Version: "1.1.0"})
		h.run(time.Hour)
		h.state("pinned", "Pinned", true)
		h.withdraw("1.1.0", Denied)
		h.run(time.Minute)
		h.want("denied", map[string]string{"1.0.0": "active 100", "1.1.0": "deprecated 0"})
		h.message("denied", "PinnedVersionMissing", "group 1.x is pinned to version 1.1.0, which is withdrawn (Denied): no release starts; offer it again, or remove the pin")
		h.push("1.2.0")
		h.run(time.Hour)
		h.want("the pin keeps the active release", map[string]string{"1.0.0": "active 100", "1.2.0": ""})
	}},
	{"rule 04: a version that was never active goes through its steps to replace a denied and pinned active version", func(h tale) {
		h.live()
		h.steps(Step{Weight: 10, Pause: 10 * time.Minute})
		h.pin(Pin{Group: "1.x", Version: "1.0.0"})
		h.push("1.1.0")
		h.run(time.Hour)
		h.want("pinned", map[string]string{"1.0.0": "active 100", "1.1.0": ""})
		h.withdraw("1.0.0", Denied)
		h.run(time.Minute)
		h.want("denied", map[string]string{"1.0.0": "active 90", "1.1.0": "canary 10"})
		h.message("denied", DeniedServes, "1.0.0 is denied but keeps serving while 1.1.0 is being rolled out: to replace it immediately, in VersionedMicroservice 1.1.0-c1, set spec.decision.action to Adopt and spec.decision.id to a new value")
		h.message("denied", "PinnedVersionMissing", "group 1.x is pinned to version 1.0.0, which is withdrawn (Denied) and is being replaced by 1.1.0; offer it again, or remove the pin")
		h.run(time.Hour)
		h.want("replaced", map[string]string{"1.1.0": "active 100"})
	}},
	{"rule 04: while the Microservice is paused, a denied and pinned active version is reported as still to be replaced", func(h tale) {
		h.live()
		h.pin(Pin{Group: "1.x", Version: "1.0.0"})
		h.push("1.1.0")
		h.run(time.Hour)
		h.edit("pause", func(s *Spec) { s.Paused = true })
		h.withdraw("1.0.0", Denied)
		h.run(time.Minute)
		h.message("paused", "PinnedVersionMissing", "group 1.x is pinned to version 1.0.0, which is withdrawn (Denied) and will be replaced by 1.1.0; offer it again, or remove the pin")
	}},
	{"rule 04: a denied active version is reported until its replacement is active", func(h tale) {
		h.live()
		h.broken["1.1.0"] = "Unschedulable"
		h.push("1.1.0")
		h.run(time.Minute)
		h.withdraw("1.0.0", Denied)
		h.run(time.Hour)
		h.want("no room for the replacement", map[string]string{"1.0.0": "active 100", "1.1.0": "pending 0"})
		h.message("no room for the replacement", DeniedServes, "1.0.0 is denied but keeps serving until 1.1.0 is active")
		clear(h.broken)
		h.object("1.1.0").why = ""
		h.edit("pause", func(s *Spec) { s.Paused = true })
		h.run(time.Hour)
		h.message("paused", DeniedServes, "1.0.0 is denied but keeps serving until 1.1.0 is active")
		h.edit("end of pause", func(s *Spec) { s.Paused = false })
		h.run(time.Hour)
		h.want("replaced", map[string]string{"1.1.0": "active 100"})
		h.state("replaced", DeniedServes, false)
	}},
	{"rule 04: a denied and pinned active version keeps serving if there is no other release", func(h tale) {
		h.live()
		h.pin(Pin{Group: "1.x", Version: "1.0.0"})
		h.withdraw("1.0.0", Denied)
		h.run(time.Hour)
		h.want("denied", map[string]string{"1.0.0": "active 100"})
		h.message("denied", "PinnedVersionMissing", "group 1.x is pinned to version 1.0.0, which is withdrawn (Denied) but keeps serving because no other release can; offer it again, or remove the pin")
	}},
	{"rule 04: a pinned active version that the registry no longer contains stays active, because it is not denied", func(h tale) {
		h.live()
		h.push("1.1.0")
		h.run(time.Hour)
		h.pin(Pin{Group: "1.x", Version: "1.1.0"})
		h.withdraw("1.1.0", Gone)
		h.run(time.Hour)
		h.want("gone", map[string]string{"1.1.0": "active 100", "1.0.0": "deprecated 0"})
		h.state("gone", "Pinned", true)
	}},
	{"rule 15: a denied active version is replaced while a pin with a typo blocks the groups", func(h tale) {
		h.live()
		h.push("1.1.0")
		h.run(time.Hour)
		h.pin(Pin{Global: true, Version: "9.9.9"})
		h.withdraw("1.1.0", Denied)
		h.run(time.Hour)
		h.want("denied", map[string]string{"1.0.0": "active 100", "1.1.0": "deprecated 0"})
		h.state("denied", "PinnedVersionMissing", true)
	}},
	{"rule 04: a denied active version is replaced by a retained version that is no longer offered", func(h tale) {
		h.live()
		h.push("1.1.0")
		h.run(time.Hour)
		h.drop("1.0.0")
		h.withdraw("1.1.0", Denied)
		h.run(time.Minute)
		h.want("denied", map[string]string{"1.0.0": "active 100", "1.1.0": "deprecated 0"})
	}},
	{"rule 31: a denied release does not replace a lost active release while a rollout is in progress", func(h tale) {
		h.live()
		h.push("1.1.0")
		h.run(time.Hour)
		h.withdraw("1.1.0", Denied)
		h.run(time.Hour)
		h.want("denied", map[string]string{"1.0.0": "active 100", "1.1.0": "deprecated 0"})
		o := h.object("1.0.0")
		h.configure("c2")
		h.broken["1.0.0"] = "CrashLoopBackOff"
		h.run(time.Minute)
		h.remove(o)
		h.run(time.Minute)
		h.want("lost", map[string]string{"1.0.0": "pending 0", "1.1.0": "deprecated 0"})
		h.object("1.0.0").why = ""
		h.run(time.Hour)
		h.want("fixed", map[string]string{"1.0.0": "active 100"})
	}},
	{"rule 31: the last retained release that is not denied replaces a lost active release", func(h tale) {
		h.edit("more are retained", func(s *Spec) { s.MinimumAvailable = 4 })
		h.live()
		for _, v := range []string{"1.1.0", "1.2.0"} {
			h.push(v)
			h.run(time.Hour)
		}
		lost := h.object("1.2.0")
		h.drop("1.0.0", "1.1.0", "1.2.0")
		h.withdraw("1.1.0", Denied)
		h.run(time.Minute)
		h.remove(lost)
		h.run(time.Minute)
		h.want("lost", map[string]string{"1.0.0": "active 100", "1.1.0": "deprecated 0"})
	}},
	{"rule 31: the canary, and not a denied retained release, replaces a lost active release", func(h tale) {
		h.live()
		h.push("1.1.0")
		h.run(time.Hour)
		h.steps(Step{Weight: 10, Pause: 24 * time.Hour})
		h.push("1.2.0")
		h.run(time.Minute)
		h.want("canary", map[string]string{"1.1.0": "active 90", "1.2.0": "canary 10"})
		lost := h.object("1.1.0")
		h.drop("1.1.0")
		h.withdraw("1.0.0", Denied)
		h.run(time.Minute)
		h.remove(lost)
		h.run(time.Minute)
		h.want("lost", map[string]string{"1.2.0": "active 100", "1.0.0": "deprecated 0"})
	}},
	{"rule 31: a denied release replaces a lost active release if no other release has an object", func(h tale) {
		h.live()
		h.push("1.1.0")
		h.run(time.Hour)
		lost := h.object("1.1.0")
		h.drop("1.0.0", "1.1.0")
		h.withdraw("1.0.0", Denied)
		h.run(time.Minute)
		h.remove(lost)
		h.run(time.Hour)
		h.want("lost", map[string]string{"1.0.0": "active 100"})
	}},
	{"rule 31: the pinned release replaces a lost active release", func(h tale) {
		h.edit("more are retained", func(s *Spec) { s.MinimumAvailable = 4 })
		h.live()
		first := h.release("1.0.0")
		h.configure("c2")
		h.run(time.Hour)
		second := h.release("1.0.0")
		h.push("1.1.0")
		h.run(time.Hour)
		h.pin(Pin{Group: "1.x", Version: "1.0.0"})
		h.run(time.Minute)
		h.active("pinned", second)
		h.configure("c3")
		h.run(time.Minute)
		h.remove(h.objects[second])
		h.run(time.Second)
		h.active("lost", first)
	}},
	{"rule 22: a denied canary loses its traffic while the Microservice is paused", func(h tale) {
		h.live()
		h.steps(Step{Weight: 10, Pause: 24 * time.Hour})
		h.push("1.2.0")
		h.run(time.Minute)
		h.want("canary", map[string]string{"1.0.0": "active 90", "1.2.0": "canary 10"})
		h.edit("pause", func(s *Spec) { s.Paused = true })
		h.withdraw("1.2.0", Denied)
		h.run(time.Second)
		h.want("denied", map[string]string{"1.0.0": "active 100"})
		h.run(time.Hour)
		h.want("an hour later", map[string]string{"1.0.0": "active 100", "1.2.0": ""})
	}},
	{"rule 22: a canary that is denied while paused is rolled back, and the next version waits", func(h tale) {
		h.live()
		h.steps(Step{Weight: 10, Pause: 24 * time.Hour})
		h.broken["1.1.0"] = "CrashLoopBackOff"
		h.push("1.1.0", "1.2.0")
		h.run(time.Minute)
		h.edit("pause", func(s *Spec) { s.Paused = true })
		h.withdraw("1.2.0", Denied)
		h.run(time.Hour)
		h.want("denied", map[string]string{"1.0.0": "active 100", "1.1.0": "", "1.2.0": ""})
		h.state("denied", "Paused", true)
	}},
	{"rule 22: a canary that a newer version supersedes waits while paused", func(h tale) {
		h.live()
		h.steps(Step{Weight: 10, Pause: 24 * time.Hour})
		h.push("1.1.0")
		h.run(time.Minute)
		h.edit("pause", func(s *Spec) { s.Paused = true })
		h.push("1.2.0")
		h.run(time.Hour)
		h.want("paused", map[string]string{"1.0.0": "active 90", "1.1.0": "canary 10", "1.2.0": ""})
	}},
	{"rule 22: while paused, a retained version replaces a denied active version, and a new version does not", func(h tale) {
		h.live()
		h.push("1.1.0")
		h.run(time.Hour)
		h.edit("pause", func(s *Spec) { s.Paused = true })
		h.push("1.2.0")
		h.run(time.Minute)
		h.withdraw("1.1.0", Denied)
		h.run(time.Minute)
		h.want("denied", map[string]string{"1.0.0": "active 100", "1.1.0": "deprecated 0", "1.2.0": ""})
		h.edit("continue", func(s *Spec) { s.Paused = false })
		h.run(time.Hour)
		h.want("no longer paused", map[string]string{"1.2.0": "active 100"})
	}},
	{"rule 22: an active version that the registry no longer contains stays active while paused", func(h tale) {
		h.live()
		h.push("1.1.0")
		h.run(time.Hour)
		h.edit("pause", func(s *Spec) { s.Paused = true })
		h.withdraw("1.1.0", Gone)
		h.run(time.Hour)
		h.want("gone", map[string]string{"1.1.0": "active 100", "1.0.0": "deprecated 0"})
	}},
	{"rule 22: a denied active version keeps serving while paused if no release is retained", func(h tale) {
		h.live()
		h.edit("pause", func(s *Spec) { s.Paused = true })
		h.push("1.1.0")
		h.withdraw("1.0.0", Denied)
		h.run(time.Hour)
		h.want("denied", map[string]string{"1.0.0": "active 100", "1.1.0": ""})
		h.state("denied", "Paused", true)
	}},
}

func init() { histories = append(histories, denials...) }
