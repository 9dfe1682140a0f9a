package microservice

import (
	"testing"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/release"
)

// offerGroups makes the ImagePolicy offer 3.0.0, and versions beyond limits.groups that another
// Microservice uses.
func (s *story) offerGroups(held ...string) {
	s.Helper()
	s.offer()
	p := &v1alpha1.ImagePolicy{}
	s.get("shop", p)
	for i, v := range append([]string{"3.0.0"}, held...) {
		p.Status.Releases = append(p.Status.Releases, v1alpha1.OfferedRelease{
			SemVer: v1alpha1.SemVer{Name: v[:1] + ".x", Version: v}, Group: v[:1] + "-x", Level: "Release",
			Images: []v1alpha1.ReleaseImage{{Image: "r.example/shop:" + v + "@sha256:" + v, Digest: "sha256:" + v}}, Held: i > 0,
		})
	}
	if err := env.Client.Status().Update(s.Context(), p); err != nil {
		s.Fatal(err)
	}
}

func TestVersionHeldElsewhereStartsNoGroup(t *testing.T) {
	for name, test := range map[string]struct {
		play func(*story)
		want string
	}{
		"in the first plan": {func(s *story) {
			s.offerGroups("2.0.0", "1.0.0")
			s.play()
		}, lines("3-x Live target Latest", "  3.0.0 active 100% First, 2 replicas")},
		"later": {func(s *story) {
			s.offerGroups()
			s.play()
			s.offerGroups("4.0.0", "2.0.0")
			s.play()
		}, lines("3-x Live target Latest", "  3.0.0 active 100% First, 2 replicas")},
		"unless the Microservice pins the version": {func(s *story) {
			s.edit(func(spec *v1alpha1.MicroserviceSpec) {
				spec.UpdateStrategy.Manual = &v1alpha1.ManualUpdateStrategy{SemVer: &v1alpha1.SemVer{Name: "1.x", Version: "1.0.0"}}
			})
			s.offerGroups("2.0.0", "1.1.0", "1.0.0")
			s.play()
		}, lines("3-x Live target Latest", "  3.0.0 active 100% First, 2 replicas", "1-x Live target Pinned", "  1.0.0 active 100% First, 2 replicas")},
		"unless the Microservice pins the version as its tag": {func(s *story) {
			s.edit(func(spec *v1alpha1.MicroserviceSpec) {
				spec.UpdateStrategy.Manual = &v1alpha1.ManualUpdateStrategy{SemVer: &v1alpha1.SemVer{Name: "1.x", Version: "v1.0.0"}}
			})
			s.offerGroups("2.0.0", "1.1.0", "1.0.0")
			s.play()
		}, lines("3-x Live target Latest", "  3.0.0 active 100% First, 2 replicas", "1-x Live target Pinned", "  1.0.0 active 100% First, 2 replicas")},
		"unless the Microservice has the group": {func(s *story) {
			s.edit(func(spec *v1alpha1.MicroserviceSpec) { spec.UpdateStrategy.Canary = nil })
			s.offerGroups()
			s.play()
			p := &v1alpha1.ImagePolicy{}
			s.get("shop", p)
			p.Status.Releases[0].SemVer.Version, p.Status.Releases[0].Held = "3.0.1", true
			if err := env.Client.Status().Update(s.Context(), p); err != nil {
				s.Fatal(err)
			}
			s.play()
		}, lines("3-x Live target Latest", "  3.0.1 active 100% Promoted, 2 replicas", "  3.0.0 deprecated 0% Replaced, 0 replicas")},
	} {
		t.Run(name, func(t *testing.T) {
			s := begin(t)
			test.play(s)
			same(t, "rollout state", s.rolloutState(), test.want)
		})
	}
}

// TestConcernsAPinnedTag checks that, if an ImagePolicy offers a version beyond its limits because this
// Microservice pins the version, the version can start, even if the pin is written in the form of the
// tag.
func TestConcernsAPinnedTag(t *testing.T) {
	t.Parallel()
	offer := &v1alpha1.OfferedRelease{Group: "1-0-x", SemVer: v1alpha1.SemVer{Name: "1.0.x", Version: "1.0.0"}}
	for name, test := range map[string]struct {
		pin  release.Pin
		want bool
	}{
		"pin to the version":              {release.Pin{Version: "1.0.0"}, true},
		"pin to its tag":                  {release.Pin{Version: "v1.0.0"}, true},
		"pin to its tag in the group":     {release.Pin{Group: "1.0.x", Version: "v1.0.0"}, true},
		"pin to its tag in another group": {release.Pin{Group: "1.1.x", Version: "v1.0.0"}, false},
		"pin to another version":          {release.Pin{Version: "v1.0.1"}, false},
		"a release by its name":           {release.Pin{Release: "shop-1-0-0"}, false},
	} {
		w := &pass{observed: observed{ms: &v1alpha1.Microservice{}}}
		w.facts.Spec.Pins = []release.Pin{test.pin}
		if got := w.concerns(offer); got != test.want {
			t.Errorf("%s: %t, want %t", name, got, test.want)
		}
	}
}
