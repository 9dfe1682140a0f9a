package traffic

import (
	"testing"
	"time"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/release"
)

// TestCanaryOfPolicyMadeAgain checks that a canary of an incoming group keeps its steps when the policy is deleted and
// re-created, even if the manager stops after it has written the routes and before it has reported them.
func TestCanaryOfPolicyMadeAgain(t *testing.T) {
	p := newPair()
	p.spec.Replicas, p.startup = 4, 5*time.Second
	p.setSteps([]release.Step{{Weight: 10, Pause: 5 * time.Hour}})
	p.policy("shop").policy.Spec.Domains = someDomains(1)
	p.push("1.0.0")
	p.run(time.Minute)
	p.push("2.0.0")
	p.run(5 * time.Minute)
	status := func(when string) {
		t.Helper()
		for _, g := range p.rollout.Groups {
			for _, r := range g.Releases {
				if r.Version == "2.0.0" && (r.Status != release.Canary || r.Weight != 10) {
					t.Fatalf("%s: 2.0.0 is %s with %d%%", when, r.Status, r.Weight)
				}
			}
		}
	}
	status("before")
	p.lose("shop")
	p.policy("shop").policy.Spec.Domains = someDomains(1)
	p.plan(0)
	status("without a status")
	p.pass("shop", 0)
	p.nets["shop"].policy.Status = v1alpha1.NetworkPolicyStatus{}
	p.plan(0)
	status("with routes that are not reported")
	p.run(time.Minute)
	status("with its routes")
	if p.err != nil {
		t.Error(p.err)
	}
}
