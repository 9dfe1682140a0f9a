package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// These are the addresses in the cluster's network namespace. They cannot conflict with other addresses,
// because the namespace has no route to the outside.
const (
	nodeName       = "local"
	nodeAddress    = "10.250.0.1"
	podRange       = "10.244.0.0/16"
	serviceRange   = "10.96.0.0/16"
	apiService     = "10.96.0.1"
	apiPort        = 6443
	registryPort   = 5000
	authPort       = 5001
	gatewayPort    = 8000
	httpsPort      = 8443
	tlsPort        = 8444
	tcpPort        = 9000
	secondTCPPort  = 9001
	gatewayAPI     = "127.0.0.1:8080"
	gatewayMetrics = nodeAddress + ":8082"
	prometheusPort = 9090
	scrapeTargets  = "127.0.0.1:8083"
	registryUser   = "demo"
	registrySecret = "demo"
	pauseImage     = "10.250.0.1:5000/localcluster/pause:1"
)

// mark is an environment variable that is set for every process of a cluster. Its value is the run
// folder. The variable identifies a cluster's remaining processes.
const mark = "HEIGHLINER_LOCALCLUSTER_RUN"

// Ports are the host's loopback ports that are forwarded into the cluster.
type Ports struct {
	API          int `json:"api"`
	Registry     int `json:"registry"`
	AuthRegistry int `json:"authRegistry"`
	Gateway      int `json:"gateway"`
	HTTPS        int `json:"https"`
	TLS          int `json:"tls"`
	TCP          int `json:"tcp"`
	Prometheus   int `json:"prometheus"`
}

// Owner is the checkout that started the cluster or last took it over.
type Owner struct {
	Checkout string    `json:"checkout"`
	Since    time.Time `json:"since"`
}

// Config determines the processes of a cluster.
type Config struct {
	// Name is the name of the cluster and of its cgroup. Defaults to heighliner-localcluster.
	Name string `json:"name"`
	// RunDir contains all files of the cluster. Defaults to /var/lib/Name.
	RunDir string `json:"runDir"`
	Ports  Ports  `json:"ports"`
	// GatewayThrottle is the minimum time between two configuration updates of the gateway. Defaults
	// to 100ms; Traefik's default is 2s.
	GatewayThrottle time.Duration `json:"gatewayThrottle"`
	// Binaries are the keys of the binaries in the build cache, which are used to detect a changed
	// binary.
	Binaries map[string]string `json:"binaries"`
	Owner    Owner             `json:"owner"`
	// Fingerprint is the hash of all parts of the running cluster.
	Fingerprint string `json:"fingerprint"`
}

// defaultConfig returns the default values of the settings that flags can change.
func defaultConfig() Config {
	return Config{
		Name:            "heighliner-localcluster",
		Ports:           Ports{API: apiPort, Registry: registryPort, AuthRegistry: authPort, Gateway: gatewayPort, HTTPS: httpsPort, TLS: tlsPort, TCP: tcpPort, Prometheus: 19090},
		GatewayThrottle: 100 * time.Millisecond,
	}
}

var namePattern = regexp.MustCompile(`^[a-z]([-a-z0-9]{0,38}[a-z0-9])?$`)

// complete sets derived fields and validates the other fields.
func (c *Config) complete() error {
	if !namePattern.MatchString(c.Name) {
		return fmt.Errorf("check --name %q: use at most 40 lower-case letters, digits, and dashes, starting with a letter", c.Name)
	}
	if c.RunDir == "" {
		c.RunDir = "/var/lib/" + c.Name
	}
	c.RunDir = filepath.Clean(c.RunDir)
	if !filepath.IsAbs(c.RunDir) || strings.Count(c.RunDir, "/") < 2 {
		return fmt.Errorf("check --run-dir %q: use an absolute path that is at least two folders deep, because the down command removes this folder", c.RunDir)
	}
	if len(c.RunDir) > 60 {
		return fmt.Errorf("check --run-dir %q: use at most 60 characters, because the length of socket paths below this folder is limited", c.RunDir)
	}
	if c.RunDir == "/run" || strings.HasPrefix(c.RunDir, "/run/") || strings.HasPrefix(c.RunDir, "/proc/") || strings.HasPrefix(c.RunDir, "/sys/") {
		return fmt.Errorf("check --run-dir %q: the folders /run, /proc and /sys are not on a disk: use another folder", c.RunDir)
	}
	if c.GatewayThrottle < 0 {
		return fmt.Errorf("check --gateway-throttle %s: must not be negative", c.GatewayThrottle)
	}
	seen := map[int]string{}
	for _, f := range c.forwards() {
		if f.host < 1 || f.host > 65535 {
			return fmt.Errorf("check --%s %d: use a port from 1 to 65535", f.flag, f.host)
		}
		if other, taken := seen[f.host]; taken {
			return fmt.Errorf("check --%s %d: --%s has the same port", f.flag, f.host, other)
		}
		seen[f.host] = f.flag
	}
	return nil
}

// forward is a loopback port of the host with its target.
type forward struct {
	flag, what    string
	host, cluster int
}

func (c *Config) forwards() []forward {
	return []forward{
		{"api-port", "API server", c.Ports.API, apiPort},
		{"registry-port", "registry", c.Ports.Registry, registryPort},
		{"auth-registry-port", "registry with basic auth", c.Ports.AuthRegistry, authPort},
		{"gateway-port", "gateway, HTTP", c.Ports.Gateway, gatewayPort},
		{"https-port", "gateway, HTTPS", c.Ports.HTTPS, httpsPort},
		{"tls-port", "gateway, TLS", c.Ports.TLS, tlsPort},
		{"tcp-port", "gateway, TCP", c.Ports.TCP, tcpPort},
		{"prometheus-port", "Prometheus", c.Ports.Prometheus, prometheusPort},
	}
}

// path returns a path below the run folder.
func (c *Config) path(elements ...string) string {
	return filepath.Join(append([]string{c.RunDir}, elements...)...)
}

// kubeconfig returns the path of the kubeconfig for clients on the host.
func (c *Config) kubeconfig() string { return c.path("kubeconfig") }

// save writes the record of the cluster into its run folder.
func (c *Config) save() error {
	data, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return fmt.Errorf("encode cluster record: %w", err)
	}
	return writeFile(c.path("config.json"), data, 0o644)
}

// loadConfig reads the record of the cluster in runDir. It returns nil if there is no record.
func loadConfig(runDir string) (*Config, error) {
	data, err := os.ReadFile(filepath.Join(runDir, "config.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read cluster record: %w", err)
	}
	var c Config
	if err := json.Unmarshal(data, &c); err != nil {
		return nil, fmt.Errorf("decode cluster record: %w", err)
	}
	return &c, nil
}

// writeFile replaces a file atomically.
func writeFile(path string, data []byte, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("create folder: %w", err)
	}
	temporary := path + ".new"
	if err := os.WriteFile(temporary, data, mode); err != nil {
		return fmt.Errorf("write file: %w", err)
	}
	if err := os.Rename(temporary, path); err != nil {
		return fmt.Errorf("replace file: %w", err)
	}
	return nil
}
