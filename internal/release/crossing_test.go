package release

import (
	"testing"
	"time"
)

// TestReleaseWaitsForTheCanaryThatHasItsDomains covers domains that follow the newest group. These domains route to the newest group with a ready release. If the
// active release of the group from which a canary takes these domains crashes, the domains route to an even older group. A release of
// that group whose traffic was removed waits for the canary, and does not retry repeatedly.
func TestReleaseWaitsForTheCanaryThatHasItsDomains(t *testing.T) {
	t.Parallel()
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	active := func(version string) Row {
		return Row{Release: "r" + version, Version: version, Status: Active, Weight: 100, Promoted: 1, Routed: true}
	}
	groups := []Group{
		{Slug: "3-x", Name: "3.x", Phase: Live, TrafficRevision: 3, Rollout: &Rollout{Release: "r3.0.0", Step: 1, From: "2-x"}, Releases: []Row{{Release: "r3.0.0", Version: "3.0.0", Status: Canary, Weight: 20, Routed: true}}},
		{Slug: "2-x", Name: "2.x", Phase: Live, TrafficRevision: 1, Releases: []Row{active("2.0.0")}},
		{Slug: "1-x", Name: "1.x", Phase: Live, TrafficRevision: 2, Rollout: &Rollout{Release: "r1.1.0"}, Releases: []Row{{Release: "r1.1.0", Version: "1.1.0", Status: Pending, Attempt: 2, Routed: true}, active("1.0.0")}},
	}
	for newest, want := range map[string]bool{"1-x": true, "2-x": false} {
		o := Observed{
			Spec:  Spec{Replicas: 2, MinimumAvailable: 1, Deadline: 10 * time.Minute, Steps: []Step{{Weight: 20, Approval: true}}},
			State: State{Sequence: 3, Groups: cloneGroups(groups)},
			Policies: []Policy{{Name: "shop", Groups: []Report{
				{Slug: "3-x", Revision: 3, Active: "r3.0.0"}, {Slug: "2-x", Revision: 1, Active: "r2.0.0", Newest: newest == "2-x"}, {Slug: "1-x", Revision: 2, Active: "r1.0.0", Newest: newest == "1-x"},
			}}},
		}
		b := newPlanner(o, now)
		b.groups = o.State.Groups
		s := b.scope(&b.groups[2])
		if w := s.crossedWait(s.g.Row("r1.1.0")); (w != nil) != want {
			t.Errorf("the newest domains route to %s: 1.1.0 waits for %+v, want a wait: %v", newest, w, want)
		}

		// In this case, the canary of the older group got the traffic first.
		b.groups[0].Releases[0].Status, b.groups[0].Releases[0].Attempt = Pending, 2
		b.groups[2].Releases[0].Status, b.groups[2].Releases[0].Weight = Canary, 20
		s = b.scope(&b.groups[0])
		if w := s.crossedWait(s.g.Row("r3.0.0")); (w != nil) != want {
			t.Errorf("the newest domains route to %s: 3.0.0 waits for %+v, want a wait: %v", newest, w, want)
		}
	}
}
