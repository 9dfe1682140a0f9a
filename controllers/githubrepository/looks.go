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
	// defaultLooks is how many looks are under way at a time.
	defaultLooks = 16
	// maxLook is the time of one look, once it is its turn.
	maxLook = 2 * time.Minute
)

// looks has GitHub looked at beside the reconciles, and keeps the present look of each
// GitHubRepository: no method waits for GitHub. A restart forgets all of it, which
// costs one look of each.
type looks struct {
	places *outbound.Places

	mu           sync.Mutex
	ctx          context.Context
	wake         func(types.NamespacedName)
	repositories map[types.NamespacedName]*remembered
	begun        int // looks that have not ended
}

// remembered is what is known of one GitHubRepository.
type remembered struct {
	// look that is done; nil before the first one.
	look *look
	// reported says that the status holds what the look learned.
	reported bool
	// task that waits for its turn or is under way; nil: none is.
	task *task
	// hints of a webhook since the last look began: what it says of pull requests by their
	// numbers, and 0 for anything else; empty: none.
	hints map[int64]notice
	// saw and pushes: see memory.
	saw    time.Time
	pushes map[string]time.Time
}

// task is a look that is to be done.
type task struct {
	look   *look
	since  time.Time
	cancel context.CancelFunc
}

// newLooks makes one that is of use once it is started. One namespace has at most a
// quarter of the looks, and half of that at one host; a host has at most a half.
func newLooks(most int) *looks {
	return &looks{
		places:       outbound.NewPlaces(outbound.Bounds{All: most, Namespace: most / 4, Host: most / 2, NamespaceHost: most / 8}),
		repositories: map[types.NamespacedName]*remembered{},
	}
}

// start lets looks begin until ctx ends; wake is told of each repository whose look is
// done. It may be called from any goroutine, and must not block.
func (ls *looks) start(ctx context.Context, wake func(types.NamespacedName)) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.ctx, ls.wake = ctx, wake
}

// of gives what is known of a repository.
func (ls *looks) of(key types.NamespacedName) remembered {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	m := *ls.remember(key)
	m.hints, m.pushes = maps.Clone(m.hints), maps.Clone(m.pushes)
	return m
}

func (ls *looks) remember(key types.NamespacedName) *remembered {
	if ls.repositories[key] == nil {
		ls.repositories[key] = &remembered{}
	}
	return ls.repositories[key]
}

// hint makes the present look stale, and wakes the repository.
func (ls *looks) hint(key types.NamespacedName, numbers map[int64]notice) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	m := ls.remember(key)
	if m.hints == nil {
		m.hints = map[int64]notice{}
	}
	m.hints[0] = notice{}
	for n, what := range numbers {
		if len(m.hints) <= maxPulls {
			m.hints[n] = m.hints[n].newer(what)
		}
	}
	if ls.ctx != nil {
		ls.wake(key)
	}
}

// begin has work fill a look when it is its turn. An earlier task ends, and hints
// count as followed: what they and the earlier one announced is expected of the look.
func (ls *looks) begin(key types.NamespacedName, l *look, work func(context.Context, *look)) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	m := ls.remember(key)
	if m.task != nil {
		l.expect(m.task.look.announced)
	}
	l.expect(m.hints)
	ls.end(m)
	ctx, cancel := context.WithCancel(ls.ctx)
	t := &task{look: l, since: l.begun, cancel: cancel}
	m.task, m.hints = t, nil
	ls.begun++
	go func() {
		defer cancel()
		if leave, ok := ls.places.Enter(ctx, key.Namespace, l.question.host()); ok {
			limited, stop := context.WithTimeout(ctx, maxLook)
			work(limited, l)
			stop()
			leave()
		}
		if ls.done(key, t) {
			ls.wake(key)
		}
	}()
}

// done says whether somebody waits for the look.
func (ls *looks) done(key types.NamespacedName, t *task) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.begun--
	m := ls.repositories[key]
	if m == nil || m.task != t || ls.ctx.Err() != nil {
		return false
	}
	m.look, m.reported, m.task = t.look, false, nil
	return true
}

// report notes that the status holds what a look learned, beside which memory is the
// present one.
func (ls *looks) report(key types.NamespacedName, l *look, known map[string]time.Time) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	m := ls.remember(key)
	if m.look != l {
		return
	}
	m.reported = true
	if l.pulls != nil {
		m.saw, m.pushes = l.pulls.time, known
	}
}

// stop ends the task of a repository.
func (ls *looks) stop(key types.NamespacedName) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if m := ls.repositories[key]; m != nil {
		ls.end(m)
		m.hints = nil
	}
}

// forget a repository that is gone.
func (ls *looks) forget(key types.NamespacedName) {
	ls.stop(key)
	ls.mu.Lock()
	defer ls.mu.Unlock()
	delete(ls.repositories, key)
}

// end lets a task go. One that is under way keeps its places until it returns.
func (ls *looks) end(m *remembered) {
	if m.task != nil {
		m.task.cancel()
		m.task = nil
	}
}

// size counts the looks that wait for their turn, and those under way.
func (ls *looks) size() (waiting, running int) {
	running = ls.places.Taken()
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return max(0, ls.begun-running), running
}
