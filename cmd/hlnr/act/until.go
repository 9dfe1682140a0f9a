package act

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// The patterns and words that a time can contain.
var (
	days    = regexp.MustCompile(`^(\d{1,4})d(.*)$`)
	ofDay   = regexp.MustCompile(`^(\d{1,2}):(\d{2})$`)
	weekday = map[string]time.Weekday{
		"sun": time.Sunday, "mon": time.Monday, "tue": time.Tuesday, "wed": time.Wednesday, "thu": time.Thursday, "fri": time.Friday, "sat": time.Saturday,
	}
)

// until parses a time in the future. The text is a duration such as 4h or 2d12h, a weekday with or without a time of day,
// a time of day, a date, or a time in RFC 3339 format. A weekday or date without a time of day means 00:00, in the time zone of the parameter now.
func until(text string, now time.Time) (time.Time, error) {
	at, err := readUntil(strings.TrimSpace(text), now)
	switch {
	case err != nil:
		return time.Time{}, fmt.Errorf("--until: %q is not a time: write 4h, 3d, Mon, \"Mon 08:00\", 18:00, 2026-12-24 or 2026-12-24T18:00:00Z", text)
	case !at.After(now):
		return time.Time{}, fmt.Errorf("--until: %s is in the past", at.Format(time.RFC3339))
	}
	return at.Truncate(time.Second), nil // The API stores times with this precision.
}

func readUntil(text string, now time.Time) (time.Time, error) {
	if m := days.FindStringSubmatch(text); m != nil {
		n, err := strconv.Atoi(m[1])
		if err != nil {
			return time.Time{}, err
		}
		at := now.AddDate(0, 0, n)
		if m[2] == "" {
			return at, nil
		}
		d, err := time.ParseDuration(m[2])
		return at.Add(d), err
	}
	if d, err := time.ParseDuration(text); err == nil {
		return now.Add(d), nil
	}
	for _, layout := range []string{time.RFC3339, time.DateTime, "2006-01-02 15:04", "2006-01-02T15:04", time.DateOnly} {
		if at, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			return at, nil
		}
	}
	fields := strings.Fields(text)
	if len(fields) == 0 || len(fields) > 2 {
		return time.Time{}, fmt.Errorf("%d words", len(fields))
	}
	midnight := time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 0, 0, now.Location())
	day, named := time.Weekday(0), false
	if word := strings.ToLower(fields[0]); len(word) >= 3 {
		if d, ok := weekday[word[:3]]; ok && strings.HasPrefix(strings.ToLower(d.String()), word) {
			day, named, fields = d, true, fields[1:]
		}
	}
	hour, minute := 0, 0
	if len(fields) > 0 {
		m := ofDay.FindStringSubmatch(fields[0])
		if m == nil || len(fields) > 1 {
			return time.Time{}, fmt.Errorf("not a time of day")
		}
		hour, _ = strconv.Atoi(m[1])
		minute, _ = strconv.Atoi(m[2])
		if hour > 23 || minute > 59 {
			return time.Time{}, fmt.Errorf("not a time of day")
		}
	}
	at := time.Date(midnight.Year(), midnight.Month(), midnight.Day(), hour, minute, 0, 0, now.Location())
	step := 1
	if named {
		at, step = at.AddDate(0, 0, (int(day)-int(now.Weekday())+7)%7), 7
	}
	if !at.After(now) {
		at = at.AddDate(0, 0, step)
	}
	return at, nil
}
