package release

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestSplit(t *testing.T) {
	share := func(s Share, more []func(*Share)) Share {
		for _, f := range more {
			f(&s)
		}
		return s
	}
	active := func(weight int, more ...func(*Share)) Share {
		return share(Share{Release: "a", Status: Active, Weight: weight, Ready: true, Available: true}, more)
	}
	canary := func(weight int, more ...func(*Share)) Share {
		return share(Share{Release: "c", Status: Canary, Weight: weight, Ready: true, Available: true}, more)
	}
	dead := func(s *Share) { s.Ready, s.Available = false, false }
	withheld := func(s *Share) { s.Withheld = true }
	partly := func(s *Share) { s.Available = false }
	as := func(status Status) func(*Share) { return func(s *Share) { s.Status = status } }
	named := func(name string) func(*Share) { return func(s *Share) { s.Release = name } }
	type m = map[string]int
	for name, test := range map[string]struct {
		shares   []Share
		weights  m
		withheld []string
	}{
		"as asked":                                    {[]Share{active(90), canary(10)}, m{"a": 90, "c": 10}, nil},
		"one of two":                                  {[]Share{active(100)}, m{"a": 100}, nil},
		"weight 0 is not a backend":                   {[]Share{active(100), canary(0)}, m{"a": 100}, nil},
		"the active is dead":                          {[]Share{active(90, dead), canary(10)}, m{"c": 100}, []string{"a"}},
		"the canary is dead":                          {[]Share{active(90), canary(10, dead)}, m{"a": 100}, []string{"c"}},
		"a canary without weight stands in":           {[]Share{active(100, dead), canary(0)}, m{"c": 100}, []string{"a"}},
		"nothing else stands in":                      {[]Share{active(100, dead), canary(0, as(Deprecated))}, nil, []string{"a"}},
		"not even with weight":                        {[]Share{active(100, dead), canary(50, as(Error))}, nil, []string{"a"}},
		"a pending release gets nothing":              {[]Share{active(90), canary(10, as(Pending))}, m{"a": 100}, nil},
		"all dead":                                    {[]Share{active(90, dead), canary(10, dead)}, nil, []string{"a", "c"}},
		"withheld until it has all replicas":          {[]Share{active(90, withheld, partly), canary(10)}, m{"c": 100}, []string{"a"}},
		"back with all replicas":                      {[]Share{active(90, withheld), canary(10)}, m{"a": 90, "c": 10}, nil},
		"not withheld, and short of some replicas":    {[]Share{active(90, partly), canary(10)}, m{"a": 90, "c": 10}, nil},
		"withheld, and the only one with an endpoint": {[]Share{active(90, withheld, partly), canary(10, dead)}, m{"a": 100}, []string{"c"}},
		"rounding leaves one percent to the small":    {[]Share{active(199), canary(1)}, m{"a": 99, "c": 1}, nil},
		"the largest takes the rest":                  {[]Share{active(1), canary(2)}, m{"a": 33, "c": 67}, nil},
		"ties go by name":                             {[]Share{canary(1, named("d")), canary(1), active(1)}, m{"a": 34, "c": 33, "d": 33}, nil},
		"of two that stand in the first by name":      {[]Share{canary(0, named("d")), canary(0), active(100, dead)}, m{"c": 100}, []string{"a"}},
		"two are withheld, by name":                   {[]Share{canary(10, dead), active(90, dead), canary(0, named("d"))}, m{"d": 100}, []string{"a", "c"}},
		"nothing":                                     {},
	} {
		t.Run(name, func(t *testing.T) {
			weights, withheld := Split(test.shares)
			if d := cmp.Diff(test.weights, weights); d != "" {
				t.Errorf("weights: %s", d)
			}
			if d := cmp.Diff(test.withheld, withheld); d != "" {
				t.Errorf("withheld: %s", d)
			}
		})
	}
}

// TestSplitIsSafe holds invariant 3: weight goes to eligible releases with a ready
// endpoint while there is one, and adds up to 100.
func TestSplitIsSafe(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var shares []Share
		ready := map[string]bool{}
		for _, name := range []string{"a", "b", "c", "d"}[:rapid.IntRange(0, 4).Draw(t, "n")] {
			s := Share{
				Release: name, Status: rapid.SampledFrom([]Status{Pending, Canary, Active, Error, Deprecated}).Draw(t, "status"),
				Weight: rapid.IntRange(0, 100).Draw(t, "weight"), Ready: rapid.Bool().Draw(t, "ready"),
				Available: rapid.Bool().Draw(t, "available"), Withheld: rapid.Bool().Draw(t, "withheld"),
			}
			shares = append(shares, s)
			if (s.Status == Active || s.Status == Canary) && s.Ready {
				ready[name] = true
			}
		}
		weights, withheld := Split(shares)
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
