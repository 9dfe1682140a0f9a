// Command pause keeps the namespaces of a pod: it waits for the signal that
// ends the pod and exits.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	done := make(chan os.Signal, 1)
	signal.Notify(done, syscall.SIGTERM, syscall.SIGINT)
	<-done
}
