package analysistemplate

import (
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// example returns a template with two arguments, of which only one has a default.
func example() *Template {
	return &Template{Kind: v1alpha1.KindClusterAnalysisTemplate, Name: "http", Generation: 3, Spec: v1alpha1.AnalysisTemplateSpec{
		Args: []v1alpha1.AnalysisArgument{{Name: "route"}, {Name: "unit", Default: new("s")}},
		CanaryAnalysis: v1alpha1.CanaryAnalysis{Count: 2, Interval: "30s", Metrics: []v1alpha1.AnalysisMetric{
			{Name: "errors", Prometheus: &v1alpha1.PrometheusMetric{Query: `rate(e{route="{{.Args.route}}",r="{{.Release}}"}[{{.Interval}}])`}, ThresholdRange: v1alpha1.ValueRange{Max: new(1.0)}, InconclusiveRange: &v1alpha1.ValueRange{Max: new(2.0)}},
			{Name: "score", Web: &v1alpha1.WebMetric{URL: "https://q.example.com/{{ .Args.route }}?u={{.Args.unit}}", Body: `{"u":"{{.Args.unit}}"}`, Value: "body.a", Headers: []v1alpha1.WebHeader{{Name: "X-Route", Value: new("{{.Args.route}}")}}}, ThresholdRange: v1alpha1.ValueRange{Min: new(0.5)}},
			{Name: "success", SuccessRate: &v1alpha1.SuccessRateMetric{}, ThresholdRange: v1alpha1.ValueRange{Min: new(99.0)}},
		}},
	}}
}

func reference() *v1alpha1.AnalysisTemplateReference {
	return &v1alpha1.AnalysisTemplateReference{Kind: v1alpha1.KindClusterAnalysisTemplate, Name: "http", Args: []v1alpha1.AnalysisArgumentValue{{Name: "route", Value: "cart"}}}
}

func TestResolve(t *testing.T) {
	t.Parallel()
	template, ref := example(), reference()
	ref.Metrics = []v1alpha1.AnalysisMetricChange{{Name: "errors", ThresholdRange: &v1alpha1.ValueRange{Max: new(3.0)}}, {Name: "success", DryRun: new(true)}}
	got, err := Resolve(ref, "shop", template)
	if err != nil {
		t.Fatal(err)
	}
	want := &v1alpha1.CanaryAnalysis{Count: 2, Interval: "30s", Metrics: []v1alpha1.AnalysisMetric{
		// The range in the change is wider than the inconclusive range, which is therefore removed.
		{Name: "errors", Prometheus: &v1alpha1.PrometheusMetric{Query: `rate(e{route="cart",r="{{.Release}}"}[{{.Interval}}])`}, ThresholdRange: v1alpha1.ValueRange{Max: new(3.0)}},
		{Name: "score", Web: &v1alpha1.WebMetric{URL: "https://q.example.com/cart?u=s", Body: `{"u":"s"}`, Value: "body.a", Headers: []v1alpha1.WebHeader{{Name: "X-Route", Value: new("cart")}}}, ThresholdRange: v1alpha1.ValueRange{Min: new(0.5)}},
		{Name: "success", SuccessRate: &v1alpha1.SuccessRateMetric{}, ThresholdRange: v1alpha1.ValueRange{Min: new(99.0)}, DryRun: true},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff(example(), template); diff != "" {
		t.Errorf("the template was changed:\n%s", diff)
	}
	if got, want := template.String(), "ClusterAnalysisTemplate/http@3"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestResolveErrors(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change  func(*v1alpha1.AnalysisTemplateReference, *Template)
		want    string
		missing bool
	}{
		"not offered":     {func(_ *v1alpha1.AnalysisTemplateReference, t *Template) { t.Namespaces = []string{"bank"} }, `ClusterAnalysisTemplate "http" cannot be used in namespace shop: ask an administrator to add`, true},
		"without a value": {func(r *v1alpha1.AnalysisTemplateReference, _ *Template) { r.Args = nil }, `needs a value for "route"`, false},
		"unknown argument": {func(r *v1alpha1.AnalysisTemplateReference, _ *Template) {
			r.Args[0].Name = "path"
			r.Args = append(r.Args, v1alpha1.AnalysisArgumentValue{Name: "route"})
		}, `has no argument "path"`, false},
		"undeclared": {func(_ *v1alpha1.AnalysisTemplateReference, t *Template) {
			t.Spec.Metrics[0].Prometheus.Query = "{{.Args.x}}"
		}, "metric errors uses {{.Args.x}}, which is not in spec.args", false},
		"unknown metric": {func(r *v1alpha1.AnalysisTemplateReference, _ *Template) {
			r.Metrics = []v1alpha1.AnalysisMetricChange{{Name: "p99", DryRun: new(true)}}
		}, `has no metric "p99", only errors, score, success`, false},
		"rate as a ratio": {func(r *v1alpha1.AnalysisTemplateReference, _ *Template) {
			r.Metrics = []v1alpha1.AnalysisMetricChange{{Name: "success", ThresholdRange: &v1alpha1.ValueRange{Min: new(0.99)}}}
		}, "metrics[success].thresholdRange: a success rate is in percent", false},
		"rate without min": {func(r *v1alpha1.AnalysisTemplateReference, _ *Template) {
			r.Metrics = []v1alpha1.AnalysisMetricChange{{Name: "success", ThresholdRange: &v1alpha1.ValueRange{Max: new(99.0)}}}
		}, "a success rate requires min: with max alone", false},
	} {
		t.Run(name, func(t *testing.T) {
			ref, template := reference(), example()
			tc.change(ref, template)
			_, err := Resolve(ref, "shop", template)
			if err == nil || !strings.Contains(err.Error(), tc.want) || err.Missing != tc.missing {
				t.Errorf("%v, want %q, missing %t", err, tc.want, tc.missing)
			}
		})
	}
	for _, ref := range []*v1alpha1.AnalysisTemplateReference{{Name: "http"}, {Kind: v1alpha1.KindClusterAnalysisTemplate, Name: "http"}} {
		if _, err := Resolve(ref, "shop", nil); err == nil || !err.Missing || !strings.Contains(err.Message, "does not exist in ") {
			t.Errorf("%+v: %v", ref, err)
		}
	}
}

// TestCheck checks that Check works even if no Microservice uses the template.
func TestCheck(t *testing.T) {
	t.Parallel()
	template := example()
	template.Namespaces = []string{"bank"}
	if err := Check(template); err != nil {
		t.Error(err)
	}
	template.Spec.Metrics[1].Web.Value = "body.a +"
	if err := Check(template); err == nil || !strings.Contains(err.Error(), `ClusterAnalysisTemplate "http": metrics[score].web.value`) {
		t.Errorf("%v", err)
	}
	template.Spec.Args = nil
	if err := Check(template); err == nil || !strings.Contains(err.Error(), "{{.Args.route}}, which is not in spec.args") {
		t.Errorf("%v", err)
	}
}

// TestUses checks that a reference refers only to a template of the kind that it specifies, and to an AnalysisTemplate only
// in the namespace of the Microservice.
func TestUses(t *testing.T) {
	t.Parallel()
	ms := &v1alpha1.Microservice{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "shop"}}
	here := &v1alpha1.AnalysisTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "http"}}
	there := &v1alpha1.AnalysisTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "http"}}
	shared := &v1alpha1.ClusterAnalysisTemplate{ObjectMeta: metav1.ObjectMeta{Name: "http"}}
	if Uses(ms, here) || Among(ms, []v1alpha1.AnalysisTemplate{*here}, nil) != nil {
		t.Error("a Microservice without a canary uses no template")
	}
	for _, tc := range []struct {
		ref                 v1alpha1.AnalysisTemplateReference
		here, there, shared bool
	}{
		{v1alpha1.AnalysisTemplateReference{Name: "http"}, true, false, false},
		{v1alpha1.AnalysisTemplateReference{Kind: v1alpha1.KindAnalysisTemplate, Name: "other"}, false, false, false},
		{v1alpha1.AnalysisTemplateReference{Kind: v1alpha1.KindClusterAnalysisTemplate, Name: "http"}, false, false, true},
	} {
		ms.Spec.UpdateStrategy.Canary = &v1alpha1.CanaryStrategy{AnalysisTemplateRef: &tc.ref}
		if Uses(ms, here) != tc.here || Uses(ms, there) != tc.there || Uses(ms, shared) != tc.shared {
			t.Errorf("%+v: %t %t %t", tc.ref, Uses(ms, here), Uses(ms, there), Uses(ms, shared))
		}
		spec := Among(ms, []v1alpha1.AnalysisTemplate{*there, *here}, []v1alpha1.ClusterAnalysisTemplate{*shared})
		if (spec != nil) != (tc.here || tc.shared) {
			t.Errorf("%+v among the templates: %v", tc.ref, spec)
		}
	}
}

// TestArgumentChangesTheHost checks that values do not "change the host of a URL", as documented in the API. The schema accepts all of these URLs and
// values.
func TestArgumentChangesTheHost(t *testing.T) {
	t.Parallel()
	for of, tc := range map[string]struct{ value, host, path string }{
		"https://{{.Args.account}}.live.dynatrace.com/api/v2/metrics/query": {"evil.example/", ".live.dynatrace.com", "/api/v2/"},
		"https://quality.example.com{{.Args.account}}":                      {".evil.example", "quality.example.com", ""},
		"https://quality.example.com/v1/shop/{{.Args.account}}/score":       {"../bank", "quality.example.com", "/v1/shop/"},
		"https://quality.example.com/v1/shop/.{{.Args.account}}/score":      {".", "quality.example.com", "/v1/shop/"},
		"https://quality.example.com/v2/{{.Args.account}}{{.Args.account}}": {".", "quality.example.com", "/v2/"},
	} {
		template := &Template{Kind: v1alpha1.KindClusterAnalysisTemplate, Name: "score", Spec: v1alpha1.AnalysisTemplateSpec{
			Args: []v1alpha1.AnalysisArgument{{Name: "account"}},
			CanaryAnalysis: v1alpha1.CanaryAnalysis{Metrics: []v1alpha1.AnalysisMetric{{
				Name: "score", Web: &v1alpha1.WebMetric{URL: of, Value: "body", SecretRef: &v1alpha1.Reference{Name: "quality"}}, ThresholdRange: v1alpha1.ValueRange{Max: new(1.0)},
			}}},
		}}
		spec, unusable := Resolve(&v1alpha1.AnalysisTemplateReference{Kind: template.Kind, Name: "score", Args: []v1alpha1.AnalysisArgumentValue{{Name: "account", Value: tc.value}}}, "shop", template)
		if unusable != nil {
			continue // The value was refused.
		}
		u, err := url.Parse(spec.Metrics[0].Web.URL)
		if err != nil {
			continue
		}
		if path := u.JoinPath(".").Path; !strings.HasSuffix(u.Host, tc.host) || !strings.HasPrefix(path, tc.path) {
			t.Errorf("%s with %q: the Secret is sent to %s%s", of, tc.value, u.Host, path)
		}
	}
}

// TestNoNamespaces checks that removing the last namespace from the list withdraws the template from all namespaces, and does not offer it to all of
// them.
func TestNoNamespaces(t *testing.T) {
	t.Parallel()
	template := example()
	template.Namespaces = []string{} // spec: {namespaces: []}
	if _, err := Resolve(reference(), "shop", template); err == nil {
		t.Error("a template with an empty list of namespaces is offered to every namespace")
	}
}

// TestArgumentInAHeader checks that a template is rejected if it would send "{{.Args.…}}" unchanged. The schema checks this in queries, URLs and
// bodies, but not in headers.
func TestArgumentInAHeader(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"{{.Args.Team}}", "{{ .Args.team  }}", "{{.Args.team-name}}", "{{Args.team}}"} {
		template := example()
		template.Spec.Args = append(template.Spec.Args, v1alpha1.AnalysisArgument{Name: "team"})
		template.Spec.Metrics[1].Web.Headers[0].Value = &text
		ref := reference()
		ref.Args = append(ref.Args, v1alpha1.AnalysisArgumentValue{Name: "team", Value: "cart"})
		spec, err := Resolve(ref, "shop", template)
		if err == nil && Check(template) == nil {
			t.Errorf("the header X-Route is sent as %q", *spec.Metrics[1].Web.Headers[0].Value)
		}
	}
}
