package traffic

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
	"github.com/heighliner/heighliner/internal/release"
	"github.com/heighliner/heighliner/internal/version"
	"github.com/heighliner/heighliner/test/simulate"
)

var pairs = simulate.Flags("pair", "TestPlannerAndPolicies")

// pairOp is one event of a history; a and b choose among the existing objects.
type pairOp struct{ kind, a, b int }

// pairHappening is a kind of pairOp, with its share of all events.
type pairHappening struct {
	name  string
	share int
	do    func(p *pair, a, b int)
}

func choose[V any](m map[string]V, i int) (name string, v V, ok bool) {
	if len(m) == 0 {
		return "", v, false
	}
	keys := providers.Sorted(m)
	name = keys[i%len(keys)]
	return name, m[name], true
}

var pairVersions = []string{"1.0.0", "1.1.0", "1.1.1", "1.2.0", "1.3.0", "2.0.0", "2.1.0", "2.2.0", "3.0.0"}

func someVersion(i int) string { return pairVersions[i%len(pairVersions)] }

// someDomains returns the domains whose bits are set. The domain for bit 64 selects requests by
// header, which a plain Ingress does not support.
func someDomains(bits int) (out []v1alpha1.Domain) {
	for i, x := range []v1alpha1.Domain{
		{Domain: "shop.example.com"},
		{Domain: "{{.ReleaseGroupName}}.shop.example.com"},
		{Domain: "pin.example.com", Release: &v1alpha1.DomainRelease{Version: "1.0.0"}},
		{Domain: "named.example.com", Groups: &v1alpha1.DomainGroups{Policy: v1alpha1.GroupsNamed, Names: []string{"1-x"}}},
		{Domain: "try.example.com", Release: canaryOf("")},
		{Domain: "try2.example.com", Release: canaryOf(v1alpha1.AbsentNotFound)},
		{Domain: "chosen.example.com", CanaryMatches: []v1alpha1.CanaryMatch{{Headers: []v1alpha1.MatchValue{{Name: "X-Team", Value: "a"}}}}},
		{Domain: "{{.Version}}.example.com"},
	} {
		if bits>>i&1 > 0 {
			x.Port = "http"
			out = append(out, x)
		}
	}
	return out
}

var pairSteps = [][]release.Step{
	nil,
	{{Weight: 10, Pause: time.Minute}, {Weight: 50, Pause: 5 * time.Minute}},
	{{Weight: 50}},
	{{Weight: 0, Pause: 2 * time.Minute}, {Weight: 100, Pause: time.Minute}},
	{{Weight: 0, Match: true, Pause: time.Minute}, {Weight: 20}, {Weight: 50, Match: true, Pause: time.Minute}},
	{{Weight: 0, Mirror: 50, Pause: time.Minute}, {Weight: 30}, {Weight: 100, Pause: time.Minute}},
}

// change edits the specification of a policy.
func (n *front) change(edit func(*v1alpha1.NetworkPolicySpec)) {
	n.policy = n.policy.DeepCopy()
	edit(&n.policy.Spec)
	n.policy.Generation++
}

const pairGateway = "infra/public"

var pairHappenings = []pairHappening{
	{"plan", 20, func(p *pair, a, b int) { p.plan(0) }},
	{"interrupted plan", 4, func(p *pair, a, b int) { p.plan(1 + b%4) }},
	{"pods", 16, func(p *pair, a, b int) { p.pods() }},
	{"one pod", 3, func(p *pair, a, b int) {
		if _, o, ok := choose(p.objects, a); ok && o.why == "" && o.ready < o.size() && p.free() > 0 {
			o.ready++
			p.endpoints()
		}
	}},
	{"pass", 30, func(p *pair, a, b int) {
		if name, _, ok := choose(p.nets, a); ok {
			p.pass(name, []int{0, 0, 1, 2}[b%4])
		}
	}},
	{"accept", 20, func(p *pair, a, b int) {
		if name, _, ok := choose(p.nets, a); ok {
			p.accept(name)
		}
	}},
	{"time", 16, func(p *pair, a, b int) {
		p.advance([]time.Duration{time.Second, 5 * time.Second, 6 * time.Second, 30 * time.Second, time.Minute, 11 * time.Minute}[a%6])
	}},
	{"requeue", 10, func(p *pair, a, b int) {
		if p.requeueAt.After(p.now) {
			p.advance(p.requeueAt.Sub(p.now))
		}
	}},
	{"all", 6, func(p *pair, a, b int) { p.settle() }},
	{"push", 10, func(p *pair, a, b int) { p.push(someVersion(a)) }},
	{"drop", 1, func(p *pair, a, b int) { delete(p.offers, someVersion(a)) }},
	{"deny", 1, func(p *pair, a, b int) { p.deny(someVersion(a)) }},
	{"regroup", 1, func(p *pair, a, b int) { p.regroup([]string{"", "all", "minor"}[a%3]) }},
	{"new policy", 1, func(p *pair, a, b int) {
		if name := []string{"shop", "api"}[a%2]; p.nets[name] == nil {
			p.policy(name)
		}
	}},
	{"lose policy", 1, func(p *pair, a, b int) {
		if name, _, ok := choose(p.nets, a); ok && b%4 == 0 {
			p.lose(name)
		}
	}},
	{"policy re-created", 1, func(p *pair, a, b int) {
		if name, n, ok := choose(p.nets, a); ok && b%2 == 0 {
			spec := n.policy.Spec
			p.lose(name)
			p.policy(name).policy.Spec = spec
		}
	}},
	{"domains", 3, func(p *pair, a, b int) {
		if _, n, ok := choose(p.nets, a); ok && n.policy.Spec.Provider != nil {
			n.change(func(s *v1alpha1.NetworkPolicySpec) {
				if s.Domains = someDomains(b); s.Provider.Ingress != nil && s.Provider.Ingress.AnnotationPrefix == "" {
					s.Domains = someDomains(b &^ 64)
				}
			})
		}
	}},
	{"provider", 2, func(p *pair, a, b int) {
		if _, n, ok := choose(p.nets, a); ok {
			n.change(func(s *v1alpha1.NetworkPolicySpec) {
				s.Provider, s.Domains = []*v1alpha1.NetworkProvider{&byGateway, &byNginx, &byPlain, nil}[b%4], someDomains(b/4)
				switch b % 4 {
				case 2:
					s.Domains = someDomains(b / 4 &^ 64)
				case 3:
					s.Domains = nil
				}
			})
		}
	}},
	{"stick", 1, func(p *pair, a, b int) {
		if name, n, ok := choose(p.nets, a); ok {
			n.stuck = !n.stuck
			p.say("the gateway of %s is stuck: %t", name, n.stuck)
		}
	}},
	{"gateway", 1, func(p *pair, a, b int) {
		if name, n, ok := choose(p.nets, a); ok {
			if n.gateways[pairGateway] == nil {
				n.gateways[pairGateway] = gateway(80, gatewayv1.HTTPProtocolType, "")
			} else if b%3 == 0 {
				n.deleteGateway()
			}
			p.say("the Gateway of %s exists: %t", name, n.gateways[pairGateway] != nil)
		}
	}},
	{"lose pods", 3, func(p *pair, a, b int) {
		if _, o, ok := choose(p.objects, a); ok {
			o.ready, o.up = max(0, o.ready-1-b%3), p.now.Add(p.startup)
			p.endpoints()
		}
	}},
	{"spoil", 1, func(p *pair, a, b int) {
		if _, o, ok := choose(p.objects, a); ok {
			o.ready, o.why = 0, []string{"CrashLoopBackOff", "Unschedulable"}[b%2]
			p.endpoints()
		}
	}},
	{"heal", 1, func(p *pair, a, b int) {
		if _, o, ok := choose(p.objects, a); ok {
			o.why = ""
		}
	}},
	{"break", 1, func(p *pair, a, b int) { p.broken[someVersion(a)] = b%2 == 0 }},
	{"remove", 1, func(p *pair, a, b int) {
		if name, _, ok := choose(p.objects, a); ok && b%3 == 0 {
			p.say("remove %s by hand", name)
			delete(p.objects, name)
			p.endpoints()
		}
	}},
	{"remove a group", 1, func(p *pair, a, b int) {
		_, of, ok := choose(p.objects, a)
		for name, o := range p.objects {
			if ok && b%3 == 0 && o.Slug == of.Slug {
				p.say("remove %s by hand", name)
				delete(p.objects, name)
			}
		}
		p.endpoints()
	}},
	{"canary domains", 1, func(p *pair, a, b int) {
		if _, n, ok := choose(p.nets, a); ok && n.policy.Spec.Provider != nil && n.policy.Spec.Provider.Gateway != nil {
			n.change(func(s *v1alpha1.NetworkPolicySpec) {
				s.Domains = append(someDomains(b), v1alpha1.Domain{
					Domain: "try-{{.ReleaseGroupName}}.example.com", Port: "http", Groups: &v1alpha1.DomainGroups{Policy: v1alpha1.GroupsEach}, Release: canaryOf(""),
				})
			})
		}
	}},
	{"decide", 3, func(p *pair, a, b int) {
		if name, o, ok := choose(p.objects, a); ok {
			d := release.Decision{Action: []release.Action{release.Continue, release.Adopt, release.Deprecate, release.Retry}[b%4], ID: strconv.Itoa(len(p.trace)) + "-" + strconv.Itoa(p.stats.plans), Step: strconv.Itoa(1 + b%3)}
			o.Decision = &d
			p.say("decide %s on %s", d.Action, name)
		}
	}},
	{"steps", 1, func(p *pair, a, b int) { p.setSteps(pairSteps[a%len(pairSteps)]) }},
	{"replicas", 1, func(p *pair, a, b int) { p.spec.Replicas, p.spec.Standby = 1+a%4, b%2 }},
	{"minimum", 1, func(p *pair, a, b int) { p.spec.MinimumAvailable = 1 + a%3 }},
	{"pause", 1, func(p *pair, a, b int) { p.spec.Paused = a%3 == 0 }},
	{"pin", 1, func(p *pair, a, b int) {
		if p.spec.Pins = nil; b%3 > 0 {
			_, name := p.groupOf(someVersion(a))
			p.spec.Pins = []release.Pin{{Group: name, Version: someVersion(a)}}
		}
	}},
	{"configure", 1, func(p *pair, a, b int) { p.config = []string{"c1", "c2"}[a%2] }},
	{"restore", 1, func(p *pair, a, b int) {
		if b%3 == 0 {
			p.loseRecord()
		}
	}},
	{"clock goes back", 1, func(p *pair, a, b int) {
		p.turnBack([]time.Duration{time.Second, 30 * time.Second, time.Hour}[a%3])
	}},
	{"full cluster", 1, func(p *pair, a, b int) {
		if p.room = -1; b%2 > 0 {
			p.room = a % 8
		}
	}},
	{"webhook", 1, func(p *pair, a, b int) { p.refuse = b%2 > 0 }},
	{"load", 3, func(p *pair, a, b int) {
		p.load = b % 9
		p.say("all traffic of a group needs %d pods", p.load)
	}},
	{"Service quota", 2, func(p *pair, a, b int) {
		if name, n, ok := choose(p.nets, a); ok {
			n.full = !n.full
			p.say("policy %s can create Services: %t", name, !n.full)
		}
	}},
	{"end groups", 1, func(p *pair, a, b int) {
		p.spec.Ended = nil
		for i, group := range []string{"1.x", "2-x", "3.x", "1.1.x"} {
			if b%3 > 0 && a>>i&1 > 0 {
				p.spec.Ended = append(p.spec.Ended, group)
			}
		}
		p.say("ended groups: %v", p.spec.Ended)
	}},
	{"webhook that rejects updates", 1, func(p *pair, a, b int) {
		clear(p.denied)
		if name, _, ok := choose(p.objects, a); ok && b%3 > 0 {
			p.denied[name] = true
			p.say("changes to %s are rejected", name)
		}
	}},
	{"no template", 1, func(p *pair, a, b int) { p.config = []string{"", "c1"}[b%2] }},
	{"pin a release", 1, func(p *pair, a, b int) {
		if name, o, ok := choose(p.objects, a); ok {
			p.spec.Pins = []release.Pin{{Group: o.Name, Release: name}}
		}
	}},
	{"gates", 2, func(p *pair, a, b int) {
		p.spec.Gates = nil
		for i, point := range []release.Point{release.PreRollout, release.ConfirmRollout, release.ConfirmPromotion} {
			if a>>i&1 > 0 {
				p.spec.Gates = append(p.spec.Gates, point)
			}
		}
	}},
	{"hooks", 2, func(p *pair, a, b int) {
		p.hooks[[]release.Point{release.PreRollout, release.ConfirmRollout, release.ConfirmPromotion}[a%3]] = []string{"", "no", "away"}[b%3]
	}},
	{"freeze", 1, func(p *pair, a, b int) {
		if p.spec.Freeze = nil; b%3 > 0 {
			p.spec.Freeze = &release.Freeze{Name: "Freeze fair", Reason: "fair"}
		}
		p.say("frozen: %t", p.spec.Freeze != nil)
	}},
	{"gone", 1, func(p *pair, a, b int) { p.gone(someVersion(a)) }},
	{"close a group", 1, func(p *pair, a, b int) {
		if len(p.rollout.Groups) == 0 {
			return
		}
		slug := p.rollout.Groups[a%len(p.rollout.Groups)].Slug
		if p.closed[slug] = b%2 > 0; p.closed[slug] {
			for v, c := range p.offers {
				if c.Slug == slug {
					delete(p.offers, v)
				}
			}
		}
		p.say("group %s is closed: %t", slug, p.closed[slug])
	}},
	{"status of a policy is lost", 1, func(p *pair, a, b int) {
		if name, n, ok := choose(p.nets, a); ok && !n.stuck && n.gateways[pairGateway] != nil && b%2 == 0 {
			p.accept(name) // The loss of a status while a gateway has not accepted routes is an open finding.
			p.say("the status of policy %s is lost", name)
			n.report(v1alpha1.NetworkPolicyStatus{})
			p.plan(0) // A report of the policy before the planner observes the loss is also an open finding.
		}
	}},
	{"Service deleted by hand", 1, func(p *pair, a, b int) {
		if name, n, ok := choose(p.nets, a); ok && !n.full && len(p.rollout.Groups) > 0 { // Otherwise, the Service is created after the rollout state.
			if service, s, ok := choose(n.services, b); ok && p.objects[s.Spec.Selector[v1alpha1.LabelRelease]] != nil {
				p.say("Service %s of policy %s is deleted by hand", service, name)
				n.services = maps.Clone(n.services)
				delete(n.services, service)
				for p.pass(name, 0) && n.services[service] == nil { // The first reconcile might only reserve references.
				}
			}
		}
	}},
	{"route deleted by hand", 1, func(p *pair, a, b int) {
		if name, n, ok := choose(p.nets, a); ok {
			if route, _, ok := choose(n.routes, b); ok {
				p.say("route %s of policy %s is deleted by hand", route, name)
				n.routes = maps.Clone(n.routes)
				delete(n.routes, route)
				n.noteDeleted()
			}
		}
	}},
	{"route edited by hand", 1, func(p *pair, a, b int) {
		name, n, ok := choose(p.nets, a)
		if !ok {
			return
		}
		route, r, ok := choose(n.routes, b)
		if !ok || len(r.Spec.Rules) == 0 {
			return
		}
		p.say("the weights of route %s of policy %s are edited by hand", route, name)
		r = r.DeepCopy()
		for i := range r.Spec.Rules {
			if refs := r.Spec.Rules[i].BackendRefs; len(refs) > 1 {
				refs[0].Weight, refs[1].Weight = refs[1].Weight, refs[0].Weight
			}
		}
		r.Generation++
		n.routes = maps.Clone(n.routes)
		n.routes[route] = r
	}},
	{"drain", 1, func(p *pair, a, b int) {
		p.spec.Drain = []time.Duration{5 * time.Second, time.Minute, 30 * time.Second}[a%3]
	}},
	{"measurements", 2, func(p *pair, a, b int) {
		v := someVersion(a)
		p.quality[v] = []release.VerdictPhase{release.VerdictPassed, release.VerdictFailed, release.VerdictInconclusive, release.VerdictNoTraffic}[b%4]
	}},
	{"analysis", 1, func(p *pair, a, b int) { p.spec.Analysis = a%2 == 0 }},
	{"canary scale", 1, func(p *pair, a, b int) { p.spec.MatchWeight, p.spec.StandbyFull = a%2 == 0, b%3 == 0 }},
	{"push a preview", 8, func(p *pair, a, b int) { p.push([]string{"pr-7-a", "pr-7-b", "pr-8-a", "pr-9-a"}[a%4]) }},
	{"close a preview", 1, func(p *pair, a, b int) {
		slug := []string{"pr-7", "pr-8", "pr-9"}[a%3]
		for v := range p.offers {
			if strings.HasPrefix(v, slug) {
				delete(p.offers, v)
			}
		}
		p.closed[slug] = true
		p.say("%s is closed", slug)
	}},
	{"preview slots", 1, func(p *pair, a, b int) { p.spec.Previews.MaxGroups = 1 + a%3 }},
	{"pins", 1, func(p *pair, a, b int) {
		p.spec.Pins = nil
		v := someVersion(a)
		_, name := p.groupOf(v)
		pin := release.Pin{Version: v, Group: name, Current: b%2 == 0}
		if b%3 == 0 {
			pin.Group, pin.Global = "", true
		}
		if b%5 == 0 {
			pin.Expire = p.now.Add(20 * time.Minute)
		}
		p.spec.Pins = []release.Pin{pin}
		p.say("pin %+v", pin)
	}},
	{"reopen ended groups", 1, func(p *pair, a, b int) {
		for i := range p.rollout.Groups {
			if g := &p.rollout.Groups[i]; g.Phase == release.Closing {
				p.spec.Ended = nil
				delete(p.closed, g.Slug)
				if b%2 == 0 && len(g.Releases) > 0 { // The version is removed from the registry.
					delete(p.offers, g.Releases[a%len(g.Releases)].Version)
				}
				if b%3 == 0 && len(g.Releases) > 0 {
					p.push(g.Releases[a%len(g.Releases)].Version)
				}
				p.say("reopen %s, offers %v", g.Slug, providers.Sorted(p.offers))
			}
		}
	}},
	{"clock jump and lost rollout state", 1, func(p *pair, a, b int) {
		if b%3 == 0 {
			p.say("clock jumps, and the rollout state is lost")
			p.turnBack([]time.Duration{30 * time.Second, time.Hour, 48 * time.Hour}[a%3])
			p.loseRecord()
		}
	}},
	{"clock goes forward", 1, func(p *pair, a, b int) { p.advance([]time.Duration{time.Hour, 50 * time.Hour}[a%2]) }},
	{"approvals", 1, func(p *pair, a, b int) {
		p.setSteps([]release.Step{{Weight: 20, Approval: true}, {Weight: 60, Confirm: true}})
	}},
	{"end one", 2, func(p *pair, a, b int) {
		p.spec.Ended = nil
		if len(p.rollout.Groups) > 0 && b%3 > 0 {
			p.spec.Ended = []string{p.rollout.Groups[a%len(p.rollout.Groups)].Slug}
		}
		p.say("ended groups: %v", p.spec.Ended)
	}},
	{"status of a release is wiped", 2, func(p *pair, a, b int) {
		if name, o, ok := choose(p.objects, a); ok {
			p.say("status of %s is wiped", name)
			o.Available, o.Unsettled, o.Reported = 0, true, ""
		}
	}},
	{"claims", 1, func(p *pair, a, b int) {
		if name, n, ok := choose(p.nets, a); ok {
			if n.claims = nil; b%3 > 0 {
				n.claims = []Claim{{policy: "other", host: []string{"shop.example.com", "1-x.shop.example.com", "try.example.com"}[b%3], path: "/", younger: b%5 == 0}}
			}
			p.say("claims against %s: %v", name, n.claims)
		}
	}},
	{"Service names are taken", 1, func(p *pair, a, b int) {
		if name, n, ok := choose(p.nets, a); ok {
			clear(n.foreign)
			if b%3 > 0 {
				s := []string{"shop", "shop-1-x", "shop-2-x"}[b%3]
				if _, o, ok := choose(p.objects, a); ok && b%4 == 1 {
					s = newPlanner(n.facts()).ReleaseService(o.Release)
				}
				if n.services[s] == nil {
					n.foreign[s] = true
				}
			}
			p.say("foreign Services of %s: %v", name, n.foreign)
		}
	}},
	{"a hook Job starts or finishes", 2, func(p *pair, a, b int) {
		if _, o, ok := choose(p.objects, a); ok {
			o.ActiveJobs = !o.ActiveJobs
			o.GateJobs = o.ActiveJobs && b%2 == 0
		}
	}},
	{"Jobs for failures", 1, func(p *pair, a, b int) { p.spec.FailureJobs = a%2 == 0 }},
	{"a group ends and is reopened", 3, func(p *pair, a, b int) {
		if len(p.rollout.Groups) == 0 {
			return
		}
		g := p.rollout.Groups[a%len(p.rollout.Groups)]
		if g.Phase != release.Live {
			return
		}
		p.spec.Ended = []string{g.Slug}
		p.say("end %s", g.Slug)
		for range b % 3 {
			p.plan(0)
			for _, name := range providers.Sorted(p.nets) {
				p.pass(name, 0)
				p.accept(name)
			}
		}
		p.advance([]time.Duration{0, time.Second, 5 * time.Second}[a%3])
		p.plan(0)
		p.spec.Ended = nil
		p.say("undo")
		p.plan(0)
	}},
	{"another policy comes and goes", 1, func(p *pair, a, b int) {
		if p.nets["odd"] == nil {
			p.policy("odd").policy.Spec.Domains = someDomains(a)
		} else {
			p.lose("odd")
		}
	}},
	{"all statuses are wiped", 1, func(p *pair, a, b int) {
		if b%3 > 0 {
			return
		}
		for _, name := range providers.Sorted(p.nets) {
			if n := p.nets[name]; n.stuck || n.gateways[pairGateway] == nil {
				return
			}
		}
		for _, name := range providers.Sorted(p.nets) {
			p.accept(name)
		}
		p.say("all statuses are wiped")
		p.wipe(b%2 == 0)
	}},
	{"all policies lose their status", 1, func(p *pair, a, b int) {
		for _, name := range providers.Sorted(p.nets) {
			if n := p.nets[name]; n.stuck || n.gateways[pairGateway] == nil {
				return
			}
		}
		for _, name := range providers.Sorted(p.nets) {
			p.accept(name) // The loss of a status while a gateway has not accepted routes is an open finding.
			p.nets[name].report(v1alpha1.NetworkPolicyStatus{})
		}
		p.say("all policies lose their status")
		p.plan(0) // A report of a policy before the planner observes the loss is also an open finding.
	}},
	{"sources differ", 1, func(p *pair, a, b int) {
		if b%4 == 0 {
			p.say("all offers vanish")
			clear(p.offers)
		}
	}},
}

// pairFaults contains the events that are faults in the environment of the planner and the
// policies.
var pairFaults = map[string]bool{
	"interrupted plan": true, "lose policy": true, "policy re-created": true, "stick": true, "gateway": true, "lose pods": true, "spoil": true, "break": true,
	"remove": true, "remove a group": true, "restore": true, "clock goes back": true, "full cluster": true, "webhook": true, "Service quota": true,
	"webhook that rejects updates": true, "no template": true, "status of a policy is lost": true, "all statuses are wiped": true, "all policies lose their status": true, "Service deleted by hand": true, "route deleted by hand": true, "route edited by hand": true,
}

// pairDeck contains each kind of event as many times as its share specifies.
var pairDeck = func() (deck []int) {
	for i, h := range pairHappenings {
		for range h.share {
			deck = append(deck, i)
		}
	}
	return deck
}()

// pairHistory returns the history for a seed: the events and the initial state.
func pairHistory(seed uint64) (ops []pairOp, start int) {
	random := rand.New(rand.NewPCG(seed, 7))
	ops = make([]pairOp, 40+random.IntN(120))
	a, b := 1+random.IntN(240), 1+random.IntN(1024) // A small range results in histories with few objects.
	for i := range ops {
		ops[i] = pairOp{random.IntN(len(pairDeck)), random.IntN(a), random.IntN(b)}
	}
	return ops, random.IntN(1 << 20)
}

// playPair runs the events, ends the faults, runs all controllers until they are stable, and checks the result.
func playPair(ops []pairOp, start int) (p *pair) {
	p = newPair()
	defer func() {
		if x := recover(); x != nil {
			p.fail("panic: %v\n%s", x, debug.Stack())
		}
	}()
	p.spec.MinimumAvailable = 1 + start/8%3
	p.startup = time.Duration(start/32%3) * 5 * time.Second
	p.pulls = start/40000%6 == 0
	p.setSteps(pairSteps[start%len(pairSteps)])
	p.policy("shop").policy.Spec.Domains = someDomains(1 + start/128%255)
	for _, x := range ops {
		h := pairHappenings[pairDeck[x.kind]]
		p.say("op %s %d %d", h.name, x.a, x.b)
		p.stats.steps++
		if pairFaults[h.name] {
			p.stats.faults++
		}
		if h.do(p, x.a, x.b); p.err != nil {
			return p
		}
	}
	p.epilogue()
	return p
}

// epilogue ends the faults, and checks that all rollouts come to an end.
func (p *pair) epilogue() {
	p.say("epilogue")
	clear(p.broken)
	clear(p.denied)
	clear(p.hooks)
	p.spec.Paused, p.spec.Freeze, p.room, p.refuse = false, nil, -1, false
	for _, o := range p.objects {
		o.ActiveJobs, o.GateJobs = false, false
	}
	if p.config == "" {
		p.config = "c1"
	}
	for _, o := range p.objects {
		if o.why == "Unschedulable" {
			o.why = ""
		}
	}
	for _, n := range p.nets {
		n.stuck, n.full, n.claims = false, false, nil
		clear(n.foreign)
		n.shared = &snapshot{}
		if n.gateways[pairGateway] == nil {
			n.gateways[pairGateway] = gateway(80, gatewayv1.HTTPProtocolType, "")
		}
	}
	if p.run(80 * time.Hour); p.err != nil {
		return
	}
	was, sequence := p.policyWrites(), p.rollout.Sequence
	if p.run(24 * time.Hour); p.err != nil {
		return
	}
	if n := p.rollout.Sequence - sequence; n > 6 {
		p.fail("livelock: %d writes of the rollout state on the second day", n)
	}
	if n := p.policyWrites() - was; n > 12 {
		p.fail("livelock: %d writes of policies on the second day", n)
	}
	p.checkOutside()
	plan := release.Plan(p.observe(), p.now)
	if plan.Changed || len(plan.Retire)+len(plan.Ensure) > 0 {
		p.fail("the simulation does not become stable")
	}
	for i := range p.rollout.Groups {
		p.checkEnd(&p.rollout.Groups[i], plan.Notes)
		p.checkNewest(&p.rollout.Groups[i], plan.Notes)
	}
}

// checkEnd checks that, in a stable group, everything that is still in progress reports why, and
// that policies route as the group requires.
func (p *pair) checkEnd(g *release.Group, notes []release.Note) {
	waits := func(reasons ...release.Reason) bool {
		return slices.ContainsFunc(notes, func(n release.Note) bool { return n.Slug == g.Slug && slices.Contains(reasons, n.Reason) })
	}
	statuses := func() string {
		var b strings.Builder
		for _, n := range notes {
			fmt.Fprintf(&b, "\n   %s %s %s", n.Slug, n.Reason, n.Message)
		}
		return b.String()
	}
	a := g.ActiveRow()
	dead := a == nil || p.objects[a.Release] == nil || p.objects[a.Release].ready == 0
	if g.Phase == release.Closing && !(waits("TrafficUnconfirmed") && p.onlyAnswer(g)) {
		p.fail("group %s is still closing: %s", g.Slug, statuses())
	}
	if p.ended(g) && !waits("GroupExcluded") {
		p.fail("group %s was ended but remains: %s", g.Slug, statuses())
	}
	if g.Rollout != nil && !waits("AwaitingApproval", "AwaitingGroup", "TrafficLost", "AnalysisInconclusive", "AnalysisNoTraffic") {
		p.fail("the rollout of %s never ends: %s", g.Rollout.Release, statuses())
	}
	if waits("TrafficUnconfirmed") && !dead {
		p.fail("group %s: %s", g.Slug, statuses())
	}
	for _, r := range g.Releases {
		if r.Promoted == 0 && r.Status == release.Deprecated && !dead {
			p.fail("%s stays deprecated: %s", r.Release, statuses())
		}
	}
	if dead || g.Rollout != nil {
		return
	}
	for name, n := range p.nets {
		report := Find(n.policy.Status.Groups, g.Slug)
		if report.Revision != g.TrafficRevision {
			if report.Reason == "" || report.Reason == ReasonPending {
				p.fail("policy %s stays at %d of %d in group %s: %s %s", name, report.Revision, g.TrafficRevision, g.Slug, report.Reason, report.Message)
			}
			continue
		}
		for _, r := range report.References {
			if r != a.Release && !slices.Contains(report.Pinned, r) && p.objects[r] != nil { // A release that a user deleted has no pods.
				p.fail("policy %s: group %s still references %s", name, g.Slug, r)
			}
		}
	}
}

// onlyAnswer reports whether a group that is closing is the only group with ready pods, in which
// case routes continue to target it.
func (p *pair) onlyAnswer(g *release.Group) bool {
	answers := func(g *release.Group, r release.Row) bool {
		o := p.objects[r.Release]
		return o != nil && o.Slug == g.Slug && o.ready > 0
	}
	for i := range p.rollout.Groups {
		if x := &p.rollout.Groups[i]; x.Slug != g.Slug && x.ActiveRow() != nil && answers(x, *x.ActiveRow()) {
			return false
		}
	}
	return slices.ContainsFunc(g.Releases, func(r release.Row) bool { return answers(g, r) })
}

// ended reports whether a user has ended a group.
func (p *pair) ended(g *release.Group) bool {
	return slices.Contains(p.spec.Ended, g.Name) || slices.Contains(p.spec.Ended, g.Slug)
}

// checkNewest checks that, in a stable state, a group is at its newest good version or at the
// pinned version, or reports why not.
func (p *pair) checkNewest(g *release.Group, notes []release.Note) {
	for _, n := range notes {
		if n.Slug != "" && n.Slug != g.Slug || n.Event {
			continue
		}
		switch n.Reason {
		case "Pinned", "PinnedVersionMissing", "PinnedReleaseFailed", "GroupExcluded", "TooManyReleases", "AwaitingApproval", "AwaitingGroup", "TrafficLost", "AnalysisInconclusive", "AnalysisNoTraffic":
			return
		}
	}
	wanted := ""
	for _, c := range p.observe().Candidates {
		r := g.Row(c.Release)
		if c.Slug == g.Slug && c.Level != "Preview" && (r == nil || r.Status != release.Error) && !(g.Failed.Version != "" && version.Compare(c.Version, g.Failed.Version) <= 0) && version.Compare(c.Version, wanted) > 0 {
			wanted = c.Version
		}
	}
	a := g.ActiveRow()
	switch {
	case g.Phase != release.Live || wanted == "":
	case a == nil:
		p.fail("newest: group %s has no active release, but %s is offered", g.Slug, wanted)
	case version.Compare(a.Version, wanted) < 0, a.Version != wanted && p.deniedIn(g, a.Version):
		p.fail("newest: group %s is at %s, but %s is offered", g.Slug, a.Version, wanted)
	}
}

// kind returns the first characters of the failure message, without the time. They identify the
// kind of failure.
func (p *pair) kind() string {
	if p.err == nil {
		return ""
	}
	_, text, _ := strings.Cut(p.err.Error()[12:], " ")
	return text[:min(len(text), 14)]
}

// note returns the events of a history, and the state at its end.
func (p *pair) note() string {
	var b strings.Builder
	for _, l := range p.trace {
		fmt.Fprintln(&b, l)
	}
	for _, name := range providers.Sorted(p.objects) {
		o := p.objects[name]
		fmt.Fprintf(&b, "%s: %+v ready %d why %q\n", name, o.Object, o.ready, o.why)
	}
	for _, g := range p.rollout.Groups {
		fmt.Fprintf(&b, "group %+v\n", g)
		if g.Rollout != nil {
			fmt.Fprintf(&b, "  run %+v\n", *g.Rollout)
		}
	}
	for _, name := range providers.Sorted(p.nets) {
		n := p.nets[name]
		fmt.Fprintf(&b, "policy %s: %s\n", name, mustJSON(n.policy.Status.Groups))
		f := n.facts()
		for _, route := range providers.Sorted(f.Live) {
			stamp, _ := f.Live[route].Stamp()
			fmt.Fprintf(&b, "  route %s %v weights %v stamp %+v\n", route, f.Live[route].Hostnames, f.Live[route].Weights, stamp)
		}
	}
	return b.String()
}

// TestPlannerAndPolicies runs the real planner and the real decisions of policies together in
// random histories. It runs as many histories at a time as there are processors. For a failed
// history, the test prints the value of -pair.seed that repeats the history, and the shortest
// failing history.
func TestPlannerAndPolicies(t *testing.T) {
	pairs.Run(t, simulate.Play{
		Package: "./controllers/networkpolicy/traffic",
		Quick:   30, Usual: 150, GC: 400,
		Seed: func(seed uint64) ([]simulate.Count, error) {
			p := playPair(pairHistory(seed))
			return p.stats.counts(), p.err
		},
		Shrink: func(seed uint64) (error, string) {
			ops, start := pairHistory(seed)
			kind := playPair(ops, start).kind()
			p := playPair(simulate.Shorten(ops, func(fewer []pairOp) bool { return playPair(fewer, start).kind() == kind }), start)
			return p.err, p.note()
		},
	})
}

// counts returns the counts of a history, which the test adds to the total.
func (s pairStats) counts() []simulate.Count {
	return []simulate.Count{
		{What: "steps", N: s.steps}, {What: "faults", N: s.faults}, {What: "plans", N: s.plans}, {What: "passes", N: s.passes},
		{What: "promotions", N: s.promotions}, {What: "failed releases", N: s.failures}, {What: "passes that delay first traffic", N: s.delays},
	}
}
