package release

import "github.com/heighliner/heighliner/internal/frozen"

// replacesPods reports whether the pods of the group's active release terminate before a new release gets pods.
func (s *scope) replacesPods() bool { return s.o.Spec.Exclusive && s.g.ActiveRow() != nil }

// returnPods gives the active release of an exclusive group a new stamp when a rollout ends, so that a late write by an older
// plan does not remove the release's pods.
func (s *scope) returnPods() {
	if run := s.g.Rollout; s.replacesPods() && run != nil && run.Gate != ConfirmRollout {
		s.touch(s.g.ActiveRow().Release)
	}
}

// exclusiveSize returns the number of replicas of a release of an exclusive group (rule 47). The release that is being rolled out gets
// all replicas as soon as it may have pods. The active release keeps all replicas until the other release takes over. All other releases
// get none. If the group has neither an active release nor a release that is being rolled out, the number does not change. A release's
// controller starts pods only when, according to the API server, no other release of the group has or should have pods. Therefore a
// release whose Deployment is rejected gets no replicas, so that the pods of the active release can start.
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

// takesOver reports whether the pods of an exclusive group's active release must terminate so that the pods of its successor can start. They
// must terminate when the successor has an available pod. If the replacement may begin, they must also terminate when the successor reports that
// it is waiting only for these pods. They do not start again unless the object or the Deployment of the successor is rejected.
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

// activeStopped reports whether the pods of an exclusive group's active release have been stopped to make way for a release that has no traffic
// yet. In that case, waits do not delay the release's next action, because no release serves traffic until the replacement is complete.
func (s *scope) activeStopped(run *Rollout) bool {
	if !s.replacesPods() || run.Step > 0 || run.Gate == ConfirmRollout {
		return false
	}
	c, _ := s.object(s.g.ActiveRow().Release)
	return c.Replicas == 0
}

// beginWait returns why a replacement of pods must not begin yet, or nil. This is checked again before the replacement, because a freeze or
// a pause may have begun, or a window may have closed, while the objects of the next release were being created.
func (s *scope) beginWait(run *Rollout) *wait { return s.replacementWait(run, s.g.Row(run.Release)) }

// rejected contains the reasons that show that the Deployment of a release does not exist or belongs to another object.
var rejected = map[Reason]bool{"InvalidTemplate": true, "Forbidden": true, "NameConflict": true}

// isRejected reports whether a release has no pods because its Deployment is rejected.
func isRejected(c Object) bool { return c.Available == 0 && rejected[c.Failure] }

// replacementWait returns why the pods of an exclusive group's active release must not be stopped yet, or nil. The same
// waits apply as before the first step of a release that has pods.
func (s *scope) replacementWait(run *Rollout, r *Row) *wait {
	switch {
	case !s.replacesPods():
		return nil
	case s.halted(r) && (!r.Adopted || s.o.Spec.Freeze != nil):
		return s.haltWait(r, frozen.WithoutPods(r.Version))
	case !s.judged(r) || r.Adopted:
		return nil
	}
	return s.windowWait(run, r)
}

// blocksActive reports whether the active release is waiting for its first pod while a replacement has not begun and must not begin yet. In
// that case, each of the two releases would wait for the other.
func (s *scope) blocksActive(active *Row, run *Rollout, successor Object) bool {
	c, _ := s.object(active.Release)
	return successor.Available == 0 && c.Replicas > 0 && c.Available == 0 && c.Failure == otherRunning && s.beginWait(run) != nil
}
