package microservice

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/status"
)

// TestPolicyThatReadsNoRoutesHasNotReported checks a policy that lost its status and whose routes are of a
// kind that cannot be read. The routes are still unknown. The status is the same as in
// controllers/networkpolicy.blind.
func TestPolicyThatReadsNoRoutesHasNotReported(t *testing.T) {
	t.Parallel()
	var s v1alpha1.NetworkPolicyStatus
	if !unreported(&s) {
		t.Fatal("a policy without a status counts as a policy without routes")
	}
	s.ObservedGeneration = 3
	status.Set(&s.Conditions, 3, v1alpha1.ConditionAccepted, metav1.ConditionFalse, "GatewayAPIMissing", "HTTPRoutes cannot be read")
	status.Stalled(&s.Conditions, 3, "GatewayAPIMissing", "HTTPRoutes cannot be read")
	if !unreported(&s) {
		t.Error("a policy that cannot read its routes counts as a policy without routes")
	}
	s = v1alpha1.NetworkPolicyStatus{ObservedGeneration: 3, Provider: "gateway"} // a complete status without groups
	if unreported(&s) {
		t.Error("a reconciled policy without groups counts as a policy without a status")
	}
}
