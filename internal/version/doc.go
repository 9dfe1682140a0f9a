// Package version decides which tags of an image are versions, and which of
// these an ImagePolicy offers. It is pure: no clock, no network, no logger.
//
// A tag passes these filters in this order; the first that refuses it is its
// verdict:
//
//	Name       the tag is no tag by the OCI specification
//	Exclude    a signature, attestation or bill of materials, or tagFilter.exclude
//	TagFilter  tagFilter.pattern does not match
//	Parse      what is left is no version by versioning.scheme and versioning.suffix
//	Level      a pre-release, and versioning.level is Release
//	Range      outside versioning.range
//	Deny       named by deny
//	MinAge     the caller has not seen the tag for long enough    (Refusal)
//	Exists     the caller proved that there is no such image      (Refusal)
//	Platform   the image is not there for the wanted platforms    (Refusal)
//	Duplicate  another tag gives the same version
//	Limits     beyond limits.groups or limits.releasesPerGroup
//
// MinAge needs a clock, Exists and Platform the registry, so the caller decides them: it offers,
// looks at what is offered, and offers again with what it has refused.
package version
