// Command localcluster runs a one-node Kubernetes cluster with a gateway and an OCI registry
// inside an isolated network namespace. It downloads only Go modules and Debian packages; see
// README.md.
//
//	main.go             the command line
//	up.go               starts and stops the cluster
//	decide.go           decides what the up command does (a pure function)
//	parts.go            the processes of the cluster
//	supervise.go        the supervisor of the processes
//	control.go          requests to the supervisor
//	config.go           addresses, ports and folders
//	manifests.go        configuration and objects, with inserted values
//	pki.go              certificates and kubeconfig files
//	registry.go         the image registry
//	api.go              requests to the API server
//	targets.go          scrape targets for Prometheus
//	build.go            builds programs from Go modules
//	packages.go         Debian packages
//	lock.go             lock against concurrent commands
//	namespace_linux.go  the network namespace
//	namespace_other.go  stubs for other systems
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/spf13/cobra"

	"github.com/heighliner/heighliner/hack/localcluster/image"
)

// elsewhere is the advice for machines that cannot run this cluster.
const elsewhere = "use an existing cluster (kind, k3d or a real one): see docs/how-to/install.md"

// exitDown is the exit code of the status command if a part of the cluster is not running.
const exitDown = 3

var errDown = errors.New("check cluster: not all parts are running: run localcluster up")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := rootCommand().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "localcluster:", err)
		if errors.Is(err, errDown) {
			os.Exit(exitDown)
		}
		os.Exit(1)
	}
}

// options are the values of all flags.
type options struct {
	cluster
	source string
}

func rootCommand() *cobra.Command {
	o := &options{}
	o.config = defaultConfig()
	started := time.Now()
	o.say = func(format string, arguments ...any) {
		fmt.Fprintf(os.Stderr, "[%5.1fs] %s\n", time.Since(started).Seconds(), fmt.Sprintf(format, arguments...))
	}
	root := &cobra.Command{
		Use:               "localcluster",
		Short:             "Run a one-node Kubernetes cluster with a gateway and a registry, isolated from the network",
		SilenceUsage:      true,
		SilenceErrors:     true,
		PersistentPreRunE: func(*cobra.Command, []string) error { return o.config.complete() },
	}
	flags := root.PersistentFlags()
	flags.StringVar(&o.config.Name, "name", o.config.Name, "name of the cluster; several clusters with different ports can run side by side")
	flags.StringVar(&o.config.RunDir, "run-dir", "", "folder for all files of the cluster; the down command removes it (default /var/lib/NAME)")
	flags.StringVar(&o.source, "source", "", "hack/localcluster folder of a checkout (default: the nearest one in or above the current folder)")
	root.AddCommand(o.upCommand(), o.downCommand(), o.statusCommand(), o.kubeconfigCommand(), o.buildCommand(),
		o.assetsCommand(), o.programsCommand(), o.packagesCommand(), o.imageCommand(), o.killCommand(), o.restartCommand(), o.gatewayRestartCommand(),
		o.superviseCommand(), registryCommand(), scrapeTargetsCommand())
	return root
}

func (o *options) upCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "up",
		Short: "Build missing programs, and start or repair the cluster",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			started := time.Now()
			if err := o.up(cmd.Context(), o.source); err != nil {
				return err
			}
			o.say("the cluster is running (the up command took %s)", time.Since(started).Round(100*time.Millisecond))
			o.printAddresses(cmd.OutOrStdout(), o.config)
			return nil
		},
	}
	flags, ports := command.Flags(), &o.config.Ports
	flags.IntVar(&ports.API, "api-port", ports.API, "loopback port of the API server")
	flags.IntVar(&ports.Registry, "registry-port", ports.Registry, "loopback port of the registry")
	flags.IntVar(&ports.AuthRegistry, "auth-registry-port", ports.AuthRegistry, "loopback port of the registry with basic auth")
	flags.IntVar(&ports.Gateway, "gateway-port", ports.Gateway, "loopback port of the gateway for HTTP")
	flags.IntVar(&ports.HTTPS, "https-port", ports.HTTPS, "loopback port of the gateway for HTTPS")
	flags.IntVar(&ports.TLS, "tls-port", ports.TLS, "loopback port of the gateway for TLS that the pods terminate")
	flags.IntVar(&ports.TCP, "tcp-port", ports.TCP, "loopback port of the gateway for TCP")
	flags.IntVar(&ports.Prometheus, "prometheus-port", ports.Prometheus, "loopback port of Prometheus; the default is not 9090, because a Prometheus on the host may use that port")
	flags.DurationVar(&o.config.GatewayThrottle, "gateway-throttle", o.config.GatewayThrottle,
		"minimum time between two configuration updates of the gateway; Traefik's own default is 2s")
	return command
}

func (o *options) printAddresses(w io.Writer, c Config) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "kubeconfig\t%s\n", c.kubeconfig())
	fmt.Fprintf(table, "registry\t127.0.0.1:%d, inside the cluster %s:%d\n", c.Ports.Registry, nodeAddress, registryPort)
	fmt.Fprintf(table, "registry, basic auth\t127.0.0.1:%d, inside the cluster %s:%d (%s/%s)\n",
		c.Ports.AuthRegistry, nodeAddress, authPort, registryUser, registrySecret)
	fmt.Fprintf(table, "gateway\thttp://127.0.0.1:%d (Gateway infra/public, listener http)\n", c.Ports.Gateway)
	fmt.Fprintf(table, "gateway, HTTPS\thttps://127.0.0.1:%d (Gateway infra/edge, listener https; authority %s)\n", c.Ports.HTTPS, c.path("pki", "ca.crt"))
	fmt.Fprintf(table, "gateway, TLS\t127.0.0.1:%d (listener tls; the pods terminate TLS)\n", c.Ports.TLS)
	fmt.Fprintf(table, "gateway, TCP\t127.0.0.1:%d (listener tcp; inside the cluster, listener tcp-2 is at %s:%d)\n", c.Ports.TCP, nodeAddress, secondTCPPort)
	fmt.Fprintf(table, "Prometheus\thttp://127.0.0.1:%d, inside the cluster http://%s:%d\n", c.Ports.Prometheus, nodeAddress, prometheusPort)
	fmt.Fprintf(table, "audit log\t%s\n", c.auditLog())
	_ = table.Flush()
}

func (o *options) downCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "down",
		Short: "Stop the cluster and remove everything that it created",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.down(cmd.Context()); err != nil {
				return err
			}
			o.say("nothing remains of the cluster")
			return nil
		},
	}
}

func (o *options) statusCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: fmt.Sprintf("Show every part; the exit code is %d if a part is not running", exitDown),
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.status(cmd.Context(), cmd.OutOrStdout())
		},
	}
}

// status prints the parts and returns an error unless all of them are running.
func (c *cluster) status(ctx context.Context, w io.Writer) error {
	config, _, state, err := c.running(ctx)
	if err != nil {
		return fmt.Errorf("%w (%w)", errDown, err)
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "PART\tPID\tSTATE\tSTARTS\tAGE\tADDRESS")
	fmt.Fprintf(table, "supervisor\t%d\trunning\t1\t\t%s\n", state.Supervisor, config.path("control.sock"))
	for _, p := range state.Parts {
		word, age := "running", time.Since(p.Started).Round(time.Second).String()
		if !p.Running {
			word, age = "exited: "+p.Exit, ""
		}
		fmt.Fprintf(table, "%s\t%d\t%s\t%d\t%s\t%s\n", p.Name, p.PID, word, p.Starts, age, p.Address)
	}
	_ = table.Flush()
	fmt.Fprintf(w, "\nowner %s since %s\n", config.Owner.Checkout, config.Owner.Since.Format(time.RFC3339))
	if dead := state.dead(); len(dead) > 0 {
		return fmt.Errorf("%w (exited: %s)", errDown, strings.Join(dead, ", "))
	}
	api, err := newAPI(config)
	if err != nil {
		return err
	}
	if err := api.healthy(ctx); err != nil {
		return fmt.Errorf("%w (%w)", errDown, err)
	}
	return nil
}

func (o *options) kubeconfigCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "kubeconfig",
		Short: "Print the path of the kubeconfig for clients on this machine",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !exists(o.config.kubeconfig()) {
				return fmt.Errorf("find kubeconfig: %s does not exist: run localcluster up", o.config.kubeconfig())
			}
			fmt.Fprintln(cmd.OutOrStdout(), o.config.kubeconfig())
			return nil
		},
	}
}

func (o *options) buildCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "build",
		Short: "Build the binaries into the cache without starting anything",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			builder, err := newBuilder(o.source, o.say)
			if err != nil {
				return err
			}
			return printBinaries(cmd, builder, binaries)
		},
	}
}

func (o *options) programsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "programs NAME...",
		Short: "Build programs that tests need (distribution, gitea, kwok), and print their paths; needs neither a cluster nor root",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, names []string) error {
			builder, err := newBuilder(o.source, o.say)
			if err != nil {
				return err
			}
			var wanted []binary
			for _, name := range names {
				i := slices.IndexFunc(testBinaries, func(b binary) bool { return b.name == name })
				if i < 0 {
					return fmt.Errorf("build programs: unknown test program %q", name)
				}
				wanted = append(wanted, testBinaries[i])
			}
			return printBinaries(cmd, builder, wanted)
		},
	}
}

// printBinaries builds missing binaries, and prints the path of each.
func printBinaries(cmd *cobra.Command, builder *builder, wanted []binary) error {
	var names []string
	for _, bin := range wanted {
		names = append(names, bin.name)
	}
	keys, err := builder.ensure(cmd.Context(), names...)
	if err != nil {
		return err
	}
	for _, bin := range wanted {
		fmt.Fprintln(cmd.OutOrStdout(), builder.binaryPath(bin, keys[bin.name]))
	}
	return nil
}

func (o *options) packagesCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "packages [PROGRAM...]",
		Short: "Install the Debian packages that contain the given programs (default: all programs that the cluster needs)",
		RunE: func(cmd *cobra.Command, programs []string) error {
			needed := tools
			if len(programs) > 0 {
				var err error
				if needed, err = toolsNamed(programs); err != nil {
					return err
				}
			}
			return installPackages(cmd.Context(), needed, o.say)
		},
	}
}

func (o *options) assetsCommand() *cobra.Command {
	var kubernetes string
	command := &cobra.Command{
		Use:   "assets",
		Short: "Print the path of a folder for KUBEBUILDER_ASSETS, with kube-apiserver, etcd, kubectl, and other programs; does not need root",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			builder, err := newBuilder(o.source, o.say)
			if err != nil {
				return err
			}
			if kubernetes != "" {
				folder, err := builder.controlPlane(cmd.Context(), kubernetes)
				if err != nil {
					return err
				}
				fmt.Fprintln(cmd.OutOrStdout(), folder)
				return nil
			}
			keys, err := builder.ensure(cmd.Context(), "kube")
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), filepath.Dir(builder.binaryPath(binaries[0], keys["kube"])))
			return nil
		},
	}
	command.Flags().StringVar(&kubernetes, "kubernetes", "", "minor version of the control plane, such as 1.33; defaults to the version of the cluster, "+kubernetesVersion)
	return command
}

func (o *options) imageCommand() *cobra.Command {
	var (
		spec                image.Spec
		ref, user, password string
	)
	push := &cobra.Command{
		Use:   "push --binary PATH --image REF",
		Short: "Build a one-layer image around a static binary and push it",
		Long: "Build a one-layer image around a static binary and push it.\n\n" +
			"If the reference contains the registry's address inside the cluster (" + nodeAddress + "), the image is pushed through the forwarded port.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			img, err := image.Build(spec)
			if err != nil {
				return err
			}
			var options []remote.Option
			if user != "" {
				options = append(options, remote.WithAuth(&authn.Basic{Username: user, Password: password}))
			}
			if err := image.Push(cmd.Context(), img, o.reachable(ref), options...); err != nil {
				return err
			}
			digest, err := img.Digest()
			if err != nil {
				return fmt.Errorf("read digest: %w", err)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s@%s\n", ref, digest)
			return nil
		},
	}
	flags := push.Flags()
	flags.StringVar(&spec.Binary, "binary", "", "static binary; becomes /NAME in the image")
	flags.StringVar(&ref, "image", "", "reference to push to")
	flags.StringArrayVar(&spec.Env, "env", nil, "environment variable NAME=VALUE; repeatable")
	flags.StringToStringVar(&spec.Labels, "label", nil, "label NAME=VALUE; repeatable")
	flags.StringToStringVar(&spec.Annotations, "annotation", nil, "annotation NAME=VALUE of the manifest; repeatable")
	flags.StringVar(&spec.Platform, "platform", "linux/amd64", "OS/ARCHITECTURE")
	flags.StringVar(&spec.User, "user", "65532", "numeric user ID, or USER:GROUP")
	flags.StringArrayVar(&spec.Entrypoint, "entrypoint", nil, "one element of the entrypoint; repeatable (default: the binary)")
	flags.BoolVar(&spec.CACerts, "ca-certs", false, "add this system's trusted certificates")
	flags.StringVar(&user, "username", "", "user for basic auth")
	flags.StringVar(&password, "password", "", "password for basic auth")
	_ = push.MarkFlagRequired("binary")
	_ = push.MarkFlagRequired("image")
	command := &cobra.Command{Use: "image", Short: "Build and push images without a container engine"}
	command.AddCommand(push)
	return command
}

// reachable replaces the registry's address inside the cluster with the forwarded port of the running
// cluster.
func (o *options) reachable(ref string) string {
	ports := o.config.Ports
	if running, err := loadConfig(o.config.RunDir); err == nil && running != nil {
		ports = running.Ports
	}
	inside := map[int]int{registryPort: ports.Registry, authPort: ports.AuthRegistry}
	for port, host := range inside {
		if rest, ok := strings.CutPrefix(ref, fmt.Sprintf("%s:%d/", nodeAddress, port)); ok {
			return fmt.Sprintf("127.0.0.1:%d/%s", host, rest)
		}
	}
	return ref
}

func (o *options) killCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "kill PART",
		Short: "Kill a part immediately, for fault tests; PART is a name in the output of status, such as etcd or supervisor",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), 10*time.Second)
			defer cancel()
			return o.kill(ctx, arguments[0])
		},
	}
}

func (o *options) restartCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "restart PART",
		Short: "Stop a part if it is running, and start it",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			return o.restart(cmd.Context(), arguments[0], nil)
		},
	}
}

func (o *options) gatewayRestartCommand() *cobra.Command {
	throttle := o.config.GatewayThrottle
	command := &cobra.Command{
		Use:   "gateway-restart",
		Short: "Restart the gateway, optionally with another throttle",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.restart(cmd.Context(), "traefik", func(c *Config) {
				if cmd.Flags().Changed("gateway-throttle") {
					c.GatewayThrottle = throttle
				}
			})
		},
	}
	command.Flags().DurationVar(&throttle, "gateway-throttle", throttle, "minimum time between two configuration updates of the gateway (default: unchanged)")
	return command
}

func (o *options) superviseCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "supervise",
		Short:  "Run and supervise all parts (started by the up command)",
		Args:   cobra.NoArgs,
		Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if os.Getenv(mark) != o.config.RunDir {
				return errors.New("supervise: this command can only be started by the \"up\" command, in its own mount namespace")
			}
			config, err := loadConfig(o.config.RunDir)
			if err != nil {
				return err
			}
			if config == nil {
				return fmt.Errorf("supervise: no record of a cluster in %s", o.config.RunDir)
			}
			return supervise(cmd.Context(), *config)
		},
	}
}

func registryCommand() *cobra.Command {
	var listen, data, credential string
	command := &cobra.Command{
		Use:    "registry",
		Short:  "Serve an OCI registry (started by the supervisor)",
		Args:   cobra.NoArgs,
		Hidden: true,
		RunE: func(*cobra.Command, []string) error {
			return serveRegistry(listen, data, credential)
		},
	}
	command.Flags().StringVar(&listen, "listen", "", "address to listen on")
	command.Flags().StringVar(&data, "data", "", "folder of blobs and manifests")
	command.Flags().StringVar(&credential, "credential", "", "required USER:PASSWORD; empty for a registry without authentication")
	return command
}

func scrapeTargetsCommand() *cobra.Command {
	var listen, pki string
	command := &cobra.Command{
		Use:    "scrape-targets",
		Short:  "List the pods that Prometheus scrapes (started by the supervisor)",
		Args:   cobra.NoArgs,
		Hidden: true,
		RunE: func(*cobra.Command, []string) error {
			pods, err := newAPIAs("prometheus", fmt.Sprintf("https://%s:%d", nodeAddress, apiPort), pki)
			if err != nil {
				return err
			}
			return serveTargets(listen, pods)
		},
	}
	command.Flags().StringVar(&listen, "listen", "", "address to listen on")
	command.Flags().StringVar(&pki, "pki", "", "folder of the certificates")
	return command
}

// portFree returns an error if a loopback port is in use.
func portFree(port int) error {
	listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return err
	}
	return listener.Close()
}
