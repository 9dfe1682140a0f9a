package helm

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/test/port"
)

// buildManager compiles the manager from this source tree.
func buildManager(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "heighliner")
	build := exec.Command("go", "build", "-o", binary, "./cmd/heighliner")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the manager: %v\n%s", err, out)
	}
	return binary
}

// managerProcess is a manager with the arguments and the permissions of the release.
type managerProcess struct {
	*testing.T
	cmd        *exec.Cmd
	log        string
	kubeconfig string

	mu     sync.Mutex
	denied map[string]bool // The requests that the API server denied.
}

// startManager runs the command of the Deployment, with a token for the Deployment's ServiceAccount.
func startManager(t *testing.T, binary string) *managerProcess {
	t.Helper()
	var deployment appsv1.Deployment
	key := client.ObjectKey{Namespace: system, Name: "heighliner"}
	if err := env.Client.Get(t.Context(), key, &deployment); err != nil {
		t.Fatal(err)
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: deployment.Spec.Template.Spec.ServiceAccountName}}
	token := &authenticationv1.TokenRequest{}
	if err := env.Client.SubResource("token").Create(t.Context(), account, token); err != nil {
		t.Fatalf("create a token for the ServiceAccount: %v", err)
	}
	m := &managerProcess{T: t, denied: map[string]bool{}, log: filepath.Join(t.TempDir(), "log")}
	m.kubeconfig = m.proxy(token.Status.Token)
	var args []string
	for _, arg := range deployment.Spec.Template.Spec.Containers[0].Args {
		arg = strings.ReplaceAll(arg, "$(NAMESPACE)", system)
		if strings.HasPrefix(arg, "--health-probe-bind-address=") || strings.HasPrefix(arg, "--metrics-bind-address=") || strings.HasPrefix(arg, "--webhook-bind-address=") {
			arg = arg[:strings.Index(arg, "=")+1] + port.Take(t)
		}
		args = append(args, arg)
	}
	log, err := os.Create(m.log)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	m.cmd = exec.Command(binary, args...)
	m.cmd.Env = append(os.Environ(), "KUBECONFIG="+m.kubeconfig)
	m.cmd.Stdout, m.cmd.Stderr = log, log
	if err := m.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.stop)
	return m
}

// proxy starts a proxy that adds a token to requests, forwards them, and records the requests that the API server denies. It returns the path of a
// kubeconfig for the proxy.
func (m *managerProcess) proxy(token string) string {
	m.Helper()
	config := rest.AnonymousClientConfig(env.Config)
	config.BearerToken = token
	transport, err := rest.TransportFor(config)
	if err != nil {
		m.Fatal(err)
	}
	to, err := url.Parse(env.Config.Host)
	if err != nil {
		m.Fatal(err)
	}
	server := httptest.NewServer(&httputil.ReverseProxy{
		Transport: transport, FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) },
		ModifyResponse: func(r *http.Response) error {
			if r.StatusCode == http.StatusForbidden {
				m.mu.Lock()
				defer m.mu.Unlock()
				m.denied[r.Request.Method+" "+r.Request.URL.Path] = true
			}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	})
	m.Cleanup(server.Close)
	file := filepath.Join(m.TempDir(), "kubeconfig")
	kubeconfig := clientcmdapi.NewConfig()
	kubeconfig.Clusters["a"] = &clientcmdapi.Cluster{Server: server.URL}
	kubeconfig.Contexts["a"] = &clientcmdapi.Context{Cluster: "a"}
	kubeconfig.CurrentContext = "a"
	if err := clientcmd.WriteToFile(*kubeconfig, file); err != nil {
		m.Fatal(err)
	}
	return file
}

// check runs the command that "helm test" runs.
func (m *managerProcess) check() {
	m.Helper()
	r, err := rendered(m.T, with(nil))
	if err != nil {
		m.Fatal(err)
	}
	if len(r.Hooks) != 1 {
		m.Fatalf("the release has %d hooks", len(r.Hooks))
	}
	pod := objects(m.T, r.Hooks[0].Manifest)["Pod heighliner-system heighliner-check"]
	var args []string
	for _, arg := range field(pod, "spec/containers/0/args").([]any) {
		args = append(args, strings.ReplaceAll(fmt.Sprint(arg), "$(NAMESPACE)", system))
	}
	cmd := exec.Command(m.cmd.Path, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+m.kubeconfig)
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "renews the Lease") {
		m.Errorf("helm test: %v: %s", err, out)
	}
}

// stop stops the process, and prints its log if the test failed.
func (m *managerProcess) stop() {
	m.Helper()
	if m.cmd.ProcessState != nil {
		return
	}
	if err := m.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		m.Error(err)
	}
	if err := m.cmd.Wait(); err != nil || m.Failed() {
		log, _ := os.ReadFile(m.log)
		m.Errorf("run manager: %v\nforbidden: %v\n%.6000s", err, m.forbidden(), log)
	}
}

// forbidden returns the requests that the API server denied.
func (m *managerProcess) forbidden() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(maps.Keys(m.denied))
}

// refused fails the test unless the API server denied exactly the expected requests.
func (m *managerProcess) refused(want map[string]bool) {
	m.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	for request := range m.denied {
		if !want[request] {
			m.Errorf("forbidden: %s", request)
		}
	}
	for request := range want {
		if !m.denied[request] {
			m.Errorf("the API server did not deny %s", request)
		}
	}
}

// items returns the items of a list.
func items(list client.ObjectList) ([]client.Object, error) {
	var found []client.Object
	err := meta.EachListItem(list, func(o runtime.Object) error {
		found = append(found, o.(client.Object))
		return nil
	})
	return found, err
}
