package show

import (
	"strings"
	"testing"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/view/viewtest"
)

// TestWhyOfAServiceWithAGroupThatIsDown checks the order that the help text of the why command documents: an active version without a
// ready pod comes before a version in progress, even if they are in different groups.
func TestWhyOfAServiceWithAGroupThatIsDown(t *testing.T) {
	t.Parallel()
	s, _ := viewtest.Play("approval", "shop")
	in := s.Input
	in.Microservices = []v1alpha1.Microservice{*in.Microservices[0].DeepCopy()}
	ms := &in.Microservices[0]
	ms.Status.ReleaseGroups = append(ms.Status.ReleaseGroups, v1alpha1.ReleaseGroup{
		Name: "0.x", Slug: "0-x", Level: v1alpha1.LevelRelease, Phase: v1alpha1.GroupLive, Active: "0.9.0",
		Releases: []v1alpha1.Release{{VersionedMicroservice: "shop-0-9-0", SemVer: v1alpha1.SemVer{Name: "0.x", Version: "0.9.0"}, Status: v1alpha1.ReleaseActive, Weight: 100, Promoted: 1}},
	})
	o := v1alpha1.VersionedMicroservice{}
	o.Namespace, o.Name, o.Spec.Replicas = ms.Namespace, "shop-0-9-0", 3
	o.Status.Failure, o.Status.Message = "CrashLoopBackOff", "exit 1: out of licenses"
	in.Releases = append(in.Releases, o)
	a, err := ask(in, "shop", []string{"shop"}, s.Now)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(a.Summary, "out of licenses") {
		t.Errorf("the active 0.9.0 has no ready pod; hlnr why shop: %s, %q", a.Result, a.Summary)
	}
}
