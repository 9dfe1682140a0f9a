package versionedmicroservice

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	hlnr "github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/apply"
	"github.com/heighliner/heighliner/internal/status"
)

// world is an API server with the controllers of Deployments and ReplicaSets, and
// with this controller. There is no kubelet: tests play the pods.
var world struct {
	client.Client // reads and writes as a person does, uncached and uncounted
	manager       ctrl.Manager
	writes        writes
}

// writes counts what the controller writes, by namespace.
type writes struct {
	mu   sync.Mutex
	seen map[string][]string
}

func (w *writes) add(namespace, what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.seen == nil {
		w.seen = map[string][]string{}
	}
	w.seen[namespace] = append(w.seen[namespace], what)
}

func (w *writes) in(namespace string) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.seen[namespace]...)
}

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(code)
}

func run(m *testing.M) (int, error) {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return 0, err
	}
	if err := hlnr.AddToScheme(scheme); err != nil {
		return 0, err
	}
	env := &envtest.Environment{CRDDirectoryPaths: []string{crds()}, ErrorIfCRDPathMissing: true}
	config, err := env.Start()
	if err != nil {
		return 0, fmt.Errorf("start API server: %w", err)
	}
	defer env.Stop()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	stop, err := startWorkloads(ctx, env.KubeConfig)
	if err != nil {
		return 0, err
	}
	defer stop()
	if world.Client, err = client.New(config, client.Options{Scheme: scheme}); err != nil {
		return 0, err
	}
	if world.manager, err = newManager(config, scheme); err != nil {
		return 0, err
	}
	if err := SetupWithManager(world.manager, Options{}); err != nil {
		return 0, err
	}
	done := make(chan error, 1)
	go func() { done <- world.manager.Start(ctx) }()
	code := m.Run()
	cancel()
	return code, <-done
}

func crds() string {
	if dir := os.Getenv("HLNR_TEST_CRDS"); dir != "" {
		return dir
	}
	return filepath.Join("..", "..", "config", "crd")
}

// startWorkloads runs kube-controller-manager beside the API server.
func startWorkloads(ctx context.Context, kubeconfig []byte) (func(), error) {
	dir, err := os.MkdirTemp("", "workloads-")
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "kubeconfig")
	if err := os.WriteFile(path, kubeconfig, 0o600); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kube-controller-manager"),
		"--kubeconfig="+path, "--controllers=deployment-controller,replicaset-controller", "--leader-elect=false",
		"--secure-port=0", "--kube-api-qps=500", "--kube-api-burst=1000")
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start kube-controller-manager: %w", err)
	}
	return func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = os.RemoveAll(dir)
	}, nil
}

func newManager(config *rest.Config, scheme *runtime.Scheme) (ctrl.Manager, error) {
	count := func(obj client.Object, what string) { world.writes.add(obj.GetNamespace(), what) }
	return ctrl.NewManager(config, ctrl.Options{
		Scheme:                 scheme,
		Metrics:                metricsserver.Options{BindAddress: "0"},
		HealthProbeBindAddress: "0",
		Cache:                  cache.Options{ByObject: CacheByObject()},
		NewClient: func(config *rest.Config, options client.Options) (client.Client, error) {
			base, err := client.NewWithWatch(config, options)
			if err != nil {
				return nil, err
			}
			return interceptor.NewClient(base, interceptor.Funcs{
				Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
					if o := (&client.CreateOptions{}).ApplyOptions(opts); len(o.DryRun) == 0 {
						count(obj, "create")
					}
					return c.Create(ctx, obj, opts...)
				},
				Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
					if o := (&client.PatchOptions{}).ApplyOptions(opts); len(o.DryRun) == 0 {
						count(obj, "patch")
					}
					return c.Patch(ctx, obj, patch, opts...)
				},
				Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
					count(obj, "delete")
					return c.Delete(ctx, obj, opts...)
				},
				Apply: func(ctx context.Context, c client.WithWatch, obj runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
					if named, ok := obj.(interface{ GetNamespace() string }); ok {
						world.writes.add(named.GetNamespace(), "apply")
					}
					return c.Apply(ctx, obj, opts...)
				},
				SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, obj client.Object, opts ...client.SubResourceUpdateOption) error {
					count(obj, "update "+sub)
					return c.SubResource(sub).Update(ctx, obj, opts...)
				},
				SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
					count(obj, "patch "+sub)
					return c.SubResource(sub).Patch(ctx, obj, patch, opts...)
				},
			}), nil
		},
	})
}

// pass reconciles one release n times outside of the queue, over the manager's cache.
func pass(t *testing.T, release *hlnr.VersionedMicroservice, n int) {
	t.Helper()
	for _, obj := range []client.Object{&hlnr.VersionedMicroservice{}, deploymentOf(release)} {
		eventually(t, func() string {
			obj.SetNamespace(release.Namespace)
			obj.SetName(release.Name)
			if text := fetch(t, obj); text != "" {
				return text
			}
			live := obj.GetResourceVersion()
			if err := world.manager.GetClient().Get(t.Context(), client.ObjectKeyFromObject(release), obj); err != nil {
				return err.Error()
			}
			return cmp.Diff(live, obj.GetResourceVersion())
		})
	}
	r := &reconciler{
		client: world.manager.GetClient(), live: world.manager.GetAPIReader(),
		writer:  apply.Writer{Client: world.manager.GetClient(), Live: world.manager.GetAPIReader(), Owner: fieldOwner},
		journal: &status.Journal{}, now: time.Now,
	}
	for range n {
		if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(release)}); err != nil {
			t.Fatalf("Reconcile: %v", err)
		}
	}
}

// namespace makes one for this test.
func namespace(t *testing.T, labels map[string]string) string {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "vsvc-", Labels: labels}}
	if err := world.Create(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	return ns.Name
}

// eventually waits until check finds nothing to say.
func eventually(t *testing.T, check func() string) {
	t.Helper()
	last := "never checked"
	err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, 30*time.Second, true, func(context.Context) (bool, error) {
		last = check()
		return last == "", nil
	})
	if err != nil {
		t.Fatalf("still after 30s: %s", last)
	}
}

// fetch reads into obj, or says why not.
func fetch(t *testing.T, obj client.Object) string {
	if err := world.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
		return err.Error()
	}
	return ""
}

func lines(text ...string) string { return strings.Join(text, "\n") }
