package release

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// newest brings 1.0.0 to active, under a policy whose domains lead to the newest group.
func (h tale) newest(steps ...Step) {
	h.steps(steps...)
	h.live()
	h.nets["web"].newest = true
	h.run(time.Minute)
}

// carries says what the newest domains carry, as "1.0.0=90 2.0.0=10".
func (h tale) carries(when, want string) {
	var parts []string
	if s := h.nets["web"].stream; s != nil {
		for _, name := range slices.Sorted(maps.Keys(s.accepted)) {
			version, _, _ := strings.Cut(name, "-")
			parts = append(parts, fmt.Sprintf("%s=%d", version, s.accepted[name]))
		}
	}
	if got := strings.Join(parts, " "); got != want {
		h.fail("%s: the newest domains carry %q, want %q", when, got, want)
	}
}

var held = []Step{{Weight: 10, Approval: true}, {Weight: 50, Pause: time.Minute}}

var streams = []scene{
	{"the newest domains move to a newer group by steps", func(h tale) {
		h.newest(twoSteps...)
		h.carries("at first", "1.0.0=100")
		h.push("2.0.0")
		h.run(time.Second)
		h.want("step 1", map[string]string{"1.0.0": "active 100", "2.0.0": "canary 10"})
		if from := h.ledger.group("2-x").Run.From; from != "1-x" {
			h.fail("step 1: the domains come from group %q", from)
		}
		h.carries("step 1", "1.0.0=90 2.0.0=10")
		h.run(70 * time.Second)
		h.carries("step 2", "1.0.0=50 2.0.0=50")
		h.run(70 * time.Second)
		h.want("end", map[string]string{"1.0.0": "active 100", "2.0.0": "active 100"})
		h.carries("end", "2.0.0=100")
		h.push("2.1.0")
		h.run(time.Second)
		h.carries("its own canary", "2.0.0=90 2.1.0=10")
	}},
	{"without steps, without such domains, and of an older group the first release goes straight", func(h tale) {
		h.newest()
		h.push("2.0.0")
		h.run(10 * time.Second)
		h.carries("no steps", "2.0.0=100")
		h.steps(twoSteps...)
		h.nets["web"].newest = false
		h.run(time.Second)
		h.push("3.0.0")
		h.run(time.Second)
		h.want("no domains", map[string]string{"3.0.0": "active 100"})
	}},
	{"a newer group that fails gives the newest domains back", func(h tale) {
		h.newest(held...)
		h.push("2.0.0")
		h.run(time.Second)
		h.spoil(h.object("2.0.0"), "CrashLoopBackOff")
		h.run(time.Second)
		h.carries("masked", "1.0.0=100")
		h.run(time.Hour)
		h.want("failed", map[string]string{"1.0.0": "active 100", "2.0.0": "error 0"})
		h.carries("failed", "1.0.0=100")
		if o := h.objects[h.release("2.0.0")]; o.Replicas != 0 {
			h.fail("the failed release keeps %d pods", o.Replicas)
		}
		h.state("failed", "TrafficUnconfirmed", false)
		h.object("2.0.0").why = ""
		h.word("2.0.0", Retry, "")
		h.run(time.Minute)
		h.carries("retried", "1.0.0=90 2.0.0=10")
		h.word("2.0.0", Continue, "1")
		h.run(5 * time.Minute)
		h.carries("the way is over", "2.0.0=100")
	}},
	{"measurements take the newest domains back", func(h tale) {
		h.newest(twoSteps...)
		h.edit("analysis", func(s *Spec) { s.Analysis = true })
		h.quality["2.0.0"] = VerdictFailed
		h.push("2.0.0")
		h.run(10 * time.Minute)
		h.want("failed", map[string]string{"1.0.0": "active 100", "2.0.0": "error 0"})
		h.carries("failed", "1.0.0=100")
		h.push("2.0.1")
		h.run(10 * time.Minute)
		h.carries("the next one", "2.0.1=100")
	}},
	{"hooks have a say in a newer group", func(h tale) {
		h.newest(twoSteps...)
		h.gates(PreRollout, ConfirmPromotion)
		h.hooks[PreRollout] = "no"
		h.push("2.0.0")
		h.run(time.Hour)
		h.want("asked", map[string]string{"2.0.0": "pending 0"})
		delete(h.hooks, PreRollout)
		h.measure(h.object("2.0.0"), 0)
		h.run(time.Second)
		h.carries("agreed", "1.0.0=90 2.0.0=10")
		h.back["2.0.0"] = true
		h.run(time.Minute)
		h.want("taken back", map[string]string{"2.0.0": "error 0"})
	}},
	{"a person's words on a newer group", func(h tale) {
		h.newest(held...)
		h.push("2.0.0")
		h.run(time.Minute)
		h.word("2.0.0", Deprecate, "")
		h.run(10 * time.Minute)
		h.want("turned down", map[string]string{"1.0.0": "active 100", "2.0.0": "error 0"})
		h.carries("turned down", "1.0.0=100")
		h.push("2.1.0")
		h.run(time.Minute)
		h.word("2.1.0", Adopt, "")
		h.run(time.Minute)
		h.want("adopted", map[string]string{"2.1.0": "active 100"})
		h.carries("adopted", "2.1.0=100")
	}},
	{"a newer group waits for the one that is on its way", func(h tale) {
		h.newest(held...)
		h.push("2.0.0")
		h.run(time.Minute)
		h.push("3.0.0")
		h.run(24 * time.Hour)
		h.want("waits", map[string]string{"2.0.0": "canary 10", "3.0.0": "pending 0"})
		h.state("waits", "AwaitingGroup", true)
		h.word("2.0.0", Continue, "1")
		h.run(5 * time.Minute)
		h.want("the next", map[string]string{"2.0.0": "active 100", "3.0.0": "canary 10"})
		h.carries("the next", "2.0.0=90 3.0.0=10")
	}},
	{"of two new groups the newest goes first, and the other has nothing to move", func(h tale) {
		h.newest(twoSteps...)
		h.push("2.0.0", "3.0.0")
		h.run(time.Second)
		h.want("begins", map[string]string{"2.0.0": "pending 0", "3.0.0": "canary 10"})
		h.run(5 * time.Minute)
		h.want("end", map[string]string{"1.0.0": "active 100", "2.0.0": "active 100", "3.0.0": "active 100"})
		h.carries("end", "3.0.0=100")
	}},
	{"both groups have a canary", func(h tale) {
		h.newest(held...)
		h.push("1.1.0")
		h.run(time.Minute)
		h.push("2.0.0")
		h.run(time.Minute)
		h.carries("both", "1.0.0=81 1.1.0=9 2.0.0=10")
		h.word("1.1.0", Continue, "1")
		h.run(5 * time.Minute)
		h.carries("the older is promoted", "1.1.0=90 2.0.0=10")
		h.word("2.0.0", Continue, "1")
		h.run(5 * time.Minute)
		h.carries("the newer too", "2.0.0=100")
	}},
	{"a newer version of the newer group takes its place", func(h tale) {
		h.newest(held...)
		h.push("2.0.0")
		h.run(time.Minute)
		h.push("2.0.1")
		h.run(10 * time.Minute)
		h.want("overtaken", map[string]string{"1.0.0": "active 100", "2.0.0": "", "2.0.1": "canary 10"})
		h.carries("overtaken", "1.0.0=90 2.0.1=10")
	}},
	{"the newer group is withdrawn on the way", func(h tale) {
		h.newest(held...)
		h.push("2.0.0")
		h.run(time.Minute)
		h.withdrawGroup("2-x", Excluded)
		h.run(time.Hour)
		h.want("gone", map[string]string{"1.0.0": "active 100", "2.0.0": ""})
		h.carries("gone", "1.0.0=100")
	}},
	{"the older group ends on the way", func(h tale) {
		h.newest(held...)
		h.push("2.0.0")
		h.run(time.Minute)
		h.withdrawGroup("1-x", Closed)
		h.run(time.Hour)
		h.want("the newer one serves", map[string]string{"1.0.0": "", "2.0.0": "active 100"})
		h.carries("the newer one serves", "2.0.0=100")
	}},
	{"the older group answers nothing any more", func(h tale) {
		h.newest(twoSteps...)
		h.push("2.0.0")
		h.run(time.Second)
		h.spoil(h.object("1.0.0"), "CrashLoopBackOff")
		h.run(time.Second)
		h.carries("the canary stands in", "2.0.0=100")
		h.run(time.Hour)
		h.want("and goes on", map[string]string{"2.0.0": "active 100"})
	}},
	{"a policy that has the newest domains must have moved them", func(h tale) {
		h.newest(twoSteps...)
		h.policy("api").newest = false
		h.run(time.Minute)
		h.nets["web"].stuck = true
		h.push("2.0.0")
		h.run(5 * time.Minute)
		h.want("nobody moved them", map[string]string{"2.0.0": "canary 10"})
		h.run(time.Hour)
		h.want("failed", map[string]string{"2.0.0": "error 0"})
		h.ready("its pods stay until it is confirmed", "2.0.0", 2)
		h.nets["web"].stuck = false
		h.run(7 * time.Hour)
		h.want("tried again", map[string]string{"2.0.0": "active 100"})
	}},
	{"a restart in the midst of it", func(h tale) {
		h.newest(Step{Weight: 10, Pause: 10 * time.Minute})
		h.push("2.0.0")
		h.run(5 * time.Minute)
		h.crash(0)
		h.run(4 * time.Minute)
		h.carries("still waits", "1.0.0=90 2.0.0=10")
		h.run(90 * time.Second)
		h.carries("waited no longer than asked", "2.0.0=100")
	}},
	{"all policies go on the way", func(h tale) {
		h.newest(twoSteps...)
		h.push("2.0.0")
		h.run(time.Second)
		h.removePolicy("web")
		h.run(24 * time.Hour)
		h.want("it waits", map[string]string{"2.0.0": "canary 10"})
		h.state("it waits", "TrafficLost", true)
		h.policy("web").newest = true
		h.run(10 * time.Minute)
		h.carries("and goes on", "2.0.0=100")
	}},
	{"a newer group has the pods that its weight needs", func(h tale) {
		h.edit("size", func(s *Spec) { s.Replicas = 4 })
		h.newest(twoSteps...)
		h.autoscale(h.object("1.0.0"), 8)
		h.run(time.Second)
		h.push("2.0.0")
		h.run(10 * time.Second)
		h.ready("as many as the older group", "2.0.0", 8)
	}},
}

func init() { histories = append(histories, streams...) }

func TestJoined(t *testing.T) {
	older := []Share{{Release: "a", Status: Active, Weight: 90, Ready: true}, {Release: "b", Status: Canary, Weight: 10, Ready: true}}
	for name, tc := range map[string]struct {
		canary Share
		want   map[string]int
	}{
		"nothing yet":  {Share{Release: "c", Status: Canary, Ready: true}, map[string]int{"a": 90, "b": 10}},
		"a part":       {Share{Release: "c", Status: Canary, Weight: 50, Ready: true}, map[string]int{"a": 45, "b": 5, "c": 50}},
		"all":          {Share{Release: "c", Status: Canary, Weight: 100, Ready: true}, map[string]int{"c": 100}},
		"no endpoint":  {Share{Release: "c", Status: Canary, Weight: 50}, map[string]int{"a": 90, "b": 10}},
		"small shares": {Share{Release: "c", Status: Canary, Weight: 99, Ready: true}, map[string]int{"a": 1, "b": 1, "c": 98}},
	} {
		t.Run(name, func(t *testing.T) {
			got, _ := Split(Joined(older, tc.canary))
			if !maps.Equal(got, tc.want) {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}
