package traffic

import (
	"testing"
	"time"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/release"
)

const frozenHost = "shop.example.com"

// freeze starts a freeze of one day.
func (p *pair) freeze() {
	p.spec.Freeze = &release.Freeze{Name: `Freeze "fair"`, Reason: "fair", Until: p.now.Add(24 * time.Hour)}
}

// frozenCanary returns a pair whose canary 1.1.0 has 10% of a host's traffic when a freeze begins,
// and the policy of the pair.
func frozenCanary(t *testing.T) (*pair, *front) {
	t.Helper()
	p := newPair()
	p.setSteps([]release.Step{{Weight: 10, Pause: time.Hour}, {Weight: 50}})
	n := p.policy("shop")
	n.world.t = t
	n.change(func(s *v1alpha1.NetworkPolicySpec) {
		s.Domains = []v1alpha1.Domain{{Domain: frozenHost, Port: "http"}}
	})
	p.push("1.0.0")
	p.run(5 * time.Minute)
	p.push("1.1.0")
	p.run(5 * time.Minute)
	want(t, "split in the first step", n.split(frozenHost), "1.0.0=90 1.1.0=10")
	p.freeze()
	p.run(time.Minute)
	return p, n
}

// TestDomainOfAFrozenCanary checks that, during a freeze, a domain does not start routing to a
// canary that was never active, and that a domain that already routes only to that canary keeps its
// target.
func TestDomainOfAFrozenCanary(t *testing.T) {
	for name, tc := range map[string]struct {
		edit  func(*v1alpha1.NetworkPolicySpec)
		after string
	}{
		"no edit": {func(*v1alpha1.NetworkPolicySpec) {}, "1.0.0=90 1.1.0=10"},
		"release.status": {func(s *v1alpha1.NetworkPolicySpec) {
			s.Domains[0].Release = &v1alpha1.DomainRelease{Status: v1alpha1.DomainCanary}
		}, "1.1.0=100"},
		"release.version": {func(s *v1alpha1.NetworkPolicySpec) {
			s.Domains[0].Release = &v1alpha1.DomainRelease{Version: "1.1.0"}
		}, "1.1.0=100"},
	} {
		t.Run(name, func(t *testing.T) {
			p, n := frozenCanary(t)
			n.change(tc.edit)
			p.run(5 * time.Minute)
			if p.err != nil {
				t.Fatal(p.err)
			}
			want(t, "split while frozen", n.split(frozenHost), "1.0.0=90 1.1.0=10")
			p.spec.Freeze = nil
			p.run(time.Minute)
			want(t, "split after the freeze", n.split(frozenHost), tc.after)
			p.freeze()
			p.run(5 * time.Minute)
			want(t, "split in another freeze", n.split(frozenHost), tc.after)
		})
	}
}

// TestEditedStepsOfAFrozenCanary checks that a freeze keeps the weights of a canary whose steps are edited.
func TestEditedStepsOfAFrozenCanary(t *testing.T) {
	for name, edited := range map[string][]release.Step{
		"no steps":               nil,
		"all traffic":            {{Weight: 100}},
		"a higher weight":        {{Weight: 60, Pause: time.Minute}},
		"a step without a match": {{Weight: 10}},
		"a lower weight first":   {{Weight: 5}, {Weight: 90}},
		"match":                  {{Weight: 10, Match: true, Pause: time.Minute}},
	} {
		t.Run(name, func(t *testing.T) {
			p, n := frozenCanary(t)
			p.setSteps(edited)
			p.run(2 * time.Hour)
			if p.err != nil {
				t.Fatal(p.err)
			}
			want(t, "split while frozen", n.split(frozenHost), "1.0.0=90 1.1.0=10")
		})
	}
}

// TestDomainOfAFrozenCanaryThatAlsoWaits checks that, during a freeze, a domain does not start routing to a
// canary that was never active and is also waiting for a pod or for the end of a pause.
func TestDomainOfAFrozenCanaryThatAlsoWaits(t *testing.T) {
	for name, wait := range map[string]func(*pair){
		"a pod restarts": func(p *pair) {
			for _, o := range p.objects {
				if o.Version == "1.1.0" {
					o.ready, o.up = 1, p.now.Add(time.Hour)
				}
			}
		},
		"paused": func(p *pair) { p.spec.Paused = true },
	} {
		t.Run(name, func(t *testing.T) {
			p, n := frozenCanary(t)
			wait(p)
			p.run(time.Minute)
			n.change(func(s *v1alpha1.NetworkPolicySpec) {
				s.Domains[0].Release = &v1alpha1.DomainRelease{Status: v1alpha1.DomainCanary}
			})
			p.run(2 * time.Minute)
			if p.err != nil {
				t.Fatal(p.err)
			}
			want(t, "split while frozen", n.split(frozenHost), "1.0.0=90 1.1.0=10")
		})
	}
}
