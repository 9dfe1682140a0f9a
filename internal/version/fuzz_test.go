package version

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/heighliner/heighliner/test/await"
)

// label matches valid slugs.
var label = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// FuzzCompare checks that the order is total, and that the normal form of a version is parsed as the same version.
func FuzzCompare(f *testing.F) {
	for _, s := range []string{"1.2.3", "1.2.3-rc.1+b.2", "1.2.3.4-rc", "1.2", "v1.2.3", "2024.01.05", "x", "", "1.2.3_4", "1.2.3+01", "1.2.3+1", "18446744073709551615.0.0", "1.2.3.4.5.6", "1.2.3.4+x"} {
		f.Add(s, "1.2.3+1.0", "1.2.3.0")
	}
	f.Fuzz(func(t *testing.T, a, b, c string) {
		defer await.Quick(t)()
		ab, ba := Compare(a, b), Compare(b, a)
		if cmp.Compare(ab, 0) != -cmp.Compare(ba, 0) {
			t.Fatalf("Compare(%q, %q) = %d, and in the reverse order %d", a, b, ab, ba)
		}
		if (ab == 0) != (a == b) {
			t.Fatalf("Compare(%q,%q)=%d", a, b, ab)
		}
		all := []string{a, b, c}
		slices.SortFunc(all, Compare)
		if Compare(all[0], all[2]) > 0 || Compare(all[0], all[1]) > 0 || Compare(all[1], all[2]) > 0 {
			t.Fatalf("not transitive: %q", all)
		}
		for _, s := range all {
			v, err := read(s)
			if err != nil {
				continue
			}
			w, err := read(v.Original())
			if err != nil || w.Original() != v.Original() || compare(v, w) != 0 {
				t.Fatalf("%q reads as %q, which reads as %v %v", s, v.Original(), w, err)
			}
			for _, g := range []GroupBy{GroupByAll, GroupByMajor, GroupByMinor, GroupByPatch} {
				r := Rules{GroupBy: g, Level: LevelRelease}
				slug := Slug(r.nameOf(r.keyOf(v)))
				if !label.MatchString(slug) || len(slug) > maxSlug {
					t.Fatalf("slug %q of %q", slug, s)
				}
			}
		}
	})
}

// FuzzSelect checks that, for any valid rules, all tags are accounted for, and offered versions are offered again.
func FuzzSelect(f *testing.F) {
	f.Add("^app-(?P<version>.+)$", "$version", ">=1.2", "1.2.3", "", "latest", "app-1.2.3,app-1.2.3_b,app-2.0.0-rc.1", uint64(0))
	f.Add("^v(?P<major>[0-9]+)-(?P<minor>[0-9]+)$", "", "1.x || 2.x", "<1.0.0", "", "^x", "v1-2,v2-3,v3-4", uint64(2))
	f.Add("", "", "~1.2.3", "2.0.0", "-alpine", "", "1.2.3-alpine,1.2.4-alpine,1.2-alpine", uint64(0xff))
	f.Add("", "", "", "", "", "", "20240105-123045,2024.01.05,20240105_12", uint64(1|2<<2|3<<6))
	f.Fuzz(func(t *testing.T, pattern, extract, within, deny, suffix, exclude, tags string, knobs uint64) {
		if len(tags) > 4000 || len(pattern) > 200 || len(exclude) > 200 || len(within) > 300 || len(deny) > 300 {
			return
		}
		if strings.Count(pattern+exclude, "{") > 0 { // Go defines the meaning of repeat counts.
			return
		}
		rules := Rules{
			TagFilter: TagFilter{Pattern: pattern, Extract: extract}, Range: within, Suffix: suffix,
			Scheme:  []Scheme{SchemeSemVer, SchemeTuple, SchemeRegexp, SchemePushTime}[knobs&3],
			GroupBy: []GroupBy{GroupByAll, GroupByMajor, GroupByMinor, GroupByPatch}[knobs>>2&3],
			Level:   []Level{LevelRelease, LevelCandidate}[knobs>>4&1], TwoParts: []TwoParts{TwoPartsDeny, TwoPartsAllow}[knobs>>5&1],
			Parts: int(knobs >> 6 & 7), Limits: Limits{Groups: int(knobs >> 9 & 3), ReleasesPerGroup: int(knobs >> 11 & 3)},
		}
		if deny != "" {
			rules.Deny = strings.Split(deny, ",")
		}
		if exclude != "" {
			rules.TagFilter.Exclude = []string{exclude}
		}
		list := strings.Split(tags, ",")
		defer await.Quick(t)()
		s, err := Compile(rules)
		if err != nil {
			if err.Error() == "" {
				t.Fatal("an error without a message")
			}
			return
		}
		var held []Held
		for i, tag := range list {
			if v, err := read(tag); err == nil && knobs>>(13+i%16)&1 == 1 {
				held = append(held, Held{s.slugOf(v), v.String(), tag})
			}
		}
		times := map[string]Timed{}
		for i, tag := range list {
			if i%3 != 0 {
				times[tag] = Timed{Version: tag}
			}
		}
		rank := func(tags []string) *Ranking {
			if rules.Scheme == SchemePushTime {
				return s.RankTimed(tags, times)
			}
			return s.Rank(tags)
		}
		got := rank(list).Offer(held, nil)
		seen := offeredTags(got)
		for _, x := range got.Rejected {
			seen = append(seen, x.Tag)
			if x.Verdict == "" || x.Reason == "" {
				t.Fatalf("%q is rejected without a reason", x.Tag)
			}
		}
		slices.Sort(seen)
		all := slices.Compact(slices.Sorted(slices.Values(list)))
		if !slices.Equal(all, seen) {
			t.Fatalf("tags accounted for: %q of %q", seen, all)
		}
		groups := map[string]int{}
		for i, o := range got.Offered {
			if !label.MatchString(o.Slug) {
				t.Fatalf("slug %q", o.Slug)
			}
			v, err := read(o.Version)
			if err != nil || v.Original() != o.Version {
				t.Fatalf("offered version %q (tag %q) is read as %v, %v", o.Version, o.Tag, v, err)
			}
			if s.slugOf(v) != o.Slug {
				t.Fatalf("offered version %q in group %q is in group %q when it is parsed again", o.Version, o.Slug, s.slugOf(v))
			}
			groups[o.Slug]++
			if i > 0 && Compare(got.Offered[i-1].Version, o.Version) <= 0 {
				t.Fatalf("%s before %s", got.Offered[i-1].Version, o.Version)
			}
		}
		var now []Held
		for _, o := range got.Offered {
			now = append(now, Held{o.Slug, o.Version, o.Tag})
		}
		if w := s.Withdrawn(now, nil, got.Offered); len(w) > 0 {
			t.Fatalf("offered and withdrawn: %+v", w)
		}
		// A previously offered version that is still listed, but not offered now because of the limits, is not withdrawn while the rules admit it.
		if w := s.Withdrawn(now, nil, nil); len(w) > 0 && rules.Scheme != SchemePushTime {
			t.Fatalf("withdrawn because the list does not contain it, although the rules admit it: %+v, rules %+v", w, rules)
		}
		again := rank(offeredTags(got)).Offer(held, nil)
		if diff := gocmp.Diff(got.Offered, again.Offered); diff != "" {
			t.Fatalf("offered versions are not offered again:\n%s", diff)
		}
	})
}

// FuzzNames checks that the order of names does not matter, and that each name is offered with a valid tag.
func FuzzNames(f *testing.F) {
	f.Add(`release/(.*)`, `v$1`, "release/1.2.3,release/v1.2.3,v1.2.3,x")
	f.Add(`(?P<a>.*)`, `${a}x$$`, "1,2,3")
	f.Add(``, `0.0`, ",") // the same tag twice, once as a pre-release
	f.Fuzz(func(t *testing.T, from, to, names string) {
		if len(from) > 100 || strings.Contains(from, "{") || len(names) > 2000 || len(to) > 200 {
			return
		}
		defer await.Quick(t)()
		s, err := Compile(Rules{Match: NameMatch{From: from, To: to}, TwoParts: TwoPartsAllow, Level: LevelCandidate})
		if err != nil {
			return
		}
		var list []Name
		for i, n := range strings.Split(names, ",") {
			list = append(list, Name{Text: n, Prerelease: i%2 == 1})
		}
		a := s.RankNames(list).Offer(nil, nil)
		back := slices.Clone(list)
		slices.Reverse(back)
		b := s.RankNames(back).Offer(nil, nil)
		if diff := gocmp.Diff(a, b, gocmp.Comparer(func(a, b Rejection) bool { return a.Tag == b.Tag && a.Verdict == b.Verdict && a.Reason == b.Reason })); diff != "" {
			t.Fatalf("the result depends on the order: %s", diff)
		}
		for _, o := range a.Offered {
			if !IsTag(o.Tag) {
				t.Fatalf("%q is offered, and is not a tag", o.Tag)
			}
		}
	})
}
