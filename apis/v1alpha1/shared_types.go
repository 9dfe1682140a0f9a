package v1alpha1

import (
	"fmt"
	"time"
)

// Duration is a duration in the format of GEP-2257: one to four whole numbers, each
// with one of the units h, m, s and ms, such as "1h30m" or "500ms".
//
// Fields that users set never have the type metav1.Duration, because a value that cannot be parsed
// breaks the informer of the kind (CVE-2022-39272).
//
// +kubebuilder:validation:MaxLength=16
// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,5}(h|m|s|ms)){1,4}$')",message="must be a duration: one to four whole numbers of at most five digits, each with a unit (h, m, s or ms), such as 24h, 1h30m or 500ms"
type Duration string

// Std returns the duration, or fallback if d is empty or, despite the schema, cannot be
// parsed.
func (d Duration) Std(fallback time.Duration) time.Duration {
	if d == "" {
		return fallback
	}
	v, err := time.ParseDuration(string(d))
	if err != nil {
		return fallback
	}
	return v
}

// DurationOf formats d as a Duration, truncated to milliseconds.
func DurationOf(d time.Duration) Duration {
	ms := d.Milliseconds()
	if ms%1000 == 0 {
		return Duration(fmt.Sprintf("%ds", ms/1000))
	}
	return Duration(fmt.Sprintf("%ds%dms", ms/1000, ms%1000))
}

// SemVer identifies a version, and optionally its release group.
type SemVer struct {
	// name is the name of the release group, such as "1.x", "1.2.x" or "release". If it
	// is omitted in a pin of a Microservice, the pin applies to every group that has this version.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`

	// version is the version as the ImagePolicy offers it, for example "1.2.0".
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Version string `json:"version"`
}

// ReleaseLevel is the maturity of a version.
type ReleaseLevel string

// The levels of maturity, most mature first. Preview versions come only from pull
// requests.
const (
	LevelRelease   ReleaseLevel = "Release"
	LevelCandidate ReleaseLevel = "Candidate"
	LevelPreview   ReleaseLevel = "Preview"
)

// ReleaseStatus is the status of a release in its group. The values are in lower case.
// +kubebuilder:validation:Enum=pending;canary;active;error;deprecated
type ReleaseStatus string

const (
	// ReleasePending means that the release has not begun its first step: it is not available yet, or
	// is waiting, for example for PreRollout hooks.
	ReleasePending ReleaseStatus = "pending"
	// ReleaseCanary means that the release has begun its steps and may receive traffic, but is not active
	// yet.
	ReleaseCanary ReleaseStatus = "canary"
	// ReleaseActive means that the release serves the traffic of its group. After the first promotion, a group
	// in the phase Live has exactly one active release.
	ReleaseActive ReleaseStatus = "active"
	// ReleaseError means that the release did not become available in time, failed, or was aborted.
	ReleaseError ReleaseStatus = "error"
	// ReleaseDeprecated means that the release was previously active and is retained for rollback or
	// about to be deleted, or that it was superseded before it became active.
	ReleaseDeprecated ReleaseStatus = "deprecated"
)

// ReleaseImage is an image of a release, by tag and digest.
type ReleaseImage struct {
	// image is the image reference that pods use: repository, tag and digest.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Image string `json:"image"`

	// digest of the manifest or index that the tag referred to when the version was offered.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=160
	Digest string `json:"digest"`

	// containerName is the name of the container, or init container, that runs the image. Defaults
	// to containerName of the Microservice.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	ContainerName string `json:"containerName,omitempty"`
}

// Reference refers to an object in the same namespace.
type Reference struct {
	// name of the referent.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// Conditions that all kinds share, in the form that kstatus expects.
const (
	// ConditionReady reports whether the current generation of the object is accepted and in effect.
	ConditionReady = "Ready"
	// ConditionReconciling is present, and True, while the current generation of the object is being
	// reconciled.
	ConditionReconciling = "Reconciling"
	// ConditionStalled is present, and True, if a user must change the specification or an object
	// that it refers to.
	ConditionStalled = "Stalled"
)

// Labels that controllers set on child objects and pods. They are part of the API, because users
// use them in selectors, and read them through the downward API.
const (
	LabelMicroservice = "hlnr.io/microservice"
	LabelGroup        = "hlnr.io/group"
	LabelLevel        = "hlnr.io/level"
	LabelRelease      = "hlnr.io/release"
	LabelPolicy       = "hlnr.io/policy"
	// LabelFollow is the name of the Microservice whose active release a CronJob follows. Users set
	// this label on the CronJob.
	LabelFollow = "hlnr.io/follow"
	// LabelPullRequest is set on the releases of previews, and on the objects and pods of these
	// releases. Its value is the number of the pull request.
	LabelPullRequest = "hlnr.io/pull-request"
)

// Annotations that controllers set or read.
const (
	// AnnotationVersion on a pod is the version of its release. The version might not be a valid label
	// value.
	AnnotationVersion = "hlnr.io/version"
	// AnnotationCommit on a pod is the commit of its release, if the source reports it.
	AnnotationCommit = "hlnr.io/revision"
	// AnnotationRequestedAt on an ImagePolicy or a GitHubRepository requests an immediate scan or
	// poll when its value changes.
	AnnotationRequestedAt = "hlnr.io/requestedAt"
	// AnnotationDeliveredAt on a GitHubRepository is the time of the latest webhook delivery that another
	// replica received for the replica that polls the repository. A new value starts a poll.
	AnnotationDeliveredAt = "hlnr.io/deliveredAt"
	// AnnotationPackageDeliveredAt on a GitHubRepository is the time of the latest webhook delivery about a
	// package. After a new value, the ImagePolicies that read the repository scan their registries.
	AnnotationPackageDeliveredAt = "hlnr.io/packageDeliveredAt"
	// AnnotationRegistry on a Secret of type kubernetes.io/basic-auth is the registry to which the
	// password may be sent, as host[:port][/path]. A pull secret of this type without
	// the annotation is never used.
	AnnotationRegistry = "hlnr.io/registry"
	// AnnotationAttempt on a VersionedMicroservice is the sequence number of the rollout state for
	// which the release was created or restarted. A plan based on an older rollout state must not
	// scale the release down or delete it (protocol rule 2).
	AnnotationAttempt = "hlnr.io/attempt"
	// AnnotationNeverActive on a VersionedMicroservice is "true" if the release has never been active,
	// and can become the first active release of its group only if hooks allow this. If the rollout
	// state is lost, a release with this annotation does not count as previously active. The
	// annotation is removed when the release becomes active.
	AnnotationNeverActive = "hlnr.io/never-active"
	// AnnotationIdentity on a VersionedMicroservice consists of the version of the hash algorithm and
	// the hash of the values that the user set, such as "v1.0f3a…".
	AnnotationIdentity = "hlnr.io/identity"
	// AnnotationDecidedBy on a VersionedMicroservice, a Freeze or a ClusterFreeze is the name of the
	// user who wrote spec.decision, or who created the freeze or last changed its spec. The admission
	// policy requires it to be the name of the caller.
	AnnotationDecidedBy = "hlnr.io/decided-by"
	// AnnotationFollowGroup on a CronJob with LabelFollow is the name or slug of the release group
	// that the CronJob follows. Defaults to the newest group with an active release.
	AnnotationFollowGroup = "hlnr.io/follow-group"
	// AnnotationFollowContainer on a CronJob with LabelFollow is the name of the container that runs the
	// image of the release. Defaults to the name of the release's container or of the Microservice, if
	// the CronJob has a container with this name, or to the only container.
	AnnotationFollowContainer = "hlnr.io/follow-container"
	// AnnotationFollows on a CronJob with LabelFollow is the release whose image and configuration
	// the CronJob uses. The controller sets it.
	AnnotationFollows = "hlnr.io/follows"
	// AnnotationFollowMessage on a CronJob with LabelFollow reports what the CronJob follows or is
	// waiting for. The controller sets it.
	AnnotationFollowMessage = "hlnr.io/follow-message"
	// AnnotationFollowState on a CronJob with LabelFollow contains, as JSON, the containers whose
	// images were set, and the original names of the ConfigMaps and Secrets of which the CronJob
	// uses copies. The controller sets and reads it.
	AnnotationFollowState = "hlnr.io/follow-state"
	// AnnotationRevision on a route contains the traffic revision of each group in the route, such as
	// "1-x=7".
	AnnotationRevision = "hlnr.io/traffic-revision"
)
