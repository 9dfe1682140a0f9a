package versionedmicroservice

import (
	"cmp"
	"slices"
	"time"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/analysis"
	"github.com/heighliner/heighliner/internal/hook"
)

// rollout contains the data about a release's rollout that analyses and hooks require.
type rollout struct {
	place *hook.Rollout
	// point is the wait during which the release is measured; nil if nothing is measured.
	point *analysis.Point
	// spec is the analysis, or nil if there are only hooks. template is the name of the template that defines
	// the analysis, if any.
	spec     *v1alpha1.CanaryAnalysis
	template string
	// request is the request for the measurements of a round, without the time of the round. It is used only if
	// there is an analysis.
	request analysis.Request
	// podsDue is the time by which the pods of an ending preview should have terminated; zero if no pod is terminating.
	podsDue time.Time
}

// pointOf identifies the current wait, in which the release is measured. It returns nil if there is
// nothing to measure. A release is measured while it is healthy and receives, or can receive, requests.
func pointOf(place *hook.Rollout) *analysis.Point {
	run, row := place.Rollout, place.Row
	canary := place.Microservice.Spec.UpdateStrategy.Canary
	switch {
	case run == nil, run.WaitingSince == nil, run.Interrupted:
		return nil
	case run.Step < 1 && row.Status != v1alpha1.ReleaseCanary: // After an edit of the steps, a canary can be before the first step.
		return nil
	case row.Weight == 0 && !row.Match && row.MirrorPercent == 0:
		return nil
	case canary == nil, !measures(canary):
		return nil
	}
	return &analysis.Point{Run: run.Sequence, Step: run.Step, Since: run.WaitingSince.Time}
}

// measures reports whether there is an analysis, or a Rollout hook, which is called in each round.
func measures(canary *v1alpha1.CanaryStrategy) bool {
	return canary.Measures() || slices.ContainsFunc(canary.Hooks, func(h v1alpha1.Hook) bool { return h.Type == v1alpha1.HookRollout })
}

// urlOf returns the first URL that only this release serves: the URL of a programmed domain
// without other backends. It returns "" if there is no such domain.
func urlOf(policies []v1alpha1.NetworkPolicy, release string) string {
	byName := func(a, b v1alpha1.NetworkPolicy) int { return cmp.Compare(a.Name, b.Name) }
	for _, p := range slices.SortedFunc(slices.Values(policies), byName) {
		for _, d := range p.Status.Domains {
			others := slices.ContainsFunc(d.Backends, func(b v1alpha1.DomainBackend) bool { return b.Release != release })
			if d.Programmed && d.URL != "" && len(d.Backends) > 0 && !others {
				return d.URL
			}
		}
	}
	return ""
}
