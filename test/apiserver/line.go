package apiserver

import (
	"context"
	"errors"
	"net"
	"sync"
)

// Line provides the connections to an API server. A test can interrupt these connections. The zero value is a Line that
// is not interrupted.
type Line struct {
	mu    sync.Mutex
	cut   bool
	conns []net.Conn
}

// Dial is a value for rest.Config.Dial. Dial fails while the connection is interrupted.
func (l *Line) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut {
		return nil, errors.New("the connection is interrupted")
	}
	c, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err == nil {
		l.conns = append(l.conns, c)
	}
	return c, err
}

// Set interrupts the connection to the API server and closes the open connections if cut is true. Otherwise, it allows connections again.
func (l *Line) Set(cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = cut
	if cut {
		for _, c := range l.conns {
			_ = c.Close()
		}
		l.conns = nil
	}
}
