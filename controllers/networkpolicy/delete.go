package networkpolicy

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
	gatewayapi "github.com/heighliner/heighliner/controllers/networkpolicy/providers/gateway"
	"github.com/heighliner/heighliner/controllers/networkpolicy/resources"
	"github.com/heighliner/heighliner/controllers/networkpolicy/traffic"
	"github.com/heighliner/heighliner/internal/apply"
	"github.com/heighliner/heighliner/internal/status"
)

const (
	// deletionDeadline is the maximum time for which the finalizer delays the deletion of a policy,
	// even if the deletionPolicy is not fully applied by then.
	deletionDeadline = 10 * time.Minute
	// orphanDeadline is the maximum time for which a deletion with deletionPolicy Orphan waits for the
	// remaining routes to target only active releases. It is shorter than the time for which hack/uninstall.sh
	// waits for finalizers.
	orphanDeadline = time.Minute
	// restoreDrain is the time that gateways and kube-proxy have to observe that a Service or a route
	// was restored, before the pods of the releases can be deleted.
	restoreDrain = 5 * time.Second
	// podInterval is the interval between checks during a deletion. Some of the checked objects, such
	// as pods, are not watched.
	podInterval = 2 * time.Second
)

// ensureFinalizer adds the finalizer if the deletionPolicy or a user-managed route needs it.
// Otherwise, it removes the finalizer. It reports whether it wrote the policy.
func (r *Reconciler) ensureFinalizer(ctx context.Context, policy *v1alpha1.NetworkPolicy) (bool, error) {
	needed := policy.Spec.DeletionPolicy == v1alpha1.DeletionOrphan || policy.Spec.DeletionPolicy == v1alpha1.DeletionRestore ||
		len(policy.Status.Routes) > 0 // The rules of an earlier route have not been restored yet.
	return apply.SetFinalizer(ctx, r.Client, fieldOwner, policy, v1alpha1.FinalizerDeletionPolicy, needed)
}

// finalize applies the deletionPolicy, and then removes the finalizer. It delays the deletion by at
// most deletionDeadline, and not at all in a namespace that is being deleted. While the deletion is
// delayed, the routes are still updated when releases change.
func (r *Reconciler) finalize(ctx context.Context, policy *v1alpha1.NetworkPolicy) (ctrl.Result, error) {
	if !controllerutil.ContainsFinalizer(policy, v1alpha1.FinalizerDeletionPolicy) {
		r.forget(client.ObjectKeyFromObject(policy))
		return ctrl.Result{}, nil // The objects of the policy are garbage collected.
	}
	if r.journal.Behind(policy) {
		return ctrl.Result{}, nil // The event for the latest status write triggers the next reconcile.
	}
	late := r.Now().Sub(policy.DeletionTimestamp.Time) > deletionDeadline
	going, err := apply.NamespaceGoes(ctx, r.Live, policy.Namespace)
	if err != nil {
		return status.Again(ctx, err)
	}
	asked := !going && (!late || len(traffic.UserNames(policy)) > 0)
	unread := asked && r.unread(policy) != nil
	if unread && !late {
		return ctrl.Result{RequeueAfter: r.kinds.every}, nil
	}
	if asked && !unread {
		f, err := r.observe(ctx, policy)
		if err != nil {
			return status.Again(ctx, err)
		}
		wait, err := r.reconcileDelete(ctx, f, late)
		if err != nil {
			return r.requeues.Again(ctx, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(policy)}, wait, err)
		}
		if wait > 0 && !late {
			return ctrl.Result{RequeueAfter: wait}, nil
		}
	}
	if late {
		r.Events.Record(policy, deletionPolicyNotDoneEvent(policy.Spec.DeletionPolicy, deletionDeadline))
	}
	_, err = apply.SetFinalizer(ctx, r.Client, fieldOwner, policy, v1alpha1.FinalizerDeletionPolicy, false)
	return status.Again(ctx, err)
}

// reconcileDelete applies the deletionPolicy. It returns the time to wait before the next check, even if it also returns an
// error; 0 and a nil error mean that the deletionPolicy has been applied. After the deadline, it restores only user-managed
// routes, which would otherwise have no backend.
func (r *Reconciler) reconcileDelete(ctx context.Context, f *traffic.Observed, late bool) (time.Duration, error) {
	switch {
	case late:
		_, err := r.restoreUserRoutes(ctx, f, true)
		return 0, err
	case traffic.Orphans(f.Policy):
		if wait, err := r.settle(ctx, f); err != nil || wait > 0 {
			return wait, err
		}
		if wait, err := r.restoreUserRoutes(ctx, f, false); err != nil {
			return wait, err
		}
		return 0, r.orphan(ctx, f)
	}
	_, failed := r.carryOut(ctx, f)
	wait, err := r.restoreUserRoutes(ctx, f, false)
	if err != nil {
		return wait, err
	}
	left, err := r.restore(ctx, f)
	if wait = max(wait, left); wait == 0 && err == nil {
		wait = r.drainLeft(f)
	}
	if failed != nil && wait > 0 {
		// There is no back-off, because the previous workload may become ready at any moment.
		ctrl.LoggerFrom(ctx).Info("the routes of a policy that is being deleted are not up to date", "cause", failed.Error())
	}
	return wait, err
}

// settle changes the remaining routes so that they target only active releases (protocol rule 20). It returns
// the time to wait before the next check; 0 means that the change is confirmed, or that
// orphanDeadline has passed. It does not write the status, because the planner must not mistake the
// canary's loss of traffic for a step.
func (r *Reconciler) settle(ctx context.Context, f *traffic.Observed) (time.Duration, error) {
	out := traffic.Plan(f)
	w, err := r.write(ctx, f, out)
	r.probes.Ask(client.ObjectKeyFromObject(f.Policy), traffic.Probes(f, out, w))
	waits := traffic.Unsettled(f, out, w)
	if err != nil {
		waits = err.Error()
	}
	switch {
	case waits == "":
		return 0, nil
	case r.Now().Sub(f.Policy.DeletionTimestamp.Time) < orphanDeadline:
		return podInterval, err
	}
	r.Events.Record(f.Policy, orphanedUnconfirmedEvent(orphanDeadline, waits))
	return 0, nil
}

// orphan removes the policy's owner reference from all its objects, which remain and keep serving.
func (r *Reconciler) orphan(ctx context.Context, f *traffic.Observed) error {
	for _, name := range providers.Sorted(f.Services) {
		if err := r.disown(ctx, f, f.Services[name]); err != nil {
			return err
		}
	}
	for _, name := range providers.Sorted(f.Live) {
		if f.Live[name].User {
			continue // The policy does not own user-managed routes.
		}
		for _, o := range f.Live[name].Objects {
			if err := r.disown(ctx, f, o); err != nil {
				return err
			}
		}
	}
	for _, o := range f.Rest {
		if err := r.disown(ctx, f, o); err != nil {
			return err
		}
	}
	if f.Adopted == nil || !resources.Marked(f.Adopted, f.Policy.Name) {
		return nil
	}
	next := f.Adopted.DeepCopy()
	delete(next.Labels, v1alpha1.LabelPolicy)
	return r.patchAdopted(ctx, f.Adopted, next)
}

func (r *Reconciler) disown(ctx context.Context, f *traffic.Observed, live client.Object) error {
	next := live.DeepCopyObject().(client.Object)
	if err := controllerutil.RemoveControllerReference(f.Policy, next, r.Client.Scheme()); err != nil {
		return fmt.Errorf("remove the owner of %T %q: %w", live, live.GetName(), err)
	}
	labels := next.GetLabels()
	delete(labels, v1alpha1.LabelPolicy) // A policy with the same name must not adopt the object.
	next.SetLabels(labels)
	if err := r.Client.Patch(ctx, next, client.MergeFrom(live), client.FieldOwner(fieldOwner)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("remove the owner of %T %q: %w", live, live.GetName(), err)
	}
	return nil
}

// restore restores the adopted Service when the pods that it previously selected are ready again.
// It returns the time to wait before the next check; 0 if there is nothing to restore.
func (r *Reconciler) restore(ctx context.Context, f *traffic.Observed) (time.Duration, error) {
	s := f.Adopted
	if s == nil || !resources.Marked(s, f.Policy.Name) {
		return 0, nil
	}
	next, err := resources.Restore(s)
	if err != nil {
		r.Events.Record(f.Policy, serviceNotRestoredEvent(err))
		return 0, nil // Only a user can fix the annotation, so the deletion is not blocked by this error.
	}
	ready, err := r.readyPods(ctx, f.Policy.Namespace, next.Spec.Selector)
	if err != nil {
		return 0, err
	}
	if ready < r.enough(f) {
		return podInterval, nil
	}
	if err := r.patchAdopted(ctx, s, next); err != nil {
		return 0, err
	}
	r.restored.note(client.ObjectKeyFromObject(f.Policy), r.Now())
	r.Events.Record(f.Policy, serviceRestoredEvent(s.Name))
	return restoreDrain, nil
}

// drainLeft returns the remaining part of restoreDrain, which begins when the Service has been
// restored and the parents have accepted the restored routes. A manager that has just started does not
// know when the Service or the routes were restored, so it waits for the full time.
func (r *Reconciler) drainLeft(f *traffic.Observed) time.Duration {
	if traffic.AdoptedName(f.Policy) == "" && len(traffic.UserNames(f.Policy)) == 0 {
		return 0
	}
	key := client.ObjectKeyFromObject(f.Policy)
	at := r.restored.last(key)
	if at.IsZero() {
		r.restored.note(key, r.Now())
		return restoreDrain
	}
	return max(0, restoreDrain-r.Now().Sub(at))
}

// enough returns the number of previously selected pods that must be ready before the adopted
// Service selects them again. This is the number of ready endpoints that the Service has now, but at
// least 1. After half of deletionDeadline has passed, it is 1.
func (r *Reconciler) enough(f *traffic.Observed) int {
	began := f.Policy.DeletionTimestamp
	if began == nil && f.Microservice != nil {
		began = f.Microservice.DeletionTimestamp
	}
	if began == nil || r.Now().Sub(began.Time) > deletionDeadline/2 {
		return 1
	}
	return max(1, len(f.Endpoints[f.Adopted.Name].Ready))
}

// readyPods returns the number of ready pods that a selector selects, excluding the pods of
// releases.
func (r *Reconciler) readyPods(ctx context.Context, namespace string, selector map[string]string) (int, error) {
	var pods corev1.PodList
	if err := r.Live.List(ctx, &pods, client.InNamespace(namespace), client.MatchingLabelsSelector{Selector: labels.SelectorFromSet(selector)}); err != nil {
		return 0, fmt.Errorf("list Pods of the adopted Service: %w", err)
	}
	ready := 0
	for i := range pods.Items {
		p := &pods.Items[i]
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue && p.DeletionTimestamp == nil && p.Labels[v1alpha1.LabelRelease] == "" {
				ready++
			}
		}
	}
	return ready, nil
}

// restoresService reports whether the Microservice is being deleted and restores its previous
// Deployment. In this case, the adopted Service must also be restored.
func restoresService(f *traffic.Observed) bool {
	return f.Microservice != nil && f.Microservice.DeletionTimestamp != nil && f.Microservice.Spec.DeletionPolicy == v1alpha1.DeletionRestore &&
		f.Adopted != nil && resources.Marked(f.Adopted, f.Policy.Name)
}

// restoreUserRoutes restores all user-managed routes as the deletionPolicy requires, and returns
// the time to wait before the next check. Unless the deletionPolicy is Orphan, each route is restored
// only when one of its previous backends has a ready endpoint, and the deletion then waits until the
// parents have accepted the route. If forced is set, neither condition applies.
func (r *Reconciler) restoreUserRoutes(ctx context.Context, f *traffic.Observed, forced bool) (time.Duration, error) {
	var wait time.Duration
	key := client.ObjectKeyFromObject(f.Policy)
	for _, name := range providers.Sorted(f.Live) {
		live := f.Live[name]
		if !live.User || live.Deleting {
			continue
		}
		read := live.Objects[0].(*unstructured.Unstructured)
		if f.Policy.Spec.DeletionPolicy == v1alpha1.DeletionOrphan {
			if _, err := r.patchUser(ctx, read, gatewayapi.Disown(read, f.Policy.Name)); client.IgnoreNotFound(err) != nil {
				return 0, err
			}
			continue
		}
		if live.Managed == nil {
			if !forced && !gatewayapi.Settled(read) {
				r.restored.forget(key) // restoreDrain begins when the parents have accepted the route.
				wait = max(wait, podInterval)
			}
			continue
		}
		if !forced {
			ready, err := r.previousReady(ctx, f, read)
			if err != nil {
				return 0, err
			}
			if !ready {
				wait = max(wait, podInterval)
				continue
			}
		}
		_, err := r.restoreRules(ctx, f, read)
		if class := status.Classify(err); class != nil && class.Class == status.Terminal {
			r.Events.Record(f.Policy, ruleNotRestoredEvent(err))
			continue // Only a user can fix the route, so the deletion is not blocked by this error.
		}
		if client.IgnoreNotFound(err) != nil {
			return 0, err
		}
		r.restored.note(key, r.Now())
		wait = max(wait, restoreDrain)
	}
	return wait, nil
}

// previousReady reports whether any Service to which the rules previously routed has a ready
// endpoint. It returns true if the rules did not previously route to any Service.
func (r *Reconciler) previousReady(ctx context.Context, f *traffic.Observed, read *unstructured.Unstructured) (bool, error) {
	previous := gatewayapi.Previous(read, f.Policy.Name)
	for _, name := range previous {
		var list discoveryv1.EndpointSliceList
		if err := r.Live.List(ctx, &list, client.InNamespace(f.Policy.Namespace), client.MatchingLabels{discoveryv1.LabelServiceName: name}); err != nil {
			return false, fmt.Errorf("list EndpointSlices of Service %q: %w", name, err)
		}
		for i := range list.Items {
			if slices.ContainsFunc(list.Items[i].Endpoints, serving) {
				return true, nil
			}
		}
	}
	return len(previous) == 0, nil
}
