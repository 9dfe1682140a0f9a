package shard

import (
	"context"
	"errors"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// patient is the lock of a shard that leaves it to other replicas first. client-go writes it only when it is free or held by this
// replica; if another one takes it meanwhile, the API server refuses the write as a conflict.
type patient struct {
	resourcelock.Interface
	turns *turns
	// lease is how long a Lease is valid without a renewal.
	lease time.Duration
	// keep is how long this replica keeps the shard after it began its last renewal that succeeded: less than lease.
	keep time.Duration
	// lost is called when that time ended, or another replica has the Lease of this one, as after an edit by hand.
	lost func()
	// idle returns whether the reconciles of this replica have ended, and no other begins.
	idle func() bool
	// expiry calls lost; nil before the first write.
	expiry *time.Timer
	// The goroutine of one elector uses the others. held is true after the first write, and taken when another replica had the Lease
	// after it; seen is when another replica was last found to hold it.
	held, taken bool
	seen        time.Time
}

// Get reads the Lease, and notices who holds it.
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

// Create takes a Lease that does not exist yet, or was deleted: its holder creates it again at its next renewal, and others only after it
// would have expired.
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

// Why renew refuses to write.
var (
	errTaken = errors.New("another replica has the Lease")
	errBusy  = errors.New("a reconcile may run: the Lease is not released, and expires")
)

// renew writes a Lease. The time that remains counts from before the request: other replicas count from when they see it. It never
// writes over another replica's: an elector that failed to renew releases what it reads next, also the Lease of another one, and before it
// reports that it lost the Lease.
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
	case r.HolderIdentity == "": // released
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
		found = expiry // Only a Lease that is created again has no transitions.
	}
	return p.turns.take(ctx, found, func() error {
		r.AcquireTime = metav1.Now() // Later than when the elector began this write.
		r.RenewTime = r.AcquireTime
		err := p.renew(ctx, r, write)
		p.held = err == nil
		return err
	})
}
