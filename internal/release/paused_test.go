package release

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// TestPausedFirstReleaseIsReported checks that a rollout that is stopped by spec.paused reports why it is
// waiting.
func TestPausedFirstReleaseIsReported(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for _, level := range []string{"Release", "Preview"} {
		o := Observed{
			Spec:   Spec{Replicas: 2, MinimumAvailable: 2, Deadline: 10 * time.Minute, Drain: 5 * time.Second, Previews: Previews{MaxGroups: 5}},
			Config: "c1", PullRequests: level == "Preview",
			Candidates: []Candidate{{Slug: "1-x", Name: "1.x", Level: level, Version: "1.0.0", Release: "shop-1-0-0"}},
		}
		p := Plan(o, now)
		o.State = p.State
		o.Objects = []Object{{Release: "shop-1-0-0", Slug: "1-x", Name: "1.x", Level: level, Version: "1.0.0", Config: "c1", Created: now, Stamp: 1, Replicas: 2, Available: 2}}
		o.Spec.Paused = true
		for _, later := range []time.Duration{time.Minute, time.Hour} {
			p = Plan(o, now.Add(later))
			o.State = p.State
			found := false
			for _, n := range p.Notes {
				found = found || n.Reason == Paused && !n.Event
			}
			if g := p.State.Groups[0]; g.Rollout == nil || g.ActiveRow() != nil {
				t.Fatalf("%s: the rollout is not paused: %+v", level, g)
			}
			if !found {
				t.Errorf("%s: %s after the release was ready, nothing shows that the rollout waits for spec.paused: notes %+v, requeue %v", level, later, p.Notes, p.RequeueTime)
			}
		}
	}
}

// TestPausedReturnIsReported checks that the rollback to a previously active release after the end of a pin waits while spec.paused is
// set or a freeze is active, reports this wait, and then completes. The wait does not count against the deadline.
func TestPausedReturnIsReported(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		reason  Reason
		message string
		stop    func(*Spec)
	}{
		"paused":   {Paused, "the rollback to 1.1.0 is waiting: spec.paused is true", func(s *Spec) { s.Paused = true }},
		"a freeze": {Frozen, "1.1.0 is waiting at 0%: ", func(s *Spec) { s.Freeze = &Freeze{Name: "weekend"} }},
	} {
		t.Run(name, func(t *testing.T) {
			o := unpinned(now)
			p := Plan(o, now)
			if run := p.State.Groups[0].Rollout; run == nil || run.Release != "shop-1-1-0" {
				t.Fatalf("no rollback to 1.1.0 is in progress: %+v", p.State.Groups[0])
			}
			o.State = p.State
			for i := range o.Objects {
				o.Objects[i].Replicas, o.Objects[i].Available = 2, 2
			}
			going := o.Spec
			tc.stop(&o.Spec)
			p = Plan(o, now.Add(time.Minute))
			o.State = p.State
			if a := p.State.Groups[0].ActiveRow(); a == nil || a.Version != "1.0.0" {
				t.Errorf("while the rollback is stopped: active release %+v", a)
			}
			if !slices.ContainsFunc(p.Notes, func(n Note) bool { return !n.Event && n.Reason == tc.reason && strings.Contains(n.Message, tc.message) }) {
				t.Errorf("message %q is missing: %+v", tc.message, p.Notes)
			}
			o.Objects[1].Available = 1 // A pod restarts.
			p = Plan(o, now.Add(time.Hour))
			o.State = p.State
			if r := p.State.Groups[0].Row("shop-1-1-0"); r.Status != Deprecated {
				t.Errorf("after an hour, when a pod restarts, 1.1.0 is %s (%s)", r.Status, r.Reason)
			}
			o.Objects[1].Available = 2
			o.Spec = going
			p = Plan(o, now.Add(time.Hour+time.Minute))
			if a := p.State.Groups[0].ActiveRow(); a == nil || a.Version != "1.1.0" {
				t.Errorf("after the stop: active release %+v", a)
			}
		})
	}
}

// unpinned returns a group after the end of a pin. 1.0.0 is active because of the pin, and 1.1.0, which was previously active, still
// has one pod.
func unpinned(now time.Time) Observed {
	candidate := func(version, name string) Candidate {
		return Candidate{Slug: "1-x", Name: "1.x", Level: "Release", Version: version, Release: name}
	}
	object := func(version, name string, pods int) Object {
		return Object{Release: name, Slug: "1-x", Name: "1.x", Level: "Release", Version: version, Config: "c1", Created: now, Stamp: 1, Replicas: pods, Available: pods}
	}
	o := Observed{
		Spec:       Spec{Replicas: 2, MinimumAvailable: 2, Deadline: 10 * time.Minute, Drain: 5 * time.Second},
		Config:     "c1",
		Candidates: []Candidate{candidate("1.0.0", "shop-1-0-0")},
	}
	at := now.Add(-time.Hour)
	next := func() { o.State, at = Plan(o, at).State, at.Add(time.Minute) }
	next()
	o.Objects = []Object{object("1.0.0", "shop-1-0-0", 2)}
	next()
	o.Candidates = append(o.Candidates, candidate("1.1.0", "shop-1-1-0"))
	next()
	o.Objects = append(o.Objects, object("1.1.0", "shop-1-1-0", 2))
	next()
	o.Spec.Pins = []Pin{{Group: "1.x", Version: "1.0.0"}}
	next()
	next()
	o.Spec.Pins = nil
	o.Objects[1].Replicas, o.Objects[1].Available = 1, 1
	return o
}
