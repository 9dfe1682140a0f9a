package release

import (
	"maps"
	"slices"
	"sort"
)

// Share is one release of a group in the question of who gets traffic.
type Share struct {
	Release string
	Status  Status
	// Weight that the rollout state asks for.
	Weight int
	// Ready: it has at least one ready endpoint now.
	Ready bool
	// Available: the rollout state's row shows that it has all its replicas.
	Available bool
	// Masked: it was masked at the last write.
	Masked bool
}

// Split gives the effective weights, whole numbers from 1 to 100 that add up to
// 100, and the releases that are masked: those that ask for weight and get none
// because they have no ready endpoint.
//
// Only active and canary releases are eligible, the latter as a stand-in even at
// weight 0 (rule 5). A masked release returns when its row says available, not at
// its first endpoint, unless nothing else has one. With no eligible endpoint at
// all weights is nil: the writer of routes then leaves what is written.
func Split(shares []Share) (weights map[string]int, masked []string) {
	if weights, masked = split(shares, true); weights == nil {
		weights, masked = split(shares, false)
	}
	return weights, masked
}

func split(shares []Share, damped bool) (weights map[string]int, masked []string) {
	type part struct {
		release string
		weight  int
	}
	var serving, standins []part
	for _, s := range shares {
		if s.Status != Active && s.Status != Canary {
			continue
		}
		ready := s.Ready && (!damped || !s.Masked || s.Available)
		switch {
		case ready && s.Weight > 0:
			serving = append(serving, part{s.Release, s.Weight})
		case ready:
			standins = append(standins, part{s.Release, 0})
		case s.Weight > 0:
			masked = append(masked, s.Release)
		}
	}
	sort.Strings(masked)
	if len(serving) == 0 && len(standins) == 0 {
		return nil, masked
	}
	if len(serving) == 0 {
		sort.Slice(standins, func(i, j int) bool { return standins[i].release < standins[j].release })
		return map[string]int{standins[0].release: 100}, masked
	}
	weights = make(map[string]int, len(serving))
	for _, p := range serving {
		weights[p.release] = p.weight
	}
	return Percent(weights), masked
}

// Percent makes weights above 0 add up to 100, each at least 1. The largest takes what
// rounding leaves, so that no rounding pushes a release to zero; of equal ones the first
// by name does.
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

// Joined are the shares of domains moving from one group to a newer one: the
// canary of the newer group has its weight, and the older group splits what remains as
// it splits its own domains.
func Joined(older []Share, canary Share) []Share {
	out := make([]Share, 0, len(older)+1)
	for _, s := range older {
		s.Weight *= 100 - canary.Weight
		out = append(out, s)
	}
	canary.Weight *= 100
	return append(out, canary)
}
