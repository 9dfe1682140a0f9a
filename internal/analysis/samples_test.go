package analysis

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/common/model"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// TestProbability checks values from tables of the one-sided test, and the symmetry of the test.
func TestProbability(t *testing.T) {
	t.Parallel()
	rising := func(n int, from, by float64) (out []float64) {
		for i := range n {
			out = append(out, from+by*float64(i))
		}
		return out
	}
	for name, tc := range map[string]struct {
		canary, active []float64
		above          bool
		want           float64
	}{
		"all above, 8 and 8":      {rising(8, 100, 1), rising(8, 1, 1), true, 1.0 / 12870}, // one of the 12870 ways to choose 8 of 16
		"all below, 8 and 8":      {rising(8, 1, 1), rising(8, 100, 1), false, 1.0 / 12870},
		"all above, tested below": {rising(8, 100, 1), rising(8, 1, 1), false, 1},
		"all equal":               {slices.Repeat([]float64{3}, 20), slices.Repeat([]float64{3}, 20), true, 1},
		"interleaved, 8":          {rising(8, 2, 2), rising(8, 1, 2), true, 0.3603},
		"interleaved, 20":         {rising(20, 2, 2), rising(20, 1, 2), true, 0.3989},
		"many, by approximation":  {rising(100, 30, 1), rising(100, 0, 1), true, 0.0000000003},
	} {
		got, err := probability(tc.canary, tc.active, tc.above)
		if err != nil || math.Abs(got-tc.want) > 0.001*max(1, tc.want) {
			t.Errorf("%s: p %v, %v, want %v", name, got, err, tc.want)
		}
	}
}

func sampledMetric(baseline v1alpha1.BaselineMode, r v1alpha1.ValueRange) *v1alpha1.AnalysisMetric {
	return &v1alpha1.AnalysisMetric{Name: "latency", Latency: &v1alpha1.LatencyMetric{Quantile: v1alpha1.LatencyP95}, Baseline: baseline, ThresholdRange: r, Samples: &v1alpha1.MetricSamples{Interval: "15s"}}
}

func pairs(values ...float64) (out []model.SamplePair) {
	for _, v := range values {
		out = append(out, model.SamplePair{Value: model.SampleValue(v)})
	}
	return out
}

// TestSampled checks the results of comparisons of samples.
func TestSampled(t *testing.T) {
	t.Parallel()
	around := func(middle float64) (out []float64) {
		for i := range 20 {
			out = append(out, middle*(0.9+0.01*float64(i)))
		}
		return out
	}
	max13, min99 := 1.3, -1.0
	slower := v1alpha1.ValueRange{Max: &max13}
	for name, tc := range map[string]struct {
		metric         *v1alpha1.AnalysisMetric
		canary, active []float64
		want           v1alpha1.MeasurementResult
		message        string
	}{
		"equal":                          {sampledMetric("Ratio", slower), around(0.3), around(0.3), v1alpha1.MeasurementPassed, "medians: canary 0.2985 (20 samples), active release 0.2985 (20 samples); p-value "},
		"slower, as allowed":             {sampledMetric("Ratio", slower), around(0.36), around(0.3), v1alpha1.MeasurementPassed, "p-value "},
		"slower":                         {sampledMetric("Ratio", slower), around(0.5), around(0.3), v1alpha1.MeasurementFailed, "above 1.3"},
		"slower by two samples of nine":  {sampledMetric("Ratio", slower), []float64{1, 1, 1, 1, 9, 9, 9, 9, 9}, []float64{9, 9, 9, 1, 1, 1, 1, 1, 9}, v1alpha1.MeasurementPassed, "not significant: 9 is above 1.3"},
		"a difference":                   {sampledMetric("Difference", v1alpha1.ValueRange{Min: &min99}), around(97), around(99.9), v1alpha1.MeasurementPassed, ""},
		"too few":                        {sampledMetric("Ratio", slower), around(9)[:7], around(1), v1alpha1.MeasurementNoTraffic, "fewer than 8 samples with requests"},
		"too few for the active release": {sampledMetric("Ratio", slower), around(9), around(1)[:7], v1alpha1.MeasurementNoTraffic, "fewer than 8 samples with requests for the active release"},
		"beyond the buckets":             {sampledMetric("Ratio", slower), slices.Repeat([]float64{-10}, 9), around(1), v1alpha1.MeasurementFailed, "above 1.3"},
		"both beyond the buckets":        {sampledMetric("Ratio", slower), slices.Repeat([]float64{-10}, 9), slices.Repeat([]float64{-10}, 9), v1alpha1.MeasurementError, "above the highest bucket"},
	} {
		canary, active := sampledAnswer(pairs(tc.canary...), true), sampledAnswer(pairs(tc.active...), true)
		m := judge(tc.metric, canary, &active)
		if m.Result != tc.want || !strings.Contains(m.Message, tc.message) || len(m.Message) > 256 {
			t.Errorf("%s: %+v, want %s with %q", name, m, tc.want, tc.message)
		}
	}
	if a := sampledAnswer(pairs(append(around(1), math.Inf(1))...), false); a.err == nil || a.err.Reason != Infinite {
		t.Errorf("an infinite sample: %+v", a)
	}
	if a := sampledAnswer(pairs(append(around(1), math.NaN())...), false); a.err != nil || len(a.samples) != 20 {
		t.Errorf("a sample without requests: %+v", a)
	}
}

// drawn returns response times of a release with little and uneven traffic, in intervals of 15 s. In about one in thirty intervals, a neighbor on the node
// makes all requests five times as slow.
func drawn(r *rand.Rand, factor float64) (intervals [][]float64) {
	for range 20 {
		slow := factor
		if r.IntN(30) == 0 {
			slow *= 5
		}
		var all []float64
		for range 20 + r.IntN(20) {
			all = append(all, 0.1*slow*math.Exp(0.8*r.NormFloat64()))
		}
		intervals = append(intervals, all)
	}
	return intervals
}

func p95(intervals ...[]float64) float64 {
	all := slices.Sorted(slices.Values(slices.Concat(intervals...)))
	return all[len(all)*95/100]
}

// TestSamplesDecideBetter compares two ways to decide about the same five minutes of a series: by samples, and by five
// one-minute rounds with a fixed ratio, in which one round may fail. With samples, equal releases are rolled back far less
// often, and slower releases are detected equally well.
func TestSamplesDecideBetter(t *testing.T) {
	t.Parallel()
	const series, limit = 400, 1.25
	most := limit
	metric := sampledMetric("Ratio", v1alpha1.ValueRange{Max: &most})
	r := rand.New(rand.NewPCG(1, 2))
	count := func(factor float64) (bySamples, byRatio int) {
		for range series {
			canary, active := drawn(r, factor), drawn(r, 1)
			var c, a []float64
			failed := 0
			for i := range canary {
				c, a = append(c, p95(canary[i])), append(a, p95(active[i]))
				if i%4 == 3 && p95(canary[i-3:i+1]...)/p95(active[i-3:i+1]...) > limit {
					failed++
				}
			}
			if failed > 1 {
				byRatio++
			}
			of, to := sampledAnswer(pairs(c...), true), sampledAnswer(pairs(a...), true)
			if judge(metric, of, &to).Result == v1alpha1.MeasurementFailed {
				bySamples++
			}
		}
		return bySamples, byRatio
	}
	falseBySamples, falseByRatio := count(1)
	foundBySamples, foundByRatio := count(1.7)
	t.Logf("of %d equal releases, samples roll back %d and a ratio %d; of %d releases that are 1.7 times as slow, samples detect %d and a ratio %d", series, falseBySamples, falseByRatio, series, foundBySamples, foundByRatio)
	if falseBySamples*5 > falseByRatio || foundBySamples < foundByRatio*98/100 {
		t.Error("samples decide no better than a fixed ratio")
	}
}

// TestSamplesOfPrometheus measures a slower canary and an equally fast canary with the built-in latency and with a
// custom query, in a real Prometheus.
func TestSamplesOfPrometheus(t *testing.T) {
	t.Parallel()
	const count = 12
	var om bytes.Buffer
	om.WriteString("# TYPE http_request_duration_seconds histogram\n")
	begin := history.Add(-(count + 2) * time.Minute)
	for release, slow := range map[string]float64{"shop-1": 0.5, "shop-2": 0.5, "shop-3": 0.05} { // the share of requests that take longer than 100 ms
		counts := map[string]float64{}
		for i := range 4*count + 9 {
			at := begin.Add(time.Duration(i) * every).Unix()
			counts["0.1"] += 100 * (1 - slow)
			counts["0.5"] += 100
			counts["+Inf"] += 100
			for _, le := range []string{"0.1", "0.5", "+Inf"} {
				fmt.Fprintf(&om, "http_request_duration_seconds_bucket{namespace=\"shop\",hlnr_io_release=%q,le=%q} %v %d\n", release, le, counts[le]+float64(i%3), at)
			}
		}
	}
	address := startPrometheus(t, sorted(om.String()))
	m, err := New(Config{PrometheusAddress: address})
	if err != nil {
		t.Fatal(err)
	}
	most := 1.3
	metric := *sampledMetric("Ratio", v1alpha1.ValueRange{Max: &most})
	metric.Latency.Quantile, metric.Samples = v1alpha1.LatencyP50, &v1alpha1.MetricSamples{Interval: "1m", Count: count}
	custom := metric
	custom.Name, custom.Latency = "custom", nil
	custom.Prometheus = &v1alpha1.PrometheusMetric{Query: `histogram_quantile(0.5, sum by (le) (rate(http_request_duration_seconds_bucket{hlnr_io_release="{{.Release}}"}[{{.Interval}}])))`}
	spec := v1alpha1.CanaryAnalysis{Source: v1alpha1.SourceApplication, Metrics: []v1alpha1.AnalysisMetric{metric, custom}}
	target := func(name string) Target { return Target{Namespace: "shop", Release: name} }
	active := target("shop-3")
	for canary, want := range map[string]v1alpha1.MeasurementResult{"shop-1": v1alpha1.MeasurementFailed, "shop-3": v1alpha1.MeasurementPassed, "shop-4": v1alpha1.MeasurementNoTraffic} {
		round := m.Measure(context.Background(), Request{At: history, Spec: spec, Canary: target(canary), Active: &active})
		for _, got := range round.Measurements {
			if got.Result != want || want == v1alpha1.MeasurementFailed && !strings.Contains(got.Message, "(12 samples); p-value ") {
				t.Errorf("%s, %s: %+v, want %s", canary, got.Metric, got, want)
			}
		}
	}
}

// sorted returns OpenMetrics text in which the samples of each series are adjacent, followed by the end marker.
func sorted(text string) []byte {
	head, rest, _ := strings.Cut(text, "\n")
	lines := strings.Split(strings.TrimSpace(rest), "\n")
	slices.SortStableFunc(lines, func(a, b string) int {
		x, y := a[:strings.Index(a, "} ")], b[:strings.Index(b, "} ")]
		return strings.Compare(x, y)
	})
	return []byte(head + "\n" + strings.Join(lines, "\n") + "\n# EOF\n")
}

// exactP returns the p-value of the one-sided Mann-Whitney U test, computed from its definition. Among all ways to choose the canary's samples
// from the pooled samples, this value is the share of choices whose U is at least as large as the U of the actual samples. A pair of equal
// values counts as one half.
func exactP(canary, active []float64) float64 {
	pooled := slices.Concat(canary, active)
	twoU := func(chosen uint) (u int) {
		for i := range pooled {
			for j := range pooled {
				if chosen>>i&1 == 1 && chosen>>j&1 == 0 {
					switch {
					case pooled[i] > pooled[j]:
						u += 2
					case pooled[i] == pooled[j]:
						u++
					}
				}
			}
		}
		return u
	}
	seen, all, extreme := twoU(1<<len(canary)-1), 0, 0
	for chosen := range uint(1) << len(pooled) {
		if bits.OnesCount(chosen) == len(canary) {
			all++
			if twoU(chosen) >= seen {
				extreme++
			}
		}
	}
	return float64(extreme) / float64(all)
}

// TestTies checks that the p-value for samples with equal values matches the definition, and that the p-value is the
// same in both directions.
func TestTies(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for range 12 {
		var canary, active []float64
		for range 8 {
			canary, active = append(canary, float64(r.IntN(5)+r.IntN(2))), append(active, float64(r.IntN(5)))
		}
		want := exactP(canary, active)
		above, err := probability(canary, active, true)
		below, same := probability(active, canary, false)
		if err != nil || same != nil || math.Abs(above-want) > 1e-9 || math.Abs(below-want) > 1e-9 {
			t.Errorf("canary %v above active %v: p %.4f, active below canary: p %.4f, exact p %.4f", canary, active, above, below, want)
		}
	}
	// The canary has more failed requests in each interval. The p-value is exactly 0.0479, which is significant.
	metric := sampledMetric(v1alpha1.BaselineDifference, v1alpha1.ValueRange{Max: ptr(1.0)})
	metric.Latency, metric.Prometheus = nil, &v1alpha1.PrometheusMetric{Query: "x"}
	canary, active := sampledAnswer(pairs(2, 3, 2, 5, 1, 4, 2, 5), false), sampledAnswer(pairs(0, 4, 3, 4, 0, 1, 1, 0), false)
	if m := judge(metric, canary, &active); m.Result == v1alpha1.MeasurementPassed {
		t.Errorf("with an exact p of %.4f: %+v", exactP(canary.samples, active.samples), m)
	}
}

// TestSamplesBeyondTheBuckets checks that "such a canary can fail but cannot pass" (docs/explanation/analysis.md) also applies to samples.
func TestSamplesBeyondTheBuckets(t *testing.T) {
	t.Parallel()
	metric := sampledMetric(v1alpha1.BaselineRatio, v1alpha1.ValueRange{Max: ptr(1.3)})
	canary := sampledAnswer(pairs(1, 1, 1, -5, -5, -5, -5, -5), true) // five of eight values are above the highest bucket
	active := sampledAnswer(pairs(1, 1, 1, 1, 1, -5, -5, -5), true)
	if m := judge(metric, canary, &active); m.Result == v1alpha1.MeasurementPassed {
		t.Errorf("the median of the canary is only known to be above 5 s: %+v", m)
	}
}

// TestSamplesOfAnotherTime checks that a response for a time other than the requested time results in WrongTime, even for a range
// query.
func TestSamplesOfAnotherTime(t *testing.T) {
	t.Parallel()
	address := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		var values []string
		for i := range 20 {
			values = append(values, fmt.Sprintf("[%d,\"0.3\"]", start.Add(-24*time.Hour).Unix()+int64(15*i))) // from the previous day
		}
		_, _ = fmt.Fprintf(w, `{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[%s]}]}}`, strings.Join(values, ","))
	})
	m, _ := measurerOf(t, address, nil)
	metric := *sampledMetric(v1alpha1.BaselineRatio, v1alpha1.ValueRange{Max: ptr(1.3)})
	metric.Latency, metric.Prometheus = nil, &v1alpha1.PrometheusMetric{Query: `x{r="{{.Release}}"}`}
	request := requestOf("shop-2", metric)
	request.Active = &Target{Namespace: "shop", Release: "shop-1"}
	got := m.Measure(t.Context(), request).Measurements[0]
	if got.Result != v1alpha1.MeasurementError || !strings.Contains(got.Message, string(WrongTime)) {
		t.Errorf("values of the previous day: %+v, want %s", got, WrongTime)
	}
}

// TestSamplesOfTheStep checks that the first round of a step takes place when the step has enough samples, and uses no earlier samples.
func TestSamplesOfTheStep(t *testing.T) {
	t.Parallel()
	var asked atomic.Pointer[url.Values]
	address := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		asked.Store(&r.Form)
		_, _ = fmt.Fprint(w, `{"status":"success","data":{"resultType":"matrix","result":[]}}`)
	})
	m, _ := measurerOf(t, address, nil)
	metric := *sampledMetric(v1alpha1.BaselineRatio, v1alpha1.ValueRange{Max: ptr(1.3)})
	metric.Latency, metric.Prometheus = nil, &v1alpha1.PrometheusMetric{Query: `x{r="{{.Release}}"}`}
	request := requestOf("shop-2", metric)
	request.Spec.Interval = "1m"
	request.Active = &Target{Namespace: "shop", Release: "shop-1"}
	request.Since = start
	at, _ := Due(Begin(nil, &request.Spec, Point{Run: 1, Step: 2, Since: start}), &request.Spec, start)
	request.At = at
	m.Measure(t.Context(), request)
	form := asked.Load()
	if form == nil {
		t.Fatalf("no query was sent at %s", at.Sub(start))
	}
	first, err := strconv.ParseFloat(form.Get("start"), 64)
	step, failed := strconv.ParseFloat(form.Get("step"), 64)
	if err != nil || failed != nil {
		t.Fatal(err, failed)
	}
	if from := time.Unix(0, int64((first-step)*1e9)); from.Before(start) {
		t.Errorf("the first round, %s after the start of the step, covers traffic from %s before the step", at.Sub(start), start.Sub(from))
	}
}
