package notification

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// TestSettle checks that the reconciles of a policy that selects thousands of services are further apart, but not too far.
func TestSettle(t *testing.T) {
	t.Parallel()
	r, policy := &reconciler{}, types.NamespacedName{Namespace: "shop", Name: "chat"}
	if got := r.settle(policy); got != settleDelay {
		t.Errorf("before the first reconcile: %s, want %s", got, settleDelay)
	}
	for took, want := range map[time.Duration]time.Duration{
		0: settleDelay, time.Millisecond: settleDelay, 50 * time.Millisecond: time.Second, 600 * time.Millisecond: maxSettleDelay, time.Hour: maxSettleDelay,
	} {
		r.took.Store(policy, took)
		if got := r.settle(policy); got != want {
			t.Errorf("a reconcile took %s: the next one follows after %s, want %s", took, got, want)
		}
	}
	if got := r.settle(types.NamespacedName{Namespace: "shop", Name: "other"}); got != settleDelay {
		t.Errorf("another policy: %s, want %s", got, settleDelay)
	}
}
