package apply

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// maxMatches is the maximum number of records in a generation. One generation has room for all objects of 10,000 services with two releases each. If more
// objects than that are used in turn, records are dropped before their objects are used again.
const maxMatches = 1 << 17

// Matches records the live objects that match their intent, so that unchanged objects are not compared again. The
// records are lost on a restart, so each object is compared once more. The zero value is ready to use. A nil Matches
// records nothing. Matches is safe for concurrent use.
type Matches struct {
	mu      sync.Mutex
	objects generations[match]
	// replaced contains the states that our writes replaced. If the cache still contains such a state, the cache lags.
	replaced generations[*replaced]
}

// maxReplaced is the maximum number of replaced states in a generation. A replaced state is needed only until the cache contains the state that replaced
// it, so only the states that the most recent writes replaced are kept.
const maxReplaced = 1 << 12

// maxRefusals is the number of times that a write based on a replaced state is refused locally before such a write is sent to the API server.
// With the back-off between reconciles, these attempts take a few seconds. The limit is needed because an API server that was restored from
// a backup can return such states.
const maxRefusals = 10

// replaced is the state that our latest write to an object replaced.
type replaced struct {
	resourceVersion string
	refusals        int
}

// match is a state of an object and the intent that this state matches.
type match struct {
	resourceVersion string
	intent          checksum
}

// checksum identifies an intent. It consists of the first 128 bits of a SHA-256 hash.
type checksum [16]byte

// generations contains the records of recently used objects, by UID: those that were used since the current generation started, and those of the
// previous generation. It uses less than half of the memory of an LRU cache.
type generations[V any] struct {
	recent, earlier map[types.UID]V
}

// get returns a record, and keeps it for at least one more generation of up to limit records.
func (g *generations[V]) get(uid types.UID, limit int) (v V, ok bool) {
	if v, ok = g.recent[uid]; ok {
		return v, true
	}
	if v, ok = g.earlier[uid]; ok {
		g.put(uid, v, limit)
	}
	return v, ok
}

// put adds or replaces a record.
func (g *generations[V]) put(uid types.UID, v V, limit int) {
	if _, known := g.recent[uid]; g.recent == nil || !known && len(g.recent) >= limit {
		g.recent, g.earlier = map[types.UID]V{}, g.recent
	}
	delete(g.earlier, uid)
	g.recent[uid] = v
}

// remove drops the record of an object.
func (g *generations[V]) remove(uid types.UID) {
	delete(g.recent, uid)
	delete(g.earlier, uid)
}

// noteReplaced records that our write replaced a state of an object.
func (c *Matches) noteReplaced(uid types.UID, resourceVersion string) {
	if c == nil || resourceVersion == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.replaced.put(uid, &replaced{resourceVersion: resourceVersion}, maxReplaced)
}

// haveReplaced reports whether our latest write replaced this state of an object. A write with this state as a precondition would be
// rejected. haveReplaced returns true at most maxRefusals times.
func (c *Matches) haveReplaced(uid types.UID, resourceVersion string) bool {
	if c == nil || resourceVersion == "" {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	known, ok := c.replaced.get(uid, maxReplaced)
	if !ok || known.resourceVersion != resourceVersion {
		return false
	}
	known.refusals++
	return known.refusals <= maxRefusals
}

// digest identifies the intent of a desired object and its owner. It costs much less than computing the intent, which requires a
// conversion to an untyped object.
func (c *Matches) digest(owner, desired client.Object) (checksum, error) {
	if c == nil {
		return checksum{}, nil
	}
	hash := sha256.New()
	if err := json.NewEncoder(hash).Encode(desired); err != nil {
		return checksum{}, fmt.Errorf("encode %T %q: %w", desired, desired.GetName(), err)
	}
	hash.Write([]byte(owner.GetUID()))
	return checksum(hash.Sum(nil)[:len(checksum{})]), nil
}

// have reports whether the current state of a live object is recorded as matching the intent.
func (c *Matches) have(live client.Object, intent checksum) bool {
	if c == nil || live.GetResourceVersion() == "" {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	known, ok := c.objects.get(live.GetUID(), maxMatches)
	return ok && known == match{live.GetResourceVersion(), intent}
}

// note records that the state of a live object matches the intent.
func (c *Matches) note(live client.Object, intent checksum) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.objects.put(live.GetUID(), match{live.GetResourceVersion(), intent}, maxMatches)
}

// forget drops the records of a deleted object.
func (c *Matches) forget(uid types.UID) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.objects.remove(uid)
	c.replaced.remove(uid)
}
