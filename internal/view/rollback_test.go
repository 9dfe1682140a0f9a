package view_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/view"
	"github.com/heighliner/heighliner/internal/view/viewtest"
)

// played returns the final state of a story, with a separate copy of its Microservice.
func played(t *testing.T, name string) (viewtest.Story, *v1alpha1.Microservice) {
	t.Helper()
	s, ok := viewtest.Play(name, "shop")
	if !ok {
		t.Fatalf("there is no history %s", name)
	}
	s.Input.Microservices = []v1alpha1.Microservice{*s.Input.Microservices[0].DeepCopy()}
	return s, &s.Input.Microservices[0]
}

// TestRollbackTargets checks that a service can be rolled back to previously active releases. In each group, the release that was active last
// comes first.
func TestRollbackTargets(t *testing.T) {
	t.Parallel()
	s, ms := played(t, "promoted")
	g := &ms.Status.ReleaseGroups[0]
	for _, x := range []struct {
		version  string
		status   v1alpha1.ReleaseStatus
		promoted int64
	}{{"1.2.0", v1alpha1.ReleaseCanary, 0}, {"0.9.0", v1alpha1.ReleaseDeprecated, 1}, {"0.8.0", v1alpha1.ReleaseDeprecated, 0}} {
		r := *g.Releases[0].DeepCopy()
		r.VersionedMicroservice, r.SemVer.Version, r.Status, r.Promoted = "shop-"+x.version, x.version, x.status, x.promoted
		g.Releases = slices.Insert(g.Releases, 0, r)
	}
	for i := range g.Releases {
		if r := &g.Releases[i]; r.SemVer.Version == "1.0.0" {
			r.Promoted = 2
		}
	}
	want := []view.RollbackTarget{{Group: "1.x", Version: "1.0.0", Release: "shop-1-0-0-0a1b2c3d", Last: true}, {Group: "1.x", Version: "0.9.0", Release: "shop-0.9.0"}}
	if diff := cmp.Diff(want, view.RollbackTargets(s.Input, ms.Namespace, ms.Name)); diff != "" {
		t.Error(diff)
	}
	g.Rollout = &v1alpha1.Rollout{Release: "shop-1.2.0"}
	want = append(want, view.RollbackTarget{Group: "1.x", Version: "1.1.0", Release: "shop-1-1-0-0a1b2c3d", Active: true})
	if diff := cmp.Diff(want, view.RollbackTargets(s.Input, ms.Namespace, ms.Name)); diff != "" {
		t.Error(diff)
	}
	g.Phase = v1alpha1.GroupClosing
	if got := view.RollbackTargets(s.Input, ms.Namespace, ms.Name); len(got) > 0 {
		t.Errorf("targets in a group that ends: %+v", got)
	}
}

// TestRetryOfTarget checks that a failed release can be retried only if its group would move to it.
func TestRetryOfTarget(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		target v1alpha1.GroupTarget
		want   bool
	}{
		"the failed release":        {v1alpha1.GroupTarget{Release: "shop-1-1-0-0a1b2c3d", Reason: "Pinned"}, true},
		"the previous release":      {v1alpha1.GroupTarget{Release: "shop-1-0-0-0a1b2c3d", Reason: "Latest"}, true},
		"no target":                 {v1alpha1.GroupTarget{}, true},
		"pinned to another release": {v1alpha1.GroupTarget{Release: "shop-1-0-0-0a1b2c3d", Reason: "Pinned"}, false},
		"pinned to an unknown one":  {v1alpha1.GroupTarget{Release: "shop-7-0-0-0a1b2c3d", Reason: "Pinned"}, false},
		"a newer release":           {v1alpha1.GroupTarget{Release: "shop-1-2-0-0a1b2c3d", Reason: "Latest"}, false},
	} {
		s, ms := played(t, "crashes")
		g := &ms.Status.ReleaseGroups[0]
		g.Target = tc.target
		if name == "a newer release" {
			r := *g.Releases[0].DeepCopy()
			r.VersionedMicroservice, r.SemVer.Version, r.Status = "shop-1-2-0-0a1b2c3d", "1.2.0", v1alpha1.ReleasePending
			g.Releases = slices.Insert(g.Releases, 0, r)
		}
		svc, _ := view.NewService(s.Input, ms.Namespace, ms.Name, s.Now)
		i := slices.IndexFunc(svc.Groups[0].Releases, func(r view.Release) bool { return r.Version == "1.1.0" })
		got := slices.ContainsFunc(svc.Groups[0].Releases[i].State.Next, func(a view.Action) bool { return a.Verb == "retry" })
		if got != tc.want {
			t.Errorf("%s: retry is %v", name, got)
		}
	}
}

// TestReturnOfAPinnedRelease checks that, for a pinned release without a ready pod, the view offers the removal of the pin instead of a
// rollback to the version that was active before the pin, and that the sentence contains the pin.
func TestReturnOfAPinnedRelease(t *testing.T) {
	t.Parallel()
	s, ms := played(t, "pinned")
	g := &ms.Status.ReleaseGroups[0]
	row := takeDown(&s, g)
	svc, _ := view.NewService(s.Input, ms.Namespace, ms.Name, s.Now)
	if slices.ContainsFunc(svc.State.Next, func(n view.Action) bool { return n.Verb == "rollback" && n.Target == "1.1.0" }) {
		t.Errorf("the group is pinned to %s for \"sessions lost\", and a rollback to 1.1.0, which was active before the pin, is offered instead of unpin: %+v", row.SemVer.Version, svc.State.Next)
	}
	if !strings.Contains(svc.State.Sentence, "pinned") {
		t.Errorf("the sentence does not name the pin: %q", svc.State.Sentence)
	}
}

// TestReturnToTheLast checks that the offered rollback is to the release that was active last, as with hlnr rollback
// without --to.
func TestReturnToTheLast(t *testing.T) {
	t.Parallel()
	s, ms := played(t, "promoted")
	g := &ms.Status.ReleaseGroups[0]
	takeDown(&s, g)
	for i := range g.Releases {
		if r := &g.Releases[i]; r.SemVer.Version == "1.0.0" {
			r.Promoted = 2 // It was active last, after a return from 1.0.5.
			x := *r.DeepCopy()
			x.VersionedMicroservice, x.SemVer.Version, x.Promoted = "shop-1-0-5", "1.0.5", 1
			g.Releases = slices.Insert(g.Releases, i, x)
			break
		}
	}
	last := ""
	for _, x := range view.RollbackTargets(s.Input, ms.Namespace, ms.Name) {
		if x.Last {
			last = x.Version
		}
	}
	svc, _ := view.NewService(s.Input, ms.Namespace, ms.Name, s.Now)
	for _, n := range svc.State.Next {
		if n.Verb == "rollback" && n.Target != last {
			t.Errorf("offered: %s; hlnr rollback would return to %s", n.Command, last)
		}
	}
}

// TestReturnDuringAPause checks that a group that returns to a retained release is waiting for a user while spec.paused is
// set.
func TestReturnDuringAPause(t *testing.T) {
	t.Parallel()
	s, ms := played(t, "pinned")
	g := &ms.Status.ReleaseGroups[0]
	newer := ""
	for i := range g.Releases {
		if g.Releases[i].SemVer.Version == "1.1.0" {
			newer = g.Releases[i].VersionedMicroservice
		}
	}
	ms.Spec.Paused, ms.Spec.UpdateStrategy.Manual = true, nil
	g.Target = v1alpha1.GroupTarget{Release: newer, Reason: "Newest"}
	svc, _ := view.NewService(s.Input, ms.Namespace, ms.Name, s.Now)
	a, err := view.WhyVersion(s.Input, ms.Namespace, ms.Name, "1.1.0", s.Now)
	if err != nil {
		t.Fatal(err)
	}
	if a.Result == view.ForPerson && svc.State.Class != view.Waiting {
		t.Errorf("hlnr why: %q; hlnr status: %s %q", a.Summary, svc.State.Class, svc.State.Sentence)
	}
}
