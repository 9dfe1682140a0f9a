package version

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/Masterminds/semver/v3"
)

// Scheme defines how a version is parsed from a string. With every scheme, the normal
// form of a version has at least three numbers, so that ranges, groups and ordering work
// in the same way for all schemes.
type Scheme string

// The schemes.
const (
	// SchemeSemVer is the default and parses semantic versions. See Parse.
	SchemeSemVer Scheme = "SemVer"
	// SchemeTuple parses Rules.Parts numbers that are separated by ".", "-" or "_". Use it for versions
	// that consist of dates, times or build numbers, such as "2024.01.05" and "20240105-123045".
	SchemeTuple Scheme = "Tuple"
	// SchemeRegexp parses the named groups of TagFilter.Pattern: major, minor, patch,
	// revision and prerelease. A number that is missing or empty is 0.
	SchemeRegexp Scheme = "Regexp"
	// SchemePushTime does not parse the tag. The version is derived from the time of the image. The
	// caller passes the versions to RankTimed.
	SchemePushTime Scheme = "PushTime"
)

// DefaultParts and MaxParts are the default and the maximum number of parts of a tuple.
const (
	DefaultParts = 3
	MaxParts     = 6
)

// Version is a version of any scheme: a semantic version that may have more than
// three numbers.
type Version struct {
	semver.Version
	more []uint64 // numbers after the third
}

// Original returns the normal form, such as "1.2.3-rc.1+build" or "2024.1.5.2".
func (v *Version) Original() string {
	if len(v.more) == 0 {
		return v.Version.Original()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d.%d.%d", v.Major(), v.Minor(), v.Patch())
	for _, n := range v.more {
		fmt.Fprintf(&b, ".%d", n)
	}
	if pre := v.Prerelease(); pre != "" {
		b.WriteString("-" + pre)
	}
	return b.String()
}

// String returns the normal form.
func (v *Version) String() string { return v.Original() }

// names reports whether v, as written by a user, refers to o. "1.2.3" refers to all its builds and
// revisions, and "2026.1.5.13" to all times in that hour. "1.2.3+b" refers to only one version.
func (v *Version) names(o *Version) bool {
	return v.Equal(&o.Version) && (v.Metadata() == "" || v.Metadata() == o.Metadata()) && len(v.more) <= len(o.more) && slices.Equal(v.more, o.more[:len(v.more)])
}

// compare orders versions by their numbers, then by pre-release, and then by build metadata. If the numbers of one version
// begin with all numbers of the other, the version with more numbers is higher, regardless of pre-releases.
func compare(a, b *Version) int {
	if len(a.more) > 0 || len(b.more) > 0 {
		if c := cmp.Or(
			cmp.Compare(a.Major(), b.Major()), cmp.Compare(a.Minor(), b.Minor()), cmp.Compare(a.Patch(), b.Patch()),
			slices.Compare(a.more, b.more),
		); c != 0 {
			return c
		}
	}
	if c := a.Version.Compare(&b.Version); c != 0 {
		return c
	}
	return compareBuild(a.Metadata(), b.Metadata())
}

// ofNumbers returns the version with the given pre-release and the given numbers, of which there are one to six.
func ofNumbers(numbers []uint64, prerelease string) *Version {
	var first [3]uint64
	n := copy(first[:], numbers)
	return &Version{Version: *semver.New(first[0], first[1], first[2], prerelease, ""), more: slices.Clone(numbers[n:])}
}

// read parses the normal form of a version of any scheme.
func read(text string) (*Version, error) {
	v, err := Parse(text, TwoPartsAllow)
	if err == nil {
		return v, nil
	}
	core, prerelease, _ := strings.Cut(text, "-")
	if numbers, bad := readNumbers(core, "."); bad == nil && len(numbers) > 3 && (prerelease == "" || isPrerelease(prerelease)) {
		return ofNumbers(numbers, prerelease), nil
	}
	return nil, err
}

var (
	errNumbers = errors.New("not a version: it does not consist only of numbers")
	errRange   = errors.New("not a version: a number is too large")
)

// readNumbers parses one to six numbers that are separated by any of the separators.
func readNumbers(text, separators string) ([]uint64, error) {
	var numbers []uint64
	for {
		i := strings.IndexAny(text, separators)
		part := text
		if i >= 0 {
			part = text[:i]
		}
		if !isNumber(part) {
			return nil, errNumbers
		}
		n, err := strconv.ParseUint(part, 10, 64)
		switch {
		case err != nil:
			return nil, errRange
		case len(numbers) == MaxParts:
			return nil, errNumbers
		}
		numbers = append(numbers, n)
		if i < 0 {
			return numbers, nil
		}
		text = text[i+1:]
	}
}

// isPrerelease reports whether a string can be the pre-release of a semantic version.
func isPrerelease(text string) bool {
	_, err := semver.StrictNewVersion("0.0.0-" + text)
	return err == nil && !strings.Contains(text, "+")
}

// parse parses the version of a candidate according to the scheme of the rules.
func (s *Selector) parse(c *candidate) (*Version, error) {
	switch s.rules.Scheme {
	case SchemeRegexp:
		return s.parseGroups(c)
	case SchemePushTime:
		return c.timed.read()
	}
	text, ok := strings.CutSuffix(c.text, s.rules.Suffix)
	if !ok {
		return nil, s.errors.suffix
	}
	return s.parseText(text)
}

// parseText parses a version without its suffix. Users write versions in this form in deny.
func (s *Selector) parseText(text string) (*Version, error) {
	switch s.rules.Scheme {
	case SchemeTuple:
		numbers, err := readNumbers(strings.TrimPrefix(text, "v"), ".-_")
		if err == nil && len(numbers) != s.rules.Parts || errors.Is(err, errNumbers) {
			err = s.errors.parts
		}
		if err != nil {
			return nil, err
		}
		return ofNumbers(numbers, ""), nil
	case SchemeRegexp:
		if strings.Count(text, ".") < 2 && !strings.ContainsAny(text, "-_+") {
			return nil, errNotThree // "1.2" is a range, because all versions of this scheme have at least three numbers.
		}
		return read(text)
	case SchemePushTime:
		if strings.Count(text, ".") > 2 {
			return read(text)
		}
		return Parse(text, TwoPartsDeny)
	default:
		return Parse(text, s.rules.TwoParts)
	}
}

// groupsOfVersion contains the names of the groups that SchemeRegexp parses. The groups for numbers come
// first, in order of decreasing significance.
var groupsOfVersion = []string{"major", "minor", "patch", "revision", "prerelease"}

// parseGroups parses the parts of a tag that the named groups of the pattern matched.
func (s *Selector) parseGroups(c *candidate) (*Version, error) {
	var numbers [4]uint64
	for i, at := range s.groups[:4] {
		text := c.group(at)
		if text == "" {
			continue
		}
		if !isNumber(text) {
			return nil, fmt.Errorf("not a version: group %q is %q, not a number", groupsOfVersion[i], text)
		}
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return nil, errRange
		}
		numbers[i] = n
	}
	prerelease := c.group(s.groups[4])
	if prerelease != "" && !isPrerelease(prerelease) {
		return nil, fmt.Errorf("not a version: group \"prerelease\" is %q, not a pre-release of a semantic version", prerelease)
	}
	if s.groups[3] < 0 {
		return ofNumbers(numbers[:3], prerelease), nil
	}
	return ofNumbers(numbers[:], prerelease), nil
}

// group returns the text that a group of the pattern matched, or an empty string.
func (c *candidate) group(at int) string {
	if at < 0 || c.match[2*at] < 0 {
		return ""
	}
	return c.tag[c.match[2*at]:c.match[2*at+1]]
}

func (s *Selector) compileScheme(r Rules) (errs []FieldError) {
	errs = oneOf("versioning.scheme", r.Scheme, SchemeSemVer, SchemeTuple, SchemeRegexp, SchemePushTime)
	s.errors.suffix = fmt.Errorf("not a version: it does not end with versioning.suffix %q", r.Suffix)
	s.errors.parts = fmt.Errorf("not a version: it does not consist of %d numbers separated by '.', '-' or '_' (versioning.parts)", r.Parts)
	if r.Scheme == SchemeTuple {
		if r.Parts < 1 || r.Parts > MaxParts {
			errs = append(errs, FieldError{"versioning.parts", fmt.Sprintf("%d is not between 1 and %d", r.Parts, MaxParts), "set it to the number of numeric parts of a version"})
		}
		if need := map[GroupBy]int{GroupByMajor: 2, GroupByMinor: 3, GroupByPatch: 3}[r.GroupBy]; r.Parts < need {
			errs = append(errs, FieldError{"versioning.groupBy", fmt.Sprintf("%s requires versions with at least %d numbers, but versions have %d", r.GroupBy, need, r.Parts), "write All, or raise versioning.parts"})
		}
	}
	if r.Scheme == SchemeRegexp {
		errs = append(errs, s.compileGroups(r)...)
	}
	if r.Scheme == SchemePushTime {
		errs = append(errs, timeErrors(r)...)
	}
	return errs
}

func (s *Selector) compileGroups(r Rules) (errs []FieldError) {
	const field = "tagFilter.pattern"
	if r.Suffix != "" {
		errs = append(errs, FieldError{"versioning.suffix", "is not used with versioning.scheme Regexp", "add it to tagFilter.pattern"})
	}
	if r.TagFilter.Extract != "" {
		errs = append(errs, FieldError{"tagFilter.extract", "is not used with versioning.scheme Regexp", "name the groups of tagFilter.pattern major, minor, patch, revision and prerelease"})
	}
	re, err := regexp.Compile(r.TagFilter.Pattern)
	if err != nil {
		return errs // The check of the tag filter reports the problem.
	}
	for i, name := range groupsOfVersion {
		s.groups[i] = re.SubexpIndex(name)
	}
	if s.groups[0] < 0 {
		errs = append(errs, FieldError{field, fmt.Sprintf("%q has no group named major, which versioning.scheme Regexp requires", r.TagFilter.Pattern), `name its groups, as in "^v(?P<major>[0-9]+)-(?P<minor>[0-9]+)$"`})
	}
	seen := map[string]bool{}
	for _, name := range re.SubexpNames() {
		if name != "" && (seen[name] || !slices.Contains(groupsOfVersion, name)) {
			errs = append(errs, FieldError{field, fmt.Sprintf("the group %q is unknown or appears twice", name), "name groups major, minor, patch, revision and prerelease, each once; do not name the other groups"})
		}
		seen[name] = true
	}
	return errs
}
