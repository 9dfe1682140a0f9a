package microservice

import (
	"testing"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

func TestWeightsNotSupported(t *testing.T) {
	report := func(slug string, split v1alpha1.SplitMode) v1alpha1.NetworkPolicy {
		var p v1alpha1.NetworkPolicy
		p.Status.Groups = []v1alpha1.GroupTraffic{{Slug: slug, Split: split}}
		return p
	}
	for name, tc := range map[string]struct {
		policies []v1alpha1.NetworkPolicy
		noSteps  bool
		want     string
	}{
		"no policy":                          {nil, false, ""},
		"Services only":                      {[]v1alpha1.NetworkPolicy{report("release", v1alpha1.SplitWhole)}, false, "WeightsNotSupported"},
		"one of two policies splits traffic": {[]v1alpha1.NetworkPolicy{report("release", v1alpha1.SplitWhole), report("release", v1alpha1.SplitWeighted)}, false, ""},
		"a policy of another group":          {[]v1alpha1.NetworkPolicy{report("preview", v1alpha1.SplitWhole)}, false, ""},
		"no steps":                           {[]v1alpha1.NetworkPolicy{report("release", v1alpha1.SplitWhole)}, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := &pass{observed: observed{ms: &v1alpha1.Microservice{}, policies: tc.policies}}
			w.ms.Status.ReleaseGroups = []v1alpha1.ReleaseGroup{{Name: "release", Slug: "release"}}
			if !tc.noSteps {
				w.ms.Spec.UpdateStrategy.Canary = &v1alpha1.CanaryStrategy{Steps: []v1alpha1.CanaryStep{{Weight: 10}}}
			}
			same(t, "reason", weightsNotSupported(w).reason, tc.want)
		})
	}
}
