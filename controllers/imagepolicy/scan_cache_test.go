package imagepolicy

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/contain"
	"github.com/heighliner/heighliner/internal/registry"
	"github.com/heighliner/heighliner/test/await"
)

// crowd is a set of scans that end only when the test ends them.
type crowd struct {
	*testing.T
	scans    *scanCache
	began    chan types.NamespacedName
	ended    chan types.NamespacedName // scans that ended with their context
	requeued chan types.NamespacedName
	finish   chan struct{} // each value ends one scan
}

func newCrowd(t *testing.T) *crowd {
	const many = 1000
	return &crowd{
		T: t, scans: newScanCache(testingclock.NewFakeClock(time.Now()), 16),
		began: make(chan types.NamespacedName, many), ended: make(chan types.NamespacedName, many), requeued: make(chan types.NamespacedName, many),
		finish: make(chan struct{}),
	}
}

func (c *crowd) start() {
	c.scans.run(c.Context(), func(policy types.NamespacedName) { c.requeued <- policy })
}

func (c *crowd) begin(namespace, name, image, user string) {
	l := newScanRecord(query{origin: origin{repository: image}}, access{auths: []registry.Credential{{Username: user}}}, false)
	policy := types.NamespacedName{Namespace: namespace, Name: name}
	c.scans.start(policy, l, false, func(ctx context.Context, l *scanRecord) {
		c.began <- policy
		select {
		case <-c.finish:
		case <-ctx.Done():
			c.ended <- policy
		}
	})
}

// size waits until the given numbers of scans are waiting and running.
func (c *crowd) size(waiting, running int) {
	c.Helper()
	await.Nil(c, func(context.Context) error {
		if w, r := c.scans.size(); w != waiting || r != running {
			return fmt.Errorf("%d scans wait and %d run, want %d and %d", w, r, waiting, running)
		}
		return nil
	})
}

// TestSharesOfScans checks that no tenant, registry or credential gets more than its share of the
// scans, so that later scans of other tenants start.
func TestSharesOfScans(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		many    func(*crowd, int)
		running int
		other   func(*crowd)
	}{
		"a namespace at one registry": {
			func(c *crowd, i int) { c.begin("evil", fmt.Sprint(i), fmt.Sprintf("slow.example/x%d", i), "") }, 2,
			func(c *crowd) { c.begin("evil", "good", "good.example/x", "") },
		},
		"other namespaces at the same registry, including anonymous scans": {
			func(c *crowd, i int) { c.begin("evil", fmt.Sprint(i), fmt.Sprintf("hub.example/x%d", i), "") }, 2,
			func(c *crowd) { c.begin("good", "good", "hub.example/x", "") },
		},
		"a namespace at many registries": {
			func(c *crowd, i int) { c.begin("evil", fmt.Sprint(i), fmt.Sprintf("slow-%d.example/x", i), "") }, 4,
			func(c *crowd) { c.begin("good", "good", "good.example/x", "") },
		},
		"a credential that many namespaces use": {
			func(c *crowd, i int) { c.begin(fmt.Sprint("tenant-", i), "p", "hub.example/x", "") }, 4,
			func(c *crowd) { c.begin("good", "good", "hub.example/x", "robot") },
		},
		"a registry with many namespaces and credentials": {
			func(c *crowd, i int) {
				c.begin(fmt.Sprint("tenant-", i), "p", "down.example/x", fmt.Sprint("robot-", i))
			}, 8,
			func(c *crowd) { c.begin("good", "good", "good.example/x", "") },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCrowd(t)
			c.start()
			for i := range 50 {
				test.many(c, i)
			}
			for range test.running {
				await.Receive(t, "the start of an admitted scan", c.began)
			}
			c.size(50-test.running, test.running)
			test.other(c)
			same(t, "begins", await.Receive(t, "the start of the other scan", c.began).Name, "good")
			c.size(50-test.running, test.running+1)
		})
	}
}

// TestHintsForUnknownPolicies checks that a hint for a policy of another replica is not kept.
func TestHintsForUnknownPolicies(t *testing.T) {
	t.Parallel()
	scans := newScanCache(testingclock.NewFakeClock(time.Now()), 1)
	scans.markStale(types.NamespacedName{Namespace: "shop", Name: "elsewhere"})
	same(t, "policies", len(scans.policies), 0)
	here := types.NamespacedName{Namespace: "shop", Name: "here"}
	scans.entry(here)
	scans.markStale(here)
	same(t, "stale", scans.entry(here).stale, true)
}

// TestRequestedScansComeFirst checks that scans that a user or an event requested start before scans whose interval has ended, in the order of
// the requests. This includes scans that were already in the queue when they were requested.
func TestRequestedScansComeFirst(t *testing.T) {
	t.Parallel()
	c := newCrowd(t)
	start := func(name, image string, urgent bool) {
		policy := types.NamespacedName{Namespace: "shop", Name: name}
		c.scans.start(policy, newScanRecord(query{origin: origin{repository: image}}, access{}, false), urgent, func(context.Context, *scanRecord) {
			c.began <- policy
			<-c.finish
		})
	}
	for _, name := range []string{"due-1", "due-2", "hurried", "due-3"} {
		start(name, "hub.example/x", false)
	}
	start("requested", "hub.example/x", true)
	start("edited", "hub.example/x", true)
	start("edited", "hub.example/y", false) // replaces an urgent scan
	c.scans.hurry(types.NamespacedName{Namespace: "shop", Name: "hurried"})
	c.scans.hurry(types.NamespacedName{Namespace: "shop", Name: "unknown"})
	c.scans.limit = 1
	c.start()
	for _, name := range []string{"requested", "edited", "hurried", "due-1", "due-2", "due-3"} {
		same(t, "begins", await.Receive(t, "the start of the next scan", c.began).Name, name)
		c.finish <- struct{}{}
	}
}

func TestScansAreBounded(t *testing.T) {
	t.Parallel()
	c := newCrowd(t)
	for i := range 40 {
		c.begin(fmt.Sprint("tenant-", i), fmt.Sprint(i), fmt.Sprintf("r%d.example/x", i), "")
	}
	c.size(40, 0) // no scan starts before run
	c.start()
	c.size(24, 16)
	first := map[string]bool{}
	for range 16 {
		first[await.Receive(t, "the start of a scan", c.began).Name] = true
	}
	for i := range 16 {
		if !first[fmt.Sprint(i)] {
			t.Errorf("scan %d was first in the queue, but did not start first", i)
		}
	}
	for i := range 24 {
		c.finish <- struct{}{}
		await.Receive(t, "the requeue", c.requeued)
		c.size(23-i, 16)
	}
	for range 16 {
		c.finish <- struct{}{}
		await.Receive(t, "the requeue", c.requeued)
	}
	c.size(0, 0)
	same(t, "slots that are kept", len(c.scans.running), 0)
	same(t, "sets of slots that are kept", len(c.scans.slotSets), 0)
}

// TestTasksEnd checks that a policy has only one task, and that a replaced task is canceled, enqueues
// nothing, and keeps its slots until it has ended.
func TestTasksEnd(t *testing.T) {
	t.Parallel()
	c := newCrowd(t)
	c.start()
	evil := types.NamespacedName{Namespace: "evil", Name: "p"}
	c.begin("evil", "p", "a.example/x", "")
	await.Receive(t, "the start of a scan", c.began)
	c.begin("evil", "p", "b.example/x", "")
	same(t, "ended", await.Receive(t, "the end of the scan", c.ended), evil)
	await.Receive(t, "the start of the next scan", c.began)
	same(t, "current task", c.scans.entry(evil).task.record.query.repository, "b.example/x")
	c.finish <- struct{}{}
	await.Receive(t, "the requeue", c.requeued)
	same(t, "current scan", c.scans.entry(evil).record.query.repository, "b.example/x")

	c.begin("evil", "p", "c.example/x", "")
	await.Receive(t, "the start of a scan", c.began)
	c.scans.forget(evil)
	await.Receive(t, "the end of the forgotten scan", c.ended)
	c.size(0, 0)
	same(t, "remembered", len(c.scans.policies), 0)

	for i := range 10 {
		c.begin("evil", fmt.Sprint(i), "d.example/x", "")
	}
	c.size(8, 2)
	for i := range 10 {
		c.scans.stop(types.NamespacedName{Namespace: "evil", Name: fmt.Sprint(i)})
	}
	if waiting, _ := c.scans.size(); waiting > 0 {
		t.Errorf("%d stopped scans are waiting", waiting)
	}
	for range 2 {
		await.Receive(t, "the end of a stopped scan", c.ended)
	}
	select {
	case policy := <-c.requeued:
		t.Errorf("%s was requeued without a change", policy)
	default:
	}
}

// TestPanicOfAScan checks that a request that panics is recorded as failed, and that a scan that panics fails, is repeated later, and
// releases its slots.
func TestPanicOfAScan(t *testing.T) {
	t.Parallel()
	clock := testingclock.NewFakeClock(time.Now())
	scans := newScanCache(clock, 16)
	m, err := newMetrics(prometheus.NewRegistry(), scans)
	if err != nil {
		t.Fatal(err)
	}
	requeued := make(chan types.NamespacedName, 1)
	scans.run(t.Context(), func(policy types.NamespacedName) { requeued <- policy })
	l := newScanRecord(query{origin: origin{repository: "a.example/x"}, interval: time.Hour}, access{}, false)
	r := &Reconciler{clock: clock, scans: scans, metrics: m}
	r.startScan(&observed{policy: &v1alpha1.ImagePolicy{}, github: &github{}}, l, cacheEntry{}) // without a source
	await.Receive(t, "the requeue", requeued)
	known := scans.entry(types.NamespacedName{})
	if known.task != nil || !errors.Is(known.record.failed, contain.ErrPanic) || !known.record.due.After(clock.Now()) {
		t.Errorf("after the scan: %+v", known)
	}
	if waiting, running := scans.size(); waiting+running > 0 {
		t.Errorf("%d scans wait and %d run", waiting, running)
	}
	reader := &recordReader{scanRecord: l, clock: clock, scanner: panics{}, ctx: t.Context()}
	for range 2 { // The second call returns the recorded error.
		if _, err := reader.Resolve(0, "1.0.0"); !errors.Is(err, contain.ErrPanic) {
			t.Errorf("the error is %v", err)
		}
		reader.scanner = nil
	}
}

// panics is a registry for which each request panics.
type panics struct{ Scanner }
