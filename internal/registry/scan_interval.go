package registry

import "time"

// Bounds of Pace.
const (
	// paceStep is the number of scans without news after which the time between two scans grows by one
	// interval.
	paceStep = 12
	// maxStretch is the maximum number of intervals between two scans.
	maxStretch = 4
	// maxWait limits the stretched time between two scans; a longer interval is unchanged.
	maxWait = 24 * time.Hour
)

// Pace is how often a source of versions is scanned: with the interval while scans find changes,
// and less and less often, down to a quarter as often, while they find none. The zero value scans
// with the interval. It is a value: copy it together with the result of the scan.
type Pace struct {
	quiet int // consecutive scans without news
}

// After returns the pace after a scan. news reports whether the scan found a change since the last
// successful one, such as another list or another image. Do not call it for a scan that failed.
func (p Pace) After(news bool) Pace {
	if news {
		return Pace{}
	}
	return Pace{quiet: min(p.quiet+1, paceStep*(maxStretch-1))}
}

// Reset returns the pace after a request to scan now, or an event that makes news likely: that of
// the interval.
func (p Pace) Reset() Pace { return Pace{} }

// Interval returns the interval stretched by the pace: one interval for the first 12 scans without
// news, two for the next 12, and so on up to four, but not above 24 hours. It is never shorter than
// the interval.
func (p Pace) Interval(interval time.Duration) time.Duration {
	stretched := interval * time.Duration(1+p.quiet/paceStep)
	return max(interval, min(stretched, maxWait))
}

// Wait returns the time from one scan to the next: Interval, minus up to a tenth of it, so that not
// all policies scan in the same second. random returns a number in [0,n), as [math/rand/v2.Int64N]
// does.
func (p Pace) Wait(interval time.Duration, random func(n int64) int64) time.Duration {
	wait := p.Interval(interval)
	return wait - time.Duration(random(int64(wait)/10+1))
}

// Fresh returns the maximum age of a result that the scan of another policy may reuse, for
// Request.MaxAge. It is below the shortest Wait, so that a scan never reuses its own last result,
// and a reused result is never older than the stretched interval.
func (p Pace) Fresh(interval time.Duration) time.Duration {
	wait := p.Interval(interval)
	return wait - wait/8
}
