package outbound

import (
	"cmp"
	"context"
	"net/netip"
	"net/url"
	"sync"
)

// Bounds are the limits of [Slots]. Values below 1 count as 1.
type Bounds struct {
	// All is the maximum number of concurrent requests.
	All int
	// Namespace is the maximum number of concurrent requests of one namespace, so that no namespace blocks the others.
	Namespace int
	// Host is the maximum number of concurrent requests to one host.
	Host int
	// NamespaceHost is the maximum number of concurrent requests of one namespace to one host, so that a host that hangs blocks neither other
	// requests of the namespace nor requests of other namespaces to the host.
	NamespaceHost int
}

// Slots limit concurrent requests by namespace and host. They are safe for concurrent use.
// Create them with [NewSlots].
type Slots struct {
	bounds Bounds

	mu     sync.Mutex
	shares map[scope]*room
}

// scope identifies the requests that share a limit. namespace and host are empty if the level does not depend on them.
type scope struct {
	level
	namespace, host string
}

type level int

// The levels are in the order in which a request takes slots. A request that is waiting at one level already has a slot at each
// previous level. The levels of its namespace come first, so that a request that waits for its own namespace does not occupy a slot
// that other namespaces share.
const (
	namespaceHost level = iota
	namespaceOnly
	hostOnly
	all
)

// everything is the scope of all requests.
var everything = scope{level: all}

// room contains the slots of a scope. It is removed when it is no longer used.
type room struct {
	slots chan struct{}
	users int
}

// NewSlots returns slots with the given bounds.
func NewSlots(bounds Bounds) *Slots {
	return &Slots{bounds: bounds, shares: map[scope]*room{}}
}

// Enter waits for a slot for a request from a namespace to a URL. It returns a function that releases the slot and must be called once. If
// ctx is done first, ok is false.
func (p *Slots) Enter(ctx context.Context, namespace, address string) (leave func(), ok bool) {
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

// take waits for a slot of a scope.
func (p *Slots) take(ctx context.Context, s scope) (free func(), ok bool) {
	p.mu.Lock()
	r := p.shares[s]
	if r == nil {
		r = &room{slots: make(chan struct{}, p.size(s.level))}
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
	case r.slots <- struct{}{}:
		return func() { <-r.slots; gone() }, true
	case <-ctx.Done():
		gone()
		return nil, false
	}
}

func (p *Slots) size(l level) int {
	return max(1, map[level]int{
		namespaceHost: p.bounds.NamespaceHost, namespaceOnly: p.bounds.Namespace, hostOnly: p.bounds.Host, all: p.bounds.All,
	}[l])
}

// Taken returns the number of requests that have a slot.
func (p *Slots) Taken() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r := p.shares[everything]; r != nil {
		return len(r.slots)
	}
	return 0
}

// HostOf returns the host of a URL, without the port: its name in lower case without the trailing
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
