package release

import "fmt"

// rollout returns the rollout in progress, with the row and object of its release.
func (s *scope) rollout() (*Rollout, *Row, Object) {
	if s.g.Rollout == nil || s.g.Phase != Live {
		return nil, nil, Object{}
	}
	r := s.g.Row(s.g.Rollout.Release)
	if r == nil {
		return nil, nil, Object{}
	}
	c, _ := s.object(r.Release)
	return s.g.Rollout, r, c
}

// promoteFirst makes the first release of a group active as soon as it is available, whether or not
// a gateway confirms its routes (rule 12), unless the newest domains move to it in steps.
func promoteFirst(s *scope) {
	run, r, c := s.rollout()
	if run == nil || s.g.ActiveRow() != nil || s.arrived[s.g.Slug] {
		return
	}
	if s.older() != nil {
		if s.unreported() {
			s.requeueAt(s.silentFrom()) // Then it may have no steps to take.
		}
		return
	}
	if !c.ok() || !c.has(s.full()) {
		return
	}
	if s.o.Spec.Paused {
		s.record(s.haltWait(r, "%s is waiting at %d%%", r.Version, r.Weight))
		return
	}
	if w := s.frozen(); w != nil {
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

// promoteKept brings back a release that was active: without steps, and with as
// many replicas as the one that it replaces, unless that one is dead (rule 27).
func promoteKept(s *scope) {
	run, r, c := s.rollout()
	active := s.g.ActiveRow()
	if run == nil || active == nil || r.Promoted == 0 {
		return
	}
	if s.halted(r) {
		w := s.frozen()
		if w == nil {
			w = s.haltWait(r, "the rollback to %s is waiting", r.Version)
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

// promoteAdopted makes a release whose steps a user skipped active, once it is available at full
// size.
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
	if w := s.frozen(); w != nil {
		s.record(w)
		return
	}
	s.promote(r, Adopted)
}

// promote makes a release active, and the previous one deprecated.
func (s *scope) promote(r *Row, reason Reason) {
	last := int64(0)
	for i := range s.g.Releases {
		x := &s.g.Releases[i]
		last = max(last, x.Promoted)
		x.Weight, x.Match, x.Mirror = 0, false, 0
		if x.Status == Active && x != r {
			x.Available = false
			s.turn(x, Deprecated, Replaced)
		}
	}
	if r.Promoted == 0 {
		r.FirstActive = s.now
	}
	r.Routed = r.Routed || len(s.reports) > 0
	r.Weight, r.Promoted, r.Adopted, r.Attempt, r.RetryTime = 100, last+1, false, 0, noTime
	s.turn(r, Active, reason)
	s.g.Rollout, s.g.Superseded = nil, 0
	s.event(r, false, Promoted, fmt.Sprintf("%s (%s) is active in group %s", r.Version, r.Release, s.g.Name))
}
