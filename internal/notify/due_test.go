package notify

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// TestReplacedBeforeItsPromotionWasReported checks that a receiver that wants promotions is notified of the replacement of a release whose
// promotion could not be reported, so that the start is not the last reported event of the rollout. A replacement before
// the reported start did not end this rollout: the return to the release was canceled.
func TestReplacedBeforeItsPromotionWasReported(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	replaced := []Fact{{Event: v1alpha1.NotifyDeprecated, Time: now}}
	last := func(e v1alpha1.NotificationEvent) *v1alpha1.NotificationDelivery {
		return &v1alpha1.NotificationDelivery{Event: e, Time: metav1.NewMicroTime(now.Add(-time.Hour))}
	}
	for name, test := range map[string]struct {
		events []v1alpha1.NotificationEvent
		known  *v1alpha1.NotificationDelivery
		due    bool
	}{
		"its start was reported":                        {nil, last(v1alpha1.NotifyStarted), true},
		"a wait was reported":                           {nil, last(v1alpha1.NotifyWaiting), true},
		"its promotion was reported":                    {nil, last(v1alpha1.NotifyPromoted), false},
		"nothing was reported":                          {nil, nil, false},
		"promotions are not wanted":                     {[]v1alpha1.NotificationEvent{v1alpha1.NotifyWaiting}, last(v1alpha1.NotifyWaiting), false},
		"only promotions and waits":                     {[]v1alpha1.NotificationEvent{v1alpha1.NotifyWaiting, v1alpha1.NotifyPromoted}, last(v1alpha1.NotifyWaiting), true},
		"replacements are wanted, nothing was reported": {[]v1alpha1.NotificationEvent{v1alpha1.NotifyDeprecated}, nil, true},
	} {
		r := &v1alpha1.NotificationReceiver{Name: "chat", Events: test.events}
		if got := Due(r, test.known, replaced, now.Add(-time.Minute)) != nil; got != test.due {
			t.Errorf("%s: due %t, want %t", name, got, test.due)
		}
	}
}

// TestCanceledReturn checks that the end of a canceled return to a retained release is reported once: the release is then in the same state as
// before the return.
func TestCanceledReturn(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	facts := []Fact{{Event: v1alpha1.NotifyDeprecated, Time: now.Add(-time.Hour)}}
	known := &v1alpha1.NotificationDelivery{Event: v1alpha1.NotifyStarted, Time: metav1.NewMicroTime(now)}
	all := &v1alpha1.NotificationReceiver{Name: "chat", Events: []v1alpha1.NotificationEvent{
		v1alpha1.NotifyStarted, v1alpha1.NotifyPromoted, v1alpha1.NotifySuperseded, v1alpha1.NotifyDeprecated,
	}}
	due := Due(all, known, facts, now.Add(-time.Minute))
	if due == nil || due.Event != v1alpha1.NotifySuperseded || !due.Time.Equal(now) {
		t.Fatalf("%+v is due, want the end of the return", due)
	}
	ended := Advance(known, v1alpha1.NotificationDelivery{}, due, "id", "")
	if again := Due(all, &ended, facts, now.Add(-time.Minute)); again != nil {
		t.Errorf("%+v is due after the end was reported", again)
	}
	some := &v1alpha1.NotificationReceiver{Name: "chat", Events: []v1alpha1.NotificationEvent{v1alpha1.NotifyStarted, v1alpha1.NotifyPromoted}}
	if due := Due(some, known, facts, now.Add(-time.Minute)); due != nil {
		t.Errorf("%+v is due, although the receiver does not want it", due)
	}
}
