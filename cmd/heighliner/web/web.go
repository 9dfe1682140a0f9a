// Package web contains the command that serves the board of internal/web in the cluster. The command reads objects with the
// permissions of its ServiceAccount, shows users only what they are allowed to see, and impersonates the user whose
// action it performs. The manager does not have the permissions of this command.
//
//	web.go      the command
//	options.go  the flags, and the values derived from them
//	server.go   the server, which reads the objects and serves the board
//	tls.go      certificates, which can change while the server runs
package web

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
)

// NewCommand returns the web command.
func NewCommand(version string) *cobra.Command {
	var o Options
	cmd := &cobra.Command{
		Use:   "web",
		Short: "Serve the board in the cluster for users who log in",
		Long: `heighliner web serves the board in the cluster. Users log in with an identity provider
(OpenID Connect), or through a proxy that authenticates them and presents a client certificate; there is no
anonymous access. Users see the objects that access reviews allow them to list. The server
impersonates the user who performs an action, so that RBAC, admission policies and the audit log see that user.

config/components/web contains the Deployment and the roles of the board. "hlnr web" serves the same board to one
user, with their kubeconfig.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			config, err := ctrl.GetConfig()
			if err != nil {
				return fmt.Errorf("find the cluster: %w; set KUBECONFIG or --kubeconfig", err)
			}
			config = rest.CopyConfig(config)
			config.UserAgent = "heighliner-web/" + version
			o.Version, o.Config, o.Clock = version, config, clock.RealClock{}
			o.Log = slog.New(slog.NewJSONHandler(cmd.ErrOrStderr(), nil))
			if err := Run(ctx, o); ctx.Err() == nil {
				return err
			}
			return nil
		},
	}
	o.addFlags(cmd.Flags())
	if k := flag.Lookup("kubeconfig"); k != nil {
		cmd.Flags().AddGoFlag(k)
	}
	cmd.SetContext(context.Background())
	return cmd
}
