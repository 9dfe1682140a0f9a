package version

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
)

// Rules define which tags are versions, and which versions an ImagePolicy offers. The zero value
// offers the newest final versions in one group.
type Rules struct {
	// TagFilter selects tags and extracts the version.
	TagFilter TagFilter
	// Match maps the names of versions to tags if the source is not a registry.
	Match NameMatch
	// Level is the least mature level that is admitted. It defaults to LevelRelease.
	Level Level
	// Range is a range of versions, as in ">=1.0.0 <2.0.0". An empty range admits all versions.
	Range string
	// Scheme defines how a version is parsed. It defaults to SchemeSemVer.
	Scheme Scheme
	// Parts is the number of numeric parts in a SchemeTuple version. It defaults to DefaultParts.
	Parts int
	// Suffix is a string that each version must end with, such as "-alpine". It is removed before the version
	// is parsed. It is not used with SchemeRegexp or SchemePushTime.
	Suffix string
	// GroupBy defines which versions replace each other. It defaults to GroupByAll.
	GroupBy GroupBy
	// TwoParts defines whether "1.2" is a version. It defaults to TwoPartsDeny.
	TwoParts TwoParts
	// Deny lists versions and ranges. "1.2.3" denies all builds of the version, and "1.2.3+b" denies only that build.
	Deny []string
	// Limits limit the number of offered versions.
	Limits Limits
}

// TagFilter selects tags with regular expressions (RE2). An expression matches anywhere in
// the tag unless it is anchored.
type TagFilter struct {
	// Pattern must match the tag. An empty pattern matches all tags.
	Pattern string
	// Extract is the version, in terms of the capture groups of Pattern ("$version",
	// "${1}.0"). If Extract is empty, the version is the whole tag.
	Extract string
	// Exclude contains patterns. Tags that match one of them are not used.
	Exclude []string
}

// NameMatch converts a name to a tag with a regular expression (RE2). The zero value leaves names
// unchanged.
type NameMatch struct {
	// From must match the whole name.
	From string
	// To is the tag, in terms of the capture groups of From ("$1", "${version}").
	To string
}

// Limits limit the number of offered versions. Held versions are offered in addition to these
// versions.
type Limits struct {
	// Groups is the maximum number of offered groups. It defaults to DefaultGroups.
	Groups int
	// ReleasesPerGroup is the maximum number of offered releases in each group. It defaults to DefaultReleasesPerGroup.
	ReleasesPerGroup int
}

// Defaults and bounds for the fields of Limits.
const (
	DefaultGroups           = 3
	DefaultReleasesPerGroup = 10
	MaxReleases             = 512 // the limit for Groups * ReleasesPerGroup
)

// FieldError describes an invalid field of an ImagePolicy's spec, the problem with the field, and
// the remedy.
type FieldError struct {
	// Field is the path below spec, as in "versioning.range" or "deny[2]".
	Field string
	// Problem describes what is wrong, and Remedy describes what to write instead.
	Problem, Remedy string
}

// Error returns the field, the problem and the remedy as one line.
func (e FieldError) Error() string {
	return "spec." + e.Field + ": " + e.Problem + ": " + e.Remedy
}

// Validate returns all errors in the rules, in the order of the fields. If Compile succeeds, there are no
// errors.
func Validate(r Rules) []FieldError {
	_, errs := compile(r)
	return errs
}

// Compile prepares the rules for use. The error joins all FieldErrors.
func Compile(r Rules) (*Selector, error) {
	s, errs := compile(r)
	if len(errs) > 0 {
		joined := make([]error, len(errs))
		for i, e := range errs {
			joined[i] = e
		}
		return nil, errors.Join(joined...)
	}
	return s, nil
}

// Selector applies rules. It is immutable and safe for concurrent use.
type Selector struct {
	rules   Rules
	exclude []pattern
	match   *regexp.Regexp
	extract string
	mapping *regexp.Regexp // maps names to tags; nil means that each name equals its tag
	within  *constraint
	deny    []denial
	groups  [5]int // the index in match of each group in groupsOfVersion; -1 means that match has no such group
	reasons struct{ tagFilter, match, within, perGroup string }
	errors  struct{ suffix, parts error }
}

type pattern struct {
	re     *regexp.Regexp
	reason string
}

// denial is one entry of deny, which is either a version or a range.
type denial struct {
	version *Version
	within  *constraint
	reason  string
}

func (d denial) names(v *Version) bool {
	if d.version == nil {
		return d.within.allows(&v.Version)
	}
	return d.version.names(v)
}

func compile(r Rules) (*Selector, []FieldError) {
	r.Level = cmp.Or(r.Level, LevelRelease)
	r.GroupBy = cmp.Or(r.GroupBy, GroupByAll)
	r.TwoParts = cmp.Or(r.TwoParts, TwoPartsDeny)
	r.Scheme = cmp.Or(r.Scheme, SchemeSemVer)
	r.Parts = cmp.Or(r.Parts, DefaultParts)
	r.Limits.Groups = cmp.Or(r.Limits.Groups, DefaultGroups)
	r.Limits.ReleasesPerGroup = cmp.Or(r.Limits.ReleasesPerGroup, DefaultReleasesPerGroup)

	s := &Selector{rules: r}
	var errs []FieldError
	errs = append(errs, s.compileTagFilter(r.TagFilter)...)
	errs = append(errs, s.compileMatch(r.Match)...)
	errs = append(errs, s.compileScheme(r)...)
	errs = append(errs, oneOf("versioning.level", r.Level, LevelRelease, LevelCandidate)...)
	errs = append(errs, s.compileRange(r.Range)...)
	errs = append(errs, oneOf("versioning.groupBy", r.GroupBy, GroupByAll, GroupByMajor, GroupByMinor, GroupByPatch)...)
	errs = append(errs, oneOf("versioning.twoParts", r.TwoParts, TwoPartsDeny, TwoPartsAllow)...)
	errs = append(errs, s.compileDeny(r.Deny)...)
	errs = append(errs, s.compileLimits(r.Limits)...)
	return s, errs
}

func (s *Selector) compileTagFilter(f TagFilter) (errs []FieldError) {
	for i, text := range f.Exclude {
		field := fmt.Sprintf("tagFilter.exclude[%d]", i)
		re, err := regexp.Compile(text)
		if err != nil {
			errs = append(errs, badPattern(field, text, err))
			continue
		}
		s.exclude = append(s.exclude, pattern{re, fmt.Sprintf("%s %q matches", field, text)})
	}
	if f.Pattern == "" {
		if f.Extract != "" {
			errs = append(errs, FieldError{"tagFilter.extract", "uses the groups of tagFilter.pattern, which is empty",
				`set the pattern too, as in "^app-(?P<version>.+)$"`})
		}
		return errs
	}
	re, err := regexp.Compile(f.Pattern)
	if err != nil {
		return append(errs, badPattern("tagFilter.pattern", f.Pattern, err))
	}
	s.match, s.extract = re, f.Extract
	s.reasons.tagFilter = fmt.Sprintf("tagFilter.pattern %q does not match", f.Pattern)
	return append(errs, missingGroups("tagFilter.extract", f.Extract, "tagFilter.pattern", f.Pattern, re)...)
}

func (s *Selector) compileMatch(m NameMatch) []FieldError {
	if m == (NameMatch{}) {
		return nil
	}
	if _, err := regexp.Compile(m.From); err != nil {
		return []FieldError{badPattern("match.name.from", m.From, err)}
	}
	re, err := regexp.Compile(`^(?:` + m.From + `)$`)
	if err != nil {
		return []FieldError{badPattern("match.name.from", m.From, err)}
	}
	s.mapping = re
	s.reasons.match = fmt.Sprintf("match.name.from %q does not match the whole name", m.From)
	return missingGroups("match.name.to", m.To, "match.name.from", m.From, re)
}

// missingGroups reports each group that a template uses but that does not exist in the pattern.
func missingGroups(field, template, of, pattern string, re *regexp.Regexp) (errs []FieldError) {
	for _, group := range templateGroups(template) {
		if !hasGroup(re, group) {
			errs = append(errs, FieldError{field, fmt.Sprintf("%q uses the group %q, which %s %q does not have", template, group, of, pattern),
				"use one of the pattern's groups, in braces if a letter, digit or _ follows, as in ${version}x"})
		}
	}
	return errs
}

func badPattern(field, text string, err error) FieldError {
	reason := err.Error()
	var malformed *syntax.Error
	if errors.As(err, &malformed) {
		reason = malformed.Code.String()
	}
	return FieldError{field, fmt.Sprintf("%q is not a valid regular expression (%s)", text, reason), "use RE2 syntax, which has no lookaround and no backreferences"}
}

// templateGroup matches a reference to a group, such as $1 or ${version}, and the escape $$, in the same way as regexp.Expand.
var templateGroup = regexp.MustCompile(`\$\$|\$([0-9A-Za-z_]+)|\$\{([0-9A-Za-z_]+)\}`)

func templateGroups(template string) (names []string) {
	for _, m := range templateGroup.FindAllStringSubmatch(template, -1) {
		if name := m[1] + m[2]; name != "" {
			names = append(names, name)
		}
	}
	return names
}

func hasGroup(re *regexp.Regexp, name string) bool {
	if n, err := strconv.Atoi(name); err == nil {
		return n <= re.NumSubexp()
	}
	return re.SubexpIndex(name) >= 0
}

func (s *Selector) compileRange(text string) []FieldError {
	if text == "" {
		return nil
	}
	c, problem, remedy := parseConstraint(text)
	if problem != "" {
		return []FieldError{{"versioning.range", problem, remedy}}
	}
	s.within = c
	s.reasons.within = fmt.Sprintf("outside versioning.range %q", text)
	return nil
}

func (s *Selector) compileDeny(entries []string) (errs []FieldError) {
	for i, text := range entries {
		field := fmt.Sprintf("deny[%d]", i)
		d := denial{reason: fmt.Sprintf("denied by %s %q", field, text)}
		// "1.2" is a version if versions with two parts are admitted. Otherwise, it is the range 1.2.x.
		v, err := s.parseText(text)
		if err != nil {
			c, problem, remedy := parseConstraint(text)
			if problem != "" {
				errs = append(errs, FieldError{field, problem + ", and the entry is not a version", `write a version ("1.2.3") or a range: ` + remedy})
				continue
			}
			d.within = c
		} else if likeVersion.MatchString(v.Prerelease()) {
			errs = append(errs, FieldError{field, fmt.Sprintf("%q is a version with a pre-release, not a range", text), `put spaces around the hyphen ("1.2.0 - 1.4.5")`})
			continue
		} else {
			d.version = v
		}
		s.deny = append(s.deny, d)
	}
	return errs
}

func (s *Selector) compileLimits(l Limits) (errs []FieldError) {
	if l.Groups < 1 {
		errs = append(errs, FieldError{"limits.groups", fmt.Sprintf("%d is below 1", l.Groups), "write 1 or more"})
	}
	if l.ReleasesPerGroup < 1 {
		errs = append(errs, FieldError{"limits.releasesPerGroup", fmt.Sprintf("%d is below 1", l.ReleasesPerGroup), "write 1 or more"})
	}
	if l.Groups > MaxReleases || l.ReleasesPerGroup > MaxReleases || l.Groups*l.ReleasesPerGroup > MaxReleases {
		errs = append(errs, FieldError{"limits", fmt.Sprintf("groups * releasesPerGroup is more than %d", MaxReleases), "lower one of them"})
	}
	s.reasons.perGroup = fmt.Sprintf("not among the newest %d of its group (limits.releasesPerGroup)", l.ReleasesPerGroup)
	return errs
}

func oneOf[T ~string](field string, value T, allowed ...T) []FieldError {
	if slices.Contains(allowed, value) {
		return nil
	}
	words := make([]string, len(allowed))
	for i, a := range allowed {
		words[i] = string(a)
	}
	return []FieldError{{field, fmt.Sprintf("%q is not known", value), "write one of " + strings.Join(words, ", ")}}
}
