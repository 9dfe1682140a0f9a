package notify

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/view"
	"github.com/heighliner/heighliner/internal/view/viewtest"
)

// every contains every event.
var every = []v1alpha1.NotificationEvent{
	v1alpha1.NotifyStarted, v1alpha1.NotifyStep, v1alpha1.NotifyWaiting, v1alpha1.NotifyPromoted, v1alpha1.NotifyRestored, v1alpha1.NotifyRolledBack,
	v1alpha1.NotifyFailed, v1alpha1.NotifyAborted, v1alpha1.NotifySuperseded, v1alpha1.NotifyRemoved, v1alpha1.NotifyDeprecated,
}

// channel is a receiver with a record of its messages.
type channel struct {
	policy   v1alpha1.NotificationPolicy
	receiver v1alpha1.NotificationReceiver
	since    time.Time
	reported map[Key]v1alpha1.NotificationDelivery
	messages []Message
	edits    []string // the ID of the message that each message edits
}

func newChannel(events ...v1alpha1.NotificationEvent) *channel {
	return &channel{
		policy:   v1alpha1.NotificationPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "team", UID: "p"}, Spec: v1alpha1.NotificationPolicySpec{BoardURL: "https://board.example.com/"}},
		receiver: v1alpha1.NotificationReceiver{Name: "chat", Events: events}, reported: map[Key]v1alpha1.NotificationDelivery{},
	}
}

// observe sends the notifications that are due at a given moment.
func (c *channel) observe(in view.Input, now time.Time) {
	in.Namespace = ""
	for _, s := range view.ReleaseStates(in, now, func(*v1alpha1.Microservice) bool { return true }) {
		var known *v1alpha1.NotificationDelivery
		if d, ok := c.reported[KeyOf(s)]; ok {
			known = &d
		}
		f := Due(&c.receiver, known, FactsOf(s), c.since)
		if f == nil {
			continue
		}
		id := ID(c.policy.UID, c.receiver.Name, types.UID("shop"), s.Row.VersionedMicroservice, f)
		d := Advance(known, v1alpha1.NotificationDelivery{Receiver: c.receiver.Name, Microservice: s.Microservice.Name, Release: s.Row.VersionedMicroservice, Version: s.Row.SemVer.Version}, f, id, id)
		c.edits = append(c.edits, Edits(known, f))
		c.messages = append(c.messages, NewMessage(About{Policy: &c.policy, Receiver: &c.receiver, Delivery: d, State: &s, Fact: *f, ID: id}))
		c.reported[KeyOf(s)] = d
	}
}

// titles returns the titles of the messages. The title of an edited message begins with "~ ".
func (c *channel) titles() (out []string) {
	for i, m := range c.messages {
		title := string(m.Event) + ": " + m.Title
		if c.edits[i] != "" {
			title = "~ " + title
		}
		out = append(out, title)
	}
	return out
}

// TestStories checks the messages that a receiver of all events receives in some of the histories in
// package viewtest.
func TestStories(t *testing.T) {
	t.Parallel()
	first := []string{"Started: shop 1.0.0 started", "~ Promoted: shop 1.0.0 is active"}
	for name, want := range map[string][]string{
		"starts": {"Started: shop 1.0.0 started"},
		"active": first,
		"promoted": append(first[:2:2],
			"Started: shop 1.1.0 started, 1.0.0 is active", "~ Step: shop 1.1.0 is a canary at 10% (step 1 of 2)", "~ Step: shop 1.1.0 is a canary at 50% (step 2 of 2)",
			"~ Promoted: shop 1.1.0 is active and replaced 1.0.0", "Deprecated: shop 1.0.0 was replaced by 1.1.0"),
		"approval":    append(first[:2:2], "Started: shop 1.1.0 started, 1.0.0 is active", "~ Waiting: shop 1.1.0 waits for approval at 10% (step 1 of 2)"),
		"aborted":     append(first[:2:2], "Started: shop 1.1.0 started, 1.0.0 is active", "~ Step: shop 1.1.0 is a canary at 10% (step 1 of 2)", `~ Aborted: shop 1.1.0 was aborted by ana: "sessions lost"`),
		"crashes":     append(first[:2:2], "Started: shop 1.1.0 started, 1.0.0 is active", "~ Failed: shop 1.1.0 failed: container shop: exit 1: missing DATABASE_URL"),
		"rolled back": append(first[:2:2], "Started: shop 1.1.0 started, 1.0.0 is active", "~ Step: shop 1.1.0 is a canary at 10% (step 1 of 2)", "~ RolledBack: shop 1.1.0 was rolled back: latency-p99 612 ms > 500 ms at 10%"),
		"paused":      append(first[:2:2], "Started: shop 1.1.0 started, 1.0.0 is active", "~ Step: shop 1.1.0 is a canary at 10% (step 1 of 2)", "~ Waiting: shop 1.1.0 is paused at 10% (step 1 of 2)"),
		"no version":  nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newChannel(every...)
			for _, m := range viewtest.Moments(name, "shop") {
				c.observe(m.Input, m.Now)
			}
			if diff := cmp.Diff(want, c.titles()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestAllStories checks, for all histories, that observing the same moment again does not send another message, that no two messages have the
// same ID, that messages about a rollout have the same thread, and that the end of a rollout is reported, even to receivers that observe only
// the end.
func TestAllStories(t *testing.T) {
	t.Parallel()
	for _, story := range viewtest.Stories() {
		t.Run(story.Name, func(t *testing.T) {
			t.Parallel()
			moments := viewtest.Moments(story.Name, "shop")
			often, once := newChannel(every...), newChannel(every...)
			for _, m := range moments {
				often.observe(m.Input, m.Now)
				before := len(often.messages)
				for range 3 {
					often.observe(m.Input, m.Now)
				}
				if len(often.messages) > before {
					t.Fatalf("the same moment creates messages again: %q", often.titles()[before:])
				}
			}
			last := moments[len(moments)-1]
			once.observe(last.Input, last.Now)
			ids := map[string]bool{}
			for i, m := range often.messages {
				if ids[m.ID] {
					t.Errorf("%s has the ID of an earlier message", often.titles()[i])
				}
				ids[m.ID] = true
				if edited := often.edits[i]; edited != "" && !slices.ContainsFunc(often.messages[:i], func(x Message) bool { return x.ID == edited && x.Thread == m.Thread }) {
					t.Errorf("%s edits a message of another thread", often.titles()[i])
				}
				if m.Title == "" || strings.Contains(m.Title, "%!") || !strings.HasPrefix(m.URL, "https://board.example.com/services/shop/shop/releases/") {
					t.Errorf("message %+v", m)
				}
			}
			for key, d := range once.reported {
				if other := often.reported[key]; other.Event != d.Event || other.ID != d.ID {
					t.Errorf("%s: the last event is %s for an observer of every moment, and %s for an observer of only the end", key.Release, other.Event, d.Event)
				}
			}
		})
	}
}

// TestSince checks that a receiver that was added after a rollout is not notified of the end of the rollout.
func TestSince(t *testing.T) {
	t.Parallel()
	moments := viewtest.Moments("promoted", "shop")
	last := moments[len(moments)-1]
	c := newChannel(every...)
	c.since = last.Now
	c.observe(last.Input, last.Now)
	if len(c.messages) > 0 {
		t.Errorf("it is notified of %q", c.titles())
	}
}

// TestDefaultEvents checks that receivers without a list of events are not notified of steps or replaced releases.
func TestDefaultEvents(t *testing.T) {
	t.Parallel()
	c := newChannel()
	for _, m := range viewtest.Moments("promoted", "shop") {
		c.observe(m.Input, m.Now)
	}
	want := []string{"Started: shop 1.0.0 started", "~ Promoted: shop 1.0.0 is active", "Started: shop 1.1.0 started, 1.0.0 is active", "~ Promoted: shop 1.1.0 is active and replaced 1.0.0"}
	if diff := cmp.Diff(want, c.titles()); diff != "" {
		t.Error(diff)
	}
}

// TestDue checks which facts are new, depending on the last report.
func TestDue(t *testing.T) {
	t.Parallel()
	at := time.Date(2030, 1, 31, 9, 0, 0, 0, time.UTC)
	started := Fact{Event: v1alpha1.NotifyStarted, Run: 7, Time: at}
	step := func(n int32) Fact { return Fact{Event: v1alpha1.NotifyStep, Run: 7, Step: n, Time: at} }
	waits := func(n int32, wait string) Fact {
		return Fact{Event: v1alpha1.NotifyWaiting, Run: 7, Step: n, Wait: wait, Time: at}
	}
	end := func(e v1alpha1.NotificationEvent, after time.Duration) Fact {
		return Fact{Event: e, Time: at.Add(after)}
	}
	known := func(facts ...Fact) *v1alpha1.NotificationDelivery {
		var last *v1alpha1.NotificationDelivery
		for i := range facts {
			d := Advance(last, v1alpha1.NotificationDelivery{}, &facts[i], "id", "message")
			last = &d
		}
		return last
	}
	for name, tc := range map[string]struct {
		known *v1alpha1.NotificationDelivery
		facts []Fact
		want  string
	}{
		"a first step":                     {nil, []Fact{started, step(1)}, "Step 1"},
		"the same step":                    {known(step(1)), []Fact{started, step(1)}, ""},
		"a step back":                      {known(step(2)), []Fact{started, step(1)}, ""},
		"a later step":                     {known(step(1)), []Fact{started, step(2)}, "Step 2"},
		"a wait":                           {known(step(1)), []Fact{started, step(1), waits(1, "Approval")}, "Waiting 1 Approval"},
		"a wait again":                     {known(step(1), waits(1, "Approval")), []Fact{started, step(1), waits(1, "Approval")}, ""},
		"a wait again, after another wait": {known(waits(1, "Approval"), waits(1, "NoTraffic")), []Fact{started, step(1), waits(1, "Approval")}, ""},
		"the same wait in the next step":   {known(waits(1, "Approval")), []Fact{started, step(2), waits(2, "Approval")}, "Waiting 2 Approval"},
		"a wait that is over":              {known(waits(1, "Approval")), []Fact{started, step(1)}, ""},
		"an outcome":                       {known(waits(1, "Approval")), []Fact{end(v1alpha1.NotifyPromoted, time.Hour)}, "Promoted 0"},
		"an outcome before the wait":       {known(waits(1, "Approval")), []Fact{end(v1alpha1.NotifyPromoted, -time.Hour)}, "Promoted 0"},
		"the same outcome again":           {known(step(1), end(v1alpha1.NotifyPromoted, time.Hour)), []Fact{end(v1alpha1.NotifyPromoted, time.Hour)}, ""},
		"an outcome after another outcome": {known(end(v1alpha1.NotifyPromoted, time.Hour)), []Fact{end(v1alpha1.NotifyRestored, 2*time.Hour)}, "Restored 0"},
		"the same rollout after its end":   {known(step(1), end(v1alpha1.NotifyFailed, time.Hour)), []Fact{started, step(2)}, ""},
		"another rollout after an outcome": {known(Fact{Event: v1alpha1.NotifyStarted, Run: 6, Time: at}, end(v1alpha1.NotifyFailed, time.Hour)), []Fact{started}, "Started 0"},
		"nothing":                          {known(step(1)), nil, ""},
		"an outcome 1 ns later":            {known(end(v1alpha1.NotifyPromoted, time.Hour)), []Fact{end(v1alpha1.NotifyPromoted, time.Hour+time.Nanosecond)}, ""},
		"an unreported wait at step 0":     {nil, []Fact{started, waits(0, "Paused")}, "Waiting 0 Paused"},
		"a start after a wait at step 0":   {known(waits(0, "Paused")), []Fact{started}, ""},
		"a step after a wait at step 0":    {known(waits(0, "Paused")), []Fact{started, step(1)}, "Step 1"},
		"a lower step of another rollout":  {known(Fact{Event: v1alpha1.NotifyStep, Run: 6, Step: 3, Time: at}), []Fact{started, step(1)}, "Step 1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := ""
			if f := Due(&v1alpha1.NotificationReceiver{Events: every}, tc.known, tc.facts, at.Add(-2*time.Hour)); f != nil {
				got = strings.TrimSpace(fmt.Sprintf("%s %d %s", f.Event, f.Step, f.Wait))
			}
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
