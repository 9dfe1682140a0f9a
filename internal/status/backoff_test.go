package status_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/heighliner/heighliner/internal/status"
)

// TestRequeuesKeepTheTimeOfAFailedReconcile checks that a reconcile that ends in an error with a long back-off, but requests
// a requeue at another time, is requeued at that time.
func TestRequeuesKeepTheTimeOfAFailedReconcile(t *testing.T) {
	t.Parallel()
	var requeues status.Requeues
	var passes atomic.Int32
	third := make(chan struct{})
	c, err := controller.NewUnmanaged("requeues", controller.Options{
		RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](24*time.Hour, 24*time.Hour),
		Reconciler: reconcile.Func(func(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
			if passes.Add(1) == 3 {
				close(third)
			}
			result, err := requeues.Again(ctx, req, 10*time.Millisecond, errors.New("refused"))
			if err == nil || !result.IsZero() {
				t.Errorf("%v, %v: want the error, and no result that would be ignored", result, err)
			}
			return result, err
		}),
	})
	if err != nil {
		t.Fatal(err)
	}
	first := source.Func(func(_ context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		q.Add(ctrl.Request{NamespacedName: types.NamespacedName{Name: "shop"}})
		return nil
	})
	if err := errors.Join(c.Watch(&requeues), c.Watch(first)); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Start(ctx) }()
	select {
	case <-third:
	case <-time.After(time.Minute):
		t.Errorf("after a minute: %d reconciles, want 3", passes.Load())
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestRateLimiterIsBounded(t *testing.T) {
	t.Parallel()
	limiter, req := status.RateLimiter(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "shop"}}
	for range 40 {
		if wait := limiter.When(req); wait > status.MaxBackoff {
			t.Fatalf("an object waits %v for its next attempt", wait)
		}
	}
}

// TestManyFailuresDelayNoRetry checks that the failures of many objects do not delay the retry of any object beyond the maximum.
// They are retried at different times.
func TestManyFailuresDelayNoRetry(t *testing.T) {
	t.Parallel()
	limiter, times := status.RateLimiter(), map[time.Duration]bool{}
	for i := range 5000 {
		wait := limiter.When(ctrl.Request{NamespacedName: types.NamespacedName{Name: fmt.Sprint("shop-", i)}})
		if wait > status.MaxBackoff {
			t.Fatalf("object %d waits %v for its next attempt", i, wait)
		}
		times[wait.Truncate(time.Second)] = true
	}
	if len(times) < 10 {
		t.Errorf("all objects are retried within %d seconds", len(times))
	}
}
