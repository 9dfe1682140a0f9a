package analysis

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// answer is the result of a query: a number, no traffic, or an error.
type answer struct {
	value     float64
	noTraffic bool
	// atLeast reports whether value is only a lower bound.
	atLeast bool
	// samples are the samples whose median is value; nil for a single value.
	samples []float64
	err     *Error
}

// number returns the answer for a value. A value that is not finite is an error.
func number(v float64) answer {
	switch {
	case math.IsNaN(v):
		return answer{err: errorf(NotANumber, "the response is NaN, the result of a division by 0: the query must return nothing if there is no traffic")}
	case math.IsInf(v, 0):
		return answer{err: errorf(Infinite, "the response is infinite, because of a division by 0 or a quantile above the highest bucket")}
	}
	return answer{value: v}
}

// inUnit rejects numbers that are impossible for a built-in metric.
func inUnit(metric *v1alpha1.AnalysisMetric, a answer) answer {
	if a.err != nil || a.noTraffic {
		return a
	}
	const rounding = 1e-6
	switch {
	case metric.SuccessRate != nil && (a.value < -rounding || a.value > 100+rounding):
		return answer{err: errorf(WrongUnit, "%s is not a percentage: check whether the counters of the source count requests twice, or count something else", text(a.value))}
	case metric.SuccessRate != nil:
		a.value = min(max(a.value, 0), 100)
		a.samples = slices.Clone(a.samples) // Other metrics with the same query share the answer.
		for i, v := range a.samples {
			a.samples[i] = min(max(v, 0), 100)
		}
	case metric.Latency != nil && a.value < 0:
		return answer{err: errorf(WrongUnit, "%s is not a duration", text(a.value))}
	}
	return a
}

// judge compares the answer for the canary with the ranges. If the metric has a baseline, judge also uses the answer for the active release. active
// is nil if the metric has no baseline, if there is no active release, or if the weight of the active release is 0.
func judge(metric *v1alpha1.AnalysisMetric, canary answer, active *answer) Measurement {
	m := Measurement{Metric: metric.Name}
	if metric.Baseline == "" {
		switch {
		case canary.err != nil:
			return m.failing(canary.err)
		case canary.noTraffic:
			return m.without(lack(metric))
		}
		return m.compared(metric, canary.value, "").exact(metric, canary)
	}

	if active == nil {
		m.Result, m.Message = v1alpha1.MeasurementSkipped, "the active release has weight 0, so there is nothing to compare with"
		return m
	}
	switch {
	case canary.err != nil:
		return m.failing(canary.err)
	case active.err != nil:
		return m.failing(&Error{Reason: active.err.Reason, Message: "the active release: " + active.err.Message})
	case canary.noTraffic:
		return m.without(lack(metric))
	case active.noTraffic:
		m.Baseline = true
		return m.without(lack(metric) + " for the active release")
	}
	both := fmt.Sprintf("canary %s, active %s", text(canary.value), text(active.value))
	if metric.Samples != nil {
		return m.sampled(metric, canary, *active)
	}
	if metric.Baseline == v1alpha1.BaselineDifference {
		return m.compared(metric, canary.value-active.value, both).exact(metric, canary, *active)
	}
	return m.ratio(metric, canary.value, active.value, both).exact(metric, canary, *active)
}

// lack returns the message for a metric without enough traffic.
func lack(metric *v1alpha1.AnalysisMetric) string {
	if metric.Samples != nil {
		return fmt.Sprintf("fewer than %d samples with requests", minSamples)
	}
	if n := metric.MinimumRequests; n > 1 {
		return fmt.Sprintf("fewer than %d requests", n)
	}
	return "no traffic"
}

// exact rejects results that are based on a lower bound, unless this bound is sufficient to show that the canary is too slow.
func (m Measurement) exact(metric *v1alpha1.AnalysisMetric, canary answer, active ...answer) Measurement {
	for _, a := range active {
		if a.atLeast {
			return Measurement{Metric: m.Metric}.failing(errorf(Infinite, "the latency of the active release is above the highest bucket, %s s: add buckets", text(a.value)))
		}
	}
	tooSlow := m.Result == v1alpha1.MeasurementFailed && metric.ThresholdRange.Min == nil
	if canary.atLeast && !tooSlow {
		return Measurement{Metric: m.Metric}.failing(errorf(Infinite, "the latency of the canary is above the highest bucket, %s s: add buckets", text(canary.value)))
	}
	return m
}

// ratio compares canary / active with the ranges. Two zeros count as equal. If only active is 0, the ratio is infinite, and the result
// is Failed or Error.
func (m Measurement) ratio(metric *v1alpha1.AnalysisMetric, canary, active float64, both string) Measurement {
	if canary == 0 && active == 0 {
		return m.placed(metric, 1, both)
	}
	ratio := canary / active
	if !math.IsInf(ratio, 0) {
		return m.compared(metric, ratio, both)
	}
	if beyond := m.placed(metric, ratio, both); beyond.Result == v1alpha1.MeasurementFailed {
		return beyond
	}
	return m.failing(errorf(ZeroBaseline, "%s: the ratio to 0 is undefined: use baseline Difference", both))
}

// compared returns the measurement for a value. A value that is not finite is an error.
func (m Measurement) compared(metric *v1alpha1.AnalysisMetric, value float64, how string) Measurement {
	if a := number(value); a.err != nil {
		return m.failing(a.err)
	}
	return m.placed(metric, value, how)
}

// placed compares a value with the ranges.
func (m Measurement) placed(metric *v1alpha1.AnalysisMetric, value float64, how string) Measurement {
	m.Value, m.Message = text(value), how
	threshold, wider := metric.ThresholdRange, metric.ThresholdRange
	if metric.InconclusiveRange != nil {
		if metric.InconclusiveRange.Min != nil {
			wider.Min = metric.InconclusiveRange.Min
		}
		if metric.InconclusiveRange.Max != nil {
			wider.Max = metric.InconclusiveRange.Max
		}
	}
	switch {
	case within(threshold, value):
		m.Result = v1alpha1.MeasurementPassed
		return m
	case metric.InconclusiveRange != nil && within(wider, value):
		m.Result = v1alpha1.MeasurementInconclusive
	default:
		m.Result = v1alpha1.MeasurementFailed
	}
	m.Message = join(fmt.Sprintf("%s is %s", text(value), outside(threshold, value)), how)
	return m
}

func (m Measurement) failing(err *Error) Measurement {
	m.Result, m.Message = v1alpha1.MeasurementError, err.Error()
	return m
}

func (m Measurement) without(message string) Measurement {
	m.Result, m.Message = v1alpha1.MeasurementNoTraffic, message
	return m
}

func within(r v1alpha1.ValueRange, v float64) bool {
	return (r.Min != nil || r.Max != nil) && (r.Min == nil || v >= *r.Min) && (r.Max == nil || v <= *r.Max)
}

// outside describes which bound of r the value v violates.
func outside(r v1alpha1.ValueRange, v float64) string {
	switch {
	case r.Min != nil && v < *r.Min:
		return "below " + text(*r.Min)
	case r.Max != nil && v > *r.Max:
		return "above " + text(*r.Max)
	}
	return "outside of all ranges"
}

// text formats a value for users, with ten significant digits.
func text(v float64) string { return strconv.FormatFloat(v, 'g', 10, 64) }
