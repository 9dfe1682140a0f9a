package window

import (
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/test/await"
)

// addSeeds adds seeds with enough bytes for the generator.
func addSeeds(f *testing.F) {
	for i := range uint64(8) {
		r := rand.New(rand.NewPCG(i, 7))
		b := make([]byte, 16<<10)
		for j := range b {
			b[j] = byte(r.Uint32())
		}
		f.Add(b)
	}
}

// zones contains time zones that change their clocks at different hours, on different days and by different amounts.
var zones = []string{"", "Europe/Zurich", "America/St_Johns", "Australia/Lord_Howe", "Asia/Kathmandu", "Africa/Casablanca", "America/New_York", "Africa/Cairo", "Asia/Gaza", "America/Nuuk", "Pacific/Chatham", "Antarctica/Troll", "Africa/El_Aaiun", "Asia/Beirut", "America/Havana", "America/Asuncion", "Europe/Dublin"}

// anyWindow checks that a window changes at the reported time, and that a window that ever opens reports when it opens.
func anyWindow(t *rapid.T) {
	clock := rapid.Custom(func(t *rapid.T) v1alpha1.ClockTime {
		if rapid.Bool().Draw(t, "night") { // the hours in which clocks change
			return v1alpha1.ClockTime(time.Time{}.Add(time.Duration(rapid.IntRange(0, 12).Draw(t, "quarter")) * 15 * time.Minute).Format("15:04"))
		}
		return v1alpha1.ClockTime(time.Time{}.Add(time.Duration(rapid.IntRange(0, dayInMinutes-1).Draw(t, "minute")) * time.Minute).Format("15:04"))
	})
	w := v1alpha1.DeployWindow{
		TimeZone: rapid.SampledFrom(zones).Draw(t, "zone"),
		Days:     rapid.SliceOfNDistinct(rapid.SampledFrom([]v1alpha1.Weekday{"Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"}), 0, 2, rapid.ID).Draw(t, "days"),
		From:     clock.Draw(t, "from"),
	}
	w.To = clock.Filter(func(to v1alpha1.ClockTime) bool { return to != w.From }).Draw(t, "to")
	now := time.Unix(rapid.Int64Range(1_767_000_000, 1_931_000_000).Draw(t, "now"), 0)
	checkWindow(t, w, now)
}

func checkWindow(t *rapid.T, w v1alpha1.DeployWindow, now time.Time) {
	defer await.Quick(t)()
	first, err := Resolve(&w, now)
	if err != nil {
		t.Fatal(err)
	}
	if first.Next.IsZero() {
		for at := now.Truncate(time.Minute); at.Before(now.AddDate(0, 0, 22)); at = at.Add(time.Minute) {
			if x, _ := Resolve(&w, at); x.Open != first.Open {
				t.Fatalf("at %s: got open %t without end, but open %t at %s: %+v", now.UTC(), first.Open, x.Open, at.UTC(), w)
			}
		}
		return
	}
	if !first.Next.After(now) {
		t.Fatalf("next %s is not after %s", first.Next, now)
	}
	if x, _ := Resolve(&w, first.Next); x.Open == first.Open {
		t.Fatalf("it does not change at %s", first.Next.UTC())
	}
	if x, _ := Resolve(&w, first.Next.Add(-time.Second)); x.Open != first.Open {
		t.Fatalf("it changes before %s", first.Next.UTC())
	}
	if mid := now.Add(first.Next.Sub(now) / 2); true {
		if x, _ := Resolve(&w, mid); x.Open != first.Open {
			t.Fatalf("it changes between %s and %s: %s", now, first.Next.UTC(), mid)
		}
	}
}

func FuzzWindow(f *testing.F) { addSeeds(f); f.Fuzz(rapid.MakeFuzz(anyWindow)) }

// FuzzWindowText covers windows whose zone, times and days are arbitrary strings.
func FuzzWindowText(f *testing.F) {
	f.Add("Europe/Zurich", "09:00", "16:30", "Monday", int64(1_900_000_000))
	f.Add("Local", "24:00", "99:99", "x", int64(-1))
	f.Add("../../etc/passwd", "", "", "", int64(0))
	f.Fuzz(func(t *testing.T, zone, from, to, day string, unix int64) {
		if unix < -1e11 || unix > 1e12 {
			return
		}
		defer await.Quick(t)()
		got, err := Resolve(&v1alpha1.DeployWindow{TimeZone: zone, From: v1alpha1.ClockTime(from), To: v1alpha1.ClockTime(to), Days: []v1alpha1.Weekday{v1alpha1.Weekday(day)}}, time.Unix(unix, 0))
		if got == nil || err != nil && got.Open {
			t.Fatal("want a window, which is closed after an error")
		}
	})
}
