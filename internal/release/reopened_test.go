package release

import (
	"testing"
	"time"
)

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

// TestEndedGroupWithRoutes: a group that ends, and whose last object a user deletes, is not gone before a policy has deleted its routes:
// they would stay, as routes of a group that is not known.
func TestEndedGroupWithRoutes(t *testing.T) {
	t.Parallel()
	at := t0.Add(-time.Hour)
	o := Observed{
		Config:   "c1",
		Spec:     Spec{Replicas: 1, Deadline: 10 * time.Minute, Drain: 30 * time.Second, Ended: []string{"1.x"}},
		State:    State{Sequence: 4, Groups: []Group{{Slug: "1-x", Name: "1.x", Level: "Release", Phase: Closing, TrafficRevision: 3, TrafficTime: at}}},
		Policies: []Policy{{Name: "web", Groups: []Report{{Slug: "1-x", Revision: 2, Confirmed: at, References: []string{"one-1.1.0"}, Active: "one-1.1.0"}}}},
	}
	if p := Plan(o, t0); p.Changed && len(p.State.Groups) == 0 {
		t.Error("the group is gone while a policy has routes to it")
	}
	o.Policies[0].Groups[0] = Report{Slug: "1-x", Revision: 3, Confirmed: t0}
	if p := Plan(o, t0.Add(time.Minute)); len(p.State.Groups) > 0 {
		t.Errorf("without routes there is still %+v", p.State.Groups)
	}
}
