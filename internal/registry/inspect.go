package registry

import (
	"cmp"
	"container/list"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

const opInspect = "inspect image"

func (s *Scanner) inspect(ctx context.Context, r Request, digest, platform string) (Image, error) {
	t, err := s.target(opInspect, r)
	if err != nil {
		return Image{}, err
	}
	if _, err := v1.NewHash(digest); err != nil {
		return Image{}, noDigest(opInspect, r, digest)
	}
	return share(ctx, &s.flights, "inspect "+t.key+" "+digest+" "+platform, t.timeout, func(ctx context.Context) (Image, error) {
		image, err := s.whole(ctx, t, digest, platform)
		if err != nil {
			return Image{}, t.fail(opInspect, t.repo.Digest(digest).Name(), err)
		}
		return image, nil
	})
}

// whole returns the image with the given digest. For an index, the result includes the metadata of its image for
// the given platform.
func (s *Scanner) whole(ctx context.Context, t target, digest, platform string) (Image, error) {
	d, err := s.behind(ctx, t, digest)
	if err != nil || len(d.images) == 0 {
		return d.Image, err
	}
	inner, err := s.behind(ctx, t, d.imageFor(platform))
	if err != nil {
		return Image{}, err
	}
	image := d.Image
	image.Labels = labels(d.Labels, inner.Labels)
	image.Revision = image.Labels[revisionAnnotation]
	if image.Created.IsZero() {
		image.Created = inner.Created
	}
	return image, nil
}

// imageFor returns the digest of the image for a platform. If there is none, it returns the digest of the first image.
func (d described) imageFor(platform string) string {
	for _, c := range d.images {
		if supports([]string{c.platform}, platform) {
			return c.digest
		}
	}
	return d.images[0].digest
}

// These are the limits of Image.Labels.
const (
	maxLabels     = 256
	maxLabelBytes = 64 << 10 // total size of all keys and values, in bytes
	maxLabel      = 4 << 10  // size of the key and the value of one label, in bytes
)

// labels merges labels. If several sources have the same key, the value from the first source is used. If the labels
// exceed the limits, labels of the OCI image specification are kept first. The selection is deterministic.
func labels(sources ...map[string]string) map[string]string {
	all := map[string]string{}
	for _, source := range slices.Backward(sources) {
		maps.Copy(all, source)
	}
	keys := slices.SortedFunc(maps.Keys(all), func(a, b string) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b))
	})
	var kept map[string]string
	left := maxLabelBytes
	for _, key := range keys {
		size := len(key) + len(all[key])
		if size > maxLabel || size > left || len(kept) == maxLabels {
			continue
		}
		if kept == nil {
			kept = map[string]string{}
		}
		left -= size
		kept[key] = all[key]
	}
	return kept
}

func rank(label string) int {
	if strings.HasPrefix(label, ociAnnotations) {
		return 0
	}
	return 1
}

// imageCache caches the metadata of images and indexes by digest, up to a total of limit bytes, and evicts the least recently used entries. An entry
// that is larger than a sixteenth of the limit is not cached, so that a few images cannot evict all others.
type imageCache struct {
	limit int

	mu    sync.Mutex
	byKey map[string]*list.Element
	order list.List // contains *imageEntry values, the most recently used first
	size  int
}

type imageEntry struct {
	key   string
	image described
	size  int
}

func (c *imageCache) get(key string) (described, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.byKey[key]
	if !ok {
		return described{}, false
	}
	c.order.MoveToFront(e)
	return e.Value.(*imageEntry).image, true
}

func (c *imageCache) add(key string, d described) {
	e := &imageEntry{key, d, len(key) + d.bytes()}
	if e.size > c.limit/16 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byKey == nil {
		c.byKey = map[string]*list.Element{}
	}
	c.remove(c.byKey[key])
	c.byKey[key] = c.order.PushFront(e)
	for c.size += e.size; c.size > c.limit; {
		c.remove(c.order.Back())
	}
}

func (c *imageCache) remove(e *list.Element) {
	if e == nil {
		return
	}
	gone := c.order.Remove(e).(*imageEntry)
	delete(c.byKey, gone.key)
	c.size -= gone.size
}

// bytes returns the approximate size of the image in memory, in bytes.
func (d described) bytes() int {
	const entry, field = 512, 48 // memory overhead of the Go values, in addition to the text
	n := entry + len(d.Digest)
	for _, p := range d.Platforms {
		n += field + len(p)
	}
	for _, c := range d.images {
		n += 2*field + len(c.platform) + len(c.digest)
	}
	for key, value := range d.Labels {
		n += 2*field + len(key) + len(value)
	}
	return n
}
