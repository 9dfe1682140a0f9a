package release

import (
	"strings"

	"github.com/Masterminds/semver/v3"
)

// compare orders two versions: by semantic precedence (semver 2.0.0, 11), those
// that are none below all others, and ties by their text, so that the order is
// total.
func compare(a, b string) int {
	if a == b {
		return 0
	}
	va, errA := semver.NewVersion(a)
	vb, errB := semver.NewVersion(b)
	switch {
	case errA != nil && errB != nil:
		return strings.Compare(a, b)
	case errA != nil:
		return -1
	case errB != nil:
		return 1
	}
	if c := va.Compare(vb); c != 0 {
		return c
	}
	return strings.Compare(a, b)
}
