package traffic

import (
	"maps"
	"testing"
	"time"

	"github.com/heighliner/heighliner/internal/release"
)

// TestRestoreWithoutStatuses checks that, after a restore of a namespace without statuses, the
// previously active release is active (rule 31).
func TestRestoreWithoutStatuses(t *testing.T) {
	restored(t, "three versions", "1.1.0", func(p *pair) {
		p.spec.MinimumAvailable = 3
		p.push("1.0.1")
		p.run(2 * time.Hour)
		p.push("1.1.0")
		p.run(2 * time.Hour)
	})
}

// TestRestoreDuringARollout checks the same as TestRestoreWithoutStatuses, but with a rollout in
// progress, or with releases that have the same number of replicas.
func TestRestoreDuringARollout(t *testing.T) {
	for name, h := range map[string]struct {
		want string
		play func(p *pair)
	}{
		"a canary of 10% next to the first release": {"1.0.0", func(p *pair) {
			p.push("1.1.0")
			p.run(10 * time.Minute)
		}},
		"a release that crashes next to the first one": {"1.0.0", func(p *pair) {
			p.broken["1.1.0"] = true
			p.push("1.1.0")
			p.run(time.Minute)
		}},
		"a canary next to the second release": {"1.1.0", func(p *pair) {
			p.push("1.1.0")
			p.run(2 * time.Hour)
			p.push("1.2.0")
			p.run(10 * time.Minute)
		}},
		"a rollback to the first release": {"1.0.0", func(p *pair) {
			p.push("1.1.0")
			p.run(2 * time.Hour)
			p.spec.Pins = []release.Pin{{Group: "1.x", Version: "1.0.0"}}
			p.run(time.Hour)
		}},
		"one replica, even for retained releases": {"1.1.0", func(p *pair) {
			p.spec.Replicas, p.spec.Standby, p.spec.MinimumAvailable = 1, 1, 3
			p.push("1.1.0")
			p.run(2 * time.Hour)
		}},
		"full standby": {"1.1.0", func(p *pair) {
			p.spec.StandbyFull, p.spec.MinimumAvailable = true, 3
			p.push("1.1.0")
			p.run(2 * time.Hour)
		}},
	} {
		restored(t, name, h.want, h.play)
	}
}

// restored runs a history after the first release, 1.0.0. It then removes the statuses of the
// Microservice and the policy, or of all objects, and checks that the previously active version is
// active again, regardless of which controller reconciles first.
func restored(t *testing.T, name, want string, play func(p *pair)) {
	for _, releases := range []bool{false, true} {
		for _, by := range []string{"planner first", "policy first", "releases, then planner"} {
			t.Run(name+map[bool]string{false: ", of Microservice and policy, ", true: ", of all objects, "}[releases]+by, func(t *testing.T) {
				p := newPair()
				p.spec.Replicas, p.startup = 4, 5*time.Second
				p.setSteps([]release.Step{{Weight: 10, Pause: time.Hour}})
				p.policy("shop").policy.Spec.Domains = someDomains(1)
				p.push("1.0.0")
				p.run(time.Minute)
				play(p)
				if a := p.rollout.Groups[0].ActiveRow(); a == nil || a.Version != want {
					t.Fatalf("before: %+v", p.rollout.Groups)
				}
				p.wipe(releases)
				if by == "policy first" {
					p.pass("shop", 0)
				}
				if by == "releases, then planner" {
					p.pods()
				}
				p.plan(0)
				p.reportRelease()
				p.settle()
				if a := p.rollout.Groups[0].ActiveRow(); a == nil || a.Version != want {
					t.Errorf("the active release is %v, want %s; the gateway serves %v", a, want, p.nets["shop"].serves)
				}
				if p.err != nil {
					t.Error(p.err)
				}
			})
		}
	}
}

// TestLastObjectOfAnEndedGroupDeleted ends all groups and deletes the last object of a group, so
// that the group is removed before its routes. The routes are deleted with the groups that are
// ending, and retain none of these groups.
func TestLastObjectOfAnEndedGroupDeleted(t *testing.T) {
	p := newPair()
	p.setSteps([]release.Step{{Weight: 10, Pause: time.Hour}})
	p.policy("shop").policy.Spec.Domains = someDomains(1)
	p.push("1.0.0")
	p.run(time.Minute)
	p.push("2.0.0")
	p.run(time.Minute)
	if len(p.rollout.Groups) != 2 {
		t.Fatalf("before: %+v", p.rollout.Groups)
	}
	p.spec.Ended = []string{"1.x", "2.x"}
	maps.DeleteFunc(p.objects, func(_ string, o *object) bool { return o.Slug == "1-x" })
	p.run(time.Hour)
	if len(p.rollout.Groups) > 0 {
		t.Errorf("remaining groups: %+v", p.rollout.Groups)
	}
	if p.err != nil {
		t.Error(p.err)
	}
}

// TestDomainOfACanaryInAGroupThatIsGone ends the only group during a canary and deletes all of its
// objects. Its routes stay until another group serves, and the status of the canary domain reports
// the release that the gateway serves.
func TestDomainOfACanaryInAGroupThatIsGone(t *testing.T) {
	p := newPair()
	p.setSteps([]release.Step{{Weight: 10, Pause: time.Hour}})
	p.policy("shop").policy.Spec.Domains = someDomains(1 | 16)
	p.push("1.0.0")
	p.run(time.Minute)
	p.push("1.1.0")
	p.run(time.Minute)
	if g := p.rollout.Groups[0]; g.Rollout == nil || g.Rollout.Step != 1 {
		t.Fatalf("before: %+v", g)
	}
	p.spec.Ended = []string{"1.x"}
	clear(p.objects)
	p.endpoints()
	p.pass("shop", 0) // The canary domain falls back to the split of the group.
	p.run(time.Hour)
	for _, d := range p.nets["shop"].policy.Status.Domains {
		if len(d.Backends) != 2 || d.Backends[0].Weight+d.Backends[1].Weight != 100 || d.Backends[0].Version != "1.0.0" || d.Backends[1].Version != "1.1.0" {
			t.Errorf("status of %s is %+v, but the gateway serves %v", d.Domain, d, p.nets["shop"].serves)
		}
	}
	p.checkTruth()
	if p.err != nil {
		t.Error(p.err)
	}
}
