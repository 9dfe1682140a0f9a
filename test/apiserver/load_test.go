package apiserver

import (
	"slices"
	"testing"
)

// TestSpreadNeverInventsLoad tests that, while a load changes or is distributed among a different number of
// pods, the sum of the written usage never exceeds the larger of the old and the new load. Otherwise, an
// autoscaler that reads between two writes could request too many pods.
func TestSpreadNeverInventsLoad(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		pods  []string
		usage map[string]int64
		load  int64
	}{
		"more pods":               {[]string{"a", "b", "c", "d", "e", "f"}, map[string]int64{"c": 75, "d": 75, "e": 75, "f": 75}, 300},
		"more pods, uneven usage": {[]string{"a", "b", "c", "d", "e", "f"}, map[string]int64{"a": 50, "c": 50, "d": 50, "f": 150}, 300},
		"fewer pods":              {[]string{"a", "c"}, map[string]int64{"a": 50, "c": 50}, 300},
		"more load":               {[]string{"a", "b"}, map[string]int64{"a": 50, "b": 50}, 300},
		"less load":               {[]string{"a", "b", "c"}, map[string]int64{"a": 50, "b": 50}, 60},
		"all pods replaced":       {[]string{"a", "b"}, nil, 300},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sum := func() (total int64) {
				for _, u := range test.usage {
					total += u
				}
				return total
			}
			if test.usage == nil {
				test.usage = map[string]int64{}
			}
			most := max(sum(), test.load)
			order := spread(slices.Clone(test.pods), test.usage)
			for _, pod := range order {
				test.usage[pod] = test.load / int64(len(test.pods))
				if now := sum(); now > most {
					t.Errorf("after the write for pod %q in the order %q, the pods use %d, want at most %d", pod, order, now, most)
				}
			}
		})
	}
}
