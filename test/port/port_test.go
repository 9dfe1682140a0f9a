package port

import (
	"net"
	"strconv"
	"testing"
)

// TestTake checks that an address is reserved until the end of the test, and that a program can listen on it.
func TestTake(t *testing.T) {
	t.Parallel()
	for range 10 {
		var port int
		t.Run("reserved", func(t *testing.T) {
			host, text, err := net.SplitHostPort(Take(t))
			if err != nil {
				t.Fatal(err)
			}
			if port, err = strconv.Atoi(text); err != nil || host != "127.0.0.1" || port < 15000 || port > 24999 {
				t.Fatalf("%s:%s, %v; want a port of 127.0.0.1 from 15000 to 24999", host, text, err)
			}
			if release, err := reserve(port); err == nil {
				release()
				t.Errorf("port %d was reserved twice", port)
			}
			listener, err := net.Listen("tcp", address(port))
			if err != nil {
				t.Fatal(err)
			}
			listener.Close()
		})
		if t.Failed() {
			return
		}
		if release, err := reserve(port); err == nil {
			release()
			return
		}
		// Another process may have reserved this port after the end of the subtest.
	}
	t.Error("no port can be reserved again after the end of its test")
}

// TestUsedPort checks that a port on which a program listens is not reserved.
func TestUsedPort(t *testing.T) {
	t.Parallel()
	port, release, err := Reserve()
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	listener, err := net.Listen("tcp", address(port))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	release() // The port is now only in use.
	if again, err := reserve(port); err == nil {
		again()
		t.Errorf("port %d was reserved, although it is in use", port)
	}
}
