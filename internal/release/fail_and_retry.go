package release

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// health reports whether a rollout is healthy. The release must be available and, during the steps, its
// weight must be programmed. since is the start of the current wait.
func (s *scope) health(run *Rollout, r *Row, c Object) (healthy bool, cause Reason, since time.Time) {
	if run.beforeTraffic(r) {
		switch {
		case run.Gate == ConfirmRollout:
			return true, "", s.now // The release does not need pods yet.
		case !s.available(*r, c):
			return false, s.lacking(r, c), noTime
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
		return false, cmp.Or(c.Failure, availabilityLost), noTime
	case r.Routed && len(s.reports) == 0:
		return false, TrafficLost, noTime
	case !s.programmed(run.StepRevision):
		return false, notProgrammed, noTime
	case s.withheld(r.Release):
		return false, availabilityLost, noTime
	case run.Continued == run.Step && !c.has(s.nextSize(run)):
		return false, s.lacking(r, c), noTime // Only pods for the next step are missing.
	case run.Interrupted:
		return true, "", s.now
	case !run.WaitingSince.IsZero():
		return true, "", run.WaitingSince
	}
	return true, "", s.confirmedTime(run.Started)
}

// lacking returns why a release has too few pods. The reason is otherRunning if the release gets no pods because the active release
// of its exclusive group is still waiting for its first pod. The reason is notCreated if the release's object is missing or out of date,
// for example because the API server rejects requests to write it. Otherwise the reason is the failure that the pods show or, if they show none,
// progressDeadlineExceeded.
func (s *scope) lacking(r *Row, c Object) Reason {
	if a := s.g.ActiveRow(); s.replacesPods() && !isRejected(c) && s.blocksActive(a, s.g.Rollout, c) {
		return otherRunning
	}
	size := s.runSize(*r, c)
	if s.byPods() {
		size = s.portion(r.Weight) // The number of replicas is increased only when the step is complete.
	}
	if c.Release == "" || c.Slug != s.g.Slug || c.Failure == "" && c.Replicas < size {
		return notCreated
	}
	return cmp.Or(c.Failure, progressDeadlineExceeded)
}

// stable reports whether all traffic changes are complete. A change that cannot be confirmed because
// no pod of the active release can respond does not count, because the canary may be the fix.
func (s *scope) stable() bool {
	from, active := s.rival()
	if active == nil || from.dead(active) {
		return true
	}
	_, r, _ := s.rollout()
	// A canary that lost its traffic must no longer be in a route. This is required only if a policy
	// that counts can confirm it.
	gone := r == nil || r.Zero == nil || !s.referenced(r.Release) || s.confirmed(r.Zero.Revision) || !slices.ContainsFunc(s.reports, s.counts)
	return gone && from.confirmed(from.g.TrafficRevision)
}

// dead reports whether a release has no pod that could respond.
func (s *scope) dead(r *Row) bool {
	c, _ := s.object(r.Release)
	return c.Available == 0 || s.withheld(r.Release)
}

// servesLess reports whether an active release serves less than a canary that is past its deadline. This is the case if no
// pod of the active release responds. If the canary is unhealthy because routes are not programmed, the reports of the
// policies are as outdated as the programmed routes, so only the pods count. Once a rollback removes the canary from
// the required routes, the Gateway may be able to program them again.
func (s *scope) servesLess(active *Row, cause Reason) bool {
	if s.o.Spec.Exclusive {
		return false // The pods of the active release terminated so that the canary could start. They start again after a rollback.
	}
	if cause != notProgrammed {
		return s.dead(active)
	}
	c, _ := s.object(active.Release)
	return c.Available == 0
}

// stepDeadline returns the time at which a step passes its deadline if its clock is not stopped again.
func (s *scope) stepDeadline(run *Rollout) time.Time {
	start := s.stepClock(run)
	if _, _, c := s.rollout(); run.Step == 0 && c.Created.After(start) {
		start = stored(c.Created) // The object was created late, because its creation was rejected or this manager was suspended.
	}
	end := start.Add(s.o.Spec.Deadline)
	if run.Grace.After(end) {
		return run.Grace
	}
	return end
}

// deadlineIfInterrupted returns the time at which a step passes its deadline if the given cause interrupts its healthy wait now. Until countHealthyTime has
// counted this wait, stepDeadline returns a time that is too early. If the rollout is already blocked, or if the wait is recorded from the start of the step's
// clock, the wait is not healthy, and deadlineIfInterrupted returns the same time as stepDeadline.
func (s *scope) deadlineIfInterrupted(run *Rollout, cause Reason) time.Time {
	if run.WaitsFor != "" || cause == otherRunning || cause == notCreated && !s.outgrown(run) {
		return s.stepDeadline(run)
	}
	interrupted := *run
	interrupted.interrupt(s.now)
	return s.stepDeadline(&interrupted)
}

// startupGrace returns how long a manager waits for reports after it starts. While the manager was not running,
// it observed nothing, and no rollout could advance. Each step gets this time only once (Rollout.Grace), so
// that a manager that restarts repeatedly does not postpone deadlines indefinitely. uncreated uses the same
// duration as the maximum time that a write takes.
func (s *scope) startupGrace() time.Duration { return min(10*time.Second, s.o.Spec.Deadline) }

// justStarted reports whether this manager has just started.
func (s *scope) justStarted() bool {
	return !s.o.Began.IsZero() && s.now.Before(s.o.Began.Add(s.startupGrace()))
}

// policyDeadline returns the time at which a stable group stops waiting for policies that have not confirmed its traffic.
func (s *scope) policyDeadline(since time.Time) time.Time {
	end := since.Add(s.o.Spec.Deadline)
	if first := s.o.Began.Add(s.startupGrace()); !s.o.Began.IsZero() && end.Before(first) {
		return first
	}
	return end
}

// condemned returns the reason why measurements, hooks or a failure in another Microservice end a rollout, regardless
// of what the rollout is waiting for.
func (s *scope) condemned(run *Rollout, r *Row, c Object) (reason Reason, message string) {
	judged := s.judged(r)
	if f := s.answer(run, c); f.Failed && (s.hasGate(run.Gate, r) || judged && run.Gate == ConfirmTrafficIncrease) {
		return HookFailed, cmp.Or(f.Message, fmt.Sprintf("a %s hook failed or rejected the rollout", run.Gate))
	}
	if !judged {
		return "", ""
	}
	if v := c.Analysis; v != nil && v.Rollout == run.Sequence && v.Phase == VerdictFailed {
		return AnalysisFailed, cmp.Or(v.Message, "the analysis failed")
	}
	if b := c.Rollback; b != nil && b.Rollout == run.Sequence {
		return RollbackRequested, cmp.Or(b.Message, "a hook requested a rollback")
	}
	if message := s.brokenTogether(r.Version); message != "" {
		return togetherFailed, message
	}
	return "", ""
}

// A release whose traffic was removed more than once waits 10, 20, 40 … minutes before it gets
// traffic again.
const (
	retryFirst = 10 * time.Minute
	retryMost  = 360 * time.Minute
)

// giveBack removes the traffic from a canary that is unhealthy because of a problem outside the release. The
// release stays the target, keeps its pods, and begins its steps again: the first time as soon as the problem
// is solved, and any later time only after a wait.
func (s *scope) giveBack(run *Rollout, r *Row, cause Reason, message string) {
	if _, g := s.crossing(); g != nil && cause == notProgrammed {
		// The routes of the canary in the other group may be unprogrammed for the same reason. The rollout of
		// that group gets more time, so that these routes can be programmed.
		g.Rollout.Grace = stored(s.now.Add(s.o.Spec.Deadline))
	}
	adopted := r.Adopted
	s.endRollout()
	s.setStatus(r, Pending, cause)
	r.Adopted, r.RetryTime = adopted, noTime
	if r.Attempt > 0 {
		r.RetryTime = stored(s.now.Add(min(retryMost, retryFirst<<min(r.Attempt-1, 8))))
	}
	r.Attempt++
	s.g.Rollout = s.newRollout(r.Release)
	s.g.Rollout.Floor = run.Floor
	again := "; its traffic is removed, and the rollout restarts at the first step when the problem is resolved"
	if !r.RetryTime.IsZero() {
		again += ", but not before " + r.RetryTime.Format(time.RFC3339)
	}
	s.event(r, true, TrafficGivenBack, message+again)
}

// retryWait returns why a release whose traffic was removed must not get traffic again yet, or nil.
func (s *scope) retryWait(r *Row) *wait {
	if !s.now.Before(r.RetryTime) {
		return nil
	}
	w := newWait(r, true, Blocked, "%s is blocked at %d%% until %s: %d attempts failed or lost their traffic (%s)", r.Version, r.Weight, r.RetryTime.Format(time.RFC3339), r.Attempt, r.Reason)
	w.Until = r.RetryTime
	return w
}

// fail ends a rollout that is condemned or past its deadline. The active release, if there is one, keeps serving
// (invariant 7).
func fail(s *scope) {
	run, r, c := s.rollout()
	if run == nil {
		return
	}
	if reason, message := s.condemned(run, r, c); reason != "" {
		s.failRow(r, reason)
		s.event(r, true, ReleaseFailed, fmt.Sprintf("%s is rolled back (%s): %s", r.Version, reason, message))
		return
	}
	healthy, cause, _ := s.health(run, r, c)
	if healthy || run.WaitsFor != "" || cause == TrafficLost || s.stopped() && run.beforeTraffic(r) && s.available(*r, c) {
		return
	}
	end := s.stepDeadline(run)
	if !s.now.Before(end) && run.Grace.IsZero() && s.justStarted() {
		run.Grace = stored(s.now.Add(s.startupGrace()))
		end = s.stepDeadline(run)
	}
	if s.now.Before(end) {
		s.requeueAt(end)
		s.showUnhealthy(run, r, c, cause)
		return
	}
	if from, a := s.rival(); a != nil && r.Status == Canary && from.servesLess(a, cause) && !s.dead(r) {
		s.state(r, true, OnlyServing, fmt.Sprintf("%s exceeded its progress deadline (%s) but is not rolled back: the active release %s cannot serve", r.Version, cause, a.Version))
		return
	}
	message := fmt.Sprintf("%s was not healthy within the progress deadline of %s: %s", r.Version, s.o.Spec.Deadline, s.inWords(cause, c))
	if outside[cause] != "" && !s.replacesPods() {
		s.giveBack(run, r, cause, message)
		return
	}
	s.failRow(r, cause)
	s.event(r, true, ReleaseFailed, message)
}

// showAfter is how long a rollout may be unhealthy, or routes may stay unprogrammed, before the state shows the cause. Usually pods
// start and routes are programmed within this time. It is 30 seconds, or half the deadline if that is shorter.
func (s *scope) showAfter() time.Duration { return min(30*time.Second, s.o.Spec.Deadline/2) }

// showUnhealthy reports why a rollout is not healthy.
func (s *scope) showUnhealthy(run *Rollout, r *Row, c Object, cause Reason) {
	end := s.stepDeadline(run)
	if shown := end.Add(-s.o.Spec.Deadline).Add(s.showAfter()); s.now.Before(shown) {
		s.requeueAt(shown)
		return
	}
	s.state(r, false, Unhealthy, fmt.Sprintf("%s is not healthy: %s; its progress deadline expires at %s", r.Version, s.inWords(cause, c), end.Format(time.RFC3339)))
}

// failRow sets the status of a release to error, and removes its weight.
func (s *scope) failRow(r *Row, reason Reason) {
	if s.g.Rollout != nil && s.g.Rollout.Release == r.Release {
		s.returnPods()
		s.endRollout()
	}
	r.leave()
	r.RetryTime = noTime // A release with a retry time would not count as failed.
	s.setStatus(r, Error, reason)
}

// retryRow sets a failed release to pending, so that its rollout starts from the beginning.
func (s *scope) retryRow(r *Row, reason Reason) {
	r.Attempt++
	r.RetryTime = noTime
	s.setStatus(r, Pending, reason)
	s.touch(r.Release)
}

// outside describes the problems outside a release. If such a problem blocks a rollout, no older version
// becomes the target, because the problem would block that version as well (rule 29).
var outside = map[Reason]string{
	"Unschedulable":        "the cluster has no capacity for its pods",
	"ContainerCreating":    "the containers of its pods have not been created",
	"QuotaExceeded":        "a resource quota is exceeded",
	"ImagePullBackOff":     "an image cannot be pulled",
	"AdmissionUnavailable": "an admission webhook does not respond",
	"NameConflict":         "a Deployment with the name of the release already exists and is not managed by Heighliner",
	otherRunning:           "pods of another release of its exclusive group are still running",
	notProgrammed:          "the previous traffic change is not confirmed",
	notCreated:             "its VersionedMicroservice cannot be created or changed",
	noDomains:              "PreRollout hooks are not called, because the canary domains do not route to the release yet",
	noAnswer:               "a hook does not respond",
}

// OutsideReasons returns the problems outside a release that can block its rollout, in alphabetical order. They are the
// values of status.releaseGroups[].rollout.waitsFor.
func OutsideReasons() []Reason { return slices.Sorted(maps.Keys(outside)) }

// obstacle returns the problem outside a release that blocks the rollout of the release, or "". For a
// problem that may be resolved soon, it returns a wait instead. An unhealthy release with traffic does
// not wait: it loses its traffic at its deadline.
func (s *scope) obstacle(run *Rollout, r *Row, c Object) (Reason, *wait) {
	healthy, cause, _ := s.health(run, r, c)
	switch {
	case healthy:
		return "", nil
	case s.replacesPods() && cause != otherRunning:
		return "", nil // At the deadline, the pods of the active release start again, regardless of the cause.
	case outside[cause] == "", !run.beforeTraffic(r) && (cause == notProgrammed || !s.available(*r, c)):
		return "", nil
	}
	// The creation of an object, the confirmation of routes and the responses of hooks take a while. A release whose
	// traffic was removed because its routes were not programmed does not get this extra time again.
	if end := s.deadlineIfInterrupted(run, cause); s.now.Before(end) && (cause == notCreated || cause == noDomains || cause == noAnswer || cause == otherRunning || cause == notProgrammed && r.Reason != notProgrammed) {
		w := &wait{}
		switch cause {
		case noDomains:
			w = s.domainsWait(run, r)
		case noAnswer:
			w = s.gateWait(run, r, s.answer(run, c))
		}
		w.Until = end
		return "", w
	}
	return cause, nil
}

// uncreated reports whether the object of a release has been missing, or has had too few replicas, for
// longer than a write takes. Until the object is written, the release cannot become available.
func (s *scope) uncreated(run *Rollout, cause Reason) bool {
	return cause == notCreated && !s.now.Before(s.stepClock(run).Add(s.startupGrace()))
}

// outgrown reports whether a release was healthy until now although its object is missing or has too few replicas, for example because a user has
// just specified more replicas. In that case, the wait of the release began after the clock of the step started. In contrast, a wait for an
// object that the API server rejects is recorded from the start of that clock.
func (s *scope) outgrown(run *Rollout) bool {
	return run.WaitsFor == "" && run.WaitingSince.After(s.stepClock(run))
}

// stepClock returns the time at which a step began plus the time that the step has spent waiting. The
// deadline of the step is measured from this time.
func (s *scope) stepClock(run *Rollout) time.Time { return run.Started.Add(run.Waited) }

// block records the problem outside a release that blocks the rollout of the release. An empty cause
// unblocks the rollout.
func (s *scope) block(run *Rollout, r *Row, cause Reason, c Object) {
	was := run.WaitsFor
	run.WaitsFor = cause
	if cause == "" {
		if was != "" {
			s.event(r, false, Unblocked, fmt.Sprintf("%s is no longer blocked (%s)", r.Version, was))
		}
		return
	}
	message := fmt.Sprintf("%s is blocked at %d%%: %s (%s)", r.Version, r.Weight, outside[cause], s.inWords(cause, c))
	if was != cause && r.Reason != cause {
		s.event(r, true, Blocked, message)
	}
	s.state(r, true, Blocked, message)
}

// inWords returns a description of a cause, for use in messages.
func (s *scope) inWords(cause Reason, c Object) string {
	more := c.Message
	switch cause {
	case notProgrammed:
		from, _ := s.rival()
		more = cmp.Or(s.unconfirmedText(), from.unconfirmedText())
	case noAnswer:
		if run := s.g.Rollout; run != nil {
			more = s.answer(run, c).Message
		}
	case noDomains:
		if run := s.g.Rollout; run != nil && s.g.Row(run.Release) != nil {
			more = s.unreachable(s.g.Row(run.Release))
		}
	}
	if more == "" {
		return string(cause)
	}
	return string(cause) + ": " + more
}

// countHealthyTime adds up the time that a step waits while the release is healthy, and records when the wait is
// interrupted or continues (rules 13 and 23).
func countHealthyTime(s *scope) {
	run, r, c := s.rollout()
	if run == nil {
		return
	}
	run.From = ""
	if from := s.older(); from != nil {
		run.From = from.g.Slug
	}
	s.resetCalls(run, r)
	healthy, cause, _ := s.health(run, r, c)
	if r.Reason == TrafficLost && len(s.reports) > 0 { // The clock of the step restarts, because the time without a policy does not count.
		run.Started, run.Waited, run.WaitingSince, run.Interrupted, run.Grace = s.now, 0, noTime, false, noTime
		s.setStatus(r, r.Status, StepBegan)
		healthy, cause, _ = s.health(run, r, c)
	}
	obstacle, w := s.obstacle(run, r, c)
	s.record(w)
	gaveWay := run.WaitsFor == otherRunning // If so, this plan may be the first plan that gives the release replicas.
	s.block(run, r, obstacle, c)
	switch {
	case cause == notCreated && s.outgrown(run):
		run.interrupt(s.now)
	case s.uncreated(run, cause) && !gaveWay, cause == otherRunning, slices.Contains([]Reason{noDomains, noAnswer, notProgrammed}, run.WaitsFor):
		// The wait has lasted long enough to be recorded, and is recorded from its start.
		s.idle(run, s.stepClock(run))
		run.Interrupted = false
	case run.WaitsFor != "":
		s.idle(run, s.now)
		run.Interrupted = false
	case cause == TrafficLost:
		s.idle(run, s.now)
		run.Interrupted = true
		s.setStatus(r, r.Status, TrafficLost)
		s.state(r, true, TrafficLost, fmt.Sprintf("%s is waiting at %d%%: it had traffic, but no networkpolicies.hlnr.io object routes to this Microservice any longer; create one, or %s", r.Version, r.Weight, howToDecide(r.Release, Deprecate)))
	case healthy && run.Interrupted:
		run.Interrupted, run.WaitingSince = false, s.now
	case !healthy && !run.WaitingSince.IsZero():
		run.interrupt(s.now)
	case !healthy && s.onlyPauses(run) && s.confirmed(run.StepRevision):
		run.Interrupted = true // The pause is not recorded yet.
	}
}
