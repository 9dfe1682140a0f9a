package versionedmicroservice

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/analysis"
	"github.com/heighliner/heighliner/internal/hook"
)

// checker runs analyses and hooks in the background. None of its methods blocks.
type checker interface {
	// Round returns a round's measurements, or starts them and returns false.
	Round(release types.NamespacedName, request analysis.Request) (analysis.Round, bool)
	// StopMeasuring stops a release's measurements.
	StopMeasuring(release types.NamespacedName)
	// Outcomes returns the results of a release's hook calls, by ID.
	Outcomes(release types.NamespacedName) map[string]hook.Outcome
	// Ask requests hook calls, and returns the time at which the next call is due.
	Ask(release types.NamespacedName, questions, due []hook.Call) time.Time
	// Forget stops all of a release's analyses and hook calls.
	Forget(release types.NamespacedName)
}

// checks contains the results of analyses and hooks so far.
type checks struct {
	analysis *v1alpha1.ReleaseAnalysis
	hooks    []v1alpha1.HookStatus
	// jobs contains the hook Jobs that must be created or deleted.
	jobs jobPlan
	// requeueAt is the time at which to reconcile again even without an event; zero means never.
	requeueAt time.Time
}

// runChecks collects the results of analyses and hooks, and requests the measurements and calls that are due.
// It returns the same results again until they are written to the status.
func runChecks(ask checker, o *observed, now time.Time) checks {
	key := client.ObjectKeyFromObject(o.release)
	h := checks{analysis: o.release.Status.Analysis, hooks: o.release.Status.Hooks}
	if o.rollout == nil {
		ask.Forget(key)
		h.jobs = strayJobs(o, now)
		h.requeueBy(h.jobs.next)
		return h
	}
	rollout := o.rollout
	if rollout.point == nil {
		ask.StopMeasuring(key)
	} else {
		h.analysis = analysis.Begin(h.analysis, rollout.spec, *rollout.point)
		if h.analysis.Phase != v1alpha1.AnalysisFailed { // a failed analysis keeps its template
			h.analysis.Template = rollout.template
		}
		rollout.place.Round = roundOf(h.analysis, rollout.spec, now)
	}
	questions := rollout.place.Calls(h.hooks)
	o.awaitJobs(questions)
	outcomes := o.jobOutcomes(questions, now)
	maps.Copy(outcomes, ask.Outcomes(key))
	maps.Copy(outcomes, hook.Waiting(questions))
	h.hooks = rollout.place.Fold(h.hooks, questions, outcomes, now)
	hook.SetPassed(questions, h.hooks)
	if rollout.point != nil {
		h.analysis = rollout.measure(ask, key, h, questions, now)
		if at := h.analysis.NextTime; at != nil && at.After(now) {
			h.requeueBy(at.Time) // when a running measurement is complete, it enqueues the release
		}
	}
	due, calls := hook.Due(h.hooks, questions), hook.ToURLs(questions)
	h.jobs = planJobs(o, questions, due, now)
	h.requeueBy(h.jobs.next)
	if o.uncached {
		h.requeueBy(now.Add(time.Minute))
	}
	if rollout.podsDue.After(now) {
		h.requeueBy(rollout.podsDue)
	}
	h.requeueBy(ask.Ask(key, calls, hook.ToURLs(due)))
	return h
}

// record adds the outcomes of hook Jobs to the status of their hooks.
func (h *checks) record(o *observed, outcomes map[string]hook.Outcome, now time.Time) {
	if len(outcomes) > 0 {
		h.hooks = o.rollout.place.Fold(h.hooks, o.rollout.place.Calls(h.hooks), outcomes, now)
	}
}

func (h *checks) requeueBy(t time.Time) {
	if !t.IsZero() && (h.requeueAt.IsZero() || t.Before(h.requeueAt)) {
		h.requeueAt = t
	}
}

// roundOf returns the time that identifies the current round of hooks: the time of the previous round, or the
// start of the wait if there was none. If there are metrics, this is the start of the measured interval, so that
// a hook can generate the traffic that is measured. Without metrics, it is zero while no round is due. In a new
// step, a round is due immediately. After a failed analysis, roundOf returns zero.
func roundOf(s *v1alpha1.ReleaseAnalysis, spec *v1alpha1.CanaryAnalysis, now time.Time) time.Time {
	if s.Phase == v1alpha1.AnalysisFailed {
		return time.Time{}
	}
	if s.LastTime == nil {
		return s.Since.Time
	}
	if _, due := analysis.Due(s, spec, now); spec == nil && !due {
		return time.Time{}
	}
	return s.LastTime.Time
}

// measure adds a round to the analysis when the round is complete: when all measurements and the
// results of all hooks are available. If the measurements alone fail the round, measure does not wait for hooks.
func (w *rollout) measure(ask checker, key types.NamespacedName, h checks, questions []hook.Call, now time.Time) *v1alpha1.ReleaseAnalysis {
	results := resultsOf(h.hooks, questions)
	round := analysis.Round{At: now}
	switch {
	case w.spec == nil && w.place.Round.IsZero():
		return h.analysis // the next round of hooks is not due yet
	case w.spec != nil:
		at, due := analysis.Due(h.analysis, w.spec, now)
		if !due {
			return h.analysis
		}
		request := w.request
		request.At = at
		measured, done := ask.Round(key, request)
		if !done {
			return h.analysis
		}
		round = measured
	}
	if results.incomplete && !round.Failed(w.spec) {
		return h.analysis
	}
	round.HookFailures, round.HookErrors = results.failures, results.errors
	return analysis.Fold(h.analysis, w.spec, *w.point, round)
}

// hookResults summarizes a round's hooks.
type hookResults struct {
	// failures are the reasons given by hooks that reject the release, and errors are the reasons why hooks
	// did not respond.
	failures, errors []string
	// incomplete reports whether a result is missing.
	incomplete bool
}

// resultsOf returns the hook results of this round.
func resultsOf(known []v1alpha1.HookStatus, questions []hook.Call) hookResults {
	var out hookResults
	for _, q := range questions {
		if q.Hook.Type != v1alpha1.HookRollout {
			continue
		}
		i := slices.IndexFunc(known, func(s v1alpha1.HookStatus) bool { return s.Name == q.Hook.Name && s.ID == q.Body.ID })
		switch {
		case i >= 0 && hook.Unanswered(known[i]):
			out.errors = append(out.errors, fmt.Sprintf("hook %s did not respond: %s", q.Hook.Name, known[i].Message))
		case i < 0 || known[i].Phase == v1alpha1.HookWaiting:
			out.incomplete = true
		case known[i].Phase == v1alpha1.HookFailed:
			out.failures = append(out.failures, fmt.Sprintf("hook %s: %s", q.Hook.Name, known[i].Message))
		}
	}
	return out
}
