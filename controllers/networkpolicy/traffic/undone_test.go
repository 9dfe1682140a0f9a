package traffic

import (
	"testing"
	"time"

	"github.com/heighliner/heighliner/internal/release"
)

// TestUndoOfAnEnd ends a group, and reopens it during the drain delay. The release that served
// previously serves again, and deprecated releases get no traffic.
func TestUndoOfAnEnd(t *testing.T) {
	p := newPair()
	p.spec.Drain, p.startup = 30*time.Second, 5*time.Second
	p.setSteps([]release.Step{{Weight: 10, Pause: time.Hour}})
	p.policy("shop").policy.Spec.Domains = someDomains(1)
	p.push("1.0.0")
	p.run(time.Minute)
	p.push("1.1.0")
	p.run(time.Minute)
	p.objects["1-x-1-1-0-c1"].Decision = &release.Decision{Action: release.Deprecate, ID: "1"}
	p.run(time.Minute)
	p.spec.Ended = []string{"1.x"}
	p.run(2 * time.Second)
	p.spec.Ended = nil
	for _, d := range []time.Duration{time.Second, time.Minute} {
		p.run(d)
		if a := p.rollout.Groups[0].ActiveRow(); a == nil || a.Version != "1.0.0" {
			t.Errorf("%s after the undo: active is %+v, want 1.0.0", d, a)
		}
		for _, s := range p.nets["shop"].serves {
			if s.releases["1-x-1-1-0-c1"] > 0 {
				t.Errorf("%s after the undo: the gateway serves %v with %v, but 1.1.0 is deprecated", d, s.hosts, s.releases)
			}
		}
	}
	if p.err != nil {
		t.Error(p.err)
	}
}
