package gateway

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
	"github.com/heighliner/heighliner/controllers/networkpolicy/resources"
)

// rulesOf returns the rules of a route. The rules are not copied.
func rulesOf(u *unstructured.Unstructured) []map[string]any {
	list, _, _ := unstructured.NestedFieldNoCopy(u.Object, "spec", "rules")
	items, _ := list.([]any)
	out := make([]map[string]any, 0, len(items))
	for _, item := range items {
		rule, _ := item.(map[string]any)
		out = append(out, rule)
	}
	return out
}

// ruleNamed returns the index of the rule with the given name. It returns -1 if there is no such
// rule or more than one. Duplicate names are possible, because only the experimental channel of the
// Gateway API rejects them. The empty name selects the only rule, or the only rule without a name.
func ruleNamed(rules []map[string]any, name string) int {
	if name == "" && len(rules) == 1 {
		return 0
	}
	found := -1
	for i, rule := range rules {
		if has, _ := rule["name"].(string); has != name {
			continue
		}
		if found >= 0 {
			return -1
		}
		found = i
	}
	return found
}

// backendRefsOf returns the backendRefs of a rule as JSON: "null" if there are none.
func backendRefsOf(rule map[string]any) json.RawMessage {
	text, err := json.Marshal(rule["backendRefs"])
	if err != nil {
		panic(err) // The backendRefs were parsed from JSON.
	}
	return text
}

// setBackendRefs sets the backendRefs of a rule to a value that backendRefsOf returned.
func setBackendRefs(rule map[string]any, text json.RawMessage) {
	var refs []any
	if err := utiljson.Unmarshal(text, &refs); err != nil || len(refs) == 0 {
		delete(rule, "backendRefs")
		return
	}
	rule["backendRefs"] = refs
}

func nameOf(rule map[string]any) string {
	name, _ := rule["name"].(string)
	return name
}

// splits reports whether the backendRefs of a rule have the form that a policy writes: all of them
// refer to Services of the policy's releases, and the weights add up to 100.
func splits(rule map[string]any, releases map[string]bool) bool {
	refs, _ := rule["backendRefs"].([]any)
	sum := int64(0)
	for _, ref := range refs {
		ref, _ := ref.(map[string]any)
		weight, _ := ref["weight"].(int64)
		if sum += weight; !releases[fmt.Sprint(ref["name"])] {
			return false
		}
	}
	return sum == 100
}

// nothing is the result of backendRefsOf for a rule without backendRefs.
const nothing = "null"

// ofOthers returns the backendRefs of a rule that do not refer to the policy's own Services. If a
// user has removed the policy's annotation, these backendRefs count as the previous backendRefs.
func ofOthers(rule map[string]any, services map[string]bool) json.RawMessage {
	refs, _ := rule["backendRefs"].([]any)
	var kept []any
	for _, ref := range refs {
		if ref, _ := ref.(map[string]any); services[fmt.Sprint(ref["name"])] {
			continue
		}
		kept = append(kept, ref)
	}
	if len(kept) == 0 {
		return json.RawMessage(nothing)
	}
	return backendRefsOf(map[string]any{"backendRefs": kept})
}

// operation is an operation of a JSON patch (RFC 6902).
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// Patch returns a JSON patch that turns the route that was read into the desired route, or nil if the
// routes are equal. The patch changes only backendRefs of rules and Heighliner's annotations. The API
// server applies the patch only if the route has not changed since it was read, so the rule indexes
// in the patch are still correct.
func Patch(read, next *unstructured.Unstructured) []byte {
	var ops []operation
	had, has := rulesOf(read), rulesOf(next)
	for i := range has {
		ops = append(ops, change(fmt.Sprintf("/spec/rules/%d/backendRefs", i), had[i]["backendRefs"], has[i]["backendRefs"])...)
	}
	old, now := read.GetAnnotations(), next.GetAnnotations()
	if old == nil && len(now) > 0 {
		ops = append(ops, operation{"add", "/metadata/annotations", now})
	} else {
		both := maps.Clone(old)
		maps.Copy(both, now)
		for _, key := range providers.Sorted(both) {
			var a, b any
			if text, ok := old[key]; ok {
				a = text
			}
			if text, ok := now[key]; ok {
				b = text
			}
			ops = append(ops, change("/metadata/annotations/"+strings.NewReplacer("~", "~0", "/", "~1").Replace(key), a, b)...)
		}
	}
	if len(ops) == 0 {
		return nil
	}
	text, err := json.Marshal(append([]operation{{"replace", "/metadata/resourceVersion", read.GetResourceVersion()}}, ops...))
	if err != nil {
		panic(err) // The operations contain only text and parsed JSON.
	}
	return text
}

func change(path string, old, now any) []operation {
	switch {
	case equality.Semantic.DeepEqual(old, now):
		return nil
	case now == nil:
		return []operation{{Op: "remove", Path: path}}
	case old == nil:
		return []operation{{"add", path, now}}
	}
	return []operation{{"replace", path, now}}
}

// typed converts a route to the Go type of its kind in the Gateway API, which is the same for all
// versions of the kind. It returns nil if the kind is unknown, or if the content is not a route.
func typed(u *unstructured.Unstructured) resources.Object {
	var o resources.Object
	switch u.GetKind() {
	case httpKind.Kind:
		o = &gatewayv1.HTTPRoute{}
	case grpcKind.Kind:
		o = &gatewayv1.GRPCRoute{}
	case tlsKind.Kind:
		o = &gatewayv1.TLSRoute{}
	case tcpKind.Kind:
		o = &gatewayv1.TCPRoute{}
	case udpKind.Kind:
		o = &gatewayv1.UDPRoute{}
	default:
		return nil
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, o); err != nil {
		return nil
	}
	return o
}
