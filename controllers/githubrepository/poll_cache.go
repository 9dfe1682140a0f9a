package githubrepository

import (
	"context"
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/heighliner/heighliner/internal/outbound"
)

const (
	// defaultPolls is the default number of concurrent polls.
	defaultPolls = 16
	// maxPoll is the timeout of one poll.
	maxPoll = 2 * time.Minute
)

// pollCache runs polls in the background, and keeps the last poll of each GitHubRepository. None of its
// methods waits for GitHub. The cache is lost when the process restarts. Each repository is then polled
// again.
type pollCache struct {
	slots *outbound.Slots

	mu           sync.Mutex
	ctx          context.Context
	requeue      func(types.NamespacedName)
	repositories map[types.NamespacedName]*cacheEntry
	started      int // the number of started polls that have not ended
}

// cacheEntry is the state of one GitHubRepository in the cache.
type cacheEntry struct {
	// uid is the UID of the GitHubRepository; empty before its first reconcile.
	uid types.UID
	// poll is the last complete poll; nil before the first poll.
	poll *poll
	// reported reports whether the status contains the results of the poll.
	reported bool
	// task is the queued or running poll; nil if there is none.
	task *task
	// hints contains the notices from webhook deliveries since the start of the last poll that was not stopped.
	// The keys are the numbers of pull requests; the key 0 stands for all other deliveries.
	hints map[int64]notice
	// lastPoll and pushes have the same meaning as in mergeContext.
	lastPoll time.Time
	pushes   map[string]time.Time
	// lastRead contains, for each open pull request, the last reported poll that read it. The keys are the numbers of the
	// pull requests.
	lastRead map[int64]lastRead
}

// lastRead describes the poll that read the labels of a pull request.
type lastRead struct {
	time time.Time
	// labels contains the labels to which ImagePolicies referred at the time of the poll. The status never omits
	// such labels.
	labels map[string]bool
}

// task is a queued or running poll.
type task struct {
	poll   *poll
	since  time.Time
	cancel context.CancelFunc
}

// newPollCache returns a cache that runs polls after run is called. One host gets at most half of the
// concurrent polls, one namespace a quarter, and one namespace at one host an eighth.
func newPollCache(polls int) *pollCache {
	return &pollCache{
		slots:        outbound.NewSlots(outbound.Bounds{All: polls, Namespace: polls / 4, Host: polls / 2, NamespaceHost: polls / 8}),
		repositories: map[types.NamespacedName]*cacheEntry{},
	}
}

// run enables polls until ctx is done. During this time, the cache calls requeue for each repository whose poll
// is complete or that has a new hint, possibly from several goroutines. requeue must not block.
func (ls *pollCache) run(ctx context.Context, requeue func(types.NamespacedName)) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.ctx, ls.requeue = ctx, requeue
}

// belong discards the state of a repository with the same name but another UID, except for the hints, which may concern the new
// GitHubRepository. If the watch was interrupted while the GitHubRepository was deleted and created again, no reconcile has observed
// the deletion.
func (ls *pollCache) belong(key types.NamespacedName, uid types.UID) {
	if m := ls.entry(key); m.uid != "" && m.uid != uid {
		ls.stop(key) // keeps the notices of the poll as hints
		ls.mu.Lock()
		ls.repositories[key] = &cacheEntry{hints: ls.ensure(key).hints}
		ls.mu.Unlock()
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.ensure(key).uid = uid
}

// entry returns the state of a repository.
func (ls *pollCache) entry(key types.NamespacedName) cacheEntry {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	m := *ls.ensure(key)
	m.hints, m.pushes = maps.Clone(m.hints), maps.Clone(m.pushes)
	return m
}

func (ls *pollCache) ensure(key types.NamespacedName) *cacheEntry {
	if ls.repositories[key] == nil {
		ls.repositories[key] = &cacheEntry{}
	}
	return ls.repositories[key]
}

// hint records the notices from webhook deliveries, and enqueues the repository for another poll.
func (ls *pollCache) hint(key types.NamespacedName, numbers map[int64]notice) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.ensure(key).addHints(numbers)
	if ls.ctx != nil {
		ls.requeue(key)
	}
}

func (m *cacheEntry) addHints(numbers map[int64]notice) {
	if m.hints == nil {
		m.hints = map[int64]notice{}
	}
	m.hints[0] = notice{}
	for n, what := range numbers {
		if len(m.hints) <= maxPullRequests {
			m.hints[n] = m.hints[n].newest(what)
		}
	}
}

// start queues a poll, and cancels the earlier poll of the repository, if any. GitHub's responses to the new
// poll must contain the changes that the hints and the earlier poll's notices announced.
func (ls *pollCache) start(key types.NamespacedName, l *poll, work func(context.Context, *poll)) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	m := ls.ensure(key)
	if m.task != nil {
		l.expect(m.task.poll.announced)
	}
	l.expect(m.hints)
	ls.cancel(m)
	ctx, cancel := context.WithCancel(ls.ctx)
	t := &task{poll: l, since: l.startedAt, cancel: cancel}
	m.task, m.hints = t, nil
	ls.started++
	go func() {
		defer cancel()
		if leave, ok := ls.slots.Enter(ctx, key.Namespace, l.query.host()); ok {
			limited, stop := context.WithTimeout(ctx, maxPoll)
			work(limited, l)
			stop()
			leave()
		}
		if ls.finish(key, t) {
			ls.requeue(key)
		}
	}()
}

// finish stores a poll if its repository is still waiting for it, and reports whether it stored the poll.
func (ls *pollCache) finish(key types.NamespacedName, t *task) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.started--
	m := ls.repositories[key]
	if m == nil || m.task != t || ls.ctx.Err() != nil {
		return false
	}
	m.poll, m.reported, m.task = t.poll, false, nil
	return true
}

// markReported records that the status contains the results of a poll, and records the push times
// for the next merge.
func (ls *pollCache) markReported(key types.NamespacedName, l *poll, known map[string]time.Time) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	m := ls.ensure(key)
	if m.poll != l {
		m.doubt(l)
		return
	}
	if l.pulls != nil {
		read, labels := map[int64]lastRead{}, labelSet(l.query.wanted.labels)
		for n, r := range m.lastRead {
			if l.pulls.time.Sub(r.time) <= l.query.interval+maxGap { // After a longer time, there is a gap in polling.
				read[n] = r
			}
		}
		for _, g := range l.pulls.open() {
			read[int64(g.Number)] = lastRead{l.pulls.time, labels}
		}
		m.lastPoll, m.pushes, m.lastRead = l.pulls.time, known, read
	}
	m.reported, m.poll = true, l.withoutAnswers()
}

// doubtful records that it is not known whether the status contains the results of a poll.
func (ls *pollCache) doubtful(key types.NamespacedName, l *poll) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.ensure(key).doubt(l)
}

// doubt updates lastRead after a poll whose results may be in the status. These results may omit labels to which
// ImagePolicies did not refer at the time of the poll. Therefore, doubt removes these labels from lastRead.
func (m *cacheEntry) doubt(l *poll) {
	if l == nil || l.pulls == nil {
		return
	}
	m.lastRead = maps.Clone(m.lastRead)
	now := labelSet(l.query.wanted.labels)
	for _, g := range l.pulls.open() {
		if r, ok := m.lastRead[int64(g.Number)]; ok {
			both := map[string]bool{}
			for name := range r.labels {
				if now[name] {
					both[name] = true
				}
			}
			r.labels = both
			m.lastRead[int64(g.Number)] = r
		}
	}
}

// withoutAnswers returns a copy of a poll without the responses from which its results were computed. It
// saves memory when the results are in the status: a list of pull requests can take up several
// megabytes.
func (l *poll) withoutAnswers() *poll {
	short := *l
	short.releases, short.tags = nil, nil
	if l.pulls != nil {
		short.pulls = &pullRequests{time: l.pulls.time, unusable: l.pulls.unusable, more: l.pulls.more, other: l.pulls.other}
	}
	return &short
}

// stop cancels the poll of a repository. The hints, and the notices of the canceled poll, are kept, so that a new
// poll starts as soon as the repository may be polled again.
func (ls *pollCache) stop(key types.NamespacedName) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if m := ls.repositories[key]; m != nil && m.task != nil {
		m.addHints(m.task.poll.announced)
		ls.cancel(m)
	}
}

// forget removes a deleted repository.
func (ls *pollCache) forget(key types.NamespacedName) {
	ls.stop(key)
	ls.mu.Lock()
	defer ls.mu.Unlock()
	delete(ls.repositories, key)
}

// cancel cancels the poll of an entry. A running poll occupies its slots until it returns.
func (ls *pollCache) cancel(m *cacheEntry) {
	if m.task != nil {
		m.task.cancel()
		m.task = nil
	}
}

// size returns the number of queued polls and the number of running polls.
func (ls *pollCache) size() (waiting, running int) {
	running = ls.slots.Taken()
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return max(0, ls.started-running), running
}
