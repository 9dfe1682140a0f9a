package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"sigs.k8s.io/yaml"
)

// standIn builds a small program with Go build information.
func standIn(t *testing.T) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "standin")
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", path, "./testdata/standin")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	program, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return program
}

// inputOf returns the input for a release with stand-in binaries. The input files have the given
// age.
func inputOf(t *testing.T, program []byte, age time.Duration) input {
	t.Helper()
	dir := t.TempDir()
	names := []string{"ca-certificates.crt"}
	for _, platform := range []string{"linux-amd64", "linux-arm64", "darwin-arm64", "windows-amd64"} {
		names = append(names, "heighliner-"+platform, "hlnr-"+platform)
	}
	for i, name := range names {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, append(bytes.Clone(program), byte(i)), 0o600); err != nil { // Each binary differs.
			t.Fatal(err)
		}
		at := time.Now().Add(-age)
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	return input{
		root: "../..", version: "v0.2.0", image: "registry.example.com/heighliner", binaries: dir, baseURL: "https://example.com/releases",
		commit: strings.Repeat("a", 40), time: time.Unix(1_700_000_000, 0).UTC(),
	}
}

// TestReproducible checks that the same input produces the same bytes, regardless of the age and the folder
// of its files.
func TestReproducible(t *testing.T) {
	program := standIn(t)
	first, err := assemble(inputOf(t, program, 0))
	if err != nil {
		t.Fatal(err)
	}
	second, err := assemble(inputOf(t, program, time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"RELEASE_NOTES.md", "SHA256SUMS", "heighliner-0.2.0.tgz", "heighliner-darwin-arm64.spdx.json", "heighliner-darwin-arm64.tar.gz", "heighliner-image.tar",
		"heighliner-linux-amd64.spdx.json", "heighliner-linux-amd64.tar.gz", "heighliner-linux-arm64.spdx.json", "heighliner-linux-arm64.tar.gz",
		"heighliner-windows-amd64.spdx.json", "heighliner-windows-amd64.tar.gz", "hlnr-darwin-arm64.spdx.json", "hlnr-linux-amd64.spdx.json", "hlnr-linux-arm64.spdx.json",
		"hlnr-windows-amd64.spdx.json", "hlnr.yaml", "install.yaml", "kubectl-hlnr-darwin-arm64.tar.gz", "kubectl-hlnr-linux-amd64.tar.gz", "kubectl-hlnr-linux-arm64.tar.gz",
		"kubectl-hlnr-windows-amd64.tar.gz", "provenance.intoto.json",
	}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(first))); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	for name, content := range first {
		if !bytes.Equal(content, second[name]) {
			t.Errorf("%s differs", name)
		}
	}
	other := inputOf(t, program, 0)
	other.time = other.time.Add(time.Second)
	third, err := assemble(other)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(first["heighliner-image.tar"], third["heighliner-image.tar"]) {
		t.Error("the image does not depend on the commit time, so the comparison proves nothing")
	}
	checkFiles(t, first)
	checkImage(t, first)
	checkStatements(t, first)
}

// unpacked returns the files of a tar archive.
func unpacked(t *testing.T, archive []byte, compressed bool) map[string]*tar.Header {
	t.Helper()
	found := map[string]*tar.Header{}
	unpack(t, archive, compressed, func(h *tar.Header, _ []byte) { found[h.Name] = h })
	return found
}

func unpack(t *testing.T, archive []byte, compressed bool, each func(*tar.Header, []byte)) {
	t.Helper()
	var in io.Reader = bytes.NewReader(archive)
	if compressed {
		plain, err := gzip.NewReader(in)
		if err != nil {
			t.Fatal(err)
		}
		in = plain
	}
	for r := tar.NewReader(in); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		each(h, content)
	}
}

// checkFiles checks archives, manifests and checksums.
func checkFiles(t *testing.T, files map[string][]byte) {
	t.Helper()
	for archive, name := range map[string]string{
		"heighliner-linux-arm64.tar.gz": "heighliner", "kubectl-hlnr-linux-amd64.tar.gz": "kubectl-hlnr", "kubectl-hlnr-windows-amd64.tar.gz": "kubectl-hlnr.exe",
	} {
		if h := unpacked(t, files[archive], true)[name]; h == nil || h.Mode != 0o755 || h.Size == 0 {
			t.Errorf("%s has %s as %+v", archive, name, h)
		}
	}
	texts := map[string]string{}
	unpack(t, files["heighliner-0.2.0.tgz"], true, func(h *tar.Header, content []byte) { texts[h.Name] = string(content) })
	for name, want := range map[string]string{
		"heighliner/Chart.yaml": "version: 0.2.0\nappVersion: v0.2.0\n", "heighliner/values.yaml": "repository: registry.example.com/heighliner\n",
		"heighliner/files/crds/hlnr.io_microservices.yaml": "keep", "heighliner/templates/NOTES.txt": "helm test",
	} {
		if !strings.Contains(texts[name], want) {
			t.Errorf("%s of the chart does not contain %q", name, want)
		}
	}
	install := string(files["install.yaml"])
	definitions, err := filepath.Glob("../../config/crd/hlnr.io_*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Count(install, "image: registry.example.com/heighliner:v0.2.0\n") != 1 || strings.Count(install, "\nkind: CustomResourceDefinition\n") != len(definitions) {
		t.Error("install.yaml does not contain the image exactly once, or lacks CRDs")
	}
	for document := range strings.SplitSeq(install, "\n---\n") {
		var o map[string]any
		if err := yaml.UnmarshalStrict([]byte(document), &o); err != nil || o["kind"] == nil {
			t.Errorf("install.yaml: %v in %.200s", err, document)
		}
	}
	if krew := string(files["hlnr.yaml"]); !strings.Contains(krew, hash(files["kubectl-hlnr-linux-arm64.tar.gz"])) || !strings.Contains(krew, "https://example.com/releases/v0.2.0/kubectl-hlnr-linux-amd64.tar.gz") {
		t.Errorf("unexpected krew manifest:\n%s", krew)
	}
	dir := t.TempDir()
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	check := exec.Command("sha256sum", "--check", "--strict", "SHA256SUMS")
	check.Dir = dir
	if out, err := check.CombinedOutput(); err != nil || strings.Count(string(out), ": OK") != len(files)-1 {
		t.Errorf("checksums: %v\n%s", err, out)
	}
}

// checkImage reads the layout in the same way as tools that copy images.
func checkImage(t *testing.T, files map[string][]byte) {
	t.Helper()
	dir := t.TempDir()
	unpack(t, files["heighliner-image.tar"], false, func(h *tar.Header, content []byte) {
		path := filepath.Join(dir, h.Name)
		if h.Typeflag == tar.TypeDir {
			if err := os.MkdirAll(path, 0o755); err != nil {
				t.Fatal(err)
			}
		} else if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	})
	top, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(top); err != nil {
		t.Errorf("layout: %v", err)
	}
	manifest, err := top.IndexManifest()
	if err != nil || len(manifest.Manifests) != 1 {
		t.Fatalf("index: %+v, %v", manifest, err)
	}
	all, err := top.ImageIndex(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	images, err := all.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var platforms []string
	for _, d := range images.Manifests {
		platforms = append(platforms, d.Platform.String())
		image, err := all.Image(d.Digest)
		if err != nil {
			t.Fatal(err)
		}
		config, err := image.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if config.Architecture != d.Platform.Architecture || config.Config.User != "65532:65532" || !slices.Equal(config.Config.Entrypoint, []string{"/heighliner"}) {
			t.Errorf("%s: configuration %+v", d.Platform, config)
		}
		checkLayer(t, image)
	}
	if diff := cmp.Diff([]string{"linux/amd64", "linux/arm64"}, platforms); diff != "" {
		t.Errorf("platforms (-want +got):\n%s", diff)
	}
	if !strings.Contains(string(files["provenance.intoto.json"]), manifest.Manifests[0].Digest.Hex) {
		t.Error("the provenance does not contain the image")
	}
}

func checkLayer(t *testing.T, image v1.Image) {
	t.Helper()
	layers, err := image.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers, %v", len(layers), err)
	}
	in, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	plain, err := io.ReadAll(in)
	if err != nil {
		t.Fatal(err)
	}
	found := unpacked(t, plain, false)
	if h := found["heighliner"]; h == nil || h.Mode != 0o755 {
		t.Errorf("unexpected header of the program: %+v", h)
	}
	if found["etc/ssl/certs/ca-certificates.crt"] == nil || found["etc/"] == nil {
		t.Error("the certificates or their folders are missing")
	}
}

// checkStatements checks the SBOM and the provenance.
func checkStatements(t *testing.T, files map[string][]byte) {
	t.Helper()
	var document struct {
		SPDXVersion   string `json:"spdxVersion"`
		Packages      []spdxPackage
		Relationships []spdxRelationship
	}
	if err := json.Unmarshal(files["heighliner-linux-amd64.spdx.json"], &document); err != nil {
		t.Fatal(err)
	}
	names, ids := map[string]bool{}, map[string]bool{"SPDXRef-DOCUMENT": true}
	for _, p := range document.Packages {
		names[p.Name] = true
		if ids[p.SPDXID] || notInID.MatchString(p.SPDXID) {
			t.Errorf("identifier %q is used twice or is not allowed", p.SPDXID)
		}
		ids[p.SPDXID] = true
	}
	for _, want := range []string{"heighliner-linux-amd64", "std", "sigs.k8s.io/yaml"} {
		if !names[want] {
			t.Errorf("the SBOM does not contain %s", want)
		}
	}
	for _, r := range document.Relationships {
		if !ids[r.Element] || !ids[r.Related] {
			t.Errorf("relationship %+v refers to a missing element", r)
		}
	}
	if document.SPDXVersion != "SPDX-2.3" || len(document.Relationships) != len(document.Packages) {
		t.Errorf("%s with %d packages and %d relationships", document.SPDXVersion, len(document.Packages), len(document.Relationships))
	}
	var statement struct {
		Type      string `json:"_type"`
		Subject   []resource
		Predicate struct {
			BuildDefinition struct{ ResolvedDependencies []resource }
		}
	}
	if err := json.Unmarshal(files["provenance.intoto.json"], &statement); err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, s := range statement.Subject {
		found[s.Name] = s.Digest["sha256"]
	}
	for name, content := range files {
		if name != "provenance.intoto.json" && name != "SHA256SUMS" && found[name] != hash(content) {
			t.Errorf("the provenance contains %q for %s", found[name], name)
		}
	}
	if materials := statement.Predicate.BuildDefinition.ResolvedDependencies; len(materials) != 2 || materials[0].Digest["gitCommit"] == "" {
		t.Errorf("materials are %+v", materials)
	}
}

func TestSection(t *testing.T) {
	t.Parallel()
	const log = "# Changelog\n\n## [Unreleased]\n\n### Added\n\n- New.\n\n## [0.1.0] - 2026-01-01\n\n- First.\n\n[Unreleased]: https://example.com\n"
	for title, want := range map[string]string{"## [Unreleased]": "### Added\n\n- New.", "## [0.1.0]": "- First.", "## [0.3.0]": ""} {
		if got := section(log, title); got != want {
			t.Errorf("%s: got %q, want %q", title, got, want)
		}
	}
}

// TestRefused tests that missing or invalid input is reported, and that nothing is written.
func TestRefused(t *testing.T) {
	t.Parallel()
	good := input{root: "../..", version: "v0.2.0", image: "registry.example.com:5000/heighliner", binaries: t.TempDir()}
	for name, test := range map[string]struct {
		change func(*input)
		want   string
	}{
		"version":  {func(in *input) { in.version = "0.2" }, "-version"},
		"no image": {func(in *input) { in.image = "" }, "-image"},
		"tag":      {func(in *input) { in.image += ":v1" }, "-image"},
		"digest":   {func(in *input) { in.image += "@sha256:0" }, "-image"},
		"binaries": {func(*input) {}, "heighliner-OS-ARCH"},
	} {
		in := good
		test.change(&in)
		out := filepath.Join(t.TempDir(), "out")
		if err := run(in, out, false); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want an error with %q", name, err, test.want)
		}
		if _, err := os.Stat(out); err == nil {
			t.Errorf("%s: the folder was created", name)
		}
	}
}
