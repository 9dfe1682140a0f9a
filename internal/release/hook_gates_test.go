package release

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// gated are histories with hooks that block the first release of a group, and with hooks for previews.
var gated = []scene{
	{"hooks: the first release of a group waits for ConfirmRollout, without pods", func(h tale) {
		h.policy("web")
		h.steps(twoSteps...)
		h.gates(ConfirmRollout)
		h.hooks[ConfirmRollout] = "no"
		h.push("1.0.0")
		h.run(24 * time.Hour)
		h.want("waits", map[string]string{"1.0.0": "pending 0"})
		h.state("waits", "AwaitingGate", true)
		if n := h.object("1.0.0").Replicas; n != 0 {
			h.fail("it has %d replicas", n)
		}
		h.hooks[ConfirmRollout] = ""
		h.run(time.Hour)
		h.want("end", map[string]string{"1.0.0": "active 100"})
	}},
	{"hooks: the migration of the next version waits for the reverse migration of a failed version", func(h tale) {
		h.live()
		h.gates(ConfirmRollout)
		h.steps(twoSteps...)
		h.startup = 20 * time.Second
		h.push("1.1.0", "1.2.0")
		h.run(30 * time.Second)
		h.object("1.2.0").ActiveJobs = true // Jobs of PostRollout hooks are active from the moment of the failure
		h.decideOn("1.2.0", Deprecate, "")
		h.run(time.Hour)
		h.want("failed", map[string]string{"1.0.0": "active 100", "1.1.0": "pending 0", "1.2.0": "error 0"})
		if run := h.rolloutState.group("1-x").Rollout; run == nil || run.Gate != ConfirmRollout || !run.GateTime.IsZero() {
			h.fail("the rollout is %+v", run)
		}
		h.message("failed", "AwaitingGate", "1.1.0 is waiting without pods: its ConfirmRollout hooks are called when the hook Jobs of 1.2.0 have ended")
		h.object("1.2.0").ActiveJobs = false
		h.run(time.Hour)
		h.want("the Job has ended", map[string]string{"1.1.0": "active 100"})
	}},
	{"hooks: the migration of the next version does not start before the reverse migration of a version that fails", func(h tale) {
		h.live()
		h.gates(ConfirmRollout)
		h.edit("revert", func(s *Spec) { s.FailureJobs = true })
		h.steps(twoSteps...)
		h.startup = 20 * time.Second
		h.push("1.1.0", "1.2.0")
		h.run(30 * time.Second)
		h.decideOn("1.2.0", Deprecate, "")
		h.run(time.Minute)
		h.want("the controller of the release has not reported the failure", map[string]string{"1.0.0": "active 100", "1.1.0": "pending 0", "1.2.0": "error 0"})
		h.object("1.2.0").Reported, h.object("1.2.0").ActiveJobs = Error, true
		h.run(time.Hour)
		h.want("the Job runs", map[string]string{"1.0.0": "active 100", "1.1.0": "pending 0", "1.2.0": "error 0"})
		h.object("1.2.0").ActiveJobs = false
		h.run(time.Hour)
		h.want("the Job has ended", map[string]string{"1.1.0": "active 100"})
	}},
	{"hooks: the migration of the next version waits for the migration of the superseded version", func(h tale) {
		h.live()
		h.gates(ConfirmRollout)
		h.steps(twoSteps...)
		h.hooks[ConfirmRollout] = "no"
		h.push("1.1.0")
		h.run(30 * time.Second)
		h.object("1.1.0").ActiveJobs = true
		h.hooks[ConfirmRollout] = ""
		h.push("1.2.0")
		h.run(30 * time.Second)
		h.want("superseded", map[string]string{"1.0.0": "active 100", "1.1.0": "", "1.2.0": "pending 0"})
		h.object("1.1.0").ActiveJobs = false
		h.run(time.Hour)
		h.want("the Job has ended", map[string]string{"1.2.0": "active 100"})
	}},
	{"hooks: a migration does not wait for a cleanup of the active release", func(h tale) {
		h.live()
		h.gates(ConfirmRollout)
		h.object("1.0.0").ActiveJobs = true
		h.push("1.1.0")
		h.run(time.Hour)
		h.want("end", map[string]string{"1.1.0": "active 100"})
	}},
	{"hooks: the first release of a group waits for PreRollout with available pods", func(h tale) {
		h.live()
		h.steps(Step{Weight: 10, Confirm: true}, Step{Weight: 50})
		h.gates(PreRollout, ConfirmPromotion)
		h.hooks[PreRollout], h.hooks[ConfirmTrafficIncrease], h.hooks[ConfirmPromotion] = "no", "no", "no"
		h.push("2.0.0")
		h.run(24 * time.Hour)
		h.want("waits", map[string]string{"2.0.0": "pending 0"})
		h.state("waits", "AwaitingGate", true)
		if o := h.object("2.0.0"); o.Available != h.spec.Replicas {
			h.fail("got %d of %d pods to test", o.Available, h.spec.Replicas)
		}
		h.hooks[PreRollout] = ""
		h.run(time.Minute)
		h.want("without steps, no hooks of steps are called", map[string]string{"2.0.0": "active 100"})
	}},
	{"hooks: a failed PreRollout hook fails the first release of a group", func(h tale) {
		h.live()
		h.steps(twoSteps...)
		h.gates(PreRollout)
		h.hooks[PreRollout] = "fail"
		h.push("2.0.0")
		h.run(time.Hour)
		h.want("down", map[string]string{"1.0.0": "active 100", "2.0.0": "error 0"})
	}},
	{"hooks: a first install waits while PreRollout hooks do not respond, and no older version starts", func(h tale) {
		h.policy("web")
		h.gates(PreRollout)
		h.hooks[PreRollout] = "away"
		h.push("1.0.0", "1.1.0", "1.2.0")
		h.run(time.Minute)
		h.want("the hooks are called again", map[string]string{"1.0.0": "", "1.1.0": "", "1.2.0": "pending 0"})
		h.state("the hooks are called again", "AwaitingGate", true)
		h.state("the hooks are called again", Blocked, false)
		h.run(24 * time.Hour)
		h.want("waits", map[string]string{"1.0.0": "", "1.1.0": "", "1.2.0": "pending 0"})
		h.state("waits", Blocked, true)
		h.push("1.3.0")
		h.run(time.Hour)
		h.want("a newer version supersedes it", map[string]string{"1.2.0": "", "1.3.0": "pending 0"})
		h.hooks[PreRollout] = ""
		h.run(time.Minute)
		h.want("the hooks responded", map[string]string{"1.3.0": "active 100"})
		h.state("the hooks responded", Blocked, false)
	}},
	{"hooks: a canary waits while PreRollout hooks do not respond, and a rejection ends the rollout", func(h tale) {
		h.live()
		h.steps(twoSteps...)
		h.gates(PreRollout)
		h.hooks[PreRollout] = "away"
		h.push("1.1.0")
		h.run(24 * time.Hour)
		h.want("waits", map[string]string{"1.0.0": "active 100", "1.1.0": "pending 0"})
		h.state("waits", Blocked, true)
		h.hooks[PreRollout] = "fail"
		h.run(time.Minute)
		h.want("rejected", map[string]string{"1.0.0": "active 100", "1.1.0": "error 0"})
	}},
	{"hooks: a release that waited for its window is blocked only if PreRollout hooks do not respond within the deadline", func(h tale) {
		h.live()
		h.run(29 * time.Minute)
		h.steps(Step{Weight: 10, Window: &Window{}})
		h.gates(PreRollout)
		h.hooks[PreRollout] = "away"
		h.push("1.1.0")
		h.run(29 * time.Minute)
		h.state("before the window", AwaitingWindow, true)
		h.run(2 * time.Minute)
		h.state("a minute after the hooks are called", AwaitingGate, true)
		h.state("a minute after the hooks are called", Blocked, false)
		h.run(11 * time.Minute)
		h.state("after the deadline", Blocked, true)
		h.hooks[PreRollout] = ""
		h.run(time.Minute)
		h.want("the hooks responded", map[string]string{"1.1.0": "active 100"})
	}},
	{"hooks: a user adopts or aborts a release that waits for PreRollout", func(h tale) {
		h.live()
		h.steps(twoSteps...)
		h.gates(PreRollout)
		h.hooks[PreRollout] = "away"
		h.push("1.1.0")
		h.run(24 * time.Hour)
		h.decideOn("1.1.0", Deprecate, "")
		h.run(time.Minute)
		h.want("aborted", map[string]string{"1.0.0": "active 100", "1.1.0": "error 0"})
		h.push("1.2.0")
		h.run(24 * time.Hour)
		h.decideOn("1.2.0", Adopt, "")
		h.run(time.Minute)
		h.want("adopted", map[string]string{"1.2.0": "active 100"})
	}},
	{"hooks: a release that crashes while it waits for PreRollout fails", func(h tale) {
		h.live()
		h.gates(PreRollout)
		h.hooks[PreRollout] = "away"
		h.push("2.0.0")
		h.run(24 * time.Hour)
		h.spoil(h.object("2.0.0"), "CrashLoopBackOff")
		h.run(time.Hour)
		h.want("crashes", map[string]string{"1.0.0": "active 100", "2.0.0": "error 0"})
	}},
	{"hooks: ConfirmRollout rejects the first release of a group permanently", func(h tale) {
		h.live()
		h.steps(twoSteps...)
		h.gates(ConfirmRollout)
		h.hooks[ConfirmRollout] = "fail"
		h.push("2.0.0")
		h.run(time.Hour)
		h.want("down", map[string]string{"1.0.0": "active 100", "2.0.0": "error 0"})
	}},
	{"hooks: the first release of a group loses its pods while it waits for PreRollout", func(h tale) {
		h.live()
		h.gates(PreRollout)
		h.hooks[PreRollout] = "no"
		h.push("2.0.0")
		h.run(time.Hour)
		h.spoil(h.object("2.0.0"), "CrashLoopBackOff")
		h.run(time.Hour)
		h.want("down", map[string]string{"2.0.0": "error 0"})
	}},
	{"rule 21: Adopt is not applied again when a superseded release gets a row again", func(h tale) {
		h.live()
		h.steps(twoSteps...)
		h.gates(ConfirmRollout)
		h.hooks[ConfirmRollout] = "no"
		h.push("1.1.0")
		h.run(time.Minute)
		h.startup = time.Hour
		h.decideOn("1.1.0", Adopt, "")
		h.run(time.Second)
		adopted := h.object("1.1.0")
		adopted.ActiveJobs = true // The object remains until the Job has ended.
		h.push("1.2.0")
		h.run(time.Minute)
		h.want("superseded", map[string]string{"1.1.0": "", "1.2.0": "pending 0"})
		adopted.handled = "" // Its controller did not record the decision in time.
		h.withdraw("1.2.0", Denied)
		h.run(time.Minute)
		h.want("again", map[string]string{"1.1.0": "pending 0"})
		if g := h.group("1-x"); g.Row(adopted.Release).Adopted || adopted.Replicas > 0 {
			h.fail("it is adopted again, with %d replicas", adopted.Replicas)
		}
	}},
	{"rule 22: Adopt makes the first release of a group active while paused", func(h tale) {
		h.policy("web")
		h.startup = time.Minute
		h.push("1.0.0")
		h.run(time.Second)
		h.edit("paused", func(s *Spec) { s.Paused = true })
		h.run(time.Hour)
		h.want("paused", map[string]string{"1.0.0": "pending 0"})
		h.decideOn("1.0.0", Adopt, "")
		h.run(time.Minute)
		h.want("adopted", map[string]string{"1.0.0": "active 100"})
	}},
	{"rule 22: Adopt starts a release that waits for Jobs of another release while paused", func(h tale) {
		h.live()
		h.gates(ConfirmRollout)
		h.steps(twoSteps...)
		h.startup = 20 * time.Second
		h.push("1.1.0", "1.2.0")
		h.run(30 * time.Second)
		h.object("1.2.0").ActiveJobs = true
		h.decideOn("1.2.0", Deprecate, "")
		h.run(time.Minute)
		h.edit("paused", func(s *Spec) { s.Paused = true })
		h.run(time.Minute)
		h.want("waits", map[string]string{"1.0.0": "active 100", "1.1.0": "pending 0", "1.2.0": "error 0"})
		h.decideOn("1.1.0", Adopt, "")
		h.run(time.Hour)
		h.want("adopted", map[string]string{"1.1.0": "active 100"})
	}},
	{"rule 22: Adopt starts the first release of a group that waits for Jobs of another release while paused", func(h tale) {
		h.policy("web")
		h.gates(ConfirmRollout)
		h.startup = 20 * time.Second
		h.push("1.0.0", "1.1.0")
		h.run(10 * time.Second)
		h.object("1.1.0").ActiveJobs = true
		h.decideOn("1.1.0", Deprecate, "")
		h.run(time.Minute)
		h.edit("paused", func(s *Spec) { s.Paused = true })
		h.run(time.Minute)
		h.want("waits", map[string]string{"1.0.0": "pending 0", "1.1.0": "error 0"})
		h.decideOn("1.0.0", Adopt, "")
		h.run(time.Hour)
		h.want("adopted", map[string]string{"1.0.0": "active 100"})
	}},
	{"rule 45: an adopted release shows that a freeze, not spec.paused, delays it", func(h tale) {
		h.policy("web")
		h.startup = time.Minute
		h.push("1.0.0")
		h.run(time.Second)
		h.edit("paused", func(s *Spec) { s.Paused = true })
		h.decideOn("1.0.0", Adopt, "")
		h.run(10 * time.Second)
		h.freeze(10 * time.Hour)
		h.run(10 * time.Minute)
		h.want("frozen", map[string]string{"1.0.0": "pending 0"})
		h.state("cause", Paused, false)
		h.state("cause", Frozen, true)
	}},
	{"hooks: Adopt skips all hooks of a first release", func(h tale) {
		h.policy("web")
		h.gates(ConfirmRollout, PreRollout)
		h.hooks[ConfirmRollout], h.hooks[PreRollout] = "no", "no"
		h.push("1.0.0")
		h.run(time.Hour)
		h.decideOn("1.0.0", Adopt, "")
		h.run(time.Minute)
		h.want("adopted", map[string]string{"1.0.0": "active 100"})
	}},
	{"hooks: only hooks for previews are called for a preview", func(h tale) {
		h.gates(ConfirmRollout, PreRollout)
		h.hooks[ConfirmRollout], h.hooks[PreRollout] = "no", "no"
		h.reviewed()
		h.edit("preview gates", func(s *Spec) { s.PreviewGates = []Point{PreRollout} })
		h.push("pr-7-b")
		h.push("pr-8-a")
		h.run(time.Hour)
		h.want("both wait, and the active release keeps serving", map[string]string{"pr-7-a": "active 100", "pr-7-b": "pending 0", "pr-8-a": "pending 0"})
		h.hooks[PreRollout] = ""
		h.run(time.Minute)
		h.want("end", map[string]string{"pr-7-b": "active 100", "pr-8-a": "active 100"})
	}},
	{"hooks: a release that waits for ConfirmRollout is superseded, however many releases were superseded before", func(h tale) {
		h.live()
		h.gates(ConfirmRollout)
		h.hooks[ConfirmRollout] = "no"
		for _, v := range []string{"1.1.0", "1.2.0", "1.3.0", "1.4.0"} {
			h.push(v)
			h.run(time.Minute)
		}
		h.push("1.5.0")
		h.run(24 * time.Hour)
		h.want("hooks are called for the newest version", map[string]string{"1.0.0": "active 100", "1.5.0": "pending 0"})
	}},
	{"hooks: a first release that is not approved is not active after the rollout state is lost", func(h tale) {
		h.gates(PreRollout)
		h.hooks[PreRollout] = "no"
		h.push("1.0.0")
		h.run(time.Hour)
		h.want("waits", map[string]string{"1.0.0": "pending 0"})
		h.loseState()
		h.run(time.Hour)
		h.want("the rollout state is lost", map[string]string{"1.0.0": "pending 0"})
		h.state("the rollout state is lost", "AwaitingGate", true)
		h.push("1.1.0")
		h.run(time.Minute)
		h.loseState()
		h.run(time.Hour)
		h.want("the rollout state is lost during another rollout", map[string]string{"1.1.0": "pending 0"})
		h.hooks[PreRollout] = ""
		h.run(time.Hour)
		h.want("approved", map[string]string{"1.1.0": "active 100"})
		h.loseState()
		h.hooks[PreRollout] = "no"
		h.run(time.Hour)
		h.want("the active release is recovered", map[string]string{"1.1.0": "active 100"})
	}},
	{"hooks: a first release without pods gets none after the rollout state is lost", func(h tale) {
		h.policy("web")
		h.gates(ConfirmRollout)
		h.hooks[ConfirmRollout] = "no"
		h.push("1.0.0")
		h.run(time.Hour)
		h.loseState()
		h.run(time.Hour)
		h.want("the rollout state is lost", map[string]string{"1.0.0": "pending 0"})
		if n := h.object("1.0.0").Replicas; n != 0 {
			h.fail("it has %d replicas", n)
		}
	}},
	{"hooks: a release that is not marked as never active stays active after the rollout state is lost", func(h tale) {
		h.live()
		h.gates(ConfirmRollout, PreRollout)
		h.hooks[ConfirmRollout], h.hooks[PreRollout] = "no", "no"
		h.push("1.1.0")
		h.run(time.Hour)
		h.loseState()
		h.run(time.Hour)
		h.want("the rollout state is lost", map[string]string{"1.0.0": "active 100", "1.1.0": "pending 0"})
	}},
	{"hooks: the NeverActive mark of an approved release is removed, and does not return", func(h tale) {
		h.policy("web")
		h.gates(PreRollout)
		h.hooks[PreRollout] = "no"
		h.push("1.0.0")
		h.run(time.Hour)
		if !h.object("1.0.0").NeverActive {
			h.fail("1.0.0 waits and is not marked as never active")
		}
		h.decideOn("1.0.0", Adopt, "")
		h.run(time.Minute)
		h.want("adopted", map[string]string{"1.0.0": "active 100"})
		if h.object("1.0.0").NeverActive {
			h.fail("1.0.0 is active and marked as never active")
		}
	}},
	{"hooks: previews that wait for ConfirmRollout do not keep other previews from starting", func(h tale) {
		h.edit("preview gates", func(s *Spec) {
			s.PreviewGates, s.Previews = []Point{ConfirmRollout}, Previews{MaxGroups: 3 * maxStarting}
		})
		h.hooks[ConfirmRollout] = "no"
		h.policy("web")
		for n := range 2 * maxStarting {
			h.push(fmt.Sprintf("pr-%d-a", n+1))
		}
		h.run(time.Hour)
		h.state("hooks are called for each preview", "AwaitingTurn", false)
		h.startup = time.Minute
		h.hooks[ConfirmRollout] = ""
		h.run(30 * time.Second)
		h.state("a limited number starts at a time", "AwaitingTurn", true)
		h.run(10 * time.Minute)
		h.want("end", map[string]string{"pr-1-a": "active 100", fmt.Sprintf("pr-%d-a", 2*maxStarting): "active 100"})
	}},
}

func init() { histories = append(histories, gated...) }

// TestAnswers checks that answers for another rollout, step, point or wait have no
// effect.
func TestAnswers(t *testing.T) {
	t.Parallel()
	const slug = "1-x"
	wait := t0.Add(-time.Hour)
	observe := func(run Rollout, spec Spec, c Object) Observed {
		spec.Replicas, spec.MinimumAvailable, spec.Deadline = 1, 2, time.Minute
		run.Release, run.Sequence, run.Step, run.Started, run.WaitingSince, run.StepsHash, run.Floor = "new", 7, 1, wait, wait, stepsHash(spec.Steps), 1
		c.Release, c.Slug, c.Name, c.Version, c.Replicas, c.Available = "new", slug, "1.x", "1.1.0", 1, 1
		return Observed{
			Spec: spec, Objects: []Object{c, {Release: "old", Slug: slug, Name: "1.x", Version: "1.0.0", Replicas: 1, Available: 1}},
			State: State{Sequence: 9, Groups: []Group{{
				Slug: slug, Name: "1.x", Phase: Live, TrafficRevision: 8, Target: Target{Release: "new", Reason: "Latest"}, Rollout: &run,
				Releases: []Row{
					{Release: "new", Version: "1.1.0", Status: Canary, Weight: 10, Available: true},
					{Release: "old", Version: "1.0.0", Status: Active, Weight: 90, Available: true, Promoted: 1},
				},
			}}},
		}
	}
	stands := func(o Observed) Status { return Plan(o, t0).State.Groups[0].Row("new").Status }

	agree := GateFact{Rollout: 7, Step: 1, Point: ConfirmPromotion, Since: wait, Open: true}
	for name, test := range map[string]struct {
		change func(*GateFact)
		want   Status
	}{
		"same rollout, step, point and wait": {func(*GateFact) {}, Active},
		"another rollout":                    {func(f *GateFact) { f.Rollout = 6 }, Canary},
		"another step":                       {func(f *GateFact) { f.Step = 2 }, Canary},
		"another point":                      {func(f *GateFact) { f.Point = ConfirmTrafficIncrease }, Canary},
		"another wait":                       {func(f *GateFact) { f.Since = t0 }, Canary},
		"not approved":                       {func(f *GateFact) { f.Open = false }, Canary},
		"rejected permanently":               {func(f *GateFact) { f.Open, f.Failed = false, true }, Error},
	} {
		t.Run("gate: "+name, func(t *testing.T) {
			t.Parallel()
			f := agree
			test.change(&f)
			o := observe(Rollout{Gate: ConfirmPromotion, GateTime: wait}, Spec{Steps: []Step{{Weight: 10}}, Gates: []Point{ConfirmPromotion}}, Object{Gates: []GateFact{f}})
			if got := stands(o); got != test.want {
				t.Errorf("status %s, want %s", got, test.want)
			}
		})
	}

	passed := Verdict{Rollout: 7, Step: 1, Since: wait, Phase: VerdictPassed}
	for name, test := range map[string]struct {
		change func(*Verdict)
		want   Status
	}{
		"same rollout, step, point and wait": {func(*Verdict) {}, Active},
		"another rollout":                    {func(v *Verdict) { v.Rollout = 6 }, Canary},
		"another step":                       {func(v *Verdict) { v.Step = 2 }, Canary},
		"another wait":                       {func(v *Verdict) { v.Since = t0 }, Canary},
		"inconclusive":                       {func(v *Verdict) { v.Phase = VerdictInconclusive }, Canary},
		"an unknown phase":                   {func(v *Verdict) { v.Phase = "Splendid" }, Canary},
		"failed":                             {func(v *Verdict) { v.Phase = VerdictFailed }, Error},
		"failed, in an earlier step":         {func(v *Verdict) { v.Phase, v.Step, v.Since = VerdictFailed, 0, time.Time{} }, Error},
		"failed, in another rollout":         {func(v *Verdict) { v.Phase, v.Rollout = VerdictFailed, 6 }, Canary},
	} {
		t.Run("verdict: "+name, func(t *testing.T) {
			t.Parallel()
			v := passed
			test.change(&v)
			if got := stands(observe(Rollout{}, Spec{Steps: []Step{{Weight: 10}}, Analysis: true}, Object{Analysis: &v})); got != test.want {
				t.Errorf("status %s, want %s", got, test.want)
			}
		})
	}

	for name, test := range map[string]struct {
		run  int64
		want Status
	}{"same rollout": {7, Error}, "another rollout": {6, Active}} {
		t.Run("rollback: "+name, func(t *testing.T) {
			t.Parallel()
			if got := stands(observe(Rollout{}, Spec{Steps: []Step{{Weight: 10}}}, Object{Rollback: &RollbackFact{Rollout: test.run}})); got != test.want {
				t.Errorf("status %s, want %s", got, test.want)
			}
		})
	}
}

// atItsHooks returns a group in which the "new" release is waiting for its PreRollout hooks while the
// "old" release is active.
func atItsHooks(spec Spec, started time.Time, available int, answers ...GateFact) Observed {
	const slug = "1-x"
	return Observed{
		Spec: spec,
		Objects: []Object{
			{Release: "new", Slug: slug, Name: "1.x", Version: "1.1.0", Replicas: 1, Available: available, Gates: answers},
			{Release: "old", Slug: slug, Name: "1.x", Version: "1.0.0", Replicas: 1, Available: 1},
		},
		State: State{Sequence: 9, Groups: []Group{{
			Slug: slug, Name: "1.x", Phase: Live, TrafficRevision: 8, Target: Target{Release: "new", Reason: "Latest"},
			Rollout: &Rollout{Release: "new", Sequence: 7, Started: started, StepsHash: stepsHash(spec.Steps), Floor: 1},
			Releases: []Row{
				{Release: "new", Version: "1.1.0", Status: Pending},
				{Release: "old", Version: "1.0.0", Status: Active, Weight: 100, Available: true, Promoted: 1},
			},
		}}},
	}
}

// TestPreRolloutWaitsForDomainsOfTheCanary checks that hooks that test a release are called only
// when the canary domains, if there are any, route to the release.
func TestPreRolloutWaitsForDomainsOfTheCanary(t *testing.T) {
	t.Parallel()
	const slug = "1-x"
	spec := Spec{Replicas: 1, MinimumAvailable: 2, Deadline: time.Minute, Steps: []Step{{Weight: 10}}, Gates: []Point{PreRollout}}
	plan := func(settled int64, reports ...Report) Result {
		o := atItsHooks(spec, t0.Add(-time.Second), 1)
		o.State.Groups[0].SettledRevision = settled
		for _, r := range reports {
			r.Slug = slug
			o.Policies = append(o.Policies, Policy{Name: "shop", Groups: []Report{r}})
		}
		return Plan(o, t0)
	}
	for name, test := range map[string]struct {
		settled int64
		reports []Report
		asked   bool
	}{
		"no policy":                                   {0, nil, true},
		"no canary domains":                           {0, []Report{{Revision: 8}}, true},
		"the domains route to the release":            {0, []Report{{Revision: 8, CanaryDomains: true, Canary: "new"}}, true},
		"the domains do not route to the release yet": {0, []Report{{Revision: 8, CanaryDomains: true}}, false},
		"the domains route to another release":        {0, []Report{{Revision: 8, CanaryDomains: true, Canary: "old"}}, false},
		"the domains of only one of two policies":     {0, []Report{{Revision: 8, CanaryDomains: true, Canary: "new"}, {Revision: 8, CanaryDomains: true}}, false},
		"a policy that never confirmed":               {0, []Report{{Revision: 8, CanaryDomains: true, Canary: "new"}, {CanaryDomains: true}}, true},
		"a policy behind the settled revision":        {8, []Report{{Revision: 8, CanaryDomains: true, Canary: "new"}, {Revision: 5, CanaryDomains: true}}, true},
		"a policy with a message":                     {0, []Report{{Revision: 8, CanaryDomains: true, Message: "no listener"}}, false},
		"a policy without a revision":                 {0, []Report{{Revision: 8}, {CanaryDomains: true}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := plan(test.settled, test.reports...)
			g := p.State.Groups[0]
			if g.Rollout == nil || g.Rollout.Gate != PreRollout || g.Row("new").Status != Pending {
				t.Fatalf("run %+v", g.Rollout)
			}
			if got := !g.Rollout.GateTime.IsZero(); got != test.asked {
				t.Errorf("hooks are called: %t, want %t", got, test.asked)
			}
			reported := false
			for _, n := range p.Notes {
				reported = reported || n.Reason == "AwaitingGate" && strings.Contains(n.Message, "do not route to the release yet")
			}
			if reported == test.asked {
				t.Errorf("wait for the canary domains is reported: %t", reported)
			}
		})
	}
}

// TestPreRolloutIsCalledAgainAfterDomainsRoutedElsewhere covers canary domains that route to another release for a while. The PreRollout
// hooks have tested that other release, so their answers do not count. The hooks are called again when the domains route to the canary
// again.
func TestPreRolloutIsCalledAgainAfterDomainsRoutedElsewhere(t *testing.T) {
	t.Parallel()
	const slug = "1-x"
	spec := Spec{Replicas: 1, MinimumAvailable: 2, Deadline: 10 * time.Minute, Steps: []Step{{Weight: 10}}, Gates: []Point{PreRollout}, RollBack: true}
	for name, test := range map[string]struct {
		answer    GateFact
		available int
	}{
		"the hooks have not responded":                    {GateFact{}, 1},
		"the hooks have not responded, and pods are lost": {GateFact{}, 0},
		"the hooks approved":                              {GateFact{Open: true}, 1},
		"the hooks approved, and pods are lost":           {GateFact{Open: true}, 0},
		"the hooks rejected the release":                  {GateFact{Failed: true}, 1},
		"the receiver did not respond":                    {GateFact{Unanswered: true}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asked := t0.Add(-time.Second)
			fact := test.answer
			fact.Rollout, fact.Point, fact.Since = 7, PreRollout, asked
			o := atItsHooks(spec, asked, test.available, fact)
			run := o.State.Groups[0].Rollout
			run.Gate, run.GateTime = PreRollout, asked
			o.Policies = []Policy{{Name: "shop", Groups: []Report{{Slug: slug, Revision: 8, CanaryDomains: true}}}}
			g := Plan(o, t0).State.Groups[0]
			if g.Rollout == nil || g.Rollout.Gate != PreRollout || !g.Rollout.GateTime.IsZero() || g.Row("new").Status != Pending {
				t.Fatalf("the domains route to another release: rollout %+v, %s", g.Rollout, g.Row("new").Status)
			}
			later, back := atItsHooks(spec, asked, 1, fact), t0.Add(time.Minute)
			later.State, later.Policies = Plan(o, t0).State, o.Policies
			later.Policies[0].Groups[0].Canary = "new"
			g = Plan(later, back).State.Groups[0]
			if g.Rollout == nil || g.Rollout.Gate != PreRollout || !g.Rollout.GateTime.Equal(back) || g.Row("new").Status != Pending {
				t.Errorf("the domains route to the canary again: rollout %+v, %s", g.Rollout, g.Row("new").Status)
			}
		})
	}
}

// TestDomainsOfTheCanaryThatNeverRoute covers canary domains that a gateway rejects, which is a problem outside the release. The hooks
// are not called, because they would test another release. After the deadline, the rollout reports that it is waiting, does not block
// newer versions, and continues when the problem is solved.
func TestDomainsOfTheCanaryThatNeverRoute(t *testing.T) {
	t.Parallel()
	const slug = "1-x"
	spec := Spec{Replicas: 1, MinimumAvailable: 2, Deadline: 10 * time.Minute, Steps: []Step{{Weight: 10}}, Gates: []Point{PreRollout}}
	row := func(release, version string, status Status, weight int) Row {
		return Row{Release: release, Version: version, Status: status, Weight: weight, Available: status == Active}
	}
	start := func() Observed {
		o := Observed{
			Config: "c1", Spec: spec,
			Candidates: []Candidate{{Slug: slug, Name: "1.x", Level: "Release", Version: "1.1.0", Release: "new"}, {Slug: slug, Name: "1.x", Level: "Release", Version: "1.0.0", Release: "old"}},
			Objects: []Object{
				{Release: "new", Slug: slug, Name: "1.x", Version: "1.1.0", Config: "c1", Replicas: 1, Available: 1},
				{Release: "old", Slug: slug, Name: "1.x", Version: "1.0.0", Config: "c1", Replicas: 1, Available: 1},
			},
			State: State{Sequence: 9, Groups: []Group{{
				Slug: slug, Name: "1.x", Level: "Release", Phase: Live, TrafficRevision: 8, Target: Target{Release: "new", Reason: "Latest"},
				Rollout:  &Rollout{Release: "new", Sequence: 7, Started: t0, StepsHash: stepsHash(spec.Steps), Floor: 1},
				Releases: []Row{row("new", "1.1.0", Pending, 0), row("old", "1.0.0", Active, 100)},
			}}},
			Policies: []Policy{{Name: "colleague", Groups: []Report{{Slug: slug, Revision: 8, Active: "old", CanaryDomains: true, Message: "domain \"try.shop.example\": the Gateway is unavailable"}}}},
		}
		o.State.Groups[0].Releases[1].Promoted = 1
		return o
	}
	plan := func(o *Observed, now time.Time) (p Result) {
		for range 5 {
			p = Plan(*o, now)
			if !p.Changed {
				break
			}
			o.State = p.State
		}
		return p
	}
	message := func(p Result, reason Reason, event bool) string {
		for _, n := range p.Notes {
			if n.Reason == reason && n.Event == event {
				return n.Message
			}
		}
		return ""
	}
	o := start()
	p := Plan(o, t0.Add(time.Minute))
	o.State = p.State
	if got := message(p, "AwaitingGate", false); !strings.Contains(got, "colleague") || !strings.Contains(got, "try.shop.example") {
		t.Errorf("within the deadline: message %q, want the domains that are not programmed", got)
	}
	p = Plan(o, t0.Add(9*time.Minute))
	if got := message(p, Blocked, false); got != "" || p.RequeueTime.IsZero() {
		t.Errorf("before the deadline: blocked (%q), requeue at %s", got, p.RequeueTime)
	}
	p = Plan(o, p.RequeueTime)
	o.State = p.State
	for _, event := range []bool{true, false} {
		if got := message(p, Blocked, event); !strings.Contains(got, string(noDomains)) || !strings.Contains(got, "colleague") || !strings.Contains(got, "try.shop.example") {
			t.Errorf("at the deadline: event %t, message %q", event, got)
		}
	}
	p = plan(&o, t0.Add(48*time.Hour))
	if run := p.State.Groups[0].Rollout; run == nil || run.WaitsFor != noDomains || !run.GateTime.IsZero() {
		t.Fatalf("after two days: %+v", run)
	}

	newer := o
	newer.Candidates = append([]Candidate{{Slug: slug, Name: "1.x", Level: "Release", Version: "1.2.0", Release: "newer"}}, o.Candidates...)
	newer.State.Groups = []Group{o.State.Groups[0].copied()}
	newer.State.Groups[0].Superseded = MaxSuperseded
	if p := plan(&newer, t0.Add(49*time.Hour)); p.State.Groups[0].Rollout == nil || p.State.Groups[0].Rollout.Release != "newer" {
		t.Errorf("the newer version does not start: %+v", p.State.Groups[0].Rollout)
	}
	newer.State.Groups = []Group{o.State.Groups[0].copied()}
	newer.State.Groups[0].Superseded = MaxSuperseded
	waiting := newer.State.Groups[0].Row(newer.State.Groups[0].Rollout.Release)
	newer.State.Groups[0].Rollout.WaitsFor, waiting.RetryTime = "", t0.Add(50*time.Hour)
	newer.Policies[0].Groups[0].Canary, newer.Policies[0].Groups[0].Message = "new", ""
	if p := plan(&newer, t0.Add(49*time.Hour)); p.State.Groups[0].Rollout == nil || p.State.Groups[0].Rollout.Release != "newer" {
		t.Errorf("the newer version does not start while the release waits for its next attempt: %+v", p.State.Groups[0].Rollout)
	}

	o.Policies[0].Groups[0].Canary, o.Policies[0].Groups[0].Message = "new", ""
	p = plan(&o, t0.Add(50*time.Hour))
	if run := p.State.Groups[0].Rollout; run == nil || run.WaitsFor != "" || run.GateTime.IsZero() {
		t.Errorf("hooks are not called after the gateway responds again: %+v", run)
	}
}

// TestPreRolloutWaitsForDomainsThatLeaveTheOlderGroup checks that PreRollout hooks test the first release of a newer group only after the
// canary domains have left the older group.
func TestPreRolloutWaitsForDomainsThatLeaveTheOlderGroup(t *testing.T) {
	t.Parallel()
	spec := Spec{Replicas: 1, MinimumAvailable: 2, Deadline: time.Minute, Steps: []Step{{Weight: 10}}, Gates: []Point{PreRollout}}
	newest := true
	report := Report{Slug: "2-x", CanaryDomains: true}
	asked := func(reports ...Report) bool {
		t.Helper()
		g := Plan(Observed{
			Spec: spec,
			Objects: []Object{
				{Release: "new", Slug: "2-x", Name: "2.x", Version: "2.0.0", Replicas: 1, Available: 1},
				{Release: "old", Slug: "1-x", Name: "1.x", Version: "1.0.0", Replicas: 1, Available: 1},
			},
			State: State{Sequence: 9, Groups: []Group{
				{
					Slug: "2-x", Name: "2.x", Phase: Live, Target: Target{Release: "new", Reason: "Latest"},
					Rollout:  &Rollout{Release: "new", Sequence: 7, Started: t0.Add(-time.Second), StepsHash: stepsHash(spec.Steps), Floor: 1, From: "1-x"},
					Releases: []Row{{Release: "new", Version: "2.0.0", Status: Pending}},
				},
				{
					Slug: "1-x", Name: "1.x", Phase: Live, TrafficRevision: 8, Target: Target{Release: "old", Reason: "Held"},
					Releases: []Row{{Release: "old", Version: "1.0.0", Status: Active, Weight: 100, Available: true, Promoted: 1}},
				},
			}},
			Policies: []Policy{
				{Name: "shop", Groups: []Report{{Slug: "1-x", Revision: 8, Newest: newest, Active: "old", References: []string{"old"}}, {Slug: "2-x"}}},
				{Name: "try", Groups: append([]Report{{Slug: "1-x", Revision: 8, Active: "old", References: []string{"old"}}}, reports...)}, // The policy has domains only for canaries.
			},
		}, t0).State.Groups[0]
		if g.Slug != "2-x" || g.Rollout == nil || g.Rollout.Gate != PreRollout {
			t.Fatalf("the rollout does not reach its PreRollout hooks: %+v", g)
		}
		return !g.Rollout.GateTime.IsZero()
	}
	if asked() {
		t.Error("hooks are called before the policy reports whether it has a domain for the canary of the group")
	}
	if asked(report) {
		t.Error("hooks are called while the domain of the canary routes to the older group")
	}
	if !asked(Report{Slug: "2-x"}) {
		t.Error("hooks are not called although there is no domain for the canary")
	}
	newest = false
	if asked(report) {
		t.Error("hooks are called while the domain of the canary routes to the older group, from which no other domain moves")
	}
	newest, report.Canary = true, "new"
	if !asked(report) {
		t.Error("hooks are not called although the domain of the canary routes to the release")
	}
}

// TestPreRolloutWaitsForDomainsOfAGroupThatEnds covers canary domains of the newest group that move to the next group when their group ends. Until
// the policy reports the move, hooks of the next group are not called, because they would reach the release of the group that is ending.
func TestPreRolloutWaitsForDomainsOfAGroupThatEnds(t *testing.T) {
	t.Parallel()
	spec := Spec{Replicas: 1, MinimumAvailable: 2, Deadline: time.Minute, Steps: []Step{{Weight: 10}}, Gates: []Point{PreRollout}}
	asked := func(reports ...Report) bool {
		t.Helper()
		o := atItsHooks(spec, t0.Add(-time.Second), 1)
		o.State.Groups = append([]Group{{Slug: "2-x", Name: "2.x", Phase: Closing, TrafficRevision: 9}}, o.State.Groups...)
		o.State.Groups[0].Releases = []Row{{Release: "ended", Version: "2.0.0", Status: Deprecated, Promoted: 1, Zero: &Zero{Revision: 9, Time: t0}}}
		o.Policies = []Policy{{Name: "shop", Groups: reports}}
		groups := Plan(o, t0).State.Groups
		g := groups[len(groups)-1]
		if g.Slug != "1-x" || g.Rollout == nil || g.Rollout.Gate != PreRollout {
			t.Fatalf("the rollout does not reach its PreRollout hooks: %+v", g)
		}
		return !g.Rollout.GateTime.IsZero()
	}
	if asked(Report{Slug: "2-x", CanaryDomains: true}, Report{Slug: "1-x", Revision: 8}) {
		t.Error("hooks are called while the canary domains belong to the group that is ending")
	}
	if asked(Report{Slug: "2-x"}, Report{Slug: "1-x", Revision: 9}) {
		t.Error("hooks are called although the policy reports about an earlier group with the same name")
	}
	if asked(Report{Slug: "2-x"}, Report{Slug: "1-x", Revision: 8, CanaryDomains: true}) {
		t.Error("hooks are called before the canary domains route to the release")
	}
	if !asked(Report{Slug: "2-x"}, Report{Slug: "1-x", Revision: 8, CanaryDomains: true, Canary: "new"}) {
		t.Error("hooks are not called although the canary domains route to the release")
	}
}

// TestUnconfirmedPolicyDoesNotBlockARecreatedRelease covers a policy that no gateway confirms. Its routes refer to the release of a newer
// group, and that release was created again with the same name. The policy cannot confirm that its routes no longer refer to the release,
// and must not prevent the release from going through its steps.
func TestUnconfirmedPolicyDoesNotBlockARecreatedRelease(t *testing.T) {
	t.Parallel()
	spec := Spec{Replicas: 1, MinimumAvailable: 2, Deadline: time.Minute, Steps: []Step{{Weight: 10, Pause: time.Hour}}}
	takes := func(odd int64) bool {
		o := Observed{
			Spec: spec,
			Objects: []Object{
				{Release: "new", Slug: "2-x", Name: "2.x", Version: "2.0.0", Replicas: 1, Available: 1},
				{Release: "old", Slug: "1-x", Name: "1.x", Version: "1.0.0", Replicas: 1, Available: 1},
			},
			State: State{Sequence: 9, Groups: []Group{
				{
					Slug: "2-x", Name: "2.x", Phase: Live, TrafficRevision: 7, TrafficTime: t0, Target: Target{Release: "new", Reason: "Latest"},
					Rollout:  &Rollout{Release: "new", Sequence: 7, Started: t0, StepsHash: stepsHash(spec.Steps), Floor: 1, From: "1-x"},
					Releases: []Row{{Release: "new", Version: "2.0.0", Status: Pending, Zero: &Zero{Revision: 7, Time: t0}}},
				},
				{
					Slug: "1-x", Name: "1.x", Phase: Live, TrafficRevision: 8, TrafficTime: t0, Target: Target{Release: "old", Reason: "Held"},
					Releases: []Row{{Release: "old", Version: "1.0.0", Status: Active, Weight: 100, Available: true, Promoted: 1}},
				},
			}},
			Policies: []Policy{
				{Name: "shop", Groups: []Report{{Slug: "1-x", Revision: 8, Active: "old", References: []string{"old"}}, {Slug: "2-x"}}},
				{Name: "odd", Groups: []Report{{Slug: "1-x", Newest: true}, {Slug: "2-x", Revision: odd, References: []string{"new"}, Reason: "NotAccepted"}}},
			},
		}
		return Plan(o, t0.Add(time.Second)).State.Groups[0].Releases[0].Weight == 10
	}
	if !takes(0) {
		t.Error("the release waits for a policy that never confirmed its group")
	}
	if takes(6) {
		t.Error("the release does not wait for a policy that confirmed its group before the release was removed from the routes")
	}
}

// TestFailedReleaseWithJobs checks that a failed release keeps its row until its hook Jobs have ended, even if its version is denied or the
// template changes. Otherwise, its migration would not be reverted, and the next version would wait.
func TestFailedReleaseWithJobs(t *testing.T) {
	for what, next := range map[string]func(h tale){
		"template": func(h tale) { h.configure("c2") },
		"denied":   func(h tale) { h.withdraw("1.1.0", Denied) },
	} {
		h := tale{newWorld()}
		h.live()
		h.gates(ConfirmRollout)
		h.edit("failure jobs", func(s *Spec) { s.FailureJobs = true })
		h.broken["1.1.0"] = "CrashLoopBackOff"
		h.push("1.1.0")
		h.run(time.Minute)
		o := h.object("1.1.0")
		o.ActiveJobs = true
		h.run(30 * time.Minute)
		o.Reported = Error
		next(h)
		delete(h.broken, "1.1.0")
		h.push("1.2.0")
		h.run(24 * time.Hour)
		if h.rolloutState.group("1-x").Row(o.Release) != nil {
			o.ActiveJobs = false // with a row, its revert hook is called, and its Job ends
		}
		h.run(24 * time.Hour)
		g := h.rolloutState.group("1-x")
		if g.Row(o.Release) == nil && h.objects[o.Release] != nil {
			t.Errorf("%s: the row of %s was dropped while a Job of its hooks had not ended, or while its revert hook was waiting", what, o.Release)
		}
		if a := g.ActiveRow(); a == nil || a.Version != "1.2.0" {
			t.Errorf("%s: 1.2.0 is not active two days later", what)
		}
	}
}

// TestFirstCallInAFreeze checks that ConfirmRollout hooks that waited for Jobs of another release are not called for the first time during a
// freeze or a pause.
func TestFirstCallInAFreeze(t *testing.T) {
	for what, set := range map[string]func(*Spec){
		"freeze": func(s *Spec) { s.Freeze = &Freeze{Name: "f", Reason: "r"} },
		"pause":  func(s *Spec) { s.Paused = true },
	} {
		h := tale{newWorld()}
		h.live()
		h.gates(ConfirmRollout)
		h.broken["1.1.0"] = "CrashLoopBackOff"
		h.push("1.1.0")
		h.run(time.Minute)
		h.object("1.1.0").ActiveJobs = true
		h.run(30 * time.Minute)
		h.push("1.2.0")
		h.run(time.Minute)
		run := h.rolloutState.group("1-x").Rollout
		if run == nil || !run.GateTime.IsZero() {
			t.Fatalf("%s: %+v", what, run)
		}
		h.edit(what, set)
		h.run(time.Minute)
		h.object("1.1.0").ActiveJobs = false
		h.run(time.Hour)
		if run = h.rolloutState.group("1-x").Rollout; !run.GateTime.IsZero() {
			t.Errorf("%s: the %s hooks are called at %s, gates %+v", what, run.Gate, run.GateTime.Sub(t0), h.object("1.2.0").Gates)
		}
	}
}

// TestPauseBeforeTheFirstCall checks that a release whose hooks are not called during a pause shows the pause rather than a missing response
// from its hooks.
func TestPauseBeforeTheFirstCall(t *testing.T) {
	h := tale{newWorld()}
	h.live()
	h.gates(ConfirmRollout)
	h.broken["1.1.0"] = "CrashLoopBackOff"
	h.push("1.1.0")
	h.run(time.Minute)
	h.object("1.1.0").ActiveJobs = true
	h.run(30 * time.Minute)
	h.push("1.2.0")
	h.run(time.Minute)
	h.edit("pause", func(s *Spec) { s.Paused = true })
	h.object("1.1.0").ActiveJobs = false
	o, _, _ := h.observe(lags{})
	for i := range o.Objects {
		o.Objects[i].Gates = nil // The Microservice controller reads no answer from a hook that was not called.
	}
	var said []string
	for _, n := range Plan(o, h.now).Notes {
		if n.Version == "1.2.0" && !n.Event {
			said = append(said, string(n.Reason)+": "+n.Message)
		}
	}
	if got, want := strings.Join(said, "\n"), "Paused: 1.2.0 is waiting without pods: spec.paused is true"; got != want {
		t.Errorf("got messages %q, want %q", got, want)
	}
}

// TestJobsOfReplacedRelease checks that the Job of a release that was active does not prevent the migration of the next version, even when
// the release is no longer retained.
func TestJobsOfReplacedRelease(t *testing.T) {
	h := tale{newWorld()}
	h.live()
	h.gates(ConfirmRollout)
	h.edit("one release", func(s *Spec) { s.MinimumAvailable = 1 })
	h.object("1.0.0").ActiveJobs = true // the Job of a PostRollout hook
	h.push("1.1.0")
	h.run(time.Hour)
	h.push("1.2.0")
	h.run(time.Hour)
	h.want("a Job of 1.0.0 runs", map[string]string{"1.1.0": "", "1.2.0": "active 100"})
	if n := h.object("1.0.0").Replicas; n > 0 {
		h.fail("1.0.0, which is kept only because of its Job, has %d replicas", n)
	}
	h.object("1.0.0").ActiveJobs = false
	h.run(time.Hour)
	h.want("the Job has ended", map[string]string{"1.0.0": "", "1.1.0": "", "1.2.0": "active 100"})
	if h.err != nil {
		t.Error(h.err)
	}
}

// TestFailedReleaseOfAGroupThatEnds checks that a failed release keeps its row until its hook Jobs have ended, even if its group ends.
// Otherwise, its migration would not be reverted. The release has no pods during this time.
func TestFailedReleaseOfAGroupThatEnds(t *testing.T) {
	h := tale{newWorld()}
	h.live()
	h.push("2.0.0")
	h.run(time.Hour)
	h.gates(ConfirmRollout)
	h.edit("failure jobs", func(s *Spec) { s.FailureJobs = true })
	h.broken["1.1.0"] = "CrashLoopBackOff"
	h.push("1.1.0")
	h.run(30 * time.Minute)
	o := h.object("1.1.0")
	o.ActiveJobs = true // the migration
	h.edit("end", func(s *Spec) { s.Ended = []string{"1.x"} })
	h.run(time.Hour)
	if g := h.rolloutState.group("1-x"); g == nil || g.Row(o.Release) == nil {
		t.Fatalf("the row of %s was dropped while one of its hook Jobs was still running, so its revert hook will not be called", o.Version)
	}
	if o.Replicas > 0 {
		t.Errorf("%s, which is kept only because of its Jobs, has %d replicas", o.Version, o.Replicas)
	}
	h.message("it waits", "AwaitingJobs", "group 1.x has ended, and 1.1.0 is removed when the Jobs of its hooks have ended")
	o.Reported = Error // The revert hook has been called.
	h.run(time.Hour)
	o.UncreatedJob = "revert" // The API server rejects its Job.
	h.run(time.Hour)
	h.message("its revert hook waits", "AwaitingJobs", "group 1.x has ended, and 1.1.0 is removed when the Jobs of its hooks have ended; the API server rejects the Job of its hook \"revert\": change that hook, or fix the cause of the rejection")
	o.UncreatedJob = "" // The Job is accepted.
	h.run(time.Hour)
	o.ActiveJobs = false // The Job has ended.
	h.run(time.Hour)
	if g := h.rolloutState.group("1-x"); g != nil {
		t.Errorf("the group did not end:\n%s", renderGroup(g))
	}
	if h.err != nil {
		t.Error(h.err)
	}
}

// TestMigrationOfAnAdoptedRelease checks that the migration of the next version waits for the migration of a release that a user adopted
// while its migration was running. Other Jobs of an active release do not delay the next version.
func TestMigrationOfAnAdoptedRelease(t *testing.T) {
	h := tale{newWorld()}
	h.live()
	h.gates(ConfirmRollout)
	h.hooks[ConfirmRollout] = "no"
	h.push("1.1.0")
	h.run(time.Minute)
	o := h.object("1.1.0")
	o.ActiveJobs, o.GateJobs = true, true
	h.decideOn("1.1.0", Adopt, "")
	h.run(time.Hour)
	h.want("adopted", map[string]string{"1.0.0": "deprecated 0", "1.1.0": "active 100"})
	delete(h.hooks, ConfirmRollout)
	h.push("1.2.0")
	h.run(time.Hour)
	h.want("the migration of 1.1.0 runs", map[string]string{"1.1.0": "active 100", "1.2.0": "pending 0"})
	h.message("the migration of 1.1.0 runs", "AwaitingGate", "1.2.0 is waiting without pods: its ConfirmRollout hooks are called when the hook Jobs of 1.1.0 have ended")
	o.GateJobs = false // A cleanup runs.
	h.run(time.Hour)
	h.want("the migration of 1.1.0 has ended", map[string]string{"1.1.0": "deprecated 0", "1.2.0": "active 100"})
	if h.err != nil {
		t.Error(h.err)
	}
}

// TestRowsOfFailuresWithJobs checks that a version that does not start because the group has no free row shows which Jobs it is
// waiting for.
func TestRowsOfFailuresWithJobs(t *testing.T) {
	h := tale{newWorld()}
	h.live()
	for i := 1; i < maxRows; i++ {
		version := fmt.Sprintf("1.%d.0", i)
		h.broken[version] = "CrashLoopBackOff"
		h.push(version)
		h.run(time.Minute)
		h.object(version).ActiveJobs = true
		h.run(30 * time.Minute)
	}
	h.push("1.99.0")
	h.run(time.Hour)
	h.message("full", TooManyReleases, fmt.Sprintf("1.99.0 is waiting: group 1.x has %d releases, and hook Jobs of %d of them, such as 1.%d.0, have not ended; stop these Jobs", maxRows, maxRows-1, maxRows-1))
	h.object("1.1.0").ActiveJobs = false
	h.run(time.Hour)
	h.want("a Job has ended", map[string]string{"1.99.0": "active 100"})
	if h.err != nil {
		t.Error(h.err)
	}
}

// TestRejectedJobOfAFailure checks that the message about a version that waits for a Job names the hook if the API server rejects that Job,
// because there is no Job that a user could end.
func TestRejectedJobOfAFailure(t *testing.T) {
	h := tale{newWorld()}
	h.live()
	h.gates(ConfirmRollout)
	h.broken["1.1.0"] = "CrashLoopBackOff"
	h.push("1.1.0")
	h.run(time.Minute)
	o := h.object("1.1.0")
	o.ActiveJobs, o.UncreatedJob = true, "revert"
	h.run(30 * time.Minute)
	h.push("1.2.0")
	h.run(time.Hour)
	h.message("it waits", "AwaitingGate", "1.2.0 is waiting without pods: its ConfirmRollout hooks are called when the hook Jobs of 1.1.0 have ended; the API server rejects the Job of its hook \"revert\": change that hook, or fix the cause of the rejection")
	if h.err != nil {
		t.Error(h.err)
	}
}

// TestJobsInAGroupThatEnds checks that a group that has ended shows that it is waiting for a Job of a release without a
// row.
func TestJobsInAGroupThatEnds(t *testing.T) {
	h := tale{newWorld()}
	h.live()
	h.push("2.0.0")
	h.run(time.Hour)
	h.object("1.0.0").ActiveJobs = true
	h.edit("end", func(s *Spec) { s.Ended = []string{"1.x"} })
	h.run(time.Hour)
	h.message("it waits", "AwaitingJobs", "group 1.x has ended, and 1.0.0 is removed when the Jobs of its hooks have ended")
	h.object("1.0.0").ActiveJobs = false
	h.run(time.Hour)
	if g := h.rolloutState.group("1-x"); g != nil {
		t.Errorf("the group did not end:\n%s", renderGroup(g))
	}
	if h.err != nil {
		t.Error(h.err)
	}
}

// TestSupersededAsItsJobStarts checks that a version does not begin its migration at the same time as the version that it supersedes.
// In one case, the planner has not observed yet that the Job of the superseded version has started. In the other case, that Job is
// about to start, because the release's controller has not observed yet that the release is superseded.
func TestSupersededAsItsJobStarts(t *testing.T) {
	for what, late := range map[string]bool{"it has started": false, "it starts next": true} {
		h := tale{newWorld()}
		h.live()
		h.jobs = true
		h.gates(ConfirmRollout)
		h.edit("Jobs", func(s *Spec) { s.GateJobs = true })
		plan := func(lag int) {
			h.snap()
			h.plan(h.leaders[0], lags{objects: lag})
			for h.perform(h.leaders[0]) {
			}
			h.snap()
		}
		h.push("1.1.0")
		plan(0)
		plan(0)
		o := h.object("1.1.0")
		h.measure(o, 0)
		h.snap()
		if !late {
			h.measure(o, 0)
		}
		h.push("1.2.0")
		plan(2)
		if late {
			h.measure(o, 3)
		}
		if o.kind != "migrate" {
			t.Fatalf("%s: no Job", what)
		}
		h.run(10 * time.Second)
		h.want(what, map[string]string{"1.0.0": "active 100", "1.1.0": "", "1.2.0": "pending 0"})
		h.run(time.Hour)
		h.want(what+", an hour later", map[string]string{"1.1.0": "", "1.2.0": "active 100"})
		if h.err != nil {
			t.Errorf("%s: %v", what, h.err)
		}
	}
}

// TestAbortedAsItsJobStarts checks that a version does not begin its migration while the migration of an aborted version is running.
// A user aborted that version a moment before its controller started its Job. No Job reverts the migration.
func TestAbortedAsItsJobStarts(t *testing.T) {
	h := tale{newWorld()}
	h.live()
	h.jobs = true
	h.gates(ConfirmRollout)
	h.edit("Jobs", func(s *Spec) { s.GateJobs = true })
	plan := func() {
		h.snap()
		h.plan(h.leaders[0], lags{})
		for h.perform(h.leaders[0]) {
		}
		h.snap()
	}
	h.push("1.1.0")
	plan()
	plan()
	o := h.object("1.1.0")
	h.measure(o, 0)
	h.snap()
	h.decideOn("1.1.0", Deprecate, "")
	h.push("1.2.0")
	plan()
	h.measure(o, 3)
	if o.kind != "migrate" {
		t.Fatal("no Job")
	}
	h.run(10 * time.Second)
	h.want("the Job of 1.1.0 runs", map[string]string{"1.0.0": "active 100", "1.1.0": "error 0", "1.2.0": "pending 0"})
	h.run(time.Hour)
	h.want("an hour later", map[string]string{"1.2.0": "active 100"})
	if h.err != nil {
		t.Error(h.err)
	}
}

// TestAbortedAgainAsItsJobStarts checks that the report of an earlier failure does not count if a user starts the release again, and aborts it
// a moment before its controller starts its Job.
func TestAbortedAgainAsItsJobStarts(t *testing.T) {
	h := tale{newWorld()}
	h.live()
	h.jobs = true
	h.gates(ConfirmRollout)
	h.edit("Jobs", func(s *Spec) { s.GateJobs = true })
	h.push("1.1.0")
	h.run(10 * time.Second)
	o := h.object("1.1.0")
	h.decideOn("1.1.0", Deprecate, "")
	h.run(time.Hour)
	h.want("aborted", map[string]string{"1.1.0": "error 0"})
	plan := func() {
		h.snap()
		h.plan(h.leaders[0], lags{})
		for h.perform(h.leaders[0]) {
		}
		h.snap()
	}
	h.decideOn("1.1.0", Retry, "")
	plan()
	h.want("started again", map[string]string{"1.1.0": "pending 0"})
	h.decideOn("1.1.0", Deprecate, "")
	h.push("1.2.0")
	plan()
	h.want("aborted again", map[string]string{"1.1.0": "error 0", "1.2.0": "pending 0"})
	for range 2 {
		h.measure(o, 2)
	}
	h.run(time.Hour)
	h.want("an hour later", map[string]string{"1.2.0": "active 100"})
	if h.err != nil {
		t.Error(h.err)
	}
}
