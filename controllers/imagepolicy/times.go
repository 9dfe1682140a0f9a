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

// maxTimed is how many images one look asks for their time.
const maxTimed = 200

// retimed is the longest time until the next look while there are images of which the
// time was not asked for.
const retimed = time.Minute

// built is when the image of a tag says that it was built; zero: it does not say.
type built struct {
	digest string
	at     time.Time
}

// atTime gives the version of a time, of six numbers in UTC: 2026-01-05 13:07:09 is
// "2026.1.5.13.7.9". Ranges and groups read the first three.
func atTime(t time.Time) string {
	t = t.UTC()
	return fmt.Sprintf("%d.%d.%d.%d.%d.%d", t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second())
}

// isTime says that a version is one that atTime gives.
func isTime(v string) bool {
	t, err := time.Parse("2006.1.2.15.4.5", v)
	return err == nil && atTime(t) == v
}

// timed says that the policy orders tags by the time of their images.
func (o *observed) timed() bool {
	return o.policy.Spec.Versioning.Scheme == v1alpha1.SchemePushTime && o.github == nil && o.pinned == nil
}

// Built asks for the time of a tag's image, unless it is known and the look has not found
// another image under the tag. A look asks for a bounded number, and tells of the others
// by untimed.
func (a *asker) Built(tag, platform string) (built, error) {
	known, ok := a.times[tag]
	image, asked := a.images[ref{0, tag}]
	if ok && (!asked || image.err != nil || image.value.Digest == known.value.digest) {
		return known.value, known.err
	}
	switch {
	case a.scanner == nil:
		a.unasked = a.unasked || !a.untimed
		return built{}, errUnasked
	case a.timeable == 0:
		a.untimed = true
		return built{}, errUnasked
	}
	a.timeable--
	found, err := a.Resolve(0, tag)
	if err == nil && found.Created.IsZero() { // that of an index is in its image
		digest := found.Digest
		found, err = a.Inspect(0, digest, platform)
		found.Digest = digest
	}
	b := built{found.Digest, found.Created}
	if err != nil {
		b = built{}
	}
	a.times[tag] = answer[built]{b, err}
	return b, err
}

// lasting are the times that the next look need not ask for again.
func lasting(times map[string]answer[built]) map[string]answer[built] {
	kept := make(map[string]answer[built], len(times))
	for tag, x := range times {
		if x.err == nil {
			kept[tag] = x
		}
	}
	return kept
}

// forget the times of tags that the list no longer has.
func (l *look) forget(tags []string) {
	maps.DeleteFunc(l.times, func(tag string, _ answer[built]) bool {
		_, there := slices.BinarySearch(tags, tag)
		return !there
	})
}

// rankTimed ranks tags by the times of their images. As long as one is not known, what was
// offered before stays, and nothing is new: else a policy would offer an old image first,
// and then one younger one after the other. What was offered under a tag that names
// another image now is taken out of before: it is another version.
func (s *scanned) rankTimed(o *observed, a *asker, tags []string, before map[string]v1alpha1.OfferedRelease) *version.Ranking {
	times := make(map[string]version.Timed, len(tags))
	s.untimed = 0
	if a.scanner != nil && s.looked {
		a.forget(a.list.value.Tags)
	}
	for i, tag := range tags {
		a.tells(func(p *Progress) { p.Timed, p.Times = i, len(tags) })
		if rel, offered := before[tag]; offered && isTime(rel.SemVer.Version) && (s.missing[tag] || !s.looked || a.same(tag, rel)) {
			times[tag] = version.Timed{Version: rel.SemVer.Version}
		} else if s.looked && !s.missing[tag] && o.selector.Chooses(tag) {
			times[tag] = s.time(o, a, tag)
		}
	}
	a.tells(func(p *Progress) { p.Timed, p.Times = len(tags)-s.untimed, len(tags) })
	if s.untimed > 0 {
		return o.selector.RankTimed(slices.Collect(maps.Keys(before)), times)
	}
	for tag, rel := range before {
		if times[tag].Version != rel.SemVer.Version {
			s.seen = s.seen.moves(tag, times[tag].Version, a.time)
			delete(before, tag)
		}
	}
	return o.selector.RankTimed(tags, times)
}

// same says that a tag is not known to name another image than the one that is offered,
// in all repositories: half of a step is none.
func (a *asker) same(tag string, rel v1alpha1.OfferedRelease) bool {
	for i := range rel.Images {
		if image, err := a.Resolve(i, tag); err != nil || image.Digest == rel.Images[i].Digest {
			return true
		}
	}
	return false
}

// time gives the version of a tag that the list has.
func (s *scanned) time(o *observed, a *asker, tag string) version.Timed {
	if s.failures >= maxFailures {
		s.untimed++
		return version.Timed{}
	}
	b, err := a.Built(tag, o.platforms[0])
	switch {
	case errors.Is(err, errUnasked):
		s.untimed++
		return version.Timed{}
	case is(err, registry.NotFound):
		return version.Timed{Reason: noImage().Reason}
	case is(err, registry.Malformed):
		return version.Timed{Reason: err.Error()}
	case err != nil:
		s.fail(err)
		s.untimed++
		return version.Timed{}
	case b.at.IsZero():
		return version.Timed{Reason: "no version: the image does not say when it was built, or says a time of reproducible builds: set SOURCE_DATE_EPOCH for its build, or the annotation org.opencontainers.image.created"}
	case b.at.After(a.clock.Now()):
		s.ripens(b.at)
		return version.Timed{Reason: fmt.Sprintf("no version: the image says that it was built at %s, which is to come: mend the clock of its build", stamp(b.at))}
	}
	return version.Timed{Version: atTime(b.at)}
}
