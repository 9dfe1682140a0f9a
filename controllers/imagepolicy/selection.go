package imagepolicy

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/preview"
	"github.com/heighliner/heighliner/internal/registry"
	"github.com/heighliner/heighliner/internal/version"
)

// Bounds on one scan.
const (
	// maxRejections is the maximum number of requested tags that one scan rejects, for example because they
	// do not exist or because their images do not support the platform.
	maxRejections = 100
	// maxFailures is the number of registry failures after which the scan ends.
	maxFailures = 3
	// maxUnreadable is the number of images that the registry may refuse or fail to return before a registry
	// failure is assumed. maxUnreadableFirst is the corresponding number while the registry has not returned
	// any image.
	maxUnreadable, maxUnreadableFirst = 30, 5
)

// selection contains the registry's responses and the offered releases.
type selection struct {
	// incomplete reports whether some requests have not been made yet.
	incomplete bool
	// requestHandled reports whether there was a scan. If so, requested is the value of the annotation that
	// requested the scan, if any.
	requestHandled bool
	requested      string
	// scanned reports whether the registry responded.
	scanned bool
	// listed reports whether the tags are from the registry or from GitHub, and not from the
	// specification of the policy.
	listed bool
	// tags is the number of tags or pull requests that were read.
	tags int
	// truncated reports whether there are more tags than were read.
	truncated bool
	checksum  string
	// result is the result of the selection, and images contains the images by tag.
	result version.Result
	images map[string][]v1alpha1.ReleaseImage
	// pulled is set for pull requests. In that case, result contains only counts, rejections, and the
	// pull requests beyond the limits.
	pulled *pullRequests
	// firstSeen records when tags were first seen; nil without spec.minAge.
	firstSeen *firstSeen
	// offerableAt is the time at which the next version reaches spec.minAge, or at which its build
	// time is no longer in the future; zero if there is no such version.
	offerableAt time.Time
	// untimed is the number of tags whose build time is required but not known yet.
	untimed int
	// missing contains the offered tags that are no longer in the list or, if the source is not a
	// registry, that have no image in the registry.
	missing map[string]bool
	// untagged contains the versions whose tags were deleted but whose images remain.
	untagged []string
	// gone contains the offered versions whose absence was proved twice.
	gone []version.Held
	// excluded contains the offered versions that the specification withdraws because of the content
	// of their images, or because their source now marks them as pre-releases.
	excluded []version.Held
	// keys identifies the keys of spec.verify that the scan uses; empty if there are none. keysChanged
	// reports whether the offered versions were verified with other keys, and must be verified again.
	keys        string
	keysChanged bool
	// undecided reports whether the check of an offered version is incomplete. The policy is not Ready until
	// the check is complete.
	undecided bool
	registryErrors
}

// registryErrors are the registry's errors.
type registryErrors struct {
	// err is the first error that the registry returned for the list or for an image. Despite errors,
	// offered versions remain offered.
	err error
	// failures is the number of registry failures.
	failures int
	// unreadable is the number of images that the registry refused or failed to return, and unreadableErr
	// is the first error for such an image. readable reports whether the registry returned an image.
	unreadable    int
	unreadableErr error
	readable      bool
}

// noteImageError records that the registry did not return an image. If the registry returns other images,
// only this image is affected, and the scan continues with the next image.
func (s *registryErrors) noteImageError(err error) {
	most := maxUnreadable
	if !s.readable {
		most = maxUnreadableFirst
	}
	if !registry.IsOfOneImage(err) || s.unreadable >= most {
		s.noteError(err)
		return
	}
	s.unreadable++
	if s.unreadableErr == nil {
		s.unreadableErr = err
	}
}

// noteUnreadable records a registry error if the registry returned none of the requested images, for example
// because a credential permits listing tags but not reading images.
func (s *registryErrors) noteUnreadable() {
	if s.err == nil && !s.readable {
		s.err = s.unreadableErr
	}
}

// noteError counts a registry failure, and keeps the first error. For errors that may affect only one image, see
// noteImageError.
func (s *registryErrors) noteError(err error) {
	s.failures++
	if s.err == nil {
		s.err = err
	}
}

// selectReleases reads a scan record, or completes the record if the reader has a scanner, and selects
// releases. It never fails as a whole: releases whose images cannot be read, or are not known yet, do not
// change. absent contains the tags that earlier scans found to be absent, and is updated. seen records when
// earlier scans first found tags.
func selectReleases(o *observed, a *recordReader, absent map[string]time.Time, seen *firstSeen) selection {
	a.labels = o.matchedLabels()
	if o.github != nil && o.github.source.PullRequests != nil {
		return selectPullRequests(o, a)
	}
	s := selection{images: map[string][]v1alpha1.ReleaseImage{}, missing: map[string]bool{}}
	s.compareKeys(o, a)
	if o.selector == nil {
		return s
	}
	var names []version.Name
	if !o.paused() {
		names = s.list(o, a)
	}
	before := offeredBefore(o)
	ranking := s.rank(o, a, names, before, seen)
	refused := map[string]version.Refusal{}
	s.offer(o, a, ranking, before, refused)
	s.noteUnreadable()
	if o.paused() {
		return s
	}
	s.proveGone(o, a, absent, before)
	if len(s.gone) > 0 {
		for _, h := range s.gone {
			delete(before, h.Tag)
			refused[h.Tag] = *noImage()
		}
		s.result = s.rank(o, a, names, before, cmp.Or(s.firstSeen, seen)).Offer(o.inUse, refused)
	}
	s.incomplete = a.incomplete
	return s
}

// compareKeys compares the keys of the scan with the keys with which the offered versions were verified.
func (s *selection) compareKeys(o *observed, a *recordReader) {
	s.keys = a.access.keys.ID()
	s.keysChanged = s.keys != "" && s.keys != o.policy.Status.VerifiedBy
}

// noImage returns the rejection of a tag without an image in the registry.
func noImage() *version.Refusal {
	return rejectf(version.VerdictExists, "the registry has no image with this tag")
}

// rank applies the filters to the source's names and to the offered versions. It includes offered versions,
// because absence from the list does not prove that a version no longer exists.
func (s *selection) rank(o *observed, a *recordReader, names []version.Name, before map[string]v1alpha1.OfferedRelease, seen *firstSeen) *version.Ranking {
	if o.github != nil {
		for tag, rel := range before {
			names = append(names, version.Name{Tag: tag, Prerelease: rel.Level == v1alpha1.LevelCandidate})
		}
		ranking := o.selector.RankNames(names)
		if s.scanned && o.minAge > 0 {
			s.firstSeen = o.observeTags(seen, ranking.Tags(), s.checksum, a.clock.Now())
		}
		return ranking
	}
	var tags []string
	if s.scanned {
		tags = a.tags.value.Tags
		if o.pinned != nil {
			tags = o.pinned
		}
		if o.minAge > 0 {
			s.firstSeen = o.observeTags(seen, tags, s.checksum, a.time)
		}
	}
	tags = slices.Clip(tags) // the slice is shared
	for tag := range before {
		if !slices.Contains(tags, tag) && (o.pinned == nil || !s.scanned) {
			s.missing[tag] = true
			tags = append(tags, tag)
		}
	}
	if o.byBuildTime() {
		return s.rankTimed(o, a, tags, before)
	}
	return o.selector.Rank(tags)
}

// offeredBefore returns the offered releases by tag, if their images belong to the current
// repositories.
func offeredBefore(o *observed) map[string]v1alpha1.OfferedRelease {
	before := map[string]v1alpha1.OfferedRelease{}
	for _, rel := range o.policy.Status.Releases {
		if tag := tagOf(rel.Images); tag != "" && isCurrent(o.policy, &rel) {
			before[tag] = rel
		}
	}
	return before
}

// list requests a registry's tags. For a GitHub source, it returns the known names instead.
func (s *selection) list(o *observed, a *recordReader) []version.Name {
	list, err := a.List()
	if errors.Is(err, errNotScanned) {
		return nil
	}
	s.requestHandled, s.requested = true, a.query.requested
	if err != nil {
		s.noteError(err)
		return nil
	}
	s.scanned, s.listed = true, o.pinned == nil
	s.tags, s.truncated, s.checksum = len(list.Tags), list.Truncated, list.Checksum
	switch {
	case o.pinned != nil:
		s.tags = len(o.pinned)
	case o.github != nil:
		s.tags, s.checksum = len(o.github.names), checksum(o.github.names)
		return slices.Clone(o.github.names)
	}
	return nil
}

// offer selects releases until each selected release has images or is rejected. After maxRejections
// rejections, no further new tag is requested or offered. Tags that are too young are rejected without another pass over all
// tags, because there can be many of them. offer returns the number of passes.
func (s *selection) offer(o *observed, a *recordReader, ranking *version.Ranking, before map[string]v1alpha1.OfferedRelease, refused map[string]version.Refusal) (passes int) {
	now, useless := a.clock.Now(), 0
	refuse := func(tag, v string) *version.Refusal {
		_, offered := before[tag]
		young := s.tooYoung(o, version.Release{Tag: tag, Version: v}, offered, now)
		if o.github != nil {
			return nil // Here, tooYoung only records when the version can be offered. oldEnough rejects the version.
		}
		return young
	}
	for more := true; more; {
		passes++
		s.result = ranking.OfferUnless(o.inUse, refused, refuse)
		more = false
		for _, rel := range s.result.Offered {
			_, offered := before[rel.Tag]
			_, done := s.images[rel.Tag]
			if done || useless >= maxRejections && !offered {
				continue
			}
			failures, unreadable := s.failures, s.unreadable
			refusal := s.resolve(o, a, rel, before[rel.Tag])
			a.progressed(func(p *Progress) { p.Images++ })
			switch {
			case offered || o.github == nil:
			case refusal == nil:
				refusal = s.oldEnough(o, a, rel, now)
			case lacksImage(refusal.Verdict) && s.failures == failures && failures < maxFailures && s.unreadable == unreadable:
				s.firstSeen = s.firstSeen.withoutImageOf(rel)
			}
			if refusal != nil {
				refused[rel.Tag] = *refusal
				useless++
				more = true
			}
		}
	}
	if o.github == nil {
		return passes
	}
	if s.scanned {
		s.firstSeen = s.firstSeen.retain(s.result)
	}
	for _, x := range s.result.Rejected {
		if rel, offered := before[x.Tag]; offered && x.Verdict == version.VerdictLevel {
			s.excluded = append(s.excluded, version.Held{Group: rel.Group, Version: rel.SemVer.Version, Tag: x.Tag})
		}
	}
	return passes
}

// resolve finds a tag's images. A new tag is rejected if it does not exist, or if its image does not
// support the platform. An offered tag keeps its images if the registry has no usable new images for it, if
// the new images are too young, or if the tag moved in some repositories but not in others. If the kept
// images are checked again and rejected, the tag is rejected. A tag whose images are not known yet gets no
// images.
func (s *selection) resolve(o *observed, a *recordReader, rel version.Release, before v1alpha1.OfferedRelease) *version.Refusal {
	images, refusal := s.findImages(o, a, rel.Tag, o.vars(rel))
	switch {
	case refusal == nil && !halfMoved(before.Images, images) && !s.isDelayed(o, a, rel, before.Images, images):
		s.images[rel.Tag] = images
	case len(before.Images) > 0:
		if o.recheck || s.keysChanged {
			again := s.check(o, a, before.Images, o.vars(rel))
			if o.github != nil && rel.Name == "" && again != nil && again.Verdict == version.VerdictLabels {
				again = s.checkAllSigned(o, a, before.Images) // GitHub does not list the name now, so the expected labels are not known
			}
			if isFinal(again) {
				s.excluded = append(s.excluded, version.Held{Group: before.Group, Version: before.SemVer.Version, Tag: rel.Tag})
				return again
			}
			s.undecided = s.undecided || again != nil
		}
		s.images[rel.Tag] = before.Images
	case refusal == notScanned:
	default:
		return refusal
	}
	return nil
}

// halfMoved reports whether a tag moved in some repositories but not in others. All of a release's images
// must change together.
func halfMoved(before, now []v1alpha1.ReleaseImage) bool {
	same := 0
	for i := range before {
		if before[i].Digest == now[i].Digest {
			same++
		}
	}
	return same > 0 && same < len(before)
}

// vars returns a version's variables for spec.match.labels.
func (o *observed) vars(rel version.Release) preview.Vars {
	v := preview.Vars{Tag: rel.Name}
	if o.github != nil {
		v.SHA = o.github.details[rel.Name].revision
	}
	return v
}

// goneAfter is the minimum time between the two scans that prove the absence of a tag, even if a user
// requests a scan earlier. After this time, a push of the same tag should be complete, and the registry's replicas
// should no longer lag behind.
const goneAfter = 30 * time.Second

// proveGone checks whether tags that are no longer listed are gone. A tag is gone if, in two scans, the
// requests for the tag and for its digest return 404 while another image of the repository exists (protocol
// rule 4).
func (s *selection) proveGone(o *observed, a *recordReader, absent map[string]time.Time, before map[string]v1alpha1.OfferedRelease) {
	maps.DeleteFunc(absent, func(tag string, _ time.Time) bool { return !s.missing[tag] })
	witness := s.witness()
	if !s.scanned || s.truncated || s.err != nil || witness == "" {
		return
	}
	for _, rel := range s.result.Offered {
		was, offered := before[rel.Tag]
		if !offered || !s.missing[rel.Tag] {
			continue
		}
		var gone bool
		var err error
		if digest := was.Images[0].Digest; digest != witness { // The witness is an existing image. If the tag referred to this image, only the tag can be gone.
			gone, err = a.Gone(rel.Tag, digest, witness)
		}
		if err == nil && !gone {
			gone, err = s.withoutTag(o, a, rel, witness)
		}
		if errors.Is(err, errNotScanned) {
			return
		}
		if err != nil {
			s.noteError(err)
			return
		}
		if !gone {
			delete(absent, rel.Tag)
			continue
		}
		first, again := absent[rel.Tag]
		if !again {
			absent[rel.Tag] = a.time
			continue
		}
		if a.time.Sub(first) >= goneAfter {
			s.gone = append(s.gone, version.Held{Group: rel.Slug, Version: rel.Version, Tag: rel.Tag})
		}
	}
}

// withoutTag checks whether a version's tag was deleted but the image remains. spec.untagged defines whether
// such a version is withdrawn.
func (s *selection) withoutTag(o *observed, a *recordReader, rel version.Release, witness string) (gone bool, err error) {
	deleted, err := a.Gone(rel.Tag, "", witness)
	if err != nil || !deleted || o.policy.Spec.Untagged == v1alpha1.UntaggedWithdraw {
		return deleted, err
	}
	s.untagged = append(s.untagged, rel.Version)
	return false, nil
}

// witness returns the digest of an image whose tag is still listed.
func (s *selection) witness() string {
	for _, rel := range s.result.Offered {
		if images := s.images[rel.Tag]; !s.missing[rel.Tag] && len(images) > 0 {
			return images[0].Digest
		}
	}
	return ""
}

func is(err error, kind registry.Kind) bool {
	var e *registry.Error
	return errors.As(err, &e) && e.Kind == kind
}
