package github

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	testclock "k8s.io/utils/clock/testing"
)

type always struct{}

func (always) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusCreated, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("{}"))}, nil
}

// TestWritesOfAnHour checks that a user who always has more to write sends at most 80 writes in any minute and 500 in any hour, the numbers that
// GitHub accepts.
func TestWritesOfAnHour(t *testing.T) {
	clock := testclock.NewFakeClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	g := newGate(always{}, clock)
	var written []time.Time
	for range 3 * 3600 {
		for {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://api.github.com/repos/acme/shop/deployments", nil)
			if err != nil {
				t.Fatal(err)
			}
			response, err := g.RoundTrip(request)
			if err != nil {
				break
			}
			response.Body.Close()
			written = append(written, clock.Now())
		}
		clock.Step(time.Second)
	}
	for _, limit := range []struct {
		time time.Duration
		most int
	}{{time.Minute, 80}, {time.Hour, 500}} {
		begin := 0
		for end := range written {
			for written[end].Sub(written[begin]) >= limit.time {
				begin++
			}
			if n := end - begin + 1; n > limit.most {
				t.Fatalf("%d writes in %s, GitHub accepts %d", n, limit.time, limit.most)
			}
		}
	}
	if n := len(written); n < 900 {
		t.Errorf("%d writes in three hours: there is room for more", n)
	}
}
