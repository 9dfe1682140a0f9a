package release

import "time"

// restored contains histories in which the status is lost and recovered from the objects.
var restored = []scene{
	{"rule 31: a release that failed its analysis goes through its steps after the rollout state is lost", func(h tale) {
		h.failedAbove()
		h.loseState()
		h.run(30 * time.Second)
		h.active("1.2.0 is tried again", "1.1.0-c1")
		h.want("1.2.0 is tried again", map[string]string{"1.0.0": "deprecated 0"})
		h.run(time.Hour)
		h.want("1.2.0 fails again", map[string]string{"1.1.0": "active 100", "1.2.0": "error 0"})
	}},
	{"rule 31: a version above the active version goes through its steps if its object does not show a failure", func(h tale) {
		h.failedAbove()
		h.loseState()
		for _, o := range h.objects {
			o.Reported = ""
		}
		h.run(30 * time.Second)
		h.active("1.2.0 is tried again", "1.1.0-c1")
		h.run(time.Hour)
		h.want("1.2.0 fails again", map[string]string{"1.1.0": "active 100", "1.2.0": "error 0"})
	}},
	{"rule 31: a release whose object shows a failure is not retained after the rollout state is lost", func(h tale) {
		h.live()
		for _, v := range []string{"1.1.0", "1.2.0"} {
			h.push(v)
			h.run(time.Hour)
		}
		h.steps(Step{Weight: 10, Pause: time.Hour})
		h.loseState()
		h.object("1.1.0").Reported = Error
		h.pin(Pin{Group: "1.x", Version: "1.1.0"})
		h.run(time.Minute)
		h.want("in steps", map[string]string{"1.2.0": "active 90", "1.1.0": "canary 10"})
	}},
	{"rule 31: releases that were active remain retained after the rollout state is lost", func(h tale) {
		h.edit("more are retained", func(s *Spec) { s.MinimumAvailable = 4 })
		h.live()
		for _, v := range []string{"1.1.0", "1.2.0"} {
			h.push(v)
			h.run(time.Hour)
		}
		h.loseState()
		h.run(time.Minute)
		h.want("rebuilt", map[string]string{"1.2.0": "active 100", "1.1.0": "deprecated 0", "1.0.0": "deprecated 0"})
		h.pin(Pin{Group: "1.x", Version: "1.1.0"})
		h.run(time.Minute)
		h.want("without steps", map[string]string{"1.1.0": "active 100", "1.2.0": "deprecated 0"})
	}},
}

func init() { histories = append(histories, restored...) }

// failedAbove makes 1.1.0 active after 1.2.0, a higher version, has failed its analysis.
func (h tale) failedAbove() {
	h.analysed(Step{Weight: 10, Pause: time.Minute}, Step{Weight: 50, Pause: time.Minute})
	h.quality["1.2.0"] = VerdictFailed
	h.push("1.2.0")
	h.run(time.Hour)
	h.push("1.1.0")
	h.run(time.Hour)
	h.want("before", map[string]string{"1.1.0": "active 100", "1.2.0": "error 0", "1.0.0": "deprecated 0"})
}
