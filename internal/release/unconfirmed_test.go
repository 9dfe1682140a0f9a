package release

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// TestDrainOfACanaryDomain covers a canary domain whose route refers to a release of a group without an active release. The
// policy therefore never confirms the group. When the release fails, its pods stay until the last reference is removed and the
// subsequent drain is over.
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
		t.Fatal("the plan removes the pods while a route refers to the release")
	}
	if z := o.State.Groups[0].Releases[0].Zero; z == nil || !z.Named {
		t.Fatalf("the reference from a route is not recorded: %+v", z)
	}
	o.Policies[0].Groups[0].References = nil
	if stops(t0.Add(time.Minute)) {
		t.Error("the plan removes the pods as soon as no route refers to the release, want after the drain")
	}
	if stops(t0.Add(time.Minute + 29*time.Second)) {
		t.Error("the plan removes the pods before the end of the drain")
	}
	if !stops(t0.Add(time.Minute + 30*time.Second)) {
		t.Error("the release has pods after the drain")
	}
}

// TestPolicyWithoutStatus covers a policy without a status. It is not known to which releases the objects of the policy refer, so all pods stay,
// whether or not their release has a row. Nothing else waits for the status.
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
		t.Fatalf("pods are removed before all policies report: %+v", p.Retire)
	}
	if !slices.ContainsFunc(p.Notes, func(n Note) bool {
		return n.Reason == TrafficUnconfirmed && strings.Contains(n.Message, `networkpolicies.hlnr.io "web": it has not confirmed the latest traffic change`)
	}) {
		t.Errorf("the wait is not reported: %+v", p.Notes)
	}
	o.Policies[0] = Policy{Name: "web", Groups: []Report{{Slug: "1-x", Revision: 3, Confirmed: at, References: []string{"one-1.1.0"}, Active: "one-1.1.0"}}}
	gone := func(after time.Duration) map[string]bool {
		o.State = p.State
		p = Plan(o, t0.Add(after))
		out := map[string]bool{}
		for _, r := range p.Retire {
			out[r.Release] = true
		}
		return out
	}
	if at := gone(time.Minute); at["one-1.2.0"] || at["one-1.1.0"] {
		t.Errorf("pods of %v are removed, although the policy may have routed to them a moment before", at)
	}
	if at := gone(time.Minute + 30*time.Second); !at["one-1.2.0"] || !at["one-1.0.0"] || at["one-1.1.0"] {
		t.Errorf("after the drain, the plan removes the pods of %v", at)
	}
}

// TestCanaryOfPolicyMadeAgain covers a first release that gets a share of the newest domains' traffic. The policy of these domains
// was deleted and created again. Until the policy has a status, the domains might still be moving, so the steps continue.
func TestCanaryOfPolicyMadeAgain(t *testing.T) {
	t.Parallel()
	group := func(slug, name string, r Row) Group {
		return Group{Slug: slug, Name: name, Level: "Release", Phase: Live, TrafficRevision: 3, TrafficTime: t0, Target: Target{Release: r.Release, Reason: Latest}, Releases: []Row{r}}
	}
	spec := Spec{Replicas: 2, Deadline: 10 * time.Minute, Steps: []Step{{Weight: 20, Pause: time.Minute}, {Weight: 50, Pause: time.Minute}}}
	older := group("1-x", "1.x", Row{Release: "one", Version: "1.4.0", Config: "c1", Status: Active, Reason: First, Weight: 100, Promoted: 1, Routed: true, Available: true, Since: t0})
	newer := group("2-x", "2.x", Row{Release: "two", Version: "2.0.0", Config: "c1", Status: Canary, Reason: StepBegan, Weight: 20, Routed: true, Available: true, Since: t0})
	newer.Rollout = &Rollout{Release: "two", Sequence: 2, Started: t0, Step: 1, StepRevision: 3, StepsHash: stepsHash(spec.Steps)}
	object := func(name, slug, group, version string, pods int) Object {
		return Object{Release: name, Slug: slug, Name: group, Level: "Release", Version: version, Config: "c1", Created: t0, Stamp: 1, Replicas: pods, Available: pods, Current: pods}
	}
	o := Observed{
		Config: "c1", Spec: spec, State: State{Sequence: 4, Groups: []Group{newer, older}},
		Objects:    []Object{object("one", "1-x", "1.x", "1.4.0", 4), object("two", "2-x", "2.x", "2.0.0", 2)},
		Candidates: []Candidate{{Slug: "1-x", Name: "1.x", Level: "Release", Version: "1.4.0", Release: "one"}, {Slug: "2-x", Name: "2.x", Level: "Release", Version: "2.0.0", Release: "two"}},
		Policies:   []Policy{{Name: "web", Unreported: true}},
	}
	status := func() Status {
		p, g := Plan(o, t0.Add(time.Second)), o.State.Groups[0]
		for _, x := range p.State.Groups {
			if p.Changed && x.Slug == "2-x" {
				g = x
			}
		}
		return g.Row("two").Status
	}
	if got := status(); got != Canary {
		t.Errorf("the release is %q while the policy has no status", got)
	}
	o.Policies[0] = Policy{Name: "web", Groups: []Report{{Slug: "2-x", Revision: 3, Confirmed: t0, References: []string{"two"}, Active: "two"}}}
	if got := status(); got != Active {
		t.Errorf("the release is %q with a policy without newest domains", got)
	}
}

// TestRebuiltGroupCloses covers a lost rollout state. The plan that recovers it also promotes a retained release
// and closes the group. A route might refer to that release, so it keeps its pods until the drain is over.
func TestRebuiltGroupCloses(t *testing.T) {
	t.Parallel()
	object := func(name string, stamp int64, reported Status, made time.Time) Object {
		return Object{Release: name, Slug: "pr-8", Name: "feature", Level: preview, Version: name, PullRequest: 8, Config: "c1", Created: made, Stamp: stamp, Replicas: 2, Available: 2, Current: 2, Reported: reported}
	}
	o := Observed{
		Config:     "c1",
		Spec:       Spec{Replicas: 2, Deadline: 10 * time.Minute, Drain: time.Minute},
		Objects:    []Object{object("a", 1, Deprecated, t0.Add(-2*time.Hour)), object("b", 2, Active, t0.Add(-time.Hour))},
		Candidates: []Candidate{{Slug: "pr-8", Name: "feature", Level: preview, Version: "a", PullRequest: 8, Release: "a"}},
		Withdrawn:  []Withdrawal{{Slug: "pr-8", Reason: Excluded, Time: t0}},
		Policies:   []Policy{{Name: "web"}},
	}
	p := Plan(o, t0)
	if len(p.State.Groups) != 1 || p.State.Groups[0].Phase != Closing || p.State.Groups[0].Row("a") == nil || p.State.Groups[0].Row("b") == nil {
		t.Errorf("the group does not drain both releases: %+v", p.State.Groups)
	}
	o.State = p.State
	if p = Plan(o, t0.Add(time.Second)); len(p.Retire) > 0 {
		t.Errorf("pods are removed before the end of the drain: %+v", p.Retire)
	}
}

// TestObjectWithoutARowReportsItsWait checks that the wait is reported if an object without a row stays because a policy has no status.
func TestObjectWithoutARowReportsItsWait(t *testing.T) {
	t.Parallel()
	at := t0.Add(-24 * time.Hour)
	object := func(name, version string) Object {
		return Object{Release: name, Slug: "1-x", Name: "1.x", Level: "Release", Version: version, Config: "c1", Created: at, Stamp: 1, Replicas: 1, Available: 1, Current: 1}
	}
	o := Observed{
		Config: "c1",
		Spec:   Spec{Replicas: 1, Deadline: 10 * time.Minute, Drain: 30 * time.Second},
		State: State{Sequence: 4, Groups: []Group{{
			Slug: "1-x", Name: "1.x", Level: "Release", Phase: Live, TrafficRevision: 3, TrafficTime: at, SettledRevision: 3,
			Releases: []Row{{Release: "one-1.1.0", Version: "1.1.0", Config: "c1", Status: Active, Reason: First, Weight: 100, Promoted: 1, Routed: true, Available: true, Since: at}},
		}}},
		Objects:  []Object{object("one-1.1.0", "1.1.0"), object("one-1.0.0", "1.0.0")},
		Policies: []Policy{{Name: "api", Groups: []Report{{Slug: "1-x", Revision: 3, Confirmed: at, References: []string{"one-1.1.0"}, Active: "one-1.1.0"}}}, {Name: "web", Unreported: true}},
	}
	p := Plan(o, t0)
	for _, n := range p.Notes {
		if n.Reason == TrafficUnconfirmed {
			return
		}
	}
	t.Errorf("one-1.0.0 is kept without a reported reason: retire %v, notes %+v", p.Retire, p.Notes)
}

// TestUndoneDuringAResize covers a user who undoes the end of a group while spec.paused is true, and while the controller of the last active
// release has not reported the new generation of its object. The release has pods, and keeps serving.
func TestUndoneDuringAResize(t *testing.T) {
	t.Parallel()
	at := t0.Add(-time.Hour)
	o := Observed{
		Config: "c1",
		Spec:   Spec{Replicas: 2, Deadline: 10 * time.Minute, Drain: time.Minute, Paused: true},
		State: State{Sequence: 4, Groups: []Group{{
			Slug: "1-x", Name: "1.x", Level: "Release", Phase: Closing, TrafficRevision: 4, TrafficTime: t0,
			Releases: []Row{{Release: "one", Version: "1.0.0", Config: "c1", Status: Deprecated, Reason: GroupEnded, Promoted: 1, Routed: true, Since: t0, Zero: &Zero{Revision: 4, Time: t0}}},
		}}},
		Objects:    []Object{{Release: "one", Slug: "1-x", Name: "1.x", Level: "Release", Version: "1.0.0", Config: "c1", Created: at, Stamp: 1, Replicas: 2, Available: 2, Current: 2, Unsettled: true}},
		Candidates: []Candidate{{Slug: "1-x", Name: "1.x", Level: "Release", Version: "1.0.0", Release: "one"}},
		Policies:   []Policy{{Name: "web", Groups: []Report{{Slug: "1-x", Revision: 4, Confirmed: t0}}}},
	}
	for range 2 {
		p := Plan(o, t0.Add(10*time.Second))
		o.State = p.State
		o.Objects[0].Unsettled = false // The controller reports.
	}
	if a := o.State.Groups[0].ActiveRow(); a == nil {
		t.Errorf("no release is active, although two pods are available:\n%s", renderGroup(&o.State.Groups[0]))
	}
}
