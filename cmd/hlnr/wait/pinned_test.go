package wait

import (
	"testing"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/cmd/hlnr/cli"
)

// TestPinToAnotherReleaseOfTheVersion checks that the wait for a release that is given by name ends when its group is pinned to another release
// of the same version.
func TestPinToAnotherReleaseOfTheVersion(t *testing.T) {
	t.Parallel()
	s := fixture(func(s *snapshot) {
		g := &s.ms.Status.ReleaseGroups[0]
		for _, name := range []string{"shop-1-1-0-aaa", "shop-1-1-0-bbb"} {
			g.Releases = append(g.Releases, v1alpha1.Release{VersionedMicroservice: name, SemVer: v1alpha1.SemVer{Version: "1.1.0"}, Status: v1alpha1.ReleaseDeprecated, Promoted: 1})
		}
		g.Target = v1alpha1.GroupTarget{Release: "shop-1-1-0-bbb", Reason: "Pinned"}
		g.Rollout = &v1alpha1.Rollout{Release: "shop-1-1-0-bbb"}
		s.ms.Spec.UpdateStrategy.Manual = &v1alpha1.ManualUpdateStrategy{Groups: []v1alpha1.GroupPin{{Name: "1.x", Release: "shop-1-1-0-bbb", Reason: "sessions"}}}
	})
	// The answer is the same after the other release becomes active.
	for range 2 {
		if _, a := (question{version: "shop-1-1-0-aaa", state: forActive, throughApprovals: true, command: command}).judge(s); a == nil || a.code != cli.ExitNo {
			t.Errorf("wait for a release other than the pinned release: got %+v, want an answer with ExitNo", a)
		}
		g := &s.ms.Status.ReleaseGroups[0]
		g.Rollout, g.Active = nil, "1.1.0"
		g.Releases[0].Status, g.Releases[2].Status = v1alpha1.ReleaseDeprecated, v1alpha1.ReleaseActive
	}
}
