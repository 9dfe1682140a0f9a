package networkpolicy

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/resources"
	"github.com/heighliner/heighliner/internal/apply"
	"github.com/heighliner/heighliner/internal/status"
)

const (
	// leaveDeadline bounds how long a policy that is deleted is held back: after it
	// the finalizer goes, whatever is left undone.
	leaveDeadline = 10 * time.Minute
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
func (r *Reconciler) leave(ctx context.Context, policy *v1alpha1.NetworkPolicy) (ctrl.Result, error) {
	if !controllerutil.ContainsFinalizer(policy, v1alpha1.FinalizerDeletionPolicy) {
		return ctrl.Result{}, nil // What it owned is collected.
	}
	late := r.Now().Sub(policy.DeletionTimestamp.Time) > leaveDeadline
	going, err := apply.NamespaceGoes(ctx, r.Live, policy.Namespace)
	if err != nil {
		return status.Again(ctx, err)
	}
	if !going && (!late || len(userNames(policy)) > 0) {
		f, err := r.observe(ctx, policy)
		if err != nil {
			return status.Again(ctx, err)
		}
		wait, err := r.giveUp(ctx, f, late)
		if late {
			wait = 0
		}
		if err != nil || wait > 0 {
			if err != nil {
				return status.Again(ctx, err)
			}
			return ctrl.Result{RequeueAfter: wait}, nil
		}
	}
	if late {
		r.Events.Warning(policy, "DeletionPolicyNotDone", "Delete", fmt.Sprintf("what deletionPolicy %s says was not done within %s: the policy goes without", policy.Spec.DeletionPolicy, leaveDeadline))
	}
	_, err = apply.SetFinalizer(ctx, r.Client, fieldOwner, policy, v1alpha1.FinalizerDeletionPolicy, false)
	return status.Again(ctx, err)
}

// giveUp carries the deletionPolicy out, and says how long to wait before the next
// look; 0: it is done. Where it is late, only routes of others are given back, which
// would lead nowhere else.
func (r *Reconciler) giveUp(ctx context.Context, f *facts, late bool) (time.Duration, error) {
	wait, err := r.leaveUsers(ctx, f, late)
	if err != nil || late {
		return 0, err
	}
	if f.policy.Spec.DeletionPolicy == v1alpha1.DeletionOrphan {
		return 0, r.orphan(ctx, f)
	}
	left, err := r.restore(ctx, f)
	return max(wait, left), err
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
