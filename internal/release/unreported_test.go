package release

import (
	"testing"
	"time"
)

// TestPodsStayUntilEachPolicyReports covers the loss of all statuses, after which the releases are deleted manually and one of them is
// created again. The Service of that release, which the policy has not reported yet, selects the pods of the new object. The pods stay,
// although the release never had traffic according to the rollout state.
func TestPodsStayUntilEachPolicyReports(t *testing.T) {
	t.Parallel()
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	object := func(release, config string, stamp int64) Object {
		return Object{Release: release, Slug: "1-x", Name: "1.x", Level: "Release", Version: "1.0.0", Config: config, Stamp: stamp, Created: now.Add(-time.Minute), Replicas: 2, Available: 2}
	}
	row := func(release, config string, status Status) Row {
		return Row{Release: release, Name: "1.x", Version: "1.0.0", Config: config, Status: status, Since: now.Add(-time.Minute), Reason: Superseded}
	}
	o := Observed{
		Spec:       Spec{Replicas: 2, Standby: 1, MinimumAvailable: 1, Deadline: 10 * time.Minute, Drain: 30 * time.Second},
		Config:     "c2",
		Candidates: []Candidate{{Slug: "1-x", Name: "1.x", Level: "Release", Version: "1.0.0", Release: "new"}},
		Objects:    []Object{object("old", "c1", 1), object("new", "c2", 2)},
		State: State{Sequence: 2, Groups: []Group{{
			Slug: "1-x", Name: "1.x", Level: "Release", Phase: Live, Target: Target{Release: "new", Reason: Latest},
			Rollout: &Rollout{Release: "new", Sequence: 2, Started: now}, Releases: []Row{row("new", "c2", Pending), row("old", "c1", Deprecated)},
		}}},
	}
	for _, unreported := range []bool{true, false} {
		o.Policies = []Policy{{Name: "shop", Unreported: unreported}}
		gone := false
		for _, x := range Plan(o, now).Retire {
			gone = gone || x.Release == "old"
		}
		if gone == unreported {
			t.Errorf("policy without status: %v; the old release loses its pods: %v", unreported, gone)
		}
	}
}
