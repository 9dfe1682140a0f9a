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

// TestWeightsNotSupportedOfSeveralGroups checks that the message names each affected group.
func TestWeightsNotSupportedOfSeveralGroups(t *testing.T) {
	t.Parallel()
	const rest = " moves as a whole, and steps do not shift traffic: set spec.domains of the networkpolicies.hlnr.io object, and a spec.provider that splits traffic by weight"
	for want, names := range map[string][]string{"group 1.x": {"1.x"}, "groups 2.x, 1.x": {"2.x", "1.x"}} {
		w := &pass{observed: observed{ms: &v1alpha1.Microservice{}, policies: make([]v1alpha1.NetworkPolicy, 1)}}
		w.ms.Spec.UpdateStrategy.Canary = &v1alpha1.CanaryStrategy{Steps: []v1alpha1.CanaryStep{{Weight: 10}}}
		for _, name := range names {
			w.ms.Status.ReleaseGroups = append(w.ms.Status.ReleaseGroups, v1alpha1.ReleaseGroup{Name: name, Slug: name})
			w.policies[0].Status.Groups = append(w.policies[0].Status.Groups, v1alpha1.GroupTraffic{Slug: name, Split: v1alpha1.SplitWhole})
		}
		same(t, "message", weightsNotSupported(w).message, "on promotion, the traffic of "+want+rest)
	}
}
