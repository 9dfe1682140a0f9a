package release

import "time"

// reopened are groups that a user ends by mistake, and opens again before they are gone.
var reopened = []scene{
	{"a release that failed its analysis is not tried again because its group was ended and opened again", func(h tale) {
		h.analysed(Step{Weight: 10, Pause: time.Minute}, Step{Weight: 50, Pause: time.Minute})
		h.quality["1.1.0"] = VerdictFailed
		h.push("1.1.0")
		h.run(time.Hour)
		h.want("failed", map[string]string{"1.0.0": "active 100", "1.1.0": "error 0"})
		h.edit("end 1.x by mistake", func(s *Spec) { s.Ended = []string{"1.x"} })
		h.run(time.Second)
		h.edit("undo", func(s *Spec) { s.Ended = nil })
		h.run(30 * time.Second)
		h.want("undone", map[string]string{"1.0.0": "active 100", "1.1.0": "error 0"})
	}},
	{"a release that a user deprecated gets no traffic because its group was ended and opened again", func(h tale) {
		h.live()
		h.steps(Step{Weight: 10, Pause: time.Hour})
		h.push("1.1.0")
		h.run(time.Minute)
		h.word("1.1.0", Deprecate, "")
		h.run(time.Minute)
		h.want("deprecated", map[string]string{"1.0.0": "active 100", "1.1.0": "error 0"})
		h.edit("end 1.x by mistake", func(s *Spec) { s.Ended = []string{"1.x"} })
		h.run(time.Second)
		h.edit("undo", func(s *Spec) { s.Ended = nil })
		h.run(30 * time.Second)
		h.want("undone", map[string]string{"1.0.0": "active 100", "1.1.0": "error 0"})
	}},
	{"a broken release with no steps does not become active because its group was ended and opened again", func(h tale) {
		h.live()
		h.push("1.1.0")
		h.broken["1.1.0"] = "CrashLoopBackOff"
		h.run(time.Hour)
		h.want("failed", map[string]string{"1.0.0": "active 100", "1.1.0": "error 0"})
		h.edit("end 1.x by mistake", func(s *Spec) { s.Ended = []string{"1.x"} })
		h.run(time.Second)
		h.edit("undo", func(s *Spec) { s.Ended = nil })
		h.run(30 * time.Second)
		h.want("undone", map[string]string{"1.0.0": "active 100", "1.1.0": "error 0"})
	}},
	{"a canary of a group that is ended and opened again does not go straight to active", func(h tale) {
		h.live()
		h.steps(Step{Weight: 10, Pause: time.Hour})
		h.push("1.1.0")
		h.run(time.Minute)
		h.want("canary", map[string]string{"1.0.0": "active 90", "1.1.0": "canary 10"})
		h.edit("end 1.x by mistake", func(s *Spec) { s.Ended = []string{"1.x"} })
		h.run(4 * time.Second)
		h.edit("undo", func(s *Spec) { s.Ended = nil })
		h.run(time.Minute)
		h.want("undone", map[string]string{"1.0.0": "active 90", "1.1.0": "canary 10"})
	}},
	{"paused, a group that is ended and opened again", func(h tale) {
		h.live()
		h.steps(Step{Weight: 10, Pause: time.Hour})
		h.edit("pause", func(s *Spec) { s.Paused = true })
		h.edit("end 1.x by mistake", func(s *Spec) { s.Ended = []string{"1.x"} })
		h.run(time.Second)
		h.edit("undo", func(s *Spec) { s.Ended = nil })
		h.run(time.Minute)
		h.want("undone", map[string]string{"1.0.0": "active 100"})
	}},
	{"frozen, the routes of a group are gone when it is opened again", func(h tale) {
		h.live()
		h.freeze(5 * time.Hour)
		h.edit("end 1.x by mistake", func(s *Spec) { s.Ended = []string{"1.x"} })
		h.run(2 * time.Second)
		h.edit("undo", func(s *Spec) { s.Ended = nil })
		h.run(time.Minute)
		h.want("undone", map[string]string{"1.0.0": "active 100"})
	}},
}

func init() { histories = append(histories, reopened...) }
