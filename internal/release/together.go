package release

import (
	"fmt"
	"slices"
	"strings"
)

// Together is the gate at which a run waits for those of other Microservices. It is no
// hook's.
const Together Point = "Together"

// togetherFailed is the reason of a release that is taken back because another failed.
const togetherFailed = "TogetherFailed"

// Peer is another Microservice whose releases go through their steps together with this
// one's.
type Peer struct {
	// Name of the Microservice.
	Name string
	// Groups of its ledger.
	Groups []Group
}

// failure of the version at the peer, if it is neither active nor under way there. One
// that was only taken back with others is none: what failed first counts.
func (p Peer) failure(version string) (reason string) {
	for _, g := range p.Groups {
		for _, r := range g.Releases {
			switch {
			case r.Version != version:
			case r.Status == Active, g.Run != nil && g.Run.Release == r.Release:
				return ""
			case r.Status == Error && r.Reason != togetherFailed:
				reason = r.Reason
			}
		}
	}
	return reason
}

// passed says that the peer is as far with a version as the end of a step: at the gate
// there, beyond it, or active.
func (p Peer) passed(version string, step int) bool {
	return slices.ContainsFunc(p.Groups, func(g Group) bool {
		return slices.ContainsFunc(g.Releases, func(r Row) bool {
			run := g.Run
			return r.Version == version && (r.Status == Active || run != nil && run.Release == r.Release &&
				(run.Step > step || run.Step == step && (run.Gate == Together || run.Gate == ConfirmTrafficIncrease || run.Gate == ConfirmPromotion)))
		})
	})
}

// behind says that others have yet to come as far as the end of the step. The last one
// to arrive goes on, and its ledger says so: nobody waits for ever.
func (s *scope) behind(run *Run, r *Row) bool {
	var failed, late []string
	for _, p := range s.o.Peers {
		if reason := p.failure(r.Version); reason != "" {
			failed = append(failed, fmt.Sprintf("%s (%s)", p.Name, reason))
		} else if !p.passed(r.Version, run.Step) {
			late = append(late, p.Name)
		}
	}
	slices.Sort(failed)
	slices.Sort(late)
	if len(failed) > 0 {
		s.state(r, true, "TogetherHeld", fmt.Sprintf("%s waits at %d%%: it failed at %s; decide Retry there, Adopt or Deprecate on %s, or push another version", r.Version, r.Weight, strings.Join(failed, ", "), r.Release))
		return true
	}
	if len(late) > 0 {
		s.state(r, false, "AwaitingTogether", fmt.Sprintf("%s waits at %d%% for %s", r.Version, r.Weight, strings.Join(late, ", ")))
		return true
	}
	return false
}

// brokenTogether says that the version of a release failed at another Microservice, and
// that it is to be taken back here as well.
func (s *scope) brokenTogether(r *Row) string {
	if !s.o.Spec.TakeBack {
		return ""
	}
	for _, p := range s.o.Peers {
		if reason := p.failure(r.Version); reason != "" {
			return fmt.Sprintf("it failed at %s (%s)", p.Name, reason)
		}
	}
	return ""
}
