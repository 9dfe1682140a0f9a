package imagepolicy

import (
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/heighliner/heighliner/internal/registry"
)

// answers reports whether the scan is for this query and the next scan is not due yet.
func (l *scanRecord) answers(q query, now time.Time) bool {
	return l != nil && l.query == q && now.Before(l.due)
}

// Delays after a transient failure.
const (
	retryFirst = 15 * time.Second
	retryMost  = 5 * time.Minute
	// spread is the period in which the scans that waited for the same rate limit start, so that they do not reach the limit
	// again in its first second.
	spread = 10 * time.Second
)

// finish sets the time at which the next scan is due. Normally, this is one interval after the list was
// requested, so that policies that share the list scan at the same time, and no list is older than the
// interval. The scan is due up to 10% earlier, so that not all scans happen in the same second. It is due later
// while nothing changes, and earlier if build times are missing or if there are pull requests without an image.
// After a scan that failed because of a rate limit, the next scan is due within ten seconds after requests are allowed again. After
// any other failure, it is due after the interval, or earlier if the failure is transient. Completing the record
// of an earlier scan never delays the next scan.
func (l *scanRecord) finish(err error, now time.Time) {
	interval, due := l.query.interval, now
	var e *registry.Error
	switch {
	case err == nil:
		if l.checksum = l.contentChecksum(); l.due.IsZero() && l.previousChecksum != "" {
			l.pace = l.pace.After(l.previousChecksum != l.checksum)
		}
		due = l.time.Add(l.pace.Wait(interval, rand.Int64N))
		if soon := now.Add(timesInterval); l.untimed && soon.Before(due) {
			due = soon
		}
		for _, h := range l.heads {
			if !h.next.IsZero() && h.next.Before(due) {
				due = h.next
			}
		}
	case errors.As(err, &e) && e.Kind == registry.RateLimited && e.RetryAt.After(now):
		due = e.RetryAt.Add(rand.N(spread))
	case errors.As(err, &e) && !e.Kind.Transient():
		due = now.Add(interval)
	default:
		due = now.Add(min(retryMost, max(retryFirst, interval/4), interval))
	}
	if err != nil && l.checksum == "" {
		l.checksum = l.previousChecksum
	}
	if l.due.IsZero() || due.Before(l.due) {
		l.due = due
	}
}

// contentChecksum returns a checksum of the registry's responses. For pull requests, it returns "", so that
// scans do not become less frequent while there are no changes.
func (l *scanRecord) contentChecksum() string {
	if l.tags == nil || len(l.heads) > 0 {
		return ""
	}
	refs := slices.SortedFunc(maps.Keys(l.images), compareRefs)
	digests := make([]string, len(refs))
	for i, r := range refs {
		digests[i] = r.identifier + " " + l.images[r].value.Digest
	}
	return checksum(l.tags.value.Checksum, digests)
}
