package v1alpha1

import (
	"fmt"
	"time"
)

// Duration is a length of time as GEP-2257 writes it: one to four whole
// numbers with the units h, m, s or ms, as in "1h30m" or "500ms".
//
// A free duration string is never used in this API: one that does not parse
// breaks the informer of the whole kind (CVE-2022-39272).
//
// +kubebuilder:validation:MaxLength=16
// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,5}(h|m|s|ms)){1,4}$')",message="a duration is one to four whole numbers of up to five digits with the units h, m, s and ms, such as 24h, 1h30m or 500ms: there is no unit for days"
type Duration string

// Std gives the duration, or fallback where d is empty or, against the schema,
// does not parse.
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

// DurationOf writes d in the form of Duration, cut to whole milliseconds.
func DurationOf(d time.Duration) Duration {
	ms := d.Milliseconds()
	if ms%1000 == 0 {
		return Duration(fmt.Sprintf("%ds", ms/1000))
	}
	return Duration(fmt.Sprintf("%ds%dms", ms/1000, ms%1000))
}

// SemVer names a version, and optionally the stream in which it is wanted.
type SemVer struct {
	// name is the name of the release group: "1.x", "1.2.x", "release". Absent in
	// a pin: any group that holds the version.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`

	// version is the version as ImagePolicy offers it, for example "1.2.0".
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Version string `json:"version"`
}

// ReleaseLevel is the maturity of a version.
type ReleaseLevel string

// The levels of maturity, most mature first. Preview versions come from pull
// requests only.
const (
	LevelRelease   ReleaseLevel = "Release"
	LevelCandidate ReleaseLevel = "Candidate"
	LevelPreview   ReleaseLevel = "Preview"
)

// ReleaseStatus is what a release is to its group. The values are in lower
// case because the design that this project was created from writes them so.
// +kubebuilder:validation:Enum=pending;canary;active;error;deprecated
type ReleaseStatus string

const (
	// ReleasePending is created and not yet available.
	ReleasePending ReleaseStatus = "pending"
	// ReleaseCanary is healthy and receives test traffic only.
	ReleaseCanary ReleaseStatus = "canary"
	// ReleaseActive receives the main traffic; a live group has exactly one, once
	// it has had one.
	ReleaseActive ReleaseStatus = "active"
	// ReleaseError did not become available in time, failed, or was turned down.
	ReleaseError ReleaseStatus = "error"
	// ReleaseDeprecated was active and is kept for rollback or on its way out, or
	// was overtaken before it ever was active.
	ReleaseDeprecated ReleaseStatus = "deprecated"
)

// ReleaseImage is an image of a release, by tag and digest.
type ReleaseImage struct {
	// image is the reference that pods run: repository, tag and digest.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Image string `json:"image"`

	// digest of the manifest or index that the tag named when it was offered.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=160
	Digest string `json:"digest"`

	// containerName is the container, or init container, that runs it. Absent: the one
	// of the Microservice's containerName.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	ContainerName string `json:"containerName,omitempty"`
}

// Reference names an object of the same namespace.
type Reference struct {
	// name of the referent.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// Conditions that all kinds share, as kstatus reads them.
const (
	// ConditionReady says that this generation is accepted and works.
	ConditionReady = "Ready"
	// ConditionReconciling is there, and True, while this generation is not yet
	// turned into objects.
	ConditionReconciling = "Reconciling"
	// ConditionStalled is there, and True, when somebody must change the
	// specification or a referent.
	ConditionStalled = "Stalled"
)

// Labels that controllers set on children and pods. They are an API: the
// downward API and other people's selectors read them.
const (
	LabelMicroservice = "hlnr.io/microservice"
	LabelGroup        = "hlnr.io/group"
	LabelLevel        = "hlnr.io/level"
	LabelRelease      = "hlnr.io/release"
	LabelPolicy       = "hlnr.io/policy"
	// LabelPullRequest is the number of the pull request, on previews.
	LabelPullRequest = "hlnr.io/pull-request"
)

// Annotations that controllers set or answer.
const (
	// AnnotationVersion on pods: the version, which may not fit a label.
	AnnotationVersion = "hlnr.io/version"
	// AnnotationCommit on pods: the revision, a commit, where the source names one.
	AnnotationCommit = "hlnr.io/revision"
	// AnnotationRequestedAt on an ImagePolicy or a GitHubRepository: any new value asks for
	// a look now.
	AnnotationRequestedAt = "hlnr.io/requestedAt"
	// AnnotationRegistry on a Secret of type kubernetes.io/basic-auth: the registry
	// that its password may be sent to, as host[:port][/path]. A pull secret of
	// this type without it is never used.
	AnnotationRegistry = "hlnr.io/registry"
	// AnnotationAttempt on a VersionedMicroservice: the sequence of the ledger
	// write for which it was made or revived. A plan made on an older ledger may
	// not scale it down or delete it (protocol rule 2).
	AnnotationAttempt = "hlnr.io/attempt"
	// AnnotationNeverActive on a VersionedMicroservice, as "true": hooks have to let it
	// through before it is the first active release of its group. A plan that has lost the
	// ledger does not take it for what was active. Removed when it is active.
	AnnotationNeverActive = "hlnr.io/never-active"
	// AnnotationIdentity on a VersionedMicroservice: the scheme and hash of what
	// the user set, as in "v1.0f3a…".
	AnnotationIdentity = "hlnr.io/identity"
	// AnnotationDecidedBy on a VersionedMicroservice: the user name of whoever
	// wrote spec.decision; admission requires it to be the caller's.
	AnnotationDecidedBy = "hlnr.io/decided-by"
	// AnnotationRevision on routes: per group the traffic revision that the route
	// carries, as in "1-x=7".
	AnnotationRevision = "hlnr.io/traffic-revision"
)
