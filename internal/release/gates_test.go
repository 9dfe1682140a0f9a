package release

import (
	"testing"
	"time"
)

// TestAnswers asks that hooks and measurements of another run, step, point or wait
// answer nothing.
func TestAnswers(t *testing.T) {
	t.Parallel()
	const slug = "1-x"
	wait := t0.Add(-time.Hour)
	observe := func(run Run, spec Spec, c Child) Observed {
		spec.Replicas, spec.MinimumAvailable, spec.Deadline = 1, 2, time.Minute
		run.Release, run.Sequence, run.Step, run.Started, run.WaitingSince, run.StepsHash, run.Floor = "new", 7, 1, wait, wait, stepsHash(spec.Steps), 1
		c.Release, c.Slug, c.Name, c.Version, c.Replicas, c.Available = "new", slug, "1.x", "1.1.0", 1, 1
		return Observed{
			Spec: spec, Children: []Child{c, {Release: "old", Slug: slug, Name: "1.x", Version: "1.0.0", Replicas: 1, Available: 1}},
			Ledger: Ledger{Sequence: 9, Groups: []Group{{
				Slug: slug, Name: "1.x", Phase: Live, TrafficRevision: 8, Target: Target{Release: "new", Reason: "Latest"}, Run: &run,
				Releases: []Row{
					{Release: "new", Version: "1.1.0", Status: Canary, Weight: 10, Available: true},
					{Release: "old", Version: "1.0.0", Status: Active, Weight: 90, Available: true, Promoted: 1},
				},
			}}},
		}
	}
	stands := func(o Observed) Status { return Make(o, t0).Ledger.Groups[0].Row("new").Status }

	agree := GateFact{Run: 7, Step: 1, Point: ConfirmPromotion, Since: wait, Open: true}
	for name, test := range map[string]struct {
		change func(*GateFact)
		want   Status
	}{
		"its own":       {func(*GateFact) {}, Active},
		"another run":   {func(f *GateFact) { f.Run = 6 }, Canary},
		"another step":  {func(f *GateFact) { f.Step = 2 }, Canary},
		"another point": {func(f *GateFact) { f.Point = ConfirmTrafficIncrease }, Canary},
		"another wait":  {func(f *GateFact) { f.Since = t0 }, Canary},
		"no":            {func(f *GateFact) { f.Open = false }, Canary},
		"failed":        {func(f *GateFact) { f.Open, f.Failed = false, true }, Canary},
	} {
		t.Run("gate: "+name, func(t *testing.T) {
			t.Parallel()
			f := agree
			test.change(&f)
			o := observe(Run{Gate: ConfirmPromotion, GateTime: wait}, Spec{Steps: []Step{{Weight: 10}}, Gates: []Point{ConfirmPromotion}}, Child{Gates: []GateFact{f}})
			if got := stands(o); got != test.want {
				t.Errorf("it is %s, want %s", got, test.want)
			}
		})
	}

	passed := Verdict{Run: 7, Step: 1, Since: wait, Phase: VerdictPassed}
	for name, test := range map[string]struct {
		change func(*Verdict)
		want   Status
	}{
		"its own":                    {func(*Verdict) {}, Active},
		"another run":                {func(v *Verdict) { v.Run = 6 }, Canary},
		"another step":               {func(v *Verdict) { v.Step = 2 }, Canary},
		"another wait":               {func(v *Verdict) { v.Since = t0 }, Canary},
		"inconclusive":               {func(v *Verdict) { v.Phase = VerdictInconclusive }, Canary},
		"a phase that is new":        {func(v *Verdict) { v.Phase = "Splendid" }, Canary},
		"failed":                     {func(v *Verdict) { v.Phase = VerdictFailed }, Error},
		"failed, in an earlier step": {func(v *Verdict) { v.Phase, v.Step, v.Since = VerdictFailed, 0, time.Time{} }, Error},
		"failed, in another run":     {func(v *Verdict) { v.Phase, v.Run = VerdictFailed, 6 }, Canary},
	} {
		t.Run("verdict: "+name, func(t *testing.T) {
			t.Parallel()
			v := passed
			test.change(&v)
			if got := stands(observe(Run{}, Spec{Steps: []Step{{Weight: 10}}, Analysis: true}, Child{Analysis: &v})); got != test.want {
				t.Errorf("it is %s, want %s", got, test.want)
			}
		})
	}

	for name, test := range map[string]struct {
		run  int64
		want Status
	}{"its own": {7, Error}, "another run": {6, Active}} {
		t.Run("rollback: "+name, func(t *testing.T) {
			t.Parallel()
			if got := stands(observe(Run{}, Spec{Steps: []Step{{Weight: 10}}}, Child{Rollback: &RollbackFact{Run: test.run}})); got != test.want {
				t.Errorf("it is %s, want %s", got, test.want)
			}
		})
	}
}
