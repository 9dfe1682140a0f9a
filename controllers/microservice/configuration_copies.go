package microservice

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/microservice/resources"
	"github.com/heighliner/heighliner/internal/apply"
	"github.com/heighliner/heighliner/internal/status"
)

// observeCopies reads the existing copies: ConfigMaps from the cache, Secrets from the API server.
// Objects that only resemble copies belong to other users, and are not changed.
func (r *Reconciler) observeCopies(ctx context.Context, o *observed) (readable bool, err error) {
	var list corev1.ConfigMapList
	if err := r.List(ctx, &list, client.InNamespace(o.ms.Namespace), client.MatchingFields{indexCopies: o.ms.Name}); err != nil {
		return false, fmt.Errorf("list copies of ConfigMaps: %w", err)
	}
	for i := range list.Items {
		o.found(resources.KindConfigMap, &list.Items[i])
	}
	if !o.secrets {
		return true, nil
	}
	secrets, err := r.labelled(ctx, resources.KindSecret, client.InNamespace(o.ms.Namespace), client.MatchingLabels{v1alpha1.LabelMicroservice: o.ms.Name})
	switch {
	case apierrors.IsForbidden(err):
		o.problem = forbidden(o.ms.Namespace, err)
		return false, nil
	case err != nil:
		return false, err
	}
	for _, secret := range secrets {
		o.found(resources.KindSecret, secret)
	}
	return true, nil
}

// found adds an object to the observed copies if it is a copy.
func (o *observed) found(kind string, obj client.Object) {
	if o.isCopy(obj) {
		o.copies[resources.Source{Kind: kind, Name: obj.GetName()}] = obj
	}
}

func (o *observed) isCopy(obj client.Object) bool {
	_, release := resources.ReleaseOfCopy(obj)
	return resources.IsCopy(obj, o.ms, o.objects[release])
}

// proveLost reads from the API server the copies that the cache does not contain, so that a lagging cache is
// not mistaken for a deletion by a user.
func (r *Reconciler) proveLost(ctx context.Context, o *observed) error {
	for _, object := range o.objects {
		for _, s := range o.lost(object) {
			if s.Kind == resources.KindSecret {
				continue // Secrets were listed from the API server, not from the cache
			}
			obj, err := r.source(ctx, o.ms.Namespace, s, true)
			switch {
			case err != nil:
				return fmt.Errorf("get copy %s: %w", s, err)
			case obj != nil:
				o.found(s.Kind, obj)
			}
		}
	}
	return nil
}

// kindsOfCopies returns the kinds of the copies that releases of a Microservice may have.
func kindsOfCopies(ms *v1alpha1.Microservice) []string {
	if c := ms.Spec.Configuration; c != nil && c.Track == v1alpha1.TrackAll {
		return []string{resources.KindConfigMap, resources.KindSecret}
	}
	return []string{resources.KindConfigMap}
}

// labelled reads from the API server the ConfigMaps or Secrets that have certain labels. They are not necessarily copies.
func (r *Reconciler) labelled(ctx context.Context, kind string, which ...client.ListOption) (found []client.Object, err error) {
	var list client.ObjectList = &corev1.ConfigMapList{}
	if kind == resources.KindSecret {
		list = &corev1.SecretList{}
	}
	if err := r.live.List(ctx, list, which...); err != nil {
		return nil, fmt.Errorf("list copies of %ss: %w", kind, err)
	}
	err = meta.EachListItem(list, func(obj runtime.Object) error {
		found = append(found, obj.(client.Object))
		return nil
	})
	return found, err
}

// copyAll creates a release's copies of the current configuration.
func (r *Reconciler) copyAll(ctx context.Context, w *pass, release string, owner client.Object) error {
	var errs []error
	for _, s := range slices.SortedFunc(maps.Keys(w.contents), func(a, b resources.Source) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	}) {
		if w.contents[s] != "" {
			errs = append(errs, r.copy(ctx, w, release, s, owner))
		}
	}
	return errors.Join(errs...)
}

// copy creates a release's copy of a source. The copy contains exactly the content from which the release's
// identity was computed. If the content has changed since then, copy returns a conflict, and the plan is
// dropped.
func (r *Reconciler) copy(ctx context.Context, w *pass, release string, s resources.Source, owner client.Object) error {
	from, err := r.source(ctx, w.ms.Namespace, s, true)
	if err != nil {
		return fmt.Errorf("get %s: %w", s, err)
	}
	if from == nil || hashOf(from) != w.contents[s] {
		return apierrors.NewConflict(schema.GroupResource{Resource: strings.ToLower(s.Kind) + "s"}, s.Name, errors.New("it has changed since the plan was computed"))
	}
	var made, there client.Object
	switch from := from.(type) {
	case *corev1.Secret:
		made, there = resources.CopySecret(w.ms, release, from), &corev1.Secret{}
	case *corev1.ConfigMap:
		made, there = resources.CopyConfigMap(w.ms, release, from), &corev1.ConfigMap{}
	}
	if err := controllerutil.SetControllerReference(owner, made, r.Scheme()); err != nil {
		return fmt.Errorf("set the owner of the copy of %s: %w", s, err)
	}
	err = r.Create(ctx, made, client.FieldOwner(FieldOwner))
	switch {
	case err == nil:
		return nil
	case apierrors.IsForbidden(err) && s.Kind == resources.KindSecret:
		return forbidden(w.ms.Namespace, err)
	case !apierrors.IsAlreadyExists(err):
		return fmt.Errorf("copy %s: %w", s, err)
	}
	if err := r.live.Get(ctx, client.ObjectKeyFromObject(made), there); err != nil {
		return fmt.Errorf("get copy of %s: %w", s, err)
	}
	switch {
	case !there.GetDeletionTimestamp().IsZero():
		return &apply.TerminatingError{Kind: s.Kind, Namespace: there.GetNamespace(), Name: there.GetName()}
	case !w.isCopy(there) || hashOf(there) != w.contents[s]:
		return &apply.ForeignError{Kind: s.Kind, Namespace: there.GetNamespace(), Name: there.GetName()}
	}
	// The copy may belong to a previous object of the release, and may be about to be garbage collected.
	return r.handOver(ctx, there, owner)
}

// handOver makes the given owner the owner of a copy, and removes any previous owner whose kind is in the API group hlnr.io.
func (r *Reconciler) handOver(ctx context.Context, obj, owner client.Object) error {
	if metav1.IsControlledBy(obj, owner) {
		return nil
	}
	before := obj.DeepCopyObject().(client.Object)
	obj.SetOwnerReferences(withoutOurs(obj.GetOwnerReferences()))
	if err := controllerutil.SetControllerReference(owner, obj, r.Scheme()); err != nil {
		return fmt.Errorf("set the owner of copy %q: %w", obj.GetName(), err)
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.Patch(ctx, obj, patch, client.FieldOwner(FieldOwner)); err != nil {
		return fmt.Errorf("write the owner of copy %q: %w", obj.GetName(), err)
	}
	return nil
}

// withoutOurs returns the owners whose kinds are not in the API group hlnr.io.
func withoutOurs(owners []metav1.OwnerReference) []metav1.OwnerReference {
	return slices.DeleteFunc(slices.Clone(owners), func(o metav1.OwnerReference) bool {
		return o.APIVersion == v1alpha1.GroupVersion.String()
	})
}

// orphanCopies keeps a release's copies when the Microservice is deleted. It removes their owner, and the labels
// and annotation that claim them, so that another Microservice with the same name does not manage them.
func (r *Reconciler) orphanCopies(ctx context.Context, ms *v1alpha1.Microservice, name string) error {
	release := &v1alpha1.VersionedMicroservice{}
	err := r.live.Get(ctx, client.ObjectKey{Namespace: ms.Namespace, Name: name}, release)
	switch {
	case apierrors.IsNotFound(err):
		release = nil
	case err != nil:
		return fmt.Errorf("get release %q: %w", name, err)
	case !metav1.IsControlledBy(release, ms):
		release = nil
	}
	for _, kind := range kindsOfCopies(ms) {
		copies, err := r.labelled(ctx, kind, client.InNamespace(ms.Namespace), client.MatchingLabels{v1alpha1.LabelRelease: name})
		if err != nil {
			return err
		}
		for _, obj := range copies {
			if !resources.IsCopy(obj, ms, release) {
				continue
			}
			before := obj.DeepCopyObject().(client.Object)
			obj.SetOwnerReferences(withoutOurs(obj.GetOwnerReferences()))
			resources.Unclaim(obj)
			patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
			if err := r.Patch(ctx, obj, patch, client.FieldOwner(FieldOwner)); client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("remove the owner of %s %q: %w", kind, obj.GetName(), err)
			}
		}
	}
	return nil
}

// applyCopies sets existing releases as the owners of their copies, recreates deleted copies if their
// content is still known, and deletes copies whose release was never created.
func (r *Reconciler) applyCopies(ctx context.Context, w *pass) error {
	var errs []error
	for _, obj := range w.copies {
		_, release := resources.ReleaseOfCopy(obj)
		object := w.objects[release]
		switch {
		case !obj.GetDeletionTimestamp().IsZero():
		case object != nil && object.DeletionTimestamp.IsZero():
			errs = append(errs, r.handOver(ctx, obj, object))
		case object == nil && !w.expects(release):
			errs = append(errs, r.drop(ctx, w, obj))
		}
	}
	for _, object := range w.objects {
		if object.DeletionTimestamp.IsZero() && w.present(object) && len(w.lost(object)) > 0 {
			errs = append(errs, r.copyAll(ctx, w, object.Name, object))
		}
	}
	return errors.Join(errs...)
}

// drop deletes a copy that does not belong to a release, once the copy is older than unclaimed.
func (r *Reconciler) drop(ctx context.Context, w *pass, obj client.Object) error {
	if wait := unclaimed - r.clock.Since(obj.GetCreationTimestamp().Time); wait > 0 {
		w.requeueIn(wait)
		return nil
	}
	uid, version := obj.GetUID(), obj.GetResourceVersion()
	if err := r.Delete(ctx, obj, client.Preconditions{UID: &uid, ResourceVersion: &version}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete copy %q: %w", obj.GetName(), err)
	}
	return nil
}

// expects reports whether a release is in the rollout state, or is about to be created.
func (w *pass) expects(name string) bool {
	for _, g := range w.plan.State.Groups {
		if g.Row(name) != nil {
			return true
		}
	}
	return planned(w.plan.Result, name)
}

// present reports whether a release has the current configuration.
func (o *observed) present(object *v1alpha1.VersionedMicroservice) bool {
	return o.config != "" && object.Annotations[resources.AnnotationConfig] == o.config
}

// lost returns a release's missing copies: all of them if the release has the current configuration, and
// otherwise only those that its pods require to start.
func (o *observed) lost(object *v1alpha1.VersionedMicroservice) []resources.Source {
	needed := resources.Copies(object)
	if o.present(object) {
		needed = nil
		for s, hash := range o.contents {
			if hash != "" {
				needed = append(needed, resources.Source{Kind: s.Kind, Name: resources.CopyName(object.Name, s)})
			}
		}
	}
	return slices.DeleteFunc(needed, func(s resources.Source) bool {
		return o.copies[s] != nil || s.Kind == resources.KindSecret && !o.secrets
	})
}

// setConfigurationLost reports the releases that can no longer start pods, because their copies were deleted
// and the content of these copies is not known.
func setConfigurationLost(w *pass) {
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(w.objects)) {
		object := w.objects[name]
		if lost := w.lost(object); len(lost) > 0 && !w.present(object) && object.DeletionTimestamp.IsZero() {
			lines = append(lines, fmt.Sprintf("%s (%s) lacks %s", object.Spec.SemVer.Version, name, lost[0]))
		}
	}
	conds := &w.ms.Status.Conditions
	if len(lines) == 0 {
		status.Remove(conds, v1alpha1.ConditionConfigurationLost)
		return
	}
	status.Set(conds, w.ms.Generation, v1alpha1.ConditionConfigurationLost, metav1.ConditionTrue, v1alpha1.ConditionConfigurationLost,
		"releases cannot start pods, because copies of their configuration were deleted: "+strings.Join(lines, ", "))
}
