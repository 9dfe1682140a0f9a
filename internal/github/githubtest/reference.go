package githubtest

import (
	"embed"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// The reference describes requests that GitHub supports, and contains an example of each response and event. Each route and each example includes the
// URL of the page from which it was taken.
//
//go:embed reference/*.json
var reference embed.FS

// example is an example of a response, of an event, or of an object that they contain.
type example struct {
	Reference string         `json:"reference"`
	Status    int            `json:"status"`  // set only for an error
	Headers   []string       `json:"headers"` // names of the headers of an error
	Body      map[string]any `json:"body"`
}

// route is a route that the reference describes: a method, and a path that may contain parameters.
type route struct {
	Method     string   `json:"method"`
	Path       string   `json:"path"`
	Reference  string   `json:"reference"`
	Actor      string   `json:"actor"` // "app" if an App must sign the request, otherwise "credential"
	Permission string   `json:"permission"`
	Query      []string `json:"query"`
	Body       []string `json:"body"`
	Statuses   []int    `json:"statuses"`
}

func (r route) name() string { return r.Method + " " + r.Path }

// match reports whether the method and the path of a request match the route, and returns the parameters in the path.
func (r route) match(method, requested string) (map[string]string, bool) {
	want, have := strings.Split(r.Path, "/"), strings.Split(requested, "/")
	if r.Method != method || len(want) != len(have) {
		return nil, false
	}
	parameters := map[string]string{}
	for i, part := range want {
		switch {
		case strings.HasPrefix(part, "{") && have[i] != "":
			parameters[strings.Trim(part, "{}")] = have[i]
		case part != have[i]:
			return nil, false
		}
	}
	return parameters, true
}

// apiReference contains the files of the reference.
type apiReference struct {
	routes     []route
	everywhere map[int]bool // statuses with which any route may respond
	examples   map[string]example
}

func readReference() (*apiReference, error) {
	b := &apiReference{everywhere: map[int]bool{}, examples: map[string]example{}}
	var index struct {
		Everywhere []struct {
			Statuses []int `json:"statuses"`
		} `json:"everywhere"`
		Routes []route `json:"routes"`
	}
	files, err := reference.ReadDir("reference")
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		text, err := reference.ReadFile("reference/" + file.Name())
		if err != nil {
			return nil, err
		}
		name := strings.TrimSuffix(path.Base(file.Name()), ".json")
		if name == "routes" {
			if err := json.Unmarshal(text, &index); err != nil {
				return nil, fmt.Errorf("read %s: %w", file.Name(), err)
			}
			continue
		}
		var e example
		if err := json.Unmarshal(text, &e); err != nil || e.Reference == "" || e.Body == nil {
			return nil, fmt.Errorf("read %s: it must be valid JSON with a reference and a body (%v)", file.Name(), err)
		}
		b.examples[name] = e
	}
	for _, general := range index.Everywhere {
		for _, status := range general.Statuses {
			b.everywhere[status] = true
		}
	}
	b.routes = index.Routes
	// Paths with fewer parameters come first.
	slices.SortStableFunc(b.routes, func(a, b route) int { return strings.Count(a.Path, "{") - strings.Count(b.Path, "{") })
	return b, nil
}

// find returns the route of a request and the parameters in the path.
func (b *apiReference) find(method, path string) (route, map[string]string, bool) {
	for _, r := range b.routes {
		if parameters, ok := r.match(method, path); ok {
			return r, parameters, true
		}
	}
	return route{}, nil, false
}

// fields maps the names of fields to values for an example.
type fields map[string]any

// fill returns an example with the given field values. It fails for a field that the example does not have, because such a field is not in the
// reference.
func (b *apiReference) fill(name string, values fields) (map[string]any, error) {
	e, ok := b.examples[name]
	if !ok {
		return nil, fmt.Errorf("fill %q: the reference has no such example", name)
	}
	body := maps.Clone(e.Body)
	for field, value := range values {
		if _, known := body[field]; !known {
			return nil, fmt.Errorf("fill %q: the reference has no field %q in this example", name, field)
		}
		body[field] = value
	}
	return body, nil
}
