package act

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/cmd/hlnr/cli"
)

// TestStatusOfAnEarlierVersion checks that decisions apply to a rollout that an earlier version of the manager recorded.
func TestStatusOfAnEarlierVersion(t *testing.T) {
	t.Parallel()
	scheme, err := cli.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	ms := &v1alpha1.Microservice{}
	ms.Namespace, ms.Name = "shop", "shop"
	ms.Status.ReleaseGroups = []v1alpha1.ReleaseGroup{{
		Name: "1.x", Slug: "1-x", DeprecatedRun: &v1alpha1.DeprecatedRun{Release: "shop-1-3-0", Step: 1},
		Releases: []v1alpha1.Release{{VersionedMicroservice: "shop-1-3-0", SemVer: v1alpha1.SemVer{Version: "1.3.0"}, Status: v1alpha1.ReleaseCanary}},
	}}
	s := &scope{client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(ms).Build(), namespace: "shop"}
	for _, args := range [][]string{{"shop", "1.3.0"}, {"shop-1-3-0"}, {"shop"}} {
		if got, err := s.target(t.Context(), v1alpha1.DecisionContinue, args); err != nil || !fits(got, v1alpha1.DecisionContinue) {
			t.Errorf("%q: %+v, %v", args, got.group, err)
		}
	}
}
