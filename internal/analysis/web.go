package analysis

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

const (
	// costLimit limits the cost of one evaluation, in CEL cost units: about one unit for each step.
	costLimit = 1_000_000
	// checkEvery is the number of steps of a comprehension after which the evaluation checks again whether the
	// context is done.
	checkEvery = 100
)

// askWeb requests a URL, and returns a number from its JSON response.
func askWeb(ctx context.Context, client *http.Client, q query) answer {
	program, failure := compile(q.text)
	if failure != nil {
		return answer{err: failure}
	}
	method, body := http.MethodGet, io.Reader(http.NoBody)
	if q.body != "" {
		method, body = http.MethodPost, strings.NewReader(q.body)
	}
	request, err := http.NewRequestWithContext(ctx, method, q.address, body)
	if err != nil || request.URL.Host == "" || request.URL.User != nil {
		return answer{err: errorf(BadQuery, "web.url: after its fields are replaced, it is not a valid URL, or it contains a username")}
	}
	request.Header.Set("Accept", "application/json")
	switch {
	case q.body == "":
	case q.login == loginAWS:
		request.Header.Set("Content-Type", awsJSON)
	default:
		request.Header.Set("Content-Type", "application/json")
	}
	for line := range strings.SplitSeq(q.headers, "\n") {
		if name, value, found := strings.Cut(line, ": "); found {
			request.Header.Set(name, value)
		}
	}
	response, err := client.Do(request)
	if err != nil {
		return answer{err: classify(err)}
	}
	defer func() { _ = response.Body.Close() }() // By then, the body has been read or is not needed.
	switch {
	case response.StatusCode >= 500:
		return answer{err: errorf(ServerError, "the provider responded with %s", response.Status)}
	case response.StatusCode < 200 || response.StatusCode > 299:
		return answer{err: errorf(ClientError, "the provider responded with %s", response.Status)}
	}
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		return answer{err: classify(err)}
	}
	return evaluate(ctx, program, raw)
}

// argument matches text that looks like a placeholder for an argument of a template, whether it is valid or not.
var argument = regexp.MustCompile(`[{][{]\s*[.]?Args\b[^}]*[}]*`)

// textsOf returns the texts of a metric that may contain placeholders for arguments of a template. The keys are the names of the fields.
func textsOf(m *v1alpha1.AnalysisMetric) map[string]string {
	texts := map[string]string{}
	if m.Prometheus != nil {
		texts["prometheus.query"] = m.Prometheus.Query
	}
	if m.Web != nil {
		texts["web.url"], texts["web.body"] = m.Web.URL, m.Web.Body
		for _, h := range m.Web.Headers {
			if h.Value != nil {
				texts["web.headers["+h.Name+"].value"] = *h.Value
			}
		}
	}
	return texts
}

// Check compiles the expressions of web metrics, which the API schema cannot check. It rejects placeholders
// for arguments, because the valid placeholders of a template have already been replaced. Errors contain the name of the metric.
func Check(spec *v1alpha1.CanaryAnalysis) error {
	for _, metric := range metricsOf(spec) {
		texts := textsOf(&metric)
		for _, field := range slices.Sorted(maps.Keys(texts)) {
			if found := argument.FindString(texts[field]); found != "" {
				return fmt.Errorf("metrics[%s].%s: %s is not a valid placeholder: only AnalysisTemplates and ClusterAnalysisTemplates have arguments, with placeholders in the form {{.Args.name}}", metric.Name, field, found)
			}
		}
		if metric.Web == nil {
			continue
		}
		if _, err := compile(metric.Web.Value); err != nil {
			return fmt.Errorf("metrics[%s].web.value: %s", metric.Name, err.Message)
		}
	}
	return nil
}

// compile compiles a CEL expression whose only variable is body.
func compile(expression string) (cel.Program, *Error) {
	env, err := cel.NewEnv(cel.Variable("body", cel.DynType), cel.CrossTypeNumericComparisons(true))
	if err != nil {
		return nil, errorf(BadQuery, "create the CEL environment: %v", err)
	}
	ast, issues := env.Compile(expression)
	if issues.Err() != nil {
		return nil, errorf(BadQuery, "the expression is not valid CEL with body as its only variable: %s", firstLine(issues.Err().Error()))
	}
	switch kind := ast.OutputType().String(); kind {
	case "dyn", "double", "int", "uint", "null_type":
	default:
		return nil, errorf(BadQuery, "the expression returns a value of type %s instead of a number", kind)
	}
	program, err := env.Program(ast, cel.CostLimit(costLimit), cel.InterruptCheckFrequency(checkEvery))
	if err != nil {
		return nil, errorf(BadQuery, "the expression cannot be evaluated: %v", err)
	}
	return program, nil
}

// evaluate returns the number that a program extracts from a JSON document.
func evaluate(ctx context.Context, program cel.Program, raw []byte) answer {
	var body any
	if err := json.Unmarshal(raw, &body); err != nil {
		if wrong := (*json.UnmarshalTypeError)(nil); errors.As(err, &wrong) {
			return answer{err: errorf(BadAnswer, "the response has a value that is out of range: %s", wrong.Value)}
		}
		return answer{err: errorf(BadAnswer, "the response is not JSON")}
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	result, _, err := program.ContextEval(ctx, map[string]any{"body": body})
	if err != nil {
		return answer{err: errorf(BadAnswer, "web.value: %s", firstLine(err.Error()))}
	}
	return plain(result)
}

// plain converts a CEL value to a number.
func plain(v ref.Val) answer {
	switch v := v.(type) {
	case types.Double:
		return number(float64(v))
	case types.Int:
		return number(float64(v))
	case types.Uint:
		return number(float64(v))
	case types.Null:
		return answer{noTraffic: true}
	}
	return answer{err: errorf(WrongType, "web.value returned a value of type %s instead of a number", v.Type().TypeName())}
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}
