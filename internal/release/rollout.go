package release

import (
	"fmt"
	"hash/fnv"
	"strconv"
	"time"
)

// rollout gives the row and object of the release that is being rolled out.
func (s *scope) rollout() (*Rollout, *Row, Child) {
	if s.g.Rollout == nil || s.g.Phase != Live {
		return nil, nil, Child{}
	}
	r := s.g.Row(s.g.Rollout.Release)
	if r == nil {
		return nil, nil, Child{}
	}
	c, _ := s.child(r.Release)
	return s.g.Rollout, r, c
}

// newRollout of a release, from before its first step.
func (s *scope) newRollout(release string) *Rollout {
	return &Rollout{Release: release, Sequence: s.next, Started: s.now, StepsHash: stepsHash(s.steps())}
}

// begin sets the clock of a step, from 1.
func (run *Rollout) begin(step int, now time.Time) {
	run.Step, run.Started = step, now
	run.Waited, run.WaitingSince, run.Interrupted, run.Continued, run.Grace = 0, noTime, false, 0, noTime
	run.Gate, run.GateTime = "", noTime
}

// enter begins a step, from 1, and gives the canary its traffic.
func (s *scope) enter(run *Rollout, r *Row, step int) {
	run.begin(step, s.now)
	s.stepped = true
	s.turn(r, Canary, StepBegan)
	r.RetryTime = noTime
	st := s.steps()[step-1]
	r.Weight, r.Match, r.Mirror = st.Weight, st.Match, st.Mirror
	if a := s.g.ActiveRow(); a != nil {
		a.Weight = 100 - r.Weight
	}
}

// idle notes since when a healthy release waits, so that the wait is no part of the
// deadline when it breaks off.
func (s *scope) idle(run *Rollout, since time.Time) {
	if run.WaitingSince.IsZero() {
		run.WaitingSince = since
	}
}

// steps of a canary in this group.
func (s *scope) steps() []Step {
	if s.g.Level == preview {
		return nil
	}
	return s.o.Spec.Steps
}

// stepName is the name of a step, from 1.
func (s *scope) stepName(step int) string {
	if step >= 1 && step <= len(s.steps()) && s.steps()[step-1].Name != "" {
		return s.steps()[step-1].Name
	}
	return strconv.Itoa(step)
}

// stepsHash identifies a list of steps.
func stepsHash(steps []Step) string {
	h := fnv.New64a()
	for _, st := range steps {
		fmt.Fprintf(h, "%q %d %d %t;", st.Name, st.Weight, st.Pause, st.Approval)
		if st.Match || st.Mirror > 0 {
			fmt.Fprintf(h, "%t %d;", st.Match, st.Mirror)
		}
	}
	return strconv.FormatUint(h.Sum64(), 36)
}

// judged reports whether a release has to prove itself next to an active one: hooks and
// measurements have a say in it, as they have not in previews, in the first release
// of a group, and in one that was active.
func (s *scope) judged(r *Row) bool {
	_, active := s.rivalOf(*r)
	return s.g.Level != preview && active != nil && active.Release != r.Release && r.Promoted == 0
}

// startWaits is what the target, which may have no row yet, waits for before it starts.
func (s *scope) startWaits(target string, r *Row) *wait {
	if s.halted(r) {
		return newWait(r, false, Paused, "%s waits: spec.paused is set", s.versionOf(target))
	}
	if w := s.turnWaits(s.versionOf(target)); w != nil {
		return w
	}
	c, there := s.child(target)
	if there && c.Terminating {
		return newWait(r, false, Terminating, "the previous object of %s is still going", s.versionOf(target))
	}
	if there && c.Refused {
		return newWait(r, true, Blocked, "%s waits: the server refuses that its object is changed", s.versionOf(target))
	}
	return nil
}

// halted reports that spec.paused keeps a release, which may have no row yet, from what comes
// next. One that was active comes back at a person's word: a pin, or that the active one is
// denied.
func (s *scope) halted(r *Row) bool {
	return s.o.Spec.Paused && (r == nil || r.Promoted == 0 || s.g.Target.Reason != Pinned && !s.activeDenied())
}

// stepWaits is what a healthy canary waits for before it needs pods or hooks for what comes
// next; none: nothing.
func (s *scope) stepWaits(run *Rollout, r *Row, c Child, since time.Time) []*wait {
	if s.o.Spec.Paused {
		return []*wait{newWait(r, false, Paused, "%s waits at %d%%: spec.paused is set", r.Version, r.Weight)}
	}
	if run.Step == 0 {
		if w := s.firstStepWait(r); w != nil {
			return []*wait{w}
		}
	}
	if run.Step > 0 && run.Continued != run.Step {
		if ws := s.passageWaits(run, r, c, since); len(ws) > 0 {
			return ws
		}
	}
	if w := s.windowWait(run, r); w != nil {
		return []*wait{w}
	}
	return nil
}

// firstStepWait is what a release waits for before its first traffic, in addition to what every step
// waits for.
func (s *scope) firstStepWait(r *Row) *wait {
	if w := s.retryWait(r); w != nil {
		return w
	}
	if w := s.crossedWait(r); w != nil {
		return w
	}
	if from, _ := s.rival(); from.g != s.g {
		return s.queueWait(r)
	}
	return nil
}

// passageWaits are what the present step waits for automatically: a person, time, or the
// verdict of the measurements.
func (s *scope) passageWaits(run *Rollout, r *Row, c Child, since time.Time) []*wait {
	steps := s.steps()
	if run.Step > len(steps) {
		return nil
	}
	st := steps[run.Step-1]
	var ws []*wait
	switch waited := run.Waited + s.now.Sub(since); {
	case st.Approval:
		ws = append(ws, newWait(r, false, AwaitingApproval, "%s waits at %d%% for decision Continue of step %q on %s", r.Version, r.Weight, s.stepName(run.Step), r.Release))
	case waited < st.Pause:
		w := newWait(r, false, Waiting, "%s waits at %d%% until %s", r.Version, r.Weight, s.now.Add(st.Pause-waited).Format(time.RFC3339))
		w.Until = s.now.Add(st.Pause - waited)
		ws = append(ws, w)
	}
	if s.o.Spec.Analysis && st.traffic() {
		if w := s.verdictWait(run, r, c); w != nil {
			ws = append(ws, w)
		}
	}
	return ws
}

// verdictWait is that the measurements of the present step have not passed.
func (s *scope) verdictWait(run *Rollout, r *Row, c Child) *wait {
	v := Verdict{Phase: VerdictRunning, Message: "no verdict yet"}
	if a := c.Analysis; a != nil && a.Rollout == run.Sequence && a.Step == run.Step && stored(a.Since).Equal(run.WaitingSince) {
		v = *a
	}
	word := fmt.Sprintf("decision Continue of step %q on %s continues the rollout, Deprecate aborts it", s.stepName(run.Step), r.Release)
	switch v.Phase {
	case VerdictPassed:
		return nil
	case VerdictInconclusive:
		return newWait(r, true, AnalysisInconclusive, "%s waits at %d%%, its measurements prove nothing: %s; %s", r.Version, r.Weight, or(v.Message, "inconclusive"), word)
	case VerdictNoTraffic:
		return newWait(r, true, AnalysisNoTraffic, "%s waits at %d%% for requests to measure: %s; %s", r.Version, r.Weight, or(v.Message, "no traffic"), word)
	}
	return newWait(r, false, AnalysisRunning, "%s waits at %d%% for the verdict of its measurements: %s", r.Version, r.Weight, or(v.Message, "running"))
}

// windowWait is that traffic may not move now: a step begins in its window, and
// the release becomes active in the window of the last one.
func (s *scope) windowWait(run *Rollout, r *Row) *wait {
	steps := s.steps()
	if len(steps) == 0 {
		return nil
	}
	window := steps[min(run.Step, len(steps)-1)].Window
	if window == nil || window.Open {
		return nil
	}
	until := "it opens"
	if !window.Next.IsZero() {
		until = window.Next.UTC().Format(time.RFC3339)
	}
	w := newWait(r, false, AwaitingWindow, "%s waits at %d%% for its window until %s", r.Version, r.Weight, until)
	w.Until = window.Next
	return w
}

// health reports whether a run is healthy: available and, within the steps, its
// weight programmed; since is when the present wait began.
func (s *scope) health(run *Rollout, r *Row, c Child) (healthy bool, cause Reason, since time.Time) {
	if run.Step == 0 {
		switch {
		case run.Gate == ConfirmRollout:
			return true, "", s.now // it is not to have pods yet
		case !s.available(*r, c):
			return false, or(c.Failure, progressDeadlineExceeded), noTime
		case r.Promoted == 0 && !s.stable():
			return false, notProgrammed, noTime
		case s.untried(run, r):
			return false, noDomains, noTime
		case s.unheard(run, r, c):
			return false, noAnswer, noTime
		case run.WaitingSince.IsZero():
			return true, "", s.now
		}
		return true, "", run.WaitingSince
	}
	switch {
	case !s.available(*r, c):
		return false, or(c.Failure, availabilityLost), noTime
	case r.Routed && len(s.reports) == 0:
		return false, TrafficLost, noTime
	case !s.carried(run.StepRevision):
		return false, notProgrammed, noTime
	case s.masked(r.Release):
		return false, availabilityLost, noTime
	case run.Continued == run.Step && !c.has(s.nextSize(run)):
		return false, or(c.Failure, progressDeadlineExceeded), noTime // nothing but pods is missing
	case run.Interrupted:
		return true, "", s.now
	case !run.WaitingSince.IsZero():
		return true, "", run.WaitingSince
	}
	return true, "", s.confirmedTime(run.Started)
}

// stable reports whether no change of traffic is in progress. One that cannot be confirmed
// because the active release is dead holds up nothing: what runs may be the fix.
func (s *scope) stable() bool {
	from, active := s.rival()
	if active == nil || from.dead(active) {
		return true
	}
	_, r, _ := s.rollout()
	gone := r == nil || r.Zero == nil || !s.referenced(r.Release) || s.confirmed(r.Zero.Revision) // from what it gave back
	return gone && from.confirmed(from.g.TrafficRevision)
}

// dead reports whether a release has nothing that could answer.
func (s *scope) dead(r *Row) bool {
	c, _ := s.child(r.Release)
	return c.Available == 0 || s.masked(r.Release)
}

// ends is when the clock of a step passes the deadline, if it runs from now on.
func (s *scope) ends(run *Rollout) time.Time {
	end := run.Started.Add(run.Waited).Add(s.o.Spec.Deadline)
	if run.Grace.After(end) {
		return run.Grace
	}
	return end
}

// moment is how long a manager that has just begun gives what it finds to report.
// One that was away for longer than a deadline has seen nothing of it, and nothing
// could get on. A step gets it once (Run.Grace): a manager that is ended over and
// over must not put its deadlines off for ever.
func (s *scope) moment() time.Duration { return min(10*time.Second, s.o.Spec.Deadline) }

// began reports that this manager has just begun.
func (s *scope) began() bool {
	return !s.o.Began.IsZero() && s.now.Before(s.o.Began.Add(s.moment()))
}

// deadline of traffic that was to be confirmed since, while stable.
func (s *scope) deadline(since time.Time) time.Time {
	end := since.Add(s.o.Spec.Deadline)
	if first := s.o.Began.Add(s.moment()); !s.o.Began.IsZero() && end.Before(first) {
		return first
	}
	return end
}

// condemned gives the reason for which measurements or hooks end a rollout, whatever
// else it waits for.
func (s *scope) condemned(run *Rollout, r *Row, c Child) (reason Reason, message string) {
	judged := s.judged(r)
	if f := s.answer(run, c); f.Failed && (s.asks(run.Gate, r) || judged && run.Gate == ConfirmTrafficIncrease) {
		return HookFailed, or(f.Message, fmt.Sprintf("a hook of %s failed, or refused for good", run.Gate))
	}
	if !judged {
		return "", ""
	}
	if v := c.Analysis; v != nil && v.Rollout == run.Sequence && v.Phase == VerdictFailed {
		return AnalysisFailed, or(v.Message, "the measurements failed")
	}
	if b := c.Rollback; b != nil && b.Rollout == run.Sequence {
		return RollbackRequested, or(b.Message, "a hook asked to go back")
	}
	if message := s.brokenTogether(r.Version); message != "" {
		return togetherFailed, message
	}
	return "", ""
}
