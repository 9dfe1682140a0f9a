package imagepolicy

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/registry"
	"github.com/heighliner/heighliner/internal/version"
)

// maxTimes is the maximum number of build times that one scan requests.
const maxTimes = 200

// timesInterval is the maximum time until the next scan while build times are missing.
const timesInterval = time.Minute

// buildTime is the build time of a tag's image; zero if the image has no build time.
type buildTime struct {
	digest string
	at     time.Time
}

// atTime returns the version for a time. The version consists of six numbers: 2026-01-05 13:07:09 UTC
// becomes "2026.1.5.13.7.9". Ranges and groups use the first three numbers.
func atTime(t time.Time) string {
	t = t.UTC()
	return fmt.Sprintf("%d.%d.%d.%d.%d.%d", t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second())
}

// isTime reports whether a version is a result of atTime.
func isTime(v string) bool {
	t, err := time.Parse("2006.1.2.15.4.5", v)
	return err == nil && atTime(t) == v
}

// byBuildTime reports whether the policy orders tags by the build time of their images.
func (o *observed) byBuildTime() bool {
	return o.policy.Spec.Versioning.Scheme == v1alpha1.SchemePushTime && o.github == nil && o.pinned == nil
}

// BuildTime returns the build time of a tag's image. It requests the time unless the time is known and the
// image has not changed. A scan requests only a limited number of build times, and sets untimed if more
// are unknown.
func (a *recordReader) BuildTime(tag, platform string) (buildTime, error) {
	known, image := a.times[tag], a.images[ref{0, tag}]
	if known != nil && (image == nil || image.err != nil || image.value.Digest == known.value.digest) {
		return known.value, known.err
	}
	switch {
	case a.scanner == nil:
		a.incomplete = a.incomplete || !a.untimed
		return buildTime{}, errNotScanned
	case a.timesLeft == 0:
		a.untimed = true
		return buildTime{}, errNotScanned
	}
	a.timesLeft--
	found, err := a.Resolve(0, tag)
	if err == nil && found.Created.IsZero() { // an index has no build time, but its image for the platform may have one
		digest := found.Digest
		found, err = a.Inspect(0, digest, platform)
		found.Digest = digest
	}
	b := buildTime{found.Digest, found.Created}
	if err != nil {
		b = buildTime{}
	}
	a.times[tag] = &answer[buildTime]{b, err}
	return b, err
}

// withoutErrors returns the times that were read without an error. The next scan need not request them again.
func withoutErrors(times map[string]*answer[buildTime]) map[string]*answer[buildTime] {
	kept := make(map[string]*answer[buildTime], len(times))
	for tag, x := range times {
		if x.err == nil {
			kept[tag] = x
		}
	}
	return kept
}

// forgetTimes removes the times of tags that are no longer in the list.
func (l *scanRecord) forgetTimes(tags []string) {
	maps.DeleteFunc(l.times, func(tag string, _ *answer[buildTime]) bool {
		_, there := slices.BinarySearch(tags, tag)
		return !there
	})
}

// rankTimed ranks tags by the build times of their images. The offer does not change until all times are
// known. Otherwise, a policy would first offer an old image, and then one newer image after another. A tag
// that now refers to another image is another version, so rankTimed removes the tag from the before map.
func (s *selection) rankTimed(o *observed, a *recordReader, tags []string, before map[string]v1alpha1.OfferedRelease) *version.Ranking {
	times := make(map[string]version.Timed, len(tags))
	s.untimed = 0
	if a.scanner != nil && s.scanned {
		a.forgetTimes(a.tags.value.Tags)
	}
	for i, tag := range tags {
		a.progressed(func(p *Progress) { p.Timed, p.Times = i, len(tags) })
		if rel, offered := before[tag]; offered && isTime(rel.SemVer.Version) && (s.missing[tag] || !s.scanned || a.sameImage(tag, rel)) {
			times[tag] = version.Timed{Version: rel.SemVer.Version}
		} else if s.scanned && !s.missing[tag] && o.selector.Chooses(tag) {
			times[tag] = s.buildTimeOf(o, a, tag)
		}
	}
	a.progressed(func(p *Progress) { p.Timed, p.Times = len(tags)-s.untimed, len(tags) })
	if s.untimed > 0 {
		for tag, rel := range before {
			if o.minAge > 0 && isTime(rel.SemVer.Version) {
				times[tag] = version.Timed{Version: rel.SemVer.Version}
			}
		}
		return o.selector.RankTimed(slices.Collect(maps.Keys(before)), times)
	}
	s.firstSeen = s.firstSeen.movedAgain(times, a.time)
	for tag, rel := range before {
		if times[tag].Version == rel.SemVer.Version {
			continue
		}
		if isTime(rel.SemVer.Version) { // Otherwise, the scheme has changed, not the image.
			s.firstSeen = s.firstSeen.withMoved(tag, times[tag].Version, a.time)
		}
		delete(before, tag)
	}
	return o.selector.RankTimed(tags, times)
}

// sameImage reports whether a tag still has the offered image in at least one repository, or whether its
// image is not known. A tag counts as moved only if it moved in all repositories.
func (a *recordReader) sameImage(tag string, rel v1alpha1.OfferedRelease) bool {
	for i := range rel.Images {
		if image, err := a.Resolve(i, tag); err != nil || image.Digest == rel.Images[i].Digest {
			return true
		}
	}
	return false
}

// buildTimeOf returns the version of a listed tag, which is the build time of the tag's image.
func (s *selection) buildTimeOf(o *observed, a *recordReader, tag string) version.Timed {
	if s.failures >= maxFailures {
		s.untimed++
		return version.Timed{}
	}
	b, err := a.BuildTime(tag, o.platforms[0])
	switch {
	case errors.Is(err, errNotScanned):
		s.untimed++
		return version.Timed{}
	case is(err, registry.NotFound):
		return version.Timed{Reason: noImage().Reason}
	case is(err, registry.Malformed):
		return version.Timed{Reason: err.Error()}
	case is(err, registry.Unauthorized) && registry.IsOfOneImage(err): // A retry would not succeed.
		s.noteImageError(err)
		return version.Timed{Reason: fmt.Sprintf("the image cannot be read: %s", err)}
	case err != nil:
		s.noteError(err)
		s.untimed++
		return version.Timed{}
	}
	s.readable = true
	switch {
	case b.at.IsZero():
		return version.Timed{Reason: "not a version: the image has no build time, or the constant build time of a reproducible build: set SOURCE_DATE_EPOCH for its build, or the annotation org.opencontainers.image.created"}
	case b.at.After(a.clock.Now()):
		s.offerAt(b.at)
		return version.Timed{Reason: fmt.Sprintf("not a version: the build time %s of the image is in the future: fix the clock of the machine that builds the image", formatTime(b.at))}
	}
	return version.Timed{Version: atTime(b.at)}
}
