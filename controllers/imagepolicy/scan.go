package imagepolicy

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/heighliner/heighliner/apis/v1alpha1"
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
	// listed says that the tags came from the registry, and not from the spec.
	listed bool
	// tags read.
	tags int
	// truncated: there are more tags than were read.
	truncated bool
	checksum  string
	// result of the selection, and images by tag.
	result version.Result
	images map[string]v1alpha1.ReleaseImage
	// seen is when tags were first seen; nil where there is no spec.minAge.
	seen *sightings
	// ripe is when the first of the versions that are too young is old enough; zero:
	// none is too young.
	ripe time.Time
	// gone are held versions whose absence was proven twice.
	gone []version.Held
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
	s := scanned{images: map[string]v1alpha1.ReleaseImage{}}
	if o.selector == nil {
		return s
	}
	var tags []string
	if !o.quiet() {
		tags = s.list(a, o.pinned == nil)
	}
	if s.looked && o.minAge > 0 {
		s.seen = o.see(seen, a.list.value.Tags, s.checksum, a.time)
	}
	before := offeredBefore(o)
	missing := map[string]bool{}
	for tag := range before {
		if !slices.Contains(tags, tag) && (o.pinned == nil || !s.looked) {
			missing[tag] = true
			tags = append(tags, tag) // a list that shrank proves nothing
		}
	}
	ranking := o.selector.Rank(tags)
	refused := map[string]version.Refusal{}
	s.offer(o, a, ranking, before, refused)
	if o.quiet() {
		return s
	}
	s.prove(a, absent, missing, before)
	if len(s.gone) > 0 {
		tags = slices.DeleteFunc(tags, func(tag string) bool {
			return slices.ContainsFunc(s.gone, func(h version.Held) bool { return h.Tag == tag })
		})
		s.result = o.selector.Rank(tags).Offer(o.held, refused)
	}
	s.unasked = a.unasked
	return s
}

// offeredBefore gives the images that the status offers, by tag, if they are of
// the present repository.
func offeredBefore(o *observed) map[string]v1alpha1.ReleaseImage {
	before := map[string]v1alpha1.ReleaseImage{}
	for _, rel := range o.policy.Status.Releases {
		tag := tagOf(rel.Images)
		if tag != "" && strings.HasPrefix(rel.Images[0].Image, o.policy.Spec.Image+":"+tag+"@") {
			before[tag] = rel.Images[0]
		}
	}
	return before
}

// list gives the tags of the source.
func (s *scanned) list(a *asker, fromRegistry bool) []string {
	list, err := a.List()
	if errors.Is(err, errUnasked) {
		return nil
	}
	s.answered, s.requested = true, a.question.requested
	if err != nil {
		s.fail(err)
		return nil
	}
	s.looked, s.listed = true, fromRegistry
	s.tags, s.truncated, s.checksum = len(list.Tags), list.Truncated, list.Checksum
	return slices.Clone(list.Tags)
}

// offer selects, until every version that is offered has an image or was refused.
// A new tag beyond maxRefusals has neither, and is not offered.
func (s *scanned) offer(o *observed, a *asker, ranking *version.Ranking, before map[string]v1alpha1.ReleaseImage, refused map[string]version.Refusal) {
	now, useless := a.clock.Now(), 0
	for more := true; more; {
		s.result = ranking.Offer(o.held, refused)
		more = false
		for _, rel := range s.result.Offered {
			offered := before[rel.Tag].Digest != ""
			if young := s.young(o, rel, offered, now); young != nil {
				refused[rel.Tag] = *young
				more = true
				continue
			}
			_, done := s.images[rel.Tag]
			if done || useless >= maxRefusals && !offered {
				continue
			}
			if refusal := s.resolve(o, a, rel.Tag, before[rel.Tag]); refusal != nil {
				refused[rel.Tag] = *refusal
				useless++
				more = true
			}
		}
	}
}

// resolve finds the image of a tag that is to be offered. A tag that is new and
// does not exist, or not for the platform, is refused; one that was offered before
// keeps its image when the registry has no better one. One of which nothing is known
// yet has no image.
func (s *scanned) resolve(o *observed, a *asker, tag string, before v1alpha1.ReleaseImage) *version.Refusal {
	image, refusal := s.ask(o, a, tag)
	switch {
	case refusal == nil:
		s.images[tag] = image
	case before.Digest != "":
		s.images[tag] = before
	case refusal == unknown:
	default:
		return refusal
	}
	return nil
}

// unknown is no refusal: the registry was not asked yet.
var unknown = &version.Refusal{}

func (s *scanned) ask(o *observed, a *asker, tag string) (v1alpha1.ReleaseImage, *version.Refusal) {
	refuse := func(v version.Verdict, format string, args ...any) (v1alpha1.ReleaseImage, *version.Refusal) {
		return v1alpha1.ReleaseImage{}, &version.Refusal{Verdict: v, Reason: fmt.Sprintf(format, args...)}
	}
	if !s.looked || s.failures >= maxFailures {
		return refuse(version.VerdictExists, "the registry could not be asked for the image")
	}
	image, err := a.Resolve(tag)
	switch {
	case errors.Is(err, errUnasked):
		return v1alpha1.ReleaseImage{}, unknown
	case is(err, registry.NotFound):
		return refuse(version.VerdictExists, "the registry has no image of this tag")
	case is(err, registry.Malformed):
		return refuse(version.VerdictExists, "%s", err)
	case err != nil:
		s.fail(err)
		return refuse(version.VerdictExists, "the image cannot be read: %s", err)
	}
	for _, p := range o.platforms {
		if !image.Supports(p) {
			return refuse(version.VerdictPlatform, "the image is for %s and not for %s: build it for that, or set spec.platforms", strings.Join(image.Platforms, ", "), p)
		}
	}
	return v1alpha1.ReleaseImage{Image: o.policy.Spec.Image + ":" + tag + "@" + image.Digest, Digest: image.Digest}, nil
}

// prove looks whether tags that the list no longer holds are gone: tag and digest
// answer 404 while another image of the repository answers, in two looks (protocol
// rule 4).
func (s *scanned) prove(a *asker, absent map[string]time.Time, missing map[string]bool, before map[string]v1alpha1.ReleaseImage) {
	maps.DeleteFunc(absent, func(tag string, _ time.Time) bool { return !missing[tag] })
	witness := s.witness(missing)
	if !s.looked || s.truncated || s.err != nil || witness == "" {
		return
	}
	for _, rel := range s.result.Offered {
		digest := before[rel.Tag].Digest
		if !missing[rel.Tag] || digest == witness {
			continue
		}
		gone, err := a.Gone(rel.Tag, digest, witness)
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

// witness is the digest of an image that the list still names.
func (s *scanned) witness(missing map[string]bool) string {
	for _, rel := range s.result.Offered {
		if digest := s.images[rel.Tag].Digest; !missing[rel.Tag] && digest != "" {
			return digest
		}
	}
	return ""
}

func is(err error, kind registry.Kind) bool {
	var e *registry.Error
	return errors.As(err, &e) && e.Kind == kind
}
