// Package version decides which tags of an image are versions, and which of
// these an ImagePolicy offers. It is pure: no clock, no network, no logger.
//
// A tag passes these filters in this order; the first that refuses it
// gives the reason:
//
//	Name       the tag is not a tag by the OCI specification
//	Exclude    a signature, attestation or bill of materials, or tagFilter.exclude
//	TagFilter  tagFilter.pattern does not match
//	Match      match.name does not match the name of a source that is not a registry
//	Parse      what remains is not a version by versioning.scheme and versioning.suffix
//	Level      a pre-release, by its version or by its source, and versioning.level
//	           is Release
//	Range      outside versioning.range
//	Deny       named by deny
//	MinAge     the caller has not seen the tag for long enough    (Refusal)
//	Exists     the caller proved that there is no such image      (Refusal)
//	Platform   the image is not there for the wanted platforms    (Refusal)
//	Labels     the image lacks a label of match.labels            (Refusal)
//	Verify     no key of verify has signed the image              (Refusal)
//	Duplicate  another tag gives the same version
//	Limits     beyond limits.groups or limits.releasesPerGroup
//
// A name of a source that is not a registry is mapped to a tag first; Name, Exclude and
// TagFilter judge the tag.
//
// MinAge needs a clock, and Exists to Verify the registry, so the caller decides them:
// it offers, checks what is offered, and offers again with what it has refused.
//
//	rules.go       Rules: what an ImagePolicy asks for
//	scheme.go      how a version is read from a text
//	semver.go      parses and compares semantic versions
//	constraint.go  ranges
//	group.go       which versions replace each other
//	filter.go      the filters, and the decision on a tag
//	select.go      what is offered of all tags
//	push_times.go  versions that are push times
//	withdraw.go    versions that are no longer offered, and why
package version
