package notification

import (
	"testing"
	"time"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/view"
	"github.com/heighliner/heighliner/internal/view/viewtest"
)

// TestDroppedEditForgetsNoMessage checks that the record of a message remains after an edit to the message
// was dropped because the receiver did not accept the edit for 24 hours, for example because of an expired token.
// The end of the rollout, including the removal of the release, is then reported by another edit to this message, so that a
// commit on GitHub does not remain pending permanently.
func TestDroppedEditForgetsNoMessage(t *testing.T) {
	t.Parallel()
	w := newWorld(t, v1alpha1.NotificationReceiver{Name: "github", Type: v1alpha1.ReceiverGitHubStatus})
	var last viewtest.Story
	for _, m := range viewtest.Moments("approval", "shop") {
		last = m
		now := m.Now
		p := newPlan(w.observe(m.Input, now), now)
		w.policy.Status, w.state = p.status, map[string]receiverState{}
		s := receiverState{}
		for _, j := range p.jobs["github"] {
			if j.message.Event == v1alpha1.NotifyWaiting {
				s.results = append(s.results, result{job: j, at: now, dropped: true, why: "HTTP 401"})
				continue
			}
			s.results = append(s.results, result{job: j, at: now, called: "sha-of-" + j.message.Version})
		}
		w.state["github"] = s
		w.policy.Status = newPlan(w.observe(m.Input, now), now).status
		w.state = map[string]receiverState{}
	}
	now := last.Now.Add(time.Minute)
	p := newPlan(w.observe(view.Input{}, now), now) // the service is deleted
	for _, j := range p.jobs["github"] {
		if j.message.Event == v1alpha1.NotifyRemoved && j.edit == "sha-of-1.1.0" {
			return
		}
		t.Logf("%s edits %q", j.message.Title, j.edit)
	}
	t.Error("no job reports the removal by an edit to the pending status of the commit")
}
