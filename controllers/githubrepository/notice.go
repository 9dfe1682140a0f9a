package githubrepository

import "time"

// notice is what a delivery says of a pull request. It is never taken for a fact, but for a
// reason to read again: GitHub answers from replicas, which may not know for some seconds
// what it delivers.
type notice struct {
	// updated is when the pull request last changed; zero: the delivery does not say.
	updated time.Time
	closed  bool
	// reads whose answers were older.
	reads int
}

// Reads after one whose answer is older than a delivery: after a second, and then after
// twice the time, of at most mostWait, so often that a replica may lag by a minute.
const (
	maxReads  = 6
	firstWait = time.Second
	mostWait  = 30 * time.Second
)

// newer gives the later one of two notices of a pull request.
func (n notice) newer(than notice) notice {
	if than.updated.After(n.updated) {
		return than
	}
	return n
}

// wait is the time until the next read.
func (n notice) wait() time.Duration { return min(mostWait, firstWait<<max(0, n.reads-1)) }

// expect that the answers of a look hold what was announced.
func (l *look) expect(announced map[int64]notice) {
	for n, what := range announced {
		if what.updated.IsZero() {
			continue
		}
		if l.announced == nil {
			l.announced = map[int64]notice{}
		}
		if before, ok := l.announced[n]; ok {
			what = before.newer(what)
		}
		l.announced[n] = what
	}
}

// settle finds what was announced and the answers do not hold yet. What was read too often
// is given up: the interval finds it.
func (l *look) settle() {
	for n, what := range l.announced {
		switch {
		case l.pulls == nil && l.err == nil: // they are not wanted
			continue
		case l.pulls == nil:
		case l.pulls.holds(n, what):
			continue
		default:
			what.reads++
		}
		if what.reads > maxReads {
			continue
		}
		if l.behind == nil {
			l.behind = map[int64]notice{}
		}
		l.behind[n] = what
	}
}

// lags reports whether a look of the same repository was answered by what is older than
// deliveries.
func (l *look) lags(q question) bool {
	return l != nil && l.question.repo == q.repo && len(l.behind) > 0
}

// holds reports whether what was read of a pull request is at least as new as a delivery.
// Of one that is in no list because it is closed, or that has no room in a list which is
// cut or cannot be read, nothing newer is to be expected.
func (p *pulls) holds(number int64, what notice) bool {
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
