package imagepolicy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/registry"
	"github.com/heighliner/heighliner/internal/version"
)

// maxRefusals bounds how many new tags a scan looks at that then turn out not to
// exist or not to be for the platform.
const maxRefusals = 100

// Waits after a failure that time may mend.
const (
	retryFirst = 15 * time.Second
	retryMost  = 5 * time.Minute
)

// scanned is what the registry said, and what is offered of it.
type scanned struct {
	// looked says that the registry was asked and answered.
	looked bool
	tags   int
	// truncated: there are more tags than were read.
	truncated bool
	checksum  string
	// time at which the registry was asked.
	time time.Time
	// result of the selection, and images by tag.
	result version.Result
	images map[string]v1alpha1.ReleaseImage
	// gone are held versions whose absence was proven twice.
	gone []version.Held
	// err of the list or of an image; what was offered stays.
	err error
	// retryAt is when to look again after err.
	retryAt time.Time
}

// scan asks the registry, and selects. It never fails as a whole: what cannot be
// read stays as it was.
func (r *Reconciler) scan(ctx context.Context, o *observed) scanned {
	s := scanned{images: map[string]v1alpha1.ReleaseImage{}}
	if o.selector == nil {
		return s
	}
	before := offeredBefore(o)
	tags := r.list(ctx, o, &s)
	missing := map[string]bool{}
	for tag := range before {
		if !slices.Contains(tags, tag) {
			missing[tag] = true
			tags = append(tags, tag) // a list that shrank proves nothing
		}
	}
	ranking := o.selector.Rank(tags)
	refused := map[string]version.Refusal{}
	for {
		s.result = ranking.Offer(o.held, refused)
		more := false
		for _, offered := range s.result.Offered {
			if _, done := s.images[offered.Tag]; done {
				continue
			}
			if refusal := r.resolve(ctx, o, &s, offered, before[offered.Tag]); refusal != nil {
				refused[offered.Tag] = *refusal
				more = true
			}
		}
		if !more || len(refused) >= maxRefusals {
			break
		}
	}
	r.prove(ctx, o, &s, missing, before, refused)
	if s.gone != nil {
		s.result = ranking.Offer(o.held, refused)
	}
	s.retryAt = r.retryAt(o, s.err)
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
func (r *Reconciler) list(ctx context.Context, o *observed, s *scanned) []string {
	if o.problem != nil {
		return nil
	}
	if src := o.policy.Spec.Source; src != nil && src.Pinned != nil {
		s.looked, s.tags, s.time = true, len(src.Pinned.Versions), r.clock.Now()
		return slices.Clone(src.Pinned.Versions)
	}
	list, err := r.scanner.List(ctx, o.request)
	if err != nil {
		s.err = err
		return nil
	}
	s.looked, s.tags, s.truncated, s.checksum, s.time = true, len(list.Tags), list.Truncated, list.Checksum, list.Time
	return slices.Clone(list.Tags)
}

// resolve finds the image of a tag that is to be offered. A tag that is new and
// does not exist, or not for the platform, is refused; one that was offered before
// keeps its image when the registry cannot say.
func (r *Reconciler) resolve(ctx context.Context, o *observed, s *scanned, rel version.Release, before v1alpha1.ReleaseImage) *version.Refusal {
	known := before.Digest != ""
	if !s.looked {
		s.images[rel.Tag] = before
		return nil
	}
	image, err := r.scanner.Resolve(ctx, o.request, rel.Tag)
	if err != nil {
		if known {
			s.images[rel.Tag] = before
			if !is(err, registry.NotFound) {
				s.fail(err)
			}
			return nil
		}
		if !is(err, registry.NotFound) {
			s.fail(err)
			return &version.Refusal{Verdict: version.VerdictExists, Reason: fmt.Sprintf("the image cannot be read: %s", err)}
		}
		return &version.Refusal{Verdict: version.VerdictExists, Reason: "the registry has no image of this tag"}
	}
	for _, p := range o.platforms {
		if !image.Supports(p) && !known {
			return &version.Refusal{Verdict: version.VerdictPlatform, Reason: fmt.Sprintf("the image is for %s and not for %s: build it for that, or set spec.platforms", strings.Join(image.Platforms, ", "), p)}
		}
	}
	s.images[rel.Tag] = v1alpha1.ReleaseImage{Image: o.policy.Spec.Image + ":" + rel.Tag + "@" + image.Digest, Digest: image.Digest}
	return nil
}

// prove looks whether tags that the list no longer holds are gone: tag and digest
// answer 404 while another image of the repository answers, in two scans (protocol
// rule 4).
func (r *Reconciler) prove(ctx context.Context, o *observed, s *scanned, missing map[string]bool, before map[string]v1alpha1.ReleaseImage, refused map[string]version.Refusal) {
	key := client.ObjectKeyFromObject(o.policy)
	if !s.looked || s.truncated || s.err != nil {
		return
	}
	witness := ""
	for _, rel := range s.result.Offered {
		if !missing[rel.Tag] && s.images[rel.Tag].Digest != "" {
			witness = s.images[rel.Tag].Digest
			break
		}
	}
	if witness == "" {
		return
	}
	for tag := range before {
		if !missing[tag] {
			r.proofs.withdraw(key, tag)
		}
	}
	for _, rel := range slices.Clone(s.result.Offered) {
		if !missing[rel.Tag] || before[rel.Tag].Digest == witness {
			continue
		}
		gone, err := r.scanner.Gone(ctx, o.request, rel.Tag, before[rel.Tag].Digest, witness)
		if err != nil {
			s.fail(err)
			continue
		}
		if !gone {
			r.proofs.withdraw(key, rel.Tag)
			continue
		}
		if r.proofs.add(key, rel.Tag, s.time) {
			refused[rel.Tag] = version.Refusal{Verdict: version.VerdictExists, Reason: "the image was removed from the registry"}
			s.gone = append(s.gone, version.Held{Group: rel.Slug, Version: rel.Version, Tag: rel.Tag})
		}
	}
}

func (s *scanned) fail(err error) {
	if s.err == nil {
		s.err = err
	}
}

func is(err error, kind registry.Kind) bool {
	var e *registry.Error
	return errors.As(err, &e) && e.Kind == kind
}

// retryAt is when to look again after an error: when the registry says so, sooner
// than the interval where time alone may mend it, else with the interval.
func (r *Reconciler) retryAt(o *observed, err error) time.Time {
	now := r.clock.Now()
	var e *registry.Error
	switch {
	case err == nil:
		return time.Time{}
	case errors.As(err, &e) && e.Kind == registry.RateLimited && e.RetryAt.After(now):
		return e.RetryAt
	case errors.As(err, &e) && !e.Kind.Transient():
		return now.Add(o.interval())
	}
	return now.Add(min(retryMost, max(retryFirst, o.interval()/4), o.interval()))
}

// proofs remembers which tags were absent at which scan. A restart forgets them,
// which costs one more scan.
type proofs struct {
	mu   sync.Mutex
	seen map[types.NamespacedName]map[string]time.Time
}

// add says whether the tag was absent in an earlier scan too.
func (p *proofs) add(key types.NamespacedName, tag string, scan time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.seen == nil {
		p.seen = map[types.NamespacedName]map[string]time.Time{}
	}
	if p.seen[key] == nil {
		p.seen[key] = map[string]time.Time{}
	}
	first, ok := p.seen[key][tag]
	if !ok {
		p.seen[key][tag] = scan
	}
	return ok && scan.After(first)
}

func (p *proofs) withdraw(key types.NamespacedName, tag string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.seen[key], tag)
}

func (p *proofs) forget(key types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.seen, key)
}
