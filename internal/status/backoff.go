package status

import (
	"context"
	"math/rand/v2"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// MaxBackoff is the maximum time between two attempts for an object with errors. A blocked rollout
// continues within this time after the cause of the block has ended.
const MaxBackoff = 20 * time.Second

// RateLimiter limits how often an object is retried, with a back-off of up to MaxBackoff. It also limits the total rate of a controller's retries,
// but no object waits for longer than MaxBackoff.
func RateLimiter() workqueue.TypedRateLimiter[reconcile.Request] {
	return workqueue.NewTypedMaxOfRateLimiter[reconcile.Request](
		workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](5*time.Millisecond, MaxBackoff),
		bucket{&workqueue.TypedBucketRateLimiter[reconcile.Request]{Limiter: rate.NewLimiter(10, 100)}},
	)
}

// bucket limits the rate of retries. If the retries of many objects keep the bucket empty for longer than MaxBackoff, other
// objects are retried regardless of the rate, at random times in the last quarter of MaxBackoff.
type bucket struct {
	*workqueue.TypedBucketRateLimiter[reconcile.Request]
}

// When returns the time until a retry.
func (b bucket) When(reconcile.Request) time.Duration {
	r := b.Reserve()
	if wait := r.Delay(); wait <= MaxBackoff {
		return wait
	}
	r.Cancel()
	return MaxBackoff - rand.N(MaxBackoff/4)
}

// Requeues reconciles an object again at the requested time even if a reconcile ends in an error. This is needed because
// controller-runtime ignores the requeue time of a Reconciler that returns an error. Requeues is a Source that a controller
// watches. If no controller watches it, which is the case for the zero Requeues, Again returns both the time and the error
// to its caller.
type Requeues struct {
	queue workqueue.TypedRateLimitingInterface[reconcile.Request]
}

// Start sets the queue of the controller.
func (w *Requeues) Start(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	w.queue = queue
	return nil
}

// Again ends a reconcile in the same way as the Again function. The object is reconciled again within the requeue
// duration, regardless of the back-off for err. If requeue is 0, only the back-off and events requeue the object.
func (w *Requeues) Again(ctx context.Context, req reconcile.Request, requeue time.Duration, err error) (reconcile.Result, error) {
	if err == nil {
		return reconcile.Result{RequeueAfter: requeue}, nil
	}
	result, err := Again(ctx, err)
	if err == nil || requeue == 0 {
		return result, err
	}
	if w.queue == nil {
		return reconcile.Result{RequeueAfter: requeue}, err
	}
	w.queue.AddAfter(req, requeue)
	return reconcile.Result{}, err
}
