package window

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

func TestWindows(t *testing.T) {
	t.Parallel()
	workdays := []v1alpha1.Weekday{"Monday", "Tuesday", "Wednesday", "Thursday", "Friday"}
	zurich := v1alpha1.DeployWindow{TimeZone: "Europe/Zurich", Days: workdays, From: "09:00", To: "16:30"}
	night := v1alpha1.DeployWindow{Days: []v1alpha1.Weekday{"Friday"}, From: "22:00", To: "05:00"}
	for name, test := range map[string]struct {
		window v1alpha1.DeployWindow
		now    string
		open   bool
		next   string // empty means never
	}{
		"always":                                   {v1alpha1.DeployWindow{}, "2030-01-01T12:00:00Z", true, ""},
		"all seven days listed":                    {v1alpha1.DeployWindow{Days: append([]v1alpha1.Weekday{"Saturday", "Sunday"}, workdays...)}, "2030-01-01T12:00:00Z", true, ""},
		"before it":                                {zurich, "2030-01-31T07:59:59Z", false, "2030-01-31T08:00:00Z"},
		"at its beginning":                         {zurich, "2030-01-31T08:00:00Z", true, "2030-01-31T15:30:00Z"},
		"within a second":                          {zurich, "2030-01-31T15:29:59.999Z", true, "2030-01-31T15:30:00Z"},
		"at its end":                               {zurich, "2030-01-31T15:30:00Z", false, "2030-02-01T08:00:00Z"},
		"over the weekend":                         {zurich, "2030-02-01T16:00:00Z", false, "2030-02-04T08:00:00Z"},
		"in summer":                                {zurich, "2030-07-01T06:00:00Z", false, "2030-07-01T07:00:00Z"},
		"over the start of daylight saving time":   {zurich, "2030-03-29T16:00:00Z", false, "2030-04-01T07:00:00Z"},
		"whole days":                               {v1alpha1.DeployWindow{Days: workdays[:2]}, "2030-01-01T12:00:00Z", true, "2030-01-02T00:00:00Z"},
		"a week away":                              {v1alpha1.DeployWindow{Days: workdays[:1], From: "09:00", To: "09:01"}, "2030-01-07T09:01:00Z", false, "2030-01-14T09:00:00Z"},
		"night window, in the evening":             {night, "2030-02-01T23:00:00Z", true, "2030-02-02T05:00:00Z"},
		"night window, in the morning":             {night, "2030-02-02T04:59:00Z", true, "2030-02-02T05:00:00Z"},
		"night window, the morning before":         {night, "2030-02-01T04:00:00Z", false, "2030-02-01T22:00:00Z"},
		"night window, the evening after":          {night, "2030-02-02T22:00:00Z", false, "2030-02-08T22:00:00Z"},
		"an hour that is skipped":                  {v1alpha1.DeployWindow{TimeZone: "Europe/Zurich", From: "02:15", To: "02:45"}, "2030-03-31T00:00:00Z", false, "2030-04-01T00:15:00Z"},
		"opened by a skipped hour":                 {v1alpha1.DeployWindow{TimeZone: "Europe/Zurich", From: "02:30", To: "04:00"}, "2030-03-31T00:30:00Z", false, "2030-03-31T01:00:00Z"},
		"the only window, in a skipped hour":       {v1alpha1.DeployWindow{TimeZone: "Europe/Zurich", Days: []v1alpha1.Weekday{"Sunday"}, From: "02:15", To: "02:45"}, "2027-03-22T12:00:00Z", false, "2027-04-04T00:15:00Z"},
		"an hour that is repeated":                 {v1alpha1.DeployWindow{TimeZone: "Europe/Zurich", From: "02:15", To: "02:45"}, "2030-10-27T00:20:00Z", true, "2030-10-27T00:45:00Z"},
		"a repeated hour, between the two windows": {v1alpha1.DeployWindow{TimeZone: "Europe/Zurich", From: "02:15", To: "02:45"}, "2030-10-27T00:50:00Z", false, "2030-10-27T01:15:00Z"},
		"a zone with a half-hour offset":           {v1alpha1.DeployWindow{TimeZone: "Asia/Kolkata", From: "09:00", To: "10:00"}, "2030-01-01T03:00:00Z", false, "2030-01-01T03:30:00Z"},
		"a day that a zone skips":                  {v1alpha1.DeployWindow{TimeZone: "Pacific/Apia", Days: []v1alpha1.Weekday{"Friday"}}, "2011-12-29T12:00:00Z", false, "2012-01-05T10:00:00Z"},
	} {
		now, err := time.Parse(time.RFC3339Nano, test.now)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Resolve(&test.window, now)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		next := ""
		if !got.Next.IsZero() {
			next = got.Next.UTC().Format(time.RFC3339Nano)
		}
		if got.Open != test.open || next != test.next {
			t.Errorf("%s: open %t until %q, want %t until %q", name, got.Open, next, test.open, test.next)
		}
	}
}

// TestWindowsChangeAtNext checks that the state of a window is the same at each minute before Next, and different at Next.
func TestWindowsChangeAtNext(t *testing.T) {
	t.Parallel()
	clock := rapid.Custom(func(t *rapid.T) v1alpha1.ClockTime {
		return v1alpha1.ClockTime(time.Time{}.Add(time.Duration(rapid.IntRange(0, dayInMinutes-1).Draw(t, "minute")) * time.Minute).Format("15:04"))
	})
	rapid.Check(t, func(t *rapid.T) {
		w := v1alpha1.DeployWindow{
			TimeZone: rapid.SampledFrom([]string{"", "Europe/Zurich", "America/St_Johns", "Australia/Lord_Howe", "Asia/Kathmandu", "Africa/Casablanca"}).Draw(t, "zone"),
			Days:     rapid.SliceOfNDistinct(rapid.SampledFrom([]v1alpha1.Weekday{"Monday", "Wednesday", "Saturday", "Sunday"}), 0, 3, rapid.ID).Draw(t, "days"),
			From:     clock.Draw(t, "from"),
		}
		w.To = clock.Filter(func(to v1alpha1.ClockTime) bool { return to != w.From }).Draw(t, "to") // Admission rejects windows with equal times.
		now := time.Unix(rapid.Int64Range(1_900_000_000, 1_931_000_000).Draw(t, "now"), 0)
		first, err := Resolve(&w, now)
		if err != nil {
			t.Fatal(err)
		}
		if first.Next.IsZero() {
			t.Fatalf("it never changes: %+v", w)
		}
		zone, err := time.LoadLocation(w.TimeZone)
		if err != nil {
			t.Fatal(err)
		}
		span := newSpan(&w) // Resolve is not used here, because it reads the zone and searches for the next change, and there are thousands of minutes.
		for at := now.Truncate(time.Minute).Add(time.Minute); at.Before(first.Next); at = at.Add(time.Minute) {
			if span.open(at.In(zone)) != first.Open {
				t.Fatalf("open changes at %s, before Next %s", at.UTC(), first.Next.UTC())
			}
		}
		if x, _ := Resolve(&w, first.Next); x.Open == first.Open {
			t.Fatalf("it does not change at %s", first.Next.UTC())
		}
	})
}

func TestNoWindow(t *testing.T) {
	t.Parallel()
	if got, err := Resolve(nil, time.Now()); got != nil || err != nil {
		t.Errorf("no window gives %v, %v", got, err)
	}
	got, err := Resolve(&v1alpha1.DeployWindow{TimeZone: "Europe/Bern"}, time.Now())
	if err == nil || err.Error() != `time zone "Europe/Bern" does not exist; use a name from the IANA time zone database, such as Europe/Zurich` {
		t.Errorf("an unknown zone gives error %v", err)
	}
	if got == nil || got.Open || !got.Next.IsZero() {
		t.Errorf("a window in an unknown zone is %v, want always closed", got)
	}
}
