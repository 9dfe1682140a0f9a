package gateway

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
	"github.com/heighliner/heighliner/controllers/networkpolicy/resources"
)

// A route of another user is handled with all of its fields, those included that the
// project's types do not know: nothing may be lost by reading and writing it.

// maxBefore bounds what is kept of the backendRefs of one rule, in bytes: the
// annotations of an object must not exceed 256 KiB, and a route has 16 rules.
const maxBefore = 12 << 10

// rulesOf a route, as they are in it.
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

// ruleNamed is the index of the rule of a name; -1: there is none, or more than one,
// which only the experimental channel refuses. "" is the only rule, or the only one
// without a name.
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

// backendRefsOf a rule as JSON: "null" where there are none.
func backendRefsOf(rule map[string]any) json.RawMessage {
	text, err := json.Marshal(rule["backendRefs"])
	if err != nil {
		panic(err) // It was read as JSON.
	}
	return text
}

// setBackendRefs of a rule to what backendRefsOf gave.
func setBackendRefs(rule map[string]any, text json.RawMessage) {
	var refs []any
	if err := utiljson.Unmarshal(text, &refs); err != nil || len(refs) == 0 {
		delete(rule, "backendRefs")
		return
	}
	rule["backendRefs"] = refs
}

// others are what other policies have in a route, by annotation.
func others(u *unstructured.Unstructured, policy string) map[string]*resources.Taken {
	out := map[string]*resources.Taken{}
	for key := range u.GetAnnotations() {
		name, ours := strings.CutPrefix(key, v1alpha1.AnnotationRules)
		if !ours || name == policy {
			continue
		}
		if t := resources.ReadTaken(u.GetAnnotations(), name); t != nil {
			out[key] = t
		}
	}
	return out
}

// holders are the names under which a policy has rules, by index. A rule that was renamed,
// or copied, since it was taken still splits between releases of the policy, and no one but
// the policy can end that: it has it under the name that the copy has, else under one that
// is not there any more, else under its first. A rule that routes to its Services in another
// way, such as one of a user's own for a preview, is none of these.
func holders(t *resources.Taken, rules []map[string]any, releases map[string]bool) map[int]string {
	out := map[int]string{}
	if t == nil {
		return out
	}
	names := providers.Sorted(t.Before)
	for _, name := range names {
		if i := ruleNamed(rules, name); i >= 0 {
			out[i] = name
		}
	}
	lost := slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return ruleNamed(rules, name) >= 0 || slices.ContainsFunc(rules, func(rule map[string]any) bool { return nameOf(rule) == name })
	})
	for i, rule := range rules {
		if _, held := out[i]; held || !splits(rule, releases) {
			continue
		}
		switch name := nameOf(rule); {
		case t.Before[name] != nil:
			out[i] = name
		case len(lost) > 0:
			out[i], lost = lost[0], lost[1:]
		default:
			out[i] = names[0]
		}
	}
	return out
}

func nameOf(rule map[string]any) string {
	name, _ := rule["name"].(string)
	return name
}

// splits reports whether a rule has backendRefs as a policy writes them: Services of its
// releases alone, whose weights add up to 100.
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

// take routes rules of a route, by index with the name under which each is had, to backends,
// and keeps what they routed to before. What the policy has in the route beyond them is given
// back, apart from rules that are wanted and not there. A rule that another policy has is
// taken from it, with what that policy kept.
func take(u *unstructured.Unstructured, policy string, held map[int]string, wanted []string, backends []any, t resources.Taken, scene providers.Scene) *unstructured.Unstructured {
	next := u.DeepCopy()
	rules, annotations := rulesOf(next), maps.Clone(next.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	own, other := resources.ReadTaken(annotations, policy), others(u, policy)
	had := holders(own, rules, scene.Releases)
	t.Before = map[string]json.RawMessage{}
	for _, i := range slices.Sorted(maps.Keys(held)) {
		t.Before[held[i]] = previous(rules[i], i, own, had, rulesOf(u), other, scene.Services)
		rules[i]["backendRefs"] = runtime.DeepCopyJSONValue(backends)
	}
	for i, name := range had {
		if _, still := held[i]; !still {
			setBackendRefs(rules[i], own.Before[name])
		}
	}
	if own != nil {
		for _, name := range wanted {
			if before, kept := own.Before[name]; kept && ruleNamed(rules, name) < 0 {
				t.Before[name] = before
			}
		}
	}
	for key, its := range other {
		if annotations[key] = its.String(); len(its.Before) == 0 {
			delete(annotations, key)
		}
	}
	annotations[resources.TakenKey(policy)] = t.String()
	next.SetAnnotations(annotations)
	return next
}

// previous is what a rule routed to before any policy had it. Where nothing is known of that,
// because the mark was taken off, it is what a user has set since.
func previous(rule map[string]any, index int, own *resources.Taken, had map[int]string, rules []map[string]any, other map[string]*resources.Taken, services map[string]bool) json.RawMessage {
	now := ofOthers(rule, services)
	if name, ok := had[index]; ok && (string(own.Before[name]) != nothing || string(now) == nothing) {
		return own.Before[name]
	}
	for _, key := range providers.Sorted(other) {
		if name, ok := holders(other[key], rules, nil)[index]; ok {
			text := other[key].Before[name]
			delete(other[key].Before, name)
			return text
		}
	}
	return now
}

// nothing is what backendRefsOf gives for a rule without any.
const nothing = "null"

// ofOthers are those backendRefs of a rule that are not the policy's own, which stay when
// a user takes the mark off.
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

// Restore is a route with the rules of a policy as they were before it took them, and
// the names of those that are not there any more.
func Restore(u *unstructured.Unstructured, policy string, releases map[string]bool) (next *unstructured.Unstructured, missing []string) {
	next = u.DeepCopy()
	rules := rulesOf(next)
	if t := resources.ReadTaken(u.GetAnnotations(), policy); t != nil {
		had := holders(t, rules, releases)
		for i, name := range had {
			setBackendRefs(rules[i], t.Before[name])
		}
		missing = slices.DeleteFunc(providers.Sorted(t.Before), func(name string) bool { return slices.Contains(slices.Collect(maps.Values(had)), name) })
	}
	return Disown(next, policy), missing
}

// Managed is what a policy has in a route, the same for equal content: its mark, and the
// backendRefs of its rules.
func Managed(u *unstructured.Unstructured, policy string, releases map[string]bool) string {
	out, rules := u.GetAnnotations()[resources.TakenKey(policy)], rulesOf(u)
	had := holders(resources.ReadTaken(u.GetAnnotations(), policy), rules, releases)
	for _, i := range slices.Sorted(maps.Keys(had)) {
		out += " " + had[i] + " " + string(backendRefsOf(rules[i]))
	}
	return out
}

// Disown is a route without the mark of a policy: its rules stay as they are.
func Disown(u *unstructured.Unstructured, policy string) *unstructured.Unstructured {
	next := u.DeepCopy()
	annotations := next.GetAnnotations()
	delete(annotations, resources.TakenKey(policy))
	next.SetAnnotations(annotations)
	return next
}

// Previous are the Services of the policy's namespace that its rules in a route routed to
// before.
func Previous(u *unstructured.Unstructured, policy string) (services []string) {
	t := resources.ReadTaken(u.GetAnnotations(), policy)
	if t == nil {
		return nil
	}
	for _, text := range t.Before {
		var refs []gatewayv1.BackendRef
		if err := json.Unmarshal(text, &refs); err != nil {
			continue
		}
		for _, b := range refs {
			if deref(b.Group) == "" && (b.Kind == nil || *b.Kind == "Service") && (b.Namespace == nil || string(*b.Namespace) == u.GetNamespace()) && (b.Weight == nil || *b.Weight > 0) {
				services = append(services, string(b.Name))
			}
		}
	}
	slices.Sort(services)
	return slices.Compact(services)
}

// operation is one of a JSON patch (RFC 6902).
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// Patch is the JSON patch that makes a route that was read what it is to be: the
// backendRefs of rules, and annotations of ours, and nothing else. The server takes it
// for the state only that was read, so that a rule's index is that of the same rule.
// Nil: nothing differs.
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
		panic(err) // It holds what was read as JSON, and text.
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

// typed is a route in the project's types, which are the same in all versions of a
// kind; nil: the kind is unknown, or its content no route.
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
