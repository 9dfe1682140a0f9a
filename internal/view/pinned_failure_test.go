package view

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// TestFailureInAPinnedGroup checks that the failure of a release in a pinned group is part of the state of the group, and that the service is listed as failed.
func TestFailureInAPinnedGroup(t *testing.T) {
	t.Parallel()
	now := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	row := func(version string, status v1alpha1.ReleaseStatus, reason string) v1alpha1.Release {
		return v1alpha1.Release{
			VersionedMicroservice: "shop-" + version, SemVer: v1alpha1.SemVer{Version: version}, Status: status, Reason: reason, Available: status == v1alpha1.ReleaseActive,
			LastTransitionTime: metav1.NewMicroTime(now.Add(-time.Hour)),
		}
	}
	for name, c := range map[string]struct {
		failed   v1alpha1.Release
		sentence string
		shown    int
	}{
		"failed":  {row("1.1.0", v1alpha1.ReleaseError, "CrashLoopBackOff"), `pinned to 1.0.0: "sessions lost"; 1.1.0 failed: CrashLoopBackOff`, 1},
		"aborted": {row("1.1.0", v1alpha1.ReleaseError, "Aborted"), `pinned to 1.0.0: "sessions lost"`, 0},
	} {
		ms := v1alpha1.Microservice{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "shop"}}
		ms.Spec.UpdateStrategy.Manual = &v1alpha1.ManualUpdateStrategy{Groups: []v1alpha1.GroupPin{{Name: "1.x", Version: "1.0.0", Reason: "sessions lost"}}}
		ms.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue}}
		ms.Status.ReleaseGroups = []v1alpha1.ReleaseGroup{{
			Name: "1.x", Slug: "1-x", Phase: v1alpha1.GroupLive, Active: "1.0.0", Target: v1alpha1.GroupTarget{Release: "shop-1.0.0", Reason: "Pinned"},
			Releases: []v1alpha1.Release{c.failed, row("1.0.0", v1alpha1.ReleaseActive, "")},
		}}
		b := New(Input{Microservices: []v1alpha1.Microservice{ms}}, now)
		if got := b.Services[0].Groups[0].State; got.Sentence != c.sentence || got.Class != Stable {
			t.Errorf("%s: class %s, %q; want %q", name, got.Class, got.Sentence, c.sentence)
		}
		if got := len(b.Of([]Class{Failed}).Services); got != c.shown {
			t.Errorf("%s: %d services are among the failed ones, want %d", name, got, c.shown)
		}
	}
}

// TestCountOfTheUnreconciled checks that a service that the manager has not reconciled yet does not count as a service with a rollout in progress.
func TestCountOfTheUnreconciled(t *testing.T) {
	t.Parallel()
	ms := v1alpha1.Microservice{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "shop"}}
	b := New(Input{Microservices: []v1alpha1.Microservice{ms}}, time.Unix(0, 0))
	if want := (Counts{Services: 1, Unreconciled: 1}); b.Counts != want || b.Services[0].State.Sentence != "not reconciled yet" {
		t.Errorf("counts %+v, want %+v; %q", b.Counts, want, b.Services[0].State.Sentence)
	}
}
