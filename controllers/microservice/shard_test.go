package microservice

import (
	"strings"
	"testing"
	"time"
)

// TestTakenShardGivesReleasesAMoment checks that a process that takes a shard long after its start waits for the statuses of
// releases whose deadline passed while no process had the shard.
func TestTakenShardGivesReleasesAMoment(t *testing.T) {
	t.Parallel()
	s := begin(t)
	s.offer("1.0.0")
	if _, err := s.pass(); err != nil {
		t.Fatal(err)
	}
	s.clock.Step(11 * time.Minute)
	taken := s.clock.Now()
	s.reconciler.taken = func(string) time.Time { return taken }
	result, err := s.pass()
	if err != nil {
		t.Fatal(err)
	}
	if got := s.rolloutState(); !strings.Contains(got, "1.0.0 pending") {
		t.Errorf("when the shard is taken:\n%s", got)
	}
	if after := result.RequeueAfter; after <= 0 || after > 10*time.Second {
		t.Errorf("the next reconcile is after %s, want at most 10s", after)
	}
	s.play()
	if got := s.rolloutState(); !strings.Contains(got, "1.0.0 active") {
		t.Errorf("after the pods were reported:\n%s", got)
	}
}
