package version

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

func TestSchemes(t *testing.T) {
	for name, tc := range map[string]struct {
		rules    Rules
		tags     []string
		want     []string
		rejected map[string]Verdict
	}{
		"calendar": {
			rules: Rules{Scheme: SchemeTuple},
			tags:  []string{"2024.01.05", "2024.12.01", "v2024.2.28", "2024.01", "2024.01.05.1", "latest", "2024.01.05-rc1", "20240105", "deadbee"},
			want:  []string{"release/2024.12.1@2024.12.01", "release/2024.2.28@v2024.2.28", "release/2024.1.5@2024.01.05"},
			rejected: map[string]Verdict{"2024.01": VerdictParse, "2024.01.05.1": VerdictParse, "latest": VerdictParse,
				"2024.01.05-rc1": VerdictParse, "20240105": VerdictParse, "deadbee": VerdictParse},
		},
		"calendar, by month": {
			rules: Rules{Scheme: SchemeTuple, GroupBy: GroupByMinor, Range: ">=2024.2.0"},
			tags:  []string{"2024-01-05", "2024-02-01", "2024-02-10", "2024-10-01"},
			want:  []string{"2024.10.x/2024.10.1@2024-10-01", "2024.2.x/2024.2.10@2024-02-10", "2024.2.x/2024.2.1@2024-02-01"}, rejected: map[string]Verdict{"2024-01-05": VerdictRange},
		},
		"date and time, too large for a float": {
			rules: Rules{Scheme: SchemeTuple, Parts: 2}, tags: []string{"20240105-123045", "20240105-090000", "20240104_235959", "20240105"},
			want:     []string{"release/20240105.123045.0@20240105-123045", "release/20240105.90000.0@20240105-090000", "release/20240104.235959.0@20240104_235959"},
			rejected: map[string]Verdict{"20240105": VerdictParse},
		},
		"a build number": {
			rules: Rules{Scheme: SchemeTuple, Parts: 1}, tags: []string{"9", "10", "20240105123045124", "20240105123045123", "18446744073709551616", "1e3", "1.0"},
			want:     []string{"release/20240105123045124.0.0@20240105123045124", "release/20240105123045123.0.0@20240105123045123", "release/10.0.0@10", "release/9.0.0@9"},
			rejected: map[string]Verdict{"18446744073709551616": VerdictParse, "1e3": VerdictParse, "1.0": VerdictParse},
		},
		"four numbers": {
			rules: Rules{Scheme: SchemeTuple, Parts: 4, GroupBy: GroupByPatch, Deny: []string{"1.2.3.10"}}, tags: []string{"1.2.3.9", "1.2.3.10", "1.2.3.2", "1.2.4.1"},
			want:     []string{"1.2.4/1.2.4.1", "1.2.3/1.2.3.9", "1.2.3/1.2.3.2"},
			rejected: map[string]Verdict{"1.2.3.10": VerdictDeny},
		},
		"the same numbers twice": {
			rules: Rules{Scheme: SchemeTuple}, tags: []string{"2024.1.5", "2024.01.05"},
			want: []string{"release/2024.1.5@2024.01.05"}, rejected: map[string]Verdict{"2024.1.5": VerdictDuplicate},
		},
		"a denied day with any build": {
			rules: Rules{Scheme: SchemeTuple, Parts: 4, Deny: []string{"2024.1.5"}}, tags: []string{"2024.01.05.1", "2024.01.05.2", "2024.01.06.1"},
			want:     []string{"release/2024.1.6.1@2024.01.06.1"},
			rejected: map[string]Verdict{"2024.01.05.1": VerdictDeny, "2024.01.05.2": VerdictDeny},
		},
		"named groups": {
			rules:    Rules{Scheme: SchemeRegexp, Deny: []string{"1.2.3"}, TagFilter: TagFilter{Pattern: `^(?P<major>\d+)\.(?P<minor>\d+)(?:\.(?P<patch>\d+))?-debian-\d+-r(?P<revision>\d+)$`}},
			tags:     []string{"1.2.4-debian-12-r9", "1.2.4-debian-12-r10", "1.3-debian-12-r0", "1.2.3-debian-12-r4", "1.2.4"},
			want:     []string{"release/1.3.0.0@1.3-debian-12-r0", "release/1.2.4.10@1.2.4-debian-12-r10", "release/1.2.4.9@1.2.4-debian-12-r9"},
			rejected: map[string]Verdict{"1.2.3-debian-12-r4": VerdictDeny, "1.2.4": VerdictTagFilter},
		},
		"a denied line": {
			rules: Rules{Scheme: SchemeRegexp, Deny: []string{"1.2"}, TagFilter: TagFilter{Pattern: `^(?P<major>\d+)\.(?P<minor>\d+)\.(?P<patch>\d+)-r(?P<revision>\d+)$`}},
			tags:  []string{"1.2.0-r1", "1.2.7-r2", "1.3.0-r1"}, want: []string{"release/1.3.0.1@1.3.0-r1"}, rejected: map[string]Verdict{"1.2.0-r1": VerdictDeny, "1.2.7-r2": VerdictDeny},
		},
		"a denied revision": {
			rules: Rules{Scheme: SchemeRegexp, Deny: []string{"1.2.3.4"}, TagFilter: TagFilter{Pattern: `^(?P<major>\d+)\.(?P<minor>\d+)\.(?P<patch>\d+)-r(?P<revision>\d+)$`}},
			tags:  []string{"1.2.3-r4", "1.2.3-r5"}, want: []string{"release/1.2.3.5@1.2.3-r5"}, rejected: map[string]Verdict{"1.2.3-r4": VerdictDeny},
		},
		"a named group for pre-releases": {
			rules: Rules{Scheme: SchemeRegexp, Level: LevelCandidate, TagFilter: TagFilter{Pattern: `^R(?P<major>\d+)(?:(?P<prerelease>rc\d+))?$`}},
			tags:  []string{"R7", "R8rc1", "R8"}, want: []string{"candidate/8.0.0@R8", "candidate/8.0.0-rc1@R8rc1", "candidate/7.0.0@R7"},
		},
		"named groups without a number": {
			rules: Rules{Scheme: SchemeRegexp, TagFilter: TagFilter{Pattern: `^(?P<major>.+)\.(?P<minor>.*)$`}}, tags: []string{"a.1", "1.", "1.18446744073709551616"},
			want: []string{"release/1.0.0@1."}, rejected: map[string]Verdict{"a.1": VerdictParse, "1.18446744073709551616": VerdictParse},
		},
		"an invalid pre-release": {
			rules: Rules{Scheme: SchemeRegexp, Level: LevelCandidate, TagFilter: TagFilter{Pattern: `^(?P<major>\d+)-(?P<prerelease>.+)$`}}, tags: []string{"1-a_b", "1-01", "1-a"},
			want: []string{"candidate/1.0.0-a@1-a"}, rejected: map[string]Verdict{"1-a_b": VerdictParse, "1-01": VerdictParse},
		},
		"a suffix": {
			rules: Rules{Suffix: "-alpine"}, tags: []string{"1.2.3-alpine", "1.2.4", "1.2.5-alpine3.19", "1.3.0-rc.1-alpine", "v1.2.2-alpine"},
			want:     []string{"release/1.2.3@1.2.3-alpine", "release/1.2.2@v1.2.2-alpine"},
			rejected: map[string]Verdict{"1.2.4": VerdictParse, "1.2.5-alpine3.19": VerdictParse, "1.3.0-rc.1-alpine": VerdictLevel},
		},
		"a date with a suffix": {
			rules: Rules{Scheme: SchemeTuple, Suffix: "-slim"}, tags: []string{"2024.01.05-slim", "2024.01.06"},
			want: []string{"release/2024.1.5@2024.01.05-slim"}, rejected: map[string]Verdict{"2024.01.06": VerdictParse},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Select(tc.rules, tc.tags, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, short(got.Offered), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("offered (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.rejected, verdicts(got), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("rejected (-want +got):\n%s", diff)
			}
			// Other packages order versions by their text, and parse them again.
			var texts []string
			for _, o := range got.Offered {
				texts = append(texts, o.Version)
				if v, err := read(o.Version); err != nil || v.Original() != o.Version {
					t.Errorf("%q is read back as %v, %v", o.Version, v, err)
				}
			}
			if !slices.IsSortedFunc(texts, func(a, b string) int { return Compare(b, a) }) && tc.rules.GroupBy == "" {
				t.Errorf("%q is not in the order of Compare", texts)
			}
			// Held versions remain, even if only their text is known.
			var held []Held
			for _, o := range got.Offered {
				held = append(held, Held{Group: o.Slug, Version: o.Version})
			}
			s, _ := Compile(tc.rules)
			if taken := s.Withdrawn(held, nil, nil); len(taken) > 0 {
				t.Errorf("held and withdrawn: %v", taken)
			}
		})
	}
}

func TestSchemeErrors(t *testing.T) {
	for name, tc := range map[string]struct {
		rules Rules
		want  string
	}{
		"unknown":                  {Rules{Scheme: "CalVer"}, `spec.versioning.scheme: "CalVer" is not known: write one of SemVer, Tuple, Regexp`},
		"too many parts":           {Rules{Scheme: SchemeTuple, Parts: 7}, "spec.versioning.parts: 7 is not between 1 and 6"},
		"groups by too many parts": {Rules{Scheme: SchemeTuple, Parts: 2, GroupBy: GroupByMinor}, "spec.versioning.groupBy: Minor requires versions with at least 3 numbers, but versions have 2"},
		"no pattern":               {Rules{Scheme: SchemeRegexp}, "spec.tagFilter.pattern: \"\" has no group named major"},
		"no major":                 {Rules{Scheme: SchemeRegexp, TagFilter: TagFilter{Pattern: `(?P<minor>1)`}}, "has no group named major"},
		"another group":            {Rules{Scheme: SchemeRegexp, TagFilter: TagFilter{Pattern: `(?P<major>1)(?P<year>2)`}}, `the group "year" is unknown`},
		"a group twice":            {Rules{Scheme: SchemeRegexp, TagFilter: TagFilter{Pattern: `(?P<major>1)|(?P<major>2)`}}, "spec.tagFilter.pattern: "},
		"extract":                  {Rules{Scheme: SchemeRegexp, TagFilter: TagFilter{Pattern: `(?P<major>1)`, Extract: "$major"}}, "spec.tagFilter.extract: is not used"},
		"suffix":                   {Rules{Scheme: SchemeRegexp, Suffix: "-a", TagFilter: TagFilter{Pattern: `(?P<major>1)`}}, "spec.versioning.suffix: is not used"},
		"an invalid pattern":       {Rules{Scheme: SchemeRegexp, TagFilter: TagFilter{Pattern: `(`}}, "is not a valid regular expression"},
		"time, suffix":             {Rules{Scheme: SchemePushTime, Suffix: "-a"}, "spec.versioning.suffix: is not used with versioning.scheme PushTime"},
		"time, extract":            {Rules{Scheme: SchemePushTime, TagFilter: TagFilter{Pattern: `(1)`, Extract: "$1"}}, "spec.tagFilter.extract: is not used"},
		"time, level":              {Rules{Scheme: SchemePushTime, Level: LevelCandidate}, "spec.versioning.level: is Candidate"},
		"a denied day":             {Rules{Scheme: SchemeTuple, Deny: []string{"yesterday"}}, "spec.deny[0]: "},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Compile(tc.rules)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

// TestTuplesRoundTrip checks that the text of an offered tuple is parsed as the same tuple, and that tuples are ordered by their numbers.
func TestTuplesRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		numbers := rapid.SliceOfN(rapid.OneOf(rapid.Uint64Range(0, 3), rapid.Uint64()), 1, MaxParts)
		a, b := numbers.Draw(t, "a"), numbers.Draw(t, "b")
		v, err := read(ofNumbers(a, "").Original())
		if err != nil || compare(v, ofNumbers(a, "")) != 0 {
			t.Errorf("%v is read back as %v, %v", a, v, err)
		}
		if len(a) == len(b) && sign(Compare(ofNumbers(a, "").Original(), ofNumbers(b, "").Original())) != slices.Compare(a, b) {
			t.Errorf("%v and %v are not in order", a, b)
		}
	})
}
