package release

import (
	"strings"
	"testing"
	"time"
)

// TestRestoredWithoutStatuses covers a backup that is restored without the statuses of the Microservice, its releases, and its policies. The
// first release was serving, and the rollout of a newer release was in progress. The newer release is crashing, is starting, or is a canary.
// The plan waits for the reports that show which release was serving, and makes that release active again.
func TestRestoredWithoutStatuses(t *testing.T) {
	t.Parallel()
	object := func(name, version string, stamp int64, available int, made time.Time) Object {
		return Object{Release: name, Slug: "1-x", Name: "1.x", Level: "Release", Version: version, Config: "c1", Created: made, Stamp: stamp, Replicas: 2, Available: available, Current: available}
	}
	for name, available := range map[string]int{"crashes": 0, "starts": 1, "canary": 2} {
		for _, policy := range []bool{false, true} {
			t.Run(name+map[bool]string{false: ", without a policy", true: ""}[policy], func(t *testing.T) {
				t.Parallel()
				o := Observed{
					Config:  "c1",
					Spec:    Spec{Replicas: 2, MinimumAvailable: 3, Deadline: 10 * time.Minute, Drain: time.Minute, Steps: twoSteps},
					Objects: []Object{object("one", "1.0.0", 1, 2, t0.Add(-2*time.Hour)), object("two", "1.1.0", 3, available, t0.Add(-time.Hour))},
					Candidates: []Candidate{
						{Slug: "1-x", Name: "1.x", Level: "Release", Version: "1.1.0", Release: "two"},
						{Slug: "1-x", Name: "1.x", Level: "Release", Version: "1.0.0", Release: "one"},
					},
				}
				waits := func(what string) {
					t.Helper()
					p := Plan(o, t0)
					if p.Changed || len(p.Ensure)+len(p.Retire) > 0 {
						t.Fatalf("the plan does not wait for %s: %+v", what, p)
					}
					if len(p.Notes) != 1 || p.Notes[0].Condition() == "" || !strings.Contains(p.Notes[0].Message, what) {
						t.Errorf("the wait for %s is not reported: %+v", what, p.Notes)
					}
				}
				if policy {
					o.Policies = []Policy{{Name: "web", Unreported: true}}
					waits(`networkpolicies.hlnr.io "web"`)
					o.Policies = []Policy{{Name: "web", Groups: []Report{{Slug: "1-x", Active: "one", References: []string{"one", "two"}}}}}
				}
				settled := o.Objects
				o.Objects = nil
				for _, c := range settled {
					c.Available, c.Current, c.Unsettled = 0, 0, true
					o.Objects = append(o.Objects, c)
				}
				waits("VersionedMicroservices")
				o.Objects = settled
				p := Plan(o, t0)
				if !p.Changed || p.State.Groups[0].ActiveRow() == nil || p.State.Groups[0].ActiveRow().Release != "one" {
					t.Errorf("the release that was serving is not active: %+v", p.State.Groups)
				}
			})
		}
	}
}
