package versionedmicroservice

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/log"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/apply"
	"github.com/heighliner/heighliner/internal/compact"
	"github.com/heighliner/heighliner/internal/outbound"
	"github.com/heighliner/heighliner/internal/status"
	"github.com/heighliner/heighliner/test/apiserver"
	"github.com/heighliner/heighliner/test/await"
)

// world is an API server with the Deployment and ReplicaSet controllers, and with this controller. There is
// no kubelet: tests simulate the pods.
var world struct {
	client.Client // reads and writes as a user does, uncached and uncounted
	env           *apiserver.Env
	manager       ctrl.Manager
	loopback      *outbound.Policy // the addresses that analyses and hooks may call
	writes        writes
}

// writes counts the controller's writes by namespace.
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
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	env, err := apiserver.Start(apiserver.Options{ControllerManager: true})
	if err != nil {
		return 0, fmt.Errorf("start API server: %w", err)
	}
	defer func() { err = errors.Join(err, env.Stop()) }()
	world.Client, world.env = env.Client, env
	if err := env.InstallPodMetrics(context.Background()); err != nil {
		return 0, err
	}
	if world.manager, err = newManager(env.Config, env.Client.Scheme()); err != nil {
		return 0, err
	}
	if world.loopback, err = outbound.New(outbound.Config{Allow: []string{"127.0.0.0/8"}}); err != nil {
		return 0, err
	}
	if err := SetupWithManager(world.manager, Options{Outbound: world.loopback}); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- world.manager.Start(ctx) }()
	code = m.Run()
	cancel()
	return code, <-done
}

func newManager(config *rest.Config, scheme *runtime.Scheme) (ctrl.Manager, error) {
	count := func(obj client.Object, what string) { world.writes.add(obj.GetNamespace(), what) }
	return ctrl.NewManager(config, ctrl.Options{
		Scheme:                 scheme,
		Metrics:                metricsserver.Options{BindAddress: "0"},
		HealthProbeBindAddress: "0",
		Cache:                  cache.Options{ByObject: CacheByObject(), ReaderFailOnMissingInformer: true, DefaultTransform: compact.Transform},
		NewClient: func(config *rest.Config, options client.Options) (client.Client, error) {
			base, err := client.NewWithWatch(config, options)
			if err != nil {
				return nil, err
			}
			return interceptor.NewClient(base, interceptor.Funcs{
				Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
					err := c.Create(ctx, obj, opts...)
					if o := (&client.CreateOptions{}).ApplyOptions(opts); len(o.DryRun) == 0 && err == nil {
						count(obj, "create")
					}
					return err
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

// cached waits until the manager's cache contains the same version of an object as the API server. It
// reads both each time, because another write might happen in the meantime.
func cached(t *testing.T, obj client.Object) {
	t.Helper()
	eventually(t, func() string {
		if text := fetch(t, obj); text != "" {
			return text
		}
		live := obj.GetResourceVersion()
		if err := world.manager.GetClient().Get(t.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
			return err.Error()
		}
		return cmp.Diff(live, obj.GetResourceVersion())
	})
}

// refused waits until the API server rejects a new object. The API server enforces a quota or the label of a namespace
// only after it has read the change.
func refused(t *testing.T, obj client.Object) {
	t.Helper()
	eventually(t, func() string {
		if err := world.Create(t.Context(), obj.DeepCopyObject().(client.Object), client.DryRunAll); !apierrors.IsForbidden(err) {
			return fmt.Sprintf("the API server does not reject %T %s yet: %v", obj, obj.GetName(), err)
		}
		return ""
	})
}

// trialPod returns a pod that restricted namespaces and pod quotas reject.
func trialPod(namespace string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "trial"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "shop", Image: "shop"}}},
	}
}

// steady waits until reconciles write nothing. The state that a test waited for might be visible before the last write
// that results from it. If each reconcile writes, the state is never steady.
func steady(t *testing.T, release *v1alpha1.VersionedMicroservice) {
	t.Helper()
	eventually(t, func() string {
		before := world.writes.in(release.Namespace)
		pass(t, release, 5)
		if now := world.writes.in(release.Namespace); len(now) > len(before) {
			return fmt.Sprintf("five reconciles in a stable state wrote %v", now[len(before):])
		}
		return ""
	})
}

// pass reconciles one release n times without the queue, with the manager's cache.
func pass(t *testing.T, release *v1alpha1.VersionedMicroservice, n int) {
	t.Helper()
	cached(t, &v1alpha1.VersionedMicroservice{ObjectMeta: metav1.ObjectMeta{Namespace: release.Namespace, Name: release.Name}})
	cached(t, deploymentOf(release))
	r := &reconciler{
		client: world.manager.GetClient(), live: world.manager.GetAPIReader(),
		writer:  apply.Writer{Client: world.manager.GetClient(), Live: world.manager.GetAPIReader(), Owner: fieldOwner},
		journal: &status.Journal{}, checks: &answers{}, clock: clock.RealClock{},
	}
	for range n {
		if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(release)}); err != nil {
			t.Fatalf("Reconcile: %v", err)
		}
	}
}

// namespace creates a namespace with labels for this test.
func namespace(t *testing.T, labels map[string]string) string {
	t.Helper()
	name := world.env.Namespace(t)
	change(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, func(ns *corev1.Namespace) {
		for key, value := range labels {
			metav1.SetMetaDataLabel(&ns.ObjectMeta, key, value)
		}
	})
	return name
}

// eventually waits until check returns "".
func eventually(t *testing.T, check func() string) {
	t.Helper()
	await.Nil(t, func(context.Context) error {
		if text := check(); text != "" {
			return errors.New(text)
		}
		return nil
	})
}

// fetch reads an object into obj, or returns the text of the error.
func fetch(t *testing.T, obj client.Object) string {
	if err := world.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
		return err.Error()
	}
	return ""
}

func lines(text ...string) string { return strings.Join(text, "\n") }
