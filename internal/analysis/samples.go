package analysis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/aclements/go-moremath/stats"
	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// These are the defaults for the samples field, and the minimum number of samples for a release. With fewer samples, hardly any difference is
// significant.
const (
	defaultSamples      = 20
	defaultSignificance = 0.05
	minSamples          = 8
)

// askSamples sends a range query.
func askSamples(ctx context.Context, server promv1.API, q query, at time.Time) answer {
	step := time.Duration(q.step)
	if q.samples < minSamples {
		return answer{noTraffic: true} // The step has not lasted long enough for the minimum number of samples.
	}
	start := at.Add(-step * time.Duration(q.samples-1))
	result, _, _, err := server.QueryRange(ctx, q.text, promv1.Range{Start: start, End: at, Step: step})
	if err != nil {
		return answer{err: classify(err)}
	}
	matrix, ok := result.(model.Matrix)
	switch {
	case !ok:
		return answer{err: errorf(BadAnswer, "the response has no numeric result")}
	case len(matrix) == 0:
		return answer{noTraffic: true}
	case len(matrix) > 1:
		return answer{err: severalSeries(len(matrix))}
	case matrix[0] == nil:
		return answer{err: errorf(BadAnswer, "the response has no numeric result")}
	case len(matrix[0].Histograms) > 0:
		return answer{err: isHistogram()}
	}
	for _, pair := range matrix[0].Values {
		if t := pair.Timestamp.Time(); t.Before(start.Add(-tolerance)) || t.After(at.Add(tolerance)) {
			return answer{err: errorf(WrongTime, "the response has a value for %s, but the request is for %s to %s", t.UTC().Format(time.RFC3339), start.Format(time.RFC3339), at.Format(time.RFC3339))}
		}
	}
	return sampledAnswer(matrix[0].Values, q.latency)
}

// sampledAnswer returns the samples of a series, and their median as the value. A sample that is not a number counts as a sample without
// requests.
func sampledAnswer(values []model.SamplePair, latency bool) answer {
	type sample struct {
		value   float64
		atLeast bool
	}
	var all []sample
	for _, pair := range values {
		v := float64(pair.Value)
		if math.IsNaN(v) {
			continue
		}
		if a := number(v); a.err != nil {
			return a
		}
		all = append(all, sample{value: v})
		if latency && v < 0 {
			all[len(all)-1] = sample{value: -v, atLeast: true}
		}
	}
	if len(all) < minSamples {
		return answer{noTraffic: true}
	}
	slices.SortFunc(all, func(a, b sample) int { return cmp.Compare(a.value, b.value) })
	out := answer{value: (all[(len(all)-1)/2].value + all[len(all)/2].value) / 2, atLeast: all[len(all)/2].atLeast}
	for _, s := range all {
		out.samples = append(out.samples, s.value)
	}
	return out
}

// sampled compares the sample medians of two releases, and then checks whether the result is within the ranges. These ranges include the result for equal
// medians. A result outside of the ranges nevertheless passes if the samples do not differ significantly in the direction in which their medians differ.
func (m Measurement) sampled(metric *v1alpha1.AnalysisMetric, canary, active answer) Measurement {
	p, err := probability(canary.samples, active.samples, canary.value > active.value)
	if err != nil {
		return m.failing(errorf(BadAnswer, "compare samples: %v", err))
	}
	both := fmt.Sprintf("medians: canary %s (%d samples), active release %s (%d samples); p-value %s", text(canary.value), len(canary.samples), text(active.value), len(active.samples), strconv.FormatFloat(p, 'g', 2, 64))
	out := m.ratio(metric, canary.value, active.value, both)
	if metric.Baseline == v1alpha1.BaselineDifference {
		out = m.compared(metric, canary.value-active.value, both)
	}
	out = out.exact(metric, canary, active)
	alpha := defaultSignificance
	if s := metric.Samples.Significance; s != nil {
		alpha = *s
	}
	if p >= alpha && !canary.atLeast && (out.Result == v1alpha1.MeasurementFailed || out.Result == v1alpha1.MeasurementInconclusive) {
		out.Result, out.Message = v1alpha1.MeasurementPassed, "not significant: "+out.Message
	}
	return out
}

// probability returns the p-value of a one-sided Mann-Whitney U test. It is the probability that samples of equal releases differ at least as much
// as these samples, in the same direction: the canary above or below the active release. See H. B. Mann and D. R. Whitney, "On a Test of Whether
// one of Two Random Variables is Stochastically Larger than the Other", 1947.
func probability(canary, active []float64, above bool) (float64, error) {
	if above { // With LocationGreater, the library omits the 0.5 that each pair of equal values adds to U.
		canary, active = active, canary
	}
	result, err := stats.MannWhitneyUTest(canary, active, stats.LocationLess)
	if errors.Is(err, stats.ErrSamplesEqual) {
		return 1, nil
	}
	if err != nil {
		return 0, err
	}
	return min(result.P, 1), nil
}
