package versionedmicroservice

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/analysis"
	"github.com/heighliner/heighliner/internal/hook"
	"github.com/heighliner/heighliner/internal/queue"
)

// pools run analyses and hooks in the background, and enqueue releases that have new results.
type pools struct {
	measurer *analysis.Measurer
	hooks    *hook.Pool

	mu    sync.Mutex
	queue workQueue // nil until the controller starts
}

func newPools(mgr ctrl.Manager, opts Options) (*pools, error) {
	if opts.Metrics == nil {
		opts.Metrics = ctrlmetrics.Registry
	}
	calls, err := newCallMetrics(opts.Metrics)
	if err != nil {
		return nil, fmt.Errorf("register hook metrics: %w", err)
	}
	// Lists need an informer even if no other controller starts one.
	if _, err := mgr.GetCache().GetInformer(context.Background(), &corev1.Service{}); err != nil {
		return nil, fmt.Errorf("cache Services: %w", err)
	}
	if _, err := mgr.GetCache().GetInformer(context.Background(), &v1alpha1.NetworkPolicy{}); err != nil {
		return nil, fmt.Errorf("cache networkpolicies.hlnr.io: %w", err)
	}
	a, secrets := &pools{}, secretReader{live: mgr.GetAPIReader()}
	agent := cmp.Or(opts.UserAgent, "heighliner")
	if a.measurer, err = analysis.New(analysis.Config{
		PrometheusAddress: opts.PrometheusAddress, Outbound: opts.Outbound, Secrets: secrets, Requeue: a.requeue,
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

// source returns a source that enqueues the releases for which a pool has a result. The pools make
// no calls until the source starts.
func (a *pools) source() source.Source {
	return source.Func(func(ctx context.Context, q workQueue) error {
		a.mu.Lock()
		a.queue = q
		a.mu.Unlock()
		a.hooks.Start(ctx, a.requeue)
		return nil
	})
}

func (a *pools) requeue(release types.NamespacedName) {
	a.mu.Lock()
	q := a.queue
	a.mu.Unlock()
	if q != nil {
		queue.Add(q, queue.Progress, ctrl.Request{NamespacedName: release})
	}
}

func (a *pools) Round(release types.NamespacedName, request analysis.Request) (analysis.Round, bool) {
	return a.measurer.Ask(release, request)
}

func (a *pools) StopMeasuring(release types.NamespacedName) { a.measurer.Forget(release) }

func (a *pools) Outcomes(release types.NamespacedName) map[string]hook.Outcome {
	return a.hooks.Outcomes(release)
}

func (a *pools) Ask(release types.NamespacedName, questions, due []hook.Call) time.Time {
	return a.hooks.Ask(release, questions, due)
}

func (a *pools) Forget(release types.NamespacedName) {
	a.measurer.Forget(release)
	a.hooks.Forget(release)
}
