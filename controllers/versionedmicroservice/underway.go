package versionedmicroservice

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hlnr "github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/analysis"
	"github.com/heighliner/heighliner/internal/hook"
)

// asker measures, and calls hooks, beside the reconcile. None of its methods waits.
type asker interface {
	// Round gives the measurements of a round, or begins to take them.
	Round(release types.NamespacedName, request analysis.Request) (analysis.Round, bool)
	// Unmeasured ends the measurements of a release.
	Unmeasured(release types.NamespacedName)
	// Outcomes of the questions to the hooks of a release, by id.
	Outcomes(release types.NamespacedName) map[string]hook.Outcome
	// Ask has hooks called, and says when one is to be called again.
	Ask(release types.NamespacedName, questions, due []hook.Question) time.Time
	// Forget ends all that is under way for a release.
	Forget(release types.NamespacedName)
}

// underWay is what a pass reads to measure a release and to call its hooks.
type underWay struct {
	place *hook.Place
	// point that is measured; nil: none.
	point *analysis.Point
	// request of a round, but for its time; used where there is an analysis.
	request analysis.Request
}

// heard is what measuring and hooks have said so far.
type heard struct {
	analysis *hlnr.ReleaseAnalysis
	hooks    []hlnr.HookStatus
	// next is when to look again without being woken; zero: never.
	next time.Time
}

// observeWay finds out where a release is on its way; nil: on none.
func (r *reconciler) observeWay(ctx context.Context, o *observed) (*underWay, error) {
	if o.microservice == nil {
		return nil, nil
	}
	place := hook.PlaceOf(o.microservice, o.release)
	if place == nil {
		return nil, nil
	}
	if err := r.observeReach(ctx, place); err != nil {
		return nil, err
	}
	w := &underWay{place: place, point: pointOf(place)}
	if w.point == nil || w.spec() == nil {
		return w, nil
	}
	canary, err := r.target(ctx, w.place, w.place.Group, w.place.Row)
	if err != nil {
		return nil, err
	}
	w.request = analysis.Request{Spec: *w.spec(), Canary: canary}
	rivals := w.place.Rivals()
	rows := rivals.Releases
	if i := slices.IndexFunc(rows, func(row hlnr.Release) bool { return row.Status == hlnr.ReleaseActive && row.Weight > 0 }); i >= 0 {
		active, err := r.target(ctx, w.place, rivals, &rows[i])
		if err != nil {
			return nil, err
		}
		w.request.Active = &active
	}
	return w, nil
}

// target is what is asked about a release. Its Services are those of all policies.
func (r *reconciler) target(ctx context.Context, place *hook.Place, group *hlnr.ReleaseGroup, row *hlnr.Release) (analysis.Target, error) {
	ms := place.Microservice
	var services corev1.ServiceList
	if err := r.client.List(ctx, &services, client.InNamespace(ms.Namespace), client.MatchingLabels{hlnr.LabelRelease: row.VersionedMicroservice}); err != nil {
		return analysis.Target{}, fmt.Errorf("list Services of release %q: %w", row.VersionedMicroservice, err)
	}
	t := analysis.Target{
		Namespace: ms.Namespace, Microservice: ms.Name, Group: group.Slug,
		Release: row.VersionedMicroservice, Version: row.SemVer.Version,
	}
	for i := range services.Items {
		t.Services = append(t.Services, services.Items[i].Name)
	}
	slices.Sort(t.Services)
	return t, nil
}

// pointOf is the wait that is measured: the release has, or can get, requests, and is
// healthy. nil: there is nothing to measure.
func pointOf(place *hook.Place) *analysis.Point {
	run, row := place.Run, place.Row
	canary := place.Microservice.Spec.UpdateStrategy.Canary
	switch {
	case run == nil, run.Step < 1, run.WaitingSince == nil, run.Interrupted:
		return nil
	case row.Weight == 0 && !row.Match && row.MirrorPercent == 0:
		return nil
	case canary == nil, !measures(canary):
		return nil
	}
	return &analysis.Point{Run: run.Sequence, Step: run.Step, Since: run.WaitingSince.Time}
}

// measures says that there is something to measure, or hooks that are called in
// rounds.
func measures(canary *hlnr.CanaryStrategy) bool {
	return canary.Analysis != nil || slices.ContainsFunc(canary.Hooks, func(h hlnr.Hook) bool { return h.Type == hlnr.HookRollout })
}

// spec of the analysis; nil where there are hooks only.
func (w *underWay) spec() *hlnr.CanaryAnalysis {
	return w.place.Microservice.Spec.UpdateStrategy.Canary.Analysis
}

// listen takes in what was measured and answered, and has the rest asked. What it
// gives is to be written; until it is, the same comes out again.
func listen(ask asker, o *observed, now time.Time) heard {
	key := client.ObjectKeyFromObject(o.release)
	h := heard{analysis: o.release.Status.Analysis, hooks: o.release.Status.Hooks}
	if o.way == nil {
		ask.Forget(key)
		return h
	}
	way := o.way
	if way.point == nil {
		ask.Unmeasured(key)
	} else {
		h.analysis = analysis.Begin(h.analysis, way.spec(), *way.point)
		way.place.Round = roundOf(h.analysis, way.spec(), now)
	}
	questions := way.place.Questions(h.hooks)
	h.hooks = way.place.Fold(h.hooks, questions, ask.Outcomes(key), now)
	if way.point != nil {
		h.analysis = way.measure(ask, key, h, questions, now)
		if at := h.analysis.NextTime; at != nil && at.After(now) {
			h.wakeAt(at.Time) // what is due already wakes when it is answered
		}
	}
	h.wakeAt(ask.Ask(key, questions, hook.Due(h.hooks, questions)))
	return h
}

func (h *heard) wakeAt(t time.Time) {
	if !t.IsZero() && (h.next.IsZero() || t.Before(h.next)) {
		h.next = t
	}
}

// roundOf is when the present round of hooks began: with metrics at the beginning of
// the interval that they look at, so that a hook may make the traffic that they
// measure; without any, when a round is due, and at once in a new step.
func roundOf(s *hlnr.ReleaseAnalysis, spec *hlnr.CanaryAnalysis, now time.Time) time.Time {
	if s.Phase == hlnr.AnalysisFailed {
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

// measure folds a round when all of it is there: what was measured, and what each
// hook of the round answered.
func (w *underWay) measure(ask asker, key types.NamespacedName, h heard, questions []hook.Question, now time.Time) *hlnr.ReleaseAnalysis {
	said := checks(h.hooks, questions)
	round := analysis.Round{At: now}
	switch {
	case w.spec() == nil && w.place.Round.IsZero():
		return h.analysis // the next round of hooks alone is not due yet
	case w.spec() != nil:
		at, due := analysis.Due(h.analysis, w.spec(), now)
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
	if said.missing {
		return h.analysis
	}
	round.HookFailures, round.HookErrors = said.failures, said.errors
	return analysis.Fold(h.analysis, w.spec(), *w.point, round)
}

// checked is what came of the hooks of a round.
type checked struct {
	// failures are what they have against the release, and errors why others gave no answer.
	failures, errors []string
	// missing: one was not called to its end yet.
	missing bool
}

// checks sums up the hooks of this round.
func checks(known []hlnr.HookStatus, questions []hook.Question) checked {
	var out checked
	for _, q := range questions {
		if q.Hook.Type != hlnr.HookRollout {
			continue
		}
		i := slices.IndexFunc(known, func(s hlnr.HookStatus) bool { return s.Name == q.Hook.Name && s.ID == q.Body.ID })
		switch {
		case i >= 0 && hook.Unanswered(known[i]):
			out.errors = append(out.errors, fmt.Sprintf("hook %s gave no answer: %s", q.Hook.Name, known[i].Message))
		case i < 0 || known[i].Phase == hlnr.HookWaiting:
			out.missing = true
		case known[i].Phase == hlnr.HookFailed:
			out.failures = append(out.failures, fmt.Sprintf("hook %s: %s", q.Hook.Name, known[i].Message))
		}
	}
	return out
}
