//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/test/harness"
)

// minGap is the minimum time between two kills, and minGap + moreGap is the maximum.
const (
	minGap  = 15 * time.Second
	moreGap = 30 * time.Second
)

// killer repeatedly kills the manager's process.
type killer struct {
	random *rand.Rand
	wanted int
	done   chan struct{}
	ended  chan error

	mu    sync.Mutex
	times []time.Time
}

// run kills the process until the number of kills is reached or ctx is done.
func (k *killer) run(ctx context.Context) error {
	defer close(k.done)
	for k.count() < k.wanted {
		gap := time.NewTimer(minGap + time.Duration(k.random.Int64N(int64(moreGap))))
		select {
		case <-gap.C:
		case <-ctx.Done():
			gap.Stop()
			return nil
		}
		if err := k.kill(ctx); err != nil {
			return err
		}
	}
	return nil
}

// kill kills the running process by its ID with SIGKILL, and deletes its pod, because the back-off before a
// restart of the container would only prolong the test.
func (k *killer) kill(ctx context.Context) error {
	return harness.WaitFor(ctx, "a running manager to kill", func(ctx context.Context) (bool, string, error) {
		pod, pid, err := managerProcess(ctx)
		if err != nil {
			return false, "", err
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			return false, "", fmt.Errorf("kill process %d: %w", pid, err)
		}
		k.mu.Lock()
		k.times = append(k.times, time.Now())
		k.mu.Unlock()
		err = env.Client.Delete(ctx, pod, client.GracePeriodSeconds(0))
		return true, "", client.IgnoreNotFound(err)
	})
}

func (k *killer) count() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.times)
}

func (k *killer) enough() bool { return k.count() >= k.wanted }

// log returns the time of each kill, and the time since the previous kill.
func (k *killer) log() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	var lines []string
	for i, at := range k.times {
		text := at.UTC().Format(time.TimeOnly)
		if i > 0 {
			text += fmt.Sprintf(", %s after the previous kill", at.Sub(k.times[i-1]).Round(100*time.Millisecond))
		}
		lines = append(lines, text)
	}
	return lines
}
