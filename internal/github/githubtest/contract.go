package githubtest

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
)

// published contains GitHub's own description of the parameters and responses of the routes, and GitHub's examples; see testdata/README.md. The
// reference (see reference.go), in contrast, is written for this project. It determines what the server does, and may be wrong. Therefore, every
// request and every response is checked against GitHub's description. The reference contains only the fields that matter here. All other fields
// that the description requires in a response come from GitHub's example.
//
//go:embed testdata/operations.json testdata/examples.json
var published embed.FS

// operation is a route in GitHub's description.
type operation struct {
	Query     map[string]*spec.Schema `json:"query"`
	Body      *spec.Schema            `json:"body"`      // nil means that the route takes no body
	Responses map[string]*spec.Schema `json:"responses"` // keyed by status; nil means no JSON

	example any // GitHub's example of a successful response
}

// contract returns GitHub's description, which is read only once.
var contract = sync.OnceValues(func() (map[string]operation, error) {
	var operations map[string]operation
	var examples map[string]struct{ Body any }
	for name, into := range map[string]any{"operations": &operations, "examples": &examples} {
		text, err := published.ReadFile("testdata/" + name + ".json")
		if err == nil {
			err = json.Unmarshal(text, into)
		}
		if err != nil {
			return nil, fmt.Errorf("read testdata/%s.json: %w", name, err)
		}
	}
	for name, o := range operations {
		o.example = examples[name].Body
		operations[name] = o
	}
	return operations, nil
})

// checkRequest lists the ways in which a request violates GitHub's description.
func checkRequest(route string, query url.Values, body []byte) []string {
	operations, err := contract()
	if err != nil {
		return []string{err.Error()}
	}
	o, ok := operations[route]
	if !ok {
		return []string{"GitHub's description has no such operation"}
	}
	problems := o.checkQuery(query)
	switch {
	case len(body) == 0:
	case o.Body == nil:
		problems = append(problems, "GitHub's description allows no body for this operation")
	default:
		problems = append(problems, o.checkBody(body)...)
	}
	return problems
}

func (o operation) checkQuery(query url.Values) (problems []string) {
	for name, values := range query {
		schema, ok := o.Query[name]
		if !ok {
			problems = append(problems, fmt.Sprintf("GitHub's description has no query parameter %q", name))
			continue
		}
		for _, text := range values {
			var value any = text
			if n, err := strconv.ParseInt(text, 10, 64); err == nil && slices.Contains(schema.Type, "integer") {
				value = n
			}
			problems = append(problems, invalid(schema, value, "query."+name)...)
		}
	}
	return problems
}

func (o operation) checkBody(text []byte) []string {
	var body map[string]any
	if err := json.Unmarshal(text, &body); err != nil || body == nil {
		return []string{"the body is not a JSON object"}
	}
	problems := invalid(o.Body, body, "body")
	for name := range body {
		if _, ok := o.Body.Properties[name]; !ok {
			problems = append(problems, fmt.Sprintf("GitHub's description has no field %q in the body", name))
		}
	}
	return problems
}

// answer returns the operation of a route and the schema of its response with the given status; nil if the description has no such schema.
func answer(route string, status int) (o operation, schema *spec.Schema, err error) {
	operations, err := contract()
	if err != nil {
		return operation{}, nil, err
	}
	o = operations[route]
	return o, o.Responses[strconv.Itoa(status)], nil
}

// answerText returns the JSON of a response with all fields that the description requires. problems lists violations of the description. Each element
// of a list is completed separately, because most elements also occur in earlier responses, and the results are cached for each element.
func answerText(route string, status int, body any) (text []byte, problems []string) {
	items, ok := body.([]any)
	if !ok || len(items) == 0 {
		return partText(route, status, body)
	}
	text = []byte("[")
	for i, item := range items {
		part, wrong := partText(route, status, []any{item})
		if i > 0 {
			text = append(text, ',')
		}
		text = append(text, bytes.TrimSuffix(bytes.TrimPrefix(part, []byte("[")), []byte("]"))...)
		for _, problem := range wrong {
			problems = append(problems, fmt.Sprintf("element %d: %s", i, problem))
		}
	}
	return append(text, ']'), problems
}

// texts caches the JSON that partText returns without problems, keyed by the route, the status, and the hash of the
// incomplete value.
var texts sync.Map

func partText(route string, status int, body any) ([]byte, []string) {
	type part struct {
		route  string
		status int
		sum    [sha256.Size]byte
	}
	plain, err := json.Marshal(body)
	if err != nil {
		return nil, []string{err.Error()}
	}
	this := part{route, status, sha256.Sum256(plain)}
	if text, known := texts.Load(this); known {
		return text.([]byte), nil
	}
	whole, err := completeAnswer(route, status, body)
	if err != nil {
		return nil, []string{err.Error()}
	}
	text, err := json.Marshal(whole)
	if err != nil {
		return nil, []string{err.Error()}
	}
	problems := checkAnswer(route, status, text)
	if len(problems) == 0 {
		texts.Store(this, text)
	}
	return text, problems
}

// completeAnswer returns a response with all fields that the description requires.
func completeAnswer(route string, status int, body any) (any, error) {
	o, schema, err := answer(route, status)
	if err != nil || schema == nil {
		return body, err
	}
	var like any
	if status < 300 {
		like = o.example
	}
	return complete(schema, body, like), nil
}

// complete adds the fields that a schema requires and that a value lacks, and replaces empty URLs in the value. It takes the fields and the URLs
// from an example.
func complete(schema *spec.Schema, value, like any) any {
	switch value := value.(type) {
	case map[string]any:
		for _, alternatives := range [][]spec.Schema{schema.OneOf, schema.AnyOf} {
			if len(alternatives) > 0 {
				schema = &alternatives[0]
			}
		}
		example, _ := like.(map[string]any)
		whole := maps.Clone(value)
		for _, name := range schema.Required {
			if _, has := whole[name]; !has && (example[name] != nil || schema.Properties[name].Nullable) {
				whole[name] = example[name]
			}
		}
		for name, part := range whole {
			if property, ok := schema.Properties[name]; ok {
				whole[name] = complete(&property, part, example[name])
			}
		}
		return whole
	case []any:
		if schema.Items == nil || schema.Items.Schema == nil {
			return value
		}
		var example any
		if examples, _ := like.([]any); len(examples) > 0 {
			example = examples[0]
		}
		whole := make([]any, 0, len(value))
		for _, item := range value {
			whole = append(whole, complete(schema.Items.Schema, item, example))
		}
		return whole
	case string:
		if example, ok := like.(string); ok && value == "" && schema.Format == "uri" {
			return example
		}
	}
	return value
}

// held contains the responses and list elements that conform to the description.
var held sync.Map

// checkAnswer lists the ways in which a response violates the description. Each element of a list is checked separately, because most elements
// also occur in earlier responses, and the results are cached for each element.
func checkAnswer(route string, status int, text []byte) []string {
	_, schema, err := answer(route, status)
	if err != nil {
		return []string{err.Error()}
	}
	if schema == nil {
		return nil
	}
	var items []json.RawMessage
	if schema.Items == nil || schema.Items.Schema == nil || json.Unmarshal(text, &items) != nil {
		return checkPart(schema, text, "response")
	}
	var problems []string
	for i, item := range items {
		problems = append(problems, checkPart(schema.Items.Schema, item, fmt.Sprintf("response[%d]", i))...)
	}
	return problems
}

func checkPart(schema *spec.Schema, text []byte, at string) []string {
	type part struct {
		schema *spec.Schema
		sum    [sha256.Size]byte
	}
	this := part{schema, sha256.Sum256(text)}
	if _, known := held.Load(this); known {
		return nil
	}
	var value any
	if err := json.Unmarshal(text, &value); err != nil {
		return []string{at + " is not JSON"}
	}
	problems := invalid(schema, value, at)
	if len(problems) == 0 {
		held.Store(this, true)
	}
	return problems
}

// invalid lists the ways in which a value violates a schema.
func invalid(schema *spec.Schema, value any, at string) []string {
	result := validate.NewSchemaValidator(schema, nil, at, strfmt.Default).Validate(value)
	var problems []string
	for _, err := range result.Errors {
		problems = append(problems, strings.ReplaceAll(err.Error(), "\n", " "))
	}
	slices.Sort(problems)
	return problems
}
