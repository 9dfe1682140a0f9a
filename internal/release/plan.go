package release

import (
	"cmp"
	"reflect"
	"slices"
	"time"
)

// Plan is what is to be done, in this order: Ensure, then the ledger if it
// Changed, then Retire (rule 2: creations may precede the ledger write,
// destructions only follow it).
type Plan struct {
	// Ledger to write, if Changed.
	Ledger  Ledger
	Changed bool
	// Ensure: create, revive and scale up.
	Ensure []Ensure
	// Retire: scale down and delete.
	Retire []Retire
	// Wake is when to plan again though nothing happened; zero: never.
	Wake time.Time
	// Notes give the reason of each decision and state.
	Notes []Note
}

// Ensure asks for a release to be there with at least so many replicas.
type Ensure struct {
	Slug, Release string
	Replicas      int
	// Create: it does not exist.
	Create bool
	// Stamp to write on it, so that every older plan meets a conflict; 0: none.
	Stamp int64
}

// Retire asks for a release to have fewer replicas, or to go.
type Retire struct {
	Slug, Release string
	Replicas      int
	Delete        bool
}

// Note is the reason of a decision, or a state that a person should know of.
type Note struct {
	Slug, Release, Version string
	// Reason in one CamelCase word.
	Reason  string
	Message string
	// Event: this happened in this plan; else it is a state that lasts.
	Event bool
	// Warning: somebody may have to do something.
	Warning bool
}

// Make decides what is to be done about one Microservice.
//
// It is level based: the same facts at the same time give the same plan, and
// once the plan's ledger is written, the facts being the same, a plan that
// changes nothing. The order of the input lists has no influence.
func Make(o Observed, now time.Time) Plan { return makePlan(o, now, rules) }

func makePlan(o Observed, now time.Time, rules []rule) Plan {
	b := &book{o: o, now: stored(now), children: map[string]Child{}, touched: map[string]bool{}, next: o.Ledger.Sequence + 1}
	for _, c := range o.Children {
		b.children[c.Release] = c
		b.next = max(b.next, c.Stamp+1)
	}
	for _, p := range o.Policies {
		for _, r := range p.Groups {
			b.next = max(b.next, r.Revision+1)
		}
	}
	b.groups = cloneGroups(o.Ledger.Groups)
	for range maxPasses {
		before := cloneGroups(b.groups)
		b.pass(rules)
		if sameGroups(before, b.groups) {
			break
		}
	}
	var p Plan
	for i := range b.groups {
		b.scope(&b.groups[i]).size(&p)
	}
	p.Notes = b.notes
	p.Wake = b.wake
	p.Ledger = Ledger{Sequence: o.Ledger.Sequence, Groups: b.groups}
	p.Changed = b.force || !sameGroups(b.groups, o.Ledger.Groups)
	if p.Changed {
		p.Ledger.Sequence = b.next
	}
	sortPlan(&p)
	return p
}

// maxPasses bounds how often the rules are applied: what one decision makes
// possible is decided in the same plan, so that the next one finds nothing to do.
// The longest chain is a run through steps that wait for nothing.
const maxPasses = 64

// book is what one plan is made in.
type book struct {
	o        Observed
	now      time.Time
	groups   []Group
	next     int64 // the sequence that the ledger gets if it is written
	children map[string]Child
	notes    []Note
	wake     time.Time
	force    bool // the ledger must be written though its groups are the same
	// touched releases, by slug and name, are made or revived in this pass.
	touched map[string]bool
}

// pass applies the rules once to all groups. What the pass before said of states and
// of waking is forgotten.
func (b *book) pass(rules []rule) {
	b.notes = slices.DeleteFunc(b.notes, func(n Note) bool { return !n.Event })
	b.wake = noTime
	for _, p := range b.o.Spec.Pins {
		b.wakeAt(p.Expire)
	}
	b.open()
	for i := range b.groups {
		s := b.scope(&b.groups[i])
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

// cloneGroups copies groups deeply, in the order in which they are stored.
func cloneGroups(groups []Group) []Group {
	out := make([]Group, len(groups))
	for i := range groups {
		out[i] = groups[i].clone()
		sortRows(out[i].Releases)
	}
	sortGroups(out)
	return out
}

// open adds the groups that are to start: those of children without a record, and
// those that are offered and not older than the oldest live one (rule 17). Previews
// are in no order with other groups.
func (b *book) open() {
	known := map[string]bool{}
	add := func(slug, name, level string) {
		if !known[slug] {
			b.groups = append(b.groups, Group{Slug: slug, Name: name, Level: level, Phase: Live})
		}
		known[slug] = true
	}
	for _, g := range b.groups {
		known[g.Slug] = true
	}
	for _, c := range b.sortedChildren() {
		add(c.Slug, c.Name, c.Level)
	}
	if b.o.Spec.Paused || b.o.SourceStale || b.missingPin() != nil {
		return
	}
	oldest := b.oldest()
	for _, c := range b.candidates("") {
		switch {
		case known[c.Slug], b.closed(c.Slug), b.excluded(c.Slug):
		case c.Level != preview && oldest != "" && compare(c.Version, oldest) < 0:
			b.note(Note{Slug: c.Slug, Version: c.Version, Reason: "OlderGroup", Message: "older than the oldest live group: not started"})
			known[c.Slug] = true
		default:
			add(c.Slug, c.Name, c.Level)
		}
	}
}

// oldest of the newest versions of all live groups; "" without one.
func (b *book) oldest() string {
	oldest := ""
	for i := range b.groups {
		g := &b.groups[i]
		if v := b.newest(g); g.Phase == Live && g.Level != preview && (oldest == "" || compare(v, oldest) < 0) {
			oldest = v
		}
	}
	return oldest
}

// newest version that a group has or is offered.
func (b *book) newest(g *Group) string {
	var vs []string
	for _, r := range g.Releases {
		vs = append(vs, r.Version)
	}
	for _, c := range b.o.Children {
		if c.Slug == g.Slug {
			vs = append(vs, c.Version)
		}
	}
	for _, c := range b.candidates(g.Slug) {
		vs = append(vs, c.Version)
	}
	if len(vs) == 0 {
		return ""
	}
	return slices.MaxFunc(vs, compare)
}

// candidates of a group, or of all groups, highest version first.
func (b *book) candidates(slug string) []Candidate {
	var cs []Candidate
	for _, c := range b.o.Candidates {
		if slug == "" || c.Slug == slug {
			cs = append(cs, c)
		}
	}
	slices.SortFunc(cs, func(x, y Candidate) int {
		return cmp.Or(compare(y.Version, x.Version), cmp.Compare(x.Slug, y.Slug), cmp.Compare(x.Release, y.Release))
	})
	return cs
}

func (b *book) sortedChildren() []Child {
	cs := slices.Clone(b.o.Children)
	slices.SortFunc(cs, func(x, y Child) int {
		return cmp.Or(x.Created.Compare(y.Created), cmp.Compare(x.Release, y.Release))
	})
	return cs
}

// missingPin finds a pin that is meant for any group and that no group holds.
func (b *book) missingPin() *Pin {
	for i := range b.o.Spec.Pins {
		pin := &b.o.Spec.Pins[i]
		if !pin.Global || expired(*pin, b.now) {
			continue
		}
		held := slices.ContainsFunc(b.o.Candidates, func(c Candidate) bool {
			return c.Version == pin.Version && pin.names(c.Slug, c.Name)
		})
		for _, g := range b.groups {
			held = held || pin.names(g.Slug, g.Name) && slices.ContainsFunc(g.Releases, func(r Row) bool { return r.Version == pin.Version })
		}
		if !held {
			return pin
		}
	}
	return nil
}

func (p Pin) names(slug, name string) bool {
	return p.Group == "" || p.Group == slug || p.Group == name
}

func expired(p Pin, now time.Time) bool { return !p.Expire.IsZero() && !now.Before(p.Expire) }

func (b *book) note(n Note) { b.notes = append(b.notes, n) }

// wakeAt asks for another plan at t.
func (b *book) wakeAt(t time.Time) {
	if t.After(b.now) && (b.wake.IsZero() || t.Before(b.wake)) {
		b.wake = t
	}
}

// scope is one group in one pass.
type scope struct {
	*book
	g          *Group
	candidates []Candidate
	reports    []Report
	// before is what routes had to carry before this pass.
	before map[string]int
	// stepped says that this pass gave the run's step its weight.
	stepped bool
}

func (b *book) scope(g *Group) *scope {
	s := &scope{book: b, g: g, candidates: b.candidates(g.Slug), before: traffic(g)}
	for _, p := range b.o.Policies {
		r := Report{Slug: g.Slug}
		for _, x := range p.Groups {
			if x.Slug == g.Slug {
				r = x
			}
		}
		r.policy = p.Name
		s.reports = append(s.reports, r)
	}
	slices.SortFunc(s.reports, func(x, y Report) int { return cmp.Compare(x.policy, y.policy) })
	return s
}

func (s *scope) child(release string) (Child, bool) {
	c, ok := s.children[release]
	return c, ok && c.Slug == s.g.Slug
}

// offered finds the candidate that a release is made from.
func (s *scope) offered(release string) (Candidate, bool) {
	for _, c := range s.candidates {
		if c.Release == release {
			return c, true
		}
	}
	return Candidate{}, false
}

// withdrawn says why a version is taken back, alone or with its group.
func (s *scope) withdrawn(version string) (WithdrawReason, bool) {
	for _, w := range s.o.Withdrawn {
		if w.Slug == s.g.Slug && (w.Version == version || w.Version == "" && (w.Reason == Denied || w.Reason == Gone)) {
			return w.Reason, true
		}
	}
	return "", false
}

// closed says that the source of a group is closed, and excluded that the
// specification no longer makes it; what is closed is not merely excluded.
func (b *book) closed(slug string) bool { return b.groupWithdrawn(slug, Closed) }

func (b *book) excluded(slug string) bool {
	return b.groupWithdrawn(slug, Excluded) && !b.closed(slug)
}

func (b *book) groupWithdrawn(slug string, reason WithdrawReason) bool {
	return slices.Contains(b.o.Withdrawn, Withdrawal{Slug: slug, Reason: reason})
}

// touch marks a release as made or revived in this pass: its object is stamped.
func (s *scope) touch(release string) { s.touched[s.g.Slug+"/"+release] = true }

// event notes something that happened to a release.
func (s *scope) event(r *Row, warning bool, reason, message string) {
	n := Note{Slug: s.g.Slug, Reason: reason, Message: message, Event: true, Warning: warning}
	if r != nil {
		n.Release, n.Version = r.Release, r.Version
	}
	s.note(n)
}

// state notes something that lasts.
func (s *scope) state(r *Row, warning bool, reason, message string) {
	n := Note{Slug: s.g.Slug, Reason: reason, Message: message, Warning: warning}
	if r != nil {
		n.Release, n.Version = r.Release, r.Version
	}
	s.note(n)
}

// turn gives a row another status.
func (s *scope) turn(r *Row, to Status, reason string) {
	if r.Status == to && r.Reason == reason {
		return
	}
	if r.Status != to {
		r.Since = s.now
	}
	r.Status, r.Reason = to, reason
}

// endRun breaks the run off, and gives its weight back.
func (s *scope) endRun() {
	if s.g.Run == nil {
		return
	}
	if r := s.g.Row(s.g.Run.Release); r != nil && r.Status != Active {
		r.leave()
	}
	if a := s.g.ActiveRow(); a != nil {
		a.Weight = 100
	}
	s.g.Run = nil
}

func sameGroups(a, b []Group) bool {
	if len(a) != len(b) {
		return false
	}
	a, b = cloneGroups(a), cloneGroups(b)
	for i := range a {
		x, y := a[i], b[i]
		if len(x.Releases) == 0 && len(y.Releases) == 0 {
			x.Releases, y.Releases = nil, nil
		}
		if !reflect.DeepEqual(x, y) {
			return false
		}
	}
	return true
}

// done says that a closing group has nothing left, or that a group never began.
func (b *book) done(g Group) bool {
	if len(g.Releases) > 0 || g.Run != nil {
		return false
	}
	for _, c := range b.o.Children {
		if c.Slug == g.Slug {
			return false
		}
	}
	if g.Phase == Closing {
		return true
	}
	return g.TrafficRevision == 0 && g.Target.Release == ""
}

func sortRows(rows []Row) {
	slices.SortFunc(rows, func(x, y Row) int {
		return cmp.Or(compare(y.Version, x.Version), cmp.Compare(y.Promoted, x.Promoted), cmp.Compare(x.Release, y.Release))
	})
}

func sortGroups(groups []Group) {
	slices.SortFunc(groups, func(x, y Group) int {
		return cmp.Or(compareNames(y.Name, x.Name), cmp.Compare(x.Slug, y.Slug))
	})
}

// compareNames orders streams: "10.x" above "9.x".
func compareNames(a, b string) int {
	return compare(streamVersion(a), streamVersion(b))
}

// streamVersion reads "1.x" as 1 and "1.2.x" as 1.2.
func streamVersion(name string) string {
	for len(name) > 2 && name[len(name)-2:] == ".x" {
		name = name[:len(name)-2]
	}
	return name
}

func sortPlan(p *Plan) {
	slices.SortFunc(p.Ensure, func(x, y Ensure) int { return cmp.Or(cmp.Compare(x.Slug, y.Slug), cmp.Compare(x.Release, y.Release)) })
	slices.SortFunc(p.Retire, func(x, y Retire) int { return cmp.Or(cmp.Compare(x.Slug, y.Slug), cmp.Compare(x.Release, y.Release)) })
	slices.SortStableFunc(p.Notes, func(x, y Note) int {
		return cmp.Or(cmp.Compare(x.Slug, y.Slug), cmp.Compare(x.Release, y.Release), cmp.Compare(x.Reason, y.Reason), cmp.Compare(x.Message, y.Message))
	})
	p.Notes = slices.Compact(p.Notes)
}
