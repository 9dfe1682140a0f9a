package traffic

import (
	"testing"
	"time"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/release"
)

// TestDomainOfAFrozenCanary checks that a freeze keeps a domain from beginning to route to a canary that was never active, and that it
// keeps a domain that does.
func TestDomainOfAFrozenCanary(t *testing.T) {
	const host = "shop.example.com"
	for name, tc := range map[string]struct {
		steps []release.Step
		edit  func(*v1alpha1.NetworkPolicySpec)
		after string
	}{
		"none: the control": {[]release.Step{{Weight: 10, Pause: time.Hour}, {Weight: 50}}, func(*v1alpha1.NetworkPolicySpec) {}, "1.0.0=90 1.1.0=10"},
		"release.status": {[]release.Step{{Weight: 10, Pause: time.Hour}, {Weight: 50}}, func(s *v1alpha1.NetworkPolicySpec) {
			s.Domains[0].Release = &v1alpha1.DomainRelease{Status: v1alpha1.DomainCanary}
		}, "1.1.0=100"},
		"release.version": {[]release.Step{{Weight: 10, Pause: time.Hour}, {Weight: 50}}, func(s *v1alpha1.NetworkPolicySpec) {
			s.Domains[0].Release = &v1alpha1.DomainRelease{Version: "1.1.0"}
		}, "1.1.0=100"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair()
			p.setSteps(tc.steps)
			n := p.policy("shop")
			n.world.t = t
			n.change(func(s *v1alpha1.NetworkPolicySpec) {
				s.Domains = []v1alpha1.Domain{{Domain: host, Port: "http"}}
			})
			p.push("1.0.0")
			p.run(5 * time.Minute)
			p.push("1.1.0")
			p.run(5 * time.Minute)
			want(t, "split in the first step", n.split(host), "1.0.0=90 1.1.0=10")
			p.spec.Freeze = &release.Freeze{Name: `Freeze "fair"`, Reason: "fair", Until: p.now.Add(24 * time.Hour)}
			p.run(time.Minute)
			n.change(tc.edit)
			p.run(5 * time.Minute)
			if p.err != nil {
				t.Fatal(p.err)
			}
			want(t, "split while frozen", n.split(host), "1.0.0=90 1.1.0=10")
			p.spec.Freeze = nil
			p.run(time.Minute)
			want(t, "split after the freeze", n.split(host), tc.after)
			p.spec.Freeze = &release.Freeze{Name: `Freeze "fair"`, Reason: "fair", Until: p.now.Add(24 * time.Hour)}
			p.run(5 * time.Minute)
			want(t, "split in another freeze", n.split(host), tc.after)
		})
	}
}

// TestEditedStepsOfAFrozenCanary checks that a freeze keeps the weights of a canary whose steps are edited.
func TestEditedStepsOfAFrozenCanary(t *testing.T) {
	const host = "shop.example.com"
	for name, edited := range map[string][]release.Step{
		"none":         nil,
		"all":          {{Weight: 100}},
		"more":         {{Weight: 60, Pause: time.Minute}},
		"an empty one": {{Weight: 10}},
		"lower, then":  {{Weight: 5}, {Weight: 90}},
		"match":        {{Weight: 10, Match: true, Pause: time.Minute}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair()
			p.setSteps([]release.Step{{Weight: 10, Pause: time.Hour}, {Weight: 50}})
			n := p.policy("shop")
			n.world.t = t
			n.change(func(s *v1alpha1.NetworkPolicySpec) {
				s.Domains = []v1alpha1.Domain{{Domain: host, Port: "http"}}
			})
			p.push("1.0.0")
			p.run(5 * time.Minute)
			p.push("1.1.0")
			p.run(5 * time.Minute)
			want(t, "split in the first step", n.split(host), "1.0.0=90 1.1.0=10")
			p.spec.Freeze = &release.Freeze{Name: `Freeze "fair"`, Reason: "fair", Until: p.now.Add(24 * time.Hour)}
			p.run(time.Minute)
			p.setSteps(edited)
			p.run(2 * time.Hour)
			if p.err != nil {
				t.Fatal(p.err)
			}
			want(t, "split while frozen", n.split(host), "1.0.0=90 1.1.0=10")
		})
	}
}
