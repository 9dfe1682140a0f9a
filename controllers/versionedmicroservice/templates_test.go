package versionedmicroservice

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/hook"
)

// TestRoundOfATemplate checks that a release is measured with its Microservice's template, that the status
// contains the template's generation, even after an edit, and that nothing is measured while the template
// does not exist.
func TestRoundOfATemplate(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	o := rolloutScene(func(ms *v1alpha1.Microservice) {
		ms.Spec.UpdateStrategy.Canary.AnalysisTemplateRef = &v1alpha1.AnalysisTemplateReference{Name: "http"}
	})
	template := &v1alpha1.AnalysisTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: o.microservice.Namespace, Name: "http", Generation: 1}}
	template.Spec.Interval, template.Spec.Count = "1m", 1
	template.Spec.Metrics = []v1alpha1.AnalysisMetric{{Name: "rate", SuccessRate: &v1alpha1.SuccessRateMetric{}, ThresholdRange: v1alpha1.ValueRange{Min: new(99.0)}}}
	r := &reconciler{client: fake.NewClientBuilder().WithScheme(scheme).Build()}
	observe := func() checks {
		t.Helper()
		place := hook.RolloutOf(o.microservice, o.release)
		o.rollout = &rollout{place: place, point: pointOf(place)}
		if err := r.observeAnalysis(t.Context(), o.rollout); err != nil {
			t.Fatal(err)
		}
		return runChecks(&answers{}, o, noon)
	}
	if got := observe(); o.rollout.point != nil || got.analysis != nil {
		t.Errorf("measured without a template: %+v", got.analysis)
	}
	if err := r.client.Create(t.Context(), template); err != nil {
		t.Fatal(err)
	}
	first := observe().analysis
	if first == nil || first.Template != "AnalysisTemplate/http@1" || first.NextTime == nil {
		t.Fatalf("measured with the template: %+v", first)
	}
	o.release.Status.Analysis = first
	template.Generation, template.Spec.Metrics[0].ThresholdRange.Min = 2, new(99.9)
	if err := r.client.Update(t.Context(), template); err != nil {
		t.Fatal(err)
	}
	if second := observe().analysis; second.Template != "AnalysisTemplate/http@2" || second.SpecHash == first.SpecHash {
		t.Errorf("measured with the edited template: %+v", second)
	}
}
