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

// Bounds of one look.
const (
	// maxRefusals is how many new tags are looked at that then turn out not to exist
	// or not to be for the platform.
	maxRefusals = 100
	// maxFailures of the registry after which the look asks no more.
	maxFailures = 3
)

// scanned is what the registry said, and what is offered of it.
type scanned struct {
	// unasked says that the registry was not asked all that there is to know.
	unasked bool
	// answered is the request to look now that the look obeyed, where answered says
	// that there was a look.
	answered  bool
	requested string
	// looked says that the registry was asked and answered.
	looked bool
	// listed says that the tags came from the registry or from GitHub, and not from the
	// spec.
	listed bool
	// tags read, or pull requests.
	tags int
	// truncated: there are more tags than were read.
	truncated bool
	checksum  string
	// result of the selection, and images by tag.
	result version.Result
	images map[string][]v1alpha1.ReleaseImage
	// pulled is set where the source is pull requests; of result then only counts, what
	// is rejected, and what is beyond the limits.
	pulled *pulled
	// seen is when tags were first seen; nil where there is no spec.minAge.
	seen *sightings
	// ripe is when the first of the versions that are too young is old enough, or that the
	// clock of a build saw too early is there; zero: none.
	ripe time.Time
	// untimed counts the tags of which the time is to be known, and is not yet.
	untimed int
	// missing are tags that were offered and that the list no longer has, or of which
	// the registry has no image where the source is no registry.
	missing map[string]bool
	// untagged are versions whose tags are deleted while the images remain.
	untagged []string
	// gone are held versions whose absence was proven twice.
	gone []version.Held
	// excluded are offered versions that the specification takes back for what
	// their image is, or that their source marks as pre-releases now.
	excluded []version.Held
	// keys identifies the keys of spec.verify that the look has; "": none. rekeyed says that
	// they are not those that judged what is offered: that is judged once more.
	keys    string
	rekeyed bool
	// undecided says that of something that is offered it is not known yet whether the
	// specification admits what it is. The policy is not Ready until then.
	undecided bool
	// err is the first one of the list or of an image; what was offered stays.
	err error

	failures int
}

// fail keeps the first error. One that concerns a tag only is none of the
// registry's.
func (s *scanned) fail(err error) {
	s.failures++
	if s.err == nil {
		s.err = err
	}
}

// scan reads a look, or fills it where the asker has a scanner, and selects. It never
// fails as a whole: what cannot be read, or is not known yet, stays as it was. absent
// is what looks found absent so far, which is kept up to date, and seen when they
// first saw a tag.
func scan(o *observed, a *asker, absent map[string]time.Time, seen *sightings) scanned {
	if o.github != nil && o.github.source.PullRequests != nil {
		return scanPulls(o, a)
	}
	s := scanned{images: map[string][]v1alpha1.ReleaseImage{}, missing: map[string]bool{}}
	s.judgedBy(o, a)
	if o.selector == nil {
		return s
	}
	var names []version.Name
	if !o.quiet() {
		names = s.list(o, a)
	}
	before := offeredBefore(o)
	ranking := s.rank(o, a, names, before, seen)
	refused := map[string]version.Refusal{}
	s.offer(o, a, ranking, before, refused)
	if o.quiet() {
		return s
	}
	s.prove(o, a, absent, before)
	if len(s.gone) > 0 {
		for _, h := range s.gone {
			delete(before, h.Tag)
			refused[h.Tag] = *noImage()
		}
		s.result = s.rank(o, a, names, before, cmp.Or(s.seen, seen)).Offer(o.held, refused)
	}
	s.unasked = a.unasked
	return s
}

// judgedBy compares the keys of the look with those that judged what is offered.
func (s *scanned) judgedBy(o *observed, a *asker) {
	s.keys = a.access.keys.ID()
	s.rekeyed = s.keys != "" && s.keys != o.policy.Status.VerifiedBy
}

// noImage refuses a tag that the registry does not have.
func noImage() *version.Refusal {
	return refuse(version.VerdictExists, "the registry has no image of this tag")
}

// rank puts the names of the source through the filters, and with them what was
// offered before: a list that shrank proves nothing.
func (s *scanned) rank(o *observed, a *asker, names []version.Name, before map[string]v1alpha1.OfferedRelease, seen *sightings) *version.Ranking {
	if o.github != nil {
		for tag, rel := range before {
			names = append(names, version.Name{Tag: tag, Prerelease: rel.Level == v1alpha1.LevelCandidate})
		}
		ranking := o.selector.RankNames(names)
		if s.looked && o.minAge > 0 {
			s.seen = o.see(seen, ranking.Tags(), s.checksum, a.clock.Now())
		}
		return ranking
	}
	var tags []string
	if s.looked {
		tags = a.list.value.Tags
		if o.pinned != nil {
			tags = o.pinned
		}
		if o.minAge > 0 {
			s.seen = o.see(seen, tags, s.checksum, a.time)
		}
	}
	tags = slices.Clip(tags) // they are shared
	for tag := range before {
		if !slices.Contains(tags, tag) && (o.pinned == nil || !s.looked) {
			s.missing[tag] = true
			tags = append(tags, tag)
		}
	}
	if o.timed() {
		return s.rankTimed(o, a, tags, before)
	}
	return o.selector.Rank(tags)
}

// offeredBefore gives what the status offers, by tag, if its images are of the present
// repositories.
func offeredBefore(o *observed) map[string]v1alpha1.OfferedRelease {
	before := map[string]v1alpha1.OfferedRelease{}
	for _, rel := range o.policy.Status.Releases {
		if tag := tagOf(rel.Images); tag != "" && carried(o.policy, &rel) {
			before[tag] = rel
		}
	}
	return before
}

// list asks for the tags of a registry; of another source it gives the names that are
// known, and says whether a look has begun.
func (s *scanned) list(o *observed, a *asker) []version.Name {
	list, err := a.List()
	if errors.Is(err, errUnasked) {
		return nil
	}
	s.answered, s.requested = true, a.question.requested
	if err != nil {
		s.fail(err)
		return nil
	}
	s.looked, s.listed = true, o.pinned == nil
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

// offer selects, until every version that is offered has its images or was refused.
// A new tag beyond maxRefusals has neither, and is not offered.
func (s *scanned) offer(o *observed, a *asker, ranking *version.Ranking, before map[string]v1alpha1.OfferedRelease, refused map[string]version.Refusal) {
	now, useless := a.clock.Now(), 0
	for more := true; more; {
		s.result = ranking.Offer(o.held, refused)
		more = false
		for _, rel := range s.result.Offered {
			_, offered := before[rel.Tag]
			if young := s.young(o, rel, offered, now); young != nil && o.github == nil {
				refused[rel.Tag] = *young
				more = true
				continue
			}
			_, done := s.images[rel.Tag]
			if done || useless >= maxRefusals && !offered {
				continue
			}
			failures := s.failures
			refusal := s.resolve(o, a, rel, before[rel.Tag])
			a.tells(func(p *Progress) { p.Images++ })
			switch {
			case offered || o.github == nil:
			case refusal == nil:
				refusal = s.ofAge(o, a, rel, now)
			case lacksImage(refusal.Verdict) && s.failures == failures && failures < maxFailures:
				s.seen = s.seen.lacks(rel)
			}
			if refusal != nil {
				refused[rel.Tag] = *refusal
				useless++
				more = true
			}
		}
	}
	if o.github == nil {
		return
	}
	if s.looked {
		s.seen = s.seen.keep(s.result)
	}
	for _, x := range s.result.Rejected {
		if rel, offered := before[x.Tag]; offered && x.Verdict == version.VerdictLevel {
			s.excluded = append(s.excluded, version.Held{Group: rel.Group, Version: rel.SemVer.Version, Tag: x.Tag})
		}
	}
}

// resolve finds the images of a tag that is to be offered. A tag that is new and
// does not exist, or not for the platform, is refused; one that was offered before
// keeps its images when the registry has no better ones, or has moved it in some of
// several repositories and not yet in all, unless these are judged once more and the
// specification does not admit them. One of which nothing is known yet has no images.
func (s *scanned) resolve(o *observed, a *asker, rel version.Release, before v1alpha1.OfferedRelease) *version.Refusal {
	images, refusal := s.find(o, a, rel.Tag, o.vars(rel))
	switch {
	case refusal == nil && !halfMoved(before.Images, images) && !s.holdsBack(o, a, rel, before.Images, images):
		s.images[rel.Tag] = images
	case len(before.Images) > 0:
		if o.gated || s.rekeyed {
			again := s.judge(o, a, before.Images, o.vars(rel))
			if o.github != nil && rel.Name == "" && again != nil && again.Verdict == version.VerdictLabels {
				again = s.allSigned(o, a, before.Images) // GitHub does not name it now: what its labels are to be is not known
			}
			if final(again) {
				s.excluded = append(s.excluded, version.Held{Group: before.Group, Version: before.SemVer.Version, Tag: rel.Tag})
				return again
			}
			s.undecided = s.undecided || again != nil
		}
		s.images[rel.Tag] = before.Images
	case refusal == unknown:
	default:
		return refusal
	}
	return nil
}

// halfMoved says that a tag names another image than before in some of the
// repositories, and the same in others: those that are offered go in step.
func halfMoved(before, now []v1alpha1.ReleaseImage) bool {
	same := 0
	for i := range before {
		if before[i].Digest == now[i].Digest {
			same++
		}
	}
	return same > 0 && same < len(before)
}

// vars of a version, for the values of spec.match.labels.
func (o *observed) vars(rel version.Release) preview.Vars {
	v := preview.Vars{Tag: rel.Name}
	if o.github != nil {
		v.SHA = o.github.details[rel.Name].revision
	}
	return v
}

// prove looks whether tags that the list no longer holds are gone: tag and digest
// answer 404 while another image of the repository answers, in two looks (protocol
// rule 4).
func (s *scanned) prove(o *observed, a *asker, absent map[string]time.Time, before map[string]v1alpha1.OfferedRelease) {
	maps.DeleteFunc(absent, func(tag string, _ time.Time) bool { return !s.missing[tag] })
	witness := s.witness()
	if !s.looked || s.truncated || s.err != nil || witness == "" {
		return
	}
	for _, rel := range s.result.Offered {
		was, offered := before[rel.Tag]
		if !offered || !s.missing[rel.Tag] || was.Images[0].Digest == witness {
			continue
		}
		digest := was.Images[0].Digest
		gone, err := a.Gone(rel.Tag, digest, witness)
		if err == nil && !gone {
			gone, err = s.withoutTag(o, a, rel, witness)
		}
		if errors.Is(err, errUnasked) {
			return
		}
		if err != nil {
			s.fail(err)
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
		if a.time.After(first) {
			s.gone = append(s.gone, version.Held{Group: rel.Slug, Version: rel.Version, Tag: rel.Tag})
		}
	}
}

// withoutTag finds a version whose tag is deleted while its image remains. Whether that
// withdraws it is for the policy to say.
func (s *scanned) withoutTag(o *observed, a *asker, rel version.Release, witness string) (gone bool, err error) {
	deleted, err := a.Gone(rel.Tag, "", witness)
	if err != nil || !deleted || o.policy.Spec.Untagged == v1alpha1.UntaggedWithdraw {
		return deleted, err
	}
	s.untagged = append(s.untagged, rel.Version)
	return false, nil
}

// witness is the digest of an image that the list still names.
func (s *scanned) witness() string {
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
