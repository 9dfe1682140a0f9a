package release

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/heighliner/heighliner/internal/version"
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
	// Idle releases are not to have traffic, are in no route, and their drain is over.
	// All others may answer requests, whatever the ledger says of them.
	Idle []string
	// NeverActive releases are of a group without an active release, and hooks have to agree
	// before they are. Their objects are to carry a mark of that, and no others: a plan that
	// has lost the record does not take them for what was active.
	NeverActive []string
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
	b := newBook(o, now)
	was := cloneGroups(o.Ledger.Groups)
	b.groups = copyGroups(was)
	for i := range was {
		b.before[was[i].Slug] = askedOf(&was[i])
	}
	for range maxPasses {
		before := copyGroups(b.groups)
		b.pass(rules)
		if slices.EqualFunc(before, b.groups, sameGroup) {
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
	p.Changed = b.force || !slices.EqualFunc(b.groups, was, sameGroup)
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
	sorted   []Child                // the children by age
	offers   []Candidate            // the candidates of all groups, highest version first
	perGroup map[string][]Candidate // the same, by slug
	reports  map[string][]Report    // what each policy says, by slug
	// references are the releases that policies name in their reports.
	references map[string]bool
	before     map[string]asked // of the routes, by slug, when the plan began
	notes      []Note
	wake       time.Time
	force      bool // the ledger must be written though its groups are the same
	// touched releases, by slug and name, are made or revived in this pass.
	touched map[string]bool
	// arrived are the groups, by slug, that this pass rebuilt while the newest domains are
	// still to come to them: what they come from may not have been rebuilt yet.
	arrived map[string]bool
	// handled decisions of rows that this plan drops: one that it makes again keeps
	// them.
	handled map[string]*Handled
}

// maxSequence is more writes than a ledger ever has. A stamp above it was written by hand.
const maxSequence = 1 << 53

// newBook sorts the facts.
func newBook(o Observed, now time.Time) *book {
	b := &book{
		o: o, now: stored(now), children: make(map[string]Child, len(o.Children)), touched: map[string]bool{}, arrived: map[string]bool{}, handled: map[string]*Handled{}, next: o.Ledger.Sequence + 1,
		sorted: slices.Clone(o.Children), offers: slices.Clone(o.Candidates), perGroup: map[string][]Candidate{}, reports: map[string][]Report{}, references: map[string]bool{}, before: map[string]asked{},
	}
	for i := range b.sorted {
		c := &b.sorted[i]
		if c.Stamp > maxSequence {
			c.Stamp = 0 // no write of a ledger made it
		}
		b.children[c.Release] = *c
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
	slices.SortFunc(b.sorted, func(x, y Child) int {
		return cmp.Or(x.Created.Compare(y.Created), cmp.Compare(x.Release, y.Release))
	})
	slices.SortFunc(b.offers, byOffer)
	for _, c := range b.offers {
		b.perGroup[c.Slug] = append(b.perGroup[c.Slug], c)
	}
	b.o.Spec.Pins = slices.Clone(o.Spec.Pins)
	for i := range b.o.Spec.Pins {
		b.spell(&b.o.Spec.Pins[i])
	}
	return b
}

// spell reads the version of a pin as it is offered or held: a tag such as v1.1.0 gives the
// version 1.1.0.
func (b *book) spell(p *Pin) {
	if meant := version.Meant(p.Version); !b.hasVersion(*p, p.Version) && b.hasVersion(*p, meant) {
		p.Version = meant
	}
}

// hasVersion says that a version is offered to a group that a pin names, or a row of it.
func (b *book) hasVersion(p Pin, version string) bool {
	return slices.ContainsFunc(b.o.Candidates, func(c Candidate) bool {
		return c.Version == version && p.names(c.Slug, c.Name, c.PullRequest)
	}) || slices.ContainsFunc(b.o.Ledger.Groups, func(g Group) bool {
		return p.names(g.Slug, g.Name, g.PullRequest) && slices.ContainsFunc(g.Releases, func(r Row) bool { return r.Version == version })
	})
}

// byOffer orders candidates: the highest version first, and after all versions the
// commits of pull requests, which have no order, the newest push first.
func byOffer(x, y Candidate) int {
	switch px, py := x.Level == preview, y.Level == preview; {
	case px && py:
		if c := cmp.Or(y.Time.Compare(x.Time), cmp.Compare(y.PullRequest, x.PullRequest)); c != 0 {
			return c
		}
	case px:
		return 1
	case py:
		return -1
	}
	return cmp.Or(compare(y.Version, x.Version), cmp.Compare(x.Slug, y.Slug), cmp.Compare(x.Release, y.Release))
}

// pass applies the rules once to all groups. What the pass before said of states and
// of waking is forgotten.
func (b *book) pass(rules []rule) {
	b.notes = slices.DeleteFunc(b.notes, func(n Note) bool { return !n.Event })
	b.wake = noTime
	clear(b.arrived)
	for _, p := range b.o.Spec.Pins {
		b.wakeAt(p.Expire)
	}
	b.open()
	b.noteMissingPin()
	b.noteStrayPins()
	b.places()
	for _, g := range b.turns() {
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

// copyGroups copies what a pass may change in place.
func copyGroups(groups []Group) []Group {
	out := slices.Clone(groups)
	for i := range out {
		out[i].Releases = slices.Clone(out[i].Releases)
		if run := out[i].Run; run != nil {
			c := *run
			out[i].Run = &c
		}
	}
	return out
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
	var beyond []string
	add := func(g Group) {
		switch {
		case known[g.Slug]:
		case len(b.groups) >= maxGroups:
			beyond = append(beyond, g.Name)
		default:
			b.groups = append(b.groups, g)
			b.before[g.Slug] = asked{load: load{phase: Live}}
		}
		known[g.Slug] = true
	}
	defer func() {
		if len(beyond) > 0 {
			b.note(Note{Warning: true, Reason: "TooManyGroups", Message: fmt.Sprintf("status.releaseGroups holds %d groups, and no more start (%s first): take versions out of the ImagePolicy, or group them by less", maxGroups, beyond[0])})
		}
	}()
	for _, g := range b.groups {
		known[g.Slug] = true
	}
	for _, c := range b.sorted {
		add(Group{Slug: c.Slug, Name: c.Name, Level: c.Level, PullRequest: c.PullRequest, Phase: Live})
	}
	if b.o.Spec.Paused || b.o.SourceStale || b.missingPin() != nil || !b.o.PullRequests && len(b.strayPins()) > 0 {
		return
	}
	oldest, asked := "", false
	for _, c := range b.offers {
		if known[c.Slug] || b.withdrawnGroup(c.Slug) || b.ended(c.Slug, c.Name, c.PullRequest) {
			continue
		}
		if c.Level == preview { // places gives it one
			add(Group{Slug: c.Slug, Name: c.Name, Level: c.Level, PullRequest: c.PullRequest, Phase: Expired, Target: Target{Reason: NoPlace}})
			continue
		}
		if !asked {
			oldest, asked = b.oldest(), true
		}
		switch {
		case oldest != "" && compare(c.Version, oldest) < 0:
			b.note(Note{Slug: c.Slug, Version: c.Version, Reason: "OlderGroup", Message: "older than the oldest live group: not started"})
			known[c.Slug] = true
		default:
			add(Group{Slug: c.Slug, Name: c.Name, Level: c.Level, Phase: Live})
		}
	}
}

// oldest of the versions that the live groups serve, or, before they do, have or are
// offered; "" without one.
func (b *book) oldest() string {
	oldest := ""
	for i := range b.groups {
		g := &b.groups[i]
		if g.Phase != Live || g.Level == preview {
			continue
		}
		v := b.newest(g)
		if a := g.ActiveRow(); a != nil {
			v = a.Version
		}
		if oldest == "" || compare(v, oldest) < 0 {
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
	for _, c := range b.perGroup[g.Slug] {
		vs = append(vs, c.Version)
	}
	if len(vs) == 0 {
		return ""
	}
	return slices.MaxFunc(vs, compare)
}

// missingPin finds a pin that is meant for any group and that no group holds.
func (b *book) missingPin() *Pin {
	for i := range b.o.Spec.Pins {
		pin := &b.o.Spec.Pins[i]
		if !pin.Global || expired(*pin, b.now) {
			continue
		}
		held := slices.ContainsFunc(b.o.Candidates, func(c Candidate) bool {
			return pin.means(c.Version, c.Release) && pin.names(c.Slug, c.Name, c.PullRequest)
		})
		for _, g := range b.groups {
			held = held || pin.names(g.Slug, g.Name, g.PullRequest) && slices.ContainsFunc(g.Releases, func(r Row) bool { return pin.means(r.Version, r.Release) })
		}
		if !held {
			return pin
		}
	}
	return nil
}

// noteMissingPin reports a pin that no group holds where no group is live, which would
// report it. While nothing is offered at all it may still come.
func (b *book) noteMissingPin() {
	live := slices.ContainsFunc(b.groups, func(g Group) bool { return g.Phase == Live })
	if missing := b.missingPin(); missing != nil && !live && len(b.o.Candidates) > 0 {
		b.note(Note{Warning: true, Reason: "PinnedVersionMissing", Message: missing.missing()})
	}
}

// missing is the message of a pin that no group holds.
func (p Pin) missing() string {
	return fmt.Sprintf("no group holds %s that spec.updateStrategy.manual pins: nothing is started; correct it, or remove the pin", p.wanted())
}

// strayPins are the pins by name that name no group, neither one that there is nor one
// that is offered. While no group is known at all nothing is said of them.
func (b *book) strayPins() []Pin {
	if len(b.groups) == 0 && len(b.o.Candidates) == 0 {
		return nil
	}
	var stray []Pin
	for _, pin := range b.o.Spec.Pins {
		if pin.Global || pin.Group == "" || expired(pin, b.now) ||
			slices.ContainsFunc(b.groups, func(g Group) bool { return pin.names(g.Slug, g.Name, g.PullRequest) }) ||
			slices.ContainsFunc(b.o.Candidates, func(c Candidate) bool { return pin.names(c.Slug, c.Name, c.PullRequest) }) {
			continue
		}
		stray = append(stray, pin)
	}
	return stray
}

// noteStrayPins says which pins name no group, and which groups there are.
func (b *book) noteStrayPins() {
	stray := b.strayPins()
	if len(stray) == 0 {
		return
	}
	var names []string
	for _, g := range b.groups {
		names = append(names, g.Name)
	}
	for _, c := range b.o.Candidates {
		names = append(names, c.Name)
	}
	slices.SortFunc(names, func(x, y string) int { return cmp.Or(compareNames(y, x), cmp.Compare(x, y)) })
	names = slices.Compact(names)
	if more := len(names) - maxNamed; more > 0 {
		names = append(names[:maxNamed], fmt.Sprintf("%d more", more))
	}
	follows := "groups without a pin start nothing; correct the name, or remove the pin"
	if b.o.PullRequests {
		follows = "the pin waits for it, and the others go on"
	}
	for _, pin := range stray {
		b.note(Note{Warning: !b.o.PullRequests, Reason: "PinnedVersionMissing", Message: fmt.Sprintf("%s: there is no group %q, there are %s: %s", pin.Field, pin.Group, strings.Join(names, ", "), follows)})
	}
}

// maxNamed is how many groups a message names.
const maxNamed = 8

// means reports whether a pin is to a release of that name and version.
func (p Pin) means(version, release string) bool {
	if p.Release != "" {
		return p.Release == release
	}
	return p.Version == version
}

// wanted is what a pin names, for messages.
func (p Pin) wanted() string {
	if p.Release != "" {
		return fmt.Sprintf("release %q", p.Release)
	}
	return fmt.Sprintf("version %q", p.Version)
}

// String is the release, or the version and which template it is to run with.
func (p Pin) String() string {
	if p.Release != "" {
		return p.Release
	}
	if p.Current {
		return p.Version + " (Current)"
	}
	return p.Version
}

func (p Pin) names(slug, name string, pullRequest int64) bool {
	return p.Group == "" || p.Group == slug || p.Group == name || pullRequest > 0 && p.Group == strconv.FormatInt(pullRequest, 10)
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
	candidates []Candidate // highest version first
	reports    []Report    // by policy
	// stepped says that this pass gave the run's step its weight.
	stepped bool
}

func (b *book) scope(g *Group) *scope {
	return &scope{book: b, g: g, candidates: b.perGroup[g.Slug], reports: b.reportsOf(g.Slug)}
}

// reportsOf gives what each policy says of a group.
func (b *book) reportsOf(slug string) []Report {
	if reports, known := b.reports[slug]; known {
		return reports
	}
	reports := make([]Report, 0, len(b.o.Policies))
	for _, p := range b.o.Policies {
		r := Report{Slug: slug}
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

// denied says that a person took a version back: it gets no traffic while another release
// can have it, and neither a pin nor a pause protects it.
func (s *scope) denied(version string) bool { return s.withdrawnFor(version, Denied) }

// withdrawnFor says that a version is withdrawn for a reason, alone or with its group.
func (s *scope) withdrawnFor(version string, reason WithdrawReason) bool {
	return slices.ContainsFunc(s.o.Withdrawn, func(w Withdrawal) bool {
		return w.Slug == s.g.Slug && w.Reason == reason && (w.Version == version || w.Version == "")
	})
}

// activeDenied says that what is active is to make room for another release.
func (s *scope) activeDenied() bool {
	a := s.g.ActiveRow()
	return a != nil && s.denied(a.Version)
}

// closed says that the source of a group is closed, and that what is left of it has
// been kept for long enough.
func (b *book) closed(slug string) bool {
	if !b.groupWithdrawn(slug, Closed) {
		return false
	}
	var last time.Time
	for _, w := range b.o.Withdrawn {
		if w.Slug == slug && w.Version == "" && w.Reason == Closed && w.Time.After(last) {
			last = w.Time
		}
	}
	end := last.Add(b.o.Spec.Previews.KeepAfterClose)
	b.wakeAt(end)
	return !b.now.Before(end)
}

// ended reports whether a user ends a group on purpose.
func (b *book) ended(slug, name string, pullRequest int64) bool {
	return slices.ContainsFunc(b.o.Spec.Ended, func(group string) bool { return Pin{Group: group}.names(slug, name, pullRequest) })
}

// excluded says that the specification no longer makes a group; what is closed is not
// merely excluded.
func (b *book) excluded(slug string) bool {
	return b.groupWithdrawn(slug, Excluded) && !b.groupWithdrawn(slug, Closed)
}

// withdrawnGroup says that nothing of a group is to start.
func (b *book) withdrawnGroup(slug string) bool {
	return b.groupWithdrawn(slug, Closed) || b.groupWithdrawn(slug, Excluded)
}

func (b *book) groupWithdrawn(slug string, reason WithdrawReason) bool {
	return slices.ContainsFunc(b.o.Withdrawn, func(w Withdrawal) bool {
		return w.Slug == slug && w.Version == "" && w.Reason == reason
	})
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

// sameGroup compares what is stored of two groups.
func sameGroup(a, b Group) bool {
	return a.Slug == b.Slug && a.Name == b.Name && a.Level == b.Level && a.PullRequest == b.PullRequest && a.Head == b.Head && a.HeadTime.Equal(b.HeadTime) && a.Phase == b.Phase && a.Target == b.Target &&
		a.TrafficRevision == b.TrafficRevision && a.TrafficTime.Equal(b.TrafficTime) && a.SettledRevision == b.SettledRevision && a.Overtaken == b.Overtaken && a.Failed == b.Failed &&
		same(a.Run, b.Run) && slices.EqualFunc(a.Releases, b.Releases, sameRow)
}

func sameRow(a, b Row) bool {
	if !same(a.Zero, b.Zero) || !same(a.Decision, b.Decision) {
		return false
	}
	a.Zero, a.Decision, b.Zero, b.Decision = nil, nil, nil, nil
	return a == b
}

// same compares what two pointers lead to; times are as they are stored.
func same[T comparable](a, b *T) bool { return a == b || a != nil && b != nil && *a == *b }

// done says that a closing group has nothing left, or that a group never began, or lost
// all its releases by hand and is offered none. A preview that has expired is remembered.
func (b *book) done(g Group) bool {
	if len(g.Releases) > 0 || g.Run != nil || g.Phase == Expired {
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
	if g.Target.Release != "" {
		return false
	}
	return g.TrafficRevision == 0 || g.Target.Reason == "" && len(b.perGroup[g.Slug]) == 0 && b.o.Config != "" && !b.o.SourceStale
}

func sortRows(rows []Row) {
	slices.SortFunc(rows, func(x, y Row) int {
		return cmp.Or(compare(y.Version, x.Version), cmp.Compare(y.Promoted, x.Promoted), cmp.Compare(x.Release, y.Release))
	})
}

// sortGroups puts the newest first, previews after all others.
func sortGroups(groups []Group) {
	slices.SortFunc(groups, func(x, y Group) int { return byNewest(&x, &y) })
}

func sortPlan(p *Plan) {
	slices.SortFunc(p.Ensure, func(x, y Ensure) int { return cmp.Or(cmp.Compare(x.Slug, y.Slug), cmp.Compare(x.Release, y.Release)) })
	slices.SortFunc(p.Retire, func(x, y Retire) int { return cmp.Or(cmp.Compare(x.Slug, y.Slug), cmp.Compare(x.Release, y.Release)) })
	slices.Sort(p.NeverActive)
	slices.SortStableFunc(p.Notes, func(x, y Note) int {
		return cmp.Or(cmp.Compare(x.Slug, y.Slug), cmp.Compare(x.Release, y.Release), cmp.Compare(x.Reason, y.Reason), cmp.Compare(x.Message, y.Message))
	})
	p.Notes = slices.Compact(p.Notes)
}
