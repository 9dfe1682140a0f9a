package change

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// Field is one field that differs between two objects.
type Field struct {
	// Path is the path of the field, such as spec.template.spec.containers[shop].image.
	Path string `json:"path"`
	// Before and After are the values as JSON, empty if the field is not set. Values that might be secret are replaced. If only the
	// order of the items in a list differs, Before and After are the names of the items in the old and in the new order.
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
}

// secret matches the names of fields whose values are not shown.
var secret = regexp.MustCompile(`(?i)(pass(word|wd)?|secret|token|credential|api_?key|private)`)

// hidden replaces a value that might be secret.
const hidden = "(not shown)"

// fields returns the differing fields below a path. It identifies an item of a list by its name, or by its index if the item has no
// name or an earlier item has the same name.
func fields(path string, before, after any) []Field {
	if reflect.DeepEqual(before, after) {
		return nil
	}
	x, xIs := asMap(before)
	y, yIs := asMap(after)
	if !xIs || !yIs || len(x) == 0 && before == nil && !nested(after) || len(y) == 0 && after == nil && !nested(before) {
		return []Field{{path, shown(path, before), shown(path, after)}}
	}
	keys := slices.Collect(maps.Keys(x))
	for k := range y {
		if _, both := x[k]; !both {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	old, was := before.([]any)
	items, too := after.([]any)
	list := was || too
	var out []Field
	if name, is := x["name"].(string); is && secret.MatchString(name) {
		path += "(secret)" // The name of an environment variable suggests that its value is secret.
	}
	for _, k := range keys {
		next := path + "." + k
		if list {
			next = path + "[" + k + "]"
		}
		out = append(out, fields(next, x[k], y[k])...)
	}
	if len(out) == 0 && was && too {
		out = []Field{{path, order(old), order(items)}} // The lists contain the same items in different orders.
	}
	for i := range out {
		out[i].Path = strings.ReplaceAll(out[i].Path, "(secret)", "")
	}
	return out
}

// nested reports whether a value contains fields or items.
func nested(v any) bool {
	m, is := asMap(v)
	return is && len(m) > 0
}

// asMap returns the fields of an object, or the items of a list with their names or indexes as keys. For nil, it returns an empty map.
func asMap(v any) (map[string]any, bool) {
	switch v := v.(type) {
	case nil:
		return map[string]any{}, true
	case map[string]any:
		return v, true
	case []any:
		out := make(map[string]any, len(v))
		for i, item := range v {
			key := itemName(i, item)
			if _, twice := out[key]; twice {
				key = fmt.Sprint(i)
			}
			out[key] = item
		}
		return out, true
	}
	return nil, false
}

// itemName returns the name of an item in a list, or its index if it has no name.
func itemName(i int, item any) string {
	if m, is := item.(map[string]any); is {
		if name, is := m["name"].(string); is {
			return name
		}
	}
	return fmt.Sprint(i)
}

// order returns the names of the items of a list as JSON, in the order of the list.
func order(list []any) string {
	names := make([]string, len(list))
	for i, item := range list {
		names[i] = itemName(i, item)
	}
	return shown("", names)
}

// shown returns a value as JSON, or a replacement for a value that might be secret.
func shown(path string, v any) string {
	if v == nil {
		return ""
	}
	if secret.MatchString(path) {
		return hidden
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(raw)
}
