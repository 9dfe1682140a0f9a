package githubrepository

import (
	"context"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/heighliner/heighliner/internal/github"
)

// shared asks GitHub once for what several GitHubRepositories want to know with the
// same credential. Its answers are those to one [github.Client], which belongs to one
// server and credential: no tenant sees what another one was told.
type shared struct {
	clock clock.PassiveClock

	mu      sync.Mutex
	answers map[subject]*answer
}

// subject of a question: a part of a repository, seen by a client.
type subject struct {
	client *github.Client
	repo   string // in lower case
	part   string // as in "tags" or "pull 7"
}

// answer to a question. All but started is to be read only once done is closed.
type answer struct {
	started time.Time
	done    chan struct{}
	value   any
	err     error
}

// finished says that the answer is there.
func (a *answer) finished() bool {
	select {
	case <-a.done:
		return true
	default:
		return false
	}
}

// keepAnswer is how long an answer may be of use.
const keepAnswer = time.Hour

func newShared(c clock.PassiveClock) *shared {
	return &shared{clock: c, answers: map[subject]*answer{}}
}

// ask gives an answer to a question that was asked after a time, and the time at which
// it was. Who asks while another one waits for the same answer waits with him; answers
// that are errors are of no further use. A request goes on when who asked does not
// wait any more.
func ask[T any](ctx context.Context, s *shared, c *github.Client, repo github.Repo, part string, after time.Time, request func(context.Context) (T, error)) (T, time.Time, error) {
	what := subject{client: c, repo: strings.ToLower(repo.String()), part: part}
	for {
		a, mine := s.find(ctx, what, after, func(ctx context.Context) (any, error) { return request(ctx) })
		select {
		case <-a.done:
		case <-ctx.Done():
			var none T
			return none, a.started, ctx.Err()
		}
		if mine || a.started.After(after) {
			value, _ := a.value.(T)
			return value, a.started, a.err
		}
	}
}

// find gives the answer that is there or under way, or asks, and says so.
func (s *shared) find(ctx context.Context, what subject, after time.Time, request func(context.Context) (any, error)) (*answer, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a := s.answers[what]; a != nil && (!a.finished() || a.err == nil && a.started.After(after)) {
		return a, false
	}
	now := s.clock.Now()
	for k, a := range s.answers {
		if a.finished() && now.Sub(a.started) > keepAnswer {
			delete(s.answers, k)
		}
	}
	a := &answer{started: now, done: make(chan struct{})}
	s.answers[what] = a
	go func() {
		defer close(a.done)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), maxLook)
		defer cancel()
		a.value, a.err = request(ctx)
	}()
	return a, true
}
