// Package outbound restricts the addresses to which the manager connects on behalf of users of a namespace (registries, GitHub servers,
// metrics providers, hooks), and creates HTTP clients for these connections. Users must not reach addresses that are
// accessible only from the manager's network.
//
// The package checks each address after name resolution and before connecting, so that host names, alternative notations of an
// address, and changing DNS answers cannot bypass the check.
//
// outbound.go  address policies, and HTTP clients
// address.go   classes of addresses, and which addresses may be contacted
// elements.go  a limit on the number of JSON values
// decoding.go  a limit on the memory for decoding responses
// errors.go    the errors, and descriptions of errors without URLs
// slots.go     limits on concurrent requests, by namespace and host
//
// Errors of an HTTP client contain the URL, which may contain a credential. Each package that shows such errors removes the URL: hook
// and notify with WithoutURL, and analysis/http.go, github/errors.go, registry/errors.go and registry/workloadidentity/errors.go
// themselves. In responses to notifications, notify/send.go hides credentials.
package outbound

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/heighliner/heighliner/internal/certs"
)

// Errors refer to these flags of the manager.
const (
	FlagAllow = "--outbound-allow"
	FlagDeny  = "--outbound-deny"
)

// Config contains the values of the flags.
type Config struct {
	// Allow permits addresses that are denied by default (loopback, link-local, multicast and
	// unspecified addresses), except for metadata services. An entry is an address, a CIDR, or a host
	// name, which also matches its subdomains. If an entry includes a port, as in "127.0.0.1:5000", only
	// that port is allowed.
	Allow []string
	// Deny takes precedence over Allow. It has the same kinds of entries.
	Deny []string
}

// Policy decides which addresses may be dialed. The zero value and nil apply the defaults. It
// is safe for concurrent use.
type Policy struct {
	allow, deny list
	resolver    Resolver
}

// Resolver resolves a host, as [net.Resolver] does.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// New parses a configuration.
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

// Trusting returns a copy of p that also allows a host that the operator chose, with or without a port. Denied
// addresses and metadata services remain denied.
func (p *Policy) Trusting(host string) *Policy {
	trusting := *p.orDefault()
	name, port := splitPort(host)
	trusting.allow = trusting.allow.with(name, port)
	return &trusting
}

// WithResolver returns a copy of p that uses the given resolver.
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

// Options configure a client.
type Options struct {
	// Timeout limits the duration of a request, including the body of the response. Defaults to 10s.
	Timeout time.Duration
	// MaxBody is the maximum size of a response body in bytes, after decompression. Reading
	// more returns a *TooLargeError. Defaults to 1 MiB.
	MaxBody int64
	// MaxElements is the maximum number of values in a JSON body. Reading more returns a
	// *TooLargeError. Defaults to no limit.
	MaxElements int
	// Redirects is the maximum number of redirects to follow. Redirects must keep the scheme, host and port. By default, redirects are not
	// followed, and the response with the redirect is returned.
	Redirects int
	// CA contains certificate authorities in PEM format that replace the system's authorities.
	CA []byte
}

// These are the defaults of Options. maxHeader applies to every client: it is the maximum size of the response headers in bytes.
const (
	DefaultTimeout = 10 * time.Second
	DefaultMaxBody = 1 << 20
	maxHeader      = 64 << 10
)

// Client returns a client that connects only to addresses that p allows. It ignores proxy environment variables, because a proxy would connect
// to the address instead of the client, and bypass the check. Reuse clients, because they keep connections open. A client for which Options.CA is
// set does not, and can be discarded after use. Client returns an error if the certificates are invalid.
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

// redirects returns a function that allows up to the given number of redirects. Redirects must keep the scheme, host and port.
func redirects(most int) func(*http.Request, []*http.Request) error {
	return func(next *http.Request, via []*http.Request) error {
		first := via[0].URL
		switch {
		case most == 0:
			return http.ErrUseLastResponse
		case next.URL.Scheme != first.Scheme || next.URL.Host != first.Host:
			return &RedirectError{From: first.Host, To: next.URL.Scheme + "://" + next.URL.Host}
		case len(via) > most:
			return fmt.Errorf("follow redirect: more than %d redirects in a row", most)
		}
		return nil
	}
}

// Dial resolves the host, and connects to the first allowed address that responds. Errors are *RefusedError and network errors.
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
	var refused, failed []error
	var dialer net.Dialer
	for i, address := range addresses {
		if err := p.check(host, address, number); err != nil {
			refused = append(refused, err)
			continue
		}
		attempt, cancel := share(ctx, len(addresses)-i)
		conn, err := dialer.DialContext(attempt, network, net.JoinHostPort(address.String(), port))
		cancel()
		if err == nil {
			return conn, nil
		}
		failed = append(failed, err)
	}
	if err := cmp.Or(joined(failed), joined(refused)); err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("resolve %q: the name has no address", host)
}

// joined returns one error for all addresses. Its text does not depend on the order of the addresses: callers write the text
// to a status, which would otherwise change whenever a name resolution returns the addresses in another order.
func joined(errs []error) error {
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(errs...)
}

// lookupTime is the timeout for name resolution in Vet.
const lookupTime = 2 * time.Second

// Vet checks a host to which a proxy connects. It rejects a host that has a denied address, and a numeric host that some resolvers accept as an
// address. It allows a name that does not resolve, because public DNS is often unavailable behind a proxy. The rules of the proxy then apply. port
// may be empty. Errors are *RefusedError.
func (p *Policy) Vet(ctx context.Context, host, port string) error {
	p = p.orDefault()
	host = strings.TrimSuffix(host, ".")
	_, number := splitPort(net.JoinHostPort(host, port))
	if err := p.checkHost(host, number); err != nil {
		return err
	}
	if _, err := netip.ParseAddr(host); err != nil && endsInNumber(host) {
		return &RefusedError{Host: host, Why: "it is a number that some resolvers accept as an address"}
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

// endsInNumber reports whether the last label of a host is a number, as in 2852039166 and 0xa9.0xfea9fe. Some resolvers accept such hosts as
// IPv4 addresses. No server name has this form.
func endsInNumber(host string) bool {
	last := strings.ToLower(host[strings.LastIndexByte(host, '.')+1:])
	digits, hex := strings.CutPrefix(last, "0x")
	allowed := "0123456789"
	if hex {
		allowed += "abcdef"
	}
	return last != "" && strings.Trim(digits, allowed) == ""
}

// share returns the context for one of n attempts. The timeout of the context is an equal share of the remaining time,
// or DefaultTimeout if ctx has no deadline.
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

// limited is a transport that limits the size of response bodies and the number of JSON values in them.
type limited struct {
	next     http.RoundTripper
	max      int64
	elements int // 0 for no limit
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

// body reads at most limit bytes and, unless maxElements is 0, at most maxElements JSON values. It returns an error if the response contains more.
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

// Printable converts untrusted text for a status to one line of at most limit bytes. It replaces
// nonprintable characters with spaces.
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
