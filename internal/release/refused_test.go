package release

import (
	"testing"
	"time"
)

// refused contains histories in which the API server rejects writes to the object of a release.
var refused = []scene{
	{"refused: an abort by a pin does not wait for the pinned release", func(h tale) {
		h.live()
		h.push("1.1.0")
		h.run(time.Hour)
		h.steps(Step{Weight: 50, Pause: 24 * time.Hour})
		h.push("1.2.0")
		h.run(time.Minute)
		h.want("half", map[string]string{"1.1.0": "active 50", "1.2.0": "canary 50"})
		h.denied[h.release("1.0.0")] = true
		h.pin(Pin{Group: "1.x", Version: "1.0.0"})
		h.run(time.Minute)
		h.want("aborted", map[string]string{"1.0.0": "deprecated 0", "1.1.0": "active 100"})
		h.state("aborted", Blocked, true)
		clear(h.denied)
		h.run(time.Minute)
		h.want("restored", map[string]string{"1.0.0": "active 100", "1.1.0": "deprecated 0"})
	}},
	{"refused: a bad canary does not wait for a release of another group", func(h tale) {
		h.live()
		h.push("1.1.0", "2.0.0")
		h.run(time.Hour)
		h.steps(Step{Weight: 50, Pause: 24 * time.Hour})
		h.push("2.1.0")
		h.run(time.Minute)
		h.want("half", map[string]string{"2.0.0": "active 50", "2.1.0": "canary 50"})
		h.denied[h.release("1.0.0")] = true
		h.pin(Pin{Group: "1.x", Version: "1.0.0"})
		h.spoil(h.object("2.1.0"), "CrashLoopBackOff")
		h.run(time.Hour)
		h.want("a bad canary", map[string]string{"1.0.0": "deprecated 0", "1.1.0": "active 100", "2.0.0": "active 100", "2.1.0": "error 0"})
	}},
	{"refused: the decision Deprecate is applied, and Continue waits", func(h tale) {
		h.live()
		h.steps(Step{Weight: 50, Approval: true})
		h.push("1.1.0")
		h.run(time.Minute)
		h.denied[h.release("1.1.0")] = true
		h.decideOn("1.1.0", Continue, "1")
		h.run(time.Hour)
		h.want("Continue", map[string]string{"1.0.0": "active 50", "1.1.0": "canary 50"})
		h.state("Continue", Blocked, true)
		h.decideOn("1.1.0", Deprecate, "")
		h.run(time.Minute)
		h.want("Deprecate", map[string]string{"1.0.0": "active 100", "1.1.0": "error 0"})
		h.outcome("Deprecate", "1.1.0", DecisionApplied)
	}},
	{"refused: the decision Retry waits until the object can be changed", func(h tale) {
		h.live()
		h.broken["1.1.0"] = "CrashLoopBackOff"
		h.push("1.1.0")
		h.run(time.Hour)
		h.want("failed", map[string]string{"1.0.0": "active 100", "1.1.0": "error 0"})
		h.denied[h.release("1.1.0")] = true
		delete(h.broken, "1.1.0")
		h.object("1.1.0").why = ""
		h.decideOn("1.1.0", Retry, "")
		h.run(time.Hour)
		h.want("waits", map[string]string{"1.0.0": "active 100", "1.1.0": "error 0"})
		h.state("waits", Blocked, true)
		clear(h.denied)
		h.run(time.Hour)
		h.want("retried", map[string]string{"1.1.0": "active 100"})
	}},
	{"refused: after ConfirmRollout, a release whose object cannot be scaled up waits, and does not fail", func(h tale) {
		h.live()
		h.gates(ConfirmRollout)
		h.hooks[ConfirmRollout] = "no"
		h.push("1.1.0")
		h.run(time.Minute)
		h.want("without pods", map[string]string{"1.0.0": "active 100", "1.1.0": "pending 0"})
		h.denied[h.release("1.1.0")] = true
		delete(h.hooks, ConfirmRollout)
		h.run(time.Hour)
		h.want("the hooks approve", map[string]string{"1.0.0": "active 100", "1.1.0": "pending 0"})
		h.message("the hooks approve", Blocked, "1.1.0 is blocked at 0%: its VersionedMicroservice cannot be created or changed (NotCreated)")
		clear(h.denied)
		h.run(time.Minute)
		h.want("changed", map[string]string{"1.1.0": "active 100"})
	}},
	{"refused: a release that is created after its deadline has time to become available", func(h tale) {
		h.policy("web")
		h.startup = time.Minute
		h.refuse = true
		h.push("1.0.0", "1.1.0")
		h.run(time.Hour)
		h.want("refused", map[string]string{"1.1.0": "pending 0", "1.0.0": ""})
		h.state("refused", Blocked, true)
		h.refuse = false
		h.run(2 * time.Minute)
		h.want("created", map[string]string{"1.1.0": "active 100", "1.0.0": ""})
	}},
	{"refused: a release that is created shortly before its deadline has time to become available", func(h tale) {
		h.policy("web")
		h.startup = time.Minute
		h.refuse = true
		h.push("1.0.0", "1.1.0")
		h.run(9*time.Minute + 50*time.Second)
		h.want("refused", map[string]string{"1.1.0": "pending 0", "1.0.0": ""})
		h.refuse = false
		h.run(2 * time.Minute)
		h.want("created", map[string]string{"1.1.0": "active 100", "1.0.0": ""})
	}},
	{"refused: a canary whose object cannot be scaled up keeps its step, and does not fail", func(h tale) {
		h.edit("size", func(s *Spec) { s.Replicas, s.MatchWeight = 4, true })
		h.live()
		h.steps(Step{Weight: 25, Pause: time.Minute}, Step{Weight: 50, Pause: time.Minute})
		h.push("1.1.0")
		h.run(time.Second)
		for range 100 { // until it has the pods of its second step
			if h.object("1.1.0").Replicas == 2 {
				break
			}
			h.run(time.Second)
		}
		h.denied[h.release("1.1.0")] = true
		h.run(time.Hour)
		h.want("up to the weight that its pods can serve", map[string]string{"1.0.0": "active 50", "1.1.0": "canary 50"})
		h.state("up to the weight that its pods can serve", Blocked, true)
		clear(h.denied)
		h.run(5 * time.Minute)
		h.want("changed", map[string]string{"1.1.0": "active 100"})
	}},
	{"refused: a retained release replaces a lost active release", func(h tale) {
		h.live()
		h.push("1.1.0")
		h.run(time.Hour)
		h.denied[h.release("1.0.0")] = true
		h.withdraw("1.1.0", Gone)
		h.remove(h.object("1.1.0"))
		h.run(time.Hour)
		h.want("lost", map[string]string{"1.0.0": "active 100", "1.1.0": ""})
	}},
}

func init() { histories = append(histories, refused...) }

// TestRefusedObjectsGetNoStamp checks that a plan does not stamp an object if the API server rejects changes to it.
// Otherwise, all other actions of the plan would wait for that object.
func TestRefusedObjectsGetNoStamp(t *testing.T) {
	t.Parallel()
	o := Observed{
		Spec: Spec{Replicas: 1, MinimumAvailable: 1, Deadline: time.Minute},
		Objects: []Object{
			{Release: "a", Slug: "1-x", Name: "1.x", Version: "1.0.0", Replicas: 1, Available: 1, Stamp: 3, Refused: true},
			{Release: "b", Slug: "1-x", Name: "1.x", Version: "1.1.0", Replicas: 1, Available: 1, Stamp: 4},
		},
	}
	p := Plan(o, t0) // The rollout state is lost. Each recovered object is stamped, unless changes to it are rejected.
	if g := p.State.group("1-x"); g == nil || g.ActiveRow() == nil || g.ActiveRow().Release != "a" {
		t.Fatalf("a is not active:\n%s", describe(o, p))
	}
	for _, e := range p.Ensure {
		if e.Release == "a" && e.Stamp > 0 {
			t.Errorf("release a gets stamp %d", e.Stamp)
		}
	}
}
