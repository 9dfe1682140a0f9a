package shard

import (
	"context"
	"fmt"
	"time"
)

// turns orders this replica's acquisitions of shards. The replica acquires one shard at a time. It delays each acquisition by the patience
// multiplied by the number of shards that it holds, so that replicas with fewer shards acquire first.
type turns struct {
	patience time.Duration
	// next contains an element while no acquisition is waiting or in progress. The goroutine that receives the element
	// may use held.
	next chan struct{}
	held int
}

func newTurns(patience time.Duration) *turns {
	t := &turns{patience: patience, next: make(chan struct{}, 1)}
	t.next <- struct{}{}
	return t
}

// take waits for this replica's turn to acquire a shard, and then calls acquire. found is the time at which the replica found
// that the shard has no holder.
func (t *turns) take(ctx context.Context, found time.Time, acquire func() error) error {
	select {
	case <-t.next:
	case <-ctx.Done():
		return fmt.Errorf("wait for the acquisition of another shard: %w", ctx.Err())
	}
	defer func() { t.next <- struct{}{} }()
	wait := time.NewTimer(time.Until(found.Add(time.Duration(t.held) * t.patience)))
	defer wait.Stop()
	select {
	case <-wait.C:
	case <-ctx.Done():
		return fmt.Errorf("wait for other replicas to acquire the shard: %w", ctx.Err())
	}
	if err := acquire(); err != nil {
		return err
	}
	t.held++
	return nil
}
