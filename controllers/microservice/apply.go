package microservice

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/microservice/resources"
	"github.com/heighliner/heighliner/internal/apply"
	"github.com/heighliner/heighliner/internal/release"
)

// bringUp makes, revives and enlarges releases: all that may come before the
// ledger is written.
func (r *Reconciler) bringUp(ctx context.Context, w *world, plan release.Plan) error {
	var errs []error
	for _, e := range plan.Ensure {
		if e.Create {
			errs = append(errs, r.create(ctx, w, e))
			continue
		}
		errs = append(errs, r.resize(ctx, w, e.Release, e.Replicas, e.Stamp))
	}
	for _, name := range slices.Sorted(maps.Keys(w.children)) {
		if !planned(plan, name) {
			errs = append(errs, r.resize(ctx, w, name, int(w.children[name].Spec.Replicas), 0))
		}
	}
	return errors.Join(errs...)
}

func planned(plan release.Plan, name string) bool {
	return slices.ContainsFunc(plan.Ensure, func(e release.Ensure) bool { return e.Release == name }) ||
		slices.ContainsFunc(plan.Retire, func(x release.Retire) bool { return x.Release == name })
}

// create makes the object of a release. Its name is its content: one that exists
// already is the same.
func (r *Reconciler) create(ctx context.Context, w *world, e release.Ensure) error {
	o := w.offered[e.Release]
	if o == nil || w.policy == nil {
		return fmt.Errorf("create release %q: its version is not offered", e.Release)
	}
	child, err := resources.Release(w.ms, w.policy, o, w.config, int32(e.Replicas), e.Stamp)
	if err != nil {
		return err
	}
	if err := controllerutil.SetControllerReference(w.ms, child, r.Scheme()); err != nil {
		return fmt.Errorf("own release %q: %w", e.Release, err)
	}
	err = r.Create(ctx, child, client.FieldOwner(FieldOwner))
	if !apierrors.IsAlreadyExists(err) {
		if err != nil {
			return fmt.Errorf("create release %q: %w", e.Release, err)
		}
		return nil
	}
	var live v1alpha1.VersionedMicroservice
	if err := r.live.Get(ctx, client.ObjectKeyFromObject(child), &live); err != nil {
		return fmt.Errorf("get release %q: %w", e.Release, client.IgnoreNotFound(err))
	}
	switch {
	case !live.DeletionTimestamp.IsZero():
		return &apply.TerminatingError{Kind: "VersionedMicroservice", Namespace: live.Namespace, Name: live.Name}
	case !metav1.IsControlledBy(&live, w.ms):
		return &apply.ForeignError{Kind: "VersionedMicroservice", Namespace: live.Namespace, Name: live.Name}
	}
	return nil
}

// resize sets the replicas of a release, with the disruption budget that goes with
// them, and stamps it when it is revived. The write holds only for the object as it
// was read.
func (r *Reconciler) resize(ctx context.Context, w *world, name string, replicas int, stamp int64) error {
	before := w.children[name]
	if before == nil || !before.DeletionTimestamp.IsZero() {
		return nil
	}
	child := before.DeepCopy()
	child.Spec.Replicas = int32(replicas)
	child.Spec.Availability.DisruptionBudget = resources.DisruptionBudget(w.ms, child.Spec.Replicas, serving(w, name))
	if stamp > 0 {
		if child.Annotations == nil {
			child.Annotations = map[string]string{}
		}
		child.Annotations[v1alpha1.AnnotationAttempt] = fmt.Sprint(stamp)
	}
	if reflect.DeepEqual(before, child) {
		return nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.Patch(ctx, child, patch, client.FieldOwner(FieldOwner)); err != nil {
		return fmt.Errorf("resize release %q: %w", name, err)
	}
	w.children[name] = child
	return nil
}

// serving says that a release has, or is about to have, traffic.
func serving(w *world, name string) bool {
	for _, g := range w.facts.Ledger.Groups {
		if row := g.Row(name); row != nil {
			return row.Status == release.Active || row.Status == release.Canary || row.Status == release.Pending
		}
	}
	return true
}

// takeDown shrinks and deletes releases: all that must come after the ledger is
// written. A write that meets a newer object is dropped with the plan.
func (r *Reconciler) takeDown(ctx context.Context, w *world, plan release.Plan) error {
	var errs []error
	for _, x := range plan.Retire {
		if !x.Delete {
			errs = append(errs, r.resize(ctx, w, x.Release, x.Replicas, 0))
			continue
		}
		c := w.children[x.Release]
		if c == nil {
			continue
		}
		pre := client.Preconditions{UID: &c.UID, ResourceVersion: &c.ResourceVersion}
		if err := r.Delete(ctx, c, pre, client.PropagationPolicy(metav1.DeletePropagationBackground)); client.IgnoreNotFound(err) != nil {
			errs = append(errs, fmt.Errorf("delete release %q: %w", x.Release, err))
		}
	}
	return errors.Join(errs...)
}
