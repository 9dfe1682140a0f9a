package microservice

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	policyv1 "k8s.io/api/policy/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/apply"
)

// +kubebuilder:rbac:groups=hlnr.io,resources=microservices,verbs=patch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=get;patch
// +kubebuilder:rbac:groups=autoscaling,resources=horizontalpodautoscalers,verbs=get;patch

// requeueDelete is the interval at which unwatched objects are read while a Microservice is being deleted.
const requeueDelete = 2 * time.Second

// ensureFinalizer adds the finalizer if the deletionPolicy requires it, and otherwise removes it. It reports
// whether it changed the object.
func (r *Reconciler) ensureFinalizer(ctx context.Context, ms *v1alpha1.Microservice) (bool, error) {
	needed := ms.Spec.DeletionPolicy == v1alpha1.DeletionOrphan || ms.Spec.DeletionPolicy == v1alpha1.DeletionRestore
	return apply.SetFinalizer(ctx, r.Client, FieldOwner, ms, v1alpha1.FinalizerDeletionPolicy, needed)
}

// reconcileDelete applies the deletionPolicy, and then removes the finalizer. It delays the deletion by no
// more than the sum of the progress deadline and the drain delay, and does not delay it at all in a namespace that
// is being deleted.
func (r *Reconciler) reconcileDelete(ctx context.Context, ms *v1alpha1.Microservice) (ctrl.Result, error) {
	if !controllerutil.ContainsFinalizer(ms, v1alpha1.FinalizerDeletionPolicy) {
		return ctrl.Result{}, nil // The remaining objects are garbage collected.
	}
	spec, _ := readSpec(ms, r.minDrain, r.clock.Now())
	late := r.clock.Now().After(ms.DeletionTimestamp.Add(spec.Deadline + spec.Drain))
	going, err := apply.NamespaceGoes(ctx, r.live, ms.Namespace)
	if err != nil {
		return r.fail(ctx, err)
	}
	if !late && !going {
		wait, err := r.carryOut(ctx, ms, spec.Drain)
		if err != nil {
			return r.fail(ctx, err)
		}
		if wait > 0 {
			return ctrl.Result{RequeueAfter: wait}, nil
		}
	}
	if late {
		r.recordDeletionLate(ms)
	}
	if _, err := apply.SetFinalizer(ctx, r.Client, FieldOwner, ms, v1alpha1.FinalizerDeletionPolicy, false); err != nil {
		return r.fail(ctx, err)
	}
	return ctrl.Result{}, nil
}

// carryOut applies the deletionPolicy. It returns the time until the next check, or 0 if the
// deletionPolicy has been applied.
func (r *Reconciler) carryOut(ctx context.Context, ms *v1alpha1.Microservice, drain time.Duration) (time.Duration, error) {
	if ms.Spec.DeletionPolicy == v1alpha1.DeletionOrphan {
		return 0, r.orphan(ctx, ms)
	}
	return r.restore(ctx, ms, drain)
}

// orphan removes the owner references from the objects of releases that have traffic or may get it, so that
// these objects are not garbage collected.
func (r *Reconciler) orphan(ctx context.Context, ms *v1alpha1.Microservice) error {
	referenced, err := r.referenced(ctx, ms)
	if err != nil {
		return err
	}
	for i := range ms.Status.ReleaseGroups {
		g := &ms.Status.ReleaseGroups[i]
		next := ms.Successor(g) // In an exclusive group, the successor has the pods, or will get them.
		for _, row := range g.Releases {
			serves := row.Weight > 0 || row.Status == v1alpha1.ReleaseActive || row.Match || row.MirrorPercent > 0
			if !serves && !referenced(row.VersionedMicroservice) && (next == nil || next.VersionedMicroservice != row.VersionedMicroservice) {
				continue
			}
			if err := r.orphanRelease(ctx, ms, row.VersionedMicroservice); err != nil {
				return err
			}
		}
	}
	return nil
}

// referenced returns a function that reports whether an object of a policy may refer to a release, for example because a
// domain has a fixed version, or because a gateway has not confirmed a promotion. A policy that has not reported may refer
// to any release (rule 11).
func (r *Reconciler) referenced(ctx context.Context, ms *v1alpha1.Microservice) (func(release string) bool, error) {
	policies, err := r.policiesOf(ctx, ms)
	if err != nil {
		return nil, err
	}
	unknown, names := false, map[string]bool{}
	for i := range policies {
		s := &policies[i].Status
		unknown = unknown || unreported(s)
		for _, g := range s.Groups {
			for _, release := range g.References {
				names[release] = true
			}
		}
	}
	return func(release string) bool { return unknown || names[release] }, nil
}

func (r *Reconciler) orphanRelease(ctx context.Context, ms *v1alpha1.Microservice, name string) error {
	namespace := ms.Namespace
	if err := r.orphanCopies(ctx, ms, name); err != nil {
		return err
	}
	for _, o := range []client.Object{&autoscalingv2.HorizontalPodAutoscaler{}, &policyv1.PodDisruptionBudget{}, &appsv1.Deployment{}} {
		err := r.live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, o)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("get %T %q: %w", o, name, err)
		}
		if err != nil {
			continue
		}
		if err := r.disown(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

// disown removes owner references to hlnr.io kinds from an object.
func (r *Reconciler) disown(ctx context.Context, live client.Object) error {
	next := live.DeepCopyObject().(client.Object)
	owners := next.GetOwnerReferences()
	kept := owners[:0:0]
	for _, o := range owners {
		if o.APIVersion != v1alpha1.GroupVersion.String() {
			kept = append(kept, o)
		}
	}
	if len(kept) == len(owners) {
		return nil
	}
	next.SetOwnerReferences(kept)
	if err := r.Patch(ctx, next, client.MergeFromWithOptions(live, client.MergeFromWithOptimisticLock{}), client.FieldOwner(FieldOwner)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("remove the owner of %T %q: %w", live, live.GetName(), err)
	}
	return nil
}

// restore scales the previous Deployment up again. It waits until the Deployment is available, the policies
// have restored their Services, and policies that are being deleted have removed their routes. It then waits
// for the drain delay.
func (r *Reconciler) restore(ctx context.Context, ms *v1alpha1.Microservice, drain time.Duration) (time.Duration, error) {
	if ms.Spec.AdoptFrom == nil {
		return 0, nil
	}
	var d appsv1.Deployment
	err := r.live.Get(ctx, client.ObjectKey{Namespace: ms.Namespace, Name: ms.Spec.AdoptFrom.DeploymentName}, &d)
	if client.IgnoreNotFound(err) != nil {
		return 0, fmt.Errorf("get Deployment %q: %w", ms.Spec.AdoptFrom.DeploymentName, err)
	}
	if err != nil {
		r.recordNothingToRestore(ms)
		return 0, nil
	}
	if n, back := replicasBefore(ms, &d); back {
		next := d.DeepCopy()
		delete(next.Annotations, v1alpha1.AnnotationAdoptedReplicas)
		next.Spec.Replicas = &n
		return requeueDelete, r.scaleDeployment(ctx, &d, next)
	}
	if d.Status.ObservedGeneration < d.Generation || d.Status.AvailableReplicas < replicas(&d) {
		return requeueDelete, nil
	}
	policies, err := r.policiesOf(ctx, ms)
	if err != nil {
		return 0, err
	}
	for i := range policies {
		p := &policies[i]
		switch {
		case p.DeletionTimestamp != nil && controllerutil.ContainsFinalizer(p, v1alpha1.FinalizerDeletionPolicy):
			return requeueDelete, nil // The policy's routes target the releases until the policy is deleted.
		case p.DeletionTimestamp == nil && p.Status.Adopted != nil && p.Status.Adopted.Release != "":
			return requeueDelete, nil // The policy is about to restore its Service.
		}
	}
	return r.drained(ms, drain), nil
}

// replicasBefore returns the number of replicas to which the previous Deployment is scaled up again. The number is from its
// annotation or, if a user removed the annotation, from the Microservice's status.
func replicasBefore(ms *v1alpha1.Microservice, d *appsv1.Deployment) (int32, bool) {
	had := ms.Status.AdoptedReplicas
	n, ok := adoptedReplicas(d)
	switch {
	case ok:
		return max(n, replicas(d)), true
	case had != nil && *had > 0 && replicas(d) == 0:
		return *had, true
	}
	return 0, false
}

// drained returns the remaining time for in-flight requests, measured from the first call. After a restart,
// the manager waits the full time again.
func (r *Reconciler) drained(ms *v1alpha1.Microservice, drain time.Duration) time.Duration {
	at, _ := r.restored.LoadOrStore(ms.UID, r.clock.Now())
	left := at.(time.Time).Add(drain).Sub(r.clock.Now())
	if left > 0 {
		return left
	}
	r.restored.Delete(ms.UID)
	return 0
}
