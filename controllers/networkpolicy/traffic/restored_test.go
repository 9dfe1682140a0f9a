package traffic

import (
	"maps"
	"testing"
	"time"

	"github.com/heighliner/heighliner/internal/release"
)

// TestRestoreWithoutStatuses: after a restore of a namespace without statuses the release is active that served before (rule 31).
func TestRestoreWithoutStatuses(t *testing.T) {
	for _, releases := range []bool{false, true} {
		for _, by := range []string{"planner first", "policy first", "releases, then planner"} {
			t.Run(map[bool]string{false: "of Microservice and policy, ", true: "of all objects, "}[releases]+by, func(t *testing.T) {
				p := newPair()
				p.spec.Replicas, p.startup = 4, 5*time.Second
				p.setSteps([]release.Step{{Weight: 10, Pause: time.Hour}})
				p.policy("shop").policy.Spec.Domains = someDomains(1)
				p.push("1.0.0")
				p.run(time.Minute)
				p.spec.MinimumAvailable = 3
				p.push("1.0.1")
				p.run(2 * time.Hour)
				p.push("1.1.0")
				p.run(2 * time.Hour)
				if a := p.rollout.Groups[0].ActiveRow(); a == nil || a.Version != "1.1.0" {
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
				if a := p.rollout.Groups[0].ActiveRow(); a == nil || a.Version != "1.1.0" {
					t.Errorf("the group's Service selected 1.1.0 (4 pods); active is %s with %d pods", a.Version, p.objects[a.Release].ready)
				}
				if p.err != nil {
					t.Error(p.err)
				}
			})
		}
	}
}

// TestRestoreDuringARollout is like TestRestoreWithoutStatuses, with a rollout in progress, or with releases of the same size.
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
		"one replica, which is also that of what is retained": {"1.1.0", func(p *pair) {
			p.spec.Replicas, p.spec.Standby, p.spec.MinimumAvailable = 1, 1, 3
			p.push("1.1.0")
			p.run(2 * time.Hour)
		}},
		"standby full": {"1.1.0", func(p *pair) {
			p.spec.StandbyFull, p.spec.MinimumAvailable = true, 3
			p.push("1.1.0")
			p.run(2 * time.Hour)
		}},
	} {
		for _, releases := range []bool{false, true} {
			for _, by := range []string{"planner first", "policy first", "releases, then planner"} {
				t.Run(name+map[bool]string{false: ", of Microservice and policy, ", true: ", of all objects, "}[releases]+by, func(t *testing.T) {
					p := newPair()
					p.spec.Replicas, p.startup = 4, 5*time.Second
					p.setSteps([]release.Step{{Weight: 10, Pause: time.Hour}})
					p.policy("shop").policy.Spec.Domains = someDomains(1)
					p.push("1.0.0")
					p.run(time.Minute)
					h.play(p)
					if a := p.rollout.Groups[0].ActiveRow(); a == nil || a.Version != h.want {
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
					if a := p.rollout.Groups[0].ActiveRow(); a == nil || a.Version != h.want {
						t.Errorf("active is %v, served was %s; the gateway serves %v", a, h.want, p.nets["shop"].serves)
					}
					if p.err != nil {
						t.Error(p.err)
					}
				})
			}
		}
	}
}

// TestLastObjectOfAnEndedGroupDeleted: all groups end, and the last object of one is deleted by hand, so that the group is gone
// before its routes. They go with the groups that end, and keep none of them.
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
		t.Errorf("left of the groups: %+v", p.rollout.Groups)
	}
	if p.err != nil {
		t.Error(p.err)
	}
}
