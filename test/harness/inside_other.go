//go:build !linux

package harness

import (
	"errors"
	"net"
)

// ListenInside works on Linux only, where the local cluster runs.
func (a Addresses) ListenInside(string) (net.Listener, error) {
	return nil, errors.New("listen in the network of the local cluster: there is none but on Linux")
}

func within(string, func() error) error {
	return errors.New("enter the network of the local cluster: there is none but on Linux")
}
