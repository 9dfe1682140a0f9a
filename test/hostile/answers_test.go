package hostile

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/analysis"
	"github.com/heighliner/heighliner/internal/github"
	"github.com/heighliner/heighliner/internal/github/githubtest"
	"github.com/heighliner/heighliner/internal/hook"
	"github.com/heighliner/heighliner/internal/outbound"
)

// These are the limits on concurrent work: calls and queries for one namespace, and deliveries. Each case
// reaches its limit.
const (
	manyCalls      = 16
	manyQuestions  = 8
	manyDeliveries = 64
	// perHost is the number of concurrent calls and queries from a namespace to a host.
	perHost = 4
)

// filled returns a handler that responds with the maximum amount of JSON that the manager decodes.
func filled(first, element, last string) http.HandlerFunc {
	n := (outbound.DefaultMaxBody - len(first) - len(last)) / len(element)
	text := first + strings.Repeat(element, n) + last
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, text)
	}
}

// hosts starts servers with the same response, for the given number of calls. A namespace sends perHost concurrent
// requests to each server.
func hosts(t testing.TB, answer http.HandlerFunc, calls int) (urls []string) {
	t.Helper()
	for range calls / perHost {
		server := httptest.NewServer(answer)
		t.Cleanup(server.Close)
		urls = append(urls, server.URL)
	}
	return urls
}

// call makes the maximum number of concurrent hook calls for a namespace.
func call(ctx context.Context, t testing.TB, answer http.HandlerFunc) error {
	t.Helper()
	pool, err := hook.NewPool(hook.Options{Policy: loopback(t), Wait: func(int) time.Duration { return time.Hour }})
	if err != nil {
		return err
	}
	notified := make(chan types.NamespacedName, manyCalls)
	pool.Start(ctx, func(release types.NamespacedName) { notified <- release })
	for i, url := range hosts(t, answer, manyCalls) {
		for n := range perHost {
			release := types.NamespacedName{Namespace: "shop", Name: fmt.Sprintf("cart-%d-%d", i, n)}
			asked := []hook.Call{{
				Hook: v1alpha1.Hook{Name: "gate", Type: v1alpha1.HookConfirmRollout, URL: url, Timeout: "5s"}, Body: hook.Body{ID: release.Name},
			}}
			pool.Ask(release, asked, asked)
		}
	}
	message := ""
	for range manyCalls {
		select {
		case release := <-notified:
			for _, outcome := range pool.Outcomes(release) {
				message = outcome.Message
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return errors.New("all calls ended: " + message)
}

// ofPrometheus returns an analysis that queries the Prometheus server at a URL.
func ofPrometheus(url string) v1alpha1.CanaryAnalysis {
	return v1alpha1.CanaryAnalysis{
		Provider: v1alpha1.AnalysisProvider{Prometheus: &v1alpha1.PrometheusProvider{Address: url}},
		Metrics:  []v1alpha1.AnalysisMetric{{Name: "errors", Prometheus: &v1alpha1.PrometheusMetric{Query: "up"}}},
	}
}

func ofWeb(url string) v1alpha1.CanaryAnalysis {
	return v1alpha1.CanaryAnalysis{Metrics: []v1alpha1.AnalysisMetric{{Name: "errors", Web: &v1alpha1.WebMetric{URL: url, Value: "body.map(x, x)[0]"}}}}
}

const (
	vector = `{"status":"success","data":{"resultType":"vector","result":`
	sample = `{"metric":{"a":""},"value":[0,"1"]}`
)

// measure makes the maximum number of concurrent measurements for a namespace.
func measure(ctx context.Context, t testing.TB, of func(string) v1alpha1.CanaryAnalysis, answer http.HandlerFunc) error {
	t.Helper()
	notified := make(chan types.NamespacedName, manyQuestions)
	m, err := analysis.New(analysis.Config{Outbound: loopback(t), Requeue: func(key types.NamespacedName) { notified <- key }})
	if err != nil {
		return err
	}
	go func() { _ = m.Start(ctx) }() // Start returns when ctx ends, without an error.
	requests := map[types.NamespacedName]analysis.Request{}
	for i, url := range hosts(t, answer, manyQuestions) {
		for n := range perHost {
			key := types.NamespacedName{Namespace: "shop", Name: fmt.Sprintf("cart-%d-%d", i, n)}
			requests[key] = analysis.Request{At: time.Now().Truncate(time.Second), Spec: of(url), Canary: analysis.Target{Namespace: key.Namespace, Release: key.Name}}
			m.Ask(key, requests[key])
		}
	}
	message := ""
	for range manyQuestions {
		select {
		case key := <-notified:
			if round, done := m.Ask(key, requests[key]); done {
				message = round.Measurements[0].Message
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return errors.New("all measurements ended: " + message)
}

// signing is the secret of a webhook.
var signing = []byte("signs")

// deliver reads the maximum number of concurrent deliveries.
func deliver(ctx context.Context, t testing.TB, secret []byte, size int, first, element, last string) error {
	t.Helper()
	block := []byte(strings.Repeat(element, max(1, 1<<16/len(element))))
	text := func() io.Reader { // The text belongs to the sender, so only the part that the manager stores counts.
		n := (size - len(first) - len(last)) / len(element)
		return &repeated{rest: []byte(first), element: block, more: n * len(element), last: []byte(last)}
	}
	sum := hmac.New(sha256.New, secret)
	if _, err := io.Copy(sum, text()); err != nil {
		return err
	}
	signature := "sha256=" + hex.EncodeToString(sum.Sum(nil))
	delivery := githubtest.Delivery{ID: "1", Event: "push"}
	ended := make(chan error, manyDeliveries)
	for range manyDeliveries {
		r, err := delivery.Request(ctx, "http://heighliner.example/github/shop/shop", secret)
		if err != nil {
			return err
		}
		r.Header.Set("X-Hub-Signature-256", signature)
		r.ContentLength = -1
		r.Body = io.NopCloser(text())
		go func() {
			_, err := github.ParseWebhook(r, signing, 0)
			ended <- err
		}()
	}
	var refused error
	for range manyDeliveries {
		select {
		case err := <-ended:
			if err != nil {
				refused = err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if refused == nil {
		return errors.New("all deliveries were accepted")
	}
	return refused
}

// repeated is a reader that returns a beginning, then an element repeatedly up to a number of bytes, and finally an end.
type repeated struct {
	rest, element []byte
	more          int
	last          []byte
}

func (r *repeated) Read(p []byte) (int, error) {
	for len(r.rest) == 0 {
		switch {
		case r.more > 0:
			r.rest = r.element[:min(len(r.element), r.more)]
			r.more -= len(r.rest)
		case r.last != nil:
			r.rest, r.last = r.last, nil
		default:
			return 0, io.EOF
		}
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// TestRepeated checks that the reader returns the signed text.
func TestRepeated(t *testing.T) {
	text, err := io.ReadAll(&repeated{rest: []byte("["), element: []byte("{},{},"), more: 9, last: []byte("{}]")})
	if want := "[{},{},{},{}]"; !bytes.Equal(text, []byte(want)) || err != nil {
		t.Errorf("read %q, %v, want %q", text, err, want)
	}
}
