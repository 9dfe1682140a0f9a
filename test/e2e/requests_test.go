//go:build e2e

package e2e

import (
	"testing"
	"time"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// TestZeroFailedRequests makes every kind of change to a service's traffic, under 50 requests per second over reused
// connections and 10 over new connections, and checks that no request fails.
func TestZeroFailedRequests(t *testing.T) {
	s := newService(t, "requests").steps(pausing(10, 5*time.Second), asking("half", 50))
	s.start("1.0.0")
	kept, fresh := s.load(50, false), s.load(10, true)
	phase := func(name string) {
		t.Log(name)
		kept.Mark(name)
		fresh.Mark(name)
	}

	phase("canary 1.1.0")
	s.push("1.1.0")
	s.weight("1.1.0", 10)
	s.weight("1.1.0", 50)
	phase("promotion by Continue")
	s.decide("1.1.0", v1alpha1.DecisionContinue, "half")
	s.active("1.1.0")
	s.sees(kept, "1.1.0")

	phase("rollback by pin")
	s.pin("1.0.0")
	s.active("1.0.0")
	s.sees(kept, "1.0.0")
	phase("unpin")
	s.pin("")
	s.active("1.1.0")
	s.sees(kept, "1.1.0")

	phase("broken 1.2.0")
	s.push("1.2.0", "FAIL_READINESS", "true")
	if r := s.status("1.2.0", v1alpha1.ReleaseError); r.Promoted != 0 {
		t.Errorf("the broken release was promoted")
	}

	phase("abort by Deprecate")
	s.push("1.3.0")
	s.weight("1.3.0", 10)
	s.decide("1.3.0", v1alpha1.DecisionDeprecate, "")
	s.status("1.3.0", v1alpha1.ReleaseError)
	s.sees(kept, "1.1.0")
	phase("Retry")
	s.decide("1.3.0", v1alpha1.DecisionRetry, "")
	s.weight("1.3.0", 10)
	phase("Adopt")
	s.decide("1.3.0", v1alpha1.DecisionAdopt, "")
	s.active("1.3.0")
	s.sees(kept, "1.3.0")

	phase("deleted canary pod")
	s.push("1.4.0")
	s.weight("1.4.0", 10)
	pods, err := s.pods(t.Context(), "1.4.0")
	if err != nil || len(pods) == 0 {
		t.Fatalf("find pods of the canary: %d, %v", len(pods), err)
	}
	if err := env.Client.Delete(t.Context(), &pods[0]); err != nil {
		t.Fatal(err)
	}
	s.weight("1.4.0", 50)
	phase("paused")
	change(t, s.ms, func(ms *v1alpha1.Microservice) { ms.Spec.Paused = true })
	s.serves(kept, 5*time.Second)
	if r := s.release("1.4.0"); r.Status != v1alpha1.ReleaseCanary || r.Weight != 50 {
		t.Errorf("1.4.0 is %s at %d%% although the Microservice is paused", r.Status, r.Weight)
	}
	phase("resumed")
	change(t, s.ms, func(ms *v1alpha1.Microservice) { ms.Spec.Paused = false })
	s.decide("1.4.0", v1alpha1.DecisionContinue, "half")
	s.active("1.4.0")
	s.sees(kept, "1.4.0")
	s.serves(kept, 10*time.Second) // Wait until the drain of 1.3.0 has ended.
	verdict(t, kept, fresh)
}
