package shard

import (
	"context"
	"errors"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// patient is the lock of a shard. It lets replicas with fewer shards take the shard first. client-go writes the lock only if it is free or held by
// this replica. If another replica takes the lock in the meantime, the API server rejects the write with a conflict.
type patient struct {
	resourcelock.Interface
	turns *turns
	// lease is how long a Lease is valid without a renewal.
	lease time.Duration
	// keep is how long this replica keeps the shard after the beginning of its last successful renewal. It is shorter than lease.
	keep time.Duration
	// lost is called when the keep time has passed, or when another replica holds the Lease of this shard, for example after a manual edit.
	lost func()
	// idle reports whether all reconciles of this replica have ended and no other reconcile can begin.
	idle func() bool
	// expiry calls lost. It is nil before the first write.
	expiry *time.Timer
	// Only the elector's goroutine uses the following fields. held is true after the first write. taken is true if,
	// after that write, another replica was found to hold the Lease. seen is the last time at which another replica was
	// found to hold the Lease.
	held, taken bool
	seen        time.Time
}

// Get reads the Lease and records whether another replica holds it.
func (p *patient) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := p.Interface.Get(ctx)
	if err == nil && record.HolderIdentity != "" && record.HolderIdentity != p.Identity() {
		if p.seen = time.Now(); p.held {
			p.taken = true
			p.lost()
		}
	}
	return record, raw, err
}

// Create takes a Lease that does not exist yet or was deleted. The holder of a deleted Lease creates it again at the next renewal. Other
// replicas create it only after the deleted Lease would have expired.
func (p *patient) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	if p.held {
		return p.renew(ctx, r, p.Interface.Create)
	}
	return p.take(ctx, r, p.Interface.Create)
}

// Update takes, renews or releases a Lease.
func (p *patient) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	if p.held {
		return p.renew(ctx, r, p.Interface.Update)
	}
	return p.take(ctx, r, p.Interface.Update)
}

// These errors are the reasons why renew does not write.
var (
	errTaken = errors.New("another replica holds the Lease")
	errBusy  = errors.New("a reconcile may be running: the Lease is not released, but expires later")
)

// renew writes a Lease. The keep time starts at the beginning of the request, because other replicas measure the age of the Lease from the
// time at which they see the write. renew checks taken, and does not overwrite the Lease of another replica. Without this check, an elector that
// could not renew its Lease would read the Lease again and release it before reporting the loss, even if another replica holds the Lease.
func (p *patient) renew(ctx context.Context, r resourcelock.LeaderElectionRecord, write func(context.Context, resourcelock.LeaderElectionRecord) error) error {
	switch {
	case p.taken:
		return errTaken
	case r.HolderIdentity == "" && !p.idle():
		return errBusy
	}
	began := time.Now()
	if err := write(ctx, r); err != nil {
		return err
	}
	switch {
	case r.HolderIdentity == "": // The Lease was released.
		p.expiry.Stop()
	case p.expiry == nil:
		p.expiry = time.AfterFunc(time.Until(began.Add(p.keep)), p.lost)
	default:
		p.expiry.Reset(time.Until(began.Add(p.keep)))
	}
	return nil
}

func (p *patient) take(ctx context.Context, r resourcelock.LeaderElectionRecord, write func(context.Context, resourcelock.LeaderElectionRecord) error) error {
	found := time.Now()
	if expiry := p.seen.Add(p.lease); r.LeaderTransitions == 0 && expiry.After(found) {
		found = expiry // A record without transitions creates the Lease. If the Lease was deleted, it would have expired at this time.
	}
	return p.turns.take(ctx, found, func() error {
		r.AcquireTime = metav1.Now() // The elector set both times before this replica waited for its turn, so they are too early.
		r.RenewTime = r.AcquireTime
		err := p.renew(ctx, r, write)
		p.held = err == nil
		return err
	})
}
