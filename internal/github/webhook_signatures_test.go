package github

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/heighliner/heighliner/internal/github/githubtest"
)

var secret = []byte("secret-hook")

func TestParseWebhook(t *testing.T) {
	w := newWorld(t)
	w.open(12)
	sha := w.repo.Push(12)
	opened := w.repo.PullRequestEvent(12, "synchronize")
	updated := w.repo.PullRequest(12).UpdatedAt
	w.repo.Close(12, true)
	tests := map[string]struct {
		delivery githubtest.Delivery
		want     Event
	}{
		"ping":                {w.repo.Ping(), Event{Type: "ping", Repository: "acme/shop"}},
		"pull request":        {opened, Event{Type: "pull_request", Action: "synchronize", Repository: "acme/shop", Number: 12, Updated: updated}},
		"closed pull request": {w.repo.PullRequestEvent(12, "closed"), Event{Type: "pull_request", Action: "closed", Repository: "acme/shop", Number: 12, Updated: w.repo.PullRequest(12).UpdatedAt, Closed: true}},
		"push":                {w.repo.PushEvent("main", sha), Event{Type: "push", Repository: "acme/shop"}},
		"package":             {w.repo.PackageEvent("package", "shop"), Event{Type: "package", Action: "published", Repository: "acme/shop", Package: "shop"}},
		"package, for an App": {w.repo.PackageEvent("registry_package", "shop"), Event{Type: "registry_package", Action: "published", Repository: "acme/shop", Package: "shop"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			test.want.Delivery, test.want.RepositoryID = test.delivery.ID, w.repo.ID()
			for range 2 { // the second time as a redelivery
				r := must(test.delivery.Request(t.Context(), "http://heighliner.example/hook", secret))(t)
				if diff := cmp.Diff(test.want, must(ParseWebhook(r, secret, 0))(t)); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			}
		})
	}
}

func TestWebhookIsRefused(t *testing.T) {
	w := newWorld(t)
	w.open(1)
	delivery := w.repo.PullRequestEvent(1, "opened")
	tests := map[string]struct {
		change func(*http.Request)
		secret []byte
		want   int
	}{
		"no signature":                {func(r *http.Request) { r.Header.Del("X-Hub-Signature-256") }, secret, 401},
		"SHA-1 signature":             {func(r *http.Request) { signOld(r, "X-Hub-Signature") }, secret, 401},
		"SHA-1 in SHA-256 header":     {func(r *http.Request) { signOld(r, "X-Hub-Signature-256") }, secret, 401},
		"another secret":              {func(*http.Request) {}, []byte("other"), 401},
		"empty signature":             {func(r *http.Request) { r.Header.Set("X-Hub-Signature-256", "sha256=") }, secret, 401},
		"not hexadecimal":             {func(r *http.Request) { r.Header.Set("X-Hub-Signature-256", "sha256=xyz") }, secret, 401},
		"empty secret":                {func(*http.Request) {}, nil, 403},
		"signed with an empty secret": {func(r *http.Request) { r.Header.Set("X-Hub-Signature-256", githubtest.Sign(delivery.Payload, nil)) }, []byte{}, 403},
		"changed body":                {func(r *http.Request) { r.Body = io.NopCloser(strings.NewReader(`{"action":"closed"}`)) }, secret, 401},
		"form":                        {func(r *http.Request) { r.Header.Set("Content-Type", "application/x-www-form-urlencoded") }, secret, 415},
		"GET":                         {func(r *http.Request) { r.Method = http.MethodGet }, secret, 405},
		"no event":                    {func(r *http.Request) { r.Header.Del("X-GitHub-Event") }, secret, 400},
		"no delivery":                 {func(r *http.Request) { r.Header.Del("X-GitHub-Delivery") }, secret, 400},
		"not JSON": {func(r *http.Request) {
			r.Body = io.NopCloser(strings.NewReader("hello"))
			r.Header.Set("X-Hub-Signature-256", githubtest.Sign([]byte("hello"), secret))
		}, secret, 400},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := must(delivery.Request(t.Context(), "http://heighliner.example/hook", secret))(t)
			test.change(r)
			_, err := ParseWebhook(r, test.secret, 0)
			var refused *WebhookError
			if !errors.As(err, &refused) || refused.Status != test.want {
				t.Fatalf("error %v, want status %d", err, test.want)
			}
			if strings.Contains(err.Error(), "secret-") {
				t.Errorf("message %q contains the secret", err)
			}
		})
	}
}

// signOld signs a request with SHA-1, as GitHub still does in addition to SHA-256.
func signOld(r *http.Request, header string) {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	mac := hmac.New(sha1.New, secret)
	mac.Write(body)
	r.Header.Del("X-Hub-Signature-256")
	r.Header.Set(header, "sha1="+hex.EncodeToString(mac.Sum(nil)))
}

// endless counts the bytes that are read from it.
type endless struct{ read int64 }

func (e *endless) Read(p []byte) (int, error) {
	e.read += int64(len(p))
	return len(p), nil
}

func TestWebhookBodyIsBounded(t *testing.T) {
	tests := map[string]struct {
		length int64 // announced length
		most   int64 // maximum number of bytes read
	}{
		"30 MB":                      {30 << 20, 0},
		"without end":                {-1, MaxPayload + 1<<20},
		"longer than Content-Length": {1000, MaxPayload + 1<<20},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			body := &endless{}
			r := must(http.NewRequestWithContext(context.Background(), http.MethodPost, "http://heighliner.example/hook", body))(t)
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("X-GitHub-Event", "push")
			r.Header.Set("X-GitHub-Delivery", "1")
			r.Header.Set("X-Hub-Signature-256", githubtest.Sign(nil, secret))
			r.ContentLength = test.length
			_, err := ParseWebhook(r, secret, 0)
			var refused *WebhookError
			if !errors.As(err, &refused) || refused.Status != http.StatusRequestEntityTooLarge {
				t.Fatalf("error %v, want status 413", err)
			}
			if body.read > test.most {
				t.Errorf("%d bytes were read, want at most %d", body.read, test.most)
			}
		})
	}
}

// TestDeliveryArrives sends a delivery over the network, twice.
func TestDeliveryArrives(t *testing.T) {
	w := newWorld(t)
	w.open(1)
	var got []Event
	hook := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		e, err := ParseWebhook(r, secret, 2<<20)
		var refused *WebhookError
		if errors.As(err, &refused) {
			rw.WriteHeader(refused.Status)
			return
		}
		got = append(got, e)
		rw.WriteHeader(http.StatusAccepted)
	}))
	defer hook.Close()
	delivery := w.repo.PullRequestEvent(1, "labeled")
	for range 2 {
		if status := must(delivery.Send(t.Context(), hook.Client(), hook.URL, secret))(t); status != http.StatusAccepted {
			t.Errorf("status %d, want 202", status)
		}
	}
	if status := must(delivery.Send(t.Context(), hook.Client(), hook.URL, nil))(t); status != http.StatusUnauthorized {
		t.Errorf("status %d without a signature, want 401", status)
	}
	if len(got) != 2 || got[0] != got[1] || got[0].Number != 1 {
		t.Errorf("events %+v, want the same event twice", got)
	}
}
