package microservice

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// recordEvents records an event for each thing that happened, and counts it.
func (r *Reconciler) recordEvents(w *pass) {
	told := map[string]int{}
	for _, n := range w.plan.Notes {
		if !n.Event {
			continue
		}
		r.metrics.count(w, n, r.clock.Now())
		about, action, reason := r.events, "Release", string(n.Reason)
		if n.Release != "" {
			about = r.events.About(&v1alpha1.VersionedMicroservice{ObjectMeta: metav1.ObjectMeta{Namespace: w.ms.Namespace, Name: n.Release}})
		}
		if told[n.Release+reason]++; told[n.Release+reason] > 1 {
			action = fmt.Sprintf("Release%d", told[n.Release+reason]) // Steps that wait for nothing are passed together.
		}
		if n.Warning {
			about.Warning(w.ms, reason, action, n.Message)
			continue
		}
		about.Normal(w.ms, reason, action, n.Message)
	}
}

// recordPins emits an event when a pin begins not to hold, or does so for another cause.
func (r *Reconciler) recordPins(before, now *v1alpha1.Microservice) {
	was := meta.FindStatusCondition(before.Status.Conditions, v1alpha1.ConditionPinned)
	is := meta.FindStatusCondition(now.Status.Conditions, v1alpha1.ConditionPinned)
	if is == nil || is.Status == metav1.ConditionTrue || was != nil && was.Reason == is.Reason && was.ObservedGeneration == is.ObservedGeneration {
		return
	}
	r.events.Warning(now, is.Reason, "Pin", is.Message)
}

// recordDeletionLate records that a Microservice goes before its deletionPolicy was carried out.
func (r *Reconciler) recordDeletionLate(ms *v1alpha1.Microservice) {
	r.events.Warning(ms, "DeletionPolicyNotDone", "Delete", fmt.Sprintf("deletionPolicy %s was not carried out within the progress deadline: the Microservice goes without", ms.Spec.DeletionPolicy))
}

// recordNothingToRestore records that the Deployment of before cannot be brought back.
func (r *Reconciler) recordNothingToRestore(ms *v1alpha1.Microservice) {
	r.events.Warning(ms, reasonDeploymentNotFound, "Delete", fmt.Sprintf("Deployment %q cannot be brought back: it does not exist", ms.Spec.AdoptFrom.DeploymentName))
}
