package githubrepository

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/heighliner/heighliner/internal/contain"
	"github.com/heighliner/heighliner/internal/github"
)

// requestCache shares responses between GitHubRepositories with the same credentials. Responses
// belong to one [github.Client], that is, to one server and credential, so that tenants never
// see responses to requests with the credentials of other tenants.
type requestCache struct {
	clock clock.PassiveClock

	mu      sync.Mutex
	answers map[subject]*answer
	size    int       // of the complete responses, in bytes
	expired time.Time // when expired responses were last removed
}

// subject is what a request asks for: a part of a repository, for one client.
type subject struct {
	client *github.Client
	repo   string // in lower case
	part   string // such as "tags" or "pull 7"
}

// answer is the response to a request. value and err are valid only after done is closed.
type answer struct {
	started time.Time
	done    chan struct{}
	value   any
	err     error
}

// finished reports whether the response is complete.
func (a *answer) finished() bool {
	select {
	case <-a.done:
		return true
	default:
		return false
	}
}

// answerLifetime is how long responses are kept at least, and maxAnswers is their maximum total size in bytes. Beyond this size, the
// oldest responses are removed until three quarters remain, so that not every request has to sort them. If a removed response is
// needed again, a new request is sent. Expired responses are removed once every expiryInterval.
const (
	answerLifetime = time.Hour
	expiryInterval = time.Minute
	maxAnswers     = 32 << 20
)

func newRequestCache(c clock.PassiveClock) *requestCache {
	return &requestCache{clock: c, answers: map[subject]*answer{}}
}

// cached returns the response to an earlier request if that request was made after the given time. Otherwise, it
// makes a request. It also returns the time of the request. Concurrent callers share one request. Errors are
// not cached. A request continues even if its caller no longer waits for it.
func cached[T any](ctx context.Context, s *requestCache, c *github.Client, repo github.Repo, part string, after time.Time, request func(context.Context) (T, error)) (T, time.Time, error) {
	what := subject{client: c, repo: strings.ToLower(repo.String()), part: part}
	for {
		a, started := s.findOrRequest(ctx, what, after, func(ctx context.Context) (any, error) { return request(ctx) })
		select {
		case <-a.done:
		case <-ctx.Done():
			var none T
			return none, a.started, ctx.Err()
		}
		if started || a.started.After(after) {
			value, _ := a.value.(T)
			return value, a.started, a.err
		}
	}
}

// findOrRequest returns an existing response, or starts a request and returns true.
func (s *requestCache) findOrRequest(ctx context.Context, what subject, after time.Time, request func(context.Context) (any, error)) (*answer, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a := s.answers[what]; a != nil && (!a.finished() || a.err == nil && a.started.After(after)) {
		return a, false
	}
	now := s.clock.Now()
	s.expire(now)
	s.remove(what)
	a := &answer{started: now, done: make(chan struct{})}
	s.answers[what] = a
	go func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), maxPoll)
		defer cancel()
		a.err = contain.Panics(func() (err error) { a.value, err = request(ctx); return err })
		s.finish(a)
	}()
	return a, true
}

// finish completes a response, and removes the oldest complete responses if their total size exceeds maxAnswers.
func (s *requestCache) finish(a *answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(a.done)
	if s.size += a.size(); s.size <= maxAnswers {
		return
	}
	var complete []subject
	for what, a := range s.answers {
		if a.finished() {
			complete = append(complete, what)
		}
	}
	slices.SortFunc(complete, func(x, y subject) int { return s.answers[x].started.Compare(s.answers[y].started) })
	for _, what := range complete {
		if s.size <= maxAnswers/4*3 {
			return
		}
		s.remove(what)
	}
}

// expire removes the expired responses, unless it did so less than expiryInterval ago.
func (s *requestCache) expire(now time.Time) {
	if now.Sub(s.expired) < expiryInterval {
		return
	}
	s.expired = now
	for what, a := range s.answers {
		if now.Sub(a.started) > answerLifetime {
			s.remove(what)
		}
	}
}

// remove removes a complete response.
func (s *requestCache) remove(what subject) {
	if a := s.answers[what]; a != nil && a.finished() {
		s.size -= a.size()
		delete(s.answers, what)
	}
}

// size returns the approximate size of a complete response in bytes.
func (a *answer) size() int {
	const item = 512 // the approximate size of an item, including short texts
	switch value := a.value.(type) {
	case github.PullRequests:
		n := item
		for i := range value.Items {
			n += item + value.Items[i].Text()
		}
		return n
	case github.List[github.Release]:
		return item * (1 + len(value.Items))
	case github.List[github.Tag]:
		return item * (1 + len(value.Items))
	}
	return item
}
