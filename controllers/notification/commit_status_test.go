package notification

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/view/viewtest"
)

// commitStatuses is a receiver that sets commit statuses.
var commitStatuses = v1alpha1.NotificationReceiver{Name: "github", Type: v1alpha1.ReceiverGitHubStatus}

// TestSupersededByTheSameCommit checks that, if a rollout is superseded by a rollout of the same commit, the status of the commit is that of the
// second rollout.
func TestSupersededByTheSameCommit(t *testing.T) {
	t.Parallel()
	moments := viewtest.Moments("canary with another configuration", "shop")
	for i := range 10 { // The order of IDs depends on the UID.
		w := newWorld(t, commitStatuses)
		w.policy.UID = types.UID(fmt.Sprint(i))
		for _, m := range moments {
			w.pass(m.Input, m.Now)
		}
		titles := w.titles("github")
		if diff := cmp.Diff([]string{"shop 1.1.0 was superseded", "shop 1.1.0 started, 1.0.0 is active"}, titles[max(0, len(titles)-2):]); diff != "" {
			t.Errorf("UID %d: last commit statuses (-want +got):\n%s", i, diff)
		}
	}
}

// TestCommitStatusWaitsForTheObject checks that a release in a rollout gets a commit status only when its object exists, because only
// the object contains the commit.
func TestCommitStatusWaitsForTheObject(t *testing.T) {
	t.Parallel()
	moments := viewtest.Moments("approval", "shop")
	i := slices.IndexFunc(moments, func(m viewtest.Story) bool {
		r := m.Input.Microservices[0].Status.ReleaseGroups[0].Rollout
		return r != nil && r.Release == "shop-1-1-0-0a1b2c3d"
	})
	w, without := newWorld(t, commitStatuses), moments[i].Input
	without.Releases = nil
	w.pass(without, moments[i].Now)
	for _, d := range w.policy.Status.Deliveries {
		if d.Version == "1.1.0" {
			t.Errorf("without an object, %s is recorded", d.Event)
		}
	}
	w.pass(moments[i].Input, moments[i].Now)
	if diff := cmp.Diff([]string{"shop 1.1.0 started, 1.0.0 is active"}, w.titles("github")); diff != "" {
		t.Errorf("with the object (-want +got):\n%s", diff)
	}
}
