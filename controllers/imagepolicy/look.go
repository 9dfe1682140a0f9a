package imagepolicy

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"k8s.io/utils/clock"

	"github.com/heighliner/heighliner/internal/cosign"
	"github.com/heighliner/heighliner/internal/registry"
)

// origin is where a policy's versions come from.
type origin struct {
	repository string
	insecure   bool
	// further are the repositories that go in step, secrets the names of all Secrets,
	// and pinned the tags of a list that is written by hand; one a line.
	further, secrets, pinned string
	// source in short, with what it names.
	source string
}

// question is what a policy asks its registry. A look answers one question.
type question struct {
	origin
	// listed is a checksum of what a GitHubRepository names.
	listed string
	// timeout of one answer: the list with all its pages, or an image.
	timeout time.Duration
	maxTags int
	// filter identifies the tags that count against maxTags; "": all of images.
	filter string
	// interval between two looks.
	interval time.Duration
	// requested is the annotation that asks for a look now.
	requested string
}

// registers says that the registry's list is what is asked for.
func (q *question) registers() bool { return q.source == "" || q.source == "registry" }

// repositories that are asked: the first is spec.image.
func (q *question) repositories() []string {
	return append([]string{q.repository}, strings.Fields(q.further)...)
}

// access is what a look needs beside its question, from Secrets.
type access struct {
	// auths are the credentials for the question's repositories; missing ones are
	// nobody.
	auths []registry.Credential
	tls   registry.TLS
	// keys of which one must have signed an image; none: nothing is verified.
	keys cosign.Keys
}

func (a *access) auth(image int) registry.Credential {
	if image < len(a.auths) {
		return a.auths[image]
	}
	return registry.Credential{}
}

// look is what the registry told one policy. It answers every pass until the
// policy is due again, so that the many events of Microservices neither ask twice
// nor hammer a registry that fails.
type look struct {
	question question
	access   access
	// impatient asks for a list that nobody asked for before.
	impatient bool
	// time at which the list was asked for.
	time time.Time
	// due is when to look again; zero until the look is done.
	due time.Time
	// pace of looks: less often while nothing is new.
	pace registry.Pace
	// news is a checksum of what the look before saw, and saw what this one did.
	news, saw string
	// failed is the first error of a look at pull requests.
	failed error

	list     *answer[registry.Scan]
	images   map[ref]answer[registry.Image]
	details  map[ref]answer[registry.Image]
	verified map[ref]answer[cosign.Result]
	absent   map[string]answer[bool]
	// heads are what is known of the head commits of pull requests, by number.
	heads map[int64]head
	// times are those of images, by tag, where they give the versions; untimed says that
	// there are more tags than the look may ask for.
	times   map[string]answer[built]
	untimed bool
}

// ref names an image of one of the question's repositories, by tag or digest.
type ref struct {
	image      int
	identifier string
}

type answer[T any] struct {
	value T
	err   error
}

func newLook(q question, by access, impatient bool) *look {
	return &look{
		question: q, access: by, impatient: impatient,
		images: map[ref]answer[registry.Image]{}, details: map[ref]answer[registry.Image]{}, verified: map[ref]answer[cosign.Result]{},
		absent: map[string]answer[bool]{}, heads: map[int64]head{}, times: map[string]answer[built]{},
	}
}

// after learns from the look before: its pace, and what it found of pull requests.
func (l *look) after(before *look) *look {
	if before == nil || before.question.origin != l.question.origin {
		return l
	}
	l.news, l.times = before.saw, lasting(before.times)
	if l.impatient || before.access.keys.ID() != l.access.keys.ID() {
		return l // what was found of head commits was judged by other keys
	}
	l.heads = maps.Clone(before.heads)
	if before.question == l.question {
		l.pace = before.pace
	}
	return l
}

// more is a copy that can learn what the look was not asked yet.
func (l *look) more() *look {
	c := *l
	c.images, c.details, c.verified = maps.Clone(l.images), maps.Clone(l.details), maps.Clone(l.verified)
	c.absent, c.heads, c.times = maps.Clone(l.absent), maps.Clone(l.heads), maps.Clone(l.times)
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
	scanner  Scanner
	verifier Verifier
	ctx      context.Context
	// counts chooses the tags that count against the limit; nil: all do.
	counts func(tag string) bool
	// timeable is how many images may still be asked for their time.
	timeable int
	// tell is told how far the look has come; nil: no one is.
	tell     func(Progress)
	progress Progress
	// unasked says that something was missing.
	unasked bool
}

// The errors of a look that are none of the registry's.
var (
	errUnasked = errors.New("the registry was not asked yet")
	errLate    = errors.New("the look took longer than two minutes; what it learned is kept, and the rest is asked again")
)

// tells changes the progress, and tells it.
func (a *asker) tells(change func(*Progress)) {
	if a.tell != nil {
		change(&a.progress)
		a.tell(a.progress)
	}
}

// ask gives the answer of the look, else the registry's, which the look keeps.
func ask[K comparable, T any](a *asker, answers map[K]answer[T], key K, image int, request func(registry.Request) (T, error)) (T, error) {
	if known, ok := answers[key]; ok {
		return known.value, known.err
	}
	if a.scanner == nil {
		a.unasked = true
		var none T
		return none, errUnasked
	}
	value, err := request(a.request(image))
	if err != nil && a.ctx.Err() != nil {
		err = errLate
	}
	answers[key] = answer[T]{value, err}
	return value, err
}

// request to the repository of an image.
func (a *asker) request(image int) registry.Request {
	q := &a.question
	return registry.Request{
		Repository: q.repositories()[image], Insecure: q.insecure, Auth: a.access.auth(image), TLS: a.access.tls, Timeout: q.timeout, MaxTags: q.maxTags,
		Counts: a.counts, CountsAs: q.filter,
	}
}

// List asks for the tags once in a look. Of another source than a registry it tells
// when the look began.
func (a *asker) List() (registry.Scan, error) {
	known := map[struct{}]answer[registry.Scan]{}
	if a.list != nil {
		known[struct{}{}] = *a.list
	}
	scan, err := ask(a, known, struct{}{}, 0, func(r registry.Request) (registry.Scan, error) {
		if !a.question.registers() {
			return registry.Scan{Time: a.clock.Now()}, nil
		}
		if !a.impatient {
			r.MaxAge = a.pace.Fresh(a.question.interval)
		}
		return a.scanner.List(a.ctx, r)
	})
	if got, ok := known[struct{}{}]; ok && a.list == nil {
		a.list, a.time = &got, got.value.Time
		if got.err != nil {
			a.time = a.clock.Now()
		}
	}
	return scan, err
}

// shareHead is the age of a digest that policies share which look for the same tag of
// a pull request's image.
const shareHead = 5 * time.Second

// Resolve asks for a tag's image once in a look. Policies that share the list
// share what was asked for since; those that have another source than a registry,
// within their interval.
func (a *asker) Resolve(image int, tag string) (registry.Image, error) {
	return ask(a, a.images, ref{image, tag}, image, func(r registry.Request) (registry.Image, error) {
		r.MaxAge = a.clock.Since(a.time) + 1
		switch q := &a.question; {
		case a.impatient || q.registers():
		case strings.HasPrefix(q.source, "github pull requests"):
			r.MaxAge = shareHead
		default:
			r.MaxAge = a.pace.Fresh(q.interval)
		}
		return a.scanner.Resolve(a.ctx, r, tag)
	})
}

// Inspect asks for what an image says of itself once in a look.
func (a *asker) Inspect(image int, digest, platform string) (registry.Image, error) {
	return ask(a, a.details, ref{image, digest}, image, func(r registry.Request) (registry.Image, error) {
		return a.scanner.Inspect(a.ctx, r, digest, platform)
	})
}

// Verify asks once in a look whether an image is signed.
func (a *asker) Verify(image int, digest string) (cosign.Result, error) {
	return ask(a, a.verified, ref{image, digest}, image, func(r registry.Request) (cosign.Result, error) {
		if !a.impatient {
			r.MaxAge = a.question.interval // what was refused for long need not be looked at each time
		}
		return a.verifier.Verify(a.ctx, r, digest, a.access.keys)
	})
}

// Gone asks for the proof of absence once in a look; without a digest for that of the
// tag.
func (a *asker) Gone(tag, digest, witness string) (bool, error) {
	return ask(a, a.absent, tag+"@"+digest, 0, func(r registry.Request) (bool, error) {
		return a.scanner.Gone(a.ctx, r, tag, digest, witness)
	})
}

// Waits after a failure that time may mend.
const (
	retryFirst = 15 * time.Second
	retryMost  = 5 * time.Minute
)

// close sets when to look again: an interval after the list was asked for, so that
// policies that share it look at the same time and none is staler than its
// interval, up to a tenth earlier, so that not all ask in the same second, and less
// often while nothing is new; for pull requests that wait for an image, sooner. After a
// failure: when the registry says so, sooner than the interval where time alone may
// mend it, else with the interval. A look that was done before, and learned more,
// is never due later than it was.
func (l *look) close(err error, now time.Time) {
	interval, due := l.question.interval, now
	var e *registry.Error
	switch {
	case err == nil:
		if l.saw = l.seen(); l.due.IsZero() && l.news != "" {
			l.pace = l.pace.After(l.news != l.saw)
		}
		due = l.time.Add(l.pace.Wait(interval, rand.Int64N))
		if soon := now.Add(retimed); l.untimed && soon.Before(due) {
			due = soon
		}
		for _, h := range l.heads {
			if !h.next.IsZero() && h.next.Before(due) {
				due = h.next
			}
		}
	case errors.As(err, &e) && e.Kind == registry.RateLimited && e.RetryAt.After(now):
		due = e.RetryAt
	case errors.As(err, &e) && !e.Kind.Transient():
		due = now.Add(interval)
	default:
		due = now.Add(min(retryMost, max(retryFirst, interval/4), interval))
	}
	if err != nil && l.saw == "" {
		l.saw = l.news
	}
	if l.due.IsZero() || due.Before(l.due) {
		l.due = due
	}
}

// seen is a checksum of what the registry said. Of pull requests, which have times of
// their own, it always is news.
func (l *look) seen() string {
	if l.list == nil || len(l.heads) > 0 {
		return ""
	}
	refs := slices.SortedFunc(maps.Keys(l.images), compareRefs)
	digests := make([]string, len(refs))
	for i, r := range refs {
		digests[i] = r.identifier + " " + l.images[r].value.Digest
	}
	return checksum(l.list.value.Checksum, digests)
}
