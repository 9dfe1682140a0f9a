package v1alpha1

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestStartDelayed checks that only a Microservice without groups can wait for its first rollout to start.
func TestStartDelayed(t *testing.T) {
	t.Parallel()
	groups := []ReleaseGroup{{Slug: "all"}}
	for name, tc := range map[string]struct {
		status MicroserviceStatus
		want   bool
	}{
		"no status":     {},
		"waits":         {MicroserviceStatus{Conditions: []metav1.Condition{{Type: ConditionReady, Reason: ReasonStartDelayed}}}, true},
		"other reason":  {MicroserviceStatus{Conditions: []metav1.Condition{{Type: ConditionReady, Reason: "NoVersion"}}}, false},
		"other type":    {MicroserviceStatus{Conditions: []metav1.Condition{{Type: ConditionProgressing, Reason: ReasonStartDelayed}}}, false},
		"has a release": {MicroserviceStatus{ReleaseGroups: groups, Conditions: []metav1.Condition{{Type: ConditionReady, Reason: ReasonStartDelayed}}}, false},
	} {
		if got := (&Microservice{Status: tc.status}).StartDelayed(); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}
