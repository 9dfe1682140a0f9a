// Command sampleapp is the application that Heighliner's demos and tests release. It is a small server that
// returns its version over HTTP, gRPC, TLS, TCP, and UDP, and serves metrics and health endpoints. It can be
// configured to start slowly, to never become ready, to crash, to return errors, or to respond slowly. All
// images contain the same binary, and differ only in their environment.
//
//	main.go     the process
//	config.go   flags and environment
//	app.go      handlers and metrics
//	run.go      listeners, and shutdown
//	faults.go   faults on demand
//	job.go      the Job of a hook
//	worker.go   jobs of a queue
//	database.go a table of a schema, and the Jobs that create and drop the schema
//	grpc.go     gRPC
//	streams.go  long responses and WebSockets
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strconv"
	"syscall"
)

func main() {
	config, err := ParseConfig(os.Args[1:], os.Getenv, os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return
	case err != nil:
		fmt.Fprintln(os.Stderr, "sampleapp:", err)
		os.Exit(2)
	}

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if config.JobURL != "" || config.JobSQL != "" {
		out, closed := endJob()
		var err error
		if config.JobSQL != "" {
			err = RunSQL(ctx, config, out)
		} else {
			err = RunJob(ctx, config, os.Environ(), out)
		}
		closed()
		if err != nil {
			fmt.Fprintln(os.Stderr, "sampleapp:", err)
			os.Exit(1)
		}
		return
	}
	if err := Run(ctx, config, network); err != nil {
		fmt.Fprintln(os.Stderr, "sampleapp:", err)
		os.Exit(1)
	}
}

// network listens on all addresses.
var network = Listen{
	TCP: func(port int) (net.Listener, error) { return net.Listen("tcp", anywhere(port)) },
	UDP: func(port int) (net.PacketConn, error) { return net.ListenPacket("udp", anywhere(port)) },
}

func anywhere(port int) string { return net.JoinHostPort("", strconv.Itoa(port)) }
