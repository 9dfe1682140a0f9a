package registry

import (
	"context"
	"sync"
	"time"

	"github.com/heighliner/heighliner/internal/contain"
)

// flights lets concurrent callers with the same key share one request.
type flights struct {
	mu    sync.Mutex
	byKey map[string]*flight
}

// flight is a request in progress. Its value and error are set before done is closed.
type flight struct {
	waiting int // number of waiting callers
	cancel  context.CancelFunc
	done    chan struct{}
	value   any
	err     error
}

// share runs work once for all concurrent callers with the same key. The work continues if a caller leaves. It is canceled when its timeout expires or
// when the last caller leaves. A caller whose context is done does not start any work.
func share[T any](ctx context.Context, fs *flights, key string, timeout time.Duration, work func(context.Context) (T, error)) (T, error) {
	var none T
	if err := ctx.Err(); err != nil {
		return none, err
	}
	f := fs.join(ctx, key, timeout, func(ctx context.Context) (any, error) { return work(ctx) })
	select {
	case <-ctx.Done():
		fs.leave(key, f)
		return none, ctx.Err()
	case <-f.done:
		value, _ := f.value.(T)
		return value, f.err
	}
}

func (fs *flights) join(ctx context.Context, key string, timeout time.Duration, work func(context.Context) (any, error)) *flight {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if f := fs.byKey[key]; f != nil {
		f.waiting++
		return f
	}
	f := &flight{waiting: 1, done: make(chan struct{})}
	ctx, f.cancel = context.WithTimeout(context.WithoutCancel(ctx), timeout)
	if fs.byKey == nil {
		fs.byKey = map[string]*flight{}
	}
	fs.byKey[key] = f
	go func() {
		defer close(f.done)
		f.err = contain.Panics(func() (err error) { f.value, err = work(ctx); return err })
		f.cancel()
		fs.mu.Lock()
		defer fs.mu.Unlock()
		fs.forget(key, f)
	}()
	return f
}

// leave records that a caller no longer waits for the request, and cancels the request if no other caller is waiting. A later
// caller starts a new request.
func (fs *flights) leave(key string, f *flight) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if f.waiting--; f.waiting == 0 {
		f.cancel()
		fs.forget(key, f)
	}
}

func (fs *flights) forget(key string, f *flight) {
	if fs.byKey[key] == f {
		delete(fs.byKey, key)
	}
}
