// Package split computes how the traffic of a group is split: from the weights that a rollout state
// requires, the effective weights of the releases that can receive traffic. It is pure.
//
//	split.go  shares, and the weights that follow from them
package split

import (
	"maps"
	"slices"
	"sort"
)

// Share is one release of a group in the calculation of effective weights.
type Share struct {
	Release string
	// Eligible: it is active or a canary.
	Eligible bool
	// Weight that the rollout state asks for.
	Weight int
	// Ready: it has at least one ready endpoint now.
	Ready bool
	// Available: the rollout state's row shows that it has all its replicas.
	Available bool
	// Withheld: it was withheld at the last write.
	Withheld bool
}

// Weights returns the effective weights, whole numbers from 1 to 100 that add up to 100, and the
// releases that are withheld: those that have a weight but get no traffic because they have no
// ready endpoint.
//
// Only active and canary releases are eligible, the latter as a stand-in even at weight 0 (rule 5 of docs/explanation/protocol.md).
// A withheld release gets traffic again when its row is available, not at its first ready endpoint,
// unless no other release has one. If no eligible release has an endpoint, weights is nil, and the
// routes stay as they are.
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

// Percent scales weights above 0 so that they add up to 100, each at least 1. The largest one takes
// the rounding difference, so that rounding sets none to zero; of equal ones the first by name.
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

// Join returns the shares of domains that move from one group to a newer one: the canary of the
// newer group has its weight, and the older group splits the remainder as it splits its own
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
