package image

import (
	"archive/tar"
	"errors"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

func program(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "app")
	if err := os.WriteFile(path, []byte("static"), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestBuild(t *testing.T) {
	tests := map[string]struct {
		spec   Spec
		config v1.Config
		os     string
		arch   string
	}{
		"defaults": {
			spec:   Spec{},
			config: v1.Config{Entrypoint: []string{"/app"}, User: "65532", WorkingDir: "/"},
			os:     "linux", arch: "amd64",
		},
		"everything": {
			spec: Spec{Entrypoint: []string{"/app", "serve"}, Env: []string{"A=b"}, Labels: map[string]string{"l": "v"}, Platform: "linux/arm64", User: "1:2"},
			config: v1.Config{Entrypoint: []string{"/app", "serve"}, Env: []string{"A=b"}, Labels: map[string]string{"l": "v"}, User: "1:2",
				WorkingDir: "/"},
			os: "linux", arch: "arm64",
		},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			test.spec.Binary = program(t)
			img, err := Build(test.spec)
			if err != nil {
				t.Fatal(err)
			}
			got, err := img.ConfigFile()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.config, got.Config); diff != "" {
				t.Errorf("configuration (-want +got):\n%s", diff)
			}
			if got.OS != test.os || got.Architecture != test.arch {
				t.Errorf("platform %s/%s, want %s/%s", got.OS, got.Architecture, test.os, test.arch)
			}
			if diff := cmp.Diff(map[string]int64{"app": 0o755}, contents(t, img)); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
			again, err := Build(test.spec)
			if err != nil {
				t.Fatal(err)
			}
			if a, b := digest(t, img), digest(t, again); a != b {
				t.Errorf("two builds differ: %s, %s", a, b)
			}
		})
	}
}

func TestBuildAddsCertificates(t *testing.T) {
	if _, err := firstExisting(caCertificates); err != nil {
		t.Fatalf("%v: install the package ca-certificates", err)
	}
	img, err := Build(Spec{Binary: program(t), CACerts: true})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]int64{"app": 0o755, "etc/": 0o755, "etc/ssl/": 0o755, "etc/ssl/certs/": 0o755, "etc/ssl/certs/ca-certificates.crt": 0o644}
	if diff := cmp.Diff(want, contents(t, img)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

func TestBuildRefuses(t *testing.T) {
	tests := map[string]struct {
		spec Spec
		want string
	}{
		"no binary":             {Spec{}, "binary is empty"},
		"binary does not exist": {Spec{Binary: "/nonexistent/app"}, "no such file"},
		"platform":              {Spec{Binary: "/nonexistent/app", Platform: "a/b/c/d"}, "platform"},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			if _, err := Build(test.spec); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an error with %q", err, test.want)
			}
		})
	}
}

func TestPush(t *testing.T) {
	server := httptest.NewServer(registry.New())
	defer server.Close()
	img, err := Build(Spec{Binary: program(t), Annotations: map[string]string{"note": "kept"}})
	if err != nil {
		t.Fatal(err)
	}
	ref := strings.TrimPrefix(server.URL, "http://") + "/app:1.0.0"
	if err := Push(t.Context(), img, ref); err != nil {
		t.Fatal(err)
	}
	parsed, err := name.ParseReference(ref)
	if err != nil {
		t.Fatal(err)
	}
	pulled, err := remote.Image(parsed)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := pulled.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	if manifest.MediaType != types.OCIManifestSchema1 || manifest.Annotations["note"] != "kept" {
		t.Errorf("manifest with type %s and annotations %v", manifest.MediaType, manifest.Annotations)
	}
	if err := Push(t.Context(), img, "UPPER/not a reference"); err == nil {
		t.Error("an invalid reference was accepted")
	}
}

func digest(t *testing.T, img v1.Image) v1.Hash {
	t.Helper()
	hash, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return hash
}

// contents returns the modes of all files in an image, by file name.
func contents(t *testing.T, img v1.Image) map[string]int64 {
	t.Helper()
	layers, err := img.Layers()
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]int64{}
	for _, layer := range layers {
		stream, err := layer.Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		reader := tar.NewReader(stream)
		for {
			header, err := reader.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			files[header.Name] = header.Mode
		}
	}
	return files
}
