package analysis

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

func metricOf(change func(*v1alpha1.AnalysisMetric)) *v1alpha1.AnalysisMetric {
	m := &v1alpha1.AnalysisMetric{Name: "a", Prometheus: &v1alpha1.PrometheusMetric{Query: "a"}}
	change(m)
	return m
}

func ranges(min, max *float64) func(*v1alpha1.AnalysisMetric) {
	return func(m *v1alpha1.AnalysisMetric) { m.ThresholdRange = v1alpha1.ValueRange{Min: min, Max: max} }
}

// TestJudge checks the comparison of one value with its ranges.
func TestJudge(t *testing.T) {
	t.Parallel()
	unclear := func(min, max, outerMin, outerMax *float64) func(*v1alpha1.AnalysisMetric) {
		return func(m *v1alpha1.AnalysisMetric) {
			ranges(min, max)(m)
			m.InconclusiveRange = &v1alpha1.ValueRange{Min: outerMin, Max: outerMax}
		}
	}
	for name, test := range map[string]struct {
		metric func(*v1alpha1.AnalysisMetric)
		answer answer
		want   Measurement
	}{
		"above min":                   {ranges(ptr(99.0), nil), answer{value: 99.5}, Measurement{Result: "Passed", Value: "99.5"}},
		"at min":                      {ranges(ptr(99.0), nil), answer{value: 99}, Measurement{Result: "Passed", Value: "99"}},
		"below min":                   {ranges(ptr(99.0), nil), answer{value: 98.75}, Measurement{Result: "Failed", Value: "98.75", Message: "98.75 is below 99"}},
		"at max":                      {ranges(nil, ptr(0.5)), answer{value: 0.5}, Measurement{Result: "Passed", Value: "0.5"}},
		"above max":                   {ranges(nil, ptr(0.5)), answer{value: 0.75}, Measurement{Result: "Failed", Value: "0.75", Message: "0.75 is above 0.5"}},
		"zero":                        {ranges(ptr(0.0), ptr(0.0)), answer{}, Measurement{Result: "Passed", Value: "0"}},
		"no range at all":             {ranges(nil, nil), answer{value: 1}, Measurement{Result: "Failed", Value: "1", Message: "1 is outside of all ranges"}},
		"between the ranges":          {unclear(ptr(99.0), nil, ptr(95.0), nil), answer{value: 97}, Measurement{Result: "Inconclusive", Value: "97", Message: "97 is below 99"}},
		"at the outer bound":          {unclear(ptr(99.0), nil, ptr(95.0), nil), answer{value: 95}, Measurement{Result: "Inconclusive", Value: "95", Message: "95 is below 99"}},
		"below both":                  {unclear(ptr(99.0), nil, ptr(95.0), nil), answer{value: 94}, Measurement{Result: "Failed", Value: "94", Message: "94 is below 99"}},
		"outer bound on one side":     {unclear(ptr(1.0), ptr(2.0), nil, ptr(3.0)), answer{value: 2.5}, Measurement{Result: "Inconclusive", Value: "2.5", Message: "2.5 is above 2"}},
		"no outer bound on this side": {unclear(ptr(1.0), ptr(2.0), nil, ptr(3.0)), answer{value: 0.5}, Measurement{Result: "Failed", Value: "0.5", Message: "0.5 is below 1"}},
		"no traffic":                  {ranges(ptr(99.0), nil), answer{noTraffic: true}, Measurement{Result: "NoTraffic", Message: "no traffic"}},
		"fewer requests than required": {func(m *v1alpha1.AnalysisMetric) {
			ranges(ptr(99.0), nil)(m)
			m.MinimumRequests = 100
		}, answer{noTraffic: true}, Measurement{Result: "NoTraffic", Message: "fewer than 100 requests"}},
		"an error":                           {ranges(ptr(99.0), nil), answer{err: errorf(Timeout, "no response in time")}, Measurement{Result: "Error", Message: "Timeout: no response in time"}},
		"NaN that slipped through":           {ranges(nil, ptr(1.0)), answer{value: math.NaN()}, Measurement{Result: "Error", Message: "NotANumber: "}},
		"+Inf that slipped through":          {ranges(ptr(1.0), nil), answer{value: math.Inf(1)}, Measurement{Result: "Error", Message: "Infinite: "}},
		"a lower bound, and too high":        {ranges(nil, ptr(1.0)), answer{value: 5, atLeast: true}, Measurement{Result: "Failed", Value: "5", Message: "5 is above 1"}},
		"a lower bound, and possibly within": {ranges(nil, ptr(9.0)), answer{value: 5, atLeast: true}, Measurement{Result: "Error", Message: "Infinite: the latency of the canary is above the highest bucket, 5 s: add buckets"}},
		"a lower bound below min":            {ranges(ptr(6.0), ptr(9.0)), answer{value: 5, atLeast: true}, Measurement{Result: "Error", Message: "Infinite: "}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			compare(t, test.want, judge(metricOf(test.metric), test.answer, nil))
		})
	}
}

// compare compares two measurements. If the expected message ends with ": ", the actual message only needs to
// begin with the expected message.
func compare(t *testing.T, want, got Measurement) {
	t.Helper()
	want.Metric = "a"
	if strings.HasSuffix(want.Message, ": ") && strings.HasPrefix(got.Message, want.Message) {
		want.Message = got.Message
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestBaseline compares the canary with the active release.
func TestBaseline(t *testing.T) {
	t.Parallel()
	const ratio, difference = v1alpha1.BaselineRatio, v1alpha1.BaselineDifference
	value := func(v float64) *answer { return &answer{value: v} }
	for name, test := range map[string]struct {
		mode     v1alpha1.BaselineMode
		min, max *float64
		canary   answer
		active   *answer
		want     Measurement
	}{
		"ratio within":                 {ratio, nil, ptr(1.5), *value(3), value(2), Measurement{Result: "Passed", Value: "1.5", Message: "canary 3, active 2"}},
		"ratio above":                  {ratio, nil, ptr(1.5), *value(4), value(2), Measurement{Result: "Failed", Value: "2", Message: "2 is above 1.5; canary 4, active 2"}},
		"ratio of zeros is 1":          {ratio, nil, ptr(1.5), *value(0), value(0), Measurement{Result: "Passed", Value: "1", Message: "canary 0, active 0"}},
		"ratio of zeros, min above":    {ratio, ptr(1.1), nil, *value(0), value(0), Measurement{Result: "Failed", Value: "1", Message: "1 is below 1.1; canary 0, active 0"}},
		"ratio to zero, bounded above": {ratio, nil, ptr(1.5), *value(5), value(0), Measurement{Result: "Failed", Value: "+Inf", Message: "+Inf is above 1.5; canary 5, active 0"}},
		"ratio to zero never passes":   {ratio, ptr(0.9), nil, *value(5), value(0), Measurement{Result: "Error", Message: "ZeroBaseline: "}},
		"ratio of negative to zero":    {ratio, ptr(0.9), nil, *value(-5), value(0), Measurement{Result: "Failed", Value: "-Inf", Message: "-Inf is below 0.9; canary -5, active 0"}},
		"ratio that overflows":         {ratio, ptr(0.9), nil, *value(1e300), value(1e-300), Measurement{Result: "Error", Message: "ZeroBaseline: "}},
		"difference within":            {difference, nil, ptr(0.5), *value(2.5), value(2), Measurement{Result: "Passed", Value: "0.5", Message: "canary 2.5, active 2"}},
		"difference above":             {difference, nil, ptr(0.25), *value(2.5), value(2), Measurement{Result: "Failed", Value: "0.5", Message: "0.5 is above 0.25; canary 2.5, active 2"}},
		"difference to zero":           {difference, nil, ptr(1.0), *value(5), value(0), Measurement{Result: "Failed", Value: "5", Message: "5 is above 1; canary 5, active 0"}},
		"difference below zero":        {difference, ptr(-1.0), nil, *value(98), value(99.5), Measurement{Result: "Failed", Value: "-1.5", Message: "-1.5 is below -1; canary 98, active 99.5"}},
		"difference that overflows":    {difference, ptr(1.0), nil, *value(1.7e308), value(-1.7e308), Measurement{Result: "Error", Message: "Infinite: "}},
		"active has weight 0":          {ratio, nil, ptr(1.5), *value(3), nil, Measurement{Result: "Skipped", Message: "the active release has weight 0, so there is nothing to compare with"}},
		"active without traffic":       {ratio, nil, ptr(1.5), *value(3), &answer{noTraffic: true}, Measurement{Result: "NoTraffic", Message: "no traffic for the active release", Baseline: true}},
		"canary without traffic":       {ratio, nil, ptr(1.5), answer{noTraffic: true}, value(2), Measurement{Result: "NoTraffic", Message: "no traffic"}},
		"both without traffic":         {ratio, nil, ptr(1.5), answer{noTraffic: true}, &answer{noTraffic: true}, Measurement{Result: "NoTraffic", Message: "no traffic"}},
		"active with an error":         {ratio, nil, ptr(1.5), *value(3), &answer{err: errorf(Timeout, "no response in time")}, Measurement{Result: "Error", Message: "Timeout: the active release: no response in time"}},
		"canary with an error":         {ratio, nil, ptr(1.5), answer{err: errorf(Timeout, "no response in time")}, value(2), Measurement{Result: "Error", Message: "Timeout: no response in time"}},
		"active beyond the buckets":    {ratio, nil, ptr(1.5), *value(9), &answer{value: 5, atLeast: true}, Measurement{Result: "Error", Message: "Infinite: "}},
		"canary beyond the buckets":    {ratio, nil, ptr(1.5), answer{value: 5, atLeast: true}, value(1), Measurement{Result: "Failed", Value: "5", Message: "5 is above 1.5; canary 5, active 1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			metric := metricOf(func(m *v1alpha1.AnalysisMetric) {
				m.Baseline = test.mode
				ranges(test.min, test.max)(m)
			})
			compare(t, test.want, judge(metric, test.canary, test.active))
		})
	}
}

// TestNothingPassesUnmeasured checks that only finite numbers within the range
// pass.
func TestNothingPassesUnmeasured(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		special := []float64{0, math.Copysign(0, -1), 1, -1, math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat64, -math.MaxFloat64, math.SmallestNonzeroFloat64, 99}
		draw := func(name string) answer {
			a := number(rapid.OneOf(rapid.SampledFrom(special), rapid.Float64()).Draw(r, name))
			a.noTraffic = rapid.IntRange(0, 5).Draw(r, name+" traffic") == 0
			a.atLeast = rapid.IntRange(0, 5).Draw(r, name+" least") == 0
			return a
		}
		metric := metricOf(func(m *v1alpha1.AnalysisMetric) {
			m.Baseline = rapid.SampledFrom([]v1alpha1.BaselineMode{"", "Ratio", "Difference"}).Draw(r, "baseline")
			min, max := rapid.Float64Range(-1e15, 1e15).Draw(r, "min"), rapid.Float64Range(-1e15, 1e15).Draw(r, "max")
			m.ThresholdRange = rapid.SampledFrom([]v1alpha1.ValueRange{{Min: &min}, {Max: &max}, {Min: &min, Max: &max}}).Draw(r, "range")
		})
		canary, active := draw("canary"), draw("active")
		got := judge(metric, canary, &active)
		if got.Result != v1alpha1.MeasurementPassed {
			return
		}
		if canary.err != nil || canary.noTraffic || canary.atLeast {
			r.Fatalf("passed: %+v from canary %+v", got, canary)
		}
		if metric.Baseline != "" && (active.err != nil || active.noTraffic || active.atLeast) {
			r.Fatalf("passed: %+v from active %+v", got, active)
		}
		if strings.Contains(got.Value, "Inf") || strings.Contains(got.Value, "NaN") {
			r.Fatalf("passed: %+v", got)
		}
	})
}

func TestUnits(t *testing.T) {
	t.Parallel()
	rate := metricOf(func(m *v1alpha1.AnalysisMetric) {
		m.Prometheus, m.SuccessRate = nil, &v1alpha1.SuccessRateMetric{}
	})
	latency := metricOf(func(m *v1alpha1.AnalysisMetric) {
		m.Prometheus, m.Latency = nil, &v1alpha1.LatencyMetric{Quantile: v1alpha1.LatencyP95}
	})
	free := metricOf(func(*v1alpha1.AnalysisMetric) {})
	for name, test := range map[string]struct {
		metric *v1alpha1.AnalysisMetric
		value  float64
		want   float64
		reason Reason
	}{
		"a percentage":                        {rate, 99.5, 99.5, ""},
		"a percentage, rounding error":        {rate, 100.0000000001, 100, ""},
		"zero, rounding error":                {rate, -0.0000000001, 0, ""},
		"requests counted twice":              {rate, 200, 0, WrongUnit},
		"a negative percentage":               {rate, -5, 0, WrongUnit},
		"a time":                              {latency, 0.5, 0.5, ""},
		"a negative time":                     {latency, -0.5, 0, WrongUnit},
		"a query has its own unit":            {free, 9950, 9950, ""},
		"a query may return a negative value": {free, -9950, -9950, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := inUnit(test.metric, answer{value: test.value})
			switch {
			case test.reason == "" && (got.err != nil || got.value != test.want):
				t.Errorf("%+v, want %v", got, test.want)
			case test.reason != "" && (got.err == nil || got.err.Reason != test.reason):
				t.Errorf("%+v, want reason %s", got, test.reason)
			}
		})
	}
}

func TestFill(t *testing.T) {
	t.Parallel()
	v := valuesOf(Target{
		Namespace: "shop", Microservice: "cart", Group: "1-x", Release: "cart-1-2-0", Version: `1.2.0+"a\`, Services: []string{"web-1", "api-1"},
	}, 90*time.Second)
	for name, test := range map[string]struct {
		template string
		escape   func(string) string
		want     string
		refused  bool
	}{
		"every field":       {`{{.Namespace}} {{ .Microservice }} {{.Group}} {{.Release }} {{.Interval}} {{.Service}}`, inQuotes, `shop cart 1-x cart-1-2-0 1m30s web-1|api-1`, false},
		"PromQL":            {`sum(rate(a{b=~"{{.Service}}"}[{{.Interval}}]))`, inQuotes, `sum(rate(a{b=~"web-1|api-1"}[1m30s]))`, false},
		"in quotes":         {`a{v="{{.Version}}"}`, inQuotes, `a{v="1.2.0+\"a\\"}`, false},
		"in a URL":          {`http://a/{{.Version}}`, inURL, `http://a/1.2.0%2B%22a%5C`, false},
		"no field":          {`up`, inQuotes, `up`, false},
		"an unknown field":  {`{{.Secret}}`, inQuotes, ``, true},
		"a function":        {`{{ len .Release }}`, inQuotes, ``, true},
		"an unclosed field": {`{{.Release`, inQuotes, ``, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := v.fill(test.template, test.escape)
			if (err != nil) != test.refused {
				t.Fatalf("error = %v", err)
			}
			if err != nil && err.Reason != BadQuery {
				t.Errorf("reason = %s", err.Reason)
			}
			if err == nil && got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}

// TestFillWithoutAService checks that a template with {{.Service}} is not sent for a release without a Service: in PromQL, service=~"" selects the series
// of all releases that lack this label.
func TestFillWithoutAService(t *testing.T) {
	t.Parallel()
	v := valuesOf(Target{Release: "cart-1-2-0"}, time.Minute)
	if got, err := v.fill(`sum(a{service=~"{{.Service}}"})`, inQuotes); err == nil || err.Reason != BadQuery || !strings.Contains(err.Message, "release cart-1-2-0 has no Service") {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := v.fill(`sum(a{group="{{.Group}}"})`, inQuotes); err != nil || got != `sum(a{group=""})` {
		t.Errorf("%q, %v", got, err)
	}
}

// TestSharedSamplesDoNotChange checks that limiting the samples of a success rate does not change the answer that other metrics with the same query share.
func TestSharedSamplesDoNotChange(t *testing.T) {
	t.Parallel()
	shared := answer{value: 100, samples: []float64{100.0000001, 99}}
	limited := inUnit(&v1alpha1.AnalysisMetric{SuccessRate: &v1alpha1.SuccessRateMetric{}}, shared)
	if limited.samples[0] != 100 || shared.samples[0] == 100 {
		t.Errorf("limited %v, shared %v", limited.samples, shared.samples)
	}
}
