//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/test/harness"
)

// These constants identify the manager that config/default installs.
const (
	managerNamespace = "heighliner-system"
	managerName      = "heighliner"
	managerContainer = "manager"
)

// environment is shared by all tests.
type environment struct {
	*harness.Cluster
	// root is the root of the checkout.
	root string
	// kubectl is the kubectl binary, with which tests act as a user would.
	kubectl string
	// user is the user name of this client.
	user string
	// log contains the logs of all managers during the tests.
	log *managerLog
}

var env environment

var chosen = flag.String("group", "", "run only the tests of this group")

func TestMain(m *testing.M) {
	flag.Parse()
	if *chosen != "" {
		run, err := pattern(*chosen)
		if err == nil {
			err = flag.Set("test.run", run)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "e2e:", err)
			os.Exit(2)
		}
	}
	stop, err := open(context.Background())
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		os.Exit(1)
	}
	code := m.Run()
	stop()
	if !env.log.verdict() && code == 0 {
		fmt.Println("FAIL: the manager logged lines that no fault in these tests explains")
		code = 1
	}
	os.Exit(code)
}

// open finds the cluster and its manager, and starts following the manager's log.
func open(ctx context.Context) (stop func(), err error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme), gatewayv1.Install(scheme)); err != nil {
		return nil, err
	}
	if env.Cluster, err = harness.OpenCluster(scheme, harness.AddressesFrom(os.Getenv)); err != nil {
		return nil, err
	}
	if env.root, err = filepath.Abs("../.."); err != nil {
		return nil, err
	}
	if env.kubectl = os.Getenv("KUBECTL"); env.kubectl == "" {
		env.kubectl = "kubectl"
	}
	var manager appsv1.Deployment
	if err := env.Client.Get(ctx, client.ObjectKey{Namespace: managerNamespace, Name: managerName}, &manager); err != nil {
		return nil, fmt.Errorf("find the manager: %w; run these tests with `make e2e`", err)
	}
	fmt.Printf("manager image: %s\n", manager.Spec.Template.Spec.Containers[0].Image)
	self := &authenticationv1.SelfSubjectReview{}
	if err := env.Client.Create(ctx, self); err != nil {
		return nil, fmt.Errorf("read the user of this client: %w", err)
	}
	env.user = self.Status.UserInfo.Username
	env.log, err = followManager(env.Config)
	if err != nil {
		return nil, err
	}
	return env.log.stop, nil
}

// sampleApp returns the static binary of the sample application.
func sampleApp() string { return filepath.Join(env.root, "bin", "sampleapp") }

// runDir returns the run folder of the local cluster.
func runDir() string { return filepath.Dir(env.Kubeconfig) }

// localcluster runs a command of the bin/localcluster program.
func localcluster(t *testing.T, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(env.root, "bin", "localcluster"), args...)
	cmd.Dir = env.root
	began := time.Now()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("localcluster %v: %v\n%s", args, err, out)
	}
	if slices.Equal(args, []string{"restart", "kube-apiserver"}) {
		env.log.restarted(began)
	}
}

// kubectl runs kubectl with optional input.
func kubectl(t *testing.T, input string, args ...string) string {
	t.Helper()
	out, err := kubectlCommand(t.Context(), input, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("kubectl %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// kubectlCommand returns a kubectl command with optional input.
func kubectlCommand(ctx context.Context, input string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, env.kubectl, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+env.Kubeconfig)
	cmd.Stdin = bytes.NewBufferString(input)
	return cmd
}

// build builds a static binary from a package in this module.
func build(t *testing.T, binary, pkg string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", binary, pkg)
	cmd.Dir = env.root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", pkg, err, out)
	}
}
