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

// Pace is how often a source of versions is scanned: with the interval while scans find changes,
// and less and less often, down to a quarter as often, while they find none. The zero value scans
// with the interval. It is a value: copy it together with the result of the scan.
type Pace struct {
	quiet int // scans in a row without news
}

// After returns the pace after a scan. news reports whether the scan found a change since the last
// successful one, such as another list or another image. Do not call it for a scan that failed.
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

// Fresh is the maximum age of an answer for the scan of another policy, for Request.MaxAge. It is
// below the shortest Wait, so that a scan never reuses its own last answer, and an answer that is
// used is never older than the stretched interval.
func (p Pace) Fresh(interval time.Duration) time.Duration {
	wait := p.Interval(interval)
	return wait - wait/8
}
