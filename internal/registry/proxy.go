package registry

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"net/url"
	"sync"

	"github.com/heighliner/heighliner/internal/outbound"
)

// proxies selects the proxy for a request, and connects to the proxy or, if there is no proxy, to the server. If there
// is a proxy, the proxy rather than the manager connects to the server. Therefore, addresses to which the manager may
// not connect are refused before the proxy is used. The cluster operator configures the proxies, so a proxy may have
// a loopback address.
type proxies struct {
	choose  func(*http.Request) (*url.URL, error)
	allowed *outbound.Policy

	chosen sync.Map // hosts of the proxies, with ports
}

func (p *proxies) proxyOf(req *http.Request) (*url.URL, error) {
	proxy, err := p.choose(req)
	if err != nil || proxy == nil {
		return nil, err
	}
	if err := p.allowed.Vet(req.Context(), req.URL.Hostname(), portOf(req.URL)); err != nil {
		return nil, err
	}
	p.chosen.Store(net.JoinHostPort(proxy.Hostname(), portOf(proxy)), true)
	return proxy, nil
}

// dial connects to a selected proxy, or to an address that the policy allows.
func (p *proxies) dial(ctx context.Context, network, hostPort string) (net.Conn, error) {
	if _, ok := p.chosen.Load(hostPort); ok {
		return p.allowed.Trusting(hostPort).Dial(ctx, network, hostPort)
	}
	return p.allowed.Dial(ctx, network, hostPort)
}

// portOf returns the port to which net/http connects for a URL.
func portOf(u *url.URL) string {
	return cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443", "socks5": "1080", "socks5h": "1080"}[u.Scheme])
}
