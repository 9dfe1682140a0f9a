package traffic

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
	"github.com/heighliner/heighliner/internal/release"
)

// pair contains the planner and the policies of one Microservice. Their environment is simulated:
// the registry, the objects and pods of releases, the API server, and the gateways. Time is
// virtual. The planner and the policies make the same decisions as in a cluster. The first
// violation of a user's expectation is stored in err.
type pair struct {
	now       time.Time
	spec      release.Spec
	config    string
	scheme    string // scheme is the grouping of versions: "" (by major), all or minor.
	offers    map[string]release.Candidate
	withdrawn []release.Withdrawal
	closed    map[string]bool // closed contains the groups that the source closed.
	refuse    bool            // refuse reports whether an admission webhook is unavailable, which makes creations fail.
	room      int             // room is the number of pods that fit into the cluster; a negative number means no limit.
	load      int             // load is the number of pods that a group's total traffic needs, if releases have autoscalers.
	// denied contains the releases for whose objects the API server rejects changes.
	denied map[string]bool
	// unstamped contains the denied releases that the last plan could not stamp.
	unstamped map[string]bool
	quality   map[string]release.VerdictPhase // quality contains the results of measurements, by version. Measurements pass by default.
	pulls     bool                            // pulls reports whether versions are heads of pull requests.
	hooks     map[release.Point]string        // hooks contains the responses of hooks: "" for yes, "no", or "away" for no response.
	// misled contains the hooks that reached a release other than the one that they should test, by
	// the name of the release that they should test.
	misled map[string]misled

	rollout release.State
	ms      *v1alpha1.Microservice // ms contains the rollout state as policies read it.
	past    []*v1alpha1.Microservice
	objects map[string]*object
	nets    map[string]*front

	broken    map[string]bool // broken contains the versions whose pods never become ready.
	startup   time.Duration
	began     time.Time            // began is the start time of the manager.
	requeueAt time.Time            // requeueAt is the time at which the last plan requests another reconcile.
	named     map[string]time.Time // named contains the times at which a route last referred to a release.
	trace     []line
	err       error
	stats     pairStats
}

// misled describes the release that a hook reached, and the time of the first call of the hook.
type misled struct {
	since time.Time
	what  string
}

type pairStats struct{ steps, faults, plans, passes, promotions, failures, delays int }

// object is the VersionedMicroservice of a release, together with the release's pods.
type object struct {
	release.Object
	up    time.Time // up is the time at which the pods can be ready.
	ready int
	why   string // why is the reason why the pods never become ready.
	auto  bool   // auto reports whether the release has an autoscaler, whose minimum is Replicas.
}

// front is a NetworkPolicy with its objects and its gateway.
type front struct {
	*world
	serves map[string]answering // serves contains the served content, by route.
	stuck  bool                 // stuck reports whether the gateway accepts no change, and serves the previous content, including deleted routes.
	// served increases with each change to the served content.
	served int
	// named contains the releases that were referenced in state namedIn. took is the state in which
	// the gateway had accepted all routes.
	named         map[string]string
	namedIn, took frontState
}

// frontState identifies the state of a front: its objects, its rollout state, and the content that
// the gateway serves.
type frontState struct {
	snapshot, served int
	ms               *v1alpha1.Microservice
}

func (n *front) state() frontState { return frontState{n.refresh(), n.served, n.ms} }

// answering is the content that a gateway serves for a route.
type answering struct {
	hosts    []string
	releases map[string]int // releases contains the weights of releases; 0 means matched requests only.
	pinned   bool
	deleted  bool // deleted reports whether the route has since been deleted.
	gone     bool // gone reports whether a reconcile has found no replacement, which means that nothing shows that the gateway still serves the route.
}

func newPair() *pair {
	p := &pair{
		now: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC), config: "c1", room: -1,
		spec:   release.Spec{Replicas: 2, Standby: 1, MinimumAvailable: 2, Deadline: 10 * time.Minute, Drain: 5 * time.Second, Previews: release.Previews{MaxGroups: 20}},
		offers: map[string]release.Candidate{}, objects: map[string]*object{}, nets: map[string]*front{}, broken: map[string]bool{}, denied: map[string]bool{}, unstamped: map[string]bool{}, hooks: map[release.Point]string{}, quality: map[string]release.VerdictPhase{}, closed: map[string]bool{}, misled: map[string]misled{}, named: map[string]time.Time{},
		ms: &v1alpha1.Microservice{ObjectMeta: metav1.ObjectMeta{Name: "shop", Namespace: "prod", UID: "shop-uid"}},
	}
	p.setSteps(nil)
	return p
}

// line is a line of a trace. It is formatted only if a history fails.
type line struct {
	at     time.Time
	format string
	args   []any
}

func (l line) String() string { return l.at.Format("02 15:04:05 ") + fmt.Sprintf(l.format, l.args...) }

func (p *pair) say(format string, args ...any) {
	p.trace = append(p.trace, line{p.now, format, args})
}

func (p *pair) fail(format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf("%s: %s", p.now.Format("02 15:04:05"), fmt.Sprintf(format, args...))
	}
}

// Helper and Fatalf let a pair act as the test of its policies' worlds.
func (p *pair) Helper() {}

func (p *pair) Fatalf(format string, args ...any) { p.fail(format, args...) }

// --- the user, the registry and the pods ---

// setSteps changes the canary steps, including those in the specification that policies read.
func (p *pair) setSteps(steps []release.Step) {
	p.spec.Steps = steps
	p.ms = p.ms.DeepCopy()
	p.ms.Spec.UpdateStrategy.Canary = nil
	if len(steps) > 0 {
		p.ms.Spec.UpdateStrategy.Canary = &v1alpha1.CanaryStrategy{}
		for _, st := range steps {
			p.ms.Spec.UpdateStrategy.Canary.Steps = append(p.ms.Spec.UpdateStrategy.Canary.Steps, v1alpha1.CanaryStep{Weight: int32(st.Weight)})
		}
	}
	p.remember()
}

// remember stores the state that a lagging cache still contains.
func (p *pair) remember() {
	if p.past = append(p.past, p.ms); len(p.past) > 6 {
		p.past = p.past[1:]
	}
}

func (p *pair) policy(name string) *front {
	p.say("policy %s", name)
	w := newWorld(p)
	w.policy.Name, w.policy.UID = name, ""
	w.policy.Spec.MicroserviceRef = &v1alpha1.Reference{Name: "shop"}
	w.now, w.shared, w.stepwise = p.now, &snapshot{}, true
	n := &front{world: w, serves: map[string]answering{}}
	p.nets[name] = n
	return n
}

// lose deletes a policy and its objects.
func (p *pair) lose(name string) {
	p.say("policy %s is deleted", name)
	delete(p.nets, name)
	clear(p.named)
	p.noteNamed()
}

func (p *pair) groupOf(version string) (slug, name string) {
	if strings.HasPrefix(version, "pr-") {
		return version[:4], version[:4]
	}
	x := strings.Split(version, ".")
	switch p.scheme {
	case "all":
		return "release", "release"
	case "minor":
		return x[0] + "-" + x[1] + "-x", x[0] + "." + x[1] + ".x"
	}
	return x[0] + "-x", x[0] + ".x"
}

func (p *pair) push(version string) {
	if strings.HasPrefix(version, "pr-") != p.pulls {
		return
	}
	slug, name := p.groupOf(version)
	c := release.Candidate{Slug: slug, Name: name, Level: "Release", Version: version}
	if strings.HasPrefix(version, "pr-") {
		for v := range p.offers {
			if strings.HasPrefix(v, slug) {
				delete(p.offers, v)
			}
		}
		c.Level, c.PullRequest, c.Time = "Preview", int64(version[3]-'0'), p.now
	}
	delete(p.closed, slug)
	p.offers[version] = c
	p.withdrawn = slices.DeleteFunc(p.withdrawn, func(x release.Withdrawal) bool { return x.Version == version })
}

func (p *pair) deny(version string) {
	delete(p.offers, version)
	p.withdrawn = append(p.withdrawn, release.Withdrawal{Version: version, Reason: release.Denied})
}

// gone removes a version from the registry permanently.
func (p *pair) gone(version string) {
	delete(p.offers, version)
	p.withdrawn = append(p.withdrawn, release.Withdrawal{Version: version, Reason: release.Gone})
}

func (p *pair) regroup(scheme string) {
	p.scheme = scheme
	for version, c := range p.offers {
		c.Slug, c.Name = p.groupOf(version)
		p.offers[version] = c
		delete(p.closed, c.Slug)
	}
}

// loseRecord empties the status of the Microservice, as if a backup without statuses had been
// restored.
func (p *pair) loseRecord() {
	p.rollout = release.State{}
	p.ms = p.ms.DeepCopy()
	p.ms.Status = v1alpha1.MicroserviceStatus{}
	p.past = nil
	p.remember()
}

// wipe empties the statuses of the Microservice and the policies, as if a namespace had been
// restored without statuses. If releases is true, wipe also empties the statuses of the releases.
// The specifications, Services, and routes remain.
func (p *pair) wipe(releases bool) {
	p.loseRecord()
	for _, n := range p.nets {
		policy := *n.policy
		policy.Status = v1alpha1.NetworkPolicyStatus{}
		n.policy = &policy
	}
	for _, o := range p.objects {
		if releases {
			o.Available, o.Unsettled, o.Reported = 0, true, ""
		}
	}
}

// reportRelease writes the statuses of releases to their objects.
func (p *pair) reportRelease() (did bool) {
	for i := range p.rollout.Groups {
		for _, r := range p.rollout.Groups[i].Releases {
			if o := p.objects[r.Release]; o != nil && o.Reported != r.Status {
				o.Reported, did = r.Status, true
			}
		}
	}
	return did
}

// size returns the desired number of pods.
func (o *object) size() int {
	if o.Replicas == 0 {
		return 0
	}
	return max(o.Replicas, o.Current)
}

// autoscalers sets the number of pods that each serving release needs for its part of the load.
func (p *pair) autoscalers() {
	if p.load == 0 {
		return
	}
	for i := range p.rollout.Groups {
		for _, r := range p.rollout.Groups[i].Releases {
			if o := p.objects[r.Release]; o != nil && o.Replicas > 0 && (r.Status == release.Active || r.Status == release.Canary) {
				o.auto, o.Current = true, max(o.Replicas, (p.load*r.Weight+99)/100)
				o.ready = min(o.ready, o.Current)
			}
		}
	}
}

// pods starts pods, up to the capacity of the cluster, and updates the status of the objects.
func (p *pair) pods() (did bool) {
	p.autoscalers()
	for _, name := range providers.Sorted(p.objects) {
		o := p.objects[name]
		n := min(o.size(), o.ready+p.free())
		if o.why == "" && o.ready < n && !p.now.Before(o.up) {
			o.ready, did = n, true
		}
		failure := release.Reason("")
		if o.ready < o.size() {
			if failure = release.Reason(o.why); failure == "" && n < o.size() {
				failure = "Unschedulable"
			}
		}
		if o.Unsettled || o.Available != o.ready || o.Failure != failure {
			o.Unsettled, o.Available, o.Failure, did = false, o.ready, failure, true
		}
	}
	did = p.answerHooks() || did
	did = p.reportRelease() || did
	did = p.measure() || did
	p.endpoints()
	return did
}

// answerHooks calls the hooks of the gates at which rollouts are waiting.
func (p *pair) answerHooks() (did bool) {
	for i := range p.rollout.Groups {
		run := p.rollout.Groups[i].Rollout
		if run == nil || run.Gate == "" || run.GateTime.IsZero() || p.objects[run.Release] == nil {
			continue
		}
		answer := p.hooks[run.Gate]
		fact := release.GateFact{Rollout: run.Sequence, Step: run.Step, Point: run.Gate, Since: run.GateTime, Open: answer == "", Unanswered: answer == "away", Message: answer}
		o := p.objects[run.Release]
		if slices.Contains(o.Gates, fact) {
			continue
		}
		p.checkTried(&p.rollout.Groups[i], run)
		o.Gates, did = []release.GateFact{fact}, true
	}
	return did
}

// checkTried records hooks that should test a release before it has traffic, but reach another
// release through the canary domain. Their responses must not count.
func (p *pair) checkTried(g *release.Group, run *release.Rollout) {
	newest := true
	for i := range p.rollout.Groups {
		x := &p.rollout.Groups[i]
		if newest = newest && x.Slug != g.Slug; newest && x.Phase == release.Live || x.Slug != g.Slug && x.Rollout != nil {
			return // The domain routes to the newest group.
		}
	}
	for name, n := range p.nets {
		if run.Gate != release.PreRollout || n.stuck || n.full || n.gateways[pairGateway] == nil || !p.confirms(n, g) {
			continue
		}
		for route, s := range n.serves {
			asked := func(d v1alpha1.Domain) bool {
				return d.Release != nil && d.Release.Version == "" && slices.Contains(s.hosts, d.Domain)
			}
			if s.deleted || !slices.ContainsFunc(n.policy.Spec.Domains, asked) {
				continue // The policy no longer has a canary domain.
			}
			for other, weight := range s.releases {
				if weight > 0 && other != run.Release {
					p.misled[run.Release] = misled{run.GateTime, fmt.Sprintf("policy %s: PreRollout hooks of %s reach %s by route %s of %v", name, run.Release, other, route, s.hosts)}
				}
			}
		}
	}
}

// checkMisled checks that no plan passes a gate because of the response of a hook that reached
// another release.
func (p *pair) checkMisled(next release.State) {
	for _, g := range p.rollout.Groups {
		if g.Rollout == nil || g.Rollout.Gate != release.PreRollout {
			continue
		}
		m, met := p.misled[g.Rollout.Release]
		i := slices.IndexFunc(next.Groups, func(x release.Group) bool { return x.Slug == g.Slug })
		if !met || !m.since.Equal(g.Rollout.GateTime) || i < 0 {
			continue
		}
		if r := next.Groups[i].Row(g.Rollout.Release); r != nil && r.Decision == nil && (r.Status == release.Active || r.Status == release.Canary) {
			p.fail("%s, and their response counted", m.what)
		}
	}
}

// confirms reports whether a policy has confirmed a group or, if the group has no revision yet, the
// group that is serving. A policy that has never confirmed a revision does not block anything.
func (p *pair) confirms(n *front, g *release.Group) bool {
	for i := range p.rollout.Groups {
		if x := &p.rollout.Groups[i]; g.TrafficRevision == 0 && x.Phase == release.Live && x.ActiveRow() != nil {
			g = x
			break
		}
	}
	report := n.groupTraffic(g.Slug)
	return report.Revision > 0 && report.Revision == g.TrafficRevision
}

func (p *pair) free() int {
	if p.room < 0 {
		return 1 << 20
	}
	n := p.room
	for _, o := range p.objects {
		n -= o.ready
	}
	return max(0, n)
}

// endpoints updates the ready pods that policies observe, and the times at which releases got ready pods.
func (p *pair) endpoints() {
	for _, n := range p.nets {
		n.now = p.now
		before := maps.Clone(n.ready)
		clear(n.ready)
		for name, o := range p.objects {
			if o.ready == 0 {
				continue
			}
			n.ready[name] = o.ready
			if before[name] == 0 {
				if n.readySince == nil {
					n.readySince = map[string]time.Time{}
				}
				n.readySince[name] = p.now
			}
		}
	}
}

// --- the planner ---

func (p *pair) observe() release.Observed {
	o := release.Observed{Spec: p.spec, Config: p.config, State: p.rollout, PullRequests: p.pulls, Began: p.began, SourceStale: p.config == ""}
	for _, version := range slices.Sorted(maps.Keys(p.offers)) {
		if p.config == "" {
			break // For example, a ConfigMap of the template does not exist.
		}
		c := p.offers[version]
		c.Release = strings.ReplaceAll(c.Slug+"-"+version+"-"+p.config, ".", "-")
		o.Candidates = append(o.Candidates, c)
	}
	for i := range p.rollout.Groups {
		o.Withdrawn = append(o.Withdrawn, p.withdrawnOf(&p.rollout.Groups[i])...)
	}
	for _, name := range providers.Sorted(p.objects) {
		p.objects[name].Refused = p.unstamped[name]
		o.Objects = append(o.Objects, p.objects[name].Object)
	}
	for _, name := range providers.Sorted(p.nets) {
		policy := release.Policy{Name: name, Unreported: p.nets[name].policy.Status.Provider == ""}
		for _, g := range p.nets[name].policy.Status.Groups {
			r := release.Report{Slug: g.Slug, Revision: g.Revision, References: g.References, Withheld: g.Withheld, Pinned: g.Pinned, Active: g.Active, Newest: g.Newest, CanaryDomains: g.CanaryDomains, Canary: g.Canary, Unrouted: g.Unrouted, Reason: g.Reason, Message: g.Message}
			if g.ConfirmedTime != nil {
				r.Confirmed = g.ConfirmedTime.Time
			}
			policy.Groups = append(policy.Groups, r)
		}
		o.Policies = append(o.Policies, policy)
	}
	return o
}

// withdrawnOf returns the withdrawals that an ImagePolicy reports for a group: withdrawn versions,
// and the group itself if the source closed it or the current scheme does not create it.
func (p *pair) withdrawnOf(g *release.Group) (out []release.Withdrawal) {
	made := len(g.Releases) == 0
	for _, r := range g.Releases {
		slug, _ := p.groupOf(r.Version)
		made = made || slug == g.Slug
		for _, x := range p.withdrawn {
			if x.Version == r.Version {
				out = append(out, release.Withdrawal{Slug: g.Slug, Version: r.Version, Reason: x.Reason})
			}
		}
	}
	if p.closed[g.Slug] {
		return append(out, release.Withdrawal{Slug: g.Slug, Reason: release.Closed, Time: p.now})
	}
	if !made {
		out = append(out, release.Withdrawal{Slug: g.Slug, Reason: release.Excluded})
	}
	return out
}

// plan runs a whole reconcile of the planner; stop is the number of the write before which the
// manager stops, or 0 if the manager does not stop.
func (p *pair) plan(stop int) (did bool) {
	o, plan := p.make()
	p.stats.plans++
	p.requeueAt = plan.RequeueTime
	writes := 0
	ends := func() bool {
		if writes++; writes == stop {
			p.say("the manager stops")
			p.began = p.now
		}
		return writes == stop
	}
	for _, e := range plan.Ensure {
		if ends() {
			return true
		}
		did = p.ensure(o, e) || did
	}
	p.checkRecord(o, plan)
	if plan.Changed {
		if ends() {
			return true
		}
		p.checkMisled(plan.State)
		p.record(plan)
		did = true
	}
	p.report(plan)
	for _, x := range plan.Retire {
		if ends() {
			return true
		}
		did = p.retire(x) || did
	}
	for name, k := range p.objects {
		k.NeverActive = slices.Contains(plan.NeverActive, name)
	}
	return did
}

// make returns a plan. If the API server rejects a stamp that the plan requires, make creates another plan
// that takes this rejection into account.
func (p *pair) make() (release.Observed, release.Result) {
	clear(p.unstamped)
	for {
		o := p.observe()
		plan, again := release.Plan(o, p.now), false
		for _, e := range plan.Ensure {
			if !e.Create && e.Stamp > 0 && p.denied[e.Release] {
				p.unstamped[e.Release], again = true, true
			}
		}
		if !again {
			return o, plan
		}
	}
}

func (p *pair) ensure(o release.Observed, e release.Ensure) bool {
	k := p.objects[e.Release]
	if k == nil {
		i := slices.IndexFunc(o.Candidates, func(c release.Candidate) bool { return c.Release == e.Release })
		if !e.Create || p.refuse || i < 0 {
			return false
		}
		c := o.Candidates[i]
		k = &object{Object: release.Object{Release: e.Release, Slug: c.Slug, Name: c.Name, Level: c.Level, Version: c.Version, Config: p.config, Created: p.now, Stamp: e.Stamp, Replicas: e.Replicas, Unsettled: true}, up: p.now.Add(p.startup)}
		if p.broken[c.Version] {
			k.why = "CrashLoopBackOff"
		}
		p.objects[e.Release] = k
		delete(p.named, e.Release) // The release previously had another object, with other pods.
		p.say("create %s", e.Release)
		return true
	}
	if p.denied[e.Release] {
		return false
	}
	did := false
	if e.Stamp > k.Stamp {
		k.Stamp, did = e.Stamp, true
	}
	if e.Replicas > k.Replicas {
		k.Replicas, k.Unsettled, k.up, did = e.Replicas, true, p.now.Add(p.startup), true
	}
	return did
}

// record writes the rollout state.
func (p *pair) record(plan release.Result) {
	for _, g := range plan.State.Groups {
		p.checkDenied(&g)
		for _, r := range g.Releases {
			was := release.Row{}
			if i := slices.IndexFunc(p.rollout.Groups, func(x release.Group) bool { return x.Slug == g.Slug }); i >= 0 {
				if x := p.rollout.Groups[i].Row(r.Release); x != nil {
					was = *x
				}
			}
			switch {
			case r.Promoted > was.Promoted:
				p.stats.promotions++
			case r.Status == release.Error && was.Status != release.Error:
				p.stats.failures++
			}
		}
	}
	p.rollout = plan.State
	p.ms = p.ms.DeepCopy()
	p.ms.Status.Internal, p.ms.Status.ReleaseGroups = &v1alpha1.MicroserviceInternal{Sequence: p.rollout.Sequence}, nil
	for i := range p.rollout.Groups {
		p.ms.Status.ReleaseGroups = append(p.ms.Status.ReleaseGroups, groupAsRead(&p.rollout.Groups[i]))
	}
	p.remember()
	for _, n := range plan.Notes {
		if n.Event {
			p.say("event %s %s: %s", n.Slug, n.Reason, n.Message)
		}
	}
}

// report writes the conditions of the Microservice that policies read.
func (p *pair) report(plan release.Result) {
	var conditions []metav1.Condition
	if i := slices.IndexFunc(plan.Notes, func(n release.Note) bool { return n.Condition() == release.ConditionFrozen }); i >= 0 {
		conditions = []metav1.Condition{{Type: v1alpha1.ConditionFrozen, Status: metav1.ConditionTrue, Reason: string(plan.Notes[i].Reason), Message: plan.Notes[i].Message}}
	}
	if reflect.DeepEqual(conditions, p.ms.Status.Conditions) {
		return
	}
	p.ms = p.ms.DeepCopy()
	p.ms.Status.Conditions = conditions
	p.remember()
}

// groupAsRead returns a group of the rollout state as policies read it.
func groupAsRead(g *release.Group) v1alpha1.ReleaseGroup {
	out := v1alpha1.ReleaseGroup{
		Name: g.Name, Slug: g.Slug, Level: v1alpha1.ReleaseLevel(g.Level), PullRequest: g.PullRequest, Phase: v1alpha1.GroupPhase(g.Phase),
		Target: v1alpha1.GroupTarget{Release: g.Target.Release, Reason: string(g.Target.Reason)}, TrafficRevision: g.TrafficRevision,
	}
	if !g.TrafficTime.IsZero() {
		out.TrafficTime = new(metav1.NewMicroTime(g.TrafficTime))
	}
	if a := g.ActiveRow(); a != nil {
		out.Active = a.Version
	}
	if run := g.Rollout; run != nil {
		out.Rollout = &v1alpha1.Rollout{Release: run.Release, Sequence: run.Sequence, Step: int32(run.Step), Gate: v1alpha1.Gate(run.Gate), From: run.From}
	}
	for _, r := range g.Releases {
		out.Releases = append(out.Releases, v1alpha1.Release{
			VersionedMicroservice: r.Release, SemVer: v1alpha1.SemVer{Name: r.Name, Version: r.Version}, Config: r.Config,
			Status: v1alpha1.ReleaseStatus(r.Status), Weight: int32(r.Weight), Available: r.Available, Match: r.Match, MirrorPercent: int32(r.Mirror),
			Promoted: r.Promoted, Reason: string(r.Reason), LastTransitionTime: metav1.NewMicroTime(r.Since),
		})
	}
	return out
}

func (p *pair) retire(x release.Retire) bool {
	k := p.objects[x.Release]
	if k == nil || p.denied[x.Release] && !x.Delete {
		return false
	}
	p.checkRetire(k, x)
	if x.Delete {
		if k.ActiveJobs {
			p.fail("%s is deleted while a Job of its hooks runs", x.Release)
		}
		p.say("delete %s", x.Release)
		delete(p.objects, x.Release)
	} else {
		p.say("shrink %s to %d", x.Release, x.Replicas)
		if k.Replicas, k.Unsettled = x.Replicas, true; !k.auto || !p.active(x.Release) {
			k.ready, k.Current, k.auto = min(k.ready, x.Replicas), 0, false
		}
	}
	p.endpoints()
	return true
}

// active reports whether a release is the active release of its group.
func (p *pair) active(name string) bool {
	return slices.ContainsFunc(p.rollout.Groups, func(g release.Group) bool {
		r := g.Row(name)
		return r != nil && r.Status == release.Active
	})
}

// --- the policies and their gateways ---

// pass runs one reconcile of a policy with a rollout state that is lag writes behind the current
// one.
func (p *pair) pass(name string, lag int) (did bool) {
	n := p.nets[name]
	p.stats.passes++
	p.endpoints()
	n.ms = p.past[max(0, len(p.past)-1-lag)]
	f := n.facts()
	if Behind(n.ms, f) { // The objects of the policy are newer.
		n.ms = p.ms
		f = n.facts()
	}
	writes := n.writes
	if out, _ := n.pass(); out != nil {
		p.checkRoutes(name, f, out)
		p.checkGap(name, f, out)
	}
	n.ms = p.ms
	n.noteDeleted()
	if provider := n.policy.Spec.Provider; provider != nil && provider.Gateway == nil {
		p.accept(name) // An Ingress has no status that reports acceptance.
	}
	return n.writes != writes
}

// noteDeleted marks the served content of routes that a reconcile has deleted.
func (n *front) noteDeleted() {
	d := newPlanner(n.observed())
	for route, was := range n.serves {
		now := was
		if now.deleted = was.deleted || d.Live[route] == nil; now.deleted {
			now.gone = was.gone || !n.untaken(d, was.hosts)
		}
		if now.deleted != was.deleted || now.gone != was.gone {
			n.serves[route] = now
			n.served++
		}
	}
}

// deleteGateway deletes the Gateway. From then on, nothing is served until the Gateway is created
// again and accepts routes.
func (n *front) deleteGateway() {
	d := newPlanner(n.observed())
	for route := range n.serves {
		if live := d.Live[route]; live == nil || live.Provider == gatewayProvider.Name() {
			delete(n.serves, route)
		}
	}
	n.served++
	delete(n.gateways, pairGateway)
}

// accept makes the gateway of a policy accept and serve the written routes.
func (p *pair) accept(name string) bool {
	n := p.nets[name]
	if n.stuck && n.policy.Spec.Provider != nil && n.policy.Spec.Provider.Gateway != nil {
		return false
	}
	before := n.state()
	if before == n.took {
		p.noteNamed()
		return false
	}
	n.accept()
	served := n.serves
	n.serves = map[string]answering{}
	n.served++
	d := newPlanner(n.observed())
	for route, live := range d.Live {
		if !live.Accepted { // The gateway keeps serving the previous content of a route that it has not accepted.
			if was, ok := served[route]; ok {
				n.serves[route] = was
			}
			continue
		}
		now := answering{hosts: live.Hostnames, releases: map[string]int{}, pinned: live.Pinned()}
		for _, s := range live.Services {
			if r := d.releases[s]; r != "" {
				now.releases[r] += live.Weights[s]
			}
		}
		n.serves[route] = now
	}
	p.noteNamed()
	n.took = n.state()
	return n.took.snapshot != before.snapshot
}

// names returns the releases to which the written objects and the served content refer, each with
// a description of the reference. It ignores the routes of domains with a version.
func (n *front) names() map[string]string {
	now := n.state()
	if now == n.namedIn {
		return n.named
	}
	out := map[string]string{}
	d := newPlanner(n.observed())
	for name, live := range d.Live {
		if live.Pinned() {
			continue
		}
		for _, r := range d.releasesOf(live.Services) {
			out[r] = "route " + name
		}
		if d.previous(live) {
			continue // The gateway no longer serves the route.
		}
		if was := n.serves[name]; !was.deleted {
			for r := range was.releases {
				out[r] = "served route " + name
			}
		}
	}
	for name, was := range n.serves {
		if !was.deleted || was.gone || was.pinned || !n.untaken(d, was.hosts) {
			continue
		}
		for r := range was.releases {
			out[r] = "served route " + name + ", which is deleted,"
		}
	}
	for name, s := range n.services {
		if !OfRelease(s) {
			out[s.Spec.Selector[v1alpha1.LabelRelease]] = "Service " + name
		}
	}
	n.named, n.namedIn = out, now
	return out
}

// untaken reports whether a live route has some of the hosts of a deleted route, but has not been
// accepted yet. If so, the gateway might still serve the deleted route.
func (n *front) untaken(d *planner, hosts []string) bool {
	for name, live := range d.Live {
		if _, taken := n.serves[name]; !taken && !d.previous(live) && slices.ContainsFunc(live.Hostnames, func(host string) bool { return slices.Contains(hosts, host) }) {
			return true
		}
	}
	return false
}

// noteNamed records the referenced releases when time passes or a gateway accepts routes. No client
// can observe a reference that one reconcile adds and another one removes at the same moment.
func (p *pair) noteNamed() {
	for _, n := range p.nets {
		for r := range n.names() {
			p.named[r] = p.now
		}
	}
}

func (p *pair) advance(d time.Duration) {
	p.now = p.now.Add(d)
	p.noteNamed()
	p.endpoints()
}

// turnBack sets the clock back. The age of past events does not change.
func (p *pair) turnBack(d time.Duration) {
	p.now = p.now.Add(-d)
	for r, at := range p.named {
		p.named[r] = at.Add(-d)
	}
	for _, o := range p.objects {
		o.up = o.up.Add(-d)
	}
	p.endpoints()
}

// --- the passage of time ---

// settle runs all controllers until nothing changes, without advancing the clock.
func (p *pair) settle() {
	for i := 0; p.err == nil; i++ {
		if i > 100 {
			p.fail("the simulation does not become stable")
			return
		}
		did := p.plan(0)
		did = p.pods() || did
		for _, name := range providers.Sorted(p.nets) {
			did = p.pass(name, 0) || did
			did = p.accept(name) || did
		}
		if !did {
			p.checkServed()
			p.checkTruth()
			p.checkSilence()
			return
		}
	}
}

// run runs all controllers for the given time.
func (p *pair) run(d time.Duration) {
	end := p.now.Add(d)
	doze, sequence := 10*time.Second, int64(0)
	for i := 0; p.err == nil; i++ {
		if i > 3000 {
			p.fail("the controllers are requeued again and again")
			return
		}
		if p.settle(); !p.now.Before(end) {
			return
		}
		if doze = min(2*doze, 2*time.Hour); p.rollout.Sequence != sequence {
			doze, sequence = 10*time.Second, p.rollout.Sequence
		}
		next := end
		consider := func(t time.Time) {
			if t.After(p.now) && t.Before(next) {
				next = t
			}
		}
		consider(p.requeueAt)
		for _, o := range p.objects {
			consider(o.up)
		}
		consider(p.now.Add(doze)) // Policies are reconciled again because timers may be pending.
		p.advance(next.Sub(p.now))
	}
}

// --- checks of users' expectations ---

// checkRoutes checks that, while the active release of a group has endpoints, the routes of the
// group target only active releases and canaries, and only if they have endpoints.
func (p *pair) checkRoutes(name string, f *Observed, out *Decision) {
	d := newPlanner(f)
	if slices.ContainsFunc(out.groups, func(g *groupDecision) bool { return !g.delayed.IsZero() }) {
		p.stats.delays++
	}
	for _, r := range out.Routes {
		if r.Pinned != "" || len(r.rows) > 0 && (r.rows[0].pinned != "" || r.rows[0].canary) {
			continue
		}
		g := d.rollout.bySlug[r.slug]
		if g == nil {
			continue
		}
		a := g.ActiveRelease()
		if a == nil || !f.ready(a.VersionedMicroservice) {
			continue
		}
		delayed := slices.ContainsFunc(out.groups, func(x *groupDecision) bool { return x.group == g && !x.delayed.IsZero() })
		for _, b := range r.Backends {
			of := d.releases[b.Service]
			if !f.ready(of) {
				p.fail("policy %s: route %s of %v gives %d to %s, which has no endpoints, although %s has endpoints", name, r.Name, r.Hostnames, b.Weight, of, a.VersionedMicroservice)
			}
			row := d.rollout.rows[of]
			if delayed && row != nil && row.Status == v1alpha1.ReleaseDeprecated && row.Promoted > 0 {
				continue // The release keeps its traffic until the new release has been ready for FirstTrafficDelay.
			}
			if row == nil || row.Status != v1alpha1.ReleaseActive && row.Status != v1alpha1.ReleaseCanary {
				p.fail("policy %s: route %s of %v gives %d to %s, which is neither active nor canary", name, r.Name, r.Hostnames, b.Weight, of)
			}
		}
	}
}

// deniedIn reports whether a version of a group is denied.
func (p *pair) deniedIn(g *release.Group, version string) bool {
	return slices.ContainsFunc(p.withdrawnOf(g), func(x release.Withdrawal) bool { return x.Version == version && x.Reason == release.Denied })
}

// checkDenied checks that a canary loses its traffic in the first plan after its denial.
func (p *pair) checkDenied(g *release.Group) {
	for _, r := range g.Releases {
		if g.Phase == release.Live && !p.spec.Paused && r.Status == release.Canary && (r.Weight > 0 || r.Match || r.Mirror > 0) && p.deniedIn(g, r.Version) {
			p.fail("%s is denied but keeps %d%%", r.Release, r.Weight)
		}
	}
}

// checkServed checks that, after all controllers have done their work, no gateway routes to a
// denied version that is not the active release of its group, unless no other release has pods.
func (p *pair) checkServed() {
	for i := range p.rollout.Groups {
		g := &p.rollout.Groups[i]
		for _, r := range g.Releases {
			if g.Phase != release.Live || p.spec.Paused || r.Status == release.Active || !p.deniedIn(g, r.Version) {
				continue
			}
			others := false
			for name, o := range p.objects {
				others = others || name != r.Release && o.ready > 0
			}
			if !others {
				continue
			}
			for name, n := range p.nets {
				for route, s := range n.serves {
					if !n.stuck && !n.full && !s.pinned && s.releases[r.Release] > 0 && n.gateways[pairGateway] != nil && n.groupTraffic(g.Slug).Revision == g.TrafficRevision {
						p.fail("policy %s: route %s serves %d%% of %s, which is denied", name, route, s.releases[r.Release], r.Release)
					}
				}
			}
		}
	}
}

// checkRetire checks that pods are deleted only after they have lost their traffic and the drain
// delay has passed, and that no pods of an active release with endpoints are deleted.
func (p *pair) checkRetire(k *object, x release.Retire) {
	what := fmt.Sprintf("%s to %d", x.Release, x.Replicas)
	if x.Delete {
		what = "deletion of " + x.Release
	}
	if !x.Delete && x.Replicas >= p.spec.Replicas {
		return // The user requests fewer pods.
	}
	for _, g := range p.rollout.Groups {
		r := g.Row(x.Release)
		if r == nil || r.Status != release.Active || g.Phase != release.Live {
			continue
		}
		if !x.Delete && x.Replicas > 0 && len(p.nets) == 0 && !slices.ContainsFunc(g.Releases, func(r release.Row) bool { return r.Routed }) {
			continue // A group without routes splits its work by pods. The planner's simulation checks this.
		}
		if x.Delete || k.ready > 0 && k.Available > 0 && !p.withholds(x.Release) {
			p.fail("%s is active and has %d ready pods", what, k.ready)
		}
		return // The release has no ready pods, and is replaced.
	}
	if !x.Delete && x.Replicas > 0 && k.ready <= x.Replicas {
		return
	}
	for name, n := range p.nets {
		if by := n.names()[x.Release]; by != "" && (x.Delete || x.Replicas == 0) {
			p.fail("%s while %s of policy %s refers to it", what, by, name)
		}
	}
	if at, ok := p.named[x.Release]; ok && (x.Delete || x.Replicas == 0) && p.now.Sub(at) < 5*time.Second {
		p.fail("%s only %s after the last reference", what, p.now.Sub(at))
	}
}

// withholds reports whether a policy whose routes are served withholds traffic from a release.
func (p *pair) withholds(name string) bool {
	for _, n := range p.nets {
		for _, g := range n.policy.Status.Groups {
			if g.Revision > 0 && slices.Contains(g.Withheld, name) {
				return true
			}
		}
	}
	return false
}
