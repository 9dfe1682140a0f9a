package analysis

import (
	"encoding/json"
	"math"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/test/await"
)

// FuzzCEL checks that the evaluation of a user's expression over any response finishes in time, with a number or a
// typed error.
func FuzzCEL(f *testing.F) {
	f.Add("body.a * 10.0", `{"a":1}`)
	f.Add("body.a.map(x, body.a.map(y, body.a.map(z, x*y*z))).size()", `{"a":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]}`)
	f.Add("body.s.matches('(a*)*b') ? 1 : 2", `{"s":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}`)
	f.Add("size(body.a + body.a + body.a)", `{"a":"xxxxxxxxxxxxxxxxxxxxxxxxxxxx"}`)
	f.Add("[1,2,3].map(i, body).size()", `{}`)
	f.Add("timestamp(body.t) - timestamp('2026-01-01T00:00:00Z') > duration('1h') ? 1.0 : 0.0", `{"t":"2026-01-01T00:00:00Z"}`)
	f.Add("uint(body.a)", `{"a":-1}`)
	f.Add("double(string(body.a)+'e999')", `{"a":1}`)
	f.Fuzz(func(t *testing.T, expression, raw string) {
		if len(expression) > 1024 || len(raw) > 20000 { // limits of the schema, and of this test
			return
		}
		defer await.Quick(t)()
		program, failure := compile(expression)
		if failure != nil {
			return
		}
		a := evaluate(t.Context(), program, []byte(raw))
		plainOrTyped(t, a)
	})
}

// FuzzJudge checks that every answer gets a result with a message, and that an answer that is not a number never passes.
func FuzzJudge(f *testing.F) {
	f.Add(99.0, 98.0, 95.0, 100.0, 90.0, 101.0, uint8(0), uint8(3))
	f.Add(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, uint8(1), uint8(15))
	f.Add(math.MaxFloat64, -math.MaxFloat64, 0.0, 1.0, 0.0, 1.0, uint8(2), uint8(15))
	f.Fuzz(func(t *testing.T, canary, active, lo, hi, lo2, hi2 float64, baseline, knobs uint8) {
		m := &v1alpha1.AnalysisMetric{Name: "m", Baseline: []v1alpha1.BaselineMode{"", v1alpha1.BaselineDifference, "Ratio"}[baseline%3]}
		if knobs&1 != 0 {
			m.ThresholdRange.Min = &lo
		}
		if knobs&2 != 0 {
			m.ThresholdRange.Max = &hi
		}
		if knobs&4 != 0 {
			m.InconclusiveRange = &v1alpha1.ValueRange{Min: &lo2, Max: &hi2}
		}
		a, b := number(canary), number(active)
		a.atLeast, b.atLeast = knobs&16 != 0, knobs&32 != 0
		other := &b
		if knobs&8 != 0 {
			other = nil
		}
		got := judge(m, a, other)
		if got.Result == "" {
			t.Fatalf("no result: %+v", got)
		}
		if got.Result != v1alpha1.MeasurementPassed && got.Message == "" {
			t.Fatalf("no message: %+v", got)
		}
		if got.Result == v1alpha1.MeasurementPassed && (math.IsNaN(canary) || math.IsInf(canary, 0) || a.atLeast || knobs&3 == 0) {
			t.Fatalf("%+v passes with %v", got, canary)
		}
	})
}

// FuzzFillURL checks that no value changes the host of a URL or the structure of a body.
func FuzzFillURL(f *testing.F) {
	f.Add("https://x.example/api/{{.Version}}?ns={{ .Namespace }}", "1.0.0", "prod/../..")
	f.Add("https://{{.Namespace}}.example/", "1.0.0", "a@evil")
	f.Fuzz(func(t *testing.T, template, version, namespace string) {
		v := valuesOf(Target{Version: version, Namespace: namespace, Services: []string{namespace}}, time.Minute)
		got, err := v.fill(template, inURL)
		plain, err2 := v.fill(template, func(string) string { return "x" })
		if err != nil || err2 != nil {
			return
		}
		u, e1 := url.Parse(got)
		w, e2 := url.Parse(plain)
		if e2 != nil || w.Host == "" || strings.Contains(w.Host, "x") {
			return
		}
		if e1 != nil || u.Host != w.Host || u.Scheme != w.Scheme {
			t.Fatalf("%q results in the URL %v (%v), and with x as each value in %v", template, u, e1, w)
		}
	})
}

// FuzzFold checks that Fold continues in the same way after a round trip through JSON, and that a round counts only once.
func FuzzFold(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 1, 0, 3}, uint8(2), uint8(1), int64(1000))
	f.Fuzz(func(t *testing.T, results []byte, failures, consecutive uint8, step int64) {
		if len(results) > 40 {
			return
		}
		fl, cl := int32(failures%5), int32(consecutive%5)
		spec := &v1alpha1.CanaryAnalysis{Interval: "10s", FailureLimit: &fl, ConsecutiveFailureLimit: &cl, Metrics: []v1alpha1.AnalysisMetric{{Name: "m"}}}
		since := time.Unix(1.8e9, 0).UTC()
		point := Point{Run: 3, Step: 1, Since: since}
		var status *v1alpha1.ReleaseAnalysis
		all := []v1alpha1.MeasurementResult{v1alpha1.MeasurementPassed, v1alpha1.MeasurementFailed, v1alpha1.MeasurementError, v1alpha1.MeasurementInconclusive, v1alpha1.MeasurementNoTraffic, v1alpha1.MeasurementSkipped}
		at := since
		for _, b := range results {
			at = at.Add(time.Duration(step%100000)*time.Microsecond + time.Second)
			round := Round{At: at, Measurements: []Measurement{{Metric: "m", Result: all[int(b)%len(all)], Message: "x"}}}
			next := Fold(status, spec, point, round)
			text, err := json.Marshal(next)
			if err != nil {
				t.Fatal(err)
			}
			var read v1alpha1.ReleaseAnalysis
			if err := json.Unmarshal(text, &read); err != nil {
				t.Fatal(err)
			}
			twice := Fold(&read, spec, point, round)
			if diff := gocmp.Diff(next, twice, gocmp.Comparer(func(a, b metav1.MicroTime) bool { return a.Time.Equal(b.Time) })); diff != "" {
				t.Fatalf("a round counts twice: %s", diff)
			}
			status = &read
			if int(status.Failures) > len(results) || status.Phase == "" {
				t.Fatalf("%+v", status)
			}
			Due(status, spec, at)
		}
	})
}

// FuzzRetryAfter checks that a pause that a server requests is never negative.
func FuzzRetryAfter(f *testing.F) {
	f.Add("12")
	f.Fuzz(func(t *testing.T, header string) {
		if retryAfter(header, time.Unix(1.8e9, 0)) < 0 {
			t.Fatal("negative")
		}
	})
}

// FuzzPrometheusAnswers checks that any response from Prometheus, with any status code, results in a value or in
// a one-line error.
func FuzzPrometheusAnswers(f *testing.F) {
	f.Add(200, []byte(vector("1")), int64(1_800_000_000_000_000_000), true)
	f.Add(200, []byte(success("matrix", `[null]`)), int64(1_800_000_000_000_000_000), false)
	f.Add(422, []byte(`{"status":"error","errorType":"execution","error":"x\u2028"}`), int64(1), false)
	f.Fuzz(func(t *testing.T, code int, raw []byte, at int64, latency bool) {
		if code < 100 || code > 599 {
			return
		}
		defer await.Quick(t)()
		a := askPrometheus(t.Context(), &http.Client{Transport: coded{code, raw}}, query{address: "http://prometheus.example", text: "up", at: at, latency: latency})
		plainOrTyped(t, a)
		sampled := askPrometheus(t.Context(), &http.Client{Transport: coded{code, raw}}, query{address: "http://prometheus.example", text: "up", at: at, latency: latency, step: int64(time.Minute), samples: minSamples})
		plainOrTyped(t, sampled)
		if a.err != nil && (len(a.err.Message) > 1024 || strings.ContainsAny(a.err.Message, "\n\r")) {
			t.Fatalf("message %q", a.err.Message)
		}
	})
}

// coded responds to every request with the same code and body.
type coded struct {
	code int
	raw  []byte
}

func (c coded) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := bytesOf(c.raw).RoundTrip(r)
	resp.StatusCode = c.code
	return resp, err
}
