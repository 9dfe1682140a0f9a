package microservice

import (
	"cmp"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/release"
)

// renamed maps the status reasons of earlier versions to the reasons of this version.
var renamed = map[string]string{
	"NoPlace":         string(release.NoSlot),
	"Overtaken":       string(release.Superseded),
	"TurnedDown":      string(release.Aborted),
	"RetriedByItself": string(release.RetriedAutomatically),
}

// convertStatus converts a status written by an earlier version to the reasons and fields of this
// version. The conversion alone does not cause a write.
func convertStatus(s *v1alpha1.MicroserviceStatus) {
	s.Convert()
	for i := range s.ReleaseGroups {
		g := &s.ReleaseGroups[i]
		g.Target.Reason = cmp.Or(renamed[g.Target.Reason], g.Target.Reason)
		for j := range g.Releases {
			r := &g.Releases[j]
			r.Reason = cmp.Or(renamed[r.Reason], r.Reason)
		}
	}
}

// readState converts a status to the planner's rollout state.
func readState(s *v1alpha1.MicroserviceStatus) release.State {
	l := release.State{Sequence: s.Sequence()}
	for _, g := range s.ReleaseGroups {
		internal := cmp.Or(g.Internal, &v1alpha1.ReleaseGroupInternal{})
		l.Groups = append(l.Groups, release.Group{
			Slug: g.Slug, Name: g.Name, Level: string(g.Level),
			PullRequest: g.PullRequest, Head: g.Head, HeadTime: timeOf(g.HeadTime),
			Phase:           release.Phase(g.Phase),
			Target:          release.Target{Release: g.Target.Release, Reason: release.Reason(g.Target.Reason), ResolvedFrom: internal.ResolvedFrom},
			TrafficRevision: g.TrafficRevision,
			TrafficTime:     timeOf(g.TrafficTime),
			SettledRevision: internal.SettledRevision,
			Superseded:      int(internal.Superseded),
			LastSuperseded:  internal.LastSuperseded,
			Failed:          readFailed(internal.Failed),
			Rollout:         readRollout(g.Rollout),
			End:             readEnd(g.End),
			Releases:        readRows(g.Releases),
		})
	}
	return l
}

func readEnd(e *v1alpha1.PreviewEnd) release.End {
	if e == nil {
		return release.End{}
	}
	return release.End{Release: e.Release, Time: e.Time.Time}
}

func writeEnd(e release.End) *v1alpha1.PreviewEnd {
	if e.Release == "" {
		return nil
	}
	return &v1alpha1.PreviewEnd{Release: e.Release, Time: metav1.NewMicroTime(e.Time)}
}

func readFailed(f *v1alpha1.FailedVersions) release.Failed {
	if f == nil {
		return release.Failed{}
	}
	return release.Failed(*f)
}

func readRollout(r *v1alpha1.Rollout) *release.Rollout {
	if r == nil {
		return nil
	}
	internal := cmp.Or(r.Internal, &v1alpha1.RolloutInternal{})
	out := &release.Rollout{
		Release: r.Release, Step: int(r.Step), Started: r.StartedTime.Time,
		StepRevision: internal.StepRevision, StepsHash: internal.StepsHash,
		WaitingSince: timeOf(r.WaitingSince), Interrupted: r.Interrupted,
		Floor: int(internal.Floor), Continued: int(r.Continued),
		Sequence: r.Sequence, Gate: release.Point(r.Gate), GateTime: timeOf(r.GateTime),
		Grace: timeOf(internal.GraceTime), From: r.From, WaitsFor: release.Reason(r.WaitsFor),
	}
	if internal.Waited != nil {
		out.Waited = internal.Waited.Duration
	}
	for _, a := range r.Approvals {
		out.Approvals = append(out.Approvals, release.Approval{By: a.By, Group: a.Group, Time: a.Time.Time})
	}
	return out
}

func readRows(rows []v1alpha1.Release) []release.Row {
	var out []release.Row
	for _, r := range rows {
		internal := cmp.Or(r.Internal, &v1alpha1.ReleaseInternal{})
		row := release.Row{
			Release: r.VersionedMicroservice, Name: r.SemVer.Name, Version: r.SemVer.Version, Config: r.Config,
			Status: release.Status(r.Status), Weight: int(r.Weight), Available: r.Available,
			Match: r.Match, Mirror: int(r.MirrorPercent),
			Promoted: r.Promoted, FirstActive: timeOf(r.FirstActiveTime), Routed: internal.Routed, Adopted: internal.Adopted,
			Attempt: int(r.Attempt), RetryTime: timeOf(r.RetryTime),
			Reason: release.Reason(r.Reason), Since: r.LastTransitionTime.Time,
		}
		if z := internal.Zero; z != nil {
			row.Zero = &release.Zero{Revision: z.Revision, Time: z.Time.Time, Named: z.Named}
		}
		if d := r.Decision; d != nil {
			row.Decision = &release.Handled{ID: d.ID, Action: release.Action(d.Action), Time: d.Time.Time, By: d.By, Outcome: d.Outcome}
		}
		out = append(out, row)
	}
	return out
}

// writeState writes the planner's rollout state to a status.
func writeState(l release.State, s *v1alpha1.MicroserviceStatus) {
	s.Internal, s.DeprecatedSequence = &v1alpha1.MicroserviceInternal{Sequence: l.Sequence}, 0
	s.ReleaseGroups = nil
	for _, g := range l.Groups {
		out := v1alpha1.ReleaseGroup{
			Name: g.Name, Slug: g.Slug, Level: v1alpha1.ReleaseLevel(g.Level),
			PullRequest: g.PullRequest, Head: g.Head, HeadTime: microTime(g.HeadTime),
			Phase:           v1alpha1.GroupPhase(g.Phase),
			Target:          v1alpha1.GroupTarget{Release: g.Target.Release, Reason: string(g.Target.Reason)},
			TrafficRevision: g.TrafficRevision,
			TrafficTime:     microTime(g.TrafficTime),
			Rollout:         writeRollout(g.Rollout),
			End:             writeEnd(g.End),
			Internal: present(v1alpha1.ReleaseGroupInternal{
				ResolvedFrom: g.Target.ResolvedFrom, SettledRevision: g.SettledRevision,
				Superseded: int32(g.Superseded), LastSuperseded: g.LastSuperseded, Failed: present(v1alpha1.FailedVersions(g.Failed)),
			}),
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

func writeRollout(r *release.Rollout) *v1alpha1.Rollout {
	if r == nil {
		return nil
	}
	internal := v1alpha1.RolloutInternal{StepRevision: r.StepRevision, StepsHash: r.StepsHash, Floor: int32(r.Floor), GraceTime: microTime(r.Grace)}
	if r.Waited != 0 {
		internal.Waited = &metav1.Duration{Duration: r.Waited}
	}
	var approvals []v1alpha1.StepApproval
	for _, a := range r.Approvals {
		approvals = append(approvals, v1alpha1.StepApproval{By: a.By, Group: a.Group, Time: metav1.NewMicroTime(a.Time)})
	}
	return &v1alpha1.Rollout{
		Approvals: approvals,
		Release:   r.Release, Step: int32(r.Step), StartedTime: metav1.NewMicroTime(r.Started),
		WaitingSince: microTime(r.WaitingSince), Interrupted: r.Interrupted, Continued: int32(r.Continued),
		Sequence: r.Sequence, Gate: v1alpha1.Gate(r.Gate), GateTime: microTime(r.GateTime),
		From: r.From, WaitsFor: string(r.WaitsFor), Internal: present(internal),
	}
}

func writeRow(r release.Row) v1alpha1.Release {
	internal := v1alpha1.ReleaseInternal{Routed: r.Routed, Adopted: r.Adopted}
	if z := r.Zero; z != nil {
		internal.Zero = &v1alpha1.ZeroMark{Revision: z.Revision, Time: metav1.NewMicroTime(z.Time), Named: z.Named}
	}
	out := v1alpha1.Release{
		VersionedMicroservice: r.Release,
		SemVer:                v1alpha1.SemVer{Name: r.Name, Version: r.Version},
		Config:                r.Config, Status: v1alpha1.ReleaseStatus(r.Status), Weight: int32(r.Weight), Available: r.Available,
		Match: r.Match, MirrorPercent: int32(r.Mirror), Promoted: r.Promoted, FirstActiveTime: microTime(r.FirstActive),
		Attempt: int32(r.Attempt), RetryTime: microTime(r.RetryTime),
		Reason: string(r.Reason), LastTransitionTime: metav1.NewMicroTime(r.Since), Internal: present(internal),
	}
	if d := r.Decision; d != nil {
		out.Decision = &v1alpha1.HandledDecision{ID: d.ID, Action: v1alpha1.DecisionAction(d.Action), Time: metav1.NewMicroTime(d.Time), By: d.By, Outcome: d.Outcome}
	}
	return out
}

// present returns a pointer to x, or nil if x is the zero value.
func present[T comparable](x T) *T {
	if x == *new(T) {
		return nil
	}
	return &x
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
