package view

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/window"
)

// Age formats a duration in one unit: 12s, 6m, 3h, 17d. Negative durations, which occur if clocks
// differ, become 0s.
func Age(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

// Span formats a duration in its two largest units: 38s, 15m42s, 3h2m, 17d4h.
func Span(d time.Duration) string {
	if d < 0 {
		d = 0
	}
	s := int(d.Seconds())
	pair := func(a int, x string, b int, y string) string {
		if b == 0 {
			return fmt.Sprintf("%d%s", a, x)
		}
		return fmt.Sprintf("%d%s%d%s", a, x, b, y)
	}
	switch {
	case s < 60:
		return fmt.Sprintf("%ds", s)
	case s < 3600:
		return pair(s/60, "m", s%60, "s")
	case s < 86400:
		return pair(s/3600, "h", s%3600/60, "m")
	}
	return pair(s/86400, "d", s%86400/3600, "h")
}

// Clock formats a time relative to now, in the zone of now. It returns 14:02 for a time on the same day, Mon 14:02 for a time within six days, and
// 2006-01-02 14:02 for any other time.
func Clock(t, now time.Time) string {
	t = t.In(now.Location())
	y, m, d := t.Date()
	ny, nm, nd := now.Date()
	switch away := t.Sub(now).Abs(); {
	case y == ny && m == nm && d == nd:
		return t.Format("15:04")
	case away < 6*24*time.Hour:
		return t.Format("Mon 15:04")
	}
	return t.Format("2006-01-02 15:04")
}

// timeOf returns a time for the JSON form, or nil for the zero time.
func timeOf(t time.Time) *metav1.Time {
	if t.IsZero() {
		return nil
	}
	return &metav1.Time{Time: t.UTC()}
}

// micros returns the time of an optional API timestamp for the JSON form.
func micros(t *metav1.MicroTime) *metav1.Time {
	if t == nil {
		return nil
	}
	return timeOf(t.Time)
}

// metas returns the time of an optional API timestamp for the JSON form.
func metas(t *metav1.Time) *metav1.Time {
	if t == nil {
		return nil
	}
	return timeOf(t.Time)
}

// micro returns the time of an optional API timestamp, or the zero time if the timestamp is nil.
func micro(t *metav1.MicroTime) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.Time
}

// openAt reports whether a window is open, and when it next opens or closes. known is false if the time zone of the window
// does not exist. A nil window is always open.
func openAt(w *v1alpha1.DeployWindow, now time.Time) (open bool, next time.Time, known bool) {
	if w == nil {
		return true, time.Time{}, true
	}
	at, err := window.Resolve(w, now)
	if at == nil {
		return true, time.Time{}, true
	}
	return at.Open, at.Next, err == nil
}

// windowText formats a window, as in "Mon–Thu 09:00–16:00 Europe/Zurich".
func windowText(w *v1alpha1.DeployWindow) string {
	text := days(w.Days)
	if w.From != "" || w.To != "" {
		text += " " + cmp.Or(string(w.From), "00:00") + "–" + cmp.Or(string(w.To), "24:00")
	}
	return strings.TrimSpace(text + " " + cmp.Or(w.TimeZone, "UTC"))
}

// week contains the days in order.
var week = []v1alpha1.Weekday{"Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"}

// days formats days of the week. It formats three or more consecutive days as a range. An empty list means every day, and days
// returns "" for it.
func days(list []v1alpha1.Weekday) string {
	var out []string
	for i := 0; i < len(week); {
		j := i
		for j < len(week) && has(list, week[j]) {
			j++
		}
		switch {
		case j-i > 2:
			out = append(out, short(week[i])+"–"+short(week[j-1]))
		default:
			for ; i < j; i++ {
				out = append(out, short(week[i]))
			}
		}
		i = j + 1
	}
	return strings.Join(out, ", ")
}

func has(list []v1alpha1.Weekday, day v1alpha1.Weekday) bool {
	for _, d := range list {
		if d == day {
			return true
		}
	}
	return false
}

func short(day v1alpha1.Weekday) string { return string(day)[:3] }
