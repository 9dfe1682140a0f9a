package registry

import "time"

// These are the limits of Pace.
const (
	// paceStep is the number of consecutive scans without changes after which the time between two scans grows by one interval.
	paceStep = 12
	// maxStretch is the maximum number of intervals between two scans.
	maxStretch = 4
	// maxWait is the longest time between two scans that Pace can set. It does not shorten an interval that is longer than this.
	maxWait = 24 * time.Hour
)

// Pace controls how often a source of versions is scanned. While scans find changes, the source is scanned once per interval. While they find no
// changes, it is scanned less and less often, down to once every four intervals. The zero value scans once per interval. A Pace is a value: copy it
// together with the result of the scan.
type Pace struct {
	quiet int // number of consecutive scans without changes
}

// After returns the pace after a scan. news reports whether the scan found a change since the last successful scan, such as a different list or a
// different image. Do not call After for a failed scan.
func (p Pace) After(news bool) Pace {
	if news {
		return Pace{}
	}
	return Pace{quiet: min(p.quiet+1, paceStep*(maxStretch-1))}
}

// Reset returns the pace after a request to scan now, or after an event that makes changes likely. With this pace, the source is
// scanned once per interval.
func (p Pace) Reset() Pace { return Pace{} }

// Interval returns the interval stretched by the pace: one interval for the first 12 scans without changes, two intervals for the next 12, and so on up
// to four, but at most 24 hours. The result is never shorter than the interval.
func (p Pace) Interval(interval time.Duration) time.Duration {
	stretched := interval * time.Duration(1+p.quiet/paceStep)
	return max(interval, min(stretched, maxWait))
}

// Wait returns the time from one scan to the next. It is Interval minus a random part of up to a tenth, so that not all policies scan in the same
// second. random returns a number in [0,n), like [math/rand/v2.Int64N].
func (p Pace) Wait(interval time.Duration, random func(n int64) int64) time.Duration {
	wait := p.Interval(interval)
	return wait - time.Duration(random(int64(wait)/10+1))
}

// Fresh returns the value for Request.MaxAge: the maximum age of another policy's result that a scan may reuse. It is shorter than the shortest Wait, so
// that a policy's scan never reuses the previous result of the same policy. A reused result is never older than the stretched interval.
func (p Pace) Fresh(interval time.Duration) time.Duration {
	wait := p.Interval(interval)
	return wait - wait/8
}
