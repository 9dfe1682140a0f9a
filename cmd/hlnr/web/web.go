// Package web contains the command that serves the board of internal/web to the user.
//
//	web.go   the command
//	acts.go  actions of a reader, and the permissions of the kubeconfig's user
package web

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"net"
	"strconv"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/heighliner/heighliner/cmd/hlnr/cli"
	"github.com/heighliner/heighliner/internal/cluster"
	"github.com/heighliner/heighliner/internal/web"
)

// defaultPort is the default port of the board. The port is fixed so that the pages keep their addresses.
const defaultPort = 8095

// NewCommand returns the web command.
func NewCommand(f *cli.Factory) *cobra.Command {
	var port int
	var readOnly bool
	cmd := &cobra.Command{
		Use:   "web",
		Short: "Serve the board: services, releases and previews in a browser",
		Long: `Serve the board on this machine, with your kubeconfig. The board shows the services that are waiting for
you, all services, their releases, hosts, events and previews, and forms for the actions that you
may take. Open the URL that the command prints. The token in the URL changes with each start, and
prevents access by other users of this machine.

The board watches the objects of the cluster, and shows when the API server is not available.
Press Ctrl-C to stop it. Each page is also available as JSON.`,
		Example: `  # The services in all namespaces
  hlnr web -A

  # For a wall display: no actions, and one namespace
  hlnr web -n shop --read-only

  # From a script
  curl -H "Authorization: Bearer $TOKEN" -H "Accept: application/json" http://127.0.0.1:8095/`,
		GroupID: cli.GroupSee,
		Args:    cobra.NoArgs,
	}
	scope := cli.AddScope(cmd)
	cmd.Flags().IntVar(&port, "port", defaultPort, "port on 127.0.0.1; 0 means any free port")
	cmd.Flags().BoolVar(&readOnly, "read-only", false, "do not show forms for actions, and reject actions")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if port < 0 || port > 65535 {
			return cli.Usage(fmt.Errorf("--port: invalid value %d: must be from 0 to 65535", port))
		}
		title := titleOf(f)
		if name := cmd.Flags().Lookup("context"); name != nil && name.Value.String() != "" {
			title = name.Value.String()
		}
		return run(cmd.Context(), f, scope, title, port, readOnly)
	}
	return cmd
}

// run serves the board until the context is done.
func run(ctx context.Context, f *cli.Factory, scope *cli.Scope, title string, port int, readOnly bool) error {
	namespace, err := scope.Namespace(f)
	if err != nil {
		return err
	}
	selector, err := scope.Selector()
	if err != nil {
		return err
	}
	c, err := f.Client()
	if err != nil {
		return err
	}
	objects, missing, err := cluster.Read(ctx, c, cluster.Query{Namespace: namespace, Selector: selector, Pods: true, Events: true, Namespaces: namespace == ""})
	if err != nil {
		return err
	}
	if objects.Namespace, err = f.Home(); err != nil {
		return err
	}
	objects.Program = f.Program()
	var sentences []string
	for _, err := range missing {
		sentences = append(sentences, f.Explain(ctx, err).Error())
	}
	store := cluster.NewStore(objects, sentences...)
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return cli.Failed(fmt.Errorf("the board cannot listen: %w: set --port to another port, or to 0 for any free port", err))
	}
	defer listener.Close()
	number := strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)
	token, err := newToken()
	if err != nil {
		return err
	}
	options := web.Options{
		Store: store, Token: token, Title: title, Version: f.Version, Clock: clock.RealClock{},
		Hosts: []string{net.JoinHostPort("127.0.0.1", number), net.JoinHostPort("localhost", number)},
	}
	if !readOnly {
		options.Acts = newActs(f, c)
	}
	server, err := web.New(options)
	if err != nil {
		return err
	}
	fmt.Fprintf(f.Out, "The board is at http://127.0.0.1:%s/?token=%s\n", number, token)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return server.Serve(ctx, listener) })
	g.Go(func() error {
		return follow(ctx, f, cluster.Query{Namespace: namespace, Selector: selector}, store, objects)
	})
	return g.Wait()
}

// follow updates a store with the changes to the objects until the context is done.
func follow(ctx context.Context, f *cli.Factory, q cluster.Query, store *cluster.Store, seen cluster.Objects) error {
	config, err := f.Config()
	if err != nil {
		return err
	}
	scheme, err := cli.Scheme()
	if err != nil {
		return err
	}
	monitor := cluster.NewMonitor(f.Now, store.SetOutage)
	config = rest.CopyConfig(config)
	config.Wrap(monitor.Wrap)
	return cluster.Watch(ctx, cluster.Options{Config: config, Scheme: scheme, Namespace: q.Namespace, Selector: q.Selector, Clock: clock.RealClock{}, Changed: store.Set}, seen)
}

// newToken returns a token of 256 random bits.
func newToken() (string, error) {
	raw := make([]byte, 32)
	if _, err := rand.Read(raw); err != nil {
		return "", fmt.Errorf("generate a token: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(raw), nil
}

// titleOf returns the title of the board, which is the current context of the kubeconfig.
func titleOf(f *cli.Factory) string {
	raw, err := f.Kubeconfig().RawConfig()
	if err != nil || raw.CurrentContext == "" {
		return "cluster"
	}
	return raw.CurrentContext
}
