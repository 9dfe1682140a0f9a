package microservice

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/status"
)

// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;patch

// Reasons for the DeploymentAdopted condition.
const (
	reasonDeploymentNotFound     = "DeploymentNotFound"
	reasonDeploymentNotAdoptable = "DeploymentNotAdoptable"
	reasonServiceNotAdopted      = "ServiceNotAdopted"
	reasonNoActiveRelease        = "NoActiveRelease"
	reasonDraining               = "Draining"
	reasonAdopted                = "Adopted"
)

// requeueDeployment is the interval at which the controller rereads a Deployment that is missing or cannot be
// adopted. Deployments are not watched.
const requeueDeployment = time.Minute

// adoption is the progress of the takeover from a Deployment.
type adoption struct {
	// reason and message are those of the DeploymentAdopted condition. The condition is True if the reason is
	// Adopted.
	reason, message string
	// scale is the Deployment to write; nil if it does not change.
	scale *appsv1.Deployment
	// replicas is the previous number of replicas of the Deployment, if scale is set.
	replicas int32
	// requeue is the time of the next reconcile; zero if no reconcile is necessary until something changes.
	requeue time.Time
}

// observeDeployment reads the Deployment that the Microservice takes over from, until the takeover is
// complete. Deployments are not watched.
func (r *Reconciler) observeDeployment(ctx context.Context, o *observed) error {
	from := o.ms.Spec.AdoptFrom
	if from == nil || meta.IsStatusConditionTrue(o.ms.Status.Conditions, v1alpha1.ConditionDeploymentAdopted) {
		return nil
	}
	var d appsv1.Deployment
	err := r.live.Get(ctx, client.ObjectKey{Namespace: o.ms.Namespace, Name: from.DeploymentName}, &d)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return fmt.Errorf("get Deployment %q: %w", from.DeploymentName, err)
	case err == nil:
		o.deployment = &d
	}
	o.adopting = true
	return nil
}

// adopt decides whether to scale the previous Deployment to zero. The Deployment is scaled to zero when a
// release is active and available, each Service that a policy adopts routes to the release, and in-flight
// requests to the previous pods have had time to complete. The function is pure.
func adopt(o *observed, now time.Time) *adoption {
	name, d := o.ms.Spec.AdoptFrom.DeploymentName, o.deployment
	say := func(reason, format string, args ...any) *adoption {
		return &adoption{reason: reason, message: fmt.Sprintf(format, args...)}
	}
	switch {
	case d == nil:
		a := say(reasonDeploymentNotFound, "spec.adoptFrom.deploymentName: Deployment %q does not exist: create it, or delete this Microservice and create it again with the correct value, because the field is immutable; releases start in the meantime", name)
		a.requeue = now.Add(requeueDeployment)
		return a
	case metav1.GetControllerOf(d) != nil:
		a := say(reasonDeploymentNotAdoptable, "spec.adoptFrom.deploymentName: Deployment %q is controlled by %s %q, which would scale it up again", name, metav1.GetControllerOf(d).Kind, metav1.GetControllerOf(d).Name)
		a.requeue = now.Add(requeueDeployment)
		return a
	case d.Annotations[v1alpha1.AnnotationAdoptedReplicas] != "" && replicas(d) == 0:
		return say(reasonAdopted, "Deployment %q is scaled to zero: its previous number of replicas (%s) is in annotation %s", name, d.Annotations[v1alpha1.AnnotationAdoptedReplicas], v1alpha1.AnnotationAdoptedReplicas)
	case !servesSomewhere(o.ms):
		return say(reasonNoActiveRelease, "Deployment %q serves traffic until a release is active and available", name)
	}
	moved := time.Time{}
	adopting := 0
	for i := range o.policies {
		p := &o.policies[i]
		if p.Spec.AdoptFrom == nil {
			continue
		}
		adopting++
		if p.Status.Adopted == nil || p.Status.Adopted.AdoptedTime == nil {
			return say(reasonServiceNotAdopted, "Deployment %q serves traffic until networkpolicies.hlnr.io %q routes Service %q to the active release", name, p.Name, p.Spec.AdoptFrom.ServiceName)
		}
		if at := p.Status.Adopted.AdoptedTime.Time; at.After(moved) {
			moved = at
		}
	}
	if len(o.policies) > 0 && adopting == 0 {
		return say(reasonServiceNotAdopted, "Deployment %q serves traffic until a networkpolicies.hlnr.io object adopts its Service: set spec.adoptFrom.serviceName of that object", name)
	}
	if end := moved.Add(o.facts.Spec.Drain); now.Before(end) {
		a := say(reasonDraining, "Deployment %q has until %s to complete in-flight requests", name, end.UTC().Format(time.RFC3339))
		a.requeue = end
		return a
	}
	a := say(reasonDraining, "Deployment %q is being scaled to zero", name)
	a.scale, a.requeue = d.DeepCopy(), now.Add(time.Second)
	a.scale.Annotations = maps.Clone(d.Annotations)
	if a.scale.Annotations == nil {
		a.scale.Annotations = map[string]string{}
	}
	a.replicas = replicas(d)
	if n, ok := adoptedReplicas(d); ok {
		a.replicas = max(a.replicas, n) // If a user scaled the Deployment up again, use the larger number.
	}
	a.scale.Annotations[v1alpha1.AnnotationAdoptedReplicas] = strconv.Itoa(int(a.replicas))
	a.scale.Spec.Replicas = new(int32(0))
	return a
}

// adoptedReplicas returns the number of replicas that the Deployment had before it was scaled to zero.
func adoptedReplicas(d *appsv1.Deployment) (int32, bool) {
	n, err := strconv.ParseInt(d.Annotations[v1alpha1.AnnotationAdoptedReplicas], 10, 32)
	return int32(n), err == nil && n >= 0
}

func replicas(d *appsv1.Deployment) int32 {
	if d.Spec.Replicas == nil {
		return 1
	}
	return *d.Spec.Replicas
}

// servesSomewhere reports whether any group has an active release that is available. Previews do
// not count, because they do not replace the adopted Deployment.
func servesSomewhere(ms *v1alpha1.Microservice) bool {
	groups := groupsWithoutPreviews(ms)
	for i := range groups {
		g := &groups[i]
		if row := g.ActiveRelease(); g.Phase == v1alpha1.GroupLive && row != nil && row.Available {
			return true
		}
	}
	return false
}

// setAdopted reports the progress of the adoption.
func setAdopted(w *pass) {
	conds := &w.ms.Status.Conditions
	switch a := w.plan.adoption; {
	case w.ms.Spec.AdoptFrom == nil:
		status.Remove(conds, v1alpha1.ConditionDeploymentAdopted)
	case a == nil: // The takeover is complete.
	case a.reason == reasonAdopted:
		status.Set(conds, w.ms.Generation, v1alpha1.ConditionDeploymentAdopted, metav1.ConditionTrue, a.reason, a.message)
	default:
		status.Set(conds, w.ms.Generation, v1alpha1.ConditionDeploymentAdopted, metav1.ConditionFalse, a.reason, a.message)
	}
	if a := w.plan.adoption; a != nil && a.scale != nil {
		w.ms.Status.AdoptedReplicas = &a.replicas
	}
}

// scaleDeployment patches the Deployment that the Microservice takes over from, if the Deployment has
// not changed since it was read.
func (r *Reconciler) scaleDeployment(ctx context.Context, live, next *appsv1.Deployment) error {
	patch := client.MergeFromWithOptions(live, client.MergeFromWithOptimisticLock{})
	if err := r.Patch(ctx, next, patch, client.FieldOwner(FieldOwner)); err != nil {
		return fmt.Errorf("scale Deployment %q: %w", live.Name, err)
	}
	return nil
}
