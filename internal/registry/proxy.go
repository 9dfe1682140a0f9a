package registry

import (
	"context"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"
)

// proxies chooses the proxy of a request. A proxy dials in place of the manager, so
// what may not be dialled is refused before it is asked:
//
//   - a host that is an address, or a number that some resolvers read as one, when
//     the address is link-local or a metadata service;
//   - a name that has such an address here.
//
// A name that is not resolved here passes: behind a proxy there is often no public
// name service. What it means is then for the proxy to know, and for its own rules
// to refuse. The proxy itself is dialled like any host, so its address may not be
// link-local.
type proxies struct {
	choose   func(*http.Request) (*url.URL, error)
	resolver interface {
		LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
	}
}

// lookupTime is how long a name is looked up before a proxy is asked for it.
const lookupTime = 2 * time.Second

func (p proxies) proxyOf(req *http.Request) (*url.URL, error) {
	proxy, err := p.choose(req)
	if err != nil || proxy == nil {
		return nil, err
	}
	host := strings.TrimSuffix(req.URL.Hostname(), ".")
	if address, err := netip.ParseAddr(host); err == nil {
		if err := refuseAddress(address); err != nil {
			return nil, err
		}
		return proxy, nil
	}
	if endsInNumber(host) {
		return nil, &blockedError{host}
	}
	ctx, cancel := context.WithTimeout(req.Context(), lookupTime)
	defer cancel()
	addresses, _ := p.resolver.LookupNetIP(ctx, "ip", host) // what is unknown here passes
	for _, address := range addresses {
		if err := refuseAddress(address); err != nil {
			return nil, err
		}
	}
	return proxy, nil
}

// endsInNumber tells hosts like 2852039166 and 0xa9.0xfea9fe, which are IPv4
// addresses to some resolvers. No name of a registry looks so.
func endsInNumber(host string) bool {
	last := strings.ToLower(host[strings.LastIndexByte(host, '.')+1:])
	digits, hex := strings.CutPrefix(last, "0x")
	allowed := "0123456789"
	if hex {
		allowed += "abcdef"
	}
	return last != "" && strings.Trim(digits, allowed) == ""
}
