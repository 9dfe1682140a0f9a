package v1alpha1

import (
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// GroupPhase is the phase of a release group's lifecycle.
// +kubebuilder:validation:Enum=Live;Closing;Expired
type GroupPhase string

const (
	// GroupLive means that the group has an active release, or is about to have one.
	GroupLive GroupPhase = "Live"
	// GroupClosing means that the group is being drained and removed.
	GroupClosing GroupPhase = "Closing"
	// GroupExpired means that the group is a preview whose releases are being drained and removed, or have
	// been removed. There are three possible causes: (1) The last push is older than
	// spec.previews.maxAge. A new push starts the preview again. (2) All spec.previews.maxGroups slots
	// are taken. The preview starts when a slot becomes free. (3) The preview has no version to start,
	// for example because its version is denied or its pin prevents it from starting.
	GroupExpired GroupPhase = "Expired"
)

// GroupTarget is the release that a group moves to.
type GroupTarget struct {
	// release is the name of the VersionedMicroservice.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Release string `json:"release,omitempty"`

	// reason why this release is the target, such as Latest, Pinned or Held. For a group in phase
	// Expired, it is the reason why the group has no target: MaxAge, NoSlot, NothingToStart or the
	// reason why its pin prevents it from starting.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason,omitempty"`

	// resolvedFrom is deprecated: earlier versions stored internal.resolvedFrom of the group here.
	// It is still read, but no longer written.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	DeprecatedResolvedFrom string `json:"resolvedFrom,omitempty"`
}

// Rollout is the process in which one release becomes active.
type Rollout struct {
	// release is the name of the VersionedMicroservice.
	// +kubebuilder:validation:MaxLength=63
	Release string `json:"release"`

	// step is the number of the current step, counted from 1. It is 0 before the first step.
	// +optional
	Step int32 `json:"step,omitempty"`

	// startedTime is when the rollout or its current step started, or when the release regained routes
	// after it had lost all of them. The progress deadline is measured from this time, and is extended
	// by the time that the step has waited.
	StartedTime metav1.MicroTime `json:"startedTime"`

	// waitingSince is when the current wait of a healthy or blocked rollout began, for example when the
	// weight was confirmed. In a step that has a pause and no analysis, it is not set during the first
	// seconds of the pause.
	// +optional
	WaitingSince *metav1.MicroTime `json:"waitingSince,omitempty"`

	// interrupted reports whether the release became unavailable or lost its routes during this
	// step, and has not recovered.
	// +optional
	Interrupted bool `json:"interrupted,omitempty"`

	// continued is the number of the current step, counted from 1, if this step is complete: a user
	// approved it or ended its pause, or the rollout is waiting only for the pods of the next step. It
	// is 0 if the step is not complete.
	// +optional
	Continued int32 `json:"continued,omitempty"`

	// approvals of the current step. They are removed when the next step begins.
	// +optional
	// +listType=map
	// +listMapKey=by
	// +kubebuilder:validation:MaxItems=8
	Approvals []StepApproval `json:"approvals,omitempty"`

	// sequence is the value of status.internal.sequence in the write that started this rollout. It
	// identifies the rollout: measurements and hook responses for another rollout are ignored.
	// +optional
	Sequence int64 `json:"sequence,omitempty"`

	// gate at which the rollout is waiting. ConfirmRollout means that it waits before the release has
	// pods. PreRollout means that it waits before the release has traffic. Together means that it
	// waits for the Microservices that roll out together with this Microservice.
	// ConfirmTrafficIncrease means that it waits before the next step with more traffic.
	// ConfirmPromotion means that it waits after the last step.
	// +optional
	Gate Gate `json:"gate,omitempty"`

	// gateTime is when the rollout reached the gate. At PreRollout it is not set until the release
	// is the target of all domains with release.status canary. At ConfirmRollout it is not set until the hook
	// Jobs of other releases of the group have ended.
	// +optional
	GateTime *metav1.MicroTime `json:"gateTime,omitempty"`

	// from is set only for the first release of a group: it is the slug of the other group whose
	// traffic moves to this release through the domains that route to the newest group. If from is not
	// set, the release takes over the traffic of its group.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	From string `json:"from,omitempty"`

	// waitsFor is the problem outside the release that blocks the rollout. The time during which it
	// is set does not count against the progress deadline.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	WaitsFor string `json:"waitsFor,omitempty"`

	// internal is used by the planner only, and may change between versions without notice.
	// +optional
	Internal *RolloutInternal `json:"internal,omitempty"`
}

// StepApproval is the approval of a step by one user.
type StepApproval struct {
	// by is the name of the user who approved.
	// +kubebuilder:validation:MaxLength=253
	By string `json:"by"`

	// group is a group in spec.updateStrategy.canary.steps[].approval.from that the user is a member
	// of. It is empty if the step does not require a group.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Group string `json:"group,omitempty"`

	// time at which the approval was recorded.
	Time metav1.MicroTime `json:"time"`
}

// RolloutInternal contains the fields of a rollout that only the planner uses.
type RolloutInternal struct {
	// stepRevision is the traffic revision that contains the step's weight.
	// +optional
	StepRevision int64 `json:"stepRevision,omitempty"`

	// stepsHash is a hash of the steps. A different hash means that the steps were edited.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	StepsHash string `json:"stepsHash,omitempty"`

	// waited is the total duration of the completed waits of a healthy canary in this step.
	// +optional
	Waited *metav1.Duration `json:"waited,omitempty"`

	// floor is the largest number of replicas that the active release had when the rollout started, or
	// before a step or the promotion began. The active release keeps at least this number of replicas
	// until the rollout ends.
	// +optional
	Floor int32 `json:"floor,omitempty"`

	// graceTime is set if the step gets more time than its deadline allows, because no manager was
	// running when the deadline passed, or because the canary of another group had to lose its traffic
	// first. The step can remain unhealthy until this time.
	// +optional
	GraceTime *metav1.MicroTime `json:"graceTime,omitempty"`
}

// HandledDecision is a user's decision that was applied or rejected.
type HandledDecision struct {
	// id of the decision.
	// +kubebuilder:validation:MaxLength=64
	ID string `json:"id"`
	// action that was requested: Continue, Adopt, Deprecate or Retry, as in spec.decision of a
	// VersionedMicroservice.
	Action DecisionAction `json:"action"`
	// time at which the decision was handled.
	Time metav1.MicroTime `json:"time"`
	// by is the name of the user who made the decision.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	By string `json:"by,omitempty"`
	// outcome is Applied, or DecisionNotApplicable followed by the cause.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Outcome string `json:"outcome,omitempty"`
}

// ZeroMark records when a release stopped being a target of routes.
type ZeroMark struct {
	// revision is the traffic revision that removed the release from the routes.
	Revision int64 `json:"revision"`
	// time at which the removal was recorded. If named was true afterward, it is the time at which
	// named became false.
	Time metav1.MicroTime `json:"time"`
	// named reports whether a NetworkPolicy that never confirmed a traffic revision of the group might
	// still refer to the release. The drain begins when no such NetworkPolicy refers to it.
	// +optional
	Named bool `json:"named,omitempty"`
}

// Release is an entry in the rollout state: one release of a group.
type Release struct {
	// versionedMicroservice is the name of the release's VersionedMicroservice, and the key of
	// this entry.
	// +kubebuilder:validation:MaxLength=63
	VersionedMicroservice string `json:"versionedMicroservice"`

	// semVer contains the name of the release group, and the version.
	SemVer SemVer `json:"semVer"`

	// config is the hash of the pod template and of the configuration that the template
	// references.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Config string `json:"config,omitempty"`

	// status of the release. A pending release has not begun its first step: it is not available yet, or
	// is waiting, for example for PreRollout hooks or the end of a freeze. A canary has begun its steps
	// and may receive traffic, but is not active yet. The active release serves the traffic of its
	// group. A release in error did not become available in time, failed, or was aborted. A deprecated release was
	// previously active, or was superseded before it became active.
	Status ReleaseStatus `json:"status"`

	// weight in percent that routes should give to the release. In a live group with an active
	// release, all weights add up to 100.
	Weight int32 `json:"weight"`

	// match is true while the requests selected by the NetworkPolicy's canaryMatches are routed to the
	// release.
	// +optional
	Match bool `json:"match,omitempty"`

	// mirrorPercent is the percentage of the group's requests that should also be sent to the
	// release; its responses are discarded.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	MirrorPercent int32 `json:"mirrorPercent,omitempty"`

	// available reports whether all replicas of the release are available. It is set only for active
	// releases and canaries.
	// +optional
	Available bool `json:"available,omitempty"`

	// promoted is the position of this release in the order in which releases became active; 0 if
	// the release was never active.
	// +optional
	Promoted int64 `json:"promoted,omitempty"`

	// firstActiveTime is when this release became active for the first time.
	// +optional
	FirstActiveTime *metav1.MicroTime `json:"firstActiveTime,omitempty"`

	// attempt is the number of times that this release was restarted after a failure, plus the
	// number of times that its traffic was removed because of a problem outside the release. It is
	// reset to 0 when the release becomes active.
	// +optional
	Attempt int32 `json:"attempt,omitempty"`

	// retryTime is the earliest time at which the release can receive traffic again, if its traffic
	// was removed more than once because of a problem outside the release.
	// +optional
	RetryTime *metav1.MicroTime `json:"retryTime,omitempty"`

	// reason for the status, as one CamelCase word.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason,omitempty"`

	// lastTransitionTime is when the status last changed.
	LastTransitionTime metav1.MicroTime `json:"lastTransitionTime"`

	// decision that was handled most recently.
	// +optional
	Decision *HandledDecision `json:"decision,omitempty"`

	// internal is used by the planner only, and may change between versions without notice.
	// +optional
	Internal *ReleaseInternal `json:"internal,omitempty"`

	// routed is deprecated: earlier versions stored internal.routed here. It is still read, but no
	// longer written.
	// +optional
	DeprecatedRouted bool `json:"routed,omitempty"`

	// adopted is deprecated: earlier versions stored internal.adopted here. It is still read, but no
	// longer written.
	// +optional
	DeprecatedAdopted bool `json:"adopted,omitempty"`

	// zero is deprecated: earlier versions stored internal.zero here. It is still read, but no longer
	// written.
	// +optional
	DeprecatedZero *ZeroMark `json:"zero,omitempty"`
}

// ReleaseInternal contains the fields of a release that only the planner uses.
type ReleaseInternal struct {
	// routed reports whether a route has ever referred to the release.
	// +optional
	Routed bool `json:"routed,omitempty"`

	// adopted reports whether a user decided to skip the steps.
	// +optional
	Adopted bool `json:"adopted,omitempty"`

	// zero records when the release stopped being a target of routes.
	// +optional
	Zero *ZeroMark `json:"zero,omitempty"`
}

// FailedVersions records failed versions that are no longer listed in releases.
type FailedVersions struct {
	// version is the highest failed version that is no longer listed in releases. Versions up to
	// this version that are not listed in releases are not started automatically.
	// +kubebuilder:validation:MaxLength=128
	Version string `json:"version"`
	// config is the hash of the pod template and configuration with which the versions failed. With a
	// different pod template or configuration, all of the failed versions can start again.
	// +kubebuilder:validation:MaxLength=64
	Config string `json:"config"`
}

// ReleaseGroup is a group of versions that replace each other.
type ReleaseGroup struct {
	// name of the group, such as "1.x", "1.2.x" or "release".
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// slug is the name of the group as a DNS label, and the key of this entry.
	// +kubebuilder:validation:MaxLength=63
	Slug string `json:"slug"`

	// level is the maturity of the group's newest version. Release means that it is a final
	// version. Candidate means that it is a pre-release. Preview means that it is a commit of a
	// pull request.
	// +optional
	// +kubebuilder:validation:Enum=Release;Candidate;Preview
	Level ReleaseLevel `json:"level,omitempty"`

	// phase of the group. Live means that the group has an active release, or is about to have one.
	// Closing means that the group is being drained and removed. Expired means that the group is a
	// preview whose releases are being drained and removed, or have been removed: its last push is
	// older than spec.previews.maxAge, it is waiting for one of the spec.previews.maxGroups slots, or
	// it has no version to start.
	Phase GroupPhase `json:"phase"`

	// pullRequest is the number of the pull request, if this group is a preview.
	// +optional
	PullRequest int64 `json:"pullRequest,omitempty"`

	// head is the latest offered commit of the pull request.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Head string `json:"head,omitempty"`

	// headTime is when head was pushed. If the source does not report this, it is when head was
	// first seen.
	// +optional
	HeadTime *metav1.MicroTime `json:"headTime,omitempty"`

	// active is the active version.
	// +optional
	Active string `json:"active,omitempty"`

	// target is the release that the group moves to.
	// +optional
	Target GroupTarget `json:"target,omitempty"`

	// trafficRevision increases with every write that changes what the routes must contain. A
	// NetworkPolicy confirms it only by reporting an equal revision in its status.
	// +optional
	TrafficRevision int64 `json:"trafficRevision,omitempty"`

	// trafficTime is when trafficRevision last increased.
	// +optional
	TrafficTime *metav1.MicroTime `json:"trafficTime,omitempty"`

	// rollout that is in progress.
	// +optional
	Rollout *Rollout `json:"rollout,omitempty"`

	// end is set once the pods of an ending preview have terminated, if there are hooks of type
	// PostPreview.
	// +optional
	End *PreviewEnd `json:"end,omitempty"`

	// releases of the group, newest first.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Releases []Release `json:"releases,omitempty"`

	// internal is used by the planner only, and may change between versions without notice.
	// +optional
	Internal *ReleaseGroupInternal `json:"internal,omitempty"`

	// settledRevision is deprecated: earlier versions stored internal.settledRevision here. It is
	// still read, but no longer written.
	// +optional
	DeprecatedSettledRevision int64 `json:"settledRevision,omitempty"`

	// overtaken is deprecated: earlier versions stored internal.superseded here. It is still read, but
	// no longer written.
	// +optional
	DeprecatedOvertaken int32 `json:"overtaken,omitempty"`

	// failed is deprecated: earlier versions stored internal.failed here. It is still read, but no
	// longer written.
	// +optional
	DeprecatedFailed *FailedVersions `json:"failed,omitempty"`

	// run is deprecated: earlier versions stored the rollout here. It is still read, but no longer
	// written.
	// +optional
	DeprecatedRun *DeprecatedRun `json:"run,omitempty"`
}

// PreviewEnd describes a preview that is waiting for its hooks of type PostPreview.
type PreviewEnd struct {
	// release is the name of the VersionedMicroservice for which the hooks are called.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Release string `json:"release"`

	// time from which the hooks are called.
	// +required
	Time metav1.MicroTime `json:"time"`
}

// ReleaseGroupInternal contains the fields of a group that only the planner uses.
type ReleaseGroupInternal struct {
	// resolvedFrom is the pin and the configuration from which the target was resolved. The target
	// is resolved again only if these change.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	ResolvedFrom string `json:"resolvedFrom,omitempty"`

	// settledRevision is the latest traffic revision that at least one NetworkPolicy did not confirm
	// within the progress deadline while no rollout was shifting traffic. A NetworkPolicy that has
	// confirmed only a lower revision does not block the group.
	// +optional
	SettledRevision int64 `json:"settledRevision,omitempty"`

	// superseded is the number of releases that have been superseded since the last promotion.
	// +optional
	Superseded int32 `json:"superseded,omitempty"`

	// lastSuperseded is the name of the latest release since the last promotion that was removed from
	// releases in the same write in which it was superseded.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	LastSuperseded string `json:"lastSuperseded,omitempty"`

	// failed records the failed versions that were removed from releases because the list was full.
	// +optional
	Failed *FailedVersions `json:"failed,omitempty"`
}

// MicroserviceSummary contains the text of printer columns. Previews are included only in the
// previews field.
type MicroserviceSummary struct {
	// active is the active version of the newest group, followed by the number of other groups with an
	// active release, such as "1.2.0 +1".
	// +optional
	Active string `json:"active,omitempty"`
	// canary is the version, weight and step of the canary.
	// +optional
	Canary string `json:"canary,omitempty"`
	// groups is the number of groups with an available active release out of all groups, such as
	// "2/3".
	// +optional
	Groups string `json:"groups,omitempty"`
	// failed lists the failed versions.
	// +optional
	Failed string `json:"failed,omitempty"`
	// previews is the number of available previews out of the previews that have one of the
	// spec.previews.maxGroups slots, such as "2/3".
	// +optional
	Previews string `json:"previews,omitempty"`
}

// MicroserviceStatus is the rollout state. Releases, weights and routes are derived from it.
// It is written with the resourceVersion of the Microservice as a precondition.
type MicroserviceStatus struct {
	// conditions always include Ready and, after the manager has evaluated the Microservice for the first time, Progressing. The conditions Reconciling, Stalled, Pinned,
	// Frozen, Blocked, ReleaseFailed, AnalysisInconclusive, TrafficDegraded, ConfigurationLost, PreviewsReady and
	// DeploymentAdopted are present only while there is something to report.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation that this status was computed from.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// adoptedReplicas is the number of replicas of the Deployment in adoptFrom before it was scaled
	// to zero.
	// +optional
	AdoptedReplicas *int32 `json:"adoptedReplicas,omitempty"`

	// replicas is spec.availability.replicas, as the manager last observed it. Autoscalers
	// of the Microservice read it.
	// +optional
	Replicas int32 `json:"replicas,omitempty"`

	// selector selects the pods of the newest release group with an active release. It is read by
	// autoscalers of the Microservice.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Selector string `json:"selector,omitempty"`

	// summary contains the text of printer columns.
	// +optional
	Summary MicroserviceSummary `json:"summary,omitempty"`

	// releaseGroups are the release groups, newest first, followed by previews in descending order
	// of their number.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	ReleaseGroups []ReleaseGroup `json:"releaseGroups,omitempty"`

	// internal is used by the manager only, like all fields with this name in releaseGroups, and may
	// change between versions without notice.
	// +optional
	Internal *MicroserviceInternal `json:"internal,omitempty"`

	// sequence is deprecated: earlier versions stored internal.sequence here. It is still read, but no
	// longer written.
	// +optional
	DeprecatedSequence int64 `json:"sequence,omitempty"`
}

// MicroserviceInternal contains the fields of a Microservice that only the manager uses.
type MicroserviceInternal struct {
	// sequence increases with every write of the rollout state.
	// +optional
	Sequence int64 `json:"sequence,omitempty"`
}

// Conditions of a Microservice, in addition to Ready, Reconciling and Stalled. All except
// Progressing are absent if there is nothing to report.
const (
	// ConditionProgressing is True while a rollout is in progress or is waiting to start, while a
	// group is being removed, and while a release that was superseded before it became active is being
	// drained.
	ConditionProgressing = "Progressing"
	// ConditionPinned is True while all pins are in effect.
	ConditionPinned = "Pinned"
	// ConditionFrozen is True while a Freeze or ClusterFreeze keeps a version from starting or
	// from receiving more traffic. It is absent if no release is affected.
	ConditionFrozen = "Frozen"
	// ConditionBlocked is True while a version does not start or advance, and waiting alone does not
	// resolve the problem.
	ConditionBlocked = "Blocked"
	// ConditionReleaseFailed is True while there are failed versions.
	ConditionReleaseFailed = "ReleaseFailed"
	// ConditionAnalysisInconclusive is True while the measurements of a step are inconclusive, or while
	// there are no requests to measure.
	ConditionAnalysisInconclusive = "AnalysisInconclusive"
	// ConditionTrafficDegraded is True while the traffic does not match the weights of the releases,
	// or while it is unknown whether the traffic matches them.
	ConditionTrafficDegraded = "TrafficDegraded"
	// ConditionPreviewsReady is True while all previews that have a slot are available. Its
	// message shows how many are available, such as "17 of 20 previews are available". It is absent if there are no previews.
	ConditionPreviewsReady = "PreviewsReady"
	// ConditionDeploymentAdopted is True once the Deployment in spec.adoptFrom has been scaled to
	// zero.
	ConditionDeploymentAdopted = "DeploymentAdopted"
)

// EndsGroup reports whether spec.endedGroups contains the name, the slug or the pull request number
// of the given group.
func (ms *Microservice) EndsGroup(name, slug string, pullRequest int64) bool {
	return ms.EndedGroup(name, slug, pullRequest) != ""
}

// ActiveRelease returns the active release of the group, or nil if there is none.
func (g *ReleaseGroup) ActiveRelease() *Release {
	i := slices.IndexFunc(g.Releases, func(r Release) bool { return r.Status == ReleaseActive })
	if i < 0 {
		return nil
	}
	return &g.Releases[i]
}

// Release returns the release with the given name, or nil if the group has no such release.
func (g *ReleaseGroup) Release(name string) *Release {
	i := slices.IndexFunc(g.Releases, func(r Release) bool { return r.VersionedMicroservice == name })
	if i < 0 {
		return nil
	}
	return &g.Releases[i]
}

// HasName reports whether users can refer to the group by the given name, in a pin or in spec.endedGroups: its name, its slug or
// the number of its pull request.
func (g *ReleaseGroup) HasName(name string) bool {
	return name == g.Name || name == g.Slug || g.PullRequest > 0 && name == strconv.FormatInt(g.PullRequest, 10)
}

// EndedGroup returns the first entry of spec.endedGroups that is the name, the slug or the pull
// request number of the given group. If there is no such entry, it returns "".
func (ms *Microservice) EndedGroup(name, slug string, pullRequest int64) string {
	i := slices.IndexFunc(ms.Spec.EndedGroups, func(n string) bool {
		return n == name || n == slug || pullRequest > 0 && n == strconv.FormatInt(pullRequest, 10)
	})
	if i < 0 {
		return ""
	}
	return ms.Spec.EndedGroups[i]
}

// NextOffered returns the newest version that p offers in a group that spec.endedGroups does not
// name. It skips previews and held versions. If spec.endedGroups names the groups of all remaining
// versions, NextOffered returns the newest of these versions, and ended is true. If no version
// remains, it returns nil and false.
func (ms *Microservice) NextOffered(p *ImagePolicy) (next *OfferedRelease, ended bool) {
	if p == nil {
		return nil, false
	}
	for i := range p.Status.Releases {
		o := &p.Status.Releases[i]
		if o.Level == LevelPreview || o.Held {
			continue
		}
		if !ms.EndsGroup(o.SemVer.Name, o.Group, 0) {
			return o, false
		}
		if next == nil {
			next = o
		}
	}
	return next, next != nil
}

// StartDelayed reports whether the first rollout of a Microservice waits until fewer other rollouts
// are starting. Such a Microservice has no groups.
func (ms *Microservice) StartDelayed() bool {
	if len(ms.Status.ReleaseGroups) > 0 {
		return false
	}
	ready := meta.FindStatusCondition(ms.Status.Conditions, ConditionReady)
	return ready != nil && ready.Reason == ReasonStartDelayed
}

// LastStart returns the latest time at which a rollout in progress, or its current step, started, or
// at which a release first became active. It returns the zero time if there is no such time. Times
// after now are ignored, because they are from a manager whose clock was ahead.
func (ms *Microservice) LastStart(now time.Time) (last time.Time) {
	for _, g := range ms.Status.ReleaseGroups {
		if g.Rollout != nil && g.Rollout.StartedTime.After(last) && !g.Rollout.StartedTime.After(now) {
			last = g.Rollout.StartedTime.Time
		}
		for _, r := range g.Releases {
			if r.FirstActiveTime != nil && r.FirstActiveTime.After(last) && !r.FirstActiveTime.After(now) {
				last = r.FirstActiveTime.Time
			}
		}
	}
	return last
}

// Successor returns the release that is being rolled out in a group of an exclusive Microservice, if
// the active release's pods were stopped for it. It returns nil if the active release keeps its pods.
func (ms *Microservice) Successor(g *ReleaseGroup) *Release {
	if !ms.Spec.Availability.Exclusive || g.Rollout == nil || g.Rollout.Gate == GateConfirmRollout {
		return nil
	}
	for i := range g.Releases {
		if r := &g.Releases[i]; r.VersionedMicroservice == g.Rollout.Release && r.Status != ReleaseActive {
			return r
		}
	}
	return nil
}
