package networkpolicy

import (
	"fmt"
	"testing"
	"time"
)

func TestReverts(t *testing.T) {
	var s reverts
	now := time.Unix(0, 0)
	for i, wait := range []time.Duration{0, 0, 0, time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 32 * time.Second, time.Minute, time.Minute} {
		want(t, fmt.Sprintf("wait before write %d", i), s.wait("web", "a", now), wait)
		want(t, "new content", s.wait("web", "b", now), 0)
		want(t, "another route", s.wait("api", "a", now), 0)
		now = now.Add(wait)
		s.note("web", "a", now)
	}
	now = now.Add(forgetAfter + time.Second)
	want(t, "after a long time without a write", s.wait("web", "a", now), 0)
	s.note("api", "a", now)
	want(t, "remembered routes", len(s.of), 1)
}
