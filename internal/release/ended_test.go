package release

import "time"

// named are histories of pins that name a release, and of groups that a user ends.
var named = []scene{
	{"a pin to a release brings back exactly what ran, without steps", func(h tale) {
		h.live()
		h.edit("minimumAvailable", func(s *Spec) { s.MinimumAvailable = 4 })
		first := h.release("1.0.0")
		h.steps(twoSteps...)
		h.configure("c2")
		h.run(time.Hour)
		second := h.release("1.0.0")
		h.push("1.1.0")
		h.run(time.Hour)
		h.want("live", map[string]string{"1.1.0": "active 100"})
		h.pin(Pin{Global: true, Release: first})
		h.run(time.Minute)
		h.active("pinned", first)
		h.state("pinned", "Pinned", true)
		h.push("1.2.0")
		h.configure("c3")
		h.run(time.Hour)
		h.active("neither versions nor configurations move it", first)
		h.pin(Pin{Group: "1.x", Release: second})
		h.run(time.Minute)
		h.active("by group", second)
		h.pin()
		h.run(time.Hour)
		h.want("unpinned", map[string]string{"1.2.0": "active 100"})
	}},
	{"a pin to a release that no group holds starts nothing", func(h tale) {
		h.live()
		h.push("1.1.0")
		h.pin(Pin{Global: true, Release: "shop-1-0-0-typo"})
		h.run(time.Hour)
		h.want("held", map[string]string{"1.0.0": "active 100", "1.1.0": ""})
		h.says("held", "PinnedVersionMissing", `spec.updateStrategy.manual pins release "shop-1-0-0-typo", which no group has: no release starts; correct or remove the pin`)
	}},
	{"two pins of a group to a version and to a release of it conflict", func(h tale) {
		h.live()
		h.pin(Pin{Group: "1.x", Version: "1.0.0"}, Pin{Group: "1-x", Release: h.release("1.0.0")})
		h.run(time.Minute)
		h.state("both", PinsConflict, true)
	}},
	{"a group that a user ends is drained and gone, and the others are not touched", func(h tale) {
		h.live()
		h.push("2.0.0")
		h.run(time.Hour)
		h.edit("end 1.x", func(s *Spec) { s.Ended = []string{"1.x"} })
		h.run(time.Second)
		h.want("draining", map[string]string{"1.0.0": "deprecated 0", "2.0.0": "active 100"})
		h.run(time.Hour)
		h.want("gone", map[string]string{"1.0.0": "", "2.0.0": "active 100"})
		if n := len(h.objects); n != 1 {
			h.fail("%d objects are left", n)
		}
		h.push("1.1.0", "2.1.0")
		h.run(time.Hour)
		h.want("it does not start again", map[string]string{"1.1.0": "", "2.1.0": "active 100"})
	}},
	{"a group whose domains move to a newer one ends when they have moved", func(h tale) {
		h.newest(Step{Weight: 10, Pause: time.Hour})
		h.push("2.0.0")
		h.run(time.Minute)
		h.want("moving", map[string]string{"1.0.0": "active 100", "2.0.0": "canary 10"})
		h.edit("end 1.x", func(s *Spec) { s.Ended = []string{"1.x"} })
		h.push("1.1.0")
		h.run(30 * time.Minute)
		h.want("it does not end yet, and starts nothing", map[string]string{"1.0.0": "active 100", "1.1.0": "", "2.0.0": "canary 10"})
		h.carries("the steps continue", "1.0.0=90 2.0.0=10")
		h.says("the steps continue", "GroupExcluded", "group 1.x is in spec.endedGroups: it closes when its domains have moved to group 2.x, which has no active release yet; to end both, list both")
		h.run(time.Hour)
		h.want("moved", map[string]string{"1.0.0": "", "2.0.0": "active 100"})
		h.state("moved", "GroupExcluded", false)
	}},
	{"a group that a user ends keeps serving when the release fails to which its domains move", func(h tale) {
		h.newest(Step{Weight: 10, Pause: time.Hour})
		h.push("2.0.0")
		h.run(time.Minute)
		h.edit("end 1.x", func(s *Spec) { s.Ended = []string{"1.x"} })
		o := h.object("2.0.0")
		o.ready, o.why = 0, "CrashLoopBackOff"
		h.run(time.Hour)
		h.want("failed", map[string]string{"1.0.0": "active 100", "2.0.0": "error 0"})
		h.carries("failed", "1.0.0=100")
		h.push("2.0.1")
		h.run(2 * time.Minute)
		h.want("a better one takes its steps", map[string]string{"1.0.0": "active 100", "2.0.1": "canary 10"})
		h.edit("end both", func(s *Spec) { s.Ended = []string{"1.x", "2.x"} })
		h.run(time.Second)
		h.want("both are ended", map[string]string{"1.0.0": "deprecated 0", "2.0.1": "deprecated 0"})
		h.run(time.Hour)
		h.empty("both are gone")
	}},
	{"a group that a user ends keeps serving when the newer group is gone to which its domains move", func(h tale) {
		h.newest(Step{Weight: 10, Pause: time.Hour})
		h.push("2.0.0")
		h.run(time.Minute)
		h.want("moving", map[string]string{"1.0.0": "active 100", "2.0.0": "canary 10"})
		h.edit("end 1.x", func(s *Spec) { s.Ended = []string{"1.x"} })
		h.run(time.Minute)
		h.withdraw("2.0.0", Denied)
		h.run(time.Hour)
		h.want("denied", map[string]string{"1.0.0": "active 100", "2.0.0": ""})
		h.carries("denied", "1.0.0=100")
		h.says("denied", "GroupExcluded", "group 1.x is in spec.endedGroups but keeps serving: the newer group to which its domains were moving has no release any more; push another version for it, or, to end group 1.x all the same, remove it from spec.endedGroups and add it again")
		h.push("2.0.1")
		h.run(2 * time.Minute)
		h.want("a better one takes its steps", map[string]string{"1.0.0": "active 100", "2.0.1": "canary 10"})
		h.run(2 * time.Hour)
		h.want("moved", map[string]string{"1.0.0": "", "2.0.1": "active 100"})
	}},
	{"a group that a user ends twice ends without the newer group that is gone", func(h tale) {
		h.newest(Step{Weight: 10, Pause: time.Hour})
		h.push("2.0.0")
		h.run(time.Minute)
		h.edit("end 1.x", func(s *Spec) { s.Ended = []string{"1.x"} })
		h.run(time.Minute)
		h.withdraw("2.0.0", Denied)
		h.run(time.Hour)
		h.edit("no end", func(s *Spec) { s.Ended = nil })
		h.run(time.Minute)
		h.want("kept", map[string]string{"1.0.0": "active 100"})
		h.edit("end 1.x again", func(s *Spec) { s.Ended = []string{"1.x"} })
		h.run(time.Hour)
		h.empty("ended")
	}},
	{"a group that a user ends keeps serving when the newer group is gone, and previews end too", func(h tale) {
		h.newest(Step{Weight: 10, Pause: time.Hour})
		h.push("2.0.0")
		h.run(time.Minute)
		h.edit("end 1.x", func(s *Spec) { s.Ended = []string{"17", "feature-9", "1.x"} })
		h.run(time.Minute)
		h.withdraw("2.0.0", Denied)
		h.run(time.Hour)
		h.want("denied", map[string]string{"1.0.0": "active 100", "2.0.0": ""})
		h.carries("denied", "1.0.0=100")
	}},
	{"a group that a user ends by mistake comes back while it is drained", func(h tale) {
		h.live()
		h.push("2.0.0")
		h.run(time.Hour)
		h.edit("end 2-x", func(s *Spec) { s.Ended = []string{"2-x"} })
		h.run(time.Second)
		h.want("draining", map[string]string{"1.0.0": "active 100", "2.0.0": "deprecated 0"})
		h.edit("no end", func(s *Spec) { s.Ended = nil })
		h.run(time.Hour)
		h.want("back", map[string]string{"1.0.0": "active 100", "2.0.0": "active 100"})
	}},
	{"the newest group that is ended starts again when it is not named any more", func(h tale) {
		h.live()
		h.push("2.0.0")
		h.run(time.Hour)
		h.edit("end 2.x", func(s *Spec) { s.Ended = []string{"2.x"} })
		h.run(time.Hour)
		h.want("gone", map[string]string{"1.0.0": "active 100", "2.0.0": ""})
		h.edit("no end", func(s *Spec) { s.Ended = nil })
		h.run(time.Hour)
		h.want("again", map[string]string{"1.0.0": "active 100", "2.0.0": "active 100"})
	}},
	{"a group that is ended in mid-canary", func(h tale) {
		h.live()
		h.steps(twoSteps...)
		h.push("1.1.0")
		h.run(10 * time.Second)
		h.edit("end 1.x", func(s *Spec) { s.Ended = []string{"1.x"} })
		h.run(time.Hour)
		h.empty("ended")
	}},
	{"a group that a changed grouping no longer makes has no heir in a group that a user ended", func(h tale) {
		h.regroup("all")
		h.live()
		h.edit("end 1.x", func(s *Spec) { s.Ended = []string{"1.x"} })
		h.push("2.0.0")
		h.pin(Pin{Group: "release", Version: "1.0.0"})
		h.run(time.Minute)
		h.regroup("")
		h.pin()
		h.run(2 * time.Hour)
		h.want("regrouped", map[string]string{"2.0.0": "active 100", "1.0.0": ""})
	}},
	{"a preview that a user ends stays away while its pull request is open", func(h tale) {
		h.reviewed()
		h.push("pr-8-a")
		h.run(time.Minute)
		h.edit("end 7", func(s *Spec) { s.Ended = []string{"7"} })
		h.run(time.Hour)
		h.want("gone", map[string]string{"pr-7-a": "", "pr-8-a": "active 100"})
		h.push("pr-7-b")
		h.run(time.Hour)
		h.want("a push does not bring it back", map[string]string{"pr-7-b": "", "pr-8-a": "active 100"})
		h.edit("no end", func(s *Spec) { s.Ended = nil })
		h.run(time.Hour)
		h.want("back", map[string]string{"pr-7-b": "active 100", "pr-8-a": "active 100"})
	}},
}

func init() { histories = append(histories, named...) }
