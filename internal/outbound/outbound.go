// Package outbound decides which addresses the manager dials of those that users
// of a namespace chose (registries, GitHub servers, providers of metrics, hooks), and
// makes HTTP clients for them. Such an address must not reach what only the manager's
// place in the network can reach.
//
// What is checked is the address that is dialled, after the name was resolved,
// so that neither a name, nor another way to write an address, nor an answer
// that changes between two looks gets around it.
//
//	outbound.go  policies of addresses, and HTTP clients
//	address.go   classes of addresses
//	elements.go  a bound on the values of JSON
//	errors.go    the errors
//	places.go    bounds on what is in progress at a time, in shares
package outbound

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/heighliner/heighliner/internal/certs"
)

// The flags of the manager that errors name.
const (
	FlagAllow = "--outbound-allow"
	FlagDeny  = "--outbound-deny"
)

// Config is what the flags give.
type Config struct {
	// Allow opens what is refused by default (loopback, link-local, multicast and
	// unspecified addresses), but for the addresses of metadata services. An entry
	// is an address, a CIDR, or a host name, which stands for its subdomains too. An
	// address or a name may have a port, as in "127.0.0.1:5000", and is for that alone.
	Allow []string
	// Deny refuses, and goes before Allow. Same entries.
	Deny []string
}

// Policy says which addresses may be dialled. The zero value, and nil, refuse
// what is refused by default. It is safe for concurrent use.
type Policy struct {
	allow, deny list
	resolver    Resolver
}

// Resolver turns a host into addresses, as [net.Resolver] does.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// New reads the entries of a configuration.
func New(config Config) (*Policy, error) {
	allow, err := parse(FlagAllow, config.Allow)
	if err != nil {
		return nil, err
	}
	deny, err := parse(FlagDeny, config.Deny)
	if err != nil {
		return nil, err
	}
	return &Policy{allow: allow, deny: deny}, nil
}

// Trusting is p with one more host that is allowed, with or without a port: one that
// the operator chose. What is denied, and metadata services, stay refused.
func (p *Policy) Trusting(host string) *Policy {
	trusting := *p.orDefault()
	name, port := splitPort(host)
	trusting.allow = trusting.allow.with(name, port)
	return &trusting
}

// WithResolver is p with another resolver than the system's.
func (p *Policy) WithResolver(r Resolver) *Policy {
	other := *p.orDefault()
	other.resolver = r
	return &other
}

func (p *Policy) orDefault() *Policy {
	if p == nil {
		return &Policy{}
	}
	return p
}

// Options of a client.
type Options struct {
	// Timeout of a request, the body of its answer included. Default: 10s.
	Timeout time.Duration
	// MaxBody is the most bytes of an answer's body, unpacked. Reading beyond gives
	// a *TooLargeError. Default: 1 MiB.
	MaxBody int64
	// MaxElements is the most values of a body of JSON. Reading beyond gives a
	// *TooLargeError. Default: any number.
	MaxElements int
	// Redirects that are followed, on the same scheme, host and port only. Default:
	// none; the redirecting answer is returned then.
	Redirects int
	// CA are certificates in PEM that are trusted instead of the system's.
	CA []byte
}

// Limits of every client.
const (
	DefaultTimeout = 10 * time.Second
	DefaultMaxBody = 1 << 20
	maxHeader      = 64 << 10
)

// Client makes a client that dials what p allows only. It takes no proxy from
// the environment: a proxy would dial in its place. Keep and share a client;
// one with a CA of its own keeps no connections, so that it may be dropped.
// Errors: the certificates cannot be read.
func (p *Policy) Client(o Options) (*http.Client, error) {
	if o.Timeout <= 0 {
		o.Timeout = DefaultTimeout
	}
	if o.MaxBody <= 0 {
		o.MaxBody = DefaultMaxBody
	}
	transport := &http.Transport{
		DialContext:            p.Dial,
		ForceAttemptHTTP2:      true,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    o.Timeout,
		MaxResponseHeaderBytes: maxHeader,
		MaxIdleConns:           64,
		MaxIdleConnsPerHost:    4,
		IdleConnTimeout:        30 * time.Second,
	}
	if len(o.CA) > 0 {
		pool, err := certs.Pool(nil, o.CA)
		if err != nil {
			return nil, fmt.Errorf("read certificates: %w", err)
		}
		transport.TLSClientConfig.RootCAs = pool
		transport.DisableKeepAlives = true
	}
	return &http.Client{
		Timeout:       o.Timeout,
		Transport:     limited{next: transport, max: o.MaxBody, elements: o.MaxElements},
		CheckRedirect: redirects(o.Redirects),
	}, nil
}

// redirects stay on scheme, host and port, most of them.
func redirects(most int) func(*http.Request, []*http.Request) error {
	return func(next *http.Request, via []*http.Request) error {
		first := via[0].URL
		switch {
		case most == 0:
			return http.ErrUseLastResponse
		case next.URL.Scheme != first.Scheme || next.URL.Host != first.Host:
			return &RedirectError{From: first.Host, To: next.URL.Scheme + "://" + next.URL.Host}
		case len(via) > most:
			return fmt.Errorf("follow redirect: more than %d in a row", most)
		}
		return nil
	}
}

// Dial resolves the host, and dials the first of its addresses that answers and
// is not refused. Errors: *RefusedError, and those of the network.
func (p *Policy) Dial(ctx context.Context, network, hostPort string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(hostPort)
	if err != nil {
		return nil, fmt.Errorf("dial %q: %w", hostPort, err)
	}
	_, number := splitPort(hostPort)
	p = p.orDefault()
	if err := p.checkHost(host, number); err != nil {
		return nil, err
	}
	addresses, err := p.resolve(ctx, host)
	if err != nil {
		return nil, fmt.Errorf("resolve %q: %w", host, err)
	}
	var refused, failed error
	var dialer net.Dialer
	for i, address := range addresses {
		if err := p.check(host, address, number); err != nil {
			refused = errors.Join(refused, err)
			continue
		}
		attempt, cancel := share(ctx, len(addresses)-i)
		conn, err := dialer.DialContext(attempt, network, net.JoinHostPort(address.String(), port))
		cancel()
		if err == nil {
			return conn, nil
		}
		failed = errors.Join(failed, err)
	}
	if failed != nil {
		return nil, failed
	}
	if refused != nil {
		return nil, refused
	}
	return nil, fmt.Errorf("resolve %q: the name has no address", host)
}

// lookupTime is how long Vet looks up a name.
const lookupTime = 2 * time.Second

// Vet refuses what p would not dial, for somebody who dials in its place, as a proxy
// does: a host of which any address is refused, and a number that some resolvers read
// as an address. A name that is not resolved here passes: behind a proxy there is often
// no public name service. What it means is then for the proxy to know, and for its
// rules to refuse. port may be "". Errors: *RefusedError.
func (p *Policy) Vet(ctx context.Context, host, port string) error {
	p = p.orDefault()
	host = strings.TrimSuffix(host, ".")
	_, number := splitPort(net.JoinHostPort(host, port))
	if err := p.checkHost(host, number); err != nil {
		return err
	}
	if _, err := netip.ParseAddr(host); err != nil && endsInNumber(host) {
		return &RefusedError{Host: host, Why: "it is a number that some read as an address"}
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTime)
	defer cancel()
	addresses, _ := p.resolve(ctx, host)
	for _, address := range addresses {
		if err := p.check(host, address, number); err != nil {
			return err
		}
	}
	return nil
}

// endsInNumber finds hosts like 2852039166 and 0xa9.0xfea9fe, which are IPv4
// addresses to some resolvers. No name of a server looks so.
func endsInNumber(host string) bool {
	last := strings.ToLower(host[strings.LastIndexByte(host, '.')+1:])
	digits, hex := strings.CutPrefix(last, "0x")
	allowed := "0123456789"
	if hex {
		allowed += "abcdef"
	}
	return last != "" && strings.Trim(digits, allowed) == ""
}

// share is an equal part of the time that is left, for one of n attempts.
func share(ctx context.Context, n int) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return context.WithTimeout(ctx, DefaultTimeout)
	}
	return context.WithTimeout(ctx, time.Until(deadline)/time.Duration(n))
}

func (p *Policy) resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	if address, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{address}, nil
	}
	if p.resolver != nil {
		return p.resolver.LookupNetIP(ctx, "ip", host)
	}
	return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
}

// limited bounds the bodies of answers.
type limited struct {
	next     http.RoundTripper
	max      int64
	elements int // most of them; 0: any number
}

func (l limited) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := l.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	response.Body = &body{ReadCloser: response.Body, left: l.max, limit: l.max, maxElements: l.elements}
	return response, nil
}

// CloseIdleConnections makes [http.Client.CloseIdleConnections] work.
func (l limited) CloseIdleConnections() {
	if closer, ok := l.next.(interface{ CloseIdleConnections() }); ok {
		closer.CloseIdleConnections()
	}
}

// body gives at most limit bytes and, unless it is 0, maxElements values of JSON, and an
// error instead of more.
type body struct {
	io.ReadCloser
	left, limit int64
	maxElements int
	elements    elements
}

func (b *body) Read(p []byte) (int, error) {
	if b.left < 0 {
		return 0, b.tooLarge()
	}
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.ReadCloser.Read(p)
	b.left -= int64(n)
	if b.left < 0 {
		return n - 1, b.tooLarge()
	}
	if b.maxElements > 0 {
		if b.elements.read(p[:n]); b.elements.count > b.maxElements {
			b.left = -1
			return 0, b.tooLarge()
		}
	}
	return n, err
}

func (b *body) tooLarge() error {
	if b.maxElements > 0 && b.elements.count > b.maxElements {
		return &TooLargeError{Elements: b.maxElements}
	}
	return &TooLargeError{Limit: b.limit}
}

// Printable is the beginning of text that somebody else wrote, on one line and
// fit for a status: at most limit bytes, other characters than printable ones
// replaced by a space.
func Printable(text []byte, limit int) string {
	text = bytes.ToValidUTF8(text, nil)
	var out strings.Builder
	for _, r := range string(text) {
		if r < ' ' || r == 0x7f || (r >= 0x80 && r < 0xa0) || r == 0x2028 || r == 0x2029 {
			r = ' '
		}
		if out.Len()+len(string(r)) > limit {
			break
		}
		out.WriteRune(r)
	}
	return strings.TrimSpace(out.String())
}
