// Package apply writes child objects. It writes the full intent of a field owner with server-side apply, and only if the
// live object differs from the intent.
//
//	apply.go      server-side apply, skipped if nothing differs
//	drift.go      checks whether a live object was changed by others and must be written again
//	share.go      server-side apply of some fields of another owner's object
//	matches.go    objects that already match their intent
//	deletions.go  recently deleted objects
//	finalizer.go  adds and removes finalizers
package apply

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// AnnotationApplied is the annotation that contains the hash of the intent that was last applied to an object. The hash
// and a comparison of the intended fields show whether a write is needed.
const AnnotationApplied = "hlnr.io/applied"

// Outcome is the result of Apply.
type Outcome string

// The outcomes of Apply.
const (
	Unchanged Outcome = "Unchanged"
	Created   Outcome = "Created"
	Updated   Outcome = "Updated"
)

// ForeignError reports that an object with the desired name exists and is not controlled by the
// owner. Nothing was written.
type ForeignError struct {
	// Kind, Namespace and Name identify the object that exists.
	Kind, Namespace, Name string
	// Controller is the kind and name of the object's controlling owner. It is empty if there is no such owner.
	Controller string
}

// Error describes the object and the fix.
func (e *ForeignError) Error() string {
	owner := "is not controlled by Heighliner"
	if e.Controller != "" {
		owner = "is controlled by " + e.Controller
	}
	return fmt.Sprintf("%s %q exists and %s: delete it or re-create it under another name, or re-create the object that needs this name under another name", e.Kind, e.Name, owner)
}

// TerminatingError reports that the object with the desired name is being deleted. The caller must
// wait until the object no longer exists.
type TerminatingError struct {
	// Kind, Namespace and Name identify the object that is being deleted.
	Kind, Namespace, Name string
}

// Error describes the object.
func (e *TerminatingError) Error() string {
	return fmt.Sprintf("%s %q is being deleted: waiting for the deletion to complete", e.Kind, e.Name)
}

// Writer writes child objects with server-side apply, always as the same field owner.
type Writer struct {
	// Client reads and writes. Reads use its cache, if it has one.
	Client client.Client
	// Live reads without a cache before an object is created, so that a foreign object that is
	// not in the cache is not overwritten. Defaults to Client.
	Live client.Reader
	// Owner is the field manager of all writes.
	Owner string
	// Deletions remembers deleted objects, so that a stale cache does not cause a second
	// deletion. It may be nil.
	Deletions *Deletions
	// Matches remembers which objects already match their intent, so that these objects are not
	// compared again. It may be nil.
	Matches *Matches
}

// Apply applies desired, and removes fields that are in an earlier intent of this Writer's Owner but not in desired. It
// sets the controller reference to owner, and writes nothing if the live object already matches the intent.
//
// desired must have a name, a namespace, and a kind that the client's scheme contains. Its status
// is ignored, and desired is not changed. A resourceVersion or UID in desired is a precondition of
// the write. If the precondition is not met, the error is a conflict.
//
// The error is a *ForeignError if an object with that name exists but is not controlled by owner
// (compared by UID), and a *TerminatingError if that object is being deleted.
func (w Writer) Apply(ctx context.Context, owner, desired client.Object) (Outcome, error) {
	digest, err := w.Matches.digest(owner, desired)
	if err != nil {
		return "", err
	}
	live, err := w.read(ctx, w.Client, desired)
	if err != nil {
		return "", err
	}
	if live != nil && w.Matches.have(live, digest) && w.Claim(owner, live) == nil {
		return Unchanged, nil
	}
	intent, err := w.intent(owner, desired)
	if err != nil {
		return "", err
	}
	if live == nil {
		// The cache might not contain the object yet, or the object might lack the labels that the
		// cache requires.
		if live, err = w.read(ctx, w.live(), desired); err != nil {
			return "", err
		}
	}
	if live == nil {
		return w.create(ctx, desired, intent)
	}
	outcome, same, err := w.update(ctx, owner, live, desired, intent)
	if same {
		w.Matches.note(live, digest)
	}
	return outcome, err
}

// Delete deletes the object that obj identifies, if owner (compared by UID) controls it and it is not
// already being deleted. The UID of the object, and obj's resourceVersion if it is set, are preconditions. Omit the
// resourceVersion if the decision to delete the object does not depend on its state. A missing object is
// not an error. For a foreign object, the error is a *ForeignError.
func (w Writer) Delete(ctx context.Context, owner, obj client.Object) error {
	live, err := w.read(ctx, w.Client, obj)
	if err != nil || live == nil {
		return err
	}
	if err := w.Claim(owner, live); err != nil {
		if terminating := new(TerminatingError); errors.As(err, &terminating) {
			return nil
		}
		return err
	}
	pre := client.Preconditions{UID: uidOf(obj)}
	if pre.UID == nil {
		pre.UID = uidOf(live)
	}
	if w.Deletions.have(*pre.UID) {
		return nil
	}
	if v := obj.GetResourceVersion(); v != "" {
		pre.ResourceVersion = &v
	}
	if err := w.Client.Delete(ctx, live, pre); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete %s %q: %w", w.kind(obj), obj.GetName(), err)
	}
	w.Deletions.note(*pre.UID)
	w.Matches.forget(*pre.UID)
	return nil
}

// create applies an intent without force, so that a foreign object that was created after the live read causes a
// conflict.
func (w Writer) create(ctx context.Context, desired client.Object, intent *unstructured.Unstructured) (Outcome, error) {
	if desired.GetUID() != "" || desired.GetResourceVersion() != "" {
		return "", conflict(intent, "the object that the caller read was deleted")
	}
	if err := w.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(intent), client.FieldOwner(w.Owner)); err != nil {
		return "", fmt.Errorf("create %s %q: %w", intent.GetKind(), intent.GetName(), err)
	}
	return Created, nil
}

// update applies an intent with force. The UID of the object that was read is a precondition. same
// reports whether the object that was read already matches the intent.
func (w Writer) update(ctx context.Context, owner, live, desired client.Object, intent *unstructured.Unstructured) (outcome Outcome, same bool, err error) {
	if err := w.Claim(owner, live); err != nil {
		return "", false, err
	}
	if same, err = carries(live, intent); err != nil {
		return "", false, fmt.Errorf("compare %s %q: %w", intent.GetKind(), intent.GetName(), err)
	}
	if same {
		return Unchanged, true, nil
	}
	if uid := desired.GetUID(); uid != "" && uid != live.GetUID() {
		return "", false, conflict(intent, "the object that the caller read was replaced")
	}
	intent.SetUID(live.GetUID())
	expected := desired.GetResourceVersion()
	if w.Matches.haveReplaced(live.GetUID(), expected) {
		return "", false, conflict(intent, "the object that the caller read is older than the last write to it")
	}
	intent.SetResourceVersion(expected)
	if err := w.force(ctx, intent); err != nil {
		return "", false, err
	}
	if intent.GetResourceVersion() != expected {
		w.Matches.noteReplaced(live.GetUID(), expected)
	}
	if intent.GetResourceVersion() == live.GetResourceVersion() {
		return Unchanged, false, nil // The API server or a webhook reverted the change.
	}
	return Updated, false, nil
}

// force applies an intent with force. If the UID of the object differs from the UID in the intent, the error is a conflict.
func (w Writer) force(ctx context.Context, intent *unstructured.Unstructured) error {
	err := w.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(intent), client.FieldOwner(w.Owner), client.ForceOwnership)
	switch {
	case err == nil:
		return nil
	case apierrors.IsInvalid(err) && names(err, "metadata.uid"):
		return conflict(intent, "the object was replaced")
	}
	return fmt.Errorf("apply %s %q: %w", intent.GetKind(), intent.GetName(), err)
}

// conflict returns the error for a precondition that is not met.
func conflict(intent *unstructured.Unstructured, cause string) error {
	resource := schema.GroupResource{Group: intent.GroupVersionKind().Group, Resource: strings.ToLower(intent.GetKind())}
	return fmt.Errorf("apply %s %q: %w", intent.GetKind(), intent.GetName(), apierrors.NewConflict(resource, intent.GetName(), errors.New(cause)))
}

// names reports whether an error from the API server is about a field.
func names(err error, field string) bool {
	answer := new(apierrors.StatusError)
	if !errors.As(err, &answer) || answer.ErrStatus.Details == nil {
		return false
	}
	for _, cause := range answer.ErrStatus.Details.Causes {
		if cause.Field == field {
			return true
		}
	}
	return false
}

// intent returns the object to apply: a copy of desired with the owner reference and the hash of the intent.
func (w Writer) intent(owner, desired client.Object) (*unstructured.Unstructured, error) {
	gvk, err := apiutil.GVKForObject(desired, w.Client.Scheme())
	if err != nil {
		return nil, fmt.Errorf("find kind of %q: %w", desired.GetName(), err)
	}
	own := desired.DeepCopyObject().(client.Object)
	if err := controllerutil.SetControllerReference(owner, own, w.Client.Scheme()); err != nil {
		return nil, fmt.Errorf("set owner of %s %q: %w", gvk.Kind, desired.GetName(), err)
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(own)
	if err != nil {
		return nil, fmt.Errorf("convert %s %q: %w", gvk.Kind, desired.GetName(), err)
	}
	u := &unstructured.Unstructured{Object: content}
	u.SetGroupVersionKind(gvk)
	delete(content, "status")
	for _, field := range []string{"creationTimestamp", "managedFields", "generation", "resourceVersion", "uid", "selfLink", "deletionTimestamp"} {
		unstructured.RemoveNestedField(content, "metadata", field)
	}
	dropNulls(content)
	setFalse(u)
	hash, err := Hash(content)
	if err != nil {
		return nil, fmt.Errorf("hash %s %q: %w", gvk.Kind, desired.GetName(), err)
	}
	annotations := u.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[AnnotationApplied] = hash
	u.SetAnnotations(annotations)
	return u, nil
}

// read gets the object that obj identifies, as a typed object that callers must not change, because the cache may share it. It returns
// nil if the object does not exist.
func (w Writer) read(ctx context.Context, from client.Reader, obj client.Object) (client.Object, error) {
	gvk, err := apiutil.GVKForObject(obj, w.Client.Scheme())
	if err != nil {
		return nil, fmt.Errorf("find kind of %q: %w", obj.GetName(), err)
	}
	fresh, err := w.Client.Scheme().New(gvk)
	if err != nil {
		return nil, fmt.Errorf("make %s: %w", gvk.Kind, err)
	}
	live, ok := fresh.(client.Object)
	if !ok {
		return nil, fmt.Errorf("make %s: %T has no object metadata", gvk.Kind, fresh)
	}
	err = from.Get(ctx, client.ObjectKeyFromObject(obj), live, client.UnsafeDisableDeepCopy)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get %s %q: %w", gvk.Kind, obj.GetName(), err)
	}
	return live, nil
}

// Claim checks whether owner may write to the live object. It returns a *TerminatingError if
// the object is being deleted, and a *ForeignError if owner (compared by UID) does not control it.
func (w Writer) Claim(owner, live client.Object) error {
	kind := w.kind(live)
	if live.GetDeletionTimestamp() != nil {
		return &TerminatingError{Kind: kind, Namespace: live.GetNamespace(), Name: live.GetName()}
	}
	if metav1.IsControlledBy(live, owner) {
		return nil
	}
	foreign := &ForeignError{Kind: kind, Namespace: live.GetNamespace(), Name: live.GetName()}
	if ref := metav1.GetControllerOf(live); ref != nil {
		foreign.Controller = fmt.Sprintf("%s %q", ref.Kind, ref.Name)
	}
	return foreign
}

func (w Writer) live() client.Reader {
	if w.Live != nil {
		return w.Live
	}
	return w.Client
}

func (w Writer) kind(obj client.Object) string {
	gvk, err := apiutil.GVKForObject(obj, w.Client.Scheme())
	if err != nil {
		return fmt.Sprintf("%T", obj)
	}
	return gvk.Kind
}

// Hash returns a hash of a value's JSON as 32 hexadecimal digits.
func Hash(value any) (string, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16]), nil
}

func uidOf(obj client.Object) *types.UID {
	uid := obj.GetUID()
	if uid == "" {
		return nil
	}
	return &uid
}
