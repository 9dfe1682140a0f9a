package notification

import (
	"testing"
	"time"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/view/viewtest"
)

// TestServiceThatIsSelectedLater checks that no message reports that a release "is active" if the policy
// has only just begun to select the Microservice of the release, because of a new label, and the
// Microservice's rollouts ended long ago.
func TestServiceThatIsSelectedLater(t *testing.T) {
	t.Parallel()
	w := newWorld(t, v1alpha1.NotificationReceiver{Name: "chat"})
	moments := viewtest.Moments("promoted", "shop")
	last := moments[len(moments)-1]
	began := moments[0].Now.Add(-time.Hour)
	none := last.Input
	none.Microservices = nil
	w.pass(none, began) // the policy is created, and selects nothing
	now := last.Now.Add(20 * 24 * time.Hour)
	w.pass(none, now)
	w.pass(last.Input, now.Add(time.Minute)) // the label is set
	if got := w.titles("chat"); got != nil {
		t.Errorf("20 days after the end: %q", got)
	}
}
