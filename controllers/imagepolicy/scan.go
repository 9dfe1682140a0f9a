package imagepolicy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

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
	// asked says that this pass is the first of a look.
	asked bool
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

// scan asks the registry where the policy is due, and selects. It never fails as a
// whole: what cannot be read stays as it was.
func (r *Reconciler) scan(ctx context.Context, o *observed) scanned {
	s := scanned{images: map[string]v1alpha1.ReleaseImage{}}
	if o.selector == nil {
		return s
	}
	known := r.memory.of(client.ObjectKeyFromObject(o.policy))
	var l *look
	var tags []string
	if o.problem == nil && !o.policy.Spec.Suspend {
		l = known.begin(o.question, o.policy.Status.LastHandledRequest, r.scanner, r.clock)
		s.asked = l.due.IsZero()
		tags = s.list(ctx, l, o.pinned)
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
	s.offer(ctx, o, l, ranking, before, refused)
	if l == nil {
		return s
	}
	s.prove(ctx, l, known, missing, before)
	if len(s.gone) > 0 {
		tags = slices.DeleteFunc(tags, func(tag string) bool {
			return slices.ContainsFunc(s.gone, func(h version.Held) bool { return h.Tag == tag })
		})
		s.result = o.selector.Rank(tags).Offer(o.held, refused)
	}
	l.close(s.err)
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
func (s *scanned) list(ctx context.Context, l *look, pinned []string) []string {
	list, err := l.List(ctx, pinned)
	if err != nil {
		s.fail(err)
		return nil
	}
	s.looked, s.listed = true, pinned == nil
	s.tags, s.truncated, s.checksum = len(list.Tags), list.Truncated, list.Checksum
	return slices.Clone(list.Tags)
}

// offer selects, until every version that is offered has an image or was refused.
// A new tag beyond maxRefusals has neither, and is not offered.
func (s *scanned) offer(ctx context.Context, o *observed, l *look, ranking *version.Ranking, before map[string]v1alpha1.ReleaseImage, refused map[string]version.Refusal) {
	for more := true; more; {
		s.result = ranking.Offer(o.held, refused)
		more = false
		for _, rel := range s.result.Offered {
			_, done := s.images[rel.Tag]
			if done || len(refused) >= maxRefusals && before[rel.Tag].Digest == "" {
				continue
			}
			if refusal := s.resolve(ctx, o, l, rel.Tag, before[rel.Tag]); refusal != nil {
				refused[rel.Tag] = *refusal
				more = true
			}
		}
	}
}

// resolve finds the image of a tag that is to be offered. A tag that is new and
// does not exist, or not for the platform, is refused; one that was offered before
// keeps its image when the registry has no better one.
func (s *scanned) resolve(ctx context.Context, o *observed, l *look, tag string, before v1alpha1.ReleaseImage) *version.Refusal {
	image, refusal := s.ask(ctx, o, l, tag)
	switch {
	case refusal == nil:
		s.images[tag] = image
	case before.Digest != "":
		s.images[tag] = before
	default:
		return refusal
	}
	return nil
}

func (s *scanned) ask(ctx context.Context, o *observed, l *look, tag string) (v1alpha1.ReleaseImage, *version.Refusal) {
	refuse := func(v version.Verdict, format string, args ...any) (v1alpha1.ReleaseImage, *version.Refusal) {
		return v1alpha1.ReleaseImage{}, &version.Refusal{Verdict: v, Reason: fmt.Sprintf(format, args...)}
	}
	if !s.looked || s.failures >= maxFailures {
		return refuse(version.VerdictExists, "the registry could not be asked for the image")
	}
	image, err := l.Resolve(ctx, tag)
	switch {
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
func (s *scanned) prove(ctx context.Context, l *look, known *remembered, missing map[string]bool, before map[string]v1alpha1.ReleaseImage) {
	for tag := range known.absent {
		if !missing[tag] {
			delete(known.absent, tag)
		}
	}
	witness := s.witness(missing)
	if !s.looked || s.truncated || s.err != nil || witness == "" {
		return
	}
	for _, rel := range s.result.Offered {
		digest := before[rel.Tag].Digest
		if !missing[rel.Tag] || digest == witness {
			continue
		}
		gone, err := l.Gone(ctx, rel.Tag, digest, witness)
		if err != nil {
			s.fail(err)
			return
		}
		if !gone {
			delete(known.absent, rel.Tag)
			continue
		}
		first, again := known.absent[rel.Tag]
		if !again {
			known.absent[rel.Tag] = l.time
			continue
		}
		if l.time.After(first) {
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
