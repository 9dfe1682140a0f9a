package notification

import (
	"context"
	"sync"
)

// Maximum numbers of concurrent messages: in total, from a namespace, to a host, and from a namespace to a host.
const maxCalls, maxNamespace, maxHost, maxNamespaceHost = 32, 8, 16, 2

// limits bound the number of concurrent messages, so that messages from one namespace, or messages to a host that is not responding, do
// not delay other messages.
type limits struct {
	mu     sync.Mutex
	scopes map[string]*scope
}

// scope contains the slots of one limit. It is removed when no message is using a slot or waiting for one.
type scope struct {
	slots chan struct{}
	users int
}

func newLimits() *limits { return &limits{scopes: map[string]*scope{}} }

// enter waits for a slot in each scope. It returns a function that releases the slots and must be called
// exactly once. If ctx is done first, ok is false.
func (l *limits) enter(ctx context.Context, namespace, host string) (leave func(), ok bool) {
	var held []func()
	leave = func() {
		for _, release := range held {
			release()
		}
	}
	for _, s := range []struct {
		name string
		size int
	}{{"both " + namespace + " " + host, maxNamespaceHost}, {"namespace " + namespace, maxNamespace}, {"host " + host, maxHost}, {"all", maxCalls}} {
		release, ok := l.take(ctx, s.name, s.size)
		if !ok {
			leave()
			return nil, false
		}
		held = append(held, release)
	}
	return leave, true
}

// take waits for a slot in a scope.
func (l *limits) take(ctx context.Context, name string, size int) (release func(), ok bool) {
	l.mu.Lock()
	s := l.scopes[name]
	if s == nil {
		s = &scope{slots: make(chan struct{}, size)}
		l.scopes[name] = s
	}
	s.users++
	l.mu.Unlock()
	end := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if s.users--; s.users == 0 {
			delete(l.scopes, name)
		}
	}
	select {
	case s.slots <- struct{}{}:
		return func() { <-s.slots; end() }, true
	case <-ctx.Done():
		end()
		return nil, false
	}
}
