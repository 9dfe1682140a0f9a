package outbound

import (
	"cmp"
	"context"
	"net/netip"
	"net/url"
	"sync"
)

// Bounds of [Places]. What is below 1 counts as 1.
type Bounds struct {
	// All that is under way at a time.
	All int
	// Namespace is how much of it one namespace may have, so that none keeps the
	// others waiting.
	Namespace int
	// Host is how much of it may ask one host.
	Host int
	// NamespaceHost is how much of it one namespace may have at one host, so that one
	// that hangs leaves the namespace the rest of its share, and others theirs of the
	// host.
	NamespaceHost int
}

// Places bound what is under way at a time, in shares of namespaces and hosts.
// They are safe for concurrent use. The zero value is of no use; see [NewPlaces].
type Places struct {
	bounds Bounds

	mu     sync.Mutex
	shares map[scope]*room
}

// scope that a request needs a place of.
type scope struct {
	level
	namespace, host string
}

type level int

// The levels, in the order in which places are taken. Who waits at one holds
// places of those before it, which only its own namespace may then run out of, or
// as many as others keep free.
const (
	namespaceHost level = iota
	namespaceOnly
	hostOnly
	all
)

// everything is the scope of all requests.
var everything = scope{level: all}

// room of a scope; it is forgotten when nobody uses it.
type room struct {
	places chan struct{}
	users  int
}

// NewPlaces makes places that are all free.
func NewPlaces(bounds Bounds) *Places {
	return &Places{bounds: bounds, shares: map[scope]*room{}}
}

// Enter waits for a place for a namespace that asks a URL, and gives what leaves
// it, to be called once; false: ctx ended before.
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

// Taken is the number of requests that have a place.
func (p *Places) Taken() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r := p.shares[everything]; r != nil {
		return len(r.places)
	}
	return 0
}

// HostOf a URL: its name in lower case without the last dot, or its address in
// the shortest form; no port. What is no URL with a host is its own.
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
