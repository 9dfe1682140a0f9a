package registry

import (
	"math/rand/v2"
	"testing"
	"time"
)

func TestPace(t *testing.T) {
	for name, tc := range map[string]struct {
		quiet    int // scans without changes
		interval time.Duration
		want     time.Duration
	}{
		"first":                   {0, time.Minute, time.Minute},
		"a few quiet scans":       {11, time.Minute, time.Minute},
		"twelve quiet scans":      {12, time.Minute, 2 * time.Minute},
		"two dozen quiet scans":   {24, time.Minute, 3 * time.Minute},
		"three dozen quiet scans": {36, time.Minute, 4 * time.Minute},
		"no changes, ever":        {100_000, time.Minute, 4 * time.Minute},
		"long interval":           {36, 10 * time.Hour, 24 * time.Hour},
		"longer than the cap":     {36, 48 * time.Hour, 48 * time.Hour},
		"no interval at all":      {36, 0, 0},
		"the default interval":    {36, 5 * time.Minute, 20 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			var p Pace
			for range tc.quiet {
				p = p.After(false)
			}
			if got := p.Interval(tc.interval); got != tc.want {
				t.Errorf("Interval = %v, want %v", got, tc.want)
			}
			for range 1000 {
				if got := p.Wait(tc.interval, rand.Int64N); got > tc.want || got < tc.want-tc.want/10-1 {
					t.Fatalf("Wait = %v, want up to a tenth below %v", got, tc.want)
				}
			}
			shortest := p.Wait(tc.interval, func(n int64) int64 { return n - 1 })
			if fresh := p.Fresh(tc.interval); fresh > shortest || fresh < tc.want/2 {
				t.Errorf("Fresh = %v, want most of %v", fresh, shortest)
			}
			if got := p.After(true).Interval(tc.interval); got != tc.interval {
				t.Errorf("Interval after a change = %v, want %v", got, tc.interval)
			}
			if got := p.Reset().Interval(tc.interval); got != tc.interval {
				t.Errorf("Interval after a request = %v, want %v", got, tc.interval)
			}
		})
	}
}

// TestPaceSpreads checks that many policies with the same interval do not scan in the same second.
func TestPaceSpreads(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	seconds := map[time.Duration]bool{}
	for range 1000 {
		seconds[Pace{}.Wait(10*time.Minute, random.Int64N).Round(time.Second)] = true
	}
	if len(seconds) < 50 {
		t.Errorf("1000 scans in %d different seconds of 60", len(seconds))
	}
}
