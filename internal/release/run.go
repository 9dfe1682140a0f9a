package release

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"time"
)

// maxOvertaken is how many releases may be displaced before one is finished
// first (rule 28).
const maxOvertaken = 3

// trafficLost is the reason of a canary that had traffic and has no NetworkPolicy any
// more: it waits for one without limit, measured by nobody, and with its clock stopped.
const trafficLost = "TrafficLost"

// running gives the row and object of the release that is under way.
func (s *scope) running() (*Run, *Row, Child) {
	if s.g.Run == nil || s.g.Phase != Live {
		return nil, nil, Child{}
	}
	r := s.g.Row(s.g.Run.Release)
	if r == nil {
		return nil, nil, Child{}
	}
	c, _ := s.child(r.Release)
	return s.g.Run, r, c
}

// finishFirst keeps newer versions from displacing a release for ever, or one
// that is at its last step (rule 28).
func finishFirst(s *scope) {
	run, r, _ := s.running()
	if run == nil || s.g.Target.Reason != "Latest" || s.g.Target.Release == run.Release {
		return
	}
	if _, out := s.withdrawn(r.Version); out {
		return
	}
	if run.Gate == Together || run.Gate == ConfirmRollout {
		return // the others may be at the newer version; nothing is lost of what has no pods yet
	}
	if a := s.g.ActiveRow(); s.g.Level == preview && a != nil && a.Release == s.g.Target.Release {
		return // pushed back to what serves
	}
	last := run.Step > 0 && run.Step >= len(s.steps())
	if !last && s.g.Overtaken < maxOvertaken || run.WaitsFor != "" {
		return
	}
	s.state(r, false, "Overtaken", fmt.Sprintf("%s is finished before %s starts", r.Version, s.versionOf(s.g.Target.Release)))
	s.g.Target = Target{Release: run.Release, Reason: "FinishFirst"}
}

// overtake retires what is under way and not wanted any more (rule 24).
func overtake(s *scope) {
	if s.g.Phase != Live {
		return
	}
	for i := range s.g.Releases {
		r := &s.g.Releases[i]
		running := s.g.Run != nil && s.g.Run.Release == r.Release
		if r.Release == s.g.Target.Release || r.Status != Pending && r.Status != Canary && !running {
			continue
		}
		if s.g.Target.Reason == "Latest" && !s.free(r) && s.halted(s.g.Row(s.g.Target.Release)) {
			continue
		}
		if running {
			s.endRun()
			if s.g.Target.Reason == "Latest" {
				s.g.Overtaken++
			}
		}
		r.leave()
		if r.Status == Pending || r.Status == Canary {
			s.turn(r, Deprecated, "Overtaken")
		}
		s.event(r, false, "Overtaken", fmt.Sprintf("%s makes room for %s", r.Version, s.versionOf(s.g.Target.Release)))
	}
}

// start begins the run of the target.
func start(s *scope) {
	target := s.g.Target.Release
	active := s.g.ActiveRow()
	if s.g.Phase != Live || s.g.Run != nil || target == "" || active != nil && active.Release == target {
		return
	}
	r := s.g.Row(target)
	if s.o.SourceStale && (r == nil || r.Promoted == 0) {
		return
	}
	if s.halted(r) {
		s.state(r, false, "Paused", fmt.Sprintf("%s waits: spec.paused is set", s.versionOf(target)))
		return
	}
	if !s.itsTurn(s.versionOf(target)) {
		return
	}
	c, there := s.child(target)
	if there && c.Terminating {
		s.state(r, false, "Terminating", fmt.Sprintf("the former object of %s is still going", s.versionOf(target)))
		return
	}
	if there && c.Refused {
		s.state(r, true, Blocked, fmt.Sprintf("%s waits: the server refuses that its object is changed", s.versionOf(target)))
		return
	}
	if r == nil {
		cand, ok := s.offered(target)
		if !ok {
			return
		}
		if !s.room() {
			s.crowded(cand.Version)
			return
		}
		s.g.Releases = append(s.g.Releases, Row{Release: target, Name: cand.Name, Version: cand.Version, Config: s.o.Config, Status: Pending, Reason: "Started", Since: s.now, Decision: s.handled[target]})
		r = s.g.Row(target)
	}
	switch {
	case r.Status == Error:
		s.retryRow(r, "RetriedByItself")
		s.event(r, false, "Retry", fmt.Sprintf("attempt %d of %s: the cause of the failure was outside of it", r.Attempt+1, r.Version))
	case r.Promoted == 0:
		s.turn(r, Pending, "Started")
	}
	s.touch(target)
	s.g.Run = s.newRun(target)
	s.g.Run.Gate, s.g.Run.GateTime = ConfirmRollout, s.now
	if from, rival := s.rival(); rival != nil {
		s.g.Run.Floor = from.serving(rival)
	}
	how := "starts"
	if r.Promoted > 0 {
		how = "comes back, kept as it was,"
	}
	s.event(r, false, "Started", fmt.Sprintf("%s (%s) %s in group %s", r.Version, r.Release, how, s.g.Name))
}

// halted says that spec.paused keeps a release, which may have no row yet, from what comes
// next. One that was active comes back at a person's word: a pin, or that the active one is
// denied.
func (s *scope) halted(r *Row) bool {
	return s.o.Spec.Paused && (r == nil || r.Promoted == 0 || s.g.Target.Reason != "Pinned" && !s.activeDenied())
}

// newRun of a release, from before its first step.
func (s *scope) newRun(release string) *Run {
	return &Run{Release: release, Sequence: s.next, Started: s.now, StepsHash: stepsHash(s.steps())}
}

// health says whether a run is healthy: available and, within the steps, its
// weight programmed; since is when the present wait began.
func (s *scope) health(run *Run, r *Row, c Child) (healthy bool, cause string, since time.Time) {
	if run.Step == 0 {
		switch {
		case run.Gate == ConfirmRollout:
			return true, "", s.now // it is not to have pods yet
		case !s.available(*r, c):
			return false, or(c.Failure, "ProgressDeadlineExceeded"), noTime
		case r.Promoted == 0 && !s.calm():
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
		return false, or(c.Failure, "AvailabilityLost"), noTime
	case r.Routed && len(s.reports) == 0:
		return false, trafficLost, noTime
	case !s.carried(run.StepRevision):
		return false, notProgrammed, noTime
	case s.masked(r.Release):
		return false, "AvailabilityLost", noTime
	case run.Continued == run.Step && !c.has(s.nextSize(run)):
		return false, or(c.Failure, "ProgressDeadlineExceeded"), noTime // nothing but pods is missing
	case run.Interrupted:
		return true, "", s.now
	case !run.WaitingSince.IsZero():
		return true, "", run.WaitingSince
	}
	return true, "", s.confirmedTime(run.Started)
}

// calm says that no change of traffic is under way. One that cannot be confirmed
// because the active release is dead holds up nothing: what runs may be the mend.
func (s *scope) calm() bool {
	from, active := s.rival()
	if active == nil || from.dead(active) {
		return true
	}
	_, r, _ := s.running()
	gone := r == nil || r.Zero == nil || !s.referenced(r.Release) || s.confirmed(r.Zero.Revision) // from what it gave back
	return gone && from.confirmed(from.g.TrafficRevision)
}

// dead says that a release has nothing that could answer.
func (s *scope) dead(r *Row) bool {
	c, _ := s.child(r.Release)
	return c.Available == 0 || s.masked(r.Release)
}

func or(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// keepClock adds up the healthy waiting of a step, and notices when it breaks
// off or goes on (rules 13 and 23).
func keepClock(s *scope) {
	run, r, c := s.running()
	if run == nil {
		return
	}
	run.From = ""
	if from := s.older(); from != nil {
		run.From = from.g.Slug
	}
	healthy, cause, _ := s.health(run, r, c)
	if r.Reason == trafficLost && len(s.reports) > 0 { // what it waited for proved nothing
		run.Started, run.Waited, run.WaitingSince, run.Interrupted, run.Grace = s.now, 0, noTime, false, noTime
		s.turn(r, r.Status, "Step")
		healthy, cause, _ = s.health(run, r, c)
	}
	s.await(run, r, s.obstacle(run, r, c), c)
	switch {
	case run.WaitsFor != "":
		s.idle(run, s.now)
		run.Interrupted = false
	case cause == trafficLost:
		s.idle(run, s.now)
		run.Interrupted = true
		s.turn(r, r.Status, trafficLost)
		s.state(r, true, trafficLost, fmt.Sprintf("%s waits at %d%%: it had traffic, and there is no networkpolicies.hlnr.io any more; make one, or decide Deprecate on %s", r.Version, r.Weight, r.Release))
	case healthy && run.Interrupted:
		run.Interrupted, run.WaitingSince = false, s.now
	case !healthy && !run.WaitingSince.IsZero():
		run.Waited += max(0, s.now.Sub(run.WaitingSince))
		run.Interrupted, run.WaitingSince = true, noTime
	}
}

// traffic says that the canary can get requests in a step.
func (st Step) traffic() bool { return st.Weight > 0 || st.Match || st.Mirror > 0 }

// more says that a step gives a release more traffic than it has.
func (st Step) more(r Row) bool {
	return st.Weight > r.Weight || st.Match && !r.Match || st.Mirror > r.Mirror
}

// judged says that a release has to prove itself beside an active one: hooks and
// measurements have a say in it, as they have not in previews, in the first release
// of a group, and in one that was active.
func (s *scope) judged(r *Row) bool {
	_, active := s.rivalOf(*r)
	return s.g.Level != preview && active != nil && active.Release != r.Release && r.Promoted == 0
}

// fail ends a run whose clock passed the deadline; the last active release
// serves (invariant 7).
func fail(s *scope) {
	run, r, c := s.running()
	if run == nil {
		return
	}
	if reason, message := s.condemned(run, r, c); reason != "" {
		s.failRow(r, reason)
		s.event(r, true, "ReleaseFailed", fmt.Sprintf("%s is turned down (%s): %s", r.Version, reason, message))
		return
	}
	healthy, cause, _ := s.health(run, r, c)
	if healthy || run.WaitsFor != "" || cause == trafficLost || s.o.Spec.Paused && run.Step == 0 && s.available(*r, c) {
		return
	}
	end := s.ends(run)
	if !s.now.Before(end) && run.Grace.IsZero() && s.began() {
		run.Grace = stored(s.now.Add(s.moment()))
		end = s.ends(run)
	}
	if s.now.Before(end) {
		s.wakeAt(end)
		return
	}
	if from, a := s.rival(); a != nil && r.Status == Canary && from.dead(a) && !s.dead(r) {
		s.state(r, true, "OnlyServing", fmt.Sprintf("%s is past its deadline (%s) and is not taken back: %s, which is active, has nothing that answers", r.Version, cause, a.Version))
		return
	}
	message := fmt.Sprintf("%s was not healthy within %s: %s", r.Version, s.o.Spec.Deadline, s.inWords(cause, c))
	if outside[cause] != "" {
		s.giveBack(run, r, cause, message)
		return
	}
	s.failRow(r, cause)
	s.event(r, true, "ReleaseFailed", message)
}

// ends is when the clock of a step passes the deadline, if it runs from now on.
func (s *scope) ends(run *Run) time.Time {
	end := run.Started.Add(run.Waited).Add(s.o.Spec.Deadline)
	if run.Grace.After(end) {
		return run.Grace
	}
	return end
}

// condemned gives the reason for which measurements or hooks end a run, whatever
// else it waits for.
func (s *scope) condemned(run *Run, r *Row, c Child) (reason, message string) {
	judged := s.judged(r)
	if f := s.answer(run, c); f.Failed && (s.asks(run.Gate, r) || judged && run.Gate == ConfirmTrafficIncrease) {
		return "HookFailed", or(f.Message, fmt.Sprintf("a hook of %s failed, or refused for good", run.Gate))
	}
	if !judged {
		return "", ""
	}
	if v := c.Analysis; v != nil && v.Run == run.Sequence && v.Phase == VerdictFailed {
		return "AnalysisFailed", or(v.Message, "the measurements failed")
	}
	if b := c.Rollback; b != nil && b.Run == run.Sequence {
		return "RollbackRequested", or(b.Message, "a hook asked to go back")
	}
	if message := s.brokenTogether(r.Version); message != "" {
		return togetherFailed, message
	}
	return "", ""
}

// moment is how long a manager that has just begun gives what it finds to report.
// One that was away for longer than a deadline has seen nothing of it, and nothing
// could get on. A step gets it once (Run.Grace): a manager that is ended over and
// over must not put its deadlines off for ever.
func (s *scope) moment() time.Duration { return min(10*time.Second, s.o.Spec.Deadline) }

// began says that this manager has just begun.
func (s *scope) began() bool {
	return !s.o.Began.IsZero() && s.now.Before(s.o.Began.Add(s.moment()))
}

// deadline of traffic that was to be confirmed since, at rest.
func (s *scope) deadline(since time.Time) time.Time {
	end := since.Add(s.o.Spec.Deadline)
	if first := s.o.Began.Add(s.moment()); !s.o.Began.IsZero() && end.Before(first) {
		return first
	}
	return end
}

// editedSteps finds the place of a run in steps that were edited (rule 32): the
// first one with at least the present weight, else the last one, which takes weight away.
// Without any step it is promoted.
func editedSteps(s *scope) {
	run, r, _ := s.running()
	hash := stepsHash(s.steps())
	if run == nil || run.StepsHash == hash {
		return
	}
	run.StepsHash = hash
	if run.Gate == ConfirmTrafficIncrease {
		run.GateTime = s.now // what hooks agreed to is not what comes now
	}
	if run.Step == 0 {
		return
	}
	steps := s.steps()
	next := slices.IndexFunc(steps, func(st Step) bool { return st.Weight >= r.Weight })
	if next < 0 {
		next = max(0, len(steps)-1)
	}
	s.event(r, false, "StepsEdited", fmt.Sprintf("%s goes on at step %d of %d", r.Version, min(next+1, len(steps)), len(steps)))
	if next < len(steps) && !steps[next].more(*r) {
		s.enter(run, r, next+1)
		return
	}
	// What is before the next step is passed; that one waits for health and size.
	run.begin(next, s.now)
	run.Continued = next
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

// begin sets the clock of a step, from 1.
func (run *Run) begin(step int, now time.Time) {
	run.Step, run.Started = step, now
	run.Waited, run.WaitingSince, run.Interrupted, run.Continued, run.Grace = 0, noTime, false, 0, noTime
	run.Gate, run.GateTime = "", noTime
}

// enter begins a step, from 1, and gives the canary its traffic.
func (s *scope) enter(run *Run, r *Row, step int) {
	run.begin(step, s.now)
	s.stepped = true
	s.turn(r, Canary, "Step")
	r.RetryTime = noTime
	st := s.steps()[step-1]
	r.Weight, r.Match, r.Mirror = st.Weight, st.Match, st.Mirror
	if a := s.g.ActiveRow(); a != nil {
		a.Weight = 100 - r.Weight
	}
}

// promote makes a release active, and the former one deprecated.
func (s *scope) promote(r *Row, reason string) {
	last := int64(0)
	for i := range s.g.Releases {
		x := &s.g.Releases[i]
		last = max(last, x.Promoted)
		x.Weight, x.Match, x.Mirror = 0, false, 0
		if x.Status == Active && x != r {
			x.Available = false
			s.turn(x, Deprecated, "Replaced")
		}
	}
	r.Weight, r.Promoted, r.Adopted, r.Attempt, r.RetryTime = 100, last+1, false, 0, noTime
	s.turn(r, Active, reason)
	s.g.Run, s.g.Overtaken = nil, 0
	s.event(r, false, "Promoted", fmt.Sprintf("%s (%s) is active in group %s", r.Version, r.Release, s.g.Name))
}

// promoteFirst makes the first release of a group active as soon as it is
// available, whatever the gateway says (rule 12), but where the newest domains move to
// it by steps.
func promoteFirst(s *scope) {
	run, r, c := s.running()
	if run == nil || s.g.ActiveRow() != nil || s.older() != nil || s.arrived[s.g.Slug] || s.o.Spec.Paused {
		return
	}
	if !c.ok() || !c.has(s.full()) {
		return
	}
	_, _, since := s.health(run, r, c)
	if s.gated(run, r, c) {
		s.idle(run, since)
		return
	}
	s.promote(r, "First")
}

// promoteKept brings back a release that was active: without steps, and with as
// many replicas as the one that it replaces, unless that one is dead (rule 27).
func promoteKept(s *scope) {
	run, r, c := s.running()
	active := s.g.ActiveRow()
	if run == nil || active == nil || r.Promoted == 0 || s.halted(r) {
		return
	}
	if s.dead(active) {
		if c.has(1) {
			s.promote(r, "RolledBack")
		}
		return
	}
	s.raiseFloor(run, active)
	if c.has(s.full()) {
		s.promote(r, "RolledBack")
	}
}

// promoteAdopted makes a release active whose steps a person skipped, once it is
// available at full size.
func promoteAdopted(s *scope) {
	run, r, c := s.running()
	from, active := s.rival()
	if run == nil || !r.Adopted || active == nil {
		return
	}
	from.raiseFloor(run, active)
	if c.ok() && c.has(s.full()) && s.calm() {
		s.promote(r, "Adopted")
	}
}

// step takes the next step of a canary, when this one has passed.
func step(s *scope) {
	run, r, c := s.running()
	from, active := s.rival()
	if run == nil || active == nil || r.Promoted > 0 || s.stepped || run.Gate == ConfirmRollout || r.Adopted {
		return
	}
	healthy, _, since := s.health(run, r, c)
	if !healthy {
		return
	}
	if s.o.Spec.Paused {
		s.idle(run, since)
		s.state(r, false, "Paused", fmt.Sprintf("%s waits at %d%%: spec.paused is set", r.Version, r.Weight))
		return
	}
	if run.Step == 0 && (s.early(r) || s.crossed(r) || from.g != s.g && s.queued(r)) || run.Step > 0 && run.Continued != run.Step && s.waiting(run, r, c, since) || s.outsideWindow(run, r) {
		s.idle(run, since)
		return
	}
	from.raiseFloor(run, active)
	if !c.has(s.nextSize(run)) {
		run.Continued = run.Step // what waits for pods has waited for all else
		return
	}
	if s.gated(run, r, c) {
		s.idle(run, since)
		return
	}
	if steps := s.steps(); run.Step < len(steps) {
		s.enter(run, r, run.Step+1)
		s.event(r, false, "Step", fmt.Sprintf("%s gets %d%% in step %s of %d", r.Version, r.Weight, s.stepName(run.Step), len(steps)))
		return
	}
	s.promote(r, "Promoted")
}

// idle notes since when a healthy release waits, so that the wait is no part of the
// deadline when it breaks off.
func (s *scope) idle(run *Run, since time.Time) {
	if run.WaitingSince.IsZero() {
		run.WaitingSince = since
	}
}

// waiting says what the present step waits for by itself: a person, time, or the
// verdict of the measurements.
func (s *scope) waiting(run *Run, r *Row, c Child, since time.Time) bool {
	steps := s.steps()
	if run.Step > len(steps) {
		return false
	}
	st := steps[run.Step-1]
	waits := false
	switch waited := run.Waited + s.now.Sub(since); {
	case st.Approval:
		s.state(r, false, "AwaitingApproval", fmt.Sprintf("%s waits at %d%% for decision Continue of step %q on %s", r.Version, r.Weight, s.stepName(run.Step), r.Release))
		waits = true
	case waited < st.Pause:
		s.state(r, false, "Waiting", fmt.Sprintf("%s waits at %d%% until %s", r.Version, r.Weight, s.now.Add(st.Pause-waited).Format(time.RFC3339)))
		s.wakeAt(s.now.Add(st.Pause - waited))
		waits = true
	}
	if !s.o.Spec.Analysis || !st.traffic() {
		return waits
	}
	v := Verdict{Phase: VerdictRunning, Message: "no verdict yet"}
	if a := c.Analysis; a != nil && a.Run == run.Sequence && a.Step == run.Step && stored(a.Since).Equal(run.WaitingSince) {
		v = *a
	}
	word := fmt.Sprintf("decision Continue of step %q on %s goes on, Deprecate turns it down", s.stepName(run.Step), r.Release)
	switch v.Phase {
	case VerdictPassed:
		return waits
	case VerdictInconclusive:
		s.state(r, true, "AnalysisInconclusive", fmt.Sprintf("%s waits at %d%%, its measurements prove nothing: %s; %s", r.Version, r.Weight, or(v.Message, "inconclusive"), word))
	case VerdictNoTraffic:
		s.state(r, true, "AnalysisNoTraffic", fmt.Sprintf("%s waits at %d%% for requests to measure: %s; %s", r.Version, r.Weight, or(v.Message, "no traffic"), word))
	default:
		s.state(r, false, "AnalysisRunning", fmt.Sprintf("%s waits at %d%% for the verdict of its measurements: %s", r.Version, r.Weight, or(v.Message, "running")))
	}
	return true
}

// outsideWindow says that traffic may not move now: a step begins in its window, and
// the release becomes active in the window of the last one.
func (s *scope) outsideWindow(run *Run, r *Row) bool {
	steps := s.steps()
	if len(steps) == 0 {
		return false
	}
	w := steps[min(run.Step, len(steps)-1)].Window
	if w == nil || w.Open {
		return false
	}
	until := "it opens"
	if !w.Next.IsZero() {
		s.wakeAt(w.Next)
		until = w.Next.UTC().Format(time.RFC3339)
	}
	s.state(r, false, "AwaitingWindow", fmt.Sprintf("%s waits at %d%% for its window until %s", r.Version, r.Weight, until))
	return true
}
