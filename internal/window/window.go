// Package window reports whether the window of a canary step is open at a given time, and when that changes. It has no side effects, and reads only
// the time zone database of the machine.
package window

import (
	"fmt"
	"slices"
	"time"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/release"
)

// Resolve reports whether a window is open now, and when that changes. It uses local time in the
// window's zone, including daylight saving time. A window with an unknown zone is always closed.
func Resolve(w *v1alpha1.DeployWindow, now time.Time) (*release.Window, error) {
	if w == nil {
		return nil, nil
	}
	zone, err := time.LoadLocation(w.TimeZone)
	if err != nil {
		return &release.Window{}, fmt.Errorf("time zone %q does not exist; use a name from the IANA time zone database, such as Europe/Zurich", w.TimeZone)
	}
	span := newSpan(w)
	now = now.In(zone)
	open := span.open(now)
	for t := span.edge(now); t.Before(now.Add(horizon)); t = span.edge(t) {
		if span.open(t) != open {
			return &release.Window{Open: open, Next: t}, nil
		}
	}
	return &release.Window{Open: open}, nil
}

// horizon is how far ahead Resolve searches for the next change. It is longer than two weeks, because a weekly window does not open in a
// week in which it coincides with the hour that daylight saving time skips, or with a day that a zone skips.
const horizon = 16 * 24 * time.Hour

// span is a window with its times in minutes since midnight.
type span struct {
	days     []v1alpha1.Weekday
	from, to int
}

const dayInMinutes = 24 * 60

func newSpan(w *v1alpha1.DeployWindow) span {
	s := span{days: w.Days, to: dayInMinutes}
	if w.From != "" {
		s.from = minutes(w.From)
	}
	if w.To != "" {
		s.to = minutes(w.To)
	}
	return s
}

// minutes converts HH:MM to minutes since midnight. The schema enforces the format.
func minutes(t v1alpha1.ClockTime) int {
	var h, m int
	if _, err := fmt.Sscanf(string(t), "%d:%d", &h, &m); err != nil {
		return 0
	}
	return h*60 + m
}

func (s span) open(t time.Time) bool {
	at := t.Hour()*60 + t.Minute()
	if s.from < s.to {
		return s.on(t.Weekday()) && s.from <= at && at < s.to
	}
	return s.on(t.Weekday()) && s.from <= at || s.on((t.Weekday()+6)%7) && at < s.to
}

func (s span) on(day time.Weekday) bool {
	return len(s.days) == 0 || slices.Contains(s.days, v1alpha1.Weekday(day.String()))
}

// edge returns the next time at which the window may open or close: when the local time reaches s.from, s.to or midnight, or when
// the clocks change.
func (s span) edge(t time.Time) time.Time {
	at := t.Hour()*60 + t.Minute()
	wait := dayInMinutes - at
	for _, m := range []int{s.from, s.to} {
		if m > at {
			wait = min(wait, m-at)
		}
	}
	next := t.Truncate(time.Minute).Add(time.Duration(wait) * time.Minute)
	if _, end := t.ZoneBounds(); !end.IsZero() && end.Before(next) {
		return end.In(t.Location())
	}
	return next
}
