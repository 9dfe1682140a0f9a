package imagepolicy

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"strings"
	"time"

	"k8s.io/utils/clock"

	"github.com/heighliner/heighliner/internal/registry"
)

// origin is where a policy's versions come from.
type origin struct {
	repository string
	insecure   bool
	// secrets are the names of the pull secrets, and pinned the tags of a list that is
	// written by hand, "" for a registry's; one a line.
	secrets, pinned string
}

// question is what a policy asks its registry. A look answers one question.
type question struct {
	origin
	// timeout of one answer: the list with all its pages, or an image.
	timeout time.Duration
	maxTags int
	// interval between two looks.
	interval time.Duration
	// requested is the annotation that asks for a look now.
	requested string
}

// tags of a list that is written by hand; nil for a registry's.
func (q *question) tags() []string {
	if q.pinned == "" {
		return nil
	}
	return strings.Split(q.pinned, "\n")
}

// look is what the registry told one policy. It answers every pass until the
// policy is due again, so that the many events of Microservices neither ask twice
// nor hammer a registry that fails.
type look struct {
	question question
	auth     registry.Credential
	// impatient asks for a list that nobody asked for before.
	impatient bool
	// time at which the list was asked for.
	time time.Time
	// due is when to look again; zero until the look is done.
	due time.Time

	list   *answer[registry.Scan]
	images map[string]answer[registry.Image]
	absent map[string]answer[bool]
}

type answer[T any] struct {
	value T
	err   error
}

func newLook(q question, auth registry.Credential, impatient bool) *look {
	return &look{
		question: q, auth: auth, impatient: impatient,
		images: map[string]answer[registry.Image]{}, absent: map[string]answer[bool]{},
	}
}

// more is a copy that can learn what the look was not asked yet.
func (l *look) more() *look {
	c := *l
	c.images, c.absent = maps.Clone(l.images), maps.Clone(l.absent)
	return &c
}

// answers says that the look is of this question, and not due again.
func (l *look) answers(q question, now time.Time) bool {
	return l != nil && l.question == q && now.Before(l.due)
}

// asker reads a look, and asks the registry for what is missing there.
type asker struct {
	*look
	clock clock.PassiveClock
	// scanner is asked; nil: nobody is, and what is missing is errUnasked.
	scanner Scanner
	ctx     context.Context
	// unasked says that something was missing.
	unasked bool
}

// The errors of a look that are none of the registry's.
var (
	errUnasked = errors.New("the registry was not asked yet")
	errLate    = errors.New("the look took longer than two minutes; what it learned is kept, and the rest is asked again")
)

// ask gives the answer of the look, else the registry's, which the look keeps.
func ask[T any](a *asker, known answer[T], ok bool, request func(Scanner, registry.Request) (T, error)) (answer[T], bool) {
	switch {
	case ok:
		return known, false
	case a.scanner == nil:
		a.unasked = true
		return answer[T]{err: errUnasked}, false
	}
	q := a.question
	value, err := request(a.scanner, registry.Request{
		Repository: q.repository, Insecure: q.insecure, Auth: a.auth, Timeout: q.timeout, MaxTags: q.maxTags,
	})
	if err != nil && a.ctx.Err() != nil {
		err = errLate
	}
	return answer[T]{value, err}, true
}

// List asks for the tags once in a look.
func (a *asker) List() (registry.Scan, error) {
	var known answer[registry.Scan]
	if a.list != nil {
		known = *a.list
	}
	got, first := ask(a, known, a.list != nil, func(s Scanner, r registry.Request) (registry.Scan, error) {
		if tags := a.question.tags(); tags != nil {
			return registry.Scan{Tags: tags, Time: a.clock.Now()}, nil
		}
		if !a.impatient {
			r.MaxAge = a.question.interval - a.question.interval/8 // looks are up to a tenth early
		}
		return s.List(a.ctx, r)
	})
	if first {
		a.list, a.time = &got, got.value.Time
		if got.err != nil {
			a.time = a.clock.Now()
		}
	}
	return got.value, got.err
}

// Resolve asks for a tag's image once in a look. Policies that share the list
// share what was asked for since.
func (a *asker) Resolve(tag string) (registry.Image, error) {
	known, ok := a.images[tag]
	got, first := ask(a, known, ok, func(s Scanner, r registry.Request) (registry.Image, error) {
		r.MaxAge = a.clock.Since(a.time) + 1
		return s.Resolve(a.ctx, r, tag)
	})
	if first {
		a.images[tag] = got
	}
	return got.value, got.err
}

// Gone asks for the proof of absence once in a look.
func (a *asker) Gone(tag, digest, witness string) (bool, error) {
	known, ok := a.absent[tag]
	got, first := ask(a, known, ok, func(s Scanner, r registry.Request) (bool, error) {
		return s.Gone(a.ctx, r, tag, digest, witness)
	})
	if first {
		a.absent[tag] = got
	}
	return got.value, got.err
}

// Waits after a failure that time may mend.
const (
	retryFirst = 15 * time.Second
	retryMost  = 5 * time.Minute
)

// close sets when to look again: an interval after the list was asked for, so that
// policies that share it look at the same time and none is staler than its
// interval, up to a tenth earlier, so that not all ask in the same second. After a
// failure: when the registry says so, sooner than the interval where time alone may
// mend it, else with the interval. A look that was done before, and learned more,
// is never due later than it was.
func (l *look) close(err error, now time.Time) {
	interval, due := l.question.interval, now
	var e *registry.Error
	switch {
	case err == nil:
		due = l.time.Add(interval - rand.N(interval/10+1))
	case errors.As(err, &e) && e.Kind == registry.RateLimited && e.RetryAt.After(now):
		due = e.RetryAt
	case errors.As(err, &e) && !e.Kind.Transient():
		due = now.Add(interval)
	default:
		due = now.Add(min(retryMost, max(retryFirst, interval/4), interval))
	}
	if l.due.IsZero() || due.Before(l.due) {
		l.due = due
	}
}
