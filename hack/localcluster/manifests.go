package main

import _ "embed"

// In these files, RUN stands for the run folder. Other words in capital letters stand for values
// that parts.go inserts.
var (
	//go:embed manifests/containerd.toml
	containerdConfig string
	//go:embed manifests/cni.json
	cniConfig string
	//go:embed manifests/kubelet.yaml
	kubeletConfig string
	//go:embed manifests/kube-proxy.yaml
	proxyConfig string
	//go:embed manifests/prometheus.yaml
	prometheusConfig string
	//go:embed manifests/audit-policy.yaml
	auditPolicy string
	//go:embed manifests/bootstrap.yaml
	bootstrapManifest string
)
