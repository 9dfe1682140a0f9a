package analysis

import (
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/prometheus/common/model"
)

// field matches a field of a template in the form that the API schema allows.
var field = regexp.MustCompile(`[{][{] ?[.]([A-Za-z]+) ?[}][}]`)

// values maps the names of template fields to their values.
type values map[string]string

// valuesOf returns the values for a target. The names of the Services are combined into one
// pattern.
func valuesOf(t Target, interval time.Duration) values {
	services := make([]string, len(t.Services))
	for i, s := range t.Services {
		services[i] = regexp.QuoteMeta(s)
	}
	return values{
		"Namespace": t.Namespace, "Microservice": t.Microservice, "Group": t.Group, "Release": t.Release, "Version": t.Version,
		"Interval": model.Duration(interval).String(),
		"Service":  strings.Join(services, "|"),
	}
}

// fill replaces the fields of a template with their values. escape is applied to each value. fill fails if the release has no Service for
// {{.Service}}: an empty pattern would select all series that lack the label.
func (v values) fill(template string, escape func(string) string) (string, *Error) {
	var failed *Error
	filled := field.ReplaceAllStringFunc(template, func(match string) string {
		name := field.FindStringSubmatch(match)[1]
		value, ok := v[name]
		switch {
		case !ok:
			failed = errorf(BadQuery, "the template refers to field %q, which does not exist", name)
		case name == "Service" && value == "":
			failed = errorf(BadQuery, "release %s has no Service, which {{.Service}} needs: reference the Microservice in a NetworkPolicy, or use another field", v["Release"])
		}
		return escape(value)
	})
	if failed == nil && strings.Contains(filled, "{{") {
		failed = errorf(BadQuery, "the template contains {{ without a field: write fields in the form {{.Release}}")
	}
	return filled, failed
}

// inQuotes escapes a value for a PromQL or JSON string in double quotes. Values are names and versions, so hardly any characters need to be
// escaped.
func inQuotes(s string) string {
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(s)
}

// inURL escapes a value for the path or query of a URL.
func inURL(s string) string { return url.QueryEscape(s) }
