package networkpolicy

import (
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

const (
	// freeWrites is the number of times that the same content is written to a route without a delay: the
	// first write, and one write after each of the first two reverts by another client.
	freeWrites = 3
	// firstDelay is the delay before the first write after freeWrites writes. Each subsequent delay is twice as long, up to
	// maxDelay.
	firstDelay = time.Second
	maxDelay   = time.Minute
	// forgetAfter is the time without a write after which the count of writes is reset.
	forgetAfter = 10 * time.Minute
)

// reverts records what was last written to each user-managed route, and how often, so that the controller and
// another client do not revert each other's writes continuously. New content is written immediately.
type reverts struct {
	mu sync.Mutex
	of map[string]revert
}

type revert struct {
	wanted string
	times  int
	last   time.Time
}

// wait returns the time to wait before the desired content of a route is written again.
func (s *reverts) wait(route, wanted string, now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.of[route]
	if b.wanted != wanted || b.times < freeWrites {
		return 0
	}
	wait := maxDelay
	if doubled := b.times - freeWrites; doubled < 6 {
		wait = min(firstDelay<<doubled, maxDelay)
	}
	return max(0, b.last.Add(wait).Sub(now))
}

// note records that the desired content was written.
func (s *reverts) note(route, wanted string, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of == nil {
		s.of = map[string]revert{}
	}
	for other, b := range s.of {
		if now.Sub(b.last) > forgetAfter {
			delete(s.of, other)
		}
	}
	b := s.of[route]
	if b.wanted != wanted {
		b = revert{wanted: wanted}
	}
	b.times++
	b.last = now
	s.of[route] = b
}

// userRoutes watches the metadata of user-managed routes. These routes have no label by which a
// cache could select them, so their content is read from the API server when it is needed. The watch for
// a kind starts with the first policy that refers to a route of that kind.
type userRoutes struct {
	cache cache.Cache
	watch func(schema.GroupVersionKind) error

	mu   sync.Mutex
	seen map[string]bool
}

// newUserRoutes creates the cache of user-managed routes and adds it to a manager.
func newUserRoutes(mgr ctrl.Manager, namespaces []string) (*userRoutes, error) {
	within := map[string]cache.Config{}
	for _, name := range namespaces {
		within[name] = cache.Config{}
	}
	c, err := cache.New(mgr.GetConfig(), cache.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), DefaultNamespaces: within, DefaultTransform: bare,
	})
	if err != nil {
		return nil, fmt.Errorf("create cache of routes: %w", err)
	}
	return &userRoutes{cache: c, seen: map[string]bool{}}, mgr.Add(c)
}

// bare reduces an object to its identity and resource version.
func bare(o any) (any, error) {
	if o, ok := o.(*metav1.PartialObjectMetadata); ok {
		o.ObjectMeta = metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name, UID: o.UID, ResourceVersion: o.ResourceVersion}
	}
	return o, nil
}

// follow starts the watch for a kind, unless it has already started.
func (u *userRoutes) follow(gvk schema.GroupVersionKind) error {
	if u == nil {
		return nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.seen[gvk.Kind] {
		return nil
	}
	if err := u.watch(gvk); err != nil {
		return err
	}
	u.seen[gvk.Kind] = true
	return nil
}
