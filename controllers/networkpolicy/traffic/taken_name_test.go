package traffic

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/heighliner/heighliner/internal/release"
)

// TestTakenNameOfAService checks that a policy writes nothing in a stable state even though the
// name of one of its Services is taken.
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
					t.Errorf("reconcile %d writes the status twice (Reserve adds references: %t): %s\nand reverts the change: %s", i, more, cmp.Diff(before, now), cmp.Diff(now, n.policy.Status))
				}
			}
		})
	}
}

// TestTakenNameOfAServiceIsInNoRoute checks that no route refers to a Service of another owner,
// even if no other release may have the traffic, because the canary that had all the traffic is
// superseded.
func TestTakenNameOfAServiceIsInNoRoute(t *testing.T) {
	p := newPair()
	p.setSteps([]release.Step{{Weight: 0, Pause: 24 * time.Hour}, {Weight: 50, Pause: time.Hour}})
	p.policy("shop").policy.Spec.Domains = someDomains(1)
	p.push("1.1.0")
	p.plan(0)
	p.pods()
	p.plan(0)
	active := p.rollout.Groups[0].ActiveRow().Release
	n := p.policy("api")
	n.policy.Spec.Domains = someDomains(2)
	taken := newPlanner(n.facts()).ReleaseService(active)
	n.foreign[taken] = true
	p.push("1.2.0")
	p.settle()
	p.spec.Pins = []release.Pin{{Release: active}}
	p.run(time.Hour)
	if p.err != nil {
		t.Error(p.err)
	}
	for _, r := range n.facts().Live {
		if slices.Contains(r.Services, taken) {
			t.Errorf("route of %v refers to %s", r.Hostnames, taken)
		}
	}
	if g := Find(n.policy.Status.Groups, "1-x"); g.Reason != "NameConflict" || len(g.References) == 0 {
		t.Errorf("the policy does not report why it waits: %+v", g)
	}
	clear(n.foreign)
	p.run(time.Hour)
	if g := Find(n.policy.Status.Groups, "1-x"); p.err != nil || !slices.Equal(g.References, []string{active}) || g.Reason != "" {
		t.Errorf("after the name is free again: %v %+v", p.err, g)
	}
}
