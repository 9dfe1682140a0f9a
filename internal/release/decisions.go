package release

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// maxOutcome is how many bytes of what became of a decision the status takes. It quotes
// what a user wrote, and a status that is refused would keep everything else from happening.
const maxOutcome = 256

// cut gives at most limit bytes of a text, and no part of a character.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit-len("…")], "") + "…"
}

func whom(by string) string {
	if by == "" {
		return "an unnamed user"
	}
	return strconv.Quote(by)
}

// set is how a user decides about a release, for messages.
func set(release string, actions ...Action) string {
	words := make([]string, len(actions))
	for i, a := range actions {
		words[i] = string(a)
	}
	return fmt.Sprintf("set spec.decision.action: %s on VersionedMicroservice %s", strings.Join(words, " or "), release)
}

func outcomeReason(outcome string) Reason {
	if outcome == DecisionApplied {
		return DecisionTaken
	}
	return Reason(DecisionNotApplicable)
}

func (s *scope) applyDecision(r *Row, d Decision) string {
	refuse := func(format string, args ...any) string {
		return DecisionNotApplicable + ": " + fmt.Sprintf(format, args...)
	}
	running := s.g.Rollout != nil && s.g.Rollout.Release == r.Release
	if s.g.Phase != Live {
		return refuse("the group is %s", strings.ToLower(string(s.g.Phase)))
	}
	if f := s.o.Spec.Freeze; f != nil && d.Action != Deprecate && r.Promoted == 0 {
		// It would be applied when it is not expected any more.
		return refuse("%s; decide when that is over, or list the Microservice in spec.exceptions", f)
	}
	switch d.Action {
	case Continue:
		if !running || r.Status != Canary || s.g.Rollout.Step == 0 {
			return refuse("the release has status %s; Continue applies only to a canary", r.Status)
		}
		if name, number := s.stepName(s.g.Rollout.Step), strconv.Itoa(s.g.Rollout.Step); d.Step != name && d.Step != number {
			return refuse("the canary is in step %q, not in step %q", name, d.Step)
		}
		s.g.Rollout.Continued = s.g.Rollout.Step
	case Adopt:
		if !running || r.Status != Canary && r.Status != Pending {
			return refuse("the release has status %s; Adopt applies only to the pending or canary release that is being rolled out", r.Status)
		}
		r.Adopted = true
	case Deprecate:
		if r.Status != Canary && r.Status != Pending {
			return refuse("the release has status %s; Deprecate applies only to pending and canary releases: to replace an active release, pin another version", r.Status)
		}
		s.failRow(r, Aborted)
	case Retry:
		if r.Status != Error {
			return refuse("the release has status %s; Retry applies only to releases with status error", r.Status)
		}
		if why := s.spoiled(r.Release, r.Version); why != "" {
			return refuse("%s: retry it there first", why)
		}
		switch next := s.passedOver(r); {
		case next == nil:
			s.retryRow(r, Retried)
		case next.Release == "":
			return refuse("the version is no longer offered with the same template and images")
		default:
			return refuse("the target of the group is %s (%s)", s.versionOf(next.Release), next.Reason)
		}
	default:
		return refuse("unknown action %q", d.Action)
	}
	return DecisionApplied
}

// passedOver gives what would be wanted instead of a failed release if it were tried again;
// nil: nothing.
func (s *scope) passedOver(r *Row) *Target {
	again, g := *s, *s.g
	g.Releases = slices.Clone(g.Releases)
	again.g = &g
	if x := g.Row(r.Release); x != nil {
		x.Status, x.RetryTime = Pending, noTime
	}
	next, _ := again.choose()
	if again.finishes(next) {
		next = Target{Release: g.Rollout.Release, Reason: FinishFirst}
	}
	if next.Release == r.Release {
		return nil
	}
	return &next
}
