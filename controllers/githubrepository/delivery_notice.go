package githubrepository

import "time"

// notice contains the fields of a delivery about a pull request. The notice only causes another read of the
// pull request. GitHub's replicas may lag behind deliveries by a few seconds.
type notice struct {
	// updated is when the pull request last changed; zero if the delivery does not report it.
	updated time.Time
	closed  bool
	// reads is the number of reads whose responses were older than the delivery.
	reads int
}

// If a response is older than a delivery, the pull request is read again, up to maxNoticeReads times. The delays
// double from minWait to maxWait. Together, they are sufficient for replicas that lag by a minute.
const (
	maxNoticeReads = 6
	minWait        = time.Second
	maxWait        = 30 * time.Second
)

// newest returns the later of two notices about a pull request.
func (n notice) newest(than notice) notice {
	if than.updated.After(n.updated) {
		return than
	}
	return n
}

// wait returns the time until the next read.
func (n notice) wait() time.Duration { return min(maxWait, minWait<<max(0, n.reads-1)) }

// expect makes a poll check whether its responses contain the announced changes.
func (l *poll) expect(announced map[int64]notice) {
	for n, what := range announced {
		if what.updated.IsZero() {
			continue
		}
		if l.announced == nil {
			l.announced = map[int64]notice{}
		}
		if before, ok := l.announced[n]; ok {
			what = before.newest(what)
		}
		l.announced[n] = what
	}
}

// findMissing finds the announced changes that are not in the responses yet. After too many reads, it leaves
// the changes to the next regular poll.
func (l *poll) findMissing() {
	for n, what := range l.announced {
		switch {
		case l.pulls == nil && l.err == nil: // no pull requests are needed
			continue
		case l.pulls == nil:
		case l.pulls.includes(n, what):
			continue
		default:
			what.reads++
		}
		if what.reads > maxNoticeReads {
			continue
		}
		if l.missing == nil {
			l.missing = map[int64]notice{}
		}
		l.missing[n] = what
	}
}

// isBehind reports whether a poll of the same repository got responses that are older than the
// deliveries.
func (l *poll) isBehind(q query) bool {
	return l != nil && l.query.repo == q.repo && len(l.missing) > 0
}

// includes reports whether the response for a pull request is at least as new as a delivery. If there is no
// response, it returns true only if none is expected: because the pull request is closed or cannot be read, the
// list is truncated, or the previous state belongs to another repository.
func (p *pullRequests) includes(number int64, what notice) bool {
	if pr, ok := p.asked[number]; ok {
		return !pr.UpdatedAt.Before(what.updated)
	}
	for i := range p.listed {
		if pr := &p.listed[i]; int64(pr.Number) == number {
			return !pr.UpdatedAt.Before(what.updated)
		}
	}
	return what.closed || p.more || p.other || p.unusable[number]
}
