package status

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Option changes how Patch writes.
type Option int

// These are the options for Patch.
const (
	// AtResourceVersion makes the resourceVersion of the object a precondition. If the object has
	// changed since it was read, the API server returns a conflict, and nothing is written.
	AtResourceVersion Option = iota
	// KnownFields makes the API server reject a status with fields that its CustomResourceDefinition
	// does not have, for example if the definition is older than the manager. By default, the API server drops such fields
	// without an error.
	KnownFields
)

// Patch writes the status of obj. before is obj as it was read, and owner is the field manager. Patch is the only
// status write of a reconcile. It sends no request if the status has not changed, and reports whether it wrote. obj
// and before may differ only in their status, because the API server ignores all other fields of obj.
//
// The API server returns only the metadata, because decoding the whole object costs more than the rest of the write. After a write, obj
// has the resourceVersion of the response.
func Patch(ctx context.Context, c client.Client, owner string, obj, before client.Object, options ...Option) (bool, error) {
	data, err := difference(obj, before, slices.Contains(options, AtResourceVersion))
	if err != nil {
		return false, fmt.Errorf("compare status of %q: %w", obj.GetName(), err)
	}
	if data == nil {
		return false, nil
	}
	how := []client.SubResourcePatchOption{client.FieldOwner(owner)}
	if slices.Contains(options, KnownFields) {
		how = append(how, client.FieldValidation(metav1.FieldValidationStrict))
	}
	written, err := metadataOf(c, obj)
	if err != nil {
		return false, fmt.Errorf("write status of %q: %w", obj.GetName(), err)
	}
	if err := c.Status().Patch(ctx, written, client.RawPatch(types.MergePatchType, data), how...); err != nil {
		return false, fmt.Errorf("write status of %q: %w", obj.GetName(), err)
	}
	obj.SetResourceVersion(written.GetResourceVersion())
	return true, nil
}

// metadataOf returns an object that identifies obj, and for which the API server returns only metadata.
func metadataOf(c client.Client, obj client.Object) (*metav1.PartialObjectMetadata, error) {
	gvk, err := c.GroupVersionKindFor(obj)
	if err != nil {
		return nil, err
	}
	out := &metav1.PartialObjectMetadata{}
	out.SetGroupVersionKind(gvk)
	out.SetNamespace(obj.GetNamespace())
	out.SetName(obj.GetName())
	return out, nil
}
