// Package version decides which tags of an image are versions, and which tags an ImagePolicy
// offers. The package uses no clock, network or logger.
//
// A tag passes through these filters in this order. The first filter that refuses the tag
// determines the reason:
//
//	Name       the tag is not valid according to the OCI specification
//	Exclude    the tag belongs to a signature, attestation or bill of materials, or
//	           tagFilter.exclude matches it
//	TagFilter  tagFilter.pattern does not match the tag
//	Match      match.name does not match the name of the version at a source that is
//	           not a registry
//	Parse      the remaining text is not a version according to versioning.scheme and
//	           versioning.suffix
//	Level      versioning.level is Release, and the version is a pre-release or its
//	           source marks it as a pre-release
//	Range      the version is outside versioning.range
//	Deny       the version is listed in deny
//	MinAge     the caller first found the tag too recently        (Refusal)
//	Exists     the caller proved that there is no such image      (Refusal)
//	Platform   the image does not exist for the required platforms (Refusal)
//	Labels     the labels of the image do not match match.labels  (Refusal)
//	Verify     the image is not signed with a key from verify     (Refusal)
//	Duplicate  another tag has the same version
//	Limits     the version is beyond limits.groups or limits.releasesPerGroup
//
// If the source is not a registry, the name of a version is first mapped to a tag. Name, Exclude and
// TagFilter apply to that tag.
//
// MinAge requires a clock, and the filters from Exists to Verify require the registry. Therefore, the caller applies
// these filters. It requests an offer, checks the offered tags, and requests another offer without the refused tags.
//
//	rules.go       Rules, which contain the settings of an ImagePolicy
//	scheme.go      how a version is read from a string
//	semver.go      how semantic versions are parsed and compared
//	constraint.go  ranges
//	group.go       which versions replace each other
//	filter.go      the filters, and the decision on a tag
//	select.go      which tags are offered
//	push_times.go  versions that are the times of images
//	withdraw.go    which versions are no longer offered, and why
package version
