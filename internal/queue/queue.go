// Package queue contains the options of controllers: their back-off, and the priority of requests in their work queues.
package queue

import (
	"context"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/heighliner/heighliner/internal/status"
)

// These are the priorities of requests. All other requests have priority 0. However, when a new process lists the objects, the
// requests for objects without work in progress have a priority below 0 until the objects are reconciled for the first time.
const (
	// Urgent is the priority of user decisions and rollbacks.
	Urgent = 100
	// Progress is the priority of changes that continue work in progress. Rollouts in progress do not wait behind
	// new rollouts, even while more rollouts start than end.
	Progress = 10
)

// Options returns the options of a controller with a number of concurrent reconciles: its work queue is New, and an object
// with errors is retried at least every status.MaxBackoff. With controller-runtime's default, an object would wait for up to
// 1,000 seconds after an outage of the API server has ended.
func Options(workers int) controller.Options {
	return controller.Options{MaxConcurrentReconciles: workers, RateLimiter: status.RateLimiter(), NewQueue: New}
}

// New returns the work queue of a controller.
func New(name string, limiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
	return timed{priorityqueue.New(name, func(o *priorityqueue.Opts[reconcile.Request]) { o.RateLimiter = limiter })}
}

// maxRetry is the maximum delay of a retry. A request with a longer delay is a timer, for example for the end of a pause.
const maxRetry = time.Second

// timed is a queue in which timers have priority 0, and retries at least priority 0. controller-runtime adds both with the priority of the
// request that was reconciled. Without this type, the end of each pause would therefore have a low priority after a restart, and an object
// with a timer would keep the priority of its latest decision or rollback.
type timed struct {
	priorityqueue.PriorityQueue[reconcile.Request]
}

// AddWithOpts adds requests.
func (q timed) AddWithOpts(o priorityqueue.AddOpts, requests ...reconcile.Request) {
	switch {
	case o.After > maxRetry:
		o.Priority = nil
	case (o.After > 0 || o.RateLimited) && o.Priority != nil:
		o.Priority = new(max(*o.Priority, 0))
	}
	q.PriorityQueue.AddWithOpts(o, requests...)
}

// Prefer returns a handler that enqueues the requests for an updated object with the Urgent priority if urgent returns true for the update.
// Use it in an additional watch: if a request is enqueued several times, the highest priority applies.
func Prefer(urgent func(before, now client.Object) bool, requests handler.MapFunc) handler.EventHandler {
	return prefer(Urgent, urgent, requests)
}

// Continue returns a handler that enqueues the requests for an updated object with the Progress priority. Use it in an additional watch.
func Continue(requests handler.MapFunc) handler.EventHandler {
	return prefer(Progress, func(_, _ client.Object) bool { return true }, requests)
}

func prefer(priority int, when func(before, now client.Object) bool, requests handler.MapFunc) handler.EventHandler {
	return handler.Funcs{
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			if e.ObjectOld.GetResourceVersion() != e.ObjectNew.GetResourceVersion() && when(e.ObjectOld, e.ObjectNew) { // A resync changes nothing.
				Add(q, priority, requests(ctx, e.ObjectNew)...)
			}
		},
	}
}

// Add adds requests with a priority. A queue without priorities ignores the priority.
func Add(q workqueue.TypedRateLimitingInterface[reconcile.Request], priority int, requests ...reconcile.Request) {
	if prioritized, ok := q.(priorityqueue.PriorityQueue[reconcile.Request]); ok {
		prioritized.AddWithOpts(priorityqueue.AddOpts{Priority: &priority}, requests...)
		return
	}
	for _, request := range requests {
		q.Add(request)
	}
}

// Edited reports whether a user edited the specification of an object, for example to set a pin or to deny a version.
func Edited(before, now client.Object) bool {
	return before.GetGeneration() != now.GetGeneration()
}

// SpecChanged admits changes to the specification of an object, and an object that replaced another object of the same name while the
// watch was interrupted. It ignores changes to the metadata and the status.
func SpecChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() || e.ObjectOld.GetUID() != e.ObjectNew.GetUID()
	}}
}

// Itself returns a request for the object.
func Itself(_ context.Context, o client.Object) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: client.ObjectKeyFromObject(o)}}
}
