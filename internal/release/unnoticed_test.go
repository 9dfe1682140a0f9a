package release

import (
	"strings"
	"time"
)

// survivors contains histories for conditions in the planner whose removal no other test detects.
var survivors = []scene{
	{"rule 31: among the retained releases, the pinned release replaces a lost active release", func(h tale) {
		h.edit("more are retained", func(s *Spec) { s.MinimumAvailable = 4 })
		h.live()
		for _, v := range []string{"1.1.0", "1.2.0"} {
			h.push(v)
			h.run(time.Hour)
		}
		h.drop("1.2.0")
		h.remove(h.object("1.2.0"))
		h.pin(Pin{Group: "1.x", Version: "1.0.0"})
		before := h.rolloutState.Groups[0].Row(h.release("1.1.0")).Promoted
		h.run(time.Minute)
		h.want("lost", map[string]string{"1.0.0": "active 100", "1.1.0": "deprecated 0", "1.2.0": ""})
		if after := h.rolloutState.Groups[0].Row(h.release("1.1.0")).Promoted; after != before {
			h.fail("1.1.0 was active in between: promoted %d, before %d", after, before)
		}
	}},
	{"rule 16: a pin to a retained version that the registry no longer contains has no effect", func(h tale) {
		h.live()
		h.push("1.1.0")
		h.run(time.Hour)
		h.withdraw("1.0.0", Gone)
		h.pin(Pin{Group: "1.x", Version: "1.0.0"})
		h.run(time.Hour)
		h.want("pinned", map[string]string{"1.1.0": "active 100"})
		h.state("pinned", "PinnedVersionMissing", true)
	}},
	{"a missing active version is replaced by a pin while the template has no configuration", func(h tale) {
		h.edit("more are retained", func(s *Spec) { s.MinimumAvailable = 4 })
		h.live()
		for _, v := range []string{"1.1.0", "1.2.0"} {
			h.push(v)
			h.run(time.Hour)
		}
		h.configure("")
		h.withdraw("1.2.0", Gone)
		h.run(time.Hour)
		h.want("gone", map[string]string{"1.1.0": "active 100", "1.2.0": "deprecated 0"})
	}},
	{"a missing active version is replaced by the offered version, not by a version that is only retained", func(h tale) {
		h.edit("more are retained", func(s *Spec) { s.MinimumAvailable = 4 })
		h.live()
		for _, v := range []string{"1.1.0", "1.2.0"} {
			h.push(v)
			h.run(time.Hour)
		}
		h.drop("1.1.0")
		h.withdraw("1.2.0", Gone)
		h.run(time.Hour)
		h.want("gone", map[string]string{"1.0.0": "active 100", "1.1.0": "deprecated 0", "1.2.0": "deprecated 0"})
	}},
	{"an event shows that a group is offered again", func(h tale) {
		h.live()
		h.push("2.0.0")
		h.run(time.Minute)
		h.nets["web"].stuck = true
		h.withdrawGroup("1-x", Closed)
		h.run(time.Minute)
		h.events("while it closes", GroupReopened, "")
		h.offerGroup("1-x", "1.0.0")
		h.events("offered again", GroupReopened, "group 1.x is offered again")
		h.nets["web"].stuck = false
		h.run(time.Hour)
		h.want("offered again", map[string]string{"1.0.0": "active 100", "2.0.0": "active 100"})
	}},
	{"rule 21: a release that a user retries while nothing starts has the reason Retried", func(h tale) {
		h.live()
		h.steps(twoSteps...)
		h.push("1.1.0")
		h.run(time.Second)
		h.decideOn("1.1.0", Deprecate, "")
		h.run(time.Minute)
		h.edit("pause", func(s *Spec) { s.Paused = true })
		h.decideOn("1.1.0", Retry, "")
		h.retries("decided", "1.1.0", Retried)
	}},
}

func init() { histories = append(histories, survivors...) }

// events checks that the next plan contains an event with the given reason and message. An empty message means that there is no such
// event.
func (h tale) events(when string, reason Reason, message string) {
	o, _, _ := h.observe(lags{})
	var played []string
	_, p := h.make(o)
	for _, n := range p.Notes {
		if n.Reason == reason && n.Event {
			played = append(played, n.Message)
		}
	}
	if got := strings.Join(played, "; "); got != message {
		h.fail("%s: the events %s are %q, want %q", when, reason, got, message)
	}
}

// retries checks that the next plan starts a version again, for the given reason.
func (h tale) retries(when, version string, want Reason) {
	o, _, _ := h.observe(lags{})
	_, p := h.make(o)
	for _, g := range p.State.Groups {
		for _, r := range g.Releases {
			if r.Version == version && (r.Status != Pending || r.Reason != want) {
				h.fail("%s: %s is %s (%s), want %s (%s)", when, version, r.Status, r.Reason, Pending, want)
			}
		}
	}
}
