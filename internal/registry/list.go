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

	"github.com/heighliner/heighliner/internal/version"
)

const opList = "list tags of"

// pageSize that is asked for first; some registries refuse it, and then choose.
const pageSize = 1000

func (s *Scanner) list(ctx context.Context, r Request) (Scan, error) {
	t, err := s.target(opList, r)
	if err != nil {
		return Scan{}, err
	}
	maxTags := cmp.Or(r.MaxTags, DefaultMaxTags)
	key := fmt.Sprintf("list %s %d", t.key, maxTags)
	if scan, ok := s.cachedList(key, r); ok {
		return scan, nil
	}
	return share(ctx, &s.flights, key, t.timeout, func(ctx context.Context) (Scan, error) {
		if scan, ok := s.cachedList(key, r); ok { // read while this caller was on its way
			return scan, nil
		}
		scan := Scan{Time: s.clock.Now()}
		var err error
		scan.Tags, scan.Truncated, err = s.readTags(ctx, t, maxTags)
		if err != nil {
			return Scan{}, t.fail(opList, t.repo.Name(), err)
		}
		scan.Checksum = checksum(scan.Tags)
		s.lists.add(key, scan)
		return scan, nil
	})
}

func (s *Scanner) cachedList(key string, r Request) (Scan, bool) {
	scan, ok := s.lists.get(key)
	if !ok || s.clock.Since(scan.Time) >= r.MaxAge {
		return Scan{}, false
	}
	return scan, true
}

// listCache keeps lists until they hold more than limit tags together; then the
// oldest go.
type listCache struct {
	limit int

	mu    sync.Mutex
	scans map[string]Scan
	tags  int
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
	c.tags += weight(scan)
	for c.tags > c.limit {
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
		c.tags -= weight(scan)
		delete(c.scans, key)
	}
}

// weight of a list: its tags, and something for itself.
func weight(s Scan) int { return len(s.Tags) + 10 }

// readTags reads pages until the end or a bound. Names that are no tags are left
// out: no image could be pulled by them.
func (s *Scanner) readTags(ctx context.Context, t target, maxTags int) (tags []string, truncated bool, err error) {
	ctx = withPagesOf(ctx, t.repo)
	pages, err := t.login.pages(ctx, t)
	if err != nil {
		return nil, false, err
	}
	found, seen := map[string]bool{}, map[string]bool{}
	for n := 0; pages.HasNext(); n++ {
		if n == s.options.MaxPages || len(found) > maxTags {
			truncated = true
			break
		}
		page, err := pages.Next(ctx)
		if err != nil {
			return nil, false, err
		}
		for _, tag := range page.Tags {
			if version.IsTag(tag) {
				found[tag] = true
			}
		}
		if page.Next != "" && seen[page.Next] {
			return nil, false, errPageLoop
		}
		seen[page.Next] = true
	}
	tags = make([]string, 0, len(found))
	for tag := range found {
		tags = append(tags, tag)
	}
	slices.Sort(tags)
	if len(tags) > maxTags {
		return tags[:maxTags:maxTags], true, nil
	}
	return tags, truncated, nil
}

// pages opens the list, once more without a page size when the registry refuses
// the one that it was asked for.
func (l *login) pages(ctx context.Context, t target) (*remote.Lister, error) {
	l.mu.Lock()
	size := pageSize
	if l.noPageSize {
		size = 0
	}
	l.mu.Unlock()
	pages, err := l.open(ctx, t, size)
	if size == 0 || !refusesPageSize(err) {
		return pages, err
	}
	pages, err = l.open(ctx, t, 0)
	if err == nil {
		l.mu.Lock()
		l.noPageSize = true
		l.mu.Unlock()
	}
	return pages, err
}

func (l *login) open(ctx context.Context, t target, size int) (*remote.Lister, error) {
	puller, err := l.puller(size)
	if err != nil {
		return nil, err
	}
	return puller.Lister(ctx, t.repo)
}

func refusesPageSize(err error) bool {
	var answer *transport.Error
	return errors.As(err, &answer) && (answer.StatusCode == http.StatusBadRequest || answer.StatusCode == http.StatusRequestEntityTooLarge)
}

// checksum of sorted tags. No tag holds a line end.
func checksum(tags []string) string {
	h := sha256.New()
	for _, tag := range tags {
		h.Write([]byte(tag))
		h.Write([]byte{'\n'})
	}
	return hex.EncodeToString(h.Sum(nil))
}
