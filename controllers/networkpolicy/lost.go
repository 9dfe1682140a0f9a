package networkpolicy

import (
	"context"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// kindCache is a cache that reports kinds that the API server no longer serves. When the definition of a kind is
// deleted, the watch for its objects ends; on Kubernetes 1.33, it ends without events for their deletion. Without the
// report, the cache would keep these objects, and no policy would be reconciled.
type kindCache struct {
	cache.Cache
	*watchErrors
}

// watchErrors handles the watch errors of a cache.
type watchErrors struct {
	mu   sync.Mutex
	lost func(ctx context.Context, kind string)
}

// handle handles a watch error. The cache calls it for each error.
func (w *watchErrors) handle(ctx context.Context, r *toolscache.Reflector, err error) {
	toolscache.DefaultWatchErrorHandler(ctx, r, err)
	w.mu.Lock()
	lost := w.lost
	w.mu.Unlock()
	if lost != nil && apierrors.IsNotFound(err) {
		lost(ctx, r.TypeDescription())
	}
}

// whenLost sets the function that is called with the Go type of a kind that the API server no
// longer serves.
func (w *watchErrors) whenLost(lost func(ctx context.Context, kind string)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lost = lost
}
