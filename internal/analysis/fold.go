package analysis

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/outbound"
)

const (
	// DefaultInterval is the time between two rounds.
	DefaultInterval = time.Minute
	// MaxErrors is the number of consecutive rounds without a measurement after which a user must decide whether the rollout continues.
	MaxErrors = 5
	// MaxMeasurements is the maximum number of measurements of a metric in a status.
	MaxMeasurements = 10

	// bucket is the unit to which the times of rounds are rounded up. As a result, releases that are measured at about the same time send identical
	// queries, and no time window begins before the step.
	bucket = 5 * time.Second

	maxPhaseMessage = 512
	maxMessage      = 256
)

// Begin returns the status that a point has before its next round. If before belongs to this point and specification, Begin returns an equal
// status. Otherwise, it returns a new status that keeps the counters of the rollout. If the specification has changed, passed rounds no longer
// count, but failed rounds still count. The Failed phase lasts for the rest of the rollout. before may be nil and is not changed.
func Begin(before *v1alpha1.ReleaseAnalysis, spec *v1alpha1.CanaryAnalysis, point Point) *v1alpha1.ReleaseAnalysis {
	status, since := &v1alpha1.ReleaseAnalysis{}, metav1.NewMicroTime(point.Since.Truncate(time.Microsecond)) // truncated to the precision of the API
	if before != nil && before.Run == point.Run {
		status = before.DeepCopy()
	}
	if status.Phase == v1alpha1.AnalysisFailed {
		return status
	}
	measured := status.SpecHash
	status.SpecHash = SpecHash(spec)
	switch {
	case status.Step != point.Step:
		status.Inconclusive = 0 // A user continued the rollout, or no round was inconclusive.
	case status.Since.Time.Equal(since.Time) && measured == status.SpecHash:
		return settled(status, spec)
	case status.Since.Time.Equal(since.Time):
		status.Rounds = 0
		var counters string
		status.Phase, counters = verdict(status, spec, v1alpha1.MeasurementPassed)
		status.Message = outbound.Printable([]byte(join("the analysis was edited", counters)), maxPhaseMessage)
		return settled(status, spec)
	}
	status.Run, status.Step, status.Since = point.Run, point.Step, since
	status.Rounds, status.Errors, status.LastTime = 0, 0, nil
	status.Phase, status.Message = verdict(status, spec, v1alpha1.MeasurementPassed)
	return settled(status, spec)
}

// SpecHash returns a hash that differs between two analyses if rounds that passed with one of them must not count for
// the other. The hash does not depend on the number of tolerated failures, the timeout, or the order of the metrics.
// The hash of nil is empty.
func SpecHash(spec *v1alpha1.CanaryAnalysis) string {
	if spec == nil {
		return ""
	}
	what := spec.DeepCopy()
	what.FailureLimit, what.ConsecutiveFailureLimit, what.Provider.Timeout = nil, nil, ""
	slices.SortFunc(what.Metrics, func(a, b v1alpha1.AnalysisMetric) int { return strings.Compare(a.Name, b.Name) })
	text, err := json.Marshal(what)
	if err != nil {
		text = fmt.Append(nil, err) // A threshold is NaN or infinite. API servers reject such a threshold.
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}

// Due returns the time of the next round, and whether that time has come. A round that is late by an interval or more is skipped. In the
// Failed phase, no round is due.
func Due(status *v1alpha1.ReleaseAnalysis, spec *v1alpha1.CanaryAnalysis, now time.Time) (time.Time, bool) {
	interval := intervalOf(spec)
	at := next(status, spec)
	if late := now.Sub(at); late >= interval {
		at = at.Add(late.Truncate(interval))
	}
	return at, status.Phase != v1alpha1.AnalysisFailed && !at.After(now)
}

// Fold adds a round to the status of its point. before is the result of [Begin] and is not changed. A round that is not newer than the latest round,
// or not newer than the start of the point, changes nothing. spec may be nil for hooks without an analysis. In that case, no failure is tolerated.
func Fold(before *v1alpha1.ReleaseAnalysis, spec *v1alpha1.CanaryAnalysis, point Point, round Round) *v1alpha1.ReleaseAnalysis {
	status := Begin(before, spec, point)
	stale := status.LastTime != nil && !round.At.After(status.LastTime.Time) || !round.At.After(point.Since)
	if stale || status.Phase == v1alpha1.AnalysisFailed {
		return status
	}
	at := metav1.NewMicroTime(round.At)
	status.LastTime = &at
	record(status, spec, round)

	outcome, cause := summarize(spec, round)
	switch outcome {
	case v1alpha1.MeasurementPassed:
		status.Rounds++
		status.ConsecutiveFailures = 0
	case v1alpha1.MeasurementFailed:
		status.Failures++
		status.ConsecutiveFailures++
	case v1alpha1.MeasurementInconclusive:
		status.Inconclusive++
	case v1alpha1.MeasurementError:
		status.Errors++
	}
	if outcome != v1alpha1.MeasurementError {
		status.Errors = 0
	}
	var counters string
	status.Phase, counters = verdict(status, spec, outcome)
	status.Message = outbound.Printable([]byte(join(cause, counters)), maxPhaseMessage)
	return settled(status, spec)
}

// settled sets the time of the next round in status and returns status.
func settled(status *v1alpha1.ReleaseAnalysis, spec *v1alpha1.CanaryAnalysis) *v1alpha1.ReleaseAnalysis {
	status.NextTime = nil
	if status.Phase != v1alpha1.AnalysisFailed {
		at := metav1.NewMicroTime(next(status, spec))
		status.NextTime = &at
	}
	return status
}

// verdict returns the phase that results from the counters and from the result of the latest round, and a message that contains the counters.
func verdict(status *v1alpha1.ReleaseAnalysis, spec *v1alpha1.CanaryAnalysis, last v1alpha1.MeasurementResult) (v1alpha1.AnalysisPhase, string) {
	failures, consecutive := limits(spec)
	switch {
	case failures >= 0 && status.Failures > failures:
		return v1alpha1.AnalysisFailed, fmt.Sprintf("failed rounds: %d, tolerated: %d", status.Failures, failures)
	case consecutive >= 0 && status.ConsecutiveFailures > consecutive:
		return v1alpha1.AnalysisFailed, fmt.Sprintf("consecutive failed rounds: %d, tolerated: %d", status.ConsecutiveFailures, consecutive)
	case status.Inconclusive > 0:
		return v1alpha1.AnalysisInconclusive, fmt.Sprintf("inconclusive rounds in this step: %d", status.Inconclusive)
	case status.Errors >= MaxErrors:
		return v1alpha1.AnalysisInconclusive, fmt.Sprintf("consecutive rounds that could not be measured: %d", status.Errors)
	case status.Rounds >= count(spec):
		return v1alpha1.AnalysisPassed, progress(status, spec)
	case last == v1alpha1.MeasurementNoTraffic:
		return v1alpha1.AnalysisNoTraffic, progress(status, spec)
	}
	return v1alpha1.AnalysisRunning, progress(status, spec)
}

func progress(status *v1alpha1.ReleaseAnalysis, spec *v1alpha1.CanaryAnalysis) string {
	text := fmt.Sprintf("passed rounds: %d of %d", status.Rounds, count(spec))
	if status.Failures > 0 {
		text += fmt.Sprintf(", failed: %d", status.Failures)
	}
	return text
}

// summarize returns the result of a round, and the cause if the round did not pass. The result is the worst of the results of all metrics and hooks.
// Metrics in dry-run mode are ignored.
func summarize(spec *v1alpha1.CanaryAnalysis, round Round) (v1alpha1.MeasurementResult, string) {
	causes := map[v1alpha1.MeasurementResult][]string{}
	causes[v1alpha1.MeasurementFailed] = append(causes[v1alpha1.MeasurementFailed], round.HookFailures...)
	causes[v1alpha1.MeasurementError] = append(causes[v1alpha1.MeasurementError], round.HookErrors...)
	for _, metric := range metricsOf(spec) {
		if metric.DryRun {
			continue
		}
		m := round.of(metric.Name)
		result := m.Result
		if result == v1alpha1.MeasurementNoTraffic {
			switch {
			case spec.NoTraffic == v1alpha1.NoTrafficIgnore:
				continue
			case spec.NoTraffic == v1alpha1.NoTrafficFail && !m.Baseline:
				result = v1alpha1.MeasurementFailed
			}
		}
		causes[result] = append(causes[result], m.Metric+": "+describe(m))
	}
	for _, result := range []v1alpha1.MeasurementResult{
		v1alpha1.MeasurementFailed, v1alpha1.MeasurementInconclusive, v1alpha1.MeasurementError, v1alpha1.MeasurementNoTraffic,
	} {
		if len(causes[result]) > 0 {
			return result, strings.Join(causes[result], "; ")
		}
	}
	return v1alpha1.MeasurementPassed, ""
}

func describe(m Measurement) string {
	if m.Message != "" {
		return m.Message
	}
	return m.Value
}

// record adds the measurements to the status. The status lists only the metrics of the specification.
func record(status *v1alpha1.ReleaseAnalysis, spec *v1alpha1.CanaryAnalysis, round Round) {
	before := status.Metrics
	status.Metrics = nil
	for _, metric := range metricsOf(spec) {
		measured := round.of(metric.Name)
		m := v1alpha1.MetricStatus{Name: metric.Name, Result: measured.Result, DryRun: metric.DryRun}
		m.Measurements = []v1alpha1.Measurement{{
			Time: metav1.NewMicroTime(round.At), Value: measured.Value, Result: measured.Result,
			Message: outbound.Printable([]byte(measured.Message), maxMessage),
		}}
		if i := slices.IndexFunc(before, func(s v1alpha1.MetricStatus) bool { return s.Name == metric.Name }); i >= 0 {
			m.Measurements = append(m.Measurements, before[i].Measurements...)
		}
		m.Measurements = m.Measurements[:min(len(m.Measurements), MaxMeasurements)]
		status.Metrics = append(status.Metrics, m)
	}
}

// of returns the measurement of a metric. If there is none, it returns a measurement with result Error.
func (r Round) of(metric string) Measurement {
	for _, m := range r.Measurements {
		if m.Metric == metric {
			return m
		}
	}
	return Measurement{Metric: metric, Result: v1alpha1.MeasurementError, Message: "the round did not measure this metric"}
}

// next returns the time of the round after the latest round, or of the first round if there has been no round yet. The first round is late enough that
// samples cover only traffic of the step.
func next(status *v1alpha1.ReleaseAnalysis, spec *v1alpha1.CanaryAnalysis) time.Time {
	at := status.Since.Add(max(intervalOf(spec), samplesTake(spec)))
	if status.LastTime != nil {
		at = status.LastTime.Add(intervalOf(spec))
	}
	if cut := at.Truncate(bucket); cut.Before(at) {
		at = cut.Add(bucket)
	}
	return at
}

// samplesTake returns the duration after which every metric with samples has the minimum number of samples.
func samplesTake(spec *v1alpha1.CanaryAnalysis) (longest time.Duration) {
	if spec == nil {
		return 0
	}
	for _, m := range spec.Metrics {
		if m.Samples != nil {
			longest = max(longest, minSamples*m.Samples.Interval.Std(intervalOf(spec)))
		}
	}
	return longest
}

func intervalOf(spec *v1alpha1.CanaryAnalysis) time.Duration {
	if spec == nil {
		return DefaultInterval
	}
	return max(spec.Interval.Std(DefaultInterval), bucket)
}

func count(spec *v1alpha1.CanaryAnalysis) int32 {
	if spec == nil {
		return 1
	}
	return max(spec.Count, 1)
}

// limits returns how many failed rounds are tolerated, in total and consecutively; -1 means any number.
func limits(spec *v1alpha1.CanaryAnalysis) (failures, consecutive int32) {
	failures, consecutive = 0, -1
	if spec == nil {
		return failures, consecutive
	}
	if spec.ConsecutiveFailureLimit != nil {
		failures, consecutive = -1, *spec.ConsecutiveFailureLimit
	}
	if spec.FailureLimit != nil {
		failures = *spec.FailureLimit
	}
	return failures, consecutive
}

func metricsOf(spec *v1alpha1.CanaryAnalysis) []v1alpha1.AnalysisMetric {
	if spec == nil {
		return nil
	}
	return spec.Metrics
}

func join(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), "; ")
}
