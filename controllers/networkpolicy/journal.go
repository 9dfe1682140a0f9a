package networkpolicy

import (
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
	"github.com/heighliner/heighliner/controllers/networkpolicy/traffic"
)

// recentTimes records when this process last did something with an object, for example when it wrote a route. It discards times
// that are older than providers.Grace. After a restart, the times are unknown, so a route whose status the gateway has not
// reported yet is reported as faulty immediately.
type recentTimes struct {
	mu sync.Mutex
	at map[client.ObjectKey]time.Time
}

func (w *recentTimes) note(key client.ObjectKey, now time.Time) {
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

func (w *recentTimes) forget(key client.ObjectKey) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.at, key)
}

func (w *recentTimes) last(key client.ObjectKey) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.at[key]
}

// readyTimes records, keyed by policy, when this process observed that a Service without ready endpoints got one.
// A Service that is in no policy's entry is either unknown or has been ready for longer than
// traffic.FirstTrafficDelay.
type readyTimes struct {
	mu sync.Mutex
	at map[client.ObjectKey]map[string]time.Time // by Service name; the zero time means that no endpoint is ready
}

// note records which of the named Services of a policy have ready endpoints, and sets ReadySince for those
// that have just become ready. A Service that does not exist yet has no ready endpoints. A Service that was first observed with ready
// endpoints, such as after a restart of the manager, has no ReadySince.
func (r *readyTimes) note(policy client.ObjectKey, services []string, endpoints map[string]traffic.Endpoints, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.at[policy]
	var next map[string]time.Time
	keep := func(name string, at time.Time) {
		if next == nil {
			next = map[string]time.Time{}
		}
		next[name] = at
	}
	for _, name := range services {
		e := endpoints[name]
		since, known := before[name]
		switch {
		case len(e.Ready) == 0:
			keep(name, time.Time{})
			continue
		case !known:
			continue
		case since.IsZero():
			since = now
		}
		if now.Sub(since) < traffic.FirstTrafficDelay {
			keep(name, since)
			e.ReadySince = since
			endpoints[name] = e
		}
	}
	if len(next) == 0 {
		delete(r.at, policy)
		return
	}
	if r.at == nil {
		r.at = map[client.ObjectKey]map[string]time.Time{}
	}
	r.at[policy] = next
}

func (r *readyTimes) forget(policy client.ObjectKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.at, policy)
}

// conflictTimes records when the API server began to reject the writes of each policy only because of
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
