package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// idleTimeout is longer than Traefik's idle timeout (90s), so that Traefik, and not the server, closes idle
// connections. If the server closed a connection, a new request could be in flight on this connection. Envoy's idle
// timeout (1h) is longer than idleTimeout.
const idleTimeout = 2 * time.Minute

// Listen opens the listeners of the application. Tests replace it with in-memory listeners.
type Listen struct {
	TCP func(port int) (net.Listener, error)
	UDP func(port int) (net.PacketConn, error)
}

// Run serves until ctx is done. It then continues to serve for the shutdown delay while readiness fails, so that
// every proxy sees the change, and drains the requests in progress. It returns nil after a clean shutdown. It
// returns an error if it could not listen, was configured to crash, or had to close connections with requests
// in progress.
func Run(ctx context.Context, config Config, listen Listen) error {
	select {
	case <-time.After(config.StartDelay):
	case <-ctx.Done():
		return nil
	}

	app := NewApp(config)
	visits, err := openVisits(config)
	if err != nil {
		return err
	}
	if app.visits = visits; visits != nil {
		defer visits.db.Close()
	}
	failed := make(chan error, 5) // One error for each port.
	drains, err := app.serve(listen, failed)
	if err != nil {
		return err
	}
	if config.Queue != "" {
		end, err := app.startWorker(ctx)
		if err != nil {
			return err
		}
		drains = append(drains, end)
	}
	slog.Info("serving", "app", config.App, "version", config.Version,
		"http", config.Port, "grpc", config.GRPCPort, "tcp", config.TCPPort, "udp", config.UDPPort, "tls", config.TLSPort)

	select {
	case err := <-failed:
		return fmt.Errorf("serve: %w", err)
	case <-crash(config.ExitAfter):
		_ = drainAll(drains, 0)
		return errors.New("crash, as requested by exit-after")
	case <-ctx.Done():
	}

	app.Stop()
	slog.Info("stopping", "servingFor", config.ShutdownDelay.String())
	time.Sleep(config.ShutdownDelay)
	return drainAll(drains, config.DrainTimeout)
}

// serve starts a server for each port that is not disabled. A server that stops unexpectedly sends its error to failed.
func (a *App) serve(listen Listen, failed chan<- error) ([]drain, error) {
	drains := []drain{a.sockets.drain}
	for _, each := range []struct {
		port  int
		serve func(net.Listener, chan<- error) drain
	}{
		{a.config.Port, a.serveHTTP}, {a.config.GRPCPort, a.serveGRPC}, {a.config.TCPPort, a.serveTCP}, {a.config.TLSPort, a.serveTLS},
	} {
		if each.port == 0 {
			continue
		}
		listener, err := listen.TCP(each.port)
		if err != nil {
			return nil, fmt.Errorf("listen on port %d: %w", each.port, err)
		}
		drains = append(drains, each.serve(listener, failed))
	}
	if a.config.UDPPort != 0 {
		conn, err := listen.UDP(a.config.UDPPort)
		if err != nil {
			return nil, fmt.Errorf("listen on UDP port %d: %w", a.config.UDPPort, err)
		}
		drains = append(drains, a.serveUDP(conn, failed))
	}
	return drains, nil
}

func (a *App) serveHTTP(listener net.Listener, failed chan<- error) drain {
	web := newServer(a.Handler())
	go func() { failed <- web.Serve(listener) }()
	return web.Shutdown
}

// serveTLS serves the same handler as serveHTTP, over TLS.
func (a *App) serveTLS(listener net.Listener, failed chan<- error) drain {
	config, err := a.selfSigned()
	if err != nil {
		failed <- err
		return func(context.Context) error { return listener.Close() }
	}
	return a.serveHTTP(tls.NewListener(listener, config), failed)
}

// newServer returns a server without timeouts for whole requests, because GET /slow lasts as long as requested.
func newServer(handler http.Handler) *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Server{
		Handler:           handler,
		Protocols:         protocols,
		ReadHeaderTimeout: 5 * time.Second,
		IdleTimeout:       idleTimeout,
	}
}

// crash returns a channel that receives a value when the process must exit. If after is the zero value, the channel never
// receives a value.
func crash(after After) <-chan time.Time {
	if !after.On {
		return nil
	}
	return time.After(after.Delay)
}

// drainAll drains all servers concurrently.
func drainAll(drains []drain, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	ended := make(chan error, len(drains))
	for _, each := range drains {
		go func() { ended <- each(ctx) }()
	}
	var failures []error
	for range drains {
		failures = append(failures, <-ended)
	}
	if err := errors.Join(failures...); err != nil {
		return fmt.Errorf("drain requests in progress for %s: %w", timeout, err)
	}
	return nil
}
