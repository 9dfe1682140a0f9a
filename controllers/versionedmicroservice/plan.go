package versionedmicroservice

import (
	"cmp"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hlnr "github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/versionedmicroservice/resources"
	"github.com/heighliner/heighliner/internal/apply"
)

// plan is what a pass writes to children; the zero plan: nothing.
type plan struct {
	// create is the Deployment to create.
	create *appsv1.Deployment
	// amend is the Deployment as it should be, template and replicas aside.
	amend *appsv1.Deployment
	// restore is the Deployment with the template of the release, to be written if
	// the server finds that this changes anything; else its template is taken for good.
	restore *appsv1.Deployment
	// retry is when the ReplicaSet is to be asked to try again; zero: not yet known.
	retry time.Time
	// scale is the number of replicas to set.
	scale *int32
	// budget is to be applied; retire is to be deleted.
	budget, retire *policyv1.PodDisruptionBudget
	// autoscaler is to be applied; unscale is to be deleted, before the Deployment
	// is made smaller than it wants.
	autoscaler, unscale *autoscalingv2.HorizontalPodAutoscaler
}

// decide is pure: what is observed alone gives the plan.
func decide(o *observed, now time.Time) plan {
	var p plan
	decideDeployment(o, &p, now)
	decideBudget(o, &p)
	decideAutoscaler(o, &p)
	return p
}

func decideDeployment(o *observed, p *plan, now time.Time) {
	live := o.deployment
	if live == nil {
		p.create = resources.Deployment(o.release)
		return
	}
	if live.DeletionTimestamp != nil || !metav1.IsControlledBy(live, o.release) {
		return // apply says why
	}
	if edited(o.release, live) {
		p.restore = resources.Restore(live, o.release)
	}
	amended := resources.Amend(live, o.release)
	due, look := decideRetry(o, now)
	if p.retry = look; due != nil {
		resources.Annotate(amended, resources.AnnotationRetry, due.String())
	}
	if p.restore == nil && !equality.Semantic.DeepEqual(live, amended) {
		p.amend = amended
	}
	if want := o.release.Spec.Replicas; !sized(o.release, live) {
		p.scale = &want
	}
}

// edited says that the pod template may be another one than was written. Whoever edits
// it may write the annotation too, but not the release's status.
func edited(release *hlnr.VersionedMicroservice, live *appsv1.Deployment) bool {
	hash, err := apply.Hash(live.Spec.Template)
	known := cmp.Or(release.Status.TemplateHash, hash)
	return err != nil || hash != live.Annotations[resources.AnnotationTemplate] || hash != known
}

// decideBudget leaves the comparison of an existing budget to the writer.
func decideBudget(o *observed, p *plan) {
	if p.budget = resources.Budget(o.release); p.budget != nil {
		return
	}
	if o.budget != nil && o.budget.DeletionTimestamp == nil && metav1.IsControlledBy(o.budget, o.release) {
		p.retire = o.budget
	}
}

// decideAutoscaler leaves the comparison of an existing one to the writer.
func decideAutoscaler(o *observed, p *plan) {
	if p.autoscaler = resources.Autoscaler(o.release); p.autoscaler != nil {
		return
	}
	if o.autoscaler != nil && o.autoscaler.DeletionTimestamp == nil && metav1.IsControlledBy(o.autoscaler, o.release) {
		p.unscale = o.autoscaler
	}
}
