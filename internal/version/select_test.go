package version

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

var ignoreParsed = cmpopts.IgnoreUnexported(Rejection{})

// short formats releases as "group/version@tag".
func short(releases []Release) (words []string) {
	for _, r := range releases {
		word := r.Group + "/" + r.Version
		if r.Tag != r.Version {
			word += "@" + r.Tag
		}
		if r.Held {
			word += " held"
		}
		words = append(words, word)
	}
	return words
}

func verdicts(r Result) map[string]Verdict {
	m := map[string]Verdict{}
	for _, x := range r.Rejected {
		m[x.Tag] = x.Verdict
	}
	return m
}

func TestSelect(t *testing.T) {
	many := func(format string, n int) (tags []string) {
		for i := range n {
			tags = append(tags, fmt.Sprintf(format, i))
		}
		return tags
	}
	for name, tc := range map[string]struct {
		rules     Rules
		tags      []string
		held      []Held
		refused   map[string]Refusal
		want      []string
		rejected  map[string]Verdict
		truncated []string
	}{
		"nothing": {},
		"newest first, one group": {
			tags: []string{"1.0.0", "1.10.0", "1.9.0", "v2.0.0"},
			want: []string{"release/2.0.0@v2.0.0", "release/1.10.0", "release/1.9.0", "release/1.0.0"},
		},
		"tags that are not versions": {
			tags: []string{"latest", "1.2", "20240105", "1234567", "bad tag", "1.0.0", "sha256-" + strings.Repeat("0", 64) + ".sig"},
			want: []string{"release/1.0.0"},
			rejected: map[string]Verdict{"latest": VerdictParse, "1.2": VerdictParse, "20240105": VerdictParse, "1234567": VerdictParse,
				"bad tag": VerdictName, "sha256-" + strings.Repeat("0", 64) + ".sig": VerdictExclude},
		},
		"two parts": {
			rules: Rules{TwoParts: TwoPartsAllow}, tags: []string{"1.2", "1.3.0", "20240105"},
			want:     []string{"release/1.3.0", "release/1.2.0@1.2"},
			rejected: map[string]Verdict{"20240105": VerdictParse},
		},
		"level release": {
			tags: []string{"1.0.0", "1.1.0-rc.1", "1.2.3-alpine"}, want: []string{"release/1.0.0"},
			rejected: map[string]Verdict{"1.1.0-rc.1": VerdictLevel, "1.2.3-alpine": VerdictLevel},
		},
		"level candidate": {
			rules: Rules{Level: LevelCandidate}, tags: []string{"1.0.0", "1.1.0-rc.10", "1.1.0-rc.9"},
			want: []string{"candidate/1.1.0-rc.10", "candidate/1.1.0-rc.9", "candidate/1.0.0"},
		},
		"a pre-release is in the group of its version": {
			rules: Rules{Level: LevelCandidate, GroupBy: GroupByMinor}, tags: []string{"1.2.0-rc.1", "1.1.9", "1.2.0"},
			want: []string{"1.2.x/1.2.0", "1.2.x/1.2.0-rc.1", "1.1.x/1.1.9"},
		},
		"group by major": {
			rules: Rules{GroupBy: GroupByMajor}, tags: []string{"1.0.0", "1.1.0", "10.0.0", "2.0.0"},
			want: []string{"10.x/10.0.0", "2.x/2.0.0", "1.x/1.1.0", "1.x/1.0.0"},
		},
		"group by patch with builds": {
			rules: Rules{GroupBy: GroupByPatch}, tags: []string{"1.2.3_2", "1.2.3_10", "1.2.3", "1.2.4"},
			want: []string{"1.2.4/1.2.4", "1.2.3/1.2.3+10@1.2.3_10", "1.2.3/1.2.3+2@1.2.3_2", "1.2.3/1.2.3"},
		},
		"range, pre-releases included": {
			rules: Rules{Level: LevelCandidate, Range: ">=1.2.0 <2.0.0"}, tags: []string{"1.1.0", "1.2.0-rc.1", "1.2.0", "1.3.0-rc.1", "2.0.0-rc.1", "2.0.0"},
			want:     []string{"candidate/1.3.0-rc.1", "candidate/1.2.0"},
			rejected: map[string]Verdict{"1.1.0": VerdictRange, "1.2.0-rc.1": VerdictRange, "2.0.0-rc.1": VerdictRange, "2.0.0": VerdictRange},
		},
		"deny": {
			rules: Rules{Deny: []string{"v1.2.3", ">=1.4.0 <1.4.3", "1.6.x", "1.5.0+b"}, Level: LevelCandidate},
			tags:  []string{"1.2.3", "1.2.3_b", "1.2.3-rc.1", "1.4.2", "1.4.3", "1.6.0-rc.1", "1.6.1", "1.5.0", "1.5.0_b"},
			want:  []string{"candidate/1.5.0", "candidate/1.4.3", "candidate/1.2.3-rc.1"},
			rejected: map[string]Verdict{"1.2.3": VerdictDeny, "1.2.3_b": VerdictDeny, "1.4.2": VerdictDeny, "1.6.0-rc.1": VerdictDeny,
				"1.6.1": VerdictDeny, "1.5.0_b": VerdictDeny},
		},
		"filter and extract": {
			rules:    Rules{TagFilter: TagFilter{Pattern: `^web-(?P<version>\d+\.\d+\.\d+)$`, Extract: "$version", Exclude: []string{"9$"}}},
			tags:     []string{"web-1.0.0", "api-1.0.0", "1.0.0", "web-1.0.9"},
			want:     []string{"release/1.0.0@web-1.0.0"},
			rejected: map[string]Verdict{"api-1.0.0": VerdictTagFilter, "1.0.0": VerdictTagFilter, "web-1.0.9": VerdictExclude},
		},
		"extract combines groups": {
			rules: Rules{TagFilter: TagFilter{Pattern: `^(\d{4})-(\d\d)-(\d\d)$`, Extract: "$1.$2.$3"}},
			tags:  []string{"2024-01-05", "2023-12-31"},
			want:  []string{"release/2024.1.5@2024-01-05", "release/2023.12.31@2023-12-31"},
		},
		"pattern without extract": {
			rules: Rules{TagFilter: TagFilter{Pattern: `^v`}}, tags: []string{"v1.0.0", "1.1.0"},
			want: []string{"release/1.0.0@v1.0.0"}, rejected: map[string]Verdict{"1.1.0": VerdictTagFilter},
		},
		"one version with several tags": {
			rules: Rules{TwoParts: TwoPartsAllow}, tags: []string{"v1.0.0", "1.0", "1.0.0", "01.0.0", "1.0.0", "v1.0"},
			want:     []string{"release/1.0.0@01.0.0"},
			rejected: map[string]Verdict{"v1.0.0": VerdictDuplicate, "1.0": VerdictDuplicate, "1.0.0": VerdictDuplicate, "v1.0": VerdictDuplicate},
		},
		"the held tag wins": {
			tags: []string{"v1.0.0", "1.0.0"}, held: []Held{{"release", "1.0.0", "v1.0.0"}},
			want: []string{"release/1.0.0@v1.0.0"}, rejected: map[string]Verdict{"1.0.0": VerdictDuplicate},
		},
		"a refused tag is replaced": {
			tags: []string{"v1.0.0", "1.0.0"}, refused: map[string]Refusal{"1.0.0": {VerdictExists, "404"}},
			want: []string{"release/1.0.0@v1.0.0"}, rejected: map[string]Verdict{"1.0.0": VerdictExists},
		},
		"refusals come before limits": {
			rules: Rules{Limits: Limits{Groups: 1, ReleasesPerGroup: 2}, GroupBy: GroupByMajor}, tags: []string{"3.0.0", "2.0.0", "2.1.0", "2.2.0", "1.0.0"},
			refused:   map[string]Refusal{"3.0.0": {VerdictPlatform, "arm64 only"}, "2.2.0": {VerdictExists, "404"}},
			want:      []string{"2.x/2.1.0", "2.x/2.0.0"},
			rejected:  map[string]Verdict{"3.0.0": VerdictPlatform, "2.2.0": VerdictExists, "1.0.0": VerdictLimits},
			truncated: []string{"1.x"},
		},
		"limits": {
			rules: Rules{GroupBy: GroupByMinor, Limits: Limits{Groups: 2, ReleasesPerGroup: 1}}, tags: []string{"1.0.0", "1.1.0", "1.2.0", "1.2.1", "1.3.0", "1.3.1"},
			want:      []string{"1.3.x/1.3.1", "1.2.x/1.2.1"},
			rejected:  map[string]Verdict{"1.3.0": VerdictLimits, "1.2.0": VerdictLimits, "1.1.0": VerdictLimits, "1.0.0": VerdictLimits},
			truncated: []string{"1.1.x", "1.0.x"},
		},
		"default limits": {
			rules: Rules{GroupBy: GroupByMajor}, tags: many("%d.0.0", 5), want: []string{"4.x/4.0.0", "3.x/3.0.0", "2.x/2.0.0"},
			rejected: map[string]Verdict{"1.0.0": VerdictLimits, "0.0.0": VerdictLimits}, truncated: []string{"1.x", "0.x"},
		},
		"held beyond the limits": {
			rules:     Rules{GroupBy: GroupByMinor, Limits: Limits{Groups: 1, ReleasesPerGroup: 1}},
			tags:      []string{"1.0.0", "1.0.1", "1.0.2", "1.1.0", "1.2.0", "1.2.1", "1.2.2"},
			held:      []Held{{"1-2-x", "1.2.0", ""}, {"1-0-x", "1.0.0", ""}},
			want:      []string{"1.2.x/1.2.2", "1.2.x/1.2.0 held", "1.0.x/1.0.2 held", "1.0.x/1.0.0 held"},
			rejected:  map[string]Verdict{"1.2.1": VerdictLimits, "1.1.0": VerdictLimits, "1.0.1": VerdictLimits},
			truncated: []string{"1.1.x"},
		},
		"pinned without a group": {
			rules: Rules{GroupBy: GroupByMajor, Limits: Limits{Groups: 1, ReleasesPerGroup: 1}}, tags: []string{"1.0.0", "2.0.0"},
			held: []Held{{"", "v1.0.0", ""}}, want: []string{"2.x/2.0.0", "1.x/1.0.0 held"},
		},
		"held within the limits": {
			rules: Rules{GroupBy: GroupByMajor, Limits: Limits{Groups: 2, ReleasesPerGroup: 2}}, tags: []string{"1.0.0", "1.1.0", "2.0.0"},
			held: []Held{{"1-x", "1.0.0", ""}, {"2-x", "2.0.0", ""}}, want: []string{"2.x/2.0.0", "1.x/1.1.0", "1.x/1.0.0"},
		},
		"deny, range, level and exclude apply to held versions": {
			rules:    Rules{Range: "<3.0.0", Deny: []string{"1.0.0"}, TagFilter: TagFilter{Exclude: []string{"^1.2"}}},
			tags:     []string{"1.0.0", "1.1.0-rc.1", "1.2.0", "3.0.0"},
			held:     []Held{{"release", "1.0.0", "1.0.0"}, {"release", "1.1.0-rc.1", ""}, {"release", "1.2.0", ""}, {"release", "3.0.0", ""}},
			rejected: map[string]Verdict{"1.0.0": VerdictDeny, "1.1.0-rc.1": VerdictLevel, "1.2.0": VerdictExclude, "3.0.0": VerdictRange},
		},
		"held nonsense": {
			tags: []string{"1.0.0"}, held: []Held{{}, {"x", "y", "z"}}, want: []string{"release/1.0.0"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Select(tc.rules, tc.tags, tc.held, tc.refused)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, short(got.Offered), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("offered (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.rejected, verdicts(got), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("rejected (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.truncated, got.Truncated, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("truncated (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRejectionsAreExplainedInOrder(t *testing.T) {
	rules := Rules{Range: "<2.0.0", Deny: []string{"1.0.1"}, TagFilter: TagFilter{Exclude: []string{"^nightly"}}}
	got, err := Select(rules, []string{"latest", "nightly-1", "1.0.0", "v1.0.0", "1.0.1", "1.1.0-rc.1", "2.0.0", "3.0.0", "bad tag"}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := Result{
		Offered: []Release{{"1.0.0", "", "1.0.0", "release", "release", LevelRelease, false}},
		Rejected: []Rejection{
			{Tag: "3.0.0", Version: "3.0.0", Verdict: VerdictRange, Reason: `outside versioning.range "<2.0.0"`},
			{Tag: "2.0.0", Version: "2.0.0", Verdict: VerdictRange, Reason: `outside versioning.range "<2.0.0"`},
			{Tag: "1.1.0-rc.1", Version: "1.1.0-rc.1", Verdict: VerdictLevel, Reason: "pre-release, and versioning.level is Release"},
			{Tag: "1.0.1", Version: "1.0.1", Verdict: VerdictDeny, Reason: `denied by deny[0] "1.0.1"`},
			{Tag: "v1.0.0", Version: "1.0.0", Verdict: VerdictDuplicate, Reason: `the same version as tag "1.0.0"`},
			{Tag: "bad tag", Verdict: VerdictName, Reason: "not a valid tag: use letters, digits, _ . and -, at most 128 characters"},
			{Tag: "latest", Verdict: VerdictParse, Reason: "not a version: three numeric parts are required (1.2.3)"},
			{Tag: "nightly-1", Verdict: VerdictExclude, Reason: `tagFilter.exclude[0] "^nightly" matches`},
		},
		Counts: []Count{{VerdictName, 1}, {VerdictExclude, 1}, {VerdictParse, 1}, {VerdictLevel, 1}, {VerdictRange, 2}, {VerdictDeny, 1}, {VerdictDuplicate, 1}},
	}
	if diff := cmp.Diff(want, got, ignoreParsed); diff != "" {
		t.Errorf("result (-want +got):\n%s", diff)
	}
}

func TestValidate(t *testing.T) {
	for name, tc := range map[string]struct {
		rules Rules
		want  map[string]string // by field: a part of the message
	}{
		"zero":                        {},
		"all good":                    {rules: Rules{TagFilter: TagFilter{Pattern: `^(?P<version>.*)-(\d+)$`, Extract: "${version}_$2$$", Exclude: []string{"x"}}, Range: "1.x", Deny: []string{"1.2", "1.2.3", ">1"}}},
		"range":                       {rules: Rules{Range: "latest"}, want: map[string]string{"versioning.range": "leave it empty for all versions"}},
		"trap":                        {rules: Rules{Range: "~0.0.0"}, want: map[string]string{"versioning.range": "would allow every version"}},
		"hyphen":                      {rules: Rules{Range: "1.2-1.4.5"}, want: map[string]string{"versioning.range": "spaces around the hyphen"}},
		"deny":                        {rules: Rules{Deny: []string{"1.2.3", "nonsense"}}, want: map[string]string{"deny[1]": "not a version"}},
		"deny hyphen":                 {rules: Rules{Deny: []string{"1.2.0-1.4.5"}}, want: map[string]string{"deny[0]": "spaces around the hyphen"}},
		"deny everything":             {rules: Rules{Deny: []string{"~0.0.0"}}, want: map[string]string{"deny[0]": "would allow every version"}},
		"pattern":                     {rules: Rules{TagFilter: TagFilter{Pattern: "(?=x)"}}, want: map[string]string{"tagFilter.pattern": "no lookaround"}},
		"exclude":                     {rules: Rules{TagFilter: TagFilter{Exclude: []string{"a", "("}}}, want: map[string]string{"tagFilter.exclude[1]": "RE2"}},
		"extract alone":               {rules: Rules{TagFilter: TagFilter{Extract: "$1"}}, want: map[string]string{"tagFilter.extract": "set the pattern too"}},
		"extract of an unknown group": {rules: Rules{TagFilter: TagFilter{Pattern: "(a)", Extract: "$version"}}, want: map[string]string{"tagFilter.extract": `group "version"`}},
		"extract without braces":      {rules: Rules{TagFilter: TagFilter{Pattern: "(a)", Extract: "$1x"}}, want: map[string]string{"tagFilter.extract": "in braces"}},
		"extract beyond the groups":   {rules: Rules{TagFilter: TagFilter{Pattern: "(a)", Extract: "$2"}}, want: map[string]string{"tagFilter.extract": `group "2"`}},
		"enums": {rules: Rules{Level: "release", GroupBy: "major", TwoParts: "Yes"}, want: map[string]string{
			"versioning.level": "write one of Release, Candidate", "versioning.groupBy": "write one of All, Major, Minor, Patch", "versioning.twoParts": "write one of Deny, Allow"}},
		"limits below":    {rules: Rules{Limits: Limits{Groups: -1, ReleasesPerGroup: -1}}, want: map[string]string{"limits.groups": "1 or more", "limits.releasesPerGroup": "1 or more"}},
		"limits product":  {rules: Rules{Limits: Limits{Groups: 256, ReleasesPerGroup: 10}}, want: map[string]string{"limits": "more than 512"}},
		"limits enormous": {rules: Rules{Limits: Limits{Groups: 1 << 40, ReleasesPerGroup: 1 << 40}}, want: map[string]string{"limits": "more than 512"}},
	} {
		t.Run(name, func(t *testing.T) {
			errs := Validate(tc.rules)
			fields := map[string]string{}
			for _, e := range errs {
				fields[e.Field] = e.Error()
				if !strings.Contains(e.Error(), tc.want[e.Field]) || strings.Contains(e.Error(), "\n") {
					t.Errorf("%q does not contain %q in one line", e, tc.want[e.Field])
				}
			}
			if diff := cmp.Diff(slices.Sorted(maps.Keys(tc.want)), slices.Sorted(maps.Keys(fields)), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("fields (-want +got):\n%s", diff)
			}
			if _, err := Compile(tc.rules); (err == nil) != (len(errs) == 0) {
				t.Errorf("Compile: %v, Validate: %v", err, errs)
			}
		})
	}
}

func TestSlug(t *testing.T) {
	for name, want := range map[string]string{
		"release": "release", "1.x": "1-x", "1.2.x": "1-2-x", "1.2.3": "1-2-3",
		"18446744073709551615.18446744073709551615.x": "18446744073709551615-1844674407-03ddfd94",
	} {
		if got := Slug(name); got != want {
			t.Errorf("Slug(%q) = %q, want %q", name, got, want)
		}
	}
	if a, b := Slug(strings.Repeat("1", 60)), Slug(strings.Repeat("1", 61)); a == b || !isLabel(a) || !isLabel(b) {
		t.Errorf("slugs %q and %q: want two different DNS labels", a, b)
	}
}

var someRules = rapid.Custom(func(t *rapid.T) Rules {
	scheme := rapid.SampledFrom([]Rules{
		{}, {}, {Scheme: SchemeTuple}, {Scheme: SchemeTuple, Parts: 4}, {Suffix: "-alpine"},
		{Scheme: SchemeRegexp, TagFilter: TagFilter{Pattern: `^v?(?P<major>\d+)\.(?P<minor>\d+)(\.(?P<patch>\d+))?(\.(?P<revision>\d+))?(-(?P<prerelease>.+))?$`}},
	}).Draw(t, "scheme")
	return Rules{
		Scheme: scheme.Scheme, Parts: scheme.Parts, Suffix: scheme.Suffix, TagFilter: scheme.TagFilter,
		Level:    rapid.SampledFrom([]Level{"", LevelRelease, LevelCandidate}).Draw(t, "level"),
		GroupBy:  rapid.SampledFrom([]GroupBy{"", GroupByMajor, GroupByMinor, GroupByPatch}).Draw(t, "groupBy"),
		Range:    rapid.SampledFrom([]string{"", ">=1.0.0", "<2.0.0", "1.x", "^1.1.0 || 10.x"}).Draw(t, "range"),
		TwoParts: rapid.SampledFrom([]TwoParts{"", TwoPartsAllow}).Draw(t, "twoParts"),
		Deny:     rapid.SliceOfN(rapid.SampledFrom([]string{"1.1.1", "2.x", "1.0.0+1", "<0.1.0"}), 0, 2).Draw(t, "deny"),
		Limits:   Limits{Groups: rapid.IntRange(0, 4).Draw(t, "groups"), ReleasesPerGroup: rapid.IntRange(0, 4).Draw(t, "perGroup")},
	}
})

var someTags = rapid.SliceOfN(rapid.OneOf(versions, rapid.SampledFrom([]string{"latest", "1", "1.2", "v1.2", "x y", "sha256-00.sig", "1.01.0", "1-1-0", "1.1.0-1", "1.1.0.2", "10.1.0.10", "1.1.0.2-alpine"})), 0, 40)

func someHeld(t *rapid.T, s *Selector, tags []string) (held []Held) {
	for _, tag := range tags {
		if rapid.IntRange(0, 5).Draw(t, "hold") > 0 {
			continue
		}
		if v, err := read(tag); err == nil {
			held = append(held, Held{s.slugOf(v), v.String(), rapid.SampledFrom([]string{"", tag}).Draw(t, "tag")})
		}
	}
	return held
}

func TestSelectProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rules, tags := someRules.Draw(t, "rules"), someTags.Draw(t, "tags")
		s, err := Compile(rules)
		if err != nil {
			t.Fatal(err)
		}
		held := someHeld(t, s, tags)
		refused := map[string]Refusal{}
		for _, tag := range tags {
			if rapid.IntRange(0, 9).Draw(t, "refuse") == 0 {
				refused[tag] = Refusal{VerdictExists, "404"}
			}
		}
		got := s.Rank(tags).Offer(held, refused)

		shuffled := rapid.Permutation(slices.Concat(tags, tags)).Draw(t, "shuffled")
		if diff := cmp.Diff(got, s.Rank(shuffled).Offer(rapid.Permutation(held).Draw(t, "held"), refused), ignoreParsed); diff != "" {
			t.Errorf("the result depends on the order:\n%s", diff)
		}
		if diff := cmp.Diff(got.Offered, s.Rank(offeredTags(got)).Offer(held, refused).Offered); diff != "" {
			t.Errorf("offered versions are not offered again:\n%s", diff)
		}
		checkAccounts(t, tags, got)
		checkOrder(t, got)
		checkHeld(t, s, tags, held, refused, got)
	})
}

func offeredTags(r Result) (tags []string) {
	for _, o := range r.Offered {
		tags = append(tags, o.Tag)
	}
	return tags
}

// TestOfferUnless checks that one call to OfferUnless has the same result as repeated calls to Offer in which the caller refuses what each
// call offers, and that it does not ask about other tags.
func TestOfferUnless(t *testing.T) {
	s, err := Compile(Rules{Limits: Limits{Groups: 1, ReleasesPerGroup: 2}})
	if err != nil {
		t.Fatal(err)
	}
	var asked []string
	s.Rank([]string{"1.0.0", "1.1.0", "1.2.0", "1.3.0", "1.4.0"}).OfferUnless(nil, map[string]Refusal{}, func(tag, _ string) *Refusal {
		if asked = append(asked, tag); tag == "1.4.0" {
			return &Refusal{VerdictMinAge, "young"}
		}
		return nil
	})
	if diff := cmp.Diff([]string{"1.4.0", "1.3.0", "1.2.0"}, asked); diff != "" {
		t.Errorf("OfferUnless asks about other tags:\n%s", diff)
	}
	rapid.Check(t, func(t *rapid.T) {
		tags := someTags.Draw(t, "tags")
		s, err := Compile(someRules.Draw(t, "rules"))
		if err != nil {
			t.Fatal(err)
		}
		held := someHeld(t, s, tags)
		refused, young := map[string]Refusal{}, map[string]bool{}
		for _, tag := range tags {
			switch rapid.IntRange(0, 9).Draw(t, "refuse") {
			case 0:
				refused[tag] = Refusal{VerdictExists, "404"}
			case 1, 2, 3, 4:
				young[tag] = true
			}
		}
		ranking, repeated := s.Rank(tags), maps.Clone(refused)
		want := ranking.Offer(held, repeated)
		for more := true; more; want = ranking.Offer(held, repeated) {
			more = false
			for _, rel := range want.Offered {
				if young[rel.Tag] {
					repeated[rel.Tag], more = Refusal{VerdictMinAge, rel.Version}, true
				}
			}
		}
		got := ranking.OfferUnless(held, refused, func(tag, version string) *Refusal {
			if !young[tag] {
				return nil
			}
			return &Refusal{VerdictMinAge, version}
		})
		if diff := cmp.Diff(want, got, ignoreParsed); diff != "" {
			t.Errorf("the result differs from that of repeated offers:\n%s", diff)
		}
		if diff := cmp.Diff(repeated, refused); diff != "" {
			t.Errorf("the refusals differ from those of repeated offers:\n%s", diff)
		}
	})
}

// checkAccounts checks that each tag is either offered or rejected, and is counted once.
func checkAccounts(t *rapid.T, tags []string, r Result) {
	seen := offeredTags(r)
	for _, x := range r.Rejected {
		seen = append(seen, x.Tag)
		if x.Verdict == "" || x.Reason == "" {
			t.Errorf("%q is rejected without a reason", x.Tag)
		}
	}
	slices.Sort(seen)
	all := slices.Sorted(slices.Values(tags))
	if diff := cmp.Diff(slices.Compact(all), seen, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("tags accounted for (-want +got):\n%s", diff)
	}
	counted := 0
	for _, c := range r.Counts {
		counted += c.Tags
	}
	if counted != len(r.Rejected) {
		t.Errorf("%d counted, %d rejected", counted, len(r.Rejected))
	}
}

// checkOrder checks that releases are in strictly descending order, and that the releases of a group are adjacent.
func checkOrder(t *rapid.T, r Result) {
	groups := map[string]bool{}
	for i, o := range r.Offered {
		if i > 0 && Compare(r.Offered[i-1].Version, o.Version) <= 0 {
			t.Errorf("%s before %s", r.Offered[i-1].Version, o.Version)
		}
		if (i == 0 || r.Offered[i-1].Slug != o.Slug) && groups[o.Slug] {
			t.Errorf("the releases of group %s are not adjacent", o.Slug)
		}
		groups[o.Slug] = true
	}
	for _, name := range r.Truncated {
		if groups[Slug(name)] {
			t.Errorf("group %s is offered and omitted", name)
		}
	}
}

// checkHeld checks that held versions are offered unless a filter or the caller refused them,
// and that only versions that are not offered are withdrawn.
func checkHeld(t *rapid.T, s *Selector, tags []string, held []Held, refused map[string]Refusal, r Result) {
	offered := map[string]bool{}
	for _, o := range r.Offered {
		offered[o.Slug+"/"+o.Version] = true
	}
	for _, x := range r.Rejected {
		if x.Verdict != VerdictLimits {
			continue
		}
		for _, h := range held {
			if h.Version == x.Version {
				t.Errorf("%s is held and omitted because of a limit", h.Version)
			}
		}
	}
	withdrawn := s.Withdrawn(held, nil, r.Offered)
	for _, w := range withdrawn {
		if offered[w.Group+"/"+w.Version] {
			t.Errorf("%+v is offered", w)
		}
	}
	if diff := cmp.Diff(withdrawn, s.Withdrawn(rapid.Permutation(held).Draw(t, "again"), nil, r.Offered)); diff != "" {
		t.Errorf("the withdrawals depend on the order:\n%s", diff)
	}
	// The versions that are not marked as held are the versions that would be offered if no versions
	// were held.
	var unmarked, unheld []string
	for _, o := range r.Offered {
		if !o.Held {
			unmarked = append(unmarked, o.Slug+"/"+o.Version)
		}
	}
	for _, o := range s.Rank(tags).Offer(nil, refused).Offered {
		unheld = append(unheld, o.Slug+"/"+o.Version)
	}
	if diff := cmp.Diff(unheld, unmarked); diff != "" {
		t.Errorf("offered if nothing were held, and not marked as held (-want +got):\n%s", diff)
	}
	// With an empty list, the only versions withdrawn are those that are also withdrawn with a full list, or
	// that a full list offers with a different tag.
	if len(refused) > 0 {
		return
	}
	for _, w := range s.Withdrawn(held, nil, nil) {
		another := slices.ContainsFunc(held, func(h Held) bool {
			return h.Group == w.Group && h.Version == w.Version && slices.ContainsFunc(r.Offered, func(o Release) bool { return o.Slug == h.Group && o.Version == h.Version && o.Tag != h.Tag })
		})
		if !slices.Contains(withdrawn, w) && !another {
			t.Errorf("%+v is withdrawn only by an empty list", w)
		}
	}
}

func TestWithdrawn(t *testing.T) {
	for name, tc := range map[string]struct {
		rules   Rules
		held    []Held
		gone    []Held
		offered []Release
		want    []Withdrawal
	}{
		"absent from the list": {held: []Held{{"release", "1.0.0", "1.0.0"}}},
		"denied":               {rules: Rules{Deny: []string{"1.0.0"}}, held: []Held{{"release", "1.0.0", ""}}, want: []Withdrawal{{"release", "1.0.0", Denied}}},
		"denied by range":      {rules: Rules{Deny: []string{"<1.1.0"}}, held: []Held{{"release", "1.0.0", ""}, {"release", "1.1.0", ""}}, want: []Withdrawal{{"release", "1.0.0", Denied}}},
		"out of range":         {rules: Rules{Range: ">=2.0.0"}, held: []Held{{"release", "1.0.0", ""}, {"release", "2.0.0", ""}}, want: []Withdrawal{{"release", "1.0.0", Excluded}}},
		"immature":             {rules: Rules{GroupBy: GroupByMajor}, held: []Held{{"1-x", "1.0.0-rc.1", ""}}, want: []Withdrawal{{"1-x", "1.0.0-rc.1", Excluded}}},
		"tag excluded": {rules: Rules{TagFilter: TagFilter{Exclude: []string{"^web-"}}}, held: []Held{{"release", "1.0.0", "web-1.0.0"}, {"release", "1.1.0", "1.1.0"}},
			want: []Withdrawal{{"release", "1.0.0", Excluded}}},
		"tag gives another version": {rules: Rules{TagFilter: TagFilter{Pattern: `^(\d+)`, Extract: "$1.0.0"}}, held: []Held{{"release", "1.2.3", "1.2.3"}},
			want: []Withdrawal{{"release", "1.2.3", Excluded}}},
		"an unknown tag is not filtered": {rules: Rules{TagFilter: TagFilter{Pattern: `^web-`}}, held: []Held{{"release", "1.0.0", ""}}},
		"still offered by another tag": {rules: Rules{TagFilter: TagFilter{Exclude: []string{"^v"}}}, held: []Held{{"release", "1.0.0", "v1.0.0"}},
			offered: []Release{{"1.0.0", "", "1.0.0", "release", "release", LevelRelease, false}}},
		"regrouped": {rules: Rules{GroupBy: GroupByMajor}, held: []Held{{"release", "1.0.0", ""}, {"release", "2.0.0", ""}},
			want: []Withdrawal{{"release", "", Excluded}}},
		"regrouped and denied": {rules: Rules{GroupBy: GroupByMajor, Deny: []string{"1.0.0"}}, held: []Held{{"release", "1.0.0", ""}, {"release", "2.0.0", ""}},
			want: []Withdrawal{{"release", "", Excluded}, {"release", "1.0.0", Denied}}},
		"level changed, one group": {rules: Rules{Level: LevelCandidate}, held: []Held{{"release", "1.0.0", ""}}, want: []Withdrawal{{"release", "", Excluded}}},
		"regrouped in part":        {rules: Rules{GroupBy: GroupByMajor}, held: []Held{{"1-x", "1.0.0", ""}, {"1-x", "2.0.0", ""}}, want: []Withdrawal{{"1-x", "2.0.0", Excluded}}},
		"no longer a version":      {held: []Held{{"main", "abc", ""}}, want: []Withdrawal{{"main", "", Excluded}}},
		"gone":                     {held: []Held{{"release", "1.0.0", ""}, {"release", "1.1.0", ""}}, gone: []Held{{"release", "v1.0.0", ""}}, want: []Withdrawal{{"release", "1.0.0", Gone}}},
		"gone and denied":          {rules: Rules{Deny: []string{"1.0.0"}}, held: []Held{{"release", "1.0.0", ""}}, gone: []Held{{"release", "1.0.0", ""}}, want: []Withdrawal{{"release", "1.0.0", Denied}}},
		"gone and not held":        {gone: []Held{{"release", "1.0.0", ""}}},
		"gone and offered":         {held: []Held{{"release", "1.0.0", ""}}, gone: []Held{{"release", "1.0.0", ""}}, offered: []Release{{"1.0.0", "", "1.0.0", "release", "release", LevelRelease, false}}},
		"pinned without a group":   {rules: Rules{GroupBy: GroupByMajor, Deny: []string{"1.0.0"}}, held: []Held{{"", "1.0.0", ""}}, want: []Withdrawal{{"1-x", "1.0.0", Denied}}},
		"pinned nonsense":          {held: []Held{{"", "nonsense", ""}}},
		"sorted, each once": {rules: Rules{Deny: []string{"*"}, GroupBy: GroupByMajor},
			held: []Held{{"1-x", "1.0.0", ""}, {"2-x", "2.0.0", ""}, {"1-x", "1.10.0", ""}, {"1-x", "1.9.0", ""}, {"1-x", "v1.9.0", "a"}},
			want: []Withdrawal{{"1-x", "1.10.0", Denied}, {"1-x", "1.9.0", Denied}, {"1-x", "1.0.0", Denied}, {"2-x", "2.0.0", Denied}}},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := Compile(tc.rules)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, s.Withdrawn(tc.held, tc.gone, tc.offered), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("withdrawn (-want +got):\n%s", diff)
			}
		})
	}
}

// mixed returns a typical repository of n unordered tags, three quarters of which are versions.
func mixed(n int) []string {
	tags := make([]string, n)
	for i := range tags {
		switch i % 8 {
		case 0:
			tags[i] = fmt.Sprintf("%040x", i)
		case 1:
			tags[i] = fmt.Sprintf("sha256-%064x.sig", i)
		case 2:
			tags[i] = fmt.Sprintf("v%d.%d.%d-rc.%d", i%7, i%50, i/100, i%9)
		default:
			tags[i] = fmt.Sprintf("%d.%d.%d", i%7, i%50, i/100)
		}
	}
	rand.New(rand.NewPCG(1, 1)).Shuffle(n, func(i, j int) { tags[i], tags[j] = tags[j], tags[i] })
	return tags
}

func BenchmarkSelect(b *testing.B) {
	for name, rules := range map[string]Rules{
		"defaults":  {},
		"candidate": {Level: LevelCandidate, GroupBy: GroupByMinor, Range: ">=1.0.0 <5.0.0", Deny: []string{"2.3.x", "4.0.0"}},
		"tuple":     {Scheme: SchemeTuple},
		"filter":    {TagFilter: TagFilter{Pattern: `^v?(?P<version>\d+\.\d+\.\d+)$`, Extract: "$version", Exclude: []string{"nightly"}}},
	} {
		for _, n := range []int{1_000, 10_000} {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				tags := mixed(n)
				s, err := Compile(rules)
				if err != nil {
					b.Fatal(err)
				}
				b.ReportAllocs()
				for b.Loop() {
					s.Rank(tags).Offer(nil, nil)
				}
			})
		}
	}
}

func TestRankNames(t *testing.T) {
	for name, tc := range map[string]struct {
		rules    Rules
		names    []Name
		want     []string // with the name after "from", and the level
		rejected map[string]Verdict
	}{
		"same names": {
			names: []Name{{Text: "v1.0.0"}, {Text: "v1.1.0"}, {Text: "shop/v2.0.0"}},
			want:  []string{"1.1.0@v1.1.0 from v1.1.0 Release", "1.0.0@v1.0.0 from v1.0.0 Release"}, rejected: map[string]Verdict{"shop/v2.0.0": VerdictName},
		},
		"whole name must match": {
			rules: Rules{Match: NameMatch{From: `shop/v(?P<version>.+)`, To: "$version"}},
			names: []Name{{Text: "shop/v1.0.0"}, {Text: "old-shop/v1.1.0"}, {Text: "web/v3.0.0"}},
			want:  []string{"1.0.0@1.0.0 from shop/v1.0.0 Release"}, rejected: map[string]Verdict{"old-shop/v1.1.0": VerdictMatch, "web/v3.0.0": VerdictMatch},
		},
		"an alternative must match as a whole": {
			rules: Rules{Match: NameMatch{From: `v(.+)|x`, To: "$1"}}, names: []Name{{Text: "v1.0.0"}, {Text: "ax"}},
			want: []string{"1.0.0@1.0.0 from v1.0.0 Release"}, rejected: map[string]Verdict{"ax": VerdictMatch},
		},
		"the filter applies to the tag": {
			rules: Rules{Match: NameMatch{From: `v(.+)`, To: "web-$1"}, TagFilter: TagFilter{Pattern: `^web-(.+)$`, Extract: "$1", Exclude: []string{"9$"}}},
			names: []Name{{Text: "v1.0.0"}, {Text: "v1.0.9"}},
			want:  []string{"1.0.0@web-1.0.0 from v1.0.0 Release"}, rejected: map[string]Verdict{"web-1.0.9": VerdictExclude},
		},
		"marked as a pre-release": {
			names: []Name{{Text: "1.1.0", Prerelease: true}, {Text: "1.0.0"}},
			want:  []string{"1.0.0@1.0.0 from 1.0.0 Release"}, rejected: map[string]Verdict{"1.1.0": VerdictLevel},
		},
		"a pre-release is at least a candidate": {
			rules: Rules{Level: LevelCandidate}, names: []Name{{Text: "1.1.0", Prerelease: true}, {Text: "1.0.0"}, {Text: "1.2.0-rc.1"}},
			want: []string{"1.2.0-rc.1@1.2.0-rc.1 from 1.2.0-rc.1 Candidate", "1.1.0@1.1.0 from 1.1.0 Candidate", "1.0.0@1.0.0 from 1.0.0 Release"},
		},
		"two names for one tag": {
			rules: Rules{Match: NameMatch{From: `[vw](.+)`, To: "$1"}}, names: []Name{{Text: "w1.0.0"}, {Text: "v1.0.0", Prerelease: true}, {Text: "w1.0.0"}},
			want: []string{"1.0.0@1.0.0 from w1.0.0 Release"},
		},
		"a tag that is known is not mapped": {
			rules: Rules{Match: NameMatch{From: `v(.+)`, To: "$1"}}, names: []Name{{Tag: "1.0.0", Prerelease: true}, {Text: "v1.0.0"}, {Tag: "1.1.0"}},
			want: []string{"1.1.0@1.1.0 from  Release", "1.0.0@1.0.0 from v1.0.0 Release"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := Compile(tc.rules)
			if err != nil {
				t.Fatal(err)
			}
			rapid.Check(t, func(t *rapid.T) {
				got := s.RankNames(rapid.Permutation(tc.names).Draw(t, "names")).Offer(nil, nil)
				var words []string
				for _, r := range got.Offered {
					words = append(words, fmt.Sprintf("%s@%s from %s %s", r.Version, r.Tag, r.Name, r.Level))
				}
				if diff := cmp.Diff(tc.want, words); diff != "" {
					t.Errorf("offered (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(tc.rejected, verdicts(got), cmpopts.EquateEmpty()); diff != "" {
					t.Errorf("rejected (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestMatchNamesTheField(t *testing.T) {
	for name, tc := range map[string]struct {
		match NameMatch
		want  string
	}{
		"from":  {NameMatch{From: "v(", To: "$1"}, `spec.match.name.from: "v(" is not a valid regular expression (missing closing ))`},
		"close": {NameMatch{From: "a)|(b", To: "$1"}, `spec.match.name.from: "a)|(b" is not a valid regular expression (unexpected ))`},
		"group": {NameMatch{From: "v(.+)", To: "${version}"}, `spec.match.name.to: "${version}" uses the group "version", which match.name.from "v(.+)" does not have`},
	} {
		t.Run(name, func(t *testing.T) {
			errs := Validate(Rules{Match: tc.match})
			if len(errs) != 1 || !strings.HasPrefix(errs[0].Error(), tc.want) {
				t.Errorf("got %v, want %s...", errs, tc.want)
			}
		})
	}
}
