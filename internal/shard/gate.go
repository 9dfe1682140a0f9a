package shard

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/heighliner/heighliner/internal/queue"
)

// Gate restricts a controller to the namespaces of this replica. It drops requests for other namespaces. When this replica takes a shard, the
// gate enqueues all objects of the shard. It is a source of the controller.
type Gate struct {
	shards  *Shards
	reader  client.Reader
	objects client.ObjectList
	// inProgress reports whether there is work in progress for an object. If it is nil, no object takes precedence.
	inProgress func(client.Object) bool

	mu    sync.Mutex
	queue workqueue.TypedRateLimitingInterface[reconcile.Request] // nil before the controller starts
}

// Gate returns the gate of a controller. objects is an empty list of the kind that the controller reconciles; reader lists this kind from the
// cache.
func (s *Shards) Gate(reader client.Reader, objects client.ObjectList) *Gate {
	g := &Gate{shards: s, reader: reader, objects: objects}
	if s == nil {
		return g
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gates = append(s.gates, g)
	return g
}

// Start implements source.Source.
func (g *Gate) Start(_ context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.queue = q
	return nil
}

// Resume returns a handler that enqueues the listed objects for which there is work in progress before the others. Use it in an additional
// watch of the kind that the controller reconciles. If this replica takes a shard, the gate uses the same order.
func (g *Gate) Resume(inProgress func(client.Object) bool) handler.EventHandler {
	g.inProgress = inProgress
	return handler.Funcs{CreateFunc: func(_ context.Context, e event.CreateEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
		if inProgress(e.Object) {
			queue.Add(q, queue.Progress, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(e.Object)})
		}
	}}
}

// Reconciler returns a reconciler that ignores the namespaces of other replicas. If a shard is lost during a reconcile, the context of the
// reconcile is canceled with the cause ErrLost. A reconcile that is interrupted because a shard is lost or the manager stops does not count as an
// error.
func (g *Gate) Reconciler(r reconcile.Reconciler) reconcile.Reconciler {
	return reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
		if g.shards != nil {
			mine, leave, ok := g.shards.pass(ctx, req.Namespace)
			if !ok {
				return reconcile.Result{}, nil
			}
			defer leave()
			ctx = mine
		}
		result, err := r.Reconcile(ctx, req)
		if ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.Cause(ctx))) { // net/http returns the cause instead of context.Canceled.
			return reconcile.Result{}, nil
		}
		return result, err
	})
}

// enqueue adds all objects of a shard to the queue: first those for which there is work in progress, and the others with a lower priority than
// changed objects. Before the controller starts, enqueue adds nothing, because the watches of the controller add the objects later.
func (g *Gate) enqueue(ctx context.Context, shard int) error {
	g.mu.Lock()
	q := g.queue
	g.mu.Unlock()
	if q == nil {
		return nil
	}
	list := g.objects.DeepCopyObject().(client.ObjectList)
	err := g.reader.List(ctx, list, client.UnsafeDisableDeepCopy)
	var early *cache.ErrResourceNotCached
	if errors.As(err, &early) {
		return nil // The controller is starting, and its watch adds the objects.
	}
	if err != nil {
		return fmt.Errorf("list the objects of shard %d: %w", shard, err)
	}
	var resumed, requests []reconcile.Request
	err = meta.EachListItem(list, func(o runtime.Object) error {
		object := o.(client.Object)
		request := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(object)}
		switch {
		case Of(object.GetNamespace(), g.shards.Count) != shard:
		case g.inProgress != nil && g.inProgress(object):
			resumed = append(resumed, request)
		default:
			requests = append(requests, request)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read the objects of shard %d: %w", shard, err)
	}
	queue.Add(q, queue.Progress, resumed...)
	queue.Add(q, handler.LowPriority, requests...)
	return nil
}
