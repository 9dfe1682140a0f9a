package release

import "slices"

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
