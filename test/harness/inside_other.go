//go:build !linux

package harness

import (
	"errors"
	"net"
)

// ListenInside returns an error, because the local cluster runs only on Linux.
func (a Addresses) ListenInside(string) (net.Listener, error) {
	return nil, errors.New("listen in the network of the local cluster: the local cluster exists only on Linux")
}

func within(string, func() error) error {
	return errors.New("enter the network of the local cluster: the local cluster exists only on Linux")
}
