package release

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// TestDrainOfACanaryDomain: the route of a canary domain may name a release of a group that has no active release, and that its
// policy therefore never confirms. When it fails, its pods stay until no route names it, and a drain longer.
func TestDrainOfACanaryDomain(t *testing.T) {
	t.Parallel()
	at, name := t0.Add(-time.Hour), "two-2.0.0"
	o := Observed{
		Config: "c1",
		Spec:   Spec{Replicas: 1, Deadline: 10 * time.Minute, Drain: 30 * time.Second, Steps: twoSteps},
		State: State{Sequence: 3, Groups: []Group{{
			Slug: "2-x", Name: "2.x", Level: "Release", Phase: Live,
			Releases: []Row{{Release: name, Version: "2.0.0", Config: "c1", Status: Error, Reason: "ProgressDeadlineExceeded", Routed: true, Since: at, Zero: &Zero{Time: at}}},
		}}},
		Objects:  []Object{{Release: name, Slug: "2-x", Name: "2.x", Level: "Release", Version: "2.0.0", Config: "c1", Created: at, Stamp: 1, Replicas: 1, Available: 1, Current: 1}},
		Policies: []Policy{{Name: "web", Groups: []Report{{Slug: "2-x", References: []string{name}, CanaryDomains: true}}}},
	}
	stops := func(now time.Time) bool {
		p := Plan(o, now)
		if p.Changed {
			o.State = p.State
		}
		return slices.ContainsFunc(p.Retire, func(r Retire) bool { return r.Release == name })
	}
	if stops(t0) {
		t.Fatal("its pods are to stop while a route names it")
	}
	if z := o.State.Groups[0].Releases[0].Zero; z == nil || !z.Named {
		t.Fatalf("that a route names it is not recorded: %+v", z)
	}
	o.Policies[0].Groups[0].References = nil
	if stops(t0.Add(time.Minute)) {
		t.Error("its pods are to stop in the moment in which no route names it any more")
	}
	if stops(t0.Add(time.Minute + 29*time.Second)) {
		t.Error("its pods are to stop before the drain is over")
	}
	if !stops(t0.Add(time.Minute + 30*time.Second)) {
		t.Error("its pods stay after the drain")
	}
}

// TestPolicyWithoutStatus: what the objects of a policy name is not known before it has a status, so pods stay, whether their release has
// a row or not. Nothing else waits for it.
func TestPolicyWithoutStatus(t *testing.T) {
	t.Parallel()
	at := t0.Add(-time.Hour)
	object := func(name, version string) Object {
		return Object{Release: name, Slug: "1-x", Name: "1.x", Level: "Release", Version: version, Config: "c1", Created: at, Stamp: 1, Replicas: 1, Available: 1, Current: 1}
	}
	o := Observed{
		Config: "c1",
		Spec:   Spec{Replicas: 1, Deadline: 10 * time.Minute, Drain: 30 * time.Second},
		State: State{Sequence: 4, Groups: []Group{{
			Slug: "1-x", Name: "1.x", Level: "Release", Phase: Live, TrafficRevision: 3, TrafficTime: at,
			Releases: []Row{
				{Release: "one-1.1.0", Version: "1.1.0", Config: "c1", Status: Active, Reason: First, Weight: 100, Promoted: 1, Routed: true, Available: true, Since: at},
				{Release: "one-1.2.0", Version: "1.2.0", Config: "c1", Status: Error, Reason: "ProgressDeadlineExceeded", Routed: true, Since: at, Zero: &Zero{Revision: 3, Time: at}},
			},
		}}},
		Objects:  []Object{object("one-1.1.0", "1.1.0"), object("one-1.2.0", "1.2.0"), object("one-1.0.0", "1.0.0")},
		Policies: []Policy{{Name: "web", Unreported: true}},
	}
	p := Plan(o, t0)
	if len(p.Retire) > 0 {
		t.Fatalf("pods go while it is not known what routes to them: %+v", p.Retire)
	}
	if !slices.ContainsFunc(p.Notes, func(n Note) bool {
		return n.Reason == TrafficUnconfirmed && strings.Contains(n.Message, `networkpolicies.hlnr.io "web": has not confirmed`)
	}) {
		t.Errorf("what it waits for is not reported: %+v", p.Notes)
	}
	o.Policies[0] = Policy{Name: "web", Groups: []Report{{Slug: "1-x", Revision: 3, Confirmed: at, References: []string{"one-1.1.0"}, Active: "one-1.1.0"}}}
	if p.Changed {
		o.State = p.State
	}
	gone := map[string]bool{}
	for _, r := range Plan(o, t0.Add(time.Minute)).Retire {
		gone[r.Release] = true
	}
	if !gone["one-1.2.0"] || !gone["one-1.0.0"] || gone["one-1.1.0"] {
		t.Errorf("with a status, pods go of %v", gone)
	}
}
