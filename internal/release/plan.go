// Package release decides which releases of a Microservice run, with which
// status, weight and number of replicas.
//
// [Plan] is a pure and total function from [Observed] and a time to a [Result]. Plan never returns an error, panics or
// changes its input, and uses no client, network, clock or log. rules.go lists the rules that decide the status of a
// release, in the order in which they apply. Each rule changes one group, except Fail, which can also extend the deadline of
// another group's rollout. A function that determines what a release is waiting for returns a wait, which the rule records. If a function also changes the group, or stops the clock of a
// rollout, its comment describes this. Before the rules are applied, each pass in plan.go assigns slots to previews and
// lets previews expire. After the rules are applied, it closes excluded groups.
//
//	plan.go                   Plan and its Result, and the passes over all groups
//	rules.go                  the list of the named rules of one group, in the order in which they apply, with the file of each rule
//
//	observed.go               the input of a plan
//	state.go                  the rollout state: groups and rows, and how to copy, compare and sort them
//	notes.go                  reasons, conditions, notes and waits
//
//	lost_state.go             rules for a lost rollout state, and for releases whose objects are missing, for example because a user deleted them
//	decisions.go              what users decide about a release
//	groups.go                 which groups exist, and when they end; withdrawn and denied versions
//	previews.go               which pull requests have a slot, and when a preview ends
//	target.go                 which release a group moves to
//	pins.go                   which release a pin selects
//	freezes_and_step_waits.go what a rollout waits for before it starts and in each step: spec.paused, freezes, pauses, approvals, analyses and windows
//	hook_gates.go             points at which hooks must approve, and steps that other Microservices must reach first; controllers/microservice/hook_answers.go decides which answers count
//	steps_and_promotion.go    rules that start a rollout, begin a step and set its weight, and rules that make a release active; the time of a pause begins when the rollout is healthy (fail_and_retry.go), is interrupted by countHealthyTime (fail_and_retry.go), and ends in passageWaits (freezes_and_step_waits.go)
//	fail_and_retry.go         whether a rollout is healthy; when it fails: at its progress deadline, or because of a hook, an analysis or another Microservice; and when it starts again; problems outside its release, which block it instead
//	newest_domains.go         domains that move from one group to a newer group
//	confirmed_and_drained.go  the traffic revision and the required content of routes, whether it is confirmed, and whether a release is drained
//	exclusive.go              which release of an exclusive group has the pods, when the pods terminate, and when they start again
//	replicas.go               how many replicas a release has and needs for its next step, and when it is scaled down
//	retain_and_remove.go      which releases are retained (minimumAvailable), which are removed when they are drained, and how many rows a group has
//
// docs/explanation/protocol.md contains the rules and the situations that require them. "Rule N" in
// a comment refers to that document.
package release

import (
	"cmp"
	"slices"
	"time"

	"github.com/heighliner/heighliner/internal/version"
)

// Result contains the actions of a plan. The caller executes Ensure first, then writes the rollout
// state if Changed is set, and executes Retire last. According to rule 2, objects may be created
// before the rollout state is written, but they may be deleted only after it is written.
type Result struct {
	// State is the rollout state to write if Changed is set.
	State   State
	Changed bool
	// Ensure lists the releases to create, revive or scale up.
	Ensure []Ensure
	// Retire lists the releases to scale down or delete.
	Retire []Retire
	// Idle lists the releases that should not have traffic, are not in any route, and are drained. All
	// other releases may serve requests, regardless of what the rollout state contains.
	Idle []string
	// NeverActive lists the releases whose objects must be marked, so that a plan without the rollout state does not
	// treat these releases as previously active. Each of them becomes active only if hooks approve. Its group
	// has no active release, or had none when the object was marked.
	NeverActive []string
	// RequeueTime is when to plan again even if nothing has changed. Zero means never.
	RequeueTime time.Time
	// Notes are the reasons for decisions, and the states to report.
	Notes []Note
}

// Ensure requires a release to exist and to have at least the given number of replicas.
type Ensure struct {
	Slug, Release string
	Replicas      int
	// Create reports whether the release does not exist yet.
	Create bool
	// Stamp is written to the release, so that a write by any older plan results in a conflict. 0 means no stamp.
	Stamp int64
}

// Retire requires a release to have fewer replicas, or to be deleted.
type Retire struct {
	Slug, Release string
	Replicas      int
	Delete        bool
}

// Plan computes the actions for one Microservice.
//
// Plan is level-based: the same input at the same time results in the same plan. If the rollout
// state of a plan is written and the facts do not change, the next plan changes nothing. The order
// of the input lists does not matter.
func Plan(o Observed, now time.Time) Result { return planWith(o, now, rules) }

func planWith(o Observed, now time.Time, rules []rule) Result {
	b := newPlanner(o, now)
	if w := b.restoring(); w != nil {
		return b.unchanged(w)
	}
	was := cloneGroups(o.State.Groups)
	b.groups = copyGroups(was)
	for i := range was {
		b.before[was[i].Slug] = requiredOf(&was[i])
	}
	before := was
	for range maxPasses {
		b.pass(rules)
		if sameGroups(before, b.groups) {
			break
		}
		before = copyGroups(b.groups)
	}
	var p Result
	for i := range b.groups {
		b.scope(&b.groups[i]).size(&p)
	}
	p.Notes = b.notes
	p.RequeueTime = b.requeue
	p.State = State{Sequence: o.State.Sequence, Groups: b.groups}
	p.Changed = b.force || !sameGroups(b.groups, was)
	if p.Changed {
		p.State.Sequence = b.next
	}
	sortPlan(&p)
	return p
}

// unchanged returns a plan that changes nothing and only waits.
func (b *planner) unchanged(w *wait) Result {
	p := Result{State: b.o.State, Notes: []Note{{Reason: w.Reason, Message: w.Message, Warning: w.Warning}}}
	for _, c := range b.sorted {
		if c.NeverActive {
			p.NeverActive = append(p.NeverActive, c.Release)
		}
	}
	sortPlan(&p)
	return p
}

// maxPasses limits the number of times that the rules are applied. A decision can make another decision possible. Both are
// made in the same plan, so that the next plan changes nothing. The longest chain is a rollout through steps
// that do not wait.
const maxPasses = 64

// planner is the working state of one plan.
type planner struct {
	o        Observed
	now      time.Time
	groups   []Group
	next     int64                  // the sequence that the rollout state gets if it is written
	sorted   []Object               // the release objects, the oldest first
	objects  map[string]*Object     // the release objects by name
	offers   []Candidate            // the candidates of all groups, highest version first
	perGroup map[string][]Candidate // the candidates of each group, by slug
	reports  map[string][]Report    // the reports of all policies, by slug
	// references are the releases that policies refer to in their reports.
	references map[string]bool
	before     map[string]required // the required content of the routes, by slug, when the plan began
	notes      []Note
	requeue    time.Time
	force      bool // the rollout state must be written even if its groups are unchanged
	// touched contains the releases that this plan creates or revives. The keys have the form SLUG/RELEASE. This map
	// and the next two are nil until they are first used.
	touched map[string]bool
	// arrived contains the slugs of the groups that this pass rebuilt while the newest domains still route to
	// an older group. That older group may not have been rebuilt yet.
	arrived map[string]bool
	// handled contains the decisions of rows that this plan drops. If the plan creates a row again, the row keeps its decision.
	handled map[string]*Handled
}

// maxSequence is above any sequence that a rollout state reaches. A higher stamp must have been set
// manually.
const maxSequence = 1 << 53

// newPlanner sorts and indexes the facts.
func newPlanner(o Observed, now time.Time) *planner {
	b := &planner{
		o: o, now: stored(now), next: o.State.Sequence + 1, sorted: slices.Clone(o.Objects), objects: make(map[string]*Object, len(o.Objects)),
		offers: slices.Clone(o.Candidates), perGroup: map[string][]Candidate{}, reports: map[string][]Report{}, references: map[string]bool{}, before: map[string]required{},
	}
	for i := range b.sorted {
		c := &b.sorted[i]
		if c.Stamp > maxSequence {
			c.Stamp = 0 // This stamp was set manually, not by a rollout state.
		}
		b.next = max(b.next, c.Stamp+1)
	}
	for _, p := range o.Policies {
		for _, r := range p.Groups {
			if r.Revision < maxSequence {
				b.next = max(b.next, r.Revision+1)
			}
			for _, release := range r.References {
				b.references[release] = true
			}
		}
	}
	slices.SortFunc(b.sorted, func(x, y Object) int {
		return cmp.Or(x.Created.Compare(y.Created), cmp.Compare(x.Release, y.Release))
	})
	for i := range b.sorted {
		b.objects[b.sorted[i].Release] = &b.sorted[i]
	}
	slices.SortFunc(b.offers, byOffer)
	grouped := slices.Clone(b.offers)
	slices.SortStableFunc(grouped, func(x, y Candidate) int { return cmp.Compare(x.Slug, y.Slug) })
	for len(grouped) > 0 {
		n := slices.IndexFunc(grouped, func(c Candidate) bool { return c.Slug != grouped[0].Slug })
		if n < 0 {
			n = len(grouped)
		}
		b.perGroup[grouped[0].Slug], grouped = grouped[:n:n], grouped[n:]
	}
	b.o.Spec.Pins = slices.Clone(o.Spec.Pins)
	if b.o.Spec.Freeze.over(b.now) {
		b.o.Spec.Freeze = nil
	}
	for i := range b.o.Spec.Pins {
		b.spell(&b.o.Spec.Pins[i])
	}
	return b
}

// spell rewrites the version of a pin in the form that is used in offers and rows. For example, the tag v1.1.0
// becomes the version 1.1.0.
func (b *planner) spell(p *Pin) {
	if meant := version.Meant(p.Version); !b.hasVersion(*p, p.Version) && b.hasVersion(*p, meant) {
		p.Version = meant
	}
}

// hasVersion reports whether a version is offered to a group that a pin selects, or has a row in such a group.
func (b *planner) hasVersion(p Pin, version string) bool {
	return slices.ContainsFunc(b.o.Candidates, func(c Candidate) bool {
		return c.Version == version && p.names(c.Slug, c.Name, c.PullRequest)
	}) || slices.ContainsFunc(b.o.State.Groups, func(g Group) bool {
		return p.names(g.Slug, g.Name, g.PullRequest) && slices.ContainsFunc(g.Releases, func(r Row) bool { return r.Version == version })
	})
}

// pass applies the rules once to all groups, and discards the requeue time of the previous
// pass and its notes about ongoing states.
func (b *planner) pass(rules []rule) {
	b.notes = slices.DeleteFunc(b.notes, func(n Note) bool { return !n.Event })
	b.requeue = noTime
	clear(b.arrived)
	for _, p := range b.o.Spec.Pins {
		b.requeueAt(p.Expire)
	}
	b.open()
	b.noteMissingPin()
	b.noteStrayPins()
	b.assignSlots()
	for _, g := range b.inStartOrder() {
		s := b.scope(g)
		for _, r := range rules {
			r.apply(s)
		}
	}
	for i := range b.groups {
		b.closeExcluded(&b.groups[i])
	}
	b.groups = slices.DeleteFunc(b.groups, b.done)
	sortGroups(b.groups)
}

// inStartOrder returns the groups in the order in which they may start releases. Previews come last, and
// the preview with the newest push is the first of them.
func (b *planner) inStartOrder() []*Group {
	order := make([]*Group, len(b.groups))
	for i := range b.groups {
		order[i] = &b.groups[i]
	}
	slices.SortStableFunc(order, func(x, y *Group) int {
		switch px, py := x.Level == preview, y.Level == preview; {
		case px && py:
			return byPush(x, y)
		case px:
			return 1
		case py:
			return -1
		}
		return 0
	})
	return order
}

// scope is one group in one pass.
type scope struct {
	*planner
	g          *Group
	candidates []Candidate // highest version first
	reports    []Report    // sorted by policy
	// stepped reports whether this pass set the weight of the current step.
	stepped bool
}

func (b *planner) scope(g *Group) *scope {
	return &scope{planner: b, g: g, candidates: b.perGroup[g.Slug], reports: b.reportsOf(g.Slug)}
}

// reportsOf returns the reports of all policies about a group.
func (b *planner) reportsOf(slug string) []Report {
	if reports, known := b.reports[slug]; known {
		return reports
	}
	reports := make([]Report, 0, len(b.o.Policies))
	for _, p := range b.o.Policies {
		r := Report{Slug: slug, unreported: true}
		for _, x := range p.Groups {
			if x.Slug == slug {
				r = x
			}
		}
		r.policy = p.Name
		reports = append(reports, r)
	}
	slices.SortFunc(reports, func(x, y Report) int { return cmp.Compare(x.policy, y.policy) })
	b.reports[slug] = reports
	return reports
}

func (s *scope) object(release string) (Object, bool) {
	c, ok := s.objects[release]
	if !ok {
		return Object{}, false
	}
	return *c, c.Slug == s.g.Slug
}

// rollout returns the rollout in progress, with the row and object of its release.
func (s *scope) rollout() (*Rollout, *Row, Object) {
	if s.g.Rollout == nil || s.g.Phase != Live {
		return nil, nil, Object{}
	}
	r := s.g.Row(s.g.Rollout.Release)
	if r == nil {
		return nil, nil, Object{}
	}
	c, _ := s.object(r.Release)
	return s.g.Rollout, r, c
}

// offered returns the candidate from which a release is created.
func (s *scope) offered(release string) (Candidate, bool) {
	for _, c := range s.candidates {
		if c.Release == release {
			return c, true
		}
	}
	return Candidate{}, false
}

// touch marks a release as created or revived in this plan. Its object gets a stamp.
func (s *scope) touch(release string) {
	if s.touched == nil {
		s.touched = map[string]bool{}
	}
	s.touched[s.g.Slug+"/"+release] = true
}

// isTouched reports whether this plan creates or revives a release.
func (s *scope) isTouched(release string) bool { return s.touched[s.g.Slug+"/"+release] }

// done reports whether a group can be removed. Such a group has no rows, rollout or objects. In addition, it is
// closing, it never had traffic, or its releases were deleted manually and no version is offered to it. An expired
// preview is kept.
func (b *planner) done(g Group) bool {
	if len(g.Releases) > 0 || g.Rollout != nil || g.Phase == Expired {
		return false
	}
	for _, c := range b.o.Objects {
		if c.Slug == g.Slug {
			return false
		}
	}
	if g.Phase == Closing {
		return true
	}
	if g.Target.Release != "" {
		return false
	}
	return g.TrafficRevision == 0 || g.Target.Reason == "" && len(b.perGroup[g.Slug]) == 0 && b.o.Config != "" && !b.o.SourceStale
}

func sortPlan(p *Result) {
	slices.SortFunc(p.Ensure, func(x, y Ensure) int { return cmp.Or(cmp.Compare(x.Slug, y.Slug), cmp.Compare(x.Release, y.Release)) })
	slices.SortFunc(p.Retire, func(x, y Retire) int { return cmp.Or(cmp.Compare(x.Slug, y.Slug), cmp.Compare(x.Release, y.Release)) })
	slices.Sort(p.NeverActive)
	slices.SortStableFunc(p.Notes, func(x, y Note) int {
		return cmp.Or(cmp.Compare(x.Slug, y.Slug), cmp.Compare(x.Release, y.Release), cmp.Compare(x.Reason, y.Reason), cmp.Compare(x.Message, y.Message))
	})
	p.Notes = slices.Compact(p.Notes)
}
