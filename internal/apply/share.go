package apply

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Share applies fields of an object that another owner manages, such as the image of a user's CronJob, and
// removes fields that were in an earlier intent of this Writer's Owner but are not in intent. It takes ownership of
// fields that other field managers set to other values, sets no owner reference, creates no object, and writes
// nothing if live already matches intent.
//
// intent must have the kind and the name of live. Share adds AnnotationApplied to its annotations.
// If the object has been deleted and created again since it was read, the error is a conflict.
func (w Writer) Share(ctx context.Context, live client.Object, intent *unstructured.Unstructured) (Outcome, error) {
	if live.GetDeletionTimestamp() != nil {
		return Unchanged, nil
	}
	hash, err := Hash(intent.Object)
	if err != nil {
		return "", fmt.Errorf("hash %s %q: %w", intent.GetKind(), intent.GetName(), err)
	}
	annotations := intent.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[AnnotationApplied] = hash
	intent.SetAnnotations(annotations)
	same, err := carries(live, intent)
	if err != nil {
		return "", fmt.Errorf("compare %s %q: %w", intent.GetKind(), intent.GetName(), err)
	}
	if same {
		return Unchanged, nil
	}
	intent.SetUID(live.GetUID())
	if err := w.force(ctx, intent); err != nil {
		return "", err
	}
	if intent.GetResourceVersion() == live.GetResourceVersion() {
		return Unchanged, nil // The API server or a webhook reverted the change.
	}
	return Updated, nil
}
