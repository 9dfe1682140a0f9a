package github

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/utils/clock"
)

// These are the durations of pauses. GitHub counts requests by the hour. If a response reports that a secondary limit was reached, but does not
// specify how long to wait, GitHub asks clients to pause for at least a minute, and for longer if the limit is reached again.
const (
	minPause     = time.Second
	defaultPause = time.Minute
	maxPause     = time.Hour + 5*time.Minute
)

// These limits apply to writes. For writes that create content, GitHub's own limits are 80 per minute and 500 per hour.
// The following values allow at most 60 writes in any minute and 500 writes in any hour.
const (
	writesPerSecond = 0.5
	writeBurst      = 30
	writesPerHour   = 250 // in addition to a burst of the same size
)

// maxConcurrent is the maximum number of concurrent requests with one credential. GitHub asks clients to send few
// concurrent requests.
const maxConcurrent = 4

// reserve is the divisor that determines the part of the hourly limit that is reserved for writes: one tenth.
const reserve = 10

// Budget contains the limits that GitHub most recently reported for a credential.
type Budget struct {
	// Limit is the number of requests per hour; 0 while it is unknown.
	Limit int
	// Remaining is the number of requests that remain until Reset.
	Remaining int
	// Reset is the time at which GitHub resets the count.
	Reset time.Time
	// PausedUntil is the end of the pause that GitHub requested; zero if there is no pause.
	PausedUntil time.Time
}

// gate is the RoundTripper for all requests with the same credential. It records the limits that
// GitHub reports, and sends no request that would exceed them.
type gate struct {
	next   http.RoundTripper
	clock  clock.PassiveClock
	slots  chan struct{}
	writes []*rate.Limiter

	mu        sync.Mutex
	until     time.Time // end of the pause
	secondary int       // number of pauses for secondary limits since the last successful response
	limit     int
	remaining int
	reset     time.Time
}

func newGate(next http.RoundTripper, c clock.PassiveClock) *gate {
	return &gate{next: next, clock: c, slots: make(chan struct{}, maxConcurrent), writes: []*rate.Limiter{
		rate.NewLimiter(writesPerSecond, writeBurst), rate.NewLimiter(writesPerHour/3600.0, writesPerHour),
	}}
}

// writing is the key of the value that ForWriting adds to a context.
type writing struct{}

// ForWriting marks the context of reads that belong to a write. Such reads may use the reserve. The methods of Client that write mark their own
// reads. Callers need ForWriting only for other reads, for example to find the repository to write to.
func ForWriting(ctx context.Context) context.Context { return context.WithValue(ctx, writing{}, true) }

// RoundTrip sends a request unless a limit forbids it. It returns a *pausedError if a limit forbids the request, or if the response reports
// that a limit was reached.
func (g *gate) RoundTrip(r *http.Request) (*http.Response, error) {
	select {
	case g.slots <- struct{}{}:
		defer func() { <-g.slots }()
	case <-r.Context().Done():
		closeBody(r)
		return nil, r.Context().Err()
	}
	if err := g.admit(r); err != nil {
		closeBody(r)
		return nil, err
	}
	response, err := g.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if err := g.note(response); err != nil {
		response.Body.Close()
		return nil, err
	}
	return response, nil
}

func (g *gate) admit(r *http.Request) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.clock.Now()
	write := r.Method != http.MethodGet
	switch current := now.Before(g.reset); {
	case now.Before(g.until):
		return &pausedError{until: g.until}
	case current && g.remaining == 0:
		return &pausedError{until: g.reset}
	case current && g.remaining < g.limit/reserve && !write && r.Context().Value(writing{}) == nil:
		return &pausedError{until: g.reset, reserved: true}
	}
	if !write {
		return nil
	}
	var turns []*rate.Reservation
	var delay time.Duration
	for _, limiter := range g.writes {
		turn := limiter.ReserveN(now, 1)
		turns, delay = append(turns, turn), max(delay, turn.DelayFrom(now))
	}
	if delay == 0 {
		return nil
	}
	for _, turn := range turns {
		turn.CancelAt(now)
	}
	return fmt.Errorf("%w: %w", errWriting, &pausedError{until: now.Add(delay)})
}

// maxRefusal is the maximum number of bytes of an error response that are read, for example to detect whether a limit was reached.
const maxRefusal = 64 << 10

// note records the budget and the pause that a response reports.
func (g *gate) note(response *http.Response) error {
	now := g.clock.Now()
	g.mu.Lock()
	g.noteBudget(response.Header, now)
	switch response.StatusCode {
	case http.StatusForbidden, http.StatusTooManyRequests, http.StatusUnprocessableEntity:
	default:
		if response.StatusCode < 400 {
			g.secondary = 0
		}
		g.mu.Unlock()
		return nil
	}
	g.mu.Unlock()

	text, err := io.ReadAll(io.LimitReader(response.Body, maxRefusal))
	if err != nil {
		return err
	}
	rest := response.Body
	response.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(text), rest), rest}

	g.mu.Lock()
	defer g.mu.Unlock()
	pause, limited := g.pauseFor(response, text, now)
	if !limited {
		return nil
	}
	if until := now.Add(min(max(pause, minPause), maxPause)); until.After(g.until) {
		g.until = until // A later response to an earlier request never shortens the pause.
	}
	return &pausedError{until: g.until}
}

// noteBudget reads the headers of the hourly limit.
func (g *gate) noteBudget(h http.Header, now time.Time) {
	limit, err1 := strconv.Atoi(h.Get("X-RateLimit-Limit"))
	remaining, err2 := strconv.Atoi(h.Get("X-RateLimit-Remaining"))
	seconds, err3 := strconv.ParseInt(h.Get("X-RateLimit-Reset"), 10, 64)
	if err1 != nil || err2 != nil || err3 != nil || limit <= 0 || remaining < 0 {
		return
	}
	if resource := h.Get("X-RateLimit-Resource"); resource != "" && resource != "core" {
		return
	}
	reset := time.Unix(seconds, 0)
	if latest := now.Add(maxPause); reset.After(latest) {
		reset = latest
	}
	if !reset.After(now) {
		return // The values belong to an hour that has ended, or the clock of the server is behind.
	}
	// Responses can arrive out of order. Within an hour, the lowest reported value is used.
	if reset.Equal(g.reset) && limit == g.limit {
		remaining = min(remaining, g.remaining)
	}
	g.limit, g.remaining, g.reset = limit, remaining, reset
}

// tooQuickly is part of the message that GitHub sends with 422 if content is created too quickly.
const tooQuickly = "submitted too quickly"

// pauseFor reports whether a 403, 422 or 429 response means that a limit was reached, and for how long no request may
// be sent. Any other 422 response means that a value is invalid.
func (g *gate) pauseFor(response *http.Response, text []byte, now time.Time) (time.Duration, bool) {
	h := response.Header
	message := strings.ToLower(string(text))
	if response.StatusCode == http.StatusUnprocessableEntity && !strings.Contains(message, tooQuickly) {
		return 0, false
	}
	secondary := strings.Contains(message, tooQuickly) || strings.Contains(message, "secondary rate limit") || strings.Contains(message, "secondary-rate-limits") || strings.Contains(message, "abuse detection")
	if after := h.Get("Retry-After"); after != "" {
		if seconds, err := strconv.ParseUint(after, 10, 31); err == nil {
			return time.Duration(seconds) * time.Second, true
		}
		if date, err := http.ParseTime(after); err == nil {
			return date.Sub(now), true
		}
		return defaultPause, true
	}
	if h.Get("X-RateLimit-Remaining") == "0" {
		if seconds, err := strconv.ParseInt(h.Get("X-RateLimit-Reset"), 10, 64); err == nil && time.Unix(seconds, 0).After(now) {
			return time.Unix(seconds, 0).Sub(now), true
		}
		return defaultPause, true
	}
	if secondary || response.StatusCode == http.StatusTooManyRequests {
		if g.secondary > 0 && now.Before(g.until) { // This response belongs to another request that was sent before the pause.
			return g.until.Sub(now), true
		}
		pause := defaultPause << min(g.secondary, 6)
		g.secondary++
		return pause, true
	}
	return 0, false
}

// budget returns the known limits.
func (g *gate) budget() Budget {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.clock.Now()
	b := Budget{Limit: g.limit, Remaining: g.remaining, Reset: g.reset}
	if !now.Before(g.reset) {
		b.Remaining = g.limit // GitHub has reset the count.
	}
	if now.Before(g.until) {
		b.PausedUntil = g.until
	}
	return b
}
