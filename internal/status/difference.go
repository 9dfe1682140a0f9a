package status

import (
	"bytes"
	"encoding/json"
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
	from, err := statusJSON(before)
	if err != nil {
		return nil, err
	}
	to, err := statusJSON(obj)
	if err != nil {
		return nil, err
	}
	if bytes.Equal(from, to) {
		return nil, nil
	}
	change, err := jsonpatch.CreateMergePatch(from, to)
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

// statusJSON encodes the status of an object.
func statusJSON(obj client.Object) ([]byte, error) {
	if u, ok := obj.(runtime.Unstructured); ok {
		status, ok := u.UnstructuredContent()["status"]
		if !ok {
			return []byte("{}"), nil
		}
		return json.Marshal(status)
	}
	field := reflect.Indirect(reflect.ValueOf(obj)).FieldByName("Status")
	if !field.IsValid() {
		return nil, fmt.Errorf("%T has no status", obj)
	}
	return json.Marshal(field.Interface())
}
