package networkpolicy

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
	"github.com/heighliner/heighliner/internal/status"
)

// blind returns the status of a policy whose objects cannot be read. Without these objects, no
// decision is possible. The latest report about the policy's traffic remains in the status.
func blind(policy *v1alpha1.NetworkPolicy, cause *providers.Problem) v1alpha1.NetworkPolicyStatus {
	now := *policy.Status.DeepCopy()
	now.ObservedGeneration = policy.Generation
	for _, kind := range []string{v1alpha1.ConditionResolvedRefs, v1alpha1.ConditionProgrammed} {
		if meta.FindStatusCondition(now.Conditions, kind) == nil {
			status.Set(&now.Conditions, policy.Generation, kind, metav1.ConditionUnknown, cause.Reason, cause.Message)
		}
	}
	status.Set(&now.Conditions, policy.Generation, v1alpha1.ConditionAccepted, metav1.ConditionFalse, cause.Reason, cause.Message)
	status.Stalled(&now.Conditions, policy.Generation, cause.Reason, cause.Message)
	return now
}

// forget removes the in-memory state for a policy that was deleted, or that is about to be deleted
// together with its objects.
func (r *Reconciler) forget(policy types.NamespacedName) {
	r.probes.Forget(policy)
	r.metrics.forget(policy)
	r.conflicts.forget(policy)
	r.ready.forget(policy)
}

// save writes the status if it changed, and records the events for the changes.
func (r *Reconciler) save(ctx context.Context, policy *v1alpha1.NetworkPolicy, now v1alpha1.NetworkPolicyStatus) error {
	before := new(*policy) // A shallow copy, because only the status and the resourceVersion change.
	policy.Status = now
	wrote, err := status.Patch(ctx, r.Client, fieldOwner, policy, before, status.AtResourceVersion)
	if err != nil || !wrote {
		return client.IgnoreNotFound(err)
	}
	r.journal.Wrote(before, policy, r.Now())
	r.announce(policy, before.Status, now)
	return nil
}
