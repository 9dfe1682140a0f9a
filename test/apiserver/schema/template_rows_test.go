package schema_test

import "strings"

// templateRef returns a patch for a Microservice that refers to a template with the given fields.
func templateRef(fields string) string {
	return `spec: {updateStrategy: {canary: {steps: [{weight: 10}], analysisTemplateRef: {` + fields + `}}}}`
}

// templateRows returns the rows for shared analyses, and for references to them. A template rejects
// everything that a Microservice's analysis rejects.
func templateRows() map[string]row {
	out := map[string]row{}
	inline, end, _ := strings.Cut(analysisPatch("|"), "|")
	for name, r := range analysisRows {
		fields, ok := strings.CutPrefix(r.patch, inline)
		if fields = strings.TrimSuffix(fields, end); !ok || fields == "" || r.refused == "" {
			continue
		}
		for _, kind := range []string{"AnalysisTemplate", "ClusterAnalysisTemplate"} {
			out[name+" of "+kind] = row{kind: kind, patch: `spec: {` + fields + `}`, refused: strings.ReplaceAll(r.refused, analysisPath, "spec")}
		}
	}
	for name, r := range templateOnlyRows {
		out[name] = r
		if r.kind == "AnalysisTemplate" && r.refused != "" && !strings.Contains(r.refused, "spec.namespaces") {
			r.kind = "ClusterAnalysisTemplate"
			out[name+" of the cluster"] = r
		}
	}
	return out
}

// templateOnlyRows are the rows for fields that exist only in templates and in references to them.
var templateOnlyRows = map[string]row{
	"template smallest":                 {kind: "AnalysisTemplate"},
	"template for the cluster":          {kind: "ClusterAnalysisTemplate", patch: `metadata: {name: smallest}`},
	"template for namespaces":           {kind: "ClusterAnalysisTemplate", patch: "metadata: {name: namespaces}\nspec: {namespaces: [shop, bank]}"},
	"template without metrics":          {kind: "AnalysisTemplate", patch: `spec: {metrics: []}`, refused: "spec.metrics"},
	"template, percent as 0.99":         {kind: "AnalysisTemplate", patch: `spec: {metrics: [{name: a, successRate: {}, thresholdRange: {min: 0.99}}]}`, refused: "write min: 99, not 0.99"},
	"template typo":                     {kind: "AnalysisTemplate", patch: `spec: {intervall: 1m}`, refused: `unknown field "spec.intervall"`},
	"template, field of the other kind": {kind: "AnalysisTemplate", patch: `spec: {namespaces: [shop]}`, refused: `unknown field "spec.namespaces"`},
	"template with arguments":           {kind: "AnalysisTemplate", patch: `spec: {args: [{name: route}, {name: minRate, default: "0.1"}], metrics: [{name: a, prometheus: {query: 'sum(rate(x{route="{{.Args.route}}"}[{{.Interval}}])) > {{ .Args.minRate }}'}, thresholdRange: {max: 1}}]}`},
	"template argument, name":           {kind: "AnalysisTemplate", patch: `spec: {args: [{name: Route}]}`, refused: "the name of an argument must consist of letters and digits"},
	"template argument, quote":          {kind: "AnalysisTemplate", patch: `spec: {args: [{name: a, default: 'x"'}]}`, refused: "spec.args[].default must consist of"},
	"template arguments, 17":            {kind: "AnalysisTemplate", patch: `spec: {args: ` + numbered(`{name: a#}`, 17) + `}`, refused: "spec.args: Too many"},
	"template, unknown field":           {kind: "AnalysisTemplate", patch: `spec: {metrics: [{name: a, prometheus: {query: 'x{{.Arg.route}}'}, thresholdRange: {max: 1}}]}`, refused: "{{.Args.NAME}}"},

	"template argument, no name": {kind: "AnalysisTemplate", patch: `spec: {args: [{default: a}]}`, refused: "spec.args[0].name: Required value"},
	"template argument, long":    {kind: "AnalysisTemplate", patch: `spec: {args: [{name: ` + long(64) + `}]}`, refused: "spec.args[0].name: Too long"},
	"template default, long":     {kind: "AnalysisTemplate", patch: `spec: {args: [{name: a, default: ` + long(254) + `}]}`, refused: "spec.args[0].default: Too long"},
	"template for no namespace":  {kind: "ClusterAnalysisTemplate", patch: "metadata: {name: none}\nspec: {namespaces: []}", refused: "spec.namespaces"},
	"template, many namespaces":  {kind: "ClusterAnalysisTemplate", patch: `spec: {namespaces: [` + strings.Repeat("a, ", 1025) + `]}`, refused: "spec.namespaces: Too many"},
	"template, long namespace":   {kind: "ClusterAnalysisTemplate", patch: `spec: {namespaces: [` + long(64) + `]}`, refused: "spec.namespaces[0]: Too long"},

	"template ref, long name":               {kind: "Microservice", patch: templateRef(`name: ` + long(254)), refused: "analysisTemplateRef.name: Too long"},
	"template ref, empty name":              {kind: "Microservice", patch: templateRef(`name: ""`), refused: "analysisTemplateRef.name"},
	"template ref, 17 values":               {kind: "Microservice", patch: templateRef(`name: http, args: ` + numbered(`{name: a#, value: b}`, 17)), refused: "analysisTemplateRef.args: Too many"},
	"template ref, no arg name":             {kind: "Microservice", patch: templateRef(`name: http, args: [{name: "", value: b}]`), refused: "analysisTemplateRef.args[0].name"},
	"template ref, arg name":                {kind: "Microservice", patch: templateRef(`name: http, args: [{name: ` + long(64) + `, value: b}]`), refused: "analysisTemplateRef.args[0].name: Too long"},
	"template ref, long value":              {kind: "Microservice", patch: templateRef(`name: http, args: [{name: a, value: ` + long(254) + `}]`), refused: "analysisTemplateRef.args[0].value: Too long"},
	"template ref, 11 metrics":              {kind: "Microservice", patch: templateRef(`name: http, metrics: ` + numbered(`{name: a#, dryRun: true}`, 11)), refused: "analysisTemplateRef.metrics: Too many"},
	"template ref, metric":                  {kind: "Microservice", patch: templateRef(`name: http, metrics: [{name: "", dryRun: true}]`), refused: "analysisTemplateRef.metrics[0].name"},
	"template ref, long metric":             {kind: "Microservice", patch: templateRef(`name: http, metrics: [{name: ` + long(64) + `, dryRun: true}]`), refused: "analysisTemplateRef.metrics[0].name: Too long"},
	"template ref, range":                   {kind: "Microservice", patch: templateRef(`name: http, metrics: [{name: a, thresholdRange: {min: -1e16, max: 1}}]`), refused: "thresholdRange.min"},
	"template ref, range maximum":           {kind: "Microservice", patch: templateRef(`name: http, metrics: [{name: a, thresholdRange: {max: 1e16}}]`), refused: "thresholdRange.max"},
	"template ref":                          {kind: "Microservice", patch: templateRef(`name: http`)},
	"template ref, all fields":              {kind: "Microservice", patch: templateRef(`kind: ClusterAnalysisTemplate, name: http, args: [{name: route, value: "/cart"}], metrics: [{name: errors, thresholdRange: {min: 99.5}, dryRun: true}]`)},
	"template ref and analysis":             {kind: "Microservice", patch: `spec: {updateStrategy: {canary: {steps: [{weight: 10}], analysis: {metrics: [{name: a, successRate: {}, thresholdRange: {min: 99}}]}, analysisTemplateRef: {name: http}}}}`, refused: "set analysis or analysisTemplateRef, but not both"},
	"template ref without traffic":          {kind: "Microservice", patch: `spec: {updateStrategy: {canary: {steps: [{weight: 0}], analysisTemplateRef: {name: http}}}}`, refused: "no step sends requests to the canary"},
	"template ref, kind":                    {kind: "Microservice", patch: templateRef(`kind: Template, name: http`), refused: `supported values: "AnalysisTemplate", "ClusterAnalysisTemplate"`},
	"template ref, no name":                 {kind: "Microservice", patch: templateRef(`kind: AnalysisTemplate`), refused: "analysisTemplateRef.name: Required value"},
	"template ref, quote":                   {kind: "Microservice", patch: templateRef(`name: http, args: [{name: route, value: 'x"} or vector(0)'}]`), refused: "analysisTemplateRef.args[].value must consist of"},
	"template ref, metric without a change": {kind: "Microservice", patch: templateRef(`name: http, metrics: [{name: errors}]`), refused: "set thresholdRange or dryRun"},
	"template ref elsewhere":                {kind: "Microservice", patch: templateRef(`name: http, namespace: other`), refused: "unknown field"},
}
