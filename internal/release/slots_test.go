package release

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// TestPreviewResumesWithItsSlot checks that a preview that gets its slot back while it is draining keeps serving its last release, and that its head
// commit also starts.
func TestPreviewResumesWithItsSlot(t *testing.T) {
	t.Parallel()
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	a, b := "0123456789abcdef0123456789abcdef01234567", "89abcdef0123456789abcdef0123456789abcdef"
	o := Observed{
		Spec:         Spec{Replicas: 2, MinimumAvailable: 1, Deadline: 10 * time.Minute, Drain: 30 * time.Second, Previews: Previews{MaxGroups: 1}},
		Config:       "c1",
		PullRequests: true,
		Candidates:   []Candidate{{Slug: "pr-7", Name: "pr-7", Level: preview, PullRequest: 7, Version: b, Release: "b", Time: now}},
		Objects:      []Object{{Release: "a", Slug: "pr-7", Name: "pr-7", Level: preview, PullRequest: 7, Version: a, Config: "c1", Stamp: 1, Created: now.Add(-time.Hour), Replicas: 2, Available: 2}},
		Policies:     []Policy{{Name: "shop", Groups: []Report{{Slug: "pr-7", Revision: 1, References: []string{"a"}, Active: "a", Confirmed: now.Add(-time.Minute)}}}},
		State: State{Sequence: 2, Groups: []Group{{
			Slug: "pr-7", Name: "pr-7", Level: preview, PullRequest: 7, Head: b, HeadTime: now, Phase: Expired, Target: Target{Reason: NoSlot}, TrafficRevision: 2, TrafficTime: now,
			Releases: []Row{{Release: "a", Name: "pr-7", Version: a, Config: "c1", Status: Deprecated, Reason: NoSlot, Promoted: 1, Routed: true, Since: now, Zero: &Zero{Revision: 2, Time: now}}},
		}}},
	}
	g := Plan(o, now).State.Groups[0]
	if row := g.ActiveRow(); row == nil || row.Release != "a" || g.Rollout == nil || g.Rollout.Release != "b" {
		t.Errorf("the group is %+v, its rollout %+v", g, g.Rollout)
	}
}

// TestReopenedPreviewTakesAnUnusedSlot checks that a reopened preview gets the slot of a preview that no longer has anything to serve.
func TestReopenedPreviewTakesAnUnusedSlot(t *testing.T) {
	t.Parallel()
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	object := func(release string, number int64) Object {
		slug := "pr-" + release
		return Object{Release: release, Slug: slug, Name: slug, Level: preview, PullRequest: number, Version: "commit-" + release, Config: "c1", Stamp: 1, Created: now.Add(-time.Hour), Replicas: 2, Available: 2}
	}
	group := func(release string, number int64, phase Phase, reason Reason, promoted int64) Group {
		slug := "pr-" + release
		return Group{
			Slug: slug, Name: slug, Level: preview, PullRequest: number, Head: "commit-" + release, HeadTime: now.Add(-time.Hour), Phase: phase, TrafficRevision: 2, TrafficTime: now.Add(-time.Minute),
			Releases: []Row{{Release: release, Name: slug, Version: "commit-" + release, Config: "c1", Status: Deprecated, Reason: reason, Promoted: promoted, Since: now.Add(-time.Minute), Zero: &Zero{Revision: 2, Time: now.Add(-time.Minute)}}},
		}
	}
	o := Observed{
		Spec:         Spec{Replicas: 2, MinimumAvailable: 1, Deadline: 10 * time.Minute, Drain: 30 * time.Second, Previews: Previews{MaxGroups: 1}},
		Config:       "c1",
		PullRequests: true,
		Candidates:   []Candidate{{Slug: "pr-a", Name: "pr-a", Level: preview, PullRequest: 7, Version: "commit-c", Release: "c", Time: now.Add(-time.Hour)}},
		Withdrawn:    []Withdrawal{{Slug: "pr-b", Version: "commit-b", Reason: Gone}},
		Objects:      []Object{object("a", 7), object("b", 9)},
		State:        State{Sequence: 3, Groups: []Group{group("a", 7, Closing, GroupEnded, 1), group("b", 9, Live, Superseded, 0)}},
	}
	for _, g := range Plan(o, now).State.Groups {
		if row := g.ActiveRow(); g.Slug == "pr-a" && (row == nil || row.Release != "a") {
			t.Errorf("the preview does not serve again: %+v", g)
		}
	}
}

// TestExcludedPreviewResumesOnlyAnOfferedCommit checks that a preview that was excluded and is offered again does not
// serve a commit that is no longer offered, because the approval of that commit may have been removed.
func TestExcludedPreviewResumesOnlyAnOfferedCommit(t *testing.T) {
	t.Parallel()
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	a, b := "0123456789abcdef0123456789abcdef01234567", "89abcdef0123456789abcdef0123456789abcdef"
	for version, want := range map[string]string{a: "a", b: ""} {
		o := Observed{
			Spec:         Spec{Replicas: 2, MinimumAvailable: 1, Deadline: 10 * time.Minute, Drain: 30 * time.Second, Previews: Previews{MaxGroups: 2}},
			Config:       "c1",
			PullRequests: true,
			Candidates:   []Candidate{{Slug: "pr-7", Name: "pr-7", Level: preview, PullRequest: 7, Version: version, Release: map[string]string{a: "a", b: "b"}[version], Time: now}},
			Objects:      []Object{{Release: "a", Slug: "pr-7", Name: "pr-7", Level: preview, PullRequest: 7, Version: a, Config: "c1", Stamp: 1, Created: now.Add(-time.Hour), Replicas: 2, Available: 2}},
			Policies:     []Policy{{Name: "shop", Groups: []Report{{Slug: "pr-7", Revision: 1, References: []string{"a"}, Active: "a", Confirmed: now.Add(-time.Minute)}}}},
			State: State{Sequence: 1, Groups: []Group{{
				Slug: "pr-7", Name: "pr-7", Level: preview, PullRequest: 7, Head: a, HeadTime: now, Phase: Live, Target: Target{Release: "a", Reason: Latest}, TrafficRevision: 1, TrafficTime: now,
				Releases: []Row{{Release: "a", Name: "pr-7", Version: a, Config: "c1", Status: Active, Promoted: 1, Weight: 100, Routed: true, Since: now}},
			}}},
		}
		excluded := o
		excluded.Candidates, excluded.Withdrawn = nil, []Withdrawal{{Slug: "pr-7", Reason: Excluded}}
		p := Plan(excluded, now)
		if g := p.State.Groups[0]; g.Phase != Closing || g.ActiveRow() != nil {
			t.Fatalf("the group is %+v", g)
		}
		o.State = p.State
		g, active := Plan(o, now.Add(time.Second)).State.Groups[0], ""
		if row := g.ActiveRow(); row != nil {
			active = row.Release
		}
		if active != want || g.Phase != Live {
			t.Errorf("with %s offered, %q serves in phase %s, want %q", version, active, g.Phase, want)
		}
	}
}

// TestAbortWhileWaitingForTheNextAttempt checks that a release fails if a user aborts it while it is waiting for its
// next attempt, and that it does not start again.
func TestAbortWhileWaitingForTheNextAttempt(t *testing.T) {
	t.Parallel()
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	object := func(release, version string) Object {
		return Object{Release: release, Slug: "1-x", Name: "1.x", Level: "Release", Version: version, Config: "c1", Stamp: 1, Created: now.Add(-time.Hour), Replicas: 2, Available: 2}
	}
	o := Observed{
		Spec:       Spec{Replicas: 2, MinimumAvailable: 3, Deadline: 10 * time.Minute, Drain: 30 * time.Second, Steps: []Step{{Weight: 10}, {Weight: 50}}},
		Config:     "c1",
		Candidates: []Candidate{{Slug: "1-x", Name: "1.x", Level: "Release", Version: "1.1.0", Release: "new"}, {Slug: "1-x", Name: "1.x", Level: "Release", Version: "1.0.0", Release: "old"}},
		Objects:    []Object{object("old", "1.0.0"), object("new", "1.1.0")},
		Policies:   []Policy{{Name: "shop", Groups: []Report{{Slug: "1-x", Revision: 2, References: []string{"old"}, Active: "old", Confirmed: now.Add(-time.Minute)}}}},
		State: State{Sequence: 3, Groups: []Group{{
			Slug: "1-x", Name: "1.x", Level: "Release", Phase: Live, Target: Target{Release: "new", Reason: Latest}, TrafficRevision: 2, TrafficTime: now.Add(-time.Minute),
			Rollout: &Rollout{Release: "new", Sequence: 3, Started: now.Add(-time.Minute)},
			Releases: []Row{
				{Release: "new", Name: "1.x", Version: "1.1.0", Config: "c1", Status: Pending, Reason: notProgrammed, Attempt: 2, RetryTime: now.Add(10 * time.Minute), Since: now.Add(-time.Minute)},
				{Release: "old", Name: "1.x", Version: "1.0.0", Config: "c1", Status: Active, Promoted: 1, Weight: 100, Routed: true, Available: true, Since: now.Add(-time.Hour)},
			},
		}}},
	}
	o.Objects[1].Decision = &Decision{Action: Deprecate, ID: "1"}
	for i := range 3 {
		p := Plan(o, now.Add(time.Duration(i)*20*time.Minute))
		g := p.State.Groups[0]
		if r := g.Row("new"); r == nil || r.Status != Error || r.Reason != Aborted || g.Rollout != nil {
			t.Fatalf("plan %d: %+v, rollout %+v", i, r, g.Rollout)
		}
		o.State = p.State
	}
}

// TestExcludedPreviewDoesNotResumeAnEarlierCommit checks that a preview that was excluded and is offered again does not serve a commit that
// was already draining when the preview was excluded.
func TestExcludedPreviewDoesNotResumeAnEarlierCommit(t *testing.T) {
	t.Parallel()
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	z, a, b := strings.Repeat("c", 40), "0123456789abcdef0123456789abcdef01234567", "89abcdef0123456789abcdef0123456789abcdef"
	object := func(release, version string) Object {
		return Object{Release: release, Slug: "pr-7", Name: "pr-7", Level: preview, PullRequest: 7, Version: version, Config: "c1", Stamp: 1, Created: now.Add(-time.Hour), Replicas: 2, Available: 2}
	}
	o := Observed{
		Spec:         Spec{Replicas: 2, MinimumAvailable: 1, Deadline: 10 * time.Minute, Drain: 30 * time.Second, Previews: Previews{MaxGroups: 2}},
		Config:       "c1",
		PullRequests: true,
		Withdrawn:    []Withdrawal{{Slug: "pr-7", Reason: Excluded}},
		Objects:      []Object{object("a", a), object("z", z)},
		Policies:     []Policy{{Name: "shop", Groups: []Report{{Slug: "pr-7", Revision: 1, References: []string{"a", "z"}, Active: "a", Confirmed: now.Add(-time.Minute)}}}},
		State: State{Sequence: 2, Groups: []Group{{
			Slug: "pr-7", Name: "pr-7", Level: preview, PullRequest: 7, Head: a, HeadTime: now, Phase: Live, Target: Target{Release: "a", Reason: Latest}, TrafficRevision: 2, TrafficTime: now,
			Releases: []Row{
				{Release: "a", Name: "pr-7", Version: a, Config: "c1", Status: Active, Promoted: 2, Weight: 100, Routed: true, Since: now},
				{Release: "z", Name: "pr-7", Version: z, Config: "c1", Status: Deprecated, Reason: Replaced, Promoted: 1, Routed: true, Since: now, Zero: &Zero{Revision: 2, Time: now}},
			},
		}}},
	}
	o.State = Plan(o, now).State
	if g := o.State.Groups[0]; g.Phase != Closing || g.ActiveRow() != nil {
		t.Fatalf("the group is %+v", g)
	}
	o.Withdrawn, o.Candidates = nil, []Candidate{{Slug: "pr-7", Name: "pr-7", Level: preview, PullRequest: 7, Version: b, Release: "b", Time: now}}
	if row := Plan(o, now.Add(time.Second)).State.Groups[0].ActiveRow(); row != nil {
		t.Errorf("%s serves again, although only %s is offered", row.Version, b)
	}
}

// TestFrozenIsReportedInEachPlan checks that each plan during a freeze reports that a canary is frozen. This includes the plan that applies
// edited steps, and each plan while a canary whose steps are skipped is waiting for a pod. If this state were not reported, policies would
// route domains to the canary.
func TestFrozenIsReportedInEachPlan(t *testing.T) {
	t.Parallel()
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	steps := []Step{{Weight: 10, Pause: time.Hour}, {Weight: 50}}
	object := func(release, version string, available int) Object {
		return Object{Release: release, Slug: "1-x", Name: "1.x", Level: "Release", Version: version, Config: "c1", Stamp: 1, Created: now.Add(-time.Hour), Replicas: 2, Available: available}
	}
	for name, tc := range map[string]struct {
		hash      string
		adopted   bool
		available int
	}{
		"edited steps":                      {"edited", false, 2},
		"adopted, and a pod is missing":     {stepsHash(steps), true, 1},
		"not adopted, and a pod is missing": {stepsHash(steps), false, 1},
	} {
		o := Observed{
			Spec: Spec{
				Replicas: 2, MinimumAvailable: 3, Deadline: 10 * time.Minute, Drain: 30 * time.Second, Steps: steps,
				Freeze: &Freeze{Name: `Freeze "fair"`, Reason: "fair", Until: now.Add(24 * time.Hour)},
			},
			Config:     "c1",
			Candidates: []Candidate{{Slug: "1-x", Name: "1.x", Level: "Release", Version: "1.1.0", Release: "new"}, {Slug: "1-x", Name: "1.x", Level: "Release", Version: "1.0.0", Release: "old"}},
			Objects:    []Object{object("old", "1.0.0", 2), object("new", "1.1.0", tc.available)},
			Policies:   []Policy{{Name: "shop", Groups: []Report{{Slug: "1-x", Revision: 2, References: []string{"old", "new"}, Active: "old", Confirmed: now.Add(-time.Minute)}}}},
			State: State{Sequence: 3, Groups: []Group{{
				Slug: "1-x", Name: "1.x", Level: "Release", Phase: Live, Target: Target{Release: "new", Reason: Latest}, TrafficRevision: 2, TrafficTime: now.Add(-time.Minute),
				Rollout: &Rollout{Release: "new", Sequence: 3, Step: 1, StepRevision: 2, StepsHash: tc.hash, Started: now.Add(-time.Minute)},
				Releases: []Row{
					{Release: "new", Name: "1.x", Version: "1.1.0", Config: "c1", Status: Canary, Reason: StepBegan, Weight: 10, Routed: true, Available: true, Adopted: tc.adopted, Since: now.Add(-time.Minute)},
					{Release: "old", Name: "1.x", Version: "1.0.0", Config: "c1", Status: Active, Promoted: 1, Weight: 90, Routed: true, Available: true, Since: now.Add(-time.Hour)},
				},
			}}},
		}
		p := Plan(o, now)
		if !slices.ContainsFunc(p.Notes, func(n Note) bool { return n.Reason == Frozen && !n.Event && n.Version == "1.1.0" }) {
			t.Errorf("%s: the plan does not report that the canary is frozen: %+v", name, p.Notes)
		}
	}
}
