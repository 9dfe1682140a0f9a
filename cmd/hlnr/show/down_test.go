package show

import (
	"slices"
	"strings"
	"testing"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/view"
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

// TestWhyOfAServiceWithAnUnavailableGroup checks that the answer about a service is about the group that is not available, even if some of its pods
// are ready and a newer group is available.
func TestWhyOfAServiceWithAnUnavailableGroup(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		edit    func(row *v1alpha1.Release, o *v1alpha1.VersionedMicroservice, reports []v1alpha1.GroupTraffic)
		summary string
		result  view.Result
	}{
		"one of three pods": {func(row *v1alpha1.Release, o *v1alpha1.VersionedMicroservice, _ []v1alpha1.GroupTraffic) {
			row.Available, o.Status.Available = false, 1
		}, "1.0.0 is live: active 3h, not available: 1 of 3 pods.", view.Serving},
		"no route": {func(_ *v1alpha1.Release, _ *v1alpha1.VersionedMicroservice, reports []v1alpha1.GroupTraffic) {
			for i := range reports {
				if r := &reports[i]; r.Slug == "1-x" {
					r.Revision, r.Reason, r.Message = 0, "DomainConflict", "the older policy cart has the host"
				}
			}
		}, "1.0.0 is active, and no route targets it: NetworkPolicy shop: the older policy cart has the host.", view.NotServing},
		"available": {func(*v1alpha1.Release, *v1alpha1.VersionedMicroservice, []v1alpha1.GroupTraffic) {}, "2.0.0 is live: active 2h.", view.Serving},
	} {
		s, _ := viewtest.Play("two groups", "shop")
		in := s.Input
		in.Microservices = []v1alpha1.Microservice{*in.Microservices[0].DeepCopy()}
		in.NetworkPolicies = []v1alpha1.NetworkPolicy{*in.NetworkPolicies[0].DeepCopy()}
		in.Releases = slices.Clone(in.Releases)
		groups := in.Microservices[0].Status.ReleaseGroups
		row := &groups[slices.IndexFunc(groups, func(g v1alpha1.ReleaseGroup) bool { return g.Slug == "1-x" })].Releases[0]
		o := &in.Releases[slices.IndexFunc(in.Releases, func(o v1alpha1.VersionedMicroservice) bool { return o.Name == row.VersionedMicroservice })]
		c.edit(row, o, in.NetworkPolicies[0].Status.Groups)
		a, err := ask(in, "shop", []string{"shop"}, s.Now)
		if err != nil {
			t.Fatal(err)
		}
		if a.Summary != c.summary || a.Result != c.result {
			t.Errorf("%s: %s, %q; want %s, %q", name, a.Result, a.Summary, c.result, c.summary)
		}
	}
}
