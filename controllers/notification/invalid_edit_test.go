package notification

import (
	"context"
	"testing"
	"time"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/notify"
	"github.com/heighliner/heighliner/internal/view/viewtest"
	"github.com/heighliner/heighliner/test/await"
)

// TestAcceptedDuringAnInvalidEdit checks that a message that a receiver accepted is recorded even if the
// policy has become invalid, for example because of a typo in a template. After the typo is corrected, the
// message is not sent again.
func TestAcceptedDuringAnInvalidEdit(t *testing.T) {
	t.Parallel()
	story, _ := viewtest.Play("approval", "shop")
	w := newWorld(t, v1alpha1.NotificationReceiver{Name: "chat"})
	l := newLine(t, func(string) *notify.Error { return nil })
	policy := w.policy
	var sent []string
	// reconcile simulates Reconcile: it writes the status, drops the results that the status records, starts the jobs, and
	// waits until they end.
	reconcile := func(reason, wrong string, now time.Time) {
		w.state = l.state(team, "uid")
		o := w.observe(story.Input, now)
		if wrong != "" {
			o.releases, o.reason, o.wrong = nil, reason, wrong
		}
		p := newPlan(o, now)
		policy.Status = p.status
		l.recorded(team, w.state)
		for _, j := range p.jobs["chat"] {
			sent = append(sent, j.message.Title)
		}
		if jobs := p.jobs["chat"]; len(jobs) > 0 {
			none := func(context.Context) (notify.Credentials, error) { return notify.Credentials{}, nil }
			l.start(team, &policy.Spec.Receivers[0], jobs, none)
			await.Receive(t, "the end of the task", l.enqueued)
		}
	}
	reconcile("", "", story.Now)
	if len(sent) != 1 {
		t.Fatalf("sent %q", sent)
	}
	reconcile(reasonInvalidTemplate, "spec.receivers: a typo", story.Now.Add(time.Second)) // edited before the response was recorded
	reconcile("", "", story.Now.Add(time.Minute))                                          // corrected
	if len(sent) != 1 {
		t.Errorf("one transition, sent %q", sent)
	}
}
