package github

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"net/http"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/heighliner/heighliner/internal/outbound"
)

// Options configure a Pool. The zero value is suitable for production.
type Options struct {
	// Outbound defines the addresses to which clients may connect. Defaults to a policy that rejects loopback and link-local addresses and metadata
	// services.
	Outbound *outbound.Policy
	// Clock is used for limits and the age of tokens. Defaults to the real clock.
	Clock clock.PassiveClock
	// MaxClients is the maximum number of clients that are kept. Defaults to 256.
	MaxClients int
	// IdleAge is the time after which an unused client is dropped. Defaults to 65 minutes, because rate limits are outdated after that time.
	IdleAge time.Duration
}

// Pool keeps a client for each server and credential. It is safe for concurrent use. Use one pool for the whole process.
type Pool struct {
	options Options
	answers *store
	codes   codes

	mu      sync.Mutex
	shared  http.RoundTripper // used by all clients without custom CA certificates
	clients map[string]*pooled
}

type pooled struct {
	client *Client
	used   time.Time
}

// NewPool returns a Pool.
func NewPool(o Options) *Pool {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.MaxClients <= 0 {
		o.MaxClients = 256
	}
	if o.IdleAge <= 0 {
		o.IdleAge = maxPause
	}
	return &Pool{options: o, answers: newStore(maxStored), clients: map[string]*pooled{}}
}

// Client returns the client for a server and credential. It returns the same client until that client is dropped; see
// MaxClients and IdleAge. It sends no request. Errors are of kind BadConfig.
func (p *Pool) Client(config Config) (*Client, error) {
	base, err := parseBase(config.BaseURL)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %q %q", base, config.Credential.hash(), config.CA))
	key := fmt.Sprintf("%x", sum)

	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.options.Clock.Now()
	if known := p.clients[key]; known != nil {
		known.used = now
		return known.client, nil
	}
	transport, err := p.transport(config.CA)
	if err != nil {
		return nil, err
	}
	client, err := newClient(config, base, transport, p.answers, key, p.options.Clock)
	if err != nil {
		return nil, err
	}
	p.evict(now)
	p.clients[key] = &pooled{client: client, used: now}
	return client, nil
}

// transport returns the transport of a client. Clients can share connections, because credentials are part of requests, not of connections.
func (p *Pool) transport(ca []byte) (http.RoundTripper, error) {
	if len(ca) == 0 && p.shared != nil {
		return p.shared, nil
	}
	client, err := p.options.Outbound.Client(outbound.Options{Timeout: requestTimeout, MaxBody: maxBody, MaxElements: maxElements, CA: ca})
	if err != nil {
		return nil, &Error{Kind: BadConfig, Op: "read", Object: "certificates", detail: "no certificate in PEM format found", remedy: "store certificates in PEM format in the Secret", cause: err}
	}
	transport := counting{client.Transport, &p.codes}
	if len(ca) == 0 {
		p.shared = transport
	}
	return transport, nil
}

// codes counts requests by the status code of their responses. Code 0 means that there was no response.
type codes struct {
	mu    sync.Mutex
	count map[int]int
}

// counting is a RoundTripper that counts requests.
type counting struct {
	http.RoundTripper
	codes *codes
}

// RoundTrip counts a request.
func (c counting) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := c.RoundTripper.RoundTrip(r)
	code := 0
	if err == nil {
		code = response.StatusCode
	}
	c.codes.mu.Lock()
	defer c.codes.mu.Unlock()
	if c.codes.count == nil {
		c.codes.count = map[int]int{}
	}
	c.codes.count[code]++
	return response, err
}

// Requests returns the numbers of requests that were sent, keyed by the status code of the response. They are used for metrics. Code 0 means that
// there was no response.
func (p *Pool) Requests() map[int]int {
	p.codes.mu.Lock()
	defer p.codes.mu.Unlock()
	return maps.Clone(p.codes.count)
}

// evict drops the clients that have not been used for a long time. If there is still no space for another client, it
// drops the least recently used clients. Clients that GitHub paused are dropped last.
func (p *Pool) evict(now time.Time) {
	for key, c := range p.clients {
		if now.Sub(c.used) > p.options.IdleAge {
			p.remove(key)
		}
	}
	for len(p.clients) >= p.options.MaxClients {
		victim := ""
		for key, c := range p.clients {
			if victim == "" || before(c, p.clients[victim]) {
				victim = key
			}
		}
		p.remove(victim)
	}
}

// before reports whether a is dropped before b.
func before(a, b *pooled) bool {
	pausedA, pausedB := !a.client.Budget().PausedUntil.IsZero(), !b.client.Budget().PausedUntil.IsZero()
	if pausedA != pausedB {
		return pausedB
	}
	return a.used.Before(b.used)
}

func (p *Pool) remove(key string) {
	delete(p.clients, key)
	p.answers.drop(key)
}

// Budgets returns the budgets of all clients, keyed by host, for metrics. The budgets of a host are in no particular
// order.
func (p *Pool) Budgets() map[string][]Budget {
	p.mu.Lock()
	defer p.mu.Unlock()
	budgets := map[string][]Budget{}
	for _, c := range p.clients {
		budgets[c.client.Host()] = append(budgets[c.client.Host()], c.client.Budget())
	}
	return budgets
}
