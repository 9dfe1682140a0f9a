package apply

import (
	"reflect"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// shared names the lists that server-side apply merges item by item: others may add
// items to them, which an apply would not take away. All other lists are one value.
var shared = map[string]bool{
	"containers": true, "initContainers": true, "env": true, "finalizers": true, "hostAliases": true,
	"imagePullSecrets": true, "ownerReferences": true, "ports": true, "topologySpreadConstraints": true,
	"volumeDevices": true, "volumeMounts": true, "volumes": true,
}

// whole names the maps that server-side apply takes as one value: a key that
// somebody added is a difference.
var whole = map[string]bool{"selector": true, "matchLabels": true, "nodeSelector": true}

// exact names the lists of which nothing may differ: a filter, or a match, that
// somebody added to a rule of a route leads the traffic elsewhere. All that the
// server would fill in there is spelled out by whoever builds them.
var exact = map[string]bool{"rules": true}

// carries says whether live still holds the whole intent, so that applying it would
// change nothing. The hash in the intent's annotations tells of fields that an
// earlier intent had and this one has not.
func carries(live client.Object, intent *unstructured.Unstructured) (bool, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(live)
	if err != nil {
		return false, err
	}
	// Reads of typed objects leave the kind out.
	content["apiVersion"], content["kind"] = intent.GetAPIVersion(), intent.GetKind()
	return within(content, intent.Object, ""), nil
}

// within says whether all of want is found in have. field is the name under which
// both are held.
func within(have, want any, field string) bool {
	switch want := want.(type) {
	case map[string]any:
		have, ok := have.(map[string]any)
		if !ok {
			return len(want) == 0
		}
		if whole[field] && len(have) != len(want) {
			return false
		}
		for key, value := range want {
			if !within(have[key], value, key) {
				return false
			}
		}
		return true
	case []any:
		have, _ := have.([]any)
		if shared[field] {
			return withinShared(have, want)
		}
		if exact[field] {
			return reflect.DeepEqual(have, want)
		}
		if len(have) != len(want) {
			return false
		}
		for i := range want {
			if !within(have[i], want[i], "") {
				return false
			}
		}
		return true
	case bool:
		have, _ := have.(bool) // Typed objects leave false out.
		return have == want
	default:
		return reflect.DeepEqual(have, want)
	}
}

func withinShared(have, want []any) bool {
	for _, item := range want {
		found := false
		for _, candidate := range have {
			found = found || within(candidate, item, "")
		}
		if !found {
			return false
		}
	}
	return true
}

// sayFalse spells out what typed objects leave out, and what must not be true: a
// Service that publishes addresses of pods that are not ready calls them ready.
func sayFalse(u *unstructured.Unstructured) {
	if u.GetAPIVersion() != "v1" || u.GetKind() != "Service" {
		return
	}
	if spec, ok := u.Object["spec"].(map[string]any); ok && spec["publishNotReadyAddresses"] == nil {
		spec["publishNotReadyAddresses"] = false
	}
}

// dropNulls takes absent values out, which a typed object cannot tell from unset
// ones.
func dropNulls(value any) {
	switch value := value.(type) {
	case map[string]any:
		for key, inner := range value {
			if inner == nil {
				delete(value, key)
				continue
			}
			dropNulls(inner)
		}
	case []any:
		for _, inner := range value {
			dropNulls(inner)
		}
	}
}
