package release

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/heighliner/heighliner/test/simulate"
)

var simulation = simulate.Flags("sim", "TestSimulate")

// op is one event. A and B select among the existing objects.
type op struct{ Kind, A, B int }

// happening is one kind of event, with its share of all events.
type happening struct {
	name  string
	share int
	do    func(w *world, a, b int)
}

func pick[V any](m map[string]V, i int) (v V, ok bool) {
	if len(m) == 0 {
		return v, false
	}
	keys := slices.Sorted(maps.Keys(m))
	return m[keys[i%len(keys)]], true
}

var versions = []string{"1.0.0", "1.1.0", "1.1.1", "1.2.0", "1.3.0", "1.4.0", "2.0.0", "2.1.0", "2.2.0", "pr-7-a", "pr-7-b", "pr-7-c", "pr-8-a", "pr-8-b", "pr-9-a"}

var happenings = []happening{
	{"plan", 20, func(w *world, a, b int) {
		w.plan(w.leaders[a%8/7], lags{})
		for w.perform(w.leaders[a%8/7]) {
		}
	}},
	{"plan with outdated facts", 6, func(w *world, a, b int) {
		w.plan(w.leaders[a%2], lags{b % 3, b / 3 % 5, b / 15 % 4, b / 60 % 4})
	}},
	{"write", 14, func(w *world, a, b int) { w.perform(w.leaders[a%2]) }},
	{"crash", 1, func(w *world, a, b int) { w.crash(a % 2) }},
	{"pods", 14, func(w *world, a, b int) {
		w.autoscalers()
		for _, name := range w.names() {
			o := w.objects[name]
			w.pods(o)
			w.report(o)
		}
	}},
	{"pods of one release", 4, func(w *world, a, b int) {
		if o, ok := pick(w.objects, a); ok && o.why == "" && o.ready < o.Replicas && !o.Terminating && w.free() > 0 {
			o.ready++
			o.was = true
			delete(w.taken, o.Release)
		}
	}},
	{"report of one release", 3, func(w *world, a, b int) {
		if o, ok := pick(w.objects, a); ok {
			w.report(o)
		}
	}},
	{"collect", 3, func(w *world, a, b int) { w.collect() }},
	{"time", 12, func(w *world, a, b int) {
		w.advance([]time.Duration{time.Second, 5 * time.Second, 6 * time.Second, 30 * time.Second, time.Minute, 11 * time.Minute}[a%6])
	}},
	{"requeue", 12, func(w *world, a, b int) {
		if at := w.requeue(); at.After(w.now) {
			w.advance(at.Sub(w.now))
		}
	}},
	{"policy reconciles", 18, func(w *world, a, b int) {
		if n, ok := pick(w.nets, a); ok {
			w.read(n, b%3)
			w.write(n)
			w.accept(n)
			w.answer(n)
		}
	}},
	{"policy reads", 5, func(w *world, a, b int) {
		if n, ok := pick(w.nets, a); ok {
			w.read(n, b%6)
		}
	}},
	{"policy writes", 5, func(w *world, a, b int) {
		if n, ok := pick(w.nets, a); ok {
			w.write(n)
		}
	}},
	{"gateway accepts", 5, func(w *world, a, b int) {
		if n, ok := pick(w.nets, a); ok {
			w.accept(n)
		}
	}},
	{"policy answers", 5, func(w *world, a, b int) {
		if n, ok := pick(w.nets, a); ok {
			w.answer(n)
		}
	}},
	{"push", 8, func(w *world, a, b int) { w.push(versions[a%len(versions)]) }},
	{"drop", 2, func(w *world, a, b int) { w.drop(versions[a%len(versions)]) }},
	{"withdraw", 1, func(w *world, a, b int) {
		w.withdraw(versions[a%len(versions)], []WithdrawReason{Denied, Gone}[b%2])
	}},
	{"close", 3, func(w *world, a, b int) {
		w.withdrawGroup([]string{"pr-7", "1-x", "2-x", "pr-8", "pr-9"}[a%5], []WithdrawReason{Closed, Excluded}[b%2])
	}},
	{"reopen", 2, func(w *world, a, b int) {
		w.offerGroup([]string{"pr-7", "1-x", "2-x", "pr-8", "pr-9"}[a%5], []string{"pr-7-b", "1.2.0", "2.1.0", "pr-8-a", "pr-9-a"}[a%5])
	}},
	{"push to a pull request", 6, func(w *world, a, b int) {
		w.push([]string{"pr-7-a", "pr-7-b", "pr-7-c", "pr-8-a", "pr-8-b", "pr-9-a"}[a%6])
	}},
	{"preview slots", 1, func(w *world, a, b int) {
		w.edit("preview slots", func(s *Spec) { s.Previews.MaxGroups = 1 + a%3 })
	}},
	{"preview age", 1, func(w *world, a, b int) {
		w.edit("preview age", func(s *Spec) {
			s.Previews.MaxAge = []time.Duration{0, 10 * time.Minute, 20 * time.Hour}[a%3]
			s.Previews.KeepAfterClose = []time.Duration{0, 0, 10 * time.Minute}[b%3]
		})
	}},
	{"source", 1, func(w *world, a, b int) { w.stale = !w.stale }},
	{"new policy", 2, func(w *world, a, b int) {
		if name := []string{"web", "api", "odd"}[a%3]; w.nets[name] == nil {
			w.policy(name)
		}
	}},
	{"lose policy", 1, func(w *world, a, b int) {
		if n, ok := pick(w.nets, a); ok && b%3 == 0 {
			w.removePolicy(n.name)
		}
	}},
	{"newest domain", 2, func(w *world, a, b int) {
		if n, ok := pick(w.nets, a); ok {
			n.newest = b%4 > 0
			w.say("newest domains of %s: %t", n.name, n.newest)
		}
	}},
	{"gateway stops or resumes", 1, func(w *world, a, b int) {
		if n, ok := pick(w.nets, a); ok {
			n.stuck = !n.stuck
			w.stats.faults++
		}
	}},
	{"domain pin", 1, func(w *world, a, b int) {
		if n, ok := pick(w.nets, a); ok {
			if n.pins = nil; b%2 == 0 {
				n.pins = []string{versions[b%len(versions)]}
			}
		}
	}},
	{"lose pods", 3, func(w *world, a, b int) {
		if o, ok := pick(w.objects, a); ok && o.ready > 0 {
			w.kill(o, 1+b%3)
		}
	}},
	{"spoil", 1, func(w *world, a, b int) {
		if o, ok := pick(w.objects, a); ok {
			w.spoil(o, []string{"CrashLoopBackOff", "ImagePullBackOff", "Unschedulable"}[b%3])
		}
	}},
	{"heal", 1, func(w *world, a, b int) {
		if o, ok := pick(w.objects, a); ok {
			o.why = ""
		}
	}},
	{"a hook Job starts or finishes", 1, func(w *world, a, b int) {
		if o, ok := pick(w.objects, a); ok && !o.Terminating && o.kind == "" {
			o.ActiveJobs, o.rv = !o.ActiveJobs, w.id()
		}
	}},
	{"break version", 1, func(w *world, a, b int) {
		v := versions[a%len(versions)]
		if delete(w.broken, v); b%3 > 0 {
			w.broken[v] = []string{"CrashLoopBackOff", "ImagePullBackOff", "InvalidTemplate"}[b/3%3]
		}
	}},
	{"remove", 1, func(w *world, a, b int) {
		if o, ok := pick(w.objects, a); ok && b%2 == 0 && !o.Terminating {
			w.remove(o)
		}
	}},
	{"decide", 3, func(w *world, a, b int) {
		if o, ok := pick(w.objects, a); ok {
			d := Decision{Action: []Action{Continue, Adopt, Deprecate, Retry}[b%4], ID: fmt.Sprint(w.id()), Step: fmt.Sprint(1 + b%3), By: people[(a+b)%len(people)].By, Groups: people[(a+b)%len(people)].Groups}
			w.decide(o.Release, d)
		}
	}},
	{"replicas", 1, func(w *world, a, b int) {
		w.edit("replicas", func(s *Spec) { s.Replicas = 1 + a%4; s.Standby = b % 2; s.StandbyFull = b%5 == 0 })
	}},
	{"minimumAvailable", 1, func(w *world, a, b int) {
		w.edit("minimumAvailable", func(s *Spec) { s.MinimumAvailable = 1 + a%3 })
	}},
	{"steps", 1, func(w *world, a, b int) {
		steps := someSteps(a)
		if w.spec.Exclusive {
			steps = wholeSteps(steps)
		}
		w.edit("steps", func(s *Spec) { s.Steps = steps })
	}},
	{"pause", 1, func(w *world, a, b int) {
		w.edit("pause", func(s *Spec) { s.Paused = a%3 == 0 })
	}},
	{"pin", 2, func(w *world, a, b int) {
		w.edit("pin", func(s *Spec) {
			if s.Pins = nil; b%3 > 0 {
				v := versions[a%len(versions)]
				_, name := w.groupOf(v)
				pin := Pin{Version: v, Current: b%5 == 0, Global: b%2 == 0}
				if !pin.Global {
					pin.Group = name
				}
				if !pin.Global && b%13 == 2 {
					pin.Group = "a typo"
				}
				if b%7 == 0 {
					pin.Expire = w.now.Add(20 * time.Minute)
				}
				s.Pins = []Pin{pin}
				if b%11 == 1 { // a second version, which might be in the same group
					other := versions[(a+b)%len(versions)]
					_, name := w.groupOf(other)
					s.Pins = append(s.Pins, Pin{Version: other, Group: name, Current: b%4 == 0})
				}
			}
		})
	}},
	{"configure", 1, func(w *world, a, b int) { w.configure([]string{"c1", "c2", "c3"}[a%3]) }},
	{"release's controller", 12, func(w *world, a, b int) {
		if o, ok := pick(w.objects, a); ok {
			w.measure(o, b%3)
		}
	}},
	{"measurements", 3, func(w *world, a, b int) {
		v := versions[a%len(versions)]
		if w.quality[v] = []VerdictPhase{VerdictPassed, VerdictFailed, VerdictInconclusive, VerdictNoTraffic, VerdictRunning}[b%5]; b%2 == 0 {
			delete(w.quality, v)
		}
		w.say("measurements of %s: %s", v, w.quality[v])
	}},
	{"analysis", 1, func(w *world, a, b int) {
		w.edit("analysis", func(s *Spec) { s.Analysis = a%2 == 0 })
	}},
	{"hooks", 3, func(w *world, a, b int) {
		p := []Point{ConfirmRollout, PreRollout, ConfirmTrafficIncrease, ConfirmPromotion}[a%4]
		if w.hooks[p] = []string{"no", "fail"}[b%2]; b%4 > 0 {
			delete(w.hooks, p)
		}
		w.say("%s hooks answer %q", p, w.hooks[p])
	}},
	{"hook requests a rollback", 1, func(w *world, a, b int) {
		if v := versions[a%len(versions)]; b%3 == 0 {
			w.say("a hook requests a rollback of %s", v)
			w.back[v] = true
		} else {
			delete(w.back, v)
		}
	}},
	{"gates", 1, func(w *world, a, b int) {
		w.edit("gates", func(s *Spec) { s.Gates = someGates(a) })
	}},
	{"load", 3, func(w *world, a, b int) {
		w.load = b % 9
		w.say("all traffic of a group needs %d pods", w.load)
		w.edit("autoscaling", func(s *Spec) { s.Autoscaled = w.load > 0 })
	}},
	{"canary scale", 1, func(w *world, a, b int) {
		w.edit("canary scale", func(s *Spec) { s.MatchWeight = a%2 == 0 })
	}},
	{"split", 1, func(w *world, a, b int) {
		if w.spec.Exclusive {
			return
		}
		w.edit("split", func(s *Spec) { s.SplitBy = []SplitBy{SplitByDefault, SplitByPods, SplitByRoutes}[a%3] })
	}},
	{"more replicas", 1, func(w *world, a, b int) {
		w.edit("more replicas", func(s *Spec) { s.Replicas = 1 + a%12 })
	}},
	{"move tag", 1, func(w *world, a, b int) {
		if b%3 == 0 {
			w.moved[versions[a%len(versions)]]++
		}
	}},
	{"regroup", 2, func(w *world, a, b int) {
		if b%2 == 0 {
			w.regroup([]string{"", "all", "minor"}[a%3])
		}
	}},
	{"policy is created again", 1, func(w *world, a, b int) {
		if n, ok := pick(w.nets, a); ok {
			w.remake(n)
		}
	}},
	{"policy without a gateway", 1, func(w *world, a, b int) {
		if w.nets["odd"] == nil {
			w.policy("odd").never = true
		} else if n, ok := pick(w.nets, a); ok && b%8 == 0 {
			n.never = true
		}
	}},
	{"clock goes back", 1, func(w *world, a, b int) {
		w.turnBack([]time.Duration{time.Second, 30 * time.Second, time.Hour}[a%3])
	}},
	{"gateway loses its routes", 1, func(w *world, a, b int) {
		if n, ok := pick(w.nets, a); ok {
			w.forget(n)
			n.stuck = b%2 == 0
		}
	}},
	{"full cluster", 2, func(w *world, a, b int) {
		if b%2 > 0 {
			w.fill(a%10, []string{"Unschedulable", "QuotaExceeded"}[b/2%2])
		} else {
			w.fill(-1, "")
		}
	}},
	{"webhook", 1, func(w *world, a, b int) {
		w.refuse = b%2 > 0
		clear(w.denied)
		if o, ok := pick(w.objects, a); ok && b%3 > 0 {
			w.denied[o.Release] = true
		}
		w.say("creations are rejected: %t; changes are rejected for %v", w.refuse, slices.Collect(maps.Keys(w.denied)))
	}},
	{"pin a preview", 1, func(w *world, a, b int) {
		w.edit("pin a preview", func(s *Spec) {
			s.Pins = []Pin{{Group: []string{"7", "8", "12"}[a%3], Version: []string{"pr-7-a", "pr-7-b", "pr-8-a"}[b%3]}}
		})
	}},
	{"restore", 4, func(w *world, a, b int) {
		if b%4 == 0 {
			w.loseState()
		}
	}},
	{"end groups", 2, func(w *world, a, b int) {
		w.edit("end groups", func(s *Spec) {
			s.Ended = nil
			for i, group := range []string{"1.x", "2-x", "7", "release", "1.1.x"} {
				if b%3 > 0 && a>>i&1 > 0 {
					s.Ended = append(s.Ended, group)
				}
			}
		})
	}},
	{"undo the end of groups", 3, func(w *world, a, b int) {
		w.edit("undo the end of groups", func(s *Spec) { s.Ended = nil })
	}},
	{"end one group", 3, func(w *world, a, b int) {
		group := []string{"1.x", "2-x", "7", "release", "1.1.x"}[a%5]
		w.edit("end one group", func(s *Spec) { s.Ended = []string{group} })
	}},
	{"second", 6, func(w *world, a, b int) { w.advance(time.Second) }},
	{"all statuses are lost", 1, func(w *world, a, b int) {
		if b%3 > 0 {
			return
		}
		for _, o := range w.objects {
			o.handled = ""
		}
		w.loseState()
		for _, o := range w.objects {
			o.Reported = ""
		}
		for _, n := range w.nets {
			n.reports, n.answered = map[string]Report{}, false
		}
	}},
	{"no template", 1, func(w *world, a, b int) {
		if w.configure(""); b%2 == 0 {
			w.configure("c1")
		}
	}},
	{"no one answers hooks", 1, func(w *world, a, b int) {
		p := []Point{ConfirmRollout, PreRollout, ConfirmTrafficIncrease, ConfirmPromotion}[a%4]
		w.hooks[p] = "away"
		w.say("no one answers the %s hooks", p)
	}},
	{"Gateway is deleted or restored", 1, func(w *world, a, b int) {
		if n, ok := pick(w.nets, a); ok {
			n.away = !n.away
			w.say("the Gateway of %s is deleted: %t", n.name, n.away)
			w.stats.faults++
		}
	}},
	{"pin a release", 1, func(w *world, a, b int) {
		if o, ok := pick(w.objects, a); ok {
			pin := Pin{Release: o.Release, Global: b%2 == 0}
			if !pin.Global {
				pin.Group = o.Name
			}
			w.edit("pin a release", func(s *Spec) { s.Pins = []Pin{pin} })
		}
	}},
	{"freeze", 2, func(w *world, a, b int) {
		if w.thaw(); b%3 > 0 {
			w.freeze([]time.Duration{0, time.Minute, 20 * time.Minute, 5 * time.Hour}[a%4])
		}
	}},
	{"deadline", 1, func(w *world, a, b int) {
		w.edit("deadline", func(s *Spec) { s.Deadline = []time.Duration{time.Minute, 10 * time.Minute, time.Hour}[a%3] })
	}},
}

// people contains the users who make decisions, with their groups.
var people = []Decision{{By: "ann", Groups: []string{"sre"}}, {By: "bob", Groups: []string{"shop", "owners"}}, {By: "eve"}, {By: "joe", Groups: []string{"shop"}}}

// manySteps contains the lists of steps that a history can use.
var manySteps = [][]Step{
	nil,
	{{Weight: 10, Pause: time.Minute}, {Weight: 50, Pause: 5 * time.Minute}},
	{{Weight: 50}},
	{{Weight: 1}, {Name: "half", Weight: 50, Approval: true}},
	{{Weight: 0, Pause: 2 * time.Minute}, {Weight: 100, Pause: time.Minute}},
	{{Weight: 0, Match: true, Pause: time.Minute}, {Weight: 20, Confirm: true}, {Weight: 50, Match: true, Pause: time.Minute, Confirm: true}},
	{{Weight: 0, Mirror: 50, Pause: time.Minute, Confirm: true}, {Weight: 30, Window: &Window{}}, {Weight: 100, Pause: time.Minute, Window: &Window{}}},
	{{Weight: 25, Confirm: true}, {Weight: 50, Confirm: true}, {Weight: 75}},
	{{Weight: 20, Approval: true, Approvers: 2}, {Weight: 50, Pause: time.Minute}},
	{{Weight: 10, Approval: true, ApproversFrom: []string{"sre", "owners"}}, {Weight: 60, Approval: true, Approvers: 2, ApproversFrom: []string{"sre", "owners"}}},
}

func someSteps(a int) []Step { return manySteps[a%len(manySteps)] }

// wholeSteps returns a copy of the steps in which each step has full weight, no match, and no mirroring. The schema allows only such steps
// for an exclusive group.
func wholeSteps(steps []Step) []Step {
	out := slices.Clone(steps)
	for i := range out {
		out[i].Weight, out[i].Match, out[i].Mirror = 100, false, 0
	}
	return out
}

func someGates(a int) (gates []Point) {
	for i, p := range []Point{ConfirmRollout, PreRollout, ConfirmPromotion} {
		if a>>i&1 > 0 {
			gates = append(gates, p)
		}
	}
	return gates
}

// starts is the number of specifications with which a history can start.
var starts = 2 * len(manySteps) * 3 * 3 * 2 * 8 * 2 * 3 * 2 * 2 * 4 * 2 * 3 * 4 * 2 * 2 * 3 * 3

// begin sets the specification with which a history starts.
func (w *world) begin(start int) {
	choose := func(n int) int {
		x := start % n
		start /= n
		return x
	}
	w.jobs = start >= starts/2
	w.spec.Drain, w.spec.FailureJobs, w.spec.GateJobs = 5*time.Second, w.jobs && start%2 == 0, w.jobs
	w.spec.Steps = someSteps(choose(len(manySteps)))
	w.spec.MinimumAvailable = 1 + choose(3)
	w.startup = time.Duration(choose(3)) * 5 * time.Second
	w.spec.Analysis = choose(2) == 1
	w.spec.Gates = someGates(choose(8))
	w.spec.MatchWeight = choose(2) == 1
	w.spec.Previews.MaxGroups = 1 + choose(3)
	w.spec.Previews.MaxAge = time.Duration(choose(2)) * 30 * time.Minute
	w.spec.EndHooks = choose(3) == 0
	newest := choose(2) == 1
	blind := choose(4) // If blind is set, even a policy that is created during the history observes no endpoints at first.
	w.blind, w.aware, w.began = blind > 0, choose(2) == 1, [2]time.Time{w.now, w.now}
	w.pulls = choose(3) == 0
	switch choose(4) {
	case 0: // a worker
		w.spec.Replicas = 5
		if choose(2) == 1 {
			w.spec.Replicas, w.spec.Exclusive = 1+choose(2), true
			w.grace = time.Duration(choose(3)) * 20 * time.Second
			w.spec.Steps = wholeSteps(w.spec.Steps)
		}
		return
	case 1:
		w.spec.SplitBy = SplitByPods
	}
	w.policy("web").newest = newest
}

// deck contains each kind of event n times, where n is the share of the kind.
var deck = func() []int {
	var d []int
	for i, h := range happenings {
		for range h.share {
			d = append(d, i)
		}
	}
	return d
}()

// play runs the events, then ends all faults and runs the world, and checks that
// every rollout ends.
func play(ops []op, rules []rule, start int) *world {
	w := newWorld()
	w.rules, w.sparse = rules, true
	w.play(ops, start)
	return w
}

func (w *world) play(ops []op, start int) {
	w.begin(start)
	for _, x := range ops {
		h := happenings[deck[x.Kind%len(deck)]]
		w.say("op %s %d %d", h.name, x.A, x.B)
		h.do(w, x.A, x.B)
		w.check()
		w.snap()
		if w.err != nil {
			return
		}
	}
	w.epilogue()
}

// epilogue ends the faults, and checks that everything completes (invariant 7).
func (w *world) epilogue() {
	w.say("epilogue")
	w.leaders = [2]*leader{{}, {}}
	w.broken = map[string]string{}
	clear(w.hooks)
	maps.DeleteFunc(w.quality, func(_ string, v VerdictPhase) bool { return v == VerdictRunning })
	for _, o := range w.objects {
		o.ActiveJobs = o.kind != "" // Each Job has a timeout.
		if outside[Reason(o.why)] != "" {
			o.why = ""
		}
	}
	for _, n := range w.nets {
		n.stuck, n.away = false, false
	}
	if w.config == "" {
		w.configure("c1")
	}
	w.stale, w.refuse, w.room = false, false, -1
	clear(w.denied)
	w.edit("end of pause", func(s *Spec) { s.Paused = false })
	w.thaw()
	if w.ids%3 > 0 { // In all other histories, groups end.
		w.edit("no group ends", func(s *Spec) { s.Ended = nil })
	}
	w.run(24 * time.Hour)
	if w.err != nil {
		return
	}
	o, _, _ := w.observe(lags{})
	p := planWith(o, w.now, w.rules)
	if p.Changed || len(p.Retire) > 0 || len(p.Ensure) > 0 {
		w.fail("liveness: the simulation does not become stable:\n%s", render(p))
	}
	for i := range w.rolloutState.Groups {
		w.checkEnd(&w.rolloutState.Groups[i], p.Notes)
		w.checkNewest(o, &w.rolloutState.Groups[i], p.Notes)
	}
	w.checkRegrouped(o, p)
	w.checkGroups(o, p)
	if w.err != nil {
		w.say("facts at the end: %s", describe(o, p))
	}
}

// checkRegrouped checks that a group that the grouping no longer produces does not prevent a version that is offered
// in another group from starting.
func (w *world) checkRegrouped(o Observed, p Result) {
	b := newPlanner(o, w.now)
	b.groups = o.State.Groups
	if len(o.Spec.Pins) > 0 || b.missingPin() != nil || !o.PullRequests && len(b.strayPins()) > 0 || o.SourceStale {
		return
	}
	for i := range b.groups {
		g := &b.groups[i]
		a := g.ActiveRow()
		if g.Level == preview || g.Phase != Live || !b.excluded(g.Slug) || a == nil {
			continue
		}
		for _, c := range o.Candidates {
			if c.Level == preview || compare(c.Version, a.Version) < 0 || b.withdrawnGroup(c.Slug) || o.State.group(c.Slug) != nil || w.endedByUser(&Group{Slug: c.Slug, Name: c.Name}) {
				continue
			}
			w.fail("regroup: excluded group %s keeps %s, but %s of group %s is offered and does not start\n%s", g.Slug, a.Version, c.Version, c.Slug, renderGroup(g))
		}
	}
}

func (w *world) checkEnd(g *Group, notes []Note) {
	waits := func(reasons ...Reason) bool {
		return slices.ContainsFunc(notes, func(n Note) bool { return n.Slug == g.Slug && slices.Contains(reasons, n.Reason) })
	}
	if a := g.ActiveRow(); waits("TrafficUnconfirmed") && (a == nil || w.objects[a.Release].ready == 0) {
		return // The routes keep the releases that still respond, and the policy reports this.
	}
	if w.endedByUser(g) && g.Phase == Live && !waits("GroupExcluded") {
		w.fail("liveness: a user ended group %s, but it still exists\n%s", g.Slug, renderGroup(g))
	}
	switch g.Phase {
	case Closing:
		w.fail("liveness: group %s is still closing", g.Slug)
	case Expired:
		w.checkExpired(g)
		return
	}
	if g.Rollout != nil && !waits("AwaitingApproval", "AwaitingGroup", "TrafficLost", "AnalysisInconclusive", "AnalysisNoTraffic") && !(w.away() && (waits(Blocked, "OnlyServing") || g.Row(g.Rollout.Release).Attempt > 0)) { // The release is retried at increasing intervals.
		w.fail("liveness: the rollout of %s never ends\n%s", g.Rollout.Release, renderGroup(g))
	}
	w.checkPin(g, waits("PinnedReleaseFailed"))
	kept := 0
	for _, r := range g.Releases {
		switch {
		case r.Promoted > 0 && r.Status != Error:
			kept++
		case r.Status == Deprecated && waits("TrafficUnconfirmed") && w.heldBy(g.Slug, r):
		case r.Status == Deprecated, (r.Status == Pending || r.Status == Canary) && g.Rollout == nil:
			w.fail("liveness: %s stays %s\n%s", r.Release, r.Status, renderGroup(g))
		}
	}
	pins := 0
	for _, n := range w.nets {
		pins += len(n.pins)
	}
	if kept > w.spec.MinimumAvailable+pins && !waits("TrafficUnconfirmed") {
		w.fail("rule 39: group %s keeps %d releases\n%s", g.Slug, kept, renderGroup(g))
	}
	if g.Target.Reason == "Latest" && g.Rollout == nil && g.ActiveRow() != nil && g.Target.Release != g.ActiveRow().Release {
		w.fail("liveness: group %s does not move to %s\n%s", g.Slug, g.Target.Release, renderGroup(g))
	}
}

// endedByUser reports whether a user ends a group.
func (w *world) endedByUser(g *Group) bool {
	return slices.ContainsFunc(w.spec.Ended, func(name string) bool {
		return name == g.Name || name == g.Slug || g.PullRequest > 0 && name == fmt.Sprint(g.PullRequest)
	})
}

// heldBy reports whether a policy whose gateway does not exist still reports a release, or has not
// confirmed that the release is not in any route.
func (w *world) heldBy(slug string, row Row) bool {
	for _, n := range w.nets {
		for _, r := range n.reports {
			behind := r.Slug == slug && row.Zero != nil && r.Revision > 0 && r.Revision < row.Zero.Revision
			if n.never && (behind || slices.Contains(r.References, row.Release)) {
				return true
			}
		}
	}
	return false
}

// away reports whether no gateway exists that could confirm routes, or whether a gateway that has confirmed
// routes no longer exists. A rollout may wait for the reports of such a gateway.
func (w *world) away() bool {
	all, one := len(w.nets) > 0, false
	for _, n := range w.nets {
		all = all && n.never
		for _, r := range n.reports {
			one = one || n.never && r.Revision > 0
		}
	}
	return all || one
}

// counts returns the counts of a history, which are added up over all histories.
func (s stats) counts() []simulate.Count {
	return []simulate.Count{
		{What: "steps", N: s.steps}, {What: "plans", N: s.plans}, {What: "writes", N: s.writes}, {What: "conflicts", N: s.conflicts},
		{What: "faults", N: s.faults}, {What: "promotions", N: s.promotions}, {What: "failed releases", N: s.failures},
	}
}

// shorten removes the events without which a failing history still fails. It then runs the remaining events
// and records the plans.
func shorten(ops []op, start int) *world {
	ops = simulate.Shorten(ops, func(fewer []op) bool { return play(fewer, rules, start).err != nil })
	w := newWorld()
	w.log, w.sparse = &strings.Builder{}, true
	w.play(ops, start)
	return w
}

// history returns the events and the start number that a seed determines.
func history(seed uint64) (ops []op, start int) {
	random := rand.New(rand.NewPCG(seed, 0))
	ops = make([]op, 60+random.IntN(200))
	a, b := 1+random.IntN(240), 1+random.IntN(240) // A small range results in histories with few objects.
	for i := range ops {
		ops[i] = op{random.IntN(len(deck)), random.IntN(a), random.IntN(b)}
	}
	return ops, random.IntN(starts)
}

// playSeed runs the random history for a seed.
func playSeed(seed uint64, rules []rule) (w *world) {
	defer func() {
		if x := recover(); x != nil {
			w = newWorld()
			w.fail("panic: %v", x)
		}
	}()
	ops, start := history(seed)
	return play(ops, rules, start)
}

// TestSimulate runs random histories, as many at a time as there are processors. For a history that
// violates an invariant, it prints the shortened history and the seed, with which -sim.seed replays
// the history.
func TestSimulate(t *testing.T) {
	simulation.Run(t, simulate.Play{
		Package: "./internal/release",
		Quick:   100, Usual: 400, GC: 800,
		Seed: func(seed uint64) ([]simulate.Count, error) {
			w := playSeed(seed, rules)
			return w.stats.counts(), w.err
		},
		Shrink: func(seed uint64) (error, string) {
			w := shorten(history(seed))
			return w.err, w.log.String() + w.played()
		},
	})
}
