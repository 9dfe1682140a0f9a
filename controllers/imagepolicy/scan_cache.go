package imagepolicy

import (
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/heighliner/heighliner/internal/registry"
)

const (
	// defaultScans is the default number of concurrent scans.
	defaultScans = 32
	// maxScan is the timeout of one scan, which includes the list, all images, and all checks whether tags and images still exist. It
	// is also the maximum value of spec.timeout.
	maxScan = 2 * time.Minute
	// maxLists is the maximum total size, in bytes, of all tag lists and build times that are kept. A list with the
	// maximum number of tags of maximum length takes 17 MB.
	maxLists = 96 << 20
)

// scanCache runs scans in the background, and keeps the last scan of each policy. None of its methods waits
// for a registry. The cache is lost when the process restarts. Each policy is then scanned again.
//
// scanCache does not use the slots of internal/outbound. It has its own queue, because it also limits the
// scans with one credential at a registry.
type scanCache struct {
	clock clock.PassiveClock
	limit int // number of concurrent scans

	mu       sync.Mutex
	ctx      context.Context // nil before run
	requeue  func(types.NamespacedName)
	policies map[types.NamespacedName]*cacheEntry
	listed   int         // bytes of all lists and build times; a list that several records share is counted once for each record
	waiting  []*scanTask // urgent scans, followed by other scans, both in the order in which they were queued
	running  map[slot]int
	slotSets map[slotSetKey]*slotSet // the slot sets of queued and running scans
	pass     uint64                  // the number of passes; each call of admit is one pass
}

// cacheEntry is the state of one policy in the cache.
type cacheEntry struct {
	// record is the record of the last scan; nil before the first scan. It is immutable: tasks
	// write to their own records.
	record *scanRecord
	// task is the queued or running scan; nil if there is none.
	task *scanTask
	// stale reports whether the source may have changed since the last scan started.
	stale bool
	// absentSince contains, for each absent tag, the time of the first scan that proved its absence. Only
	// reconciles of the policy, which are sequential, access it.
	absentSince map[string]time.Time
	// firstSeen records when tags were first seen; nil before the first list. It is immutable.
	firstSeen *firstSeen
}

// scanTask is a queued or running scan.
type scanTask struct {
	policy types.NamespacedName
	record *scanRecord
	set    *slotSet
	// urgent reports whether a user or an event requested the scan, or whether the policy or its list from GitHub was changed. Other scans are
	// due because their interval has ended, or because the process was restarted.
	urgent bool
	work   func(context.Context, *scanRecord)
	since  time.Time
	cancel context.CancelFunc // nil while the scan is queued
	// previous is the policy's previous task, which is canceled but still running, or nil. done is
	// closed when the current task returns.
	previous *scanTask
	done     chan struct{}
}

// slotSetKey identifies the scans that need the same slots.
type slotSetKey struct {
	namespace, registry string
	auth                registry.Credential
}

// slotSet contains the data that all scans with the same slots share, so that thousands of queued scans can quickly be checked for free slots.
type slotSet struct {
	key   slotSetKey
	slots []slot
	tasks int    // the number of queued and running scans
	full  uint64 // the last pass in which at least one of the slots was not free
}

// slot identifies a resource that scans share and that may be slow.
type slot struct {
	namespace, registry string
	login               bool // whether the slot is for one credential
	auth                registry.Credential
	// share limits the scans that may use the resource at the same time: 2 means half of all scans, and 4 means a quarter.
	share int
}

// slotsOf returns a scan's slots. A namespace gets at most a quarter of all scans, and an eighth at one
// registry. Therefore, neither a slow registry nor many policies in one namespace can block other namespaces
// or the other registries of the namespace. Nor can many policies in one namespace block another namespace's
// policies that use the same registry with the same credential or with anonymous access.
func slotsOf(k slotSetKey) []slot {
	return []slot{
		{share: 1},
		{registry: k.registry, share: 2},
		{registry: k.registry, login: true, auth: k.auth, share: 4},
		{namespace: k.namespace, share: 4},
		{namespace: k.namespace, registry: k.registry, share: 8},
	}
}

// enter adds a scan to its set of slots.
func (ls *scanCache) enter(policy types.NamespacedName, l *scanRecord) *slotSet {
	key := slotSetKey{policy.Namespace, registry.Host(l.query.repository), l.access.auth(0)}
	if ls.slotSets[key] == nil {
		ls.slotSets[key] = &slotSet{key: key, slots: slotsOf(key)}
	}
	ls.slotSets[key].tasks++
	return ls.slotSets[key]
}

// leave removes a scan that has ended, or that was canceled while it was queued, from its set of slots.
func (ls *scanCache) leave(l *slotSet) {
	if l.tasks--; l.tasks == 0 {
		delete(ls.slotSets, l.key)
	}
}

// newScanCache returns a cache that runs scans after run is called.
func newScanCache(c clock.PassiveClock, most int) *scanCache {
	return &scanCache{clock: c, limit: most, policies: map[types.NamespacedName]*cacheEntry{}, running: map[slot]int{}, slotSets: map[slotSetKey]*slotSet{}}
}

// run enables scans until ctx is done. Whenever the scan of a policy is complete, requeue is called with the
// policy. The calls come from different goroutines, and must not block.
func (ls *scanCache) run(ctx context.Context, requeue func(types.NamespacedName)) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.ctx, ls.requeue = ctx, requeue
	ls.admit()
}

// entry returns the state of a policy.
func (ls *scanCache) entry(policy types.NamespacedName) cacheEntry {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return *ls.ensure(policy)
}

func (ls *scanCache) ensure(policy types.NamespacedName) *cacheEntry {
	if ls.policies[policy] == nil {
		ls.policies[policy] = &cacheEntry{absentSince: map[string]time.Time{}}
	}
	return ls.policies[policy]
}

// setFirstSeen records when a policy first found its tags.
func (ls *scanCache) setFirstSeen(policy types.NamespacedName, seen *firstSeen) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.ensure(policy).firstSeen = seen
}

// markStale marks the last scan of a policy as stale; markScanned removes this mark.
func (ls *scanCache) markStale(policy types.NamespacedName) { ls.setStale(policy, true) }

func (ls *scanCache) markScanned(policy types.NamespacedName) { ls.setStale(policy, false) }

func (ls *scanCache) setStale(policy types.NamespacedName, hinted bool) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if m := ls.policies[policy]; m != nil { // A policy without an entry is scanned anyway, or is scanned by another replica.
		m.stale = hinted
	}
}

// start queues a scan, and cancels an earlier scan of the policy. A scan that replaces an urgent queued scan is always urgent.
func (ls *scanCache) start(policy types.NamespacedName, l *scanRecord, urgent bool, work func(context.Context, *scanRecord)) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	m := ls.ensure(policy)
	previous := m.task
	ls.cancel(m)
	m.task = &scanTask{
		policy: policy, record: l, set: ls.enter(policy, l), work: work, since: ls.clock.Now(), done: make(chan struct{}),
		urgent: urgent || previous != nil && previous.cancel == nil && previous.urgent,
	}
	if previous != nil && previous.cancel != nil {
		m.task.previous = previous
	}
	ls.queue(m.task)
	ls.admit()
}

// queue inserts a task into the list of waiting tasks.
func (ls *scanCache) queue(t *scanTask) {
	at := len(ls.waiting)
	if first := slices.IndexFunc(ls.waiting, func(x *scanTask) bool { return !x.urgent }); t.urgent && first >= 0 {
		at = first
	}
	ls.waiting = slices.Insert(ls.waiting, at, t)
}

// hurry makes the queued scan of a policy urgent.
func (ls *scanCache) hurry(policy types.NamespacedName) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if m := ls.policies[policy]; m != nil && m.task != nil && m.task.cancel == nil && !m.task.urgent {
		ls.waiting = slices.DeleteFunc(ls.waiting, func(x *scanTask) bool { return x == m.task })
		m.task.urgent = true
		ls.queue(m.task)
	}
}

// stop cancels the scan of a policy.
func (ls *scanCache) stop(policy types.NamespacedName) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if m := ls.policies[policy]; m != nil {
		ls.cancel(m)
	}
}

// forget removes a deleted policy.
func (ls *scanCache) forget(policy types.NamespacedName) {
	ls.stop(policy)
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if m := ls.policies[policy]; m != nil {
		ls.replace(m, nil)
	}
	delete(ls.policies, policy)
}

// cancel cancels the scan of an entry. A running scan occupies its slots until it returns.
func (ls *scanCache) cancel(m *cacheEntry) {
	t := m.task
	if t == nil {
		return
	}
	m.task = nil
	if t.cancel != nil {
		t.cancel()
		return
	}
	ls.waiting = slices.DeleteFunc(ls.waiting, func(x *scanTask) bool { return x == t })
	ls.leave(t.set)
}

// admit starts the queued scans for which slots are free, in order.
func (ls *scanCache) admit() {
	if ls.ctx == nil {
		return
	}
	ls.pass++
	ls.waiting = slices.DeleteFunc(ls.waiting, func(t *scanTask) bool {
		if t.set.full == ls.pass { // No slot becomes free during a pass.
			return false
		}
		for _, p := range t.set.slots {
			if ls.running[p] >= max(1, ls.limit/p.share) {
				t.set.full = ls.pass
				return false
			}
		}
		ls.runTask(t)
		return true
	})
}

func (ls *scanCache) runTask(t *scanTask) {
	for _, p := range t.set.slots {
		ls.running[p]++
	}
	var ctx context.Context
	ctx, t.cancel = context.WithTimeout(ls.ctx, maxScan)
	go func() {
		defer t.cancel()
		if t.previous != nil {
			// Otherwise, this scan could share a canceled request of the previous scan.
			<-t.previous.done
			t.previous = nil
		}
		t.work(ctx, t.record)
		close(t.done)
		if ls.finish(t) {
			ls.requeue(t.policy)
		}
	}()
}

// finish releases the slots, and reports whether the policy is still waiting for the scan.
func (ls *scanCache) finish(t *scanTask) bool {
	t.record.measure()
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for _, p := range t.set.slots {
		if ls.running[p]--; ls.running[p] == 0 {
			delete(ls.running, p)
		}
	}
	ls.leave(t.set)
	ls.admit()
	m := ls.policies[t.policy]
	if m == nil || m.task != t {
		return false
	}
	ls.replace(m, t.record)
	m.task = nil
	if ls.listed > maxLists {
		ls.shed(t.policy)
	}
	return true
}

// replace replaces the record of an entry.
func (ls *scanCache) replace(m *cacheEntry, with *scanRecord) {
	ls.listed += with.bytes() - m.record.bytes()
	m.record = with
}

// shed removes lists and build times while their total size exceeds maxLists. It first removes the oldest list of
// the namespace with the largest total size and, if the namespace has no more lists, its oldest build times. It
// never removes the list or build times of keep, the policy whose scan has just completed. A policy whose list or build
// times were removed requests them again when it needs them or in its next scan.
func (ls *scanCache) shed(keep types.NamespacedName) {
	for {
		total, taken, seen := 0, map[string]int{}, map[*string]bool{}
		for policy, m := range ls.policies {
			bytes := m.record.bytes()
			if list := m.record.list(); len(list) > 0 {
				if seen[&list[0]] { // other records may share the list
					bytes -= m.record.listBytes
				}
				seen[&list[0]] = true
			}
			total += bytes
			taken[policy.Namespace] += bytes
		}
		if total <= maxLists {
			return
		}
		m := ls.victim(keep, taken)
		if m == nil {
			return
		}
		ls.replace(m, m.record.shorten())
	}
}

// victim returns the entry of the policy from which shed must remove the list or build times next, or nil if there
// is none. taken contains the total size for each namespace.
func (ls *scanCache) victim(keep types.NamespacedName, taken map[string]int) (found *cacheEntry) {
	var victim types.NamespacedName
	for policy, m := range ls.policies {
		if policy == keep || m.record.bytes() == 0 {
			continue
		}
		switch larger := taken[policy.Namespace] > taken[victim.Namespace]; {
		case found == nil, larger, policy.Namespace == victim.Namespace && m.record.goesBefore(found.record):
			victim, found = policy, m
		}
	}
	return found
}

// goesBefore reports whether a record is shortened before another record of the namespace: records with a list
// are shortened before records without a list, and otherwise older records are shortened first.
func (l *scanRecord) goesBefore(other *scanRecord) bool {
	if list := l.listBytes > 0; list != (other.listBytes > 0) {
		return list
	}
	return l.time.Before(other.time)
}

// size returns the number of queued scans and the number of running scans.
func (ls *scanCache) size() (waiting, running int) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return len(ls.waiting), ls.running[slot{share: 1}]
}
