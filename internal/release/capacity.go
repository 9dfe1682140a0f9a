package release

// full is the number of replicas of a release with all the traffic: what the
// user asks for, and during a run not less than the active one had (rule 6).
func (s *scope) full() int {
	n := max(1, s.o.Spec.Replicas)
	if s.g.Run != nil {
		n = max(n, s.g.Run.Floor)
	}
	return n
}

// portion is the part of the full size that a percentage of the requests needs.
func (s *scope) portion(percent int) int {
	return max(1, (min(100, percent)*s.full()+99)/100)
}

// serving is how many replicas a release has, or an autoscaler wants it to have.
func (s *scope) serving(r *Row) int {
	c, _ := s.child(r.Release)
	return max(c.Replicas, c.Current)
}

// raiseFloor notes that the active release was made larger since the run began: what
// follows it needs as much.
func (s *scope) raiseFloor(run *Run, active *Row) { run.Floor = max(run.Floor, s.serving(active)) }

// nextSize is what a release needs before it may have what comes next.
func (s *scope) nextSize(run *Run) int {
	if steps := s.steps(); run.Step < len(steps) {
		return s.portion(steps[run.Step].Weight + steps[run.Step].Mirror)
	}
	return s.full()
}

// grows says that a release is a canary that gets its pods with its weight.
func (s *scope) grows(r Row) bool {
	return s.o.Spec.MatchWeight && s.g.Run != nil && s.g.Run.Release == r.Release && s.judged(&r) && !r.Adopted
}

// available says that a release has the replicas that it is to have; a canary that
// grows, those that its present weight needs, and before its first step, that one's.
func (s *scope) available(r Row, c Child) bool {
	if !s.grows(r) {
		return c.ok()
	}
	need := s.portion(r.Weight + r.Mirror)
	if s.g.Run.Step == 0 {
		need = s.nextSize(s.g.Run)
	}
	return c.Replicas > 0 && c.has(min(c.Replicas, need))
}

// runSize is the number of replicas that the release that is under way is to have.
func (s *scope) runSize(r Row, c Child) int {
	switch {
	case s.g.Run.Gate == ConfirmRollout:
		return c.Replicas
	case s.grows(r):
		return min(s.full(), max(c.Replicas, s.nextSize(s.g.Run)))
	}
	return s.full()
}
