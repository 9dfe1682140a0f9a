package notification

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/notify"
	"github.com/heighliner/heighliner/internal/view"
	"github.com/heighliner/heighliner/internal/view/viewtest"
)

// world is a policy with receivers, each of which accepts all messages or rejects all messages.
type world struct {
	testing.TB
	policy *v1alpha1.NotificationPolicy
	state  map[string]receiverState
	// failing contains the failures of receivers, by the name of the receiver.
	failing map[string]string
	// sent contains the sent messages by receiver.
	sent map[string][]notify.Message
	// writes is the number of status writes.
	writes int
}

func newWorld(t testing.TB, receivers ...v1alpha1.NotificationReceiver) *world {
	policy := &v1alpha1.NotificationPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "team", UID: "p", Generation: 1}}
	policy.Spec.Receivers = receivers
	return &world{TB: t, policy: policy, state: map[string]receiverState{}, failing: map[string]string{}, sent: map[string][]notify.Message{}}
}

// observe returns the observed state at the given time, as the reconciler does.
func (w *world) observe(in view.Input, now time.Time) *observed {
	o := &observed{policy: w.policy.DeepCopy(), services: map[[2]string]bool{}, existing: map[[2]string]bool{}, chosen: func(ns string) bool { return ns == "shop" }, state: w.state}
	o.releases = view.ReleaseStates(in, now, func(ms *v1alpha1.Microservice) bool {
		o.existing[[2]string{ms.Namespace, ms.Name}], o.services[[2]string{ms.Namespace, ms.Name}] = true, true
		return true
	})
	return o
}

// pass reconciles until nothing is due.
func (w *world) pass(in view.Input, now time.Time) {
	w.Helper()
	for range 100 {
		p := newPlan(w.observe(in, now), now)
		if !cmp.Equal(w.policy.Status, p.status) {
			w.writes++
		}
		w.policy.Status = p.status
		w.state = map[string]receiverState{}
		for name, jobs := range p.jobs {
			s := receiverState{}
			for _, j := range jobs {
				if s.failure = w.failing[name]; s.failure != "" {
					s.failures, s.next = 1, now.Add(time.Minute)
					break
				}
				w.sent[name] = append(w.sent[name], j.message)
				s.succeeded, s.results = true, append(s.results, result{job: j, called: "m-" + j.message.Thread, at: now})
			}
			w.state[name] = s
		}
		if len(p.jobs) == 0 {
			return
		}
	}
	w.Fatal("the rollout never ends")
}

// titles returns the titles of the messages that were sent to a receiver.
func (w *world) titles(receiver string) (out []string) {
	for _, m := range w.sent[receiver] {
		out = append(out, m.Title)
	}
	return out
}

// TestRestarts checks that a restart of the manager between any two points in a history loses no message, even if sent messages were not recorded,
// and that a message that is sent again has the same ID.
func TestRestarts(t *testing.T) {
	t.Parallel()
	for _, story := range viewtest.Stories() {
		t.Run(story.Name, func(t *testing.T) {
			t.Parallel()
			chat := v1alpha1.NotificationReceiver{Name: "chat"}
			moments := viewtest.Moments(story.Name, "shop")
			w, crashing := newWorld(t, chat), newWorld(t, chat)
			w.policy.CreationTimestamp = metav1.NewTime(moments[0].Now)
			for _, m := range moments {
				w.pass(m.Input, m.Now)
				before := *crashing.policy.DeepCopy()
				crashing.pass(m.Input, m.Now)
				crashing.policy.Status = before.Status // the sent messages are not recorded
				if len(before.Status.Receivers) == 0 {
					crashing.policy.Status.Receivers = []v1alpha1.ReceiverStatus{{Name: "chat", Since: w.policy.Status.Receivers[0].Since}}
				}
				crashing.state = nil
				crashing.pass(m.Input, m.Now)
				w.state = nil // a restart
			}
			var ids []string
			for _, m := range crashing.sent["chat"] {
				if !slices.Contains(ids, m.ID) {
					ids = append(ids, m.ID)
				}
			}
			var want []string
			for _, m := range w.sent["chat"] {
				want = append(want, m.ID)
			}
			if diff := cmp.Diff(want, ids); diff != "" {
				t.Errorf("IDs from a manager that crashes: %s", diff)
			}
		})
	}
}

// TestConditionAfterADrop checks that a receiver whose message was dropped remains in the condition until the receiver accepts another message, and
// that the condition does not report a retry.
func TestConditionAfterADrop(t *testing.T) {
	t.Parallel()
	p, o := &plan{}, &observed{policy: &v1alpha1.NotificationPolicy{}}
	for pending, want := range map[int32]string{
		1: `receiver "bus": HTTP 400; delivery is retried`,
		0: `receiver "bus": HTTP 400; the message was dropped, and the next message is sent as usual`,
	} {
		p.status.Receivers = []v1alpha1.ReceiverStatus{{Name: "bus", Failure: "HTTP 400", Pending: pending}}
		setConditions(p, o, false)
		if c := meta.FindStatusCondition(p.status.Conditions, v1alpha1.ConditionReady); c == nil || c.Reason != reasonDeliveryFailing || c.Message != want {
			t.Errorf("%d pending: %+v, want %s", pending, c, want)
		}
	}
}

// TestFailingReceiver checks that a receiver that fails for a while gets the last state of each release
// after it recovers, and that it does not affect other receivers.
func TestFailingReceiver(t *testing.T) {
	t.Parallel()
	w := newWorld(t, v1alpha1.NotificationReceiver{Name: "chat"}, v1alpha1.NotificationReceiver{Name: "bus"})
	moments := viewtest.Moments("promoted", "shop")
	w.failing["bus"] = "HTTP 500"
	for _, m := range moments {
		w.pass(m.Input, m.Now)
	}
	last := moments[len(moments)-1]
	if got := w.titles("bus"); got != nil {
		t.Errorf("sent %q", got)
	}
	c := meta.FindStatusCondition(w.policy.Status.Conditions, v1alpha1.ConditionReady)
	if c.Reason != reasonDeliveryFailing || c.Message != `receiver "bus": HTTP 500; delivery is retried` {
		t.Errorf("Ready is %+v", c)
	}
	if got := w.policy.Status.Pending; got == 0 {
		t.Error("nothing is pending")
	}
	delete(w.failing, "bus")
	w.pass(last.Input, last.Now.Add(2*time.Minute))
	w.pass(last.Input, last.Now.Add(2*time.Minute))
	// The first release was replaced in the meantime. By default, the end of a replaced release is not reported.
	if diff := cmp.Diff([]string{"shop 1.1.0 is active and replaced 1.0.0"}, w.titles("bus")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"shop 1.0.0 started", "shop 1.0.0 is active", "shop 1.1.0 started, 1.0.0 is active", "shop 1.1.0 is active and replaced 1.0.0"}, w.titles("chat")); diff != "" {
		t.Error(diff)
	}
	if c := meta.FindStatusCondition(w.policy.Status.Conditions, v1alpha1.ConditionReady); c.Status != metav1.ConditionTrue || w.policy.Status.Pending != 0 {
		t.Errorf("Ready is %+v, pending %d", c, w.policy.Status.Pending)
	}
}

// TestWrites checks that an unchanged state causes no write, and that one message causes one write.
func TestWrites(t *testing.T) {
	t.Parallel()
	w := newWorld(t, v1alpha1.NotificationReceiver{Name: "chat"})
	for _, m := range viewtest.Moments("promoted", "shop") {
		for range 3 {
			w.pass(m.Input, m.Now)
		}
	}
	if got, want := w.writes, len(w.sent["chat"])+1; got != want {
		t.Errorf("%d writes for %d messages, want %d", got, len(w.sent["chat"]), want)
	}
}

// TestRecordStaysSmall checks that records of rollouts that ended more than ten minutes ago are removed with
// the next write, and that the ends of these rollouts are not reported again.
func TestRecordStaysSmall(t *testing.T) {
	t.Parallel()
	w := newWorld(t, v1alpha1.NotificationReceiver{Name: "chat"})
	moments := viewtest.Moments("promoted", "shop")
	for _, m := range moments {
		w.pass(m.Input, m.Now)
	}
	last := moments[len(moments)-1]
	in := last.Input
	for i := range 100 {
		now := last.Now.Add(time.Duration(i+1) * time.Hour)
		ms := in.Microservices[0].DeepCopy()
		row := &ms.Status.ReleaseGroups[0].Releases[0]
		row.Status, row.Reason, row.LastTransitionTime = v1alpha1.ReleaseError, "CrashLoopBackOff", metav1.NewMicroTime(now)
		ms.Status.ReleaseGroups[0].Rollout = nil
		row.VersionedMicroservice = fmt.Sprintf("shop-%d", i)
		in.Microservices = []v1alpha1.Microservice{*ms}
		before := len(w.sent["chat"])
		w.pass(in, now)
		if got := len(w.sent["chat"]) - before; got != 1 {
			t.Fatalf("%d messages: %q", got, w.titles("chat")[before:])
		}
		if got := len(w.policy.Status.Deliveries); got > 3 {
			t.Fatalf("%d entries", got)
		}
	}
}

// TestRemoved checks that a reported release that no longer exists is reported as removed, and that the record of a release that is no longer selected is dropped.
func TestRemoved(t *testing.T) {
	t.Parallel()
	w := newWorld(t, v1alpha1.NotificationReceiver{Name: "chat"})
	story, _ := viewtest.Play("approval", "shop")
	w.pass(story.Input, story.Now)
	w.pass(view.Input{Namespace: ""}, story.Now.Add(time.Minute))
	titles := w.titles("chat")
	if got, want := titles[len(titles)-1], "shop 1.1.0 was removed before its rollout ended"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	before := len(titles)
	w.pass(view.Input{Namespace: ""}, story.Now.Add(time.Hour))
	if len(w.titles("chat")) > before {
		t.Errorf("the message is sent again: %q", w.titles("chat"))
	}

	w = newWorld(t, v1alpha1.NotificationReceiver{Name: "chat"})
	w.pass(story.Input, story.Now)
	before = len(w.sent["chat"])
	o := w.observe(story.Input, story.Now)
	o.releases, o.services = nil, map[[2]string]bool{}
	if p := newPlan(o, story.Now.Add(time.Minute)); len(p.jobs) > 0 || before == 0 {
		t.Errorf("%d jobs for services that are not selected", len(p.jobs))
	}
}

// TestSupersededWithoutTraffic checks that a release that was superseded and removed in one plan is reported as superseded, even if
// the rollout that superseded it has continued in the meantime.
func TestSupersededWithoutTraffic(t *testing.T) {
	t.Parallel()
	moments := viewtest.Moments("superseded without traffic", "shop")
	w := newWorld(t, v1alpha1.NotificationReceiver{Name: "chat", Events: []v1alpha1.NotificationEvent{v1alpha1.NotifyStarted, v1alpha1.NotifySuperseded}})
	next := slices.IndexFunc(moments, func(m viewtest.Story) bool {
		return slices.ContainsFunc(m.Input.Microservices[0].Status.ReleaseGroups[0].Releases, func(r v1alpha1.Release) bool { return r.SemVer.Version == "1.2.0" })
	})
	for _, m := range moments[:next] {
		w.pass(m.Input, m.Now)
	}
	last := moments[len(moments)-1]
	w.pass(last.Input, last.Now)
	w.pass(last.Input, last.Now.Add(time.Hour))
	want := []string{"shop 1.0.0 started", "shop 1.1.0 started, 1.0.0 is active", "shop 1.1.0 was superseded", "shop 1.2.0 started, 1.0.0 is active"}
	if diff := cmp.Diff(want, w.titles("chat")); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
}

// manyRollouts returns n services with a rollout that waits for approval, and the current time.
func manyRollouts(n int) (in view.Input, now time.Time) {
	story, _ := viewtest.Play("approval", "shop")
	for i := range n {
		ms := story.Input.Microservices[0].DeepCopy()
		ms.Name = fmt.Sprintf("shop-%d", i)
		for j := range ms.Status.ReleaseGroups[0].Releases {
			ms.Status.ReleaseGroups[0].Releases[j].VersionedMicroservice += fmt.Sprintf("-%d", i)
		}
		ms.Status.ReleaseGroups[0].Rollout.Release += fmt.Sprintf("-%d", i)
		in.Microservices = append(in.Microservices, *ms)
	}
	return in, story.Now
}

// TestFullRecord checks that additional releases wait while status.deliveries is full, and are reported later.
func TestFullRecord(t *testing.T) {
	t.Parallel()
	w := newWorld(t, v1alpha1.NotificationReceiver{Name: "chat"})
	in, start := manyRollouts(maxDeliveries + 10)
	w.policy.Status.Receivers = []v1alpha1.ReceiverStatus{{Name: "chat", Since: metav1.NewMicroTime(start)}}
	w.pass(in, start)
	c := meta.FindStatusCondition(w.policy.Status.Conditions, v1alpha1.ConditionReady)
	if got := len(w.policy.Status.Deliveries); got != maxDeliveries || c.Reason != reasonTooManyDeliveries {
		t.Fatalf("%d entries, Ready is %+v", got, c)
	}
	// The releases of the first ten services fail.
	now := start.Add(time.Minute)
	for i := range 10 {
		g := &in.Microservices[i].Status.ReleaseGroups[0]
		g.Rollout = nil
		for j := range g.Releases {
			g.Releases[j].Status, g.Releases[j].Reason, g.Releases[j].LastTransitionTime = v1alpha1.ReleaseError, "CrashLoopBackOff", metav1.NewMicroTime(now)
		}
	}
	w.pass(in, now)
	w.pass(in, now.Add(time.Hour))
	in.Microservices[20].Status.ReleaseGroups[0].Rollout.Step = 2 // each message causes a write
	w.policy.Spec.Receivers[0].Events = []v1alpha1.NotificationEvent{v1alpha1.NotifyStep, v1alpha1.NotifyWaiting, v1alpha1.NotifyFailed}
	w.pass(in, now.Add(2*time.Hour))
	w.pass(in, now.Add(3*time.Hour))
	reported := map[string]bool{}
	for _, m := range w.sent["chat"] {
		reported[m.Microservice] = true
	}
	if len(reported) != maxDeliveries+10 {
		t.Errorf("%d of %d services were reported", len(reported), maxDeliveries+10)
	}
}

// TestFullRecordWhileATaskIsRunning checks that the messages of a running task count, so that the record never exceeds its limit.
func TestFullRecordWhileATaskIsRunning(t *testing.T) {
	t.Parallel()
	w := newWorld(t, v1alpha1.NotificationReceiver{Name: "chat"})
	in, now := manyRollouts(maxDeliveries - 5)
	w.policy.Status.Receivers = []v1alpha1.ReceiverStatus{{Name: "chat", Since: metav1.NewMicroTime(now)}}
	w.pass(in, now)
	w.policy.Spec.Receivers = append(w.policy.Spec.Receivers, v1alpha1.NotificationReceiver{Name: "mail"})
	for sending, want := range map[int]int{0: 5, 2: 3, 5: 0, 16: 0} {
		w.state = map[string]receiverState{"chat": {running: sending > 0, sending: sending}}
		if p := newPlan(w.observe(in, now), now); len(p.jobs["mail"]) != want {
			t.Errorf("while a task sends %d messages, the plan sends %d other messages, want %d", sending, len(p.jobs["mail"]), want)
		}
	}
}

// TestForgottenRecords checks that records of rollouts whose end a receiver does not want to be notified of do not remain, whether the releases still
// exist or not, and that nothing reports that these releases were removed before their rollouts ended.
func TestForgottenRecords(t *testing.T) {
	t.Parallel()
	w := newWorld(t, v1alpha1.NotificationReceiver{Name: "chat", Events: []v1alpha1.NotificationEvent{v1alpha1.NotifyWaiting, v1alpha1.NotifyFailed}})
	story, _ := viewtest.Play("approval", "shop")
	for i := range 20 {
		now := story.Now.Add(time.Duration(i) * time.Hour)
		in := story.Input
		ms := in.Microservices[0].DeepCopy()
		in.Microservices = []v1alpha1.Microservice{*ms}
		g := &in.Microservices[0].Status.ReleaseGroups[0]
		for j := range g.Releases {
			if g.Releases[j].VersionedMicroservice == g.Rollout.Release {
				g.Releases[j].VersionedMicroservice = fmt.Sprintf("shop-%d", i)
			}
		}
		g.Rollout.Release = fmt.Sprintf("shop-%d", i)
		w.pass(in, now)
		if got := len(w.sent["chat"]); got != i+1 {
			t.Fatalf("after %d waits, %d messages: %q", i+1, got, w.titles("chat"))
		}
		if got := len(w.policy.Status.Deliveries); got > 2 {
			t.Fatalf("after %d waits, %d entries", i+1, got)
		}
		if i%2 == 0 {
			continue // The release does not exist in the next pass.
		}
		for j := range g.Releases {
			if g.Releases[j].VersionedMicroservice == g.Rollout.Release {
				g.Releases[j].Status, g.Releases[j].Reason, g.Releases[j].LastTransitionTime = v1alpha1.ReleaseActive, "Promoted", metav1.NewMicroTime(now)
			}
		}
		g.Rollout = nil
		w.pass(in, now.Add(time.Minute))
	}
}

// TestSuspend checks that a suspended policy sends nothing, and that transitions during the suspension are not reported later.
func TestSuspend(t *testing.T) {
	t.Parallel()
	w := newWorld(t, v1alpha1.NotificationReceiver{Name: "chat"})
	moments := viewtest.Moments("promoted", "shop")
	w.policy.Spec.Suspend = true
	for _, m := range moments {
		w.pass(m.Input, m.Now)
	}
	w.policy.Spec.Suspend = false
	last := moments[len(moments)-1]
	w.pass(last.Input, last.Now.Add(time.Second))
	if got := w.titles("chat"); got != nil {
		t.Errorf("sent %q", got)
	}
}

// TestPreviews checks that previews are reported only if the policy selects them.
func TestPreviews(t *testing.T) {
	t.Parallel()
	for _, previews := range []bool{false, true} {
		w := newWorld(t, v1alpha1.NotificationReceiver{Name: "chat"})
		w.policy.Spec.Previews = previews
		for _, m := range viewtest.Moments("previews", "shop") {
			w.pass(m.Input, m.Now)
		}
		if got := len(w.sent["chat"]) > 0; got != previews {
			t.Errorf("previews %t: %q", previews, w.titles("chat"))
		}
	}
}
