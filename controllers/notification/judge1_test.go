package notification

import (
	"context"
	"testing"
	"time"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/notify"
)

// TestJudge1CorrectedReceiver: the URL of a receiver that failed for long is corrected, and its messages wait for the back-off of the wrong URL.
func TestJudge1CorrectedReceiver(t *testing.T) {
	wrong := v1alpha1.NotificationReceiver{Name: "chat", URL: "https://wrong.example.com"}
	l := newLine(t, func(string) *notify.Error { return failure(false) })
	for range 10 {
		l.start(team, wrong.DeepCopy(), []job{{message: notify.Message{ID: "1"}}}, func(context.Context) (notify.Credentials, error) { return notify.Credentials{}, nil })
		<-l.enqueued
		l.clock.SetTime(l.state(team, "uid")["chat"].next)
	}
	l.clock.SetTime(l.clock.Now().Add(-4 * time.Minute)) // soon after the last failure
	right := wrong
	right.URL = "https://right.example.com"
	l.keep(team, &v1alpha1.NotificationPolicySpec{Receivers: []v1alpha1.NotificationReceiver{right}})
	s := l.state(team, "uid")["chat"]
	if wait := s.next.Sub(l.clock.Now()); wait > 0 {
		t.Errorf("the corrected receiver is first called in %s, its failure is still that of the wrong URL: %q", wait.Round(time.Second), s.failure)
	}
}
