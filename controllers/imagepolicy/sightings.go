package imagepolicy

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/version"
)

// sightings are when the tags of a source were first seen, for spec.minAge. They are
// our own observations: no image can pretend to be old.
type sightings struct {
	origin origin
	// time of the list, and its tags, sorted and shared with it.
	time time.Time
	list []string
	// first has the tags that were not in the list before.
	first map[string]time.Time
	// stated has the versions that the status said to be too young when this process
	// saw the source first.
	stated map[string]time.Time
	// lacking are versions that GitHub names, and that had no image when the registry was
	// asked for it last.
	lacking map[string]bool
	// moved has the tags that name another image than the one that is offered.
	moved map[string]sighting
	// base is when all other tags were there at the latest; zero: before any look.
	base time.Time
}

// sighting of an image under a tag: what it is called by, and when it was first seen.
type sighting struct {
	image string
	first time.Time
}

// moves adds that a tag names another image than the one that is offered. It changes
// nothing that exists.
func (seen *sightings) moves(tag, image string, at time.Time) *sightings {
	if seen == nil || seen.moved[tag].image == image {
		return seen
	}
	c := *seen
	c.moved = maps.Clone(seen.moved)
	if c.moved == nil {
		c.moved = map[string]sighting{}
	}
	c.moved[tag] = sighting{image, at}
	return &c
}

// see adds a list. It changes nothing that exists: a look and the pass that reads it
// both see the list.
//
// What the first list of all has is old, else nothing could start for minAge. After a
// restart, what the status offers is old, and what it calls too young keeps its time;
// all else was there when the list last changed, if it is still the same list, and
// else counts from now: a restart may delay a version, and never hurries one.
func (o *observed) see(before *sightings, tags []string, checksum string, at time.Time) *sightings {
	if before != nil && before.origin == o.question.origin && before.time.Equal(at) && slices.Equal(before.list, tags) {
		return before
	}
	seen := &sightings{origin: o.question.origin, time: at, list: tags, first: map[string]time.Time{}, lacking: map[string]bool{}}
	if before == nil && len(tags) == 0 && o.github != nil {
		return nil // GitHub was not asked for them yet
	}
	if before != nil && before.origin == seen.origin {
		seen.stated, seen.base, seen.lacking = before.stated, before.base, before.lacking
		seen.moved = maps.Clone(before.moved)
		maps.DeleteFunc(seen.moved, func(tag string, s sighting) bool {
			_, there := slices.BinarySearch(tags, tag)
			return !there || at.Sub(s.first) > o.minAge
		})
		for _, tag := range tags {
			t, young := before.first[tag]
			if _, known := slices.BinarySearch(before.list, tag); !known {
				t, young = at, true
			}
			if young && at.Sub(t) <= o.minAge {
				seen.first[tag] = t
			}
		}
		return seen
	}
	st := &o.policy.Status
	if st.Scan == nil || st.ObservedGeneration != o.policy.Generation && len(offeredBefore(o)) == 0 {
		return seen
	}
	seen.base, seen.stated = at, map[string]time.Time{}
	if st.Scan.Checksum == checksum {
		seen.base = st.Scan.ChangedTime.Time
	}
	for _, c := range st.Candidates {
		switch {
		case c.FirstSeenTime != nil:
			seen.stated[c.Version] = c.FirstSeenTime.Time
		case o.github != nil && lacksImage(version.Verdict(c.Verdict)):
			seen.lacking[c.Version] = true
		}
	}
	return seen
}

// of is when a version was first seen; zero: before any look.
func (seen *sightings) of(rel version.Release) time.Time {
	if m, ok := seen.moved[rel.Tag]; ok && m.image == rel.Version {
		return m.first
	}
	if t, ok := seen.first[rel.Tag]; ok {
		return t
	}
	if t, ok := seen.stated[rel.Version]; ok {
		return t
	}
	return seen.base
}

// lacksImage says that a verdict means that there is no image yet.
func lacksImage(v version.Verdict) bool {
	return v == version.VerdictExists || v == version.VerdictPlatform
}

// lacks adds that a version has no image yet. It changes nothing that exists.
func (seen *sightings) lacks(rel version.Release) *sightings {
	if seen == nil || seen.lacking[rel.Version] {
		return seen
	}
	c := *seen
	c.lacking = maps.Clone(seen.lacking)
	c.lacking[rel.Version] = true
	return &c
}

// keep forgets the versions without an image that are named no more. It changes nothing
// that exists.
func (seen *sightings) keep(named version.Result) *sightings {
	if seen == nil || len(seen.lacking) == 0 {
		return seen
	}
	left := map[string]bool{}
	for _, rel := range named.Offered {
		left[rel.Version] = seen.lacking[rel.Version]
	}
	for _, x := range named.Rejected {
		left[x.Version] = seen.lacking[x.Version]
	}
	maps.DeleteFunc(left, func(_ string, lacks bool) bool { return !lacks })
	if len(left) == len(seen.lacking) {
		return seen
	}
	c := *seen
	c.lacking = left
	return &c
}

// has adds that a version has its image. It changes nothing that exists.
func (seen *sightings) has(rel version.Release, at time.Time) *sightings {
	if seen == nil || !seen.lacking[rel.Version] {
		return seen
	}
	c := *seen
	c.first, c.lacking = maps.Clone(seen.first), maps.Clone(seen.lacking)
	c.first[rel.Tag] = at
	delete(c.lacking, rel.Version)
	return &c
}

// ofAge refuses a version that GitHub names while its image is younger than
// spec.minAge: it is as old as its name, unless the registry was asked for it before,
// and had it not.
func (s *scanned) ofAge(o *observed, a *asker, rel version.Release, now time.Time) *version.Refusal {
	if _, found := s.images[rel.Tag]; found {
		s.seen = s.seen.has(rel, a.time)
	}
	young := s.young(o, rel, false, now)
	if young != nil {
		delete(s.images, rel.Tag)
	}
	return young
}

// young refuses a version that is younger than spec.minAge and was not offered
// before.
func (s *scanned) young(o *observed, rel version.Release, offered bool, now time.Time) *version.Refusal {
	if s.seen == nil || offered {
		return nil
	}
	first := s.seen.of(rel)
	from := first.Add(o.minAge)
	if first.IsZero() || !now.Before(from) {
		return nil
	}
	s.ripens(from)
	return &version.Refusal{Verdict: version.VerdictMinAge, Reason: fmt.Sprintf(
		"first seen at %s, and spec.minAge is %s: it is offered from %s", stamp(first), o.policy.Spec.MinAge, stamp(from))}
}

// holdsBack says that the image that a tag of an offered version names now is younger
// than spec.minAge, counted from the first look that found it: what is offered stays
// until then.
func (s *scanned) holdsBack(o *observed, a *asker, rel version.Release, before, now []v1alpha1.ReleaseImage) bool {
	if o.minAge == 0 || s.seen == nil || len(before) == 0 || slices.Equal(before, now) {
		return false
	}
	images := ""
	for _, x := range now {
		images += x.Image + "\n"
	}
	s.seen = s.seen.moves(rel.Tag, images, a.time)
	from := s.seen.moved[rel.Tag].first.Add(o.minAge)
	if !a.clock.Now().Before(from) {
		return false
	}
	s.ripens(from)
	return true
}

// ripens says that there is something to offer at a time.
func (s *scanned) ripens(at time.Time) {
	if s.ripe.IsZero() || at.Before(s.ripe) {
		s.ripe = at
	}
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
