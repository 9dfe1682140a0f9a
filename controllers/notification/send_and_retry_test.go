package notification

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/contain"
	"github.com/heighliner/heighliner/internal/notify"
	"github.com/heighliner/heighliner/test/await"
)

// line sends messages to receivers that a function simulates.
type line struct {
	*tasks
	clock    *testingclock.FakePassiveClock
	enqueued chan types.NamespacedName
}

var team = types.NamespacedName{Namespace: "shop", Name: "team"}

func newLine(t *testing.T, answer func(id string) *notify.Error) *line {
	t.Helper()
	m, err := newMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	l := &line{clock: testingclock.NewFakePassiveClock(time.Date(2030, 1, 31, 9, 0, 0, 0, time.UTC)), enqueued: make(chan types.NamespacedName, 64)}
	l.tasks = newTasks(l.clock, func(_ context.Context, _ *v1alpha1.NotificationReceiver, _ notify.Credentials, m notify.Message, _ string) (string, *notify.Error) {
		return "", answer(m.ID)
	}, m)
	l.run(t.Context(), func(p types.NamespacedName) { l.enqueued <- p })
	l.state(team, "uid")
	return l
}

// play sends messages, and returns the receiver's state.
func (l *line) play(t *testing.T, ids ...string) receiverState {
	t.Helper()
	var jobs []job
	for _, id := range ids {
		jobs = append(jobs, job{message: notify.Message{ID: id}})
	}
	l.start(team, &v1alpha1.NotificationReceiver{Name: "chat"}, jobs, func(context.Context) (notify.Credentials, error) { return notify.Credentials{}, nil })
	await.Receive(t, "the end of the task", l.enqueued)
	return l.state(team, "uid")["chat"]
}

func failure(rejected bool) *notify.Error {
	e := notify.NewError(context.Canceled)
	e.Rejected = rejected
	return e
}

// TestOrder checks that a failing receiver gets the remaining messages later, in order, and that a receiver
// that rejects one message gets all other messages.
func TestOrder(t *testing.T) {
	t.Parallel()
	l := newLine(t, func(id string) *notify.Error {
		switch id {
		case "bad":
			return failure(true)
		case "down":
			return failure(false)
		}
		return nil
	})
	s := l.play(t, "a", "bad", "b", "down", "c")
	if len(s.results) != 2 || s.results[0].message.ID != "a" || s.results[1].message.ID != "b" || s.failure == "" || !s.next.After(l.clock.Now()) {
		t.Errorf("results %+v, failure %q, next %s", s.results, s.failure, s.next)
	}
	l.recorded(team, map[string]receiverState{"chat": s})
	if s := l.state(team, "uid")["chat"]; len(s.results) != 0 {
		t.Errorf("%d results remain", len(s.results))
	}
}

// TestDropped checks that waits grow up to a bound, and that messages are dropped if they are rejected, or are not accepted within a day.
func TestDropped(t *testing.T) {
	t.Parallel()
	rejects := newLine(t, func(string) *notify.Error { return failure(true) })
	for i := range maxRejections {
		s := rejects.play(t, "bad")
		if got, want := len(s.results), (i+1)/maxRejections; got != want {
			t.Fatalf("after %d attempts, %d messages are dropped", i+1, got)
		}
	}
	down := newLine(t, func(string) *notify.Error { return failure(false) })
	began := down.clock.Now()
	for n := 0; ; n++ {
		s := down.play(t, "message")
		if len(s.results) > 0 {
			if lasted := down.clock.Now().Sub(began); !s.results[0].dropped || lasted < maxTrying || lasted > maxTrying+2*maxBackoff {
				t.Errorf("%+v after %s", s.results[0], lasted)
			}
			if n > 1000 {
				t.Errorf("%d attempts", n)
			}
			return
		}
		wait := s.next.Sub(down.clock.Now())
		if wait < minBackoff || wait > maxBackoff*5/4 {
			t.Fatalf("attempt %d is followed by a wait of %s", n, wait)
		}
		down.clock.SetTime(s.next)
	}
}

// TestForget checks that a deleted policy's tasks end, and that a new policy with the same name has no state.
func TestForget(t *testing.T) {
	t.Parallel()
	begun := make(chan struct{})
	l := newLine(t, func(string) *notify.Error { return nil })
	l.send = func(ctx context.Context, _ *v1alpha1.NotificationReceiver, _ notify.Credentials, _ notify.Message, _ string) (string, *notify.Error) {
		close(begun)
		<-ctx.Done()
		return "", notify.NewError(ctx.Err())
	}
	l.start(team, &v1alpha1.NotificationReceiver{Name: "chat"}, []job{{}}, func(context.Context) (notify.Credentials, error) { return notify.Credentials{}, nil })
	await.Receive(t, "the call", begun)
	l.forget(team)
	await.Receive(t, "the end of the task", l.enqueued)
	if s := l.state(team, "other"); len(s) != 0 {
		t.Errorf("state %+v", s)
	}
}

// TestChangedReceiver checks that the task of a changed, removed, or suspended receiver ends, so that the
// remaining messages are sent only to receivers in the current specification, and that no state of a removed
// receiver remains.
func TestChangedReceiver(t *testing.T) {
	t.Parallel()
	chat := v1alpha1.NotificationReceiver{Name: "chat", URL: "https://old.example.com"}
	moved := chat
	moved.URL = "https://new.example.com"
	for name, spec := range map[string]v1alpha1.NotificationPolicySpec{
		"removed":   {},
		"renamed":   {Receivers: []v1alpha1.NotificationReceiver{{Name: "talk", URL: chat.URL}}},
		"changed":   {Receivers: []v1alpha1.NotificationReceiver{moved}},
		"suspended": {Receivers: []v1alpha1.NotificationReceiver{chat}, Suspend: true},
		"unchanged": {Receivers: []v1alpha1.NotificationReceiver{chat}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			begun, end := make(chan struct{}, 2), make(chan struct{})
			l := newLine(t, func(string) *notify.Error { return nil })
			l.send = func(ctx context.Context, _ *v1alpha1.NotificationReceiver, _ notify.Credentials, _ notify.Message, _ string) (string, *notify.Error) {
				begun <- struct{}{}
				select {
				case <-ctx.Done():
					return "", notify.NewError(ctx.Err())
				case <-end:
					return "", nil
				}
			}
			l.start(team, chat.DeepCopy(), []job{{message: notify.Message{ID: "1"}}, {message: notify.Message{ID: "2"}}}, func(context.Context) (notify.Credentials, error) { return notify.Credentials{}, nil })
			await.Receive(t, "the call", begun)
			l.keep(team, &spec)
			if name == "unchanged" {
				close(end)
			}
			await.Receive(t, "the end of the task", l.enqueued)
			s := l.state(team, "uid")["chat"]
			if sent := len(s.results); sent != map[bool]int{true: 2}[name == "unchanged"] {
				t.Errorf("%d messages are recorded as sent", sent)
			}
			l.keep(team, &spec)
			if _, known := l.state(team, "uid")["chat"]; known == (name == "removed" || name == "renamed") {
				t.Errorf("the state is kept: %t", known)
			}
		})
	}
}

// TestCorrectedReceiver checks that a receiver with a corrected specification is called without the wait
// that follows failures, and that the earlier failures are forgotten.
func TestCorrectedReceiver(t *testing.T) {
	t.Parallel()
	wrong := v1alpha1.NotificationReceiver{Name: "chat", URL: "https://wrong.example.com"}
	l := newLine(t, func(string) *notify.Error { return failure(false) })
	for range 10 {
		l.start(team, wrong.DeepCopy(), []job{{message: notify.Message{ID: "1"}}}, func(context.Context) (notify.Credentials, error) { return notify.Credentials{}, nil })
		await.Receive(t, "the end of the task", l.enqueued)
		l.clock.SetTime(l.state(team, "uid")["chat"].next)
	}
	l.clock.SetTime(l.clock.Now().Add(-4 * time.Minute)) // soon after the last failure
	l.renew(team, &v1alpha1.NotificationPolicySpec{Receivers: []v1alpha1.NotificationReceiver{wrong}})
	if s := l.state(team, "uid")["chat"]; s.failure == "" || !s.next.After(l.clock.Now()) {
		t.Errorf("the unchanged receiver has the failure %q, and is next called at %s", s.failure, s.next)
	}
	right := wrong
	right.URL = "https://right.example.com"
	l.renew(team, &v1alpha1.NotificationPolicySpec{Receivers: []v1alpha1.NotificationReceiver{right}})
	if s := l.state(team, "uid")["chat"]; s.next.After(l.clock.Now()) || s.failure != "" || s.failures > 0 || len(s.attempts) > 0 {
		t.Errorf("the corrected receiver has the failure %q from the wrong URL, and is first called in %s", s.failure, s.next.Sub(l.clock.Now()).Round(time.Second))
	}
}

// TestPanicOfAMessage checks that a message that causes a panic is dropped after some attempts, and that the receiver gets the other messages.
func TestPanicOfAMessage(t *testing.T) {
	t.Parallel()
	l := newLine(t, func(id string) *notify.Error {
		if id == "bad" {
			panic("a secret of a tenant")
		}
		return nil
	})
	s := l.play(t, "bad", "good")
	if len(s.results) != 1 || s.results[0].message.ID != "good" {
		t.Errorf("results: %+v", s.results)
	}
	for range maxRejections - 1 {
		s = l.play(t, "bad")
	}
	if len(s.results) != 2 || !s.results[1].dropped || s.results[1].why != contain.ErrPanic.Error() {
		t.Errorf("results: %+v", s.results)
	}
	if n := len(l.limits.scopes); n > 0 {
		t.Errorf("%d slots are taken", n)
	}
}
