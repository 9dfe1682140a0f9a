package microservice

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/microservice/resources"
	"github.com/heighliner/heighliner/internal/apply"
	"github.com/heighliner/heighliner/internal/release"
)

// pass is one reconcile: the observed state, the plan, and the result.
type pass struct {
	observed
	plan    plan
	applied applied
}

// applied is the result of applying a plan.
type applied struct {
	// unwritable contains the errors from failed attempts to stamp releases in this reconcile, keyed by the name of the
	// release.
	unwritable map[string]error
}

// planAndCreate computes the plan, and applies the writes that precede the write of the rollout state. A
// revived release must be stamped, that is, get the annotation hlnr.io/attempt, before the rollout state refers
// to it (protocol rule 2). If the API server rejects the stamp, the plan is computed again without the revival,
// so that a release that fails or that a user aborts still loses its traffic.
//
// refused is the error for releases that could not be created or changed. It does not block other
// writes. err is the error that ends the reconcile.
func (r *Reconciler) planAndCreate(ctx context.Context, w *pass) (refused, err error) {
	w.applied.unwritable = map[string]error{}
	now := r.clock.Now()
	for {
		w.plan = newPlan(&w.observed, now)
		r.limitStarts(w, now)
		known := len(w.applied.unwritable)
		if refused, err = r.ensureReleases(ctx, w); err != nil {
			return nil, err
		}
		if len(w.applied.unwritable) == known {
			break
		}
		for i := range w.facts.Objects {
			c := &w.facts.Objects[i]
			c.Refused = w.applied.unwritable[c.Release] != nil
		}
	}
	for _, name := range slices.Sorted(maps.Keys(w.applied.unwritable)) {
		refused = errors.Join(refused, w.applied.unwritable[name])
	}
	return refused, nil
}

// limitStarts delays the start of a rollout while many others are starting. Until it is the Microservice's turn, no new
// version starts. Everything else continues. During a scan or a freeze, a Microservice stays in line. If its turn
// comes during that time, it loses the turn, and waits in line again afterwards.
func (r *Reconciler) limitStarts(w *pass, now time.Time) {
	self := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(w.ms)}
	switch {
	case w.inLine:
	case w.facts.SourceStale, w.facts.Spec.Freeze != nil:
		r.starts.Decline(self)
	case startsInLine(&w.observed, w.plan):
		start, again := r.starts.Admit(self)
		if start {
			return
		}
		w.inLine, w.unwritten = true, len(w.ms.Status.Conditions) == 0
		notes := standing(w.plan.Notes)
		w.facts = inLine(&w.observed)
		w.plan = newPlan(&w.observed, now)
		w.plan.Notes = append(w.plan.Notes, notes...)
		w.requeueIn(again)
	case settled(&w.observed, w.plan):
		r.starts.Done(self)
	default:
		r.starts.Progress(self, w.facts.State.Sequence)
	}
}

// ensureReleases creates, revives and scales up releases. No other write of a release may precede
// the write of the rollout state.
//
// refused is the error for releases that could not be created, scaled up, or given their disruption
// budget or autoscaler. It does not block other writes: the planner counts the existing pods, and a
// canary that fails must lose its weight even if the API server rejects the writes of releases.
// Releases that could not be stamped are recorded as unwritable, and the plan must be computed again.
// err is the error that ends the reconcile: a plan based on outdated facts is dropped.
func (r *Reconciler) ensureReleases(ctx context.Context, w *pass) (refused, err error) {
	for _, e := range w.plan.Ensure {
		if e.Create {
			made, err := r.create(ctx, w, e)
			if outdated(err) {
				return nil, err
			}
			refused = errors.Join(refused, err)
			if made || err != nil {
				continue
			}
		}
		object := w.objects[e.Release]
		if object == nil || w.applied.unwritable[e.Release] != nil {
			continue
		}
		failed := r.resize(ctx, w, e.Release, max(e.Replicas, int(object.Spec.Replicas)), e.Stamp)
		switch {
		case failed == nil:
		case outdated(failed):
			return nil, failed
		case e.Stamp == 0:
			refused = errors.Join(refused, failed)
		default:
			if err := r.unchanged(ctx, object); err != nil {
				return nil, err
			}
			w.applied.unwritable[e.Release] = failed
		}
	}
	for _, name := range slices.Sorted(maps.Keys(w.objects)) {
		if planned(w.plan.Result, name) || w.applied.unwritable[name] != nil {
			continue
		}
		// Write the disruption budget and the autoscaler of the release.
		failed := r.resize(ctx, w, name, int(w.objects[name].Spec.Replicas), 0)
		if outdated(failed) {
			return nil, failed
		}
		refused = errors.Join(refused, failed)
	}
	return refused, nil
}

// unchanged returns an error if an object has changed since it was read, because the decision about the object is
// then outdated. A write that is rejected for another reason does not reveal such a change.
func (r *Reconciler) unchanged(ctx context.Context, object *v1alpha1.VersionedMicroservice) error {
	var live v1alpha1.VersionedMicroservice
	if err := r.live.Get(ctx, client.ObjectKeyFromObject(object), &live); err != nil {
		return fmt.Errorf("get release %q: %w", object.Name, err)
	}
	if live.UID != object.UID || live.ResourceVersion != object.ResourceVersion {
		return conflict(object, "it has changed since it was read")
	}
	return nil
}

// conflict returns the error for a write that is based on an outdated release.
func conflict(object *v1alpha1.VersionedMicroservice, cause string) error {
	return apierrors.NewConflict(v1alpha1.GroupVersion.WithResource("versionedmicroservices").GroupResource(), object.Name, errors.New(cause))
}

// create creates the object of a release, and reports whether it did. The name is derived from the
// content. Therefore, an existing object with this name that the Microservice owns is the same release,
// and is added to w.objects.
func (r *Reconciler) create(ctx context.Context, w *pass, e release.Ensure) (made bool, err error) {
	o := w.offered[e.Release]
	if o == nil || w.policy == nil {
		return false, fmt.Errorf("create release %q: its version is not offered", e.Release)
	}
	ms := w.ms
	if o.Fork {
		if ms, err = r.confined(ctx, w.ms); err != nil {
			return false, fmt.Errorf("create release %q: %w", e.Release, err)
		}
	}
	object, err := resources.Release(ms, w.policy, o, w.config, w.contents, int32(e.Replicas), e.Stamp)
	if err != nil {
		return false, err
	}
	mark(w.plan.Result, object)
	if err := controllerutil.SetControllerReference(w.ms, object, r.Scheme()); err != nil {
		return false, fmt.Errorf("set the owner of release %q: %w", e.Release, err)
	}
	// The objects to which the pods of the release refer must exist first.
	if err := r.copyAll(ctx, w, object.Name, w.ms); err != nil {
		return false, fmt.Errorf("create release %q: %w", e.Release, err)
	}
	err = r.Create(ctx, object, client.FieldOwner(FieldOwner))
	switch {
	case err == nil:
		return true, nil
	case !apierrors.IsAlreadyExists(err):
		return false, fmt.Errorf("create release %q: %w", e.Release, err)
	}
	var live v1alpha1.VersionedMicroservice
	if err := r.live.Get(ctx, client.ObjectKeyFromObject(object), &live); err != nil {
		return false, fmt.Errorf("get release %q: %w", e.Release, err)
	}
	switch {
	case !live.DeletionTimestamp.IsZero():
		return false, &apply.TerminatingError{Kind: "VersionedMicroservice", Namespace: live.Namespace, Name: live.Name}
	case !metav1.IsControlledBy(&live, w.ms):
		return false, &apply.ForeignError{Kind: "VersionedMicroservice", Namespace: live.Namespace, Name: live.Name}
	}
	w.objects[e.Release] = &live
	return false, nil
}

// resize sets the replicas of a release, and the matching disruption budget, autoscaler and never-active mark.
// If the release is being revived, stamp is greater than 0, and resize also writes the stamp. The write takes
// effect only if the object has not changed since it was read.
func (r *Reconciler) resize(ctx context.Context, w *pass, name string, replicas int, stamp int64) error {
	before := w.objects[name]
	if before == nil || !before.DeletionTimestamp.IsZero() {
		return nil
	}
	object := new(*before) // A shallow copy: the object is deep-copied only if it must be written.
	object.Annotations = maps.Clone(before.Annotations)
	object.Spec.Replicas = int32(replicas)
	// The routes follow the rollout state with a delay. As long as a release receives traffic, it keeps
	// its autoscaler and the pods that the autoscaler added.
	serves := !slices.Contains(w.plan.Idle, name)
	object.Spec.Availability.DisruptionBudget = resources.NextBudget(before.Spec.Availability.DisruptionBudget, resources.DisruptionBudget(w.ms, object.Spec.Replicas, serves))
	object.Spec.Availability.Autoscaling = resources.Autoscaling(w.ms, object.Spec.Replicas, serves)
	object.Spec.Availability.Exclusive = w.ms.Spec.Availability.Exclusive
	if stamp > 0 {
		metav1.SetMetaDataAnnotation(&object.ObjectMeta, v1alpha1.AnnotationAttempt, fmt.Sprint(stamp))
	}
	mark(w.plan.Result, object)
	if reflect.DeepEqual(before, object) {
		return nil
	}
	if r.resizes.Behind(before) { // The API server would also reject the write with a conflict.
		return fmt.Errorf("resize release %q: %w", name, conflict(before, "the cache does not contain the latest resize of this release yet"))
	}
	object = object.DeepCopy() // Patch decodes the response into it.
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.Patch(ctx, object, patch, client.FieldOwner(FieldOwner)); err != nil {
		return fmt.Errorf("resize release %q: %w", name, err)
	}
	r.resizes.Wrote(before, object, r.clock.Now())
	w.objects[name] = object
	return nil
}

// mark marks the object of a release that was never active, and removes the mark from any other object.
func mark(plan release.Result, object *v1alpha1.VersionedMicroservice) {
	if slices.Contains(plan.NeverActive, object.Name) {
		metav1.SetMetaDataAnnotation(&object.ObjectMeta, v1alpha1.AnnotationNeverActive, "true")
		return
	}
	delete(object.Annotations, v1alpha1.AnnotationNeverActive)
}

// applyEnds applies the writes that follow the write of the rollout state.
func (r *Reconciler) applyEnds(ctx context.Context, w *pass) error {
	if err := r.retire(ctx, w); err != nil {
		return err
	}
	if a := w.plan.adoption; a != nil && a.scale != nil {
		return r.scaleDeployment(ctx, w.deployment, a.scale)
	}
	return nil
}

// retire scales down and deletes releases. These writes must follow the write of the rollout
// state. After a conflict with a newer object, the plan is dropped.
func (r *Reconciler) retire(ctx context.Context, w *pass) error {
	var errs []error
	for _, x := range w.plan.Retire {
		if !x.Delete {
			errs = append(errs, r.resize(ctx, w, x.Release, x.Replicas, 0))
			continue
		}
		c := w.objects[x.Release]
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
