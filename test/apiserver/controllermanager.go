package apiserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// controllers are the controllers that run in tests. None of them requires a node.
var controllers = []string{
	"deployment-controller",
	"replicaset-controller",
	"endpointslice-controller",
	"job-controller",
	"disruption-controller",
	"horizontal-pod-autoscaler-controller",
	"garbage-collector-controller",
	"namespace-controller",
	"serviceaccount-controller",
	"validatingadmissionpolicy-status-controller",
}

// controllerManager is a running kube-controller-manager.
type controllerManager struct {
	cmd    *exec.Cmd
	log    *os.File
	exited chan error
}

// startControllerManager starts kube-controller-manager, and waits until it has
// created the ServiceAccount of a namespace.
func startControllerManager(ctx context.Context, env *Env) (*controllerManager, error) {
	// Admission policies recognize kube-controller-manager by this user name.
	user, err := env.environment.AddUser(envtest.User{Name: "system:kube-controller-manager", Groups: []string{"system:masters"}}, nil)
	if err != nil {
		return nil, fmt.Errorf("add user for kube-controller-manager: %w", err)
	}
	config, err := user.KubeConfig()
	if err != nil {
		return nil, fmt.Errorf("create kubeconfig for kube-controller-manager: %w", err)
	}
	kubeconfig := filepath.Join(env.dir, "kube-controller-manager.kubeconfig")
	if err := os.WriteFile(kubeconfig, config, 0o600); err != nil {
		return nil, fmt.Errorf("write kubeconfig for kube-controller-manager: %w", err)
	}
	log, err := os.Create(filepath.Join(env.dir, "kube-controller-manager.log"))
	if err != nil {
		return nil, fmt.Errorf("create log: %w", err)
	}
	m := &controllerManager{log: log, exited: make(chan error, 1)}
	m.cmd = exec.Command(filepath.Join(env.assets, "kube-controller-manager"),
		"--kubeconfig="+kubeconfig,
		"--controllers="+strings.Join(controllers, ","),
		"--leader-elect=false",
		"--secure-port=0",
		"--kube-api-qps=500",
		"--kube-api-burst=1000",
		"--concurrent-deployment-syncs=20",
		"--concurrent-replicaset-syncs=20",
		"--concurrent-namespace-syncs=20",
		// By default, autoscalers wait several minutes for pods and load to stabilize.
		"--horizontal-pod-autoscaler-sync-period=1s",
		"--horizontal-pod-autoscaler-downscale-stabilization=10s", // longer than PlayLoad needs to distribute the load again
		"--horizontal-pod-autoscaler-initial-readiness-delay=0s",
		"--horizontal-pod-autoscaler-cpu-initialization-period=0s",
	)
	m.cmd.Stdout, m.cmd.Stderr = log, log
	if err := m.cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start kube-controller-manager: %w", err), log.Close())
	}
	go func() { m.exited <- m.cmd.Wait() }()

	key := client.ObjectKey{Namespace: "default", Name: "default"}
	err = wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		select {
		case err := <-m.exited:
			m.exited <- err
			return false, fmt.Errorf("kube-controller-manager exited: %w", err)
		default:
		}
		return env.Client.Get(ctx, key, &corev1.ServiceAccount{}) == nil, nil
	})
	if err != nil {
		tail := m.tail()
		return nil, errors.Join(fmt.Errorf("wait for kube-controller-manager: %w; its last lines:\n%s", err, tail), m.stop())
	}
	return m, nil
}

func (m *controllerManager) stop() error {
	// An error means that the process has already exited.
	_ = m.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-m.exited:
	case <-time.After(10 * time.Second):
		_ = m.cmd.Process.Kill()
		<-m.exited
	}
	return m.log.Close()
}

// tail returns the end of the log.
func (m *controllerManager) tail() []byte {
	out, err := os.ReadFile(m.log.Name())
	if err != nil {
		return []byte(err.Error())
	}
	lines := bytes.Split(out, []byte("\n"))
	return bytes.Join(lines[max(0, len(lines)-20):], []byte("\n"))
}
