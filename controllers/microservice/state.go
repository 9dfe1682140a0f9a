package microservice

import (
	"cmp"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/release"
)

// renamed are reasons in the status of earlier versions, with those of this one.
var renamed = map[string]string{
	"NoPlace":         string(release.NoSlot),
	"Overtaken":       string(release.Superseded),
	"TurnedDown":      string(release.Aborted),
	"RetriedByItself": string(release.RetriedAutomatically),
}

// convertStatus gives a status that an earlier version wrote the words of this one. It is not
// written for that alone.
func convertStatus(s *v1alpha1.MicroserviceStatus) {
	for i := range s.ReleaseGroups {
		g := &s.ReleaseGroups[i]
		g.Target.Reason = cmp.Or(renamed[g.Target.Reason], g.Target.Reason)
		for j := range g.Releases {
			r := &g.Releases[j]
			r.Reason = cmp.Or(renamed[r.Reason], r.Reason)
		}
	}
}

// readState gives the planner's view of a status.
func readState(s *v1alpha1.MicroserviceStatus) release.State {
	l := release.State{Sequence: s.Sequence}
	for _, g := range s.ReleaseGroups {
		l.Groups = append(l.Groups, release.Group{
			Slug: g.Slug, Name: g.Name, Level: string(g.Level),
			PullRequest: g.PullRequest, Head: g.Head, HeadTime: timeOf(g.HeadTime),
			Phase:           release.Phase(g.Phase),
			Target:          release.Target{Release: g.Target.Release, Reason: release.Reason(g.Target.Reason), ResolvedFrom: g.Target.ResolvedFrom},
			TrafficRevision: g.TrafficRevision,
			TrafficTime:     timeOf(g.TrafficTime),
			SettledRevision: g.SettledRevision,
			Superseded:      int(g.Overtaken),
			Failed:          readFailed(g.Failed),
			Rollout:         readRollout(g.Run),
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

func readRollout(r *v1alpha1.ReleaseRun) *release.Rollout {
	if r == nil {
		return nil
	}
	return &release.Rollout{
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

// writeState puts the planner's groups into a status.
func writeState(l release.State, s *v1alpha1.MicroserviceStatus) {
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
			Overtaken:       int32(g.Superseded),
			Failed:          writeFailed(g.Failed),
			Run:             writeRollout(g.Rollout),
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

func writeRollout(r *release.Rollout) *v1alpha1.ReleaseRun {
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
