// Package split computes how the traffic of a group is split. From the weights that a rollout state
// requires, it computes the effective weights of the releases that can receive traffic. internal/release/steps_and_promotion.go
// sets the weights of the rollout state. The package has no side effects.
//
//	split.go  shares, and the weights that are computed from them
package split

import (
	"maps"
	"slices"
	"sort"
)

// Share is one release of a group in the calculation of effective weights.
type Share struct {
	Release string
	// Eligible reports whether the release is active or a canary.
	Eligible bool
	// Weight is the weight that the rollout state requires.
	Weight int
	// Ready reports whether the release has at least one ready endpoint now.
	Ready bool
	// Available reports whether, according to the rollout state, all replicas of the release are available.
	Available bool
	// Withheld reports whether the traffic of the release was withheld when the routes were last written.
	Withheld bool
}

// Weights returns the effective weights and the withheld releases. The effective weights are whole numbers from 1 to 100
// that add up to 100. A withheld release has a weight but gets no traffic, because it has no ready endpoint or is not
// available again yet.
//
// Only active and canary releases are eligible. If no eligible release with a weight above 0 can receive traffic, a ready
// eligible release with weight 0 receives all of it. A withheld release gets traffic again when it is available rather than when it
// has its first ready endpoint, unless no other eligible release has a ready endpoint (rule 5 of
// docs/explanation/protocol.md). If no eligible release has a ready endpoint, weights is nil, and the routes do not change.
func Weights(shares []Share) (weights map[string]int, withheld []string) {
	if weights, withheld = split(shares, true); weights == nil {
		weights, withheld = split(shares, false)
	}
	return weights, withheld
}

func split(shares []Share, damped bool) (weights map[string]int, withheld []string) {
	type part struct {
		release string
		weight  int
	}
	var serving, standins []part
	for _, s := range shares {
		if !s.Eligible {
			continue
		}
		ready := s.Ready && (!damped || !s.Withheld || s.Available)
		switch {
		case ready && s.Weight > 0:
			serving = append(serving, part{s.Release, s.Weight})
		case ready:
			standins = append(standins, part{s.Release, 0})
		case s.Weight > 0:
			withheld = append(withheld, s.Release)
		}
	}
	sort.Strings(withheld)
	if len(serving) == 0 && len(standins) == 0 {
		return nil, withheld
	}
	if len(serving) == 0 {
		sort.Slice(standins, func(i, j int) bool { return standins[i].release < standins[j].release })
		return map[string]int{standins[0].release: 100}, withheld
	}
	weights = make(map[string]int, len(serving))
	for _, p := range serving {
		weights[p.release] = p.weight
	}
	return Percent(weights), withheld
}

// Percent scales positive weights so that they add up to 100 and each weight is at least 1. The largest weight absorbs the
// rounding difference, so that rounding sets no weight to zero. If several releases have the largest weight, the weight of
// the release whose name sorts first absorbs the difference.
func Percent(weights map[string]int) map[string]int {
	names, total := slices.Sorted(maps.Keys(weights)), 0
	slices.SortStableFunc(names, func(a, b string) int { return weights[b] - weights[a] })
	for _, w := range weights {
		total += w
	}
	out, rest := make(map[string]int, len(weights)), 100
	for _, name := range names[min(1, len(names)):] {
		out[name] = max(1, weights[name]*100/total)
		rest -= out[name]
	}
	if len(names) > 0 {
		out[names[0]] = rest
	}
	return out
}

// Join returns the shares for domains that move from one group to a newer group. The canary of the newer group
// has its own weight, and the older group splits the remainder in the same way as the traffic of all its other
// domains.
func Join(older []Share, canary Share) []Share {
	out := make([]Share, 0, len(older)+1)
	for _, s := range older {
		s.Weight *= 100 - canary.Weight
		out = append(out, s)
	}
	canary.Weight *= 100
	return append(out, canary)
}
