package microservice

import (
	"testing"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

func TestAnalysisThatIsNotCEL(t *testing.T) {
	t.Parallel()
	s := begin(t)
	s.route()
	s.offer("1.0.0")
	s.play()
	s.edit(func(spec *v1alpha1.MicroserviceSpec) {
		spec.UpdateStrategy.Canary.Analysis = &v1alpha1.CanaryAnalysis{Metrics: []v1alpha1.AnalysisMetric{{
			Name: "errors", Web: &v1alpha1.WebMetric{URL: "http://stats.example/", Value: "body.errors +"}, ThresholdRange: v1alpha1.ValueRange{Max: new(1.0)},
		}}}
	})
	s.offer("1.1.0", "1.0.0")
	s.play()
	same(t, "Ready", wording(condition(s.ms(), "Ready")), "False AnalysisInvalid")
	same(t, "rollout state", s.rolloutState(), lines("release Live target Latest", "  1.0.0 active 100% First, 2 replicas"))
}
