package release

import (
	"fmt"
	"slices"
	"strings"
)

// Together is the gate at which a run waits for those of other Microservices. It is no
// hook's.
const Together Point = "Together"

// failure of the version at the peer, if it is neither active nor in progress there. One
// that was only rolled back with others is none: what failed first counts.
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

// passed reports whether the peer is as far with a version as the end of a step: at the gate
// there, beyond it, or active. One whose group of that name has a higher version active
// has moved on, and does not come there any more.
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

// peersWait is that others have yet to come as far as the end of the step. The last one
// to arrive continues, and its ledger says so: no one waits for ever.
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
		return newWait(r, true, TogetherHeld, "%s waits at %d%%: it failed at %s; decide Retry there, Adopt or Deprecate on %s, or push another version", r.Version, r.Weight, strings.Join(failed, ", "), r.Release)
	}
	if len(late) > 0 {
		return newWait(r, false, AwaitingTogether, "%s waits at %d%% for %s", r.Version, r.Weight, strings.Join(late, ", "))
	}
	return nil
}

// spoiled reports whether a release which does not run here would be rolled back as soon as it
// did, because its version failed at another Microservice: it waits for what becomes of that.
func (s *scope) spoiled(release, version string) string {
	if s.g.Rollout != nil && s.g.Rollout.Release == release {
		return "" // it is rolled back
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

// spoiledAbove reports which versions above a target wait for what becomes of them at
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
			notes = append(notes, s.stateOf(nil, true, TogetherHeld, fmt.Sprintf("%s does not start: %s; decide Retry there, or push another version", c.Version, why)))
		}
	}
	return notes
}

// brokenTogether reports whether the version of a release failed at another Microservice, and
// that it is to be rolled back here as well.
func (s *scope) brokenTogether(version string) string {
	if !s.o.Spec.RollBack {
		return ""
	}
	for _, p := range s.o.Peers {
		if reason := p.failure(version); reason != "" {
			return fmt.Sprintf("it failed at %s (%s)", p.Name, reason)
		}
	}
	return ""
}
