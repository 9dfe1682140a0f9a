package registry

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/utils/clock"

	"github.com/heighliner/heighliner/internal/outbound"
)

// These are the durations of pauses after a 429. A pause lasts for the time in Retry-After, but at least minPause and at
// most maxPause. If the header is missing or invalid, the pause lasts for defaultPause.
const (
	minPause     = time.Second
	defaultPause = time.Minute
	maxPause     = time.Hour
)

// gate is the RoundTripper for all requests with one credential to one registry, including requests to the token server and the storage of the
// registry.
type gate struct {
	host    string // the host of the registry, with its port
	next    http.RoundTripper
	clock   clock.Clock
	bucket  *rate.Limiter
	rate    rate.Limit // full rate of the bucket, which is used unless a 429 reduces it
	maxBody int64
	pings   pings

	mu     sync.Mutex
	until  time.Time // end of the pause
	slowed time.Time // time of the latest 429, or of the latest increase of the rate after it; zero while the full rate is used
}

// RoundTrip waits for a token from the bucket, and sends the request. During a pause and after a 429, it returns a *pausedError, and the request is
// not retried. If possible, it responds to GET /v2/ from the cache. For a 304 response to a list request, it returns
// errNotModified.
func (g *gate) RoundTrip(req *http.Request) (*http.Response, error) {
	isPing := asksPing(req, g.host)
	if isPing {
		if resp, err := g.pings.recall(req, g.clock.Now()); resp != nil || err != nil {
			return resp, err
		}
	}
	if err := g.admit(req.Context()); err != nil {
		if req.Body != nil {
			req.Body.Close()
		}
		return nil, err
	}
	resp, err := g.send(listingIn(req.Context()).condition(req))
	if isPing {
		g.pings.record(req, resp, err, g.clock.Now())
	} else if err == nil && resp.StatusCode == http.StatusUnauthorized {
		g.pings.forget(req.URL)
	}
	return resp, err
}

// send sends a request and limits the size and rate of its response.
func (g *gate) send(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(req.Context())
	resp, err := g.next.RoundTrip(req.WithContext(ctx))
	if err != nil {
		cancel(nil)
		return nil, err
	}
	body := &boundedBody{ReadCloser: resp.Body, left: g.maxBody, elements: maxElements, ctx: ctx, cancel: cancel}
	listing := listingIn(ctx)
	if listing != nil {
		body.left, body.elements = g.maxBody*maxListBodies, maxListElements
	}
	if resp.StatusCode == http.StatusTooManyRequests {
		body.Close()
		g.slow()
		return nil, g.pause(resp.Header.Get("Retry-After"))
	}
	if wait, spent := quotaSpent(resp.Header, g.clock.Now()); spent {
		g.hold(wait)
	}
	if listing.answered(req, resp) {
		body.Close()
		return nil, errNotModified
	}
	resp.Body = body
	correctLink(resp)
	if req.Method != http.MethodHead {
		go body.watch(g.clock)
	}
	switch {
	case resp.StatusCode >= http.StatusBadRequest:
		body.cut = true
		body.left = min(body.left, maxRefusal)
	case listing.page(req):
		body.spelled = true
		if err := listing.read(body); err != nil {
			return nil, err
		}
		resp.Body = io.NopCloser(strings.NewReader("{}")) // The listing contains the tags.
	}
	return resp, nil
}

func (g *gate) admit(ctx context.Context) error {
	if err := g.check(); err != nil {
		return err
	}
	now := g.clock.Now()
	g.recover(now)
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
	return g.check() // A pause may have begun in the meantime.
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

// pause closes the gate for all requests. A later response to an earlier request never shortens a pause.
func (g *gate) pause(retryAfter string) error {
	return &pausedError{g.hold(pauseFor(retryAfter, g.clock.Now()))}
}

// hold closes the gate for all requests for the given time, and returns the end of the pause.
func (g *gate) hold(pause time.Duration) time.Time {
	until := g.clock.Now().Add(pause)
	g.mu.Lock()
	defer g.mu.Unlock()
	if until.After(g.until) {
		g.until = until
	}
	return g.until
}

// These constants control the rate after a 429. The rate is halved, but not below minRate. After each rateInterval without another 429, it is
// multiplied by rateStep until it reaches the full rate again.
const (
	minRate      = rate.Limit(1)
	rateStep     = 1.5
	rateInterval = time.Minute
)

// slow halves the rate. It does so only once for a series of 429 responses in which each arrives less than minPause after the previous one.
func (g *gate) slow() {
	now := g.clock.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.slowed.IsZero() || now.Sub(g.slowed) >= minPause {
		g.bucket.SetLimitAt(now, min(g.rate, max(minRate, g.bucket.Limit()/2)))
	}
	g.slowed = now
}

// recover raises the rate after a period without a 429.
func (g *gate) recover(now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.slowed.IsZero() || now.Sub(g.slowed) < rateInterval {
		return
	}
	next := min(g.rate, g.bucket.Limit()*rateStep)
	g.bucket.SetLimitAt(now, next)
	if g.slowed = now; next == g.rate {
		g.slowed = time.Time{}
	}
}

// pauseFor parses a Retry-After header, which contains seconds or a date.
func pauseFor(retryAfter string, now time.Time) time.Duration {
	pause := defaultPause
	if seconds, err := strconv.ParseUint(retryAfter, 10, 32); err == nil {
		pause = time.Duration(seconds) * time.Second
	} else if date, err := http.ParseTime(retryAfter); err == nil {
		pause = date.Sub(now)
	}
	return min(max(pause, minPause), maxPause)
}

// maxConnections is the maximum number of connections to one registry. All ImagePolicies share these connections. Up to the same
// number of idle connections are kept open for reuse.
const maxConnections = 32

// longestTimeout is the maximum value of spec.timeout.
const longestTimeout = 2 * time.Minute

// NewTransport returns the transport for registries. It checks addresses after name resolution when it connects, so that no redirect, token server or
// name bypasses the check. It uses the proxy environment variables (HTTPS_PROXY, HTTP_PROXY, NO_PROXY) as described in the comment on the proxies
// type.
func NewTransport(allowed *outbound.Policy) *http.Transport {
	p := &proxies{choose: http.ProxyFromEnvironment, allowed: allowed}
	return &http.Transport{
		Proxy:                  p.proxyOf,
		DialContext:            p.dial,
		ForceAttemptHTTP2:      true,
		MaxIdleConns:           100,
		MaxIdleConnsPerHost:    maxConnections,
		MaxConnsPerHost:        maxConnections,
		IdleConnTimeout:        90 * time.Second,
		TLSHandshakeTimeout:    longestTimeout, // The context of a request contains its timeout.
		MaxResponseHeaderBytes: 64 << 10,
	}
}
