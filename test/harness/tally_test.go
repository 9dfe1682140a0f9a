package harness

import (
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

var start = time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)

// entry is a request in a history, or the mark of a phase before the next request.
type entry struct {
	mark    string
	at      time.Duration
	took    time.Duration
	outcome Outcome
}

func good(version string) Outcome { return Outcome{Version: version, Status: 200} }

func played(keep int, history ...entry) *Tally {
	tally := NewTally("start", start, keep)
	for _, e := range history {
		if e.mark != "" {
			tally.Mark(e.mark, start.Add(e.at))
		}
		tally.Done(tally.Send(start.Add(e.at)), start.Add(e.at+e.took), e.outcome)
	}
	return tally
}

func TestTallyReport(t *testing.T) {
	broken := Outcome{Failure: "EOF"}
	bad := Outcome{Version: "1.1.0", Status: 503, Failure: "status 503"}
	tally := played(1,
		entry{at: 0, took: 2 * time.Millisecond, outcome: good("1.0.0")},
		entry{at: time.Second, took: 4 * time.Millisecond, outcome: good("1.0.0")},
		entry{at: 2 * time.Second, took: 8 * time.Millisecond, outcome: good("1.1.0"), mark: "canary"},
		entry{at: 3 * time.Second, took: time.Second, outcome: broken},
		entry{at: 4 * time.Second, took: time.Second, outcome: bad},
		entry{at: 5 * time.Second, took: 2 * time.Millisecond, outcome: good("1.0.0"), mark: "start"},
	)
	tally.Mark("canary", start.Add(6*time.Second))
	tally.Send(start.Add(6 * time.Second)) // This request is never answered.

	old, fresh := Latency{P50: 2 * time.Millisecond, P90: 4 * time.Millisecond, P99: 4 * time.Millisecond, Max: 4 * time.Millisecond}, latencyOfAll(8*time.Millisecond)
	want := Report{
		Phases: []Phase{
			{
				Name: "start", Started: start,
				Counts:  Counts{Sent: 3, Answered: 3, Versions: map[string]VersionCounts{"1.0.0": {Answered: 3}}},
				Latency: old, VersionLatency: map[string]Latency{"1.0.0": old},
			},
			{
				Name: "canary", Started: start.Add(2 * time.Second),
				Counts: Counts{Sent: 4, Answered: 1, Failed: 2, Versions: map[string]VersionCounts{
					"": {Failed: 1}, "1.1.0": {Answered: 1, Failed: 1},
				}},
				Latency: fresh, VersionLatency: map[string]Latency{"1.1.0": fresh},
			},
		},
		Total: Phase{
			Name: "total", Started: start,
			Counts: Counts{Sent: 7, Answered: 4, Failed: 2, Versions: map[string]VersionCounts{
				"": {Failed: 1}, "1.0.0": {Answered: 3}, "1.1.0": {Answered: 1, Failed: 1},
			}},
			Latency:        Latency{P50: 2 * time.Millisecond, P90: 8 * time.Millisecond, P99: 8 * time.Millisecond, Max: 8 * time.Millisecond},
			VersionLatency: map[string]Latency{"1.0.0": old, "1.1.0": fresh},
		},
		Failures:        []Failure{{At: start.Add(3 * time.Second), Took: time.Second, Phase: "canary", Outcome: broken}},
		FailuresOmitted: 1,
	}
	withinOnePercent := cmp.Comparer(func(a, b time.Duration) bool {
		return math.Abs(float64(a-b)) <= 0.01*math.Max(float64(a), float64(b))
	})
	if diff := cmp.Diff(want, tally.Report(), withinOnePercent); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
	if tally.Failed() != 2 {
		t.Errorf("failed is %d, want 2", tally.Failed())
	}
}

func latencyOfAll(d time.Duration) Latency { return Latency{P50: d, P90: d, P99: d, Max: d} }

func TestRequestCountsInThePhaseItWasSentIn(t *testing.T) {
	tally := NewTally("before", start, 1)
	ticket := tally.Send(start)
	tally.Mark("after", start.Add(time.Second))
	tally.Done(ticket, start.Add(2*time.Second), good("1.0.0"))
	if got := tally.Split("before"); got.Fraction("1.0.0") != 1 {
		t.Errorf("split before the mark is %v", got)
	}
	if got := tally.Split("after"); got != nil {
		t.Errorf("split after the mark is %v, want none", got)
	}
}

func TestRecentForgets(t *testing.T) {
	tally := played(0,
		entry{at: 0, outcome: good("1.0.0")},
		entry{at: 3 * time.Second, outcome: good("1.0.0")},
		entry{at: 4 * time.Second, outcome: good("1.1.0")},
		entry{at: 5 * time.Second, outcome: good("1.1.0")}, // This is in the second that has not ended yet.
	)
	for name, test := range map[string]struct {
		after  time.Duration
		within time.Duration
		want   map[string]VersionCounts
	}{
		"two seconds":         {after: 5 * time.Second, within: 2 * time.Second, want: map[string]VersionCounts{"1.0.0": {Answered: 1}, "1.1.0": {Answered: 1}}},
		"at least one second": {after: 5 * time.Second, within: 0, want: map[string]VersionCounts{"1.1.0": {Answered: 1}}},
		"everything":          {after: 6 * time.Second, within: time.Hour, want: map[string]VersionCounts{"1.0.0": {Answered: 2}, "1.1.0": {Answered: 2}}},
		"a minute later":      {after: 66 * time.Second, within: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			got := tally.Recent(start.Add(test.after), test.within).Versions
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("versions (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRecentReusesItsRing(t *testing.T) {
	tally := played(0, entry{at: 0, outcome: good("1.0.0")}, entry{at: recentSeconds * time.Second, outcome: good("1.1.0")})
	got := tally.Recent(start.Add((recentSeconds+1)*time.Second), time.Second)
	want := Counts{Sent: 1, Answered: 1, Versions: map[string]VersionCounts{"1.1.0": {Answered: 1}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
}

func TestTallyLosesNothingUnderConcurrency(t *testing.T) {
	tally := NewTally("start", start, 3)
	var workers sync.WaitGroup
	for w := range 8 {
		workers.Go(func() {
			for n := range 500 {
				if n == 250 {
					tally.Mark(fmt.Sprintf("phase %d", w), start)
				}
				outcome := good("1.0.0")
				if n%10 == 0 {
					outcome = Outcome{Failure: "EOF"}
				}
				tally.Done(tally.Send(start), start, outcome)
				tally.Recent(start, time.Second)
			}
		})
	}
	workers.Wait()
	total := tally.Report().Total
	want := Counts{Sent: 4000, Answered: 3600, Failed: 400, Versions: map[string]VersionCounts{"1.0.0": {Answered: 3600}, "": {Failed: 400}}}
	if diff := cmp.Diff(want, total.Counts); diff != "" {
		t.Errorf("total (-want +got):\n%s", diff)
	}
}

func TestSplit(t *testing.T) {
	for name, test := range map[string]struct {
		answered map[string]int
		want     []string
		percents []int
	}{
		"nothing":                         {},
		"zero":                            {answered: map[string]int{"1.0.0": 0}},
		"one":                             {answered: map[string]int{"1.0.0": 7}, want: []string{"1.0.0"}, percents: []int{100}},
		"semantic order":                  {answered: map[string]int{"1.10.0": 1, "1.9.0": 1}, want: []string{"1.9.0", "1.10.0"}, percents: []int{50, 50}},
		"prerelease first":                {answered: map[string]int{"1.0.0": 9, "1.0.0-rc.1": 1}, want: []string{"1.0.0-rc.1", "1.0.0"}, percents: []int{10, 90}},
		"other names last":                {answered: map[string]int{"main": 1, "1.0.0": 1, "dev": 2}, want: []string{"1.0.0", "dev", "main"}, percents: []int{25, 50, 25}},
		"thirds sum to 100":               {answered: map[string]int{"1.0.0": 1, "2.0.0": 1, "3.0.0": 1}, want: []string{"1.0.0", "2.0.0", "3.0.0"}, percents: []int{34, 33, 33}},
		"the largest share is rounded up": {answered: map[string]int{"1.0.0": 901, "2.0.0": 99}, want: []string{"1.0.0", "2.0.0"}, percents: []int{90, 10}},
		"equal except for build metadata": {answered: map[string]int{"1.0.0+b": 1, "1.0.0+a": 1}, want: []string{"1.0.0+a", "1.0.0+b"}, percents: []int{50, 50}},
	} {
		t.Run(name, func(t *testing.T) {
			split := SplitOf(test.answered)
			var versions []string
			sum := 0.0
			for _, share := range split {
				versions = append(versions, share.Version)
				sum += share.Fraction
			}
			if diff := cmp.Diff(test.want, versions); diff != "" {
				t.Errorf("versions (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.percents, split.Percents(), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("percents (-want +got):\n%s", diff)
			}
			if len(split) > 0 && math.Abs(sum-1) > 1e-9 {
				t.Errorf("fractions sum to %g", sum)
			}
		})
	}
	if got := SplitOf(map[string]int{"1.0.0": 3, "1.1.0": 1}).Fraction("1.1.0"); got != 0.25 {
		t.Errorf("fraction is %g, want 0.25", got)
	}
}
