package networkpolicy

import (
	"context"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// kindCache is a cache that reports kinds that the API server has no longer. When a definition is deleted, the watch of its objects
// ends, on Kubernetes 1.33 without events of their deletion: a cache keeps these objects, and nothing is reconciled.
type kindCache struct {
	cache.Cache
	*watchErrors
}

// watchErrors handles errors of the watches of a cache.
type watchErrors struct {
	mu   sync.Mutex
	lost func(ctx context.Context, kind string)
}

// handle is called by the cache with each error of a watch.
func (w *watchErrors) handle(ctx context.Context, r *toolscache.Reflector, err error) {
	toolscache.DefaultWatchErrorHandler(ctx, r, err)
	w.mu.Lock()
	lost := w.lost
	w.mu.Unlock()
	if lost != nil && apierrors.IsNotFound(err) {
		lost(ctx, r.TypeDescription())
	}
}

// whenLost sets what is called with the Go type of a kind whose objects the API server does not find.
func (w *watchErrors) whenLost(lost func(ctx context.Context, kind string)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lost = lost
}
