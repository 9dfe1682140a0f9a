package version

import (
	"slices"
	"strings"
)

// Verdict identifies the filter that refused a tag.
type Verdict string

// The verdicts, in the order of the filters.
const (
	VerdictName      Verdict = "Name"
	VerdictExclude   Verdict = "Exclude"
	VerdictTagFilter Verdict = "TagFilter"
	VerdictMatch     Verdict = "Match"
	VerdictParse     Verdict = "Parse"
	VerdictLevel     Verdict = "Level"
	VerdictRange     Verdict = "Range"
	VerdictDeny      Verdict = "Deny"
	VerdictMinAge    Verdict = "MinAge"
	VerdictExists    Verdict = "Exists"
	VerdictPlatform  Verdict = "Platform"
	VerdictLabels    Verdict = "Labels"
	VerdictVerify    Verdict = "Verify"
	VerdictDuplicate Verdict = "Duplicate"
	VerdictLimits    Verdict = "Limits"
)

// candidate is a tag that passes through the filters.
type candidate struct {
	tag     string
	text    string   // the text from which the version is parsed
	match   []int    // the match of tagFilter.pattern in the tag
	version *Version // nil until parsed
	pre     bool     // whether the source marks the version as a pre-release
	timed   Timed    // for SchemePushTime
}

// filter is one row of the table in the package's documentation. refuses returns
// the reason to refuse a candidate, or an empty string.
type filter struct {
	verdict Verdict
	refuses func(*Selector, *candidate) string
}

// filters are the filters up to Parse, except Match: tagFilters apply to the tag, and parseFilter parses the
// version. versionFilters apply to the parsed version. None of them requires the registry.
var filters = append(slices.Clip(tagFilters), parseFilter)

var tagFilters = []filter{
	{VerdictName, func(_ *Selector, c *candidate) string {
		if !IsTag(c.tag) {
			return "not a valid tag: use letters, digits, _ . and -, at most 128 characters"
		}
		return ""
	}},
	{VerdictExclude, func(s *Selector, c *candidate) string {
		if isAttachment(c.tag) {
			return "signature, attestation or bill of materials of an image"
		}
		for _, p := range s.exclude {
			if p.re.MatchString(c.tag) {
				return p.reason
			}
		}
		return ""
	}},
	{VerdictTagFilter, func(s *Selector, c *candidate) string {
		c.text = c.tag
		if s.match == nil {
			return ""
		}
		m := s.match.FindStringSubmatchIndex(c.tag)
		if m == nil {
			return s.reasons.tagFilter
		}
		c.match = m
		if s.extract != "" {
			c.text = string(s.match.ExpandString(nil, s.extract, c.tag, m))
		}
		return ""
	}},
}

var parseFilter = filter{VerdictParse, func(s *Selector, c *candidate) string {
	v, err := s.parse(c)
	if err != nil {
		return err.Error()
	}
	c.version = v
	return ""
}}

var versionFilters = []filter{
	{VerdictLevel, func(s *Selector, c *candidate) string {
		switch {
		case s.rules.Level != LevelRelease:
			return ""
		case levelOf(c.version) == LevelCandidate:
			return "pre-release, and versioning.level is Release"
		case c.pre:
			return "marked as a pre-release, and versioning.level is Release"
		}
		return ""
	}},
	{VerdictRange, func(s *Selector, c *candidate) string {
		if s.within != nil && !s.within.allows(&c.version.Version) {
			return s.reasons.within
		}
		return ""
	}},
	{VerdictDeny, func(s *Selector, c *candidate) string {
		for _, d := range s.deny {
			if d.names(c.version) {
				return d.reason
			}
		}
		return ""
	}},
}

// run returns the result of the first filter that refuses the candidate, and the reason, or two empty strings.
func (s *Selector) run(filters []filter, c *candidate) (Verdict, string) {
	for _, f := range filters {
		if reason := f.refuses(s, c); reason != "" {
			return f.verdict, reason
		}
	}
	return "", ""
}

// isAttachment reports whether a tag belongs to an attachment of an image. Signing and attestation tools create such tags, and
// so do clients of registries without a referrers API. Such a tag consists of an algorithm, a
// digest in hexadecimal, and an optional suffix such as .sig, .att or .sbom.
func isAttachment(tag string) bool {
	algorithm, rest, ok := strings.Cut(tag, "-")
	if !ok || algorithm != "sha256" && algorithm != "sha512" {
		return false
	}
	digest, suffix, _ := strings.Cut(rest, ".")
	switch suffix {
	case "sig", "att", "sbom":
		return true
	}
	return len(digest) >= 64 && strings.Trim(digest, "0123456789abcdef") == ""
}
