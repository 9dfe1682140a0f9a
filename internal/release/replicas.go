package release

import (
	"slices"
	"time"
)

// recordAvailability records which active and canary releases have all their replicas.
func recordAvailability(s *scope) {
	for i := range s.g.Releases {
		r := &s.g.Releases[i]
		c, _ := s.object(r.Release)
		switch {
		case r.Status != Active && r.Status != Canary:
			r.Available = false
		case !c.Unsettled:
			r.Available = s.available(*r, c)
		}
	}
}

// full returns the number of replicas of a release that has all the traffic. This is the number in the
// specification. During a rollout, it is at least the number that the active release had when the rollout began
// or, if that is more, when a later step or the promotion was due (rule 6). If work is split by pods, no release
// has its own autoscaler, and the number is the sum for both releases.
func (s *scope) full() int {
	n := max(1, s.o.Spec.Replicas)
	if s.g.Rollout != nil && (s.o.Spec.Exclusive || !s.byPods()) {
		n = max(n, s.g.Rollout.Floor)
	}
	return n
}

// activeFull returns the full number of replicas of the active release. While the newest domains move from this group to a newer group,
// this is at least the number that the release had before the move, because all requests for these domains return to it if the rollout fails.
func (s *scope) activeFull() int {
	n := s.full()
	if s.byPods() {
		return n
	}
	for i := range s.groups {
		if run := s.groups[i].Rollout; run != nil && run.From == s.g.Slug {
			n = max(n, run.Floor)
		}
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

// serving returns how many replicas a release has, or how many its autoscaler wants if that is more. In an exclusive group, the number of replicas
// follows the specification even during a rollout, so serving returns 0 unless the autoscaler wants more.
func (s *scope) serving(r *Row) int {
	c, _ := s.object(r.Release)
	if s.o.Spec.Exclusive && c.Current <= c.Replicas {
		return 0
	}
	return max(c.Replicas, c.Current)
}

// raiseFloor records that the active release was scaled up after the rollout began. The release
// that is being rolled out needs at least as many replicas.
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

// available reports whether a release has all desired replicas. A canary that grows needs only the
// replicas for its current weight or, before its first step, for the weight of that step.
func (s *scope) available(r Row, c Object) bool {
	if !s.grows(r) {
		return c.ok()
	}
	need := s.portion(r.Weight + r.Mirror)
	if s.g.Rollout.beforeTraffic(&r) {
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

// mayRetire reports whether a plan may delete or scale down a release. A plan that is based on an older rollout state must
// not do this to a release that a newer plan created or revived (rule 2). In that case the rollout state is written first.
func (s *scope) mayRetire(c Object) bool { return c.Stamp <= s.o.State.Sequence }

// want returns the number of replicas that a release should have, and the wait before that number changes.
func (s *scope) want(r Row, c Object) (int, *wait) {
	running := s.g.Rollout != nil && s.g.Rollout.Release == r.Release
	switch {
	case s.g.Phase != Live && (s.callsEndHooks() || s.keptByJobs(&r)) && s.drainWait(r) == nil:
		return 0, nil // The hooks are called when the pods are gone, and Jobs do not need the pods.
	case s.g.Phase != Live:
		return c.Replicas, nil // The object is deleted with its row.
	case s.o.Spec.Exclusive:
		return s.exclusiveSize(r, c)
	case r.Status == Active && s.g.Rollout == nil:
		return s.restSize(c)
	case r.Status == Active && c.Replicas > 0 && s.dead(&r):
		pressed, w := s.pressed()
		if !pressed {
			return s.activeFull(), w
		}
		// The active release serves no requests, but takes up capacity that the release that is being rolled out needs.
		if c.Unsettled {
			return min(c.Replicas, s.full()), w
		}
		return 1, w
	case r.Status == Active:
		return s.activeSize(c), nil
	case running:
		return s.runSize(r, c), nil
	case r.Status == Pending || r.Status == Canary:
		return c.Replicas, nil // The rollout of the release scales it up.
	case r.Promoted > 0 && s.pinnedByDomain(r.Release):
		w := s.leaving(r)
		if w == nil && !s.unanswered(r.Release) {
			return s.full(), nil
		}
		return max(c.Replicas, s.full()), w
	}
	if s.byPods() && len(s.reports) == 0 && !r.Routed {
		return 0, nil // No route ever referred to the release. If one had, a route of a deleted policy might still refer to it.
	}
	if w := s.drainWait(r); w != nil {
		return c.Replicas, w
	}
	if r.Status == Error || r.Promoted == 0 || !r.Routed || s.byPods() { // A standby pod of a worker would process work.
		return 0, nil
	}
	if !slices.Contains(s.retained(), r.Release) {
		if w := s.replacedLeaving(); w != nil && !w.Until.IsZero() && s.g.Rollout == nil && !s.o.Spec.Paused {
			return c.Replicas, w // The object and its pods will be deleted when this wait ends.
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

// unused reports whether a release is permanently excluded from all routes, according to the
// rollout state on which the plan is based.
func (s *scope) unused(r Row, c Object) bool {
	running := s.g.Rollout != nil && s.g.Rollout.Release == r.Release
	if s.g.Phase != Live || running || r.Status != Deprecated && r.Status != Error || c.Stamp > s.o.State.Sequence {
		return false
	}
	return !s.pinnedByDomain(r.Release) && s.drainWait(r) == nil
}

// pressed reports whether retained releases are scaled down because a rollout is waiting for capacity in the cluster.
// This happens after the rollout has been waiting for half of the deadline (rule 35). pressed also returns a wait until
// that time.
func (s *scope) pressed() (bool, *wait) {
	run, _, _ := s.rollout()
	if run == nil || run.WaitsFor != "QuotaExceeded" && run.WaitsFor != "Unschedulable" {
		return false, nil
	}
	half := run.WaitingSince.Add(s.o.Spec.Deadline / 2)
	return !s.now.Before(half), &wait{Until: half}
}

// neverActive reports whether a release should be marked as a release that hooks have not approved. It gets the
// mark while no release of its group is active, and keeps the mark until it becomes active.
func (s *scope) neverActive(r Row, c Object) bool {
	if r.Promoted > 0 || s.g.ActiveRow() != nil && !c.NeverActive {
		return false
	}
	return s.hasGate(ConfirmRollout, &r) || s.hasGate(PreRollout, &r)
}

// SplitBy determines how the work of a group is split between its active release and a canary.
type SplitBy string

const (
	// SplitByDefault means SplitByRoutes if a policy routes to the group or has ever routed to it. Otherwise it means
	// SplitByPods.
	SplitByDefault SplitBy = ""
	// SplitByRoutes splits work by the weights of routes. The canary has the pods for its share, and the active release has the
	// full number of pods.
	SplitByRoutes SplitBy = "Routes"
	// SplitByPods splits work by the number of pods of each release. Workers that take their work from a queue
	// require this mode.
	SplitByPods SplitBy = "Pods"
)

// ByPods reports whether a group splits its work by pods (rule 46). Deleting all policies does not change how a group splits its work if
// a release was ever in a route: a policy may be created again, and a release to which a route may refer keeps its pods until it is drained.
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

// PodShare returns how many of n pods a canary with the given weight has. The release with the larger remainder gets the
// leftover pod. If the remainders are equal, the active release gets it. Each release has at least one pod, even if n is 1.
func PodShare(weight, n int) int {
	if weight >= 100 {
		return n
	}
	return max(1, min((weight*n+49)/100, n-1))
}

// activeSize returns the number of replicas of the active release, which is the full number minus the replicas that a canary
// took over. These replicas are removed only after the pods of the canary are available and the routes, if there are any, have
// the weight of the canary. The removed replicas return when the rollout ends. If the canary loses pods, no further pods of the
// active release are removed.
func (s *scope) activeSize(active Object) int {
	full := s.activeFull()
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

// measured is how long it takes until the recommendations of a release's autoscaler are based only on the current traffic. It is the default
// stabilization window of a HorizontalPodAutoscaler. This window may contain smaller recommendations, from the time when the release had less
// traffic. They have no effect as long as the minimum of the autoscaler is larger.
const measured = 5 * time.Minute

// restSize returns the number of replicas of the active release while no rollout is in progress. A rollout can end in the plan that moves
// the traffic: the release gets all requests, but its autoscaler has measured only a part of them. Until the autoscaler has measured all of
// them, its minimum remains as it was during the rollout.
func (s *scope) restSize(active Object) (int, *wait) {
	full := s.activeFull()
	if !s.o.Spec.Autoscaled || active.Replicas <= full {
		return full, nil
	}
	end := s.movedTime().Add(measured)
	if !s.now.Before(end) {
		return full, nil
	}
	return active.Replicas, &wait{Until: end}
}

// movedTime returns the time at which the latest traffic change of the group was confirmed. If the newest domains route to the group, they may have
// returned because the rollout of a newer group failed. Such a return is recorded only as a traffic change of the newer group, so
// the changes of newer groups count as well.
func (s *scope) movedTime() time.Time {
	moved := s.confirmedTime(s.g.TrafficTime)
	if !s.hasNewest() {
		return moved
	}
	for i := range s.groups {
		g := &s.groups[i]
		if byNewest(g, s.g) >= 0 {
			continue
		}
		if t := s.planner.scope(g).confirmedTime(g.TrafficTime); t.After(moved) {
			moved = t
		}
	}
	return moved
}

// shareSize returns the number of replicas of a canary that has a share of the pods. The number is for its current weight or, before
// the first step and when the current step is complete, for the next step if that needs more.
func (s *scope) shareSize(run *Rollout, r Row) int {
	if run.Step == 0 || run.Continued == run.Step {
		return max(s.portion(r.Weight), s.nextSize(run))
	}
	return s.portion(r.Weight)
}
