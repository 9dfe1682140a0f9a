package microservice

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/release"
)

// readLedger gives the planner's view of a status.
func readLedger(s *v1alpha1.MicroserviceStatus) release.Ledger {
	l := release.Ledger{Sequence: s.Sequence}
	for _, g := range s.ReleaseGroups {
		l.Groups = append(l.Groups, release.Group{
			Slug: g.Slug, Name: g.Name, Level: string(g.Level),
			PullRequest: g.PullRequest, Head: g.Head, HeadTime: timeOf(g.HeadTime),
			Phase:           release.Phase(g.Phase),
			Target:          release.Target{Release: g.Target.Release, Reason: release.Reason(g.Target.Reason), ResolvedFrom: g.Target.ResolvedFrom},
			TrafficRevision: g.TrafficRevision,
			TrafficTime:     timeOf(g.TrafficTime),
			SettledRevision: g.SettledRevision,
			Overtaken:       int(g.Overtaken),
			Failed:          readFailed(g.Failed),
			Run:             readRun(g.Run),
			Releases:        readRows(g.Releases),
		})
	}
	return l
}

func readFailed(f *v1alpha1.FailedVersions) release.Failed {
	if f == nil {
		return release.Failed{}
	}
	return release.Failed(*f)
}

func readRun(r *v1alpha1.ReleaseRun) *release.Run {
	if r == nil {
		return nil
	}
	return &release.Run{
		Release: r.Release, Step: int(r.Step), Started: r.StartedTime.Time,
		StepRevision: r.StepRevision, StepsHash: r.StepsHash,
		Waited: r.Waited.Duration, WaitingSince: timeOf(r.WaitingSince), Interrupted: r.Interrupted,
		Floor: int(r.Floor), Continued: int(r.Continued),
		Sequence: r.Sequence, Gate: release.Point(r.Gate), GateTime: timeOf(r.GateTime),
		Grace: timeOf(r.GraceTime), From: r.From, WaitsFor: release.Reason(r.WaitsFor),
	}
}

func readRows(rows []v1alpha1.Release) []release.Row {
	var out []release.Row
	for _, r := range rows {
		row := release.Row{
			Release: r.VersionedMicroservice, Name: r.SemVer.Name, Version: r.SemVer.Version, Config: r.Config,
			Status: release.Status(r.Status), Weight: int(r.Weight), Available: r.Available,
			Match: r.Match, Mirror: int(r.MirrorPercent),
			Promoted: r.Promoted, Routed: r.Routed, Adopted: r.Adopted,
			Attempt: int(r.Attempt), RetryTime: timeOf(r.RetryTime),
			Reason: release.Reason(r.Reason), Since: r.LastTransitionTime.Time,
		}
		if z := r.Zero; z != nil {
			row.Zero = &release.Zero{Revision: z.Revision, Time: z.Time.Time}
		}
		if d := r.Decision; d != nil {
			row.Decision = &release.Handled{ID: d.ID, Action: release.Action(d.Action), Time: d.Time.Time, By: d.By, Outcome: d.Outcome}
		}
		out = append(out, row)
	}
	return out
}

// writeLedger puts the planner's groups into a status.
func writeLedger(l release.Ledger, s *v1alpha1.MicroserviceStatus) {
	s.Sequence = l.Sequence
	s.ReleaseGroups = nil
	for _, g := range l.Groups {
		out := v1alpha1.ReleaseGroup{
			Name: g.Name, Slug: g.Slug, Level: v1alpha1.ReleaseLevel(g.Level),
			PullRequest: g.PullRequest, Head: g.Head, HeadTime: microTime(g.HeadTime),
			Phase:           v1alpha1.GroupPhase(g.Phase),
			Target:          v1alpha1.GroupTarget{Release: g.Target.Release, Reason: string(g.Target.Reason), ResolvedFrom: g.Target.ResolvedFrom},
			TrafficRevision: g.TrafficRevision,
			TrafficTime:     microTime(g.TrafficTime),
			SettledRevision: g.SettledRevision,
			Overtaken:       int32(g.Overtaken),
			Failed:          writeFailed(g.Failed),
			Run:             writeRun(g.Run),
		}
		if a := g.ActiveRow(); a != nil {
			out.Active = a.Version
		}
		for _, r := range g.Releases {
			out.Releases = append(out.Releases, writeRow(r))
		}
		s.ReleaseGroups = append(s.ReleaseGroups, out)
	}
}

func writeFailed(f release.Failed) *v1alpha1.FailedVersions {
	if f == (release.Failed{}) {
		return nil
	}
	out := v1alpha1.FailedVersions(f)
	return &out
}

func writeRun(r *release.Run) *v1alpha1.ReleaseRun {
	if r == nil {
		return nil
	}
	return &v1alpha1.ReleaseRun{
		Release: r.Release, Step: int32(r.Step), StartedTime: metav1.NewMicroTime(r.Started),
		StepRevision: r.StepRevision, StepsHash: r.StepsHash,
		Waited: metav1.Duration{Duration: r.Waited}, WaitingSince: microTime(r.WaitingSince), Interrupted: r.Interrupted,
		Floor: int32(r.Floor), Continued: int32(r.Continued),
		Sequence: r.Sequence, Gate: v1alpha1.Gate(r.Gate), GateTime: microTime(r.GateTime),
		GraceTime: microTime(r.Grace), From: r.From, WaitsFor: string(r.WaitsFor),
	}
}

func writeRow(r release.Row) v1alpha1.Release {
	out := v1alpha1.Release{
		VersionedMicroservice: r.Release,
		SemVer:                v1alpha1.SemVer{Name: r.Name, Version: r.Version},
		Config:                r.Config, Status: v1alpha1.ReleaseStatus(r.Status), Weight: int32(r.Weight), Available: r.Available,
		Match: r.Match, MirrorPercent: int32(r.Mirror),
		Promoted: r.Promoted, Routed: r.Routed, Adopted: r.Adopted,
		Attempt: int32(r.Attempt), RetryTime: microTime(r.RetryTime),
		Reason: string(r.Reason), LastTransitionTime: metav1.NewMicroTime(r.Since),
	}
	if z := r.Zero; z != nil {
		out.Zero = &v1alpha1.ZeroMark{Revision: z.Revision, Time: metav1.NewMicroTime(z.Time)}
	}
	if d := r.Decision; d != nil {
		out.Decision = &v1alpha1.HandledDecision{ID: d.ID, Action: v1alpha1.DecisionAction(d.Action), Time: metav1.NewMicroTime(d.Time), By: d.By, Outcome: d.Outcome}
	}
	return out
}

func timeOf(t *metav1.MicroTime) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.Time
}

func microTime(t time.Time) *metav1.MicroTime {
	if t.IsZero() {
		return nil
	}
	m := metav1.NewMicroTime(t)
	return &m
}

// reasonTimeZoneUnknown is for windows of steps.
const reasonTimeZoneUnknown = "TimeZoneUnknown"

// reasonAnalysisInvalid is for expressions of web metrics that are no CEL.
const reasonAnalysisInvalid = "AnalysisInvalid"

// readSpec gives the planner's view of a specification, with all defaults and with
// windows as they are now. The error is about a window that cannot be resolved, which
// is closed.
func readSpec(ms *v1alpha1.Microservice, minDrain time.Duration, now time.Time) (release.Spec, error) {
	a, u := ms.Spec.Availability, ms.Spec.UpdateStrategy
	spec := release.Spec{
		Paused:           ms.Spec.Paused,
		Replicas:         int(max(1, a.Replicas)),
		Standby:          1,
		MinimumAvailable: int(u.MinimumAvailable),
		Deadline:         time.Duration(u.ProgressDeadlineSeconds) * time.Second,
		Drain:            max(minDrain, u.DrainDelay.Std(30*time.Second)),
		Pins:             readPins(u.Manual),
		Ended:            ms.Spec.EndedGroups,
		Previews:         readPreviews(ms.Spec.Previews),
	}
	if spec.MinimumAvailable == 0 {
		spec.MinimumAvailable = 3
	}
	if spec.Deadline == 0 {
		spec.Deadline = 10 * time.Minute
	}
	if s := a.Autoscaling; s != nil && s.MinReplicas != nil {
		spec.Replicas = int(*s.MinReplicas)
	}
	if s := a.StandbyReplicas; s != nil {
		spec.StandbyFull = s.StrVal == "Full"
		spec.Standby = s.IntValue()
	}
	if u.Canary == nil {
		return spec, nil
	}
	return spec, readCanary(u.Canary, &spec, now)
}

func readCanary(c *v1alpha1.CanaryStrategy, spec *release.Spec, now time.Time) error {
	// Hooks that are called in rounds give verdicts too.
	spec.Analysis = c.Analysis != nil || slices.ContainsFunc(c.Hooks, func(h v1alpha1.Hook) bool { return h.Type == v1alpha1.HookRollout })
	spec.MatchWeight = c.Scale == v1alpha1.ScaleMatchWeight
	spec.TakeBack = c.Together != nil && c.Together.OnFailure == v1alpha1.TogetherTakeBack
	for _, p := range []release.Point{release.ConfirmRollout, release.PreRollout, release.ConfirmPromotion} {
		if asks(c, v1alpha1.HookType(p), "") {
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
			Confirm: asks(c, v1alpha1.HookConfirmTrafficIncrease, st.Name),
		}
		if st.Pause != nil {
			step.Pause = st.Pause.Duration.Std(0)
		}
		var err error
		if step.Window, err = resolveWindow(st.Window, now); err != nil {
			errs = append(errs, fmt.Errorf("spec.updateStrategy.canary.steps[%d].window.timeZone: %w", i, err))
		}
		spec.Steps = append(spec.Steps, step)
	}
	return errors.Join(errs...)
}

// asks says that there is a hook of a type, and that it is for a step.
func asks(c *v1alpha1.CanaryStrategy, kind v1alpha1.HookType, step string) bool {
	return slices.ContainsFunc(c.Hooks, func(h v1alpha1.Hook) bool {
		return h.Type == kind && covers(h, step)
	})
}

func covers(h v1alpha1.Hook, step string) bool {
	return len(h.Steps) == 0 || slices.Contains(h.Steps, step)
}

// maxPreviews is the default of spec.previews.maxGroups.
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
		pin := release.Pin{Field: "spec.updateStrategy.manual.semVer.name", Group: v.Name, Global: true, Version: v.Version, Current: m.Configuration == v1alpha1.PinCurrent, Reason: m.Reason}
		if m.ExpireTime != nil {
			pin.Expire = m.ExpireTime.Time
		}
		pins = append(pins, pin)
	}
	if m.Release != "" {
		pin := release.Pin{Field: "spec.updateStrategy.manual.release", Global: true, Release: m.Release, Reason: m.Reason}
		if m.ExpireTime != nil {
			pin.Expire = m.ExpireTime.Time
		}
		pins = append(pins, pin)
	}
	for i, g := range m.Groups {
		pin := release.Pin{Field: fmt.Sprintf("spec.updateStrategy.manual.groups[%d].name", i), Group: g.Name, Version: g.Version, Release: g.Release, Current: g.Configuration == v1alpha1.PinCurrent, Reason: g.Reason}
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
