package registry

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/utils/clock"

	"github.com/heighliner/heighliner/internal/outbound"
)

// The pause after a 429: what Retry-After says, at most maxPause and at least
// minPause; defaultPause when it says nothing that can be read.
const (
	minPause     = time.Second
	defaultPause = time.Minute
	maxPause     = time.Hour
)

// gate is the RoundTripper through which all requests with one credential to one
// registry go, those to its token server and its storage included.
type gate struct {
	next    http.RoundTripper
	clock   clock.Clock
	bucket  *rate.Limiter
	maxBody int64

	mu    sync.Mutex
	until time.Time // end of the pause
}

// RoundTrip lets a request pass when there is no pause and the bucket has a
// token. It answers 429 with a *pausedError, which nothing retries.
func (g *gate) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := g.admit(req.Context()); err != nil {
		if req.Body != nil {
			req.Body.Close()
		}
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(req.Context())
	resp, err := g.next.RoundTrip(req.WithContext(ctx))
	if err != nil {
		cancel(nil)
		return nil, err
	}
	body := &boundedBody{ReadCloser: resp.Body, left: g.maxBody, elements: maxElements, ctx: ctx, cancel: cancel}
	if _, list := pagesIn(ctx); list {
		body.left, body.elements = g.maxBody*maxListBodies, maxListElements
	}
	if resp.StatusCode == http.StatusTooManyRequests {
		body.Close()
		return nil, g.pause(resp.Header.Get("Retry-After"))
	}
	resp.Body = body
	mendLink(resp)
	if req.Method != http.MethodHead {
		go body.watch(g.clock)
	}
	return resp, nil
}

func (g *gate) admit(ctx context.Context) error {
	if err := g.check(); err != nil {
		return err
	}
	now := g.clock.Now()
	turn := g.bucket.ReserveN(now, 1)
	if delay := turn.DelayFrom(now); delay > 0 {
		timer := g.clock.NewTimer(delay)
		defer timer.Stop()
		select {
		case <-ctx.Done():
			turn.CancelAt(g.clock.Now())
			return ctx.Err()
		case <-timer.C():
		}
	}
	return g.check() // a pause may have begun meanwhile
}

func (g *gate) check() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.clock.Now().Before(g.until) {
		return &pausedError{g.until}
	}
	return nil
}

func (g *gate) paused(now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return now.Before(g.until)
}

// pause closes the gate for everybody. A pause is never shortened by a later
// answer to an earlier request.
func (g *gate) pause(retryAfter string) error {
	now := g.clock.Now()
	until := now.Add(pauseFor(retryAfter, now))
	g.mu.Lock()
	defer g.mu.Unlock()
	if until.After(g.until) {
		g.until = until
	}
	return &pausedError{g.until}
}

// pauseFor reads a Retry-After header: seconds or a date.
func pauseFor(retryAfter string, now time.Time) time.Duration {
	pause := defaultPause
	if seconds, err := strconv.ParseUint(retryAfter, 10, 32); err == nil {
		pause = time.Duration(seconds) * time.Second
	} else if date, err := http.ParseTime(retryAfter); err == nil {
		pause = date.Sub(now)
	}
	return min(max(pause, minPause), maxPause)
}

// longestTimeout of a request, as spec.timeout allows.
const longestTimeout = 2 * time.Minute

// newTransport is the transport to registries. Addresses are checked after the
// name is resolved, at the connection, so that no redirect, token server or name
// leads around it; a proxy of the environment (HTTPS_PROXY, HTTP_PROXY, NO_PROXY) is
// used as proxies says.
func newTransport(allowed *outbound.Policy) *http.Transport {
	p := &proxies{choose: http.ProxyFromEnvironment, allowed: allowed}
	return &http.Transport{
		Proxy:                  p.proxyOf,
		DialContext:            p.dial,
		ForceAttemptHTTP2:      true,
		MaxIdleConns:           100,
		MaxIdleConnsPerHost:    8,
		MaxConnsPerHost:        32,
		IdleConnTimeout:        90 * time.Second,
		TLSHandshakeTimeout:    longestTimeout, // a request's own time is in its context
		MaxResponseHeaderBytes: 64 << 10,
	}
}
