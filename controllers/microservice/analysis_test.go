package microservice

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

// TestAnalysisTemplate checks that no release starts without the template, that a release starts when the
// template is created, and that the canary waits in its step for the measurements, even while the template does
// not exist.
func TestAnalysisTemplate(t *testing.T) {
	t.Parallel()
	s := begin(t)
	s.route()
	s.offer("1.0.0")
	s.play()
	s.edit(func(spec *v1alpha1.MicroserviceSpec) {
		spec.UpdateStrategy.Canary.AnalysisTemplateRef = &v1alpha1.AnalysisTemplateReference{Name: "http", Args: []v1alpha1.AnalysisArgumentValue{{Name: "route", Value: "cart"}}}
	})
	s.offer("1.1.0", "1.0.0")
	s.play()
	active := lines("release Live target Latest", "  1.0.0 active 100% First, 2 replicas")
	same(t, "Ready without the template", wording(condition(s.ms(), "Ready")), "False AnalysisTemplateNotFound")
	same(t, "rollout state without the template", s.rolloutState(), active)

	template := &v1alpha1.AnalysisTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "http"}}
	template.Spec.Metrics = []v1alpha1.AnalysisMetric{{
		Name: "errors", Prometheus: &v1alpha1.PrometheusMetric{Query: `errors{route="{{.Args.route}}"}`}, ThresholdRange: v1alpha1.ValueRange{Max: new(1.0)},
	}}
	s.create(template)
	s.play()
	same(t, "Ready with an unknown argument", wording(condition(s.ms(), "Ready")), "False AnalysisInvalid")
	same(t, "rollout state with an unknown argument", s.rolloutState(), active)

	s.get("http", template)
	template.Spec.Args = []v1alpha1.AnalysisArgument{{Name: "route"}}
	if err := env.Client.Update(t.Context(), template); err != nil {
		t.Fatal(err)
	}
	canary := lines("release Live target Latest", "  1.1.0 canary 10% Step, 2 replicas", "  1.0.0 active 90% First, 2 replicas")
	s.play()
	same(t, "Ready with the template", wording(condition(s.ms(), "Ready")), "True Succeeded")
	same(t, "rollout state with the template", s.rolloutState(), canary)

	if err := env.Client.Delete(t.Context(), template); err != nil {
		t.Fatal(err)
	}
	s.play()
	same(t, "Ready after the template was deleted", wording(condition(s.ms(), "Ready")), "False AnalysisTemplateNotFound")
	same(t, "rollout state after the template was deleted", s.rolloutState(), canary)
}
