package release

import (
	"fmt"
	"testing"
	"time"
)

// approve records that a user who is a member of the given groups approves the step of 1.1.0.
func (h tale) approve(by, step string, groups ...string) {
	h.decide(h.release("1.1.0"), Decision{Action: Continue, ID: fmt.Sprint(h.id()), Step: step, By: by, Groups: groups})
	h.run(time.Second)
}

var approvals = []struct {
	name string
	play func(h tale)
}{
	{"rule 21: a step that needs two users counts each user once", func(h tale) {
		h.live()
		h.steps(Step{Name: "check", Weight: 20, Approval: true, Approvers: 2}, Step{Weight: 50, Pause: time.Hour})
		h.push("1.1.0")
		h.run(time.Minute)
		h.message("none", "AwaitingApproval", `1.1.0 is waiting at 20% for 2 approvals: in VersionedMicroservice 1.1.0-c1, set spec.decision.action to Continue, spec.decision.step to "check" and spec.decision.id to a new value`)
		h.approve("ann", "check")
		h.outcome("the first", "1.1.0", DecisionApplied)
		h.approve("ann", "check")
		h.outcome("the same again", "1.1.0", DecisionNotApplicable+`: step "check" waits for 2 approvals (1 so far: ann); "ann" has approved it already`)
		h.approve("", "check")
		h.outcome("no name", "1.1.0", DecisionNotApplicable+`: step "check" waits for 2 approvals (1 so far: ann); the decision does not name a user`)
		h.run(24 * time.Hour)
		h.want("one", map[string]string{"1.0.0": "active 80", "1.1.0": "canary 20"})
		h.message("one", "AwaitingApproval", `1.1.0 is waiting at 20% for 2 approvals (1 so far: ann): in VersionedMicroservice 1.1.0-c1, set spec.decision.action to Continue, spec.decision.step to "check" and spec.decision.id to a new value`)
		h.approve("bob", "1")
		h.want("two", map[string]string{"1.0.0": "active 50", "1.1.0": "canary 50"})
	}},
	{"rule 21: members of a group approve", func(h tale) {
		h.live()
		h.steps(Step{Name: "check", Weight: 20, Approval: true, ApproversFrom: []string{"sre", "owners"}}, Step{Weight: 50, Pause: time.Hour})
		h.push("1.1.0")
		h.run(time.Minute)
		h.approve("eve", "check", "shop")
		h.outcome("another group", "1.1.0", DecisionNotApplicable+`: step "check" waits for approval by members of sre or owners; according to this decision, "eve" is not a member of any of these groups: add one of the groups to spec.decision.groups`)
		h.want("another group", map[string]string{"1.1.0": "canary 20"})
		h.approve("bob", "check", "owners")
		h.want("a member", map[string]string{"1.1.0": "canary 50"})
	}},
	{"rule 21: approvals count for their step and their rollout", func(h tale) {
		h.live()
		two := Step{Weight: 20, Approval: true, Approvers: 2}
		h.steps(two, Step{Weight: 50, Approval: true, Approvers: 2})
		h.push("1.1.0")
		h.run(time.Minute)
		h.approve("ann", "1")
		h.decideOn("1.1.0", Deprecate, "")
		h.run(time.Minute)
		h.decideOn("1.1.0", Retry, "")
		h.run(time.Minute)
		h.approve("bob", "1")
		h.want("another rollout", map[string]string{"1.1.0": "canary 20"})
		h.approve("ann", "1")
		h.want("the next step", map[string]string{"1.1.0": "canary 50"})
		h.approve("ann", "2")
		h.run(time.Hour)
		h.want("one approval of the next step", map[string]string{"1.1.0": "canary 50"})
		h.approve("bob", "2")
		h.run(time.Minute)
		h.want("approved", map[string]string{"1.1.0": "active 100"})
	}},
	{"rule 21: approvals by a group that no longer counts are dropped", func(h tale) {
		h.live()
		step := Step{Weight: 20, Approval: true, Approvers: 2, ApproversFrom: []string{"shop"}}
		h.steps(step)
		h.push("1.1.0")
		h.run(time.Minute)
		h.approve("joe", "1", "shop")
		step.ApproversFrom = []string{"sre"}
		h.steps(step)
		h.approve("ann", "1", "sre")
		h.outcome("at the same time", "1.1.0", DecisionNotApplicable+": the steps were edited at the same time; read them, and decide again")
		h.approve("ann", "1", "sre")
		h.want("one of the group", map[string]string{"1.1.0": "canary 20"})
		h.approve("joe", "1", "sre")
		h.want("two of the group", map[string]string{"1.1.0": "active 100"})
	}},
	{"rule 21: Adopt does not skip a step that requires more than one approval", func(h tale) {
		h.live()
		h.steps(Step{Weight: 10, Pause: time.Hour}, Step{Name: "check", Weight: 20, Approval: true, Approvers: 2})
		h.push("1.1.0")
		h.run(time.Minute)
		h.decideOn("1.1.0", Adopt, "")
		h.run(time.Minute)
		h.outcome("two", "1.1.0", DecisionNotApplicable+`: step "check" needs 2 approvals, and Adopt does not count as approval: use Continue instead, or change the steps`)
		h.want("two", map[string]string{"1.1.0": "canary 10"})
		h.steps(Step{Weight: 10, Pause: time.Hour}, Step{Name: "check", Weight: 20, Approval: true, ApproversFrom: []string{"sre"}})
		h.decideOn("1.1.0", Adopt, "")
		h.run(time.Minute)
		h.want("no member", map[string]string{"1.1.0": "canary 10"})
		h.decide(h.release("1.1.0"), Decision{Action: Adopt, ID: "adopt", By: "ann", Groups: []string{"sre"}})
		h.run(time.Minute)
		h.want("a member", map[string]string{"1.1.0": "active 100"})
	}},
	{"rule 21: a bad canary is rolled back even if it is approved", func(h tale) {
		h.live()
		h.steps(Step{Weight: 10, Approval: true, Approvers: 2})
		h.push("1.1.0")
		h.run(time.Minute)
		h.approve("ann", "1")
		h.spoil(h.object("1.1.0"), "CrashLoopBackOff")
		h.run(time.Hour)
		h.want("rolled back", map[string]string{"1.0.0": "active 100", "1.1.0": "error 0"})
	}},
}

// TestApprovals runs only the histories in this file.
func TestApprovals(t *testing.T) {
	t.Parallel()
	for _, h := range approvals {
		t.Run(h.name, func(t *testing.T) {
			t.Parallel()
			played(t, h.play)
		})
	}
}
