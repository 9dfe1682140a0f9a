package release

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"time"

	"github.com/heighliner/heighliner/internal/frozen"
)

// start begins the rollout of the target.
func start(s *scope) {
	target := s.g.Target.Release
	active := s.g.ActiveRow()
	if s.g.Phase != Live || s.g.Rollout != nil || target == "" || active != nil && active.Release == target {
		return
	}
	r := s.g.Row(target)
	if s.o.SourceStale && (r == nil || r.Promoted == 0) {
		return
	}
	if w := s.startWait(target, r); w != nil {
		s.record(w)
		return
	}
	if r == nil {
		cand, ok := s.offered(target)
		if !ok {
			return
		}
		if !s.freeRow() {
			s.crowded(cand.Version)
			return
		}
		s.g.Releases = append(s.g.Releases, Row{Release: target, Name: cand.Name, Version: cand.Version, Config: s.o.Config, Status: Pending, Reason: Started, Since: s.now, Decision: s.handled[target]})
		r = s.g.Row(target)
		if s.g.LastSuperseded == target {
			s.g.LastSuperseded = ""
		}
		s.rejectEarlier(r)
	}
	switch {
	case r.Status == Error:
		s.retryRow(r, RetriedAutomatically)
		s.event(r, false, Retrying, fmt.Sprintf("retrying %s (attempt %d): a problem outside the release caused the previous failure", r.Version, r.Attempt+1))
	case r.Promoted == 0:
		s.setStatus(r, Pending, Started)
	}
	s.touch(target)
	s.g.Rollout = s.newRollout(target)
	s.g.Rollout.Gate, s.g.Rollout.GateTime = ConfirmRollout, s.now
	if s.hasGate(ConfirmRollout, r) && s.jobsWait(r) != nil {
		s.g.Rollout.GateTime = noTime
	}
	if from, rival := s.rival(); rival != nil {
		s.g.Rollout.Floor = from.serving(rival)
	}
	what := "rollout of"
	if a := s.g.ActiveRow(); r.Promoted > 0 && a != nil && compare(r.Version, a.Version) > 0 {
		what = "return to" // For example, a pin to a lower version was removed.
	} else if r.Promoted > 0 {
		what = "rollback to"
	}
	s.event(r, false, Started, fmt.Sprintf("%s %s (%s) starts in group %s", what, r.Version, r.Release, s.g.Name))
}

// openGate allows a release to have pods as soon as nothing prevents this: its hooks have approved the rollout or no longer
// apply, and it does not wait because of a freeze, spec.paused, the pods of another release, or the limit on previews that
// start. The clock of the rollout starts when the gate opens.
func openGate(s *scope) {
	run, r, c := s.rollout()
	if run == nil || run.Gate != ConfirmRollout {
		return
	}
	if run.GateTime.IsZero() && !s.halted(r) && (!s.hasGate(ConfirmRollout, r) || s.jobsWait(r) == nil) {
		run.GateTime = s.now
	}
	if w := s.podsWait(run, r, c); w != nil {
		s.record(w)
		return
	}
	if from, rival := s.rival(); rival != nil {
		from.raiseFloor(run, rival) // An autoscaler may have scaled up the active release in the meantime.
	}
	run.begin(0, s.now)
}

// newRollout returns the rollout of a release before its first step.
func (s *scope) newRollout(release string) *Rollout {
	return &Rollout{Release: release, Sequence: s.next, Started: s.now, StepsHash: stepsHash(s.steps())}
}

// begin starts the clock of a step. Steps are counted from 1.
func (run *Rollout) begin(step int, now time.Time) {
	run.Step, run.Started = step, now
	run.Waited, run.WaitingSince, run.Interrupted, run.Continued, run.Approvals, run.Grace = 0, noTime, false, 0, nil, noTime
	run.Gate, run.GateTime = "", noTime
}

// beforeTraffic reports whether a release has not begun its first step and is not a canary. After an edit of the steps, a canary with
// traffic can be before the first step (rule 32).
func (run *Rollout) beforeTraffic(r *Row) bool { return run.Step == 0 && r.Status != Canary }

// enter begins a step, counted from 1, and gives the canary its traffic.
func (s *scope) enter(run *Rollout, r *Row, step int) {
	run.begin(step, s.now)
	s.stepped = true
	s.setStatus(r, Canary, StepBegan)
	r.RetryTime = noTime
	st := s.steps()[step-1]
	r.Weight, r.Match, r.Mirror = st.Weight, st.Match, st.Mirror
	r.Routed = r.Routed || len(s.reports) > 0
	if a := s.g.ActiveRow(); a != nil {
		a.Weight = 100 - r.Weight
	}
}

// idle records the start of a wait, unless a start is already recorded. A recorded wait does not count
// against the deadline, even if it is interrupted later.
func (s *scope) idle(run *Rollout, since time.Time) {
	if run.WaitingSince.IsZero() {
		run.WaitingSince = since
	}
}

// idleIfHealthy records the start of the wait of a healthy release that spec.paused or a freeze keeps from becoming active.
func (s *scope) idleIfHealthy(run *Rollout, r *Row, c Object) {
	if healthy, _, since := s.health(run, r, c); healthy {
		s.idle(run, since)
	}
}

// interrupt ends the current wait of a step, if there is one, and adds it to the time that the step has waited.
func (run *Rollout) interrupt(now time.Time) {
	if run.WaitingSince.IsZero() {
		return
	}
	run.Waited += max(0, now.Sub(run.WaitingSince))
	run.Interrupted, run.WaitingSince = true, noTime
}

// recordAfter is how long a canary pauses before the rollout state records the pause.
const recordAfter = 20 * time.Second

// recordPauseAt returns the time until which the pause of a step need not be recorded, or zero if the pause must be recorded.
// The pause starts when the step is confirmed. A pause that is interrupted before it is recorded starts again, and the
// time before the interruption, which is at most a tenth of the deadline, counts against the deadline.
func (s *scope) recordPauseAt(run *Rollout, ws []*wait, since time.Time) time.Time {
	if len(ws) != 1 || ws[0].Reason != Waiting || !s.onlyPauses(run) || !run.WaitingSince.IsZero() || run.Interrupted {
		return noTime
	}
	return since.Add(min(recordAfter, s.o.Spec.Deadline/10))
}

// onlyPauses reports whether the current step has a pause and the Microservice has no analysis.
func (s *scope) onlyPauses(run *Rollout) bool {
	steps := s.steps()
	return run.Step > 0 && run.Step <= len(steps) && steps[run.Step-1].Pause > 0 && !s.o.Spec.Analysis
}

// steps returns the canary steps that apply to this group.
func (s *scope) steps() []Step {
	if s.g.Level == preview {
		return nil
	}
	return s.o.Spec.Steps
}

// stepName returns the name of a step or, if the step has no name, its number. Steps are counted from 1.
func (s *scope) stepName(step int) string {
	if step >= 1 && step <= len(s.steps()) && s.steps()[step-1].Name != "" {
		return s.steps()[step-1].Name
	}
	return strconv.Itoa(step)
}

// stepOf returns the number of a step, the total number of steps, and the name of the step if it has
// one.
func (s *scope) stepOf(step int) string {
	text := fmt.Sprintf("%d of %d", step, len(s.steps()))
	if name := s.stepName(step); name != strconv.Itoa(step) {
		text += " (" + name + ")"
	}
	return text
}

// stepsHash identifies a list of steps.
func stepsHash(steps []Step) string {
	h := fnv.New64a()
	for _, st := range steps {
		fmt.Fprintf(h, "%q %d %d %t;", st.Name, st.Weight, st.Pause, st.Approval)
		if st.Match || st.Mirror > 0 {
			fmt.Fprintf(h, "%t %d;", st.Match, st.Mirror)
		}
		if st.Approvers > 1 || len(st.ApproversFrom) > 0 {
			fmt.Fprintf(h, "%d %q;", st.Approvers, st.ApproversFrom)
		}
	}
	return strconv.FormatUint(h.Sum64(), 36)
}

// editedSteps selects the current step of a rollout after the steps were edited (rule 32). This is the first step
// with at least the current weight. If there is no such step, editedSteps selects the last step, and the weight
// decreases. If there are no steps, the release is promoted.
func editedSteps(s *scope) {
	run, r, _ := s.rollout()
	if run == nil {
		return
	}
	hash := stepsHash(s.steps())
	if run.StepsHash == hash {
		return
	}
	run.StepsHash = hash
	if run.Gate == ConfirmTrafficIncrease {
		run.GateTime = s.now // Any earlier approval by the hooks was for the steps before the edit.
	}
	if run.Step == 0 {
		return
	}
	steps := s.steps()
	next := slices.IndexFunc(steps, func(st Step) bool { return st.Weight >= r.Weight })
	if next < 0 {
		next = max(0, len(steps)-1)
	}
	edited := fmt.Sprintf("%s continues at step %d of %d", r.Version, min(next+1, len(steps)), len(steps))
	if len(steps) == 0 {
		edited = fmt.Sprintf("%s has no steps left: it becomes active when all its pods are available", r.Version)
	}
	s.event(r, false, StepsEdited, edited)
	if next < len(steps) && !steps[next].more(*r) {
		s.enter(run, r, next+1)
		return
	}
	// The steps before the next step are complete. The next step waits until the release is healthy
	// and has the required size.
	run.begin(next, s.now)
	run.Continued = next
}

// step begins the next step of a canary when the current step is complete.
func step(s *scope) {
	run, r, c := s.rollout()
	from, active := s.rival()
	if run == nil || active == nil || r.Promoted > 0 || s.stepped || run.Gate == ConfirmRollout || r.Adopted {
		return
	}
	healthy, _, since := s.health(run, r, c)
	if !healthy {
		return
	}
	if ws := s.stepWaits(run, r, c, since); len(ws) > 0 {
		if end := s.recordPauseAt(run, ws, since); s.now.Before(end) {
			s.requeueAt(end)
			s.requeueAt(ws[0].Until)
			return
		}
		s.idle(run, since)
		s.record(ws...)
		return
	}
	from.raiseFloor(run, active)
	if !c.has(s.nextSize(run)) {
		run.Continued = run.Step // Only pods for the next step are missing.
		if !run.beforeTraffic(r) {
			run.interrupt(s.now) // This plan requests the pods. Until they exist, the release is not healthy.
		}
		return
	}
	if !s.passGates(run, r, c) {
		s.idle(run, since)
		return
	}
	if steps := s.steps(); run.Step < len(steps) {
		s.enter(run, r, run.Step+1)
		of := "traffic"
		if s.byPods() {
			of = "pods"
		}
		s.event(r, false, StepBegan, fmt.Sprintf("%s gets %d%% of the %s in step %s", r.Version, r.Weight, of, s.stepOf(run.Step)))
		return
	}
	s.promote(r, Promoted)
}

// promoteFirst makes the first release of a group active as soon as it is available, even if
// no gateway confirms its routes (rule 12). If the newest domains move to the release in steps,
// promoteFirst does nothing.
func promoteFirst(s *scope) {
	run, r, c := s.rollout()
	if run == nil || s.g.ActiveRow() != nil || s.arrived[s.g.Slug] {
		return
	}
	if s.older() != nil {
		if s.unreported() {
			s.requeueAt(s.silentFrom()) // After that time, the release may become active without steps.
		}
		return
	}
	if !c.ok() || !c.has(s.full()) {
		return
	}
	if s.o.Spec.Paused && !r.Adopted {
		s.idleIfHealthy(run, r, c)
		s.record(s.haltWait(r, frozen.AtWeight(r.Version, r.Weight)))
		return
	}
	if w := s.freezeWait(); w != nil {
		s.record(w)
		return
	}
	_, _, since := s.health(run, r, c)
	if !s.passGates(run, r, c) {
		s.idle(run, since)
		return
	}
	s.promote(r, First)
}

// promoteRetained makes a previously active release active again. The release skips the steps, but needs as many replicas as
// the release that it replaces, unless no pod of that release can respond (rule 27).
func promoteRetained(s *scope) {
	run, r, c := s.rollout()
	active := s.g.ActiveRow()
	if run == nil || active == nil || r.Promoted == 0 {
		return
	}
	if s.halted(r) && !s.activeStopped(run) {
		w := s.freezeWait()
		if w == nil {
			s.idleIfHealthy(run, r, c)
			w = s.haltWait(r, frozen.Rollback(r.Version))
		}
		s.record(w)
		return
	}
	if s.dead(active) {
		if c.has(1) {
			s.promote(r, RolledBack)
		}
		return
	}
	s.raiseFloor(run, active)
	if c.has(s.full()) {
		s.promote(r, RolledBack)
	}
}

// promoteAdopted promotes a release whose steps a user skipped, as soon as the release is available
// at full size.
func promoteAdopted(s *scope) {
	run, r, c := s.rollout()
	from, active := s.rival()
	if run == nil || !r.Adopted || active == nil {
		return
	}
	from.raiseFloor(run, active)
	if !c.ok() || !c.has(s.full()) || !s.stable() {
		return
	}
	if w := s.freezeWait(); w != nil && !s.activeStopped(run) {
		s.record(w)
		return
	}
	s.promote(r, Adopted)
}

// promote makes a release active, and sets the previously active release to deprecated.
func (s *scope) promote(r *Row, reason Reason) {
	last := int64(0)
	for i := range s.g.Releases {
		x := &s.g.Releases[i]
		last = max(last, x.Promoted)
		x.Weight, x.Match, x.Mirror = 0, false, 0
		if x.Status == Active && x != r {
			x.Available = false
			s.setStatus(x, Deprecated, Replaced)
		}
	}
	if r.Promoted == 0 {
		r.FirstActive = s.now
	}
	r.Routed = r.Routed || len(s.reports) > 0
	r.Weight, r.Promoted, r.Adopted, r.Attempt, r.RetryTime = 100, last+1, false, 0, noTime
	s.setStatus(r, Active, reason)
	s.g.Rollout, s.g.Superseded, s.g.LastSuperseded = nil, 0, ""
	s.event(r, false, Promoted, fmt.Sprintf("%s (%s) is active in group %s", r.Version, r.Release, s.g.Name))
}

// endRollout ends the rollout without a promotion, and removes all traffic from its release.
func (s *scope) endRollout() {
	if s.g.Rollout == nil {
		return
	}
	if r := s.g.Row(s.g.Rollout.Release); r != nil && r.Status != Active {
		r.leave()
	}
	if a := s.g.ActiveRow(); a != nil {
		a.Weight = 100
	}
	s.g.Rollout = nil
}
