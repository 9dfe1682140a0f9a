package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// idleTimeout outlasts the idle timeout of gateways (Traefik 90s, Envoy 1h is not reached), so that the side which may be
// about to send a request is the one that closes.
const idleTimeout = 2 * time.Minute

// Run serves until ctx ends, then goes on serving for the shutdown delay with readiness false, so that every proxy has
// heard of it, and drains what is under way. It returns nil after a clean end and an error when it could not listen, was
// told to crash or had to break requests off.
func Run(ctx context.Context, config Config, listen func(port int) (net.Listener, error)) error {
	select {
	case <-time.After(config.StartDelay):
	case <-ctx.Done():
		return nil
	}

	listener, err := listen(config.Port)
	if err != nil {
		return fmt.Errorf("listen on port %d: %w", config.Port, err)
	}
	app := NewApp(config)
	server := newServer(app.Handler())
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	slog.Info("serving", "app", config.App, "version", config.Version, "address", listener.Addr().String())

	select {
	case err := <-failed:
		return fmt.Errorf("serve: %w", err)
	case <-crash(config.ExitAfter):
		_ = server.Close()
		return errors.New("told to crash by exit-after")
	case <-ctx.Done():
	}

	app.Stop()
	slog.Info("stopping", "servingFor", config.ShutdownDelay.String())
	time.Sleep(config.ShutdownDelay)
	return drain(server, config.DrainTimeout)
}

func newServer(handler http.Handler) *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Server{
		Handler:           handler,
		Protocols:         protocols,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       15 * time.Second,
		IdleTimeout:       idleTimeout,
	}
}

// crash fires when the process is to end; never for the zero value.
func crash(after After) <-chan time.Time {
	if !after.On {
		return nil
	}
	return time.After(after.Delay)
}

func drain(server *http.Server, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		return fmt.Errorf("drain requests under way for %s: %w", timeout, err)
	}
	return nil
}
