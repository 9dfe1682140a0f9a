package harness

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"
)

// ListenInside listens on a TCP address in the network namespace of the local cluster, where its pods and its manager
// can reach it. A socket stays where it was opened; the thread that went there ends. It needs root.
func (a Addresses) ListenInside(address string) (listener net.Listener, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked, so that the thread ends with the goroutine
		var namespace *os.File
		if namespace, err = os.Open(filepath.Join(filepath.Dir(a.Kubeconfig), "netns")); err != nil {
			err = fmt.Errorf("find the network of the local cluster: %w", err)
			return
		}
		defer namespace.Close()
		if err = unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNET); err != nil {
			err = fmt.Errorf("enter the network of the local cluster: %w", err)
			return
		}
		listener, err = net.Listen("tcp", address)
	}()
	<-done
	return listener, err
}
