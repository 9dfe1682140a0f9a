package release

// exchanges reports whether the pods of the active release of the group end for the release in a rollout.
func (s *scope) exchanges() bool { return s.o.Spec.Exclusive && s.g.ActiveRow() != nil }

// returnPods gives the active release of an exclusive group another stamp when a rollout ends, so that a late write of an older plan
// does not take its pods.
func (s *scope) returnPods() {
	if run := s.g.Rollout; s.exchanges() && run != nil && run.Gate != ConfirmRollout {
		s.touch(s.g.ActiveRow().Release)
	}
}

// exclusiveSize returns the number of replicas of a release of an exclusive group (rule 47). The release in a rollout is to have all as
// soon as it may have pods; the active one, until the other takes over; and all others none. A group with neither keeps what it has.
// The pods of a release start when no other release of the group is to have any, or has any, which its controller asks the API server
// for. Therefore one whose Deployment is rejected is to have none, so that those of the active one can start.
func (s *scope) exclusiveSize(r Row, c Object) (int, *wait) {
	run, next, object := s.rollout()
	runs, active := run != nil && run.Gate != ConfirmRollout, s.g.ActiveRow()
	switch {
	case runs && r.Release == next.Release && active != nil && isRejected(c):
		return 0, nil
	case runs && r.Release == next.Release && active != nil && s.blocksActive(active, run, c):
		return 0, s.beginWait(run)
	case runs && r.Release == next.Release:
		return s.full(), nil
	case active != nil && r.Release == active.Release && runs && s.takesOver(active, run, object):
		return 0, nil
	case active != nil && r.Release == active.Release && runs && object.Failure == otherRunning:
		return s.full(), s.beginWait(run)
	case active != nil && r.Release == active.Release:
		return s.full(), nil
	case active == nil && !runs:
		return c.Replicas, nil
	}
	return 0, nil
}

// takesOver reports whether the pods of the active release of an exclusive group end: its successor reports that it waits only for
// them, or they have ended and its object and Deployment are not rejected.
func (s *scope) takesOver(active *Row, run *Rollout, successor Object) bool {
	c, _ := s.object(active.Release)
	switch {
	case isRejected(successor):
		return false
	case c.Replicas == 0:
		return successor.Release != "" || !s.uncreated(run, notCreated)
	}
	return successor.Available > 0 || successor.Failure == otherRunning && !successor.Unsettled && s.beginWait(run) == nil
}

// exchanged reports whether the pods of the active release of an exclusive group have ended for a release that has no traffic yet. What
// keeps a release from its next action does not apply then: nothing serves until the exchange is complete.
func (s *scope) exchanged(run *Rollout) bool {
	if !s.exchanges() || run.Step > 0 || run.Gate == ConfirmRollout {
		return false
	}
	c, _ := s.object(s.g.ActiveRow().Release)
	return c.Replicas == 0
}

// beginWait returns what an exchange of pods waits for that has not begun: a freeze, a pause or a window that came while the objects of
// the next release were not accepted.
func (s *scope) beginWait(run *Rollout) *wait { return s.exchangeWait(run, s.g.Row(run.Release)) }

// rejected are the causes for which the Deployment of a release does not exist, or belongs to something else.
var rejected = map[Reason]bool{"InvalidTemplate": true, "Forbidden": true, "NameConflict": true}

// isRejected reports whether a release has no pods because its Deployment is rejected.
func isRejected(c Object) bool { return c.Available == 0 && rejected[c.Failure] }

// exchangeWait returns what a release of an exclusive group waits for before the pods of the active release end: all that
// its first step would wait for with pods.
func (s *scope) exchangeWait(run *Rollout, r *Row) *wait {
	switch {
	case !s.exchanges():
		return nil
	case s.halted(r):
		return s.haltWait(r, "%s is waiting without pods", r.Version)
	case !s.judged(r) || r.Adopted:
		return nil
	}
	return s.windowWait(run, r)
}

// blocksActive reports whether an exchange has not begun, and may not begin, and the active release waits for its first pod: each of the two
// would wait for the other.
func (s *scope) blocksActive(active *Row, run *Rollout, successor Object) bool {
	c, _ := s.object(active.Release)
	return successor.Available == 0 && c.Replicas > 0 && c.Available == 0 && c.Failure == otherRunning && s.beginWait(run) != nil
}
