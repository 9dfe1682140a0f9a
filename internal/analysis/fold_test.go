package analysis

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

var start = time.Date(2030, 1, 31, 12, 0, 0, 0, time.UTC)

func ptr[T any](v T) *T { return &v }

// specOf returns an analysis with the metrics a, b and d, of which d is in dry-run mode.
func specOf(change func(*v1alpha1.CanaryAnalysis)) *v1alpha1.CanaryAnalysis {
	metric := func(name string, dryRun bool) v1alpha1.AnalysisMetric {
		return v1alpha1.AnalysisMetric{Name: name, SuccessRate: &v1alpha1.SuccessRateMetric{}, ThresholdRange: v1alpha1.ValueRange{Min: ptr(99.0)}, DryRun: dryRun}
	}
	spec := &v1alpha1.CanaryAnalysis{
		Interval: "1m", Count: 2, NoTraffic: v1alpha1.NoTrafficWait,
		Metrics: []v1alpha1.AnalysisMetric{metric("a", false), metric("b", false), metric("d", true)},
	}
	if change != nil {
		change(spec)
	}
	return spec
}

// results maps letters to results.
var results = map[rune]v1alpha1.MeasurementResult{
	'P': v1alpha1.MeasurementPassed, 'F': v1alpha1.MeasurementFailed, 'I': v1alpha1.MeasurementInconclusive,
	'N': v1alpha1.MeasurementNoTraffic, 'S': v1alpha1.MeasurementSkipped, 'E': v1alpha1.MeasurementError,
}

// roundOf returns a round with a result for each of the metrics a, b and d. A metric without a letter passes.
func roundOf(at time.Time, letters string) Round {
	letters = (letters + "PPP")[:3]
	round := Round{At: at}
	for i, name := range []string{"a", "b", "d"} {
		round.Measurements = append(round.Measurements, Measurement{Metric: name, Result: results[rune(letters[i])], Value: "1"})
	}
	return round
}

// play adds the rounds of one step in sequence.
func play(spec *v1alpha1.CanaryAnalysis, rounds string) *v1alpha1.ReleaseAnalysis {
	point := Point{Run: 7, Step: 1, Since: start}
	status := Begin(nil, spec, point)
	for letters := range strings.FieldsSeq(rounds) {
		at, _ := Due(status, spec, start)
		status = Fold(status, spec, point, roundOf(at, letters))
	}
	return status
}

// TestVerdict checks the phase of a step after different sequences of rounds.
func TestVerdict(t *testing.T) {
	t.Parallel()
	limits := func(total, row *int32) func(*v1alpha1.CanaryAnalysis) {
		return func(s *v1alpha1.CanaryAnalysis) { s.FailureLimit, s.ConsecutiveFailureLimit = total, row }
	}
	noTraffic := func(policy v1alpha1.NoTrafficPolicy) func(*v1alpha1.CanaryAnalysis) {
		return func(s *v1alpha1.CanaryAnalysis) { s.NoTraffic = policy }
	}
	type counters struct {
		Phase                                   v1alpha1.AnalysisPhase
		Rounds, Failures, Row, Unclear, Trouble int32
	}
	for name, test := range map[string]struct {
		rounds string
		change func(*v1alpha1.CanaryAnalysis)
		want   counters
	}{
		"none":                                       {"", nil, counters{Phase: "Running"}},
		"one of two":                                 {"P", nil, counters{Phase: "Running", Rounds: 1}},
		"two of two":                                 {"P P", nil, counters{Phase: "Passed", Rounds: 2}},
		"continues after passing":                    {"P P P", nil, counters{Phase: "Passed", Rounds: 3}},
		"one failed metric fails the round":          {"PF", nil, counters{Phase: "Failed", Failures: 1, Row: 1}},
		"fails immediately by default":               {"P F", nil, counters{Phase: "Failed", Rounds: 1, Failures: 1, Row: 1}},
		"fails after having passed":                  {"P P F", nil, counters{Phase: "Failed", Rounds: 2, Failures: 1, Row: 1}},
		"failed is final":                            {"F P P P", nil, counters{Phase: "Failed", Failures: 1, Row: 1}},
		"tolerated":                                  {"F P", limits(ptr[int32](1), nil), counters{Phase: "Running", Rounds: 1, Failures: 1}},
		"tolerated and passed":                       {"F P P", limits(ptr[int32](1), nil), counters{Phase: "Passed", Rounds: 2, Failures: 1}},
		"the budget is cumulative":                   {"F P P F", limits(ptr[int32](1), nil), counters{Phase: "Failed", Rounds: 2, Failures: 2, Row: 1}},
		"in a row":                                   {"F F", limits(nil, ptr[int32](1)), counters{Phase: "Failed", Failures: 2, Row: 2}},
		"not in a row":                               {"F P F P F", limits(nil, ptr[int32](1)), counters{Phase: "Passed", Rounds: 2, Failures: 3, Row: 1}},
		"no traffic between failures in a row":       {"F N F", limits(nil, ptr[int32](1)), counters{Phase: "Failed", Failures: 2, Row: 2}},
		"an error between failures in a row":         {"F E F", limits(nil, ptr[int32](1)), counters{Phase: "Failed", Failures: 2, Row: 2}},
		"both limits, total":                         {"F P F", limits(ptr[int32](1), ptr[int32](5)), counters{Phase: "Failed", Rounds: 1, Failures: 2, Row: 1}},
		"both limits, consecutive":                   {"F F", limits(ptr[int32](5), ptr[int32](1)), counters{Phase: "Failed", Failures: 2, Row: 2}},
		"consecutiveFailureLimit of zero":            {"F", limits(nil, ptr[int32](0)), counters{Phase: "Failed", Failures: 1, Row: 1}},
		"inconclusive":                               {"I", nil, counters{Phase: "Inconclusive", Unclear: 1}},
		"inconclusive waits for a user":              {"I P P P", nil, counters{Phase: "Inconclusive", Rounds: 3, Unclear: 1}},
		"inconclusive after having passed":           {"P P I", nil, counters{Phase: "Inconclusive", Rounds: 2, Unclear: 1}},
		"inconclusive can still fail":                {"I F", nil, counters{Phase: "Failed", Failures: 1, Row: 1, Unclear: 1}},
		"failed is worse than inconclusive":          {"IF", nil, counters{Phase: "Failed", Failures: 1, Row: 1}},
		"inconclusive is worse than passed":          {"PI", nil, counters{Phase: "Inconclusive", Unclear: 1}},
		"an error is not a failure":                  {"E", nil, counters{Phase: "Running", Trouble: 1}},
		"an error is not a success":                  {"P E", nil, counters{Phase: "Running", Rounds: 1, Trouble: 1}},
		"failed is worse than an error":              {"EF", nil, counters{Phase: "Failed", Failures: 1, Row: 1}},
		"four errors":                                {"E E E E", nil, counters{Phase: "Running", Trouble: 4}},
		"five errors wait for a user":                {"E E E E E", nil, counters{Phase: "Inconclusive", Trouble: 5}},
		"wait because of errors ends without a user": {"E E E E E P P", nil, counters{Phase: "Passed", Rounds: 2}},
		"errors after having passed":                 {"P P E E E E", nil, counters{Phase: "Passed", Rounds: 2, Trouble: 4}},
		"no traffic waits":                           {"N", nil, counters{Phase: "NoTraffic"}},
		"no traffic for one metric waits":            {"PN", nil, counters{Phase: "NoTraffic"}},
		"traffic comes back":                         {"N P P", nil, counters{Phase: "Passed", Rounds: 2}},
		"no traffic after having passed":             {"P P N", nil, counters{Phase: "Passed", Rounds: 2}},
		"no traffic fails":                           {"N", noTraffic(v1alpha1.NoTrafficFail), counters{Phase: "Failed", Failures: 1, Row: 1}},
		"no traffic is ignored":                      {"N N", noTraffic(v1alpha1.NoTrafficIgnore), counters{Phase: "Passed", Rounds: 2}},
		"ignored, and another metric fails":          {"NF", noTraffic(v1alpha1.NoTrafficIgnore), counters{Phase: "Failed", Failures: 1, Row: 1}},
		"ignored, and another metric has an error":   {"NE", noTraffic(v1alpha1.NoTrafficIgnore), counters{Phase: "Running", Trouble: 1}},
		"an error is worse than no traffic":          {"NE", nil, counters{Phase: "Running", Trouble: 1}},
		"skipped results decide nothing":             {"S S", nil, counters{Phase: "Passed", Rounds: 2}},
		"a dry run that fails":                       {"PPF PPF", nil, counters{Phase: "Passed", Rounds: 2}},
		"a dry run that is inconclusive":             {"PPI PPI", nil, counters{Phase: "Passed", Rounds: 2}},
		"a dry run with errors":                      {"PPE PPE PPE PPE PPE", nil, counters{Phase: "Passed", Rounds: 5}},
		"a dry run without traffic":                  {"PPN PPN", noTraffic(v1alpha1.NoTrafficFail), counters{Phase: "Passed", Rounds: 2}},
		"a dry run that passes changes nothing":      {"FPP", nil, counters{Phase: "Failed", Failures: 1, Row: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := play(specOf(test.change), test.rounds)
			got := counters{s.Phase, s.Rounds, s.Failures, s.ConsecutiveFailures, s.Inconclusive, s.Errors}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s\nmessage: %s", diff, s.Message)
			}
			if s.Message == "" {
				t.Error("no message")
			}
			if (s.NextTime == nil) != (s.Phase == v1alpha1.AnalysisFailed) {
				t.Errorf("nextTime = %v in phase %s", s.NextTime, s.Phase)
			}
		})
	}
}

// TestBaselineWithoutTraffic checks that a lack of traffic to the active release does not count against the
// canary.
func TestBaselineWithoutTraffic(t *testing.T) {
	t.Parallel()
	for policy, want := range map[v1alpha1.NoTrafficPolicy]v1alpha1.AnalysisPhase{
		v1alpha1.NoTrafficFail: "NoTraffic", v1alpha1.NoTrafficWait: "NoTraffic", v1alpha1.NoTrafficIgnore: "Running",
	} {
		spec := specOf(func(s *v1alpha1.CanaryAnalysis) { s.NoTraffic = policy })
		point := Point{Run: 7, Step: 1, Since: start}
		round := roundOf(start.Add(time.Minute), "N")
		round.Measurements[0].Baseline = true
		if got := Fold(nil, spec, point, round).Phase; got != want {
			t.Errorf("%s: phase = %s, want %s", policy, got, want)
		}
	}
}

// TestHookFailures checks that a failing rollout hook makes the round fail, whether or
// not there is an analysis.
func TestHookFailures(t *testing.T) {
	t.Parallel()
	point := Point{Run: 7, Step: 1, Since: start}
	for name, spec := range map[string]*v1alpha1.CanaryAnalysis{"with an analysis": specOf(nil), "without one": nil} {
		round := roundOf(start.Add(time.Minute), "PPP")
		round.HookFailures = []string{"hook smoke: no"}
		got := Fold(nil, spec, point, round)
		if got.Phase != v1alpha1.AnalysisFailed || !strings.Contains(got.Message, "hook smoke: no") {
			t.Errorf("%s: %s %q", name, got.Phase, got.Message)
		}
	}
	if got := Fold(nil, nil, point, Round{At: start.Add(time.Minute)}); got.Phase != v1alpha1.AnalysisPassed {
		t.Errorf("no hook failed, and there is no analysis: %s", got.Phase)
	}
}

// TestHookErrors checks that a round without responses from hooks does not count as passed, and does not hide a
// failure.
func TestHookErrors(t *testing.T) {
	t.Parallel()
	point := Point{Run: 7, Step: 1, Since: start}
	for name, spec := range map[string]*v1alpha1.CanaryAnalysis{"with an analysis": specOf(nil), "without one": nil} {
		var status *v1alpha1.ReleaseAnalysis
		for n := range MaxErrors {
			round := roundOf(start.Add(time.Duration(n+1)*time.Minute), "PPP")
			round.HookErrors = []string{"hook smoke gave no answer: HTTP 503"}
			if status = Fold(status, spec, point, round); status.Rounds != 0 || status.Failures != 0 || status.Errors != int32(n)+1 {
				t.Fatalf("%s: %+v", name, status)
			}
		}
		if status.Phase != v1alpha1.AnalysisInconclusive || !strings.Contains(status.Message, "hook smoke gave no answer: HTTP 503") {
			t.Errorf("%s: %s %q", name, status.Phase, status.Message)
		}
	}
	failed := roundOf(start.Add(time.Minute), "FPP")
	failed.HookErrors = []string{"hook smoke gave no answer: HTTP 503"}
	if got := Fold(nil, specOf(nil), point, failed); got.Failures != 1 {
		t.Errorf("a metric failed in addition to the hook error: %+v", got)
	}
}

// TestUnmeasuredMetric checks that a metric that is missing from a round counts as not measured.
func TestUnmeasuredMetric(t *testing.T) {
	t.Parallel()
	round := roundOf(start.Add(time.Minute), "PPP")
	round.Measurements = round.Measurements[:1]
	got := Fold(nil, specOf(nil), Point{Run: 7, Step: 1, Since: start}, round)
	if got.Rounds != 0 || got.Errors != 1 {
		t.Errorf("rounds = %d, errors = %d, want 0 and 1", got.Rounds, got.Errors)
	}
}

// TestNextPoint checks which values are kept from one point to the next.
func TestNextPoint(t *testing.T) {
	t.Parallel()
	tolerant := specOf(func(s *v1alpha1.CanaryAnalysis) { s.FailureLimit = ptr[int32](3) })
	for name, test := range map[string]struct {
		rounds string
		point  Point
		want   v1alpha1.ReleaseAnalysis
	}{
		"the same point":                   {"F P", Point{7, 1, start}, v1alpha1.ReleaseAnalysis{Run: 7, Step: 1, Phase: "Running", Rounds: 1, Failures: 1}},
		"the next step":                    {"F P P", Point{7, 2, start.Add(time.Hour)}, v1alpha1.ReleaseAnalysis{Run: 7, Step: 2, Phase: "Running", Failures: 1}},
		"the next step, failures in a row": {"P P F", Point{7, 2, start.Add(time.Hour)}, v1alpha1.ReleaseAnalysis{Run: 7, Step: 2, Phase: "Running", Failures: 1, ConsecutiveFailures: 1}},
		"the next step, was inconclusive":  {"I", Point{7, 2, start.Add(time.Hour)}, v1alpha1.ReleaseAnalysis{Run: 7, Step: 2, Phase: "Running"}},
		"after an interruption":            {"F P P", Point{7, 1, start.Add(time.Hour)}, v1alpha1.ReleaseAnalysis{Run: 7, Step: 1, Phase: "Running", Failures: 1}},
		"interrupted while inconclusive":   {"I", Point{7, 1, start.Add(time.Hour)}, v1alpha1.ReleaseAnalysis{Run: 7, Step: 1, Phase: "Inconclusive", Inconclusive: 1}},
		"another run":                      {"F P P", Point{8, 1, start.Add(time.Hour)}, v1alpha1.ReleaseAnalysis{Run: 8, Step: 1, Phase: "Running"}},
		"another run after a failure":      {"F F F F", Point{8, 1, start.Add(time.Hour)}, v1alpha1.ReleaseAnalysis{Run: 8, Step: 1, Phase: "Running"}},
		"the next step after a failed one": {"F F F F", Point{7, 2, start.Add(time.Hour)}, v1alpha1.ReleaseAnalysis{Run: 7, Step: 1, Phase: "Failed", Failures: 4, ConsecutiveFailures: 4}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := play(tolerant, test.rounds)
			kept := before.DeepCopy()
			got := Begin(before, tolerant, test.point)
			if diff := cmp.Diff(&test.want, got, cmpopts.IgnoreFields(v1alpha1.ReleaseAnalysis{}, "Since", "SpecHash", "Message", "Metrics", "LastTime", "NextTime")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(kept, before); diff != "" {
				t.Errorf("the argument was changed:\n%s", diff)
			}
			if again := Begin(got, tolerant, test.point); cmp.Diff(got, again) != "" {
				t.Errorf("a second call returns a different result:\n%s", cmp.Diff(got, again))
			}
		})
	}
}

// TestEdited checks that rounds that passed before an edit of the analysis do not count for the new analysis.
// Failures, and results that require a user's decision, remain.
func TestEdited(t *testing.T) {
	t.Parallel()
	with := func(change func(*v1alpha1.CanaryAnalysis)) func(*v1alpha1.CanaryAnalysis) {
		return func(s *v1alpha1.CanaryAnalysis) {
			s.FailureLimit = ptr[int32](2)
			if change != nil {
				change(s)
			}
		}
	}
	added := func(s *v1alpha1.CanaryAnalysis) {
		s.Metrics = append(s.Metrics, v1alpha1.AnalysisMetric{Name: "z", SuccessRate: &v1alpha1.SuccessRateMetric{}, ThresholdRange: v1alpha1.ValueRange{Min: ptr(99.0)}})
	}
	running := v1alpha1.ReleaseAnalysis{Run: 7, Step: 1, Phase: "Running"}
	passed := v1alpha1.ReleaseAnalysis{Run: 7, Step: 1, Phase: "Passed", Rounds: 2}
	for name, test := range map[string]struct {
		rounds string
		edit   func(*v1alpha1.CanaryAnalysis)
		want   v1alpha1.ReleaseAnalysis
	}{
		"a metric is added":   {"P P", added, running},
		"a metric is removed": {"P P", func(s *v1alpha1.CanaryAnalysis) { s.Metrics = s.Metrics[1:] }, running},
		"dryRun set to false": {"P P", func(s *v1alpha1.CanaryAnalysis) { s.Metrics[2].DryRun = false }, running},
		"a higher count":      {"P P", func(s *v1alpha1.CanaryAnalysis) { s.Count = 3 }, running},
		"a lower count":       {"P", func(s *v1alpha1.CanaryAnalysis) { s.Count = 1 }, running},
		"source":              {"P P", func(s *v1alpha1.CanaryAnalysis) { s.Source = v1alpha1.SourceIstio }, running},
		"a threshold":         {"P P", func(s *v1alpha1.CanaryAnalysis) { s.Metrics[0].ThresholdRange.Min = ptr(99.5) }, running},
		"the window":          {"P P", func(s *v1alpha1.CanaryAnalysis) { s.Interval = "5m" }, running},
		"the provider": {"P P", func(s *v1alpha1.CanaryAnalysis) {
			s.Provider.Prometheus = &v1alpha1.PrometheusProvider{Address: "http://b"}
		}, running},
		"the noTraffic policy":             {"P P", func(s *v1alpha1.CanaryAnalysis) { s.NoTraffic = v1alpha1.NoTrafficFail }, running},
		"after a failed round":             {"F P P", added, v1alpha1.ReleaseAnalysis{Run: 7, Step: 1, Phase: "Running", Failures: 1}},
		"after failures in a row":          {"F F", added, v1alpha1.ReleaseAnalysis{Run: 7, Step: 1, Phase: "Running", Failures: 2, ConsecutiveFailures: 2}},
		"after an inconclusive round":      {"P I", added, v1alpha1.ReleaseAnalysis{Run: 7, Step: 1, Phase: "Inconclusive", Inconclusive: 1}},
		"after the phase Failed":           {"F F F", added, v1alpha1.ReleaseAnalysis{Run: 7, Step: 1, Phase: "Failed", Failures: 3, ConsecutiveFailures: 3}},
		"failureLimit, not a new analysis": {"P P", func(s *v1alpha1.CanaryAnalysis) { s.FailureLimit = ptr[int32](9) }, passed},
		"timeout, not a new analysis":      {"P P", func(s *v1alpha1.CanaryAnalysis) { s.Provider.Timeout = "3s" }, passed},
		"metric order, not a new analysis": {"P P", func(s *v1alpha1.CanaryAnalysis) { s.Metrics[0], s.Metrics[1] = s.Metrics[1], s.Metrics[0] }, passed},
		"no edit":                          {"P P", nil, passed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before, spec, point := play(specOf(with(nil)), test.rounds), specOf(with(test.edit)), Point{Run: 7, Step: 1, Since: start}
			got := Begin(before, spec, point)
			ignored := cmpopts.IgnoreFields(v1alpha1.ReleaseAnalysis{}, "Since", "SpecHash", "Message", "Metrics", "LastTime", "NextTime")
			if diff := cmp.Diff(&test.want, got, ignored); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if again := Begin(got, spec, point); cmp.Diff(got, again) != "" {
				t.Errorf("a second call returns a different result:\n%s", cmp.Diff(got, again))
			}
			if got.Phase == v1alpha1.AnalysisFailed && cmp.Diff(before, got) != "" {
				t.Errorf("a result changed:\n%s", cmp.Diff(before, got))
			}
		})
	}
}

// TestMeasuredAfterEdit checks that an analysis that is added later passes only after its own
// number of rounds, and that an earlier round of hooks alone does not count for it.
func TestMeasuredAfterEdit(t *testing.T) {
	t.Parallel()
	point := Point{Run: 7, Step: 1, Since: start}
	at := func(n int) time.Time { return start.Add(time.Duration(n) * 2 * time.Minute) }
	hooksOnly := Fold(Begin(nil, nil, point), nil, point, Round{At: at(1)})
	if hooksOnly.Phase != v1alpha1.AnalysisPassed || hooksOnly.SpecHash != "" {
		t.Fatalf("hooks alone: %+v", hooksOnly)
	}
	spec := specOf(nil)
	status := Begin(hooksOnly, spec, point)
	if status.Phase != v1alpha1.AnalysisRunning || !strings.Contains(status.Message, "the analysis was edited") {
		t.Errorf("with an analysis: %s, %q", status.Phase, status.Message)
	}
	status = Fold(status, spec, point, roundOf(at(2), "PPP"))
	if status.Phase != v1alpha1.AnalysisRunning || status.Rounds != 1 {
		t.Errorf("after one of two rounds: %s, %d", status.Phase, status.Rounds)
	}
	if status = Fold(status, spec, point, roundOf(at(3), "PPP")); status.Phase != v1alpha1.AnalysisPassed || len(status.SpecHash) != 32 {
		t.Errorf("after two rounds: %s, hash %q", status.Phase, status.SpecHash)
	}
}

// TestDue checks that the first round is due one interval after the start of the wait, rounded up to a multiple
// of bucket, and that late rounds are omitted.
func TestDue(t *testing.T) {
	t.Parallel()
	spec := specOf(nil)
	for name, test := range map[string]struct {
		since, now time.Time
		rounds     int
		at         time.Time
		due        bool
	}{
		"too early":                 {start, start.Add(59 * time.Second), 0, start.Add(time.Minute), false},
		"in time":                   {start, start.Add(time.Minute), 0, start.Add(time.Minute), true},
		"rounded up":                {start.Add(time.Millisecond), start.Add(61 * time.Second), 0, start.Add(65 * time.Second), false},
		"a bit late":                {start, start.Add(90 * time.Second), 0, start.Add(time.Minute), true},
		"several rounds late":       {start, start.Add(200 * time.Second), 0, start.Add(180 * time.Second), true},
		"second, too early":         {start, start.Add(119 * time.Second), 1, start.Add(2 * time.Minute), false},
		"second, in time":           {start, start.Add(120 * time.Second), 1, start.Add(2 * time.Minute), true},
		"a clock that was set back": {start, start.Add(-time.Hour), 0, start.Add(time.Minute), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			point := Point{Run: 7, Step: 1, Since: test.since}
			status := Begin(nil, spec, point)
			for range test.rounds {
				status = Fold(status, spec, point, roundOf(status.NextTime.Time, "P"))
			}
			at, due := Due(status, spec, test.now)
			if !at.Equal(test.at) || due != test.due {
				t.Errorf("%s, %t, want %s, %t", at.Sub(start), due, test.at.Sub(start), test.due)
			}
			if status.NextTime.Time.Before(test.since.Add(time.Minute)) {
				t.Errorf("the window of %s reaches back before %s", status.NextTime, test.since)
			}
		})
	}
}

// TestStaleRounds checks that a round counts only once, and only for the wait to which it belongs.
func TestStaleRounds(t *testing.T) {
	t.Parallel()
	spec, point := specOf(nil), Point{Run: 7, Step: 1, Since: start}
	once := Fold(nil, spec, point, roundOf(start.Add(time.Minute), "P"))
	if twice := Fold(once, spec, point, roundOf(start.Add(time.Minute), "P")); cmp.Diff(once, twice) != "" {
		t.Errorf("the same round counts again:\n%s", cmp.Diff(once, twice))
	}
	if older := Fold(once, spec, point, roundOf(start.Add(30*time.Second), "F")); cmp.Diff(once, older) != "" {
		t.Errorf("an older round counts:\n%s", cmp.Diff(once, older))
	}
	early := Fold(nil, spec, Point{Run: 7, Step: 2, Since: start.Add(time.Hour)}, roundOf(start.Add(time.Minute), "F"))
	if early.Failures != 0 {
		t.Error("a round of the previous step counts")
	}
}

// TestSinceIsStored checks that a status that the API server has stored still belongs to the same point.
func TestSinceIsStored(t *testing.T) {
	t.Parallel()
	point := Point{Run: 7, Step: 1, Since: start.Add(123456789 * time.Nanosecond)}
	status := Fold(nil, specOf(nil), point, roundOf(start.Add(2*time.Minute), "P"))
	raw, err := status.Since.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	if err := status.Since.UnmarshalJSON(raw); err != nil {
		t.Fatal(err)
	}
	if got := Begin(status, specOf(nil), point).Rounds; got != 1 {
		t.Errorf("rounds = %d, want 1: the point is mistaken for another point", got)
	}
}

// TestMeasurementsAreKept checks that ten measurements are kept, newest first, and only for the metrics in the specification.
func TestMeasurementsAreKept(t *testing.T) {
	t.Parallel()
	spec, point := specOf(nil), Point{Run: 7, Step: 1, Since: start}
	var status *v1alpha1.ReleaseAnalysis
	for i := range 15 {
		round := roundOf(start.Add(time.Duration(i+1)*time.Minute), "P")
		round.Measurements[0].Value = fmt.Sprint(i)
		round.Measurements[1].Message = strings.Repeat("é", 400)
		status = Fold(status, spec, point, round)
	}
	if names := fmt.Sprint(status.Metrics[0].Name, status.Metrics[1].Name, status.Metrics[2].Name); names != "abd" {
		t.Fatalf("metrics = %s", names)
	}
	a, d := status.Metrics[0], status.Metrics[2]
	if len(a.Measurements) != MaxMeasurements || a.Measurements[0].Value != "14" || a.Measurements[9].Value != "5" {
		t.Errorf("measurements = %v", a.Measurements)
	}
	if message := status.Metrics[1].Measurements[0].Message; len(message) > maxMessage {
		t.Errorf("a message of %d bytes", len(message))
	}
	if a.DryRun || !d.DryRun {
		t.Error("dryRun is not shown")
	}
	spec.Metrics = spec.Metrics[1:]
	status = Fold(status, spec, point, roundOf(start.Add(time.Hour), "P"))
	if len(status.Metrics) != 2 || status.Metrics[0].Name != "b" {
		t.Errorf("a metric that was removed is still in the status: %v", status.Metrics)
	}
}

// TestFoldProperties checks that, for any input, the phase follows from the counters, the Failed phase
// persists, and an analysis passes only with passed rounds.
func TestFoldProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		limit := func(name string) *int32 {
			if n := rapid.Int32Range(-1, 3).Draw(r, name); n >= 0 {
				return &n
			}
			return nil
		}
		spec := specOf(func(s *v1alpha1.CanaryAnalysis) {
			s.Count = rapid.Int32Range(1, 3).Draw(r, "count")
			s.FailureLimit, s.ConsecutiveFailureLimit = limit("total"), limit("row")
			s.NoTraffic = rapid.SampledFrom([]v1alpha1.NoTrafficPolicy{"Wait", "Fail", "Ignore"}).Draw(r, "policy")
		})
		point, now := Point{Run: 1, Step: 1, Since: start}, start
		status := Begin(nil, spec, point)
		passed := int32(0)
		for range rapid.IntRange(0, 30).Draw(r, "events") {
			before := status.DeepCopy()
			now = now.Add(time.Minute)
			switch rapid.IntRange(0, 9).Draw(r, "event") {
			case 0:
				point, passed = Point{Run: point.Run, Step: point.Step + 1, Since: now}, 0
				status = Begin(status, spec, point)
			case 1:
				point, passed = Point{Run: point.Run, Step: point.Step, Since: now}, 0
				status = Begin(status, spec, point)
			default:
				letters := rapid.StringOfN(rapid.SampledFrom([]rune("PPPFINSE")), 3, 3, -1).Draw(r, "round")
				dry := letters[:2] + string(rapid.SampledFrom([]rune("PFINSE")).Draw(r, "dry"))
				status = Fold(before, spec, point, roundOf(now, letters))
				other := Fold(before, spec, point, roundOf(now, dry))
				if status.Phase != other.Phase || status.Message != other.Message {
					r.Fatalf("the dry run decides: %s (%s) with %s, %s (%s) with %s", status.Phase, status.Message, letters, other.Phase, other.Message, dry)
				}
				if status.Rounds > before.Rounds {
					passed++
					if strings.ContainsAny(letters[:2], "FIE") {
						r.Fatalf("a round %s passed", letters)
					}
				}
			}
			switch {
			case before.Phase == v1alpha1.AnalysisFailed && status.Phase != v1alpha1.AnalysisFailed:
				r.Fatalf("Failed became %s", status.Phase)
			case status.Failures < before.Failures:
				r.Fatalf("failures fell from %d to %d within the run", before.Failures, status.Failures)
			case status.Phase == v1alpha1.AnalysisPassed && passed < spec.Count:
				r.Fatalf("passed after %d of %d rounds", passed, spec.Count)
			case status.Phase == v1alpha1.AnalysisPassed && status.Inconclusive > 0:
				r.Fatal("passed while a decision is required")
			case len(status.Message) > maxPhaseMessage:
				r.Fatalf("a message of %d bytes", len(status.Message))
			}
		}
	})
}
