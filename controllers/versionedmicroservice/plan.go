package versionedmicroservice

import (
	"cmp"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/versionedmicroservice/resources"
	"github.com/heighliner/heighliner/internal/apply"
)

// plan is what a reconcile writes to child objects. The zero plan writes nothing.
type plan struct {
	// create is the Deployment to create.
	create *appsv1.Deployment
	// update is the desired Deployment, except for its template and replicas.
	update *appsv1.Deployment
	// restore is the Deployment with the template of the release. It is written only if
	// the server finds that it changes the stored template.
	restore *appsv1.Deployment
	// retryAt is when the ReplicaSet is next made to retry; zero if that is not known yet.
	retryAt time.Time
	// scale is the number of replicas to set.
	scale *int32
	// budget is applied; deleteBudget is deleted.
	budget, deleteBudget *policyv1.PodDisruptionBudget
	// autoscaler is applied; deleteAutoscaler is deleted, before the Deployment is scaled
	// below the autoscaler's minimum.
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
			p.create.Spec.Replicas = new(int32(0)) // The API server checks its template before the other release ends.
		}
		return
	}
	if live.DeletionTimestamp != nil || !metav1.IsControlledBy(live, o.release) {
		return // apply describes why
	}
	if edited(cmp.Or(o.release.Status.TemplateHash, o.template), live) {
		p.restore = resources.Restore(live, o.release)
	}
	amended := resources.Amend(live, o.release)
	due, retryAt := planRetry(o, now)
	if p.retryAt = retryAt; due != nil {
		resources.Annotate(amended, resources.AnnotationRetry, due.String())
	}
	if p.restore == nil && !equality.Semantic.DeepEqual(live, amended) {
		p.update = amended
	}
	if want := o.release.Spec.Replicas; o.predecessor == nil && !hasReplicas(o.release, live) {
		p.scale = &want
	}
}

// edited reports whether the pod template may differ from what this controller wrote. A
// user who edits the template may also edit the annotation, but not the status of the
// release.
//
// known is the hash that is recorded in the status, or remembered since the Deployment was created,
// or "". The annotation contains it if the template was restored, or an earlier version created the
// Deployment.
func edited(known string, live *appsv1.Deployment) bool {
	hash, err := apply.Hash(live.Spec.Template)
	annotated := live.Annotations[resources.AnnotationTemplate]
	return err != nil || hash != cmp.Or(annotated, hash) || hash != cmp.Or(known, annotated)
}

// planBudget leaves the comparison with an existing budget to the writer.
func planBudget(o *observed, p *plan) {
	if o.budget == nil && starts(o) {
		return // The server would write its status again for each pod.
	}
	if p.budget = resources.Budget(o.release); p.budget != nil {
		return
	}
	if o.budget != nil && o.budget.DeletionTimestamp == nil && metav1.IsControlledBy(o.budget, o.release) {
		p.deleteBudget = o.budget
	}
}

// starts reports whether a release has no traffic yet and is not available: its pods need no
// protection from evictions.
func starts(o *observed) bool {
	state := rolloutStateOf(o.microservice, o.release.Name)
	if o.microservice == nil || state.promoted || state.release != "" && state.release != v1alpha1.ReleasePending {
		return false
	}
	return o.deployment == nil || o.deployment.Status.AvailableReplicas < o.release.Spec.Replicas
}

// planAutoscaler leaves the comparison with an existing autoscaler to the writer.
func planAutoscaler(o *observed, p *plan) {
	if o.predecessor != nil {
		return // It has no pods to scale yet.
	}
	if p.autoscaler = resources.Autoscaler(o.release); p.autoscaler != nil {
		return
	}
	if o.autoscaler != nil && o.autoscaler.DeletionTimestamp == nil && metav1.IsControlledBy(o.autoscaler, o.release) {
		p.deleteAutoscaler = o.autoscaler
	}
}
