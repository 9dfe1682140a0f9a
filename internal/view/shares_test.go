package view_test

import (
	"strings"
	"testing"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/view"
)

// listeners replaces the domains of a policy with listeners that have the same backends.
func listeners(p *v1alpha1.NetworkPolicy) {
	for i, d := range p.Status.Domains {
		p.Status.Listeners = append(p.Status.Listeners, v1alpha1.ListenerStatus{Name: string(rune('a' + i)), Group: d.Group, Programmed: d.Programmed, Backends: d.Backends})
	}
	p.Status.Domains = nil
}

// services removes the domains of a policy, so that each group has only a Service. The Service selects the active release of the group.
func services(p *v1alpha1.NetworkPolicy) {
	p.Spec.Provider, p.Spec.Domains, p.Status.Domains = nil, nil, nil
	for i := range p.Status.Groups {
		p.Status.Groups[i].Split = v1alpha1.SplitWhole
	}
}

// TestShareWithoutHosts checks the share of releases to which no host routes. The policies then show the weight in the status of listeners and
// user-managed routes, or only confirm it.
func TestShareWithoutHosts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		story, version string
		edit           func(p *v1alpha1.NetworkPolicy)
		want           string
		programmed     bool
	}{
		"only Services":               {"active", "1.0.0", services, "100%", false},
		"only Services, canary":       {"pause", "1.1.0", services, "requested 10% · not programmed (", false},
		"only Services, unconfirmed":  {"active", "1.0.0", func(p *v1alpha1.NetworkPolicy) { services(p); p.Status.Groups[0].Revision-- }, "requested 100% · not programmed (", false},
		"only Services, never routed": {"active", "1.0.0", func(p *v1alpha1.NetworkPolicy) { services(p); p.Status.Groups[0].Revision = 0 }, "requested 100% · not programmed (", false},
		"no route left": {"active", "1.0.0", func(p *v1alpha1.NetworkPolicy) {
			p.Status.Domains, p.Status.Groups[0].Unrouted = nil, true
		}, "requested 100% · not programmed (", false},
		"withheld": {"active", "1.0.0", func(p *v1alpha1.NetworkPolicy) {
			services(p)
			p.Status.Groups[0].Withheld = p.Status.Groups[0].References
		}, "requested 100% · withheld: no ready endpoint", false},
		"listeners":         {"pause", "1.1.0", listeners, "10%", true},
		"listeners, active": {"pause", "1.0.0", listeners, "90%", true},
		"listener that is not programmed": {"pause", "1.1.0", func(p *v1alpha1.NetworkPolicy) {
			listeners(p)
			p.Status.Listeners[0].Programmed = false
		}, "requested 10% · not programmed (", false},
		"user-managed TCPRoute": {"pause", "1.1.0", func(p *v1alpha1.NetworkPolicy) {
			d := p.Status.Domains[0]
			p.Status.Routes = []v1alpha1.RouteStatus{{Kind: "TCPRoute", Name: "shop", Group: d.Group, Programmed: true, Backends: d.Backends}}
			p.Status.Domains = nil
		}, "10%", true},
		"the only host routes to a newer group": {"two groups", "1.0.0", func(p *v1alpha1.NetworkPolicy) {
			p.Status.Domains = p.Status.Domains[:1]
			for i := range p.Status.Groups {
				if g := &p.Status.Groups[i]; g.Slug == "1-x" {
					g.Split = v1alpha1.SplitWhole
				}
			}
		}, "100%", false},
		"canary domain without a canary": {"active", "1.0.0", func(p *v1alpha1.NetworkPolicy) {
			p.Status.Domains = append(p.Status.Domains, v1alpha1.DomainStatus{Domain: "canary.example.com", Group: "1-x", Reason: "NoCanary"})
		}, "100%", true},
	} {
		s, ms := played(t, c.story)
		s.Input.NetworkPolicies = []v1alpha1.NetworkPolicy{*s.Input.NetworkPolicies[0].DeepCopy()}
		c.edit(&s.Input.NetworkPolicies[0])
		svc, _ := view.NewService(s.Input, ms.Namespace, ms.Name, s.Now)
		found := false
		for _, g := range svc.Groups {
			for _, r := range g.Releases {
				if r.Version != c.version {
					continue
				}
				found = true
				text := r.Share.String(s.Now)
				same := text == c.want || strings.HasSuffix(c.want, "(") && strings.HasPrefix(text, c.want)
				if !same || (r.Share.Programmed != nil) != c.programmed {
					t.Errorf("%s: %q, %+v, want %q", name, text, r.Share, c.want)
				}
			}
		}
		if !found {
			t.Errorf("%s: there is no release %s", name, c.version)
		}
	}
}

// TestCanaryConfirmedWithoutHosts checks that a canary whose group has no host, but whose weight all policies have confirmed, is live.
func TestCanaryConfirmedWithoutHosts(t *testing.T) {
	t.Parallel()
	s, ms := played(t, "pause")
	s.Input.NetworkPolicies = []v1alpha1.NetworkPolicy{*s.Input.NetworkPolicies[0].DeepCopy()}
	s.Input.NetworkPolicies[0].Status.Domains = nil
	a, err := view.WhyVersion(s.Input, ms.Namespace, ms.Name, "1.1.0", s.Now)
	if want := "1.1.0 is live with a share of 10% in group 1.x: "; err != nil || a.Result != view.Serving || !strings.HasPrefix(a.Summary, want) {
		t.Errorf("%v, %s, %q, want %q", err, a.Result, a.Summary, want)
	}
}
