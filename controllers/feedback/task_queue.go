package feedback

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/heighliner/heighliner/internal/contain"
	"github.com/heighliner/heighliner/internal/github"
	"github.com/heighliner/heighliner/internal/outbound"
)

const (
	// defaultTasks is the default maximum number of repositories that are written to concurrently.
	defaultTasks = 16
	// maxBatch is the maximum number of Deployments and comments that one task writes. After each
	// task, the writes are planned again.
	maxBatch = 8
	// maxTask is the timeout of one task.
	maxTask = time.Minute
	// minBackoff and maxBackoff bound the wait after a failure. invalidBackoff is the wait after
	// GitHub rejects a value, or rejects a comment because the conversation is locked.
	minBackoff     = 2 * time.Second
	maxBackoff     = 5 * time.Minute
	invalidBackoff = time.Hour
	// deletedAfter is how long a Deployment must be missing on GitHub before it counts as deleted.
	deletedAfter = time.Minute
	// maxAbandonTries is the number of attempts after which a write to a repository other than the current one is
	// abandoned if GitHub rejects it, for example because the repository does not exist or access is denied.
	maxAbandonTries = 10
)

// failure describes a write that failed or, with the key "", a failure that affects all writes.
type failure struct {
	err      error
	checksum string
	count    int
	next     time.Time
	// since is when the write first failed with an error of this kind.
	since time.Time
}

// repositoryEntry is the state of one GitHubRepository in this process. It is lost when the process restarts.
// The loss causes some additional reads, but no additional writes.
type repositoryEntry struct {
	uid  types.UID
	task *task
	// outcome is a task result that is not in the status yet.
	outcome *applied
	// searched reports whether a task has searched for Deployments without a record.
	searched bool
	// access contains the client and the repository that were last used.
	access   *access
	failures map[string]failure
	// generation is the last observed generation of the GitHubRepository, and request is the last observed request to
	// retry all writes.
	generation int64
	request    string
}

// task is a batch of writes that is queued or running.
type task struct {
	repository types.NamespacedName
	cancel     context.CancelFunc
}

// taskQueue runs tasks in the background. None of its methods waits for GitHub.
type taskQueue struct {
	clock clock.PassiveClock
	slots *outbound.Slots

	mu           sync.Mutex
	ctx          context.Context // nil before run
	requeue      func(types.NamespacedName)
	repositories map[types.NamespacedName]*repositoryEntry
}

// newTaskQueue returns a queue that runs up to the given number of tasks concurrently. One host
// gets at most half of them, and one namespace a quarter.
func newTaskQueue(c clock.PassiveClock, tasks int) *taskQueue {
	return &taskQueue{
		clock:        c,
		slots:        outbound.NewSlots(outbound.Bounds{All: tasks, Host: tasks / 2, Namespace: tasks / 4, NamespaceHost: tasks / 4}),
		repositories: map[types.NamespacedName]*repositoryEntry{},
	}
}

// run enables tasks until ctx is done. The queue calls requeue, from any goroutine, for each repository whose task
// is done; requeue must not block. Call run before start.
func (q *taskQueue) run(ctx context.Context, requeue func(types.NamespacedName)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ctx, q.requeue = ctx, requeue
}

// entry returns the state of a repository. If the entry belongs to a deleted repository with the same name, it is replaced.
func (q *taskQueue) entry(repository types.NamespacedName, uid types.UID) repositoryEntry {
	q.mu.Lock()
	defer q.mu.Unlock()
	if e := q.repositories[repository]; e == nil || e.uid != uid {
		q.drop(repository)
		q.repositories[repository] = &repositoryEntry{uid: uid, failures: map[string]failure{}}
	}
	return *q.repositories[repository]
}

// forget removes a deleted repository.
func (q *taskQueue) forget(repository types.NamespacedName) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.drop(repository)
}

func (q *taskQueue) drop(repository types.NamespacedName) {
	if e := q.repositories[repository]; e != nil && e.task != nil {
		e.task.cancel()
	}
	delete(q.repositories, repository)
}

// retryAll makes all failed writes due again if a user or a webhook delivery has requested a retry, or if the
// specification has changed. It forgets the failures only in the latter case, because frequent deliveries
// could otherwise keep resetting the numbers of attempts and the times that determine when a write is abandoned or
// a Deployment counts as deleted.
func (q *taskQueue) retryAll(repository types.NamespacedName, generation int64, request string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.repositories[repository]
	switch {
	case e.generation != generation:
		clear(e.failures)
	case e.request != request:
		for key, f := range e.failures {
			f.next = time.Time{}
			e.failures[key] = f
		}
	}
	e.generation, e.request = generation, request
}

// retainFailures forgets the failures of writes that are no longer planned.
func (q *taskQueue) retainFailures(repository types.NamespacedName, writes []write) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.repositories[repository]
	if e == nil {
		return
	}
	planned := map[string]bool{"": true} // a failure that affects all writes
	for i := range writes {
		planned[writes[i].key] = true
	}
	maps.DeleteFunc(e.failures, func(key string, _ failure) bool { return !planned[key] })
}

// clearResult records that the status contains the result of the last task.
func (q *taskQueue) clearResult(repository types.NamespacedName) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if e := q.repositories[repository]; e != nil {
		e.outcome = nil
	}
}

// start queues work for a repository. Do not call it while another task for the repository is queued or running.
func (q *taskQueue) start(repository types.NamespacedName, host string, work func(context.Context) applied) {
	q.mu.Lock()
	defer q.mu.Unlock()
	ctx, cancel := context.WithCancel(q.ctx)
	t := &task{repository: repository, cancel: cancel}
	q.repositories[repository].task = t
	go func() {
		defer cancel()
		leave, ok := q.slots.Enter(ctx, repository.Namespace, host)
		if !ok {
			return // the repository was deleted, or the manager is stopping
		}
		limited, stop := context.WithTimeout(ctx, maxTask)
		var result applied
		if err := contain.Panics(func() error { result = work(limited); return nil }); err != nil {
			result = applied{err: err}
		}
		stop()
		leave()
		if q.finish(t, result) {
			q.requeue(repository)
		}
	}()
}

// finish records the result of a task, and reports whether its repository is still waiting for the task.
func (q *taskQueue) finish(t *task, result applied) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.repositories[t.repository]
	if e == nil || e.task != t {
		return false
	}
	e.task, e.outcome = nil, &result
	e.searched = e.searched || result.searched
	if result.access != nil {
		e.access = result.access
	}
	for _, r := range result.results {
		e.noteFailure(r.key, r.checksum, r.err, q.clock.Now())
	}
	e.noteFailure("", "", result.err, q.clock.Now())
	return true
}

// noteFailure records a failure, or forgets the previous failure if err is nil.
func (e *repositoryEntry) noteFailure(key, sum string, err error, now time.Time) {
	if err == nil {
		delete(e.failures, key)
		return
	}
	before := e.failures[key]
	f := failure{err: err, checksum: sum, count: before.count + 1, since: now}
	if before.err != nil && github.KindOf(before.err) == github.KindOf(err) {
		f.since = before.since
	}
	f.next = now.Add(min(minBackoff<<min(f.count-1, 16), maxBackoff))
	var failed *github.Error
	if errors.As(err, &failed) {
		switch {
		case !failed.RetryAt.IsZero() && failed.RetryAt.After(now):
			f.next = failed.RetryAt
		case failed.Kind == github.Invalid, failed.Kind == github.Locked:
			f.next = now.Add(invalidBackoff)
		}
	}
	e.failures[key] = f
}

// due reports whether a write may be tried now. If it may not, due also returns the time of the next attempt.
func (e *repositoryEntry) due(w *write, now time.Time) (bool, time.Time) {
	f, failed := e.failures[w.key]
	changed := failed && github.KindOf(f.err) == github.Invalid && f.checksum != w.checksum
	return !failed || changed || !now.Before(f.next), f.next
}

// isDeleted reports whether the object of a write has been missing on GitHub for so long that it counts as
// deleted.
func (e *repositoryEntry) isDeleted(key string, now time.Time) bool {
	f, failed := e.failures[key]
	return failed && github.KindOf(f.err) == github.NotFound && now.Sub(f.since) >= deletedAfter
}

// locked returns the keys of the comments whose conversation is locked.
func (e *repositoryEntry) locked() map[string]bool {
	keys := map[string]bool{}
	for key, f := range e.failures {
		if github.KindOf(f.err) == github.Locked {
			keys[key] = true
		}
	}
	return keys
}

// abandoned returns the keys of the writes that GitHub rejects and that were tried maxAbandonTries times. Only writes
// to other repositories are then abandoned, because access to these repositories might never be granted again.
func (e *repositoryEntry) abandoned() map[string]bool {
	keys := map[string]bool{}
	for key, f := range e.failures {
		switch github.KindOf(f.err) {
		case github.NotFound, github.Forbidden, github.Blocked, github.Denied, github.Locked, github.Unauthorized, github.BadConfig, github.Invalid:
			if f.count >= maxAbandonTries {
				keys[key] = true
			}
		}
	}
	return keys
}
