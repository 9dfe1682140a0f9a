package microservice

import (
	"testing"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/release"
)

// What an ImagePolicy offers beyond its limits, because this Microservice pins it, is there
// for it, also where the pin is written like the tag.
func TestConcernsAPinnedTag(t *testing.T) {
	t.Parallel()
	offer := &v1alpha1.OfferedRelease{Group: "1-0-x", SemVer: v1alpha1.SemVer{Name: "1.0.x", Version: "1.0.0"}}
	for name, test := range map[string]struct {
		pin  release.Pin
		want bool
	}{
		"the version":            {release.Pin{Version: "1.0.0"}, true},
		"its tag":                {release.Pin{Version: "v1.0.0"}, true},
		"its tag, for the group": {release.Pin{Group: "1.0.x", Version: "v1.0.0"}, true},
		"its tag, for another":   {release.Pin{Group: "1.1.x", Version: "v1.0.0"}, false},
		"another version":        {release.Pin{Version: "v1.0.1"}, false},
		"a release by its name":  {release.Pin{Release: "shop-1-0-0"}, false},
	} {
		w := &world{ms: &v1alpha1.Microservice{}}
		w.facts.Spec.Pins = []release.Pin{test.pin}
		if got := w.concerns(offer); got != test.want {
			t.Errorf("%s: %t, want %t", name, got, test.want)
		}
	}
}
