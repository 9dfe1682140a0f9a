package release

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// rule is one named decision about one group. Rules apply in order; each reads
// the facts and what the rules before it made of the group.
type rule struct {
	name  string
	apply func(*scope)
}

// rules of a group. A test takes each of them out and expects a history to fail.
var rules = []rule{
	{"Rebuild", rebuild},
	{"Take in leftovers", leftovers},
	{"Note routes", noteRoutes},
	{"Vanished active", vanishedActive},
	{"Vanished others", vanishedOthers},
	{"Decide", decide},
	{"Close", closeGroup},
	{"Aim", aim},
	{"Finish first", finishFirst},
	{"Overtake", overtake},
	{"Start", start},
	{"Open the gate", openGate},
	{"Keep the clock", keepClock},
	{"Fail", fail},
	{"Edited steps", editedSteps},
	{"First release", promoteFirst},
	{"Roll back", promoteKept},
	{"Adopt", promoteAdopted},
	{"Step", step},
	{"Settle", settle},
	{"Note availability", noteAvailability},
	{"Revise", revise},
	{"Forget errors", forgetErrors},
	{"Let go", letGo},
	{"Within limits", withinLimits},
}

// rebuild makes rows for a group that has children but no record (rule 31), because
// the ledger was lost or not written yet: their stamps are ahead of it, or a route
// names them. Children that a ledger let go, and that a late write made again, stay
// without a row. The
// release that the group's Service selects is active, older ones were, as far as is known
// (unproven), and all others are pending; what has no pods leaves no route. Without a policy the oldest with replicas is active, and rather
// one that is available. In a group to which the newest domains are still to come none is, and
// nothing is that hooks have not let through.
func rebuild(s *scope) {
	if len(s.g.Releases) > 0 || s.g.Phase != Live || s.recorded() {
		return
	}
	var cs []Child
	for _, c := range s.sorted {
		if c.Slug == s.g.Slug && !c.Terminating && !s.isTouched(c.Release) && (c.Stamp > s.o.Ledger.Sequence || s.referenced(c.Release)) {
			cs = append(cs, c)
		}
	}
	active := -1
	for i, c := range cs {
		for _, r := range s.reports {
			if r.Active == c.Release {
				active = i
			}
		}
	}
	for _, sign := range []func(Child) bool{
		func(c Child) bool { return c.Available > 0 && s.referenced(c.Release) },
		func(c Child) bool { return c.Available > 0 },
		func(c Child) bool { return s.referenced(c.Release) },
		// One that the next write would have recorded was made by a plan that a crash
		// cut short, and is just starting.
		func(c Child) bool { return c.Replicas > 0 && c.Stamp > s.o.Ledger.Sequence+1 },
	} {
		if active < 0 {
			active = slices.IndexFunc(cs, func(c Child) bool { return !c.NeverActive && c.Told != Error && sign(c) })
		}
	}
	if len(cs) > 0 {
		s.g.TrafficRevision, s.g.TrafficTime = s.next, s.now
	}
	if s.arrives() { // What has a part of the newest domains begins its steps anew.
		active, s.arrived[s.g.Slug] = -1, true
	}
	cs, active = s.fit(cs, active)
	for i, c := range cs {
		row := Row{Release: c.Release, Name: c.Name, Version: c.Version, Config: c.Config, Since: s.now, Reason: "Rebuilt", Status: Pending}
		row.Routed = len(s.reports) > 0 && c.Replicas > 0
		switch {
		case i == active:
			row.Status, row.Weight, row.Promoted = Active, 100, int64(i+1)
		case i < active && !s.unproven(c, cs[active]):
			row.Status, row.Promoted = Deprecated, int64(i+1)
		}
		if i != active && (c.Replicas > 0 || c.Available > 0 || s.referenced(c.Release)) {
			row.Zero = &Zero{Revision: s.next, Time: s.now}
		}
		s.g.Releases = append(s.g.Releases, row)
		s.touch(c.Release)
		s.event(&row, true, "Rebuilt", fmt.Sprintf("the record was lost: %s taken over as %s", c.Version, row.Status))
	}
	s.before[s.g.Slug] = askedOf(s.g) // routes may carry what is active now
}

// unproven reports whether a release that is rebuilt beside an active one takes its steps again,
// because it was never active, or failed, as far as is known: its object says so, or its
// version is above the active one's. The commits of a pull request have no order.
func (s *scope) unproven(c, active Child) bool {
	return c.NeverActive || slices.Contains([]Status{Pending, Canary, Error}, c.Told) ||
		s.g.Level != preview && compare(c.Version, active.Version) > 0
}

// leftovers gives a row to a child without one that a route names: it is drained like
// any other, from the time at which no route names it.
func leftovers(s *scope) {
	for _, c := range s.sorted {
		if c.Slug != s.g.Slug || c.Terminating || !s.referenced(c.Release) {
			continue
		}
		if s.g.Row(c.Release) == nil && s.room() {
			s.g.Releases = append(s.g.Releases, Row{Release: c.Release, Name: c.Name, Version: c.Version, Config: c.Config, Status: Deprecated, Reason: leftover, Since: s.now})
		}
		if r := s.g.Row(c.Release); r == nil || r.Reason == leftover {
			s.state(r, true, "OrphanReferenced", fmt.Sprintf("%s had no row and a route names it: it is kept until none does", c.Release))
		}
	}
}

// leftover is the reason of a row that leftovers made.
const leftover = "Leftover"

// recorded says that the ledger has the group.
func (s *scope) recorded() bool {
	return slices.ContainsFunc(s.o.Ledger.Groups, func(g Group) bool { return g.Slug == s.g.Slug })
}

// noteRoutes remembers which releases ever were in a route (rules 10 and 18).
func noteRoutes(s *scope) {
	for i := range s.g.Releases {
		r := &s.g.Releases[i]
		r.Routed = r.Routed || s.referenced(r.Release)
	}
}

// vanishedActive mends a group whose active release's object is gone (rule 31).
func vanishedActive(s *scope) {
	a := s.g.ActiveRow()
	if a == nil {
		return
	}
	if _, there := s.child(a.Release); there {
		return
	}
	if _, can := s.offered(a.Release); can {
		return // made again by size
	}
	s.event(a, true, "ActiveLost", fmt.Sprintf("the object of the active release %s is gone and cannot be made again", a.Version))
	lost := a.Release
	if next := s.successor(); next != nil {
		s.endRun()
		s.promote(next, "ActiveLost")
		s.touch(next.Release)
	}
	s.dropRow(lost)
}

// successor of an active release that is lost: of those that were active, what a pin
// wants, else the last one; else the canary, which alone has traffic. What is denied serves
// only where no other release has an object.
func (s *scope) successor() *Row {
	var next *Row
	waits := false
	for i := range s.g.Releases {
		r := &s.g.Releases[i]
		running := s.g.Run != nil && s.g.Run.Release == r.Release
		kept := r.Promoted > 0 && r.Status == Deprecated
		switch c, there := s.child(r.Release); {
		case !there || c.Terminating:
		case kept, running && r.Status == Canary:
			if next == nil || s.precedes(*r, *next) {
				next = r
			}
		case running:
			waits = waits || !s.denied(r.Version)
		}
	}
	if next != nil && s.denied(next.Version) && waits {
		return nil // for what is on its way
	}
	return next
}

// precedes says that x rather than y follows an active release that is lost.
func (s *scope) precedes(x, y Row) bool {
	return cmp.Or(
		last(s.denied(x.Version), s.denied(y.Version)),
		last(x.Promoted == 0 || !s.pinned(x), y.Promoted == 0 || !s.pinned(y)),
		cmp.Compare(y.Promoted, x.Promoted),
	) < 0
}

// pinned says that a pin names a release, by version or name.
func (s *scope) pinned(r Row) bool {
	return slices.ContainsFunc(s.o.Spec.Pins, func(p Pin) bool {
		return p.names(s.g.Slug, s.g.Name, s.g.PullRequest) && p.means(r.Version, r.Release) && !expired(p, s.now)
	})
}

// vanishedOthers drops rows whose object is gone, and that cannot or need not be
// made again.
func vanishedOthers(s *scope) {
	for i := len(s.g.Releases) - 1; i >= 0; i-- {
		r := s.g.Releases[i]
		if r.Status == Active {
			continue
		}
		if _, there := s.child(r.Release); there {
			continue
		}
		running := s.g.Run != nil && s.g.Run.Release == r.Release
		if _, can := s.offered(r.Release); can && running {
			continue // made again by size
		}
		if running {
			s.endRun()
		}
		s.dropRow(r.Release)
	}
}

func (s *scope) dropRow(release string) {
	if r := s.g.Row(release); r.Decision != nil {
		s.handled[release] = r.Decision
	}
	s.g.Releases = slices.DeleteFunc(s.g.Releases, func(r Row) bool { return r.Release == release })
}

// decide applies people's decisions, each id once (rule 21). The stamp keeps a plan
// that read an older decision from taking the place of this one in the ledger.
func decide(s *scope) {
	for i := range s.g.Releases {
		r := &s.g.Releases[i]
		c, _ := s.child(r.Release)
		d := c.Decision
		if d == nil || r.Decision != nil && r.Decision.ID == d.ID {
			continue
		}
		if c.Refused && d.Action != Deprecate {
			// Without a stamp only traffic is taken away.
			s.state(r, true, Blocked, fmt.Sprintf("decision %s on %s waits: the server refuses that its object is changed", d.Action, r.Version))
			continue
		}
		outcome := cut(s.applyDecision(r, *d), maxOutcome)
		s.touch(r.Release)
		r.Decision = &Handled{ID: d.ID, Action: d.Action, Time: s.now, By: d.By, Outcome: outcome}
		s.event(r, outcome != DecisionApplied, outcomeReason(outcome), fmt.Sprintf("decision %s of %s on %s: %s", d.Action, whom(d.By), r.Version, outcome))
	}
}

// maxOutcome is how many bytes of what became of a decision the status takes. It quotes
// what a user wrote, and a status that is refused would keep everything else from happening.
const maxOutcome = 256

// cut gives at most limit bytes of a text, and no part of a character.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit-len("…")], "") + "…"
}

func whom(by string) string {
	if by == "" {
		return "an unnamed user"
	}
	return strconv.Quote(by)
}

func outcomeReason(outcome string) string {
	if outcome == DecisionApplied {
		return "DecisionApplied"
	}
	return DecisionNotApplicable
}

func (s *scope) applyDecision(r *Row, d Decision) string {
	refuse := func(format string, args ...any) string {
		return DecisionNotApplicable + ": " + fmt.Sprintf(format, args...)
	}
	running := s.g.Run != nil && s.g.Run.Release == r.Release
	if s.g.Phase != Live {
		return refuse("the group is %s", strings.ToLower(string(s.g.Phase)))
	}
	switch d.Action {
	case Continue:
		if !running || r.Status != Canary || s.g.Run.Step == 0 {
			return refuse("the release is %s, and only a canary is in a step", r.Status)
		}
		if name, number := s.stepName(s.g.Run.Step), strconv.Itoa(s.g.Run.Step); d.Step != name && d.Step != number {
			return refuse("the canary is in step %q and not in %q", name, d.Step)
		}
		s.g.Run.Continued = s.g.Run.Step
	case Adopt:
		if !running || r.Status != Canary && r.Status != Pending {
			return refuse("the release is %s; Adopt is for the pending or canary release that is under way", r.Status)
		}
		r.Adopted = true
	case Deprecate:
		if r.Status != Canary && r.Status != Pending {
			return refuse("the release is %s; Deprecate is for pending and canary: to leave an active release, pin another version", r.Status)
		}
		s.failRow(r, "TurnedDown")
	case Retry:
		if r.Status != Error {
			return refuse("the release is %s; Retry is for error", r.Status)
		}
		if why := s.spoiled(r.Release, r.Version); why != "" {
			return refuse("%s: decide Retry there first", why)
		}
		switch next := s.passedOver(r); {
		case next == nil:
			s.retryRow(r, "Retried")
		case next.Release == "":
			return refuse("nothing is wanted: the version is not offered as it was")
		default:
			return refuse("%s is wanted (%s)", s.versionOf(next.Release), next.Reason)
		}
	default:
		return refuse("unknown action %q", d.Action)
	}
	return DecisionApplied
}

// failRow turns a release down, and takes its weight away.
func (s *scope) failRow(r *Row, reason string) {
	if s.g.Run != nil && s.g.Run.Release == r.Release {
		s.endRun()
	}
	r.leave()
	s.turn(r, Error, reason)
}

// retryRow starts a failed release again, from before the first step.
func (s *scope) retryRow(r *Row, reason string) {
	r.Attempt++
	r.RetryTime = noTime
	s.turn(r, Pending, reason)
	s.touch(r.Release)
}

// closeGroup begins the end of a group whose source says that it is closed
// (rule 14), or that a user ends, once its domains have moved to the next group, and opens one again that is offered again; a preview needs a place for it.
func closeGroup(s *scope) {
	ended := s.ended(s.g.Slug, s.g.Name, s.g.PullRequest)
	switch {
	case s.g.Phase == Live && s.closed(s.g.Slug), s.g.Phase == Expired && s.groupWithdrawn(s.g.Slug, Closed):
		s.close("Closed")
	case ended && s.g.Phase != Closing:
		if to := s.successorGroup(); to != nil {
			s.state(s.g.ActiveRow(), true, "GroupExcluded", fmt.Sprintf("group %s is to end: it closes when its domains have moved to group %s, which has nothing active yet%s; name both in spec.endedGroups to end both", s.g.Name, to.Name, to.standing()))
			return
		}
		s.close("Ended")
	case ended:
	case s.g.Phase == Closing && s.g.Level != preview && !s.withdrawnGroup(s.g.Slug) && len(s.candidates) > 0:
		s.g.Phase = Live
		s.event(nil, false, "Reopened", "the group is offered again")
	}
}

// standing is what keeps a group from having an active release, where that is known.
func (g *Group) standing() string {
	if g.Run == nil {
		return " and nothing on its way"
	}
	if r := g.Row(g.Run.Release); r != nil && g.Run.WaitsFor != "" {
		return fmt.Sprintf(" (%s waits: %s)", r.Version, g.Run.WaitsFor)
	}
	return ""
}

// close ends a group.
func (s *scope) close(reason string) {
	s.takeDown(Closing, reason)
	s.event(nil, false, reason, "the group is drained and removed")
}

// takeDown turns every row of a group out, in one write.
func (s *scope) takeDown(to Phase, reason string) {
	s.endRun()
	s.g.Phase = to
	s.g.Target = Target{}
	for i := range s.g.Releases {
		r := &s.g.Releases[i]
		r.leave()
		if r.Status != Deprecated {
			s.turn(r, Deprecated, reason)
		}
	}
}

// closeExcluded closes a group that a changed specification no longer makes,
// once another group holds the same or a higher version (rule 38). Without a template
// nothing is offered, and no heir is known. A pull request that is not chosen any more has
// no heir.
func (b *book) closeExcluded(g *Group) {
	s := b.scope(g)
	if !b.excluded(g.Slug) || g.Phase == Closing || b.o.Spec.Paused {
		return
	}
	if g.Level == preview {
		s.close("Excluded")
		revise(s)
		return
	}
	a := g.ActiveRow()
	if b.o.Config == "" {
		s.state(a, true, "GroupExcluded", "the specification no longer makes this group: which group takes its place is known when the template can be read")
		return
	}
	slug := b.heirOf(g)
	for i := range b.groups {
		heir := b.scope(&b.groups[i])
		ha := heir.g.ActiveRow()
		if heir.g == g || slug != "" && heir.g.Slug != slug || heir.g.Phase != Live || heir.g.Level == preview || ha == nil || !ha.Available {
			continue
		}
		if b.closed(heir.g.Slug) || b.excluded(heir.g.Slug) || !heir.confirmed(heir.g.TrafficRevision) {
			continue
		}
		if a == nil || compare(ha.Version, a.Version) >= 0 {
			s.close("Excluded")
			revise(s)
			return
		}
	}
	s.state(a, true, "GroupExcluded", "the specification no longer makes this group: it closes when another group runs the same or a higher version")
}

// heirOf is the slug of the group that is to take an excluded one over: the one that is
// offered the active version, else the lowest version above it; "": any.
func (b *book) heirOf(g *Group) string {
	slug, a := "", g.ActiveRow()
	for _, c := range b.offers { // highest version first
		if a != nil && c.Level != preview && c.Slug != g.Slug && !b.withdrawnGroup(c.Slug) && !b.ended(c.Slug, c.Name, c.PullRequest) && compare(c.Version, a.Version) >= 0 {
			slug = c.Slug
		}
	}
	return slug
}

// noteAvailability records which serving releases have all their replicas.
func noteAvailability(s *scope) {
	for i := range s.g.Releases {
		r := &s.g.Releases[i]
		c, _ := s.child(r.Release)
		switch {
		case r.Status != Active && r.Status != Canary:
			r.Available = false
		case !c.Unsettled:
			r.Available = s.available(*r, c)
		}
	}
}

// load is what routes have to carry: weights, matches, copies, who is active, and
// whether the group is there at all.
type load struct {
	phase Phase
	lanes []lane
}

// asked is what routes had to carry, from which revision on, and which releases were
// to be in none.
type asked struct {
	load
	revision int64
	since    time.Time
	zero     map[string]*Zero
}

func askedOf(g *Group) asked {
	a := asked{load: traffic(g), revision: g.TrafficRevision, since: g.TrafficTime, zero: map[string]*Zero{}}
	for _, r := range g.Releases {
		a.zero[r.Release] = r.Zero
	}
	return a
}

// lane is what routes have to carry for one release.
type lane struct {
	release        string
	weight, mirror int
	match          bool
	status         Status
}

func traffic(g *Group) load {
	l := load{phase: g.Phase}
	for _, r := range g.Releases {
		if r.Weight > 0 || r.Status == Active || r.Status == Canary {
			l.lanes = append(l.lanes, lane{r.Release, r.Weight, r.Mirror, r.Match, r.Status})
		}
	}
	return l
}

func (l load) has(release string) bool {
	return slices.ContainsFunc(l.lanes, func(x lane) bool { return x.release == release })
}

func (l load) equal(m load) bool {
	return l.phase == m.phase && len(l.lanes) == len(m.lanes) &&
		!slices.ContainsFunc(l.lanes, func(x lane) bool { return !slices.Contains(m.lanes, x) })
}

// revise raises the traffic revision when what routes have to carry changed, and
// marks the releases that this takes out of them (rules 1 and 11). A revision is the
// sequence of the ledger write that makes it: no two are alike, also where a group
// ends and begins anew.
func revise(s *scope) {
	if len(s.g.Releases) == 0 && s.g.TrafficRevision == 0 {
		return
	}
	before := s.before[s.g.Slug]
	if before.equal(traffic(s.g)) {
		s.g.TrafficRevision, s.g.TrafficTime = before.revision, before.since
	} else {
		s.g.TrafficRevision, s.g.TrafficTime = s.next, s.now
	}
	if s.stepped && s.g.Run != nil {
		s.g.Run.StepRevision = s.g.TrafficRevision
	}
	for i := range s.g.Releases {
		r := &s.g.Releases[i]
		serving := r.Weight > 0 || r.Status == Active || r.Status == Canary
		if r.Zero == nil {
			r.Zero = before.zero[r.Release]
		}
		switch {
		case serving:
			r.Zero = nil
		case before.has(r.Release), r.Zero == nil && s.referenced(r.Release):
			r.Zero = &Zero{Revision: s.g.TrafficRevision, Time: s.now}
		}
	}
}
