package release

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/heighliner/heighliner/internal/frozen"
)

// hasGate reports whether hooks must approve at a point in a release's rollout. The ConfirmRollout
// and PreRollout hooks are called for every version that was never active. The first release of a group gets
// all traffic immediately, so no later point could protect the group. All other points apply only to
// canaries.
func (s *scope) hasGate(p Point, r *Row) bool {
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

// answer returns the hooks' answer at the gate at which the rollout is waiting.
func (s *scope) answer(run *Rollout, c Object) GateFact {
	for _, f := range c.Gates {
		if f.Rollout == run.Sequence && f.Step == run.Step && f.Point == run.Gate && stored(f.Since).Equal(run.GateTime) {
			return f
		}
	}
	return GateFact{}
}

// points returns the gates before the next action of the rollout, in order.
func (s *scope) points(run *Rollout, r *Row) []Point {
	var points []Point
	if r.Status == Pending && s.hasGate(PreRollout, r) {
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
		if s.hasGate(ConfirmPromotion, r) {
			points = append(points, ConfirmPromotion)
		}
	case steps[run.Step].Confirm && steps[run.Step].more(*r):
		points = append(points, ConfirmTrafficIncrease)
	}
	return points
}

// podsWait returns why a release must not have pods yet, or nil.
func (s *scope) podsWait(run *Rollout, r *Row, c Object) *wait {
	if s.halted(r) && (s.o.Spec.Freeze != nil || run.GateTime.IsZero() && !r.Adopted) {
		return s.haltWait(r, frozen.WithoutPods(r.Version))
	}
	if s.hasGate(ConfirmRollout, r) {
		if w := s.jobsWait(r); w != nil && run.GateTime.IsZero() {
			return w
		}
		if f := s.answer(run, c); !f.Open {
			return s.gateWait(run, r, f)
		}
		if s.o.Spec.Paused {
			return s.haltWait(r, frozen.WithoutPods(r.Version))
		}
	}
	if w := s.replacementWait(run, r); w != nil {
		return w
	}
	return s.previewStartWait(r.Version)
}

// jobsWait returns why the ConfirmRollout hooks of a release cannot be called yet, or nil. The hook Jobs of the failed and superseded releases of the
// group must end first, so that a migration, its reversal, and the migration of the next version never run at the same time (rule 49). For a previously
// active release, only the gate Jobs count, because a user may have adopted that release while its migration was running.
func (s *scope) jobsWait(r *Row) *wait {
	if w := s.reportWait(r); w != nil {
		return w
	}
	for _, c := range s.sorted {
		row := s.g.Row(c.Release)
		served := row != nil && row.Status != Error && row.Promoted > 0
		if c.Slug != s.g.Slug || c.Terminating || c.Release == r.Release || !s.hasJobs(c) || served && !c.GateJobs {
			continue
		}
		return newWait(r, false, AwaitingGate, "%s is waiting without pods: its %s hooks are called when the hook Jobs of %s have ended%s", r.Version, ConfirmRollout, c.Version, c.whyUncreated())
	}
	return nil
}

// reportWait reports that the controller of a release that starts again has not reported the restart yet, or returns nil. Without this wait,
// if the release failed or was superseded again, the report from the first time would count as the report from the second, and a gate Job could still start.
func (s *scope) reportWait(r *Row) *wait {
	c, there := s.object(r.Release)
	if !s.o.Spec.GateJobs || !there || c.Terminating || c.Reported != Error && c.Reported != Deprecated {
		return nil
	}
	return newWait(r, false, AwaitingGate, "%s is waiting without pods: its %s hooks are called when its VersionedMicroservice reports that the release is starting again", r.Version, ConfirmRollout)
}

// nextGate returns the gate at which a rollout is waiting, the time from which its hooks are called, and
// the wait, which is nil if all hooks approve. If several points follow each other, the last point stays
// set until the step begins.
func (s *scope) nextGate(run Rollout, r *Row, c Object) (Point, time.Time, *wait) {
	points := s.points(&run, r)
	for _, p := range points[max(0, slices.Index(points, run.Gate)):] {
		if run.Gate != p {
			run.Gate, run.GateTime = p, noTime
		}
		if s.untried(&run, r) {
			return run.Gate, run.GateTime, s.domainsWait(&run, r)
		}
		if run.GateTime.IsZero() {
			run.GateTime = s.now // The hooks are called from now on.
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

// passGates moves a rollout to its next gate, and reports whether all gates are passed.
func (s *scope) passGates(run *Rollout, r *Row, c Object) bool {
	gate, since, w := s.nextGate(*run, r, c)
	run.Gate, run.GateTime = gate, since
	s.record(w)
	return w == nil
}

// untried reports whether the hooks that test a release have not been called because they cannot reach the
// release yet.
func (s *scope) untried(run *Rollout, r *Row) bool {
	return run.Gate == PreRollout && run.GateTime.IsZero() && s.hasGate(PreRollout, r) && s.unreachable(r) != ""
}

// resetCalls discards the calls to hooks that test a release, and their answers, when the canary
// domains no longer route to the release. In that case, its object or its pods are gone, and the hooks would
// reach another release. The hooks are called again when the domains route to the release again.
func (s *scope) resetCalls(run *Rollout, r *Row) {
	if run.Gate == PreRollout && s.hasGate(PreRollout, r) && s.unreachable(r) != "" {
		run.GateTime = noTime
	}
}

// unheard reports whether a hook that tests a release was called and did not respond.
func (s *scope) unheard(run *Rollout, r *Row, c Object) bool {
	f := s.answer(run, c)
	return run.Gate == PreRollout && s.hasGate(PreRollout, r) && f.Unanswered && !f.Failed && !f.Open
}

// domainsWait reports that a release is waiting because hooks cannot reach it.
func (s *scope) domainsWait(run *Rollout, r *Row) *wait {
	return newWait(r, false, AwaitingGate, "%s is waiting at %d%%: its %s hooks cannot be called yet: %s", r.Version, r.Weight, run.Gate, s.unreachable(r))
}

// unreachable describes the policies whose canary domains do not route to a release yet, or returns an empty
// string. Hooks reach a release through these domains, and must not reach another release. A policy that
// does not count does not block the release (rule 10).
func (s *scope) unreachable(r *Row) string {
	var out []string
	for _, rep := range s.reports {
		// A report with a later revision is about an earlier group with the same name.
		if (rep.unreported || rep.Revision > s.g.TrafficRevision) && s.reaches(rep) {
			out = append(out, fmt.Sprintf("networkpolicies.hlnr.io %q has not reported yet whether it has canary domains for group %s", rep.policy, s.g.Name))
		}
		if rep.CanaryDomains && rep.Canary != r.Release && s.reaches(rep) {
			out = append(out, fmt.Sprintf("the canary domains of networkpolicies.hlnr.io %q do not route to the release yet", rep.policy))
			if rep.Message != "" {
				out[len(out)-1] += ": " + rep.Message
			}
		}
		if from := s.endingWithDomains(rep.policy); from != "" && s.reaches(rep) {
			out = append(out, fmt.Sprintf("the canary domains of networkpolicies.hlnr.io %q still belong to group %s, which is ending", rep.policy, from))
		}
	}
	return strings.Join(out, "; ")
}

// endingWithDomains returns the slug of a group that is ending or has ended but still has canary domains, according to
// the report of the policy, or an empty string. These domains may move to the group of s. Until then, they route to the returned group.
func (s *scope) endingWithDomains(policy string) string {
	for _, p := range s.o.Policies {
		for _, x := range p.Groups {
			if p.Name == policy && x.CanaryDomains && !slices.ContainsFunc(s.groups, func(g Group) bool { return g.Slug == x.Slug && g.Phase == Live }) {
				return x.Slug
			}
		}
	}
	return ""
}

// reaches reports whether a policy counts for the canary domains of this group. For the first release of a newer
// group, no domains are confirmed yet. In that case the policy counts if it counts for the serving group, from which
// the newest domains move.
func (s *scope) reaches(rep Report) bool {
	if rep.counts(s.g) {
		return true
	}
	from := s.servingGroup()
	return from != nil && s.g.ActiveRow() == nil && byNewest(s.g, from) < 0 &&
		slices.ContainsFunc(s.reportsOf(from.Slug), func(x Report) bool { return x.policy == rep.policy && x.counts(from) })
}

// gateWait reports that a release is waiting for hooks that have not approved yet.
func (s *scope) gateWait(run *Rollout, r *Row, f GateFact) *wait {
	return newWait(r, false, AwaitingGate, "%s is waiting at %d%% for its %s hooks: %s", r.Version, r.Weight, run.Gate, cmp.Or(f.Message, "no response yet"))
}

// Together is the gate at which a rollout waits for the rollouts of other Microservices. No hook is called
// at this gate.
const Together Point = "Together"

// failure returns why the version failed at the peer, if the version is neither active nor in progress
// there. A release that was rolled back only because another release failed has not failed itself.
func (p Peer) failure(version string) (reason Reason) {
	for _, g := range p.Groups {
		for _, r := range g.Releases {
			switch {
			case r.Version != version:
			case r.Status == Active, g.Rollout != nil && g.Rollout.Release == r.Release:
				return ""
			case r.Status == Error && r.Reason != togetherFailed:
				reason = r.Reason
			}
		}
	}
	return reason
}

// passed reports whether the peer's rollout of a version has reached the end of a step: the rollout is at the gate Together
// of the step or beyond it, or the version is active at the peer. It also returns true if the peer's group with the given slug has a
// higher active version.
func (p Peer) passed(slug, version string, step int) bool {
	return slices.ContainsFunc(p.Groups, func(g Group) bool {
		if a := g.ActiveRow(); a != nil && g.Slug == slug && g.Level != preview && compare(a.Version, version) > 0 {
			return true
		}
		return slices.ContainsFunc(g.Releases, func(r Row) bool {
			run := g.Rollout
			return r.Version == version && (r.Status == Active || run != nil && run.Release == r.Release &&
				(run.Step > step || run.Step == step && (run.Gate == Together || run.Gate == ConfirmTrafficIncrease || run.Gate == ConfirmPromotion)))
		})
	})
}

// maxMessage is the maximum length of a message in a condition, in bytes (internal/status.MaxMessage).
const maxMessage = 512

// peersWait reports which other Microservices have not completed the step yet, or returns nil. The last Microservice that
// completes the step continues immediately. Its rollout state shows this, so that the other Microservices continue as well.
func (s *scope) peersWait(run *Rollout, r *Row) *wait {
	if run.Gate != Together {
		return nil
	}
	var failed, late []string
	for _, p := range s.o.Peers {
		if reason := p.failure(r.Version); reason != "" {
			failed = append(failed, fmt.Sprintf("%s (%s)", p.Name, reason))
		} else if !p.passed(s.g.Slug, r.Version, run.Step) {
			late = append(late, p.Name)
		}
	}
	slices.Sort(failed)
	slices.Sort(late)
	if len(failed) > 0 {
		message := func(failed string) string {
			return fmt.Sprintf("%s: it failed in %s; retry the version where it failed, push another version, or %s", frozen.AtWeight(r.Version, r.Weight), failed, howToDecide(r.Release, Adopt, Deprecate))
		}
		return newWait(r, true, TogetherHeld, "%s", message(cut(microservices(failed), max(len("…"), maxMessage-len(message(""))))))
	}
	if len(late) > 0 {
		return newWait(r, false, AwaitingTogether, "%s for %s", frozen.AtWeight(r.Version, r.Weight), microservices(late))
	}
	return nil
}

// microservices lists the names of other Microservices for a message.
func microservices(names []string) string {
	if len(names) == 1 {
		return "Microservice " + names[0]
	}
	return "Microservices " + strings.Join(names, ", ")
}

// spoiled returns the reason why a release that is not in progress here would be rolled back immediately if it started:
// its version failed in another Microservice. In that case the release does not start until the failure is resolved.
// Otherwise, spoiled returns "".
func (s *scope) spoiled(release, version string) string {
	if s.g.Rollout != nil && s.g.Rollout.Release == release {
		return "" // The release in progress is rolled back instead.
	}
	r := s.g.Row(release)
	if r == nil {
		r = &Row{Release: release, Version: version}
	}
	if !s.judged(r) {
		return ""
	}
	return s.brokenTogether(version)
}

// spoiledAbove returns notes about the versions that are above a target and do not start, because they failed in
// another Microservice.
func (s *scope) spoiledAbove(target Target) (notes []Note) {
	for _, c := range s.choices() {
		if c.Release == target.Release {
			return notes
		}
		if r := s.g.Row(c.Release); r != nil && s.failed(r) {
			continue
		}
		if why := s.spoiled(c.Release, c.Version); why != "" && !s.below(c.Version) {
			notes = append(notes, s.stateOf(nil, true, TogetherHeld, fmt.Sprintf("%s does not start: %s; retry the version in that Microservice, or push another version", c.Version, why)))
		}
	}
	return notes
}

// brokenTogether returns a message if the version failed in another Microservice and must be rolled back
// here as well. Otherwise it returns "".
func (s *scope) brokenTogether(version string) string {
	if !s.o.Spec.RollBack {
		return ""
	}
	for _, p := range s.o.Peers {
		if reason := p.failure(version); reason != "" {
			return fmt.Sprintf("it failed in Microservice %s (%s)", p.Name, reason)
		}
	}
	return ""
}
