package release

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/heighliner/heighliner/internal/frozen"
)

// judged reports whether a release is compared with an active release. If it is, hooks and measurements determine
// its outcome. Previews and previously active releases are not compared. The first release of a group is compared
// only if the newest domains move to the group in steps.
func (s *scope) judged(r *Row) bool {
	_, active := s.rivalOf(*r)
	return s.g.Level != preview && active != nil && active.Release != r.Release && r.Promoted == 0
}

// startWait returns why the target cannot start yet, or nil. r is nil if the target has no row yet.
func (s *scope) startWait(target string, r *Row) *wait {
	if s.halted(r) {
		return s.haltWait(r, frozen.Release(s.versionOf(target)))
	}
	if w := s.previewStartWait(s.versionOf(target)); w != nil {
		return w
	}
	c, there := s.object(target)
	if there && c.Terminating {
		return newWait(r, false, Terminating, "the previous VersionedMicroservice of %s is still being deleted", s.versionOf(target))
	}
	if there && c.Refused {
		return newWait(r, true, Blocked, "%s is blocked: the API server rejects updates to its VersionedMicroservice", s.versionOf(target))
	}
	return nil
}

// stopped reports whether spec.paused or a freeze keeps new releases from starting.
func (b *planner) stopped() bool { return b.o.Spec.Paused || b.o.Spec.Freeze != nil }

// haltWait reports that spec.paused or a freeze prevents the next action of a release. r is nil if the
// release has no row yet. clause describes what is waiting; package frozen defines the clauses.
func (s *scope) haltWait(r *Row, clause string) *wait {
	f := s.o.Spec.Freeze
	if f == nil || s.o.Spec.Paused && (r == nil || !r.Adopted) { // A pause does not delay an adopted release.
		return newWait(r, false, Paused, "%s: spec.paused is true", clause)
	}
	w := newWait(r, false, Frozen, "%s", f.wait(clause))
	w.Until = f.Until
	return w
}

// noteFreeze reports that a freeze keeps a release from getting more traffic. It reports this even if the release is
// also waiting for something else. During a freeze, policies do not route a domain to such a release (rule 33).
func noteFreeze(s *scope) {
	run, r, _ := s.rollout()
	f := s.o.Spec.Freeze
	noted := func(n Note) bool { return n.Slug == s.g.Slug && n.Reason == Frozen && !n.Event }
	if f == nil || run == nil || r.Promoted > 0 || r.Status != Canary && run.Gate == ConfirmRollout || s.activeStopped(run) || slices.ContainsFunc(s.notes, noted) {
		return
	}
	s.state(r, false, Frozen, f.wait(frozen.AtWeight(r.Version, r.Weight)).String())
}

// freezeWait reports that a freeze prevents a release from becoming active, or returns nil. While the
// release is healthy, its clock is stopped.
func (s *scope) freezeWait() *wait {
	run, r, c := s.rollout()
	if s.o.Spec.Freeze == nil || !s.halted(r) {
		return nil
	}
	s.idleIfHealthy(run, r, c)
	return s.haltWait(r, frozen.AtWeight(r.Version, r.Weight))
}

// halted reports whether spec.paused or a freeze prevents the next action of a release, which may have no row
// yet. A previously active release is not halted if a user pins its group to it, or if the active release is
// denied.
func (s *scope) halted(r *Row) bool {
	return s.stopped() && (r == nil || r.Promoted == 0 || s.g.Target.Reason != Pinned && !s.activeDenied())
}

// stepWaits returns what a healthy canary must wait for before it gets the pods for its next step and before
// the hooks of that step are called.
func (s *scope) stepWaits(run *Rollout, r *Row, c Object, since time.Time) []*wait {
	if s.stopped() && !s.activeStopped(run) {
		return []*wait{s.haltWait(r, frozen.AtWeight(r.Version, r.Weight))}
	}
	if run.Step == 0 {
		if w := s.firstStepWait(r); w != nil {
			return []*wait{w}
		}
	}
	if run.Step > 0 && run.Continued != run.Step {
		if ws := s.passageWaits(run, r, c, since); len(ws) > 0 {
			return ws
		}
	}
	if w := s.windowWait(run, r); w != nil && !s.activeStopped(run) {
		return []*wait{w}
	}
	return nil
}

// firstStepWait returns why a release must not get its first traffic yet, or nil. The waits that
// apply to every step also apply.
func (s *scope) firstStepWait(r *Row) *wait {
	if w := s.retryWait(r); w != nil {
		return w
	}
	if w := s.crossedWait(r); w != nil {
		return w
	}
	if from, _ := s.rival(); from.g != s.g {
		return s.queueWait(r)
	}
	return nil
}

// passageWaits returns what the current step is waiting for: an approval or the end of a pause, and the
// result of the measurements.
func (s *scope) passageWaits(run *Rollout, r *Row, c Object, since time.Time) []*wait {
	steps := s.steps()
	if run.Step > len(steps) {
		return nil
	}
	st := steps[run.Step-1]
	var ws []*wait
	switch waited := run.Waited + s.now.Sub(since); {
	case st.Approval:
		ws = append(ws, newWait(r, false, AwaitingApproval, "%s is waiting at %d%% for %s: %s", r.Version, r.Weight, st.Awaited(run.Approvals), howToContinue(r.Release, s.stepName(run.Step))))
	case waited < st.Pause:
		w := newWait(r, false, Waiting, "%s is waiting at %d%% until the pause of its step ends at %s", r.Version, r.Weight, s.now.Add(st.Pause-waited).Format(time.RFC3339))
		w.Until = s.now.Add(st.Pause - waited)
		ws = append(ws, w)
	}
	if s.o.Spec.Analysis && st.traffic() {
		if w := s.verdictWait(run, r, c); w != nil {
			ws = append(ws, w)
		}
	}
	return ws
}

// maxCause is the maximum length, in bytes, of a cause in a message that also contains an instruction.
const maxCause = 200

// verdictWait describes the measurements that the current step is waiting for. It returns nil if they passed.
func (s *scope) verdictWait(run *Rollout, r *Row, c Object) *wait {
	v := Verdict{Phase: VerdictRunning, Message: "no result yet"}
	if a := c.Analysis; a != nil && a.Rollout == run.Sequence && a.Step == run.Step && stored(a.Since).Equal(run.WaitingSince) {
		v = *a
	}
	// The message of the analysis is cut, so that the instruction fits into the condition. status.analysis contains all of it.
	why := func(otherwise string) string { return cut(cmp.Or(v.Message, otherwise), maxCause) }
	word := fmt.Sprintf("to continue, %s; Deprecate aborts the rollout", howToContinue(r.Release, s.stepName(run.Step)))
	switch v.Phase {
	case VerdictPassed:
		return nil
	case VerdictInconclusive:
		return newWait(r, true, AnalysisInconclusive, "%s is waiting at %d%%, because its analysis is inconclusive: %s; %s", r.Version, r.Weight, why("no reason given"), word)
	case VerdictNoTraffic:
		if s.byPods() { // A queue may be empty for hours.
			return newWait(r, false, AnalysisNoTraffic, "%s is waiting at %d%% for work to measure: %s; %s", r.Version, r.Weight, why("no work"), word)
		}
		return newWait(r, true, AnalysisNoTraffic, "%s is waiting at %d%% for requests to measure: %s; %s", r.Version, r.Weight, why("no traffic"), word)
	}
	return newWait(r, false, AnalysisRunning, "%s is waiting at %d%% for its analysis: %s", r.Version, r.Weight, cmp.Or(v.Message, "running"))
}

// windowWait reports that a release must wait for a time window, or returns nil. A step begins in its
// window, and the release becomes active in the window of the last step.
func (s *scope) windowWait(run *Rollout, r *Row) *wait {
	steps := s.steps()
	if len(steps) == 0 {
		return nil
	}
	window := steps[min(run.Step, len(steps)-1)].Window
	if window == nil || window.Open {
		return nil
	}
	of := "of its next step"
	if run.Step >= len(steps) {
		of = "of its last step (in which it may become active)"
	}
	w := newWait(r, false, AwaitingWindow, "%s is waiting at %d%% for the window %s", r.Version, r.Weight, of)
	if !window.Next.IsZero() {
		w = newWait(r, false, AwaitingWindow, "%s is waiting at %d%% until the window %s opens at %s", r.Version, r.Weight, of, window.Next.UTC().Format(time.RFC3339))
	}
	w.Until = window.Next
	return w
}
