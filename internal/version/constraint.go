package version

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/Masterminds/semver/v3"
)

// constraint is a range of versions. It considers only the first three numbers of a version. The semver library from
// Masterminds decides whether a final version matches. constraint decides for each comparison whether a pre-release
// matches, because no setting of the library excludes both 2.0.0-rc.1 from "<2.0.0" and 1.2.0-rc.1 from ">=1.2.0":
//
//   - For a bound with a pre-release (">=1.2.0-rc.2") and for "!=1.2.3", precedence decides.
//   - A bound with fewer than three numbers ("1.x", ">=1.2") stands for a series of versions. A
//     pre-release is in the series of the version that it precedes.
//   - For "<" and "<=", the bound is compared with the version that the pre-release precedes.
//   - For all other comparisons (">=", ">", "=", "~", "^"), precedence decides.
type constraint struct {
	text   string
	finals *semver.Constraints
	pres   [][]comparison // alternatives, each of which is a list of comparisons that must all match
}

type comparison struct {
	check  *semver.Constraints
	byCore bool
}

// allows reports whether v is in the range.
func (c *constraint) allows(v *semver.Version) bool {
	if v.Prerelease() == "" {
		return c.finals.Check(v)
	}
	core := semver.New(v.Major(), v.Minor(), v.Patch(), "", "")
	for _, and := range c.pres {
		if allowsAll(and, v, core) {
			return true
		}
	}
	return false
}

func allowsAll(and []comparison, v, core *semver.Version) bool {
	for _, cmp := range and {
		judged := v
		if cmp.byCore {
			judged = core
		}
		if !cmp.check.Check(judged) {
			return false
		}
	}
	return true
}

// comparisonPattern splits a comparison into its operator, its numbers or wildcards, and its
// pre-release.
var comparisonPattern = regexp.MustCompile(`^([=!<>~^]*)v?([0-9xX*]+)(?:\.([0-9xX*]+))?(?:\.([0-9xX*]+))?(?:-([0-9A-Za-z.-]+))?(?:\+.*)?$`)

// likeVersion matches a pre-release that was probably meant as the end of a range.
var likeVersion = regexp.MustCompile(`^v?[0-9]+(\.[0-9]+)+$`)

// remedyRange is the remedy for a range that cannot be parsed.
const remedyRange = `write comparisons such as ">=1.2.0 <2.0.0", "1.2.x" or "1.x || 2.x", or leave it empty for all versions`

// parseConstraint parses a range. problem and remedy are empty if the range is valid.
func parseConstraint(text string) (c *constraint, problem, remedy string) {
	finals, err := semver.NewConstraint(text)
	if err != nil {
		return nil, fmt.Sprintf("%q is not a range of versions", text), remedyRange
	}
	c = &constraint{text: text, finals: finals}
	// String returns "op version" words joined by spaces, and " || " between the alternatives. In this form, a hyphen
	// range consists of two comparisons.
	for _, alternative := range strings.Split(finals.String(), "||") {
		var and []comparison
		for _, word := range strings.Fields(alternative) {
			cmp, problem, remedy := parseComparison(word)
			if problem != "" {
				return nil, fmt.Sprintf("%q in %q %s", word, text, problem), remedy
			}
			and = append(and, cmp)
		}
		c.pres = append(c.pres, and)
	}
	return c, "", ""
}

func parseComparison(word string) (c comparison, problem, remedy string) {
	m := comparisonPattern.FindStringSubmatch(word)
	if m == nil {
		return c, "is not a comparison", remedyRange
	}
	op, numbers, pre := m[1], m[2:5], m[5]
	partial, zero := false, true
	for i, n := range numbers {
		wild := n == "" || strings.Trim(n, "xX*") == ""
		if partial && !wild {
			return c, "has a number after a wildcard, which is not supported", fmt.Sprintf("end it at the wildcard, as in %q", strings.Join(append(numbers[:i-1:i-1], "x"), "."))
		}
		partial = partial || wild
		zero = zero && strings.Trim(n, "0") == ""
	}
	switch {
	case pre != "" && pre != "0" && (partial || likeVersion.MatchString(pre)):
		return c, "is a version with a pre-release, not a range", `put spaces around the hyphen ("1.2.0 - 1.4.5"), or write ">=1.2.0 <=1.4.5"`
	case strings.HasPrefix(op, "~") && !partial && zero:
		return c, "would allow every version", `write "0.0.x", or ">=0.0.0" for all versions`
	}
	check, err := semver.NewConstraint(word)
	if err != nil {
		return c, "is not a comparison", remedyRange
	}
	check.IncludePrerelease = true
	switch {
	case partial:
		c.byCore = true
	case pre != "":
	default:
		c.byCore = strings.HasPrefix(op, "<") || op == "=<"
	}
	c.check = check
	return c, "", ""
}
