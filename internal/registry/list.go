package registry

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"

	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

const opList = "list tags of"

// pageSize is the page size of the first request. If a registry rejects this size, the request is
// repeated without a page size, and the registry chooses the size.
const pageSize = 1000

func (s *Scanner) list(ctx context.Context, r Request) (Scan, error) {
	t, err := s.target(opList, r)
	if err != nil {
		return Scan{}, err
	}
	limit := tagLimit{max: cmp.Or(r.MaxTags, DefaultMaxTags), counts: r.Counts}
	// A complete list is valid for all callers. A truncated list is valid only for callers with the same limit.
	whole := "list " + t.key
	cut := fmt.Sprintf("%s %d %s", whole, limit.max, r.CountsAs)
	if scan, ok := s.cachedList(r, whole, cut); ok {
		return limit.apply(scan), nil
	}
	scan, err := share(ctx, &s.flights, cut, t.timeout, func(ctx context.Context) (Scan, error) {
		if scan, ok := s.cachedList(r, whole, cut); ok { // The list was read for another caller in the meantime.
			return scan, nil
		}
		scan, err := s.readList(ctx, t, limit, whole)
		if err != nil {
			return Scan{}, t.fail(opList, t.repo.Name(), err)
		}
		key := whole
		if scan.Truncated {
			key = cut
		}
		s.lists.add(key, scan)
		return scan, nil
	})
	return limit.apply(scan), err
}

// readList reads the list. If the ETag shows that the cached complete list has not changed, readList returns the cached
// list with the current time.
func (s *Scanner) readList(ctx context.Context, t target, limit tagLimit, whole string) (Scan, error) {
	scan := Scan{Time: s.clock.Now()}
	last, known := s.lists.get(whole)
	listing := &listing{repo: t.repo}
	if known {
		listing.known = last.etag
	}
	var err error
	scan.Tags, scan.Truncated, err = s.readTags(withListing(ctx, listing), t, limit)
	if errors.Is(err, errNotModified) {
		last.Time = scan.Time
		return last, nil
	}
	if err != nil {
		return Scan{}, err
	}
	scan.Checksum = checksum(scan.Tags)
	if !scan.Truncated && listing.pages == 1 {
		scan.etag = listing.etag
	}
	return scan, nil
}

func (s *Scanner) cachedList(r Request, keys ...string) (Scan, bool) {
	for _, key := range keys {
		if scan, ok := s.lists.get(key); ok && s.clock.Since(scan.Time) < r.MaxAge {
			return scan, true
		}
	}
	return Scan{}, false
}

// maxRead is the maximum number of tags that are read from one list, including tags that do not
// count toward the limit of the request.
const maxRead = 100_000

// tagLimit limits the number of tags for which counts returns true. If counts is nil, all tags count toward the limit.
type tagLimit struct {
	max    int
	counts func(tag string) bool
}

func (l tagLimit) counted(tag string) bool { return l.counts == nil || l.counts(tag) }

// apply returns the scan without the tags that exceed the limit. It does not change the list of tags, which is shared.
func (l tagLimit) apply(scan Scan) Scan {
	if len(scan.Tags) <= l.max {
		return scan
	}
	kept, counted := make([]string, 0, len(scan.Tags)), 0
	for _, tag := range scan.Tags {
		if l.counted(tag) {
			if counted++; counted > l.max {
				continue
			}
		}
		kept = append(kept, tag)
	}
	if counted > l.max {
		scan.Tags, scan.Truncated, scan.Checksum = slices.Clip(kept), true, checksum(kept)
	}
	return scan
}

// listCache caches lists up to a total of limit bytes, and evicts the oldest lists.
type listCache struct {
	limit int

	mu    sync.Mutex
	scans map[string]Scan
	size  int
}

func (c *listCache) get(key string) (Scan, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	scan, ok := c.scans[key]
	return scan, ok
}

func (c *listCache) add(key string, scan Scan) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.scans == nil {
		c.scans = map[string]Scan{}
	}
	c.remove(key)
	c.scans[key] = scan
	c.size += weight(scan)
	for c.size > c.limit {
		oldest := ""
		for k, s := range c.scans {
			if oldest == "" || s.Time.Before(c.scans[oldest].Time) {
				oldest = k
			}
		}
		c.remove(oldest)
	}
}

func (c *listCache) remove(key string) {
	if scan, ok := c.scans[key]; ok {
		c.size -= weight(scan)
		delete(c.scans, key)
	}
}

// weight returns the approximate size of a list in bytes.
func weight(s Scan) int {
	n := 512
	for _, tag := range s.Tags {
		n += len(tag) + 16
	}
	return n
}

// readTags reads pages into the listing in ctx until it reaches the end of the list or a limit. It omits names
// that are not valid tags, because no image can be pulled with such a name.
func (s *Scanner) readTags(ctx context.Context, t target, limit tagLimit) (tags []string, truncated bool, err error) {
	pages, size, err := t.login.pages(ctx, t)
	if err != nil {
		return nil, false, err
	}
	found, seen, counted := map[string]bool{}, map[string]bool{}, 0
	for n := 0; pages.HasNext(); n++ {
		if n == s.options.MaxPages || counted > limit.max || len(found) >= maxRead {
			truncated = true
			break
		}
		page, err := pages.Next(ctx)
		if err != nil {
			return nil, false, err
		}
		named := listingIn(ctx).named
		for _, tag := range listingIn(ctx).tags {
			if !found[tag] {
				found[tag] = true
				if limit.counted(tag) {
					counted++
				}
			}
		}
		if page.Next != "" && seen[page.Next] {
			return nil, false, errPageLoop
		}
		seen[page.Next] = true
		switch full := size > 0 && named >= size && page.Next == ""; {
		case full && n == 0: // Some registries truncate the list and send no link to the rest.
			again, err := t.login.open(ctx, t, 0)
			var answer *transport.Error
			if errors.As(err, &answer) {
				truncated = true
			} else if err != nil {
				return nil, false, err
			} else {
				pages = again
			}
		case size > 0 && n == 1 && page.Next == "" && len(seen) == 1 && named < size:
			truncated = true // the second request returned fewer tags than the first, and no link to another page
		}
	}
	tags = make([]string, 0, len(found))
	for tag := range found {
		tags = append(tags, tag)
	}
	slices.Sort(tags)
	return tags, truncated, nil
}

// pages requests the first page of the list. If the registry rejects the page size, pages repeats the request without a page size. size is the
// requested page size; 0 means none.
func (l *login) pages(ctx context.Context, t target) (pages *remote.Lister, size int, err error) {
	l.mu.Lock()
	if !l.noPageSize {
		size = pageSize
	}
	l.mu.Unlock()
	pages, err = l.open(ctx, t, size)
	if size == 0 || !refusesPageSize(err) {
		return pages, size, err
	}
	pages, err = l.open(ctx, t, 0)
	if err == nil {
		l.mu.Lock()
		l.noPageSize = true
		l.mu.Unlock()
	}
	return pages, 0, err
}

func (l *login) open(ctx context.Context, t target, size int) (*remote.Lister, error) {
	ctx, puller, err := t.puller(ctx, size)
	if err != nil {
		return nil, err
	}
	return puller.Lister(ctx, t.repo)
}

func refusesPageSize(err error) bool {
	var answer *transport.Error
	return errors.As(err, &answer) && (answer.StatusCode == http.StatusBadRequest || answer.StatusCode == http.StatusRequestEntityTooLarge)
}

// checksum returns the checksum of sorted tags. It separates the tags with line breaks, which no tag contains.
func checksum(tags []string) string {
	h := sha256.New()
	for _, tag := range tags {
		h.Write([]byte(tag))
		h.Write([]byte{'\n'})
	}
	return hex.EncodeToString(h.Sum(nil))
}
