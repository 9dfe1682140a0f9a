package release

import "slices"

// full returns the number of replicas of a release with all the traffic: the number in the
// specification, and during a rollout at least as many as the active release had (rule 6). Where work is
// split by pods, there is no autoscaler of one release, and the number is that of both.
func (s *scope) full() int {
	n := max(1, s.o.Spec.Replicas)
	if s.g.Rollout != nil && (s.o.Spec.Exclusive || !s.byPods()) {
		n = max(n, s.g.Rollout.Floor)
	}
	return n
}

// portion returns the number of replicas that a percentage of the requests needs.
func (s *scope) portion(percent int) int {
	if s.byPods() {
		return PodShare(percent, s.full())
	}
	return max(1, (min(100, percent)*s.full()+99)/100)
}

// serving returns how many replicas a release has, or its autoscaler wants. In an exclusive group only the
// latter counts: all other numbers follow the specification, also during a rollout.
func (s *scope) serving(r *Row) int {
	c, _ := s.object(r.Release)
	if s.o.Spec.Exclusive && c.Current <= c.Replicas {
		return 0
	}
	return max(c.Replicas, c.Current)
}

// raiseFloor records that the active release was scaled up since the rollout began: the next
// release needs as many replicas.
func (s *scope) raiseFloor(run *Rollout, active *Row) { run.Floor = max(run.Floor, s.serving(active)) }

// nextSize returns the number of replicas that a release needs before its next step or its
// promotion.
func (s *scope) nextSize(run *Rollout) int {
	if steps := s.steps(); run.Step < len(steps) {
		return s.portion(steps[run.Step].Weight + steps[run.Step].Mirror)
	}
	return s.full()
}

// grows reports whether a release is a canary whose number of pods follows its weight.
func (s *scope) grows(r Row) bool {
	return (s.o.Spec.MatchWeight || s.byPods()) && s.g.Rollout != nil && s.g.Rollout.Release == r.Release && s.judged(&r) && !r.Adopted
}

// available reports whether a release has all desired replicas. A canary that grows needs the
// replicas for its current weight or, before its first step, for the weight of that step.
func (s *scope) available(r Row, c Object) bool {
	if !s.grows(r) {
		return c.ok()
	}
	need := s.portion(r.Weight + r.Mirror)
	if s.g.Rollout.Step == 0 {
		need = s.nextSize(s.g.Rollout)
	}
	return c.Replicas > 0 && c.has(min(c.Replicas, need))
}

// runSize returns the number of replicas of the release that is being rolled out.
func (s *scope) runSize(r Row, c Object) int {
	switch {
	case s.o.Spec.Exclusive:
		n, _ := s.exclusiveSize(r, c)
		return n
	case s.g.Rollout.Gate == ConfirmRollout:
		return c.Replicas
	case s.grows(r) && s.byPods():
		return s.shareSize(s.g.Rollout, r)
	case s.grows(r):
		return min(s.full(), max(c.Replicas, s.nextSize(s.g.Rollout)))
	}
	return s.full()
}

// size plans which objects are created, revived, resized and deleted.
func (s *scope) size(p *Result) {
	for _, r := range s.g.Releases {
		s.sizeRow(p, r)
	}
	for _, c := range s.sorted {
		if c.Slug == s.g.Slug && !c.Terminating && s.g.Row(c.Release) == nil {
			s.sizeStray(p, c)
		}
	}
}

// sizeRow plans the size of the object of a row.
func (s *scope) sizeRow(p *Result, r Row) {
	c, there := s.object(r.Release)
	if c.Terminating {
		return
	}
	if !there {
		running := s.g.Rollout != nil && s.g.Rollout.Release == r.Release
		if _, can := s.offered(r.Release); can && (r.Status == Active || running) {
			want, w := s.want(r, Object{})
			s.record(w)
			p.Ensure = append(p.Ensure, Ensure{Slug: s.g.Slug, Release: r.Release, Replicas: want, Create: true, Stamp: s.next})
			if s.neverActive(r, Object{}) {
				p.NeverActive = append(p.NeverActive, r.Release)
			}
		}
		return
	}
	if s.neverActive(r, c) {
		p.NeverActive = append(p.NeverActive, r.Release)
	}
	want, w := s.want(r, c)
	s.record(w)
	if s.unused(r, c) {
		p.Idle = append(p.Idle, r.Release)
	}
	switch {
	case s.isTouched(r.Release) && !c.Refused:
		p.Ensure = append(p.Ensure, Ensure{Slug: s.g.Slug, Release: r.Release, Replicas: max(want, c.Replicas), Stamp: s.next})
	case want > c.Replicas:
		p.Ensure = append(p.Ensure, Ensure{Slug: s.g.Slug, Release: r.Release, Replicas: want})
	case want == c.Replicas:
	case s.mayRetire(c):
		p.Retire = append(p.Retire, Retire{Slug: s.g.Slug, Release: r.Release, Replicas: want})
	default:
		s.force = true
	}
}

// sizeStray plans the size or deletion of an object without a row.
func (s *scope) sizeStray(p *Result, c Object) {
	if c.NeverActive {
		p.NeverActive = append(p.NeverActive, c.Release)
	}
	if c.Release == s.g.Target.Release || s.referenced(c.Release) {
		return
	}
	if !s.mayRetire(c) {
		s.force = true
		return
	}
	if w := s.strayDraining(c); w != nil {
		s.record(w)
		return
	}
	if !c.ActiveJobs {
		p.Retire = append(p.Retire, Retire{Slug: s.g.Slug, Release: c.Release, Delete: true})
	} else if c.Replicas > 0 { // A migration that is interrupted is worse than one that is not needed (rule 49); pods are not needed for it.
		p.Retire = append(p.Retire, Retire{Slug: s.g.Slug, Release: c.Release})
	}
}

// strayDraining returns the drain of a release object without a row: a route may have named it until the
// policy's last change.
func (s *scope) strayDraining(c Object) *wait {
	for _, g := range s.o.State.Groups {
		if g.Slug == c.Slug && g.Row(c.Release) != nil {
			return nil // its row has waited for that
		}
	}
	if s.unreported() {
		return newWait(&Row{Release: c.Release, Version: c.Version}, true, TrafficUnconfirmed, "%s keeps its pods until each networkpolicies.hlnr.io reports its routes", c.Version)
	}
	for _, rep := range s.reports {
		if end := rep.Confirmed.Add(s.o.Spec.Drain); rep.Revision > 0 && s.now.Before(end) {
			return &wait{Until: end}
		}
	}
	return nil
}

// mayRetire prevents a plan based on an older rollout state from deleting or shrinking a release
// that a newer one created or revived (rule 2): the rollout state is written first.
func (s *scope) mayRetire(c Object) bool { return c.Stamp <= s.o.State.Sequence }

// want returns the number of replicas of a release, and what it waits for before that changes.
func (s *scope) want(r Row, c Object) (int, *wait) {
	running := s.g.Rollout != nil && s.g.Rollout.Release == r.Release
	switch {
	case s.g.Phase != Live && s.callsEndHooks() && s.undrained(r) == nil:
		return 0, nil // its hooks are called when its pods are gone
	case s.g.Phase != Live:
		return c.Replicas, nil // the object is deleted with its row
	case s.o.Spec.Exclusive:
		return s.exclusiveSize(r, c)
	case r.Status == Active && c.Replicas > 0 && s.dead(&r):
		pressed, w := s.pressed()
		if !pressed {
			return s.full(), w
		}
		// It serves nothing, and takes the room that its fix needs.
		if c.Unsettled {
			return min(c.Replicas, s.full()), w
		}
		return 1, w
	case r.Status == Active:
		return s.activeSize(c), nil
	case running:
		return s.runSize(r, c), nil
	case r.Status == Pending || r.Status == Canary:
		return c.Replicas, nil // its rollout scales it up
	case r.Promoted > 0 && s.pinnedByDomain(r.Release):
		w := s.leaving(r)
		if w == nil && !s.unanswered(r.Release) {
			return s.full(), nil
		}
		return max(c.Replicas, s.full()), w
	}
	if s.byPods() && len(s.reports) == 0 && !r.Routed {
		return 0, nil // no route can name it; those of a deleted policy may, for a while
	}
	if w := s.undrained(r); w != nil {
		return c.Replicas, w
	}
	if r.Status == Error || r.Promoted == 0 || !r.Routed || s.byPods() { // a standby pod of a worker would take work
		return 0, nil
	}
	if !slices.Contains(s.retained(), r.Release) {
		if w := s.replacedLeaving(); w != nil && !w.Until.IsZero() && s.g.Rollout == nil && !s.o.Spec.Paused {
			return c.Replicas, w // Then its object is deleted, and its pods with it.
		}
		return 0, nil
	}
	pressed, w := s.pressed()
	switch {
	case pressed:
		return 0, w
	case s.o.Spec.StandbyFull:
		return s.full(), w
	}
	return min(s.o.Spec.Standby, s.full()), w
}

// unused reports whether a release is permanently out of the routes according to the rollout state on
// which the plan is based.
func (s *scope) unused(r Row, c Object) bool {
	running := s.g.Rollout != nil && s.g.Rollout.Release == r.Release
	if s.g.Phase != Live || running || r.Status != Deprecated && r.Status != Error || c.Stamp > s.o.State.Sequence {
		return false
	}
	return !s.pinnedByDomain(r.Release) && s.undrained(r) == nil
}

// pressed reports whether a rollout waits for room in the cluster: after half the deadline retained
// releases are scaled down for it (rule 35). Until then it returns the wait for that time.
func (s *scope) pressed() (bool, *wait) {
	run, _, _ := s.rollout()
	if run == nil || run.WaitsFor != "QuotaExceeded" && run.WaitsFor != "Unschedulable" {
		return false, nil
	}
	half := run.WaitingSince.Add(s.o.Spec.Deadline / 2)
	return !s.now.Before(half), &wait{Until: half}
}

// neverActive reports whether a release gets the mark of one that hooks have not let through: while
// no release of its group is active, and until it is active itself.
func (s *scope) neverActive(r Row, c Object) bool {
	if r.Promoted > 0 || s.g.ActiveRow() != nil && !c.NeverActive {
		return false
	}
	return s.asks(ConfirmRollout, &r) || s.asks(PreRollout, &r)
}

// SplitBy is what splits the work of a group between its active release and a canary.
type SplitBy string

const (
	// SplitByDefault are routes if a policy routes to the group or ever did, and pods otherwise.
	SplitByDefault SplitBy = ""
	// SplitByRoutes are the weights of routes. Both releases have the pods for their part, and the active one all.
	SplitByRoutes SplitBy = "Routes"
	// SplitByPods are the numbers of pods, as workers need it that take their work from a queue.
	SplitByPods SplitBy = "Pods"
)

// ByPods reports whether a group splits its work by pods (rule 46). Pods of a release that a route may name stay until it is
// drained; therefore a policy that is deleted, and may be created again, does not change how a group splits.
func ByPods(o *Observed, g *Group) bool {
	if o.Spec.Exclusive {
		return true
	}
	if o.Spec.SplitBy != SplitByDefault {
		return o.Spec.SplitBy == SplitByPods
	}
	return len(o.Policies) == 0 && !slices.ContainsFunc(g.Releases, func(r Row) bool { return r.Routed })
}

func (s *scope) byPods() bool { return ByPods(&s.o, s.g) }

// PodShare returns how many of n pods a canary with a weight has: of the two releases, the one with the larger remainder gets the
// pod that cannot be divided, and the active one if they are equal. Each has at least one, so that of one pod both have one.
func PodShare(weight, n int) int {
	if weight >= 100 {
		return n
	}
	return max(1, min((weight*n+49)/100, n-1))
}

// activeSize returns the number of replicas of the active release: all, without those that a canary took over. These leave after the
// pods of the canary are available, and routes, if there are any, have its weight; and they return when its rollout ends. If the canary
// loses pods, no more leave.
func (s *scope) activeSize(active Object) int {
	full := s.full()
	_, canary, c := s.rollout()
	if !s.byPods() || canary == nil || canary.Status != Canary || canary.Weight == 0 || canary.Promoted > 0 {
		return full
	}
	share := s.portion(canary.Weight)
	rest := max(1, full-share)
	if c.has(share) && s.confirmed(s.g.TrafficRevision) {
		return rest
	}
	return max(rest, min(active.Replicas, full))
}

// shareSize returns the number of replicas of a canary that has its part of the pods: for its current weight, and when the step has
// passed, for the next one.
func (s *scope) shareSize(run *Rollout, r Row) int {
	if run.Step == 0 || run.Continued == run.Step {
		return max(s.portion(r.Weight), s.nextSize(run))
	}
	return s.portion(r.Weight)
}
