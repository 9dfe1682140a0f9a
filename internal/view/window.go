package view

import (
	"cmp"
	"strings"
	"time"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/window"
)

// openAt reports whether a window is open, and when that changes; known is false if its time zone
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

// windowText returns a window as in "Mon–Thu 09:00–16:00 Europe/Zurich".
func windowText(w *v1alpha1.DeployWindow) string {
	text := days(w.Days)
	if w.From != "" || w.To != "" {
		text += " " + cmp.Or(string(w.From), "00:00") + "–" + cmp.Or(string(w.To), "24:00")
	}
	return strings.TrimSpace(text + " " + cmp.Or(w.TimeZone, "UTC"))
}

// week lists the days in order.
var week = []v1alpha1.Weekday{"Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"}

// days formats days of the week, three or more consecutive ones as a range; "" for every day.
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
