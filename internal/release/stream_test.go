package release

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// newest makes 1.0.0 active, with a policy whose domains route to the newest group.
func (h tale) newest(steps ...Step) {
	h.steps(steps...)
	h.live()
	h.nets["web"].newest = true
	h.run(time.Minute)
}

// newestDomains checks the weights of the newest domains, in the form "1.0.0=90 2.0.0=10".
func (h tale) newestDomains(when, want string) {
	var parts []string
	if s := h.nets["web"].stream; s != nil {
		for _, name := range slices.Sorted(maps.Keys(s.accepted)) {
			version, _, _ := strings.Cut(name, "-")
			parts = append(parts, fmt.Sprintf("%s=%d", version, s.accepted[name]))
		}
	}
	if got := strings.Join(parts, " "); got != want {
		h.fail("%s: the newest domains route to %q, want %q", when, got, want)
	}
}

var held = []Step{{Weight: 10, Approval: true}, {Weight: 50, Pause: time.Minute}}

var streams = []scene{
	{"the newest domains move to a newer group in steps", func(h tale) {
		h.newest(twoSteps...)
		h.newestDomains("at first", "1.0.0=100")
		h.push("2.0.0")
		h.run(time.Second)
		h.want("step 1", map[string]string{"1.0.0": "active 100", "2.0.0": "canary 10"})
		if from := h.rolloutState.group("2-x").Rollout.From; from != "1-x" {
			h.fail("step 1: the domains come from group %q", from)
		}
		h.newestDomains("step 1", "1.0.0=90 2.0.0=10")
		h.run(70 * time.Second)
		h.newestDomains("step 2", "1.0.0=50 2.0.0=50")
		h.run(70 * time.Second)
		h.want("end", map[string]string{"1.0.0": "active 100", "2.0.0": "active 100"})
		h.newestDomains("end", "2.0.0=100")
		h.push("2.1.0")
		h.run(time.Second)
		h.newestDomains("its own canary", "2.0.0=90 2.1.0=10")
	}},
	{"a first release is active immediately if there are no steps or no newest domains", func(h tale) {
		h.newest()
		h.push("2.0.0")
		h.run(10 * time.Second)
		h.newestDomains("no steps", "2.0.0=100")
		h.steps(twoSteps...)
		h.nets["web"].newest = false
		h.run(time.Second)
		h.push("3.0.0")
		h.run(time.Second)
		h.want("no domains", map[string]string{"3.0.0": "active 100"})
	}},
	{"newest domains of a policy that never confirmed do not block a newer group", func(h tale) {
		h.steps(twoSteps...)
		h.live()
		odd := h.policy("odd")
		odd.newest, odd.never = true, true
		h.run(time.Minute)
		h.push("2.0.0")
		h.run(30 * time.Second)
		h.want("step 1", map[string]string{"1.0.0": "active 100", "2.0.0": "canary 10"})
		h.run(10 * time.Minute)
		h.want("another policy confirms", map[string]string{"1.0.0": "active 100", "2.0.0": "active 100"})
	}},
	{"if rollouts no longer wait for a policy, its domains that follow the newest group do not block a newer group", func(h tale) {
		h.newest(twoSteps...)
		h.policy("api")
		h.run(time.Minute)
		h.nets["web"].never = true
		h.steps()
		h.push("1.1.0")
		h.run(time.Hour)
		h.steps(twoSteps...)
		h.push("2.0.0")
		h.run(10 * time.Minute)
		h.want("another policy confirms", map[string]string{"1.1.0": "active 100", "2.0.0": "active 100"})
	}},
	{"a policy with domains of the newest group blocks the next step until it confirms", func(h tale) {
		h.steps(held...)
		h.live()
		odd := h.policy("odd")
		odd.newest, odd.stuck = true, true
		h.run(time.Minute)
		h.push("2.0.0")
		h.run(time.Minute)
		h.want("step 1", map[string]string{"2.0.0": "canary 10"})
		odd.stuck = false
		h.run(time.Minute)
		odd.stuck = true
		h.decideOn("2.0.0", Continue, "1")
		h.run(5 * time.Minute)
		h.want("the policy no longer confirms", map[string]string{"2.0.0": "canary 50"})
		odd.stuck = false
		h.run(5 * time.Minute)
		h.want("the policy confirms again", map[string]string{"2.0.0": "active 100"})
	}},
	{"a newer group that fails loses the newest domains", func(h tale) {
		h.newest(held...)
		h.push("2.0.0")
		h.run(time.Second)
		h.spoil(h.object("2.0.0"), "CrashLoopBackOff")
		h.run(time.Second)
		h.newestDomains("withheld", "1.0.0=100")
		h.run(time.Hour)
		h.want("failed", map[string]string{"1.0.0": "active 100", "2.0.0": "error 0"})
		h.newestDomains("failed", "1.0.0=100")
		if o := h.objects[h.release("2.0.0")]; o.Replicas != 0 {
			h.fail("the failed release keeps %d pods", o.Replicas)
		}
		h.state("failed", "TrafficUnconfirmed", false)
		h.object("2.0.0").why = ""
		h.decideOn("2.0.0", Retry, "")
		h.run(time.Minute)
		h.newestDomains("retried", "1.0.0=90 2.0.0=10")
		h.decideOn("2.0.0", Continue, "1")
		h.run(5 * time.Minute)
		h.newestDomains("the rollout is complete", "2.0.0=100")
	}},
	{"a failed analysis moves the newest domains back", func(h tale) {
		h.newest(twoSteps...)
		h.edit("analysis", func(s *Spec) { s.Analysis = true })
		h.quality["2.0.0"] = VerdictFailed
		h.push("2.0.0")
		h.run(10 * time.Minute)
		h.want("failed", map[string]string{"1.0.0": "active 100", "2.0.0": "error 0"})
		h.newestDomains("failed", "1.0.0=100")
		h.push("2.0.1")
		h.run(10 * time.Minute)
		h.newestDomains("the next version", "2.0.1=100")
	}},
	{"the active release of the older group keeps its replicas until its autoscaler has measured all requests again", func(h tale) {
		h.edit("autoscaling", func(s *Spec) { s.Autoscaled = true })
		h.newest(held...)
		size := func(when string, n int) {
			if have := h.object("1.0.0").Replicas; have != n {
				h.fail("%s: 1.0.0 has %d replicas, want %d", when, have, n)
			}
		}
		h.autoscale(h.object("1.0.0"), 8)
		size("the autoscaler added pods", 2)
		h.push("2.0.0")
		h.run(time.Minute)
		h.newestDomains("step 1", "1.0.0=90 2.0.0=10")
		size("step 1", 8)
		h.run(time.Hour)
		size("an hour later", 8)
		h.decideOn("2.0.0", Deprecate, "")
		h.run(time.Minute)
		h.newestDomains("aborted", "1.0.0=100")
		size("aborted", 8)
		h.run(3 * time.Minute)
		size("its autoscaler measures", 8)
		h.run(2 * time.Minute)
		size("its autoscaler has measured", 2)
	}},
	{"the active release of the older group keeps its replicas during its own rollout, and until the newest domains have moved", func(h tale) {
		h.edit("autoscaling", func(s *Spec) { s.Autoscaled = true })
		h.newest(held...)
		size := func(when, version string, n int) {
			if have := h.object(version).Replicas; have != n {
				h.fail("%s: %s has %d replicas, want %d", when, version, have, n)
			}
		}
		h.push("1.1.0")
		h.run(time.Minute)
		h.autoscale(h.object("1.0.0"), 8)
		h.push("2.0.0")
		h.run(time.Minute)
		h.newestDomains("both", "1.0.0=81 1.1.0=9 2.0.0=10")
		size("both", "1.0.0", 8)
		h.decideOn("1.1.0", Continue, "1")
		h.run(10 * time.Minute)
		h.newestDomains("the older group is promoted", "1.1.0=90 2.0.0=10")
		size("the older group is promoted", "1.1.0", 8)
		h.decideOn("2.0.0", Continue, "1")
		h.run(10 * time.Minute)
		h.newestDomains("the newer group is promoted", "2.0.0=100")
		size("the newer group is promoted", "1.1.0", 2)
		size("the newer group is promoted", "2.0.0", 2)
	}},
	{"hooks apply to the first release of a newer group", func(h tale) {
		h.newest(twoSteps...)
		h.gates(PreRollout, ConfirmPromotion)
		h.hooks[PreRollout] = "no"
		h.push("2.0.0")
		h.run(time.Hour)
		h.want("the hooks are called", map[string]string{"2.0.0": "pending 0"})
		delete(h.hooks, PreRollout)
		h.measure(h.object("2.0.0"), 0)
		h.run(time.Second)
		h.newestDomains("the hooks approved", "1.0.0=90 2.0.0=10")
		h.back["2.0.0"] = true
		h.run(time.Minute)
		h.want("rolled back", map[string]string{"2.0.0": "error 0"})
	}},
	{"a user aborts and adopts the first release of a newer group", func(h tale) {
		h.newest(held...)
		h.push("2.0.0")
		h.run(time.Minute)
		h.decideOn("2.0.0", Deprecate, "")
		h.run(10 * time.Minute)
		h.want("aborted", map[string]string{"1.0.0": "active 100", "2.0.0": "error 0"})
		h.newestDomains("aborted", "1.0.0=100")
		h.push("2.1.0")
		h.run(time.Minute)
		h.decideOn("2.1.0", Adopt, "")
		h.run(time.Minute)
		h.want("adopted", map[string]string{"2.1.0": "active 100"})
		h.newestDomains("adopted", "2.1.0=100")
	}},
	{"a newer group waits for a group whose rollout is in progress", func(h tale) {
		h.newest(held...)
		h.push("2.0.0")
		h.run(time.Minute)
		h.push("3.0.0")
		h.run(24 * time.Hour)
		h.want("waits", map[string]string{"2.0.0": "canary 10", "3.0.0": "pending 0"})
		h.state("waits", "AwaitingGroup", true)
		h.decideOn("2.0.0", Continue, "1")
		h.run(5 * time.Minute)
		h.want("the next", map[string]string{"2.0.0": "active 100", "3.0.0": "canary 10"})
		h.newestDomains("the next", "2.0.0=90 3.0.0=10")
	}},
	{"the newer of two new groups starts first, and the other has no domains to move", func(h tale) {
		h.newest(twoSteps...)
		h.push("2.0.0", "3.0.0")
		h.run(time.Second)
		h.want("begins", map[string]string{"2.0.0": "pending 0", "3.0.0": "canary 10"})
		h.run(5 * time.Minute)
		h.want("end", map[string]string{"1.0.0": "active 100", "2.0.0": "active 100", "3.0.0": "active 100"})
		h.newestDomains("end", "3.0.0=100")
	}},
	{"both groups have a canary", func(h tale) {
		h.newest(held...)
		h.push("1.1.0")
		h.run(time.Minute)
		h.push("2.0.0")
		h.run(time.Minute)
		h.newestDomains("both", "1.0.0=81 1.1.0=9 2.0.0=10")
		h.decideOn("1.1.0", Continue, "1")
		h.run(5 * time.Minute)
		h.newestDomains("the older group is promoted", "1.1.0=90 2.0.0=10")
		h.decideOn("2.0.0", Continue, "1")
		h.run(5 * time.Minute)
		h.newestDomains("the newer group is promoted", "2.0.0=100")
	}},
	{"a fix of the older group does not wait for a newer group", func(h tale) {
		h.newest(held...)
		h.push("2.0.0")
		h.run(time.Minute)
		h.push("1.0.1")
		h.run(time.Minute)
		h.newestDomains("both", "1.0.0=81 1.0.1=9 2.0.0=10")
		h.decideOn("1.0.1", Continue, "1")
		h.run(5 * time.Minute)
		h.newestDomains("fixed", "1.0.1=90 2.0.0=10")
	}},
	{"a newer version of the newer group supersedes its first release", func(h tale) {
		h.newest(held...)
		h.push("2.0.0")
		h.run(time.Minute)
		h.push("2.0.1")
		h.run(10 * time.Minute)
		h.want("superseded", map[string]string{"1.0.0": "active 100", "2.0.0": "", "2.0.1": "canary 10"})
		h.newestDomains("superseded", "1.0.0=90 2.0.1=10")
	}},
	{"the newer group is withdrawn during its rollout", func(h tale) {
		h.newest(held...)
		h.push("2.0.0")
		h.run(time.Minute)
		h.withdrawGroup("2-x", Excluded)
		h.run(time.Hour)
		h.want("gone", map[string]string{"1.0.0": "active 100", "2.0.0": ""})
		h.newestDomains("gone", "1.0.0=100")
	}},
	{"the older group ends during the rollout of the newer group", func(h tale) {
		h.newest(held...)
		h.push("2.0.0")
		h.run(time.Minute)
		h.spoil(h.object("2.0.0"), "CrashLoopBackOff")
		h.run(time.Second)
		h.withdrawGroup("1-x", Closed)
		h.run(time.Second)
		if from := h.rolloutState.group("2-x").Rollout.From; from != "" {
			h.fail("the domains still come from group %q, which has ended", from)
		}
		h.object("2.0.0").why = ""
		h.run(time.Hour)
		h.want("the newer group serves", map[string]string{"1.0.0": "", "2.0.0": "active 100"})
		h.newestDomains("the newer group serves", "2.0.0=100")
	}},
	{"the older group ends while it has more pods than the newer group", func(h tale) {
		h.newest(held...)
		h.push("2.0.0")
		h.run(time.Minute)
		h.autoscale(h.object("1.0.0"), 4)
		h.withdrawGroup("1-x", Closed)
		h.run(time.Second)
		h.want("the remaining release serves", map[string]string{"2.0.0": "active 100"})
	}},
	{"the older group has no endpoints", func(h tale) {
		h.newest(twoSteps...)
		h.push("2.0.0")
		h.run(time.Second)
		h.spoil(h.object("1.0.0"), "CrashLoopBackOff")
		h.run(time.Second)
		h.newestDomains("the canary gets all traffic", "2.0.0=100")
		h.run(time.Hour)
		h.want("the rollout continues", map[string]string{"2.0.0": "active 100"})
	}},
	{"a policy with the newest domains must confirm that they have moved", func(h tale) {
		h.newest(twoSteps...)
		h.policy("api").newest = false
		h.run(time.Minute)
		h.nets["web"].stuck = true
		h.push("2.0.0")
		h.run(5 * time.Minute)
		h.want("no policy moved the domains", map[string]string{"2.0.0": "canary 10"})
		h.run(time.Hour)
		h.want("the traffic is removed", map[string]string{"2.0.0": "pending 0"})
		h.ready("its pods stay", "2.0.0", 2)
		h.nets["web"].stuck = false
		h.run(3 * time.Minute)
		h.want("programmed again", map[string]string{"2.0.0": "active 100"})
	}},
	{"the manager restarts while domains move to a newer group", func(h tale) {
		h.newest(Step{Weight: 10, Pause: 10 * time.Minute})
		h.push("2.0.0")
		h.run(5 * time.Minute)
		h.crash(0)
		h.run(4 * time.Minute)
		h.newestDomains("still waiting", "1.0.0=90 2.0.0=10")
		h.run(90 * time.Second)
		h.newestDomains("after the pause", "2.0.0=100")
	}},
	{"the rollout state is lost while domains move to a newer group", func(h tale) {
		h.newest(held...)
		h.push("2.0.0")
		h.run(time.Minute)
		h.decideOn("2.0.0", Continue, "1")
		h.run(time.Second)
		h.newestDomains("before", "1.0.0=50 2.0.0=50")
		h.loseState()
		h.run(10 * time.Second)
		h.want("the first step begins again", map[string]string{"1.0.0": "active 100", "2.0.0": "canary 10"})
		h.newestDomains("the first step begins again", "1.0.0=90 2.0.0=10")
		h.decideOn("2.0.0", Continue, "1")
		h.run(5 * time.Minute)
		h.newestDomains("the rollout is complete", "2.0.0=100")
		h.loseState()
		h.run(10 * time.Second)
		h.want("no change", map[string]string{"1.0.0": "active 100", "2.0.0": "active 100"})
		h.newestDomains("no change", "2.0.0=100")
	}},
	{"the rollout state and the older group are lost", func(h tale) {
		h.newest(held...)
		h.push("2.0.0")
		h.run(time.Minute)
		h.remove(h.object("1.0.0"))
		h.loseState()
		h.run(time.Hour)
		h.want("the remaining release serves", map[string]string{"2.0.0": "active 100"})
	}},
	{"the rollout state is lost, and a report refers to a release of another group", func(h tale) {
		h.newest(held...)
		h.push("2.0.0")
		h.run(10 * time.Minute)
		n := h.nets["web"]
		h.withdrawGroup("2-x", Closed)
		h.plan(h.leaders[0], lags{})
		for h.perform(h.leaders[0]) {
		}
		rep := n.reports["1-x"] // In addition, the route of 1.x still refers to 2.0.0.
		rep.References, rep.Newest = union(rep.References, []string{h.release("2.0.0")}), false
		delete(n.reports, "2-x")
		n.reports["1-x"], n.pass, n.stuck = rep, nil, true
		for range 4 {
			h.advance(time.Hour)
			h.plan(h.leaders[0], lags{})
			for h.perform(h.leaders[0]) {
			}
		}
		if o := h.objects[h.release("2.0.0")]; o == nil || o.Replicas == 0 {
			h.fail("2.0.0 lost its pods while a route referred to it")
		}
	}},
	{"all policies are deleted and created again while domains move to a newer group", func(h tale) {
		h.newest(twoSteps...)
		h.push("2.0.0")
		h.run(time.Second)
		h.removePolicy("web")
		h.run(24 * time.Hour)
		h.want("it waits", map[string]string{"2.0.0": "canary 10"})
		h.state("it waits", "TrafficLost", true)
		h.policy("web").newest = true
		h.run(10 * time.Minute)
		h.newestDomains("the rollout continues", "2.0.0=100")
	}},
	{"a newer group has as many pods as its weight requires", func(h tale) {
		h.edit("size", func(s *Spec) { s.Replicas = 4 })
		h.newest(twoSteps...)
		h.autoscale(h.object("1.0.0"), 8)
		h.run(time.Second)
		h.push("2.0.0")
		h.run(10 * time.Second)
		h.ready("same size as the older group", "2.0.0", 8)
	}},
}

func init() { histories = append(histories, streams...) }

// TestOlder checks from which group the newest domains move to the first release of 2.x.
func TestOlder(t *testing.T) {
	active := func(version string) []Row {
		return []Row{{Release: version, Version: version, Status: Active, Promoted: 1}}
	}
	waiting := []Row{{Release: "2.0.0", Version: "2.0.0", Status: Pending}}
	for name, tc := range map[string]struct {
		edit func(o *Observed, groups map[string]*Group)
		want string
	}{
		"the older group serves":        {func(*Observed, map[string]*Group) {}, "1-x"},
		"no rollout in progress":        {func(_ *Observed, g map[string]*Group) { g["2-x"].Rollout = nil }, ""},
		"the row is missing":            {func(_ *Observed, g map[string]*Group) { g["2-x"].Releases = nil }, ""},
		"the release was active before": {func(_ *Observed, g map[string]*Group) { g["2-x"].Releases[0].Promoted = 1 }, ""},
		"the group has an active release": {func(_ *Observed, g map[string]*Group) {
			g["2-x"].Releases = append(g["2-x"].Releases, active("2.1.0")...)
		}, ""},
		"the group is closing":             {func(_ *Observed, g map[string]*Group) { g["2-x"].Phase = Closing }, ""},
		"the group is a preview":           {func(_ *Observed, g map[string]*Group) { g["2-x"].Level = preview }, ""},
		"no steps":                         {func(o *Observed, _ map[string]*Group) { o.Spec.Steps = nil }, ""},
		"no newest domains":                {func(o *Observed, _ map[string]*Group) { o.Policies[0].Groups[0].Newest = false }, ""},
		"newest domains of another policy": {func(o *Observed, _ map[string]*Group) { o.Policies = append([]Policy{{Name: "api"}}, o.Policies...) }, "1-x"},
		"a canary without policies":        {func(o *Observed, g map[string]*Group) { o.Policies, g["2-x"].Releases[0].Status = nil, Canary }, "1-x"},
		"pending without policies":         {func(o *Observed, _ map[string]*Group) { o.Policies = nil }, ""},
		"a canary in the report of another group": {func(o *Observed, g map[string]*Group) {
			o.Policies[0].Groups, g["2-x"].Releases[0].Status = []Report{{Slug: "2-x"}}, Canary
		}, ""},
		"the older group is closing":     {func(_ *Observed, g map[string]*Group) { g["1-x"].Phase = Closing }, ""},
		"the older group is a preview":   {func(_ *Observed, g map[string]*Group) { g["1-x"].Level = preview }, ""},
		"the older group has no release": {func(_ *Observed, g map[string]*Group) { g["1-x"].Releases = nil }, ""},
		"a newer group serves":           {func(_ *Observed, g map[string]*Group) { g["3-x"].Releases = active("3.0.0") }, ""},
		"two older groups":               {func(_ *Observed, g map[string]*Group) { g["0-x"].Releases = active("0.9.0") }, "1-x"},
	} {
		t.Run(name, func(t *testing.T) {
			o := Observed{Spec: Spec{Steps: twoSteps}, Policies: []Policy{{Name: "web", Groups: []Report{{Slug: "1-x", Newest: true}}}}}
			groups := map[string]*Group{}
			for _, slug := range []string{"0-x", "1-x", "2-x", "3-x"} {
				groups[slug] = &Group{Name: strings.ReplaceAll(slug, "-", "."), Slug: slug, Phase: Live}
			}
			groups["1-x"].Releases, groups["2-x"].Releases, groups["2-x"].Rollout = active("1.0.0"), slices.Clone(waiting), &Rollout{Release: "2.0.0"}
			tc.edit(&o, groups)
			for _, order := range [][]string{{"0-x", "1-x", "2-x", "3-x"}, {"3-x", "2-x", "1-x", "0-x"}} {
				b, got := newPlanner(o, time.Now()), ""
				for _, slug := range order {
					b.groups = append(b.groups, *groups[slug])
				}
				if from := b.scope(&b.groups[slices.Index(order, "2-x")]).older(); from != nil {
					got = from.g.Slug
				}
				if got != tc.want {
					t.Errorf("order %v: domains come from %q, want %q", order, got, tc.want)
				}
			}
		})
	}
}

// TestFollows covers two policies, one of which has domains that route to the newest group.
func TestFollows(t *testing.T) {
	b := newPlanner(Observed{Policies: []Policy{{Name: "api", Groups: []Report{{Slug: "1-x"}}}, {Name: "web", Groups: []Report{{Slug: "1-x", Newest: true}}}}}, time.Now())
	for name, want := range map[string]bool{"api": false, "web": true, "odd": false} {
		if got := b.follows(name); got != want {
			t.Errorf("follows(%q) = %t, want %t", name, got, want)
		}
	}
}

// TestQueued checks that only one group's first rollout is in progress at a time.
func TestQueued(t *testing.T) {
	for name, tc := range map[string]struct {
		edit func(*Group)
		want bool
	}{
		"in progress":                     {func(*Group) {}, true},
		"not started":                     {func(g *Group) { g.Releases[0].Status = Pending }, false},
		"the row is missing":              {func(g *Group) { g.Releases = nil }, false},
		"no rollout":                      {func(g *Group) { g.Rollout = nil }, false},
		"the group has an active release": {func(g *Group) { g.Releases = append(g.Releases, Row{Release: "1", Status: Active}) }, false},
		"the group is closing":            {func(g *Group) { g.Phase = Closing }, false},
		"the group is a preview":          {func(g *Group) { g.Level = preview }, false},
		"the same group":                  {func(g *Group) { g.Slug = "3-x" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			other := Group{Slug: "2-x", Phase: Live, Rollout: &Rollout{Release: "2"}, Releases: []Row{{Release: "2", Status: Canary}}}
			tc.edit(&other)
			b := newPlanner(Observed{}, time.Now())
			b.groups = []Group{other, {Slug: "3-x", Phase: Live, Rollout: &Rollout{Release: "3"}, Releases: []Row{{Release: "3", Status: Pending}}}}
			s := b.scope(&b.groups[1])
			if got := s.queueWait(s.g.Row("3")) != nil; got != tc.want {
				t.Errorf("queueWait() != nil: %t, want %t", got, tc.want)
			}
		})
	}
}

// TestConfirmedDuringAMove checks which policies must confirm the routes of the newest domains while
// the domains move from 1.x, whose revision is 5, to 2.x.
func TestConfirmedDuringAMove(t *testing.T) {
	policy := func(name string, newest bool, older, newer int64) Policy {
		return Policy{Name: name, Groups: []Report{{Slug: "1-x", Revision: older, Newest: newest, policy: name}, {Slug: "2-x", Revision: newer, policy: name}}}
	}
	for name, tc := range map[string]struct {
		policies []Policy
		settled  int64 // the settled revision of 1.x
		want     bool
	}{
		"the policy confirmed the move":                                    {[]Policy{policy("web", true, 2, 5)}, 0, true},
		"the policy has not confirmed the move":                            {[]Policy{policy("web", true, 2, 0)}, 0, false},
		"the policy confirmed only an earlier step":                        {[]Policy{policy("web", true, 2, 4)}, 0, false},
		"only another policy without newest domains confirmed":             {[]Policy{policy("api", false, 2, 5), policy("web", true, 2, 0)}, 0, false},
		"the policy with newest domains never confirmed":                   {[]Policy{policy("api", false, 2, 5), policy("web", true, 0, 0)}, 0, true},
		"another policy without domains of the newer group":                {[]Policy{policy("api", false, 2, 0), policy("web", true, 2, 5)}, 0, true},
		"another policy with domains of the newer group is behind":         {[]Policy{policy("api", false, 2, 4), policy("web", true, 2, 5)}, 0, false},
		"another policy never confirmed":                                   {[]Policy{policy("odd", true, 0, 0), policy("web", true, 2, 5)}, 0, true},
		"another policy is behind the settled revision of the older group": {[]Policy{policy("odd", true, 1, 0), policy("web", true, 2, 5)}, 2, true},
		"another policy confirmed only the newer group":                    {[]Policy{policy("odd", true, 0, 4), policy("web", true, 2, 5)}, 0, false},
		"another policy is at the settled revision of the older group":     {[]Policy{policy("odd", true, 2, 0), policy("web", true, 2, 5)}, 2, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := newPlanner(Observed{Spec: Spec{Steps: twoSteps}, Policies: tc.policies}, time.Now())
			b.groups = []Group{
				{Name: "2.x", Slug: "2-x", Phase: Live, TrafficRevision: 5, Rollout: &Rollout{Release: "2"}, Releases: []Row{{Release: "2", Status: Canary}}},
				{Name: "1.x", Slug: "1-x", Phase: Live, TrafficRevision: 2, SettledRevision: tc.settled, Releases: []Row{{Release: "1", Status: Active, Promoted: 1}}},
			}
			if got := b.scope(&b.groups[0]).confirmed(5); got != tc.want {
				t.Errorf("confirmed() = %t, want %t", got, tc.want)
			}
			b.o.Spec.Steps = nil // Nothing moves in steps. A policy without domains of this group has nothing to confirm.
			if got := b.scope(&b.groups[0]).confirmed(5); got && !slices.ContainsFunc(tc.policies, func(p Policy) bool { return p.Groups[1].Revision == 5 }) {
				t.Error("confirmed() = true, although no policy confirmed the revision")
			}
		})
	}
}

// TestLeavingDuringAMove checks which policies must confirm that 2.0.0, which was aborted at revision 5, is
// no longer in any route, before it loses its pods.
func TestLeavingDuringAMove(t *testing.T) {
	for name, tc := range map[string]struct {
		newest, active bool
		revision       int64
		want           bool
	}{
		"the domains may have moved":               {true, false, 0, false},
		"the policy confirmed the removal":         {true, false, 5, true},
		"the policy has not confirmed the removal": {false, false, 4, false},
		"the policy never had routes of the group": {false, false, 0, true},
		"the group has an active release":          {true, true, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			b := newPlanner(Observed{Policies: []Policy{{Name: "web", Groups: []Report{{Slug: "1-x", Newest: tc.newest}, {Slug: "2-x", Revision: tc.revision}}}}}, time.Now())
			b.groups = []Group{{Slug: "2-x", Phase: Live, TrafficRevision: 5}}
			if tc.active {
				b.groups[0].Releases = []Row{{Release: "3", Status: Active}}
			}
			out := Row{Release: "2", Status: Error, Zero: &Zero{Revision: 5, Time: time.Now().Add(-time.Hour)}}
			if got := b.scope(&b.groups[0]).leaving(out) == nil; got != tc.want {
				t.Errorf("leaving() == nil: %t, want %t", got, tc.want)
			}
		})
	}
}

// TestArrives checks in which cases the reports show, without a rollout state, that the newest domains have yet
// to move to 2.x.
func TestArrives(t *testing.T) {
	for name, tc := range map[string]struct {
		edit func(*Observed, *Group)
		want bool
	}{
		"the domains route to the older group":  {func(*Observed, *Group) {}, true},
		"without steps":                         {func(o *Observed, _ *Group) { o.Spec.Steps = nil }, false},
		"the older group is closing":            {func(_ *Observed, g *Group) { g.Phase = Closing }, false},
		"the older group is a preview":          {func(_ *Observed, g *Group) { g.Level = preview }, false},
		"the domains route to this group":       {func(o *Observed, _ *Group) { o.Policies[0].Groups[0].Slug = "2-x" }, false},
		"the domains route to a newer group":    {func(o *Observed, g *Group) { g.Name, g.Slug, o.Policies[0].Groups[0].Slug = "3.x", "3-x", "3-x" }, false},
		"no newest domains":                     {func(o *Observed, _ *Group) { o.Policies[0].Groups[0].Newest = false }, false},
		"the older group has no active release": {func(o *Observed, _ *Group) { o.Policies[0].Groups[0].Active = "" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			o := Observed{Spec: Spec{Steps: twoSteps}, Policies: []Policy{{Name: "web", Groups: []Report{{Slug: "1-x", Newest: true, Active: "1.0.0"}}}}}
			other := Group{Name: "1.x", Slug: "1-x", Phase: Live}
			tc.edit(&o, &other)
			b := newPlanner(o, time.Now())
			b.groups = []Group{{Name: "2.x", Slug: "2-x", Phase: Live}, other}
			if got := b.scope(&b.groups[0]).arrives(); got != tc.want {
				t.Errorf("arrives() = %t, want %t", got, tc.want)
			}
		})
	}
}
