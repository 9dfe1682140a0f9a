package imagepolicy

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/status"
)

// writeStatus writes the status if it has changed, and records events. The write fails if the
// object has changed since it was read.
func (r *Reconciler) writeStatus(ctx context.Context, o *observed, s selection, out plan) error {
	policy := o.policy
	before := withStatus(policy)
	st := &policy.Status
	st.Releases, st.Withdrawn, st.Rejected, st.Candidates = out.releases, out.withdrawn, out.rejected, out.candidates
	st.Offered, st.Latest, st.Source = count(out.releases), latest(out.releases), sourceOf(policy)
	switch {
	case s.requestHandled && s.pulled != nil && s.incomplete: // the request is only partly handled
	case s.requestHandled:
		st.LastHandledRequest = s.requested
	case o.problem != nil && !policy.Spec.Suspend:
		st.LastHandledRequest = o.query.requested
	}
	if out.decided && !s.undecided || policy.Spec.Suspend || o.problem != nil || s.err != nil && !transient(s.err) {
		st.ObservedGeneration = policy.Generation
	}
	switch {
	case policy.Spec.Verify == nil:
		st.VerifiedBy = ""
	case s.keys != "" && s.scanned && !s.incomplete && !s.undecided:
		st.VerifiedBy = s.keys
	}
	if o.github != nil && o.github.known && o.github.id != "" {
		st.RepositoryID = o.github.id
	}
	if out.otherRepository {
		st.Scan = nil // Otherwise, spec.minAge would apply to the first list of the new repository.
	}
	if s.listed && (st.Scan == nil || st.Scan.Checksum != s.checksum || st.Scan.Tags != int32(s.tags)) {
		st.Scan = &v1alpha1.ImageScan{Tags: int32(s.tags), Checksum: s.checksum, ChangedTime: metav1.NewTime(r.clock.Now())}
	}
	setConditions(o, s, out)
	wrote, err := status.Patch(ctx, r.Client, FieldOwner, policy, before, status.AtResourceVersion)
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	if wrote {
		r.recordEvents(policy, before)
	}
	return nil
}

// withStatus returns a copy of a policy with its own status. The copy shares everything else, because a reconcile changes only the status.
func withStatus(policy *v1alpha1.ImagePolicy) *v1alpha1.ImagePolicy {
	out := new(*policy)
	out.Status = *policy.Status.DeepCopy()
	return out
}
