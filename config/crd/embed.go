// Package crd holds the CustomResourceDefinitions of hlnr.io, for programs that check
// manifests without a cluster.
package crd

import (
	"embed"
	"fmt"
	"strings"
)

// definitions contains the definitions of all kinds, as YAML.
//
//go:embed hlnr.io_*.yaml
var definitions embed.FS

// Definition returns the definition of a kind such as ImagePolicy, as YAML.
func Definition(kind string) ([]byte, error) {
	plural := strings.ToLower(kind)
	if stem, y := strings.CutSuffix(plural, "y"); y {
		plural = stem + "ie"
	}
	raw, err := definitions.ReadFile("hlnr.io_" + plural + "s.yaml")
	if err != nil {
		return nil, fmt.Errorf("there is no definition of kind %s: %w", kind, err)
	}
	return raw, nil
}
