package microservice

import (
	"testing"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// TestReservedStatusHasNotReported checks that a policy's first status, which only reserves the policy's next
// writes, does not count as a report of the policy's routes.
func TestReservedStatusHasNotReported(t *testing.T) {
	reserved := v1alpha1.NetworkPolicyStatus{Groups: []v1alpha1.GroupTraffic{{Slug: "1-x", Split: v1alpha1.SplitWeighted, References: []string{"one"}, Reason: "Pending"}}}
	if !unreported(&reserved) {
		t.Error("a policy that has only reserved its references counts as a policy that has reported its domains")
	}
	reserved.Provider = "gateway"
	if unreported(&reserved) {
		t.Error("a policy with a complete status counts as unreported")
	}
}
