package harness

import (
	"cmp"
	"slices"

	"github.com/Masterminds/semver/v3"
)

// Split contains the shares of versions. Semantic versions come first, sorted by version, followed by other
// names.
type Split []Share

// Share is the share of a version in the successful responses.
type Share struct {
	Version string
	// Answered is the number of answered requests.
	Answered int
	// Fraction is the fraction of all answered requests, from 0 to 1.
	Fraction float64
}

// SplitOf returns the shares for counts of responses by version. It returns nil if there were no responses.
func SplitOf(answered map[string]int) Split {
	total := 0
	for _, count := range answered {
		total += count
	}
	if total == 0 {
		return nil
	}
	split := make(Split, 0, len(answered))
	for version, count := range answered {
		split = append(split, Share{Version: version, Answered: count, Fraction: float64(count) / float64(total)})
	}
	slices.SortFunc(split, func(a, b Share) int { return compareVersions(a.Version, b.Version) })
	return split
}

// Fraction returns the share of one version, or 0.
func (s Split) Fraction(version string) float64 {
	for _, share := range s {
		if share.Version == version {
			return share.Fraction
		}
	}
	return 0
}

// Percents rounds the shares so that their sum is 100. The order is the same as in the split.
func (s Split) Percents() []int {
	percents, order, left := make([]int, len(s)), make([]int, len(s)), 100
	for i, share := range s {
		percents[i], order[i] = int(share.Fraction*100), i
		left -= percents[i]
	}
	slices.SortStableFunc(order, func(i, j int) int {
		return cmp.Compare(s[j].Fraction*100-float64(percents[j]), s[i].Fraction*100-float64(percents[i]))
	})
	for _, i := range order[:min(max(left, 0), len(order))] {
		percents[i]++
	}
	return percents
}

func compareVersions(a, b string) int {
	left, leftErr := semver.NewVersion(a)
	right, rightErr := semver.NewVersion(b)
	switch {
	case leftErr == nil && rightErr == nil:
		return cmp.Or(left.Compare(right), cmp.Compare(a, b))
	case leftErr == nil:
		return -1
	case rightErr == nil:
		return 1
	}
	return cmp.Compare(a, b)
}
