//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/test/harness"
)

// TestProbe runs canaries under continuous requests, with a gateway that loads routes every 2 s. With
// confirm: Probe, no revision is confirmed before the canary responds, or while the previous release still
// responds. The test measures the time from the write of a weight until the weight is served, and from then
// until it is confirmed. With confirm: Status, for comparison, the weight is confirmed earlier.
func TestProbe(t *testing.T) {
	const (
		samples = 4
		// early limits how much earlier than this test the manager may detect that a weight is
		// served. The test sends a request every 5 ms, and half of the requests go to the canary.
		early = 250 * time.Millisecond
		// late is the maximum time from when a weight is served until a probe confirms it. It allows for the
		// pauses between probes.
		late = 3 * time.Second
	)
	t.Cleanup(func() { // The context of the test is already canceled.
		if out, err := exec.Command(filepath.Join(env.root, "bin", "localcluster"), "gateway-restart", "--gateway-throttle", "100ms").CombinedOutput(); err != nil {
			t.Errorf("restore the gateway's throttle: %v\n%s", err, out)
		}
	})
	localcluster(t, "gateway-restart", "--gateway-throttle", "2s")
	for _, confirm := range []v1alpha1.ConfirmMode{v1alpha1.ConfirmProbe, v1alpha1.ConfirmStatus} {
		t.Run(string(confirm), func(t *testing.T) {
			s := newService(t, "probe-"+strings.ToLower(string(confirm))).steps(asking("half", 50))
			s.network.Spec.Provider.Gateway.Confirm = confirm
			s.start("1.0.0")
			answers(t, s.host())
			var served, confirmed, promoted []time.Duration
			previous := "1.0.0"
			for i := range samples {
				version := []string{"1.1.0", "1.2.0", "1.3.0", "1.4.0"}[i]
				written, first := s.watchWeight(), firstAnswer(t, s.host(), version)
				s.push(version)
				at := written(version, func(weight int32) bool { return weight > 0 })
				s.weight(version, 50)
				answered := first()
				served = append(served, max(0, answered.Sub(at)))
				confirmed = append(confirmed, s.confirmedTime().Sub(answered))

				last := lastAnswer(t, s.host(), previous)
				s.decide(version, v1alpha1.DecisionContinue, "half")
				s.active(version)
				promoted = append(promoted, s.confirmedTime().Sub(last()))
				previous = version
			}
			t.Logf("confirm: %s: a weight is served %s after it is written; it is confirmed %s after it is served; a promotion is confirmed %s after the last response of the previous release",
				confirm, durations(served), durations(confirmed), durations(promoted))
			if confirm != v1alpha1.ConfirmProbe {
				return
			}
			if least := slices.Min(append(slices.Clone(confirmed), promoted...)); least < -early {
				t.Errorf("a revision was confirmed %s before it was served", -least)
			}
			if most := slices.Max(confirmed); most > late {
				t.Errorf("a revision was confirmed %s after it was served", most)
			}
			s.unprobed()
		})
	}
}

// confirmedTime returns the time at which the current revision was confirmed.
func (s *service) confirmedTime() time.Time {
	s.t.Helper()
	s.confirmed()
	var p v1alpha1.NetworkPolicy
	if err := env.Client.Get(s.t.Context(), s.key(), &p); err != nil {
		s.t.Fatal(err)
	}
	for _, g := range p.Status.Groups {
		if g.Slug == slug && g.ConfirmedTime != nil {
			return g.ConfirmedTime.Time
		}
	}
	s.t.Fatal("the group has no confirmation time")
	return time.Time{}
}

// unprobed disables the probes again. The rule for probes is removed, and all revisions remain confirmed.
func (s *service) unprobed() {
	s.t.Helper()
	change(s.t, s.network, func(p *v1alpha1.NetworkPolicy) { p.Spec.Provider.Gateway.Confirm = v1alpha1.ConfirmStatus })
	within(s.t, 30*time.Second, "the rule for probes to be removed", s.rules(1))
	s.confirmed()
}

// rules returns a poll that is done when each route of the service has the given number of rules.
func (s *service) rules(want int) harness.Poll {
	return func(ctx context.Context) (bool, string, error) {
		var routes gatewayv1.HTTPRouteList
		if err := env.Client.List(ctx, &routes, client.InNamespace(s.namespace)); err != nil {
			return false, "", err
		}
		for _, r := range routes.Items {
			if len(r.Spec.Rules) != want {
				return false, fmt.Sprintf("%s has %d rules", r.Name, len(r.Spec.Rules)), nil
			}
		}
		return len(routes.Items) > 0, "", nil
	}
}
