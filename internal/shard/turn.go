package shard

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// turns orders the acquisitions of a replica: one after another, each later by the patience for every shard that it holds, so that a
// replica with fewer shards is faster.
type turns struct {
	patience time.Duration
	// next has an element while no acquisition waits or runs; who takes it may use held.
	next chan struct{}
	held int
}

func newTurns(patience time.Duration) *turns {
	t := &turns{patience: patience, next: make(chan struct{}, 1)}
	t.next <- struct{}{}
	return t
}

// take calls acquire when it is this replica's turn for a shard that it found without a holder at a time.
func (t *turns) take(ctx context.Context, found time.Time, acquire func() error) error {
	select {
	case <-t.next:
	case <-ctx.Done():
		return fmt.Errorf("wait for other shards: %w", ctx.Err())
	}
	defer func() { t.next <- struct{}{} }()
	wait := time.NewTimer(time.Until(found.Add(time.Duration(t.held) * t.patience)))
	defer wait.Stop()
	select {
	case <-wait.C:
	case <-ctx.Done():
		return fmt.Errorf("wait for other replicas: %w", ctx.Err())
	}
	if err := acquire(); err != nil {
		return err
	}
	t.held++
	return nil
}

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
	// expiry calls lost; nil before the first write.
	expiry *time.Timer
	// held is true after the first write, and seen is when another replica was last found to hold the Lease. The goroutine of one
	// elector uses them.
	held bool
	seen time.Time
}

// Get reads the Lease, and notices who holds it.
func (p *patient) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := p.Interface.Get(ctx)
	if err == nil && record.HolderIdentity != "" && record.HolderIdentity != p.Identity() {
		if p.seen = time.Now(); p.held {
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

// renew writes a Lease. The time that remains counts from before the request: other replicas count from when they see it.
func (p *patient) renew(ctx context.Context, r resourcelock.LeaderElectionRecord, write func(context.Context, resourcelock.LeaderElectionRecord) error) error {
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
