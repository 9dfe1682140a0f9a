package analysis

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// TestArgumentsOfAnInlineAnalysis checks that {{.Args.x}} is rejected in an analysis of a Microservice, because such an analysis has no arguments.
// The schema accepts {{.Args.x}} there. Without the rejection, the canary would start and remain blocked in its first step until a user makes a
// decision.
func TestArgumentsOfAnInlineAnalysis(t *testing.T) {
	t.Parallel()
	spec := &v1alpha1.CanaryAnalysis{Metrics: []v1alpha1.AnalysisMetric{
		{Name: "query", Prometheus: &v1alpha1.PrometheusMetric{Query: `sum(x{route="{{.Args.route}}",r="{{.Release}}"})`}, ThresholdRange: v1alpha1.ValueRange{Max: ptr(1.0)}},
		{Name: "web", Web: &v1alpha1.WebMetric{URL: "https://q.example.com/{{.Args.route}}", Value: "body"}, ThresholdRange: v1alpha1.ValueRange{Max: ptr(1.0)}},
	}}
	for _, metric := range spec.Metrics {
		one := *spec
		one.Metrics = []v1alpha1.AnalysisMetric{metric}
		_, unmeasurable := question(&one, &metric, Target{Namespace: "shop", Release: "shop-1"}, start, "http://prometheus:9090")
		if unmeasurable == nil {
			t.Fatalf("%s can be measured", metric.Name)
		}
		if err := Check(&one); err == nil {
			t.Errorf("%s: the analysis is accepted before the release starts, but fails in each round: %v", metric.Name, unmeasurable)
		}
	}
}

// TestHugeNumber checks that the error, if any, for a response in which one number is out of range does not claim that the response is not JSON.
func TestHugeNumber(t *testing.T) {
	t.Parallel()
	const raw = `{"errors":3,"total":200,"max":1e400}`
	if !json.Valid([]byte(raw)) {
		t.Fatal("not JSON")
	}
	program, failure := compile("body.errors / body.total")
	if failure != nil {
		t.Fatal(failure)
	}
	if got := evaluate(t.Context(), program, []byte(raw)); got.err != nil && strings.Contains(got.err.Message, "is not JSON") {
		t.Errorf("%s: %v", raw, got.err)
	}
}
