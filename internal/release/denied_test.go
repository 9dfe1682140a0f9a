package release

import "time"

// denials are histories of versions that are denied: they get no traffic while another
// version can have it, whatever else holds the group where it is.
var denials = []scene{
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
	{"rule 04: a pin does not protect an active version that is denied, and another one has its traffic", func(h tale) {
		h.live()
		h.push("1.1.0")
		h.run(time.Hour)
		h.pin(Pin{Group: "1.x", Version: "1.1.0"})
		h.run(time.Hour)
		h.state("pinned", "Pinned", true)
		h.withdraw("1.1.0", Denied)
		h.run(time.Minute)
		h.want("denied", map[string]string{"1.0.0": "active 100", "1.1.0": "deprecated 0"})
		h.says("denied", "PinnedVersionMissing", "version 1.1.0 that group 1.x is pinned to is withdrawn (Denied): nothing is started; offer it again, or remove the pin")
		h.push("1.2.0")
		h.run(time.Hour)
		h.want("the pin holds the group where it is", map[string]string{"1.0.0": "active 100", "1.2.0": ""})
	}},
	{"rule 04: a pinned active version that is denied is replaced by the steps of a version that was not active yet", func(h tale) {
		h.live()
		h.steps(Step{Weight: 10, Pause: 10 * time.Minute})
		h.pin(Pin{Group: "1.x", Version: "1.0.0"})
		h.push("1.1.0")
		h.run(time.Hour)
		h.want("pinned", map[string]string{"1.0.0": "active 100", "1.1.0": ""})
		h.withdraw("1.0.0", Denied)
		h.run(time.Minute)
		h.want("denied", map[string]string{"1.0.0": "active 90", "1.1.0": "canary 10"})
		h.says("denied", "PinnedVersionMissing", "version 1.0.0 that group 1.x is pinned to is withdrawn (Denied), and makes room for 1.1.0; offer it again, or remove the pin")
		h.run(time.Hour)
		h.want("replaced", map[string]string{"1.1.0": "active 100"})
	}},
	{"rule 04: a pinned active version that is denied serves on where nothing else is left", func(h tale) {
		h.live()
		h.pin(Pin{Group: "1.x", Version: "1.0.0"})
		h.withdraw("1.0.0", Denied)
		h.run(time.Hour)
		h.want("denied", map[string]string{"1.0.0": "active 100"})
		h.says("denied", "PinnedVersionMissing", "version 1.0.0 that group 1.x is pinned to is withdrawn (Denied), and serves on: nothing is left in its place; offer it again, or remove the pin")
	}},
	{"rule 04: a pinned active version that the registry has no more stays, as nobody denied it", func(h tale) {
		h.live()
		h.push("1.1.0")
		h.run(time.Hour)
		h.pin(Pin{Group: "1.x", Version: "1.1.0"})
		h.withdraw("1.1.0", Gone)
		h.run(time.Hour)
		h.want("gone", map[string]string{"1.1.0": "active 100", "1.0.0": "deprecated 0"})
		h.state("gone", "Pinned", true)
	}},
	{"rule 15: a denied active version makes room while a pin with a typo holds the groups", func(h tale) {
		h.live()
		h.push("1.1.0")
		h.run(time.Hour)
		h.pin(Pin{Global: true, Version: "9.9.9"})
		h.withdraw("1.1.0", Denied)
		h.run(time.Hour)
		h.want("denied", map[string]string{"1.0.0": "active 100", "1.1.0": "deprecated 0"})
		h.state("denied", "PinnedVersionMissing", true)
	}},
	{"rule 04: a denied active version makes room for one that is kept and not offered any more", func(h tale) {
		h.live()
		h.push("1.1.0")
		h.run(time.Hour)
		h.drop("1.0.0")
		h.withdraw("1.1.0", Denied)
		h.run(time.Minute)
		h.want("denied", map[string]string{"1.0.0": "active 100", "1.1.0": "deprecated 0"})
	}},
}

func init() { histories = append(histories, denials...) }
