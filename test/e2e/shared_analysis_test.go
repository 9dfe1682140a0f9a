//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// sharedErrors returns an analysis that uses the cluster's Prometheus and that several services can use. It
// measures the share of a release's requests that the application answered with an error. This share may be at
// most 1 percent.
func sharedErrors() v1alpha1.AnalysisTemplateSpec {
	// The variables of a release are inserted when the query is sent. The argument is inserted when the reference is resolved.
	all := `sum(rate(http_requests_total{namespace="{{.Namespace}}",hlnr_io_release="{{.Release}}"}[{{.Interval}}]))`
	failed := strings.Replace(all, "{namespace", `{code=~"{{.Args.class}}..",namespace`, 1)
	spec := v1alpha1.AnalysisTemplateSpec{Args: []v1alpha1.AnalysisArgument{{Name: "class"}}}
	spec.CanaryAnalysis = v1alpha1.CanaryAnalysis{
		Interval: v1alpha1.DurationOf(round), Count: 2, NoTraffic: v1alpha1.NoTrafficWait,
		Provider: v1alpha1.AnalysisProvider{Prometheus: &v1alpha1.PrometheusProvider{Address: env.PrometheusInternal}, Timeout: "5s"},
		Metrics: []v1alpha1.AnalysisMetric{{
			Name: "errors", Prometheus: &v1alpha1.PrometheusMetric{Query: "((" + failed + " or vector(0)) / (" + all + " > 0))"}, ThresholdRange: v1alpha1.ValueRange{Max: new(0.01)},
		}},
	}
	return spec
}

// TestSharedAnalysis measures a service with an AnalysisTemplate that has an argument. A bad canary is rolled
// back, and a change to the template takes effect and is recorded. Releases do not start while their
// ClusterAnalysisTemplate does not allow the namespace.
func TestSharedAnalysis(t *testing.T) {
	s := newService(t, "shared").steps(v1alpha1.CanaryStep{Weight: 30}).measured("", 1, v1alpha1.NoTrafficWait)
	canary := s.ms.Spec.UpdateStrategy.Canary
	canary.Analysis, canary.AnalysisTemplateRef = nil, &v1alpha1.AnalysisTemplateReference{Name: "errors", Args: []v1alpha1.AnalysisArgumentValue{{Name: "class", Value: "5"}}}
	template := &v1alpha1.AnalysisTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "errors"}, Spec: sharedErrors()}
	s.create(template)
	s.start("1.0.0")
	l := s.load(50, false)

	l.Mark("good")
	s.push("1.1.0")
	s.active("1.1.0")
	s.measuredBy("1.1.0", "AnalysisTemplate/errors@1")

	l.Mark("bad")
	s.push("1.2.0", "ERROR_RATE", "0.3")
	if weights, last := s.weights("1.2.0", v1alpha1.ReleaseError); last.Reason != analysisFailed {
		t.Errorf("the bad canary had the weights %v and ended with %s", weights, last.Reason)
	}
	s.measuredBy("1.2.0", "AnalysisTemplate/errors@1")
	s.confirmed()
	// The gateway applies the weights of the rollback a moment after it has accepted them, and before the drain ends.
	drain, accepted := s.ms.Spec.UpdateStrategy.DrainDelay.Std(0), time.Now()
	if last := stable(t, l, round/5); last.Sub(accepted) > drain {
		t.Errorf("requests failed until %s after the rollback was accepted", last.Sub(accepted))
	}
	s.serves(l, round) // Wait until the drain of 1.2.0 has ended.

	l.Mark("changed")
	change(t, template, func(a *v1alpha1.AnalysisTemplate) { a.Spec.Metrics[0].ThresholdRange.Max = new(0.9) })
	s.push("1.3.0", "ERROR_RATE", "0.3")
	s.active("1.3.0")
	s.measuredBy("1.3.0", "AnalysisTemplate/errors@2")

	l.Mark("cluster template")
	name := s.namespace
	shared := &v1alpha1.ClusterAnalysisTemplate{ObjectMeta: metav1.ObjectMeta{Name: name}}
	shared.Spec.AnalysisTemplateSpec = sharedErrors()
	shared.Spec.Namespaces = []string{"another"}
	s.create(shared)
	t.Cleanup(func() {
		if err := env.Client.Delete(context.WithoutCancel(t.Context()), shared); err != nil {
			t.Error(err)
		}
	})
	change(t, s.ms, func(ms *v1alpha1.Microservice) {
		ms.Spec.UpdateStrategy.Canary.AnalysisTemplateRef = &v1alpha1.AnalysisTemplateReference{
			Kind: v1alpha1.KindClusterAnalysisTemplate, Name: name, Args: []v1alpha1.AnalysisArgumentValue{{Name: "class", Value: "5"}},
		}
	})
	s.until("the missing template to be reported", func(ms *v1alpha1.Microservice) (bool, string) {
		return readyReason(ms) == "AnalysisTemplateNotFound", readyReason(ms)
	})
	s.push("1.4.0")
	time.Sleep(round) // 1.3.0 serves during this time, and its errors do not count.
	var ms v1alpha1.Microservice
	if err := env.Client.Get(t.Context(), s.key(), &ms); err != nil {
		t.Fatal(err)
	}
	if r := row(&ms, "1.4.0"); r != nil {
		t.Errorf("1.4.0 started although its template does not allow the namespace: its status is %s", r.Status)
	}
	change(t, shared, func(a *v1alpha1.ClusterAnalysisTemplate) { a.Spec.Namespaces = append(a.Spec.Namespaces, s.namespace) })
	s.active("1.4.0")
	s.measuredBy("1.4.0", fmt.Sprintf("ClusterAnalysisTemplate/%s@2", name))
	report := l.Stop()
	for version, v := range report.Total.Versions {
		if v.Failed > 0 && version != "1.2.0" && version != "1.3.0" {
			t.Errorf("%d requests to %s failed", v.Failed, version)
		}
	}
}

// measuredBy checks that a version was measured with the given template.
func (s *service) measuredBy(version, want string) {
	s.t.Helper()
	s.measurements(version)
	vsvc, err := s.versioned(s.t.Context(), version)
	if err != nil {
		s.t.Fatal(err)
	}
	if got := vsvc.Status.Analysis.Template; got != want {
		s.t.Errorf("%s was measured with %q, want %q", version, got, want)
	}
}
