//go:build cluster

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestStartAfterAnyEnd stops a cluster in every possible way, and starts it again each time. It uses a separate
// cluster, which can run alongside another cluster.
//
// Run it as root: go test -tags cluster -run TestStartAfterAnyEnd -v .
func TestStartAfterAnyEnd(t *testing.T) {
	if err := requireHost(); err != nil {
		t.Fatal(err)
	}
	r := newRun(t)
	before := hostState(t)

	r.timed("up from nothing", "up")
	r.expectHealthy()
	r.startPod()
	r.timed("up again", "up")

	t.Log("parts killed one by one with the tool")
	for _, part := range []string{"registry", "kube-scheduler", "kube-controller-manager"} {
		r.do("kill", part)
		if _, code := r.status(); code != exitDown {
			t.Errorf("status after %s was killed: exit code %d, want %d", part, code, exitDown)
		}
		r.do("restart", part)
	}
	r.do("gateway-restart", "--gateway-throttle", "200ms")
	r.expectHealthy()

	t.Log("several parts killed together")
	r.killParts("etcd", "kube-apiserver", "containerd", "kubelet", "traefik", "kube-proxy", "registry", "prometheus")
	r.timed("up over dead parts", "up")
	r.expectHealthy()
	r.expectPod()

	t.Log("supervisor killed, its parts still alive")
	r.do("kill", "supervisor")
	r.timed("up over a dead supervisor", "up")
	r.expectHealthy()
	r.startPod()

	t.Log("everything killed; mounts, sandboxes and the namespace remain")
	r.killAll()
	r.timed("up over remains", "up")
	r.expectHealthy()

	t.Log("the record is lost")
	if err := os.WriteFile(filepath.Join(r.dir, "config.json"), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	r.timed("up without a record", "up")
	r.startPod()

	t.Log("another checkout takes over")
	other := filepath.Join(t.TempDir(), "hack", "localcluster")
	if err := os.CopyFS(other, os.DirFS(".")); err != nil {
		t.Fatal(err)
	}
	output := r.do("up", "--source", other)
	if !strings.Contains(output, "taking over the running cluster from") {
		t.Errorf("unexpected output of the up command from another checkout:\n%s", output)
	}
	r.expectPod()

	r.timed("down", "down")
	r.expectNothing(before)

	t.Log("the down command with remains of a cluster")
	r.timed("up from nothing", "up")
	r.startPod()
	r.killAll()
	r.timed("down over remains", "down")
	r.expectNothing(before)
	r.do("down")
	r.expectNothing(before)
	if _, code := r.status(); code != exitDown {
		t.Errorf("status after down: exit code %d, want %d", code, exitDown)
	}
}

// run controls a cluster with the built command.
type run struct {
	t         *testing.T
	tool      string
	name, dir string
	ports     []string
	namespace [2]uint64
}

func newRun(t *testing.T) *run {
	t.Helper()
	r := &run{t: t, tool: filepath.Join(t.TempDir(), "localcluster"), name: fmt.Sprintf("ruins-%d", os.Getpid())}
	r.dir = "/var/lib/" + r.name
	if output, err := exec.Command("go", "build", "-trimpath", "-o", r.tool, ".").CombinedOutput(); err != nil {
		t.Fatalf("build: %v: %s", err, output)
	}
	for _, flag := range []string{"api-port", "registry-port", "auth-registry-port", "gateway-port", "https-port", "tls-port", "tcp-port", "prometheus-port"} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		r.ports = append(r.ports, fmt.Sprintf("--%s=%d", flag, listener.Addr().(*net.TCPAddr).Port))
	}
	t.Cleanup(func() { _ = exec.Command(r.tool, "down", "--name", r.name).Run() })
	return r
}

// command runs localcluster with arguments, and returns the output and the exit code.
func (r *run) command(arguments ...string) (string, int) {
	r.t.Helper()
	arguments = append(arguments, "--name", r.name)
	if arguments[0] == "up" {
		arguments = append(arguments, r.ports...)
	}
	var output bytes.Buffer
	command := exec.Command(r.tool, arguments...)
	command.Stdout, command.Stderr = &output, &output
	if err := command.Run(); err != nil && command.ProcessState == nil {
		r.t.Fatal(err)
	}
	return output.String(), command.ProcessState.ExitCode()
}

func (r *run) do(arguments ...string) string {
	r.t.Helper()
	output, code := r.command(arguments...)
	if code != 0 {
		r.t.Fatalf("%v: exit code %d:\n%s", arguments, code, output)
	}
	return output
}

func (r *run) status() (string, int) { return r.command("status") }

func (r *run) timed(title string, arguments ...string) {
	r.t.Helper()
	started := time.Now()
	output := r.do(arguments...)
	r.t.Logf("%s: %s", title, time.Since(started).Round(10*time.Millisecond))
	for line := range strings.Lines(output) {
		if strings.Contains(line, "] ") {
			r.t.Log("  " + strings.TrimSpace(line))
		}
	}
	r.namespace = fileIdentity(filepath.Join(r.dir, "netns"))
}

func (r *run) expectHealthy() {
	r.t.Helper()
	if output, code := r.status(); code != 0 {
		r.t.Fatalf("status: exit code %d:\n%s", code, output)
	}
}

func (r *run) kubectl(arguments ...string) string {
	r.t.Helper()
	command := exec.Command(filepath.Join(r.dir, "bin", "kubectl"), append([]string{"--kubeconfig", filepath.Join(r.dir, "kubeconfig")}, arguments...)...)
	command.Env = append(os.Environ(), "KUBECACHEDIR="+filepath.Join(r.dir, "kubectl-cache"))
	output, err := command.CombinedOutput()
	if err != nil {
		r.t.Fatalf("kubectl %v: %v: %s", arguments, err, output)
	}
	return string(output)
}

// startPod runs a pod with an image from the local registry. After the cluster stops, the sandbox, the
// mounts, and the shim of this pod may remain.
func (r *run) startPod() {
	r.t.Helper()
	r.do("image", "push", "--binary", filepath.Join(r.dir, "bin", "pause"), "--image", "10.250.0.1:5000/ruin:1")
	r.kubectl("wait", "--for=create", "--timeout=30s", "serviceaccount/default")
	r.kubectl("run", "ruin", "--image=10.250.0.1:5000/ruin:1")
	r.expectPod()
}

func (r *run) expectPod() {
	r.t.Helper()
	r.kubectl("wait", "--for=condition=Ready", "--timeout=60s", "pod/ruin")
}

func (r *run) state() State {
	r.t.Helper()
	content, err := os.ReadFile(filepath.Join(r.dir, "parts.json"))
	if err != nil {
		r.t.Fatal(err)
	}
	var state State
	if err := json.Unmarshal(content, &state); err != nil {
		r.t.Fatal(err)
	}
	return state
}

func (r *run) killParts(names ...string) {
	r.t.Helper()
	state := r.state()
	for _, name := range names {
		part, known := state.part(name)
		if !known || !part.Running {
			r.t.Fatalf("%s is not running", name)
		}
		r.kill(part.PID)
	}
}

// killAll kills the supervisor first, so that it records nothing, and then every process of the cluster, including
// pods.
func (r *run) killAll() {
	r.t.Helper()
	r.kill(r.state().Supervisor)
	deadline := time.Now().Add(20 * time.Second)
	for {
		pids, err := clusterProcesses(r.name, r.dir)
		if err != nil {
			r.t.Fatal(err)
		}
		if len(pids) == 0 {
			return
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("still alive: %v", pids)
		}
		for _, pid := range pids {
			r.kill(pid)
		}
	}
}

func (r *run) kill(pid int) {
	r.t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && err != syscall.ESRCH {
		r.t.Fatalf("kill %d: %v", pid, err)
	}
}

// expectNothing checks that the host is in its previous state, and that no process belongs to the cluster.
func (r *run) expectNothing(before map[string][]string) {
	r.t.Helper()
	if diff := cmp.Diff(before, hostState(r.t)); diff != "" {
		r.t.Errorf("the host has changed (-before +after):\n%s", diff)
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		r.t.Fatal(err)
	}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		line, _ := os.ReadFile(filepath.Join("/proc", entry.Name(), "cmdline"))
		if bytes.Contains(line, []byte(r.dir)) {
			r.t.Errorf("process %d remains: %q", pid, line)
		}
		if r.namespace != [2]uint64{} && fileIdentity(filepath.Join("/proc", entry.Name(), "ns", "net")) == r.namespace {
			r.t.Errorf("process %d remains in the network namespace", pid)
		}
	}
	if pids, err := clusterProcesses(r.name, r.dir); err != nil || len(pids) > 0 {
		r.t.Errorf("processes %v remain (%v)", pids, err)
	}
}

// hostState returns the parts of the host's state that a cluster could change.
func hostState(t *testing.T) map[string][]string {
	t.Helper()
	state := map[string][]string{}
	for _, folder := range []string{"/run", "/run/netns", "/run/containerd", "/var/lib", "/var/lib/cni", "/var/lib/kubelet", "/var/log",
		"/var/log/pods", "/var/log/containers", "/opt", "/opt/cni", "/etc/cni", "/etc/cni/net.d", "/usr/libexec"} {
		entries, err := os.ReadDir(folder)
		if err != nil {
			continue
		}
		for _, entry := range entries {
			state[folder] = append(state[folder], entry.Name())
		}
	}
	mounts, err := readMounts()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mounts {
		state["mounts"] = append(state["mounts"], m.kind+" "+m.path)
		if m.kind == "cgroup" || m.kind == "cgroup2" {
			entries, err := os.ReadDir(m.path)
			if err != nil {
				t.Fatal(err)
			}
			for _, entry := range entries {
				if entry.IsDir() {
					state["cgroups"] = append(state["cgroups"], filepath.Join(m.path, entry.Name()))
				}
			}
		}
	}
	slices.Sort(state["mounts"])
	for _, command := range [][]string{{"ip", "-o", "link"}, {"ip", "route"}, {"nft", "list", "ruleset"}, {"iptables-save", "-t", "nat"}} {
		output, err := exec.Command(command[0], command[1:]...).Output()
		if err != nil {
			t.Logf("%v: %v", command, err) // A kernel without this table has no rules.
		}
		for line := range strings.Lines(string(output)) {
			if !strings.HasPrefix(line, "#") { // Such lines contain dates.
				state[strings.Join(command, " ")] = append(state[strings.Join(command, " ")], line)
			}
		}
	}
	return state
}
