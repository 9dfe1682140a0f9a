package release

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// pins contains histories with pins, decisions, and releases that serve after another release is lost. They run together
// with the other histories, and with a crash at each of their writes.
var pins = []scene{
	{"rule 16: a pin to the current configuration reports a failure of its release, and Retry starts the release again", func(h tale) {
		h.live()
		h.pin(Pin{Group: "1.x", Version: "1.0.0", Current: true})
		h.run(time.Minute)
		h.broken["1.0.0"] = "CrashLoopBackOff"
		h.configure("c2")
		h.run(time.Hour)
		h.state("failed", "PinnedReleaseFailed", true)
		h.state("failed", "Pinned", false)
		h.target("failed", "1.0.0-c1", "PinnedReleaseFailed")
		clear(h.broken)
		h.object("1.0.0").why = ""
		h.decideOn("1.0.0", Retry, "")
		h.run(time.Hour)
		h.active("retried", "1.0.0-c2")
		h.state("retried", "PinnedReleaseFailed", false)
	}},
	{"rule 16: a pin to a failed release below the active release does not start it again", func(h tale) {
		h.live()
		h.broken["1.1.0"] = "CrashLoopBackOff"
		h.push("1.1.0")
		h.run(time.Hour)
		h.push("1.2.0")
		h.run(time.Hour)
		h.pin(Pin{Group: "1.x", Release: "1.1.0-c1"})
		h.run(time.Hour)
		h.state("failed", "PinnedReleaseFailed", true)
		h.active("failed", "1.2.0-c1")
	}},
	{"rule 16: a pin is resolved to the configuration that ran last", func(h tale) {
		h.live()
		h.configure("c2")
		h.run(time.Hour)
		h.push("1.1.0")
		h.run(time.Hour)
		h.edit("more are retained", func(s *Spec) { s.MinimumAvailable = 4 })
		h.configure("c3")
		h.run(time.Hour)
		h.active("newest", "1.1.0-c3")
		h.pin(Pin{Group: "1.x", Version: "1.0.0"})
		h.run(time.Hour)
		h.active("pinned", "1.0.0-c2")
		h.pin(Pin{Group: "1.x", Version: "1.0.0", Current: true})
		h.run(time.Hour)
		h.active("with the current configuration", "1.0.0-c3")
		h.pin(Pin{Group: "1.x", Version: "1.0.0"})
		h.run(time.Hour)
		h.active("the last active configuration", "1.0.0-c3")
		h.configure("c4")
		h.run(time.Hour)
		h.active("a retained release keeps its configuration", "1.0.0-c3")
		h.pin()
		h.run(time.Hour)
		h.active("unpinned", "1.1.0-c4")
	}},
	{"rule 16: a version that was never active goes through its steps when it is pinned", func(h tale) {
		h.live()
		h.steps(twoSteps...)
		h.pin(Pin{Group: "1.x", Version: "1.1.0"})
		h.push("1.1.0", "1.2.0", "1.3.0")
		h.run(time.Second)
		h.want("step 1", map[string]string{"1.0.0": "active 90", "1.1.0": "canary 10", "1.2.0": "", "1.3.0": ""})
		h.run(time.Hour)
		h.want("end", map[string]string{"1.1.0": "active 100", "1.3.0": ""})
	}},
	{"rule 16: a pin to a failed version waits, whether the version was pinned before or after it failed", func(h tale) {
		h.live()
		h.broken["1.1.0"] = "CrashLoopBackOff"
		h.push("1.1.0")
		h.run(time.Hour)
		h.pin(Pin{Group: "1.x", Version: "1.1.0"})
		h.run(time.Hour)
		h.state("failed", "PinnedReleaseFailed", true)
		h.drop("1.1.0") // A row still contains it.
		h.run(time.Hour)
		h.state("not offered", "PinnedReleaseFailed", true)
		h.want("nothing else", map[string]string{"1.0.0": "active 100", "1.1.0": "error 0"})
	}},
	{"rule 15: a pin selects a group by name or by slug", func(h tale) {
		h.live()
		h.push("2.0.0")
		h.run(time.Minute)
		h.pin(Pin{Group: "1-x", Version: "1.0.0"}, Pin{Group: "2.x", Version: "2.9.9"})
		h.push("1.1.0", "2.1.0")
		h.run(time.Hour)
		h.want("blocked by the typo", map[string]string{"1.0.0": "active 100", "1.1.0": "", "2.0.0": "active 100", "2.1.0": ""})
		h.state("a typo blocks its group", "PinnedVersionMissing", true)
		h.pin(Pin{Group: "2.x", Version: "2.0.0"})
		h.run(time.Hour)
		h.want("the other group is not blocked", map[string]string{"1.1.0": "active 100", "2.0.0": "active 100", "2.1.0": ""})
	}},
	{"rule 16: a pin is resolved again when its release is gone", func(h tale) {
		h.live()
		h.startup = time.Hour
		h.pin(Pin{Group: "1.x", Version: "1.1.0"})
		h.push("1.1.0")
		h.run(time.Second)
		h.target("in progress", "1.1.0-c1", "Pinned")
		lost := h.object("1.1.0")
		h.startup = 0
		h.moved["1.1.0"]++ // The tag moved, so the lost release cannot be created again.
		h.remove(lost)
		h.run(time.Hour)
		h.active("the current configuration", "1.1.0-c1-m1")
	}},
	{"rule 15: a pin to an unknown group blocks all groups that no other pin names", func(h tale) {
		h.live()
		h.push("2.0.0")
		h.run(time.Minute)
		field := "spec.updateStrategy.manual.groups[0].name"
		h.pin(Pin{Field: field, Group: "1.X", Version: "1.0.0"}, Pin{Group: "2.x", Version: "2.1.0"})
		h.push("1.1.0", "2.1.0", "2.2.0", "3.0.0")
		h.run(time.Hour)
		h.want("blocked by the pin", map[string]string{"1.0.0": "active 100", "1.1.0": "", "2.1.0": "active 100", "2.2.0": "", "3.0.0": ""})
		h.aims("blocked by the pin", "1-x", "PinnedVersionMissing")
		h.message("blocked by the pin", "PinnedVersionMissing", field+`: group "1.X" does not exist (existing groups: 3.x, 2.x, 1.x); no release starts in groups without a pin; correct the name, or remove the pin`)
		h.pin(Pin{Group: "1.X", Version: "1.0.0", Expire: h.now})
		h.run(time.Hour)
		h.want("expired", map[string]string{"1.1.0": "active 100", "2.2.0": "active 100", "3.0.0": "active 100"})
		h.state("expired", "PinnedVersionMissing", false)
	}},
	{"rule 15: two pins of one group, by name and by slug, start nothing", func(h tale) {
		h.live()
		one, two := Pin{Field: "groups[0]", Group: "1.x", Version: "1.0.0"}, Pin{Field: "groups[1]", Group: "1-x", Version: "1.1.0"}
		h.pin(one, two)
		h.push("1.1.0", "2.0.0")
		h.run(time.Hour)
		h.want("blocked by the conflict", map[string]string{"1.0.0": "active 100", "1.1.0": "", "2.0.0": "active 100"})
		h.aims("blocked by the conflict", "1-x", PinsConflict)
		h.message("blocked by the conflict", PinsConflict, "groups[0] and groups[1] pin group 1.x to different releases, 1.0.0 and 1.1.0: no release starts; remove one of these pins")
		two.Version, two.Current = one.Version, true
		h.pin(two, one)
		h.run(time.Hour)
		h.message("the same version with two configurations", PinsConflict, "groups[1] and groups[0] pin group 1.x to different releases, 1.0.0 (Current) and 1.0.0: no release starts; remove one of these pins")
		h.pin(one, one)
		h.run(time.Hour)
		h.state("the same pin twice", PinsConflict, false)
		h.state("the same pin twice", "Pinned", true)
	}},
	{"rule 15: a typo in a pin does not stop a rollout in progress", func(h tale) {
		h.live()
		h.target("at first", "1.0.0-c1", "Latest")
		h.steps(twoSteps...)
		h.push("1.1.0")
		h.run(time.Second)
		for _, p := range []Pin{{Global: true, Version: "9.9.9"}, {Group: "1.x", Version: "9.9.9"}} {
			h.pin(p)
			h.push("1.2.0")
			h.run(time.Second)
			h.want("in progress", map[string]string{"1.0.0": "active 90", "1.1.0": "canary 10", "1.2.0": ""})
			h.target("in progress", "1.1.0-c1", "PinnedVersionMissing")
		}
		h.run(time.Hour)
		h.want("end", map[string]string{"1.1.0": "active 100", "1.2.0": ""})
		h.target("end", "1.1.0-c1", "PinnedVersionMissing")
	}},
	{"rule 15: a pin with a group takes precedence over a pin without a group", func(h tale) {
		h.live()
		h.push("1.1.0", "1.2.0", "2.0.0")
		for _, pins := range [][]Pin{
			{{Global: true, Version: "1.0.0"}, {Group: "1.x", Version: "1.1.0"}},
			{{Group: "1.x", Version: "1.1.0"}, {Global: true, Version: "1.0.0"}},
		} {
			h.pin(pins...)
			h.run(time.Hour)
			h.want("by name", map[string]string{"1.1.0": "active 100", "2.0.0": "active 100"})
		}
		h.pin(Pin{Global: true, Version: "1.0.0"})
		h.run(time.Hour)
		h.want("for any group", map[string]string{"1.0.0": "active 100", "2.0.0": "active 100"})
	}},
	{"rule 15: a pin without a group applies only to the group that contains its version", func(h tale) {
		h.live()
		h.pin(Pin{Global: true, Version: "1.0.0"})
		h.push("1.1.0", "2.0.0", "2.1.0")
		h.run(time.Hour)
		h.want("one group is pinned", map[string]string{"1.0.0": "active 100", "1.1.0": "", "2.1.0": "active 100"})
		h.drop("1.0.0") // A row still contains it.
		h.run(time.Hour)
		h.want("found by its row", map[string]string{"1.0.0": "active 100", "1.1.0": ""})
		h.state("found by its row", "PinnedVersionMissing", false)
		h.state("found by its row", "Pinned", true)
	}},
	{"a pin without a group, to an ending preview, is reported as missing before another pin starts a rollout", func(h tale) {
		h.live()
		h.push("pr-7-a")
		h.run(time.Minute)
		h.push("1.1.0", "1.2.0")
		h.pin(Pin{Global: true, Version: "pr-7-a"})
		h.edit("another pin", func(s *Spec) { s.Pins = append(s.Pins, Pin{Group: "1.x", Version: "1.1.0"}) })
		h.withdrawGroup("pr-7", Closed)
		h.run(time.Hour)
		h.want("nothing starts", map[string]string{"1.0.0": "active 100", "1.1.0": "", "1.2.0": ""})
		h.state("nothing starts", "PinnedVersionMissing", true)
	}},
	{"a pin without a group, to a release that another pin supersedes, is reported as missing before the other pin starts a rollout", func(h tale) {
		h.gates(ConfirmRollout)
		h.hooks[ConfirmRollout] = "away"
		h.push("1.4.0")
		h.run(time.Minute)
		h.push("1.1.0")
		h.drop("1.4.0")
		h.pin(Pin{Global: true, Version: "1.4.0"}, Pin{Group: "1.x", Version: "1.1.0", Current: true})
		h.run(time.Minute)
		h.want("the rollout continues", map[string]string{"1.4.0": "pending 0", "1.1.0": ""})
		h.state("the rollout continues", "PinnedVersionMissing", true)
	}},
	{"a pin reports the version that would be active without it", func(h tale) {
		h.live()
		h.pin(Pin{Group: "1.x", Version: "1.0.0", Reason: "sales"})
		h.run(time.Minute)
		h.message("the same version", "Pinned", `group 1.x is pinned to 1.0.0 ("sales")`)
		h.push("1.1.0")
		h.run(time.Minute)
		h.message("a newer version", "Pinned", `group 1.x is pinned to 1.0.0 ("sales"); strategy latest would select 1.1.0`)
		h.edit("expire", func(s *Spec) { s.Pins[0].Expire = h.now })
		h.run(time.Minute)
		h.message("over", "PinExpired", "the pin to 1.0.0 expired at 2026-01-01T00:03:00Z")
		h.want("over", map[string]string{"1.1.0": "active 100"})
	}},
	{"a pinned release in error is not forgotten", func(h tale) {
		h.live()
		h.broken["1.1.0"] = "CrashLoopBackOff"
		h.push("1.1.0")
		h.pin(Pin{Group: "1.x", Version: "1.1.0"})
		h.run(time.Hour)
		h.drop("1.1.0")
		h.configure("c2")
		h.run(time.Hour)
		h.state("not offered, and with another configuration", "PinnedReleaseFailed", true)
		h.pin()
		h.run(time.Hour)
		h.want("unpinned", map[string]string{"1.1.0": ""})
	}},
	{"rule 21: Retry of a release that would be superseded immediately is refused", func(h tale) {
		h.live()
		h.broken["1.1.0"] = "CrashLoopBackOff"
		h.push("1.1.0")
		h.run(time.Hour)
		h.steps(Step{Weight: 10, Pause: time.Hour})
		h.push("1.2.0")
		h.run(time.Minute)
		h.object("1.1.0").why = ""
		h.decideOn("1.1.0", Retry, "")
		h.run(time.Minute)
		h.outcome("below a canary", "1.1.0", DecisionNotApplicable+": the target of the group is 1.2.0 (Latest)")
		h.want("below a canary", map[string]string{"1.0.0": "active 90", "1.1.0": "error 0", "1.2.0": "canary 10"})
		h.pin(Pin{Group: "1.x", Version: "1.0.0"})
		h.run(time.Minute)
		h.decideOn("1.1.0", Retry, "")
		h.run(time.Minute)
		h.outcome("pinned to another version", "1.1.0", DecisionNotApplicable+": the target of the group is 1.0.0 (Pinned)")
		h.want("pinned to another version", map[string]string{"1.0.0": "active 100", "1.1.0": "error 0"})
		h.state("the pin has not expired", "PinExpired", false)
		h.pin(Pin{Group: "1.x", Version: "1.1.0"})
		h.run(time.Minute)
		h.decideOn("1.1.0", Retry, "")
		h.run(2 * time.Hour)
		h.outcome("pinned", "1.1.0", DecisionApplied)
		h.want("pinned", map[string]string{"1.1.0": "active 100"})
	}},
	{"rule 21: Retry of a release that is no longer offered is refused", func(h tale) {
		h.policy("web")
		h.broken["1.0.0"] = "CrashLoopBackOff"
		h.push("1.0.0")
		h.run(time.Hour)
		h.drop("1.0.0")
		h.decideOn("1.0.0", Retry, "")
		h.run(time.Minute)
		h.outcome("gone", "1.0.0", DecisionNotApplicable+": the version is no longer offered with the same template and images")
		h.push("1.0.0")
		h.object("1.0.0").why = ""
		h.decideOn("1.0.0", Retry, "")
		h.run(time.Minute)
		h.want("offered", map[string]string{"1.0.0": "active 100"})
	}},
	{"rule 21: Retry is refused while another release finishes first", func(h tale) {
		h.live()
		h.broken["1.2.0"] = "CrashLoopBackOff"
		h.push("1.2.0")
		h.run(time.Hour)
		h.steps(Step{Weight: 10, Pause: time.Hour})
		h.push("1.1.0")
		h.run(time.Minute)
		h.want("last step", map[string]string{"1.1.0": "canary 10"})
		h.decideOn("1.2.0", Retry, "")
		h.run(time.Minute)
		h.outcome("finished first", "1.2.0", DecisionNotApplicable+": the target of the group is 1.1.0 (FinishFirst)")
		h.want("continues", map[string]string{"1.1.0": "canary 10", "1.2.0": "error 0"})
	}},
	{"rule 21: Retry waits while paused", func(h tale) {
		h.live()
		h.broken["1.1.0"] = "CrashLoopBackOff"
		h.push("1.1.0")
		h.run(time.Hour)
		h.edit("pause", func(s *Spec) { s.Paused = true })
		h.object("1.1.0").why = ""
		h.decideOn("1.1.0", Retry, "")
		h.run(time.Hour)
		h.outcome("paused", "1.1.0", DecisionApplied)
		h.want("paused", map[string]string{"1.1.0": "pending 0"})
		h.edit("end of pause", func(s *Spec) { s.Paused = false })
		h.run(time.Hour)
		h.want("end", map[string]string{"1.1.0": "active 100"})
	}},
	{"rule 31: the active release is lost permanently during a canary", func(h tale) {
		h.live()
		h.steps(twoSteps...)
		h.push("1.1.0")
		h.run(time.Second)
		h.want("step 1", map[string]string{"1.0.0": "active 90", "1.1.0": "canary 10"})
		h.drop("1.0.0")
		h.edit("pause", func(s *Spec) { s.Paused = true })
		h.remove(h.object("1.0.0"))
		h.run(time.Second)
		h.want("the serving release is active", map[string]string{"1.0.0": "", "1.1.0": "active 100"})
		h.spoil(h.object("1.1.0"), "CrashLoopBackOff")
		h.run(24 * time.Hour)
		h.want("no later change", map[string]string{"1.1.0": "active 100"})
	}},
	{"rule 31: the active release is lost permanently while the canary has too few pods", func(h tale) {
		h.live()
		h.steps(twoSteps...)
		h.push("1.1.0")
		h.run(time.Second)
		h.drop("1.0.0")
		h.kill(h.object("1.1.0"), 1)
		h.object("1.1.0").up = h.now.Add(time.Hour)
		h.report(h.object("1.1.0"))
		h.remove(h.object("1.0.0"))
		h.run(24 * time.Hour)
		h.want("end", map[string]string{"1.1.0": "active 100"})
	}},
	{"the only release that serves is not rolled back at its deadline", func(h tale) {
		h.edit("size", func(s *Spec) { s.Replicas = 4 })
		h.live()
		h.steps(Step{Weight: 10, Pause: time.Hour})
		h.push("1.1.0")
		h.run(time.Minute)
		h.spoil(h.object("1.0.0"), "CrashLoopBackOff")
		h.kill(h.object("1.1.0"), 1)
		h.object("1.1.0").up = h.now.Add(24 * time.Hour)
		h.run(2 * time.Hour)
		h.want("past its deadline", map[string]string{"1.0.0": "active 90", "1.1.0": "canary 10"})
		h.state("past its deadline", "OnlyServing", true)
		h.object("1.0.0").why = ""
		h.run(time.Hour)
		h.want("the active release responds again", map[string]string{"1.0.0": "active 100", "1.1.0": "error 0"})
		h.state("the active release responds again", "OnlyServing", false)
	}},
	{"a canary next to an active release without ready pods goes through its steps although no policy confirms", func(h tale) {
		h.steps(Step{Weight: 0, Pause: time.Minute}, Step{Weight: 50, Approval: true})
		h.policy("odd").never = true
		h.push("1.0.0")
		h.run(time.Minute)
		h.push("1.1.0")
		h.run(time.Hour)
		h.want("nothing confirms", map[string]string{"1.0.0": "active 100", "1.1.0": "pending 0"})
		h.spoil(h.object("1.0.0"), "CrashLoopBackOff")
		h.run(time.Hour)
		h.want("waits that end automatically", map[string]string{"1.0.0": "active 50", "1.1.0": "canary 50"})
		h.state("waits that end automatically", "AwaitingApproval", true)
		h.decideOn("1.1.0", Continue, "2")
		h.run(time.Minute)
		h.want("no other release responds", map[string]string{"1.1.0": "active 100"})
	}},
	{"a canary next to an active release without ready pods waits for a policy that has confirmed before", func(h tale) {
		h.live()
		h.steps(twoSteps...)
		h.nets["web"].never = true
		h.push("1.1.0")
		h.run(time.Minute)
		h.spoil(h.object("1.0.0"), "CrashLoopBackOff")
		h.run(time.Hour)
		h.want("the gateway may send requests to 1.0.0", map[string]string{"1.0.0": "active 90", "1.1.0": "canary 10"})
		h.state("the gateway may send requests to 1.0.0", "OnlyServing", true)
	}},
	{"a canary whose routes are not programmed loses its traffic to an active release that has pods again", func(h tale) {
		h.live()
		h.steps(Step{Weight: 10, Pause: time.Hour})
		h.spoil(h.object("1.0.0"), "CrashLoopBackOff")
		h.run(time.Minute)
		h.nets["web"].stuck = true // The policy's last report still shows that no pod of 1.0.0 responds.
		h.push("1.1.0")
		h.run(time.Minute)
		h.want("not programmed", map[string]string{"1.0.0": "active 90", "1.1.0": "canary 10"})
		h.object("1.0.0").why = ""
		h.run(time.Hour)
		h.want("past its deadline", map[string]string{"1.0.0": "active 100", "1.1.0": "pending 0"})
		h.nets["web"].stuck = false
		h.run(30 * time.Minute)
		h.want("programmed again", map[string]string{"1.0.0": "active 90", "1.1.0": "canary 10"})
	}},
	{"a canary without pods fails even next to an active release without ready pods", func(h tale) {
		h.live()
		h.steps(Step{Weight: 10, Pause: time.Hour})
		h.push("1.1.0")
		h.run(time.Minute)
		h.spoil(h.object("1.0.0"), "CrashLoopBackOff")
		h.spoil(h.object("1.1.0"), "CrashLoopBackOff")
		h.run(time.Hour)
		h.want("no release responds", map[string]string{"1.0.0": "active 100", "1.1.0": "error 0"})
	}},
	{"rule 04: a pin does not restore a denied version", func(h tale) {
		h.live()
		h.push("1.1.0")
		h.run(time.Hour)
		h.withdraw("1.0.0", Gone) // Only one of the two reasons is reported, regardless of their order.
		h.withdraw("1.0.0", Denied)
		h.run(time.Hour)
		h.pin(Pin{Group: "1.x", Version: "1.0.0"})
		h.run(time.Hour)
		h.active("pinned to a denied version", "1.1.0-c1")
		h.state("pinned to a denied version", "PinnedVersionMissing", true)
		h.push("1.0.0")
		h.run(time.Hour)
		h.active("offered again", "1.0.0-c1")
		h.state("offered again", "PinnedVersionMissing", false)
	}},
	{"rule 04: a pinned canary that is denied loses its traffic", func(h tale) {
		h.live()
		h.steps(Step{Weight: 50, Approval: true})
		h.pin(Pin{Group: "1.x", Version: "1.1.0"})
		h.push("1.1.0")
		h.run(time.Hour)
		h.want("in its step", map[string]string{"1.1.0": "canary 50"})
		h.withdraw("1.1.0", Denied)
		h.run(time.Second)
		h.want("denied", map[string]string{"1.0.0": "active 100"})
		h.state("denied", "PinnedVersionMissing", true)
	}},
	{"rule 15: a pin to an unknown version is reported before there is a group", func(h tale) {
		h.pin(Pin{Version: "9.0.0", Global: true})
		h.run(time.Minute)
		h.state("nothing offered", "PinnedVersionMissing", false)
		h.push("1.0.0")
		h.run(time.Minute)
		h.state("offered", "PinnedVersionMissing", true)
		h.pin()
		h.run(time.Minute)
		h.active("unpinned", "1.0.0-c1")
	}},
}

func init() { histories = append(histories, pins...) }

// active checks which release of the only group is active.
func (h tale) active(when, release string) {
	a := h.rolloutState.Groups[0].ActiveRow()
	if a == nil || a.Release != release {
		h.fail("%s: %v is active, want %s", when, a, release)
	}
}

// target checks the target of the only group, and the reason for it.
func (h tale) target(when, release string, reason Reason) {
	if got := h.rolloutState.Groups[0].Target; got.Release != release || got.Reason != reason {
		h.fail("%s: the target is %v, want %s (%s)", when, got, release, reason)
	}
}

// aims checks the reason for a group's target.
func (h tale) aims(when, slug string, reason Reason) {
	if got := h.group(slug).Target.Reason; got != reason {
		h.fail("%s: the target of %s is %s, want %s", when, slug, got, reason)
	}
}

func (h tale) message(when string, reason Reason, message string) {
	o, _, _ := h.observe(lags{})
	var messages []string
	_, p := h.make(o)
	for _, n := range p.Notes {
		if n.Reason == reason && !n.Event {
			messages = append(messages, n.Message)
		}
	}
	if got := strings.Join(messages, "; "); got != message {
		h.fail("%s: state %s = %q, want %q", when, reason, got, message)
	}
}

// outcome checks the outcome of the last decision on a version.
func (h tale) outcome(when, version, want string) {
	for _, g := range h.rolloutState.Groups {
		for _, r := range g.Releases {
			if r.Version == version && r.Decision != nil && r.Decision.Outcome == want {
				return
			}
		}
	}
	h.fail("%s: the decision on %s did not end in %q\n%s", when, version, want, fmt.Sprint(h.rolloutState))
}

// TestPins runs only the histories in this file.
func TestPins(t *testing.T) {
	t.Parallel()
	for _, h := range pins {
		t.Run(h.name, func(t *testing.T) {
			t.Parallel()
			if w := playTale(h.play, rules); w.err != nil {
				t.Errorf("%v\n%s", w.err, w.played())
			}
		})
	}
}

// TestPinOfAPullRequestThatIsNotOpen checks that a pin to a pull request that is not open yet waits, and that nothing else
// waits for the pull request.
func TestPinOfAPullRequestThatIsNotOpen(t *testing.T) {
	t.Parallel()
	o := Observed{
		PullRequests: true, Config: "c1",
		Spec:       Spec{Replicas: 1, MinimumAvailable: 1, Deadline: time.Hour, Pins: []Pin{{Field: "groups[0].name", Group: "12", Version: "abc"}}},
		Candidates: []Candidate{{Slug: "feat-7", Name: "feat", Level: preview, PullRequest: 7, Version: "def", Release: "def-c1"}},
	}
	p := Plan(o, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	if len(p.Ensure) != 1 || p.Ensure[0].Release != "def-c1" {
		t.Errorf("the other pull request does not start: %+v", p.Ensure)
	}
	want := Note{Reason: "PinnedVersionMissing", Message: `groups[0].name: group "12" does not exist (existing groups: feat); the pin applies once the group exists, and other groups continue`}
	if !slices.Contains(p.Notes, want) {
		t.Errorf("missing note %+v in %+v", want, p.Notes)
	}
	o.Candidates = nil
	if p := Plan(o, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)); len(p.Notes) > 0 {
		t.Errorf("notes without groups = %+v", p.Notes)
	}
}

// pinOf returns the pin that applies to a group. It finds the pin independently of the planner. A pin that names the group
// takes precedence over a pin without a group, which applies if this group has the version. missing reports whether a pin
// without a group selects a version that no group has, or whether two pins that name the group contradict each other.
func (w *world) pinOf(g *Group) (found *Pin, missing bool) {
	holds := func(g *Group, version string) bool {
		for _, r := range g.Releases {
			if r.Version == version {
				return true
			}
		}
		c, offered := w.offers[version]
		return offered && c.Slug == g.Slug
	}
	for _, named := range []bool{true, false} {
		for i := range w.spec.Pins {
			p := &w.spec.Pins[i]
			if p.Global == named || !p.Expire.IsZero() && !p.Expire.After(w.now) {
				continue
			}
			ends := func(slug, level string) bool { // The releases of an ending preview no longer start.
				return level == preview && slices.ContainsFunc(w.withdrawn, func(x Withdrawal) bool { return x.Slug == slug && x.Version == "" })
			}
			c, held := w.offers[p.Version]
			held = held && !ends(c.Slug, c.Level)
			for j := range w.rolloutState.Groups {
				x := &w.rolloutState.Groups[j]
				held = held || x.Phase != Closing && !ends(x.Slug, x.Level) && holds(x, p.Version)
			}
			missing = missing || !named && !held
			missing = missing || found != nil && named && p.Group == g.Name && (p.Version != found.Version || p.Current != found.Current)
			if found == nil && (named && p.Group == g.Name || !named && holds(g, p.Version)) {
				found = p
			}
		}
	}
	return found, missing
}

// checkPin checks that a group that can reach its pinned version reaches it or reports a failure.
func (w *world) checkPin(g *Group, failed bool) {
	pin, missing := w.pinOf(g)
	if pin == nil || missing || w.endedByUser(g) {
		return // A group that a user ends does not start releases.
	}
	c, reach := w.offers[pin.Version]
	reach = reach && c.Slug == g.Slug // Two pull requests can have the same name.
	broken := false
	for _, r := range g.Releases {
		if r.Version == pin.Version && (!pin.Current || r.Config == w.config) {
			reach, broken = true, broken || r.Status == Error
		}
	}
	withdrawn := func(version string) bool {
		return slices.ContainsFunc(w.withdrawals(), func(x Withdrawal) bool { return x.Slug == g.Slug && x.Version == version })
	}
	if withdrawn(pin.Version) {
		return // A pin does not start a withdrawn version again.
	}
	switch a := g.ActiveRow(); {
	case !reach:
	case g.Rollout != nil && broken && g.Target.Reason == "PinnedReleaseFailed": // The rollout in progress continues.
	case g.Rollout != nil && broken && a != nil && withdrawn(a.Version): // Another release replaces a denied release.
	case g.Rollout != nil:
		if r := g.Row(g.Rollout.Release); r.Version != pin.Version || pin.Current && r.Config != w.config {
			w.fail("rule 16: group %s is pinned to %s, but rolls out %s\n%s", g.Slug, pin.Version, r.Release, renderGroup(g))
		}
	case a != nil && a.Version == pin.Version && (!pin.Current || a.Config == w.config):
	case !failed || !broken:
		w.fail("rule 16: group %s can reach its pinned version %s, but does not\n%s", g.Slug, pin.Version, renderGroup(g))
	}
}
