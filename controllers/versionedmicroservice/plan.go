package versionedmicroservice

import (
	"cmp"
	"reflect"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/versionedmicroservice/resources"
)

// plan contains the writes of a reconcile to child objects. The zero plan writes nothing.
type plan struct {
	// create is the Deployment to create.
	create *appsv1.Deployment
	// update is the desired Deployment, except for its template and replicas.
	update *appsv1.Deployment
	// restore means that the pod template may have been edited. A dry run compares the pod template with the
	// release's template. If they differ, the release's template is restored.
	restore bool
	// retryAt is the time at which to request the next retry of the ReplicaSet; zero if no later retry is planned.
	retryAt time.Time
	// scale is the number of replicas to set.
	scale *int32
	// budget is the PodDisruptionBudget to apply. deleteBudget is the PodDisruptionBudget to delete.
	budget, deleteBudget *policyv1.PodDisruptionBudget
	// autoscaler is the HorizontalPodAutoscaler to apply. deleteAutoscaler is the HorizontalPodAutoscaler to
	// delete before the Deployment is scaled below the autoscaler's minimum.
	autoscaler, deleteAutoscaler *autoscalingv2.HorizontalPodAutoscaler
}

// newPlan plans the writes. It is pure.
func newPlan(o *observed, now time.Time) plan {
	var p plan
	planDeployment(o, &p, now)
	planBudget(o, &p)
	planAutoscaler(o, &p)
	return p
}

func planDeployment(o *observed, p *plan, now time.Time) {
	live := o.deployment
	if live == nil {
		p.create = resources.Deployment(o.release)
		if o.predecessor != nil {
			// Create it without replicas, so that the API server checks the template before the predecessor's pods terminate.
			p.create.Spec.Replicas = new(int32(0))
		}
		return
	}
	if live.DeletionTimestamp != nil || !metav1.IsControlledBy(live, o.release) {
		return // apply reports the reason
	}
	if edited(cmp.Or(o.release.Status.TemplateHash, o.template), live) {
		p.restore = true
	}
	amended := resources.Amend(live, o.release)
	due, retryAt := planRetry(o, now)
	if p.retryAt = retryAt; due != nil {
		resources.Annotate(amended, resources.AnnotationRetry, due.String())
	}
	// The semantic comparison is needed only for quantities, and costs much more.
	if !p.restore && !reflect.DeepEqual(live, amended) && !equality.Semantic.DeepEqual(live, amended) {
		p.update = amended
	}
	if want := o.release.Spec.Replicas; o.predecessor == nil && !hasReplicas(o.release, live) {
		p.scale = &want
	}
}

// edited reports whether the pod template may differ from the template that this controller wrote. A user who
// edits the template can also edit the annotation, but not the release's status.
//
// known is the hash in the status, or the hash that was kept in memory when the Deployment was created, or "".
// The annotation contains the hash if the template was restored, or if an earlier version of
// Heighliner created the Deployment.
func edited(known string, live *appsv1.Deployment) bool {
	hash, err := templateHash(live)
	annotated := live.Annotations[resources.AnnotationTemplate]
	return err != nil || hash != cmp.Or(annotated, hash) || hash != cmp.Or(known, annotated)
}

// planBudget plans the PodDisruptionBudget. The writer compares it with an existing budget.
func planBudget(o *observed, p *plan) {
	if o.budget == nil && starts(o) {
		return // While the release starts, each new pod would cause a write to the status of the budget.
	}
	if p.budget = resources.Budget(o.release); p.budget != nil {
		return
	}
	if o.budget != nil && o.budget.DeletionTimestamp == nil && metav1.IsControlledBy(o.budget, o.release) {
		p.deleteBudget = o.budget
	}
}

// starts reports whether a release has no traffic yet and is not available. The pods of such a release
// require no protection from evictions.
func starts(o *observed) bool {
	state := rolloutStateOf(o.microservice, o.release.Name)
	if o.microservice == nil || state.promoted || state.release != "" && state.release != v1alpha1.ReleasePending {
		return false
	}
	return o.deployment == nil || o.deployment.Status.AvailableReplicas < o.release.Spec.Replicas
}

// planAutoscaler plans the HorizontalPodAutoscaler. The writer compares it with an existing autoscaler.
func planAutoscaler(o *observed, p *plan) {
	if o.predecessor != nil {
		return // The release has no pods to scale yet.
	}
	if p.autoscaler = resources.Autoscaler(o.release); p.autoscaler != nil {
		return
	}
	if o.autoscaler != nil && o.autoscaler.DeletionTimestamp == nil && metav1.IsControlledBy(o.autoscaler, o.release) {
		p.deleteAutoscaler = o.autoscaler
	}
}
