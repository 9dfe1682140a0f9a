package status

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Option changes how Patch writes.
type Option int

// AtResourceVersion makes the resourceVersion of the object that was read a
// precondition: when anybody has written since, the server answers a conflict and
// nothing is written.
const AtResourceVersion Option = iota

// Patch writes the status of obj, in which before is obj as it was read. It is the
// one status write of a reconcile. It makes no call when nothing differs, and says
// whether it wrote. Only the status may differ: everything else in obj is ignored
// by the server. owner is the field manager.
//
// After a write obj is the server's answer.
func Patch(ctx context.Context, c client.Client, owner string, obj, before client.Object, options ...Option) (bool, error) {
	data, err := client.MergeFrom(before).Data(obj)
	if err != nil {
		return false, fmt.Errorf("compare status of %q: %w", obj.GetName(), err)
	}
	if bytes.Equal(bytes.TrimSpace(data), []byte("{}")) {
		return false, nil
	}
	patch := client.MergeFrom(before)
	for _, option := range options {
		if option == AtResourceVersion {
			patch = client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
		}
	}
	if err := c.Status().Patch(ctx, obj, patch, client.FieldOwner(owner)); err != nil {
		return false, fmt.Errorf("write status of %q: %w", obj.GetName(), err)
	}
	return true, nil
}

// Pacer spreads status writes that tell of no transition: at most one per object
// and Interval. The zero Pacer holds nothing back.
type Pacer struct {
	// Interval between two such writes of one object.
	Interval time.Duration

	mu   sync.Mutex
	last map[types.UID]time.Time
}

// Wait says how long a write that can wait is to be put off at now; 0: write.
func (p *Pacer) Wait(uid types.UID, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	last, ok := p.last[uid]
	if !ok {
		return 0
	}
	return max(0, last.Add(p.Interval).Sub(now))
}

// Wrote notes a write at now, and forgets those that hold nothing back any more.
func (p *Pacer) Wrote(uid types.UID, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last == nil {
		p.last = map[types.UID]time.Time{}
	}
	for other, at := range p.last {
		if !at.Add(p.Interval).After(now) {
			delete(p.last, other)
		}
	}
	if p.Interval > 0 {
		p.last[uid] = now
	}
}
