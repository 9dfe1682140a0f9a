package release

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// asks reports whether hooks have to agree at a point of a release's rollout. Before its
// pods and before its first traffic they are asked for every version that was not active
// yet: the first release of a group gets all traffic at once, so that nothing after these
// two points could protect it. The other points are those of a canary.
func (s *scope) asks(p Point, r *Row) bool {
	switch {
	case r.Promoted > 0 || r.Adopted:
		return false
	case s.g.Level == preview:
		return slices.Contains(s.o.Spec.PreviewGates, p)
	case p == ConfirmRollout || p == PreRollout:
		return slices.Contains(s.o.Spec.Gates, p)
	}
	return slices.Contains(s.o.Spec.Gates, p) && s.judged(r)
}

// answer is what the hooks say to the gate at which the run waits.
func (s *scope) answer(run *Rollout, c Child) GateFact {
	for _, f := range c.Gates {
		if f.Rollout == run.Sequence && f.Step == run.Step && f.Point == run.Gate && stored(f.Since).Equal(run.GateTime) {
			return f
		}
	}
	return GateFact{}
}

// points are the gates before what comes next, in order.
func (s *scope) points(run *Rollout, r *Row) []Point {
	var points []Point
	if r.Status == Pending && s.asks(PreRollout, r) {
		points = append(points, PreRollout)
	}
	if !s.judged(r) {
		return points
	}
	if run.Step > 0 && len(s.o.Peers) > 0 {
		points = append(points, Together)
	}
	steps := s.steps()
	switch {
	case run.Step >= len(steps):
		if s.asks(ConfirmPromotion, r) {
			points = append(points, ConfirmPromotion)
		}
	case steps[run.Step].Confirm && steps[run.Step].more(*r):
		points = append(points, ConfirmTrafficIncrease)
	}
	return points
}

// podsWait is what a release waits for before it has its pods.
func (s *scope) podsWait(run *Rollout, r *Row, c Child) *wait {
	if s.asks(ConfirmRollout, r) {
		if f := s.answer(run, c); !f.Open {
			return s.gateWait(run, r, f)
		}
		if s.o.Spec.Paused {
			return newWait(r, false, Paused, "%s waits without pods: spec.paused is set", r.Version)
		}
	}
	return s.turnWaits(r.Version)
}

// nextGate is the gate at which a run waits before what comes next, since when hooks are
// asked there, and what they have yet to agree to; nil: all agree. Several points follow each
// other; the last one stays set until the step begins.
func (s *scope) nextGate(run Rollout, r *Row, c Child) (Point, time.Time, *wait) {
	points := s.points(&run, r)
	for _, p := range points[max(0, slices.Index(points, run.Gate)):] {
		if run.Gate != p {
			run.Gate, run.GateTime = p, noTime
		}
		if s.untried(&run, r) {
			return run.Gate, run.GateTime, s.domainsWait(&run, r)
		}
		if run.GateTime.IsZero() {
			run.GateTime = s.now // It is asked from here on.
		}
		w := s.peersWait(&run, r)
		if f := s.answer(&run, c); p != Together && !f.Open {
			w = s.gateWait(&run, r, f)
		}
		if w != nil {
			return run.Gate, run.GateTime, w
		}
	}
	return run.Gate, run.GateTime, nil
}

// passGates brings a rollout to the gate before what comes next, and reports whether it is
// through.
func (s *scope) passGates(run *Rollout, r *Row, c Child) bool {
	gate, since, w := s.nextGate(*run, r, c)
	run.Gate, run.GateTime = gate, since
	s.record(w)
	return w == nil
}

// untried reports whether hooks that are to try a release do not come to it yet, so that they are
// not asked.
func (s *scope) untried(run *Rollout, r *Row) bool {
	return run.Gate == PreRollout && run.GateTime.IsZero() && s.asks(PreRollout, r) && s.unreachable(r) != ""
}

// unheard reports whether a hook that is to judge a release was asked, and no one answered.
func (s *scope) unheard(run *Rollout, r *Row, c Child) bool {
	f := s.answer(run, c)
	return run.Gate == PreRollout && s.asks(PreRollout, r) && f.Unanswered && !f.Failed && !f.Open
}

// domainsWait is that hooks do not come to a release.
func (s *scope) domainsWait(run *Rollout, r *Row) *wait {
	return newWait(r, false, AwaitingGate, "%s waits at %d%% to be reached by the hooks of %s: %s", r.Version, r.Weight, run.Gate, s.unreachable(r))
}

// unreachable reports which policy has domains of the canary that do not route to a release
// yet; "": none. Hooks that try a release come to it by them, and must not meet another one.
// A policy that does not count blocks nothing (rule 10).
func (s *scope) unreachable(r *Row) string {
	var out []string
	for _, rep := range s.reports {
		if rep.CanaryDomains && rep.Canary != r.Release && s.reaches(rep) {
			out = append(out, fmt.Sprintf("the domains of the canary of networkpolicies.hlnr.io %q do not route to it yet", rep.policy))
			if rep.Message != "" {
				out[len(out)-1] += ": " + rep.Message
			}
		}
	}
	return strings.Join(out, "; ")
}

// reaches reports whether a policy counts for the domains of the canary of this group. The first
// release of a newer group has none confirmed yet: then the policy counts by the group from which
// its newest domains move.
func (s *scope) reaches(rep Report) bool {
	if rep.counts(s.g) {
		return true
	}
	from := s.older()
	return from != nil && s.follows(rep.policy) && slices.ContainsFunc(from.reports, func(x Report) bool { return x.policy == rep.policy && x.counts(from.g) })
}

// gateWait is that hooks do not agree.
func (s *scope) gateWait(run *Rollout, r *Row, f GateFact) *wait {
	return newWait(r, false, AwaitingGate, "%s waits at %d%% for the hooks of %s: %s", r.Version, r.Weight, run.Gate, or(f.Message, "no answer yet"))
}
