package status

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// difference returns the merge patch from before's status to obj's status, or nil if the statuses are equal. If locked is set, the
// patch contains before's resourceVersion as a precondition. The rest of the objects, such as pod templates, is neither encoded nor
// compared.
func difference(obj, before client.Object, locked bool) ([]byte, error) {
	was, err := statusOf(before)
	if err != nil {
		return nil, err
	}
	is, err := statusOf(obj)
	if err != nil {
		return nil, err
	}
	if reflect.DeepEqual(was, is) { // Most reconciles change nothing, and a comparison costs less than two encodings.
		return nil, nil
	}
	from, err := json.Marshal(was)
	if err != nil {
		return nil, err
	}
	to, err := json.Marshal(is)
	if err != nil {
		return nil, err
	}
	if bytes.Equal(from, to) {
		return nil, nil
	}
	change, err := mergePatch(from, to)
	if err != nil {
		return nil, err
	}
	if string(change) == "{}" {
		return nil, nil
	}
	patch := struct {
		Metadata *precondition   `json:"metadata,omitempty"`
		Status   json.RawMessage `json:"status"`
	}{Status: change}
	if locked {
		patch.Metadata = &precondition{before.GetResourceVersion()}
	}
	return json.Marshal(patch)
}

// precondition is the metadata of a patch that must not overwrite a change by another writer.
type precondition struct {
	ResourceVersion string `json:"resourceVersion"`
}

// statusOf returns the status of an object: a pointer to the field, or the value in an untyped object.
func statusOf(obj client.Object) (any, error) {
	if u, ok := obj.(runtime.Unstructured); ok {
		status, ok := u.UnstructuredContent()["status"]
		if !ok {
			return map[string]any{}, nil
		}
		return status, nil
	}
	field := reflect.Indirect(reflect.ValueOf(obj)).FieldByName("Status")
	if !field.IsValid() {
		return nil, fmt.Errorf("%T has no status", obj)
	}
	return field.Addr().Interface(), nil
}

// mergePatch returns the JSON merge patch (RFC 7386) from one object to another. Only fields that differ are decoded, because most of a
// status does not change. Both encodings must be canonical.
func mergePatch(from, to []byte) ([]byte, error) {
	var was, is map[string]json.RawMessage
	if err := errors.Join(json.Unmarshal(from, &was), json.Unmarshal(to, &is)); err != nil {
		return nil, err
	}
	patch := map[string]json.RawMessage{}
	for field, value := range is {
		switch old := was[field]; {
		case bytes.Equal(old, value):
		case isObject(old) && isObject(value):
			change, err := jsonpatch.CreateMergePatch(old, value)
			if err != nil {
				return nil, err
			}
			patch[field] = change
		default:
			patch[field] = value
		}
	}
	for field := range was {
		if _, ok := is[field]; !ok {
			patch[field] = json.RawMessage("null")
		}
	}
	return json.Marshal(patch)
}

func isObject(value json.RawMessage) bool { return len(value) > 0 && value[0] == '{' }
