package harness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
)

// freePort returns an unused port on the loopback address.
func freePort(ctx context.Context) (string, error) {
	free, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a port: %w", err)
	}
	_, port, err := net.SplitHostPort(free.Addr().String())
	if err := errors.Join(err, free.Close()); err != nil {
		return "", fmt.Errorf("find a port: %w", err)
	}
	return port, nil
}

// listenForPods listens on an address that pods can reach.
func (c *Cluster) listenForPods() (net.Listener, error) {
	host, _, err := net.SplitHostPort(c.RegistryInternal)
	if err != nil {
		return nil, fmt.Errorf("address of this machine for pods: %w", err)
	}
	return c.ListenInside(net.JoinHostPort(host, "0"))
}

// forward forwards connections to an address until the listener is closed.
func forward(listener net.Listener, address string) {
	for {
		from, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer from.Close()
			to, err := net.Dial("tcp", address)
			if err != nil {
				return // The pod retries.
			}
			defer to.Close()
			go func() {
				_, _ = io.Copy(to, from) // Copying continues until one of the connections ends.
				_ = to.Close()
			}()
			_, _ = io.Copy(from, to)
		}()
	}
}
