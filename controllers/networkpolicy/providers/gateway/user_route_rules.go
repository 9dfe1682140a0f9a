package gateway

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
	"github.com/heighliner/heighliner/controllers/networkpolicy/resources"
)

// A user-managed route is processed with all of its fields, including fields that the Go types
// lack, so that no field is lost when the route is read and written.

// maxBefore is the maximum size of the stored backendRefs of one rule, in bytes. The annotations of
// an object must not exceed 256 KiB, and a route has at most 16 rules.
const maxBefore = 12 << 10

// others returns the records of the rules that other policies manage in a route, by annotation key.
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

// holders returns the recorded names of the rules that a policy manages, by rule index. If a user
// renames or copies a rule that the policy took over, the renamed rule or the copy still splits
// requests between the policy's releases, and only the policy can end this split. holders returns
// such a rule under its own name if that name is recorded. Otherwise, holders returns the rule
// under a recorded name that no longer belongs to a rule or, if there is no such name, under the
// first recorded name. A rule that routes to the policy's Services in another way, such as a user's
// own rule for a preview, is not included.
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

// take returns a route in which the held rules route to the backends, and records the previous
// backendRefs of these rules. held maps the index of each of these rules to its recorded name. The
// other rules that the policy managed before are restored, and their records are removed. However,
// a record whose name is in wanted is retained if ruleNamed finds no rule with that name. A rule that
// another policy manages is taken over from that policy, together with the record of the rule.
func take(u *unstructured.Unstructured, policy string, held map[int]string, wanted []string, backends []any, t resources.Taken, input providers.Input) *unstructured.Unstructured {
	next := u.DeepCopy()
	rules, annotations := rulesOf(next), maps.Clone(next.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	own, other := resources.ReadTaken(annotations, policy), others(u, policy)
	had := holders(own, rules, input.Releases)
	t.Before = map[string]json.RawMessage{}
	for _, i := range slices.Sorted(maps.Keys(held)) {
		t.Before[held[i]] = previous(rules[i], i, own, had, rulesOf(u), other, input.Services)
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

// previous returns the backendRefs that a rule had before any policy took it over. If these
// backendRefs are unknown because a user removed the annotation, previous returns the backendRefs
// that a user has set since the rule was taken over.
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

// Restore returns a route in which the rules that a policy manages have their previous backendRefs. It
// also returns the recorded names of those rules that no longer exist.
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

// Managed returns a string that contains the annotation of a policy in a route, and the backendRefs of
// the rules that the policy manages. Equal content results in equal strings.
func Managed(u *unstructured.Unstructured, policy string, releases map[string]bool) string {
	out, rules := u.GetAnnotations()[resources.TakenKey(policy)], rulesOf(u)
	had := holders(resources.ReadTaken(u.GetAnnotations(), policy), rules, releases)
	for _, i := range slices.Sorted(maps.Keys(had)) {
		out += " " + had[i] + " " + string(backendRefsOf(rules[i]))
	}
	return out
}

// Disown returns a route without the annotation of a policy. The rules of the route stay as they
// are.
func Disown(u *unstructured.Unstructured, policy string) *unstructured.Unstructured {
	next := u.DeepCopy()
	annotations := next.GetAnnotations()
	delete(annotations, resources.TakenKey(policy))
	next.SetAnnotations(annotations)
	return next
}

// Previous returns the Services in the route's namespace to which the policy's rules routed before
// the policy took them over.
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
