package release

import (
	"testing"
	"time"
)

// TestPausedFirstReleaseIsReported: a rollout that spec.paused stops shows what it waits for.
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
				t.Fatalf("%s: it is not paused: %+v", level, g)
			}
			if !found {
				t.Errorf("%s: %s after the release was ready, nothing shows that it waits for spec.paused: notes %+v, requeue %v", level, later, p.Notes, p.RequeueTime)
			}
		}
	}
}
