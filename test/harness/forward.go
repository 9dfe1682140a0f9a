package harness

import (
	"fmt"
	"io"
	"net"
	"strconv"

	"github.com/heighliner/heighliner/test/port"
)

// freePort returns an unused port on the loopback address. The port is reserved until release is called.
func freePort() (number string, release func(), err error) {
	n, release, err := port.Reserve()
	if err != nil {
		return "", nil, err
	}
	return strconv.Itoa(n), release, nil
}

// listenForPods listens on an address that pods can reach.
func (c *Cluster) listenForPods() (net.Listener, error) {
	host, _, err := net.SplitHostPort(c.RegistryInternal)
	if err != nil {
		return nil, fmt.Errorf("find the address of this machine for pods: %w", err)
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
				_, _ = io.Copy(to, from) // Copying continues until one of the connections is closed.
				_ = to.Close()
			}()
			_, _ = io.Copy(from, to)
		}()
	}
}
