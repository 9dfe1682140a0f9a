package viewtest

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/release"
)

// groupOf converts a group of the planner to its form in the status.
func groupOf(g release.Group) v1alpha1.ReleaseGroup {
	out := v1alpha1.ReleaseGroup{
		Name: g.Name, Slug: g.Slug, Level: v1alpha1.ReleaseLevel(g.Level), Phase: v1alpha1.GroupPhase(g.Phase),
		PullRequest: g.PullRequest, Head: g.Head, HeadTime: micro(g.HeadTime),
		Target:          v1alpha1.GroupTarget{Release: g.Target.Release, Reason: string(g.Target.Reason)},
		TrafficRevision: g.TrafficRevision, TrafficTime: micro(g.TrafficTime), Internal: &v1alpha1.ReleaseGroupInternal{SettledRevision: g.SettledRevision, ResolvedFrom: g.Target.ResolvedFrom, Superseded: int32(g.Superseded), LastSuperseded: g.LastSuperseded},
	}
	if a := g.ActiveRow(); a != nil {
		out.Active = a.Version
	}
	if r := g.Rollout; r != nil {
		out.Rollout = &v1alpha1.Rollout{
			Release: r.Release, Step: int32(r.Step), StartedTime: metav1.NewMicroTime(r.Started), WaitingSince: micro(r.WaitingSince), Interrupted: r.Interrupted, Continued: int32(r.Continued),
			Sequence: r.Sequence, Gate: v1alpha1.Gate(r.Gate), GateTime: micro(r.GateTime), From: r.From, WaitsFor: string(r.WaitsFor),
			Internal: &v1alpha1.RolloutInternal{StepRevision: r.StepRevision, StepsHash: r.StepsHash, Waited: &metav1.Duration{Duration: r.Waited}, Floor: int32(r.Floor), GraceTime: micro(r.Grace)},
		}
		for _, a := range r.Approvals {
			out.Rollout.Approvals = append(out.Rollout.Approvals, v1alpha1.StepApproval{By: a.By, Group: a.Group, Time: metav1.NewMicroTime(a.Time)})
		}
	}
	for _, r := range g.Releases {
		out.Releases = append(out.Releases, rowOf(r))
	}
	return out
}

func rowOf(r release.Row) v1alpha1.Release {
	out := v1alpha1.Release{
		VersionedMicroservice: r.Release, SemVer: v1alpha1.SemVer{Name: r.Name, Version: r.Version}, Config: r.Config,
		Status: v1alpha1.ReleaseStatus(r.Status), Weight: int32(r.Weight), Match: r.Match, MirrorPercent: int32(r.Mirror), Available: r.Available,
		Promoted: r.Promoted, FirstActiveTime: micro(r.FirstActive), Internal: &v1alpha1.ReleaseInternal{Routed: r.Routed, Adopted: r.Adopted}, Attempt: int32(r.Attempt), RetryTime: micro(r.RetryTime),
		Reason: string(r.Reason), LastTransitionTime: metav1.NewMicroTime(r.Since),
	}
	if d := r.Decision; d != nil {
		out.Decision = &v1alpha1.HandledDecision{ID: d.ID, Action: v1alpha1.DecisionAction(d.Action), Time: metav1.NewMicroTime(d.Time), By: d.By, Outcome: d.Outcome}
	}
	return out
}

func micro(t time.Time) *metav1.MicroTime {
	if t.IsZero() {
		return nil
	}
	return &metav1.MicroTime{Time: t}
}
