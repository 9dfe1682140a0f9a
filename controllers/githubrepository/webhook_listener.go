package githubrepository

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// webhookServer accepts deliveries on every replica.
type webhookServer struct {
	address string
	handler http.Handler
}

// NeedLeaderElection returns false, because a Service can send deliveries to any replica.
func (*webhookServer) NeedLeaderElection() bool { return false }

// Start serves until ctx is done.
func (s *webhookServer) Start(ctx context.Context) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.address)
	if err != nil {
		return fmt.Errorf("listen for webhooks at --webhook-bind-address: %w", err)
	}
	web := &http.Server{
		Handler:           s.handler,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      15 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
	}
	done := make(chan error, 1)
	go func() {
		<-ctx.Done()
		end, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		done <- web.Shutdown(end)
	}()
	if err := web.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve webhooks: %w", err)
	}
	return <-done
}
