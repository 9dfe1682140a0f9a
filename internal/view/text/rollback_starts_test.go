package text

import (
	"strings"
	"testing"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/view"
	"github.com/heighliner/heighliner/internal/view/viewtest"
)

// TestRollbackThatStarts covers a group that is pinned to a retained release whose pods must start before the release gets the traffic.
// Until then, the active release is not the pinned release, and the retained release skips the canary steps.
func TestRollbackThatStarts(t *testing.T) {
	t.Parallel()
	s, ok := viewtest.Play("one group pinned", "shop")
	if !ok {
		t.Fatal("no history")
	}
	ms := s.Input.Microservices[0].DeepCopy()
	ms.Spec.UpdateStrategy.Canary = &v1alpha1.CanaryStrategy{Steps: []v1alpha1.CanaryStep{{Weight: 10}, {Weight: 50}}}
	for i := range ms.Status.ReleaseGroups {
		g := &ms.Status.ReleaseGroups[i]
		if g.Name != "1.x" {
			continue
		}
		for j := range g.Releases {
			r := &g.Releases[j]
			switch r.SemVer.Version {
			case "1.0.0":
				r.Status, r.Weight = v1alpha1.ReleaseDeprecated, 0
				g.Rollout = &v1alpha1.Rollout{Release: r.VersionedMicroservice}
			case "1.1.0":
				r.Status, r.Weight, r.Available, g.Active = v1alpha1.ReleaseActive, 100, true, "1.1.0"
			}
		}
	}
	s.Input.Microservices[0] = *ms
	var b strings.Builder
	if err := Tree(&b, view.New(s.Input, s.Now).Services[0], Options{Now: s.Now}, TreeOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, wrong := range []string{"pinned to 1.1.0", "next: 10%"} {
		if strings.Contains(b.String(), wrong) {
			t.Errorf("the tree contains %q:\n%s", wrong, b.String())
		}
	}
}

// TestNextOfAReleaseWithoutSteps covers the first release of a group and an adopted release. Both get all traffic immediately, and the tree does not
// list the canary steps.
func TestNextOfAReleaseWithoutSteps(t *testing.T) {
	t.Parallel()
	for story, version := range map[string]string{"gate first window": "1.0.0", "approval": "1.1.0"} {
		s, ok := viewtest.Play(story, "shop")
		if !ok {
			t.Fatal("no history")
		}
		ms := s.Input.Microservices[0].DeepCopy()
		g := &ms.Status.ReleaseGroups[0]
		for i := range g.Releases {
			if r := &g.Releases[i]; r.SemVer.Version == version && g.Active != "" {
				r.Internal.Adopted = true
			}
		}
		s.Input.Microservices[0] = *ms
		var b strings.Builder
		if err := Tree(&b, view.New(s.Input, s.Now).Services[0], Options{Now: s.Now}, TreeOptions{}); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(b.String(), "next: 100%") || strings.Contains(b.String(), ", then ") {
			t.Errorf("%s: the tree lists canary steps:\n%s", story, b.String())
		}
	}
}
