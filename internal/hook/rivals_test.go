package hook

import (
	"testing"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// TestRivals checks that hooks are called for the first release of a group to which the newest domains move, and that
// the release is compared with the group that still has these domains.
func TestRivals(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		from, rivals string
		judged       bool
	}{
		"the first of its group":  {"", "2-x", false},
		"domains move to it":      {"1-x", "1-x", true},
		"the older group is gone": {"0-x", "2-x", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ms := &v1alpha1.Microservice{}
			ms.Status.ReleaseGroups = []v1alpha1.ReleaseGroup{
				{Slug: "2-x", Rollout: &v1alpha1.Rollout{Release: "new", From: test.from}, Releases: []v1alpha1.Release{{VersionedMicroservice: "new", Status: v1alpha1.ReleaseCanary}}},
				{Slug: "1-x", Active: "1.0.0"},
			}
			p := RolloutOf(ms, vsvc("new"))
			if got := p.BaselineGroup().Slug; got != test.rivals {
				t.Errorf("it is compared with group %s, want %s", got, test.rivals)
			}
			if p.takesSteps() != test.judged {
				t.Errorf("judged: %t, want %t", p.takesSteps(), test.judged)
			}
		})
	}
}
