// Package probe checks whether gateways serve routes as they were written. Probes are sent in the
// background: no method waits for a response.
//
// A probe consists of HTTP requests to one address. The gateway itself responds with a redirect that only
// the new content of the route contains. A probe succeeds after InARow consecutive correct
// responses, each on its own connection, because several proxies may share one address. A
// successful probe is not sent again.
package probe

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/types"

	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
	"github.com/heighliner/heighliner/internal/contain"
	"github.com/heighliner/heighliner/internal/outbound"
)

// The limits of a Pool.
const (
	// InARow is the number of consecutive correct responses that prove that an address serves a
	// route.
	InARow = 3
	// Timeout is the default timeout of one request.
	Timeout = 2 * time.Second

	// maxRequests is the maximum number of concurrent requests. Of these, at most maxShare are for the
	// same namespace, at most maxAddress are to the same address, and at most maxNamespaceAddress are
	// for the same namespace and to the same address.
	maxRequests         = 32
	maxShare            = maxRequests / 2
	maxAddress          = 8
	maxNamespaceAddress = 4
	// perSecond is the maximum total number of requests per second, and burst is the number of
	// requests that may be sent immediately.
	perSecond, burst = 200, 32

	// firstWait and lastWait are the first and the maximum time between two rounds, before the random
	// deviation.
	firstWait, lastWait = 100 * time.Millisecond, 30 * time.Second
	// maxHeader is the maximum size of a response header, in bytes. Bodies are not read.
	maxHeader = 16 << 10
	// maxProblem is the maximum size of a reported problem, in bytes.
	maxProblem = 160
)

// Result is the result of one request.
type Result string

// The results of requests.
const (
	// Served means that the response is from the route as it was written.
	Served Result = "Served"
	// Earlier means that the response is from an earlier version of the route.
	Earlier Result = "Earlier"
	// Elsewhere means that the response is not from the route.
	Elsewhere Result = "Elsewhere"
	// Failed means that there was no valid HTTP response.
	Failed Result = "Failed"
	// Refused means that the flags of the manager do not allow requests to the address.
	Refused Result = "Refused"
)

// Results contains all results.
var Results = []Result{Served, Earlier, Elsewhere, Failed, Refused}

// Options are the options of a Pool.
type Options struct {
	// Outbound decides which addresses may be probed; nil means the default policy.
	Outbound *outbound.Policy
	// UserAgent is the user agent of the requests. Defaults to the user agent of Go's HTTP client.
	UserAgent string
	// Timeout is the timeout of one request. Defaults to the constant Timeout.
	Timeout time.Duration
	// Observe is called with the result of each request. Defaults to a function that does nothing.
	Observe func(Result)
	// Now is the clock. Defaults to time.Now.
	Now func() time.Time
	// Wait returns the time to wait after an unsuccessful round; the first round is 1. By default,
	// the time increases from 100 ms to 30 s, by a quarter each round, with a random deviation of
	// up to a fifth.
	Wait func(round int) time.Duration
}

// Pool sends probes. It sends at most 200 requests per second, and at most 32 concurrent requests. Of these, at most 16 are
// for the same namespace, and at most 8 are to the same address. A nil Pool has no results and sends no probes. The
// zero Pool is not usable. Use New instead.
type Pool struct {
	outbound  *outbound.Policy
	userAgent string
	timeout   time.Duration
	observe   func(Result)
	now       func() time.Time
	wait      func(int) time.Duration

	slots  *outbound.Slots
	budget *rate.Limiter

	mu       sync.Mutex
	ctx      context.Context
	requeue  func(types.NamespacedName)
	policies map[types.NamespacedName]map[providers.Probe]*asked
}

// asked is a probe that is being sent, or that succeeded.
type asked struct {
	providers.Probed
	cancel context.CancelFunc
}

// New returns a pool that sends no probes before it is started.
func New(o Options) *Pool {
	p := &Pool{
		outbound: o.Outbound, userAgent: o.UserAgent, timeout: cmp.Or(o.Timeout, Timeout), observe: o.Observe, now: o.Now, wait: o.Wait,
		slots:    outbound.NewSlots(outbound.Bounds{All: maxRequests, Namespace: maxShare, Host: maxAddress, NamespaceHost: maxNamespaceAddress}),
		budget:   rate.NewLimiter(perSecond, burst),
		policies: map[types.NamespacedName]map[providers.Probe]*asked{},
	}
	if p.observe == nil {
		p.observe = func(Result) {}
	}
	if p.now == nil {
		p.now = time.Now
	}
	if p.wait == nil {
		p.wait = backOff
	}
	return p
}

// backOff is the default for Options.Wait. With this back-off, the time until a change is observed
// is at most about a quarter longer than the time that the gateway needs to apply the change.
func backOff(round int) time.Duration {
	d := firstWait
	for range round - 1 {
		if d = d * 5 / 4; d >= lastWait {
			d = lastWait
			break
		}
	}
	return d*4/5 + rand.N(d*2/5)
}

// Start lets the pool send probes until ctx is done. When a probe succeeds, the pool calls requeue
// with the policy of the probe. requeue may be called from any goroutine, and must not block.
func (p *Pool) Start(ctx context.Context, requeue func(types.NamespacedName)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ctx, p.requeue = ctx, requeue
}

// Known returns the current state of a policy's probes.
func (p *Pool) Known(policy types.NamespacedName) map[providers.Probe]providers.Probed {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make(map[providers.Probe]providers.Probed, len(p.policies[policy]))
	for probe, a := range p.policies[policy] {
		out[probe] = a.Probed
	}
	return out
}

// Ask starts the given probes of a policy, except those that are already in progress or have
// succeeded. It stops and removes the policy's probes that are not among the given probes.
func (p *Pool) Ask(policy types.NamespacedName, probes []providers.Probe) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx == nil {
		return
	}
	before := p.policies[policy]
	now := make(map[providers.Probe]*asked, len(probes))
	var begin []providers.Probe
	for _, probe := range probes {
		if now[probe] = before[probe]; now[probe] == nil {
			now[probe] = &asked{Probed: providers.Probed{Since: p.now()}}
			begin = append(begin, probe)
		}
	}
	for probe, a := range before {
		if now[probe] == nil {
			a.cancel()
		}
	}
	if len(now) == 0 {
		delete(p.policies, policy)
		return
	}
	p.policies[policy] = now
	for _, probe := range begin {
		a := now[probe]
		ctx, cancel := context.WithCancel(p.ctx)
		a.cancel = cancel
		go p.run(ctx, policy, probe, a)
	}
}

// Forget stops and removes all probes of a policy.
func (p *Pool) Forget(policy types.NamespacedName) { p.Ask(policy, nil) }

// run repeats a probe until it succeeds.
func (p *Pool) run(ctx context.Context, policy types.NamespacedName, probe providers.Probe, a *asked) {
	defer a.cancel()
	for round := 1; ; round++ {
		problem, ok := p.round(ctx, policy.Namespace, probe)
		if !ok {
			return
		}
		p.mu.Lock()
		a.Served, a.Problem = problem == "", problem
		requeue := p.requeue
		p.mu.Unlock()
		if problem == "" {
			requeue(policy)
			return
		}
		timer := time.NewTimer(p.wait(round))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// round sends requests until a response is incorrect or InARow consecutive responses are correct.
// ok is false if the probe was stopped.
func (p *Pool) round(ctx context.Context, namespace string, probe providers.Probe) (problem string, ok bool) {
	finalize, ok := p.slots.Enter(ctx, namespace, "http://"+address(probe))
	if !ok {
		return "", false
	}
	defer finalize()
	for range InARow {
		if p.budget.Wait(ctx) != nil {
			return "", false
		}
		var result Result
		var problem string
		if err := contain.Panics(func() error { result, problem = p.ask(ctx, probe); return nil }); err != nil {
			result, problem = Failed, err.Error()
		}
		if ctx.Err() != nil {
			return "", false
		}
		p.observe(result)
		if problem != "" {
			return outbound.Printable([]byte(problem), maxProblem), true
		}
	}
	return "", true
}

// ask sends one request on its own connection.
func (p *Pool) ask(ctx context.Context, probe providers.Probe) (Result, string) {
	scheme := "http"
	if probe.TLS {
		scheme = "https"
	}
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+probe.Host+probe.Path, nil)
	if err != nil {
		return Failed, fmt.Sprintf("the path %q is not valid for a probe", probe.Path)
	}
	request.Header.Set("Cache-Control", "no-cache")
	if p.userAgent != "" {
		request.Header.Set("User-Agent", p.userAgent)
	}
	transport := &http.Transport{
		// The connection goes to the gateway's address, regardless of the host's DNS records.
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			conn, err := p.outbound.Dial(ctx, network, address(probe))
			if err != nil {
				return nil, &dialError{err}
			}
			return conn, nil
		},
		// A probe checks which configuration responds, not which server: a missing or self-signed
		// certificate must not block a release. The request contains nothing confidential.
		TLSClientConfig:        &tls.Config{ServerName: probe.Host, InsecureSkipVerify: true, MinVersion: tls.VersionTLS12},
		DisableKeepAlives:      true,
		MaxResponseHeaderBytes: maxHeader,
	}
	response, err := transport.RoundTrip(request) // RoundTrip does not follow redirects.
	if err != nil {
		if refused := (*outbound.RefusedError)(nil); errors.As(err, &refused) {
			return Refused, refused.Error()
		}
		if ctx.Err() != nil {
			return Failed, fmt.Sprintf("no response within %s", p.timeout)
		}
		return Failed, failure(err)
	}
	defer func() { _ = response.Body.Close() }()
	return judge(probe, response)
}

// dialError is the error for a connection that could not be established.
type dialError struct{ error }

func (e *dialError) Unwrap() error { return e.error }

// failure returns the message for a request that got no valid response. The message depends only on the
// kind of error, and never contains received data. The status of a Gateway may contain the address
// of a server that is not a gateway, and the output of that server must not appear in the status of
// a policy.
func failure(err error) string {
	dial, dns, cause := (*dialError)(nil), (*net.DNSError)(nil), syscall.Errno(0)
	record, alert := tls.RecordHeaderError{}, tls.AlertError(0)
	switch connected := !errors.As(err, &dial); {
	case !connected && errors.As(err, &dns):
		return "the host name of the address cannot be resolved"
	case !connected && errors.As(err, &cause):
		return "no connection: " + cause.Error()
	case !connected:
		return "no connection"
	case errors.Is(err, http.ErrSchemeMismatch), errors.As(err, &record), errors.As(err, &alert):
		return "it does not accept TLS connections for the host"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "it closes the connection without a response"
	}
	return "its response is not HTTP, or its header is too large"
}

// judge returns the Result for a response, and describes what is wrong with an incorrect response.
func judge(probe providers.Probe, response *http.Response) (Result, string) {
	to, err := url.Parse(response.Header.Get("Location"))
	switch _, domain, _ := strings.Cut(probe.Answer, "."); {
	case err != nil, response.StatusCode < 300 || response.StatusCode > 399:
	case strings.EqualFold(to.Hostname(), probe.Answer):
		return Served, ""
	case strings.HasSuffix(strings.ToLower(to.Hostname()), "."+domain):
		return Earlier, "its response belongs to an earlier version of the route"
	}
	return Elsewhere, fmt.Sprintf("its response with status code %d does not come from the probe rule of this route", response.StatusCode)
}

func address(p providers.Probe) string {
	return net.JoinHostPort(p.Address, strconv.Itoa(int(p.Port)))
}
