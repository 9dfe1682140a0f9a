package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/registry/registrytest"
	"github.com/heighliner/heighliner/test/apiserver"
	"github.com/heighliner/heighliner/test/await"
	"github.com/heighliner/heighliner/test/httpclient"
	"github.com/heighliner/heighliner/test/port"
)

// asManager is the environment variable that makes the test binary run as the manager. Its value is the version of the
// manager.
const asManager = "HEIGHLINER_TEST_VERSION"

// traffic is a proxy that records the writes from a manager to the API server.
type traffic struct {
	mu     sync.Mutex
	last   time.Time
	writes []string
}

func (p *traffic) note(r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = time.Now()
	if isWrite(r) {
		p.writes = append(p.writes, fmt.Sprintf("%s %s by %s", r.Method, r.URL.Path, r.UserAgent()))
	}
}

// clear returns the recorded writes and removes them.
func (p *traffic) clear() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	writes := p.writes
	p.writes = nil
	return writes
}

// quiet reports whether no request has been sent for the duration d.
func (p *traffic) quiet(d time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Since(p.last) > d
}

// touch restarts the quiet period.
func (p *traffic) touch() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = time.Now()
}

// watched starts a proxy for the API server, as proxied does, and records writes.
func watched(t *testing.T) (*traffic, string) {
	t.Helper()
	p := &traffic{}
	return p, proxied(t, p.note)
}

// proxied starts a proxy for the API server on a loopback address, and returns a kubeconfig for the proxy. Clients need
// no credentials, and have the permissions of the manager. The proxy calls note with each request before it sends the
// request.
func proxied(t *testing.T, note func(*http.Request)) (kubeconfigFile string) {
	t.Helper()
	config := rest.CopyConfig(env.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: apiserver.ManagerUser, Groups: []string{"system:masters"}}
	return proxiedAs(t, config, note)
}

// proxiedAs is like proxied, but uses the permissions and the transport of the given configuration.
func proxiedAs(t *testing.T, config *rest.Config, note func(*http.Request)) (kubeconfigFile string) {
	t.Helper()
	transport, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	to, err := url.Parse(env.Config.Host)
	if err != nil {
		t.Fatal(err)
	}
	address := port.Take(t)
	server := &http.Server{Addr: address, Handler: &httputil.ReverseProxy{
		Transport: transport, FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			note(r.Out)
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}}
	done := make(chan error, 1)
	go func() { done <- server.ListenAndServe() }()
	t.Cleanup(func() {
		server.Close()
		<-done
	})
	file := filepath.Join(t.TempDir(), "kubeconfig")
	kubeconfig := clientcmdapi.NewConfig()
	kubeconfig.Clusters["a"] = &clientcmdapi.Cluster{Server: "http://" + address}
	kubeconfig.Contexts["a"] = &clientcmdapi.Context{Cluster: "a"}
	kubeconfig.CurrentContext = "a"
	if err := clientcmd.WriteToFile(*kubeconfig, file); err != nil {
		t.Fatal(err)
	}
	return file
}

// manager is a manager process of one build.
type manager struct {
	*testing.T
	cmd     *exec.Cmd
	metrics string
	log     string
}

// isWrite reports whether a request changes objects. Access reviews do not change objects, because the API server does
// not store them.
func isWrite(r *http.Request) bool {
	return r.Method != http.MethodGet && !strings.HasPrefix(r.URL.Path, "/apis/authorization.k8s.io/")
}

// startManager runs this binary as the manager of a version.
func startManager(t *testing.T, version, kubeconfig, namespace string, more ...string) *manager {
	t.Helper()
	m := &manager{T: t, metrics: port.Take(t), log: filepath.Join(t.TempDir(), "log")}
	log, err := os.Create(m.log)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	m.cmd = exec.Command(os.Args[0], append(more, "--kubeconfig", kubeconfig, "--namespace", namespace,
		"--metrics-insecure", "--metrics-bind-address", m.metrics, "--health-probe-bind-address", "0", "--min-drain-delay", "100ms", "--outbound-allow", "127.0.0.1")...)
	m.cmd.Env = append(os.Environ(), asManager+"="+version)
	m.cmd.Stdout, m.cmd.Stderr = log, log
	if err := m.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.stop)
	return m
}

// stop terminates the process and waits until it has exited.
func (m *manager) stop() {
	m.Helper()
	if m.cmd.ProcessState != nil {
		return
	}
	m.cmd.Process.Signal(syscall.SIGTERM)
	if err := m.cmd.Wait(); err != nil {
		log, _ := os.ReadFile(m.log)
		m.Errorf("run manager: %v; its log ends with:\n%s", err, log[max(0, len(log)-4000):])
	}
}

// reconciled returns the number of times that a controller has reconciled an object.
func (m *manager) reconciled(controller string) int {
	resp, err := httpclient.New().Get("http://" + m.metrics + "/metrics")
	if err != nil {
		return 0 // The manager has not started yet.
	}
	defer resp.Body.Close()
	sum := 0.0
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), "} ")
		if strings.HasPrefix(name, "controller_runtime_reconcile_total{") && strings.Contains(name, `controller="`+controller+`"`) {
			n, _ := strconv.ParseFloat(value, 64)
			sum += n
		}
	}
	return int(sum)
}

// waitFor polls until wrong returns an empty string.
func waitFor(t *testing.T, what string, limit time.Duration, wrong func() string) {
	t.Helper()
	end := time.Now().Add(limit)
	for {
		last := wrong()
		if last == "" {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("wait for %s: %s", what, last)
		}
		time.Sleep(300 * time.Millisecond)
	}
}

// state returns the parts of objects that an upgrade must not change. These are the UID and the generation of
// Deployments and Pods, whose statuses other controllers write, and the resourceVersion of all other objects.
func state(t *testing.T, namespace string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, list := range []client.ObjectList{
		&v1alpha1.ImagePolicyList{}, &v1alpha1.MicroserviceList{}, &v1alpha1.VersionedMicroserviceList{}, &v1alpha1.NetworkPolicyList{},
		&appsv1.DeploymentList{}, &corev1.ConfigMapList{}, &corev1.ServiceList{}, &corev1.PodList{},
	} {
		if err := env.Client.List(t.Context(), list, client.InNamespace(namespace)); err != nil {
			t.Fatal(err)
		}
		err := meta.EachListItem(list, func(item runtime.Object) error {
			obj := item.(client.Object)
			all[fmt.Sprintf("%T %s", obj, obj.GetName())] = obj.GetResourceVersion()
			switch obj.(type) {
			case *appsv1.Deployment, *corev1.Pod:
				all[fmt.Sprintf("%T %s", obj, obj.GetName())] = fmt.Sprintf("%s, generation %d", obj.GetUID(), obj.GetGeneration())
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// These flags set the size of the cluster, because a build that makes unnecessary writes makes them for every
// object of a kind. "make upgrade" uses larger values.
var (
	upgradeServices = flag.Int("upgrade.services", 6, "number of Microservices when another build starts, at least 2")
	upgradeVersions = flag.Int("upgrade.versions", 3, "number of retained versions of each Microservice, at least 2")
)

// TestUpgradeWritesNothing tests that a manager of another build, with another version in its user agent, writes
// nothing when it starts in a stable cluster. The manager creates no release, and changes no Deployment's template.
func TestUpgradeWritesNothing(t *testing.T) {
	t.Parallel()
	services, versions := *upgradeServices, *upgradeVersions
	namespace := env.Namespace(t)
	env.PlayKubelet(t, namespace, nil)
	images := registrytest.New(t)
	proxy, kubeconfig := watched(t)

	policy := &v1alpha1.ImagePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "shop"}}
	policy.Spec.Image, policy.Spec.Interval = images.Repository("team/shop"), "5s"
	policy.Spec.Platforms = []string{"linux/amd64"}
	images.Push(t, "team/shop", "1.0.0")
	create(t, policy)
	create(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "settings"}, Data: map[string]string{"a": "b"}})
	for i := range services {
		ms := &v1alpha1.Microservice{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("shop-%d", i)}}
		ms.Spec.ImagePolicyRef.Name = "shop"
		ms.Spec.Template.Spec.Containers = []corev1.Container{{
			Name: "shop", Ports: []corev1.ContainerPort{{ContainerPort: 8080}},
			ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"true"}}}},
			EnvFrom: []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{
				LocalObjectReference: corev1.LocalObjectReference{Name: "settings"},
			}}},
		}}
		if i%2 == 0 { // Half of the services have no configuration.
			ms.Spec.Template.Spec.Containers[0].EnvFrom = nil
		}
		ms.Spec.Availability.StandbyReplicas = ptr.To(intstr.FromInt32(0))
		ms.Spec.UpdateStrategy = v1alpha1.UpdateStrategy{MinimumAvailable: int32(versions), DrainDelay: "100ms"}
		create(t, ms)
	}

	previous := startManager(t, "v1.0.0", kubeconfig, namespace)
	for v := range versions {
		version := fmt.Sprintf("1.%d.0", v)
		if v > 0 {
			images.Push(t, "team/shop", version)
		}
		waitFor(t, version, 15*time.Minute, func() string { return missing(t, namespace, version, services*(v+1)) })
	}
	waitFor(t, "pods and Deployments to be stable", await.Limit, func() string {
		if text := unprogrammed(t, namespace); text != "" {
			return text
		}
		return resizing(t, namespace)
	})
	proxy.touch() // The manager might not have read the last change yet.
	waitFor(t, "stable", await.Limit, func() string {
		if writes := proxy.clear(); len(writes) > 0 || !proxy.quiet(5*time.Second) { // Delayed writes happen within this time.
			return fmt.Sprintf("%d writes since the last check", len(writes))
		}
		return ""
	})
	previous.stop()
	storeEarlier(t, namespace)
	before := state(t, namespace)

	proxy.clear()
	began := time.Now()
	another := startManager(t, "v2.0.0-rc.1", kubeconfig, namespace)
	waitFor(t, "the other build to reconcile everything", 15*time.Minute, func() string {
		ms, releases := another.reconciled("microservice"), another.reconciled("versionedmicroservice")
		if ms < services || releases < services*versions || another.reconciled("imagepolicy") < 1 || !proxy.quiet(3*time.Second) {
			return fmt.Sprintf("it reconciled %d Microservices and %d releases", ms, releases)
		}
		return ""
	})
	if diff := cmp.Diff(before, state(t, namespace)); diff != "" {
		t.Errorf("another build changed objects (-before +after):\n%.4000s", diff)
	}
	if writes := proxy.clear(); len(writes) > 0 {
		t.Errorf("another build made %d writes, the first: %q", len(writes), writes[:min(len(writes), 10)])
	}
	t.Logf("another build reconciled %d releases of %d Microservices within %s", services*versions, services, time.Since(began).Round(time.Second))

	// The next upgrade of the services stores the fields that this version of the manager uses.
	images.Push(t, "team/shop", "1.9.0")
	waitFor(t, "1.9.0", 15*time.Minute, func() string { return missing(t, namespace, "1.9.0", services*versions) })
	another.stop()
	var list v1alpha1.MicroserviceList
	if err := env.Client.List(t.Context(), &list, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	for _, ms := range list.Items {
		converted := ms.Status.DeepCopy()
		converted.Convert()
		if diff := cmp.Diff(ms.Status, *converted); diff != "" || ms.Status.DeprecatedSequence != 0 || ms.Status.Internal == nil {
			t.Errorf("%s has fields of an earlier version after an upgrade: sequence %d, %s", ms.Name, ms.Status.DeprecatedSequence, diff)
		}
	}
}

// resizing describes a Deployment whose status does not match its specification yet, or a pod that is being deleted.
func resizing(t *testing.T, namespace string) string {
	t.Helper()
	var deployments appsv1.DeploymentList
	var pods corev1.PodList
	for _, l := range []client.ObjectList{&deployments, &pods} {
		if err := env.Client.List(t.Context(), l, client.InNamespace(namespace)); err != nil {
			return err.Error()
		}
	}
	for _, d := range deployments.Items {
		if want := ptr.Deref(d.Spec.Replicas, 1); d.Status.ObservedGeneration != d.Generation || d.Status.Replicas != want || d.Status.AvailableReplicas != want {
			return fmt.Sprintf("Deployment %s: %+v", d.Name, d.Status)
		}
	}
	for _, p := range pods.Items {
		if p.DeletionTimestamp != nil {
			return fmt.Sprintf("pod %s is being deleted", p.Name)
		}
	}
	return ""
}

// storeEarlier stores every second rollout state in the format of versions that did not have
// status.internal.
func storeEarlier(t *testing.T, namespace string) {
	t.Helper()
	var list v1alpha1.MicroserviceList
	if err := env.Client.List(t.Context(), &list, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		ms := &list.Items[i]
		if i%2 == 0 {
			continue
		}
		apiserver.EarlierStatus(&ms.Status)
		if ms.Status.DeprecatedSequence == 0 {
			t.Fatalf("%s has no rollout state", ms.Name)
		}
		if err := env.Client.Status().Update(t.Context(), ms); err != nil {
			t.Fatal(err)
		}
	}
}

// missing describes the Microservices in which a version is not active yet or, if there are none, a wrong number
// of releases. The text is empty if nothing is missing.
func missing(t *testing.T, namespace, version string, releases int) string {
	t.Helper()
	ctx := context.Background()
	var services v1alpha1.MicroserviceList
	var list metav1.PartialObjectMetadataList
	list.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("VersionedMicroserviceList"))
	for _, l := range []client.ObjectList{&services, &list} {
		if err := env.Client.List(ctx, l, client.InNamespace(namespace)); err != nil {
			return err.Error()
		}
	}
	lag := slices.DeleteFunc(services.Items, func(ms v1alpha1.Microservice) bool {
		return ms.Status.Summary.Active == version && ms.Status.Summary.Canary == ""
	})
	if len(lag) > 0 {
		return fmt.Sprintf("%d Microservices lag, the first with %q, canary %q: %v", len(lag), lag[0].Status.Summary.Active, lag[0].Status.Summary.Canary, lag[0].Status.Conditions)
	}
	if len(list.Items) != releases {
		return fmt.Sprintf("%d releases, want %d", len(list.Items), releases)
	}
	return ""
}
