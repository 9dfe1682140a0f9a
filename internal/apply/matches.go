package apply

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// maxMatches is the maximum number of objects in Matches. The most recently compared objects are kept.
const maxMatches = 1 << 16

// Matches records the live objects that match their intent, so that unchanged objects are not compared again. The
// records are lost on a restart, so each object is compared once more. The zero value is ready to use. A nil Matches
// records nothing. Matches is safe for concurrent use.
type Matches struct {
	once    sync.Once
	objects *lru.Cache // match by UID
	// replaced contains the states that our writes replaced: one *replaced for each UID. They show whether the cache lags.
	replaced *lru.Cache
}

// maxRefusals is the number of times that a write based on a replaced state is refused locally before the API server decides.
// With the back-off between reconciles, this takes a few seconds. An API server that was restored from a backup can return such
// states.
const maxRefusals = 10

// replaced is the state of an object that our last write replaced.
type replaced struct {
	resourceVersion string
	refusals        atomic.Int32
}

// match is a state of an object and the intent that this state matches.
type match struct {
	resourceVersion string
	intent          [sha256.Size]byte
}

func (c *Matches) cache() *lru.Cache {
	c.once.Do(func() { c.objects, c.replaced = lru.New(maxMatches), lru.New(maxMatches) })
	return c.objects
}

// noteReplaced records that our write replaced a state of an object.
func (c *Matches) noteReplaced(uid types.UID, resourceVersion string) {
	if c != nil && resourceVersion != "" {
		c.cache()
		c.replaced.Add(uid, &replaced{resourceVersion: resourceVersion})
	}
}

// haveReplaced reports whether our last write replaced this state of an object. A write with this state as a precondition would be
// rejected. haveReplaced returns true at most maxRefusals times.
func (c *Matches) haveReplaced(uid types.UID, resourceVersion string) bool {
	if c == nil || resourceVersion == "" {
		return false
	}
	c.cache()
	known, ok := c.replaced.Get(uid)
	return ok && known.(*replaced).resourceVersion == resourceVersion && known.(*replaced).refusals.Add(1) <= maxRefusals
}

// digest identifies the intent of a desired object and its owner. It costs much less than computing the intent, which requires a
// conversion to an untyped object.
func (c *Matches) digest(owner, desired client.Object) (digest [sha256.Size]byte, err error) {
	if c == nil {
		return digest, nil
	}
	hash := sha256.New()
	if err := json.NewEncoder(hash).Encode(desired); err != nil {
		return digest, fmt.Errorf("encode %T %q: %w", desired, desired.GetName(), err)
	}
	hash.Write([]byte(owner.GetUID()))
	return [sha256.Size]byte(hash.Sum(digest[:0])), nil
}

// have reports whether the current state of a live object is recorded as matching the intent.
func (c *Matches) have(live client.Object, intent [sha256.Size]byte) bool {
	if c == nil || live.GetResourceVersion() == "" {
		return false
	}
	known, ok := c.cache().Get(live.GetUID())
	return ok && known == match{live.GetResourceVersion(), intent}
}

// note records that the state of a live object matches the intent.
func (c *Matches) note(live client.Object, intent [sha256.Size]byte) {
	if c != nil {
		c.cache().Add(live.GetUID(), match{live.GetResourceVersion(), intent})
	}
}

// forget drops the records of a deleted object.
func (c *Matches) forget(uid types.UID) {
	if c != nil {
		c.cache().Remove(uid)
		c.replaced.Remove(uid)
	}
}
