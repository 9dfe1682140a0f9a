package networkpolicy

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
	"github.com/heighliner/heighliner/controllers/networkpolicy/resources"
	"github.com/heighliner/heighliner/internal/apply"
	"github.com/heighliner/heighliner/internal/status"
)

const (
	// leaveDeadline bounds how long a policy that is deleted is held back: after it
	// the finalizer goes, whatever is left undone.
	leaveDeadline = 10 * time.Minute
	// orphanDeadline bounds how long Orphan waits until what it leaves leads to active
	// releases alone. It is less than what hack/uninstall.sh waits for finalizers.
	orphanDeadline = time.Minute
	// leaveDrain is how long gateways and kube-proxies get to see that a Service was
	// given back, before what it led to may go.
	leaveDrain = 5 * time.Second
	// leaveLook is when to look again for pods, which no watch tells of here.
	leaveLook = 2 * time.Second
)

// holdBack gives a policy the finalizer that its deletionPolicy needs, or takes it
// off. It says whether it wrote.
func (r *Reconciler) holdBack(ctx context.Context, policy *v1alpha1.NetworkPolicy) (bool, error) {
	needed := policy.Spec.DeletionPolicy == v1alpha1.DeletionOrphan || policy.Spec.DeletionPolicy == v1alpha1.DeletionRestore ||
		len(policy.Status.Routes) > 0 // An earlier route has not got its rules back.
	return apply.SetFinalizer(ctx, r.Client, fieldOwner, policy, v1alpha1.FinalizerDeletionPolicy, needed)
}

// leave does what the deletionPolicy says, and lets the policy go. It never holds it
// for longer than leaveDeadline, and not at all in a namespace that goes as a whole.
// Until then its routes follow the releases.
func (r *Reconciler) leave(ctx context.Context, policy *v1alpha1.NetworkPolicy) (ctrl.Result, error) {
	if !controllerutil.ContainsFinalizer(policy, v1alpha1.FinalizerDeletionPolicy) {
		r.forget(client.ObjectKeyFromObject(policy))
		return ctrl.Result{}, nil // What it owned is collected.
	}
	if r.journal.Behind(policy) {
		return ctrl.Result{}, nil // The event of our own last report comes.
	}
	late := r.Now().Sub(policy.DeletionTimestamp.Time) > leaveDeadline
	going, err := apply.NamespaceGoes(ctx, r.Live, policy.Namespace)
	if err != nil {
		return status.Again(ctx, err)
	}
	asked := !going && (!late || len(userNames(policy)) > 0)
	unread := asked && r.unread(policy) != nil
	if unread && !late {
		return ctrl.Result{RequeueAfter: r.kinds.every}, nil
	}
	if asked && !unread {
		f, err := r.observe(ctx, policy)
		if err != nil {
			return status.Again(ctx, err)
		}
		wait, err := r.giveUp(ctx, f, late)
		if err != nil {
			return r.wakes.Again(ctx, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(policy)}, wait, err)
		}
		if wait > 0 && !late {
			return ctrl.Result{RequeueAfter: wait}, nil
		}
	}
	if late {
		r.Events.Warning(policy, "DeletionPolicyNotDone", "Delete", fmt.Sprintf("what deletionPolicy %s says was not done within %s: the policy goes without", policy.Spec.DeletionPolicy, leaveDeadline))
	}
	_, err = apply.SetFinalizer(ctx, r.Client, fieldOwner, policy, v1alpha1.FinalizerDeletionPolicy, false)
	return status.Again(ctx, err)
}

// giveUp carries the deletionPolicy out, and returns how long to wait before the next
// look, with an error as well; 0 without one: it is done. Where it is late, only routes of others are given back, which
// would lead nowhere else.
func (r *Reconciler) giveUp(ctx context.Context, f *facts, late bool) (time.Duration, error) {
	switch {
	case late:
		_, err := r.leaveUsers(ctx, f, true)
		return 0, err
	case orphans(f.policy):
		if wait, err := r.settle(ctx, f); err != nil || wait > 0 {
			return wait, err
		}
		if wait, err := r.leaveUsers(ctx, f, false); err != nil {
			return wait, err
		}
		return 0, r.orphan(ctx, f)
	}
	_, failed := r.carryOut(ctx, f)
	wait, err := r.leaveUsers(ctx, f, false)
	if err != nil {
		return wait, err
	}
	left, err := r.restore(ctx, f)
	if wait = max(wait, left); failed != nil && wait > 0 {
		// No back-off: that of before may be ready any moment.
		ctrl.LoggerFrom(ctx).Info("routes of a policy that is being deleted are not as decided", "cause", failed.Error())
	}
	return wait, err
}

// orphans says that a policy is being deleted, and that what it has is to stay.
func orphans(p *v1alpha1.NetworkPolicy) bool {
	return p.DeletionTimestamp != nil && p.Spec.DeletionPolicy == v1alpha1.DeletionOrphan
}

// settle leads what is to stay to active releases (rule 20), and says how long to wait
// before the next look; 0: it does, or there is no more time for it. Nothing is reported:
// the planner must not take for a step that a canary has lost its traffic.
func (r *Reconciler) settle(ctx context.Context, f *facts) (time.Duration, error) {
	out := decide(f)
	w, err := r.write(ctx, f, out)
	r.probes.Ask(client.ObjectKeyFromObject(f.policy), probes(f, out, w))
	waits := unsettled(f, out, w)
	if err != nil {
		waits = err.Error()
	}
	switch {
	case waits == "":
		return 0, nil
	case r.Now().Sub(f.policy.DeletionTimestamp.Time) < orphanDeadline:
		return leaveLook, err
	}
	r.Events.Warning(f.policy, "OrphanedUnconfirmed", "Delete", fmt.Sprintf("after %s what is left behind is not known to lead to active releases alone: %s", orphanDeadline, waits))
	return 0, nil
}

// unsettled says what of a decision leads to more than active releases, or is not
// confirmed; "": nothing.
func unsettled(f *facts, out *decision, w writes) string {
	r := &reporter{decider: newDecider(f), out: out, writes: w}
	for _, g := range out.groups {
		for name := range g.weights {
			if a := mainOf(g.group); g.routed && (a == nil || a.VersionedMicroservice != name) {
				return fmt.Sprintf("release group %q has no active release with a ready endpoint", g.group.Name)
			}
		}
	}
	for _, route := range out.routes {
		if v := r.routeState(route); !v.Accepted {
			return v.Message
		}
	}
	if len(w.changed) > 0 {
		return "objects are being written"
	}
	return ""
}

// settled is a Microservice as it is when all canaries of groups whose active release can
// serve are aborted.
func (d *decider) settled(m *v1alpha1.Microservice) *v1alpha1.Microservice {
	out := *m
	out.Status.ReleaseGroups = slices.Clone(m.Status.ReleaseGroups)
	for i := range out.Status.ReleaseGroups {
		g := &out.Status.ReleaseGroups[i]
		if a := activeOf(g); live(g) && a != nil && d.ready(a.VersionedMicroservice) {
			*g = *aborted(g)
		}
	}
	return &out
}

// aborted is a group whose active release has it all, and whose canary is none any more.
func aborted(g *v1alpha1.ReleaseGroup) *v1alpha1.ReleaseGroup {
	out := moved(g)
	out.Run = nil
	for i := range out.Releases {
		if r := &out.Releases[i]; r.Status == v1alpha1.ReleaseCanary {
			r.Status = v1alpha1.ReleasePending
		}
	}
	return out
}

// onlyLive leaves of a decision on a policy that is being deleted what changes objects
// that are there. None is made for it any more: in a deletion in the foreground it would
// be collected at once. A release without a Service has no ready endpoint, and gets
// nothing.
func (d *decider) onlyLive(out *decision) {
	out.services = slices.DeleteFunc(out.services, func(s resources.Service) bool { return d.service(s.Name) == nil })
	out.routes = slices.DeleteFunc(out.routes, func(r *routeDecision) bool { return d.live[r.Name] == nil || d.live[r.Name].Leaving })
	out.shared = slices.DeleteFunc(out.shared, func(s providers.Shared) bool {
		return !slices.ContainsFunc(d.rest, func(o client.Object) bool { return sharedKey(o) == sharedKey(s) })
	})
}

// orphan takes the policy's reference off all that it owns: it stays, and serves.
func (r *Reconciler) orphan(ctx context.Context, f *facts) error {
	for _, name := range sortedKeys(f.services) {
		if err := r.disown(ctx, f, f.services[name]); err != nil {
			return err
		}
	}
	for _, name := range sortedKeys(f.live) {
		if f.live[name].User {
			continue // It has no owner of ours.
		}
		for _, o := range f.live[name].Objects {
			if err := r.disown(ctx, f, o); err != nil {
				return err
			}
		}
	}
	for _, o := range f.rest {
		if err := r.disown(ctx, f, o); err != nil {
			return err
		}
	}
	if f.adopted == nil || !resources.Marked(f.adopted, f.policy.Name) {
		return nil
	}
	next := f.adopted.DeepCopy()
	delete(next.Labels, v1alpha1.LabelPolicy)
	return r.patchAdopted(ctx, f.adopted, next)
}

func (r *Reconciler) disown(ctx context.Context, f *facts, live client.Object) error {
	next := live.DeepCopyObject().(client.Object)
	if err := controllerutil.RemoveControllerReference(f.policy, next, r.Client.Scheme()); err != nil {
		return fmt.Errorf("take owner off %T %q: %w", live, live.GetName(), err)
	}
	labels := next.GetLabels()
	delete(labels, v1alpha1.LabelPolicy) // A policy of the same name must not take it for its own.
	next.SetLabels(labels)
	if err := r.Client.Patch(ctx, next, client.MergeFrom(live), client.FieldOwner(fieldOwner)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("take owner off %T %q: %w", live, live.GetName(), err)
	}
	return nil
}

// restore gives the adopted Service back once the pods that it led to are ready
// again, and lets that be seen everywhere.
func (r *Reconciler) restore(ctx context.Context, f *facts) (time.Duration, error) {
	s := f.adopted
	if s == nil || !resources.Marked(s, f.policy.Name) {
		return r.drainLeft(f), nil
	}
	next, err := resources.GiveBack(s)
	if err != nil {
		r.Events.Warning(f.policy, reasonAdoptedUnsuitable, "Delete", err.Error())
		return 0, nil // Nobody but a person can mend it: nothing waits for that.
	}
	ready, err := r.readyPods(ctx, f.policy.Namespace, next.Spec.Selector)
	if err != nil {
		return 0, err
	}
	if ready < r.enough(f) {
		return leaveLook, nil
	}
	if err := r.patchAdopted(ctx, s, next); err != nil {
		return 0, err
	}
	r.given.note(client.ObjectKeyFromObject(f.policy), r.Now())
	r.Events.Normal(f.policy, "ServiceRestored", "Delete", fmt.Sprintf("Service %q leads to its former pods again", s.Name))
	return leaveDrain, nil
}

// drainLeft is how long callers still get to see that the Service was given back. A
// manager that has just begun does not know, and gives the whole time.
func (r *Reconciler) drainLeft(f *facts) time.Duration {
	if adoptedName(f.policy) == "" && len(userNames(f.policy)) == 0 {
		return 0
	}
	key := client.ObjectKeyFromObject(f.policy)
	at := r.given.last(key)
	if at.IsZero() {
		r.given.note(key, r.Now())
		return leaveDrain
	}
	return max(0, leaveDrain-r.Now().Sub(at))
}

// enough is how many ready pods the adopted Service must have before it is led back
// to them: as many as carry its traffic now, and, after half of the time that there
// is, one.
func (r *Reconciler) enough(f *facts) int {
	began := f.policy.DeletionTimestamp
	if began == nil && f.microservice != nil {
		began = f.microservice.DeletionTimestamp
	}
	if began == nil || r.Now().Sub(began.Time) > leaveDeadline/2 {
		return 1
	}
	return max(1, len(f.endpoints[f.adopted.Name].ready))
}

// readyPods counts the ready pods that a selector chooses, those of releases apart.
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
