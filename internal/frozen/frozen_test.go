package frozen

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestParse checks that each list of waits can be parsed, regardless of what the reason of a freeze
// contains.
func TestParse(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		var want []Wait
		var parts []string
		for range rapid.IntRange(0, 3).Draw(r, "waits") {
			version := rapid.SampledFrom([]string{"2.0.0", "3.1.0-rc.1+pr-7"}).Draw(r, "version")
			until := rapid.SampledFrom([]time.Time{{}, time.Date(2026, 12, 27, 0, 0, 0, 0, time.UTC)}).Draw(r, "until")
			reason := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{`") ; ("`, "a: frozen b; c", "2.0.0 is waiting at 20%: frozen"})).Draw(r, "reason")
			w := Wait{
				Clause: rapid.SampledFrom([]string{
					Release(version), AtWeight(version, 20), WithoutPods(version), Rollback(version), Groups("preview-7", 0), Groups("2.x", 3),
					"group 1.x keeps serving, although the specification no longer includes it",
				}).Draw(r, "clause"),
				Freeze: Freeze(until, rapid.SampledFrom([]string{`Freeze "a"`, `ClusterFreeze "b"`}).Draw(r, "name"), reason),
			}
			want, parts = append(want, w), append(parts, w.String())
		}
		if diff := cmp.Diff(want, Parse(strings.Join(parts, "; "))); diff != "" {
			r.Fatal(diff)
		}
	})
}

// TestParseOthers covers messages that Heighliner does not write.
func TestParseOthers(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, message string
		want          []Wait
	}{
		{"no wait", "nothing is ready", nil},
		{"no reason", "2.0.0 is waiting: frozen until tomorrow", []Wait{{Clause: "2.0.0 is waiting", Freeze: "frozen until tomorrow"}}},
		{"an unterminated reason", `2.0.0 is waiting: frozen by a ("b`, []Wait{{Clause: "2.0.0 is waiting", Freeze: `frozen by a ("b`}}},
		{"no parenthesis", `2.0.0 is waiting: frozen by a ("b"; c`, []Wait{{Clause: "2.0.0 is waiting", Freeze: `frozen by a ("b"`}}},
		{"truncated in a clause", `2.0.0 is waiting: frozen by a ("b"); 1.3.0 is waiting at 1…`, []Wait{{Clause: "2.0.0 is waiting", Freeze: `frozen by a ("b")`}, {Clause: "1.3.0 is waiting at 1", Freeze: `frozen by a ("b")`, Cut: true}}},
		{"truncated after a clause", `2.0.0 is waiting: frozen by a ("b"); 1.3.0 is waiting at 10%: fro…`, []Wait{{Clause: "2.0.0 is waiting", Freeze: `frozen by a ("b")`}, {Clause: "1.3.0 is waiting at 10%", Freeze: `frozen by a ("b")`, Cut: true}}},
		{"truncated between waits", `2.0.0 is waiting: frozen by a ("b");…`, []Wait{{Clause: "2.0.0 is waiting", Freeze: `frozen by a ("b")`}}},
		{"truncated in a freeze", `2.0.0 is waiting: frozen by a ("b…`, []Wait{{Clause: "2.0.0 is waiting", Freeze: `frozen by a ("b…`}}},
		{"truncated in the first clause", "2.0.0 is wai…", nil},
		{"other text before", `it is late; 2.0.0 is waiting: frozen by a ("b")`, []Wait{{Clause: "2.0.0 is waiting", Freeze: `frozen by a ("b")`}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, Parse(tc.message)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestClauses checks which facts can be read from the clause of each wait.
func TestClauses(t *testing.T) {
	t.Parallel()
	type facts struct{ of, rollout bool }
	for _, tc := range []struct {
		clause string
		want   facts
	}{
		{Release("2.0.0"), facts{of: true}},
		{AtWeight("2.0.0", 5), facts{of: true, rollout: true}},
		{WithoutPods("2.0.0"), facts{of: true, rollout: true}},
		{Rollback("2.0.0"), facts{}},
		{Groups("2.0.0", 0), facts{}},
		{Groups("2.0.0", 1), facts{}},
		{Release("12.0.0"), facts{}},
		{Release("2.0.0-rc.1"), facts{}},
		{AtWeight("2.0.0", 0), facts{of: true, rollout: true}},
		{"2.0.0 is on hold at 20%", facts{of: true, rollout: true}}, // other versions of Heighliner
		{"2.0.0 is on hold without pods", facts{of: true, rollout: true}},
	} {
		t.Run(tc.clause, func(t *testing.T) {
			t.Parallel()
			w := Wait{Clause: tc.clause}
			if !(Wait{Clause: tc.clause, Cut: true}).HasRollout() {
				t.Error("a truncated clause may refer to a rollout")
			}
			if got := (facts{w.Of("2.0.0"), w.HasRollout()}); got != tc.want {
				t.Errorf("%+v, want %+v", got, tc.want)
			}
		})
	}
}

func TestIsBy(t *testing.T) {
	t.Parallel()
	w := Wait{Freeze: Freeze(time.Time{}, `Freeze "a"`, ` by Freeze "b" (`)}
	if !w.IsBy(`Freeze "a"`) || w.IsBy(`Freeze "aa"`) || w.IsBy(`Freeze "b"`) {
		t.Error(w)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(`2.0.0 is waiting at 20%: frozen indefinitely by Freeze "a" ("b"); 3.0.0 is waiting: frozen by c ("d")`)
	f.Fuzz(func(t *testing.T, message string) {
		for _, w := range Parse(message) {
			if !strings.Contains(message, w.Clause) || !strings.Contains(message, w.Freeze) {
				t.Errorf("%q is not a part of the message", w)
			}
		}
	})
}

func ExampleParse() {
	for _, w := range Parse(`2.0.0 is waiting at 20%: frozen indefinitely by Freeze "december" ("holidays")`) {
		fmt.Println(w.Clause)
		fmt.Println(w.Freeze)
	}
	// Output:
	// 2.0.0 is waiting at 20%
	// frozen indefinitely by Freeze "december" ("holidays")
}
