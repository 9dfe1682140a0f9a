package microservice

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/microservice/resources"
	"github.com/heighliner/heighliner/internal/hook"
	"github.com/heighliner/heighliner/internal/release"
	"github.com/heighliner/heighliner/internal/window"
)

// reasonTimeZoneUnknown is the condition reason for step windows with an unknown time zone.
const reasonTimeZoneUnknown = "TimeZoneUnknown"

// reasonAnalysisInvalid is the condition reason for an analysis or analysis template that is not valid, for example
// because the expression of a web metric is not valid CEL.
const reasonAnalysisInvalid = "AnalysisInvalid"

// reasonAnalysisTemplateNotFound is the condition reason for an analysis template that does not exist, or that the
// namespace is not allowed to use.
const reasonAnalysisTemplateNotFound = "AnalysisTemplateNotFound"

// readSpec converts a specification to the form that the planner uses, with all defaults and the
// current state of the step windows. The error reports a window that cannot be evaluated. Such a window
// counts as closed.
func readSpec(ms *v1alpha1.Microservice, minDrain time.Duration, now time.Time) (release.Spec, error) {
	a, u := ms.Spec.Availability, ms.Spec.UpdateStrategy
	spec := release.Spec{
		Paused:           ms.Spec.Paused,
		Replicas:         int(max(1, a.Replicas)),
		Standby:          1,
		MinimumAvailable: int(u.MinimumAvailable),
		Deadline:         time.Duration(cmp.Or(u.ProgressDeadlineSeconds, resources.DefaultProgressDeadline)) * time.Second,
		Drain:            max(minDrain, u.DrainDelay.Std(30*time.Second)),
		Pins:             readPins(u.Manual),
		Ended:            ms.Spec.EndedGroups,
		Previews:         readPreviews(ms.Spec.Previews),
		Exclusive:        a.Exclusive,
	}
	if spec.MinimumAvailable == 0 {
		spec.MinimumAvailable = 3
	}
	if s := a.Autoscaling; s != nil && s.MinReplicas != nil {
		spec.Replicas = int(*s.MinReplicas)
	}
	if s := a.StandbyReplicas; s != nil {
		spec.StandbyFull = s.StrVal == "Full"
		spec.Standby = s.IntValue()
	}
	if a.Autoscaling != nil {
		spec.Autoscaled, spec.SplitBy = true, release.SplitByRoutes
	}
	if u.Canary == nil {
		return spec, nil
	}
	return spec, readCanary(u.Canary, &spec, now)
}

func readCanary(c *v1alpha1.CanaryStrategy, spec *release.Spec, now time.Time) error {
	// Rollout hooks also count as measurements, because they are called in each round of measurements.
	spec.Analysis = c.Measures() || slices.ContainsFunc(c.Hooks, func(h v1alpha1.Hook) bool { return h.Type == v1alpha1.HookRollout })
	spec.MatchWeight = c.Scale == v1alpha1.ScaleMatchWeight
	switch {
	case c.Traffic != "":
		spec.SplitBy = release.SplitBy(c.Traffic)
	case c.Scale == v1alpha1.ScaleFull:
		spec.SplitBy = release.SplitByRoutes
	}
	spec.FailureJobs = slices.ContainsFunc(c.Hooks, func(h v1alpha1.Hook) bool { return h.Type == v1alpha1.HookPostRollout && h.Job != nil })
	spec.GateJobs = slices.ContainsFunc(c.Hooks, func(h v1alpha1.Hook) bool { return h.Job != nil && hook.IsGate(h.Type) })
	spec.EndHooks = hasHook(c, v1alpha1.HookPostPreview, "")
	spec.RollBack = c.Together != nil && c.Together.OnFailure != "" && c.Together.OnFailure != v1alpha1.TogetherHold
	for _, p := range []release.Point{release.ConfirmRollout, release.PreRollout, release.ConfirmPromotion} {
		if hasHook(c, v1alpha1.HookType(p), "") {
			spec.Gates = append(spec.Gates, p)
		}
		if slices.ContainsFunc(c.Hooks, func(h v1alpha1.Hook) bool { return h.Type == v1alpha1.HookType(p) && h.Previews }) {
			spec.PreviewGates = append(spec.PreviewGates, p)
		}
	}
	var errs []error
	for i, st := range c.Steps {
		step := release.Step{
			Name: st.Name, Weight: int(st.Weight), Approval: st.Approval != nil,
			Match: st.Match, Mirror: int(st.MirrorPercent),
			Confirm: hasHook(c, v1alpha1.HookConfirmTrafficIncrease, st.Name),
		}
		if a := st.Approval; a != nil {
			step.Approvers, step.ApproversFrom = int(a.Count), a.From
		}
		if st.Pause != nil {
			step.Pause = st.Pause.Duration.Std(0)
		}
		var err error
		if step.Window, err = window.Resolve(st.Window, now); err != nil {
			errs = append(errs, fmt.Errorf("spec.updateStrategy.canary.steps[%d].window.timeZone: %w", i, err))
		}
		spec.Steps = append(spec.Steps, step)
	}
	return errors.Join(errs...)
}

// hasHook reports whether there is a hook of the given type for a step.
func hasHook(c *v1alpha1.CanaryStrategy, kind v1alpha1.HookType, step string) bool {
	return slices.ContainsFunc(c.Hooks, func(h v1alpha1.Hook) bool {
		return h.Type == kind && covers(h, step)
	})
}

func covers(h v1alpha1.Hook, step string) bool {
	return len(h.Steps) == 0 || slices.Contains(h.Steps, step)
}

// maxPreviews is the default for spec.previews.maxGroups.
const maxPreviews = 20

func readPreviews(p *v1alpha1.Previews) release.Previews {
	if p == nil {
		return release.Previews{MaxGroups: maxPreviews}
	}
	return release.Previews{
		MaxGroups: int(cmp.Or(p.MaxGroups, maxPreviews)),
		MaxAge:    p.MaxAge.Std(0), KeepAfterClose: p.KeepAfterClose.Std(0),
	}
}

func readPins(m *v1alpha1.ManualUpdateStrategy) []release.Pin {
	if m == nil {
		return nil
	}
	var pins []release.Pin
	if v := m.SemVer; v != nil {
		pin := release.Pin{Field: "spec.updateStrategy.manual.semVer.name", Group: v.Name, Global: true, Version: v.Version, Current: m.Configuration == v1alpha1.PinCurrent, Reason: m.Reason, By: m.Author.Of(v.Version)}
		if m.ExpireTime != nil {
			pin.Expire = m.ExpireTime.Time
		}
		pins = append(pins, pin)
	}
	if m.Release != "" {
		pin := release.Pin{Field: "spec.updateStrategy.manual.release", Global: true, Release: m.Release, Reason: m.Reason, By: m.Author.Of(m.Release)}
		if m.ExpireTime != nil {
			pin.Expire = m.ExpireTime.Time
		}
		pins = append(pins, pin)
	}
	for i, g := range m.Groups {
		pin := release.Pin{Field: fmt.Sprintf("spec.updateStrategy.manual.groups[%d].name", i), Group: g.Name, Version: g.Version, Release: g.Release, Current: g.Configuration == v1alpha1.PinCurrent, Reason: g.Reason, By: g.Author.Of(g.Version + g.Release)}
		if g.ExpireTime != nil {
			pin.Expire = g.ExpireTime.Time
		}
		pins = append(pins, pin)
	}
	slices.SortFunc(pins, func(a, b release.Pin) int {
		return slices.Compare([]string{a.Group, a.Version, a.Release}, []string{b.Group, b.Version, b.Release})
	})
	return pins
}
