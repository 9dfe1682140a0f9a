package analysis

import (
	"context"
	"crypto/sha256"
	"sync"
	"time"

	"github.com/heighliner/heighliner/internal/contain"
)

const (
	// maxTokens is the maximum number of access tokens in memory. Each token is at most 8 KiB in size.
	maxTokens = 1024
	// tokenReserve is the time before a token's expiry during which the token is no longer used.
	tokenReserve = time.Minute
	// tokenTimeout limits one request for a token. The context of the first caller does not limit it, because other callers may still wait for the token.
	tokenTimeout = 10 * time.Second
)

// tokens keeps access tokens until shortly before they expire. It is safe for concurrent use.
type tokens struct {
	now func() time.Time

	mu   sync.Mutex
	held map[tokenKey]*token
}

// tokenKey identifies a Secret and its content. When the content changes, another token is fetched.
type tokenKey struct {
	namespace, secret string
	content           [sha256.Size]byte
}

// token is an access token or a request for an access token. Its text is available when done is closed.
type token struct {
	done  chan struct{}
	text  string
	err   *Error
	until time.Time // zero while the request is in progress
}

func newTokens(now func() time.Time) *tokens { return &tokens{now: now, held: map[tokenKey]*token{}} }

// get returns the token for a key. If no valid token is in memory, it calls fetch, which returns a token with its lifetime. For concurrent callers,
// fetch runs only once. Errors are not cached.
func (t *tokens) get(ctx context.Context, key tokenKey, fetch func(context.Context) (string, time.Duration, *Error)) (string, *Error) {
	t.mu.Lock()
	k := t.held[key]
	if k == nil || !k.until.IsZero() && !t.now().Before(k.until) {
		k = &token{done: make(chan struct{})}
		t.makeSpace()
		t.held[key] = k
		go t.fill(context.WithoutCancel(ctx), key, k, fetch)
	}
	t.mu.Unlock()
	select {
	case <-k.done:
		return k.text, k.err
	case <-ctx.Done():
		return "", errorf(Timeout, "fetch an access token: no response in time")
	}
}

// fill fetches a token and keeps it for its lifetime.
func (t *tokens) fill(ctx context.Context, key tokenKey, k *token, fetch func(context.Context) (string, time.Duration, *Error)) {
	ctx, cancel := context.WithTimeout(ctx, tokenTimeout)
	defer cancel()
	var text string
	var life time.Duration
	var err *Error
	if panicked := contain.Panics(func() error { text, life, err = fetch(ctx); return nil }); panicked != nil {
		err = errorf(BadAnswer, "fetch an access token: %s", panicked)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	k.text, k.err = text, err
	k.until = t.now().Add(life - tokenReserve)
	close(k.done)
	if (err != nil || life <= tokenReserve) && t.held[key] == k {
		delete(t.held, key)
	}
}

// forget drops a token that was rejected, unless another token has replaced it.
func (t *tokens) forget(key tokenKey, text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if k := t.held[key]; k != nil && !k.until.IsZero() && k.text == text {
		delete(t.held, key)
	}
}

// makeSpace drops expired tokens. If there are still too many, it drops the token that expires first. The caller holds t.mu.
func (t *tokens) makeSpace() {
	if len(t.held) < maxTokens {
		return
	}
	var first tokenKey
	var until time.Time
	for key, k := range t.held {
		switch {
		case k.until.IsZero(): // in progress
		case !t.now().Before(k.until):
			delete(t.held, key)
		case until.IsZero() || k.until.Before(until):
			first, until = key, k.until
		}
	}
	if len(t.held) >= maxTokens {
		delete(t.held, first)
	}
}
