package microservice

import (
	"testing"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/release"
)

// TestReadyBeforeTheReplacement checks that an exclusive group serves until its active release's pods are stopped,
// for example while the successor's Deployment is rejected. The pods are stopped only when the successor
// reports that it is waiting only for these pods (rule 47).
func TestReadyBeforeTheReplacement(t *testing.T) {
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
		t.Errorf("not ready although all pods of 1.0.0 are available: %s: %s", reason, message)
	}
}

// TestReadyAfterTheReplacement checks the message for a release whose own pods became ready after the pods of
// the active release were stopped. The message shows why the release is waiting before it gets its first
// traffic.
func TestReadyAfterTheReplacement(t *testing.T) {
	t.Parallel()
	ms := &v1alpha1.Microservice{}
	ms.Spec.Availability.Exclusive = true
	ms.Status.ReleaseGroups = []v1alpha1.ReleaseGroup{{
		Name: "1.x", Slug: "1-x", Phase: v1alpha1.GroupLive, Rollout: &v1alpha1.Rollout{Release: "shop-1-1-0", Gate: v1alpha1.GatePreRollout},
		Releases: []v1alpha1.Release{
			{VersionedMicroservice: "shop-1-1-0", SemVer: v1alpha1.SemVer{Version: "1.1.0"}, Status: v1alpha1.ReleasePending},
			{VersionedMicroservice: "shop-1-0-0", SemVer: v1alpha1.SemVer{Version: "1.0.0"}, Status: v1alpha1.ReleaseActive, Weight: 100},
		},
	}}
	w := &pass{observed: observed{ms: ms}}
	w.facts.Objects = []release.Object{{Release: "shop-1-1-0", Slug: "1-x", Version: "1.1.0", Replicas: 3, Available: 3}, {Release: "shop-1-0-0", Slug: "1-x", Version: "1.0.0"}}
	w.plan.Notes = []release.Note{{Slug: "1-x", Reason: release.AwaitingGate, Message: "1.1.0 waits for its PreRollout hooks"}}
	want := "in group 1.x, the pods of 1.0.0 were stopped so that 1.1.0 can run; 1.1.0 is available but has no traffic yet: 1.1.0 waits for its PreRollout hooks"
	if ready, reason, message := serves(w); ready || reason != "ActiveStopped" || message != want {
		t.Errorf("%t %s %q, want %q", ready, reason, message, want)
	}
}
