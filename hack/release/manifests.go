package main

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// chartArchive returns the chart with the version and the images of the release.
func chartArchive(in input) ([]byte, error) {
	const chart = "charts/heighliner"
	set := map[string][2]string{
		"version":    {"version: 0.0.0-dev\nappVersion: dev\n", "version: " + strings.TrimPrefix(in.version, "v") + "\nappVersion: " + in.version + "\n"},
		"repository": {"  repository: \"\"\n", "  repository: " + in.image + "\n"},
	}
	replaced := map[string]string{"Chart.yaml": "version", "values.yaml": "repository"}
	var entries []entry
	err := fs.WalkDir(os.DirFS(filepath.Join(in.root, chart)), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(filepath.Join(in.root, chart, name))
		if err != nil {
			return err
		}
		if what, ok := replaced[name]; ok {
			if strings.Count(string(content), set[what][0]) != 1 {
				return fmt.Errorf("%s does not contain %q exactly once", name, set[what][0])
			}
			content = []byte(strings.Replace(string(content), set[what][0], set[what][1], 1))
		}
		entries = append(entries, entry{path.Join("heighliner", name), 0o644, content})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read chart: %w", err)
	}
	return tarGz(in.time, entries)
}

// installYAML returns all objects of an installation in a single file, for kubectl apply.
func installYAML(in input) ([]byte, error) {
	files, err := withImage(in)
	if err != nil {
		return nil, fmt.Errorf("read config: %w", err)
	}
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(files, "/install")
	if err != nil {
		return nil, fmt.Errorf("build config/default: %w", err)
	}
	text, err := built.AsYaml()
	if err != nil {
		return nil, fmt.Errorf("write config/default: %w", err)
	}
	head := fmt.Sprintf("# Heighliner %s: kubectl apply --server-side -f install.yaml\n", in.version)
	return append([]byte(head), text...), nil
}

// withImage returns an in-memory copy of the config folder, with an overlay that sets the image. On disk, the overlay
// would have to be next to config.
func withImage(in input) (filesys.FileSystem, error) {
	memory := filesys.MakeFsInMemory()
	err := fs.WalkDir(os.DirFS(filepath.Join(in.root, "config")), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(name) != ".yaml" {
			return err
		}
		content, err := os.ReadFile(filepath.Join(in.root, "config", name))
		if err != nil {
			return err
		}
		return memory.WriteFile(path.Join("/config", name), content)
	})
	if err != nil {
		return nil, err
	}
	overlay := fmt.Sprintf("kind: %s\napiVersion: %s\nresources: [../config/default]\nimages: [{name: heighliner/heighliner, newName: %q, newTag: %q}]\n",
		types.KustomizationKind, types.KustomizationVersion, in.image, in.version)
	return memory, memory.WriteFile("/install/kustomization.yaml", []byte(overlay))
}
