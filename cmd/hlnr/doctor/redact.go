package doctor

import (
	"regexp"
	"strings"
)

// removed stands for what is not in a report.
const removed = "(removed)"

// The forms of secrets in text.
var secrets = []*regexp.Regexp{
	regexp.MustCompile(`-----BEGIN [A-Z ]*-----[\s\S]*?(-----END [A-Z ]*-----|$)`),
	regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]*)?`),                                                                                         // JSON web tokens
	regexp.MustCompile(`\b(gh[pousr]_[A-Za-z0-9]{16,}|github_pat_[A-Za-z0-9_]{16,}|glpat-[A-Za-z0-9_-]{16,})`),                                                              // forges
	regexp.MustCompile(`\b(AKIA|ASIA)[A-Z0-9]{16}\b`),                                                                                                                       // clouds
	regexp.MustCompile(`\b(xox[abposr]-[A-Za-z0-9-]{10,}|sk-[A-Za-z0-9_-]{16,}|AIza[A-Za-z0-9_-]{30,})`),                                                                    // services
	regexp.MustCompile(`(?i)\b(bearer|basic)\s+[A-Za-z0-9+/=._~-]{6,}`),                                                                                                     // headers
	regexp.MustCompile(`(?i)([a-z0-9_.-]*(pass(word|wd)?|secret|token|credential|api[_-]?key|private[_-]?key)[a-z0-9_.-]*)(["']?\s*[:=]\s*)("[^"]*"|'[^']*'|[^\s,;&"'}]+)`), // key=value
	regexp.MustCompile(`([a-z][a-z0-9+.-]*://)[^\s/@]+@`),                                                                                                                   // user:password@host
	regexp.MustCompile(`([?&][^=\s&#]*=)[^&\s#"']+`),                                                                                                                        // query parameters
}

// keep are what of a match stays, by the index of its expression.
var keep = map[int]string{6: "${1}${4}" + removed, 7: "${1}" + removed + "@", 8: "${1}" + removed}

// cleanText removes what looks like a secret from a text.
func cleanText(text string) string {
	for i, s := range secrets {
		if with, some := keep[i]; some {
			text = s.ReplaceAllString(text, with)
		} else {
			text = s.ReplaceAllString(text, removed)
		}
	}
	return text
}

// dropped are fields that are not needed to find a fault, and repeat others or may hold secrets.
var dropped = map[string]bool{"managedFields": true, "kubectl.kubernetes.io/last-applied-configuration": true}

// valued are the fields whose values are written by users and mean nothing to others: environment
// variables, headers, bodies and data of objects.
var valued = map[string]bool{"env": true, "headers": true, "body": true, "data": true, "stringData": true, "binaryData": true, "args": true, "command": true, "webhookSecret": true, "caBundle": true}

// clean removes secrets from a decoded object: values of environment variables, headers, arguments and data,
// annotations of other tools, and what looks like a secret in any text.
func clean(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, x := range v {
			switch {
			case dropped[k]:
			case valued[k]:
				out[k] = blank(x)
			case k == "receivers":
				out[k] = cleanReceivers(x)
			case k == "annotations":
				out[k] = cleanAnnotations(x)
			default:
				out[k] = clean(x)
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, x := range v {
			out[i] = clean(x)
		}
		return out
	case string:
		return cleanText(v)
	}
	return v
}

// path of an address, which is a secret where messages are sent to.
var path = regexp.MustCompile(`^([a-z]+://[^/?#]*).+$`)

// cleanReceivers keeps of the addresses of receivers the hosts, and of their templates nothing.
func cleanReceivers(v any) any {
	list, is := clean(v).([]any)
	if !is {
		return removed
	}
	for _, item := range list {
		r, is := item.(map[string]any)
		if !is {
			continue
		}
		if text, is := r["url"].(string); is {
			r["url"] = path.ReplaceAllString(text, "${1}/"+removed)
		}
		if _, is := r["template"]; is {
			r["template"] = removed
		}
	}
	return list
}

// cleanAnnotations keeps the annotations of hlnr.io; of others only the keys.
func cleanAnnotations(v any) any {
	m, is := v.(map[string]any)
	if !is {
		return removed
	}
	out := map[string]any{}
	for k, x := range m {
		switch text, _ := x.(string); {
		case dropped[k]:
		case strings.HasPrefix(k, "hlnr.io/"):
			out[k] = cleanText(text)
		default:
			out[k] = removed
		}
	}
	return out
}

// blank keeps the form of a value: names and references, and no values.
func blank(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, x := range v {
			switch k {
			case "name", "valueFrom", "key":
				out[k] = clean(x)
			default:
				out[k] = blank(x)
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, x := range v {
			out[i] = blank(x)
		}
		return out
	case nil:
		return nil
	}
	return removed
}
