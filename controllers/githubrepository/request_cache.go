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

// answerLifetime is how long responses are kept, and maxAnswers is their maximum total size in bytes.
// Beyond this size, the oldest responses are removed. If a removed response is needed again, a new request is
// sent.
const (
	answerLifetime = time.Hour
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
	for k, a := range s.answers {
		if a.finished() && now.Sub(a.started) > answerLifetime {
			delete(s.answers, k)
		}
	}
	a := &answer{started: now, done: make(chan struct{})}
	s.answers[what] = a
	go func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), maxPoll)
		defer cancel()
		a.err = contain.Panics(func() (err error) { a.value, err = request(ctx); return err })
		close(a.done)
		s.forget()
	}()
	return a, true
}

// forget removes the oldest complete responses until the total size of the complete responses is at most maxAnswers.
func (s *requestCache) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	var complete []subject
	size := 0
	for what, a := range s.answers {
		if a.finished() {
			complete, size = append(complete, what), size+a.size()
		}
	}
	if size <= maxAnswers {
		return
	}
	slices.SortFunc(complete, func(x, y subject) int { return s.answers[x].started.Compare(s.answers[y].started) })
	for _, what := range complete {
		if size <= maxAnswers {
			return
		}
		size -= s.answers[what].size()
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
