package apiserver

import "github.com/heighliner/heighliner/apis/v1alpha1"

// EarlierStatus converts a status to the fields that were used before status.internal existed. It is the
// inverse of MicroserviceStatus.Convert.
func EarlierStatus(s *v1alpha1.MicroserviceStatus) {
	s.DeprecatedSequence, s.Internal = s.Sequence(), nil
	for i := range s.ReleaseGroups {
		g := &s.ReleaseGroups[i]
		if in := g.Internal; in != nil {
			g.Target.DeprecatedResolvedFrom, g.DeprecatedSettledRevision = in.ResolvedFrom, in.SettledRevision
			g.DeprecatedOvertaken, g.DeprecatedFailed, g.Internal = in.Superseded, in.Failed, nil
		}
		if r := g.Rollout; r != nil {
			run := &v1alpha1.DeprecatedRun{
				Release: r.Release, Step: r.Step, StartedTime: r.StartedTime, WaitingSince: r.WaitingSince,
				Interrupted: r.Interrupted, Continued: r.Continued, Sequence: r.Sequence, Gate: r.Gate,
				GateTime: r.GateTime, From: r.From, WaitsFor: r.WaitsFor,
			}
			if in := r.Internal; in != nil {
				run.StepRevision, run.StepsHash, run.Floor, run.GraceTime = in.StepRevision, in.StepsHash, in.Floor, in.GraceTime
				if in.Waited != nil {
					run.Waited = *in.Waited
				}
			}
			g.DeprecatedRun, g.Rollout = run, nil
		}
		for j := range g.Releases {
			if in := g.Releases[j].Internal; in != nil {
				r := &g.Releases[j]
				r.DeprecatedRouted, r.DeprecatedAdopted, r.DeprecatedZero, r.Internal = in.Routed, in.Adopted, in.Zero, nil
			}
		}
	}
}
