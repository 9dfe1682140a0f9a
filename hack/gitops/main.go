// Command gitops writes config/gitops/argocd/argocd-cm.yaml, the configuration for Argo CD, from the Lua
// files next to it.
//
//	gitops ROOT
//
// Its tests run these files as Argo CD does, and the health expressions as Flux does. It is a separate module
// because of the interpreters that the tests need.
package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

// folder is the folder of the Lua files, below the root.
const folder = "config/gitops/argocd"

// kinds are the kinds with a health check for Argo CD. Each kind with actions has a folder.
var kinds = []string{"GitHubRepository", "ImagePolicy", "Microservice", "NetworkPolicy", "VersionedMicroservice"}

// actionSet is the format of resource.customizations.actions.
type actionSet struct {
	Discovery   string   `json:"discovery.lua"`
	Definitions []action `json:"definitions"`
}

type action struct {
	Name string `json:"name"`
	Lua  string `json:"action.lua"`
}

// actionsOf reads a kind's actions. It returns nil if the kind has no actions.
func actionsOf(root, kind string) (*actionSet, error) {
	paths, err := filepath.Glob(filepath.Join(root, folder, "actions", kind, "*.lua"))
	if err != nil || len(paths) == 0 {
		return nil, err
	}
	var out actionSet
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		if name := strings.TrimSuffix(filepath.Base(path), ".lua"); name == "discovery" {
			out.Discovery = string(text)
		} else {
			out.Definitions = append(out.Definitions, action{name, string(text)})
		}
	}
	return &out, nil
}

// configMap returns the ConfigMap argocd-cm as YAML, with the entries for all kinds.
func configMap(root string) ([]byte, error) {
	health, err := os.ReadFile(filepath.Join(root, folder, "health.lua"))
	if err != nil {
		return nil, err
	}
	data := map[string]string{}
	for _, kind := range kinds {
		data["resource.customizations.health.hlnr.io_"+kind] = string(health)
		actions, err := actionsOf(root, kind)
		if err != nil {
			return nil, err
		}
		if actions == nil {
			continue
		}
		text, err := yaml.Marshal(actions)
		if err != nil {
			return nil, err
		}
		data["resource.customizations.actions.hlnr.io_"+kind] = string(text)
	}
	text, err := yaml.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": "argocd-cm", "namespace": "argocd", "labels": map[string]string{"app.kubernetes.io/name": "argocd-cm", "app.kubernetes.io/part-of": "argocd"}},
		"data":     data,
	})
	return append(bytes.NewBufferString("# Written by hack/gitops (make gitops). Merge this file into the ConfigMap of your installation: see docs/how-to/gitops.md.\n").Bytes(), text...), err
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: gitops ROOT")
		os.Exit(2)
	}
	text, err := configMap(os.Args[1])
	if err == nil {
		err = os.WriteFile(filepath.Join(os.Args[1], folder, "argocd-cm.yaml"), text, 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gitops:", err)
		os.Exit(1)
	}
}
