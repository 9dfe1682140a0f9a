package show

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/view/viewtest"
)

// TestJudge1WhyOfAServiceThatIsDown: hlnr why SERVICE answers about the version that needs most attention: that is the active one, which is down, and
// not a version that failed, or that a user aborted, last week.
func TestJudge1WhyOfAServiceThatIsDown(t *testing.T) {
	for _, story := range []string{"crashes", "aborted"} {
		s, _ := viewtest.Play(story, "shop")
		in := s.Input
		in.Microservices = []v1alpha1.Microservice{*in.Microservices[0].DeepCopy()}
		in.Releases = slices.Clone(in.Releases)
		for i := range in.Microservices[0].Status.ReleaseGroups[0].Releases {
			row := &in.Microservices[0].Status.ReleaseGroups[0].Releases[i]
			if row.Status != v1alpha1.ReleaseActive {
				continue
			}
			row.Available = false
			for j := range in.Releases {
				if o := &in.Releases[j]; o.Name == row.VersionedMicroservice {
					o.Status.Available, o.Status.Failure, o.Status.Message = 0, "CrashLoopBackOff", "exit 1: out of licenses"
				}
			}
		}
		a, err := ask(in, "shop", []string{"shop"}, s.Now.Add(8*24*time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(a.Summary, "out of licenses") {
			t.Errorf("%s: the active 1.0.0 has no ready pod; hlnr why shop: %q, do %q", story, a.Summary, a.Do)
		}
	}
}
