package main

import (
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"runtime/debug"
	"strings"
	"time"
	_ "time/tzdata" // Deploy windows need time zones, and the image contains no time zone files.

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/uuid"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/cmd/heighliner/web"
	"github.com/heighliner/heighliner/controllers/feedback"
	"github.com/heighliner/heighliner/controllers/follower"
	"github.com/heighliner/heighliner/controllers/freeze"
	"github.com/heighliner/heighliner/controllers/githubrepository"
	"github.com/heighliner/heighliner/controllers/imagepolicy"
	"github.com/heighliner/heighliner/controllers/microservice"
	"github.com/heighliner/heighliner/controllers/networkpolicy"
	"github.com/heighliner/heighliner/controllers/notification"
	"github.com/heighliner/heighliner/controllers/versionedmicroservice"
	"github.com/heighliner/heighliner/internal/compact"
	"github.com/heighliner/heighliner/internal/github"
	"github.com/heighliner/heighliner/internal/index"
	"github.com/heighliner/heighliner/internal/outbound"
	"github.com/heighliner/heighliner/internal/registry"
	"github.com/heighliner/heighliner/internal/registry/workloadidentity"
	"github.com/heighliner/heighliner/internal/servicemetrics"
	"github.com/heighliner/heighliner/internal/shard"
)

// version is the version of the manager. The linker sets it.
var version = "dev"

// options are the values of the manager's flags.
type options struct {
	leaderElect     bool
	shards          int
	leaderNamespace string
	metricsAddress  string
	metricsInsecure bool
	probeAddress    string
	webhookAddress  string
	pprofAddress    string
	namespaces      []string
	minDrain        time.Duration
	workers         int
	maxStarting     int
	prometheus      string
	platform        string
	registryRate    float64
	// identityClouds and identityNamespaces define the clouds and namespaces for which ImagePolicies
	// without pull Secrets use the workload identity of the manager.
	identityClouds, identityNamespaces []string
	serviceMetrics                     int
	outbound                           outbound.Config
}

// command returns the root command.
func command() *cobra.Command {
	var o options
	zapOptions := zap.Options{}
	cmd := &cobra.Command{
		Use:   "heighliner",
		Short: "Release platform for Kubernetes: runs the controllers of hlnr.io",
		Long: `heighliner runs the controllers for GitHubRepositories, ImagePolicies, Microservices,
VersionedMicroservices, NetworkPolicies, Freezes and NotificationPolicies in the hlnr.io API group. Each new version
becomes a release next to the active one, receives traffic step by step, and is rolled
back if it fails.

heighliner connects to the cluster of the kubeconfig file in --kubeconfig or KUBECONFIG, or to the cluster of its pod.`,
		Version:       version,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(*cobra.Command, []string) error {
			if err := o.validate(); err != nil {
				return err
			}
			return run(ctrl.SetupSignalHandler(), o, newLogger(&zapOptions))
		},
	}
	f := cmd.Flags()
	f.BoolVar(&o.leaderElect, "leader-elect", false, "run only while holding the leader election Lease; required with more than one replica")
	f.IntVar(&o.shards, "shards", 0, "number of shards across which the namespaces are distributed by a hash of their names; each replica reconciles the shards whose Leases it holds. Replaces --leader-elect. All replicas must use the same number; change it only while no replica is running. 0 disables shards")
	f.StringVar(&o.leaderNamespace, "leader-election-namespace", "", "namespace of the Leases, and of the ConfigMap that defines which namespaces may use which hosts; defaults to the namespace of the pod")
	f.StringVar(&o.metricsAddress, "metrics-bind-address", ":8443", "address at which metrics are served over HTTPS to callers that may read /metrics; 0 disables metrics")
	f.BoolVar(&o.metricsInsecure, "metrics-insecure", false, "serve metrics over HTTP without authorization")
	f.StringVar(&o.probeAddress, "health-probe-bind-address", ":8081", "address of /healthz and /readyz")
	f.StringVar(&o.webhookAddress, "webhook-bind-address", "0", "address at which the manager accepts GitHub webhook deliveries over HTTP, behind a Gateway; 0 disables webhooks")
	f.StringVar(&o.pprofAddress, "pprof-bind-address", "0", "address at which net/http/pprof profiles are served under /debug/pprof/, over HTTP without authorization, such as 127.0.0.1:6060; 0 disables profiles")
	f.StringSliceVar(&o.namespaces, "namespace", nil, "namespaces to watch; defaults to all")
	f.DurationVar(&o.minDrain, "min-drain-delay", 5*time.Second, "minimum time between the removal of the last route to a release and the removal of its pods; gateways need this time to apply accepted routes")
	f.StringVar(&o.prometheus, "prometheus-address", "", "URL of the Prometheus server for analyses that do not set an address")
	f.StringSliceVar(&o.outbound.Allow, "outbound-allow", nil, "addresses, CIDRs and host names, with their subdomains, that ImagePolicies, analyses, hooks, NotificationPolicies, GitHubRepositories and probes of Gateways may call even if they are loopback, link-local or multicast; with a port, only that port is allowed, such as 127.0.0.1:5000 for a local registry; metadata services are never allowed")
	f.StringSliceVar(&o.outbound.Deny, "outbound-deny", nil, "addresses, CIDRs and host names, with their subdomains, that ImagePolicies, analyses, hooks, NotificationPolicies, GitHubRepositories and probes of Gateways must not call; takes precedence over --outbound-allow")
	f.Float64Var(&o.registryRate, "registry-requests-per-second", registry.DefaultPerSecond, "maximum number of requests per second to each registry with each credential; bursts can be twice as large. After a 429 response, the rate is halved, and then increased every minute")
	f.StringVar(&o.platform, "default-platform", "", "platform that images must support if spec.platforms of the ImagePolicy is not set, such as linux/amd64; defaults to linux with the architecture of the manager's node, which can differ between replicas")
	f.StringSliceVar(&o.identityClouds, "registry-workload-identity", nil, "clouds whose registries the manager accesses with its workload identity, for ImagePolicies without imagePullSecrets: aws, azure, google")
	f.StringSliceVar(&o.identityNamespaces, "registry-workload-identity-namespaces", nil, "namespaces whose ImagePolicies may use --registry-workload-identity; defaults to all")
	f.IntVar(&o.serviceMetrics, "service-metrics-limit", servicemetrics.DefaultLimit, "maximum number of Microservices for which metrics by namespace, Microservice and group are reported. If there are more Microservices, the manager exports only counts; 0 disables these metrics")
	f.IntVar(&o.maxStarting, "max-starting-rollouts", 100, "maximum number of rollouts that start at the same time in this manager; others wait for their turn; 0 means no limit")
	f.IntVar(&o.workers, "workers", 8, "maximum number of objects of each kind that are reconciled concurrently")
	std := flag.NewFlagSet("", flag.ContinueOnError)
	zapOptions.BindFlags(std)
	if k := flag.Lookup("kubeconfig"); k != nil {
		std.Var(k.Value, k.Name, k.Usage)
	}
	f.AddGoFlagSet(std)
	cmd.AddCommand(checkCommand(), web.NewCommand(version))
	cmd.CompletionOptions.DisableDefaultCmd = true
	cmd.SetHelpCommand(&cobra.Command{Hidden: true})
	return cmd
}

// maxServiceMetrics is the upper bound of --service-metrics-limit.
const maxServiceMetrics = 10_000

// minRegistryRate and maxRegistryRate are the bounds of --registry-requests-per-second.
const minRegistryRate, maxRegistryRate = 0.1, 10_000.0

// platformPattern is the pattern of spec.platforms in an ImagePolicy.
var platformPattern = regexp.MustCompile(`^[a-z0-9]+/[a-z0-9]+(/[a-z0-9]+)?$`)

// validate returns an error for invalid flags.
func (o options) validate() error {
	switch {
	case o.minDrain <= 0:
		return fmt.Errorf("--min-drain-delay: invalid value %s: must be greater than 0, such as 5s", o.minDrain)
	case o.shards < 0 || o.shards > shard.Max:
		return fmt.Errorf("--shards: invalid value %d: must be from 0 to %d, such as the number of replicas", o.shards, shard.Max)
	case o.shards > 0 && o.leaderElect:
		return errors.New("--shards and --leader-elect: set only one of them, because each shard has its own Lease")
	case o.shards > 0 && o.ownNamespace() == "":
		return errors.New("--shards requires --leader-election-namespace, the namespace of the Leases")
	case o.maxStarting < 0:
		return fmt.Errorf("--max-starting-rollouts: invalid value %d: must not be negative", o.maxStarting)
	case o.platform != "" && !platformPattern.MatchString(o.platform):
		return fmt.Errorf("--default-platform: invalid value %q: write the operating system and the architecture in lower case, such as linux/amd64 or linux/arm64/v8", o.platform)
	case o.workers < 1:
		return fmt.Errorf("--workers: invalid value %d: must be at least 1", o.workers)
	case !(o.registryRate >= minRegistryRate && o.registryRate <= maxRegistryRate):
		return fmt.Errorf("--registry-requests-per-second: invalid value %g: must be from %g to %g, such as %d", o.registryRate, minRegistryRate, maxRegistryRate, registry.DefaultPerSecond)
	case o.serviceMetrics < 0 || o.serviceMetrics > maxServiceMetrics:
		return fmt.Errorf("--service-metrics-limit: invalid value %d: must be from 0 to %d, such as %d", o.serviceMetrics, maxServiceMetrics, servicemetrics.DefaultLimit)
	}
	if len(o.identityNamespaces) > 0 && len(o.identityClouds) == 0 {
		return errors.New("--registry-workload-identity-namespaces requires --registry-workload-identity, such as aws")
	}
	allowed, err := outbound.New(o.outbound)
	if err != nil {
		return err
	}
	_, err = o.identity(allowed)
	return err
}

// identity returns the identity with which the manager reads the registries of cloud providers, or nil if no cloud is configured.
func (o options) identity(allowed *outbound.Policy) (registry.Identity, error) {
	if len(o.identityClouds) == 0 {
		return nil, nil
	}
	identity, err := workloadidentity.New(workloadidentity.Options{Clouds: o.identityClouds, Registries: registry.NewTransport(allowed)})
	if err != nil {
		return nil, fmt.Errorf("--registry-workload-identity: %w", err)
	}
	return identity, nil
}

// podNamespace is the path of the file that contains the namespace of a pod.
const podNamespace = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// ownNamespace returns the namespace of the manager. It is empty if the manager runs outside the cluster and
// --leader-election-namespace is not set.
func (o options) ownNamespace() string {
	if o.leaderNamespace != "" {
		return o.leaderNamespace
	}
	name, err := os.ReadFile(podNamespace)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(name))
}

// run connects to the cluster, and runs the manager until ctx is done.
func run(ctx context.Context, o options, logger logr.Logger) error {
	ctrl.SetLogger(logger)
	klog.SetLogger(logger)
	config, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("find the cluster: %w; set KUBECONFIG or --kubeconfig", err)
	}
	later, err := o.omitUnwatchable(ctx, config, logger)
	if err != nil {
		return err
	}
	mgr, err := newManager(config, o)
	if err != nil {
		return err
	}
	if later != nil {
		if err := mgr.Add(later); err != nil {
			return fmt.Errorf("set up the permission check: %w", err)
		}
	}
	if err := errors.Join(mgr.Add(newHeapGrowth()), mgr.Add(newIdleMemory())); err != nil {
		return fmt.Errorf("set up the return of idle memory: %w", err)
	}
	if o.ownNamespace() == "" {
		logger.Info("the ConfigMap that defines which namespaces may use which hosts is not read, so every namespace may use every host; set --leader-election-namespace to the namespace of the ConfigMap")
	}
	logger.Info("starting", "version", version, "go", goVersion())
	if err := mgr.Start(ctx); err != nil {
		return fmt.Errorf("run the manager: %w", err)
	}
	return nil
}

// newManager returns the manager with all controllers.
func newManager(config *rest.Config, o options) (ctrl.Manager, error) {
	config = rest.CopyConfig(config)
	config.UserAgent = "heighliner/" + version
	mgr, err := ctrl.NewManager(config, managerOptions(o))
	if err != nil {
		return nil, fmt.Errorf("set up the manager: %w", err)
	}
	return mgr, setup(mgr, o)
}

// goVersion returns the Go version with which the binary was built.
func goVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.GoVersion
	}
	return "unknown"
}

// newScheme returns a scheme with all kinds that the controllers read and write.
func newScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme, networkpolicy.AddToScheme} {
		if err := add(scheme); err != nil {
			panic(err) // This cannot happen, because the schemes are constant.
		}
	}
	return scheme
}

// managerOptions converts flags to options of the manager.
func managerOptions(o options) ctrl.Options {
	metrics := metricsserver.Options{BindAddress: o.metricsAddress, SecureServing: !o.metricsInsecure}
	if !o.metricsInsecure {
		metrics.FilterProvider = filters.WithAuthenticationAndAuthorization
		// HTTP/2 is disabled because of stream cancellation attacks (CVE-2023-44487).
		metrics.TLSOpts = []func(*tls.Config){func(c *tls.Config) { c.NextProtos = []string{"http/1.1"} }}
	}
	release := 30 * time.Second
	return ctrl.Options{
		Scheme:                  newScheme(),
		Metrics:                 metrics,
		HealthProbeBindAddress:  o.probeAddress,
		PprofBindAddress:        o.pprofAddress,
		LeaderElection:          o.leaderElect,
		LeaderElectionID:        leaseName,
		LeaderElectionNamespace: o.leaderNamespace,
		// The process exits when the manager stops, so the manager can release the Lease immediately.
		LeaderElectionReleaseOnCancel: true,
		GracefulShutdownTimeout:       &release,
		MapperProvider:                newMapper,
		Cache:                         cacheOptions(o),
		NewCache:                      networkpolicy.NewCache,
		Client: client.Options{Cache: &client.CacheOptions{
			// Secrets are read one by one and are not cached.
			DisableFor: []client.Object{&corev1.Secret{}},
		}},
	}
}

// cacheOptions returns options that limit the cache to the objects of Heighliner, and to the fields that the
// controllers read.
func cacheOptions(o options) cache.Options {
	opts := cache.Options{
		DefaultTransform:            compact.Transform,
		ReaderFailOnMissingInformer: true,
		ByObject:                    versionedmicroservice.CacheByObject(),
	}
	maps.Copy(opts.ByObject, microservice.CacheByObject())
	maps.Copy(opts.ByObject, follower.CacheByObject())
	maps.Copy(opts.ByObject, networkpolicy.CacheByObject())
	if len(o.namespaces) > 0 {
		opts.DefaultNamespaces = map[string]cache.Config{}
		for _, ns := range o.namespaces {
			opts.DefaultNamespaces[ns] = cache.Config{}
		}
	}
	return opts
}

// newShards adds the shards to the manager and returns them. It returns nil if --shards is not set.
func newShards(mgr ctrl.Manager, o options) (*shard.Shards, error) {
	if o.shards == 0 {
		return nil, nil
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("read the host name, which identifies this replica in Leases: %w", err)
	}
	config := rest.CopyConfig(mgr.GetConfig())
	config.Timeout = shard.RenewDeadline / 2
	leases, err := coordinationv1.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("create the client for Leases: %w", err)
	}
	shards, err := shard.New(shard.Options{
		Count: o.shards, Namespace: o.ownNamespace(), Identity: host + "_" + string(uuid.NewUUID()),
		Leases: leases, Metrics: ctrlmetrics.Registry,
	})
	if err != nil {
		return nil, fmt.Errorf("--shards: %w", err)
	}
	if err := mgr.Add(shards); err != nil {
		return nil, fmt.Errorf("add shards: %w", err)
	}
	return shards, nil
}

// setup adds the controllers and the probes.
func setup(mgr ctrl.Manager, o options) error {
	mgr = index.Once(mgr)
	allowed, err := outbound.New(o.outbound)
	if err != nil {
		return err
	}
	// All GitHub clients share a pool, which counts their requests against GitHub's limits.
	pool := github.NewPool(github.Options{Outbound: allowed})
	identity, err := o.identity(allowed)
	if err != nil {
		return err
	}
	scanner := registry.New(registry.Options{UserAgent: "heighliner/" + version, Outbound: allowed, Identity: identity, PerSecond: o.registryRate})
	shards, err := newShards(mgr, o)
	if err != nil {
		return err
	}
	for _, c := range []struct {
		name  string
		setup func() error
	}{
		{"githubrepository", func() error {
			return githubrepository.SetupWithManager(mgr, githubrepository.Options{
				Pool: pool, Workers: o.workers, Shards: shards, WebhookAddress: o.webhookAddress,
			})
		}},
		{"feedback", func() error {
			return feedback.SetupWithManager(mgr, feedback.Options{Pool: pool, Workers: o.workers, Shards: shards})
		}},
		{"imagepolicy", func() error {
			return imagepolicy.SetupWithManager(mgr, imagepolicy.Options{
				Workers: o.workers, Shards: shards, Scanner: scanner, Identity: identity, IdentityNamespaces: o.identityNamespaces, Namespaces: o.namespaces, Platform: o.platform,
			})
		}},
		{"microservice", func() error {
			return microservice.SetupWithManager(mgr, microservice.Options{MinDrainDelay: o.minDrain, Workers: o.workers, Shards: shards, MaxStarting: o.maxStarting})
		}},
		{"freeze", func() error {
			return freeze.SetupWithManager(mgr, freeze.Options{Shards: shards})
		}},
		{"follower", func() error {
			return follower.SetupWithManager(mgr, follower.Options{Workers: o.workers, Shards: shards})
		}},
		{"notification", func() error {
			return notification.SetupWithManager(mgr, notification.Options{
				Shards: shards, Namespace: o.ownNamespace(), Namespaces: o.namespaces, Outbound: allowed, GitHub: pool, UserAgent: "heighliner/" + version,
			})
		}},
		{"versionedmicroservice", func() error {
			return versionedmicroservice.SetupWithManager(mgr, versionedmicroservice.Options{
				Workers: o.workers, Shards: shards, PrometheusAddress: o.prometheus, Outbound: allowed, UserAgent: "heighliner/" + version,
			})
		}},
		{"networkpolicy", func() error {
			return networkpolicy.SetupWithManager(mgr, networkpolicy.Options{
				Concurrency: o.workers, Shards: shards, Namespace: o.ownNamespace(), Namespaces: o.namespaces, Outbound: allowed, UserAgent: "heighliner/" + version,
			})
		}},
	} {
		if err := c.setup(); err != nil {
			return fmt.Errorf("set up controller %s: %w", c.name, err)
		}
	}
	if err := ctrlmetrics.Registry.Register(servicemetrics.New(servicemetrics.Options{
		Cache: mgr.GetCache(), Elected: mgr.Elected(), Reports: shards.HoldsFirst, Limit: o.serviceMetrics, Log: mgr.GetLogger().WithName("servicemetrics"),
	})); err != nil {
		return fmt.Errorf("set up service metrics: %w", err)
	}
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return fmt.Errorf("set up /healthz: %w", err)
	}
	if err := mgr.AddReadyzCheck("ping", healthz.Ping); err != nil {
		return fmt.Errorf("set up /readyz: %w", err)
	}
	return nil
}
