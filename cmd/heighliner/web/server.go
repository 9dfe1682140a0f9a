package web

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/cmd/hlnr/cli"
	acts "github.com/heighliner/heighliner/cmd/hlnr/web"
	"github.com/heighliner/heighliner/internal/cluster"
	"github.com/heighliner/heighliner/internal/web"
	"github.com/heighliner/heighliner/internal/web/access"
)

// readPause is the pause between attempts at the initial read of the objects.
const readPause = 2 * time.Second

// readTimeout is the timeout for probe requests.
const readTimeout = 5 * time.Second

// server serves the board.
type server struct {
	Options
	factory *cli.Factory
	ready   atomic.Bool
}

// Run serves the board until the context is done.
func Run(ctx context.Context, o Options) error {
	if err := o.validate(); err != nil {
		return err
	}
	s := &server{Options: o, factory: cli.New("hlnr", o.Version, genericiooptions.IOStreams{In: strings.NewReader(""), Out: io.Discard, ErrOut: io.Discard})}
	s.factory.Clock = o.Clock
	id, err := o.identity()
	if err != nil {
		return err
	}
	listener, err := s.listen(ctx)
	if err != nil {
		return err
	}
	defer listener.Close()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.probes(ctx) })
	g.Go(func() error { return s.serve(ctx, id, listener) })
	return g.Wait()
}

// listen listens on the address of the board, with TLS if a certificate is set.
func (s *server) listen(ctx context.Context) (net.Listener, error) {
	l, err := s.Listener, error(nil)
	if l == nil {
		if l, err = (&net.ListenConfig{}).Listen(ctx, "tcp", s.bindAddress); err != nil {
			return nil, fmt.Errorf("--bind-address: %w", err)
		}
	}
	if s.certFile == "" {
		return l, nil
	}
	config, err := certificates(s.certFile, s.keyFile, s.proxyCAFile)
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return tls.NewListener(l, config), nil
}

// probes serves /healthz and /readyz. /readyz succeeds once the objects have been read.
func (s *server) probes(ctx context.Context) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !s.ready.Load() {
			http.Error(w, "the objects have not been read yet", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.probeAddress)
	if err != nil {
		return fmt.Errorf("--health-probe-bind-address: %w", err)
	}
	probes := &http.Server{Handler: mux, ReadTimeout: readTimeout, ReadHeaderTimeout: readTimeout, WriteTimeout: readTimeout}
	defer context.AfterFunc(ctx, func() { _ = probes.Close() })()
	if err := probes.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve probes: %w", err)
	}
	return ctx.Err()
}

// serve reads the objects, and then serves the board.
func (s *server) serve(ctx context.Context, id web.Identity, listener net.Listener) error {
	config := rest.CopyConfig(s.Config)
	config.QPS = -1 // The number of concurrent access reviews is limited instead.
	c, err := cli.NewClient(config)
	if err != nil {
		return err
	}
	objects, missing, err := s.read(ctx, c)
	if err != nil {
		return err
	}
	store := cluster.NewStore(objects, missing...)
	permissions := access.New(access.Options{Clock: s.Clock, Review: func(ctx context.Context, review *authorizationv1.SubjectAccessReview) error {
		return c.Create(ctx, review)
	}})
	options := web.Options{
		Store: store, Identity: id, Access: permissions, Secure: true, Hosts: s.hosts(), Title: s.title, Version: s.Version, Clock: s.Clock,
	}
	if !s.readOnly {
		options.Acts = &acts.Acts{
			Factory: s.factory, Client: s.impersonate,
			Permissions: func(ctx context.Context, namespace string) []string {
				return permissions.May(ctx, web.ReaderOf(ctx), namespace)
			},
			FreezePermissions: func(ctx context.Context, namespace string) (freeze, thaw bool) {
				return permissions.MayFreeze(ctx, web.ReaderOf(ctx), namespace)
			},
		}
	}
	board, err := web.New(options)
	if err != nil {
		return err
	}
	s.ready.Store(true)
	s.Log.Info("serving the board", "url", s.url, "version", s.Version, "services", len(objects.Microservices))
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return board.Serve(ctx, listener) })
	g.Go(func() error { return s.follow(ctx, config, store, objects) })
	return g.Wait()
}

// read reads the objects, and retries until the API server returns them.
func (s *server) read(ctx context.Context, c client.Client) (cluster.Objects, []string, error) {
	for {
		objects, missing, err := cluster.Read(ctx, c, cluster.Query{Pods: true, Events: true, Namespaces: true})
		if err == nil {
			var sentences []string
			for _, err := range missing {
				sentences = append(sentences, s.factory.Explain(ctx, err).Error())
			}
			objects.Program = s.factory.Program()
			return objects, sentences, nil
		}
		s.Log.Error("the objects cannot be read", "error", s.factory.Explain(ctx, err).Error())
		timer := s.Clock.NewTimer(readPause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return cluster.Objects{}, nil, ctx.Err()
		case <-timer.C():
		}
	}
}

// follow watches the cluster, and updates the store.
func (s *server) follow(ctx context.Context, config *rest.Config, store *cluster.Store, seen cluster.Objects) error {
	scheme, err := cli.Scheme()
	if err != nil {
		return err
	}
	monitor := cluster.NewMonitor(s.Clock.Now, func(o *cluster.Outage) {
		if o != nil {
			s.Log.Warn("the API server is not available", "cause", o.Cause)
		} else {
			s.Log.Info("the API server is available again")
		}
		store.SetOutage(o)
	})
	config = rest.CopyConfig(config)
	config.Wrap(monitor.Wrap)
	return cluster.Watch(ctx, cluster.Options{Config: config, Scheme: scheme, Clock: s.Clock, Changed: store.Set}, seen)
}

// impersonate returns a client that impersonates the user that the context contains, so that RBAC, admission and the audit log see this user.
func (s *server) impersonate(ctx context.Context) (client.WithWatch, error) {
	reader := web.ReaderOf(ctx)
	if reader.User == "" || strings.HasPrefix(reader.User, "system:") {
		return nil, &web.Problem{Status: http.StatusUnauthorized, Title: "You are not logged in", Text: "Nothing was changed."}
	}
	config := rest.CopyConfig(s.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: reader.User, Groups: reader.Groups}
	return cli.NewClient(config)
}
