package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ImagePolicySpec defines which versions of an image are offered.
//
// +kubebuilder:validation:XValidation:rule="!has(self.minAge) || !has(self.source) || !has(self.source.pinned)",message="spec.minAge must not be set with spec.source.pinned: versions in an explicit list are offered immediately"
// +kubebuilder:validation:XValidation:rule="!has(self.source) || !has(self.source.github) || !has(self.source.github.pullRequests) || !has(self.versioning) || !has(self.versioning.range) && !has(self.versioning.suffix) && !has(self.versioning.parts) && (!has(self.versioning.scheme) || self.versioning.scheme == 'SemVer') && (!has(self.versioning.level) || self.versioning.level == 'Release') && (!has(self.versioning.groupBy) || self.versioning.groupBy == 'All')",message="spec.versioning must not be set with spec.source.github.pullRequests: commits are not versions, and each pull request has its own group"
// +kubebuilder:validation:XValidation:rule="!has(self.source) || !has(self.source.github) || !has(self.source.github.pullRequests) || !has(self.minAge) && !has(self.tagFilter) && !has(self.deny)",message="spec.minAge, spec.tagFilter and spec.deny must not be set with spec.source.github.pullRequests: select pull requests there"
// +kubebuilder:validation:XValidation:rule="!has(self.match) || !has(self.match.name) || has(self.source) && has(self.source.github) && !has(self.source.github.pullRequests)",message="spec.match.name requires spec.source.github.releases or spec.source.github.tags; for tags in the registry, use spec.tagFilter"
// +kubebuilder:validation:XValidation:rule="!has(self.match) || !has(self.match.candidates) || has(self.source) && has(self.source.github) && has(self.source.github.pullRequests)",message="spec.match.candidates requires spec.source.github.pullRequests: candidates are tags of the images of pull requests"
// +kubebuilder:validation:XValidation:rule="!has(self.match) || !has(self.match.candidates) || !has(self.source) || !has(self.source.github) || !has(self.source.github.pullRequests) || !has(self.source.github.pullRequests.forks) || self.source.github.pullRequests.forks.policy != 'Approved' || self.match.candidates.exists(c, c.contains('{{.SHA}}'))",message="spec.match.candidates: with forks.policy Approved, images from forks need a tag with the full commit SHA: add a candidate with {{.SHA}}, such as pr-{{.Number}}-{{.SHA}}"
// +kubebuilder:validation:XValidation:rule="!has(self.versioning) || !has(self.versioning.scheme) || self.versioning.scheme != 'Regexp' || has(self.tagFilter) && has(self.tagFilter.pattern) && !has(self.tagFilter.extract)",message="spec.versioning.scheme Regexp reads the groups major, minor, patch, revision and prerelease of spec.tagFilter.pattern: set the pattern, and omit tagFilter.extract"
// +kubebuilder:validation:XValidation:rule="!has(self.versioning) || !has(self.versioning.scheme) || self.versioning.scheme != 'PushTime' || (!has(self.source) || has(self.source.registry)) && (!has(self.tagFilter) || !has(self.tagFilter.extract))",message="spec.versioning.scheme PushTime orders the tags of a registry by the build time of their images: omit spec.source and tagFilter.extract"
// +kubebuilder:validation:XValidation:rule="!has(self.limits) || has(self.source) && has(self.source.github) && has(self.source.github.pullRequests) || (has(self.limits.groups) ? self.limits.groups : 3) * (has(self.limits.releasesPerGroup) ? self.limits.releasesPerGroup : 10) <= 512",message="spec.limits: groups * releasesPerGroup must be at most 512"
type ImagePolicySpec struct {
	// image is the repository of the image, without a tag or digest, such as registry.example.com/shop.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:XValidation:rule="!self.contains('://')",message="spec.image must not have a scheme: write registry.example.com/shop, and set spec.insecure for plain HTTP"
	// +kubebuilder:validation:XValidation:rule="self.contains('://') || self.matches('^([^/]+/)*[^/:@]*$')",message="spec.image must be a repository: omit the tag and the digest"
	// +kubebuilder:validation:XValidation:rule="self.contains('://') || self.matches('[:@][^/]*$') || self.matches('^([A-Za-z0-9.-]+(:[0-9]+)?/|[[][0-9a-f:]+[]](:[0-9]+)?/)?[a-z0-9]+([._-]+[a-z0-9]+)*(/[a-z0-9]+([._-]+[a-z0-9]+)*)*$')",message="spec.image must be a repository such as registry.example.com/team/shop: lowercase letters and digits, separated by '.', '_', '-' and '/'"
	Image string `json:"image"`

	// imagePullSecrets are Secrets in this namespace that contain registry credentials. Their type must
	// be kubernetes.io/dockerconfigjson, kubernetes.io/dockercfg or kubernetes.io/basic-auth. A Secret
	// of the last type requires the annotation hlnr.io/registry, which specifies the registry. Without
	// Secrets, a registry is read anonymously, or with the workload identity of the manager if this
	// identity is enabled for the registry's cloud. The pods of releases use the same Secrets to pull
	// images. If a Secret is missing, the policy is not Ready, and the registry is not scanned; the
	// policy never falls back to anonymous access.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	ImagePullSecrets []Reference `json:"imagePullSecrets,omitempty"`

	// interval between two scans of the source, from 5s to 24h. To spread the load, the actual interval
	// is up to 10% shorter. Except for pull requests, it becomes up to four times as long while nothing
	// changes, but not longer than 24h. Defaults to 5m.
	// +optional
	// +kubebuilder:default="5m"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('5s') && duration(self) <= duration('24h')",message="spec.interval must be between 5s and 24h"
	Interval Duration `json:"interval,omitempty"`

	// timeout is the maximum time, from 1s to 2m, for reading either the list of tags, with all its
	// pages, or one image. A whole scan takes at most two minutes. Defaults to 30s.
	// +optional
	// +kubebuilder:default="30s"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('2m')",message="spec.timeout must be between 1s and 2m"
	Timeout Duration `json:"timeout,omitempty"`

	// suspend stops scanning. Versions that are already offered remain offered. Defaults to false.
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// insecure allows plain HTTP to the registry. Registries at private addresses and at localhost can
	// use plain HTTP even if insecure is false. Defaults to false.
	// +optional
	Insecure bool `json:"insecure,omitempty"`

	// source of versions. Exactly one member must be set. Defaults to the tags in the registry.
	// +optional
	Source *ImageSource `json:"source,omitempty"`

	// tagFilter selects tags, and extracts versions from them. Signatures, attestations and bills of
	// materials are always excluded. By default, all other tags are selected.
	// +optional
	TagFilter *TagFilter `json:"tagFilter,omitempty"`

	// versioning defines which versions are admitted, and how they are grouped.
	// +optional
	// +kubebuilder:default={}
	Versioning Versioning `json:"versioning,omitempty"`

	// deny excludes versions: each entry is a version ("1.2.3") or a range
	// (">=1.3.0 <1.3.4"). An active release whose version is denied is replaced by the
	// highest version that remains.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=128
	Deny []string `json:"deny,omitempty"`

	// minAge is the time, from 1s to 720h, that must pass after a version is first seen before the
	// version is offered. If the tag of an offered version moves to another image, the previous
	// image is offered until this time has passed again.
	// Versions found by the first scan are offered immediately. By default all versions are offered immediately.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('720h')",message="spec.minAge must be between 1s and 720h"
	MinAge Duration `json:"minAge,omitempty"`

	// untagged defines what happens to an offered version whose tag is deleted while its image
	// remains. Keep means that the version is still offered, and that the Ready condition reports the
	// missing tag. Withdraw means that the version is withdrawn with reason Gone after two scans
	// have not found the tag. Defaults to Keep.
	// +optional
	// +kubebuilder:validation:Enum=Keep;Withdraw
	Untagged UntaggedPolicy `json:"untagged,omitempty"`

	// platforms that the image must support, such as "linux/amd64" or "linux/arm64/v8". All of
	// them are required. Defaults to the value of the manager's --default-platform flag, which defaults to linux
	// with the architecture of the manager's node.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MaxLength=64
	// +kubebuilder:validation:items:XValidation:rule="self.matches('^[a-z0-9]+/[a-z0-9]+(/[a-z0-9]+)?$')",message="spec.platforms: write the operating system and the architecture in lower case, such as linux/amd64 or linux/arm64/v8"
	Platforms []string `json:"platforms,omitempty"`

	// limits restrict how many tags are read and how many versions are offered. Versions that a
	// Microservice uses, or that a pin or a domain refers to, are offered even if groups or
	// releasesPerGroup is exceeded. If they are already offered, they remain offered even if tags is
	// exceeded.
	// +optional
	// +kubebuilder:default={}
	Limits ImageLimits `json:"limits,omitempty"`

	// match maps names in the source to tags of the image, and defines labels that the image must
	// have.
	// +optional
	Match *Match `json:"match,omitempty"`

	// additionalImages are released together with image. A version is offered only if all of these
	// images have its tag.
	// +optional
	// +listType=map
	// +listMapKey=containerName
	// +kubebuilder:validation:MaxItems=7
	AdditionalImages []AdditionalImage `json:"additionalImages,omitempty"`

	// certSecretRef refers to a Secret in this namespace for TLS connections to the registry.
	// ca.crt contains certificate authorities in PEM format, which are trusted in addition to those
	// of the system; tls.crt and tls.key contain a client certificate and its key.
	// +optional
	CertSecretRef *Reference `json:"certSecretRef,omitempty"`

	// verify admits only signed images. Versions without a valid signature are rejected,
	// and the next lower version with a valid signature is offered instead.
	// +optional
	Verify *Verify `json:"verify,omitempty"`
}

// ImageSource defines where versions come from. Exactly one member must be set.
// +kubebuilder:validation:XValidation:rule="(has(self.registry) ? 1 : 0) + (has(self.pinned) ? 1 : 0) + (has(self.github) ? 1 : 0) == 1",message="spec.source: set exactly one of registry, pinned and github"
type ImageSource struct {
	// registry takes the versions from the tags in the registry.
	// +optional
	Registry *RegistrySource `json:"registry,omitempty"`

	// pinned takes the versions from an explicit list of tags, which must exist in the registry.
	// +optional
	Pinned *PinnedSource `json:"pinned,omitempty"`

	// github takes the versions from the releases, tags or pull requests of a GitHub repository.
	// +optional
	GitHub *GitHubSource `json:"github,omitempty"`
}

// RegistrySource has no settings.
type RegistrySource struct{}

// PinnedSource is a list of tags.
type PinnedSource struct {
	// versions are tags of the image.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MaxLength=128
	// +kubebuilder:validation:items:XValidation:rule="self.matches('^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$')",message="spec.source.pinned.versions must be tags of the image as the registry lists them, consisting of letters, digits, '_', '.' and '-': for build metadata, write 1.2.3_build"
	Versions []string `json:"versions"`
}

// TagFilter selects tags by regular expressions (RE2). Signatures, attestations and bills
// of materials are always excluded.
// +kubebuilder:validation:XValidation:rule="!has(self.extract) || has(self.pattern)",message="spec.tagFilter.extract requires spec.tagFilter.pattern, because extract uses the groups of the pattern"
type TagFilter struct {
	// pattern is a regular expression (RE2) that must match a tag or any part of it. To match the whole
	// tag, use ^ and $, for example "^v(?P<version>.+)$".
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Pattern string `json:"pattern,omitempty"`

	// extract is the template from which the version is composed, such as "$version". It refers to the
	// capture groups of the pattern.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Extract string `json:"extract,omitempty"`

	// exclude lists regular expressions (RE2). A tag is excluded if one of them matches the tag or any
	// part of it. To match only the whole tag, use ^ and $.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=512
	Exclude []string `json:"exclude,omitempty"`
}

// GroupBy defines which versions replace each other.
// +kubebuilder:validation:Enum=All;Major;Minor;Patch
type GroupBy string

// These are the values of GroupBy. All means that there is one group for all versions. Major means
// that version 1.2.3 is in group "1.x". Minor means that it is in group "1.2.x". Patch means that it is in group
// "1.2.3", together with its builds.
const (
	GroupByAll   GroupBy = "All"
	GroupByMajor GroupBy = "Major"
	GroupByMinor GroupBy = "Minor"
	GroupByPatch GroupBy = "Patch"
)

// VersionScheme defines how a version is read from a tag.
// +kubebuilder:validation:Enum=SemVer;Tuple;Regexp;PushTime
type VersionScheme string

// These are the values of VersionScheme. SemVer means that the tag is read as a semantic version
// (semver 2.0.0). Tuple means that the tag is read as a fixed number of numeric parts. Regexp means that the version is read
// from the named groups of tagFilter.pattern. PushTime means that the tag is ignored, and that the
// version is the build time of its image, because registries do not report when a tag was pushed.
const (
	SchemeSemVer   VersionScheme = "SemVer"
	SchemeTuple    VersionScheme = "Tuple"
	SchemeRegexp   VersionScheme = "Regexp"
	SchemePushTime VersionScheme = "PushTime"
)

// Versioning defines how versions are read, admitted and grouped.
// +kubebuilder:validation:XValidation:rule="!has(self.parts) || has(self.scheme) && self.scheme == 'Tuple'",message="spec.versioning.parts requires versioning.scheme Tuple: omit it, or set the scheme"
// +kubebuilder:validation:XValidation:rule="!has(self.twoParts) || self.twoParts == 'Deny' || !has(self.scheme) || self.scheme == 'SemVer'",message="spec.versioning.twoParts requires versioning.scheme SemVer: omit twoParts; with scheme Tuple, set versioning.parts instead"
// +kubebuilder:validation:XValidation:rule="!has(self.level) || self.level != 'Candidate' || !has(self.scheme) || !(self.scheme in ['Tuple', 'PushTime'])",message="spec.versioning.level must be Release with versioning.scheme Tuple or PushTime, which have no pre-releases"
// +kubebuilder:validation:XValidation:rule="!has(self.suffix) || !has(self.scheme) || !(self.scheme in ['Regexp', 'PushTime'])",message="spec.versioning.suffix must not be set with versioning.scheme Regexp or PushTime: add it to tagFilter.pattern"
// +kubebuilder:validation:XValidation:rule="!has(self.scheme) || self.scheme != 'Tuple' || !has(self.groupBy) || self.groupBy == 'All' || (has(self.parts) ? self.parts : 3) >= (self.groupBy == 'Major' ? 2 : 3)",message="spec.versioning.groupBy: Major requires versioning.parts to be at least 2; Minor and Patch require at least 3"
type Versioning struct {
	// scheme defines how a version is read from a tag. SemVer means that the tag is read as a
	// semantic version. Tuple means that the tag is read as a fixed number of numeric parts. Regexp
	// means that the version is read from the named groups of tagFilter.pattern. PushTime means that
	// the tag is ignored, and that the version is the build time of the image in UTC, such as
	// "2026.1.5.13.7.9". Defaults to SemVer.
	// +optional
	// +kubebuilder:default=SemVer
	Scheme VersionScheme `json:"scheme,omitempty"`

	// parts is the number of numeric parts in a version with scheme Tuple, from 1 to 6. Defaults to 3.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=6
	Parts int32 `json:"parts,omitempty"`

	// suffix is the suffix that a tag must have, such as "-alpine". It is not part of the version.
	// Without a suffix, everything after the first hyphen of a semantic version is a pre-release.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^[._-][A-Za-z0-9._-]*$')",message="spec.versioning.suffix must begin with '-', '.' or '_' and contain only these characters, letters and digits: -alpine, not alpine"
	Suffix string `json:"suffix,omitempty"`

	// level is the minimum maturity. Release means that only final versions are admitted. Candidate
	// means that pre-releases are admitted as well. A pre-release belongs to the group of its final
	// version. Defaults to Release.
	// +optional
	// +kubebuilder:default=Release
	// +kubebuilder:validation:Enum=Release;Candidate
	Level ReleaseLevel `json:"level,omitempty"`

	// range of versions, for example ">=1.0.0 <2.0.0". It applies to the first three
	// numbers and the pre-release. Defaults to all versions.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Range string `json:"range,omitempty"`

	// groupBy defines which versions replace each other. All means that all versions are in one
	// group. Major means that version 1.2.3 is in group "1.x". Minor means that it is in group
	// "1.2.x". Patch means that it is in group "1.2.3", together with its builds. Defaults to All.
	// +optional
	// +kubebuilder:default=All
	GroupBy GroupBy `json:"groupBy,omitempty"`

	// twoParts defines whether "1.2" is a version. Deny means that a version must have three
	// numeric parts, so that dates and numeric commit hashes are not versions. Allow means that a
	// version can have two numeric parts. Defaults to Deny.
	// +optional
	// +kubebuilder:default=Deny
	// +kubebuilder:validation:Enum=Deny;Allow
	TwoParts string `json:"twoParts,omitempty"`
}

// ImageLimits restrict how many tags are read and how many versions are offered. Versions that a
// Microservice uses, or that a pin or a domain refers to, are offered even if groups or
// releasesPerGroup is exceeded, and remain offered even if tags is exceeded.
type ImageLimits struct {
	// groups is the maximum number of groups that are offered, newest first. Defaults to 3, and to
	// 256 for pull requests.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=256
	Groups int32 `json:"groups,omitempty"`

	// releasesPerGroup is the maximum number of versions that are offered in each group, newest
	// first. The group of a pull request has one version: the head commit. Defaults to 10.
	// +optional
	// +kubebuilder:default=10
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	ReleasesPerGroup int32 `json:"releasesPerGroup,omitempty"`

	// tags is the maximum number of tags that are considered, out of those that match spec.tagFilter.
	// If more tags match, the Truncated condition is True. At most 100,000 tags of a repository are read. Defaults to 10000.
	// +optional
	// +kubebuilder:default=10000
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000
	Tags int32 `json:"tags,omitempty"`
}

// OfferedRelease is a version that exists and is allowed.
type OfferedRelease struct {
	// semVer contains the name of the release group, and the version.
	SemVer SemVer `json:"semVer"`

	// group is the slug of the release group: a DNS label.
	// +kubebuilder:validation:MaxLength=63
	Group string `json:"group"`

	// level is the maturity of this version. Release means that it is a final version. Candidate
	// means that it is a pre-release. Preview means that it is a commit of a pull request.
	// +kubebuilder:validation:Enum=Release;Candidate;Preview
	Level ReleaseLevel `json:"level"`

	// images of the release.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	Images []ReleaseImage `json:"images"`

	// pullRequest is the number of the group's pull request.
	// +optional
	PullRequest int64 `json:"pullRequest,omitempty"`

	// fork reports whether the pull request comes from another repository. If it does, the pods run
	// under the default ServiceAccount, without a token.
	// +optional
	Fork bool `json:"fork,omitempty"`

	// releaseTime is when the release was published or the head commit was pushed, if this is known.
	// +optional
	ReleaseTime *metav1.Time `json:"releaseTime,omitempty"`

	// revision is the commit of the version.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Revision string `json:"revision,omitempty"`

	// url of the release, tag or pull request on GitHub.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	URL string `json:"url,omitempty"`

	// held reports whether the version is beyond spec.limits, and is offered only because a
	// Microservice, a pin or a domain refers to it or to another version of its group. A held version
	// does not start a new group in a Microservice that does not pin it.
	// +optional
	Held bool `json:"held,omitempty"`
}

// WithdrawReason is the reason why a version is no longer offered.
// +kubebuilder:validation:Enum=Denied;Excluded;Gone;Closed
type WithdrawReason string

const (
	// WithdrawnDenied means that an entry in spec.deny matches the version.
	WithdrawnDenied WithdrawReason = "Denied"
	// WithdrawnExcluded means that the specification no longer admits the version.
	WithdrawnExcluded WithdrawReason = "Excluded"
	// WithdrawnGone means that two scans showed that the version no longer exists in the registry.
	WithdrawnGone WithdrawReason = "Gone"
	// WithdrawnClosed means that the pull request is closed.
	WithdrawnClosed WithdrawReason = "Closed"
)

// Withdrawal reports that a version is no longer offered. If a version is missing from
// status.releases, this alone does not mean that the version is withdrawn.
type Withdrawal struct {
	// group is the slug of the release group.
	// +kubebuilder:validation:MaxLength=63
	Group string `json:"group"`

	// version that is withdrawn. If it is empty, the whole group is withdrawn.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Version string `json:"version,omitempty"`

	// reason for the withdrawal. Denied means that an entry in spec.deny matches the version. Excluded means
	// that the specification no longer admits the version. Gone means that two scans showed that
	// the version no longer exists in the registry. Closed means that the pull request is closed.
	Reason WithdrawReason `json:"reason"`

	// time of the withdrawal. With reason Closed, it is the time at which the pull request was closed,
	// if GitHub reports this time.
	Time metav1.Time `json:"time"`
}

// RefusedCandidate is a rejected tag, and the reason for the rejection.
type RefusedCandidate struct {
	// version that was rejected, or the tag if the tag is not a version. For pull requests, it is the
	// head commit.
	// +kubebuilder:validation:MaxLength=128
	Version string `json:"version"`

	// verdict is the name of the filter that rejected the tag.
	// +kubebuilder:validation:MaxLength=64
	Verdict string `json:"verdict"`

	// reason is a message for users.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Reason string `json:"reason,omitempty"`

	// firstSeenTime is when a version that is younger than spec.minAge was first seen.
	// +optional
	FirstSeenTime *metav1.Time `json:"firstSeenTime,omitempty"`
}

// UntaggedPolicy defines what happens to a version without a tag.
type UntaggedPolicy string

// The policies for versions without a tag.
const (
	UntaggedKeep     UntaggedPolicy = "Keep"
	UntaggedWithdraw UntaggedPolicy = "Withdraw"
)

// RejectedCount counts the tags that a filter rejected.
type RejectedCount struct {
	// verdict is the name of the filter.
	// +kubebuilder:validation:MaxLength=64
	Verdict string `json:"verdict"`
	// count is the number of tags that the filter rejected.
	Count int32 `json:"count"`
}

// ImageScan summarizes the latest scan that found a change.
type ImageScan struct {
	// tags is the number of tags that were read.
	Tags int32 `json:"tags"`
	// checksum of the sorted tags.
	// +kubebuilder:validation:MaxLength=80
	Checksum string `json:"checksum"`
	// changedTime is when the checksum last changed.
	ChangedTime metav1.Time `json:"changedTime"`
}

// ImagePolicyStatus defines the observed state of an ImagePolicy.
type ImagePolicyStatus struct {
	// conditions are Ready, SourceReachable, RateLimited and Truncated. Reconciling and Stalled are
	// present only while they are true.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation that this status was computed from.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// lastHandledRequest is the latest value of the annotation hlnr.io/requestedAt
	// that triggered a scan.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	LastHandledRequest string `json:"lastHandledRequest,omitempty"`

	// latest is the highest version of the newest group. A commit is shortened to its first seven
	// characters.
	// +optional
	Latest string `json:"latest,omitempty"`

	// source of the versions: "registry", "pinned", "github releases", "github tags" or
	// "github pull requests".
	// +optional
	Source string `json:"source,omitempty"`

	// offered contains the numbers of offered versions and groups, as in "4 in 2 groups".
	// +optional
	Offered string `json:"offered,omitempty"`

	// releases lists the offered versions, sorted from the newest group and version to the oldest.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1024
	Releases []OfferedRelease `json:"releases,omitempty"`

	// withdrawn lists the withdrawn versions that a Microservice still uses.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1024
	Withdrawn []Withdrawal `json:"withdrawn,omitempty"`

	// candidates lists the newest rejected tags, up to twenty.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=20
	Candidates []RefusedCandidate `json:"candidates,omitempty"`

	// rejected counts the rejected tags by filter.
	// +optional
	// +listType=map
	// +listMapKey=verdict
	// +kubebuilder:validation:MaxItems=16
	Rejected []RejectedCount `json:"rejected,omitempty"`

	// verifiedBy is the SHA-256 hash, in hexadecimal, of the public keys from spec.verify with which
	// the offered versions were verified. If the keys in the Secret change, all versions are verified
	// again.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	VerifiedBy string `json:"verifiedBy,omitempty"`

	// repositoryID identifies the GitHub repository whose pull requests are offered. It consists of
	// the server and the ID of the repository, such as "github.com/1296269". It does not change when
	// the repository is renamed.
	// +optional
	// +kubebuilder:validation:MaxLength=280
	RepositoryID string `json:"repositoryID,omitempty"`

	// scan summarizes the latest scan that found a change.
	// +optional
	Scan *ImageScan `json:"scan,omitempty"`
}

// Conditions of an ImagePolicy.
const (
	ConditionSourceReachable = "SourceReachable"
	ConditionRateLimited     = "RateLimited"
	ConditionTruncated       = "Truncated"
)

// ReasonInvalidSpec is the reason for the Stalled condition if the rules of the specification are
// invalid. status.releases then belongs to an earlier generation, and no release starts.
const ReasonInvalidSpec = "InvalidSpec"

// ImagePolicy discovers the versions of an image, and offers the versions that its rules admit. An
// offered version is withdrawn only if it is denied or excluded, if its pull request is closed, or if
// its deletion is confirmed.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=imgp,categories=hlnr
// +kubebuilder:printcolumn:name="Image",type=string,JSONPath=`.spec.image`
// +kubebuilder:printcolumn:name="Latest",type=string,JSONPath=`.status.latest`
// +kubebuilder:printcolumn:name="Offered",type=string,JSONPath=`.status.offered`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Source",type=string,priority=1,JSONPath=`.status.source`
// +kubebuilder:printcolumn:name="Status",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
type ImagePolicy struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec defines which versions are offered.
	// +required
	Spec ImagePolicySpec `json:"spec"`

	// status reports the offered versions.
	// +optional
	Status ImagePolicyStatus `json:"status,omitempty"`
}

// ImagePolicyList is a list of ImagePolicies.
// +kubebuilder:object:root=true
type ImagePolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ImagePolicy `json:"items"`
}
