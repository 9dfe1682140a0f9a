package networkpolicy

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestTrimEndpoints checks that a trimmed EndpointSlice has the same identities and conditions as the original,
// even if it is trimmed twice, and that the endpoints of a pod have the same identity in both address families.
func TestTrimEndpoints(t *testing.T) {
	t.Parallel()
	pod := func(uid string) *corev1.ObjectReference {
		return &corev1.ObjectReference{Kind: "Pod", Namespace: "shop", Name: "web-1", UID: types.UID(uid)}
	}
	slice := func(address string) *discoveryv1.EndpointSlice {
		return &discoveryv1.EndpointSlice{
			Endpoints: []discoveryv1.Endpoint{
				{Addresses: []string{address}, TargetRef: pod("8a6a"), Conditions: discoveryv1.EndpointConditions{Ready: new(true)}, Zone: new("a")},
				{Addresses: []string{address, "10.0.0.9"}, TargetRef: pod(""), Conditions: discoveryv1.EndpointConditions{Ready: new(false), Terminating: new(true)}},
				{Addresses: []string{address}},
				{TargetRef: pod("4f1b")},
				{},
			},
			Ports: []discoveryv1.EndpointPort{{Port: new(int32(80))}},
		}
	}
	for address, want := range map[string][]string{
		"10.0.0.1": {"8a6a", "10.0.0.1", "10.0.0.1", "4f1b", ""},
		"fd00::1":  {"8a6a", "fd00::1", "fd00::1", "4f1b", ""},
	} {
		original, trimmed := slice(address), slice(address)
		for range 2 {
			trimEndpoints(trimmed)
			for i, e := range trimmed.Endpoints {
				if got := identity(e); got != want[i] || got != identity(original.Endpoints[i]) {
					t.Errorf("endpoint %d has identity %q, want %q", i, got, want[i])
				}
				if diff := cmp.Diff(original.Endpoints[i].Conditions, e.Conditions); diff != "" {
					t.Errorf("conditions of endpoint %d (-want +got):\n%s", i, diff)
				}
				if e.TargetRef != nil || e.Zone != nil {
					t.Errorf("endpoint %d is not trimmed: %+v", i, e)
				}
			}
		}
	}
}
