package view

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// TestLateReports checks that a rollout waits only for policies that have confirmed the settled revision of its group, as the planner does.
func TestLateReports(t *testing.T) {
	t.Parallel()
	of := func(name string, revision int64, unrouted bool) report {
		p := &v1alpha1.NetworkPolicy{}
		p.Name = name
		return report{p, v1alpha1.GroupTraffic{Revision: revision, Unrouted: unrouted}}
	}
	r := &rollout{
		run: &run{stepRevision: 9}, group: &v1alpha1.ReleaseGroup{Internal: &v1alpha1.ReleaseGroupInternal{SettledRevision: 5}},
		reports: []report{of("confirmed", 9, false), of("behind", 6, false), of("without routes", 9, true), of("never confirmed", 0, true), of("before the group settled", 4, false), of("and without routes", 4, true)},
	}
	var late []string
	for _, rep := range r.late() {
		late = append(late, rep.policy.Name)
	}
	if diff := cmp.Diff([]string{"behind", "without routes"}, late); diff != "" {
		t.Error(diff)
	}
}
