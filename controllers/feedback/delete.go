package feedback

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/apply"
	"github.com/heighliner/heighliner/internal/status"
)

// untilDeadline returns the time until the deadline at which the finalizer of a deleted GitHubRepository is
// removed even if feedback remains. It returns 0 if the GitHubRepository is not being deleted.
func (r *Reconciler) untilDeadline(ghr *v1alpha1.GitHubRepository) time.Duration {
	if ghr.DeletionTimestamp.IsZero() {
		return 0
	}
	return max(time.Second, ghr.DeletionTimestamp.Add(cleanupDeadline).Sub(r.clock.Now())+time.Second)
}

// skipsCleanup reports whether to delete a GitHubRepository without removing feedback. This is the case after the
// deadline, while the GitHubRepository is suspended, or if its namespace is also being deleted.
func (r *Reconciler) skipsCleanup(ctx context.Context, ghr *v1alpha1.GitHubRepository) (bool, error) {
	if !controllerutil.ContainsFinalizer(ghr, v1alpha1.FinalizerFeedback) {
		return true, nil
	}
	late := r.clock.Now().Sub(ghr.DeletionTimestamp.Time) > cleanupDeadline
	if late || ghr.Spec.Suspend {
		event := cleanupTimedOutEvent()
		if !late {
			event = cleanupSuspendedEvent()
		}
		r.events.Record(ghr, event)
		return true, nil
	}
	return apply.NamespaceGoes(ctx, r.live, ghr.Namespace)
}

// removeFinalizer removes the finalizer of a GitHubRepository that is being deleted, unless err is set.
func (r *Reconciler) removeFinalizer(ctx context.Context, ghr *v1alpha1.GitHubRepository, err error) (ctrl.Result, error) {
	if err == nil {
		r.tasks.forget(client.ObjectKeyFromObject(ghr))
		_, err = apply.SetFinalizer(ctx, r.Client, FieldOwner, ghr, v1alpha1.FinalizerFeedback, false)
	}
	return status.Again(ctx, err)
}

// ensureFinalizer adds the finalizer before the first feedback is created, because the feedback must be
// removed later. It removes the finalizer if there is no feedback. It reports whether it changed the object.
func (r *Reconciler) ensureFinalizer(ctx context.Context, ghr *v1alpha1.GitHubRepository, f *observed, p *plan) (bool, error) {
	if f.feedback == nil {
		return false, nil // keep the finalizer until all feedback is removed
	}
	return apply.SetFinalizer(ctx, r.Client, FieldOwner, ghr, v1alpha1.FinalizerFeedback, p.needsFinalizer())
}

// cleanupDeadline limits how long cleanup blocks the deletion of a GitHubRepository.
const cleanupDeadline = 10 * time.Minute

// hasFeedback reports whether feedback was, or may have been, written.
func hasFeedback(ghr *v1alpha1.GitHubRepository) bool {
	return controllerutil.ContainsFinalizer(ghr, v1alpha1.FinalizerFeedback) || len(ghr.Status.Feedback) > 0 || len(ghr.Status.Comments) > 0 ||
		meta.FindStatusCondition(ghr.Status.Conditions, v1alpha1.ConditionFeedbackReady) != nil
}
