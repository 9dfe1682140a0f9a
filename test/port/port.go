// Package port selects ports for programs that a test starts.
//
// If a test finds an unused port with a listener on port 0 and then closes the listener, Linux can assign the port to another test before the program
// listens on it. The ports of this package are not in the range that Linux assigns, and each of them is reserved for one caller on this machine.
package port

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
)

// The ports are below the range that Linux assigns to outgoing connections and to listeners on port 0, which begins at 32768.
const (
	first = 15000
	count = 10000
)

// attempts is the maximum number of ports to try.
const attempts = 100

// Take returns an unused loopback address, such as 127.0.0.1:15000. Its port is reserved until the test ends.
func Take(t testing.TB) string {
	t.Helper()
	port, release, err := Reserve()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
	return address(port)
}

// Reserve returns a port that is unused on the loopback address 127.0.0.1. No other call returns the port, in this process or in
// another one, until release is called or this process exits.
func Reserve() (port int, release func(), err error) {
	for range attempts {
		port = first + rand.IntN(count)
		if release, err = reserve(port); err == nil {
			return port, release, nil
		}
	}
	return 0, nil, fmt.Errorf("reserve a port: %w", err)
}

// reserve reserves a port. It returns an error if the port is already reserved or in use.
func reserve(port int) (release func(), err error) {
	// Only one process can listen on the name, which has no file. Linux closes the socket when the process exits.
	lock, err := net.Listen("unix", "@heighliner-test-port-"+strconv.Itoa(port))
	if err != nil {
		return nil, err
	}
	unused, err := net.Listen("tcp", address(port))
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	if err := unused.Close(); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return func() { _ = lock.Close() }, nil
}

func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
