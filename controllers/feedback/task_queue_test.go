package feedback

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/contain"
	"github.com/heighliner/heighliner/test/await"
)

// TestSlowHostDoesNotBlockOthers checks that any number of repositories on a host that is not
// responding, in any number of namespaces, leave slots for other repositories.
func TestSlowHostDoesNotBlockOthers(t *testing.T) {
	t.Parallel()
	w := newTaskQueue(testingclock.NewFakeClock(time.Now()), 8)
	requeued := make(chan types.NamespacedName, 100)
	w.run(t.Context(), func(key types.NamespacedName) { requeued <- key })
	hang := make(chan struct{})
	key := func(namespace string, i int) types.NamespacedName {
		return types.NamespacedName{Namespace: namespace, Name: fmt.Sprint(i)}
	}
	begin := func(k types.NamespacedName, host string, work func()) {
		w.entry(k, "uid")
		w.start(k, host, func(context.Context) applied { work(); return applied{} })
	}
	for i := range 20 {
		begin(key(fmt.Sprint("slow", i), i), "https://slow.example.com", func() { <-hang })
	}
	begin(key("other", 1), "https://fast.example.com", func() {})
	if got := <-requeued; got != key("other", 1) {
		t.Errorf("requeued %s", got)
	}
	close(hang)
	for range 20 {
		<-requeued
	}
	// The task of a deleted repository is not reported, and does not count for a new repository with the same name.
	hang = make(chan struct{})
	begin(key("gone", 1), "", func() { <-hang })
	w.forget(key("gone", 1))
	close(hang)
	begin(key("gone", 1), "", func() {})
	if got := <-requeued; got != key("gone", 1) {
		t.Errorf("requeued %s", got)
	}
	if m := w.entry(key("gone", 1), "another"); m.outcome != nil || m.task != nil {
		t.Errorf("the state of another object with the same name is used: %+v", m)
	}
}

// TestBackoff checks that the wait grows with each failure, is bounded, and ends after a success.
func TestBackoff(t *testing.T) {
	t.Parallel()
	now := time.Now()
	m := &repositoryEntry{failures: map[string]failure{}}
	w := &write{key: "deployment x"}
	last := time.Duration(0)
	for i := range 30 {
		m.noteFailure(w.key, "", errors.New("no"), now)
		due, next := m.due(w, now)
		wait := next.Sub(now)
		if due || wait < last || wait < minBackoff || wait > maxBackoff {
			t.Fatalf("failure %d: due %t, waits for %s after %s", i, due, wait, last)
		}
		last = wait
	}
	if last != maxBackoff {
		t.Errorf("the last wait is %s", last)
	}
	m.noteFailure(w.key, "", nil, now)
	if due, _ := m.due(w, now); !due {
		t.Error("a success does not reset the failure count")
	}
}

// BenchmarkPlan makes plans for 500 open pull requests whose feedback has been written.
func BenchmarkPlan(b *testing.B) {
	var prs []v1alpha1.PullRequest
	var groups []v1alpha1.ReleaseGroup
	f := world(nil)
	for n := int64(500); n > 0; n-- {
		sha := fmt.Sprintf("%040x", n)
		prs = append(prs, pull(n, sha))
		if n <= 256 {
			slug := fmt.Sprintf("feature-%d", n)
			groups = append(groups, groupWith(n, slug, sha+" +active"))
			f.services[0].routes = append(f.services[0].routes, routedTo(slug, sha, true))
		}
	}
	f.pullRequests, f.services[0].microservice.Status.ReleaseGroups = prs, groups
	f.services[0].routes = f.services[0].routes[:1]
	for range 5 {
		carryOutAll(f, newPlan(f), 1000)
	}
	for b.Loop() {
		if p := newPlan(f); len(p.records) != 500 || len(p.writes) != 0 {
			b.Fatalf("%d records, %d writes", len(p.records), len(p.writes))
		}
	}
}

// TestPanicOfATask checks that a task or a write that panics fails and is tried again later, and that the slot of the task is
// released.
func TestPanicOfATask(t *testing.T) {
	t.Parallel()
	q := newTaskQueue(testingclock.NewFakeClock(time.Now()), 8)
	requeued := make(chan types.NamespacedName, 1)
	q.run(t.Context(), func(key types.NamespacedName) { requeued <- key })
	key := types.NamespacedName{Namespace: "shop", Name: "shop"}
	q.entry(key, "uid")
	q.start(key, "https://github.example", func(context.Context) applied { panic("a secret of a tenant") })
	await.Receive(t, "the requeue", requeued)
	e := q.entry(key, "uid")
	if e.task != nil || e.outcome == nil || !errors.Is(e.outcome.err, contain.ErrPanic) || e.failures[""].count != 1 {
		t.Errorf("after the task: %+v", e)
	}
	if n := q.slots.Taken(); n > 0 {
		t.Errorf("%d slots are taken", n)
	}
	w := write{deployment: &v1alpha1.FeedbackRecord{DeploymentID: 7}}
	if got := (&access{}).write(t.Context(), "uid", w); !errors.Is(got.err, contain.ErrPanic) || got.id != 7 {
		t.Errorf("the result of the write is %+v", got)
	}
}
