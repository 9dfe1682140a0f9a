package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// testConfig returns a complete configuration that includes the given change.
func testConfig(t *testing.T, change func(*Config)) Config {
	t.Helper()
	c := defaultConfig()
	c.Binaries = map[string]string{"kube": "1", "traefik": "2", "pause": "3"}
	c.Owner = Owner{Checkout: "/src/a"}
	if change != nil {
		change(&c)
	}
	if err := c.complete(); err != nil {
		t.Fatal(err)
	}
	fingerprint, err := c.fingerprint()
	if err != nil {
		t.Fatal(err)
	}
	c.Fingerprint = fingerprint
	return c
}

func TestCompleteNamesFlagAndFix(t *testing.T) {
	tests := map[string]struct {
		change func(*Config)
		want   string
	}{
		"defaults":         {func(*Config) {}, ""},
		"other run folder": {func(c *Config) { c.RunDir = "/srv/cluster/" }, ""},
		"name":             {func(c *Config) { c.Name = "Bad/Name" }, "--name"},
		"root":             {func(c *Config) { c.RunDir = "/" }, "--run-dir"},
		"one folder deep":  {func(c *Config) { c.RunDir = "/home" }, "--run-dir"},
		"relative":         {func(c *Config) { c.RunDir = "cluster" }, "--run-dir"},
		"below run":        {func(c *Config) { c.RunDir = "/run/cluster" }, "--run-dir"},
		"long":             {func(c *Config) { c.RunDir = "/var/" + strings.Repeat("x", 60) }, "--run-dir"},
		"port zero":        {func(c *Config) { c.Ports.Gateway = 0 }, "--gateway-port"},
		"same port twice":  {func(c *Config) { c.Ports.Registry = c.Ports.API }, "--registry-port"},
		"throttle":         {func(c *Config) { c.GatewayThrottle = -1 }, "--gateway-throttle"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := defaultConfig()
			test.change(&c)
			err := c.complete()
			if test.want == "" {
				if err != nil {
					t.Fatalf("complete: %v", err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("complete: got %v, want an error with %s", err, test.want)
			}
		})
	}
}

func TestDecide(t *testing.T) {
	want := testConfig(t, nil)
	recorded := func(change func(*Config)) *Config {
		c := testConfig(t, change)
		return &c
	}
	whole := State{Supervisor: 7, Parts: []PartState{{Name: "etcd", Running: true}, {Name: "traefik", Running: true}}}
	lame := State{Supervisor: 7, Parts: []PartState{{Name: "etcd"}, {Name: "traefik", Running: true}}}
	tests := map[string]struct {
		found Observation
		want  Decision
	}{
		"nothing": {Observation{}, Decision{Action: ActionStart}},
		"healthy": {Observation{RunDir: true, Config: recorded(nil), Answers: true, State: whole}, Decision{Action: ActionKeep}},
		"part killed": {Observation{RunDir: true, Config: recorded(nil), Answers: true, State: lame},
			Decision{Action: ActionRepair, Parts: []string{"etcd"}}},
		"supervisor killed":       {Observation{RunDir: true, Config: recorded(nil), Processes: 12}, Decision{Action: ActionRebuild}},
		"all killed, mounts left": {Observation{RunDir: true, Config: recorded(nil), Mounts: 1}, Decision{Action: ActionRebuild}},
		"record lost":             {Observation{RunDir: true, Answers: true, State: whole}, Decision{Action: ActionRebuild}},
		"only processes left":     {Observation{Processes: 1}, Decision{Action: ActionRebuild}},
		"only mounts left":        {Observation{Mounts: 1}, Decision{Action: ActionRebuild}},
		"other checkout": {Observation{RunDir: true, Config: recorded(func(c *Config) { c.Owner.Checkout = "/src/b" }), Answers: true, State: whole},
			Decision{Action: ActionKeep, From: "/src/b"}},
		"other ports": {Observation{RunDir: true, Config: recorded(func(c *Config) { c.Ports.Gateway = 8001 }), Answers: true, State: whole},
			Decision{Action: ActionRebuild}},
		"other binaries": {Observation{RunDir: true, Config: recorded(func(c *Config) { c.Binaries = map[string]string{"kube": "9"} }), Answers: true, State: whole},
			Decision{Action: ActionRebuild}},
		"other throttle": {Observation{RunDir: true, Config: recorded(func(c *Config) { c.GatewayThrottle = time.Second }), Answers: true, State: whole},
			Decision{Action: ActionKeep, Gateway: true}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := decide(test.found, want)
			if got.Reason == "" {
				t.Error("the decision has no reason")
			}
			got.Reason = ""
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("decision (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPartsStayInsideTheRunFolder(t *testing.T) {
	c := testConfig(t, func(c *Config) { c.RunDir = "/srv/throw-away" })
	names := map[string]bool{}
	stage := 0
	for _, p := range c.parts() {
		if names[p.Name] {
			t.Errorf("%s: duplicate name", p.Name)
		}
		names[p.Name] = true
		if p.Stage < stage || p.Stage >= stageCount {
			t.Errorf("%s: stage %d after stage %d", p.Name, p.Stage, stage)
		}
		stage = p.Stage
		if p.Ready == "" || p.Address == "" {
			t.Errorf("%s: no readiness probe or no address", p.Name)
		}
		for path, content := range p.Files {
			if !strings.HasPrefix(path, "/srv/throw-away/") {
				t.Errorf("%s: writes %s outside of the run folder", p.Name, path)
			}
			for _, placeholder := range []string{"RUN", "PODS", "PAUSE", "CGROUP", "NODE", "NAME", "GATEWAY", "ADDRESS", "TARGETS"} {
				if slices.Contains(strings.FieldsFunc(content, func(r rune) bool { return r < 'A' || r > 'Z' && r != '_' }), placeholder) {
					t.Errorf("%s: %s still contains the placeholder %s", p.Name, path, placeholder)
				}
			}
		}
	}
}

func TestPartArguments(t *testing.T) {
	c := testConfig(t, func(c *Config) { c.GatewayThrottle = 2 * time.Second })
	tests := map[string][]string{
		"traefik": {"--providers.providersthrottleduration=2s", "--entrypoints.web.address=:8000", "--entrypoints.tcp.address=:9000", "--entrypoints.metrics.address=10.250.0.1:8082", "--metrics.prometheus.addserviceslabels=true", "--providers.kubernetesgateway.experimentalchannel=true",
			"--entrypoints.https.address=:8443", "--entrypoints.tls.address=:8444", "--entrypoints.tcp-2.address=:9001", "--providers.kubernetesingress=true", "--providers.kubernetesingressnginx=true"},
		"kube-controller-manager": {"--kube-api-qps=500", "--kube-api-burst=1000", "--leader-elect=false"},
		"kube-apiserver":          {"--service-cluster-ip-range=10.96.0.0/16", "--authorization-mode=Node,RBAC", "--audit-log-path=" + c.auditLog(), "--kubelet-preferred-address-types=InternalIP"},
		"etcd":                    {"--unsafe-no-fsync", "--listen-client-urls=http://127.0.0.1:2379"},
		"registry":                {"--listen=10.250.0.1:5000"},
		"registry-auth":           {"--listen=10.250.0.1:5001", "--credential=demo:demo"},
		"prometheus":              {"--web.listen-address=10.250.0.1:9090", "--storage.tsdb.path=" + c.path("prometheus"), "--storage.tsdb.retention.time=3h"},
		"kubelet":                 {"--node-ip=10.250.0.1", "--hostname-override=local"},
	}
	for name, arguments := range tests {
		t.Run(name, func(t *testing.T) {
			part, err := c.part(name)
			if err != nil {
				t.Fatal(err)
			}
			for _, argument := range arguments {
				if !slices.Contains(part.Command, argument) {
					t.Errorf("%v lacks %s", part.Command, argument)
				}
			}
		})
	}
	if _, err := c.part("nothing"); err == nil || !strings.Contains(err.Error(), "kube-scheduler") {
		t.Errorf("unknown part: got %v, want an error that lists the parts", err)
	}
}

func TestMissingPackages(t *testing.T) {
	all := []string{"containerd", "runc", "containernetworking-plugins", "iptables", "nftables", "iproute2", "conntrack", "ethtool", "prometheus"}
	if diff := cmp.Diff(all, missingPackages(tools, func(string) bool { return false })); diff != "" {
		t.Errorf("bare machine (-want +got):\n%s", diff)
	}
	if got := missingPackages(tools, func(string) bool { return true }); got != nil {
		t.Errorf("complete machine: got %v", got)
	}
	got := missingPackages(tools, func(program string) bool { return program != "/usr/lib/cni/ptp" })
	if diff := cmp.Diff([]string{"containernetworking-plugins"}, got); diff != "" {
		t.Errorf("one missing (-want +got):\n%s", diff)
	}
}

func TestBuildKeyFollowsSources(t *testing.T) {
	source := t.TempDir()
	write := func(path, content string) {
		t.Helper()
		if err := writeFile(filepath.Join(source, path), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("kubernetes/go.mod", "module a")
	write("kubernetes/main.go", "package main")
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	b, err := newBuilder(source, t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	keys := map[string]bool{}
	record := func(bin binary) {
		t.Helper()
		key, err := b.key(bin)
		if err != nil {
			t.Fatal(err)
		}
		keys[key] = true
	}
	record(binaries[0])
	record(binaries[0])
	write("kubernetes/README.md", "not a source")
	record(binaries[0])
	if len(keys) != 1 {
		t.Errorf("the same sources resulted in %d keys", len(keys))
	}
	write("kubernetes/main.go", "package main // changed")
	record(binaries[0])
	write("kubernetes/go.sum", "x")
	record(binaries[0])
	write("kubernetes/assets/assets.go", "package assets")
	record(binaries[0])
	flagged := binaries[0]
	flagged.flags = append(slices.Clone(flagged.flags), "-race")
	record(flagged)
	if len(keys) != 5 {
		t.Errorf("four changes resulted in %d keys, want 5", len(keys))
	}
}

// TestBinariesHaveSources tests that each binary has sources, and a key that no other binary has.
func TestBinariesHaveSources(t *testing.T) {
	b, err := newBuilder("", t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	keys := map[string]string{}
	for _, bin := range slices.Concat(binaries, testBinaries) {
		key, err := b.key(bin)
		if err != nil {
			t.Error(err)
		}
		if other, taken := keys[key]; taken {
			t.Errorf("%s and %s have the same key", bin.name, other)
		}
		keys[key] = bin.name
	}
}

func TestFindSource(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(root, "hack", "localcluster")
	if err := writeFile(filepath.Join(folder, "kubernetes", "go.mod"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for name, dir := range map[string]string{"root": root, "own folder": folder, "below": filepath.Join(folder, "kubernetes")} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(dir)
			got, err := findSource()
			if err != nil || got != folder {
				t.Errorf("got %s, %v, want %s", got, err, folder)
			}
		})
	}
	t.Run("outside", func(t *testing.T) {
		t.Chdir(t.TempDir())
		if got, err := findSource(); err == nil || !strings.Contains(err.Error(), "change to a folder in a checkout of Heighliner, or set --source, such as --source ~/heighliner/hack/localcluster") {
			t.Errorf("got %s, %v, want an error that shows what to do", got, err)
		}
	})
}

func TestRegistryKeepsItsImages(t *testing.T) {
	folder := t.TempDir()
	serve := func() *httptest.Server {
		t.Helper()
		handler, err := newRegistry(folder, "")
		if err != nil {
			t.Fatal(err)
		}
		server := httptest.NewServer(handler)
		t.Cleanup(server.Close)
		return server
	}
	reference := func(server *httptest.Server, tag string) name.Reference {
		t.Helper()
		ref, err := name.ParseReference(strings.TrimPrefix(server.URL, "http://") + "/app:" + tag)
		if err != nil {
			t.Fatal(err)
		}
		return ref
	}
	first := serve()
	for _, tag := range []string{"1.0.0", "1.1.0"} {
		if err := remote.Write(reference(first, tag), empty.Image); err != nil {
			t.Fatal(err)
		}
	}
	index := mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: empty.Image})
	if err := remote.WriteIndex(reference(first, "2.0.0"), index); err != nil {
		t.Fatal(err)
	}
	if err := remote.Delete(reference(first, "1.0.0")); err != nil {
		t.Fatal(err)
	}
	second := serve()
	tags, err := remote.List(reference(second, "x").Context())
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(tags)
	if diff := cmp.Diff([]string{"1.1.0", "2.0.0"}, tags); diff != "" {
		t.Errorf("tags after a restart (-want +got):\n%s", diff)
	}
	if _, err := remote.Image(reference(second, "1.1.0")); err != nil {
		t.Errorf("image after a restart: %v", err)
	}
}

func TestRegistryAsksForCredential(t *testing.T) {
	handler, err := newRegistry(t.TempDir(), "demo:demo")
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(handler)
	defer server.Close()
	ref, err := name.ParseReference(strings.TrimPrefix(server.URL, "http://") + "/app:1")
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(ref, empty.Image); err == nil {
		t.Error("push without a credential succeeded")
	}
	if err := remote.Write(ref, empty.Image, remote.WithAuth(&authn.Basic{Username: "demo", Password: "wrong"})); err == nil {
		t.Error("push with a wrong credential succeeded")
	}
	if err := remote.Write(ref, empty.Image, remote.WithAuth(&authn.Basic{Username: "demo", Password: "demo"})); err != nil {
		t.Errorf("push with the credential: %v", err)
	}
	response, err := http.Get(server.URL + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Errorf("health: %s", response.Status)
	}
}

func TestPKIServesClients(t *testing.T) {
	c := testConfig(t, nil)
	c.RunDir = t.TempDir()
	if err := c.writePKI(time.Now()); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(c.kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(content, []byte("server: https://127.0.0.1:6443")) {
		t.Errorf("kubeconfig refers to another server:\n%s", content)
	}
	info, err := os.Stat(c.kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("kubeconfig has mode %o", info.Mode().Perm())
	}
	if _, err := newAPI(&c); err != nil {
		t.Errorf("client from the keys: %v", err)
	}
}

func TestLockKeepsOthersOut(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := lockFile(t.Context(), path, func() { t.Error("waited for a free lock") })
	if err != nil {
		t.Fatal(err)
	}
	waiting := make(chan struct{})
	taken := make(chan error, 1)
	go func() {
		second, err := lockFile(t.Context(), path, func() { close(waiting) })
		if err == nil {
			second()
		}
		taken <- err
	}()
	<-waiting
	if err := os.Remove(path); err != nil { // The down command also removes the file before it unlocks the file.
		t.Fatal(err)
	}
	unlock()
	if err := <-taken; err != nil {
		t.Fatal(err)
	}
	if !exists(path) {
		t.Error("the second holder locked a removed file")
	}
}

func TestReachable(t *testing.T) {
	o := &options{}
	o.config = testConfig(t, func(c *Config) { c.RunDir = "/nonexistent/run"; c.Ports.Registry = 5555 })
	tests := map[string]string{
		"10.250.0.1:5000/app:1":  "127.0.0.1:5555/app:1",
		"10.250.0.1:5001/app:1":  "127.0.0.1:5001/app:1",
		"127.0.0.1:5000/app:1":   "127.0.0.1:5000/app:1",
		"registry.example/app:1": "registry.example/app:1",
	}
	for ref, want := range tests {
		if got := o.reachable(ref); got != want {
			t.Errorf("reachable(%s) = %s, want %s", ref, got, want)
		}
	}
}

func TestStatusWithoutCluster(t *testing.T) {
	c := &cluster{config: testConfig(t, func(c *Config) { c.RunDir = "/nonexistent/run" }), say: t.Logf}
	err := c.status(t.Context(), io.Discard)
	if err == nil || !strings.Contains(err.Error(), "run localcluster up") {
		t.Errorf("got %v, want an error with \"run localcluster up\"", err)
	}
}
