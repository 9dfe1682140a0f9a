package apply

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// remembered is how long a deletion is recorded. It is also how long the cache can lag without
// causing a second deletion.
const remembered = time.Minute

// Deletions records the objects that this process recently deleted. The zero value is
// ready to use. A nil Deletions records nothing.
type Deletions struct {
	// Now is the clock. Defaults to time.Now.
	Now func() time.Time

	mu   sync.Mutex
	uids map[types.UID]time.Time
}

func (d *Deletions) have(uid types.UID) bool {
	if d == nil {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	at, ok := d.uids[uid]
	return ok && d.now().Sub(at) < remembered
}

func (d *Deletions) note(uid types.UID) {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.uids == nil {
		d.uids = map[types.UID]time.Time{}
	}
	now := d.now()
	for old, at := range d.uids {
		if now.Sub(at) >= remembered {
			delete(d.uids, old)
		}
	}
	d.uids[uid] = now
}

func (d *Deletions) now() time.Time {
	if d.Now == nil {
		return time.Now()
	}
	return d.Now()
}
