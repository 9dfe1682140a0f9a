package registry

import "time"

// Bounds of Pace.
const (
	// paceStep is how many scans without news lengthen the time between two by one
	// interval.
	paceStep = 12
	// maxStretch is how many intervals there are between two looks at most.
	maxStretch = 4
	// maxWait is the longest time between two scans that comes of stretching; an
	// interval that is longer itself is kept.
	maxWait = 24 * time.Hour
)

// Pace is how often a source of versions is looked at: with the interval while it
// brings news, and ever less, down to a quarter as often, while it brings none. The
// zero value scans with the interval. It is a value: copy it with what was looked at.
type Pace struct {
	quiet int // scans in a row without news
}

// After gives the pace after a scan that found something new, or nothing. News is
// whatever the last successful scan did not see: another list, another image. A scan
// that failed is none, and changes nothing.
func (p Pace) After(news bool) Pace {
	if news {
		return Pace{}
	}
	return Pace{quiet: min(p.quiet+1, paceStep*(maxStretch-1))}
}

// Reset gives the pace after a request to scan now, or an event that makes news
// likely: that of the interval.
func (p Pace) Reset() Pace { return Pace{} }

// Interval stretched by the pace: one interval for the first 12 scans without news,
// two for the next 12, and so on up to four, but not above 24 hours. Never shorter
// than the interval.
func (p Pace) Interval(interval time.Duration) time.Duration {
	stretched := interval * time.Duration(1+p.quiet/paceStep)
	return max(interval, min(stretched, maxWait))
}

// Wait is the time from one scan to the next: Interval, and up to a tenth of it
// less, so that not all scan in the same second. random gives a number in [0,n), as
// [math/rand/v2.Int64N] does.
func (p Pace) Wait(interval time.Duration, random func(n int64) int64) time.Duration {
	wait := p.Interval(interval)
	return wait - time.Duration(random(int64(wait)/10+1))
}

// Fresh is the age up to which an answer of somebody else's scan will do, for
// Request.MaxAge: below the shortest Wait, so that a scan never finds its own last
// answer, and an answer is never older than the stretched interval when it is used.
func (p Pace) Fresh(interval time.Duration) time.Duration {
	wait := p.Interval(interval)
	return wait - wait/8
}
