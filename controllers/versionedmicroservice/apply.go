package versionedmicroservice

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/versionedmicroservice/resources"
	"github.com/heighliner/heighliner/internal/apply"
	"github.com/heighliner/heighliner/internal/status"
)

// applied is the result of the writes of a reconcile.
type applied struct {
	// deploymentWritten reports whether the Deployment was written. If it is true, the observed Deployment is
	// outdated.
	deploymentWritten bool
	// template is the hash of the Deployment's pod template, if the template was written.
	template string
	// deployment is the error from the write of the Deployment, or nil.
	deployment *status.Error
	// budget is the error from the write of the PodDisruptionBudget, or nil.
	budget *status.Error
	// autoscaler is the error from the write of the HorizontalPodAutoscaler, or nil.
	autoscaler *status.Error
	// jobs is the error from the creation or deletion of Jobs for hooks, or nil.
	jobs *status.Error
}

// errors returns the errors for all child objects, most important first.
func (o applied) errors() []*status.Error {
	return []*status.Error{o.deployment, o.jobs, o.autoscaler, o.budget}
}

// transient returns the first error that requires a retry with back-off, or nil.
func (o applied) transient() error {
	for _, err := range o.errors() {
		if err != nil && err.Class == status.Transient {
			return err
		}
	}
	return nil
}

// outdated returns the first error that reports a conflict with a newer state of an object, or nil.
func (o applied) outdated() error {
	for _, err := range o.errors() {
		if err != nil && err.Reason == status.ReasonConflict {
			return err
		}
	}
	return nil
}

// apply executes the plan. An error for one child object does not prevent writes to other child
// objects, with two exceptions: the autoscaler is not created before the Deployment, and the Deployment
// is not scaled down before the autoscaler is deleted, because the autoscaler would scale it up again.
func (r *reconciler) apply(ctx context.Context, o *observed, p plan) applied {
	var done applied
	if p.create == nil {
		done.autoscaler = status.Classify(r.applyAutoscaler(ctx, o, p))
	}
	if p.deleteAutoscaler != nil && done.autoscaler != nil {
		p.scale = nil
	}
	moved, template, err := r.applyDeployment(ctx, o, p)
	done.deploymentWritten, done.deployment = moved, classify(err)
	if err == nil {
		done.template = template
	}
	if p.create != nil && err == nil {
		done.autoscaler = status.Classify(r.applyAutoscaler(ctx, o, p))
	}
	done.budget = status.Classify(r.applyBudget(ctx, o, p))
	return done
}

// applyDeployment writes the Deployment. moved reports whether applyDeployment may have sent a write. template is the
// hash of the pod template, if the template was written.
func (r *reconciler) applyDeployment(ctx context.Context, o *observed, p plan) (moved bool, template string, err error) {
	if p.create != nil {
		template, err = r.createDeployment(ctx, o.release, p.create)
		return true, template, err
	}
	live := o.deployment
	if err := r.writer.Claim(o.release, live); err != nil {
		return false, "", err
	}
	if p.restore {
		if live, err = r.restoreTemplate(ctx, o); err != nil {
			return true, "", err
		}
		moved, template = true, live.Annotations[resources.AnnotationTemplate]
	}
	if p.update != nil {
		if err := r.patch(ctx, p.update, live); err != nil {
			return true, "", err
		}
		live, moved = p.update, true
	}
	if p.scale != nil {
		return true, template, r.scale(ctx, live, *p.scale)
	}
	return moved, template, nil
}

// createDeployment creates the Deployment, and does not change an existing Deployment with the same name. The
// response contains the template as the server stores it. The template's hash is kept in memory until
// status.templateHash contains it. If the process exits before that, the hash is not known, and
// restoreTemplate uses a dry run to compare the templates.
func (r *reconciler) createDeployment(ctx context.Context, release *v1alpha1.VersionedMicroservice, d *appsv1.Deployment) (hash string, err error) {
	if err := controllerutil.SetControllerReference(release, d, r.client.Scheme()); err != nil {
		return "", fmt.Errorf("set owner of Deployment %q: %w", d.Name, err)
	}
	if err := r.client.Create(ctx, d, client.FieldOwner(fieldOwner)); err != nil {
		return "", r.createFailed(ctx, release, d, err)
	}
	if hash, err = apply.Hash(d.Spec.Template); err != nil {
		return "", fmt.Errorf("hash template of Deployment %q: %w", d.Name, err)
	}
	r.created.Store(client.ObjectKeyFromObject(release), createdDeployment{d.UID, hash, r.clock.Now()})
	return hash, nil
}

// createdDeployment records a Deployment that this process created: its UID, its creation time, and the hash
// of its template.
type createdDeployment struct {
	uid  types.UID
	hash string
	at   time.Time
}

// createdLag is how long the controller waits for the cache to contain a Deployment that it created. Usually, the
// creation event triggers the next reconcile earlier.
const createdLag = 2 * time.Second

// awaitsDeployment returns how much longer to wait for the cache to contain a release's Deployment.
// It returns 0 if the cache contains the Deployment, or if this process did not create it recently.
func (r *reconciler) awaitsDeployment(o *observed) time.Duration {
	c, ok := r.created.Load(client.ObjectKeyFromObject(o.release))
	if !ok || o.deployment != nil {
		return 0
	}
	left := c.(createdDeployment).at.Add(createdLag).Sub(r.clock.Now())
	if left > createdLag {
		return 0 // The clock was set back.
	}
	return max(0, left)
}

// createdTemplate returns the template hash of a Deployment that this process created, or "". It forgets the
// hash when the status contains it.
func (r *reconciler) createdTemplate(release *v1alpha1.VersionedMicroservice, d *appsv1.Deployment) string {
	key := client.ObjectKeyFromObject(release)
	if release.Status.TemplateHash != "" {
		r.created.Delete(key)
		return ""
	}
	if c, ok := r.created.Load(key); ok && d != nil && c.(createdDeployment).uid == d.UID {
		return c.(createdDeployment).hash
	}
	return ""
}

// createFailed explains a failed creation. A Deployment that this release controls may be missing
// from the cache because the cache is stale, or because a user removed the labels by which the
// cache selects objects. createFailed restores these labels.
func (r *reconciler) createFailed(ctx context.Context, release *v1alpha1.VersionedMicroservice, d *appsv1.Deployment, err error) error {
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

// restoreTemplate restores the release's template if the Deployment was edited. It first uses a dry run to
// compare the templates. New defaults of the server or of client libraries, and changes made during
// admission, are not edits and must not restart pods. restoreTemplate returns the Deployment as the server
// stores it.
func (r *reconciler) restoreTemplate(ctx context.Context, o *observed) (*appsv1.Deployment, error) {
	live, err := r.untrimmed(ctx, o.deployment)
	if err != nil {
		return nil, err
	}
	restored := resources.Restore(live, o.release)
	trial := restored.DeepCopy()
	err = r.client.Patch(ctx, trial, client.MergeFrom(live), client.DryRunAll, client.FieldOwner(fieldOwner))
	if err != nil && !dryRunUnsupported(err) {
		return nil, fmt.Errorf("patch Deployment %q in a dry run: %w", restored.Name, err)
	}
	if err != nil {
		trial.Spec.Template = live.Spec.Template
	}
	if equality.Semantic.DeepEqual(trial.Spec.Template, live.Spec.Template) {
		restored.Spec.Template = *live.Spec.Template.DeepCopy()
	} else {
		r.events.Record(o.release, templateRestoredEvent(restored.Name))
	}
	if err := annotateTemplate(restored, trial); err != nil {
		return nil, err
	}
	return restored, r.patch(ctx, restored, live)
}

// errOutdated is the cause of a conflict error if the Deployment in the cache is outdated.
var errOutdated = errors.New("it has changed since it was read")

// untrimmed returns a Deployment with its pod template. If the cache has trimmed the template, untrimmed reads the Deployment
// from the API server. If the Deployment has changed in the meantime, the error is a conflict.
func (r *reconciler) untrimmed(ctx context.Context, d *appsv1.Deployment) (*appsv1.Deployment, error) {
	if !trimmed(d) {
		return d, nil
	}
	live, err := get(ctx, r.live, client.ObjectKeyFromObject(d), &appsv1.Deployment{})
	if err != nil {
		return nil, err
	}
	if live == nil || live.ResourceVersion != d.ResourceVersion {
		return nil, apierrors.NewConflict(appsv1.SchemeGroupVersion.WithResource("deployments").GroupResource(), d.Name, errOutdated)
	}
	return live, nil
}

// annotateTemplate records, in an annotation, the hash of the template as the server stores it.
func annotateTemplate(d, stored *appsv1.Deployment) error {
	hash, err := apply.Hash(stored.Spec.Template)
	if err != nil {
		return fmt.Errorf("hash template of Deployment %q: %w", d.Name, err)
	}
	resources.Annotate(d, resources.AnnotationTemplate, hash)
	return nil
}

// patch writes the difference between before and want if the object has not changed since it was
// read. It updates want with the server's response.
func (r *reconciler) patch(ctx context.Context, want, before *appsv1.Deployment) error {
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.client.Patch(ctx, want, patch, client.FieldOwner(fieldOwner)); err != nil {
		return fmt.Errorf("patch Deployment %q: %w", want.Name, err)
	}
	return nil
}

// scale sets the replicas through the scale subresource if the object has not changed since it
// was read (protocol rules 2 and 6).
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
	case p.deleteBudget != nil:
		// Delete without a precondition on the resourceVersion, because it changes with the status, which counts pods.
		budget := p.deleteBudget.DeepCopy()
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
	case p.deleteAutoscaler != nil:
		return r.writer.Delete(ctx, o.release, p.deleteAutoscaler)
	}
	return nil
}

// classify maps Deployment errors to the values of status.failure.
func classify(err error) *status.Error {
	class := status.Classify(err)
	if class == nil {
		return nil
	}
	switch {
	case class.Reason == status.ReasonInvalid:
		class.Reason = v1alpha1.FailureInvalidTemplate
	case class.Reason == status.ReasonForbidden:
		class.Reason = v1alpha1.FailureForbidden
		if f := classifyRefusal(err.Error()); f.reason != v1alpha1.FailurePodRejected {
			class.Reason = f.reason
		}
	case class.Reason == status.ReasonFailed && isUnavailable(err):
		class.Reason = v1alpha1.FailureAdmissionUnavailable
	}
	return class
}

// isUnavailable reports whether the server could not process a write.
func isUnavailable(err error) bool {
	return apierrors.IsInternalError(err) || apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) ||
		apierrors.IsServiceUnavailable(err) || apierrors.IsTooManyRequests(err)
}

// dryRunUnsupported reports whether an admission webhook does not support dry run.
func dryRunUnsupported(err error) bool {
	answer := new(apierrors.StatusError)
	return errors.As(err, &answer) && answer.ErrStatus.Code == 400
}

// Maximum delays for status writes that report no transition. The next write includes all changes.
const (
	// repeatsWait is the delay if the service is stable or is waiting for approval.
	repeatsWait = 2 * time.Second
	// rolloutWait is the delay in a rollout that continues without approval. For a release that was replaced, the drain delay is added,
	// because the release is usually resized after the drain, and one write can then report both.
	rolloutWait = 30 * time.Second
	// stepsWait is the delay in a step that does not wait for a user, a hook, or the end of a long pause. If many services are being rolled out at
	// the same time, such a step takes more than half a minute.
	stepsWait = 2 * time.Minute
)

// waitToWrite returns the delay before a changed status is written, or 0.
func (r *reconciler) waitToWrite(o *observed, next v1alpha1.VersionedMicroserviceStatus) time.Duration {
	release, now := o.release, r.clock.Now()
	first := r.differsSince(release, now)
	state := rolloutStateOf(o.microservice, release.Name)
	switch before := release.Status; {
	case state.promoted && next.Available > before.Available:
		return 0 // A rollback to this release may be waiting for these replicas.
	case next.Release == v1alpha1.ReleaseDeprecated && next.Replicas > release.Spec.Replicas && next.Failure == before.Failure && !answered(before, next):
		return max(0, first.Add(repeatsWait).Sub(now)) // The release's pods are being deleted.
	case isTransition(before, next):
		return 0
	case repeats(before, next):
		if len(next.Hooks) > 0 || o.asksHooks() {
			return 0 // Hook calls may already have reported the new value of status.release to other systems.
		}
		limit := repeatsWait
		switch {
		case !equality.Semantic.DeepEqual(before.LastHandledDecision, next.LastHandledDecision):
			limit = repeatsWait // The user who made the decision reads the result in the status.
		case state.passes() && before.ObservedGeneration > 0:
			limit = stepsWait
		case state.continues():
			limit = rolloutWait
		case next.Release == v1alpha1.ReleaseDeprecated && before.Release != next.Release:
			limit = rolloutWait + drainOf(o.microservice)
		}
		return max(0, first.Add(limit).Sub(now))
	}
	return r.journal.Wait(release, now)
}

// difference records when a release's computed status was first found to differ from the stored status, and
// the release's generation.
type difference struct {
	generation int64
	since      time.Time
}

// differsSince returns the time at which a release's computed status began to differ from the stored status.
// A new generation, for example after a change to the replicas, resets this time.
func (r *reconciler) differsSince(release *v1alpha1.VersionedMicroservice, now time.Time) time.Time {
	key := client.ObjectKeyFromObject(release)
	if known, ok := r.differs.Load(key); ok && known.(difference).generation == release.Generation {
		return known.(difference).since
	}
	r.differs.Store(key, difference{release.Generation, now})
	return now
}

// drainOf returns how long a replaced release keeps its replicas.
func drainOf(ms *v1alpha1.Microservice) time.Duration {
	drain, _ := time.ParseDuration(string(ms.Spec.UpdateStrategy.DrainDelay)) // The schema validates it.
	return drain
}

// writeStatus writes the status if it differs from the stored status. If the write is delayed because the
// difference is not a transition, writeStatus returns the remaining delay.
func (r *reconciler) writeStatus(ctx context.Context, o *observed, next v1alpha1.VersionedMicroserviceStatus) (time.Duration, error) {
	release, before := o.release, o.release.Status
	if reflect.DeepEqual(&before, &next) || equality.Semantic.DeepEqual(before, next) { // The semantic comparison is much slower, so it comes second.
		r.differs.Delete(client.ObjectKeyFromObject(release))
		return 0, nil
	}
	if wait := r.waitToWrite(o, next); wait > 0 {
		return wait, nil
	}
	now := new(*release) // A shallow copy is enough, because only the status and the resourceVersion change.
	now.Status = next
	// A status that was computed from an older state, or by a previous leader, must not replace the current status.
	if _, err := status.Patch(ctx, r.client, fieldOwner, now, release, status.AtResourceVersion); err != nil {
		return 0, client.IgnoreNotFound(err)
	}
	r.journal.Wrote(release, now, r.clock.Now())
	r.differs.Delete(client.ObjectKeyFromObject(release))
	recordEvents(r.events, release, before, next)
	return 0, nil
}
