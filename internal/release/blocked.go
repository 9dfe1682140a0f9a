package release

import (
	"fmt"
	"time"
)

// outside are the causes outside of a release, in words. None of them makes another version
// the target, because it would be blocked as well (rule 29).
var outside = map[Reason]string{
	"Unschedulable":        "the cluster has no capacity for its pods",
	"ContainerCreating":    "a node has not created its containers",
	"QuotaExceeded":        "a resource quota is exceeded",
	"ImagePullBackOff":     "an image cannot be pulled",
	"AdmissionUnavailable": "an admission webhook does not respond",
	notProgrammed:          "its routes are not programmed",
	notCreated:             "the API server rejects its VersionedMicroservice",
	noDomains:              "PreRollout hooks are not called, because the canary domains do not route to it yet",
	noAnswer:               "a hook does not respond",
}

// obstacle is the cause outside of a release that keeps its rollout from what comes next; "":
// none, or the wait for one that is given a while. A release that has traffic and lacks what
// it needs for that does not wait: at its deadline it gives the traffic back.
func (s *scope) obstacle(run *Rollout, r *Row, c Object) (Reason, *wait) {
	healthy, cause, _ := s.health(run, r, c)
	switch {
	case healthy:
		return "", nil
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

// uncreated reports that the object of a release is not there, or does not ask for its pods, for
// longer than a write of it takes. In that time the release could not become available.
func (s *scope) uncreated(run *Rollout, cause Reason) bool {
	return cause == notCreated && !s.now.Before(s.stepClock(run).Add(s.moment()))
}

// stepClock is since when a step has been unhealthy, if it always was, without its waits.
func (s *scope) stepClock(run *Rollout) time.Time { return run.Started.Add(run.Waited) }

// block makes a rollout wait for a cause outside of its release; "" ends the wait.
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

// inWords describes what is known about a cause.
func (s *scope) inWords(cause Reason, c Object) string {
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
