package notification

import (
	"testing"
	"time"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/view/viewtest"
)

// TestWaitingMessageDoesNotVanish checks what happens to a message to a receiver whose token expired on Friday evening. The
// message is waiting because two earlier messages are tried for 24 h each. The waiting message is either sent
// when the token is renewed on Monday, or dropped with an event, but never disappears without an event.
func TestWaitingMessageDoesNotVanish(t *testing.T) {
	t.Parallel()
	w := newWorld(t, v1alpha1.NotificationReceiver{Name: "chat"})
	moments := viewtest.Moments("promoted", "shop")
	last := moments[len(moments)-1]
	none := last.Input
	none.Microservices = nil
	w.pass(none, moments[0].Now.Add(-time.Hour))
	p := newPlan(w.observe(last.Input, last.Now), last.Now)
	w.policy.Status = p.status
	if len(p.jobs["chat"]) == 0 {
		t.Fatal("nothing is due")
	}
	monday := last.Now.Add(63 * time.Hour)
	p = newPlan(w.observe(last.Input, monday), monday)
	if len(p.jobs["chat"]) == 0 && len(p.dropped) == 0 {
		t.Errorf("the message is neither sent nor dropped: pending %d, conditions %v", p.status.Receivers[0].Pending, p.status.Conditions)
	}
}
