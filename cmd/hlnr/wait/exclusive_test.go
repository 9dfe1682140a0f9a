package wait

import (
	"testing"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/cmd/hlnr/cli"
)

// TestActiveOfAReplacement checks that the wait for an active release of an exclusive group continues while the release has no ready pod
// because its pods were stopped for the next release.
func TestActiveOfAReplacement(t *testing.T) {
	t.Parallel()
	s := fixture(func(s *snapshot) {
		s.ms.Spec.Availability.Exclusive = true
		g := &s.ms.Status.ReleaseGroups[0]
		g.Releases = append([]v1alpha1.Release{{VersionedMicroservice: "shop-1-3-0", SemVer: v1alpha1.SemVer{Version: "1.3.0"}, Status: v1alpha1.ReleasePending}}, g.Releases...)
		g.Rollout = &v1alpha1.Rollout{Release: "shop-1-3-0"}
		s.release = &v1alpha1.VersionedMicroservice{} // The release has no replicas.
		s.release.Namespace, s.release.Name = "shop", "shop-1-2-0"
	})
	q := question{version: "1.2.0", state: forActive, throughApprovals: true, command: command}
	if _, a := q.judge(s); a != nil && a.code == cli.ExitYes {
		t.Errorf("no pod of 1.2.0 exists: %+v", a)
	}
}
