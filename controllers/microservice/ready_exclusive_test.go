package microservice

import (
	"testing"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// TestReadyBeforeTheExchange: the pods of the active release of an exclusive group end only when its successor reports that it waits for them
// alone (rule 47). Until then the group serves, for example while the Deployment of the successor is rejected.
func TestReadyBeforeTheExchange(t *testing.T) {
	t.Parallel()
	ms := &v1alpha1.Microservice{}
	ms.Spec.Availability.Exclusive = true
	ms.Status.ReleaseGroups = []v1alpha1.ReleaseGroup{{
		Name: "1.x", Slug: "1-x", Phase: v1alpha1.GroupLive, Rollout: &v1alpha1.Rollout{Release: "shop-1-1-0"},
		Releases: []v1alpha1.Release{
			{VersionedMicroservice: "shop-1-1-0", SemVer: v1alpha1.SemVer{Version: "1.1.0"}, Status: v1alpha1.ReleasePending},
			{VersionedMicroservice: "shop-1-0-0", SemVer: v1alpha1.SemVer{Version: "1.0.0"}, Status: v1alpha1.ReleaseActive, Available: true, Weight: 100},
		},
	}}
	if ready, reason, message := serves(&pass{observed: observed{ms: ms}}); !ready {
		t.Errorf("all pods of 1.0.0 are available: %s: %s", reason, message)
	}
}
