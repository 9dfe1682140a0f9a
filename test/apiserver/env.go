// Package apiserver starts a real kube-apiserver with etcd for tests, and simulates the missing parts.
//
// The decisions of an API server (schemas, defaults, CEL, admission, conflicts) are real here. The decisions
// of a kubelet and a gateway are simulated, and so are those of a Deployment controller unless
// Options.ControllerManager is set: the Mark and Play functions only write the status that the real part
// would write. End-to-end tests cover the behavior of the real parts.
//
// A package starts one environment in TestMain and uses a new namespace for each test:
//
//	var env *apiserver.Env
//
//	func TestMain(m *testing.M) {
//		os.Exit(apiserver.Run(m, apiserver.Options{GatewayAPI: true}, &env))
//	}
//
//	func TestX(t *testing.T) {
//		t.Parallel()
//		namespace := env.Namespace(t)
//		…
//	}
//
//	env.go                the environment of a package
//	install.go            CRDs, roles and policies
//	controllermanager.go  the real kube-controller-manager
//	standin.go            Mark and Play functions
//	load.go               a stand-in for a metrics server
//	earlier.go            statuses in the format of earlier versions
//	indexed.go            lists by an index, without a cache
//	line.go               a connection that a test can interrupt
//	watcher.go            stops the remaining processes of a killed test
package apiserver

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	hlnr "github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/test/port"
)

// partTimeout limits how long each part may take to start or to stop.
const partTimeout = 3 * time.Minute

// gcPercent is the garbage collection target percentage of the tests, the API server, etcd, and the
// controller-manager. With the default of 100, garbage collection takes a third of the startup time, and the
// tests of a controller use 9 percent more processor time.
const gcPercent = 300

// Options select the parts to start and the objects to install. The zero value selects an API server with the project's CRDs.
type Options struct {
	// Policies installs config/policies and waits until they are enforced. From then on, only the manager's
	// ServiceAccount (see ManagerUser) may create VersionedMicroservices.
	Policies bool
	// GatewayAPI installs the Gateway API's standard channel, in the local cluster's version.
	GatewayAPI bool
	// ControllerManager runs kube-controller-manager with the controllers that create Pods for Deployments and EndpointSlices for Pods,
	// and that collect garbage. The Pods are not scheduled and do not run: see PlayKubelet.
	ControllerManager bool
	// Empty omits the project's CRDs, for tests that install them.
	Empty bool
	// Audit records writes to objects of hlnr.io: see AuditLog.
	Audit bool
}

// Env is a running API server.
type Env struct {
	// Client reads and writes without a cache, as a member of system:masters.
	Client client.WithWatch
	// Config connects to the API server with the same permissions, without a rate limit.
	Config *rest.Config

	environment *envtest.Environment
	manager     *controllerManager
	assets      string
	dir         string
	release     []func() // The functions that release the reserved ports.
	installed   []string // The folders from which objects were installed.
	noted       sync.Once
}

// Run starts an environment, sets *env, runs the tests, stops the environment, and returns the exit code for
// os.Exit. For fuzzing, it does not start an environment, because fuzz tests only call pure functions and
// each worker would start its own environment.
func Run(m *testing.M, o Options, env **Env) int {
	flag.Parse()
	if fuzz := flag.Lookup("test.fuzz"); fuzz != nil && fuzz.Value.String() != "" {
		return m.Run()
	}
	started, err := Start(o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "start API server:", err)
		return 1
	}
	*env = started
	code := m.Run()
	if err := started.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stop API server:", err)
		return max(code, 1)
	}
	return code
}

// Start starts an API server and the parts that the options select. KUBEBUILDER_ASSETS is the folder with the binaries. If Start
// fails, it stops everything that it started.
func Start(o Options) (_ *Env, err error) {
	assets := os.Getenv("KUBEBUILDER_ASSETS")
	if assets == "" {
		return nil, errors.New(`read KUBEBUILDER_ASSETS: it is not set; run "make test", or set it to the output of "go run -C hack/localcluster . assets"`)
	}
	root, crds, err := o.definitions()
	if err != nil {
		return nil, err
	}
	installed := slices.Clone(crds)
	if o.Policies {
		installed = append(installed, filepath.Join(root, "config", "policies"))
	}
	env := &Env{assets: assets, installed: installed, environment: &envtest.Environment{
		CRDDirectoryPaths:        crds,
		ErrorIfCRDPathMissing:    true,
		CRDInstallOptions:        envtest.CRDInstallOptions{MaxTime: partTimeout},
		ControlPlaneStartTimeout: partTimeout,
		ControlPlaneStopTimeout:  partTimeout,
	}}
	if err := env.folders(); err != nil {
		return nil, err
	}
	token, err := env.writeToken()
	if err != nil {
		return nil, err
	}
	env.environment.ControlPlane.GetAPIServer().Configure().
		// This is the range that real clusters use. A few hundred Services do not exhaust it.
		Set("service-cluster-ip-range", "10.96.0.0/16").
		Set("token-auth-file", env.tokenFile())
	defer func() {
		if err != nil {
			err = errors.Join(err, env.Stop())
		}
	}()
	if o.Audit {
		if err := env.audit(); err != nil {
			return nil, err
		}
	}

	if env.Config, err = env.startControlPlane(); err != nil {
		return nil, err
	}
	env.Config.QPS = -1
	// Use a token instead of a client certificate: the server would have to verify a certificate on
	// each request, but only looks up a token in a map.
	env.Config.CertData, env.Config.KeyData, env.Config.BearerToken = nil, nil, token
	if env.Client, err = newClient(env.Config); err != nil {
		return nil, err
	}
	if err := os.WriteFile(env.Kubeconfig(), env.environment.KubeConfig, 0o600); err != nil {
		return nil, fmt.Errorf("write kubeconfig: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), partTimeout)
	defer cancel()
	if o.ControllerManager {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName}}
		if err := env.Client.Create(ctx, node); err != nil {
			return nil, fmt.Errorf("create Node: %w", err)
		}
		if env.manager, err = startControllerManager(ctx, env); err != nil {
			return nil, err
		}
	}
	if o.Policies {
		if err := installPolicies(ctx, env, filepath.Join(root, "config", "policies")); err != nil {
			return nil, err
		}
	}
	return env, nil
}

// definitions returns the root of the module, which is empty for an API server without CRDs, and the folders with the CRDs to install.
func (o Options) definitions() (root string, folders []string, err error) {
	if !o.Empty {
		if root, err = moduleRoot(); err != nil {
			return "", nil, err
		}
		folders = append(folders, filepath.Join(root, "config", "crd"))
	}
	if o.GatewayAPI {
		folder, err := GatewayAPI(GatewayAPIVersion, "standard")
		if err != nil {
			return "", nil, err
		}
		folders = append(folders, folder)
	}
	return root, folders, nil
}

// folders creates the environment's folder, in which etcd and the API server store their files. If this
// process exits without calling Stop, both of them are stopped and the folder is deleted.
func (e *Env) folders() (err error) {
	if e.dir, err = os.MkdirTemp("", "heighliner-apiserver-"); err != nil {
		return fmt.Errorf("create folder: %w", err)
	}
	if err := endTogether(e.dir); err != nil {
		return err
	}
	server := e.environment.ControlPlane.GetAPIServer()
	e.environment.ControlPlane.Etcd = &envtest.Etcd{DataDir: filepath.Join(e.dir, "etcd")}
	server.CertDir = filepath.Join(e.dir, "certificates")
	for _, dir := range []string{e.environment.ControlPlane.Etcd.DataDir, server.CertDir} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return fmt.Errorf("create folder: %w", err)
		}
	}
	return nil
}

// startControlPlane starts etcd and the API server, with gcPercent unless the environment sets GOGC.
func (e *Env) startControlPlane() (_ *rest.Config, err error) {
	if os.Getenv("GOGC") == "" { // The parts inherit the test's environment variables.
		debug.SetGCPercent(gcPercent)
		if err := os.Setenv("GOGC", strconv.Itoa(gcPercent)); err != nil {
			return nil, fmt.Errorf("set GOGC: %w", err)
		}
		defer func() { err = errors.Join(err, os.Unsetenv("GOGC")) }()
	}
	if err := e.reservePorts(); err != nil {
		return nil, err
	}
	config, err := e.environment.Start()
	if err != nil {
		return nil, fmt.Errorf("start control plane: %w", err)
	}
	return config, nil

}

// reservePorts sets the ports of etcd and the API server. By default, envtest selects ports that Linux can assign to other
// processes before etcd and the API server listen on them.
func (e *Env) reservePorts() error {
	var ports [3]string
	for i := range ports {
		number, release, err := port.Reserve()
		if err != nil {
			return err
		}
		ports[i], e.release = strconv.Itoa(number), append(e.release, release)
	}
	const host = "127.0.0.1"
	etcd, server := e.environment.ControlPlane.Etcd, e.environment.ControlPlane.GetAPIServer()
	etcd.URL = &url.URL{Scheme: "http", Host: host + ":" + ports[0]}
	etcd.Configure().Set("listen-peer-urls", "http://"+host+":"+ports[1])
	server.SecureServing.ListenAddr = envtest.ListenAddr{Address: host, Port: ports[2]}
	return nil
}

// writeToken creates a token for a member of system:masters, and the API server's token file.
func (e *Env) writeToken() (string, error) {
	token := rand.Text()
	if err := os.WriteFile(e.tokenFile(), []byte(token+",admin,admin,system:masters\n"), 0o600); err != nil {
		return "", fmt.Errorf("write tokens: %w", err)
	}
	return token, nil
}

func (e *Env) tokenFile() string { return filepath.Join(e.dir, "tokens.csv") }

// auditPolicy records writes to objects of hlnr.io, without their contents.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  verbs: [create, update, patch, delete]
  resources: [{group: hlnr.io}]
- level: None
`

// audit makes the API server write audit events to the file whose path AuditLog returns.
func (e *Env) audit() error {
	policy := filepath.Join(e.dir, "audit.yaml")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		return fmt.Errorf("write audit policy: %w", err)
	}
	e.environment.ControlPlane.GetAPIServer().Configure().Set("audit-policy-file", policy).Set("audit-log-path", e.AuditLog())
	return nil
}

// AuditLog returns the path of the file with the events that Options.Audit records. Each line is an audit.k8s.io/v1
// Event as JSON.
func (e *Env) AuditLog() string { return filepath.Join(e.dir, "audit.log") }

// Stop stops all parts.
func (e *Env) Stop() error {
	var errs []error
	if e.manager != nil {
		errs = append(errs, e.manager.stop())
	}
	if err := e.environment.Stop(); err != nil {
		errs = append(errs, fmt.Errorf("stop control plane: %w", err))
	}
	for _, release := range e.release {
		release()
	}
	if e.dir != "" {
		errs = append(errs, os.RemoveAll(e.dir))
	}
	return errors.Join(errs...)
}

// Namespace creates a namespace for a test and returns its name. It deletes the namespace when the test ends.
// Without a controller-manager, the objects in the namespace remain.
func (e *Env) Namespace(t testing.TB) string {
	t.Helper()
	e.noted.Do(e.note)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	if err := e.Client.Create(context.Background(), namespace); err != nil {
		t.Fatalf("create namespace: %v", err)
	}
	t.Cleanup(func() {
		if err := e.Client.Delete(context.Background(), namespace); err != nil {
			t.Logf("delete namespace: %v", err)
		}
	})
	return namespace.Name
}

// note opens the installed files. The go command reuses a test's result if the files that the test opened
// have not changed, but it does not record files that were opened before the tests ran.
func (e *Env) note() {
	for _, dir := range e.installed {
		files, _ := filepath.Glob(filepath.Join(dir, "*.yaml"))
		for _, file := range files {
			_, _ = os.ReadFile(file)
		}
	}
}

// As returns a client that impersonates a user.
func (e *Env) As(t testing.TB, user string, groups ...string) client.Client {
	t.Helper()
	config := rest.CopyConfig(e.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: append(groups, "system:authenticated")}
	c, err := newClient(config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Kubectl runs kubectl with stdin, and returns its standard output and standard error.
func (e *Env) Kubectl(t testing.TB, stdin string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(e.assets, "kubectl"), append([]string{"--kubeconfig", e.Kubeconfig()}, args...)...)
	cmd.Stdin = strings.NewReader(stdin)
	// Use a separate home, so that kubectl does not use the discovery caches of other servers.
	cmd.Env = append(os.Environ(), "HOME="+e.dir, "KUBECACHEDIR="+filepath.Join(e.dir, "kubecache"))
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}

// Kubeconfig returns the path of a kubeconfig for a member of system:masters.
func (e *Env) Kubeconfig() string { return filepath.Join(e.dir, "kubeconfig") }

func newClient(config *rest.Config) (client.WithWatch, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, hlnr.AddToScheme, gatewayv1.Install} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("build scheme: %w", err)
		}
	}
	c, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("build client: %w", err)
	}
	return c, nil
}
