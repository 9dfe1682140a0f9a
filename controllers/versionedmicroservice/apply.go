package versionedmicroservice

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	hlnr "github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/versionedmicroservice/resources"
	"github.com/heighliner/heighliner/internal/apply"
	"github.com/heighliner/heighliner/internal/status"
)

// outcome of the writes of a pass.
type outcome struct {
	// moved says that the Deployment was written: what was observed of it is old.
	moved bool
	// template is the hash of the Deployment's pod template, where that was written.
	template string
	// deployment is why the Deployment could not be written; nil: nothing is wrong.
	deployment *status.Error
	// budget is the same for the PodDisruptionBudget.
	budget *status.Error
	// autoscaler is the same for the HorizontalPodAutoscaler.
	autoscaler *status.Error
}

// errors are those of all children, the one that matters most first.
func (o outcome) errors() []*status.Error {
	return []*status.Error{o.deployment, o.autoscaler, o.budget}
}

// transient is the error that is tried again with back-off, nil where there is none.
func (o outcome) transient() error {
	for _, err := range o.errors() {
		if err != nil && err.Class == status.Transient {
			return err
		}
	}
	return nil
}

// outdated is an error that says that what was observed is old; nil where there is none.
func (o outcome) outdated() error {
	for _, err := range o.errors() {
		if err != nil && err.Reason == status.ReasonConflict {
			return err
		}
	}
	return nil
}

// apply carries the plan out. One child's fault does not keep another from being
// written, but for one: as long as there is an autoscaler that is to go, the Deployment
// is not made smaller, because it would be made larger again.
func (r *reconciler) apply(ctx context.Context, o *observed, p plan) outcome {
	var did outcome
	if p.create == nil {
		did.autoscaler = status.Classify(r.applyAutoscaler(ctx, o, p))
	}
	if p.unscale != nil && did.autoscaler != nil {
		p.scale = nil
	}
	moved, err := r.applyDeployment(ctx, o, p)
	did.moved, did.deployment = moved, classify(err)
	if written := cmp.Or(p.create, p.restore); written != nil && err == nil {
		did.template = written.Annotations[resources.AnnotationTemplate]
	}
	if p.create != nil && err == nil {
		did.autoscaler = status.Classify(r.applyAutoscaler(ctx, o, p))
	}
	did.budget = status.Classify(r.applyBudget(ctx, o, p))
	return did
}

func (r *reconciler) applyDeployment(ctx context.Context, o *observed, p plan) (bool, error) {
	if p.create != nil {
		return true, r.createDeployment(ctx, o.release, p.create)
	}
	live := o.deployment
	if err := r.writer.Claim(o.release, live); err != nil {
		return false, err
	}
	moved := false
	if p.restore != nil {
		if err := r.restoreTemplate(ctx, o, p.restore); err != nil {
			return true, err
		}
		live, moved = p.restore, true
	}
	if p.amend != nil {
		if err := r.patch(ctx, p.amend, live); err != nil {
			return true, err
		}
		live, moved = p.amend, true
	}
	if p.scale != nil {
		return true, r.scale(ctx, live, *p.scale)
	}
	return moved, nil
}

// createDeployment creates, and never applies: a Deployment of that name which
// exists is left alone. A dry run tells first how the server will store the
// template, so that the hash of that goes along in the one write.
func (r *reconciler) createDeployment(ctx context.Context, release *hlnr.VersionedMicroservice, d *appsv1.Deployment) error {
	if err := controllerutil.SetControllerReference(release, d, r.client.Scheme()); err != nil {
		return fmt.Errorf("set owner of Deployment %q: %w", d.Name, err)
	}
	trial := d.DeepCopy()
	if err := r.client.Create(ctx, trial, client.DryRunAll, client.FieldOwner(fieldOwner)); err != nil {
		if !noDryRun(err) {
			return r.createFailed(ctx, release, d, err)
		}
	} else if err := stamp(d, trial); err != nil {
		return err
	}
	if err := r.client.Create(ctx, d, client.FieldOwner(fieldOwner)); err != nil {
		return r.createFailed(ctx, release, d, err)
	}
	return nil
}

// createFailed finds out whose the Deployment is that stands in the way. One of
// ours is not in the cache when that is behind, or when somebody took the labels off
// by which the cache is cut: they are put back.
func (r *reconciler) createFailed(ctx context.Context, release *hlnr.VersionedMicroservice, d *appsv1.Deployment, err error) error {
	if apierrors.IsAlreadyExists(err) {
		live, getErr := get(ctx, r.live, client.ObjectKeyFromObject(d), &appsv1.Deployment{})
		if getErr != nil {
			return getErr
		}
		if live != nil {
			if claim := r.writer.Claim(release, live); claim != nil {
				return claim
			}
			if amended := resources.Amend(live, release); !equality.Semantic.DeepEqual(live, amended) {
				return r.patch(ctx, amended, live)
			}
		}
	}
	return fmt.Errorf("create Deployment %q: %w", d.Name, err)
}

// restoreTemplate puts the template of the release back, if that is what differs.
// The server is asked first: defaults that a new version of it or of our libraries
// knows, and changes that admission makes, are no edits, and roll no pod.
func (r *reconciler) restoreTemplate(ctx context.Context, o *observed, restored *appsv1.Deployment) error {
	trial := restored.DeepCopy()
	err := r.client.Patch(ctx, trial, client.MergeFrom(o.deployment), client.DryRunAll, client.FieldOwner(fieldOwner))
	if err != nil && !noDryRun(err) {
		return fmt.Errorf("try template of Deployment %q: %w", restored.Name, err)
	}
	if err != nil {
		trial.Spec.Template = o.deployment.Spec.Template
	}
	if equality.Semantic.DeepEqual(trial.Spec.Template, o.deployment.Spec.Template) {
		restored.Spec.Template = *o.deployment.Spec.Template.DeepCopy()
	} else {
		r.events.Warning(o.release, "TemplateRestored", "Restore", fmt.Sprintf("Deployment %q was edited: its pod template is that of the release again; change the Microservice's template instead", restored.Name))
	}
	if err := stamp(restored, trial); err != nil {
		return err
	}
	return r.patch(ctx, restored, o.deployment)
}

// stamp notes the hash of the template as the server stores it.
func stamp(d, stored *appsv1.Deployment) error {
	hash, err := apply.Hash(stored.Spec.Template)
	if err != nil {
		return fmt.Errorf("hash template of Deployment %q: %w", d.Name, err)
	}
	resources.Annotate(d, resources.AnnotationTemplate, hash)
	return nil
}

// patch writes what differs between before and want, only onto what was read. want
// is the server's answer afterwards.
func (r *reconciler) patch(ctx context.Context, want, before *appsv1.Deployment) error {
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.client.Patch(ctx, want, patch, client.FieldOwner(fieldOwner)); err != nil {
		return fmt.Errorf("patch Deployment %q: %w", want.Name, err)
	}
	return nil
}

// scale sets the replicas through the scale subresource, only on what was read
// (protocol rules 2 and 6).
func (r *reconciler) scale(ctx context.Context, live *appsv1.Deployment, replicas int32) error {
	body := &autoscalingv1.Scale{
		ObjectMeta: metav1.ObjectMeta{Name: live.Name, Namespace: live.Namespace, UID: live.UID, ResourceVersion: live.ResourceVersion},
		Spec:       autoscalingv1.ScaleSpec{Replicas: replicas},
	}
	if err := r.client.SubResource("scale").Update(ctx, live.DeepCopy(), client.WithSubResourceBody(body), client.FieldOwner(fieldOwner)); err != nil {
		return fmt.Errorf("scale Deployment %q: %w", live.Name, err)
	}
	return nil
}

func (r *reconciler) applyBudget(ctx context.Context, o *observed, p plan) error {
	switch {
	case p.budget != nil:
		_, err := r.writer.Apply(ctx, o.release, p.budget)
		return err
	case p.retire != nil:
		// In any state: its status is written with each pod.
		budget := p.retire.DeepCopy()
		budget.ResourceVersion = ""
		return r.writer.Delete(ctx, o.release, budget)
	}
	return nil
}

func (r *reconciler) applyAutoscaler(ctx context.Context, o *observed, p plan) error {
	switch {
	case p.autoscaler != nil:
		_, err := r.writer.Apply(ctx, o.release, p.autoscaler)
		return err
	case p.unscale != nil:
		return r.writer.Delete(ctx, o.release, p.unscale)
	}
	return nil
}

// classify gives the Deployment's faults the words of status.failure.
func classify(err error) *status.Error {
	class := status.Classify(err)
	if class == nil {
		return nil
	}
	switch {
	case class.Reason == status.ReasonInvalid:
		class.Reason = hlnr.FailureInvalidTemplate
	case class.Reason == status.ReasonForbidden:
		class.Reason = hlnr.FailureForbidden
		if f := refusal(err.Error()); f.reason != hlnr.FailurePodRejected {
			class.Reason = f.reason
		}
	case class.Reason == status.ReasonFailed && unanswered(err):
		class.Reason = hlnr.FailureAdmissionUnavailable
	}
	return class
}

// unanswered says that the server could not decide about a write.
func unanswered(err error) bool {
	return apierrors.IsInternalError(err) || apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) ||
		apierrors.IsServiceUnavailable(err) || apierrors.IsTooManyRequests(err)
}

// noDryRun says that an admission webhook cannot be asked without effect.
func noDryRun(err error) bool {
	answer := new(apierrors.StatusError)
	return errors.As(err, &answer) && answer.ErrStatus.Code == 400
}
