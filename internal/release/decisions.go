package release

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// maxOutcome is the maximum length of a decision's outcome in the status, in bytes. The outcome
// quotes text that a user wrote. If the API server rejected the status because of its length, no
// rollout could advance.
const maxOutcome = 256

// decide applies users' decisions, each decision ID only once (rule 21). The object of the release then gets a
// stamp, which prevents a plan that read an older decision from replacing this decision in the rollout state.
func decide(s *scope) {
	for i := range s.g.Releases {
		r := &s.g.Releases[i]
		c, _ := s.object(r.Release)
		d := c.Decision
		if d == nil || r.Decision != nil && r.Decision.ID == d.ID {
			continue
		}
		if c.Refused && d.Action != Deprecate {
			// This object cannot get a stamp. Without a stamp, only decisions that remove traffic can be applied.
			s.state(r, true, Blocked, fmt.Sprintf("decision %s on %s is waiting: the API server rejects updates to its VersionedMicroservice", d.Action, r.Version))
			continue
		}
		s.handle(r, *d, cut(s.applyDecision(r, *d), maxOutcome))
	}
}

// cut returns at most limit bytes of text, without splitting a character.
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

// howToContinue describes, for messages, how a user approves a step of a release.
func howToContinue(release, step string) string {
	return fmt.Sprintf("in VersionedMicroservice %s, set spec.decision.action to %s, spec.decision.step to %q and spec.decision.id to a new value", release, Continue, step)
}

// howToDecide describes, for messages, how a user makes one of these decisions on a release.
func howToDecide(release string, actions ...Action) string {
	words := make([]string, len(actions))
	for i, a := range actions {
		words[i] = string(a)
	}
	return fmt.Sprintf("in VersionedMicroservice %s, set spec.decision.action to %s and spec.decision.id to a new value", release, strings.Join(words, " or "))
}

func outcomeReason(outcome string) Reason {
	if outcome == DecisionApplied {
		return DecisionTaken
	}
	return Reason(DecisionNotApplicable)
}

// handle records the outcome of a decision.
func (s *scope) handle(r *Row, d Decision, outcome string) {
	s.touch(r.Release)
	r.Decision = &Handled{ID: d.ID, Action: d.Action, Time: s.now, By: d.By, Outcome: outcome}
	s.event(r, outcome != DecisionApplied, outcomeReason(outcome), fmt.Sprintf("decision %s by %s on %s: %s", d.Action, whom(d.By), r.Version, outcome))
}

// rejectEarlier rejects a decision that the object of a release already contains when the release gets a row. The decision may have
// been applied to an earlier row of the release, and must not be applied twice.
func (s *scope) rejectEarlier(r *Row) {
	if c, _ := s.object(r.Release); c.Decision != nil && r.Decision == nil {
		s.handle(r, *c.Decision, DecisionNotApplicable+": it was made before this rollout started; decide again")
	}
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
		// Otherwise the decision would be applied later, when users no longer expect it.
		return refuse("%s; decide when the freeze is over, or add the Microservice to spec.exceptions of the freeze", f)
	}
	switch d.Action {
	case Continue:
		if !running || r.Status != Canary {
			return refuse("the release has status %s; Continue applies only to a canary", r.Status)
		}
		if s.g.Rollout.Step == 0 {
			return refuse("the steps were edited, and the canary is not in any of the new steps")
		}
		if name, number := s.stepName(s.g.Rollout.Step), strconv.Itoa(s.g.Rollout.Step); d.Step != name && d.Step != number {
			return refuse("the canary is in step %q, not in step %q", name, d.Step)
		}
		if s.g.Rollout.StepsHash != stepsHash(s.steps()) {
			// The step might begin again in this plan, and the applied decision would then be lost.
			return refuse("the steps were edited at the same time; read them, and decide again")
		}
		if why := s.approve(s.g.Rollout, d); why != "" {
			return refuse("%s", why)
		}
	case Adopt:
		if !running || r.Status != Canary && r.Status != Pending {
			return refuse("the release has status %s; Adopt applies only to the pending or canary release that is being rolled out", r.Status)
		}
		if why := s.unadoptable(s.g.Rollout, d); why != "" {
			return refuse("%s", why)
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
			return refuse("%s: retry the version in that Microservice first", why)
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

// passedOver returns the target that would be chosen in place of a failed release if that release were
// retried. It returns nil if the failed release itself would be chosen.
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

// approvers returns the number of different users who must approve a step.
func (st Step) approvers() int { return max(1, st.Approvers) }

// signed reports whether it matters which users approve a step. If it does, the names of these users
// are recorded.
func (st Step) signed() bool {
	return st.Approval && (st.approvers() > 1 || len(st.ApproversFrom) > 0)
}

// groupOf returns the first group in ApproversFrom of which the user is a member. It returns false if there is no such
// group. If ApproversFrom is empty, any user may approve, and groupOf returns an empty string and true.
func (st Step) groupOf(d Decision) (string, bool) {
	if len(st.ApproversFrom) == 0 {
		return "", true
	}
	i := slices.IndexFunc(st.ApproversFrom, func(g string) bool { return slices.Contains(d.Groups, g) })
	if i < 0 {
		return "", false
	}
	return st.ApproversFrom[i], true
}

// counted returns the approvals that are valid for the current step. If the step specifies groups, an
// approval that was recorded for any other group is not valid. The groups may have been edited after the approval.
func (st Step) counted(approvals []Approval) []Approval {
	return slices.DeleteFunc(slices.Clone(approvals), func(a Approval) bool {
		return len(st.ApproversFrom) > 0 && !slices.Contains(st.ApproversFrom, a.Group)
	})
}

// members lists, for messages, the groups whose members may approve. An approver must be a member
// of at least one of these groups.
func (st Step) members() string {
	if len(st.ApproversFrom) == 0 {
		return ""
	}
	return " by members of " + strings.Join(st.ApproversFrom, " or ")
}

// Awaited describes the approvals that a step is still waiting for, as in "2 approvals (1 so far: ana)".
func (st Step) Awaited(approvals []Approval) string {
	if !st.signed() {
		return "approval"
	}
	var by []string
	for _, a := range st.counted(approvals) {
		by = append(by, a.By)
	}
	out := "approval" + st.members()
	if st.approvers() > 1 {
		out = fmt.Sprintf("%d approvals%s", st.approvers(), st.members())
	}
	if len(by) > 0 {
		out += fmt.Sprintf(" (%d so far: %s)", len(by), strings.Join(by, ", "))
	}
	return out
}

// approve records that a user approves the current step, and completes the step if no further
// approval is needed. If the user may not approve the step, approve returns the reason.
func (s *scope) approve(run *Rollout, d Decision) string {
	st, known := s.stepAt(run.Step)
	if !known || !st.signed() {
		run.Continued = run.Step
		return ""
	}
	group, member := st.groupOf(d)
	counted := st.counted(run.Approvals)
	switch {
	case d.By == "":
		return fmt.Sprintf("step %q waits for %s; the decision does not name a user", s.stepName(run.Step), st.Awaited(run.Approvals))
	case !member:
		return fmt.Sprintf("step %q waits for %s; according to this decision, %s is not a member of any of these groups: add one of the groups to spec.decision.groups", s.stepName(run.Step), st.Awaited(run.Approvals), whom(d.By))
	case slices.ContainsFunc(counted, func(a Approval) bool { return a.By == d.By }):
		return fmt.Sprintf("step %q waits for %s; %s has approved it already", s.stepName(run.Step), st.Awaited(run.Approvals), whom(d.By))
	}
	run.Approvals = append(counted, Approval{By: d.By, Group: group, Time: s.now})
	if len(run.Approvals) >= st.approvers() {
		run.Continued = run.Step
	}
	return ""
}

// unadoptable describes the first step of a rollout that the user of a decision must not skip, because
// several users must approve it, or because this user is not allowed to approve it.
func (s *scope) unadoptable(run *Rollout, d Decision) string {
	for i, st := range s.steps() {
		if i+1 < run.Step || i+1 == run.Step && run.Continued == run.Step || !st.signed() {
			continue
		}
		if _, member := st.groupOf(d); st.approvers() > 1 || !member || d.By == "" {
			return fmt.Sprintf("step %q needs %s, and Adopt does not count as approval: use Continue instead, or change the steps", s.stepName(i+1), st.Awaited(nil))
		}
	}
	return ""
}

// stepAt returns the step with the given number, counted from 1. It returns false if there is no such step.
func (s *scope) stepAt(step int) (Step, bool) {
	if steps := s.steps(); step >= 1 && step <= len(steps) {
		return steps[step-1], true
	}
	return Step{}, false
}
