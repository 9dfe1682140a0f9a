package apply

import (
	"reflect"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// shared contains the lists that server-side apply merges item by item. Other field managers may add items,
// and an apply does not remove these items. All other lists are atomic.
var shared = map[string]bool{
	"containers": true, "initContainers": true, "env": true, "finalizers": true, "hostAliases": true,
	"imagePullSecrets": true, "listeners": true, "ownerReferences": true, "ports": true, "topologySpreadConstraints": true,
	"volumeDevices": true, "volumeMounts": true, "volumes": true,
}

// whole contains the maps that are atomic in server-side apply. An added key counts as a difference.
var whole = map[string]bool{"selector": true, "matchLabels": true, "nodeSelector": true}

// exact contains the lists that must be equal to those of the intent, because an addition by another field manager, such as a
// filter or a match in a route rule, or a listener in a parent reference, changes the routing. "http" contains the rules of an
// ApisixRoute. Builders of these lists set all defaults explicitly.
var exact = map[string]bool{"rules": true, "parentRefs": true, "http": true}

// carries reports whether live contains the whole intent, in which case an apply would change
// nothing. If an earlier intent had fields that this intent lacks, the hash in the annotations differs, so
// carries returns false.
func carries(live client.Object, intent *unstructured.Unstructured) (bool, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(live)
	if err != nil {
		return false, err
	}
	// Typed objects that were read may have no apiVersion and kind.
	content["apiVersion"], content["kind"] = intent.GetAPIVersion(), intent.GetKind()
	return within(content, intent.Object, ""), nil
}

// within reports whether have contains want. Both are values of the same field.
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
		have, _ := have.(bool) // Typed objects omit false.
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

// setFalse explicitly sets publishNotReadyAddresses of a Service to false if the typed object omits it, so that an apply
// resets the field if another field manager sets it to true. If the field is true, the Service publishes addresses of pods
// that are not ready, and reports them as ready.
func setFalse(u *unstructured.Unstructured) {
	if u.GetAPIVersion() != "v1" || u.GetKind() != "Service" {
		return
	}
	if spec, ok := u.Object["spec"].(map[string]any); ok && spec["publishNotReadyAddresses"] == nil {
		spec["publishNotReadyAddresses"] = false
	}
}

// dropNulls removes nulls, because typed objects cannot distinguish nulls from unset values.
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
