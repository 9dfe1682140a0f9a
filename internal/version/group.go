package version

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
)

// GroupBy defines which versions replace each other.
type GroupBy string

// The groupings. GroupByAll is the default and creates one group, which is named after the admitted level. Major
// creates groups such as "1.x", Minor such as "1.2.x", and Patch such as "1.2.3", which contains the builds and
// pre-releases of that version.
const (
	GroupByAll   GroupBy = "All"
	GroupByMajor GroupBy = "Major"
	GroupByMinor GroupBy = "Minor"
	GroupByPatch GroupBy = "Patch"
)

// Level is the maturity of a version.
type Level string

// The levels, in order of decreasing maturity. In Rules, Release admits only final versions, and
// Candidate also admits pre-releases.
const (
	LevelRelease   Level = "Release"
	LevelCandidate Level = "Candidate"
)

// groupKey orders groups. It contains the numbers that all versions of the group share, and zero for all others.
type groupKey struct{ major, minor, patch uint64 }

// keyOf returns the key of a version's group. A pre-release is in the group of the version that it
// precedes.
func (r Rules) keyOf(v *Version) groupKey {
	switch r.GroupBy {
	case GroupByMajor:
		return groupKey{v.Major(), 0, 0}
	case GroupByMinor:
		return groupKey{v.Major(), v.Minor(), 0}
	case GroupByPatch:
		return groupKey{v.Major(), v.Minor(), v.Patch()}
	default:
		return groupKey{}
	}
}

// nameOf returns the name of a group.
func (r Rules) nameOf(k groupKey) string {
	major, minor, patch := strconv.FormatUint(k.major, 10), strconv.FormatUint(k.minor, 10), strconv.FormatUint(k.patch, 10)
	switch r.GroupBy {
	case GroupByMajor:
		return major + ".x"
	case GroupByMinor:
		return major + "." + minor + ".x"
	case GroupByPatch:
		return major + "." + minor + "." + patch
	default:
		return strings.ToLower(string(r.Level))
	}
}

// maxSlug is the maximum length of a slug.
const maxSlug = 40

// Slug returns the DNS label of a group's name, at most 40 characters long. For example, the slug of "1.2.x" is "1-2-x". A longer
// label is truncated and ends in a hash of the whole name.
func Slug(name string) string {
	slug := strings.ReplaceAll(strings.ToLower(name), ".", "-")
	if len(slug) <= maxSlug {
		return slug
	}
	sum := sha256.Sum256([]byte(name))
	hash := hex.EncodeToString(sum[:4])
	return strings.TrimRight(slug[:maxSlug-len(hash)-1], "-") + "-" + hash
}

func levelOf(v *Version) Level {
	if v.Prerelease() != "" {
		return LevelCandidate
	}
	return LevelRelease
}
