package imagepolicy

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"time"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/version"
)

// firstSeen records the times at which a source's tags were first seen, for spec.minAge. It does not use the
// times in images, because they can be forged.
type firstSeen struct {
	origin origin
	// time is the time of the latest list, sum is the hash of that list, and list contains the hash of each of its tags.
	time time.Time
	sum  uint64
	list seenTags
	// reported contains the versions that, according to the status when this process started, were too young, and
	// the times at which they were first seen.
	reported map[string]time.Time
	// withoutImage contains the versions from GitHub that had no image in the last scan.
	withoutImage map[string]bool
	// moved contains the new image of each tag that no longer refers to the offered image.
	moved map[string]firstSeenImage
	// base is a time by which all tags without a recorded time existed; zero before the first scan.
	base time.Time
}

// seenTag is a tag in a list. first is the time at which the tag was first seen, in nanoseconds since 1970; 0 if
// the tag was in the first list or is old enough.
type seenTag struct {
	hash  uint64
	first int64
}

// seenTags are the tags of a list, sorted by hash. They contain hashes instead of the tags, because seenTags are kept
// after the list itself is removed, and a list can take up 17 MB. A registry cannot choose tags with equal hashes,
// because it does not know the seed.
type seenTags []seenTag

var tagSeed = maphash.MakeSeed()

func hashTag(tag string) uint64 { return maphash.String(tagSeed, tag) }

// hashTags returns the hash of a whole list. Line breaks separate the tags, because no tag contains one.
func hashTags(tags []string) uint64 {
	var h maphash.Hash
	h.SetSeed(tagSeed)
	for _, tag := range tags {
		h.WriteString(tag)
		h.WriteByte('\n')
	}
	return h.Sum64()
}

// newSeenTags returns tags without times.
func newSeenTags(tags []string) seenTags {
	list := make(seenTags, len(tags))
	for i, tag := range tags {
		list[i].hash = hashTag(tag)
	}
	slices.SortFunc(list, func(a, b seenTag) int { return cmp.Compare(a.hash, b.hash) })
	return list
}

// find returns the index of a hash.
func (list seenTags) find(hash uint64) (int, bool) {
	return slices.BinarySearchFunc(list, hash, func(x seenTag, hash uint64) int { return cmp.Compare(x.hash, hash) })
}

// of returns the time at which a tag was first seen. It returns false for a tag without a time.
func (list seenTags) of(tag string) (time.Time, bool) {
	i, known := list.find(hashTag(tag))
	if !known || list[i].first == 0 {
		return time.Time{}, false
	}
	return time.Unix(0, list[i].first).UTC(), true
}

// firstSeenImage is a tag's image with the time at which it was first seen.
type firstSeenImage struct {
	image string
	first time.Time
}

// withMoved returns a copy that records a tag whose image is not the offered image.
func (seen *firstSeen) withMoved(tag, image string, at time.Time) *firstSeen {
	if seen == nil || seen.moved[tag].image == image {
		return seen
	}
	c := *seen
	c.moved = maps.Clone(seen.moved)
	if c.moved == nil {
		c.moved = map[string]firstSeenImage{}
	}
	c.moved[tag] = firstSeenImage{image, at}
	return &c
}

// movedAgain returns a copy that records the tags that had already moved and whose images now have another
// build time. It does so regardless of whether these tags are offered.
func (seen *firstSeen) movedAgain(times map[string]version.Timed, at time.Time) *firstSeen {
	if seen == nil {
		return nil
	}
	for tag, m := range seen.moved {
		if now := times[tag].Version; now != "" && now != m.image && (m.image == "" || isTime(m.image)) {
			seen = seen.withMoved(tag, now, at)
		}
	}
	return seen
}

// withoutMoved returns a copy without the record of a tag that moved. The tag moved back to the
// offered image, or its new image is now offered. If the tag moves to another image later, that image counts as new.
func (seen *firstSeen) withoutMoved(tag string) *firstSeen {
	if _, moved := seen.moved[tag]; !moved {
		return seen
	}
	c := *seen
	c.moved = maps.Clone(seen.moved)
	delete(c.moved, tag)
	return &c
}

// observeTags returns a copy of the previous records, with the records of a list of tags added. Both a scan and
// the reconcile that reads the results of the scan call observeTags for the list.
//
// Tags in the very first list count as old enough. Otherwise, no version could be offered until spec.minAge had
// passed. An empty list from GitHub is not considered the first list, because it may date from before GitHub was
// polled for the names. After a restart, offered versions count as old enough, and versions that are too young
// according to the status keep their times from the status. For all other tags, the age is measured from the
// last change to the list if the list is the same as before the restart, and otherwise from now. A restart may
// therefore delay a version, but never causes an early offer.
func (o *observed) observeTags(before *firstSeen, tags []string, checksum string, at time.Time) *firstSeen {
	sum := hashTags(tags)
	if before != nil && before.origin == o.query.origin && before.time.Equal(at) && before.sum == sum {
		return before
	}
	if before == nil && len(tags) == 0 && o.github != nil {
		return nil // GitHub has not been polled for the names yet
	}
	seen := &firstSeen{origin: o.query.origin, time: at, sum: sum, list: newSeenTags(tags), withoutImage: map[string]bool{}}
	if before != nil && before.origin == seen.origin {
		seen.reported, seen.base, seen.withoutImage = before.reported, before.base, before.withoutImage
		seen.moved = maps.Clone(before.moved)
		maps.DeleteFunc(seen.moved, func(tag string, _ firstSeenImage) bool {
			_, there := slices.BinarySearch(tags, tag)
			return !there
		})
		for i := range seen.list {
			t := at
			if j, known := before.list.find(seen.list[i].hash); known {
				if before.list[j].first == 0 {
					continue
				}
				t = earlier(time.Unix(0, before.list[j].first).UTC(), at) // The clock may have been ahead.
			}
			switch {
			case at.Sub(t) <= o.minAge:
				seen.list[i].first = t.UnixNano()
			case t.After(seen.base): // The tag is old enough, even if spec.minAge is increased later.
				seen.base = t
			}
		}
		return seen
	}
	st := &o.policy.Status
	if st.Scan == nil || (st.ObservedGeneration != o.policy.Generation || o.github != nil && st.Scan.Tags == 0) && len(offeredBefore(o)) == 0 {
		return seen
	}
	seen.base, seen.reported = at, map[string]time.Time{}
	if st.Scan.Checksum == checksum {
		seen.base = earlier(st.Scan.ChangedTime.Time, at)
	}
	for _, c := range st.Candidates {
		switch {
		case c.FirstSeenTime != nil:
			seen.reported[c.Version] = earlier(c.FirstSeenTime.Time, at)
		case o.github != nil && lacksImage(version.Verdict(c.Verdict)):
			seen.withoutImage[c.Version] = true
		}
	}
	return seen
}

// earlier returns the earlier of two times.
func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// of returns the time at which a version was first seen; zero before the first scan.
func (seen *firstSeen) of(rel version.Release) time.Time {
	if m, ok := seen.moved[rel.Tag]; ok && m.image == rel.Version {
		return m.first
	}
	if t, ok := seen.list.of(rel.Tag); ok {
		return t
	}
	if t, ok := seen.reported[rel.Version]; ok {
		return t
	}
	return seen.base
}

// lacksImage reports whether a tag is rejected because it has no image yet.
func lacksImage(v version.Verdict) bool {
	return v == version.VerdictExists || v == version.VerdictPlatform
}

// withoutImageOf returns a copy that records that a version has no image.
func (seen *firstSeen) withoutImageOf(rel version.Release) *firstSeen {
	if seen == nil || seen.withoutImage[rel.Version] {
		return seen
	}
	c := *seen
	c.withoutImage = maps.Clone(seen.withoutImage)
	c.withoutImage[rel.Version] = true
	return &c
}

// retain returns a copy without the records of versions that are no longer listed.
func (seen *firstSeen) retain(named version.Result) *firstSeen {
	if seen == nil || len(seen.withoutImage) == 0 {
		return seen
	}
	left := map[string]bool{}
	for _, rel := range named.Offered {
		left[rel.Version] = seen.withoutImage[rel.Version]
	}
	for _, x := range named.Rejected {
		left[x.Version] = seen.withoutImage[x.Version]
	}
	maps.DeleteFunc(left, func(_ string, lacks bool) bool { return !lacks })
	if len(left) == len(seen.withoutImage) {
		return seen
	}
	c := *seen
	c.withoutImage = left
	return &c
}

// withImage returns a copy that records when an image was first seen for a version that had no image before.
func (seen *firstSeen) withImage(rel version.Release, at time.Time) *firstSeen {
	if seen == nil || !seen.withoutImage[rel.Version] {
		return seen
	}
	c := *seen
	c.list, c.withoutImage = slices.Clone(seen.list), maps.Clone(seen.withoutImage)
	x := seenTag{hashTag(rel.Tag), at.UnixNano()}
	if i, known := c.list.find(x.hash); known {
		c.list[i] = x
	} else {
		c.list = slices.Insert(c.list, i, x)
	}
	delete(c.withoutImage, rel.Version)
	return &c
}

// oldEnough rejects a version from GitHub whose image is younger than spec.minAge. The image is considered
// to be as old as the GitHub release or tag, unless an earlier scan did not find the image.
func (s *selection) oldEnough(o *observed, a *recordReader, rel version.Release, now time.Time) *version.Refusal {
	if _, found := s.images[rel.Tag]; found {
		s.firstSeen = s.firstSeen.withImage(rel, a.time)
	}
	young := s.tooYoung(o, rel, false, now)
	if young != nil {
		delete(s.images, rel.Tag)
	}
	return young
}

// tooYoung rejects a version that is younger than spec.minAge and was not offered before.
func (s *selection) tooYoung(o *observed, rel version.Release, offered bool, now time.Time) *version.Refusal {
	if s.firstSeen == nil || offered {
		return nil
	}
	first := s.firstSeen.of(rel)
	from := first.Add(o.minAge)
	if first.IsZero() || !now.Before(from) {
		return nil
	}
	s.offerAt(from)
	return &version.Refusal{Verdict: version.VerdictMinAge, Reason: fmt.Sprintf(
		"the version was first seen at %s, and is offered from %s, because spec.minAge is %s", formatTime(first), formatTime(from), o.policy.Spec.MinAge)}
}

// isDelayed reports whether the new image of an offered version's tag is younger than spec.minAge, measured
// from the first scan that found the image. While the image is too young, the offer does not change.
func (s *selection) isDelayed(o *observed, a *recordReader, rel version.Release, before, now []v1alpha1.ReleaseImage) bool {
	if o.minAge == 0 || s.firstSeen == nil || len(before) == 0 {
		return false
	}
	if slices.Equal(before, now) {
		s.firstSeen = s.firstSeen.withoutMoved(rel.Tag)
		return false
	}
	images := ""
	for _, x := range now {
		images += x.Image + "\n"
	}
	s.firstSeen = s.firstSeen.withMoved(rel.Tag, images, a.time)
	from := s.firstSeen.moved[rel.Tag].first.Add(o.minAge)
	if !a.clock.Now().Before(from) {
		return false
	}
	s.offerAt(from)
	return true
}

// offerAt records the time from which a version or image can be offered. Only the earliest such time is kept.
func (s *selection) offerAt(at time.Time) {
	if s.offerableAt.IsZero() || at.Before(s.offerableAt) {
		s.offerableAt = at
	}
}

func formatTime(t time.Time) string { return t.UTC().Format(time.RFC3339) }
