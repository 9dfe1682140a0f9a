package release

import (
	"testing"
	"time"
)

// TestDeadlineAfterAnAbsence checks that, if the manager starts after the deadline of a rollout or shortly before it, the release gets
// a moment to report before the deadline counts as passed.
func TestDeadlineAfterAnAbsence(t *testing.T) {
	t.Parallel()
	started := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		deadline time.Duration
		// began is when the manager began to observe, and now is the time of the plan. Both are relative to the start of the rollout.
		// If began is 0, the manager has observed the whole rollout.
		began, now time.Duration
		// grace is the end of the grace period that was granted previously.
		grace   time.Duration
		failed  bool
		requeue time.Duration
	}{
		"never away, in time":                          {deadline: time.Minute, now: 59 * time.Second, requeue: time.Minute},
		"never away, late":                             {deadline: time.Minute, now: time.Minute, failed: true},
		"back within the deadline":                     {deadline: time.Minute, began: 10 * time.Second, now: 50 * time.Second, requeue: time.Minute},
		"back shortly before the deadline":             {deadline: time.Minute, began: 55 * time.Second, now: time.Minute, requeue: 70 * time.Second},
		"back after the deadline":                      {deadline: time.Minute, began: time.Hour, now: time.Hour, requeue: time.Hour + 10*time.Second},
		"back after the deadline, and still late":      {deadline: time.Minute, began: time.Hour, now: time.Hour + 10*time.Second, failed: true},
		"back again, within the grace period":          {deadline: time.Minute, began: time.Hour, now: time.Hour, grace: time.Hour + time.Second, requeue: time.Hour + time.Second},
		"back again, after the grace period":           {deadline: time.Minute, began: time.Hour, now: time.Hour, grace: time.Hour, failed: true},
		"grace period no longer than a short deadline": {deadline: 5 * time.Second, began: time.Hour, now: time.Hour + 5*time.Second, failed: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := Observed{
				Spec:       Spec{Replicas: 1, MinimumAvailable: 3, Deadline: test.deadline},
				Config:     "c",
				Candidates: []Candidate{{Slug: "release", Name: "release", Version: "1.1.0", Release: "new"}, {Slug: "release", Name: "release", Version: "1.0.0", Release: "old"}},
				Objects: []Object{
					{Release: "old", Slug: "release", Name: "release", Version: "1.0.0", Config: "c", Replicas: 1, Available: 1},
					{Release: "new", Slug: "release", Name: "release", Version: "1.1.0", Config: "c", Replicas: 1},
				},
				State: State{Sequence: 5, Groups: []Group{{
					Slug: "release", Name: "release", Phase: Live, Target: Target{Release: "new", Reason: "Latest"}, Rollout: &Rollout{Release: "new", Started: started, StepsHash: stepsHash(nil), Floor: 1},
					Releases: []Row{
						{Release: "new", Name: "release", Version: "1.1.0", Config: "c", Status: Pending, Since: started},
						{Release: "old", Name: "release", Version: "1.0.0", Config: "c", Status: Active, Weight: 100, Available: true, Promoted: 1, Since: started},
					},
				}}},
			}
			if test.began > 0 {
				o.Began = started.Add(test.began)
			}
			if test.grace > 0 {
				o.State.Groups[0].Rollout.Grace = started.Add(test.grace)
			}
			plan := Plan(o, started.Add(test.now))
			row := plan.State.Groups[0].Row("new")
			if failed := row.Status == Error; failed != test.failed {
				t.Errorf("failed: got %t, want %t (%s)", failed, test.failed, row.Reason)
			}
			if requeue := plan.RequeueTime.Sub(started); !test.failed && requeue != test.requeue {
				t.Errorf("requeue: got %s after the start, want %s", requeue, test.requeue)
			}
		})
	}
}

// TestDeadlineUnderRestarts checks that a manager that restarts every few seconds does not postpone a deadline indefinitely.
func TestDeadlineUnderRestarts(t *testing.T) {
	t.Parallel()
	started := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	o := Observed{
		Spec:       Spec{Replicas: 1, MinimumAvailable: 3, Deadline: time.Minute},
		Config:     "c",
		Candidates: []Candidate{{Slug: "release", Name: "release", Version: "1.0.0", Release: "new"}},
		Objects:    []Object{{Release: "new", Slug: "release", Name: "release", Version: "1.0.0", Config: "c", Replicas: 1}},
	}
	for at := time.Duration(0); at < 5*time.Minute; at += 3 * time.Second {
		now := started.Add(at)
		o.Began = now
		plan := Plan(o, now)
		o.State = plan.State
		if o.State.Groups[0].Row("new").Status != Error {
			continue
		}
		if at > 75*time.Second {
			t.Errorf("failed %s after the start, want at most the deadline of 1m plus a moment", at)
		}
		return
	}
	t.Error("never failed")
}
