package networkpolicy

import (
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
)

// writeTimes records when this process last wrote each route, for as long as the time is relevant.
// After a restart, these times are unknown, so a route whose gateway has not reported its status is
// reported as faulty immediately.
type writeTimes struct {
	mu sync.Mutex
	at map[client.ObjectKey]time.Time
}

func (w *writeTimes) note(key client.ObjectKey, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.at == nil {
		w.at = map[client.ObjectKey]time.Time{}
	}
	for other, at := range w.at {
		if now.Sub(at) > providers.Grace {
			delete(w.at, other)
		}
	}
	w.at[key] = now
}

func (w *writeTimes) forget(key client.ObjectKey) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.at, key)
}

func (w *writeTimes) last(key client.ObjectKey) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.at[key]
}

// conflictTimes records, by policy, the time since which writes have been rejected only because of
// conflicts.
type conflictTimes struct {
	mu sync.Mutex
	at map[client.ObjectKey]time.Time
}

// since returns how long ago the conflicts of a policy began. If there was no conflict before,
// since records that the conflicts begin now.
func (c *conflictTimes) since(policy client.ObjectKey, now time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at == nil {
		c.at = map[client.ObjectKey]time.Time{}
	}
	if _, there := c.at[policy]; !there {
		c.at[policy] = now
	}
	return now.Sub(c.at[policy])
}

func (c *conflictTimes) forget(policy client.ObjectKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.at, policy)
}
