package release

import (
	"testing"
	"time"
)

// A manager that was away for longer than the deadline has seen nothing of a release that it left on its way: it gives
// what it finds a moment to report before it calls the deadline passed.
func TestDeadlineAfterAnAbsence(t *testing.T) {
	t.Parallel()
	started := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		deadline time.Duration
		// began is when the manager began to look, now the time of the plan: both after the start of the run; 0: always.
		began, now time.Duration
		failed     bool
		wake       time.Duration
	}{
		"never away, in time":             {deadline: time.Minute, now: 59 * time.Second, wake: time.Minute},
		"never away, late":                {deadline: time.Minute, now: time.Minute, failed: true},
		"back within the deadline":        {deadline: time.Minute, began: 10 * time.Second, now: 50 * time.Second, wake: time.Minute},
		"back shortly before it":          {deadline: time.Minute, began: 50 * time.Second, now: time.Minute, wake: 80 * time.Second},
		"back after it":                   {deadline: time.Minute, began: time.Hour, now: time.Hour, wake: time.Hour + 30*time.Second},
		"back after it, and still late":   {deadline: time.Minute, began: time.Hour, now: time.Hour + 30*time.Second, failed: true},
		"no longer than a short deadline": {deadline: 10 * time.Second, began: time.Hour, now: time.Hour + 10*time.Second, failed: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := Observed{
				Spec:       Spec{Replicas: 1, MinimumAvailable: 3, Deadline: test.deadline},
				Config:     "c",
				Candidates: []Candidate{{Slug: "release", Name: "release", Version: "1.1.0", Release: "new"}, {Slug: "release", Name: "release", Version: "1.0.0", Release: "old"}},
				Children: []Child{
					{Release: "old", Slug: "release", Name: "release", Version: "1.0.0", Config: "c", Replicas: 1, Available: 1},
					{Release: "new", Slug: "release", Name: "release", Version: "1.1.0", Config: "c", Replicas: 1},
				},
				Ledger: Ledger{Sequence: 5, Groups: []Group{{
					Slug: "release", Name: "release", Phase: Live, Target: Target{Release: "new", Reason: "Latest"}, Run: &Run{Release: "new", Started: started, StepsHash: stepsHash(nil), Floor: 1},
					Releases: []Row{
						{Release: "new", Name: "release", Version: "1.1.0", Config: "c", Status: Pending, Since: started},
						{Release: "old", Name: "release", Version: "1.0.0", Config: "c", Status: Active, Weight: 100, Available: true, Promoted: 1, Since: started},
					},
				}}},
			}
			if test.began > 0 {
				o.Began = started.Add(test.began)
			}
			plan := Make(o, started.Add(test.now))
			row := plan.Ledger.Groups[0].Row("new")
			if failed := row.Status == Error; failed != test.failed {
				t.Errorf("failed: got %t, want %t (%s)", failed, test.failed, row.Reason)
			}
			if wake := plan.Wake.Sub(started); !test.failed && wake != test.wake {
				t.Errorf("wake: got %s after the start, want %s", wake, test.wake)
			}
		})
	}
}
