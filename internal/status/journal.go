package status

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Journal remembers the last status write of each object, in this process: to
// recognize a cache that has not seen it yet, and to spread writes that show no
// transition. The zero Journal spreads nothing.
type Journal struct {
	// Interval between two writes of one object that show no transition.
	Interval time.Duration

	mu   sync.Mutex
	last map[types.UID]entry
}

type entry struct {
	at   time.Time
	from string // the resourceVersion that the write replaced
}

// remembered is how long a cache may be behind before that goes unnoticed, and
// costs a conflict.
const remembered = time.Minute

// Behind says that obj is as it was before this process last wrote its status: the
// cache will show that write, and until then nothing new can be said.
func (j *Journal) Behind(obj client.Object) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	last, ok := j.last[obj.GetUID()]
	return ok && last.from != "" && last.from == obj.GetResourceVersion()
}

// Wait returns for how long a write that reports no transition should be delayed at now; 0: write
// immediately.
func (j *Journal) Wait(obj client.Object, now time.Time) time.Duration {
	j.mu.Lock()
	defer j.mu.Unlock()
	last, ok := j.last[obj.GetUID()]
	if !ok {
		return 0
	}
	return max(0, last.at.Add(j.Interval).Sub(now))
}

// Wrote notes a write at now that made after of before, and forgets what is over.
func (j *Journal) Wrote(before, after client.Object, now time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.last == nil {
		j.last = map[types.UID]entry{}
	}
	for uid, e := range j.last {
		if now.Sub(e.at) >= max(j.Interval, remembered) {
			delete(j.last, uid)
		}
	}
	e := entry{at: now}
	// A write that the server found to change nothing makes no event to wait for.
	if before.GetResourceVersion() != after.GetResourceVersion() {
		e.from = before.GetResourceVersion()
	}
	j.last[before.GetUID()] = e
}
