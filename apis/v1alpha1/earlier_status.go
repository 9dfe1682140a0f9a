package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// DeprecatedRun is a rollout as earlier versions of the manager recorded it.
type DeprecatedRun struct {
	// release is the name of the VersionedMicroservice.
	// +kubebuilder:validation:MaxLength=63
	Release string `json:"release"`
	// step that the rollout is in.
	// +optional
	Step int32 `json:"step,omitempty"`
	// startedTime is the time from which the progress deadline is measured.
	StartedTime metav1.MicroTime `json:"startedTime"`
	// stepRevision is replaced by rollout.internal.stepRevision.
	// +optional
	StepRevision int64 `json:"stepRevision,omitempty"`
	// stepsHash is replaced by rollout.internal.stepsHash.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	StepsHash string `json:"stepsHash,omitempty"`
	// waited is replaced by rollout.internal.waited.
	// +optional
	Waited metav1.Duration `json:"waited,omitempty"`
	// waitingSince is when the current wait of a healthy canary began.
	// +optional
	WaitingSince *metav1.MicroTime `json:"waitingSince,omitempty"`
	// interrupted reports whether the release became unavailable.
	// +optional
	Interrupted bool `json:"interrupted,omitempty"`
	// floor is replaced by rollout.internal.floor.
	// +optional
	Floor int32 `json:"floor,omitempty"`
	// continued is the step that a user approved.
	// +optional
	Continued int32 `json:"continued,omitempty"`
	// sequence number of the write that started the rollout.
	// +optional
	Sequence int64 `json:"sequence,omitempty"`
	// gate at which the rollout is waiting: ConfirmRollout, PreRollout, Together,
	// ConfirmTrafficIncrease or ConfirmPromotion, as in rollout.gate.
	// +optional
	Gate Gate `json:"gate,omitempty"`
	// gateTime is when the rollout reached the gate.
	// +optional
	GateTime *metav1.MicroTime `json:"gateTime,omitempty"`
	// graceTime is replaced by rollout.internal.graceTime.
	// +optional
	GraceTime *metav1.MicroTime `json:"graceTime,omitempty"`
	// from is the slug of the group whose domains move to this release.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	From string `json:"from,omitempty"`
	// waitsFor is the problem outside the release that blocks the rollout.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	WaitsFor string `json:"waitsFor,omitempty"`
}

// Convert moves the values of deprecated fields, written by an earlier version of the manager, to
// the current fields. It does not change a status written by this version. Every reader of a
// Microservice calls Convert before it reads releaseGroups. The next write of the rollout state
// stores the result. All groups are written together, so no group has both deprecated and current
// fields.
func (s *MicroserviceStatus) Convert() {
	for i := range s.ReleaseGroups {
		s.ReleaseGroups[i].convert()
	}
}

// Sequence returns the sequence number of the latest write of the rollout state, or 0 if there was no
// write. The number never decreases, even if the latest write was made by an earlier version of the
// manager.
func (s *MicroserviceStatus) Sequence() int64 {
	switch {
	case s.Internal == nil:
		return s.DeprecatedSequence
	case s.DeprecatedSequence == 0:
		return s.Internal.Sequence
	}
	return max(s.Internal.Sequence, s.DeprecatedSequence)
}

func (g *ReleaseGroup) convert() {
	internal := ReleaseGroupInternal{
		ResolvedFrom: g.Target.DeprecatedResolvedFrom, SettledRevision: g.DeprecatedSettledRevision,
		Superseded: g.DeprecatedOvertaken, Failed: g.DeprecatedFailed,
	}
	if g.Internal == nil && internal != (ReleaseGroupInternal{}) {
		g.Internal = &internal
	}
	if g.Rollout == nil && g.DeprecatedRun != nil {
		g.Rollout = g.DeprecatedRun.convert()
	}
	g.Target.DeprecatedResolvedFrom, g.DeprecatedSettledRevision = "", 0
	g.DeprecatedOvertaken, g.DeprecatedFailed, g.DeprecatedRun = 0, nil, nil
	for i := range g.Releases {
		r := &g.Releases[i]
		internal := ReleaseInternal{Routed: r.DeprecatedRouted, Adopted: r.DeprecatedAdopted, Zero: r.DeprecatedZero}
		if r.Internal == nil && internal != (ReleaseInternal{}) {
			r.Internal = &internal
		}
		r.DeprecatedRouted, r.DeprecatedAdopted, r.DeprecatedZero = false, false, nil
	}
}

func (r *DeprecatedRun) convert() *Rollout {
	out := &Rollout{
		Release: r.Release, Step: r.Step, StartedTime: r.StartedTime, WaitingSince: r.WaitingSince,
		Interrupted: r.Interrupted, Continued: r.Continued, Sequence: r.Sequence, Gate: r.Gate,
		GateTime: r.GateTime, From: r.From, WaitsFor: r.WaitsFor,
	}
	internal := RolloutInternal{StepRevision: r.StepRevision, StepsHash: r.StepsHash, Floor: r.Floor, GraceTime: r.GraceTime}
	if r.Waited.Duration != 0 {
		internal.Waited = &r.Waited
	}
	if internal != (RolloutInternal{}) {
		out.Internal = &internal
	}
	return out
}
