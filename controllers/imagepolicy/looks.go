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
	// defaultLooks is how many looks are under way at a time.
	defaultLooks = 16
	// maxLook is the time of one look, once it is its turn: the list, all images and
	// all proofs of absence. It is the longest spec.timeout too.
	maxLook = 2 * time.Minute
)

// looks has registries looked at beside the reconciles, and keeps the present look
// of each policy: no method waits for a registry. A restart forgets all of it, which
// costs one look of each policy.
type looks struct {
	clock clock.PassiveClock
	most  int // looks under way at a time

	mu       sync.Mutex
	ctx      context.Context // nil before the start
	wake     func(types.NamespacedName)
	policies map[types.NamespacedName]*remembered
	waiting  []*task // in the order in which they came
	running  map[place]int
}

// remembered is what is known of one policy.
type remembered struct {
	// look that is done; nil before the first one. It is never changed: a task learns
	// in one of its own.
	look *look
	// task that waits for its turn or is under way; nil: none is.
	task *task
	// hinted says that there may be something new since the last look began.
	hinted bool
	// absent holds the first look in which a tag was proven absent. Only the policy's
	// reconciles, of which there is one at a time, touch it.
	absent map[string]time.Time
	// seen is when tags were first seen; nil before the first list. It is never
	// changed.
	seen *sightings
}

// task is a look that is to be done.
type task struct {
	policy types.NamespacedName
	look   *look
	places []place
	work   func(context.Context, *look)
	since  time.Time
	cancel context.CancelFunc // nil while it waits
	// former is the task of the policy that was ended for this one while it was under way;
	// nil: none. done is closed when this one returns.
	former *task
	done   chan struct{}
}

// place is what looks have in common that may slow down each other.
type place struct {
	namespace, registry string
	login               bool // the credential counts
	auth                registry.Credential
	// share of all looks that may have it, as in one half, one quarter.
	share int
}

// placesOf are those of a look. A namespace has at most a quarter of all looks, and
// half of that at one registry; so neither its slow registry nor its many policies
// stop others, its other registries, or others at the same registry with the same
// credential, who is nobody where images are public.
func placesOf(policy types.NamespacedName, l *look) []place {
	namespace, host := policy.Namespace, registry.Host(l.question.repository)
	return []place{
		{share: 1},
		{registry: host, share: 2},
		{registry: host, login: true, auth: l.access.auth(0), share: 4},
		{namespace: namespace, share: 4},
		{namespace: namespace, registry: host, share: 8},
	}
}

// newLooks makes one that does nothing before it is started.
func newLooks(c clock.PassiveClock, most int) *looks {
	return &looks{clock: c, most: most, policies: map[types.NamespacedName]*remembered{}, running: map[place]int{}}
}

// start lets looks begin until ctx ends; wake is told of each policy whose look is
// done. It may be called from any goroutine, and must not block.
func (ls *looks) start(ctx context.Context, wake func(types.NamespacedName)) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.ctx, ls.wake = ctx, wake
	ls.admit()
}

// of gives what is known of a policy.
func (ls *looks) of(policy types.NamespacedName) remembered {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return *ls.remember(policy)
}

func (ls *looks) remember(policy types.NamespacedName) *remembered {
	if ls.policies[policy] == nil {
		ls.policies[policy] = &remembered{absent: map[string]time.Time{}}
	}
	return ls.policies[policy]
}

// sees keeps what a policy has seen.
func (ls *looks) sees(policy types.NamespacedName, seen *sightings) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.remember(policy).seen = seen
}

// hint makes the present look of a policy stale, and followed says that one begins.
func (ls *looks) hint(policy types.NamespacedName) { ls.setHinted(policy, true) }

func (ls *looks) followed(policy types.NamespacedName) { ls.setHinted(policy, false) }

func (ls *looks) setHinted(policy types.NamespacedName, hinted bool) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.remember(policy).hinted = hinted
}

// begin has work fill a look when it is its turn. An earlier task of the policy ends.
func (ls *looks) begin(policy types.NamespacedName, l *look, work func(context.Context, *look)) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	m := ls.remember(policy)
	former := m.task
	ls.end(m)
	m.task = &task{policy: policy, look: l, places: placesOf(policy, l), work: work, since: ls.clock.Now(), done: make(chan struct{})}
	if former != nil && former.cancel != nil {
		m.task.former = former
	}
	ls.waiting = append(ls.waiting, m.task)
	ls.admit()
}

// stop ends the task of a policy.
func (ls *looks) stop(policy types.NamespacedName) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if m := ls.policies[policy]; m != nil {
		ls.end(m)
	}
}

// forget a policy that is gone.
func (ls *looks) forget(policy types.NamespacedName) {
	ls.stop(policy)
	ls.mu.Lock()
	defer ls.mu.Unlock()
	delete(ls.policies, policy)
}

// end lets a task go. One that is under way keeps its places until it returns.
func (ls *looks) end(m *remembered) {
	t := m.task
	if t == nil {
		return
	}
	m.task = nil
	if t.cancel != nil {
		t.cancel()
		return
	}
	ls.waiting = slices.DeleteFunc(ls.waiting, func(x *task) bool { return x == t })
}

// admit lets those begin for whom there is room, the first first.
func (ls *looks) admit() {
	if ls.ctx == nil {
		return
	}
	ls.waiting = slices.DeleteFunc(ls.waiting, func(t *task) bool {
		for _, p := range t.places {
			if ls.running[p] >= max(1, ls.most/p.share) {
				return false
			}
		}
		ls.run(t)
		return true
	})
}

func (ls *looks) run(t *task) {
	for _, p := range t.places {
		ls.running[p]++
	}
	var ctx context.Context
	ctx, t.cancel = context.WithTimeout(ls.ctx, maxLook)
	go func() {
		defer t.cancel()
		if t.former != nil {
			// Else this one could join a question of the former that has no answer.
			<-t.former.done
			t.former = nil
		}
		t.work(ctx, t.look)
		close(t.done)
		if ls.done(t) {
			ls.wake(t.policy)
		}
	}()
}

// done gives the places back, and says whether somebody waits for the look.
func (ls *looks) done(t *task) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for _, p := range t.places {
		if ls.running[p]--; ls.running[p] == 0 {
			delete(ls.running, p)
		}
	}
	ls.admit()
	m := ls.policies[t.policy]
	if m == nil || m.task != t {
		return false
	}
	m.look, m.task = t.look, nil
	return true
}

// size counts the looks that wait for their turn, and those under way.
func (ls *looks) size() (waiting, running int) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return len(ls.waiting), ls.running[place{share: 1}]
}
