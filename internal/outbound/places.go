package outbound

import (
	"cmp"
	"context"
	"net/netip"
	"net/url"
	"sync"
)

// Bounds of [Places]. Values below 1 count as 1.
type Bounds struct {
	// All is the number of concurrent requests.
	All int
	// Namespace is the maximum of one namespace, so that none blocks the others.
	Namespace int
	// Host is the maximum to one host.
	Host int
	// NamespaceHost is the maximum of one namespace to one host, so that a host that hangs
	// does not block other requests of the namespace, or other namespaces at the host.
	NamespaceHost int
}

// Places limit concurrent requests by namespace and host. They are safe for concurrent use.
// Create them with [NewPlaces].
type Places struct {
	bounds Bounds

	mu     sync.Mutex
	shares map[scope]*room
}

// scope of a limit.
type scope struct {
	level
	namespace, host string
}

type level int

// The levels, in the order in which places are taken. A request that waits at one level holds
// places of the previous levels, which are of its own namespace first.
const (
	namespaceHost level = iota
	namespaceOnly
	hostOnly
	all
)

// everything is the scope of all requests.
var everything = scope{level: all}

// room of a scope. It is removed when it is unused.
type room struct {
	places chan struct{}
	users  int
}

// NewPlaces returns places with the given bounds.
func NewPlaces(bounds Bounds) *Places {
	return &Places{bounds: bounds, shares: map[scope]*room{}}
}

// Enter waits for a place for a request of a namespace to a URL. It returns the function that
// releases it, to be called once, or false if ctx ends first.
func (p *Places) Enter(ctx context.Context, namespace, address string) (leave func(), ok bool) {
	host := HostOf(address)
	var held []func()
	leave = func() {
		for i := range held {
			held[len(held)-1-i]()
		}
	}
	for _, s := range []scope{
		{namespaceHost, namespace, host},
		{namespaceOnly, namespace, ""},
		{hostOnly, "", host},
		everything,
	} {
		free, ok := p.take(ctx, s)
		if !ok {
			leave()
			return nil, false
		}
		held = append(held, free)
	}
	return leave, true
}

// take waits for a place of a scope.
func (p *Places) take(ctx context.Context, s scope) (free func(), ok bool) {
	p.mu.Lock()
	r := p.shares[s]
	if r == nil {
		r = &room{places: make(chan struct{}, p.size(s.level))}
		p.shares[s] = r
	}
	r.users++
	p.mu.Unlock()
	gone := func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if r.users--; r.users == 0 {
			delete(p.shares, s)
		}
	}
	if ctx.Err() != nil {
		gone()
		return nil, false
	}
	select {
	case r.places <- struct{}{}:
		return func() { <-r.places; gone() }, true
	case <-ctx.Done():
		gone()
		return nil, false
	}
}

func (p *Places) size(l level) int {
	return max(1, map[level]int{
		namespaceHost: p.bounds.NamespaceHost, namespaceOnly: p.bounds.Namespace, hostOnly: p.bounds.Host, all: p.bounds.All,
	}[l])
}

// Taken returns the number of requests that have a place.
func (p *Places) Taken() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r := p.shares[everything]; r != nil {
		return len(r.places)
	}
	return 0
}

// HostOf returns the host of a URL, without port: its name in lower case without the trailing
// dot, or its address in the shortest form. Text that is not a URL with a host is returned
// unchanged.
func HostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return address
	}
	host := canonical(u.Hostname())
	if a, err := netip.ParseAddr(host); err == nil {
		return a.Unmap().String()
	}
	return cmp.Or(host, address)
}
