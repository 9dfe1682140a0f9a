package view

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/analysistemplate"
)

// analysis returns the analysis of a release with the bounds from the specification, or nil if there is no analysis.
func (s *service) analysis(o *v1alpha1.VersionedMicroservice) *Analysis {
	if o == nil || o.Status.Analysis == nil {
		return nil
	}
	a := o.Status.Analysis
	out := &Analysis{Step: a.Step, Phase: string(a.Phase), Rounds: a.Rounds, Failures: a.Failures, Message: a.Message, Next: micros(a.NextTime), Template: a.Template}
	spec := analysistemplate.Among(s.ms, s.Templates, s.ClusterTemplates)
	if spec != nil {
		out.Count = max(1, spec.Count)
	}
	for _, m := range a.Metrics {
		out.Metrics = append(out.Metrics, NewMetric(m, spec))
	}
	return out
}

// NewMetric returns the latest measurement of a metric, and the bounds of the metric from spec. spec may be nil.
func NewMetric(m v1alpha1.MetricStatus, spec *v1alpha1.CanaryAnalysis) Metric {
	x := Metric{Name: m.Name, Result: string(m.Result), DryRun: m.DryRun}
	if len(m.Measurements) > 0 {
		x.Value, x.Message, x.Result = m.Measurements[0].Value, m.Measurements[0].Message, string(m.Measurements[0].Result)
	}
	for _, past := range slices.Backward(m.Measurements) {
		if v, err := strconv.ParseFloat(past.Value, 64); err == nil && !math.IsNaN(v) && !math.IsInf(v, 0) {
			x.Values = append(x.Values, v)
		}
	}
	if len(x.Values) < 2 {
		x.Values = nil
	}
	if spec != nil {
		x.bounds(spec)
	}
	return x
}

// bounds sets the fields of a metric that come from the specification.
func (m *Metric) bounds(spec *v1alpha1.CanaryAnalysis) {
	for i := range spec.Metrics {
		x := &spec.Metrics[i]
		if x.Name != m.Name {
			continue
		}
		m.Min, m.Max = x.ThresholdRange.Min, x.ThresholdRange.Max
		switch {
		case x.Baseline != "":
			m.Kind = strings.ToLower(string(x.Baseline))
		case x.SuccessRate != nil:
			m.Kind = "successRate"
		case x.Latency != nil:
			m.Kind = "latency"
		case x.Prometheus != nil:
			m.Kind = "prometheus"
		case x.Web != nil:
			m.Kind = "web"
		}
		if x.Prometheus != nil {
			m.Query = x.Prometheus.Query
		}
		return
	}
}

// String formats a measurement with the bound that it violates, as in "latency-p99 612 ms > 500 ms". If it violates no bound, the
// result contains the upper bound or, if there is none, the lower bound. For a measurement without a value, the result contains
// the outcome and the message instead.
func (m Metric) String() string {
	v, err := strconv.ParseFloat(m.Value, 64)
	if m.Value == "" || err != nil || math.IsNaN(v) {
		return strings.TrimSpace(m.Name + " " + strings.TrimSuffix(strings.ToLower(m.Result)+": "+m.Message, ": "))
	}
	text := m.Name + " " + m.amount(v)
	switch {
	case m.Max != nil && v > *m.Max:
		return text + " > " + m.amount(*m.Max)
	case m.Min != nil && v < *m.Min:
		return text + " < " + m.amount(*m.Min)
	case m.Max != nil:
		return text + " ≤ " + m.amount(*m.Max)
	case m.Min != nil:
		return text + " ≥ " + m.amount(*m.Min)
	}
	return text
}

// amount formats a value in the unit of the metric.
func (m Metric) amount(v float64) string {
	number := func(v float64, digits int) string {
		text := strconv.FormatFloat(v, 'f', digits, 64)
		if strings.Contains(text, ".") {
			text = strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
		}
		return text
	}
	switch {
	case m.Kind == "successRate":
		return number(v, 2) + "%"
	case m.Kind == "latency" && math.Abs(v) < 1:
		return number(v*1000, 1) + " ms"
	case m.Kind == "latency":
		return number(v, 2) + " s"
	case math.Abs(v) >= 1e6 || v != 0 && math.Abs(v) < 1e-3:
		return strconv.FormatFloat(v, 'g', 4, 64)
	}
	return number(v, 3)
}

// progress describes the rounds and the metrics of an analysis. Metrics that did not pass come first.
func (a *Analysis) progress() string {
	if a == nil {
		return ""
	}
	text := fmt.Sprintf("%d rounds", a.Rounds)
	if a.Count > 0 {
		text = fmt.Sprintf("%d of %d rounds", min(a.Rounds, a.Count), a.Count)
	}
	if a.Failures > 0 {
		text += fmt.Sprintf(", %d failed", a.Failures)
	}
	if metrics := a.metrics(false); len(metrics) > 0 {
		text += ": " + strings.Join(metrics, ", ")
	}
	return text
}

// metrics describes the metrics. Metrics that did not pass come first. If failing is set, it describes only the metrics
// that failed.
func (a *Analysis) metrics(failing bool) (out []string) {
	for _, passed := range []bool{false, true} {
		for _, m := range a.Metrics {
			if ok := m.Result == string(v1alpha1.MeasurementPassed); ok != passed || m.DryRun || failing && m.Result != string(v1alpha1.MeasurementFailed) {
				continue
			}
			out = append(out, m.String())
		}
	}
	return out
}
