// Package image builds one-layer OCI images around static binaries and pushes
// them to a registry, without a container engine.
package image

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// caCertificates are the paths of the trusted certificate bundle on different systems. The first existing
// path is used.
var caCertificates = []string{
	"/etc/ssl/certs/ca-certificates.crt",
	"/etc/pki/tls/certs/ca-bundle.crt",
	"/etc/ssl/cert.pem",
}

// Spec describes an image.
type Spec struct {
	// Binary is the path of the static binary. It is required. In the image, the path of the binary is /NAME,
	// where NAME is the last element of Binary.
	Binary string
	// Entrypoint is the command of the image. Defaults to the binary.
	Entrypoint []string
	// Env is the environment as NAME=VALUE.
	Env []string
	// Labels are added to the image configuration.
	Labels map[string]string
	// Annotations are added to the manifest.
	Annotations map[string]string
	// Platform is OS/ARCHITECTURE[/VARIANT]. Defaults to linux/amd64.
	Platform string
	// User is the numeric user ID, or USER:GROUP. Defaults to 65532.
	User string
	// CACerts adds this system's trusted certificate bundle.
	CACerts bool
}

// Build returns the image that spec describes. The same input results in the same digest, because the image
// contains neither a time nor a host name.
func Build(spec Spec) (v1.Image, error) {
	if spec.Binary == "" {
		return nil, errors.New("build image: binary is empty: set it to the path of a static binary")
	}
	if spec.Platform == "" {
		spec.Platform = "linux/amd64"
	}
	platform, err := v1.ParsePlatform(spec.Platform)
	if err != nil {
		return nil, fmt.Errorf("build image: platform %q: %w", spec.Platform, err)
	}
	if spec.User == "" {
		spec.User = "65532"
	}
	target := filepath.Base(spec.Binary)
	if len(spec.Entrypoint) == 0 {
		spec.Entrypoint = []string{"/" + target}
	}

	files := []file{{source: spec.Binary, target: target, mode: 0o755}}
	if spec.CACerts {
		bundle, err := firstExisting(caCertificates)
		if err != nil {
			return nil, fmt.Errorf("build image: find CA certificates: %w", err)
		}
		files = append(files, file{source: bundle, target: "etc/ssl/certs/ca-certificates.crt", mode: 0o644})
	}
	content, err := archive(files)
	if err != nil {
		return nil, fmt.Errorf("build image: %w", err)
	}
	layer, err := tarball.LayerFromOpener(
		func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil },
		tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, fmt.Errorf("build layer: %w", err)
	}

	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	if img, err = mutate.AppendLayers(img, layer); err != nil {
		return nil, fmt.Errorf("append layer: %w", err)
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("read image configuration: %w", err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Variant = platform.OS, platform.Architecture, platform.Variant
	config.Config.Entrypoint = spec.Entrypoint
	config.Config.Env = spec.Env
	config.Config.Labels = spec.Labels
	config.Config.User = spec.User
	config.Config.WorkingDir = "/"
	if img, err = mutate.ConfigFile(img, config); err != nil {
		return nil, fmt.Errorf("write image configuration: %w", err)
	}
	if len(spec.Annotations) > 0 {
		img = mutate.Annotations(img, spec.Annotations).(v1.Image)
	}
	return img, nil
}

// Push pushes img to ref. For registries at loopback and private addresses, it uses plain HTTP. Options add
// credentials or a transport.
func Push(ctx context.Context, img v1.Image, ref string, options ...remote.Option) error {
	parsed, err := name.ParseReference(ref)
	if err != nil {
		return fmt.Errorf("parse image reference %q: %w", ref, err)
	}
	if err := remote.Write(parsed, img, append([]remote.Option{remote.WithContext(ctx)}, options...)...); err != nil {
		return fmt.Errorf("push image %s: %w", ref, err)
	}
	return nil
}

// file is one file of the layer.
type file struct {
	source, target string
	mode           int64
}

// archive packs the files, and the folders above them, into a tar stream.
func archive(files []file) ([]byte, error) {
	var buffer bytes.Buffer
	w := tar.NewWriter(&buffer)
	for _, folder := range folders(files) {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: folder + "/", Mode: 0o755}); err != nil {
			return nil, fmt.Errorf("pack %s: %w", folder, err)
		}
	}
	for _, f := range files {
		content, err := os.ReadFile(f.source)
		if err != nil {
			return nil, fmt.Errorf("read file: %w", err)
		}
		header := &tar.Header{Typeflag: tar.TypeReg, Name: f.target, Mode: f.mode, Size: int64(len(content))}
		if err := w.WriteHeader(header); err != nil {
			return nil, fmt.Errorf("pack %s: %w", f.target, err)
		}
		if _, err := w.Write(content); err != nil {
			return nil, fmt.Errorf("pack %s: %w", f.target, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("close archive: %w", err)
	}
	return buffer.Bytes(), nil
}

// folders returns every folder above the files, parents first.
func folders(files []file) []string {
	seen := map[string]bool{}
	for _, f := range files {
		for dir := filepath.Dir(f.target); dir != "."; dir = filepath.Dir(dir) {
			seen[dir] = true
		}
	}
	list := make([]string, 0, len(seen))
	for dir := range seen {
		list = append(list, dir)
	}
	sort.Strings(list)
	return list
}

func firstExisting(paths []string) (string, error) {
	for _, path := range paths {
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("none of the files %q exists: install the package ca-certificates", paths)
}
