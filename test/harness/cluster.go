package harness

import (
	"cmp"
	"fmt"
	"net"
	"path/filepath"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// userAgent distinguishes the harness's writes from Heighliner's writes in the audit log.
const userAgent = "heighliner-harness"

// Addresses are the addresses of the parts of a test cluster. Internal addresses are for pods and the kubelet.
type Addresses struct {
	// Kubeconfig is the path of the kubeconfig: HLNR_KUBECONFIG, otherwise KUBECONFIG, and otherwise the
	// local cluster's kubeconfig.
	Kubeconfig string
	// Registry is the registry without credentials: HLNR_REGISTRY. Defaults to 127.0.0.1:5000.
	Registry string
	// RegistryInternal is the internal address of Registry: HLNR_REGISTRY_INTERNAL. Defaults to 10.250.0.1:5000.
	RegistryInternal string
	// AuthRegistry is the registry with basic authentication: HLNR_AUTH_REGISTRY. Defaults to 127.0.0.1:5001.
	AuthRegistry string
	// AuthRegistryInternal is the internal address of AuthRegistry: HLNR_AUTH_REGISTRY_INTERNAL. Defaults to 10.250.0.1:5001.
	AuthRegistryInternal string
	// Gateway is the gateway's listener for HTTP: HLNR_GATEWAY. Defaults to 127.0.0.1:8000.
	Gateway string
	// GatewayHTTPS is the gateway's listener that terminates TLS: HLNR_GATEWAY_HTTPS. Defaults to 127.0.0.1:8443.
	GatewayHTTPS string
	// GatewayTLS is the gateway's listener that passes TLS to the pods: HLNR_GATEWAY_TLS. Defaults to 127.0.0.1:8444.
	GatewayTLS string
	// GatewayTCP is the gateway's listener for TCP: HLNR_GATEWAY_TCP. Defaults to 127.0.0.1:9000.
	GatewayTCP string
	// GatewayInternal is the internal IP address of the gateway, which also serves TCP: HLNR_GATEWAY_INTERNAL. Defaults to 10.250.0.1.
	GatewayInternal string
	// PrometheusInternal is the internal URL of Prometheus: HLNR_PROMETHEUS_INTERNAL. Defaults to http://10.250.0.1:9090.
	PrometheusInternal string
	// AuditLog is the path of the API server's audit log: HLNR_AUDIT_LOG. Defaults to the audit log of the local cluster.
	AuditLog string
}

// AddressesFrom reads the addresses from the environment, with the defaults of hack/localcluster.
func AddressesFrom(getenv func(string) string) Addresses {
	return Addresses{
		Kubeconfig:           cmp.Or(getenv("HLNR_KUBECONFIG"), getenv("KUBECONFIG"), "/var/lib/heighliner-localcluster/kubeconfig"),
		Registry:             cmp.Or(getenv("HLNR_REGISTRY"), "127.0.0.1:5000"),
		RegistryInternal:     cmp.Or(getenv("HLNR_REGISTRY_INTERNAL"), "10.250.0.1:5000"),
		AuthRegistry:         cmp.Or(getenv("HLNR_AUTH_REGISTRY"), "127.0.0.1:5001"),
		AuthRegistryInternal: cmp.Or(getenv("HLNR_AUTH_REGISTRY_INTERNAL"), "10.250.0.1:5001"),
		Gateway:              cmp.Or(getenv("HLNR_GATEWAY"), "127.0.0.1:8000"),
		GatewayHTTPS:         cmp.Or(getenv("HLNR_GATEWAY_HTTPS"), "127.0.0.1:8443"),
		GatewayTLS:           cmp.Or(getenv("HLNR_GATEWAY_TLS"), "127.0.0.1:8444"),
		GatewayTCP:           cmp.Or(getenv("HLNR_GATEWAY_TCP"), "127.0.0.1:9000"),
		GatewayInternal:      cmp.Or(getenv("HLNR_GATEWAY_INTERNAL"), "10.250.0.1"),
		PrometheusInternal:   cmp.Or(getenv("HLNR_PROMETHEUS_INTERNAL"), "http://10.250.0.1:9090"),
		AuditLog:             cmp.Or(getenv("HLNR_AUDIT_LOG"), "/var/lib/heighliner-localcluster/audit/audit.log"),
	}
}

// Network returns the path of the local cluster's network namespace, which is isolated.
func (a Addresses) Network() string { return filepath.Join(filepath.Dir(a.Kubeconfig), "netns") }

// URL returns the URL at which a browser reaches a domain behind the gateway. Names under localhost resolve to loopback.
func (a Addresses) URL(domain string) string {
	_, port, err := net.SplitHostPort(a.Gateway)
	if err != nil || port == "80" {
		return "http://" + domain + "/"
	}
	return "http://" + net.JoinHostPort(domain, port) + "/"
}

// Cluster is a connection to a test cluster.
type Cluster struct {
	Addresses
	// Config is for creating other clients.
	Config *rest.Config
	// Client reads from the API server without a cache, and can watch.
	Client client.WithWatch
}

// OpenCluster creates a client for the kinds in scheme. It does not connect: only a request shows whether the API server
// is responding.
func OpenCluster(scheme *runtime.Scheme, addresses Addresses) (*Cluster, error) {
	config, err := clientcmd.BuildConfigFromFlags("", addresses.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("load kubeconfig %q: %w; run `make cluster-up` or set HLNR_KUBECONFIG", addresses.Kubeconfig, err)
	}
	config.UserAgent = userAgent
	config.QPS, config.Burst = 100, 200
	opened, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("create client for %s: %w", config.Host, err)
	}
	return &Cluster{Addresses: addresses, Config: config, Client: opened}, nil
}
