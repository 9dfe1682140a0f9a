package apply

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// SetFinalizer adds a finalizer to obj, or removes it if it is not needed, and reports whether it
// sent a write request. It does not change obj itself. A concurrent write causes a conflict. It is
// not an error if the object no longer exists.
func SetFinalizer(ctx context.Context, c client.Client, fieldOwner client.FieldOwner, obj client.Object, finalizer string, needed bool) (bool, error) {
	if needed == controllerutil.ContainsFinalizer(obj, finalizer) {
		return false, nil
	}
	next := obj.DeepCopyObject().(client.Object)
	if needed {
		controllerutil.AddFinalizer(next, finalizer)
	} else {
		controllerutil.RemoveFinalizer(next, finalizer)
	}
	patch := client.MergeFromWithOptions(obj, client.MergeFromWithOptimisticLock{})
	if err := c.Patch(ctx, next, patch, fieldOwner); client.IgnoreNotFound(err) != nil {
		return true, fmt.Errorf("set finalizers of %T %q: %w", obj, obj.GetName(), err)
	}
	return true, nil
}

// NamespaceGoes reports whether a namespace is being deleted or does not exist. live must not
// be a cache, because namespaces are not watched.
func NamespaceGoes(ctx context.Context, live client.Reader, name string) (bool, error) {
	var ns corev1.Namespace
	err := live.Get(ctx, client.ObjectKey{Name: name}, &ns)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("get Namespace %q: %w", name, err)
	}
	return err != nil || ns.DeletionTimestamp != nil, nil
}
