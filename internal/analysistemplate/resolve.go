// Package analysistemplate resolves references to shared analyses. It combines a template with the arguments and the
// metric changes of a Microservice into one analysis, as if the Microservice defined that analysis.
//
//	resolve.go  Resolve, which is pure, and its errors
//	read.go     reads the template of a Microservice
package analysistemplate

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/analysis"
)

// place is the field of a Microservice that refers to a template. Messages about a reference begin with it.
const place = "spec.updateStrategy.canary.analysisTemplateRef"

// Template is an AnalysisTemplate or a ClusterAnalysisTemplate.
type Template struct {
	Kind, Name string
	Generation int64
	// Namespaces are the namespaces that may use a ClusterAnalysisTemplate; nil means all namespaces.
	Namespaces []string
	Spec       v1alpha1.AnalysisTemplateSpec
}

// Namespaced returns an AnalysisTemplate as a Template. The two objects share the memory of the specification.
func Namespaced(t *v1alpha1.AnalysisTemplate) *Template {
	return &Template{Kind: v1alpha1.KindAnalysisTemplate, Name: t.Name, Generation: t.Generation, Spec: t.Spec}
}

// Cluster returns a ClusterAnalysisTemplate as a Template. The two objects share the memory of the specification.
func Cluster(t *v1alpha1.ClusterAnalysisTemplate) *Template {
	return &Template{Kind: v1alpha1.KindClusterAnalysisTemplate, Name: t.Name, Generation: t.Generation, Namespaces: t.Spec.Namespaces, Spec: t.Spec.AnalysisTemplateSpec}
}

// String returns the kind, name and generation of a template, in the format of a release's status.analysis.template.
func (t *Template) String() string { return fmt.Sprintf("%s/%s@%d", t.Kind, t.Name, t.Generation) }

// Error reports why a reference cannot be resolved.
type Error struct {
	// Missing is true if the template does not exist or cannot be used in the namespace. To correct the error, create or change the
	// template.
	Missing bool
	// Message names the field and describes the fix.
	Message string
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// invalid returns the error for a fault in the reference or in its template.
func invalid(format string, args ...any) *Error { return &Error{Message: fmt.Sprintf(format, args...)} }

// absent returns the error for a template that does not exist.
func absent(ref *v1alpha1.AnalysisTemplateReference, namespace string) *Error {
	where := "in namespace " + namespace
	if kindOf(ref) == v1alpha1.KindClusterAnalysisTemplate {
		where = "in the cluster"
	}
	return &Error{Missing: true, Message: fmt.Sprintf("%s: %s %q does not exist %s", place, kindOf(ref), ref.Name, where)}
}

// argument matches a placeholder for an argument, such as {{.Args.name}}.
var argument = regexp.MustCompile(`[{][{] ?[.]Args[.]([a-z][A-Za-z0-9]*) ?[}][}]`)

// Resolve returns the analysis that a reference in a namespace selects. t is nil if the template does not exist. The result shares no memory
// with the input. Resolve does not compile expressions: analysis.Check does.
func Resolve(ref *v1alpha1.AnalysisTemplateReference, namespace string, t *Template) (*v1alpha1.CanaryAnalysis, *Error) {
	switch {
	case t == nil:
		return nil, absent(ref, namespace)
	case t.Namespaces != nil && !slices.Contains(t.Namespaces, namespace):
		return nil, &Error{Missing: true, Message: fmt.Sprintf("%s: %s %q cannot be used in namespace %s: ask an administrator to add the namespace to the template's spec.namespaces", place, t.Kind, t.Name, namespace)}
	}
	args, err := arguments(ref, t)
	if err != nil {
		return nil, err
	}
	spec := t.Spec.CanaryAnalysis.DeepCopy()
	for i := range spec.Metrics {
		if err := fill(&spec.Metrics[i], args); err != nil {
			return nil, invalid("%s %q: %v", t.Kind, t.Name, err)
		}
	}
	for i := range ref.Metrics {
		if err := change(spec, &ref.Metrics[i], t); err != nil {
			return nil, err
		}
	}
	return spec, nil
}

// kindOf returns the kind of the template that a reference refers to.
func kindOf(ref *v1alpha1.AnalysisTemplateReference) string {
	if ref.Kind == "" {
		return v1alpha1.KindAnalysisTemplate
	}
	return ref.Kind
}

// arguments returns the values of all arguments of a template.
func arguments(ref *v1alpha1.AnalysisTemplateReference, t *Template) (map[string]string, *Error) {
	values := map[string]string{}
	for _, a := range t.Spec.Args {
		i := slices.IndexFunc(ref.Args, func(v v1alpha1.AnalysisArgumentValue) bool { return v.Name == a.Name })
		switch {
		case i >= 0:
			values[a.Name] = ref.Args[i].Value
		case a.Default != nil:
			values[a.Name] = *a.Default
		default:
			return nil, invalid("%s.args: %s %q needs a value for %q", place, t.Kind, t.Name, a.Name)
		}
	}
	for _, v := range ref.Args {
		if _, ok := values[v.Name]; !ok {
			return nil, invalid("%s.args: %s %q has no argument %q", place, t.Kind, t.Name, v.Name)
		}
	}
	return values, nil
}

// fill replaces the placeholders for arguments in the text fields of a metric.
func fill(m *v1alpha1.AnalysisMetric, args map[string]string) error {
	var texts []*string
	if m.Prometheus != nil {
		texts = append(texts, &m.Prometheus.Query)
	}
	if m.Web != nil {
		texts = append(texts, &m.Web.URL, &m.Web.Body)
		for i := range m.Web.Headers {
			if v := m.Web.Headers[i].Value; v != nil {
				texts = append(texts, v)
			}
		}
	}
	if m.Web != nil {
		if err := checkURL(m, args); err != nil {
			return err
		}
	}
	for _, text := range texts {
		unknown := ""
		*text = argument.ReplaceAllStringFunc(*text, func(match string) string {
			name := argument.FindStringSubmatch(match)[1]
			value, ok := args[name]
			if !ok {
				unknown = name
			}
			return value
		})
		if unknown != "" {
			return fmt.Errorf("metric %s uses {{.Args.%s}}, which is not in spec.args", m.Name, unknown)
		}
	}
	return nil
}

// server matches the scheme and the server of a URL.
var server = regexp.MustCompile(`^[a-z]+://([^/?]*)`)

// checkURL rejects argument values that would make a request with credentials reach a different server or a path outside the path in the URL. In
// the host, an argument must be the first label. Arguments must not add a ".." segment to the path.
func checkURL(m *v1alpha1.AnalysisMetric, args map[string]string) error {
	host := server.FindStringSubmatch(m.Web.URL)
	filled := argument.ReplaceAllStringFunc(m.Web.URL, func(match string) string { return args[argument.FindStringSubmatch(match)[1]] })
	if climbs(filled) && !climbs(m.Web.URL) {
		return fmt.Errorf("metric %s: the values of its arguments add a path segment \"..\" to web.url, which is not allowed", m.Name)
	}
	for _, at := range argument.FindAllStringSubmatchIndex(m.Web.URL, -1) {
		name := m.Web.URL[at[2]:at[3]]
		value := args[name]
		switch {
		case strings.Contains(value, ".."):
			return fmt.Errorf("metric %s: the value %q of argument %s must not contain .. in a URL", m.Name, value, name)
		case host == nil || at[0] >= len(host[0]):
		case at[0] != len(host[0])-len(host[1]) || at[1] >= len(host[0]) || m.Web.URL[at[1]] != '.':
			return fmt.Errorf("metric %s: in the host of web.url, {{.Args.%s}} must be the first label, as in https://{{.Args.%s}}.example.com", m.Name, name, name)
		case strings.ContainsAny(value, "./:"):
			return fmt.Errorf("metric %s: the value %q of argument %s must be a single label in the host of web.url, without '.', '/' or ':'", m.Name, value, name)
		}
	}
	return nil
}

// climbs reports whether the path of a URL has a ".." segment.
func climbs(text string) bool {
	path, _, _ := strings.Cut(text, "?")
	return slices.Contains(strings.Split(path, "/"), "..")
}

// change applies a change to a metric.
func change(spec *v1alpha1.CanaryAnalysis, c *v1alpha1.AnalysisMetricChange, t *Template) *Error {
	i := slices.IndexFunc(spec.Metrics, func(m v1alpha1.AnalysisMetric) bool { return m.Name == c.Name })
	if i < 0 {
		names := make([]string, len(spec.Metrics))
		for i, m := range spec.Metrics {
			names[i] = m.Name
		}
		return invalid("%s.metrics: %s %q has no metric %q, only %s", place, t.Kind, t.Name, c.Name, strings.Join(names, ", "))
	}
	m := &spec.Metrics[i]
	if c.ThresholdRange != nil {
		m.ThresholdRange = *c.ThresholdRange.DeepCopy()
		if w := m.InconclusiveRange; w != nil && !wider(*w, m.ThresholdRange) {
			m.InconclusiveRange = nil
		}
		if err := bounds(m); err != nil {
			return invalid("%s.metrics[%s].thresholdRange: %v", place, c.Name, err)
		}
	}
	if c.DryRun != nil {
		m.DryRun = *c.DryRun
	}
	return nil
}

// wider reports whether an inconclusive range contains another range. A missing bound means that the range is open on that side.
func wider(w, than v1alpha1.ValueRange) bool {
	low := w.Min == nil || than.Min != nil && *w.Min <= *than.Min
	high := w.Max == nil || than.Max != nil && *w.Max >= *than.Max
	return low && high
}

// bounds checks the schema's rules for the threshold range of a metric. The API server cannot check these rules for a
// change to a metric that is defined in a template.
func bounds(m *v1alpha1.AnalysisMetric) error {
	r := m.ThresholdRange
	if m.Baseline != "" {
		neutral := map[v1alpha1.BaselineMode]float64{v1alpha1.BaselineRatio: 1}[m.Baseline]
		if m.Samples != nil && (r.Min != nil && *r.Min > neutral || r.Max != nil && *r.Max < neutral) {
			return fmt.Errorf("it must include %g, the value for equal releases", neutral)
		}
	}
	switch {
	case m.SuccessRate != nil && r.Min == nil:
		return fmt.Errorf("a success rate requires min: with max alone, a canary that always fails would pass")
	case m.SuccessRate != nil && m.Baseline == "" && *r.Min != 0 && (*r.Min <= 1 || *r.Min > 100):
		return fmt.Errorf("a success rate is in percent, 0 to 100: write min: 99, not 0.99")
	case m.Latency != nil && r.Max == nil:
		return fmt.Errorf("a latency requires max: with min alone, a slower canary would pass")
	case m.Latency != nil && m.Baseline == "" && (*r.Max <= 0 || *r.Max > 60):
		return fmt.Errorf("max is a latency in seconds, greater than 0 and at most 60: for example, set max to 0.5 for 500 milliseconds")
	}
	return nil
}

// Check reports faults in a template that do not depend on a reference: an argument that is not declared, or an expression that does not
// compile. Arguments without a default get the value "x".
func Check(t *Template) *Error {
	ref := &v1alpha1.AnalysisTemplateReference{Kind: t.Kind, Name: t.Name}
	for _, a := range t.Spec.Args {
		if a.Default == nil {
			ref.Args = append(ref.Args, v1alpha1.AnalysisArgumentValue{Name: a.Name, Value: "x"})
		}
	}
	offered := *t
	offered.Namespaces = nil
	spec, err := Resolve(ref, "", &offered)
	if err != nil {
		return err
	}
	if err := analysis.Check(spec); err != nil {
		return invalid("%s %q: %v", t.Kind, t.Name, err)
	}
	return nil
}
