package view

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// pinnedGroup returns a group of shop that is pinned to its active release. retained is a release above it.
func pinnedGroup(name, active, retained string) v1alpha1.ReleaseGroup {
	row := func(version string, status v1alpha1.ReleaseStatus) v1alpha1.Release {
		return v1alpha1.Release{VersionedMicroservice: "shop-" + version, SemVer: v1alpha1.SemVer{Name: name, Version: version}, Status: status, Promoted: 1, Available: true}
	}
	return v1alpha1.ReleaseGroup{
		Name: name, Slug: strings.ReplaceAll(name, ".", "-"), Phase: v1alpha1.GroupLive, Active: active, Target: v1alpha1.GroupTarget{Release: "shop-" + active, Reason: "Pinned"},
		Releases: []v1alpha1.Release{row(retained, v1alpha1.ReleaseDeprecated), row(active, v1alpha1.ReleaseActive)},
	}
}

// TestUnpinOfSeveralGroups checks that the command that removes a pin contains the group if several groups are pinned, and that each group shows the
// reason for the pin that applies to it.
func TestUnpinOfSeveralGroups(t *testing.T) {
	t.Parallel()
	now := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	ms := v1alpha1.Microservice{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "shop"}}
	ms.Spec.ImagePolicyRef.Name = "shop"
	ms.Spec.UpdateStrategy.Manual = &v1alpha1.ManualUpdateStrategy{
		SemVer: &v1alpha1.SemVer{Version: "2.0.0"}, Reason: "of all",
		Groups: []v1alpha1.GroupPin{{Name: "1.x", Version: "1.0.0", Reason: "of 1.x"}},
	}
	ms.Status.ReleaseGroups = []v1alpha1.ReleaseGroup{pinnedGroup("2.x", "2.0.0", "2.1.0"), pinnedGroup("1.x", "1.0.0", "1.1.0")}
	policy := v1alpha1.ImagePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "shop"}}
	policy.Status.Releases = []v1alpha1.OfferedRelease{{Group: "1-x", SemVer: v1alpha1.SemVer{Name: "1.x", Version: "1.2.0"}}}
	in := Input{Microservices: []v1alpha1.Microservice{ms}, ImagePolicies: []v1alpha1.ImagePolicy{policy}, Namespace: "shop"}

	s := New(in, now).Services[0]
	for i, note := range []string{"of all", "of 1.x"} {
		g := s.Groups[i]
		want := []Action{{Verb: "unpin", Command: "hlnr unpin shop --group " + g.Name, Group: g.Name}}
		if !slices.Equal(g.State.Next, want) || g.State.Note != note {
			t.Errorf("group %s: %+v, %q; want %+v, %q", g.Name, g.State.Next, g.State.Note, want, note)
		}
		if !slices.Equal(g.Releases[0].State.Next, want) {
			t.Errorf("retained release of group %s: %+v, want %+v", g.Name, g.Releases[0].State.Next, want)
		}
	}
	if a, err := WhyVersion(in, "shop", "shop", "1.2.0", now); err != nil || a.Do != "to start it: hlnr unpin shop --group 1.x" {
		t.Errorf("%v, %q", err, a.Do)
	}

	in.Microservices[0].Spec.UpdateStrategy.Manual.SemVer = nil
	if got := New(in, now).Services[0].Groups[1].State.Next[0]; got.Command != "hlnr unpin shop" || got.Group != "" {
		t.Errorf("of one pinned group: %+v", got)
	}
}

// TestStrayPin checks that unpin is not offered for a pin that refers to no group of the service, because unpin cannot remove it. The message shows the pin.
func TestStrayPin(t *testing.T) {
	t.Parallel()
	ms := v1alpha1.Microservice{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "shop"}}
	ms.Spec.UpdateStrategy.Manual = &v1alpha1.ManualUpdateStrategy{Groups: []v1alpha1.GroupPin{{Name: "3.x", Version: "3.0.0"}}}
	ms.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionPinned, Status: metav1.ConditionFalse, Reason: "PinnedVersionMissing", Message: `group "3.x" does not exist`}}
	ms.Status.ReleaseGroups = []v1alpha1.ReleaseGroup{pinnedGroup("1.x", "1.0.0", "1.1.0")}
	if s := New(Input{Microservices: []v1alpha1.Microservice{ms}}, time.Unix(0, 0)).Services[0]; s.State.Word != WordProblem || len(s.State.Next) > 0 {
		t.Errorf("%s %+v", s.State.Word, s.State.Next)
	}
}

// TestWhyOfAnUnlistedVersion checks that the answer about a version that is not among the listed rejections contains a command to list all
// rejections.
func TestWhyOfAnUnlistedVersion(t *testing.T) {
	t.Parallel()
	ms := v1alpha1.Microservice{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "shop"}}
	ms.Spec.ImagePolicyRef.Name = "images"
	policy := v1alpha1.ImagePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "images"}}
	policy.Status.Rejected = []v1alpha1.RejectedCount{{Verdict: "Level", Count: 30}}
	a, err := WhyVersion(Input{Microservices: []v1alpha1.Microservice{ms}, ImagePolicies: []v1alpha1.ImagePolicy{policy}}, "shop", "shop", "0.1.0", time.Unix(0, 0))
	if err != nil || !strings.Contains(a.Lines[0].Text, `"hlnr explain -n shop shop --scan --all" shows the others`) {
		t.Errorf("%v, %+v", err, a.Lines)
	}
}

// TestRollbackToADeniedVersion checks that a rollback to a denied version is not offered, because a pin does not protect a denied version.
func TestRollbackToADeniedVersion(t *testing.T) {
	t.Parallel()
	ms := v1alpha1.Microservice{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "shop"}}
	ms.Spec.ImagePolicyRef.Name = "shop"
	ms.Status.ReleaseGroups = []v1alpha1.ReleaseGroup{pinnedGroup("1.x", "1.1.0", "1.0.0")}
	g := &ms.Status.ReleaseGroups[0]
	g.Target.Reason = "Latest"
	slices.Reverse(g.Releases)
	policy := v1alpha1.ImagePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "shop"}}
	in := Input{Microservices: []v1alpha1.Microservice{ms}, ImagePolicies: []v1alpha1.ImagePolicy{policy}}
	if found := RollbackTargets(in, "shop", "shop"); len(found) != 1 || found[0].Version != "1.0.0" {
		t.Fatalf("%+v", found)
	}
	in.ImagePolicies[0].Status.Withdrawn = []v1alpha1.Withdrawal{{Group: "1-x", Version: "1.0.0", Reason: v1alpha1.WithdrawnDenied}}
	if found := RollbackTargets(in, "shop", "shop"); len(found) > 0 {
		t.Errorf("%+v", found)
	}
	a, err := WhyVersion(in, "shop", "shop", "1.0.0", time.Unix(0, 0))
	if err != nil || len(a.Next) > 0 || !strings.Contains(a.Summary, "its version is denied") {
		t.Errorf("%v, %+v", err, a)
	}
}
