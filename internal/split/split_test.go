package split

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestWeights(t *testing.T) {
	share := func(s Share, more []func(*Share)) Share {
		for _, f := range more {
			f(&s)
		}
		return s
	}
	active := func(weight int, more ...func(*Share)) Share {
		return share(Share{Release: "a", Eligible: true, Weight: weight, Ready: true, Available: true}, more)
	}
	canary := func(weight int, more ...func(*Share)) Share {
		return share(Share{Release: "c", Eligible: true, Weight: weight, Ready: true, Available: true}, more)
	}
	dead := func(s *Share) { s.Ready, s.Available = false, false }
	withheld := func(s *Share) { s.Withheld = true }
	partly := func(s *Share) { s.Available = false }
	other := func(s *Share) { s.Eligible = false }
	named := func(name string) func(*Share) { return func(s *Share) { s.Release = name } }
	type m = map[string]int
	for name, test := range map[string]struct {
		shares   []Share
		weights  m
		withheld []string
	}{
		"as required":                                  {[]Share{active(90), canary(10)}, m{"a": 90, "c": 10}, nil},
		"active release only":                          {[]Share{active(100)}, m{"a": 100}, nil},
		"weight 0 yields no backend":                   {[]Share{active(100), canary(0)}, m{"a": 100}, nil},
		"the active release has no endpoint":           {[]Share{active(90, dead), canary(10)}, m{"c": 100}, []string{"a"}},
		"the canary has no endpoint":                   {[]Share{active(90), canary(10, dead)}, m{"a": 100}, []string{"c"}},
		"weight-0 canary replaces the active release":  {[]Share{active(100, dead), canary(0)}, m{"c": 100}, []string{"a"}},
		"no eligible replacement":                      {[]Share{active(100, dead), canary(0, other)}, nil, []string{"a"}},
		"ineligible release with weight":               {[]Share{active(100, dead), canary(50, other)}, nil, []string{"a"}},
		"a pending release gets nothing":               {[]Share{active(90), canary(10, other)}, m{"a": 100}, nil},
		"no endpoint at all":                           {[]Share{active(90, dead), canary(10, dead)}, nil, []string{"a", "c"}},
		"withheld until it has all replicas":           {[]Share{active(90, withheld, partly), canary(10)}, m{"c": 100}, []string{"a"}},
		"back with all replicas":                       {[]Share{active(90, withheld), canary(10)}, m{"a": 90, "c": 10}, nil},
		"not withheld, some replicas missing":          {[]Share{active(90, partly), canary(10)}, m{"a": 90, "c": 10}, nil},
		"withheld, and the only one with an endpoint":  {[]Share{active(90, withheld, partly), canary(10, dead)}, m{"a": 100}, []string{"c"}},
		"rounding leaves one percent for the smallest": {[]Share{active(199), canary(1)}, m{"a": 99, "c": 1}, nil},
		"the largest takes the rest":                   {[]Share{active(1), canary(2)}, m{"a": 33, "c": 67}, nil},
		"ties are broken by name":                      {[]Share{canary(1, named("d")), canary(1), active(1)}, m{"a": 34, "c": 33, "d": 33}, nil},
		"of two replacements, the first by name":       {[]Share{canary(0, named("d")), canary(0), active(100, dead)}, m{"c": 100}, []string{"a"}},
		"two are withheld, sorted by name":             {[]Share{canary(10, dead), active(90, dead), canary(0, named("d"))}, m{"d": 100}, []string{"a", "c"}},
		"nothing":                                      {},
	} {
		t.Run(name, func(t *testing.T) {
			weights, withheld := Weights(test.shares)
			if d := cmp.Diff(test.weights, weights); d != "" {
				t.Errorf("weights: %s", d)
			}
			if d := cmp.Diff(test.withheld, withheld); d != "" {
				t.Errorf("withheld: %s", d)
			}
		})
	}
}

// TestWeightsAreSafe checks invariant 3: if any eligible release has a ready endpoint, only such releases get weight, and
// the weights add up to 100.
func TestWeightsAreSafe(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var shares []Share
		ready := map[string]bool{}
		for _, name := range []string{"a", "b", "c", "d"}[:rapid.IntRange(0, 4).Draw(t, "n")] {
			s := Share{
				Release: name, Eligible: rapid.Bool().Draw(t, "eligible"),
				Weight: rapid.IntRange(0, 100).Draw(t, "weight"), Ready: rapid.Bool().Draw(t, "ready"),
				Available: rapid.Bool().Draw(t, "available"), Withheld: rapid.Bool().Draw(t, "withheld"),
			}
			shares = append(shares, s)
			if s.Eligible && s.Ready {
				ready[name] = true
			}
		}
		weights, withheld := Weights(shares)
		sum := 0
		for name, w := range weights {
			sum += w
			if !ready[name] || w < 1 {
				t.Fatalf("%s gets %d%%: %v", name, w, shares)
			}
		}
		if len(ready) > 0 && sum != 100 || len(ready) == 0 && weights != nil {
			t.Fatalf("the weights add up to %d: %v", sum, shares)
		}
		for _, name := range withheld {
			if weights[name] > 0 {
				t.Fatalf("%s is withheld and has weight: %v", name, shares)
			}
		}
	})
}

func TestJoin(t *testing.T) {
	older := []Share{{Release: "a", Eligible: true, Weight: 90, Ready: true}, {Release: "b", Eligible: true, Weight: 10, Ready: true}}
	for name, tc := range map[string]struct {
		canary Share
		want   map[string]int
	}{
		"no weight yet": {Share{Release: "c", Eligible: true, Ready: true}, map[string]int{"a": 90, "b": 10}},
		"a part":        {Share{Release: "c", Eligible: true, Weight: 50, Ready: true}, map[string]int{"a": 45, "b": 5, "c": 50}},
		"all":           {Share{Release: "c", Eligible: true, Weight: 100, Ready: true}, map[string]int{"c": 100}},
		"no endpoint":   {Share{Release: "c", Eligible: true, Weight: 50}, map[string]int{"a": 90, "b": 10}},
		"small shares":  {Share{Release: "c", Eligible: true, Weight: 99, Ready: true}, map[string]int{"a": 1, "b": 1, "c": 98}},
	} {
		t.Run(name, func(t *testing.T) {
			got, _ := Weights(Join(older, tc.canary))
			if !maps.Equal(got, tc.want) {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}
