package version

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"
)

// TwoParts defines whether "1.2" is a version.
type TwoParts string

// TwoPartsDeny is the default and requires three numeric parts, so that dates, numeric
// commit hashes and floating tags are not versions.
const (
	TwoPartsDeny  TwoParts = "Deny"
	TwoPartsAllow TwoParts = "Allow"
)

// The reasons why a string is not a version.
var (
	errNotThree = errors.New("not a version: three numeric parts are required (1.2.3)")
	errNotTwo   = errors.New("not a version: two or three numeric parts are required (1.2 or 1.2.3)")
	errSyntax   = errors.New("not a version: it is not a semantic version (1.2.3, 1.2.3-rc.1, 1.2.3_build)")
	errTooLong  = errors.New("not a version: longer than 128 characters")
)

// maxLength is the maximum length of a tag, and therefore of a version.
const maxLength = 128

// Parse parses a version. It removes one leading "v", and leading zeros from the three numbers. For example,
// 2024.01.05 becomes 2024.1.5. "_" stands for the "+" of build metadata, because tags cannot contain "+".
// Numbers must be below 2^64. Original and String return the normal form of the version. The error describes
// why the text is not a version. The same text always results in the same error.
func Parse(text string, parts TwoParts) (*Version, error) {
	if len(text) > maxLength {
		return nil, errTooLong
	}
	text = strings.TrimPrefix(text, "v")
	core := text
	if i := strings.IndexAny(text, "-_+"); i >= 0 {
		core = text[:i]
	}
	switch dots := strings.Count(core, "."); {
	case dots == 2:
	case dots == 1 && parts == TwoPartsAllow:
		text = core + ".0" + text[len(core):]
	case parts == TwoPartsAllow:
		return nil, errNotTwo
	default:
		return nil, errNotThree
	}
	if len(text) > maxLength {
		return nil, errTooLong
	}
	if strings.Contains(text, "_") {
		text = strings.ReplaceAll(text, "_", "+")
	}
	v, err := semver.StrictNewVersion(text)
	if errors.Is(err, semver.ErrSegmentStartsZero) {
		if v, err = semver.NewVersion(text); err == nil {
			v = semver.New(v.Major(), v.Minor(), v.Patch(), v.Prerelease(), v.Metadata())
		}
	}
	if err != nil {
		return nil, errSyntax
	}
	return &Version{Version: *v}, nil
}

// Meant returns the offered version to which a user's text refers. For example, the tags "v1.2.3"
// and "2024.01.05_4" refer to 1.2.3 and 2024.1.5+4. Text that is not a version with three or more
// numbers, such as a commit, is returned unchanged.
func Meant(text string) string {
	bare := strings.TrimPrefix(text, "v")
	if strings.Count(bare, ".") < 2 {
		return text
	}
	if v, err := Parse(text, TwoPartsDeny); err == nil {
		return v.Original()
	}
	if v, err := read(bare); err == nil && len(v.more) > 0 {
		return v.Original()
	}
	return text
}

// Names reports whether a user's text refers to an offered version.
func Names(text, offered string) bool { return text == offered || Meant(text) == offered }

// Matches reports whether a string that a user enters in a command refers to an offered version, either as in [Names] or as the first
// seven or more digits of the SHA-1 of a commit.
func Matches(text, offered string) bool {
	return Names(text, offered) || len(text) >= 7 && isCommit(offered) && strings.HasPrefix(offered, text)
}

// isCommit reports whether an offered version is the SHA-1 of a commit.
func isCommit(offered string) bool {
	return len(offered) == 40 && strings.Trim(offered, "0123456789abcdef") == ""
}

// Compare orders two offered versions ("1.2.3-rc.1+b.2") by semver precedence, and then by build metadata. Numbers in build metadata are
// ordered by value, and a version without build metadata comes first. Strings that are not versions sort below all versions, in the order
// of their bytes. The order is total: the result is 0 only for identical versions.
//
// Versions with more than three numbers, which come from schemes other than SemVer, are
// ordered by all their numbers: 1.2.3 < 1.2.3.1 < 1.2.3.2 < 1.2.4.
//
// Precedence follows semver 2.0.0 exactly, so rc10 is below rc9, and
// rc.10 is above rc.9.
func Compare(a, b string) int {
	if a == b {
		return 0
	}
	if x, plain := plainNumbers(a); plain {
		if y, plain := plainNumbers(b); plain {
			return cmp.Or(slices.Compare(x[:], y[:]), strings.Compare(a, b))
		}
	}
	va, errA := read(a)
	vb, errB := read(b)
	switch {
	case errA != nil && errB != nil:
		return strings.Compare(a, b)
	case errA != nil:
		return -1
	case errB != nil:
		return 1
	}
	return cmp.Or(compare(va, vb), strings.Compare(a, b))
}

// plainNumbers parses a version that consists of only two or three short numbers, without allocating memory. Nearly all
// versions have this form. ok is false for any other text.
func plainNumbers(text string) (numbers [3]uint64, ok bool) {
	part, digits := 0, 0
	for i := range len(text) {
		switch c := text[i]; {
		case c == '.':
			if part, digits = part+1, 0; part == len(numbers) || i == 0 || text[i-1] == '.' {
				return numbers, false
			}
		case c < '0' || c > '9' || digits == 18: // A number with 18 digits is below 2^64.
			return numbers, false
		default:
			numbers[part], digits = numbers[part]*10+uint64(c-'0'), digits+1
		}
	}
	return numbers, part > 0 && digits > 0
}

// compareBuild orders build metadata by the rules for pre-releases, except that
// a version without build metadata is the lowest: 1.2.3 < 1.2.3+1 < 1.2.3+2 < 1.2.3+10 < 1.2.3+10.1.
func compareBuild(a, b string) int {
	for a != "" && b != "" {
		var x, y string
		x, a, _ = strings.Cut(a, ".")
		y, b, _ = strings.Cut(b, ".")
		if c := compareIdentifier(x, y); c != 0 {
			return c
		}
	}
	return cmp.Compare(len(a), len(b))
}

// compareIdentifier orders numbers by value, and orders numbers below words. Equal numbers with
// different numbers of leading zeros are ordered by length.
func compareIdentifier(a, b string) int {
	numA, numB := isNumber(a), isNumber(b)
	switch {
	case numA && numB:
		za, zb := strings.TrimLeft(a, "0"), strings.TrimLeft(b, "0")
		return cmp.Or(cmp.Compare(len(za), len(zb)), strings.Compare(za, zb), cmp.Compare(len(a), len(b)))
	case numA:
		return -1
	case numB:
		return 1
	}
	return strings.Compare(a, b)
}

func isNumber(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// IsTag reports whether s is a valid tag according to the OCI distribution specification.
func IsTag(s string) bool {
	if s == "" || len(s) > maxLength || s[0] == '.' || s[0] == '-' {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if !(c == '.' || c == '-' || c == '_' || c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z') {
			return false
		}
	}
	return true
}
