package harness

import (
	"fmt"
	"net"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// ListenInside listens on a TCP address in the local cluster's network namespace, where the cluster's pods
// and manager can reach it. The socket remains in this namespace. Root permissions are required.
func (a Addresses) ListenInside(address string) (listener net.Listener, err error) {
	err = within(a.Network(), func() (err error) {
		listener, err = net.Listen("tcp", address)
		return err
	})
	return listener, err
}

// within runs work on a thread in a network namespace. The thread is reused if it can return to its original namespace;
// otherwise it ends.
func within(namespace string, work func() error) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // The thread is not unlocked after an error, so it ends with the goroutine.
		home, err := os.Open("/proc/thread-self/ns/net")
		if err != nil {
			result <- fmt.Errorf("find the network of this process: %w", err)
			return
		}
		defer home.Close()
		there, err := os.Open(namespace)
		if err != nil {
			result <- fmt.Errorf("find the network of the local cluster: %w", err)
			return
		}
		defer there.Close()
		if err := unix.Setns(int(there.Fd()), unix.CLONE_NEWNET); err != nil {
			result <- fmt.Errorf("enter the network of the local cluster: %w", err)
			return
		}
		err = work()
		if unix.Setns(int(home.Fd()), unix.CLONE_NEWNET) == nil {
			runtime.UnlockOSThread()
		}
		result <- err
	}()
	return <-result
}
