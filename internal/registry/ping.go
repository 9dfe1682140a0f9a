package registry

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// pingAge is how long a registry's response to GET /v2/ is reused. The response shows how the registry authenticates requests.
const pingAge = 10 * time.Minute

// pings caches, by scheme and host, the responses to GET /v2/ requests with one credential. The library sends this request once for each
// repository.
type pings struct {
	mu      sync.Mutex
	answers map[string]ping
}

// ping is a response, or the error for a scheme that the registry does not support.
type ping struct {
	status int
	header http.Header
	err    error
	at     time.Time
}

// plainAllowed is the context key that marks requests that may use plain HTTP.
type plainAllowed struct{}

func withPlain(ctx context.Context) context.Context {
	return context.WithValue(ctx, plainAllowed{}, true)
}

// asksPing reports whether a request is a GET /v2/ request to the registry itself. Requests to hosts to which the registry redirects are
// excluded, because the registry could redirect to any number of hosts, and the cache of responses has no size limit.
func asksPing(req *http.Request, registry string) bool {
	return req.Method == http.MethodGet && req.URL.Path == "/v2/" && req.URL.RawQuery == "" && strings.EqualFold(req.URL.Host, registry)
}

// maxChallenge is the maximum size of the WWW-Authenticate fields of a cached response.
const maxChallenge = 4 << 10

func pingKey(u *url.URL, scheme string) string { return scheme + "://" + u.Host }

// recall returns the cached response to a request, or the cached error for HTTPS if HTTP is allowed and works. It returns nil for both if neither
// is cached.
func (p *pings) recall(req *http.Request, now time.Time) (*http.Response, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	known, ok := p.answers[pingKey(req.URL, req.URL.Scheme)]
	if !ok || now.Sub(known.at) >= pingAge {
		return nil, nil
	}
	if known.err == nil {
		return &http.Response{
			Status: http.StatusText(known.status), StatusCode: known.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
			Header: known.header.Clone(), Body: http.NoBody, Request: req,
		}, nil
	}
	plain, ok := p.answers[pingKey(req.URL, "http")]
	if allowed, _ := req.Context().Value(plainAllowed{}).(bool); allowed && ok && plain.err == nil && now.Sub(plain.at) < pingAge {
		return nil, known.err
	}
	return nil, nil
}

// record caches a response with status 200 or 401. It also caches an error for HTTPS, but the cached error is used only after HTTP has
// worked. It does not cache an error that was caused by the end of the request's context, or a response whose WWW-Authenticate fields are
// longer than maxChallenge bytes.
func (p *pings) record(req *http.Request, resp *http.Response, err error, now time.Time) {
	known := ping{at: now, err: err}
	switch {
	case err != nil && (req.URL.Scheme != "https" || req.Context().Err() != nil):
		return
	case err == nil && resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusUnauthorized:
		return
	case err == nil:
		known.status, known.header = resp.StatusCode, http.Header{}
		bytes := 0
		for _, challenge := range resp.Header.Values("WWW-Authenticate") {
			known.header.Add("WWW-Authenticate", challenge)
			bytes += len(challenge)
		}
		if bytes > maxChallenge {
			return
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.answers == nil {
		p.answers = map[string]ping{}
	}
	p.answers[pingKey(req.URL, req.URL.Scheme)] = known
}

// forget drops the cached response for a host after the response to another request contradicts it.
func (p *pings) forget(u *url.URL) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.answers, pingKey(u, u.Scheme))
}
