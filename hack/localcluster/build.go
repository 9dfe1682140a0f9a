package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// kubernetesVersion is the version that the API server reports. It must equal the version of k8s.io/kubernetes in kubernetes/go.mod.
const kubernetesVersion = "v1.35.4"

// kubeComponents are the names of the links to the kube binary.
var kubeComponents = []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy", "kubectl"}

// binary is one program that localcluster builds from source.
type binary struct {
	name   string
	folder string // The folder below hack/localcluster, which is a separate module or part of this module.
	pkg    string
	flags  []string
	env    []string
	links  []string
	// module is the path of the module that contains pkg. Defaults to pkg.
	module string
	// assets are the folders that the program reads. The build copies them from the module to the folder of the program.
	assets []string
	about  string
}

var binaries = []binary{
	{
		name: "kube", folder: "kubernetes", pkg: ".",
		flags: []string{"-trimpath", "-ldflags=-s -w" +
			" -X k8s.io/component-base/version.gitVersion=" + kubernetesVersion +
			" -X k8s.io/component-base/version.gitMajor=1" +
			" -X k8s.io/component-base/version.gitMinor=35"},
		links: kubeComponents,
		about: "Kubernetes and etcd",
	},
	{
		name: "traefik", folder: "traefik", pkg: "github.com/traefik/traefik/v3/cmd/traefik",
		flags: []string{"-trimpath", "-ldflags=-s -w"},
		about: "the gateway",
	},
	{
		name: "pause", folder: "pause", pkg: ".",
		flags: []string{"-trimpath", "-ldflags=-s -w"},
		env:   []string{"CGO_ENABLED=0"},
		about: "the pause image",
	},
}

// testBinaries are the binaries that only tests need.
var testBinaries = []binary{
	{
		name: "distribution", folder: "distribution", pkg: ".",
		flags: []string{"-trimpath", "-ldflags=-s -w"},
		env:   []string{"CGO_ENABLED=0"},
		about: "CNCF Distribution 3, for discovery tests",
	},
	{
		name: "gitea", folder: "gitea", pkg: "code.gitea.io/gitea",
		flags:  []string{"-trimpath", "-tags=sqlite,sqlite_unlock_notify", "-ldflags=-s -w"},
		env:    []string{"CGO_ENABLED=1"}, // SQLite is written in C
		assets: []string{"options", "public", "templates"},
		about:  "Gitea, for discovery tests of its registry; the build takes about ten minutes and needs gcc",
	},
	{
		name: "kwok", folder: "kwok", pkg: "sigs.k8s.io/kwok/cmd/kwok", module: "sigs.k8s.io/kwok",
		flags:  []string{"-trimpath", "-ldflags=-s -w"},
		env:    []string{"CGO_ENABLED=0"},
		assets: []string{"kustomize/stage"},
		about:  "kwok, which simulates nodes and pods for make bench-scale",
	},
}

// otherKubernetes are the versions of Kubernetes, in addition to the cluster's version, for tests that need
// an API server. They are in ascending order, and each has a module file in the apiservers folder.
var otherKubernetes = []struct{ version, modfile string }{
	{"v1.33.13", "v1.33.mod"}, {"v1.34.4", "v1.34.mod"}, {"v1.36.3", "v1.36.mod"}, {"v1.37.2", "go.mod"},
}

// minorOf returns the minor version, such as 1.33 for v1.33.13.
func minorOf(version string) string {
	return strings.TrimPrefix(version[:strings.LastIndex(version, ".")], "v")
}

// otherBinary returns the control plane for a minor version such as 1.33, and false if otherKubernetes does
// not contain this version.
func otherBinary(minor string) (binary, bool) {
	for _, k := range otherKubernetes {
		if minorOf(k.version) != minor {
			continue
		}
		const version = " -X k8s.io/component-base/version."
		return binary{
			name: "apiserver-" + minor, folder: "apiservers", pkg: ".",
			flags: []string{"-trimpath", "-modfile=" + k.modfile, "-ldflags=-s -w" + version + "gitVersion=" + k.version +
				version + "gitMajor=1" + version + "gitMinor=" + strings.TrimPrefix(minor, "1.")},
			links: []string{"kube-apiserver", "kube-controller-manager", "kubectl"},
			about: "the control plane of Kubernetes " + k.version,
		}, true
	}
	return binary{}, false
}

// controlPlane returns a folder that contains the programs of a control plane from otherKubernetes, and the
// etcd of the cluster.
func (b *builder) controlPlane(ctx context.Context, minor string) (string, error) {
	bin, known := otherBinary(minor)
	if !known {
		var all []string
		for _, k := range otherKubernetes {
			all = append(all, minorOf(k.version))
		}
		return "", fmt.Errorf("Kubernetes %q cannot be built here: choose one of %s, or omit --kubernetes to use the version of the cluster, %s", minor, strings.Join(all, ", "), kubernetesVersion)
	}
	keys, err := b.ensure(ctx, "kube")
	if err != nil {
		return "", err
	}
	key, err := b.key(bin)
	if err != nil {
		return "", err
	}
	path := b.binaryPath(bin, key)
	if !exists(path) {
		if err := b.build(ctx, bin, key, "1 of 1"); err != nil {
			return "", err
		}
	}
	etcd := filepath.Join(filepath.Dir(path), "etcd")
	if err := os.Remove(etcd); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("replace link: %w", err)
	}
	if err := os.Symlink(filepath.Join(filepath.Dir(b.binaryPath(binaries[0], keys["kube"])), "etcd"), etcd); err != nil {
		return "", fmt.Errorf("create link: %w", err)
	}
	return filepath.Dir(path), nil
}

// builder builds the binaries in a cache that all of a user's checkouts share.
type builder struct {
	source string // The folder hack/localcluster of a checkout.
	cache  string
	say    func(format string, arguments ...any)
}

// newBuilder finds the sources in or above the current folder, or in source if source is not empty.
func newBuilder(source string, say func(string, ...any)) (*builder, error) {
	cache := os.Getenv("XDG_CACHE_HOME")
	if cache == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return nil, fmt.Errorf("find cache folder: %w: set XDG_CACHE_HOME", err)
		}
		cache = filepath.Join(home, ".cache")
	}
	if source == "" {
		found, err := findSource()
		if err != nil {
			return nil, err
		}
		source = found
	}
	source, err := filepath.Abs(source)
	if err != nil {
		return nil, fmt.Errorf("find sources: %w", err)
	}
	return &builder{source: source, cache: filepath.Join(cache, "heighliner", "localcluster"), say: say}, nil
}

func findSource() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find sources: %w", err)
	}
	for {
		for _, candidate := range []string{filepath.Join(dir, "hack", "localcluster"), dir} {
			if _, err := os.Stat(filepath.Join(candidate, "kubernetes", "go.mod")); err == nil {
				return candidate, nil
			}
		}
		if filepath.Dir(dir) == dir {
			return "", errors.New("find sources: hack/localcluster is not in the current folder or any folder above it: change to a folder in a checkout of Heighliner, or set --source, such as --source ~/heighliner/hack/localcluster")
		}
		dir = filepath.Dir(dir)
	}
}

// checkout returns the root of the checkout that contains the sources.
func (b *builder) checkout() string { return filepath.Dir(filepath.Dir(b.source)) }

// key returns the hash of everything that determines a binary.
func (b *builder) key(bin binary) (string, error) {
	folder := filepath.Join(b.source, bin.folder)
	var files []string // The files, in lexical order.
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && slices.Contains([]string{".go", ".mod", ".sum"}, filepath.Ext(path)) {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		return "", fmt.Errorf("list sources of %s: %w", bin.name, err)
	}
	hash := sha256.New()
	fmt.Fprintln(hash, runtime.GOOS, runtime.GOARCH, bin.pkg, bin.flags, bin.env)
	if len(bin.assets) > 0 {
		fmt.Fprintln(hash, bin.assets)
	}
	for _, path := range files {
		content, err := os.ReadFile(path)
		if err != nil {
			return "", fmt.Errorf("read sources of %s: %w", bin.name, err)
		}
		name, err := filepath.Rel(folder, path)
		if err != nil {
			return "", fmt.Errorf("read sources of %s: %w", bin.name, err)
		}
		fmt.Fprintln(hash, filepath.ToSlash(name), len(content))
		hash.Write(content)
	}
	return hex.EncodeToString(hash.Sum(nil)[:8]), nil
}

// binaryPath returns the path of the binary that has the given key.
func (b *builder) binaryPath(bin binary, key string) string {
	return filepath.Join(b.cache, bin.name+"-"+key, bin.name)
}

// ensure builds the named binaries that are not in the cache, and returns the key of each binary.
func (b *builder) ensure(ctx context.Context, names ...string) (map[string]string, error) {
	keys := map[string]string{}
	var missing []binary
	for _, bin := range slices.Concat(binaries, testBinaries) {
		if !slices.Contains(names, bin.name) {
			continue
		}
		key, err := b.key(bin)
		if err != nil {
			return nil, err
		}
		keys[bin.name] = key
		if !exists(b.binaryPath(bin, key)) {
			missing = append(missing, bin)
		}
	}
	if len(missing) == 0 {
		return keys, nil
	}
	if _, err := exec.LookPath("go"); err != nil {
		return nil, fmt.Errorf("build binaries: %w: install the Go version that go.mod requires", err)
	}
	b.say("building %d binaries; the first build takes several minutes, and later builds use the cache %s", len(missing), b.cache)
	for i, bin := range missing {
		if err := b.build(ctx, bin, keys[bin.name], fmt.Sprintf("%d of %d", i+1, len(missing))); err != nil {
			return nil, err
		}
	}
	return keys, nil
}

// build builds one binary. It waits if another builder is building the same binary.
func (b *builder) build(ctx context.Context, bin binary, key, ordinal string) error {
	target := b.binaryPath(bin, key)
	folder := filepath.Dir(target)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("create cache folder: %w", err)
	}
	unlock, err := lockFile(ctx, filepath.Join(folder, ".lock"), func() {
		b.say("waiting for another build of %s", bin.name)
	})
	if err != nil {
		return err
	}
	defer unlock()
	if exists(target) {
		return nil
	}

	started := time.Now()
	b.say("building %s (%s), %s", bin.name, bin.about, ordinal)
	done := make(chan struct{})
	defer close(done)
	go func() {
		ticker := time.NewTicker(15 * time.Second)
		defer ticker.Stop()
		for {
			select {
			case <-done:
				return
			case <-ticker.C:
				b.say("building %s (%s), %s: %s so far", bin.name, bin.about, ordinal, time.Since(started).Round(time.Second))
			}
		}
	}()

	temporary := target + ".new"
	command := exec.CommandContext(ctx, "go", slices.Concat([]string{"build"}, bin.flags, []string{"-o", temporary, bin.pkg})...)
	command.Dir = filepath.Join(b.source, bin.folder)
	command.Env = append(os.Environ(), bin.env...)
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w: %s", bin.name, err, lastLines(string(output), 12))
	}
	if err := b.copyAssets(ctx, bin, folder); err != nil {
		return err
	}
	for _, link := range bin.links {
		path := filepath.Join(folder, link)
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("replace link: %w", err)
		}
		if err := os.Symlink(bin.name, path); err != nil {
			return fmt.Errorf("create link: %w", err)
		}
	}
	if err := os.Rename(temporary, target); err != nil {
		return fmt.Errorf("put %s into the cache: %w", bin.name, err)
	}
	b.say("built %s in %s", bin.name, time.Since(started).Round(time.Second))
	return nil
}

// copyAssets copies the folders that a program reads, and overwrites any folders that an interrupted
// build left behind.
func (b *builder) copyAssets(ctx context.Context, bin binary, target string) error {
	if len(bin.assets) == 0 {
		return nil
	}
	module, err := b.moduleDir(ctx, bin.folder, cmp.Or(bin.module, bin.pkg))
	if err != nil {
		return fmt.Errorf("find files of %s: %w", bin.name, err)
	}
	for _, name := range bin.assets {
		path := filepath.Join(target, name)
		if err := os.RemoveAll(path); err != nil {
			return fmt.Errorf("replace files of %s: %w", bin.name, err)
		}
		if err := os.CopyFS(path, os.DirFS(filepath.Join(module, name))); err != nil {
			return fmt.Errorf("copy files of %s: %w", bin.name, err)
		}
	}
	return nil
}

// moduleDir returns the folder with the source of a module that the module in folder requires.
func (b *builder) moduleDir(ctx context.Context, folder, module string) (string, error) {
	command := exec.CommandContext(ctx, "go", "mod", "download", "-json", module)
	command.Dir = filepath.Join(b.source, folder)
	output, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, lastLines(string(output), 5))
	}
	var found struct{ Dir string }
	if err := unmarshal(output, &found); err != nil {
		return "", err
	}
	return found.Dir, nil
}

// gatewayCRDs returns the files of the CRDs from the experimental channel of the Gateway API, in the version that
// the gateway requires.
func (b *builder) gatewayCRDs(ctx context.Context) ([]string, error) {
	module, err := b.moduleDir(ctx, "traefik", "sigs.k8s.io/gateway-api")
	if err != nil {
		return nil, fmt.Errorf("find Gateway API definitions: %w", err)
	}
	files, err := filepath.Glob(filepath.Join(module, "config", "crd", "experimental", "gateway.networking.*.yaml"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("find Gateway API definitions: none in %s", module)
	}
	return files, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// lastLines returns the last n lines of text, as one line.
func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], " | ")
}
