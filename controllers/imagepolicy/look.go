package imagepolicy

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/heighliner/heighliner/internal/registry"
)

// question is what a policy asks its registry. A look answers one question.
type question struct {
	// request, with the age at which a list may be shared by policies.
	request registry.Request
	// interval between two looks.
	interval time.Duration
	// requested is the annotation that asks for a look now.
	requested string
}

// look is what the registry told one policy. It answers every pass until the
// policy is due again, so that the many events of Microservices neither ask twice
// nor hammer a registry that fails.
type look struct {
	question question
	scanner  Scanner
	clock    clock.PassiveClock
	// time at which the list was asked for.
	time time.Time
	// due is when to look again; zero while the first pass is at work.
	due time.Time

	list   *answer[registry.Scan]
	images map[string]answer[registry.Image]
	absent map[string]answer[bool]
}

type answer[T any] struct {
	value T
	err   error
}

func (l *look) open(now time.Time) bool { return l.due.IsZero() || now.Before(l.due) }

// List asks for the tags once in a look. pinned are the tags of a source that is
// written by hand, which asks for none.
func (l *look) List(ctx context.Context, pinned []string) (registry.Scan, error) {
	if l.list == nil {
		a := answer[registry.Scan]{value: registry.Scan{Tags: pinned, Time: l.clock.Now()}}
		if pinned == nil {
			a.value, a.err = l.scanner.List(ctx, l.question.request)
		}
		l.time = a.value.Time
		if a.err != nil {
			l.time = l.clock.Now()
		}
		l.list = &a
	}
	return l.list.value, l.list.err
}

// Resolve asks for a tag's image once in a look. Policies that share the list
// share what was asked for since.
func (l *look) Resolve(ctx context.Context, tag string) (registry.Image, error) {
	a, ok := l.images[tag]
	if !ok {
		request := l.question.request
		request.MaxAge = l.clock.Since(l.time) + 1
		a.value, a.err = l.scanner.Resolve(ctx, request, tag)
		l.images[tag] = a
	}
	return a.value, a.err
}

// Gone asks for the proof of absence once in a look.
func (l *look) Gone(ctx context.Context, tag, digest, witness string) (bool, error) {
	a, ok := l.absent[tag]
	if !ok {
		a.value, a.err = l.scanner.Gone(ctx, l.question.request, tag, digest, witness)
		l.absent[tag] = a
	}
	return a.value, a.err
}

// Waits after a failure that time may mend.
const (
	retryFirst = 15 * time.Second
	retryMost  = 5 * time.Minute
)

// close sets when to look again, if that is not set: an interval after the list
// was asked for, so that policies that share it look at the same time and none is
// staler than its interval, up to a tenth earlier, so that not all ask in the same
// second. After a failure: when the registry says so, sooner than the interval
// where time alone may mend it, else with the interval.
func (l *look) close(err error) {
	if !l.due.IsZero() {
		return
	}
	interval, now := l.question.interval, l.clock.Now()
	var e *registry.Error
	switch {
	case err == nil:
		l.due = l.time.Add(interval - rand.N(interval/10+1))
	case errors.As(err, &e) && e.Kind == registry.RateLimited && e.RetryAt.After(now):
		l.due = e.RetryAt
	case errors.As(err, &e) && !e.Kind.Transient():
		l.due = now.Add(interval)
	default:
		l.due = now.Add(min(retryMost, max(retryFirst, interval/4), interval))
	}
}

// memory keeps the present look of each policy, and what the looks before it found
// absent. A restart forgets it, which costs one look.
type memory struct {
	mu       sync.Mutex
	policies map[types.NamespacedName]*remembered
}

type remembered struct {
	look *look
	// absent holds the first look in which a tag was proven absent.
	absent map[string]time.Time
}

func (m *memory) of(key types.NamespacedName) *remembered {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.policies == nil {
		m.policies = map[types.NamespacedName]*remembered{}
	}
	if m.policies[key] == nil {
		m.policies[key] = &remembered{absent: map[string]time.Time{}}
	}
	return m.policies[key]
}

func (m *memory) forget(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.policies, key)
}

// begin gives the present look if it answers the question and is not due again,
// else a new one. A request that is not answered yet asks the registry itself.
func (p *remembered) begin(q question, answered string, s Scanner, c clock.PassiveClock) *look {
	if p.look != nil && p.look.question == q && p.look.open(c.Now()) {
		return p.look
	}
	p.look = &look{
		question: q, scanner: s, clock: c,
		images: map[string]answer[registry.Image]{}, absent: map[string]answer[bool]{},
	}
	if q.requested != answered {
		p.look.scanner = impatient{s}
	}
	return p.look
}

// impatient asks for lists that nobody asked for before.
type impatient struct{ Scanner }

// List asks the registry now.
func (s impatient) List(ctx context.Context, r registry.Request) (registry.Scan, error) {
	r.MaxAge = 0
	return s.Scanner.List(ctx, r)
}
