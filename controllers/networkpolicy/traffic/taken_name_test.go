package traffic

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestTakenNameOfAService: a policy writes nothing while nothing changes, although the name of one of its Services is taken.
func TestTakenNameOfAService(t *testing.T) {
	for name, prepare := range map[string]func(n *front){
		"Services only":                       func(n *front) { n.policy.Spec.Provider, n.policy.Spec.Domains = nil, nil; n.foreign["shop"] = true },
		"quota":                               func(n *front) { n.full, n.foreign["shop-1-x"] = true, true },
		"Services only, versions not grouped": func(n *front) { n.policy.Spec.Provider, n.policy.Spec.Domains = nil, nil; n.foreign["shop"] = true },
		"domain of a Gateway, versions not grouped, release not ready": func(n *front) { n.foreign["shop"] = true },
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair()
			n := p.policy("shop")
			n.policy.Spec.Domains = someDomains(1)
			if strings.Contains(name, "not grouped") {
				p.scheme = "all"
			}
			p.push("1.3.0")
			if prepare(n); name == "quota" {
				p.push("2.1.0")
			}
			p.plan(0)
			p.pods()
			p.plan(0)
			if strings.Contains(name, "not ready") {
				for _, o := range p.objects {
					o.ready = 0
				}
			}
			p.pass("shop", 0)
			p.advance(time.Minute)
			for i := range 5 {
				before := n.policy.Status
				f := n.facts()
				now, more := Reserve(f, Plan(f))
				if wrote := p.pass("shop", 0); wrote && i > 1 {
					t.Errorf("pass %d writes the status again, twice (Reserve adds: %t): %s\nand back: %s", i, more, cmp.Diff(before, now), cmp.Diff(now, n.policy.Status))
				}
			}
		})
	}
}
