package main

import (
	"bytes"
	"debug/buildinfo"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// resource is a resource in an in-toto statement.
type resource struct {
	Name   string            `json:"name,omitempty"`
	URI    string            `json:"uri,omitempty"`
	Digest map[string]string `json:"digest,omitempty"`
}

// provenance returns an in-toto v1 statement with an SLSA provenance v1 predicate. It records the built
// files, the commit, the version of Go, and the build settings. It is not signed and contains no timestamps, so
// a second build produces the same bytes.
func provenance(in input, binaries []binary, files map[string][]byte, index string) ([]byte, error) {
	subjects := []resource{{Name: in.image + ":" + in.version, Digest: map[string]string{"sha256": strings.TrimPrefix(index, "sha256:")}}}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		subjects = append(subjects, resource{Name: name, Digest: map[string]string{"sha256": hash(files[name])}})
	}
	source := resource{URI: "git+" + repository + "@refs/tags/" + in.version}
	if in.commit != "" {
		source.Digest = map[string]string{"gitCommit": in.commit}
	}
	materials := []resource{source}
	settings := map[string]map[string]string{}
	for _, b := range binaries {
		info, err := buildinfo.Read(bytes.NewReader(b.content))
		if err != nil {
			return nil, fmt.Errorf("%s: read Go build information: %w", b.file(), err)
		}
		of := map[string]string{"go": info.GoVersion}
		for _, s := range info.Settings {
			of[s.Key] = s.Value
		}
		settings[b.file()] = of
		toolchain := resource{Name: "go", URI: "pkg:golang/toolchain@" + strings.TrimPrefix(info.GoVersion, "go")}
		if !slices.ContainsFunc(materials, func(r resource) bool { return r.URI == toolchain.URI }) {
			materials = append(materials, toolchain)
		}
	}
	return indented(map[string]any{
		"_type": "https://in-toto.io/Statement/v1", "subject": subjects, "predicateType": "https://slsa.dev/provenance/v1",
		"predicate": map[string]any{
			"buildDefinition": map[string]any{
				"buildType":            repository + "/tree/main/hack/release",
				"externalParameters":   map[string]any{"version": in.version, "image": in.image, "baseURL": in.baseURL},
				"internalParameters":   map[string]any{"settings": settings, "epoch": in.time.Unix()},
				"resolvedDependencies": materials,
			},
			"runDetails": map[string]any{"builder": map[string]any{"id": repository + "/blob/main/Makefile#release"}},
		},
	})
}
