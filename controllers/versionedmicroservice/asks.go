package versionedmicroservice

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/source"

	hlnr "github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/analysis"
	"github.com/heighliner/heighliner/internal/hook"
	"github.com/heighliner/heighliner/internal/status"
)

// asks are the two pools that ask beside the reconcile, and wake it.
type asks struct {
	measurer *analysis.Measurer
	hooks    *hook.Pool

	mu    sync.Mutex
	queue queue // nil before the controller runs
}

func newAsks(mgr ctrl.Manager, opts Options) (*asks, error) {
	if opts.Metrics == nil {
		opts.Metrics = ctrlmetrics.Registry
	}
	calls, err := newCallMetrics(opts.Metrics)
	if err != nil {
		return nil, fmt.Errorf("register metrics of hooks: %w", err)
	}
	// Lists need an informer, which is another controller's otherwise.
	if _, err := mgr.GetCache().GetInformer(context.Background(), &corev1.Service{}); err != nil {
		return nil, fmt.Errorf("cache Services: %w", err)
	}
	if _, err := mgr.GetCache().GetInformer(context.Background(), &hlnr.NetworkPolicy{}); err != nil {
		return nil, fmt.Errorf("cache networkpolicies.hlnr.io: %w", err)
	}
	a, secrets := &asks{}, secrets{live: mgr.GetAPIReader()}
	agent := cmp.Or(opts.UserAgent, "heighliner")
	if a.measurer, err = analysis.New(analysis.Config{
		PrometheusAddress: opts.PrometheusAddress, Outbound: opts.Outbound, Secrets: secrets, Wake: a.wake,
		UserAgent: agent, Registerer: opts.Metrics,
	}); err != nil {
		return nil, err
	}
	if a.hooks, err = hook.NewPool(hook.Options{
		Policy: opts.Outbound, Credentials: secrets.hook, UserAgent: agent, Observe: calls.observe,
	}); err != nil {
		return nil, err
	}
	return a, mgr.Add(a.measurer)
}

// answers is the source of the controller that tells of what the pools have found
// out. They ask nobody before it has started.
func (a *asks) answers() source.Source {
	return source.Func(func(ctx context.Context, q queue) error {
		a.mu.Lock()
		a.queue = q
		a.mu.Unlock()
		a.hooks.Start(ctx, a.wake)
		return nil
	})
}

func (a *asks) wake(release types.NamespacedName) {
	a.mu.Lock()
	q := a.queue
	a.mu.Unlock()
	if q != nil {
		q.Add(ctrl.Request{NamespacedName: release})
	}
}

func (a *asks) Round(release types.NamespacedName, request analysis.Request) (analysis.Round, bool) {
	return a.measurer.Ask(release, request)
}

func (a *asks) Unmeasured(release types.NamespacedName) { a.measurer.Forget(release) }

func (a *asks) Outcomes(release types.NamespacedName) map[string]hook.Outcome {
	return a.hooks.Outcomes(release)
}

func (a *asks) Ask(release types.NamespacedName, questions, due []hook.Question) time.Time {
	return a.hooks.Ask(release, questions, due)
}

func (a *asks) Forget(release types.NamespacedName) {
	a.measurer.Forget(release)
	a.hooks.Forget(release)
}

// secrets are read one by one, past the cache, and never kept.
type secrets struct{ live client.Reader }

// The keys of Secrets that hooks name.
const (
	keySign = "key"
	keyCA   = "ca.crt"
)

// Secret is the data of a Secret.
func (s secrets) Secret(ctx context.Context, namespace, name string) (map[string][]byte, error) {
	var secret corev1.Secret
	err := s.live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &secret)
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("there is no Secret %q in this namespace: create it, or correct the name", name)
	}
	if apierrors.IsForbidden(err) {
		return nil, status.SecretForbidden(namespace, name, err)
	}
	if err != nil {
		return nil, fmt.Errorf("get Secret %q: %w", name, err)
	}
	return secret.Data, nil
}

// hook reads the credentials of a hook.
func (s secrets) hook(ctx context.Context, namespace string, h *hlnr.Hook) (hook.Credentials, error) {
	key, err := s.value(ctx, namespace, "secretRef", h.SecretRef, keySign)
	if err != nil {
		return hook.Credentials{}, err
	}
	ca, err := s.value(ctx, namespace, "caSecretRef", h.CASecretRef, keyCA)
	return hook.Credentials{Key: key, CA: ca}, err
}

func (s secrets) value(ctx context.Context, namespace, field string, ref *hlnr.Reference, key string) ([]byte, error) {
	if ref == nil {
		return nil, nil
	}
	data, err := s.Secret(ctx, namespace, ref.Name)
	if err != nil {
		return nil, fmt.Errorf("spec.updateStrategy.canary.hooks[].%s: %w", field, err)
	}
	if len(data[key]) == 0 {
		return nil, fmt.Errorf("spec.updateStrategy.canary.hooks[].%s: Secret %q has no key %q: add it", field, ref.Name, key)
	}
	return data[key], nil
}

// callMetrics of hooks. No label names an object or an address:
//
//	heighliner_hook_calls_total{type,result}
//	    calls of hooks; type is that of the hook, result is Yes or No
//	heighliner_hook_call_duration_seconds
//	    time of one call
type callMetrics struct {
	calls   *prometheus.CounterVec
	seconds prometheus.Histogram
}

func newCallMetrics(registerer prometheus.Registerer) (*callMetrics, error) {
	m := &callMetrics{
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "heighliner_hook_calls_total",
			Help: "Calls of hooks, by type and result.",
		}, []string{"type", "result"}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "heighliner_hook_call_duration_seconds",
			Help:    "Time of one call of a hook.",
			Buckets: []float64{.005, .02, .1, .5, 1, 2.5, 5, 10, 30, 60},
		}),
	}
	for _, c := range []prometheus.Collector{m.calls, m.seconds} {
		if err := registerer.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *callMetrics) observe(t hlnr.HookType, yes bool, took time.Duration) {
	result := "No"
	if yes {
		result = "Yes"
	}
	m.calls.WithLabelValues(string(t), result).Inc()
	m.seconds.Observe(took.Seconds())
}
