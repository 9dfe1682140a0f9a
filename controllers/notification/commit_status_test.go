package notification

import (
	"fmt"
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
