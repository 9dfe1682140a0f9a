package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// GroupPhase is where a group is in its life.
// +kubebuilder:validation:Enum=Live;Closing;Expired
type GroupPhase string

const (
	// GroupLive has, or is about to have, an active release.
	GroupLive GroupPhase = "Live"
	// GroupClosing is drained and removed.
	GroupClosing GroupPhase = "Closing"
	// GroupExpired is a preview without releases, when they are drained: its last push
	// is older than spec.previews.maxAge, and a new push brings it back; or there are
	// spec.previews.maxGroups others, and it starts when one of these goes.
	GroupExpired GroupPhase = "Expired"
)

// GroupTarget is the release that a group moves to.
type GroupTarget struct {
	// release is the name of the VersionedMicroservice.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Release string `json:"release,omitempty"`

	// reason why it is the target: Latest, Pinned, Held, …; of an Expired group, why it
	// has none: MaxAge or NoSlot.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason,omitempty"`

	// resolvedFrom is where earlier versions recorded what is in internal.resolvedFrom of
	// the group. Read, not written.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	DeprecatedResolvedFrom string `json:"resolvedFrom,omitempty"`
}

// Rollout is the process in which one release becomes active.
type Rollout struct {
	// release is the name of the VersionedMicroservice.
	// +kubebuilder:validation:MaxLength=63
	Release string `json:"release"`

	// step that the rollout is in, from 1; 0 before the first.
	// +optional
	Step int32 `json:"step,omitempty"`

	// startedTime is when the progress clock started: at the rollout's or the step's
	// start, or at the last progress.
	StartedTime metav1.MicroTime `json:"startedTime"`

	// waitingSince is when the present healthy wait began, where that is not the
	// time at which the weight was confirmed.
	// +optional
	WaitingSince *metav1.MicroTime `json:"waitingSince,omitempty"`

	// interrupted reports whether the release became unavailable, or lost its routes, in
	// this step, and is not back.
	// +optional
	Interrupted bool `json:"interrupted,omitempty"`

	// continued is the step, from 1, that a person released.
	// +optional
	Continued int32 `json:"continued,omitempty"`

	// sequence of the rollout state write that started this rollout. It names the rollout: what was
	// measured or answered for another one does not count.
	// +optional
	Sequence int64 `json:"sequence,omitempty"`

	// gate at which the rollout waits for hooks. At ConfirmTrafficIncrease it is the
	// traffic of the step after this one that they decide about.
	// +optional
	Gate Gate `json:"gate,omitempty"`

	// gateTime is since when hooks are asked at gate. At PreRollout it is absent until all
	// domains with release.status canary route to the release.
	// +optional
	GateTime *metav1.MicroTime `json:"gateTime,omitempty"`

	// from is the slug of the group from which the domains that route to the newest group
	// move to this release, the first of its group. By default it takes the traffic of its own
	// group.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	From string `json:"from,omitempty"`

	// waitsFor is the cause outside of the release that the rollout waits for, with its clock
	// stopped.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	WaitsFor string `json:"waitsFor,omitempty"`

	// internal is for the planner alone: it may change between versions without notice.
	// +optional
	Internal *RolloutInternal `json:"internal,omitempty"`
}

// RolloutInternal is what only the planner needs of a rollout.
type RolloutInternal struct {
	// stepRevision is the traffic revision that carries the step's weight.
	// +optional
	StepRevision int64 `json:"stepRevision,omitempty"`

	// stepsHash changes with the steps: it shows that they were edited.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	StepsHash string `json:"stepsHash,omitempty"`

	// waited adds up the healthy waiting in this step that is over.
	// +optional
	Waited *metav1.Duration `json:"waited,omitempty"`

	// floor is what the active release had when the first weight was given: it
	// keeps that many until the rollout ends.
	// +optional
	Floor int32 `json:"floor,omitempty"`

	// graceTime is until when the step may be unhealthy beyond its deadline, because
	// no manager ran when that passed.
	// +optional
	GraceTime *metav1.MicroTime `json:"graceTime,omitempty"`
}

// HandledDecision is a person's word that was applied or rejected.
type HandledDecision struct {
	// id of the decision.
	// +kubebuilder:validation:MaxLength=64
	ID string `json:"id"`
	// action that was asked for.
	Action DecisionAction `json:"action"`
	// time at which it was handled.
	Time metav1.MicroTime `json:"time"`
	// by is the user name of the user who decided.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	By string `json:"by,omitempty"`
	// outcome is Applied, or DecisionNotApplicable with the cause.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Outcome string `json:"outcome,omitempty"`
}

// ZeroMark records since when no route should target a release.
type ZeroMark struct {
	// revision that takes the release out of the routes.
	Revision int64 `json:"revision"`
	// time of the rollout state write.
	Time metav1.MicroTime `json:"time"`
	// named is true while an object of a NetworkPolicy that never confirmed the group names the release.
	// The drain begins when no such object does.
	// +optional
	Named bool `json:"named,omitempty"`
}

// Release is a row of the rollout state: one release of a group.
type Release struct {
	// versionedMicroservice is the name of the release's object, and the key.
	// +kubebuilder:validation:MaxLength=63
	VersionedMicroservice string `json:"versionedMicroservice"`

	// semVer is the name and the version.
	SemVer SemVer `json:"semVer"`

	// config is the hash of the pod template and of the configuration that it names.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Config string `json:"config,omitempty"`

	// status of the release.
	Status ReleaseStatus `json:"status"`

	// weight in percent that routes are to give it; of a live group with an active
	// release they add up to 100.
	Weight int32 `json:"weight"`

	// match is true while the requests that canaryMatches of the NetworkPolicy choose go
	// to the release.
	// +optional
	Match bool `json:"match,omitempty"`

	// mirrorPercent of the group's requests are to be sent to the release as well,
	// their answers thrown away.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	MirrorPercent int32 `json:"mirrorPercent,omitempty"`

	// available reports whether the release has all its replicas.
	// +optional
	Available bool `json:"available,omitempty"`

	// promoted is the order in which releases became active; 0: never.
	// +optional
	Promoted int64 `json:"promoted,omitempty"`

	// attempt counts the starts of this release after a failure, and the times at which
	// it gave its traffic back.
	// +optional
	Attempt int32 `json:"attempt,omitempty"`

	// retryTime is when a release that gave its traffic back more than once, for a cause
	// outside of it, may have some again.
	// +optional
	RetryTime *metav1.MicroTime `json:"retryTime,omitempty"`

	// reason of the status, one CamelCase word.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason,omitempty"`

	// lastTransitionTime is when the status last changed.
	LastTransitionTime metav1.MicroTime `json:"lastTransitionTime"`

	// decision that was handled last.
	// +optional
	Decision *HandledDecision `json:"decision,omitempty"`

	// internal is for the planner alone: it may change between versions without notice.
	// +optional
	Internal *ReleaseInternal `json:"internal,omitempty"`

	// routed is where earlier versions recorded what is in internal.routed. Read, not written.
	// +optional
	DeprecatedRouted bool `json:"routed,omitempty"`

	// adopted is where earlier versions recorded what is in internal.adopted. Read, not written.
	// +optional
	DeprecatedAdopted bool `json:"adopted,omitempty"`

	// zero is where earlier versions recorded what is in internal.zero. Read, not written.
	// +optional
	DeprecatedZero *ZeroMark `json:"zero,omitempty"`
}

// ReleaseInternal is what only the planner needs of a release.
type ReleaseInternal struct {
	// routed reports whether the release was named by a route once.
	// +optional
	Routed bool `json:"routed,omitempty"`

	// adopted reports whether a person asked to skip the steps.
	// +optional
	Adopted bool `json:"adopted,omitempty"`

	// zero records since when no route should target the release.
	// +optional
	Zero *ZeroMark `json:"zero,omitempty"`
}

// FailedVersions marks failures that have no row any more.
type FailedVersions struct {
	// version up to which nothing is tried automatically that has no row.
	// +kubebuilder:validation:MaxLength=128
	Version string `json:"version"`
	// config with which they failed; with another one all are tried again.
	// +kubebuilder:validation:MaxLength=64
	Config string `json:"config"`
}

// ReleaseGroup is a group of versions that replace each other.
type ReleaseGroup struct {
	// name of the group: "1.x", "1.2.x", "release".
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// slug is the name as a DNS label, and the key.
	// +kubebuilder:validation:MaxLength=63
	Slug string `json:"slug"`

	// level is the maturity of the group's newest version.
	// +optional
	// +kubebuilder:validation:Enum=Release;Candidate;Preview
	Level ReleaseLevel `json:"level,omitempty"`

	// phase of the group's life.
	Phase GroupPhase `json:"phase"`

	// pullRequest is the number of the pull request that the group is.
	// +optional
	PullRequest int64 `json:"pullRequest,omitempty"`

	// head commit of the pull request that was offered last.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Head string `json:"head,omitempty"`

	// headTime is when head was pushed: as its source says, else when it became known.
	// +optional
	HeadTime *metav1.MicroTime `json:"headTime,omitempty"`

	// active version.
	// +optional
	Active string `json:"active,omitempty"`

	// target is the release that the group moves to.
	// +optional
	Target GroupTarget `json:"target,omitempty"`

	// trafficRevision is raised by every write that changes what routes must
	// carry. Equal revision in a NetworkPolicy's status is the only confirmation.
	// +optional
	TrafficRevision int64 `json:"trafficRevision,omitempty"`

	// trafficTime is when trafficRevision was raised last.
	// +optional
	TrafficTime *metav1.MicroTime `json:"trafficTime,omitempty"`

	// rollout that is in progress.
	// +optional
	Rollout *Rollout `json:"rollout,omitempty"`

	// releases of the group, newest first.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Releases []Release `json:"releases,omitempty"`

	// internal is for the planner alone: it may change between versions without notice.
	// +optional
	Internal *ReleaseGroupInternal `json:"internal,omitempty"`

	// settledRevision is where earlier versions recorded what is in
	// internal.settledRevision. Read, not written.
	// +optional
	DeprecatedSettledRevision int64 `json:"settledRevision,omitempty"`

	// overtaken is where earlier versions recorded what is in internal.superseded. Read,
	// not written.
	// +optional
	DeprecatedOvertaken int32 `json:"overtaken,omitempty"`

	// failed is where earlier versions recorded what is in internal.failed. Read, not
	// written.
	// +optional
	DeprecatedFailed *FailedVersions `json:"failed,omitempty"`

	// run is where earlier versions recorded the rollout. Read, not written.
	// +optional
	DeprecatedRun *DeprecatedRun `json:"run,omitempty"`
}

// ReleaseGroupInternal is what only the planner needs of a group.
type ReleaseGroupInternal struct {
	// resolvedFrom is the pin and configuration from which the target was
	// resolved; only a change of these resolves it again.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	ResolvedFrom string `json:"resolvedFrom,omitempty"`

	// settledRevision is a revision that was left unconfirmed by some policy for
	// the deadline while nothing was in progress: policies behind it block nothing.
	// +optional
	SettledRevision int64 `json:"settledRevision,omitempty"`

	// superseded counts the releases that a newer one displaced since the last
	// promotion.
	// +optional
	Superseded int32 `json:"superseded,omitempty"`

	// failed marks the failures that were forgotten because the group was full.
	// +optional
	Failed *FailedVersions `json:"failed,omitempty"`
}

// MicroserviceSummary holds what columns print. Previews are counted in previews alone.
type MicroserviceSummary struct {
	// active version of the newest group, and the number of further groups.
	// +optional
	Active string `json:"active,omitempty"`
	// canary version, weight, and step.
	// +optional
	Canary string `json:"canary,omitempty"`
	// groups that have an available active release, of all.
	// +optional
	Groups string `json:"groups,omitempty"`
	// failed versions.
	// +optional
	Failed string `json:"failed,omitempty"`
	// previews that are available, of all that have a slot among spec.previews.maxGroups.
	// +optional
	Previews string `json:"previews,omitempty"`
}

// MicroserviceStatus is the rollout state: it is written with its resourceVersion as
// precondition, and it is what releases, weights and routes are derived from.
type MicroserviceStatus struct {
	// conditions: Ready and Progressing always; Reconciling, Stalled, Pinned, Blocked,
	// ReleaseFailed, AnalysisInconclusive, TrafficDegraded, ConfigurationLost, PreviewsReady
	// and DeploymentAdopted while they have something to report.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation that this status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// adoptedReplicas is what the Deployment of adoptFrom had before it was scaled to
	// zero.
	// +optional
	AdoptedReplicas *int32 `json:"adoptedReplicas,omitempty"`

	// summary in short.
	// +optional
	Summary MicroserviceSummary `json:"summary,omitempty"`

	// releaseGroups, newest first; previews after all others, the highest number first.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	ReleaseGroups []ReleaseGroup `json:"releaseGroups,omitempty"`

	// internal is for the manager alone, as are all fields of this name below
	// releaseGroups: it may change between versions without notice.
	// +optional
	Internal *MicroserviceInternal `json:"internal,omitempty"`

	// sequence is where earlier versions recorded what is in internal.sequence. Read, not
	// written.
	// +optional
	DeprecatedSequence int64 `json:"sequence,omitempty"`
}

// MicroserviceInternal is what only the manager needs of a Microservice.
type MicroserviceInternal struct {
	// sequence grows with every write of the rollout state.
	// +optional
	Sequence int64 `json:"sequence,omitempty"`
}

// Conditions of a Microservice, in addition to Ready, Reconciling and Stalled. All but Progressing
// are absent where they have nothing to report.
const (
	// ConditionProgressing is True while a rollout is in progress, or a release drains.
	ConditionProgressing = "Progressing"
	// ConditionPinned is True while all pins hold.
	ConditionPinned = "Pinned"
	// ConditionFrozen is True while a Freeze or ClusterFreeze keeps a version from starting, or
	// from more traffic. It is absent if nothing waits.
	ConditionFrozen = "Frozen"
	// ConditionBlocked is True while a version does not start or advance, and time alone does
	// not change that.
	ConditionBlocked = "Blocked"
	// ConditionReleaseFailed is True while there are versions that failed.
	ConditionReleaseFailed = "ReleaseFailed"
	// ConditionAnalysisInconclusive is True while the measurements of a step prove nothing.
	ConditionAnalysisInconclusive = "AnalysisInconclusive"
	// ConditionTrafficDegraded is True while traffic is not, or is not known to be, as the
	// weights of releases ask for.
	ConditionTrafficDegraded = "TrafficDegraded"
	// ConditionPreviewsReady is True while all previews that have a slot are available. Its
	// message counts them: "17 of 20". It is there while there are any.
	ConditionPreviewsReady = "PreviewsReady"
	// ConditionDeploymentAdopted is True when the Deployment which the Microservice takes
	// over from is scaled to zero.
	ConditionDeploymentAdopted = "DeploymentAdopted"
)
