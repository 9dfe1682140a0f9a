package web

import (
	"strings"
	"testing"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/view"
	"github.com/heighliner/heighliner/internal/view/viewtest"
)

// TestFailedGroupNextToAnApproval checks that the Failed tab of the board contains a service with a group whose active release has no ready pod, even
// if another group of the service is waiting for approval. The output of hlnr status --only failed contains the same service.
func TestFailedGroupNextToAnApproval(t *testing.T) {
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
	if n := len(view.New(in, s.Now).Of([]view.Class{view.Failed}).Services); n != 1 {
		t.Fatalf("hlnr status --only failed: %d services", n)
	}
	if got := textOf(t, serve(t, in, s.Now).get("/?state=failed")); !strings.Contains(got, "out of licenses") {
		t.Errorf("the board, state failed: %s", got)
	}
}

// TestPageOfAPreviewThatEnds checks that the page of a service shows the hook that an ending preview is waiting
// for.
func TestPageOfAPreviewThatEnds(t *testing.T) {
	t.Parallel()
	s, _ := viewtest.Play("previews", "shop")
	in := s.Input
	in.Microservices = []v1alpha1.Microservice{*in.Microservices[0].DeepCopy()}
	for i := range in.Microservices[0].Status.ReleaseGroups {
		g := &in.Microservices[0].Status.ReleaseGroups[i]
		if g.PullRequest != 17 {
			continue
		}
		row := &g.Releases[0]
		g.Phase, row.Status, row.Weight, row.Available = v1alpha1.GroupClosing, v1alpha1.ReleaseDeprecated, 0, false
		g.End = &v1alpha1.PreviewEnd{Release: row.VersionedMicroservice}
		for j := range in.Releases {
			if o := &in.Releases[j]; o.Name == row.VersionedMicroservice {
				o.Spec.Replicas, o.Status.Replicas, o.Status.Available = 0, 0, 0
				o.Status.Hooks = []v1alpha1.HookStatus{{Name: "drop", Type: v1alpha1.HookPostPreview, Phase: v1alpha1.HookWaiting, Message: "cannot create Job shop-1: exceeded quota"}}
			}
		}
	}
	b := serve(t, in, s.Now)
	if got := textOf(t, b.get("/previews")); !strings.Contains(got, "exceeded quota") {
		t.Errorf("/previews: %s", got)
	}
	if got := textOf(t, b.get("/services/shop/shop")); !strings.Contains(got, "exceeded quota") {
		t.Errorf("/services/shop/shop: %s", got)
	}
}
