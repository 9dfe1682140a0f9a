package status

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Journal records the last status write of each object in this process. It shows whether the cache
// already contains that write, and limits the rate of writes without a transition. The zero Journal
// does not limit the rate.
type Journal struct {
	// Interval is the minimum time between two writes of one object without a transition.
	Interval time.Duration

	mu    sync.Mutex
	last  map[types.UID]entry
	swept time.Time // when outdated records were last dropped
}

type entry struct {
	at   time.Time
	from string // the resourceVersion that the write replaced
}

// remembered is the minimum time for which the record of a write is kept. If the cache lags for longer, the
// next write causes a conflict.
const remembered = time.Minute

// Behind reports whether obj is older than the last status write of this process. In that case, obj is
// outdated until the cache delivers that write.
func (j *Journal) Behind(obj client.Object) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	last, ok := j.last[obj.GetUID()]
	return ok && last.from != "" && last.from == obj.GetResourceVersion()
}

// Wait returns how long to delay a write without a transition, or 0.
func (j *Journal) Wait(obj client.Object, now time.Time) time.Duration {
	j.mu.Lock()
	defer j.mu.Unlock()
	last, ok := j.last[obj.GetUID()]
	if !ok {
		return 0
	}
	return max(0, last.at.Add(j.Interval).Sub(now))
}

// Wrote records a write that changed an object from before to after, and drops outdated records.
func (j *Journal) Wrote(before, after client.Object, now time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.last == nil {
		j.last = map[types.UID]entry{}
	}
	if keep := max(j.Interval, remembered); now.Sub(j.swept) >= keep || now.Before(j.swept) { // This is not done at each write, because there may be thousands of records.
		maps.DeleteFunc(j.last, func(_ types.UID, e entry) bool { return now.Sub(e.at) >= keep })
		j.swept = now
	}
	e := entry{at: now}
	// A write that changed nothing on the API server causes no watch event, so Behind must not wait for one.
	if before.GetResourceVersion() != after.GetResourceVersion() {
		e.from = before.GetResourceVersion()
	}
	j.last[before.GetUID()] = e
}
