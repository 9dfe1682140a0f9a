package hostile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/heighliner/heighliner/internal/github"
	"github.com/heighliner/heighliner/internal/registry"
	"github.com/heighliner/heighliner/internal/registry/registrytest"
)

// These are the limits on concurrent work: GitHub polls, registry scans, and scans of one registry for one
// namespace.
const (
	manyPolls = 16
	manyScans = 32
	someScans = 4
)

// listAll reads the maximum number of concurrent lists of pull requests.
func listAll(ctx context.Context, t testing.TB, answer http.HandlerFunc) error {
	t.Helper()
	pool := github.NewPool(github.Options{Outbound: loopback(t)})
	ended := make(chan error, manyPolls)
	for i, url := range hosts(t, answer, manyPolls) {
		for n := range perHost {
			c, err := pool.Client(github.Config{BaseURL: url, Credential: github.Credential{Token: fmt.Sprintf("t-%d-%d", i, n)}})
			if err != nil {
				return err
			}
			go func() {
				_, err := c.OpenPullRequests(ctx, shop)
				ended <- err
			}()
		}
	}
	var refused error
	for range manyPolls {
		select {
		case err := <-ended:
			refused = errors.Join(refused, err)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if refused == nil {
		return errors.New("all lists were accepted")
	}
	return refused
}

// nested returns a handler that responds with pull requests whose repositories have parents. count is the
// total number of pull requests.
func nested(count int) http.HandlerFunc {
	const depth = 4000
	one := `{"head":{"repo":` + strings.Repeat(`{"parent":`, depth) + `{}` + strings.Repeat("}", depth) + `}}`
	text := "[" + strings.Repeat(one+",", count/depth-1) + one + "]"
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, text)
	}
}

// long returns a handler that responds with a pull request of size bytes.
func long(size int) http.HandlerFunc {
	text := `[{"body":"` + strings.Repeat("a", size) + `"}]`
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, text)
	}
}

// scanAll concurrently reads the given number of tag lists from a registry.
func scanAll(ctx context.Context, t testing.TB, scans int, answer http.HandlerFunc) error {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v2/" {
			answer(w, r)
		}
	}))
	t.Cleanup(server.Close)
	scanner := registry.New(registry.Options{Outbound: registrytest.Outbound()})
	ended := make(chan error, scans)
	for i := range scans {
		go func() {
			_, err := scanner.List(ctx, registry.Request{Repository: fmt.Sprintf("%s/acme/web-%d", strings.TrimPrefix(server.URL, "http://"), i), Timeout: time.Minute, MaxTags: 100_000})
			ended <- err
		}()
	}
	result := errors.New("all lists were read")
	for range scans {
		select {
		case err := <-ended:
			if err != nil {
				result = err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return result
}

// longTags returns a handler that responds with the maximum number of long tags.
func longTags() http.HandlerFunc {
	var text strings.Builder
	text.WriteString(`{"tags":["a"`)
	for n := range 118_000 {
		fmt.Fprintf(&text, `,"%0128d"`, n)
	}
	text.WriteString("]}")
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, text.String())
	}
}

func init() {
	for name, play := range map[string]func(context.Context, testing.TB) error{
		"the maximum number of concurrent lists of pull requests": func(ctx context.Context, t testing.TB) error {
			return listAll(ctx, t, nested(64_000))
		},
		"the maximum number of concurrent lists, each with countless pull requests": func(ctx context.Context, t testing.TB) error {
			return listAll(ctx, t, nested(128_000))
		},
		"the maximum number of concurrent lists, each with one long pull request": func(ctx context.Context, t testing.TB) error {
			return listAll(ctx, t, long(5<<20-100))
		},
		"the maximum number of concurrent lists of long tags in a namespace": func(ctx context.Context, t testing.TB) error {
			return scanAll(ctx, t, someScans, longTags())
		},
		"the maximum number of concurrent lists, each with one long tag": func(ctx context.Context, t testing.TB) error {
			return scanAll(ctx, t, manyScans, filledTo(15<<20, `{"tags":["`, "a", `"]}`))
		},
		"the maximum number of concurrent error responses": func(ctx context.Context, t testing.TB) error {
			text := strings.Repeat("a", 15<<20)
			return scanAll(ctx, t, manyScans, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusForbidden)
				_, _ = io.WriteString(w, text)
			})
		},
	} {
		cases[name] = play
	}
}

// filledTo returns a handler that responds with a text of size bytes.
func filledTo(size int, first, element, last string) http.HandlerFunc {
	text := first + strings.Repeat(element, (size-len(first)-len(last))/len(element)) + last
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, text)
	}
}
