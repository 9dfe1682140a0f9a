package release

import (
	"fmt"
	"time"
)

// outside are the causes that are not the release's own, with what it waits for. None of
// them makes another version the target: that would have them too (rule 29).
var outside = map[Reason]string{
	"Unschedulable":        "room in the cluster",
	"QuotaExceeded":        "room in the quota",
	"ImagePullBackOff":     "the registry of its image",
	"AdmissionUnavailable": "an admission webhook that answers",
	notProgrammed:          "routes that are programmed",
	notCreated:             "its object, which the server refuses",
	noDomains:              "the domains of its canary, which route to it before hooks of PreRollout are asked",
	noAnswer:               "a hook that answers",
}

// Waits before a release that gave its traffic back more than once may have some again:
// 10, 20, 40 … minutes.
const (
	retryFirst = 10 * time.Minute
	retryMost  = 360 * time.Minute
)

// obstacle is the cause outside of a release that keeps its rollout from what comes next; "":
// none, or the wait for one that is given a while. A release that has traffic and lacks what
// it needs for that does not wait: at its deadline it gives the traffic back.
func (s *scope) obstacle(run *Rollout, r *Row, c Child) (Reason, *wait) {
	healthy, cause, _ := s.health(run, r, c)
	_, there := s.child(r.Release)
	switch {
	case healthy:
		return "", nil
	case run.Step == 0 && !there:
		cause = notCreated
	case outside[cause] == "", run.Step > 0 && (cause == notProgrammed || !s.available(*r, c)):
		return "", nil
	}
	// An object is made, routes are confirmed, and hooks answer, in a while. What has waited
	// for that once waits.
	if end := s.ends(run); s.now.Before(end) && (cause == notCreated || cause == noDomains || cause == noAnswer || cause == notProgrammed && r.Reason != notProgrammed) {
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

// block lets a rollout wait for a cause outside of its release; "": for none.
func (s *scope) block(run *Rollout, r *Row, cause Reason, c Child) {
	was := run.WaitsFor
	run.WaitsFor = cause
	if cause == "" {
		if was != "" {
			s.event(r, false, Unblocked, fmt.Sprintf("%s no longer waits for %s", r.Version, outside[was]))
		}
		return
	}
	message := fmt.Sprintf("%s waits at %d%% for %s: %s", r.Version, r.Weight, outside[cause], s.inWords(cause, c))
	if was != cause && r.Reason != cause {
		s.event(r, true, Blocked, message)
	}
	s.state(r, true, Blocked, message)
}

// inWords reports what is known of a cause.
func (s *scope) inWords(cause Reason, c Child) string {
	more := c.Message
	switch cause {
	case notProgrammed:
		from, _ := s.rival()
		more = or(s.unconfirmed(), from.unconfirmed())
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

// giveBack takes the traffic of a canary away that lacks something for a cause outside of
// it. It stays the target, keeps its pods, and begins its steps again: the first time as
// soon as the cause is gone, later after a wait.
func (s *scope) giveBack(run *Rollout, r *Row, cause Reason, message string) {
	if _, g := s.crossing(); g != nil && cause == notProgrammed {
		// That one may lack its routes for the same cause: it gets the time to have them.
		g.Rollout.Grace = stored(s.now.Add(s.o.Spec.Deadline))
	}
	adopted := r.Adopted
	s.endRun()
	s.turn(r, Pending, cause)
	r.Adopted, r.RetryTime = adopted, noTime
	if r.Attempt > 0 {
		r.RetryTime = stored(s.now.Add(min(retryMost, retryFirst<<min(r.Attempt-1, 8))))
	}
	r.Attempt++
	s.g.Rollout = s.newRollout(r.Release)
	s.g.Rollout.Floor = run.Floor
	s.event(r, true, TrafficGivenBack, message+"; it begins its steps again when that is over")
}

// retryWait is that a release which gave its traffic back is not to have any yet.
func (s *scope) retryWait(r *Row) *wait {
	if !s.now.Before(r.RetryTime) {
		return nil
	}
	w := newWait(r, true, Blocked, "%s waits at %d%% until %s: it gave its traffic back %d times (%s)", r.Version, r.Weight, r.RetryTime.Format(time.RFC3339), r.Attempt, r.Reason)
	w.Until = r.RetryTime
	return w
}
