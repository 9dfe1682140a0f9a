//go:build e2e

package e2e

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// TestBrokenActive makes all pods of the active release unready while a canary has a tenth of the traffic.
// All traffic is moved to ready pods, the status shows this, and the canary can still become active. Requests
// fail only until the routes follow the endpoints.
func TestBrokenActive(t *testing.T) {
	s := newService(t, "broken").steps(asking("some", 10))
	s.push("1.0.0", "FAIL_READINESS", "60s")
	s.create(s.images, s.ms, s.network)
	s.active("1.0.0")
	l := s.load(30, false)
	s.push("1.1.0")
	s.weight("1.1.0", 10)

	l.Mark("the active release breaks")
	s.sees(l, "1.1.0")
	stable(t, l, 3*time.Second)
	lost := l.Report()
	if n := len(lost.Failures); n > 0 {
		gap := lost.Failures[n-1].At.Sub(lost.Failures[0].At)
		t.Logf("%d requests failed between the loss of the last endpoint and the change to the routes, within %s", lost.Total.Failed, gap)
		if gap > soon || lost.FailuresOmitted > 0 {
			t.Errorf("requests failed for %s: %v", gap, lost.Failures)
		}
	}
	l.Mark("only the canary serves")
	var withheld []string
	wait(t, "the status to show the broken release", func(ctx context.Context) (bool, string, error) {
		var p v1alpha1.NetworkPolicy
		if err := env.Client.Get(ctx, s.key(), &p); err != nil {
			return false, "", err
		}
		for _, g := range p.Status.Groups {
			withheld = g.Withheld
		}
		return slices.Contains(withheld, s.release("1.0.0").VersionedMicroservice), "", nil
	})
	s.serves(l, 5*time.Second)
	s.decide("1.1.0", v1alpha1.DecisionContinue, "some")
	s.active("1.1.0")
	if report := l.Stop(); report.Total.Failed != lost.Total.Failed {
		t.Errorf("%d requests failed after the routes were changed: %v", report.Total.Failed-lost.Total.Failed, report.Failures)
	}
}
