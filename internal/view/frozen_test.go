package view

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// A canary that is blocked by a freeze shows until when and why, and the service lists it among its
// problems.
func TestFrozenCanary(t *testing.T) {
	ms := &v1alpha1.Microservice{}
	ms.Status.Conditions = []metav1.Condition{{
		Type: v1alpha1.ConditionFrozen, Status: metav1.ConditionTrue, Reason: "Frozen",
		Message: `1.1.0 is waiting at 10%: frozen until 2027-01-04T08:00:00Z by Freeze "fair" ("trade fair")`,
	}}
	r := &rollout{service: &service{index: &index{}, ms: ms}, run: &run{}, group: &v1alpha1.ReleaseGroup{}, row: &v1alpha1.Release{SemVer: v1alpha1.SemVer{Version: "1.1.0"}, Weight: 10}}
	s := r.halted()
	if s == nil {
		t.Fatal("it is not frozen")
	}
	if got, want := s.say(time.Time{}), `waits, frozen until 2027-01-04T08:00:00Z by Freeze "fair" ("trade fair")`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if p := r.problems(); len(p) != 1 || p[0].Condition != v1alpha1.ConditionFrozen {
		t.Errorf("problems: %+v", p)
	}
}
