package freeze

import (
	"cmp"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// byDefinition directly implements the definition in the comment of extent. It checks all periods again each
// time a period extends the result.
func byDefinition(freezes []Freeze, at time.Time) (until time.Time, first *cause) {
	until = at
	for {
		end, last := until, (*cause)(nil)
		for _, f := range freezes {
			for _, s := range f.spans() {
				switch {
				case !s.holds(until):
				case s.to.IsZero():
					return time.Time{}, cmp.Or(first, &cause{f, s.reason})
				case s.to.After(end):
					end, last = s.to, &cause{f, s.reason}
				}
			}
		}
		if last == nil {
			return until, first
		}
		until, first = end, cmp.Or(first, last)
	}
}

// TestExtent checks that the result is equal to the definition for periods that overlap, touch each other, or have no end.
func TestExtent(t *testing.T) {
	t.Parallel()
	epoch := time.Date(2026, 12, 20, 0, 0, 0, 0, time.UTC)
	hour := func(n int) metav1.Time { return metav1.NewTime(epoch.Add(time.Duration(n) * time.Hour)) }
	rapid.Check(t, func(r *rapid.T) {
		var freezes []Freeze
		for i := range rapid.IntRange(0, 5).Draw(r, "freezes") {
			f := Freeze{Name: fmt.Sprint("freeze-", i), Rules: v1alpha1.FreezeRules{Reason: fmt.Sprint("reason-", i)}}
			switch rapid.SampledFrom([]string{"periods", "periods", "periods", "until", "indefinite"}).Draw(r, "kind") {
			case "until":
				until := hour(rapid.IntRange(0, 20).Draw(r, "until"))
				f.Rules.Until = &until
			case "indefinite":
				f.Rules.Indefinite = rapid.IntRange(0, 3).Draw(r, "indefinite") == 0
			default:
				for range rapid.IntRange(1, 4).Draw(r, "periods") {
					from := rapid.IntRange(0, 20).Draw(r, "from")
					f.Rules.Periods = append(f.Rules.Periods, v1alpha1.FreezePeriod{From: hour(from), To: hour(from + rapid.IntRange(1, 4).Draw(r, "hours")), Reason: fmt.Sprint("period-", from)})
				}
			}
			freezes = append(freezes, f)
		}
		at := epoch.Add(time.Duration(rapid.IntRange(0, 24).Draw(r, "at")) * time.Hour)
		until, first := extent(freezes, at)
		wantUntil, want := byDefinition(freezes, at)
		switch {
		case !until.Equal(wantUntil), (first == nil) != (want == nil):
			r.Fatalf("until %s by %v, want %s by %v", until, first, wantUntil, want)
		case first != nil && (first.freeze.Name != want.freeze.Name || wantUntil.IsZero() && first.reason != want.reason):
			r.Fatalf("%s (%s), want %s (%s)", first.freeze.Name, first.reason, want.freeze.Name, want.reason)
		}
	})
}

// TestManyFreezes checks that any number of consecutive periods of one user are processed so quickly that other users
// notice no delay. An implementation that follows the definition would take hours.
func TestManyFreezes(t *testing.T) {
	t.Parallel()
	const freezes, periods = 2000, 64
	epoch := time.Date(2026, 12, 20, 0, 0, 0, 0, time.UTC)
	minute := func(n int) metav1.Time { return metav1.NewTime(epoch.Add(time.Duration(n) * time.Minute)) }
	var all []Freeze
	for i := range freezes {
		f := Freeze{Kind: "Freeze", Namespace: "shop", Name: fmt.Sprintf("freeze-%04d", i)}
		for p := range periods {
			n := p*freezes + i
			f.Rules.Periods = append(f.Rules.Periods, v1alpha1.FreezePeriod{From: minute(n), To: minute(n + 1), Reason: "one minute"})
		}
		all = append(all, f)
	}
	got := Of(all, Subject{Namespace: "shop", Name: "shop"}, epoch)
	if want := epoch.Add(freezes * periods * time.Minute); got == nil || !got.Until.Equal(want) || got.Name != `Freeze "freeze-0000"` {
		t.Errorf("%+v, want until %s", got, want)
	}
}
