package release

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/heighliner/heighliner/internal/split"
)

// world simulates the environment of the planner: the registry, the objects of the releases
// with their pods, the NetworkPolicies with their gateways, and up to two
// managers, one of which might believe for too long that it is the leader. Time is virtual.
//
// Every write goes through a method that checks the invariants. The first
// violation is stored in err.
type world struct {
	now    time.Time
	rules  []rule
	spec   Spec
	config string

	offers    map[string]Candidate // by version; observe sets Release
	moved     map[string]int       // how often the tag of a version moved, by version
	stale     bool                 // the offers belong to an older specification of the source
	withdrawn []Withdrawal

	rolloutState State
	version      int // the resourceVersion of the Microservice, which contains the specification and the rollout state
	objects      map[string]*object
	nets         map[string]*net
	leaders      [2]*leader

	startup  time.Duration     // the time from a pod's start to its readiness
	answered map[string]bool   // previews whose end hooks have responded since the previews last had pods
	listed   map[string]bool   // releases that the rollout state has ever contained
	grace    time.Duration     // the time that a removed pod takes to terminate
	broken   map[string]string // the reasons why the pods of a version never become ready, by version

	quality map[string]VerdictPhase // the results of measurements by version; the default is Passed
	hooks   map[Point]string        // the answers of hooks: "" for approval, "no", "fail", or "away" for no answer
	back    map[string]bool         // versions whose rollback a hook requests

	past     []*snapshot
	ids      int
	handed   map[string]time.Time // when decisions were handled, by release and ID
	approved []approvedStep
	named    map[string]time.Time // when a written route last referred to a release
	taken    map[string]bool      // releases whose last pod the planner removed
	begun    map[string]bool      // groups that had an active release
	lost     map[string]bool      // groups in which an object was deleted manually, and groups whose status was lost

	requeueAt time.Time // the requeue time that the last plan requested

	objectNames, netNames, offerNames []string // sorted keys, see sortedKeys
	offered                           offered
	print                             []byte // a buffer that is reused

	peers map[string]*world // the worlds with which this world's releases are rolled out together

	scheme string // how versions are grouped: "" by major, "all" or "minor"
	// regrouped reports whether the scheme was different at an earlier time.
	regrouped bool
	pulls     bool         // the source contains pull requests
	began     [2]time.Time // when each manager began
	aware     bool         // managers know when they began
	blind     bool         // a policy observes only the endpoints of Services that it has already created
	room      int          // how many pods fit into the cluster; a negative number means no limit
	crowd     string       // the reason why further pods do not fit
	refuse    bool         // an admission webhook is not running, so the API server rejects creations
	// denied contains the releases whose objects cannot be changed, because the API server rejects such changes.
	denied map[string]bool
	load   int // how many pods the full traffic of a group needs if releases have autoscalers
	// jobs reports whether the ConfirmRollout hooks run migrations in Jobs, and whether Jobs revert the migrations of failed releases.
	jobs bool

	quick  bool // each plan is computed only once, and not compared with other plans
	sparse bool // each plan is compared with only one other plan, whose kind alternates
	// crashAt is the number of the write before which the manager stops. lateAt is the number of the write before
	// which the remaining writes of the stopped manager arrive. 0 means never.
	crashAt, lateAt int
	late            []write

	next  State // the state that is being written
	err   error
	trace []line
	last  []Result         // the last plans
	log   *strings.Builder // golden plans; nil if they are not recorded
	stats stats
}

type stats struct{ steps, plans, writes, conflicts, faults, promotions, failures int }

// object is a release's VersionedMicroservice with its pods.
type object struct {
	Object
	uid, rv int
	ready   int       // pods with a ready endpoint
	was     bool      // some of its pods were ready before
	up      time.Time // when its pods can become ready
	asked   time.Time // when it first requested pods
	auto    bool      // it has an autoscaler, which does not go below Replicas
	why     string    // the reason why its pods never become ready
	crowded bool      // some of its pods do not fit into the cluster
	gone    time.Time // when the last of its removed pods has terminated
	handled string    // the last decision that was copied from the rollout state
	held    bool      // its pods wait until the pods of another release in an exclusive group have terminated
	job               // the Job of its hook, if hooks have Jobs
}

// net is a NetworkPolicy with its routes.
type net struct {
	name   string
	stuck  bool // its gateway accepts nothing
	room   int  // between how many releases a route may split the traffic; 0 means any number
	never  bool // its gateway never accepts anything, because there is no such gateway
	away   bool // its gateway was deleted, so accepted routes no longer serve anything
	seen   int64
	pins   []string
	pass   *pass
	routes map[string]*routed
	// newest reports whether the policy has domains that route to the newest group. stream is their route, or nil
	// if there is none yet.
	newest   bool
	stream   *stream
	reports  map[string]Report
	reported []string        // the sorted keys of reports
	serves   map[string]bool // releases for which it has a Service
	answered bool            // it has a status
}

// pass contains the data that a policy has read before it writes.
type pass struct {
	rolloutState State
	ready        map[string]int
	pins         []string
	saw          map[string]int // versions of the groups' objects, which are preconditions of the write
}

// routed is the content of a group's routing objects, and the part of the content that the gateway has accepted.
type routed struct {
	rv                int
	revision          int64
	answers           bool
	written, accepted map[string]int
	service           string
	pinned            []string
	withheld          []string
}

func (c *routed) names() []string {
	set := map[string]bool{}
	for r := range c.written {
		set[r] = true
	}
	for r := range c.accepted {
		set[r] = true
	}
	if c.service != "" {
		set[c.service] = true
	}
	for _, r := range c.pinned {
		set[r] = true
	}
	return slices.Sorted(maps.Keys(set))
}

// accepts reports whether the gateway has accepted a route to a release.
func (c *routed) accepts(release string) bool {
	_, there := c.accepted[release]
	return there
}

// leader is a manager that believes that it is the leader, with the remaining writes of its plan.
type leader struct {
	last int64
	todo []write
}

type write struct {
	ensure       *Ensure
	retire       *Retire
	rolloutState *State
	never        bool  // the object should have the mark of a release that was never active
	version      int   // a precondition on the rollout state
	sequence     int64 // the sequence of the rollout state of the plan
	object       *object
	config       string
	cand         Candidate
	seen         *Observed // the input of the plan, which all its writes share
	planned      time.Time // the time of the plan, for a retire
}

// snapshot is the state of the world at a point in time, for caches that lag.
// Snapshots share unchanged values, so no part of a snapshot is ever changed.
type snapshot struct {
	at           time.Time
	spec         Spec
	config       string
	rolloutState State
	version      int
	names        []string // the sorted names of objects
	objects      map[string]*object
	policies     []Policy
	offers       []Candidate
	gone         []Withdrawal
}

// offered contains the candidates that result from offers, a template, and moved tags. The candidates are computed
// again when any of these changes.
type offered struct {
	from       []Candidate
	config     string
	moves      int
	candidates []Candidate
}

func newWorld() *world {
	w := &world{
		now: t0, rules: rules, config: "c1",
		spec:   Spec{Replicas: 2, Standby: 1, MinimumAvailable: 2, Deadline: 10 * time.Minute, Drain: 30 * time.Second, Previews: Previews{MaxGroups: 20}},
		offers: map[string]Candidate{}, moved: map[string]int{},
		objects: map[string]*object{}, nets: map[string]*net{}, leaders: [2]*leader{{}, {}},
		broken: map[string]string{}, quality: map[string]VerdictPhase{}, hooks: map[Point]string{}, back: map[string]bool{}, handed: map[string]time.Time{}, named: map[string]time.Time{},
		taken: map[string]bool{}, begun: map[string]bool{}, lost: map[string]bool{}, denied: map[string]bool{}, answered: map[string]bool{}, listed: map[string]bool{}, room: -1,
	}
	w.snap()
	return w
}

func (w *world) fail(format string, args ...any) {
	if w.err == nil {
		w.err = fmt.Errorf("%s: %s", w.clock(), fmt.Sprintf(format, args...))
	}
}

func (w *world) clock() string { return w.now.Sub(t0).String() }

func (w *world) say(format string, args ...any) {
	w.trace = append(w.trace, line{w.now, format, args})
}

// line is a line of a trace.
type line struct {
	at     time.Time
	format string
	args   []any
}

func (l line) String() string { return l.at.Sub(t0).String() + " " + fmt.Sprintf(l.format, l.args...) }

// played returns the trace as text.
func (w *world) played() string {
	var b strings.Builder
	for _, l := range w.trace {
		fmt.Fprintln(&b, l)
	}
	return b.String()
}

// --- the registry and the user ---

// slugOf returns the group of a version. The first number of the version determines the group. Versions of pull
// requests have the form "pr-7-abc".
func slugOf(version string) (slug, name string) {
	if strings.HasPrefix(version, "pr-") {
		slug = version[:strings.LastIndex(version, "-")]
		if slug == "pr-8" || slug == "pr-9" {
			return slug, "feature" // Two forks have the same branch.
		}
		return slug, slug
	}
	major, _, _ := strings.Cut(version, ".")
	return major + "-x", major + ".x"
}

// groupOf is like slugOf, for the current scheme.
func (w *world) groupOf(version string) (slug, name string) {
	if strings.HasPrefix(version, "pr-") {
		return slugOf(version)
	}
	switch w.scheme {
	case "all":
		return "release", "release"
	case "minor":
		p := strings.Split(version, ".")
		return p[0] + "-" + p[1] + "-x", p[0] + "." + p[1] + ".x"
	}
	return slugOf(version)
}

// regroup changes the grouping of the ImagePolicy.
func (w *world) regroup(scheme string) {
	w.say("regroup %q", scheme)
	w.scheme, w.regrouped = scheme, true
	for key, c := range w.offers {
		if c.Level != preview {
			c.Slug, c.Name = w.groupOf(c.Version)
			w.offers[key] = c
		}
	}
}

// withdrawals returns the withdrawals that an ImagePolicy lists, one for each group that contains
// the withdrawn version. A group that the current scheme does not produce is withdrawn as a whole.
func (w *world) withdrawals() []Withdrawal {
	out := slices.Clone(w.withdrawn)
	if w.scheme == "" && !w.regrouped {
		return out
	}
	for i := range w.rolloutState.Groups {
		g := &w.rolloutState.Groups[i]
		if g.Level == preview || len(g.Releases) == 0 {
			continue
		}
		made := false
		for _, r := range g.Releases {
			slug, _ := w.groupOf(r.Version)
			made = made || slug == g.Slug
			for _, x := range w.withdrawn {
				if x.Version == r.Version && x.Slug != g.Slug {
					out = append(out, Withdrawal{Slug: g.Slug, Version: r.Version, Reason: x.Reason})
				}
			}
		}
		if !made {
			out = append(out, Withdrawal{Slug: g.Slug, Reason: Excluded, Time: w.now})
		}
	}
	return out
}

func (w *world) candidate(version string) Candidate {
	c := candidate(version)
	c.Slug, c.Name = w.groupOf(version)
	return c
}

func candidate(version string) Candidate {
	slug, name := slugOf(version)
	c := Candidate{Slug: slug, Name: name, Level: "Release", Version: version}
	if number, ok := strings.CutPrefix(slug, "pr-"); ok {
		c.Level = preview
		c.PullRequest, _ = strconv.ParseInt(number, 10, 64)
	}
	return c
}

// release returns the name of a version's release with the current template.
func (w *world) release(version string) string {
	return w.nameOf(w.candidate(version), w.config)
}

// nameOf returns the name of a candidate's release, which also depends on the group.
func (w *world) nameOf(c Candidate, config string) string {
	name := releaseName(c.Version, config, w.moved[c.Version])
	if slug, _ := slugOf(c.Version); slug != c.Slug {
		name += "-in-" + c.Slug
	}
	return name
}

func releaseName(version, config string, moved int) string {
	name := version + "-" + config
	if moved > 0 {
		name += fmt.Sprintf("-m%d", moved)
	}
	return name
}

func (w *world) push(versions ...string) {
	for _, v := range versions {
		w.say("push %s", v)
		c := w.candidate(v)
		if c.Level == preview { // Only the head commit is offered.
			c.Time = w.now
			maps.DeleteFunc(w.offers, func(_ string, x Candidate) bool { return x.Slug == c.Slug })
		}
		w.offers[v] = c
		w.withdrawn = slices.DeleteFunc(w.withdrawn, func(x Withdrawal) bool { return x.Version == v })
	}
}

// drop removes offered versions without withdrawing them.
func (w *world) drop(versions ...string) {
	for _, v := range versions {
		w.say("drop %s", v)
		delete(w.offers, v)
	}
}

func (w *world) withdraw(version string, reason WithdrawReason) {
	w.say("withdraw %s %s", version, reason)
	slug, _ := w.groupOf(version)
	delete(w.offers, version)
	w.withdrawn = append(w.withdrawn, Withdrawal{Slug: slug, Version: version, Reason: reason})
}

func (w *world) withdrawGroup(slug string, reason WithdrawReason) {
	w.say("withdraw group %s %s", slug, reason)
	for v := range w.offers {
		if w.offers[v].Slug == slug {
			delete(w.offers, v)
		}
	}
	w.withdrawn = append(w.withdrawn, Withdrawal{Slug: slug, Reason: reason, Time: w.now})
}

// offerGroup cancels the withdrawal of a group.
func (w *world) offerGroup(slug string, versions ...string) {
	w.withdrawn = slices.DeleteFunc(w.withdrawn, func(x Withdrawal) bool { return x.Slug == slug && x.Version == "" })
	w.push(versions...)
}

// edit changes the specification. The specification is in the same object as the rollout state, so a write of the
// rollout state that was planned before the edit results in a conflict.
func (w *world) edit(what string, change func(*Spec)) {
	w.say("edit %s", what)
	spec := w.spec
	spec.Steps, spec.Pins = slices.Clone(spec.Steps), slices.Clone(spec.Pins)
	change(&spec)
	w.spec = spec
	w.version++
}

// loseState empties the status, as a restore without the status does. The managers restart.
func (w *world) loseState() {
	w.say("status lost")
	w.stats.faults++
	for _, g := range w.rolloutState.Groups {
		for _, r := range g.Releases {
			if o := w.objects[r.Release]; o != nil {
				o.Reported = r.Status
			}
		}
	}
	w.rolloutState = State{}
	w.version++
	w.leaders = [2]*leader{{}, {}}
	maps.DeleteFunc(w.handed, func(decision string, _ time.Time) bool { // Only the releases record decisions now.
		release, id, _ := strings.Cut(decision, "/")
		o := w.objects[release]
		return o == nil || o.handled != id
	})
	for _, o := range w.objects {
		w.lost[o.Slug] = true
	}
	w.past = w.past[:0]
	w.snap()
	for _, n := range w.nets {
		n.pass, n.seen = nil, 0
	}
}

func (w *world) configure(config string) {
	w.say("configure %s", config)
	w.config = config
	w.version++
}

func (w *world) decide(release string, d Decision) {
	o := w.objects[release]
	if o == nil || o.Terminating {
		return
	}
	w.say("decide %s on %s (%s)", d.Action, release, d.ID)
	o.Decision, o.Unsettled = &d, true // A decision is in the specification, so it increases the generation.
	o.rv = w.id()
	for _, g := range w.rolloutState.Groups {
		if run := g.Rollout; run != nil && run.Release == release && d.Action == Continue {
			w.approved = append(w.approved, approvedStep{release, run.Sequence, d})
		}
	}
}

// approvedStep records that a user continued a step of a rollout.
type approvedStep struct {
	release  string
	sequence int64
	Decision
}

func (w *world) id() int { w.ids++; return w.ids }

// --- pods ---

// pods starts the pods of a release.
func (w *world) pods(o *object) bool {
	if o.held = o.size() > 0 && o.ready == 0 && w.otherRuns(o); o.held {
		return false
	}
	n := min(o.size(), o.ready+w.free())
	o.crowded = n < o.size()
	if o.why != "" || o.Terminating || w.now.Before(o.up) || o.ready >= n {
		return false
	}
	o.ready, o.was = n, o.was || n > 0
	delete(w.taken, o.Release)
	delete(w.answered, o.Slug)
	return true
}

// otherRuns reports whether another release of an exclusive group should have pods, or still has pods, including
// terminating pods. The release controller checks this before it starts the first pod of a release.
func (w *world) otherRuns(o *object) bool {
	if !w.spec.Exclusive {
		return false
	}
	for _, x := range w.objects {
		if x != o && x.Slug == o.Slug && (x.ready > 0 || x.Replicas > 0 && !x.Terminating || w.now.Before(x.gone)) {
			return true
		}
	}
	return false
}

// free returns how many more pods fit into the cluster.
func (w *world) free() int {
	if w.room < 0 {
		return 1 << 20
	}
	n := w.room
	for _, o := range w.objects {
		n -= o.ready
	}
	return max(0, n)
}

// fill limits the number of pods in the cluster. cause is a problem outside the releases. A
// negative number means no limit.
func (w *world) fill(room int, cause string) {
	w.say("room for %d pods (%s)", room, cause)
	w.room, w.crowd = room, cause
	w.stats.faults++
}

// names returns the sorted names of the objects.
func (w *world) names() []string {
	return sortedKeys(&w.objectNames, w.objects)
}

// sortedKeys returns the sorted keys of a map. They are sorted into a new slice if they differ
// from the previously returned keys.
func sortedKeys[V any](kept *[]string, m map[string]V) []string {
	same := len(*kept) == len(m)
	for i := 0; same && i < len(*kept); i++ {
		_, same = m[(*kept)[i]]
	}
	if !same {
		*kept = slices.Sorted(maps.Keys(m))
	}
	return *kept
}

// size returns how many pods the object should have.
func (o *object) size() int {
	if o.Replicas == 0 {
		return 0
	}
	return max(o.Replicas, o.Current)
}

// autoscale simulates an autoscaler that requests n pods.
func (w *world) autoscale(o *object, n int) {
	if o.Replicas == 0 || o.Terminating {
		return
	}
	w.say("autoscale %s to %d", o.Release, n)
	o.auto, o.Current = true, max(n, o.Replicas)
	o.ready = min(o.ready, o.Current)
}

// autoscalers gives each serving release the number of pods that its share of the load requires.
func (w *world) autoscalers() {
	if w.load == 0 {
		return
	}
	for i := range w.rolloutState.Groups {
		for _, r := range w.rolloutState.Groups[i].Releases {
			o := w.objects[r.Release]
			if o == nil || o.Replicas == 0 || o.Terminating || r.Status != Active && r.Status != Canary {
				continue
			}
			o.auto, o.Current = true, max(o.Replicas, (w.load*r.Weight+99)/100)
			o.ready = min(o.ready, o.Current)
		}
	}
}

// interval is the interval of measurements.
const interval = 30 * time.Second

// measure simulates the controller of a release, which calls hooks and takes measurements as the rollout state requires.
// lag is the age of the rollout state in snapshots.
func (w *world) measure(o *object, lag int) bool {
	seen := w.ago(lag).rolloutState
	g := seen.group(o.Slug)
	if w.jobs && lag > 0 && seen.Sequence < o.read {
		return false // A cache never returns to an older state.
	}
	if o.read = seen.Sequence; w.jobs && w.runJobs(o, g) {
		return true
	}
	if g != nil && g.Row(o.Release) != nil && g.Row(o.Release).Decision != nil {
		o.handled = g.Row(o.Release).Decision.ID
	}
	if g != nil && g.End.Release == o.Release && !o.Terminating {
		return w.endPreview(o, g)
	}
	if g == nil || g.Rollout == nil || g.Rollout.Release != o.Release || o.Terminating {
		return false
	}
	run, changed := g.Rollout, false
	if answer := w.answerAt(o, run); run.Gate != "" && !run.GateTime.IsZero() {
		f := GateFact{Rollout: run.Sequence, Step: run.Step, Point: run.Gate, Since: run.GateTime, Open: answer == "", Failed: answer == "fail", Unanswered: answer == "away", Message: answer}
		i := slices.IndexFunc(o.Gates, func(x GateFact) bool { return x.Point == run.Gate })
		same := i >= 0 && o.Gates[i].Rollout == f.Rollout && o.Gates[i].Step == f.Step && o.Gates[i].Since.Equal(f.Since)
		switch {
		case same && (o.Gates[i].Open || o.Gates[i] == f): // Hooks that have approved are not called again.
		case i >= 0:
			o.Gates = slices.Clone(o.Gates)
			o.Gates[i], changed = f, true
		default:
			o.Gates, changed = append(slices.Clone(o.Gates), f), true
		}
	}
	if w.back[o.Version] && (o.Rollback == nil || o.Rollback.Rollout != run.Sequence) {
		o.Rollback, changed = &RollbackFact{Rollout: run.Sequence, Message: "too many complaints"}, true
	}
	steps := w.spec.Steps
	if !w.spec.Analysis || run.Step < 1 || run.Step > len(steps) || !steps[run.Step-1].traffic() || run.WaitingSince.IsZero() || run.Interrupted {
		return changed
	}
	v := Verdict{Rollout: run.Sequence, Step: run.Step, Since: run.WaitingSince, Phase: VerdictRunning}
	if !w.now.Before(run.WaitingSince.Add(interval)) {
		if v.Phase = w.quality[o.Version]; v.Phase == "" {
			v.Phase = VerdictPassed
		}
	}
	if o.Analysis != nil && o.Analysis.Rollout == run.Sequence && o.Analysis.Phase == VerdictFailed || o.Analysis != nil && *o.Analysis == v {
		return changed
	}
	o.Analysis = &v
	return true
}

// endPreview calls the end hooks of a preview, once each time that the preview ends.
func (w *world) endPreview(o *object, g *Group) bool {
	if w.hooks["PostPreview"] != "" || o.End != nil && o.End.Since.Equal(g.End.Time) && o.End.Done {
		return false
	}
	for _, x := range w.objects {
		if x.Slug == o.Slug && x.ready > 0 {
			return false // The release controller observes this in the pods.
		}
	}
	o.End = &EndFact{Since: g.End.Time, Done: true, Failed: w.ids%5 == 0, Message: "played"}
	w.answered[o.Slug] = true
	return true
}

// report writes the status of a release.
func (w *world) report(o *object) bool {
	failure := ""
	switch {
	case rejected[Reason(o.why)]:
		failure = o.why // This failure is detected without any pods, before the controller waits for them.
	case o.ready >= o.size():
	case o.held:
		failure = string(otherRunning)
	case o.why == "" && o.crowded:
		failure = w.crowd
	default:
		failure = o.why
	}
	if !o.Unsettled && o.Available == o.ready && o.Failure == Reason(failure) {
		return false
	}
	o.Unsettled, o.Available, o.Failure = false, o.ready, Reason(failure)
	return true
}

// kill terminates n pods, which then start again.
func (w *world) kill(o *object, n int) {
	w.say("lose %d pods of %s", n, o.Release)
	w.stats.faults++
	o.ready = max(0, o.ready-n)
	o.up = w.now.Add(w.startup)
}

// spoil prevents the pods of a release from ever becoming ready again.
func (w *world) spoil(o *object, why string) {
	w.say("spoil %s: %s", o.Release, why)
	w.stats.faults++
	o.ready, o.why = 0, why
}

// remove deletes the object of a release manually.
func (w *world) remove(o *object) {
	w.say("remove %s manually", o.Release)
	w.stats.faults++
	w.lost[o.Slug] = true
	o.Terminating, o.ready = true, 0
	o.rv = w.id()
}

// collect completes the deletion of terminating objects.
func (w *world) collect() bool {
	n := len(w.objects)
	maps.DeleteFunc(w.objects, func(_ string, o *object) bool { return o.Terminating })
	return n != len(w.objects)
}

// --- network policies ---

func (w *world) policy(name string) *net {
	n := &net{name: name, routes: map[string]*routed{}, reports: map[string]Report{}, serves: map[string]bool{}}
	w.say("policy %s", name)
	w.nets[name] = n
	return n
}

func (w *world) removePolicy(name string) {
	w.say("remove policy %s", name)
	delete(w.nets, name)
	clear(w.named)
	w.noteNamed()
}

// read passes an earlier rollout state and the current endpoints to a policy. lag is the age of the rollout state in
// snapshots.
func (w *world) read(n *net, lag int) {
	s := w.ago(lag)
	for slug, c := range n.routes {
		// The policy last wrote routes for a newer state than s, because the cache lags or the rollout state
		// was lost.
		if g := s.rolloutState.group(slug); s.rolloutState.Sequence < n.seen || g != nil && g.TrafficRevision < c.revision {
			s = w.ago(0)
		}
	}
	if n.stream != nil && n.stream.sequence > s.rolloutState.Sequence {
		s = w.ago(0)
	}
	n.seen = s.rolloutState.Sequence
	n.pass = &pass{rolloutState: s.rolloutState, ready: map[string]int{}, pins: n.pins, saw: map[string]int{}}
	for slug, c := range n.objects() {
		n.pass.saw[slug] = c.rv
	}
	for name, o := range w.objects {
		if !w.blind || n.serves[name] {
			n.pass.ready[name] = o.ready
		}
	}
}

func union(a, b []string) []string {
	out := slices.Clone(a)
	for _, x := range b {
		if !slices.Contains(out, x) {
			out = append(out, x)
		}
	}
	sort.Strings(out)
	return out
}

// write writes the result of a reconcile to the objects. Before a policy writes for a group that it never confirmed, it reports
// the write and ends the reconcile.
func (w *world) write(n *net) {
	if n.pass == nil {
		return
	}
	routes, stream := n.routes, n.stream
	n.routes = map[string]*routed{}
	for slug, c := range routes {
		n.routes[slug] = new(*c)
	}
	if stream != nil {
		n.stream = new(*stream)
	}
	w.put(n)
	if w.announce(n, routes) {
		n.routes, n.stream, n.pass = routes, stream, nil
	} else {
		n.serve()
	}
	w.noteNamed()
}

// serve creates a Service for each release in the rollout state that the reconcile has read.
func (n *net) serve() {
	clear(n.serves)
	for _, g := range n.pass.rolloutState.Groups {
		for _, r := range g.Releases {
			n.serves[r.Release] = true
		}
	}
}

// announce reports the upcoming writes for groups that were never confirmed. It returns true
// if the last report does not contain them.
func (w *world) announce(n *net, live map[string]*routed) (more bool) {
	for i := range n.pass.rolloutState.Groups {
		g := &n.pass.rolloutState.Groups[i]
		c, rep := n.routes[g.Slug], n.reports[g.Slug]
		if c == nil || rep.Revision > 0 {
			continue
		}
		names, _, _ := w.streamOf(n, g)
		if was := live[g.Slug]; was != nil {
			names = union(names, was.names())
		}
		if names = union(rep.References, union(c.names(), names)); len(names) > len(rep.References) {
			rep.Slug, rep.References, more = g.Slug, names, true
			n.reports[g.Slug] = rep
		}
	}
	return more
}

// put writes the result of a reconcile.
func (w *world) put(n *net) {
	known := map[string]bool{}
	for i := range n.pass.rolloutState.Groups {
		g := &n.pass.rolloutState.Groups[i]
		known[g.Slug] = true
		c := n.routes[g.Slug]
		if c == nil {
			c = &routed{}
			n.routes[g.Slug] = c
		}
		if c.rv != n.pass.saw[g.Slug] {
			continue // A newer reconcile has written these routes.
		}
		w.carry(n, g, c)
		c.rv = w.id()
		n.pass.saw[g.Slug] = c.rv
	}
	for slug, c := range n.routes {
		if !known[slug] && n.pass.rolloutState.Sequence > 0 {
			c.written, c.accepted, c.service, c.pinned = nil, nil, "", nil
		}
	}
	if (n.stream == nil || n.stream.rv == n.pass.saw[streamKey]) && n.pass.rolloutState.Sequence > 0 {
		w.carryStream(n)
		if n.stream != nil {
			n.stream.rv = w.id()
			n.pass.saw[streamKey] = n.stream.rv
		}
	}
}

// carry writes the routes of one group.
func (w *world) carry(n *net, g *Group, c *routed) {
	if g.Phase != Live {
		c.written, c.service, c.pinned, c.withheld, c.revision, c.answers = nil, "", nil, nil, g.TrafficRevision, true
		c.accepted = nil // The objects are gone, and nothing shows which releases a gateway still serves.
		return
	}
	var shares []split.Share
	active := mainOf(g)
	for _, r := range g.Releases {
		withheld := slices.Contains(n.reports[g.Slug].Withheld, r.Release) && c.written[r.Release] == 0
		shares = append(shares, split.Share{Release: r.Release, Eligible: r.Status == Active || r.Status == Canary, Weight: r.Weight, Ready: n.pass.ready[r.Release] > 0, Available: r.Available, Withheld: withheld})
	}
	weights, withheld := split.Weights(shares)
	c.revision, c.answers, c.withheld = g.TrafficRevision, true, withheld
	if weights == nil && !neverServed(c.written, g) {
		weights, c.answers = holdRoutes(c.written, g)
	}
	for _, r := range g.Releases {
		if _, there := weights[r.Release]; !there && r.Status == Canary && (r.Match || r.Mirror > 0) && n.pass.ready[r.Release] > 0 {
			weights = maps.Clone(weights)
			if weights == nil {
				weights = map[string]int{}
			}
			weights[r.Release] = 0
		}
	}
	c.written = weights
	if c.service == "" || g.Row(c.service) == nil || n.pass.ready[active] > 0 || active == "" && neverServed(map[string]int{c.service: 100}, g) {
		c.service = active
	}
	c.pinned = nil
	for _, v := range n.pass.pins {
		pinned := Row{}
		for _, r := range g.Releases {
			if r.Version == v && r.Promoted > pinned.Promoted {
				pinned = r
			}
		}
		if pinned.Release != "" {
			c.pinned = append(c.pinned, pinned.Release)
		}
	}
}

// holdRoutes keeps the written routes while no release that should serve has an endpoint, but
// removes from these routes the releases that are aborted according to the rollout state.
func holdRoutes(last map[string]int, g *Group) (map[string]int, bool) {
	keep, asked, earlier := map[string]int{}, map[string]int{}, false
	for _, r := range g.Releases {
		serves := r.Status == Active || r.Status == Canary
		switch {
		case serves && last[r.Release] > 0:
			keep[r.Release] = last[r.Release]
		case last[r.Release] > 0 && r.Status == Deprecated && r.Promoted > 0:
			earlier = true
		}
		if serves && r.Weight > 0 {
			asked[r.Release] = r.Weight
		}
	}
	switch {
	case len(last) == 0:
		return nil, false
	case len(keep) > 0:
		return keep, true
	case earlier:
		return last, false
	case len(asked) > 0:
		return asked, true
	}
	return last, false
}

// accept makes the gateway accept the written routes.
func (w *world) accept(n *net) {
	if n.stuck || n.never || n.away {
		return
	}
	for _, c := range n.objects() {
		if n.room == 0 || len(c.written) <= n.room {
			c.accepted = c.written
		}
	}
	w.noteNamed()
}

// answer writes the status of a policy.
func (w *world) answer(n *net) bool {
	if n.pass == nil {
		return false
	}
	changed := !n.answered
	n.answered = true
	known := map[string]bool{}
	for i := range n.pass.rolloutState.Groups {
		g := &n.pass.rolloutState.Groups[i]
		known[g.Slug] = true
		c := n.routes[g.Slug]
		if c == nil {
			continue
		}
		prev, next := n.reports[g.Slug], Report{Slug: g.Slug, Active: c.service, Pinned: slices.Clone(c.pinned)}
		serves := mainOf(g)
		names, withheld, moved := w.streamOf(n, g)
		next.Newest = n.newest && n.stream != nil && n.stream.slug == g.Slug
		withheld = union(c.withheld, withheld)
		settled := !n.stuck && !n.never && !n.away && c.answers && c.revision == g.TrafficRevision && maps.Equal(c.written, c.accepted) && moved &&
			(g.Phase != Live || serves != "" && c.service == serves || serves == "" && g.TrafficRevision > 0 && len(c.names()) == 0)
		if settled {
			next.Revision, next.References, next.Withheld, next.Confirmed = c.revision, union(c.names(), names), withheld, prev.Confirmed
			if prev.Revision != next.Revision || !slices.Equal(prev.References, next.References) {
				next.Confirmed = w.now
			}
		} else {
			if prev.Revision <= g.TrafficRevision { // Otherwise, the report belongs to a lost rollout state.
				next.Revision, next.Confirmed = prev.Revision, prev.Confirmed
			}
			next.References = union(prev.References, union(c.names(), names))
			next.Withheld = union(prev.Withheld, withheld)
			next.Reason, next.Unrouted = n.reason(next.Revision, g), n.away && next.Revision > 0
		}
		if !sameReport(prev, next) {
			n.reports[g.Slug] = next
			changed = true
		}
	}
	for slug, c := range n.routes {
		if known[slug] {
			continue
		}
		names, _, _ := w.streamOf(n, &Group{Slug: slug})
		if names = union(c.names(), names); len(names) == 0 && (n.stream == nil || n.stream.slug != slug) {
			delete(n.routes, slug)
			delete(n.reports, slug)
			changed = true
			continue
		}
		if rep := n.reports[slug]; !slices.Equal(rep.References, names) || rep.Active != c.service {
			rep.Slug, rep.References, rep.Active = slug, names, c.service
			n.reports[slug] = rep
			changed = true
		}
	}
	return changed
}

// reason returns the reason why a revision is not confirmed, or why the confirmed revision is not served.
func (n *net) reason(confirmed int64, g *Group) string {
	switch {
	case n.away:
		return "ParentNotFound"
	case confirmed == 0 || confirmed < g.TrafficRevision:
		return "NotAccepted"
	}
	return "NoReadyEndpoints"
}

// noteNamed records when routes last referred to a release, except for routes of domains with a version. Such a
// domain protects a release only after a plan has read a report that contains the domain's reference.
func (w *world) noteNamed() {
	for _, n := range w.nets {
		for _, c := range n.objects() {
			for r := range c.written {
				w.named[r] = w.now
			}
			for r := range c.accepted {
				w.named[r] = w.now
			}
			if c.service != "" {
				w.named[c.service] = w.now
			}
		}
	}
}

// --- caches ---

// maxLag is the number of snapshots that the world keeps.
const maxLag = 16

func (w *world) snap() {
	var last *snapshot
	if n := len(w.past); n > 0 {
		last = w.past[n-1]
	} else {
		last = &snapshot{}
	}
	if len(w.past) < maxLag {
		w.past = append(w.past, &snapshot{})
	} else { // The oldest snapshot, which is no longer read, becomes the newest.
		oldest := w.past[0]
		copy(w.past, w.past[1:])
		w.past[maxLag-1] = oldest
	}
	s := w.past[len(w.past)-1]
	*s = snapshot{at: w.now, spec: w.spec, config: w.config, rolloutState: w.rolloutState, version: w.version}
	w.snapObjects(s, last)
	w.snapPolicies(s, last)
	w.snapOffers(s, last)
}

// snapObjects copies the objects that changed.
func (w *world) snapObjects(s, last *snapshot) {
	s.names = w.names()
	changed := len(last.objects) != len(w.objects) || last.objects == nil
	for i := 0; !changed && i < len(s.names); i++ {
		name := s.names[i]
		was := last.objects[name]
		changed = was == nil || !was.same(w.objects[name])
	}
	if s.objects = last.objects; !changed {
		return
	}
	s.objects = make(map[string]*object, len(w.objects))
	for name, o := range w.objects {
		was := last.objects[name]
		if was == nil || !was.same(o) {
			was = new(*o)
		}
		s.objects[name] = was
	}
}

// snapPolicies copies the reports of policies, unless they are unchanged.
func (w *world) snapPolicies(s, last *snapshot) {
	names := sortedKeys(&w.netNames, w.nets)
	changed := len(names) != len(last.policies)
	for i := 0; !changed && i < len(names); i++ {
		reports, p := w.nets[names[i]].reports, last.policies[i]
		changed = p.Name != names[i] || len(p.Groups) != len(reports) || p.Unreported != w.nets[names[i]].unreported()
		for j := 0; !changed && j < len(p.Groups); j++ {
			r, there := reports[p.Groups[j].Slug]
			changed = !there || !sameReport(r, p.Groups[j])
		}
	}
	if s.policies = last.policies; !changed {
		return
	}
	s.policies = make([]Policy, 0, len(names))
	for _, name := range names {
		p := Policy{Name: name, Unreported: w.nets[name].unreported()}
		for _, slug := range w.nets[name].slugs() {
			p.Groups = append(p.Groups, w.nets[name].reports[slug])
		}
		s.policies = append(s.policies, p)
	}
}

// unreported reports whether a policy has no status.
func (n *net) unreported() bool { return !n.answered }

// slugs returns the sorted slugs of the groups in a policy's reports.
func (n *net) slugs() []string { return sortedKeys(&n.reported, n.reports) }

// snapOffers copies the offered and withdrawn versions, unless they are unchanged.
func (w *world) snapOffers(s, last *snapshot) {
	names := sortedKeys(&w.offerNames, w.offers)
	changed := len(names) != len(last.offers)
	for i := 0; !changed && i < len(names); i++ {
		changed = w.offers[names[i]] != last.offers[i]
	}
	if s.offers = last.offers; changed {
		s.offers = make([]Candidate, 0, len(names))
		for _, v := range names {
			s.offers = append(s.offers, w.offers[v])
		}
	}
	if s.gone = last.gone; !w.regrouped && slices.Equal(w.withdrawn, last.gone) {
		return
	}
	if gone := w.withdrawals(); !slices.Equal(gone, last.gone) {
		s.gone = gone
	}
}

// same reports whether two objects are equal. It compares pointers, because the values to which they point never change.
func (o *object) same(x *object) bool {
	if !slices.Equal(o.Gates, x.Gates) {
		return false
	}
	return o.Release == x.Release && o.Slug == x.Slug && o.Name == x.Name && o.Level == x.Level && o.Version == x.Version && o.PullRequest == x.PullRequest && o.Config == x.Config &&
		o.Created == x.Created && o.Terminating == x.Terminating && o.Stamp == x.Stamp && o.Replicas == x.Replicas && o.Available == x.Available && o.Unsettled == x.Unsettled &&
		o.Failure == x.Failure && o.Message == x.Message && o.Decision == x.Decision && o.Current == x.Current && o.Analysis == x.Analysis && o.Rollback == x.Rollback && o.End == x.End &&
		o.Refused == x.Refused && o.job == x.job && o.UncreatedJob == x.UncreatedJob && o.ActiveJobs == x.ActiveJobs && o.GateJobs == x.GateJobs && o.NeverActive == x.NeverActive && o.Reported == x.Reported &&
		o.uid == x.uid && o.rv == x.rv && o.ready == x.ready && o.up == x.up && o.asked == x.asked && o.auto == x.auto && o.handled == x.handled && o.why == x.why && o.crowded == x.crowded && o.held == x.held && o.gone.Equal(x.gone) && o.was == x.was
}

// sameReport reports whether two reports are equal.
func sameReport(a, b Report) bool {
	return a.Slug == b.Slug && a.Revision == b.Revision && a.Confirmed == b.Confirmed && slices.Equal(a.References, b.References) && slices.Equal(a.Withheld, b.Withheld) &&
		slices.Equal(a.Pinned, b.Pinned) && a.Active == b.Active && a.Newest == b.Newest && a.CanaryDomains == b.CanaryDomains && a.Canary == b.Canary && a.Unrouted == b.Unrouted &&
		a.Reason == b.Reason && a.Message == b.Message && a.policy == b.policy && a.unreported == b.unreported
}

// ago returns an earlier snapshot of the world. lag is the number of snapshots to go back.
func (w *world) ago(lag int) *snapshot {
	if lag == 0 {
		w.snap()
	}
	return w.before(lag)
}

func (w *world) before(lag int) *snapshot { return w.past[max(0, len(w.past)-1-lag)] }

// lags are the lags of the caches, in snapshots.
type lags struct{ rolloutState, objects, policies, offers int }

// observe returns the input of one plan of a manager. It also returns the observed objects, because their
// versions are preconditions of the writes. If the cache does not contain the object of a release in the
// rollout state, the object is read from the API server. The lag of policies is shorter than the minimum
// drain.
func (w *world) observe(l lags) (Observed, int, map[string]*object) {
	w.snap()
	seen, obj, pol, off := w.before(l.rolloutState), w.before(l.objects), w.before(l.policies), w.before(l.offers)
	for i := l.policies; w.now.Sub(pol.at) > 4*time.Second && i > 0; i-- {
		pol = w.before(i - 1)
	}
	o := Observed{Spec: seen.spec, Config: seen.config, State: seen.rolloutState, Policies: pol.policies, Withdrawn: off.gone, SourceStale: w.stale || seen.config == "", PullRequests: w.pulls}
	o.Spec.Steps = w.windows(o.Spec.Steps)
	for _, name := range slices.Backward(slices.Sorted(maps.Keys(w.peers))) { // The order of a cache is not defined.
		o.Peers = append(o.Peers, Peer{Name: name, Groups: w.peers[name].rolloutState.Groups})
	}
	o.Candidates = w.candidates(off.offers, seen.config)
	names, objects := obj.names, obj.objects
	if seen.rolloutState.Sequence == 0 {
		names, objects = w.before(0).names, w.before(0).objects // The rollout state is lost, so the objects are read from the API server.
	}
	for _, g := range seen.rolloutState.Groups {
		for _, r := range g.Releases {
			if live := w.objects[r.Release]; objects[r.Release] == nil && live != nil {
				c := *live
				objects = maps.Clone(objects)
				objects[r.Release] = &c
				names = slices.Sorted(maps.Keys(objects))
			}
		}
	}
	o.Objects = slices.Grow(o.Objects, len(names))
	for _, name := range names {
		c := objects[name].Object
		if d := c.Decision; d != nil && d.ID == objects[name].handled {
			c.Decision = nil
		}
		o.Objects = append(o.Objects, c)
	}
	return o, seen.version, objects
}

// candidates returns the offers with the release names that result from a template.
func (w *world) candidates(offers []Candidate, config string) []Candidate {
	if config == "" {
		return nil // For example, a ConfigMap of the template is missing.
	}
	moves := 0
	for _, n := range w.moved {
		moves += n
	}
	known := &w.offered
	same := known.config == config && known.moves == moves && len(known.from) == len(offers) && (len(offers) == 0 || &known.from[0] == &offers[0])
	if same {
		return known.candidates
	}
	*known = offered{from: offers, config: config, moves: moves}
	for _, c := range offers {
		c.Release = w.nameOf(c, config)
		known.candidates = append(known.candidates, c)
	}
	return known.candidates
}

// windows determines the windows of steps, which are open for the first twenty minutes
// of each hour.
func (w *world) windows(steps []Step) []Step {
	if !slices.ContainsFunc(steps, func(st Step) bool { return st.Window != nil }) {
		return steps
	}
	hour := w.now.Truncate(time.Hour)
	x := Window{Open: w.now.Sub(hour) < 20*time.Minute, Next: hour.Add(time.Hour)}
	if x.Open {
		x.Next = hour.Add(20 * time.Minute)
	}
	steps = slices.Clone(steps)
	for i := range steps {
		if steps[i].Window != nil {
			steps[i].Window = &x
		}
	}
	return steps
}

// --- the manager ---

// plan computes a plan for a leader, unless the leader is still writing.
func (w *world) plan(l *leader, lag lags) {
	if len(l.todo) > 0 {
		return
	}
	o, version, objects := w.observe(lag)
	if w.aware {
		o.Began = w.began[max(0, slices.Index(w.leaders[:], l))]
	}
	if o.State.Sequence < l.last {
		return
	}
	o, p := w.make(o)
	if o.Spec.Freeze.over(w.now) {
		o.Spec.Freeze = nil // The plan ignored the freeze, because it is over.
	}
	if w.last = append(w.last, p); len(w.last) > 4 {
		w.last = w.last[1:]
	}
	w.requeueAt = p.RequeueTime
	w.stats.plans++
	if !w.quick {
		w.checkPlan(o, p)
	}
	w.record(p)
	var shared *Observed
	seen := func() *Observed {
		if shared == nil {
			shared = new(Observed)
			*shared = o
		}
		return shared
	}
	for i := range p.Ensure {
		e := &p.Ensure[i]
		if e.Create && w.refuse && w.objects[e.Release] == nil {
			continue // A rejected write does not block other writes.
		}
		if !e.Create && w.denied[e.Release] {
			continue
		}
		wr := write{ensure: e, object: objects[e.Release], config: o.Config, seen: seen(), never: slices.Contains(p.NeverActive, e.Release)}
		for _, c := range o.Candidates {
			if c.Release == e.Release {
				wr.cand = c
			}
		}
		l.todo = append(l.todo, wr)
	}
	for _, name := range slices.Sorted(maps.Keys(objects)) {
		x := objects[name]
		never := slices.Contains(p.NeverActive, name)
		if x.NeverActive != never && !x.Terminating && !w.denied[name] && !planned(p, name) {
			l.todo = append(l.todo, write{object: x, seen: seen(), never: never})
		}
	}
	if p.Changed {
		l.todo = append(l.todo, write{rolloutState: &p.State, version: version, seen: seen()})
	}
	for i := range p.Retire {
		if w.denied[p.Retire[i].Release] && !p.Retire[i].Delete {
			continue
		}
		l.todo = append(l.todo, write{retire: &p.Retire[i], planned: w.now, sequence: p.State.Sequence, object: objects[p.Retire[i].Release], seen: seen(), never: slices.Contains(p.NeverActive, p.Retire[i].Release)})
	}
}

// planned reports whether a plan changes an object, apart from its mark.
func planned(p Result, release string) bool {
	return slices.ContainsFunc(p.Ensure, func(e Ensure) bool { return e.Release == release }) ||
		slices.ContainsFunc(p.Retire, func(r Retire) bool { return r.Release == release })
}

// mark marks an object as belonging to a release that was never active, or removes this mark from
// the object.
func (w *world) mark(x write) bool {
	live := w.objects[x.object.Release]
	if live == nil || live.rv != x.object.rv || live.uid != x.object.uid || live.Terminating {
		return false
	}
	live.NeverActive, live.rv = x.never, w.id()
	return true
}

// make makes a plan. If the API server rejects a stamp, it makes another plan from facts that include this rejection.
func (w *world) make(o Observed) (Observed, Result) {
	for {
		p, again := planWith(o, w.now, w.rules), false
		for _, e := range p.Ensure {
			if e.Create || e.Stamp == 0 || !w.denied[e.Release] {
				continue
			}
			o.Objects, again = slices.Clone(o.Objects), true
			for i := range o.Objects {
				o.Objects[i].Refused = o.Objects[i].Refused || o.Objects[i].Release == e.Release
			}
		}
		if !again {
			return o, p
		}
	}
}

// perform executes the next write of a leader. A conflict drops all remaining writes.
func (w *world) perform(l *leader) bool {
	if len(l.todo) == 0 {
		return false
	}
	w.stats.writes++
	switch w.stats.writes {
	case w.crashAt:
		w.late, *l = l.todo, leader{}
		w.say("the manager stops with %d writes left", len(w.late))
		return true
	case w.lateAt:
		w.say("%d late writes", len(w.late))
		old := &leader{todo: w.late}
		for w.perform(old) {
		}
	}
	next := l.todo[0]
	l.todo = l.todo[1:]
	done := false
	switch {
	case next.ensure != nil:
		done = w.ensure(next)
	case next.rolloutState != nil:
		if done = next.version == w.version; done {
			w.next = *next.rolloutState
			w.checkRolloutState(*next.seen, w.rolloutState, *next.rolloutState)
			maps.DeleteFunc(w.listed, func(release string, _ bool) bool { return !hasObject(*next.seen, release) }) // The object was missing from a cache.
			w.rolloutState = *next.rolloutState
			w.version++
			l.last = w.rolloutState.Sequence
		}
	case next.retire != nil:
		done = w.retire(next)
	default:
		done = w.mark(next)
	}
	if !done {
		w.stats.conflicts++
		l.todo = nil
	}
	w.check()
	return true
}

func (w *world) ensure(x write) bool {
	e, live := x.ensure, w.objects[x.ensure.Release]
	w.checkRollout(*x.seen, e, live)
	if e.Create {
		if live != nil {
			return !live.Terminating // The name depends on the content, so the object is the same.
		}
		if x.cand.Release == "" {
			w.fail("the plan creates %s, which is not offered", e.Release)
			return false
		}
		delete(w.taken, e.Release) // The entry belongs to a deleted object with the same name.
		w.objects[e.Release] = &object{
			Object: Object{Release: e.Release, Slug: x.cand.Slug, Name: x.cand.Name, Level: x.cand.Level, PullRequest: x.cand.PullRequest, Version: x.cand.Version, Config: x.config, Created: w.now, Stamp: e.Stamp, NeverActive: x.never, Replicas: e.Replicas, Unsettled: true},
			uid:    w.id(), rv: w.id(), up: w.now.Add(w.startup), asked: w.now, why: w.broken[x.cand.Version],
		}
		return true
	}
	if live == nil || x.object == nil || live.rv != x.object.rv || live.uid != x.object.uid || live.Terminating {
		return false
	}
	if live.Replicas == e.Replicas && (e.Stamp == 0 || e.Stamp == live.Stamp) && live.NeverActive == x.never {
		return true
	}
	live.NeverActive = x.never
	if e.Replicas < live.Replicas {
		w.fail("Ensure of %s removes %d of %d replicas", e.Release, live.Replicas-e.Replicas, live.Replicas)
	}
	if e.Replicas != live.Replicas {
		delete(w.taken, live.Release) // The write also restores its pods.
		live.Replicas, live.Unsettled = e.Replicas, true
		live.up = w.now.Add(w.startup)
	}
	if e.Stamp > 0 {
		live.Stamp = e.Stamp
	}
	live.rv = w.id()
	return true
}

func (w *world) retire(x write) bool {
	r, live := x.retire, w.objects[x.retire.Release]
	if live == nil || x.object == nil || live.uid != x.object.uid || live.rv != x.object.rv {
		return false
	}
	w.checkRetire(*x.seen, live, *r)
	w.checkMinimum(x)
	if had := live.ready; had > 0 && (r.Delete || r.Replicas == 0) {
		w.taken[live.Release] = true
		live.gone = w.now.Add(w.grace)
	}
	if r.Delete {
		if w.spec.EndHooks && live.Level == preview && live.was && w.listed[live.Release] && !w.answered[live.Slug] && !w.lost[live.Slug] && w.isLast(live) {
			w.fail("rule 48: the last release of preview %s is deleted before its hooks have responded", live.Slug)
		}
		live.Terminating, live.ready = true, 0
	} else {
		live.Replicas, live.Unsettled, live.NeverActive = r.Replicas, true, x.never
		if g := w.rolloutState.group(live.Slug); !live.auto || r.Replicas == 0 || g == nil || g.Row(live.Release) == nil || g.Row(live.Release).Status != Active {
			live.ready, live.Current, live.auto = min(live.ready, r.Replicas), 0, false
		}
	}
	live.rv = w.id()
	return true
}

// isLast reports whether no other release of a group has an object or should get one.
func (w *world) isLast(o *object) bool {
	if g := w.rolloutState.group(o.Slug); g != nil && slices.ContainsFunc(g.Releases, func(r Row) bool { return r.Release != o.Release }) {
		return false
	}
	for _, x := range w.objects {
		if x != o && x.Slug == o.Slug && !x.Terminating {
			return false
		}
	}
	return true
}

// crash stops a leader. A new leader starts without any memory.
func (w *world) crash(i int) {
	w.say("crash of manager %d with %d writes left", i, len(w.leaders[i].todo))
	w.stats.faults++
	w.leaders[i] = &leader{}
	w.began[i] = w.now
}

// advance advances the clock.
func (w *world) advance(d time.Duration) {
	w.now = w.now.Add(d)
	w.noteNamed()
}

// turnBack sets the clock back, without changing the age of past events.
func (w *world) turnBack(d time.Duration) {
	w.say("the clock goes back by %s", d)
	w.stats.faults++
	w.now = w.now.Add(-d)
	for r, at := range w.named {
		w.named[r] = at.Add(-d)
	}
	for _, o := range w.objects {
		o.up, o.asked = o.up.Add(-d), o.asked.Add(-d)
	}
}

// remake deletes a policy and creates it again with the same name.
func (w *world) remake(n *net) {
	w.removePolicy(n.name)
	m := w.policy(n.name)
	m.pins, m.newest, m.stuck, m.never = n.pins, n.newest, n.stuck, n.never
}

// forget makes the gateway of a policy lose its accepted routes.
func (w *world) forget(n *net) {
	w.say("the gateway of %s loses its routes", n.name)
	w.stats.faults++
	for _, c := range n.objects() {
		c.accepted = nil
	}
}

// --- running all parts ---

// settle lets all parts of the world act until nothing changes, without advancing the clock. It returns the
// time of the next requested requeue.
func (w *world) settle() time.Time {
	before := w.fingerprint()
	for tries := 0; tries < 200; {
		l := w.leaders[0]
		l.todo = nil
		for again := true; again && w.err == nil; {
			w.plan(l, lags{})
			again = w.perform(l)
			for w.perform(l) {
			}
			if tries++; tries > 200 {
				w.fail("plans never become stable")
				for _, p := range w.last {
					w.say("a plan:\n%s", render(p))
				}
			}
		}
		w.neighbors()
		now := w.fingerprint()
		if w.err != nil || now == before {
			return w.soonest(w.requeueAt)
		}
		before = now
	}
	w.fail("the simulation does not become stable")
	return time.Time{}
}

// neighbors lets all parts of the world except the manager act.
func (w *world) neighbors() {
	w.collect()
	w.autoscalers()
	for _, name := range w.names() {
		w.pods(w.objects[name])
		w.report(w.objects[name])
		w.measure(w.objects[name], 0)
	}
	for _, name := range sortedKeys(&w.netNames, w.nets) {
		n := w.nets[name]
		w.read(n, 0)
		w.write(n)
		w.accept(n)
		w.answer(n)
	}
	w.check()
}

func (w *world) requeue() time.Time {
	o, _, _ := w.observe(lags{})
	_, p := w.make(o)
	return w.soonest(p.RequeueTime)
}

// soonest returns the earlier of two times: the time of the next automatic change in the world, and at, which is
// the manager's requeue time. A zero time means never.
func (w *world) soonest(at time.Time) time.Time {
	for _, x := range w.objects {
		if x.why == "" && x.ready < x.size() && x.up.After(w.now) && (at.IsZero() || x.up.Before(at)) {
			at = x.up
		}
		if x.ends.After(w.now) && (at.IsZero() || x.ends.Before(at)) {
			at = x.ends
		}
		if w.spec.Exclusive && x.gone.After(w.now) && (at.IsZero() || x.gone.Before(at)) {
			at = x.gone
		}
	}
	for i := range w.rolloutState.Groups {
		run := w.rolloutState.Groups[i].Rollout
		if run == nil || !w.spec.Analysis || run.WaitingSince.IsZero() {
			continue
		}
		if due := run.WaitingSince.Add(interval); due.After(w.now) && (at.IsZero() || due.Before(at)) {
			at = due
		}
	}
	return at
}

// run lets all parts of the world act for the given time.
func (w *world) run(d time.Duration) {
	end := w.now.Add(d)
	for turns := 0; w.err == nil; turns++ {
		if turns > 2000 {
			w.fail("a requeue is still requested after 2000 turns")
		}
		at := w.settle()
		if at.IsZero() || at.After(end) {
			break
		}
		w.advance(at.Sub(w.now))
	}
	if w.err == nil && w.now.Before(end) {
		w.advance(end.Sub(w.now))
		w.settle()
	}
}

// fingerprint returns bytes that identify the state of the world without the trace and the routes. Different states
// have different bytes.
func (w *world) fingerprint() string {
	b := w.print[:0]
	number := func(n int64) { b = binary.AppendVarint(b, n) }
	text := func(s string) { number(int64(len(s))); b = append(b, s...) }
	flag := func(f bool) { number(int64(len(strconv.FormatBool(f)))) }
	texts := func(list []string) {
		number(int64(len(list)))
		for _, s := range list {
			text(s)
		}
	}
	at := func(t time.Time) { number(t.UnixNano()) }
	number(w.rolloutState.Sequence)
	for _, name := range w.names() {
		o := w.objects[name]
		text(name)
		number(int64(o.ready))
		number(int64(o.Available))
		number(int64(o.Replicas))
		flag(o.Unsettled)
		text(string(o.Failure))
		text(string(o.Reported))
		text(o.handled)
		text(o.kind)
		if flag(o.Analysis != nil); o.Analysis != nil {
			number(o.Analysis.Rollout)
			number(int64(o.Analysis.Step))
			at(o.Analysis.Since)
			text(string(o.Analysis.Phase))
		}
		number(int64(len(o.Gates)))
		for _, f := range o.Gates {
			number(f.Rollout)
			number(int64(f.Step))
			text(string(f.Point))
			at(f.Since)
			flag(f.Open)
			flag(f.Failed)
		}
		flag(o.Rollback != nil)
		flag(o.End != nil)
		if o.End != nil {
			number(o.End.Since.UnixNano())
		}
	}
	for _, name := range sortedKeys(&w.netNames, w.nets) {
		n := w.nets[name]
		flag(n.answered)
		for _, slug := range n.slugs() {
			r := n.reports[slug]
			text(slug)
			number(r.Revision)
			at(r.Confirmed)
			texts(r.References)
			texts(r.Withheld)
			texts(r.Pinned)
			text(r.Active)
			flag(r.Newest)
			text(r.Reason)
		}
	}
	w.print = b
	return string(b)
}
