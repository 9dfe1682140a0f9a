package version

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
)

// GroupBy defines which versions replace each other.
type GroupBy string

// The groupings: GroupByAll, the default, is one group named after the admitted
// level; Major gives "1.x", Minor "1.2.x", Patch "1.2.3" with its builds and
// pre-releases.
const (
	GroupByAll   GroupBy = "All"
	GroupByMajor GroupBy = "Major"
	GroupByMinor GroupBy = "Minor"
	GroupByPatch GroupBy = "Patch"
)

// Level is a maturity.
type Level string

// The levels, the more mature first. As a rule, Release admits final versions
// and Candidate pre-releases as well.
const (
	LevelRelease   Level = "Release"
	LevelCandidate Level = "Candidate"
)

// groupKey orders groups: the numbers that the group fixes, the others zero.
type groupKey struct{ major, minor, patch uint64 }

// keyOf returns the group of a version; a pre-release is in the group of the version that it
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

// maxSlug is the longest slug.
const maxSlug = 40

// Slug returns the DNS label of a group's name, at most 40 characters: "1.2.x" is "1-2-x". A longer
// one is cut and ends in a hash of the whole name.
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
