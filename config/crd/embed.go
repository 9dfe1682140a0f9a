// Package crd holds the CustomResourceDefinitions of hlnr.io, for programs that check
// manifests without a cluster.
package crd

import _ "embed"

// ImagePolicies is the definition of ImagePolicy, as YAML.
//
//go:embed hlnr.io_imagepolicies.yaml
var ImagePolicies []byte
