//go:build e2e

package e2e

import (
	"bufio"
	"bytes"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var (
	seed  = flag.Uint64("seed", 0, "seed of the times at which the manager is killed; 0 means a seed from the clock")
	kills = flag.Int("kills", 20, "number of times to kill the manager")
)

// TestDemoSurvivesKills runs the demo repeatedly while the manager's process is killed with SIGKILL, until the
// number of kills is reached. The times of the kills are derived from a seed, and are at least 15 s apart. Each
// demo must end with PASSED, which means that no request failed.
func TestDemoSurvivesKills(t *testing.T) { survivesKills(t, "main", *kills) }

// TestPreviewsSurviveKills does the same with the previews demo. A result of PASSED also means that each
// state of each commit was reported to GitHub exactly once.
func TestPreviewsSurviveKills(t *testing.T) { survivesKills(t, "previews", max(1, *kills/4)) }

func survivesKills(t *testing.T, story string, wanted int) {
	t.Helper()
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano())
	}
	t.Logf("run again with -seed %d", *seed)
	ctx, cancel := context.WithCancel(t.Context())
	k := &killer{random: rand.New(rand.NewPCG(*seed, 0)), wanted: wanted, done: make(chan struct{}), ended: make(chan error, 1)}
	go func() { k.ended <- k.run(ctx) }()
	defer func() {
		cancel()
		if err := <-k.ended; err != nil && t.Context().Err() == nil && ctx.Err() == nil {
			t.Error(err)
		}
	}()
	defer func() {
		for i, at := range k.log() {
			t.Logf("kill %2d: %s", i+1, at)
		}
	}()
	for n := 1; !k.enough(); n++ {
		began := time.Now()
		out, err := demo(ctx, story)
		path := filepath.Join(t.ArtifactDir(), fmt.Sprintf("demo-%d.log", n))
		if writeErr := os.WriteFile(path, out, 0o644); writeErr != nil {
			t.Fatal(writeErr)
		}
		t.Logf("demo %d took %s, %d kills so far: %s", n, time.Since(began).Round(time.Second), k.count(), conclusion(out))
		if err != nil {
			t.Fatalf("demo %d: %v\n%s", n, err, out)
		}
		select {
		case err := <-k.ended:
			k.ended <- err
			if err != nil {
				t.Fatal(err)
			}
		default:
		}
	}
}

// demo runs a demo once.
func demo(ctx context.Context, story string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(env.root, "bin", "demo"), "-story", story, "-kubectl", env.kubectl, "-patience", "10m")
	cmd.Dir = env.root
	cmd.Env = append(os.Environ(), "KUBECONFIG="+env.Kubeconfig)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	return cmd.CombinedOutput()
}

// conclusion returns the demo's line about requests, and its result.
func conclusion(out []byte) string {
	var lines []string
	for line := range strings.Lines(string(out)) {
		if strings.HasPrefix(line, "Verdict") || strings.Contains(line, "no request failed") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return strings.Join(lines, "; ")
}

// managerProcess returns the manager's pod and the process ID of its container.
func managerProcess(ctx context.Context) (*corev1.Pod, int, error) {
	var pods corev1.PodList
	if err := env.Client.List(ctx, &pods, client.InNamespace(managerNamespace), client.MatchingLabels{"app.kubernetes.io/component": "manager"}); err != nil {
		return nil, 0, err
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		for _, s := range pod.Status.ContainerStatuses {
			if pod.DeletionTimestamp != nil || s.Name != managerContainer || s.State.Running == nil {
				continue
			}
			id := strings.TrimPrefix(s.ContainerID, "containerd://")
			pid, err := pidOf(ctx, id)
			return pod, pid, err
		}
	}
	return nil, 0, fmt.Errorf("find the manager: no container is running")
}

// pidOf returns the process ID of a container, as reported by containerd.
func pidOf(ctx context.Context, container string) (int, error) {
	out, err := exec.CommandContext(ctx, "ctr", "-n", "k8s.io", "--address", filepath.Join(runDir(), "containerd.sock"), "tasks", "ls").Output()
	if err != nil {
		return 0, fmt.Errorf("list containers: %w", err)
	}
	lines := bufio.NewScanner(bytes.NewReader(out))
	for lines.Scan() {
		if fields := strings.Fields(lines.Text()); len(fields) >= 2 && fields[0] == container {
			return strconv.Atoi(fields[1])
		}
	}
	return 0, fmt.Errorf("find process of container %s: not listed", container)
}
