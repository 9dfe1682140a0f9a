package shard

import (
	"context"
	"fmt"
	"time"
)

// turns orders the acquisitions of a replica. It acquires one shard at a time, and delays each acquisition by the patience, multiplied
// by the number of shards that it holds, so that a replica with fewer shards is faster.
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
