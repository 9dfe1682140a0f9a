package view

import (
	"cmp"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/frozen"
)

// TestFrozenCanary checks that a canary that is blocked by a freeze shows when the freeze ends and the reason for the freeze, and that the service
// lists the freeze among its problems.
func TestFrozenCanary(t *testing.T) {
	ms := &v1alpha1.Microservice{}
	wait := frozen.Wait{Clause: frozen.AtWeight("1.1.0", 10), Freeze: frozen.Freeze(time.Date(2027, 1, 4, 8, 0, 0, 0, time.UTC), `Freeze "fair"`, "trade fair")}
	ms.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionFrozen, Status: metav1.ConditionTrue, Reason: "Frozen", Message: wait.String()}}
	r := &rollout{service: &service{index: &index{}, ms: ms}, run: &run{}, group: &v1alpha1.ReleaseGroup{}, row: &v1alpha1.Release{SemVer: v1alpha1.SemVer{Version: "1.1.0"}, Weight: 10}}
	s := r.halted()
	if s == nil {
		t.Fatal("it is not frozen")
	}
	if got, want := s.sentence(time.Time{}), `waits, frozen until 2027-01-04T08:00:00Z by Freeze "fair" ("trade fair")`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if p := r.problems(); len(p) != 1 || p[0].Condition != v1alpha1.ConditionFrozen {
		t.Errorf("problems: %+v", p)
	}
}

// TestFreezeOfAnotherRelease checks that a rollout is not shown as frozen if another release of the same version, which has no rollout, is the
// only release that is waiting for the end of the freeze.
func TestFreezeOfAnotherRelease(t *testing.T) {
	t.Parallel()
	wait := frozen.Wait{Clause: frozen.Release("1.1.0"), Freeze: frozen.Freeze(time.Time{}, `Freeze "fair"`, "trade fair")}
	ms := &v1alpha1.Microservice{}
	ms.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionFrozen, Status: metav1.ConditionTrue, Reason: "Frozen", Message: wait.String()}}
	r := &rollout{service: &service{index: &index{}, ms: ms}, run: &run{}, group: &v1alpha1.ReleaseGroup{}, row: &v1alpha1.Release{SemVer: v1alpha1.SemVer{Version: "1.1.0"}, Weight: 10}}
	if s := r.halted(); s != nil {
		t.Errorf("%+v", s)
	}
}

// TestStartAndRolloutInAFreeze checks which waits the service itself shows, and which waits its rollout shows.
func TestStartAndRolloutInAFreeze(t *testing.T) {
	t.Parallel()
	first := frozen.Wait{Clause: frozen.AtWeight("2.0.0", 20), Freeze: frozen.Freeze(time.Time{}, `Freeze "fair"`, "trade fair")}
	for name, test := range map[string]struct {
		message          string
		start, inRollout bool
	}{
		"release":      {frozen.Wait{Clause: frozen.Release("1.1.0"), Freeze: first.Freeze}.String(), true, false},
		"canary":       {frozen.Wait{Clause: frozen.AtWeight("1.1.0", 10), Freeze: first.Freeze}.String(), false, true},
		"without pods": {frozen.Wait{Clause: frozen.WithoutPods("1.1.0"), Freeze: first.Freeze}.String(), false, true},
		"truncated":    {first.String() + "; 1.1.0 is waiting at 1…", false, true},
		"another":      {first.String() + "; 1.2.0 is waiting at 1…", false, false},
	} {
		ms := &v1alpha1.Microservice{}
		ms.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionFrozen, Status: metav1.ConditionTrue, Reason: "Frozen", Message: test.message}}
		s := &service{index: &index{}, ms: ms}
		r := &rollout{service: s, run: &run{}, group: &v1alpha1.ReleaseGroup{}, row: &v1alpha1.Release{SemVer: v1alpha1.SemVer{Version: "1.1.0"}, Weight: 10}}
		if start, inRollout := s.waitsForStart() != nil, r.halted() != nil; start != test.start || inRollout != test.inRollout {
			t.Errorf("%s: the service waits %t, its rollout %t", name, start, inRollout)
		}
	}
}

// TestReturnDuringAPause checks that, as in the planner, a pause prevents the return to a retained release, unless the release is pinned or
// replaces a denied version.
func TestReturnDuringAPause(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reason   string
		promoted int64
		denied   string
		paused   bool
	}{
		"a new release":          {"Latest", 0, "", true},
		"a pin to a new release": {"Pinned", 0, "", true},
		"a retained release":     {"Latest", 1, "", true},
		"a pin":                  {"Pinned", 1, "", false},
		"a denied version":       {"Latest", 1, "1.2.0", false},
		"another denied version": {"Latest", 1, "1.3.0", true},
	} {
		ms := &v1alpha1.Microservice{}
		ms.Spec.Paused = true
		policy := v1alpha1.ImagePolicy{}
		policy.Status.Withdrawn = []v1alpha1.Withdrawal{{Group: "1-x", Version: cmp.Or(c.denied, "0.1.0"), Reason: v1alpha1.WithdrawnDenied}}
		r := &rollout{
			service: newIndex(Input{ImagePolicies: []v1alpha1.ImagePolicy{policy}}, time.Time{}).service(ms), run: &run{},
			group: &v1alpha1.ReleaseGroup{Slug: "1-x", Active: "1.2.0", Target: v1alpha1.GroupTarget{Reason: c.reason}}, row: &v1alpha1.Release{Promoted: c.promoted},
		}
		if got := r.halted(); (got != nil) != c.paused {
			t.Errorf("%s: %+v, want it paused: %t", name, got, c.paused)
		}
	}
}

// TestFreezeOfAnAdoptedRelease checks that an adopted release shows that it is delayed by a freeze, and not by
// spec.paused.
func TestFreezeOfAnAdoptedRelease(t *testing.T) {
	t.Parallel()
	ms := &v1alpha1.Microservice{}
	ms.Spec.Paused = true
	wait := frozen.Wait{Clause: frozen.WithoutPods("1.1.0"), Freeze: frozen.Freeze(time.Date(2027, 1, 4, 8, 0, 0, 0, time.UTC), `Freeze "fair"`, "trade fair")}
	ms.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionFrozen, Status: metav1.ConditionTrue, Reason: "Frozen", Message: wait.String()}}
	for adopted, want := range map[bool]Word{true: WordFrozen, false: WordPaused} {
		row := &v1alpha1.Release{SemVer: v1alpha1.SemVer{Version: "1.1.0"}, Internal: &v1alpha1.ReleaseInternal{Adopted: adopted}}
		r := &rollout{service: &service{index: &index{}, ms: ms}, run: &run{}, group: &v1alpha1.ReleaseGroup{}, row: row}
		if s := r.halted(); s == nil || s.Word != want {
			t.Errorf("adopted %t: %+v, want %s", adopted, s, want)
		}
	}
}
