package release

import (
	"testing"
	"time"
)

// reopened contains histories of groups that a user ends by mistake and reopens before they are removed.
var reopened = []scene{
	{"a release that failed its analysis is not tried again when its group is ended and reopened", func(h tale) {
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
	{"a release that a user deprecated gets no traffic when its group is ended and reopened", func(h tale) {
		h.live()
		h.steps(Step{Weight: 10, Pause: time.Hour})
		h.push("1.1.0")
		h.run(time.Minute)
		h.decideOn("1.1.0", Deprecate, "")
		h.run(time.Minute)
		h.want("deprecated", map[string]string{"1.0.0": "active 100", "1.1.0": "error 0"})
		h.edit("end 1.x by mistake", func(s *Spec) { s.Ended = []string{"1.x"} })
		h.run(time.Second)
		h.edit("undo", func(s *Spec) { s.Ended = nil })
		h.run(30 * time.Second)
		h.want("undone", map[string]string{"1.0.0": "active 100", "1.1.0": "error 0"})
	}},
	{"a broken release without steps does not become active when its group is ended and reopened", func(h tale) {
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
	{"a canary of a group that is ended and reopened does not become active without its steps", func(h tale) {
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
	{"a group is ended and reopened while paused", func(h tale) {
		h.live()
		h.steps(Step{Weight: 10, Pause: time.Hour})
		h.edit("pause", func(s *Spec) { s.Paused = true })
		h.edit("end 1.x by mistake", func(s *Spec) { s.Ended = []string{"1.x"} })
		h.run(time.Second)
		h.edit("undo", func(s *Spec) { s.Ended = nil })
		h.run(time.Minute)
		h.want("undone", map[string]string{"1.0.0": "active 100"})
	}},
	{"a group is reopened during a freeze after its routes were removed", func(h tale) {
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

// TestReopenedWithoutPodsOfTheActiveRelease covers a group that is reopened while its last active release has no available pod and no
// route refers to that release. The last active release that can serve becomes active until the other release is available.
func TestReopenedWithoutPodsOfTheActiveRelease(t *testing.T) {
	t.Parallel()
	for _, level := range []string{"Release", "Preview"} {
		out := func(name, version string, promoted int64) Row {
			return Row{Release: name, Version: version, Config: "c1", Status: Deprecated, Reason: GroupEnded, Promoted: promoted, Routed: true, Since: t0, Zero: &Zero{Revision: 5, Time: t0}}
		}
		object := func(name, version string, available int) Object {
			return Object{Release: name, Slug: "1-x", Name: "1.x", Level: level, Version: version, Config: "c1", Created: t0, Stamp: 1, Replicas: 2, Available: available, Current: available}
		}
		o := Observed{
			Config: "c1", PullRequests: level == "Preview",
			Spec: Spec{Replicas: 2, MinimumAvailable: 2, Deadline: 10 * time.Minute, Drain: 30 * time.Second, Previews: Previews{MaxGroups: 5}},
			State: State{Sequence: 5, Groups: []Group{{
				Slug: "1-x", Name: "1.x", Level: level, Phase: Closing, TrafficRevision: 5, TrafficTime: t0,
				Releases: []Row{out("one", "1.0.0", 1), out("two", "1.1.0", 2)},
			}}},
			Objects:    []Object{object("one", "1.0.0", 2), object("two", "1.1.0", 0)},
			Candidates: []Candidate{{Slug: "1-x", Name: "1.x", Level: level, Version: "1.1.0", Release: "two"}},
		}
		p := Plan(o, t0.Add(time.Second))
		if a := p.State.Groups[0].ActiveRow(); a == nil || a.Release != "one" {
			t.Fatalf("%s: the active release is %+v, although only 1.0.0 has pods: %+v", level, a, p.State.Groups[0])
		}
		o.State, o.Objects[1].Available = p.State, 2
		p = Plan(o, t0.Add(time.Minute))
		if a := p.State.Groups[0].ActiveRow(); a == nil || a.Release != "two" {
			t.Errorf("%s: active release %+v, although 1.1.0 is available again", level, a)
		}
	}
}
