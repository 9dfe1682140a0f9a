package microservice

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/release"
)

// recordEvents records the events for a plan, and counts them.
func (r *Reconciler) recordEvents(w *pass) {
	reported := map[string]int{}
	for i, n := range w.plan.Notes {
		if !n.Event {
			continue
		}
		r.metrics.count(w, n, r.clock.Now())
		passed := n.Reason == release.StepBegan && slices.ContainsFunc(w.plan.Notes[i+1:], func(later release.Note) bool {
			return later.Event && later.Reason == n.Reason && later.Release == n.Release
		})
		if passed || !w.recorded(n) {
			continue
		}
		about, action, reason := r.events, "Release", string(n.Reason)
		if n.Release != "" {
			about = r.events.About(&v1alpha1.VersionedMicroservice{ObjectMeta: metav1.ObjectMeta{Namespace: w.ms.Namespace, Name: n.Release}})
		}
		if reported[n.Release+reason]++; reported[n.Release+reason] > 1 {
			action = fmt.Sprintf("Release%d", reported[n.Release+reason]) // One plan can pass several steps that do not wait.
		}
		if n.Warning {
			about.Warning(w.ms, reason, action, n.Message)
			continue
		}
		about.Normal(w.ms, reason, action, n.Message)
	}
}

// recorded reports whether a note is recorded as an event. No events are recorded for the regular steps between
// the start and the end of a rollout, because each event is a write.
func (w *pass) recorded(n release.Note) bool {
	switch n.Reason {
	case release.Started:
		return w.waits()
	case release.StepBegan:
		return w.needsApproval(n.Release)
	case release.Removed:
		return false
	}
	return true
}

// waits reports whether rollouts can wait for anything other than pods and routes. If they cannot, the event
// at the end of the rollout is sufficient.
func (w *pass) waits() bool {
	c := w.ms.Spec.UpdateStrategy.Canary
	if c == nil {
		return false
	}
	return c.Measures() || len(c.Hooks) > 0 || slices.ContainsFunc(c.Steps, func(s v1alpha1.CanaryStep) bool {
		return s.Pause != nil || s.Approval != nil || s.Window != nil
	})
}

// needsApproval reports whether the current step of a release requires approval. Other steps
// end after a set time or a measurement. No events are recorded for them: the conditions and the summary show them.
func (w *pass) needsApproval(name string) bool {
	c := w.ms.Spec.UpdateStrategy.Canary
	for _, g := range w.plan.State.Groups {
		if run := g.Rollout; c != nil && run != nil && run.Release == name && run.Step > 0 && run.Step <= len(c.Steps) {
			return c.Steps[run.Step-1].Approval != nil
		}
	}
	return false
}

// recordPins records an event when a pin is set, is removed, expires, or has no effect. For a pin that
// has no effect, it records one event for each reason.
func (r *Reconciler) recordPins(before, now *v1alpha1.Microservice) {
	was := meta.FindStatusCondition(before.Status.Conditions, v1alpha1.ConditionPinned)
	is := meta.FindStatusCondition(now.Status.Conditions, v1alpha1.ConditionPinned)
	same := was != nil && is != nil && was.Reason == is.Reason
	switch {
	case is == nil && was == nil || same && was.ObservedGeneration == is.ObservedGeneration:
	case is == nil && was.Status != metav1.ConditionTrue:
	case is == nil && was.ObservedGeneration == now.Generation:
		r.events.Normal(now, "Unpinned", "Pin", "the pin no longer applies, because it expired or its group ended; previous state: "+was.Message)
	case is == nil:
		r.events.Normal(now, "Unpinned", "Pin", "the pin was removed; previous state: "+was.Message)
	case is.Status == metav1.ConditionTrue && (!same || was.Message != is.Message):
		r.events.Normal(now, is.Reason, "Pin", is.Message)
	case is.Status != metav1.ConditionTrue:
		r.events.Warning(now, is.Reason, "Pin", is.Message)
	}
}

// recordFreeze records an event when a freeze begins to prevent releases from starting or from getting more
// traffic, and when it no longer does so.
func (r *Reconciler) recordFreeze(before, now *v1alpha1.Microservice) {
	was := meta.FindStatusCondition(before.Status.Conditions, v1alpha1.ConditionFrozen)
	is := meta.FindStatusCondition(now.Status.Conditions, v1alpha1.ConditionFrozen)
	switch {
	case was == nil && is != nil:
		r.events.Normal(now, string(release.Frozen), "Freeze", is.Message)
	case was != nil && is == nil:
		r.events.Normal(now, "Thawed", "Freeze", "releases no longer wait for the end of a freeze")
	}
}

// recordDeletionLate records an event if a Microservice is deleted although its deletionPolicy was not completely applied.
func (r *Reconciler) recordDeletionLate(ms *v1alpha1.Microservice) {
	r.events.Warning(ms, "DeletionPolicyNotDone", "Delete", fmt.Sprintf("deletionPolicy %s was not completely applied within the progress deadline plus the drain delay: the Microservice is deleted anyway", ms.Spec.DeletionPolicy))
}

// recordNothingToRestore records an event if the previous Deployment cannot be restored.
func (r *Reconciler) recordNothingToRestore(ms *v1alpha1.Microservice) {
	r.events.Warning(ms, reasonDeploymentNotFound, "Delete", fmt.Sprintf("Deployment %q cannot be scaled up again: it does not exist", ms.Spec.AdoptFrom.DeploymentName))
}
