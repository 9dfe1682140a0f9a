package networkpolicy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
	gatewayapi "github.com/heighliner/heighliner/controllers/networkpolicy/providers/gateway"
	"github.com/heighliner/heighliner/controllers/networkpolicy/resources"
	"github.com/heighliner/heighliner/controllers/networkpolicy/traffic"
	"github.com/heighliner/heighliner/internal/apply"
	"github.com/heighliner/heighliner/internal/status"
)

// write applies a decision. It writes Services and other objects on which routes depend, then the
// routes that refer to them. Then it deletes routes, and finally the objects on which these routes
// depended. If one object is rejected, the others are still written. If a route depends on the
// rejected object, only the weights of the live route change. If a write fails but may succeed on a
// retry, this reconcile still deletes the objects that are no longer part of a written route, because
// these objects may route to a failed release. It does not delete any other objects.
func (r *Reconciler) write(ctx context.Context, f *traffic.Observed, out *traffic.Decision) (traffic.Applied, error) {
	w := &writing{
		Reconciler: r, observed: f, decision: out,
		applied: traffic.Applied{Changed: map[string]bool{}, Refused: map[string]*status.Error{}}, deleted: map[resources.Object]bool{},
	}
	w.services(ctx)
	before := len(w.failed)
	if err := w.routes(ctx); err != nil {
		return w.applied, errors.Join(append(w.failed, err)...)
	}
	if err := w.leftovers(ctx); err != nil {
		return w.applied, errors.Join(append(w.failed, err)...)
	}
	if len(w.failed) > before {
		return w.applied, errors.Join(w.failed...)
	}
	return w.applied, w.deletions(ctx)
}

// writing is the state of writing one decision to the API server.
type writing struct {
	*Reconciler
	observed *traffic.Observed
	decision *traffic.Decision
	applied  traffic.Applied
	// failed contains the errors from writes that may succeed on a retry.
	failed []error
	// deleted contains the deleted objects.
	deleted map[resources.Object]bool
}

// refuse records that an object could not be written.
func (w *writing) refuse(key string, class *status.Error, err error) {
	w.applied.Refused[key] = class
	if class.Class == status.Transient {
		w.failed = append(w.failed, err)
	}
}

// put writes an object of the policy.
func (w *writing) put(ctx context.Context, key string, obj client.Object) {
	outcome, err := w.Writer.Apply(ctx, w.observed.Policy, obj)
	if err != nil {
		w.refuse(key, classify(err, obj), err)
		return
	}
	if outcome != apply.Unchanged {
		w.applied.Changed[key] = true
	}
}

// adopt writes the Service that the policy adopts.
func (w *writing) adopt(ctx context.Context, next *corev1.Service) {
	if equality.Semantic.DeepEqual(w.observed.Adopted, next) {
		return
	}
	key := traffic.AppliedServiceKey(next.Name)
	if err := w.patchAdopted(ctx, w.observed.Adopted, next); err != nil {
		w.refuse(key, status.Classify(err), err)
		return
	}
	w.applied.Changed[key] = true
}

// services writes the Services, and the other objects on which routes depend.
func (w *writing) services(ctx context.Context) {
	f, out := w.observed, w.decision
	if out.Adoption != nil && out.Adoption.Mark != nil {
		w.adopt(ctx, out.Adoption.Mark)
	}
	for _, s := range out.Services {
		if s.Adopted {
			w.adopt(ctx, s.Adopt(f.Adopted))
			continue
		}
		w.put(ctx, traffic.AppliedServiceKey(s.Name), s.Build(f.Policy, f.Policy.MicroserviceName()))
	}
	for _, s := range out.Shared {
		w.put(ctx, traffic.SharedKey(s), s.Object)
	}
}

// routes writes the routes. If a route cannot be written as planned, it writes only the weights of
// the live route.
func (w *writing) routes(ctx context.Context) error {
	f, out := w.observed, w.decision
	for _, route := range slices.Concat(out.Routes, out.Previous) {
		if err := ctx.Err(); err != nil {
			return err
		}
		key, live := traffic.AppliedRouteKey(route.Name), f.Live[route.Name]
		cause, missing := f.RestsOnFailed(route, out, w.applied)
		switch {
		case missing:
		case live != nil && live.User:
			if len(route.Objects) > 0 {
				w.userRoute(ctx, route.Name, route.Objects[0])
			}
		case cause != nil:
			as := *route
			as.Port = 0                                       // Keep the live ports, because the Services might still have their previous ports.
			_ = w.route(ctx, route.Name, f.WeightsAlone(&as)) // A rejection is recorded in w.applied.
		default:
			if refused := w.route(ctx, route.Name, route.Objects); refused != nil && refused.Class == status.Terminal {
				cause = refused
				delete(w.applied.Refused, key)
				_ = w.route(ctx, route.Name, f.WeightsAlone(route))
			}
		}
		if w.applied.Changed[key] {
			w.written.note(client.ObjectKey{Namespace: f.Policy.Namespace, Name: route.Name}, f.Now)
		}
		if cause != nil {
			w.applied.Refused[key] = cause // The route does not have the desired content.
		}
	}
	return nil
}

// route writes the objects of a route. It returns the error for the first object that is rejected, or nil if none is rejected.
func (w *writing) route(ctx context.Context, name string, objects []resources.Object) *status.Error {
	key := traffic.AppliedRouteKey(name)
	for _, want := range objects {
		obj := want.DeepCopyObject().(client.Object)
		if old := traffic.LiveObject(w.observed.Live[name], want); old != nil {
			// A reconcile that read an older version of the route must not overwrite a newer
			// version.
			obj.SetUID(old.GetUID())
			obj.SetResourceVersion(old.GetResourceVersion())
		}
		w.put(ctx, key, obj)
		if refused := w.applied.Refused[key]; refused != nil {
			return refused // Without its main Ingress, a canary Ingress would apply to another user's Ingress.
		}
	}
	return nil
}

// userRoute writes the rules of a user-managed route, or restores them if next is nil.
func (w *writing) userRoute(ctx context.Context, name string, next client.Object) {
	f, key := w.observed, traffic.AppliedRouteKey(name)
	wrote, err := w.putUser(ctx, f, name, next)
	if class := status.Classify(err); class != nil {
		w.refuse(key, class, err)
		return
	}
	if wrote {
		w.applied.Changed[key] = true
		w.written.note(client.ObjectKey{Namespace: f.Policy.Namespace, Name: name}, f.Now)
	}
}

// leftovers deletes the objects that are no longer part of the written routes.
func (w *writing) leftovers(ctx context.Context) error {
	for _, route := range slices.Backward(slices.Concat(w.decision.Routes, w.decision.Previous)) {
		if w.applied.Refused[traffic.AppliedRouteKey(route.Name)] != nil {
			continue
		}
		for _, o := range slices.Backward(traffic.Leftovers(w.observed, route)) {
			if err := w.delete(ctx, o); err != nil {
				return err
			}
		}
	}
	return nil
}

// deletions restores the rules of user-managed routes. Then it deletes the other objects that the decision no longer needs, unless
// a write failed.
func (w *writing) deletions(ctx context.Context) error {
	f, out := w.observed, w.decision
	for _, name := range out.DeleteRoutes {
		if f.Live[name].User {
			w.userRoute(ctx, name, nil)
		}
	}
	if len(w.failed) > 0 {
		return errors.Join(w.failed...)
	}
	for _, o := range slices.Concat(traffic.Surplus(f, out), out.DeleteShared) {
		if err := w.delete(ctx, o); err != nil {
			return err
		}
	}
	for _, name := range out.DeleteServices {
		s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: f.Policy.Namespace, Name: name, UID: f.Services[name].UID}}
		if err := w.Writer.Delete(ctx, f.Policy, s); err != nil {
			return fmt.Errorf("delete Service %q: %w", name, err)
		}
	}
	return nil
}

// delete deletes an object of the policy, unless it has been deleted in this reconcile.
func (w *writing) delete(ctx context.Context, o resources.Object) error {
	if w.deleted[o] {
		return nil
	}
	w.deleted[o] = true
	if err := w.Writer.Delete(ctx, w.observed.Policy, o.DeepCopyObject().(client.Object)); err != nil {
		return fmt.Errorf("delete %s: %w", traffic.ObjectName(o), err)
	}
	return nil
}

// classify returns the class of a write error. If the definition of the object's kind was
// deleted while the manager was running, the returned error reports that the API server no longer
// has the kind, regardless of how the server reports this.
func classify(err error, o client.Object) *status.Error {
	if gvk := o.GetObjectKind().GroupVersionKind(); takenAway(err) {
		return status.NewTerminal(reasonMissing(gvk.Group), fmt.Errorf("the API server no longer has %s of %s: install its CustomResourceDefinition: %w", gvk.Kind, gvk.GroupVersion(), err))
	}
	return status.Classify(err)
}

// takenAway reports whether an error means that the definition of a kind was deleted or is being
// deleted.
func takenAway(err error) bool {
	switch {
	case apierrors.IsNotFound(err): // The API server did not find the request path, as opposed to an object or a namespace.
		return apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
	case apierrors.IsForbidden(err): // The API server does not return a more specific reason for this error.
		return strings.Contains(err.Error(), "while custom resource definition is terminating")
	}
	return meta.IsNoMatchError(err)
}

// patchAdopted patches a user's Service. It writes only the differences, and only if the Service
// has not changed since it was read.
func (r *Reconciler) patchAdopted(ctx context.Context, live, next *corev1.Service) error {
	patch := client.MergeFromWithOptions(live, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Patch(ctx, next, patch, client.FieldOwner(fieldOwner)); err != nil {
		return fmt.Errorf("patch Service %q: %w", live.Name, err)
	}
	return nil
}

// carryOut plans, applies and reports. It returns the time after which to reconcile again if no
// event occurs earlier. It returns this time even if it also returns an error.
func (r *Reconciler) carryOut(ctx context.Context, f *traffic.Observed) (time.Duration, error) {
	out := traffic.Plan(f)
	if now, more := traffic.Reserve(f, out); more {
		return 0, r.save(ctx, f.Policy, now) // The event for this write triggers the next reconcile.
	}
	w, failed := r.write(ctx, f, out)
	if name := client.ObjectKeyFromObject(f.Policy); !conflictAlone(w) {
		r.conflicts.forget(name)
	} else if r.conflicts.since(name, f.Now) < reportConflict {
		return 0, failed // The write is retried with the newer object, and the status does not change.
	}
	now, requeueAfter := traffic.Status(f, out, w)
	r.probes.Ask(client.ObjectKeyFromObject(f.Policy), traffic.Probes(f, out, w))
	r.metrics.observe(f, out, w)
	requeueAfter = r.earliest(f, out, w, requeueAfter)
	if left := traffic.Silent(f, now); left > 0 && failed == nil {
		return cmp.Or(min(requeueAfter, left), requeueAfter, left), nil
	}
	if err := r.save(ctx, f.Policy, now); err != nil {
		return requeueAfter, errors.Join(failed, err)
	}
	if class := status.Classify(failed); class != nil && class.Class == status.Transient {
		return requeueAfter, failed
	}
	return requeueAfter, nil
}

// reportConflict is how long a policy's writes can fail with conflicts before its status reports
// them.
const reportConflict = 5 * time.Second

// conflictAlone reports whether at least one write was rejected, and every rejection is a conflict with a newer object.
func conflictAlone(w traffic.Applied) bool {
	for _, err := range w.Refused {
		if err.Reason != status.ReasonConflict {
			return false
		}
	}
	return len(w.Refused) > 0
}

// earliest returns the time after which to reconcile a policy if no watch enqueues it earlier.
func (r *Reconciler) earliest(f *traffic.Observed, out *traffic.Decision, w traffic.Applied, requeueAfter time.Duration) time.Duration {
	earlier := func(after time.Duration) {
		if after > 0 && (requeueAfter == 0 || after < requeueAfter) {
			requeueAfter = after
		}
	}
	for _, err := range w.Refused {
		if earlier(err.After); traffic.MissingKind(err.Reason) {
			earlier(r.kinds.every)
		}
	}
	if r.kinds.lacks(traffic.NeededKinds(f.Policy)) {
		earlier(r.kinds.every)
	}
	if a := out.Adoption; a != nil && (a.Reason == traffic.ReasonAdoptedMissing || a.Reason == traffic.ReasonAdoptedUnsuitable) {
		earlier(pollInterval) // A Service without the label is not watched.
	}
	return requeueAfter
}

// revertedError returns the error for a route whose rules another client reverts. The error contains
// the name of that client if the API server reports the name.
func revertedError(read *unstructured.Unstructured, after time.Duration) *status.Error {
	who, at := "another client", metav1.Time{}
	for _, m := range read.GetManagedFields() {
		if m.Manager != fieldOwner && m.Subresource == "" && m.Time != nil && at.Before(m.Time) {
			who, at = fmt.Sprintf("field manager %q", m.Manager), *m.Time
		}
	}
	return status.NewWaiting(providers.ReasonRuleConflict, after, fmt.Errorf(
		"spec.provider.routeRef: %s reverts the rules of %s each time they are written: configure it to ignore the backendRefs and annotations of the route, or list in ruleNames only rules that no other client writes", who, traffic.ObjectName(read)))
}

// patchUser writes the differences between read and next to a user-managed route, unless the route
// has changed since it was read. It reports whether anything was written.
func (r *Reconciler) patchUser(ctx context.Context, read, next *unstructured.Unstructured) (bool, error) {
	patch := gatewayapi.Patch(read, next)
	if patch == nil {
		return false, nil
	}
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(read.GroupVersionKind())
	o.SetNamespace(read.GetNamespace())
	o.SetName(read.GetName())
	if err := r.Client.Patch(ctx, o, client.RawPatch(types.JSONPatchType, patch), client.FieldOwner(fieldOwner)); err != nil {
		return false, fmt.Errorf("patch %s: %w", traffic.ObjectName(read), err)
	}
	return true, nil
}

// putUser writes the rules of a desired route, or restores the previous rules if next is nil. If
// another client reverts the same change repeatedly, putUser waits longer before each new write.
func (r *Reconciler) putUser(ctx context.Context, f *traffic.Observed, name string, next client.Object) (bool, error) {
	read := f.Live[name].Objects[0].(*unstructured.Unstructured)
	if next == nil {
		return r.restoreRules(ctx, f, read)
	}
	to := next.(*unstructured.Unstructured)
	route, wanted := client.ObjectKeyFromObject(f.Policy).String()+" "+name, gatewayapi.Managed(to, f.Policy.Name, f.Input.Releases)
	if wait := r.reverts.wait(route, wanted, f.Now); wait > 0 && gatewayapi.Patch(read, to) != nil {
		return false, revertedError(read, wait)
	}
	wrote, err := r.patchUser(ctx, read, to)
	if wrote && err == nil {
		r.reverts.note(route, wanted, f.Now)
	}
	return wrote, err
}

// restoreRules restores the previous rules of a route.
func (r *Reconciler) restoreRules(ctx context.Context, f *traffic.Observed, read *unstructured.Unstructured) (bool, error) {
	next, missing := gatewayapi.Restore(read, f.Policy.Name, f.Input.Releases)
	wrote, err := r.patchUser(ctx, read, next)
	if !wrote || err != nil {
		return wrote, err
	}
	r.Events.Record(f.Policy, routeRestoredEvent(traffic.ObjectName(read)))
	if len(missing) > 0 {
		r.Events.Record(f.Policy, rulesMissingEvent(traffic.ObjectName(read), missing, f.Policy.Name))
	}
	return true, nil
}
