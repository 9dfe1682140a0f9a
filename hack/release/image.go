package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Media types from the OCI image specification 1.1.
const (
	typeIndex    = "application/vnd.oci.image.index.v1+json"
	typeManifest = "application/vnd.oci.image.manifest.v1+json"
	typeConfig   = "application/vnd.oci.image.config.v1+json"
	typeLayer    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

// descriptor describes a blob.
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Platform    *platform         `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type platform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
}

// blobs are the blobs of a layout, by path.
type blobs map[string][]byte

// add stores a blob. It encodes content as JSON unless content is bytes.
func (b blobs) add(mediaType string, content any) (descriptor, error) {
	raw, ok := content.([]byte)
	if !ok {
		var err error
		if raw, err = json.Marshal(content); err != nil {
			return descriptor{}, fmt.Errorf("write %s: %w", mediaType, err)
		}
	}
	sum := hash(raw)
	b["blobs/sha256/"+sum] = raw
	return descriptor{MediaType: mediaType, Digest: "sha256:" + sum, Size: len(raw)}, nil
}

// ociLayout returns an archive of an OCI layout whose index refers to the manager's images for all Linux platforms, and the
// digest of the index. After a push, the image can be pulled by this digest.
func ociLayout(in input, binaries []binary) (archive []byte, index string, _ error) {
	certificates, err := os.ReadFile(filepath.Join(in.binaries, "ca-certificates.crt"))
	if err != nil {
		return nil, "", fmt.Errorf("read certificates of public CAs: %w", err)
	}
	stored := blobs{}
	var images []descriptor
	for _, b := range binaries {
		if b.name != "heighliner" || b.os != "linux" {
			continue
		}
		image, err := stored.image(in, b, certificates)
		if err != nil {
			return nil, "", fmt.Errorf("image of %s: %w", b.file(), err)
		}
		images = append(images, image)
	}
	if len(images) == 0 {
		return nil, "", errors.New("there is no binary of the manager for Linux")
	}
	all, err := stored.add(typeIndex, map[string]any{
		"schemaVersion": 2, "mediaType": typeIndex, "manifests": images, "annotations": annotations(in),
	})
	if err != nil {
		return nil, "", err
	}
	all.Annotations = map[string]string{"org.opencontainers.image.ref.name": in.version}
	top, err := json.Marshal(map[string]any{"schemaVersion": 2, "mediaType": typeIndex, "manifests": []descriptor{all}})
	if err != nil {
		return nil, "", fmt.Errorf("write index: %w", err)
	}
	entries := []entry{{"oci-layout", 0o644, []byte(`{"imageLayoutVersion":"1.0.0"}`)}, {"index.json", 0o644, top}}
	for _, path := range slices.Sorted(maps.Keys(stored)) {
		entries = append(entries, entry{path, 0o644, stored[path]})
	}
	archive, err = tarFile(in.time, entries)
	return archive, all.Digest, err
}

// image adds the image for one platform. Its files, user and entry point are the same as in the
// image that the Dockerfile builds.
func (b blobs) image(in input, program binary, certificates []byte) (descriptor, error) {
	plain, err := tarFile(in.time, []entry{{"etc/ssl/certs/ca-certificates.crt", 0o644, certificates}, {"heighliner", 0o755, program.content}})
	if err != nil {
		return descriptor{}, err
	}
	compressed, err := gz(plain)
	if err != nil {
		return descriptor{}, err
	}
	layer, err := b.add(typeLayer, compressed)
	if err != nil {
		return descriptor{}, err
	}
	created := in.time.Format(time.RFC3339)
	config, err := b.add(typeConfig, map[string]any{
		"created": created, "architecture": program.arch, "os": program.os,
		"config":  map[string]any{"User": "65532:65532", "Entrypoint": []string{"/heighliner"}, "Labels": annotations(in)},
		"rootfs":  map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + hash(plain)}},
		"history": []any{map[string]any{"created": created, "created_by": "hack/release"}},
	})
	if err != nil {
		return descriptor{}, err
	}
	manifest, err := b.add(typeManifest, map[string]any{
		"schemaVersion": 2, "mediaType": typeManifest, "config": config, "layers": []descriptor{layer}, "annotations": annotations(in),
	})
	manifest.Platform = &platform{Architecture: program.arch, OS: program.os}
	return manifest, err
}

// annotations returns the annotations of the images.
func annotations(in input) map[string]string {
	return map[string]string{
		"org.opencontainers.image.created":  in.time.Format(time.RFC3339),
		"org.opencontainers.image.licenses": "Apache-2.0",
		"org.opencontainers.image.revision": in.commit,
		"org.opencontainers.image.source":   repository,
		"org.opencontainers.image.title":    "heighliner",
		"org.opencontainers.image.version":  in.version,
	}
}
