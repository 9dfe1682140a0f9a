package analysis

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/heighliner/heighliner/internal/contain"
	"github.com/heighliner/heighliner/internal/outbound"
)

const (
	// keepAnswers is how long the response to a query is reused for identical queries.
	keepAnswers = time.Minute
	// keepEndpoints is how long an unused endpoint is kept in memory.
	keepEndpoints = 10 * time.Minute
	// defaultRetryAfter is how long the pool pauses requests to an endpoint that responds with "too many
	// requests" but without a Retry-After time. maxRetryAfter is the maximum length of such a pause.
	defaultRetryAfter = 30 * time.Second
	maxRetryAfter     = 5 * time.Minute
)

// pool limits the number of concurrent queries and the rate of queries to each endpoint. It sends identical queries only once.
type pool struct {
	ctx   context.Context
	slots *outbound.Slots
	rate  float64
	now   func() time.Time

	mu        sync.Mutex
	calls     map[query]*call
	endpoints map[string]*endpoint
	pruned    time.Time
}

// call is a query that was sent. Its response is available when done is closed.
type call struct {
	done   chan struct{}
	answer answer
	asked  time.Time
}

// endpoint is one server in combination with the credentials of one user.
type endpoint struct {
	limiter *rate.Limiter
	used    time.Time
	closed  time.Time // end of the pause that the endpoint requested
}

func newPool(ctx context.Context, workers int, perSecond float64, now func() time.Time) *pool {
	return &pool{
		ctx: ctx, rate: perSecond, now: now,
		slots: outbound.NewSlots(outbound.Bounds{All: workers, Namespace: workers / 4, Host: workers / 4, NamespaceHost: workers / 8}),
		calls: map[query]*call{}, endpoints: map[string]*endpoint{},
	}
}

// do returns the response to q. If an equal query has already been sent, it returns the response to that query. Otherwise, it calls send with the
// given timeout as soon as there is a free slot. It stops waiting when ctx is done.
func (p *pool) do(ctx context.Context, q query, timeout time.Duration, send func(context.Context) answer) answer {
	p.mu.Lock()
	p.prune()
	c := p.calls[q]
	if c == nil {
		c = &call{done: make(chan struct{}), asked: p.now()}
		p.calls[q] = c
		go func() {
			defer close(c.done)
			own := p.ctx // Other callers may wait for this response after the first caller has returned.
			if deadline, ok := ctx.Deadline(); ok {
				var cancel context.CancelFunc
				own, cancel = context.WithDeadline(own, deadline)
				defer cancel()
			}
			c.answer = contained(func() answer { return p.send(own, q, timeout, send) })
		}()
	}
	p.mu.Unlock()
	select {
	case <-c.done:
		return c.answer
	case <-ctx.Done():
		return answer{err: errorf(Timeout, "no response within the round")}
	}
}

// contained calls a function and returns its answer. If the function panics, the answer contains an error.
func contained(ask func() answer) (a answer) {
	if err := contain.Panics(func() error { a = ask(); return nil }); err != nil {
		return answer{err: errorf(BadAnswer, "%s", err)}
	}
	return a
}

// send sends a query when a slot is free.
func (p *pool) send(ctx context.Context, q query, timeout time.Duration, send func(context.Context) answer) answer {
	full := answer{err: errorf(Timeout, "the query was queued for the whole round: providers of this namespace are slow, or the manager runs too many queries")}
	leave, ok := p.slots.Enter(ctx, q.namespace, q.address)
	if !ok {
		return full
	}
	defer leave()
	e := p.endpoint(q.endpoint())
	if wait := p.throttled(e); wait > 0 {
		return answer{err: &Error{Reason: Throttled, RetryAfter: wait, Message: "the provider throttled an earlier request: no requests are sent to it for another " + wait.Round(time.Second).String()}}
	}
	if e.limiter.Wait(ctx) != nil {
		return full
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	a := send(ctx)
	if a.err != nil && a.err.Reason == Throttled {
		p.leave(e, a.err.RetryAfter)
	}
	return a
}

func (p *pool) endpoint(name string) *endpoint {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.endpoints[name]
	if e == nil {
		e = &endpoint{limiter: rate.NewLimiter(rate.Limit(p.rate), max(1, int(2*p.rate)))}
		p.endpoints[name] = e
	}
	e.used = p.now()
	return e
}

// leave stops requests to an endpoint for the given time.
func (p *pool) leave(e *endpoint, wait time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if wait <= 0 {
		wait = defaultRetryAfter
	}
	e.closed = p.now().Add(min(wait, maxRetryAfter))
}

func (p *pool) throttled(e *endpoint) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return e.closed.Sub(p.now())
}

// prune drops old responses and endpoints from time to time. The caller holds p.mu.
func (p *pool) prune() {
	now := p.now()
	if now.Sub(p.pruned) < keepAnswers/2 {
		return
	}
	p.pruned = now
	for q, c := range p.calls {
		select {
		case <-c.done:
			if now.Sub(c.asked) > keepAnswers {
				delete(p.calls, q)
			}
		default: // in progress
		}
	}
	for name, e := range p.endpoints {
		if now.Sub(e.used) > keepEndpoints && now.After(e.closed) {
			delete(p.endpoints, name)
		}
	}
}
