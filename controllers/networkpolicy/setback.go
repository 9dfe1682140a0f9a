package networkpolicy

import (
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
	"github.com/heighliner/heighliner/internal/status"
)

const (
	// setBackFree is how often the same is written to a route at once, each time that
	// somebody sets it back.
	setBackFree = 3
	// setBackFirst is the wait after that, which doubles up to setBackMost.
	setBackFirst = time.Second
	setBackMost  = time.Minute
	// setBackForget is after how long without a write the count begins anew.
	setBackForget = 10 * time.Minute
)

// setBacks remembers what was last written to routes of others, so that two who set each
// other back do not do so without end. What is new is written at once.
type setBacks struct {
	mu sync.Mutex
	of map[string]setBack
}

type setBack struct {
	wanted string
	times  int
	last   time.Time
}

// wait is how long to leave a route alone before what is wanted is written again.
func (s *setBacks) wait(route, wanted string, now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.of[route]
	if b.wanted != wanted || b.times < setBackFree {
		return 0
	}
	wait := setBackMost
	if doubled := b.times - setBackFree; doubled < 6 {
		wait = min(setBackFirst<<doubled, setBackMost)
	}
	return max(0, b.last.Add(wait).Sub(now))
}

// note that what is wanted was written.
func (s *setBacks) note(route, wanted string, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of == nil {
		s.of = map[string]setBack{}
	}
	for other, b := range s.of {
		if now.Sub(b.last) > setBackForget {
			delete(s.of, other)
		}
	}
	b := s.of[route]
	if b.wanted != wanted {
		b = setBack{wanted: wanted}
	}
	b.times++
	b.last = now
	s.of[route] = b
}

// setBackError says who sets a route back, as far as the server knows.
func setBackError(read *unstructured.Unstructured, after time.Duration) *status.Error {
	who, at := "somebody else", metav1.Time{}
	for _, m := range read.GetManagedFields() {
		if m.Manager != fieldOwner && m.Subresource == "" && m.Time != nil && at.Before(m.Time) {
			who, at = fmt.Sprintf("field manager %q", m.Manager), *m.Time
		}
	}
	return status.NewWaiting(providers.ReasonRuleConflict, after, fmt.Errorf(
		"spec.provider.routeRef: %s sets the rules of %s back each time that they are led: let it leave backendRefs and annotations of the route alone, or name a rule that nobody else leads", who, objectName(read)))
}
