package release

import (
	"testing"
	"time"
)

// unreported contains histories of policies that were created again or lost their status, and that have not yet reported
// where their domains route.
var unreported = []scene{
	{"a first release does not skip its steps when a policy is created again while the release starts", func(h tale) {
		h.policy("web").newest = true
		h.push("1.0.0")
		h.run(time.Minute)
		h.steps(Step{Weight: 10, Pause: time.Hour}, Step{Weight: 50, Pause: time.Hour})
		h.startup = 5 * time.Second
		h.push("2.0.0")
		plan := func() {
			l := h.leaders[0]
			h.plan(l, lags{})
			for h.perform(l) {
			}
		}
		plan()
		h.advance(6 * time.Second)
		for _, name := range h.names() {
			h.pods(h.objects[name])
			h.report(h.objects[name])
		}
		h.remake(h.nets["web"])
		plan()
		h.run(time.Minute)
		h.want("the canary has 10%", map[string]string{"1.0.0": "active 100", "2.0.0": "canary 10"})
	}},
	{"a canary of the newest domains does not skip its steps while the policy that was created again has no routes yet", func(h tale) {
		h.policy("web").newest = true
		h.push("1.0.0")
		h.run(time.Minute)
		h.steps(Step{Weight: 10, Pause: 5 * time.Hour}, Step{Weight: 50, Pause: 5 * time.Hour})
		h.push("2.0.0")
		h.run(time.Minute)
		h.want("before", map[string]string{"1.0.0": "active 100", "2.0.0": "canary 10"})
		h.remake(h.nets["web"])
		plan := func() {
			l := h.leaders[0]
			h.plan(l, lags{})
			for h.perform(l) {
			}
		}
		plan()
		n := h.nets["web"]
		h.read(n, 0)
		h.write(n) // The policy only reports what it is about to write.
		plan()
		h.want("after its first status", map[string]string{"1.0.0": "active 100", "2.0.0": "canary 10"})
		h.run(time.Minute)
		h.want("with its routes", map[string]string{"1.0.0": "active 100", "2.0.0": "canary 10"})
	}},
	{"a group that is waiting to end keeps serving while its policy is created again", func(h tale) {
		h.policy("web").newest = true
		h.push("1.0.0")
		h.run(time.Minute)
		h.broken["2.0.0"] = "ImagePullBackOff"
		h.push("2.0.0")
		h.edit("end 1.x", func(s *Spec) { s.Ended = []string{"1.x"} })
		h.run(time.Hour)
		h.want("1.x waits", map[string]string{"1.0.0": "active 100", "2.0.0": "pending 0"})
		h.state("1.x waits", GroupExcluded, true)
		h.remake(h.nets["web"])
		h.run(time.Hour)
		h.want("the policy exists again", map[string]string{"1.0.0": "active 100"})
	}},
	{"a group that is waiting to end keeps serving while the status of its policy is lost", func(h tale) {
		h.policy("web").newest = true
		h.push("1.0.0")
		h.run(time.Minute)
		h.broken["2.0.0"] = "ImagePullBackOff"
		h.push("2.0.0")
		h.edit("end 1.x", func(s *Spec) { s.Ended = []string{"1.x"} })
		h.run(time.Hour)
		n := h.nets["web"]
		n.reports, n.answered, n.pass = map[string]Report{}, false, nil
		h.run(time.Hour)
		h.want("the policy has a status again", map[string]string{"1.0.0": "active 100"})
	}},
	{"a newer version is reported as waiting after a blocked rollout: spec.paused", func(h tale) {
		h.live()
		h.broken["1.1.0"] = "ImagePullBackOff"
		h.push("1.1.0")
		h.run(time.Hour)
		h.edit("pause", func(s *Spec) { s.Paused = true })
		h.push("1.2.0")
		h.run(time.Minute)
		h.state("1.2.0 waits", Paused, true)
	}},
	{"a newer version is reported as waiting after a blocked rollout: a freeze", func(h tale) {
		h.live()
		h.broken["1.1.0"] = "ImagePullBackOff"
		h.push("1.1.0")
		h.run(time.Hour)
		h.freeze(20 * time.Minute)
		h.push("1.2.0")
		h.run(time.Minute)
		h.state("1.2.0 waits", Frozen, true)
		h.run(48 * time.Hour)
		h.want("two days later", map[string]string{"1.2.0": "active 100"})
	}},
	{"an expired preview that is pinned to a missing commit reports the pin rather than a missing slot", func(h tale) {
		h.pulls = true
		h.policy("web")
		h.edit("age", func(s *Spec) { s.Previews.MaxAge = time.Hour })
		h.push("pr-7-a")
		h.run(time.Minute)
		h.pin(Pin{Field: "spec.updateStrategy.manual.groups[0]", Group: "7", Version: "pr-7-a"})
		h.run(2 * time.Hour)
		h.push("pr-7-b")
		h.run(30 * time.Minute)
		h.phase("it waits for its pin", "pr-7", "Expired PinnedVersionMissing")
		h.state("it waits for its pin", PinnedVersionMissing, true)
		h.pin()
		h.run(5 * time.Minute)
		h.want("without the pin", map[string]string{"pr-7-b": "active 100"})
	}},
	{"a preview whose only commit is denied reports that no version may start, rather than that a slot is missing", func(h tale) {
		h.pulls = true
		h.policy("web")
		h.edit("one slot", func(s *Spec) { s.Previews.MaxGroups = 1 })
		h.push("pr-6-a")
		h.run(time.Minute)
		h.push("pr-7-a")
		h.run(time.Minute)
		h.phase("it waits for a slot", "pr-7", "Expired NoSlot")
		h.withdraw("pr-7-a", Denied)
		h.run(time.Hour)
		h.phase("denied", "pr-7", "Expired NothingToStart")
		h.edit("two slots", func(s *Spec) { s.Previews.MaxGroups = 2 })
		h.push("pr-7-b")
		h.run(time.Hour)
		h.want("another commit", map[string]string{"pr-7-b": "active 100"})
	}},
}

func init() { histories = append(histories, unreported...) }

// newerGroup returns a state in which 2.0.0, which has pods, is the first release of a group that starts while 1.x is active.
func newerGroup(policy Policy) Observed {
	group := func(slug, name string, r Row) Group {
		return Group{Slug: slug, Name: name, Level: "Release", Phase: Live, TrafficRevision: 3, TrafficTime: t0, Target: Target{Release: r.Release, Reason: Latest}, Releases: []Row{r}}
	}
	spec := Spec{Replicas: 2, Deadline: 10 * time.Minute, Drain: 30 * time.Second, MinimumAvailable: 2, Steps: []Step{{Weight: 20, Pause: time.Minute}, {Weight: 50, Pause: time.Minute}}}
	older := group("1-x", "1.x", Row{Release: "one", Version: "1.4.0", Config: "c1", Status: Active, Reason: First, Weight: 100, Promoted: 1, Routed: true, Available: true, Since: t0})
	newer := group("2-x", "2.x", Row{Release: "two", Version: "2.0.0", Config: "c1", Status: Pending, Reason: Started, Since: t0})
	newer.TrafficRevision = 0
	newer.Rollout = &Rollout{Release: "two", Sequence: 4, Started: t0, StepsHash: stepsHash(spec.Steps), From: "1-x"}
	object := func(name, slug, group, version string) Object {
		return Object{Release: name, Slug: slug, Name: group, Level: "Release", Version: version, Config: "c1", Created: t0, Stamp: 1, Replicas: 2, Available: 2, Current: 2}
	}
	return Observed{
		Config: "c1", Spec: spec, State: State{Sequence: 4, Groups: []Group{newer, older}},
		Objects:    []Object{object("one", "1-x", "1.x", "1.4.0"), object("two", "2-x", "2.x", "2.0.0")},
		Candidates: []Candidate{{Slug: "1-x", Name: "1.x", Level: "Release", Version: "1.4.0", Release: "one"}, {Slug: "2-x", Name: "2.x", Level: "Release", Version: "2.0.0", Release: "two"}},
		Policies:   []Policy{policy},
	}
}

// TestUnreportedPolicyMayHaveNewestDomains checks that a policy without a report is treated like a policy whose newest domains route to the
// older group. The policy is treated in this way until it reports, or until the deadline.
func TestUnreportedPolicyMayHaveNewestDomains(t *testing.T) {
	t.Parallel()
	reported := Policy{Name: "web", Groups: []Report{{Slug: "1-x", Revision: 3, Confirmed: t0, References: []string{"one"}, Active: "one", Newest: true}}}
	for name, policy := range map[string]Policy{"reported": reported, "not reported": {Name: "web", Unreported: true}} {
		p := Plan(newerGroup(policy), t0.Add(time.Second))
		if r := p.State.group("2-x").Row("two"); r.Status == Active {
			t.Errorf("%s: 2.0.0 is active without its steps", name)
		}
		o := newerGroup(policy)
		o.Spec.Ended, o.Objects[1].Available, o.Objects[1].Failure = []string{"1.x"}, 0, "CrashLoopBackOff"
		p = Plan(o, t0.Add(time.Second))
		if g := p.State.group("1-x"); g.Phase != Live {
			t.Errorf("%s: 1.x is %s, although no newer group serves", name, g.Phase)
		}
	}
	p := Plan(newerGroup(Policy{Name: "web", Unreported: true}), t0.Add(11*time.Minute))
	if r := p.State.group("2-x").Row("two"); r.Status != Active {
		t.Errorf("2.0.0 is %s, although the policy has not reported within the deadline", r.Status)
	}
}
