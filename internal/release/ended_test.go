package release

import "time"

// named are histories with pins that select a release by name, and with groups that are ended by a
// user.
var named = []scene{
	{"the end of a group is undone while its source does not list the version", func(h tale) {
		h.live()
		h.drop("1.0.0")
		h.run(time.Minute)
		h.want("dropped", map[string]string{"1.0.0": "active 100"})
		h.edit("end 1.x", func(s *Spec) { s.Ended = []string{"1.x"} })
		h.run(time.Second)
		h.edit("undo", func(s *Spec) { s.Ended = nil })
		h.run(time.Minute)
		h.want("undone", map[string]string{"1.0.0": "active 100"})
	}},
	{"the end of a group is undone while the template is incomplete", func(h tale) {
		h.live()
		h.configure("")
		h.run(time.Minute)
		h.want("no template", map[string]string{"1.0.0": "active 100"})
		h.edit("end 1.x", func(s *Spec) { s.Ended = []string{"1.x"} })
		h.run(time.Second)
		h.edit("undo", func(s *Spec) { s.Ended = nil })
		h.run(time.Minute)
		h.want("undone", map[string]string{"1.0.0": "active 100"})
	}},
	{"the end of a group is undone while its source fails", func(h tale) {
		h.live()
		h.stale = true
		h.run(time.Minute)
		h.edit("end 1.x", func(s *Spec) { s.Ended = []string{"1.x"} })
		h.run(time.Second)
		h.edit("undo", func(s *Spec) { s.Ended = nil })
		h.run(time.Minute)
		h.want("undone", map[string]string{"1.0.0": "active 100"})
	}},
	{"the end of a group is undone after its active version is gone", func(h tale) {
		h.live()
		h.withdraw("1.0.0", Gone)
		h.run(time.Minute)
		h.want("gone", map[string]string{"1.0.0": "active 100"})
		h.edit("end 1.x", func(s *Spec) { s.Ended = []string{"1.x"} })
		h.run(time.Second)
		h.edit("undo", func(s *Spec) { s.Ended = nil })
		h.run(time.Minute)
		h.want("undone", map[string]string{"1.0.0": "active 100"})
	}},
	{"the end of a group is undone with a pin to a version that is missing", func(h tale) {
		h.live()
		h.pin(Pin{Version: "9.9.9", Global: true})
		h.edit("end 1.x", func(s *Spec) { s.Ended = []string{"1.x"} })
		h.run(time.Second)
		h.edit("undo", func(s *Spec) { s.Ended = nil })
		h.run(time.Minute)
		h.want("undone", map[string]string{"1.0.0": "active 100"})
	}},
	{"a pin to a release makes the same release active again, without steps", func(h tale) {
		h.live()
		h.edit("minimumAvailable", func(s *Spec) { s.MinimumAvailable = 4 })
		first := h.release("1.0.0")
		h.steps(twoSteps...)
		h.configure("c2")
		h.run(time.Hour)
		second := h.release("1.0.0")
		h.push("1.1.0")
		h.run(time.Hour)
		h.want("1.1.0 is active", map[string]string{"1.1.0": "active 100"})
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
	{"a pin to a release that no group contains starts nothing", func(h tale) {
		h.live()
		h.push("1.1.0")
		h.pin(Pin{Global: true, Release: "shop-1-0-0-typo"})
		h.run(time.Hour)
		h.want("blocked by the pin", map[string]string{"1.0.0": "active 100", "1.1.0": ""})
		h.message("blocked by the pin", "PinnedVersionMissing", `spec.updateStrategy.manual pins release "shop-1-0-0-typo", which no group has: no release starts; correct or remove the pin`)
	}},
	{"two pins of a group, to a version and to a release of that version, conflict", func(h tale) {
		h.live()
		h.pin(Pin{Group: "1.x", Version: "1.0.0"}, Pin{Group: "1-x", Release: h.release("1.0.0")})
		h.run(time.Minute)
		h.state("both", PinsConflict, true)
	}},
	{"a group that a user ends is drained and removed, and other groups do not change", func(h tale) {
		h.live()
		h.push("2.0.0")
		h.run(time.Hour)
		h.edit("end 1.x", func(s *Spec) { s.Ended = []string{"1.x"} })
		h.run(time.Second)
		h.want("draining", map[string]string{"1.0.0": "deprecated 0", "2.0.0": "active 100"})
		h.run(time.Hour)
		h.want("gone", map[string]string{"1.0.0": "", "2.0.0": "active 100"})
		if n := len(h.objects); n != 1 {
			h.fail("%d objects remain", n)
		}
		h.push("1.1.0", "2.1.0")
		h.run(time.Hour)
		h.want("it does not start again", map[string]string{"1.1.0": "", "2.1.0": "active 100"})
	}},
	{"a group ends after its domains have moved to a newer group", func(h tale) {
		h.newest(Step{Weight: 10, Pause: time.Hour})
		h.push("2.0.0")
		h.run(time.Minute)
		h.want("moving", map[string]string{"1.0.0": "active 100", "2.0.0": "canary 10"})
		h.edit("end 1.x", func(s *Spec) { s.Ended = []string{"1.x"} })
		h.push("1.1.0")
		h.run(30 * time.Minute)
		h.want("it does not end yet, and starts nothing", map[string]string{"1.0.0": "active 100", "1.1.0": "", "2.0.0": "canary 10"})
		h.newestDomains("the steps continue", "1.0.0=90 2.0.0=10")
		h.message("the steps continue", "GroupExcluded", "group 1.x is in spec.endedGroups: it closes when its domains have moved to group 2.x, which has no active release yet; to end both groups, list both")
		h.run(time.Hour)
		h.want("moved", map[string]string{"1.0.0": "", "2.0.0": "active 100"})
		h.state("moved", "GroupExcluded", false)
	}},
	{"a group that a user ends keeps serving if the release that its domains move to fails", func(h tale) {
		h.newest(Step{Weight: 10, Pause: time.Hour})
		h.push("2.0.0")
		h.run(time.Minute)
		h.edit("end 1.x", func(s *Spec) { s.Ended = []string{"1.x"} })
		o := h.object("2.0.0")
		o.ready, o.why = 0, "CrashLoopBackOff"
		h.run(time.Hour)
		h.want("failed", map[string]string{"1.0.0": "active 100", "2.0.0": "error 0"})
		h.newestDomains("failed", "1.0.0=100")
		h.push("2.0.1")
		h.run(2 * time.Minute)
		h.want("a fixed version goes through its steps", map[string]string{"1.0.0": "active 100", "2.0.1": "canary 10"})
		h.edit("end both", func(s *Spec) { s.Ended = []string{"1.x", "2.x"} })
		h.run(time.Second)
		h.want("both are ended", map[string]string{"1.0.0": "deprecated 0", "2.0.1": "deprecated 0"})
		h.run(time.Hour)
		h.empty("both are gone")
	}},
	{"a group that a user ends keeps serving if the newer group that its domains move to is gone", func(h tale) {
		h.newest(Step{Weight: 10, Pause: time.Hour})
		h.push("2.0.0")
		h.run(time.Minute)
		h.want("moving", map[string]string{"1.0.0": "active 100", "2.0.0": "canary 10"})
		h.edit("end 1.x", func(s *Spec) { s.Ended = []string{"1.x"} })
		h.run(time.Minute)
		h.withdraw("2.0.0", Denied)
		h.run(time.Hour)
		h.want("denied", map[string]string{"1.0.0": "active 100", "2.0.0": ""})
		h.newestDomains("denied", "1.0.0=100")
		h.message("denied", "GroupExcluded", "group 1.x is in spec.endedGroups but keeps serving: the newer group to which its domains were moving no longer has a release; push another version for the newer group; to end group 1.x anyway, remove it from spec.endedGroups and add it again")
		h.push("2.0.1")
		h.run(2 * time.Minute)
		h.want("a fixed version goes through its steps", map[string]string{"1.0.0": "active 100", "2.0.1": "canary 10"})
		h.run(2 * time.Hour)
		h.want("moved", map[string]string{"1.0.0": "", "2.0.1": "active 100"})
	}},
	{"a pin to a version that no group has is reported if the only live group is one that a user ends", func(h tale) {
		h.newest(Step{Weight: 10, Pause: time.Hour})
		h.push("2.0.0")
		h.run(time.Minute)
		h.edit("end 1.x", func(s *Spec) { s.Ended = []string{"1.x"} })
		h.run(time.Minute)
		h.withdraw("2.0.0", Denied)
		h.run(time.Hour)
		h.pin(Pin{Global: true, Version: "9.9.9"})
		h.push("2.0.1")
		h.run(time.Hour)
		h.want("nothing starts", map[string]string{"1.0.0": "active 100", "2.0.1": ""})
		h.state("nothing starts", PinnedVersionMissing, true)
		h.pin()
		h.run(time.Minute)
		h.state("unpinned", PinnedVersionMissing, false)
		h.want("unpinned", map[string]string{"1.0.0": "active 100", "2.0.1": "canary 10"})
	}},
	{"a group that a user ends a second time ends although the newer group is gone", func(h tale) {
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
	{"a group that a user ends keeps serving if the newer group is gone and previews end too", func(h tale) {
		h.newest(Step{Weight: 10, Pause: time.Hour})
		h.push("2.0.0")
		h.run(time.Minute)
		h.edit("end 1.x", func(s *Spec) { s.Ended = []string{"17", "feature-9", "1.x"} })
		h.run(time.Minute)
		h.withdraw("2.0.0", Denied)
		h.run(time.Hour)
		h.want("denied", map[string]string{"1.0.0": "active 100", "2.0.0": ""})
		h.newestDomains("denied", "1.0.0=100")
	}},
	{"a group that a user ends by mistake is reopened while it drains", func(h tale) {
		h.live()
		h.push("2.0.0")
		h.run(time.Hour)
		h.edit("end 2-x", func(s *Spec) { s.Ended = []string{"2-x"} })
		h.run(time.Second)
		h.want("draining", map[string]string{"1.0.0": "active 100", "2.0.0": "deprecated 0"})
		h.edit("no end", func(s *Spec) { s.Ended = nil })
		h.run(time.Hour)
		h.want("reopened", map[string]string{"1.0.0": "active 100", "2.0.0": "active 100"})
	}},
	{"the newest group, after it was ended, starts again when spec.endedGroups no longer lists it", func(h tale) {
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
	{"a group is ended during a canary", func(h tale) {
		h.live()
		h.steps(twoSteps...)
		h.push("1.1.0")
		h.run(10 * time.Second)
		h.edit("end 1.x", func(s *Spec) { s.Ended = []string{"1.x"} })
		h.run(time.Hour)
		h.empty("ended")
	}},
	{"a group that is excluded by a changed groupBy does not close in favor of a group that a user ended", func(h tale) {
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
	{"a preview that a user ends does not start again while its pull request is open", func(h tale) {
		h.reviewed()
		h.push("pr-8-a")
		h.run(time.Minute)
		h.edit("end 7", func(s *Spec) { s.Ended = []string{"7"} })
		h.run(time.Hour)
		h.want("gone", map[string]string{"pr-7-a": "", "pr-8-a": "active 100"})
		h.push("pr-7-b")
		h.run(time.Hour)
		h.want("a push does not start it again", map[string]string{"pr-7-b": "", "pr-8-a": "active 100"})
		h.edit("no end", func(s *Spec) { s.Ended = nil })
		h.run(time.Hour)
		h.want("started again", map[string]string{"pr-7-b": "active 100", "pr-8-a": "active 100"})
	}},
}

func init() { histories = append(histories, named...) }
