package release

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var t0 = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func statuses(g Group) map[string]any {
	m := map[string]any{}
	for _, r := range g.Releases {
		m[r.Version] = [2]any{r.Status, r.Weight}
	}
	return m
}

// TestShortestCanary runs the shortest canary step by step: pods, step, confirmation, pause,
// promotion, drain.
func TestShortestCanary(t *testing.T) {
	o := Observed{
		Spec:       Spec{Replicas: 2, Standby: 1, MinimumAvailable: 1, Deadline: time.Minute, Drain: 5 * time.Second, Steps: []Step{{Weight: 10, Pause: 10 * time.Second}}},
		Config:     "c1",
		Candidates: []Candidate{{Slug: "1-x", Name: "1.x", Version: "1.0.0", Release: "shop-100"}},
	}
	now := t0
	do := func() Result {
		t.Helper()
		p := Plan(o, now)
		if p.Changed {
			o.State = p.State
		}
		if again := Plan(o, now); again.Changed {
			t.Fatalf("the plan is not settled: %s", cmp.Diff(o.State, again.State))
		}
		return p
	}
	expect := func(want map[string]any) {
		t.Helper()
		if d := cmp.Diff(want, statuses(o.State.Groups[0])); d != "" {
			t.Fatal(d)
		}
	}
	p := do()
	expect(map[string]any{"1.0.0": [2]any{Pending, 0}})
	if d := cmp.Diff([]Ensure{{Slug: "1-x", Release: "shop-100", Replicas: 2, Create: true, Stamp: 1}}, p.Ensure); d != "" {
		t.Fatal(d)
	}
	o.Objects = []Object{{Release: "shop-100", Slug: "1-x", Name: "1.x", Version: "1.0.0", Config: "c1", Created: t0, Stamp: 1, Replicas: 2, Available: 2}}
	do()
	expect(map[string]any{"1.0.0": [2]any{Active, 100}})
	rev := o.State.Groups[0].TrafficRevision
	o.Policies = []Policy{{Name: "shop", Groups: []Report{{Slug: "1-x", Revision: rev, Confirmed: now, References: []string{"shop-100"}, Active: "shop-100"}}}}
	o.Candidates = append(o.Candidates, Candidate{Slug: "1-x", Name: "1.x", Version: "1.1.0", Release: "shop-110"})
	now = now.Add(time.Second)
	do()
	expect(map[string]any{"1.0.0": [2]any{Active, 100}, "1.1.0": [2]any{Pending, 0}})
	o.Objects = append(o.Objects, Object{Release: "shop-110", Slug: "1-x", Name: "1.x", Version: "1.1.0", Config: "c1", Created: now, Stamp: 3, Replicas: 2, Available: 2})
	do()
	expect(map[string]any{"1.0.0": [2]any{Active, 90}, "1.1.0": [2]any{Canary, 10}})
	now = now.Add(time.Minute / 2)
	do()
	expect(map[string]any{"1.0.0": [2]any{Active, 90}, "1.1.0": [2]any{Canary, 10}})
	o.Policies[0].Groups[0].Revision = o.State.Groups[0].TrafficRevision
	o.Policies[0].Groups[0].Confirmed = now.Add(-3 * time.Second)
	o.Policies[0].Groups[0].References = []string{"shop-100", "shop-110"}
	p = do()
	if want := now.Add(3 * time.Second); !p.RequeueTime.Equal(want) {
		t.Fatalf("requeue at %s, want %s, when the pause is recorded", p.RequeueTime, want)
	}
	now = now.Add(10 * time.Second)
	do()
	expect(map[string]any{"1.0.0": [2]any{Deprecated, 0}, "1.1.0": [2]any{Active, 100}})
	o.Policies[0].Groups[0].Revision = o.State.Groups[0].TrafficRevision
	o.Policies[0].Groups[0].Confirmed = now
	o.Policies[0].Groups[0].References = []string{"shop-110"}
	p = do()
	if want := now.Add(5 * time.Second); !p.RequeueTime.Equal(want) {
		t.Fatalf("requeue at %s, want %s", p.RequeueTime, want)
	}
	now = now.Add(5 * time.Second)
	p = do()
	expect(map[string]any{"1.1.0": [2]any{Active, 100}})
	if d := cmp.Diff([]Retire{{Slug: "1-x", Release: "shop-100", Delete: true}}, p.Retire); d != "" {
		t.Fatal(d)
	}
}
