package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// Part is one process of the cluster.
type Part struct {
	Name string `json:"name"`
	// Stage determines the start order. The parts of a stage start together after the previous stage is ready.
	Stage int `json:"stage"`
	// Command is the command with its arguments. The first element is an absolute path, or a name that is looked up in PATH.
	Command []string `json:"command"`
	Env     []string `json:"env,omitempty"`
	// Files are the contents of files that are written before the part starts, by absolute path.
	Files map[string]string `json:"files,omitempty"`
	// Ready is polled inside the network namespace until it succeeds: a unix:PATH must accept a connection, and an http
	// or https URL must return 200.
	Ready string `json:"ready"`
	// Address is the address that the status shows.
	Address string `json:"address"`
}

// These are the stages of a cluster start.
const (
	stageStores = iota // No dependencies.
	stageAPI           // Depends on etcd.
	stageRest          // Depends on the API server and its CRDs.
	stageProxy         // Depends on the Node object.
	stageCount
)

// parts returns all processes of the cluster, in the order of their stages.
func (c *Config) parts() []Part {
	list := []Part{
		c.containerd(), c.etcd(), c.registry("registry", registryPort, ""),
		c.registry("registry-auth", authPort, registryUser+":"+registrySecret),
		c.apiServer(),
		c.controllerManager(), c.scheduler(), c.kubelet(), c.traefik(), c.scrapeTargets(), c.prometheus(),
		c.proxy(),
	}
	return list
}

// part returns the part with the given name.
func (c *Config) part(name string) (Part, error) {
	var names []string
	for _, p := range c.parts() {
		if p.Name == name {
			return p, nil
		}
		names = append(names, p.Name)
	}
	return Part{}, fmt.Errorf("find part %q: the parts are %s", name, strings.Join(names, ", "))
}

// fingerprint returns the hash of everything that determines the parts. A running cluster with a different
// fingerprint is rebuilt. The hash does not include the gateway's throttle, because a change to the throttle requires
// only a restart of the gateway.
func (c *Config) fingerprint() (string, error) {
	plain := *c
	plain.GatewayThrottle = 0
	data, err := json.Marshal(struct {
		Parts     []Part
		Ports     Ports
		Binaries  map[string]string
		Bootstrap string
	}{plain.parts(), plain.Ports, plain.Binaries, bootstrapManifest})
	if err != nil {
		return "", fmt.Errorf("encode parts: %w", err)
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:8]), nil
}

func (c *Config) containerd() Part {
	config := c.path("containerd.toml")
	registryHost := func(port int) (string, string) {
		address := fmt.Sprintf("%s:%d", nodeAddress, port)
		return c.path("certs.d", address, "hosts.toml"),
			fmt.Sprintf("server = \"http://%s\"\n\n[host.\"http://%s\"]\n  capabilities = [\"pull\", \"resolve\"]\n", address, address)
	}
	files := map[string]string{
		config:                            strings.NewReplacer("RUN", c.RunDir, "PAUSE", pauseImage).Replace(containerdConfig),
		c.path("cni", "10-pods.conflist"): strings.NewReplacer("RUN", c.RunDir, "PODS", podRange).Replace(cniConfig),
	}
	for _, port := range []int{registryPort, authPort} {
		path, content := registryHost(port)
		files[path] = content
	}
	return Part{
		Name: "containerd", Stage: stageStores,
		Command: []string{"containerd", "--config", config},
		Files:   files,
		Ready:   "unix:" + c.path("containerd.sock"),
		Address: c.path("containerd.sock"),
	}
}

func (c *Config) etcd() Part {
	return Part{
		Name: "etcd", Stage: stageStores,
		Command: []string{c.path("bin", "etcd"),
			"--name=local",
			"--data-dir=" + c.path("etcd"),
			"--listen-client-urls=http://127.0.0.1:2379",
			"--advertise-client-urls=http://127.0.0.1:2379",
			"--listen-peer-urls=http://127.0.0.1:2380",
			"--initial-advertise-peer-urls=http://127.0.0.1:2380",
			"--initial-cluster=local=http://127.0.0.1:2380",
			"--unsafe-no-fsync", // a disposable store: speed is more important than safety in case of a power failure
			"--quota-backend-bytes=2147483648",
			"--auto-compaction-retention=5m",
			"--log-level=warn",
		},
		Ready:   "http://127.0.0.1:2379/health",
		Address: "127.0.0.1:2379",
	}
}

func (c *Config) registry(name string, port int, credential string) Part {
	address := fmt.Sprintf("%s:%d", nodeAddress, port)
	command := []string{c.path("bin", "localcluster"), "registry", "--listen=" + address, "--data=" + c.path(name)}
	if credential != "" {
		command = append(command, "--credential="+credential)
	}
	return Part{
		Name: name, Stage: stageStores, Command: command,
		Ready: "http://" + address + "/healthz", Address: address,
	}
}

func (c *Config) apiServer() Part {
	policy := c.path("audit-policy.yaml")
	return Part{
		Name: "kube-apiserver", Stage: stageAPI,
		Command: []string{c.path("bin", "kube-apiserver"),
			"--etcd-servers=http://127.0.0.1:2379",
			"--bind-address=0.0.0.0",
			"--advertise-address=" + nodeAddress,
			"--secure-port=" + strconv.Itoa(apiPort),
			"--service-cluster-ip-range=" + serviceRange,
			"--tls-cert-file=" + c.path("pki", "apiserver.crt"),
			"--tls-private-key-file=" + c.path("pki", "apiserver.key"),
			"--client-ca-file=" + c.path("pki", "ca.crt"),
			"--kubelet-client-certificate=" + c.path("pki", "apiserver-kubelet.crt"),
			"--kubelet-client-key=" + c.path("pki", "apiserver-kubelet.key"),
			"--kubelet-preferred-address-types=InternalIP",
			"--service-account-issuer=https://kubernetes.default.svc",
			"--service-account-key-file=" + c.path("pki", "service-account.pub"),
			"--service-account-signing-key-file=" + c.path("pki", "service-account.key"),
			"--authorization-mode=Node,RBAC",
			"--enable-admission-plugins=NodeRestriction",
			"--allow-privileged=true",
			"--max-requests-inflight=1000",
			"--max-mutating-requests-inflight=500",
			"--audit-policy-file=" + policy,
			"--audit-log-path=" + c.auditLog(),
			"--audit-log-maxsize=100",
			"--audit-log-maxbackup=4",
			"--event-ttl=3h",
		},
		Files:   map[string]string{policy: auditPolicy},
		Ready:   fmt.Sprintf("https://127.0.0.1:%d/readyz", apiPort),
		Address: fmt.Sprintf("%s:%d", nodeAddress, apiPort),
	}
}

// auditLog returns the path of the audit log, which contains one line for each request to the API server.
func (c *Config) auditLog() string { return c.path("audit", "audit.log") }

func (c *Config) controllerManager() Part {
	return Part{
		Name: "kube-controller-manager", Stage: stageRest,
		Command: []string{c.path("bin", "kube-controller-manager"),
			"--kubeconfig=" + c.path("pki", "controller-manager.kubeconfig"),
			"--authentication-kubeconfig=" + c.path("pki", "controller-manager.kubeconfig"),
			"--authorization-kubeconfig=" + c.path("pki", "controller-manager.kubeconfig"),
			"--bind-address=127.0.0.1",
			"--service-account-private-key-file=" + c.path("pki", "service-account.key"),
			"--root-ca-file=" + c.path("pki", "ca.crt"),
			"--use-service-account-credentials=true",
			"--leader-elect=false",
			"--kube-api-qps=500",
			"--kube-api-burst=1000",
			"--concurrent-deployment-syncs=20",
			"--concurrent-replicaset-syncs=20",
			"--concurrent-endpoint-syncs=20",
			"--concurrent-service-endpoint-syncs=20",
			"--concurrent-namespace-syncs=20",
			"--concurrent-gc-syncs=40",
		},
		Ready:   "https://127.0.0.1:10257/healthz",
		Address: "127.0.0.1:10257",
	}
}

func (c *Config) scheduler() Part {
	return Part{
		Name: "kube-scheduler", Stage: stageRest,
		Command: []string{c.path("bin", "kube-scheduler"),
			"--kubeconfig=" + c.path("pki", "scheduler.kubeconfig"),
			"--authentication-kubeconfig=" + c.path("pki", "scheduler.kubeconfig"),
			"--authorization-kubeconfig=" + c.path("pki", "scheduler.kubeconfig"),
			"--bind-address=127.0.0.1",
			"--leader-elect=false",
			"--kube-api-qps=200",
			"--kube-api-burst=400",
		},
		Ready:   "https://127.0.0.1:10259/healthz",
		Address: "127.0.0.1:10259",
	}
}

func (c *Config) kubelet() Part {
	config := c.path("kubelet.yaml")
	return Part{
		Name: "kubelet", Stage: stageRest,
		Command: []string{c.path("bin", "kubelet"),
			"--kubeconfig=" + c.path("pki", "kubelet.kubeconfig"),
			"--config=" + config,
			"--root-dir=" + c.path("kubelet"),
			"--cert-dir=" + c.path("kubelet", "pki"),
			"--node-ip=" + nodeAddress,
			"--hostname-override=" + nodeName,
		},
		Files: map[string]string{
			config: strings.NewReplacer("RUN", c.RunDir, "NODE", nodeAddress, "CGROUP", "/"+c.Name).Replace(kubeletConfig),
		},
		Ready:   "http://127.0.0.1:10248/healthz",
		Address: nodeAddress + ":10250",
	}
}

func (c *Config) proxy() Part {
	config := c.path("kube-proxy.yaml")
	return Part{
		Name: "kube-proxy", Stage: stageProxy,
		Command: []string{c.path("bin", "kube-proxy"), "--config=" + config},
		Files: map[string]string{
			config: strings.NewReplacer("RUN", c.RunDir, "PODS", podRange, "NAME", nodeName).Replace(proxyConfig),
		},
		Ready:   "http://127.0.0.1:10256/healthz",
		Address: "127.0.0.1:10256",
	}
}

func (c *Config) traefik() Part {
	return Part{
		Name: "traefik", Stage: stageRest,
		Command: []string{c.path("bin", "traefik"),
			"--global.checknewversion=false",
			"--global.sendanonymoususage=false",
			"--log.level=INFO",
			"--ping=true",
			"--api=true",
			"--api.insecure=true", // on the namespace's loopback interface, which pods cannot reach
			"--entrypoints.traefik.address=" + gatewayAPI,
			fmt.Sprintf("--entrypoints.web.address=:%d", gatewayPort),
			"--entrypoints.web.asdefault=true", // for Ingresses, which do not name an entry point
			fmt.Sprintf("--entrypoints.https.address=:%d", httpsPort),
			fmt.Sprintf("--entrypoints.tls.address=:%d", tlsPort),
			fmt.Sprintf("--entrypoints.tcp.address=:%d", tcpPort),
			fmt.Sprintf("--entrypoints.tcp-2.address=:%d", secondTCPPort),
			"--entrypoints.metrics.address=" + gatewayMetrics,
			"--metrics.prometheus=true",
			"--metrics.prometheus.entrypoint=metrics",
			"--metrics.prometheus.addrouterslabels=true",
			"--metrics.prometheus.addserviceslabels=true",
			// The default buckets of 0.1, 0.3, 1.2 and 5 s are too coarse for accurate percentiles.
			"--metrics.prometheus.buckets=0.005,0.01,0.025,0.05,0.1,0.15,0.2,0.3,0.4,0.5,0.75,1,2.5,5,10",
			"--providers.providersthrottleduration=" + c.GatewayThrottle.String(),
			"--providers.kubernetesgateway=true",
			"--providers.kubernetesgateway.experimentalchannel=true",
			"--providers.kubernetesgateway.statusaddress.ip=" + nodeAddress,
			"--providers.kubernetesingress=true",
			"--providers.kubernetesingress.strictprefixmatching=true",
			"--providers.kubernetesingress.ingressendpoint.ip=" + nodeAddress,
			// This provider serves Ingresses with the nginx class, and reads the annotations of
			// ingress-nginx. The throttle of the other providers also applies to this provider.
			"--providers.kubernetesingressnginx=true",
			"--providers.kubernetesingressnginx.ingressclass=nginx",
			"--providers.kubernetesingressnginx.controllerclass=k8s.io/ingress-nginx",
			"--providers.kubernetesingressnginx.publishstatusaddress=" + nodeAddress,
			"--providers.kubernetesingressnginx.httpentrypoint=web",
			"--providers.kubernetesingressnginx.httpsentrypoint=https",
		},
		Env:     []string{"KUBECONFIG=" + c.path("pki", "traefik.kubeconfig")},
		Ready:   "http://" + gatewayAPI + "/ping",
		Address: fmt.Sprintf("%s:%d, :%d, :%d, :%d, :%d", nodeAddress, gatewayPort, httpsPort, tlsPort, tcpPort, secondTCPPort),
	}
}

// scrapeTargets is the part that lists the pods with scrape annotations for Prometheus.
func (c *Config) scrapeTargets() Part {
	return Part{
		Name: "scrape-targets", Stage: stageRest,
		Command: []string{c.path("bin", "localcluster"), "scrape-targets", "--listen=" + scrapeTargets, "--pki=" + c.path("pki")},
		Ready:   "http://" + scrapeTargets + "/healthz",
		Address: scrapeTargets,
	}
}

// prometheus is the part that scrapes the gateway and the pods with scrape annotations.
func (c *Config) prometheus() Part {
	config, address := c.path("prometheus.yaml"), fmt.Sprintf("%s:%d", nodeAddress, prometheusPort)
	return Part{
		Name: "prometheus", Stage: stageRest,
		Command: []string{"prometheus",
			"--config.file=" + config,
			"--web.listen-address=" + address,
			"--storage.tsdb.path=" + c.path("prometheus"),
			"--storage.tsdb.retention.time=3h",
			"--storage.tsdb.retention.size=512MB",
			"--log.level=warn",
		},
		Files: map[string]string{
			config: strings.NewReplacer("RUN", c.RunDir, "GATEWAY", gatewayMetrics, "ADDRESS", address, "TARGETS", scrapeTargets).Replace(prometheusConfig),
		},
		Ready:   "http://" + address + "/-/ready",
		Address: address,
	}
}
