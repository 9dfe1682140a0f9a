package version

import (
	"strings"
	"testing"

	"github.com/Masterminds/semver/v3"
)

// TestRanges contains the table of ranges. The library decides whether a final version matches. Its results are part
// of the table because they changed between versions of the library. This package decides whether a pre-release
// matches.
func TestRanges(t *testing.T) {
	for text, tc := range map[string]struct{ in, out string }{
		"*":                       {"0.0.1 5.0.0 1.0.0-rc.1 0.0.0-rc.1", ""},
		"1.2.x":                   {"1.2.0 1.2.9 1.2.0-rc.1 1.2.5-rc.1", "1.1.9 1.3.0 1.3.0-rc.1"},
		"1.2":                     {"1.2.0 1.2.9 1.2.0-rc.1", "1.3.0 1.3.0-rc.1"},
		"1.x":                     {"1.0.0 1.9.9 1.0.0-rc.1", "0.9.9 2.0.0 2.0.0-rc.1"},
		"v1.x":                    {"1.0.0 1.9.9", "2.0.0"},
		"^1":                      {"1.0.0 1.9.9 1.0.0-rc.1", "2.0.0 2.0.0-rc.1"},
		"^1.2.3":                  {"1.2.3 1.9.0 1.9.0-rc.1 1.2.4-rc.1", "1.2.2 1.2.3-rc.1 2.0.0-rc.1 2.0.0"},
		"^0.2":                    {"0.2.0 0.2.9 0.2.0-rc.1", "0.3.0 0.3.0-rc.1"},
		"^0.2.3":                  {"0.2.3 0.2.9", "0.3.0 0.3.0-rc.1"},
		"^0.0.3":                  {"0.0.3", "0.0.4 0.0.4-rc.1"},
		"~1.2.3":                  {"1.2.3 1.2.9 1.2.9-rc.1", "1.2.3-rc.1 1.3.0 1.3.0-rc.1"},
		"~1.2":                    {"1.2.0 1.2.9 1.2.0-rc.1", "1.3.0 1.3.0-rc.1"},
		"~1":                      {"1.0.0 1.9.9", "2.0.0"},
		"~> 1.2.3":                {"1.2.3 1.2.9", "1.3.0"},
		"0.0.x":                   {"0.0.0 0.0.9", "0.1.0"},
		"~0.0.x":                  {"0.0.0 0.0.9", "0.1.0"},
		">1.2":                    {"1.3.0 1.3.0-rc.1 2.0.0", "1.2.5 1.2.0"}, // above all versions 1.2.x
		">=1.2":                   {"1.2.0 1.2.0-rc.1 9.0.0", "1.1.9"},
		"<=1.2":                   {"1.2.5 1.2.0 0.1.0 1.2.6-rc.1", "1.3.0 1.3.0-rc.1"}, // all versions 1.2.x are included
		"<1.2":                    {"1.1.9 1.1.9-rc.1", "1.2.0 1.2.0-rc.1"},
		"<2.0.0":                  {"1.9.9 1.9.9-rc.1 0.1.0", "2.0.0 2.0.0-rc.1"},
		"<=2.0.0":                 {"2.0.0 2.0.0-rc.1", "2.0.1 2.0.1-rc.1"},
		">=1.2.0":                 {"1.2.0 1.2.1-rc.1 2.0.0-rc.1", "1.2.0-rc.1 1.1.9"},
		">1.2.3":                  {"1.2.4 1.2.4-rc.1", "1.2.3 1.2.3-rc.1"},
		">=1.0.0 <2.0.0":          {"1.0.0 1.2.0-rc.1 1.9.9", "1.0.0-rc.1 2.0.0-rc.1 2.0.0"},
		">=1.0.0-0 <2.0.0":        {"1.0.0-rc.1 1.2.0-rc.1", "2.0.0-rc.1"}, // The library alone would allow 2.0.0-rc.1.
		">=1.0.0 <2.0.0-0":        {"1.2.0-rc.1", "2.0.0-rc.1 1.0.0-rc.1"},
		">=1.2.0-rc.2":            {"1.2.0-rc.2 1.2.0-rc.10 1.2.0", "1.2.0-rc.1"},
		"<2.0.0-rc.3":             {"2.0.0-rc.1 1.9.9", "2.0.0-rc.3 2.0.0"},
		"=1.2.3-rc.1":             {"1.2.3-rc.1", "1.2.3 1.2.3-rc.2"},
		"1.2.x-0":                 {"1.2.0-rc.1 1.2.9", "1.3.0-rc.1"},
		"1.x-0":                   {"1.0.0-rc.1", "2.0.0-rc.1"},
		"^1.0.0-0":                {"1.0.0-rc.1", "2.0.0-rc.1"},
		"~1.2.3-0":                {"1.2.3-rc.1", "1.3.0-rc.1"},
		"1.2.3":                   {"1.2.3", "1.2.4 1.2.3-rc.1"},
		"=1.2.3+a":                {"1.2.3+a 1.2.3+b 1.2.3", "1.2.4"}, // Build metadata does not matter.
		">=1.0.0, !=1.2.3":        {"1.2.2 1.2.4 1.2.3-rc.1", "1.2.3 0.9.0"},
		">=1.0.0 !=1.2.x":         {"1.1.0 1.3.0-rc.1", "1.2.0 1.2.9 1.2.5-rc.1"},
		"1.x || 3.x":              {"1.0.0 3.0.0 3.0.0-rc.1", "2.0.0 4.0.0-rc.1"},
		"1.x || >=2.0.0-0 <3.0.0": {"1.5.0-rc.1 2.0.0-rc.1", "3.0.0-rc.1"},
		"1.2.0 - 1.4.5":           {"1.2.0 1.4.5 1.4.5-rc.1", "1.1.9 1.4.6 1.2.0-rc.1"},
		"1.2 - 1.4":               {"1.2.0 1.4.9 1.2.0-rc.1", "1.5.0 1.5.0-rc.1"},
		">= 2024.01.0":            {"2024.1.0 2024.12.31", "2023.12.31"},
		">=0.0.0":                 {"0.0.0 9.9.9", "0.0.0-rc.1"},
		"^0.0.0":                  {"0.0.0", "0.0.1"},
	} {
		c, problem, _ := parseConstraint(text)
		if problem != "" {
			t.Errorf("%q: %s", text, problem)
			continue
		}
		for want, list := range map[bool]string{true: tc.in, false: tc.out} {
			for _, v := range strings.Fields(list) {
				if got := c.allows(semver.MustParse(v)); got != want {
					t.Errorf("%q allows %s: %t, want %t", text, v, got, want)
				}
			}
		}
	}
}

// TestRangesThatAreRefused checks that common mistakes are rejected with a remedy, and never partially
// parsed.
func TestRangesThatAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"latest":                   "leave it empty for all versions",
		"":                         "leave it empty for all versions",
		" ":                        "leave it empty for all versions",
		">":                        "not a range",
		"1.x ||":                   "not a range",
		"!1.2.3":                   "not a range",
		"1.2.3.4":                  "not a range",
		">=1.2.3 and <2":           "not a range",
		"~0.0.0":                   `write "0.0.x"`,
		"~> 0.0.0":                 `write "0.0.x"`,
		"~0.0.0-0":                 `write "0.0.x"`,
		"1.x || ~0.0.0":            `write "0.0.x"`,
		"1.2-1.4.5":                "spaces around the hyphen",
		"1.2.0-1.4.5":              "spaces around the hyphen",
		"1.2-1":                    "spaces around the hyphen",
		"1.2-rc.1":                 "with a pre-release",
		"x.2.3":                    `end it at the wildcard, as in "x"`,
		"1.x.3":                    `end it at the wildcard, as in "1.x"`,
		"1.*.3":                    `end it at the wildcard, as in "1.x"`,
		"99999999999999999999.0.0": "not a range",
		strings.Repeat("1.2.3 || ", 40) + "1.2.3": "not a range",
		strings.Repeat("1", 600):                  "not a range",
	} {
		_, problem, remedy := parseConstraint(text)
		if problem == "" || remedy == "" {
			t.Errorf("%q: accepted, or without a remedy (%q, %q)", text, problem, remedy)
		}
		if message := problem + ": " + remedy; !strings.Contains(message, want) {
			t.Errorf("%q: error %q, want %q", text, message, want)
		}
	}
}

// FuzzConstraint checks that no range causes a panic, that rejected ranges have a remedy, and that an upper bound excludes
// the pre-releases of its version, regardless of the rest of the range.
func FuzzConstraint(f *testing.F) {
	for _, seed := range []string{">=1.0.0 <2.0.0", "1.2.x || ~3", "1.2 - 1.4.5", "~0.0.0", "^0", "*", "1|2", "=>1 =<2", "!=1.x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, problem, remedy := parseConstraint(text)
		if problem != "" {
			if remedy == "" {
				t.Errorf("%q: no remedy", text)
			}
			return
		}
		for _, v := range []string{"0.0.0", "1.0.0", "1.2.3", "2.0.0", "2.0.0-rc.1"} {
			c.allows(semver.MustParse(v))
		}
		if strings.Contains(text, "||") {
			return
		}
		bounded, problem, _ := parseConstraint("<2.0.0, " + text)
		if problem == "" && bounded.allows(semver.MustParse("2.0.0-rc.1")) {
			t.Errorf("%q below 2.0.0 allows 2.0.0-rc.1", text)
		}
	})
}
