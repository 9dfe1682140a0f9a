package networkpolicy

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/traffic"
	"github.com/heighliner/heighliner/internal/status"
)

type recordedEvents []string

func (r *recordedEvents) Eventf(_, _ runtime.Object, kind, reason, _, note string, args ...any) {
	*r = append(*r, kind+" "+reason+" "+fmt.Sprintf(note, args...))
}

// TestEventOfAFailedWrite checks that a failed write is recorded as an event although it is retried, and that waiting for a gateway is not
// recorded as an event.
func TestEventOfAFailedWrite(t *testing.T) {
	t.Parallel()
	programmed := func(reason string) v1alpha1.NetworkPolicyStatus {
		if reason == "" {
			return v1alpha1.NetworkPolicyStatus{}
		}
		return v1alpha1.NetworkPolicyStatus{Conditions: []metav1.Condition{{Type: v1alpha1.ConditionProgrammed, Status: metav1.ConditionFalse, Reason: reason, Message: "webhook"}}}
	}
	for _, test := range []struct {
		before, now string
		want        recordedEvents
	}{
		{"", status.ReasonFailed, recordedEvents{"Warning Failed webhook"}},
		{traffic.ReasonPending, status.ReasonFailed, recordedEvents{"Warning Failed webhook"}},
		{"", traffic.ReasonPending, nil},
	} {
		var got recordedEvents
		(&Reconciler{Events: status.Recorder{Events: &got}}).announce(&v1alpha1.NetworkPolicy{}, programmed(test.before), programmed(test.now))
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("from %q to %q: %s", test.before, test.now, diff)
		}
	}
}
