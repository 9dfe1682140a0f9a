package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ImagePolicySpec says which versions of an image are allowed.
//
// +kubebuilder:validation:XValidation:rule="!has(self.minAge) || !has(self.source) || !has(self.source.pinned)",message="spec.minAge is not for spec.source.pinned: what is on a list written by hand is offered at once"
// +kubebuilder:validation:XValidation:rule="!has(self.source) || !has(self.source.github) || !has(self.source.github.pullRequests) || !has(self.versioning) || !has(self.versioning.range) && !has(self.versioning.suffix) && !has(self.versioning.parts) && (!has(self.versioning.scheme) || self.versioning.scheme == 'SemVer') && (!has(self.versioning.level) || self.versioning.level == 'Release') && (!has(self.versioning.groupBy) || self.versioning.groupBy == 'All')",message="spec.versioning is not for spec.source.github.pullRequests: commits are no versions, each pull request is a group of its own"
// +kubebuilder:validation:XValidation:rule="!has(self.source) || !has(self.source.github) || !has(self.source.github.pullRequests) || !has(self.minAge) && !has(self.tagFilter) && !has(self.deny)",message="spec.minAge, spec.tagFilter and spec.deny are not for spec.source.github.pullRequests: choose pull requests there"
// +kubebuilder:validation:XValidation:rule="!has(self.match) || !has(self.match.name) || has(self.source) && has(self.source.github) && !has(self.source.github.pullRequests)",message="spec.match.name maps names of GitHub releases and tags: set spec.source.github.releases or tags; for tags of the registry there is spec.tagFilter"
// +kubebuilder:validation:XValidation:rule="!has(self.match) || !has(self.match.candidates) || has(self.source) && has(self.source.github) && has(self.source.github.pullRequests)",message="spec.match.candidates are tags of pull requests' images: set spec.source.github.pullRequests"
// +kubebuilder:validation:XValidation:rule="!has(self.match) || !has(self.match.candidates) || !has(self.source) || !has(self.source.github) || !has(self.source.github.pullRequests) || !has(self.source.github.pullRequests.forks) || self.source.github.pullRequests.forks.policy != 'Approved' || self.match.candidates.exists(c, c.contains('{{.SHA}}'))",message="spec.match.candidates: forks.policy Approved takes images of forks by a tag with the whole commit only: add a candidate with {{.SHA}}, such as pr-{{.Number}}-{{.SHA}}"
// +kubebuilder:validation:XValidation:rule="!has(self.versioning) || !has(self.versioning.scheme) || self.versioning.scheme != 'Regexp' || has(self.tagFilter) && has(self.tagFilter.pattern) && !has(self.tagFilter.extract)",message="spec.versioning.scheme Regexp reads the groups major, minor, patch, revision and prerelease of spec.tagFilter.pattern: set the pattern, and leave tagFilter.extract out"
// +kubebuilder:validation:XValidation:rule="!has(self.versioning) || !has(self.versioning.scheme) || self.versioning.scheme != 'PushTime' || (!has(self.source) || has(self.source.registry)) && (!has(self.tagFilter) || !has(self.tagFilter.extract))",message="spec.versioning.scheme PushTime orders the tags of a registry by the time of their images: leave spec.source and tagFilter.extract out"
// +kubebuilder:validation:XValidation:rule="!has(self.limits) || has(self.source) && has(self.source.github) && has(self.source.github.pullRequests) || (has(self.limits.groups) ? self.limits.groups : 3) * (has(self.limits.releasesPerGroup) ? self.limits.releasesPerGroup : 10) <= 512",message="spec.limits: groups * releasesPerGroup must be at most 512"
type ImagePolicySpec struct {
	// image is the repository to look in, without tag or digest:
	// "registry.example.com/shop".
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:XValidation:rule="!self.contains('://')",message="spec.image has no scheme: write registry.example.com/shop, and set spec.insecure for plain HTTP"
	// +kubebuilder:validation:XValidation:rule="self.contains('://') || self.matches('^([^/]+/)*[^/:@]*$')",message="spec.image names a repository: leave out the tag and the digest"
	// +kubebuilder:validation:XValidation:rule="self.contains('://') || self.matches('[:@][^/]*$') || self.matches('^([A-Za-z0-9.-]+(:[0-9]+)?/|[[][0-9a-f:]+[]](:[0-9]+)?/)?[a-z0-9]+([._-]+[a-z0-9]+)*(/[a-z0-9]+([._-]+[a-z0-9]+)*)*$')",message="spec.image is a repository such as registry.example.com/team/shop: lower-case letters and digits, separated by '.', '_', '-' and '/'"
	Image string `json:"image"`

	// imagePullSecrets are Secrets of this namespace with the registry's
	// credentials, of the types kubernetes.io/dockerconfigjson, dockercfg or
	// basic-auth; one of the last type needs the annotation hlnr.io/registry, which
	// names the registry that it is for. The releases' pods get them as well. A
	// Secret that is missing is an error, never anonymous access.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	ImagePullSecrets []Reference `json:"imagePullSecrets,omitempty"`

	// interval between two looks at the source, at least 5s; jittered by a tenth, and up
	// to four times as long while nothing is new.
	// +optional
	// +kubebuilder:default="5m"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('5s') && duration(self) <= duration('24h')",message="spec.interval must be between 5s and 24h"
	Interval Duration `json:"interval,omitempty"`

	// timeout of one answer: the list with all its pages, or an image. A look as a
	// whole takes at most two minutes.
	// +optional
	// +kubebuilder:default="30s"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('2m')",message="spec.timeout must be between 1s and 2m"
	Timeout Duration `json:"timeout,omitempty"`

	// suspend stops looking; what is offered stays offered.
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// insecure allows plain HTTP to a registry that is neither on a private
	// address nor named localhost; to those HTTP is used anyway.
	// +optional
	Insecure bool `json:"insecure,omitempty"`

	// source of versions. Absent: the registry's tags.
	// +optional
	Source *ImageSource `json:"source,omitempty"`

	// tagFilter chooses tags, and extracts the version from them.
	// +optional
	TagFilter *TagFilter `json:"tagFilter,omitempty"`

	// versioning says which versions are admitted, and how they are grouped.
	// +optional
	// +kubebuilder:default={}
	Versioning Versioning `json:"versioning,omitempty"`

	// deny takes versions out by hand: each entry is a version ("1.2.3") or a
	// range (">=1.3.0 <1.3.4"). A version that is live and denied is replaced by
	// the highest one that is left.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=128
	Deny []string `json:"deny,omitempty"`

	// minAge is how long a version must have been seen before it is offered, between
	// 1s and 720h; of a tag that moves, how long the other image. What the first look finds
	// is old enough. Absent: offered at once.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('720h')",message="spec.minAge must be between 1s and 720h"
	MinAge Duration `json:"minAge,omitempty"`

	// untagged says what becomes of an offered version whose tag is deleted while its image
	// remains, as registries do that delete tags only. Keep: it stays offered, and Ready
	// says so. Withdraw: it is withdrawn as Gone, after two looks. Default: Keep.
	// +optional
	// +kubebuilder:validation:Enum=Keep;Withdraw
	Untagged UntaggedPolicy `json:"untagged,omitempty"`

	// platforms that the image must exist for, all of them, as "linux/amd64" or
	// "linux/arm64/v8". Absent: the platform that the manager runs on.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MaxLength=64
	// +kubebuilder:validation:items:XValidation:rule="self.matches('^[a-z0-9]+/[a-z0-9]+(/[a-z0-9]+)?$')",message="spec.platforms: write system and architecture in lower case, such as linux/amd64 or linux/arm64/v8"
	Platforms []string `json:"platforms,omitempty"`

	// limits bound what is read and offered.
	// +optional
	// +kubebuilder:default={}
	Limits ImageLimits `json:"limits,omitempty"`

	// match maps what the source names to tags of the image, and says which labels the
	// image must carry.
	// +optional
	Match *Match `json:"match,omitempty"`

	// additionalImages go in step with image: a version is offered only when all of
	// them have an image of the same tag.
	// +optional
	// +listType=map
	// +listMapKey=containerName
	// +kubebuilder:validation:MaxItems=7
	AdditionalImages []AdditionalImage `json:"additionalImages,omitempty"`

	// certSecretRef names a Secret of this namespace for TLS to the registry: ca.crt,
	// authorities in PEM that are believed beside the system's; tls.crt and tls.key, a
	// client certificate.
	// +optional
	CertSecretRef *Reference `json:"certSecretRef,omitempty"`

	// verify admits only images that are signed. One that is not is refused, and the
	// next version that is signed is offered.
	// +optional
	Verify *Verify `json:"verify,omitempty"`
}

// ImageSource is where versions come from: exactly one member is set.
// +kubebuilder:validation:XValidation:rule="(has(self.registry) ? 1 : 0) + (has(self.pinned) ? 1 : 0) + (has(self.github) ? 1 : 0) == 1",message="spec.source: set exactly one of registry, pinned and github"
type ImageSource struct {
	// registry takes the tags of the repository.
	// +optional
	Registry *RegistrySource `json:"registry,omitempty"`

	// pinned takes a list written by hand; the tags must exist in the registry.
	// +optional
	Pinned *PinnedSource `json:"pinned,omitempty"`

	// github takes releases, tags or pull requests of a GitHub repository.
	// +optional
	GitHub *GitHubSource `json:"github,omitempty"`
}

// RegistrySource has no settings of its own.
type RegistrySource struct{}

// PinnedSource is a list of tags.
type PinnedSource struct {
	// versions are tags of the image.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MaxLength=128
	// +kubebuilder:validation:items:XValidation:rule="self.matches('^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$')",message="spec.source.pinned.versions are tags of the image, of letters, digits, '_', '.' and '-', as the registry lists them: for build metadata write 1.2.3_build"
	Versions []string `json:"versions"`
}

// TagFilter chooses tags by regular expressions (RE2). Signatures,
// attestations and bills of materials are always left out.
// +kubebuilder:validation:XValidation:rule="!has(self.extract) || has(self.pattern)",message="spec.tagFilter.extract takes its groups from spec.tagFilter.pattern: set the pattern too"
type TagFilter struct {
	// pattern that a tag must match, for example "^v(?P<version>.+)$".
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Pattern string `json:"pattern,omitempty"`

	// extract is the version, written with the pattern's groups: "$version".
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Extract string `json:"extract,omitempty"`

	// exclude are patterns of tags to leave out.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=512
	Exclude []string `json:"exclude,omitempty"`
}

// GroupBy says which versions replace each other.
// +kubebuilder:validation:Enum=All;Major;Minor;Patch
type GroupBy string

// The groupings: All is one group; Major gives "1.x", Minor "1.2.x", Patch
// "1.2.3" with its builds.
const (
	GroupByAll   GroupBy = "All"
	GroupByMajor GroupBy = "Major"
	GroupByMinor GroupBy = "Minor"
	GroupByPatch GroupBy = "Patch"
)

// VersionScheme says how a version is read from a tag.
// +kubebuilder:validation:Enum=SemVer;Tuple;Regexp;PushTime
type VersionScheme string

// The schemes: SemVer reads semantic versions (semver 2.0.0), Tuple a fixed number
// of numbers, Regexp the named groups of tagFilter.pattern. PushTime reads nothing in
// the tag: registries do not tell when a tag was pushed, so the time at which its image
// says that it was built stands for it.
const (
	SchemeSemVer   VersionScheme = "SemVer"
	SchemeTuple    VersionScheme = "Tuple"
	SchemeRegexp   VersionScheme = "Regexp"
	SchemePushTime VersionScheme = "PushTime"
)

// Versioning reads, admits and groups versions.
// +kubebuilder:validation:XValidation:rule="!has(self.parts) || has(self.scheme) && self.scheme == 'Tuple'",message="spec.versioning.parts is for versioning.scheme Tuple: leave it out, or set the scheme"
// +kubebuilder:validation:XValidation:rule="!has(self.twoParts) || self.twoParts == 'Deny' || !has(self.scheme) || self.scheme == 'SemVer'",message="spec.versioning.twoParts is for versioning.scheme SemVer: leave it out; with Tuple set versioning.parts"
// +kubebuilder:validation:XValidation:rule="!has(self.level) || self.level != 'Candidate' || !has(self.scheme) || !(self.scheme in ['Tuple', 'PushTime'])",message="spec.versioning.level must be Release with versioning.scheme Tuple and PushTime: numbers alone make no pre-release"
// +kubebuilder:validation:XValidation:rule="!has(self.suffix) || !has(self.scheme) || !(self.scheme in ['Regexp', 'PushTime'])",message="spec.versioning.suffix is not for versioning.scheme Regexp and PushTime: write it into tagFilter.pattern"
// +kubebuilder:validation:XValidation:rule="!has(self.scheme) || self.scheme != 'Tuple' || !has(self.groupBy) || self.groupBy == 'All' || (has(self.parts) ? self.parts : 3) >= (self.groupBy == 'Major' ? 2 : 3)",message="spec.versioning.groupBy: Major needs versioning.parts of at least 2, Minor and Patch of at least 3"
type Versioning struct {
	// scheme says how a version is read from a tag. With PushTime it is the time of the
	// tag's image in UTC, as "2026.1.5.13.7.9".
	// +optional
	// +kubebuilder:default=SemVer
	Scheme VersionScheme `json:"scheme,omitempty"`

	// parts is how many numbers a version of scheme Tuple has, from 1 to 6. Default: 3.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=6
	Parts int32 `json:"parts,omitempty"`

	// suffix that a tag must end in, such as "-alpine"; it is no part of the version.
	// Absent: what follows the first hyphen of a semantic version is a pre-release.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^[._-][A-Za-z0-9._-]*$')",message="spec.versioning.suffix begins with '-', '.' or '_', and goes on with those, letters and digits: -alpine, not alpine"
	Suffix string `json:"suffix,omitempty"`

	// level is the least mature thing admitted: Release takes final versions,
	// Candidate takes final versions and pre-releases. A pre-release belongs to
	// the group of the version that it leads to.
	// +optional
	// +kubebuilder:default=Release
	// +kubebuilder:validation:Enum=Release;Candidate
	Level ReleaseLevel `json:"level,omitempty"`

	// range of versions, for example ">=1.0.0 <2.0.0". It judges the first three
	// numbers, and the pre-release. Absent: all.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Range string `json:"range,omitempty"`

	// groupBy says which versions replace each other.
	// +optional
	// +kubebuilder:default=All
	GroupBy GroupBy `json:"groupBy,omitempty"`

	// twoParts says whether "1.2" is a version. By default three numeric parts are
	// required, so that dates and numeric commit hashes are none.
	// +optional
	// +kubebuilder:default=Deny
	// +kubebuilder:validation:Enum=Deny;Allow
	TwoParts string `json:"twoParts,omitempty"`
}

// ImageLimits bound what is read and offered. A version that a Microservice
// holds, or that a pin or a domain names, stays offered beyond them.
type ImageLimits struct {
	// groups offered, newest first. Default: 3, and 256 for pull requests.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=256
	Groups int32 `json:"groups,omitempty"`

	// releasesPerGroup offered, newest first. A pull request has one: its head commit.
	// +optional
	// +kubebuilder:default=10
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	ReleasesPerGroup int32 `json:"releasesPerGroup,omitempty"`

	// tags read from the registry that spec.tagFilter admits; with more, condition
	// Truncated is True. Of any list at most 100,000 tags are read.
	// +optional
	// +kubebuilder:default=10000
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000
	Tags int32 `json:"tags,omitempty"`
}

// OfferedRelease is a version that exists and is allowed.
type OfferedRelease struct {
	// semVer is the stream's name and the version.
	SemVer SemVer `json:"semVer"`

	// group is the slug of the release group: a DNS label.
	// +kubebuilder:validation:MaxLength=63
	Group string `json:"group"`

	// level is the maturity of this version.
	// +kubebuilder:validation:Enum=Release;Candidate;Preview
	Level ReleaseLevel `json:"level"`

	// images of the release.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	Images []ReleaseImage `json:"images"`

	// pullRequest is the number of the pull request that the group is.
	// +optional
	PullRequest int64 `json:"pullRequest,omitempty"`

	// fork says that the pull request comes from another repository. Its pods run under
	// the ServiceAccount default and get no token.
	// +optional
	Fork bool `json:"fork,omitempty"`

	// releaseTime is when the release was published, or the head commit pushed, as far
	// as it is known.
	// +optional
	ReleaseTime *metav1.Time `json:"releaseTime,omitempty"`

	// revision is the commit.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Revision string `json:"revision,omitempty"`

	// url of the release or pull request at GitHub.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	URL string `json:"url,omitempty"`

	// held says that it is beyond spec.limits, and offered only because a
	// Microservice, a pin or a domain names it or another version of its group. It
	// starts no group in a Microservice that has none of this slug and does not pin
	// it.
	// +optional
	Held bool `json:"held,omitempty"`
}

// WithdrawReason says why a version that was offered is not any more.
// +kubebuilder:validation:Enum=Denied;Excluded;Gone;Closed
type WithdrawReason string

const (
	// WithdrawnDenied: spec.deny names it.
	WithdrawnDenied WithdrawReason = "Denied"
	// WithdrawnExcluded: the specification no longer admits or makes it.
	WithdrawnExcluded WithdrawReason = "Excluded"
	// WithdrawnGone: the registry proved twice that it does not exist any more.
	WithdrawnGone WithdrawReason = "Gone"
	// WithdrawnClosed: the pull request is closed.
	WithdrawnClosed WithdrawReason = "Closed"
)

// Withdrawal is the only fact by which a version leaves: absence from
// status.releases never is one.
type Withdrawal struct {
	// group is the slug of the release group.
	// +kubebuilder:validation:MaxLength=63
	Group string `json:"group"`

	// version that is withdrawn; absent: the whole group.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Version string `json:"version,omitempty"`

	// reason of the withdrawal.
	Reason WithdrawReason `json:"reason"`

	// time at which it was seen.
	Time metav1.Time `json:"time"`
}

// RefusedCandidate is a tag that is not offered, and why.
type RefusedCandidate struct {
	// version, or the tag where it is none.
	// +kubebuilder:validation:MaxLength=128
	Version string `json:"version"`

	// verdict is the name of the filter that refused it.
	// +kubebuilder:validation:MaxLength=64
	Verdict string `json:"verdict"`

	// reason in words.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Reason string `json:"reason,omitempty"`

	// firstSeenTime is when a version that is younger than spec.minAge was first seen.
	// +optional
	FirstSeenTime *metav1.Time `json:"firstSeenTime,omitempty"`
}

// UntaggedPolicy says what becomes of a version without a tag.
type UntaggedPolicy string

// The policies for versions without a tag.
const (
	UntaggedKeep     UntaggedPolicy = "Keep"
	UntaggedWithdraw UntaggedPolicy = "Withdraw"
)

// RejectedCount counts the tags that a filter refused.
type RejectedCount struct {
	// verdict is the name of the filter.
	// +kubebuilder:validation:MaxLength=64
	Verdict string `json:"verdict"`
	// count of tags.
	Count int32 `json:"count"`
}

// ImageScan sums up the last look that found something new.
type ImageScan struct {
	// tags read.
	Tags int32 `json:"tags"`
	// checksum of the sorted tags.
	// +kubebuilder:validation:MaxLength=80
	Checksum string `json:"checksum"`
	// changedTime is when the checksum last changed.
	ChangedTime metav1.Time `json:"changedTime"`
}

// ImagePolicyStatus is what exists and is allowed.
type ImagePolicyStatus struct {
	// conditions: Ready, SourceReachable, RateLimited, Truncated; Reconciling and
	// Stalled while they hold.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation that this status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// lastHandledRequest is the last value of the annotation hlnr.io/requestedAt
	// that led to a scan.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	LastHandledRequest string `json:"lastHandledRequest,omitempty"`

	// latest offered version, over all groups; of a commit, the first seven digits.
	// +optional
	Latest string `json:"latest,omitempty"`

	// source in short: "registry", "pinned", "github releases", "github tags" or
	// "github pull requests".
	// +optional
	Source string `json:"source,omitempty"`

	// offered counts versions and groups, as in "4 in 2 groups".
	// +optional
	Offered string `json:"offered,omitempty"`

	// releases offered, newest group and version first.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1024
	Releases []OfferedRelease `json:"releases,omitempty"`

	// withdrawn versions that a Microservice still lists.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1024
	Withdrawn []Withdrawal `json:"withdrawn,omitempty"`

	// candidates that were refused, the newest twenty.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=20
	Candidates []RefusedCandidate `json:"candidates,omitempty"`

	// rejected counts all refusals by filter.
	// +optional
	// +listType=map
	// +listMapKey=verdict
	// +kubebuilder:validation:MaxItems=16
	Rejected []RejectedCount `json:"rejected,omitempty"`

	// verifiedBy identifies the public keys of spec.verify by which what is offered was
	// judged: the SHA-256 of them all, in hexadecimal. With other keys in the Secret all of
	// it is judged again.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	VerifiedBy string `json:"verifiedBy,omitempty"`

	// repositoryID is the repository at GitHub whose pull requests are offered: the
	// host of its server and GitHub's number of it, as in "github.com/1296269", which
	// stay when it is renamed.
	// +optional
	// +kubebuilder:validation:MaxLength=280
	RepositoryID string `json:"repositoryID,omitempty"`

	// scan sums up the last look that found something new.
	// +optional
	Scan *ImageScan `json:"scan,omitempty"`
}

// Conditions of an ImagePolicy.
const (
	ConditionSourceReachable = "SourceReachable"
	ConditionRateLimited     = "RateLimited"
	ConditionTruncated       = "Truncated"
)

// ReasonInvalidSpec on condition Stalled: the rules of the specification cannot be
// read. What status.releases offers was decided by earlier ones, and starts nothing.
const ReasonInvalidSpec = "InvalidSpec"

// ImagePolicy discovers the versions of an image that exist and are allowed.
// Nothing that it once offered disappears without proof.
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

	// spec says which versions are allowed.
	// +required
	Spec ImagePolicySpec `json:"spec"`

	// status says which versions exist and are allowed.
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
