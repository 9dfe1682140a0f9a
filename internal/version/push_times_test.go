package version

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestRankTimed(t *testing.T) {
	times := map[string]Timed{
		"sha-a": {Version: "2026.1.5.13.7.9"}, "sha-b": {Version: "2026.1.5.13.7.10"}, "latest": {Version: "2026.1.5.13.7.10"},
		"sha-c": {Version: "2025.12.31.23.59.59"}, "sha-d": {Version: "2026.2.1.0.0.0"}, "sha-e": {Reason: "the image has no time"},
	}
	for name, tc := range map[string]struct {
		rules    Rules
		want     []string
		rejected map[string]Verdict
	}{
		"all": {
			rules:    Rules{Scheme: SchemePushTime, TagFilter: TagFilter{Pattern: "^(sha-|latest)"}},
			want:     []string{"release/2026.2.1.0.0.0@sha-d", "release/2026.1.5.13.7.10@latest", "release/2026.1.5.13.7.9@sha-a", "release/2025.12.31.23.59.59@sha-c"},
			rejected: map[string]Verdict{"sha-b": VerdictDuplicate, "sha-e": VerdictParse, "sha-f": VerdictParse, "main": VerdictTagFilter},
		},
		"groups by month, a range from a year, and a denied day": {
			rules: Rules{Scheme: SchemePushTime, GroupBy: GroupByMinor, Range: ">=2026.1.0", Deny: []string{"2026.1.5"}},
			want:  []string{"2026.2.x/2026.2.1.0.0.0@sha-d"},
			rejected: map[string]Verdict{"sha-a": VerdictDeny, "sha-b": VerdictDeny, "latest": VerdictDeny, "sha-c": VerdictRange,
				"sha-e": VerdictParse, "sha-f": VerdictParse, "main": VerdictParse},
		},
		"a denied month, and a denied moment": {
			rules: Rules{Scheme: SchemePushTime, Deny: []string{"2026.1", "2026.2.1.0.0.0"}},
			want:  []string{"release/2025.12.31.23.59.59@sha-c"},
			rejected: map[string]Verdict{"sha-a": VerdictDeny, "sha-b": VerdictDeny, "latest": VerdictDeny, "sha-d": VerdictDeny,
				"sha-e": VerdictParse, "sha-f": VerdictParse, "main": VerdictParse},
		},
		"a denied hour, and a denied minute": {
			rules: Rules{Scheme: SchemePushTime, Deny: []string{"2026.1.5.13", "2025.12.31.23.59"}},
			want:  []string{"release/2026.2.1.0.0.0@sha-d"},
			rejected: map[string]Verdict{"sha-a": VerdictDeny, "sha-b": VerdictDeny, "latest": VerdictDeny, "sha-c": VerdictDeny,
				"sha-e": VerdictParse, "sha-f": VerdictParse, "main": VerdictParse},
		},
		"denied times that match no tag": {
			rules: Rules{Scheme: SchemePushTime, TagFilter: TagFilter{Pattern: "^sha-[ad]$"}, Deny: []string{"2026.1.5.1", "2026.1.5.7", "2026.1.5.13.9", "2026.2.1.0.0.1"}},
			want:  []string{"release/2026.2.1.0.0.0@sha-d", "release/2026.1.5.13.7.9@sha-a"},
			rejected: map[string]Verdict{"main": VerdictTagFilter, "sha-b": VerdictTagFilter, "sha-c": VerdictTagFilter, "sha-e": VerdictTagFilter,
				"sha-f": VerdictTagFilter, "latest": VerdictTagFilter},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := Compile(tc.rules)
			if err != nil {
				t.Fatal(err)
			}
			tags := []string{"main", "sha-a", "sha-b", "sha-c", "sha-d", "sha-e", "sha-f", "latest"}
			got := s.RankTimed(tags, times).Offer(nil, nil)
			if diff := cmp.Diff(tc.want, short(got.Offered)); diff != "" {
				t.Errorf("offered (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.rejected, verdicts(got)); diff != "" {
				t.Errorf("rejected (-want +got):\n%s", diff)
			}
			slices.Reverse(tags)
			if diff := cmp.Diff(got, s.RankTimed(tags, times).Offer(nil, nil), cmp.AllowUnexported(Rejection{}), cmp.Comparer(func(a, b *Version) bool { return fmt.Sprint(a) == fmt.Sprint(b) })); diff != "" {
				t.Errorf("in another order (-want +got):\n%s", diff)
			}
			// Held versions remain, whether or not their tag is given, and regardless of what that tag
			// refers to now.
			var held []Held
			for _, o := range got.Offered {
				held = append(held, Held{Group: o.Slug, Version: o.Version}, Held{Group: o.Slug, Version: o.Version, Tag: o.Tag})
			}
			if taken := s.Withdrawn(held, nil, nil); len(taken) > 0 {
				t.Errorf("held and withdrawn: %v", taken)
			}
		})
	}
}

// TestTimesAreInOrder checks that times are in the order of Compare, for any order and number of tags.
func TestTimesAreInOrder(t *testing.T) {
	s, err := Compile(Rules{Scheme: SchemePushTime, Limits: Limits{ReleasesPerGroup: 100}})
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		part := rapid.Uint64Range(0, 3)
		times, tags := map[string]Timed{}, []string{}
		for i := range rapid.IntRange(1, 20).Draw(t, "tags") {
			tag := fmt.Sprintf("t%d", i)
			tags = append(tags, tag)
			times[tag] = Timed{Version: fmt.Sprintf("%d.%d.%d.%d.%d.%d", 2024+part.Draw(t, "year"), 1+part.Draw(t, "month"), 1+part.Draw(t, "day"), part.Draw(t, "hour"), part.Draw(t, "minute"), part.Draw(t, "second"))}
		}
		var texts []string
		for _, o := range s.RankTimed(rapid.Permutation(tags).Draw(t, "order"), times).Offer(nil, nil).Offered {
			texts = append(texts, o.Version)
		}
		if !slices.IsSortedFunc(texts, func(a, b string) int { return Compare(b, a) }) || len(slices.Compact(slices.Clone(texts))) != len(texts) {
			t.Errorf("%q are not in order, or contain duplicates", texts)
		}
		again := s.RankTimed(tags, times).Offer(nil, nil)
		for i, o := range again.Offered {
			if o.Version != texts[i] {
				t.Errorf("the order of the tags changes %q to %q", texts[i], o.Version)
			}
		}
	})
}

func TestChooses(t *testing.T) {
	s, err := Compile(Rules{Scheme: SchemePushTime, TagFilter: TagFilter{Pattern: "^sha-", Exclude: []string{"-debug$"}}})
	if err != nil {
		t.Fatal(err)
	}
	for tag, want := range map[string]bool{"sha-1": true, "main": false, "sha-1-debug": false, "sha256-" + fmt.Sprintf("%064x", 1) + ".sig": false, "sha-ü": false} {
		if s.Chooses(tag) != want {
			t.Errorf("Chooses(%q) is %t", tag, !want)
		}
	}
}
