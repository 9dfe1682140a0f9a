package version

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"1.2.3":                             "1.2.3",
		"v1.2.3":                            "1.2.3",
		"1.2.3-rc.1":                        "1.2.3-rc.1",
		"1.2.3_build.7":                     "1.2.3+build.7",
		"1.2.3-rc.1_7":                      "1.2.3-rc.1+7",
		"1.2.3+build":                       "1.2.3+build",
		"2024.01.05":                        "2024.1.5",
		"1.2.3-alpine3.19":                  "1.2.3-alpine3.19",
		"1.2.3-debian-12-r4":                "1.2.3-debian-12-r4",
		"18446744073709551615.0.0":          "18446744073709551615.0.0",
		"18446744073709551616.0.0":          "",
		"99999999999999999999.0.0":          "",
		"":                                  "",
		"v":                                 "",
		"1":                                 "",
		"1.2":                               "",
		"v2":                                "",
		"20240105":                          "",
		"1234567":                           "",
		"2024-01-05":                        "",
		"1.2.3.4":                           "",
		"vv1.2.3":                           "",
		"V1.2.3":                            "",
		"release-1.2.3":                     "",
		" 1.2.3":                            "",
		"1.2.3 ":                            "",
		"1.2.3-":                            "",
		"1.2.3_":                            "",
		"1.2.3-01":                          "",
		"1.2.3-rc..1":                       "",
		"1.2.3_a_b":                         "",
		"1..3":                              "",
		"..":                                "",
		"-1.2.3":                            "",
		"1.2.x":                             "",
		"latest":                            "",
		"1.2.3-é":                           "",
		strings.Repeat("1", 200):            "",
		"1.2.3-" + strings.Repeat("a", 200): "",
	} {
		v, err := Parse(text, TwoPartsDeny)
		got := ""
		if err == nil {
			got = v.String()
		}
		if got != want {
			t.Errorf("Parse(%q) = %q, %v; want %q", text, got, err, want)
		}
	}
}

func TestParseTwoParts(t *testing.T) {
	for text, want := range map[string]string{
		"1.2":                             "1.2.0",
		"v1.2":                            "1.2.0",
		"1.2-rc.1":                        "1.2.0-rc.1",
		"1.2_b":                           "1.2.0+b",
		"01.02":                           "1.2.0",
		"1.2.3":                           "1.2.3",
		"1":                               "",
		"20240105":                        "",
		"2024-01-05":                      "",
		"1.2.3.4":                         "",
		".2":                              "",
		"1.2-" + strings.Repeat("a", 124): "",
	} {
		v, err := Parse(text, TwoPartsAllow)
		got := ""
		if err == nil {
			got = v.String()
		}
		if got != want {
			t.Errorf("Parse(%q) = %q, %v; want %q", text, got, err, want)
		}
	}
}

// TestCompare checks the order of semver 2.0.0, and the order of build metadata, which semver does not define.
func TestCompare(t *testing.T) {
	ascending := []string{
		"", "latest", "main-7",
		"0.9.0",
		"1.2.3-1", "1.2.3-2", "1.2.3-10", "1.2.3-RC", "1.2.3-alpine", "1.2.3-beta",
		"1.2.3-rc", "1.2.3-rc.9", "1.2.3-rc.10", "1.2.3-rc10", "1.2.3-rc9", // rc10 < rc9, because words are ordered by their bytes
		"1.2.3", "1.2.3+1", "1.2.3+2", "1.2.3+10", "1.2.3+10.1", "1.2.3+a", "1.2.3+b",
		"1.2.3.0", "1.2.3.1", "1.2.3.2-rc.1", "1.2.3.2", "1.2.3.10", "1.2.3.10.1", "1.2.3.10.1.7",
		"1.2.4", "1.10.0", "2.0.0-rc.1", "2.0.0", "10.0.0",
	}
	for i, a := range ascending {
		for j, b := range ascending {
			got, want := Compare(a, b), 0
			if i < j {
				want = -1
			} else if i > j {
				want = 1
			}
			if sign(got) != want {
				t.Errorf("Compare(%q, %q) = %d, want %d", a, b, got, want)
			}
		}
	}
}

func sign(n int) int { return min(max(n, -1), 1) }

// versions generates versions from only a few different numbers, so that equal versions occur
// often.
var versions = rapid.Custom(func(t *rapid.T) string {
	n := rapid.SampledFrom([]string{"0", "1", "2", "10"})
	text := rapid.SampledFrom([]string{"", "v"}).Draw(t, "v") + n.Draw(t, "major") + "." + n.Draw(t, "minor") + "." + n.Draw(t, "patch")
	text += rapid.SampledFrom([]string{"", "", "-rc.1", "-rc.2", "-rc.10", "-1", "-alpine"}).Draw(t, "pre")
	text += rapid.SampledFrom([]string{"", "", "", ".1", ".2-rc.1", ".10", ".1.2"}).Draw(t, "more")
	return text + rapid.SampledFrom([]string{"", "", "_1", "_2", "_10", "_a.01", "_a.1"}).Draw(t, "build")
})

func TestCompareIsATotalOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(versions, rapid.StringMatching(`[a-z0-9.+_-]{0,8}`))
		a, b, c := text.Draw(t, "a"), text.Draw(t, "b"), text.Draw(t, "c")
		if sign(Compare(a, b)) != -sign(Compare(b, a)) {
			t.Errorf("%q and %q: not antisymmetric", a, b)
		}
		if (Compare(a, b) == 0) != (a == b) {
			t.Errorf("%q and %q: want Compare to return 0 if, and only if, the texts are equal", a, b)
		}
		three := []string{a, b, c}
		slices.SortFunc(three, Compare)
		if Compare(three[0], three[2]) > 0 {
			t.Errorf("%q: not transitive", three)
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"1.2.3", "v1.2.3-rc.1_b", "1.2", "2024.01.05", "1.2.3-01", "", "_", "1.2.3_"} {
		f.Add(seed, true)
		f.Add(seed, false)
	}
	f.Fuzz(func(t *testing.T, text string, two bool) {
		parts := TwoPartsDeny
		if two {
			parts = TwoPartsAllow
		}
		v, err := Parse(text, parts)
		if err != nil {
			return
		}
		normal := v.String()
		again, err := Parse(normal, TwoPartsDeny)
		if err != nil || again.String() != normal || v.Original() != normal {
			t.Errorf("Parse(%q) = %q, which reads as %v, %v", text, normal, again, err)
		}
		if len(normal) > maxLength {
			t.Errorf("Parse(%q) is longer than %d", text, maxLength)
		}
		if !isLabel(Slug(Rules{GroupBy: GroupByPatch}.nameOf(Rules{GroupBy: GroupByPatch}.keyOf(v)))) {
			t.Errorf("the group of %q is not a DNS label", text)
		}
	})
}

func isLabel(s string) bool {
	return s != "" && len(s) <= maxSlug && s[0] != '-' && s[len(s)-1] != '-' && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

func TestIsTag(t *testing.T) {
	for text, want := range map[string]bool{
		"1.2.3": true, "_a": true, "A-b_c.d": true, strings.Repeat("a", 128): true,
		"": false, ".a": false, "-a": false, "a/b": false, "a:b": false, "a+b": false, "é": false, "a b": false, strings.Repeat("a", 129): false,
	} {
		if got := IsTag(text); got != want {
			t.Errorf("IsTag(%q) = %t, want %t", text, got, want)
		}
	}
}

func TestIsAttachment(t *testing.T) {
	digest := strings.Repeat("0a", 32)
	for tag, want := range map[string]bool{
		"sha256-" + digest + ".sig":  true,
		"sha256-" + digest + ".att":  true,
		"sha256-" + digest + ".sbom": true,
		"sha256-" + digest:           true,
		"sha512-" + digest + digest:  true,
		"sha256-abc.sig":             true,
		"sha256-abc":                 false,
		"sha256":                     false,
		"sha1-" + digest:             false,
		"1.2.3":                      false,
		"1.2.3-sha256-" + digest:     false,
	} {
		if got := isAttachment(tag); got != want {
			t.Errorf("isAttachment(%q) = %t, want %t", tag, got, want)
		}
	}
}

// TestPlainNumbers compares the fast path of Compare with the general path.
func TestPlainNumbers(t *testing.T) {
	texts := []string{
		"", ".", "..", "1", "1.2", "1.2.3", "1.2.4", "01.2.3", "1.02.3", "1.2.03", "1.10.3", "10.2.3", "0.0.0", "1.2.3.4", "1..3", ".2.3", "1.2.", "v1.2.3", "1.2.3-rc.1", "1.2.3+b", "1.2.x", "-1.2.3",
		"999999999999999999.0.1", "1000000000000000000.0.1", "18446744073709551615.0.0", "18446744073709551616.0.0",
	}
	for _, a := range texts {
		x, short := plainNumbers(a)
		if v, err := read(a); short && (err != nil || x != [3]uint64{v.Major(), v.Minor(), v.Patch()} || v.Prerelease()+v.Metadata() != "" || len(v.more) > 0) {
			t.Errorf("plainNumbers(%q) = %d, but the text is read as %v, %v", a, x, v, err)
		}
		for _, b := range texts {
			va, errA := read(a)
			vb, errB := read(b)
			if _, short := plainNumbers(b); !short || errA != nil || errB != nil {
				continue
			}
			if got, want := Compare(a, b), cmp.Or(compare(va, vb), strings.Compare(a, b)); got != want {
				t.Errorf("Compare(%q, %q) = %d, want %d", a, b, got, want)
			}
		}
	}
	for _, short := range []string{"1.2.3", "1.2", "01.2.3", "0.0.0", "999999999999999999.0.1"} {
		if _, ok := plainNumbers(short); !ok {
			t.Errorf("plainNumbers does not read %q", short)
		}
	}
}
