package github

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	testclock "k8s.io/utils/clock/testing"
)

// roundTrip is a function that implements RoundTripper.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// reply returns a response with headers.
func reply(status int, headers ...string) *http.Response {
	h := http.Header{}
	for i := 0; i < len(headers); i += 2 {
		h.Set(headers[i], headers[i+1])
	}
	return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader("{}"))}
}

func get(t *testing.T, address string) *http.Request {
	t.Helper()
	return must(http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil))(t)
}

func TestFewConcurrentRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var inside atomic.Int32
		leave := make(chan struct{})
		g := newGate(roundTrip(func(*http.Request) (*http.Response, error) {
			inside.Add(1)
			<-leave
			return reply(200), nil
		}), testclock.NewFakeClock(time.Now()))
		for range 3 * maxConcurrent {
			go g.RoundTrip(get(t, "http://ghe.example/"))
		}
		synctest.Wait()
		if got := inside.Load(); got != maxConcurrent {
			t.Errorf("%d requests at a time, want %d", got, maxConcurrent)
		}
		close(leave)
		synctest.Wait()
		if got := inside.Load(); got != 3*maxConcurrent {
			t.Errorf("%d requests in total, want %d", got, 3*maxConcurrent)
		}
	})
}

// TestAnswersOutOfOrder checks that a response that arrives later does not always replace the reported limits.
func TestAnswersOutOfOrder(t *testing.T) {
	start := time.Unix(4_000_000_000, 0)
	clock := testclock.NewFakeClock(start)
	g := newGate(nil, clock)
	const reset = "4000001000"
	for _, remaining := range []string{"4000", "3998", "3999"} {
		if err := g.note(reply(200, "X-RateLimit-Limit", "5000", "X-RateLimit-Remaining", remaining, "X-RateLimit-Reset", reset)); err != nil {
			t.Fatal(err)
		}
	}
	g.note(reply(200, "X-RateLimit-Limit", "30", "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", reset, "X-RateLimit-Resource", "search"))
	g.note(reply(200, "X-RateLimit-Limit", "5000", "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "3999999999"))
	g.note(reply(429, "Retry-After", "600"))
	g.note(reply(429, "Retry-After", "60"))
	want := Budget{Limit: 5000, Remaining: 3998, Reset: time.Unix(4_000_001_000, 0), PausedUntil: start.Add(10 * time.Minute)}
	if diff := cmp.Diff(want, g.budget()); diff != "" {
		t.Errorf("budget (-want +got):\n%s", diff)
	}
}

// TestConcurrentSecondaryLimits checks that the responses to concurrent requests count as one secondary limit, and that the next limit still
// causes a longer pause.
func TestConcurrentSecondaryLimits(t *testing.T) {
	clock := testclock.NewFakeClock(time.Unix(4_000_000_000, 0))
	g := newGate(nil, clock)
	for _, pause := range []time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute} {
		want := clock.Now().Add(pause)
		for range maxConcurrent {
			if err := g.note(reply(429)); err == nil {
				t.Error("a response with status 429 is not reported as a limit")
			}
			clock.Step(time.Second)
		}
		if got := g.budget().PausedUntil; !got.Equal(want) {
			t.Errorf("paused until %s, want %s", got, want)
		}
		clock.SetTime(want)
	}
	g.note(reply(429, "Retry-After", "600")) // a longer pause that GitHub requests always counts
	g.note(reply(429))
	if got, want := g.budget().PausedUntil, clock.Now().Add(10*time.Minute); !got.Equal(want) {
		t.Errorf("paused until %s, want %s", got, want)
	}
}

func TestTokenGoesToItsServerOnly(t *testing.T) {
	base := must(url.Parse("https://ghe.example/api/v3/"))(t)
	tests := map[string]bool{
		"https://ghe.example/api/v3/repos":      true,
		"http://ghe.example/api/v3/repos":       false,
		"https://ghe.example.evil.test/":        false,
		"https://ghe.example:8443/api/v3/repos": false,
	}
	for address, want := range tests {
		t.Run(address, func(t *testing.T) {
			sent := ""
			a := &authorize{base: base, source: static("secret-a"), next: roundTrip(func(r *http.Request) (*http.Response, error) {
				sent = r.Header.Get("Authorization")
				return reply(200), nil
			})}
			_, err := a.RoundTrip(get(t, address))
			if (err == nil) != want || (sent == "Bearer secret-a") != want {
				t.Errorf("error %v, sent %q, want sent %v", err, sent, want)
			}
		})
	}
}
