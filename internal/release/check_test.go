package release

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"time"
)

// transitions are the status changes that a row may undergo (rule 40). In addition, all rows become deprecated when their
// group ends (rule 14). A deprecated row becomes error if a rollback to it fails (rule 27).
var transitions = map[Status][]Status{
	Pending:    {Canary, Active, Error, Deprecated},
	Canary:     {Pending, Active, Error, Deprecated},
	Active:     {Deprecated},
	Deprecated: {Active, Pending, Error},
	Error:      {Pending},
}

// check checks the invariants that must hold at all times.
func (w *world) check() {
	w.stats.steps++
	all := 0
	for i := range w.rolloutState.Groups {
		w.checkGroup(&w.rolloutState.Groups[i])
		all += len(w.rolloutState.Groups[i].Releases)
	}
	if n := len(w.rolloutState.Groups); n > 256 || all > 512 { // the limits of the schema
		w.fail("the status contains %d groups and %d rows", n, all)
	}
	w.checkStarting()
	// Invariant 4: the planner does not remove pods of a release to which a route refers, except in an
	// exclusive group.
	for _, n := range w.nets {
		for slug, c := range n.objects() {
			for _, routes := range []map[string]int{c.written, c.accepted} {
				total := 0
				for r, weight := range routes {
					total += weight
					if w.taken[r] && !w.spec.Exclusive && (w.objects[r] == nil || w.objects[r].ready == 0) {
						w.fail("invariant 4: policy %s sends %d%% of group %s to %s, whose pods the planner removed", n.name, weight, slug, r)
					}
				}
			}
		}
	}
}

// checkGroup checks one group against invariants 1 and 2.
func (w *world) checkGroup(g *Group) {
	if n := len(g.Releases); n > 32 { // the limit of the schema
		w.fail("group %s has %d rows", g.Slug, n)
	}
	active, canaries, sum := 0, 0, 0
	for _, r := range g.Releases {
		w.listed[r.Release] = true
		switch r.Status {
		case Active:
			active++
		case Canary:
			canaries++
		default:
			if r.Weight != 0 {
				w.fail("invariant 2: %s of group %s is %s with weight %d", r.Release, g.Slug, r.Status, r.Weight)
			}
		}
		if r.Status != Active && r.Status != Pending && r.Weight != 0 && g.Level == preview {
			w.fail("rule 25: %s of preview %s is %s", r.Release, g.Slug, r.Status)
		}
		if r.Weight < 0 || r.Weight > 100 {
			w.fail("invariant 2: %s of group %s has weight %d", r.Release, g.Slug, r.Weight)
		}
		if r.Status != Canary && (r.Match || r.Mirror > 0) {
			w.fail("invariant 2: %s of group %s is %s and gets matches or copies", r.Release, g.Slug, r.Status)
		}
		if r.Weight > 0 && r.Zero != nil {
			w.fail("%s of group %s has weight %d, although it must be in no route", r.Release, g.Slug, r.Weight)
		}
		sum += r.Weight
	}
	if active > 1 || canaries > 1 {
		w.fail("invariant 1: group %s has %d active and %d canary releases", g.Slug, active, canaries)
	}
	if g.Phase != Live && (active > 0 || sum > 0 || g.Rollout != nil) {
		w.fail("group %s is %s with an active release, weight or rollout", g.Slug, g.Phase)
	}
	if g.Phase == Live && active > 0 && sum != 100 || active == 0 && canaries == 0 && sum != 0 {
		w.fail("invariant 2: weights of group %s add up to %d", g.Slug, sum)
	}
	if g.Phase != Live {
		delete(w.begun, g.Slug)
	}
	if active > 0 {
		w.begun[g.Slug] = true
	} else if g.Phase == Live && w.begun[g.Slug] && !w.lost[g.Slug] && len(g.Releases) > 0 {
		w.fail("invariant 1: group %s no longer has an active release", g.Slug)
	}
	if g.Rollout != nil && g.Row(g.Rollout.Release) == nil {
		w.fail("group %s rolls out %s, which has no row", g.Slug, g.Rollout.Release)
	}
}

// checkPlan checks a plan against invariant 6, and against invariant 9, which limits the effects of a failing
// source.
func (w *world) checkPlan(o Observed, p Result) {
	if !w.sparse || w.stats.plans%2 == 0 {
		if q := planWith(shuffled(o), w.now, w.rules); !reflect.DeepEqual(p, q) {
			w.fail("invariant 6: another order of the facts gives another plan:\n%s\n%s", render(p), render(q))
		}
	}
	if p.Changed { // Otherwise, the facts are the same.
		w.checkSecond(o, p)
	}
	if p.Changed && p.State.Sequence <= o.State.Sequence {
		w.fail("the sequence does not increase")
	}
	if !p.RequeueTime.IsZero() && !p.RequeueTime.After(w.now) {
		w.fail("requeue at %s, which is in the past", p.RequeueTime)
	}
	for _, e := range p.Ensure {
		if e.Replicas < 0 {
			w.fail("ensure %s with %d replicas", e.Release, e.Replicas)
		}
	}
	if !w.sparse || w.stats.plans%2 == 1 {
		w.checkEmpty(o)
	}
}

// checkSecond plans again for the same facts with the rollout state from the plan, and then also with the
// stamps from the plan. These plans must change nothing.
func (w *world) checkSecond(o Observed, p Result) {
	again := o
	again.State = p.State
	if q := planWith(again, w.now, w.rules); q.Changed {
		w.fail("invariant 6: the second plan differs:\n%s\n%s", render(p), render(q))
	}
	if !slices.ContainsFunc(p.Ensure, func(e Ensure) bool { return e.Stamp > 0 && !e.Create }) {
		return
	}
	again.Objects = slices.Clone(o.Objects)
	for i := range again.Objects {
		for _, e := range p.Ensure {
			if e.Release == again.Objects[i].Release && e.Stamp > 0 {
				again.Objects[i].Stamp = e.Stamp
			}
		}
	}
	if q := planWith(again, w.now, w.rules); q.Changed {
		w.fail("invariant 6: the plan after the stamps differs:\n%s\n%s", render(p), render(q))
	}
}

// checkEmpty plans again without candidates. No group may close, and no active
// or retained release may be deleted (invariant 9).
func (w *world) checkEmpty(o Observed) {
	o.Candidates, o.Withdrawn, o.Spec.Ended = nil, nil, nil // A user sets Ended.
	p := planWith(o, w.now, w.rules)
	for i := range o.State.Groups {
		g := &o.State.Groups[i]
		a := g.ActiveRow()
		if a == nil || !hasObject(o, a.Release) {
			continue
		}
		h := p.State.group(g.Slug)
		if h != nil && h.Phase == Expired && h.Target.Reason == NoSlot && placed(o.State) > max(1, o.Spec.Previews.MaxGroups) {
			continue // The user removed its slot.
		}
		if h == nil || h.Phase != Live || h.Row(a.Release) == nil || h.ActiveRow() == nil {
			w.fail("invariant 9: without a source, group %s loses %s", g.Slug, a.Release)
			continue
		}
		if row := h.Row(a.Release); row.Status != Active && h.Target.Reason != "Pinned" && (g.Rollout == nil || h.ActiveRow().Release != g.Rollout.Release) {
			w.fail("invariant 9: without a source, %s is %s", a.Release, row.Status)
		}
	}
}

func hasObject(o Observed, release string) bool {
	return slices.ContainsFunc(o.Objects, func(c Object) bool { return c.Release == release && !c.Terminating })
}

func objectOf(o Observed, release string) Object {
	for _, c := range o.Objects {
		if c.Release == release {
			return c
		}
	}
	return Object{}
}

// forgot reports whether the group's Failed mark covers a version.
func (g *Group) forgot(version, config string) bool {
	return g.Failed.Version != "" && g.Failed.Config == config && compare(version, g.Failed.Version) <= 0
}

func (l *State) group(slug string) *Group {
	for i := range l.Groups {
		if l.Groups[i].Slug == slug {
			return &l.Groups[i]
		}
	}
	return nil
}

// shuffled returns the same facts in another order.
func shuffled(o Observed) Observed {
	o.Candidates, o.Withdrawn, o.Objects = slices.Clone(o.Candidates), slices.Clone(o.Withdrawn), slices.Clone(o.Objects)
	slices.Reverse(o.Candidates)
	slices.Reverse(o.Withdrawn)
	slices.Reverse(o.Objects)
	o.Policies = slices.Clone(o.Policies)
	for i := range o.Policies {
		gs := slices.Clone(o.Policies[i].Groups)
		for j := range gs {
			gs[j].References, gs[j].Withheld, gs[j].Pinned = reversed(gs[j].References), reversed(gs[j].Withheld), reversed(gs[j].Pinned)
		}
		slices.Reverse(gs)
		o.Policies[i].Groups = gs
	}
	slices.Reverse(o.Policies)
	o.Peers = slices.Clone(o.Peers)
	slices.Reverse(o.Peers)
	o.State.Groups = slices.Clone(o.State.Groups)
	for i := range o.State.Groups {
		rows := slices.Clone(o.State.Groups[i].Releases)
		slices.Reverse(rows)
		o.State.Groups[i].Releases = rows
	}
	slices.Reverse(o.State.Groups)
	return o
}

func reversed(s []string) []string {
	s = slices.Clone(s)
	slices.Reverse(s)
	return s
}

// checkRolloutState checks one write of the rollout state against the invariants for
// changes.
func (w *world) checkRolloutState(o Observed, old, next State) {
	if next.Sequence <= old.Sequence {
		w.fail("the sequence goes from %d to %d", old.Sequence, next.Sequence)
	}
	w.checkSlots(o, old, next)
	for i := range next.Groups {
		h := &next.Groups[i]
		g := old.group(h.Slug)
		if g == nil {
			g = &Group{Slug: h.Slug, Phase: Live}
		}
		w.checkChange(o, g, h, min(32, 512/max(1, len(next.Groups))))
	}
	for i := range old.Groups {
		g := &old.Groups[i]
		began := slices.ContainsFunc(g.Releases, func(r Row) bool { return r.Promoted > 0 || hasObject(o, r.Release) })
		if next.group(g.Slug) == nil && began && g.Phase == Live && !w.lost[g.Slug] {
			w.fail("invariant 9: group %s is gone without being closed", g.Slug)
		}
		if next.group(g.Slug) == nil {
			delete(w.begun, g.Slug)
		}
	}
}

// checkChange checks the change to one group against the invariants. The group may have at most
// quota rows.
func (w *world) checkChange(o Observed, g, h *Group, quota int) {
	for i := range h.Releases {
		r := &h.Releases[i]
		was := g.Row(r.Release)
		if was == nil {
			if g.forgot(r.Version, r.Config) && r.Status == Pending && h.Target.Reason != "Pinned" {
				w.fail("rule 3: %s, which may have failed before, starts automatically", r.Release)
			}
			if r.Status != Pending && !hasObject(o, r.Release) || r.Reason == leftover && r.Status != Deprecated {
				w.fail("rule 40: %s begins as %s", r.Release, r.Status)
			}
			w.checkDecision(Row{}, *r)
			continue
		}
		w.checkRow(o, g, h, *was, *r)
	}
	for _, r := range g.Releases {
		if h.Row(r.Release) == nil {
			w.checkGone(o, g, h, r)
		}
	}
	// Rule 1: a change to the required content of the routes, and no other change, increases the
	// revision.
	changed := !traffic(g).equal(traffic(h)) && (h.TrafficRevision > 0 || len(h.Releases) > 0)
	if changed && h.TrafficRevision <= g.TrafficRevision {
		w.fail("rule 1: traffic of group %s changed at revision %d", g.Slug, g.TrafficRevision)
	}
	if !changed && h.TrafficRevision != g.TrafficRevision && len(g.Releases) > 0 {
		w.fail("group %s: revision %d for the same traffic", g.Slug, h.TrafficRevision)
	}
	// Invariant 5: retained releases.
	if h.Phase == Live && g.Phase == Live {
		before, after, vanished := 0, 0, 0
		for _, r := range g.Releases {
			if r.Promoted > 0 {
				before++
				if !hasObject(o, r.Release) {
					vanished++
				}
			}
		}
		for _, r := range h.Releases {
			if r.Promoted > 0 {
				after++
			}
		}
		minimum := max(1, min(o.Spec.MinimumAvailable, quota-2)) // Two rows remain for a release in progress and for a release that drains.
		if h.Level == preview {
			minimum = 1
		}
		if after < min(minimum, before)-vanished {
			w.fail("invariant 5: group %s keeps %d of %d releases", g.Slug, after, before)
		}
	}
	// Rule 32: there is only one traffic change at a time, except for changes that reduce weights.
	w.checkMove(o, g, h)
	w.checkCapacity(o, g, h)
	w.checkJudged(o, g, h)
	w.checkApproved(o, g, h)
	w.checkOlder(o, g, h)
	w.checkDenied(o, g, h)
	w.checkFrozen(o, g, h)
	w.checkReturn(o, g, h)
	w.checkJobs(o, g, h)
}

// checkJudged checks the progress of a canary against the hook answers, measurement results, and windows that the plan read.
func (w *world) checkJudged(o Observed, g, h *Group) {
	run, a := g.Rollout, g.ActiveRow()
	if run == nil || a == nil || a.Release == run.Release || g.Level == preview || !hasObject(o, a.Release) || h.Phase != Live {
		return
	}
	was, r, c := g.Row(run.Release), h.Row(run.Release), objectOf(o, run.Release)
	if was == nil || r == nil || was.Promoted > 0 {
		return
	}
	on := h.Rollout != nil && h.Rollout.Sequence == run.Sequence
	if v := c.Analysis; v != nil && v.Rollout == run.Sequence && v.Phase == VerdictFailed && (on || r.Status == Active) {
		w.fail("analysis: %s failed its measurements, and is %s", r.Release, r.Status)
	}
	if c.Rollback != nil && c.Rollback.Rollout == run.Sequence && (on || r.Status == Active) {
		w.fail("hooks: a rollback of %s was requested, but its status is %s", r.Release, r.Status)
	}
	steps, end := o.Spec.Steps, run.Step
	switch {
	case on && h.Rollout.StepsHash == run.StepsHash:
		end = h.Rollout.Step
	case !on && r.Status == Active && r.Reason == "Promoted" && run.StepsHash == stepsHash(steps):
		end = len(steps) + 1
	}
	open := func(p Point) bool {
		return run.Gate == p && slices.ContainsFunc(c.Gates, func(f GateFact) bool {
			return f.Rollout == run.Sequence && f.Point == p && f.Open && f.Since.Equal(run.GateTime)
		})
	}
	word := r.Decision != nil && r.Decision.Action == Continue && r.Decision.Outcome == DecisionApplied && (was.Decision == nil || was.Decision.ID != r.Decision.ID)
	for k := run.Step; k < end; k++ { // the steps that remain
		v := c.Analysis
		passed := k == run.Step && (word || run.Continued == k || v != nil && v.Rollout == run.Sequence && v.Step == k && v.Phase == VerdictPassed && v.Since.Equal(run.WaitingSince))
		if o.Spec.Analysis && k >= 1 && steps[k-1].traffic() && !passed {
			w.fail("analysis: %s leaves step %d, which it has not passed", r.Release, k)
		}
		asked := PreRollout
		switch {
		case k >= len(steps):
			if slices.Contains(o.Spec.Gates, ConfirmPromotion) && !open(ConfirmPromotion) {
				w.fail("hooks: %s becomes active without ConfirmPromotion", r.Release)
			}
		case steps[k].Confirm && steps[k].more(*was):
			if asked = ConfirmTrafficIncrease; !open(asked) {
				w.fail("hooks: %s begins step %d without ConfirmTrafficIncrease", r.Release, k+1)
			}
		}
		if asked == PreRollout && k == 0 && len(steps) > 0 && was.Status == Pending && slices.Contains(o.Spec.Gates, PreRollout) && !open(PreRollout) {
			w.fail("hooks: %s begins without PreRollout", r.Release)
		}
		if len(steps) > 0 {
			if x := steps[min(k, len(steps)-1)].Window; x != nil && !x.Open && !(k == 0 && activeStoppedIn(o, g)) {
				w.fail("window: %s leaves step %d while the window of that step is closed", r.Release, k)
			}
		}
	}
}

// checkApproved checks the progress of a canary against users' decisions. The canary may leave a step only after the
// required number of users who may approve the step have recorded the decision Continue in this rollout.
func (w *world) checkApproved(o Observed, g, h *Group) {
	run, r := g.Rollout, releaseOf(g, h)
	if run == nil || r == nil || g.Level == preview || run.Step == 0 || run.StepsHash != stepsHash(o.Spec.Steps) || run.Continued == run.Step {
		return
	}
	leaves := h.Rollout != nil && h.Rollout.Sequence == run.Sequence && (h.Rollout.Step > run.Step || h.Rollout.Continued == run.Step)
	adopted := r.Reason == Adopted || r.Adopted && !g.Row(r.Release).Adopted
	if h.Rollout == nil && r.Status == Active && r.Reason == Promoted {
		leaves = true
	}
	for i, st := range o.Spec.Steps[min(run.Step, len(o.Spec.Steps))-1:] {
		if !st.Approval || i > 0 && !adopted || !leaves && !adopted || adopted && g.Row(r.Release).Adopted {
			continue
		}
		by := map[string]bool{}
		for _, a := range w.approved {
			if named := a.Step == strconv.Itoa(run.Step+i) || a.Step == st.Name; a.release == run.Release && a.sequence == run.Sequence && named && may(st, a.Decision) {
				by[a.By] = true
			}
		}
		if d := objectOf(o, r.Release).Decision; adopted && d != nil && may(st, *d) {
			by[d.By] = true
		}
		if need := max(1, st.Approvers); len(by) < need {
			w.fail("approval: %s leaves step %d after approvals of %d users, want %d", r.Release, run.Step+i, len(by), need)
		}
	}
}

// releaseOf returns the row in group h of the release that is in progress in group g. The two groups are
// states of the same group.
func releaseOf(g, h *Group) *Row {
	if g.Rollout == nil {
		return nil
	}
	return h.Row(g.Rollout.Release)
}

// may reports whether a user may approve a step.
func may(st Step, d Decision) bool {
	return len(st.ApproversFrom) == 0 || slices.ContainsFunc(d.Groups, func(g string) bool { return slices.Contains(st.ApproversFrom, g) })
}

// checkRollout checks the creation or scale-up of an object against the ConfirmRollout gate. While hooks are being called for
// a release, it has no pods.
func (w *world) checkRollout(o Observed, e *Ensure, live *object) {
	if !slices.Contains(o.Spec.Gates, ConfirmRollout) || e.Replicas == 0 || live != nil && live.Replicas > 0 {
		return
	}
	g := o.State.group(e.Slug)
	if g == nil || g.Level == preview || g.Phase != Live || g.ActiveRow() == nil || g.ActiveRow().Release == e.Release || !hasObject(o, g.ActiveRow().Release) {
		return
	}
	r, c := g.Row(e.Release), objectOf(o, e.Release)
	if r != nil && (r.Promoted > 0 || r.Adopted) || c.Decision != nil && c.Decision.Action == Adopt {
		return
	}
	if run := g.Rollout; run != nil && run.Release == e.Release && (run.Gate != ConfirmRollout || slices.ContainsFunc(c.Gates, func(f GateFact) bool {
		return f.Rollout == run.Sequence && f.Point == ConfirmRollout && f.Open && f.Since.Equal(run.GateTime)
	})) {
		return
	}
	w.fail("hooks: %s gets %d pods before ConfirmRollout", e.Release, e.Replicas)
}

func (w *world) checkRow(o Observed, g, h *Group, was, r Row) {
	if was.Status != r.Status && hasObject(o, r.Release) { // Otherwise, the name belongs to a different object.
		allowed := slices.Contains(transitions[was.Status], r.Status) || h.Phase != Live && r.Status == Deprecated
		if was.Status == Error || was.Status == Deprecated && was.Promoted == 0 {
			// The pods of the release still exist. The release was started again and completed a step in one plan.
			allowed = allowed || slices.Contains(transitions[Pending], r.Status)
		}
		if !allowed {
			w.fail("rule 40: %s goes from %s to %s", r.Release, was.Status, r.Status)
		}
		if r.Status == Pending && r.Promoted > 0 && was.Status == Deprecated {
			w.fail("rule 40: %s was active and starts as pending\n%s%s", r.Release, renderGroup(g), renderGroup(h))
		}
		if was.Status == Deprecated && r.Status == Error && was.Promoted == 0 {
			w.fail("rule 40: %s was never active and goes from deprecated to error", r.Release)
		}
		if was.Status == Active && h.Phase == Live && h.ActiveRow() == nil {
			w.fail("invariant 1: %s is no longer active, and no other release is", r.Release)
		}
		if r.Status == Active {
			w.stats.promotions++
		}
		if r.Status == Error {
			w.stats.failures++
			w.checkTime(o, r)
			// Invariant 8: an error affects only the release that it relates to.
			if g.Rollout == nil || g.Rollout.Release != r.Release {
				if r.Reason != "Aborted" {
					w.fail("invariant 8: %s fails (%s) while %v runs", r.Release, r.Reason, g.Rollout)
				}
			}
		}
	}
	if r.Promoted < was.Promoted && hasObject(o, r.Release) && r.Status != Pending && g.End.Release == "" { // Otherwise, the release was removed and started again.
		w.fail("promotion number of %s was %d, now %d", r.Release, was.Promoted, r.Promoted)
	}
	if was.Decision != nil && r.Decision == nil && hasObject(o, r.Release) {
		w.fail("the decision on %s was dropped", r.Release)
	}
	w.checkDecision(was, r)
}

// checkDecision checks that a decision is applied only once (rule 21). A row that is created again may contain the record of its decision.
func (w *world) checkDecision(was, r Row) {
	d := r.Decision
	if d == nil || was.Decision != nil && was.Decision.ID == d.ID {
		return
	}
	key := r.Release + "/" + d.ID
	if at, handed := w.handed[key]; handed && d.Outcome == DecisionApplied && !d.Time.Equal(at) {
		w.fail("rule 21: decision %s on %s is applied again", d.ID, r.Release)
	}
	w.handed[key] = d.Time
}

// checkTime checks that a release that is too slow does not fail before its deadline. The deadline is measured from the
// request for the pods, and is reduced by a tolerance for the creation of the object.
func (w *world) checkTime(o Observed, r Row) {
	x := w.objects[r.Release]
	if r.Reason != "ProgressDeadlineExceeded" || x == nil || x.asked.IsZero() {
		return
	}
	if had := w.now.Sub(x.asked); had < o.Spec.Deadline-10*time.Second {
		w.fail("deadline: %s fails (%s) %s after it requested pods", r.Release, r.Reason, had)
	}
}

// checkGone checks why a row was dropped.
func (w *world) checkGone(o Observed, g, h *Group, r Row) {
	if !hasObject(o, r.Release) {
		return
	}
	switch {
	case r.Status == Error:
		c := objectOf(o, r.Release)
		ended := g.End.Release != "" // Its hooks have responded, and it starts from the beginning.
		if h.Phase != Live || ended || c.Decision != nil && c.Decision.Action == Retry {
			return // The group ended, or a user retried the release and it was superseded immediately.
		}
		_, offered := slices.BinarySearchFunc(sortedOffers(o), r.Release, func(c Candidate, s string) int { return cmp.Compare(c.Release, s) })
		a := h.ActiveRow()
		withdrawn := slices.ContainsFunc(o.Withdrawn, func(x Withdrawal) bool { return x.Slug == g.Slug && x.Version == r.Version })
		if offered && !withdrawn && r.Config == o.Config && !h.forgot(r.Version, r.Config) && (a == nil || compare(r.Version, a.Version) > 0) {
			w.fail("rule 3: the failure of %s is forgotten, and the release could be chosen again\n%s%s", r.Release, renderGroup(g), renderGroup(h))
		}
	case r.Status == Pending: // It was superseded, and it is removed immediately because it never had traffic.
	case r.Status != Deprecated:
		w.fail("rule 40: %s was dropped with the status %s", r.Release, r.Status)
	}
}

func sortedOffers(o Observed) []Candidate {
	cs := slices.Clone(o.Candidates)
	slices.SortFunc(cs, func(x, y Candidate) int { return cmp.Compare(x.Release, y.Release) })
	return cs
}

// checkCapacity checks an increase in weight against rule 6: the pods must exist first.
func (w *world) checkCapacity(o Observed, g, h *Group) {
	a := g.ActiveRow()
	for i := range o.State.Groups { // If there are newest domains, they move from the newest group that serves and does not end in the same write.
		if x := &o.State.Groups[i]; a == nil && mayMove(o) && g.Rollout != nil && g.Rollout.Step > 0 && g.Level != preview && x.Level != preview && x.Phase == Live {
			if y := w.next.group(x.Slug); y != nil && y.ActiveRow() != nil {
				a = x.ActiveRow()
			}
		}
	}
	for _, r := range h.Releases {
		was := Row{}
		if x := g.Row(r.Release); x != nil {
			was = *x
		}
		if r.Weight <= was.Weight || r.Status == Active && was.Status == Active || a == nil {
			continue
		}
		c, ac := objectOf(o, r.Release), objectOf(o, a.Release)
		need := 1
		if r.Status == Canary && g.Rollout != nil {
			need = max(1, (r.Weight*max(g.Rollout.Floor, ac.Current)+99)/100)
			if splitsByPods(o, g) {
				need = PodShare(r.Weight, max(1, o.Spec.Replicas))
			}
		}
		alive := ac.Available > 0 && !ac.Terminating && !ac.Unsettled
		if r.Status == Active && alive && r.Reason != "ActiveLost" && !withheldIn(o, a.Release) {
			need = max(1, o.Spec.Replicas)
			if !splitsByPods(o, g) {
				need = max(need, ac.Current)
			}
		}
		if r.Reason != "ActiveLost" && (c.Available < need || c.Unsettled || c.Terminating) {
			w.fail("rule 6: %s gets %d%% with %d of %d replicas", r.Release, r.Weight, c.Available, need)
		}
	}
}

// mayMove reports whether newest domains may move. They may move if a policy reports them, or if no policy reports any group.
func mayMove(o Observed) bool {
	silent := true
	for _, p := range o.Policies {
		for _, r := range p.Groups {
			if silent = false; r.Newest {
				return true
			}
		}
	}
	return silent
}

func withheldIn(o Observed, release string) bool {
	for _, p := range o.Policies {
		for _, g := range p.Groups {
			if slices.Contains(g.Withheld, release) && g.Revision > 0 {
				return true
			}
		}
	}
	return false
}

// checkRetire checks the deletion or scale-down of an object against invariant 4, with the rollout state and the routes at
// the time of the action.
func (w *world) checkRetire(seen Observed, o *object, r Retire) {
	asked := max(1, min(w.spec.Replicas, seen.Spec.Replicas))
	what := fmt.Sprintf("%s to %d", o.Release, r.Replicas)
	if r.Delete {
		what = "deletion of " + o.Release
		if o.ActiveJobs {
			w.fail("rule 49: %s, although Jobs of its hooks have not ended", what)
		}
	}
	unavailable := slices.ContainsFunc(seen.Objects, func(c Object) bool {
		return c.Release == o.Release && (c.Available == 0 || withheldIn(seen, c.Release))
	})
	if g := w.rolloutState.group(o.Slug); g != nil && g.Phase == Live {
		if row := g.Row(o.Release); row != nil {
			run := g.Rollout != nil && g.Rollout.Release == o.Release
			serves := row.Status == Active || row.Status == Canary || row.Status == Pending || run
			// A release that is not responding frees capacity for the release with the fix, but keeps a pod.
			dead := row.Status == Active && !r.Delete && r.Replicas > 0 && unavailable
			if serves && !dead && !w.keepsShare(seen, g, row, r) && (r.Delete || r.Replicas < asked) {
				w.fail("rule 2: %s while it is %s", what, row.Status)
			}
			if serves {
				return // The user requests fewer replicas.
			}
			if r.Delete {
				w.fail("order: %s, which has a row (%s)", what, row.Status)
			}
		}
	}
	if g := seen.State.group(o.Slug); g != nil && !r.Delete && r.Replicas > 0 {
		row := g.Row(o.Release)
		active := row != nil && row.Status == Active
		// The release was serving, was promoted by that plan, or was active without an available pod while
		// another release had the fix.
		if row != nil && (r.Replicas >= seen.Spec.Replicas && (active || g.Rollout != nil && g.Rollout.Release == o.Release) || active && unavailable) {
			return // The user requested fewer replicas, and the release has since been closed or replaced.
		}
	}
	if w.spec.Exclusive {
		return // The pods of an exclusive group do not wait for routes.
	}
	full, pinned := r.Replicas >= asked && !r.Delete, false
	for _, n := range w.nets {
		for _, c := range n.objects() {
			pinned = pinned || slices.Contains(c.pinned, o.Release)
		}
	}
	for _, n := range w.nets {
		for slug, c := range n.objects() {
			if slices.Contains(c.names(), o.Release) && !slices.Contains(c.pinned, o.Release) && !(full && pinned) { // The user requests fewer replicas.
				w.fail("invariant 4: %s, which policy %s names in group %s", what, n.name, slug)
			}
		}
	}
	for _, p := range seen.Policies {
		for _, g := range p.Groups {
			if !full && slices.Contains(g.References, o.Release) {
				w.fail("invariant 4: %s, although policy %s reported that it names the release", what, p.Name)
			}
		}
	}
	// A release to which only a domain refers may have as few replicas as the user requests. A release that was deleted manually
	// and created again has no requests to finish until its pods are ready.
	if at, ok := w.named[o.Release]; ok && o.was && !(full && pinned) && w.now.Sub(at) < w.minDrain() {
		w.fail("invariant 4: %s, %s after the last route", what, w.now.Sub(at))
	}
}

// checkMinimum checks that the minimum of the autoscaler of an active release does not decrease while the autoscaler has measured only the
// previous traffic. The plan may be older than the rollout state, and the clock may have been set back since the plan.
func (w *world) checkMinimum(x write) {
	g := w.rolloutState.group(x.object.Slug)
	if g == nil || g.Phase != Live || g.Rollout != nil || x.sequence != w.rolloutState.Sequence || !x.seen.Spec.Autoscaled || x.seen.Spec.Exclusive {
		return
	}
	a := g.ActiveRow()
	if a == nil || a.Release != x.object.Release || x.retire.Replicas >= x.object.Replicas {
		return
	}
	newest := slices.ContainsFunc(x.seen.Policies, func(p Policy) bool {
		return slices.ContainsFunc(p.Groups, func(r Report) bool { return r.Slug == g.Slug && r.Newest })
	})
	for i := range w.rolloutState.Groups {
		from := &w.rolloutState.Groups[i]
		since := x.planned.Sub(from.TrafficTime)
		if (from == g || newest && byNewest(from, g) < 0) && since >= 0 && since < measured {
			w.fail("capacity: the minimum of %s is %d instead of %d %s after the traffic of group %s changed", a.Release, x.retire.Replicas, x.object.Replicas, since, from.Name)
		}
		if run := from.Rollout; run != nil && run.From == g.Slug && x.retire.Replicas < run.Floor && !splitsByPods(*x.seen, g) {
			w.fail("capacity: the minimum of %s is %d, although the newest domains move to group %s and may return", a.Release, x.retire.Replicas, from.Name)
		}
	}
}

// splitsByPods reports whether users expect the shares of pods to follow the weights, because they requested this or because nothing routes to the group.
func splitsByPods(o Observed, g *Group) bool {
	routed := len(o.Policies) > 0 || slices.ContainsFunc(g.Releases, func(r Row) bool { return r.Routed })
	return o.Spec.Exclusive || o.Spec.SplitBy == SplitByPods || o.Spec.SplitBy == SplitByDefault && !routed
}

// keepsShare reports whether a release that shares the pods of a group with another release keeps its share, and whether both
// releases together have as many pods as users request.
func (w *world) keepsShare(seen Observed, g *Group, row *Row, r Retire) bool {
	if seen.Spec.Exclusive || w.spec.Exclusive {
		// The release that is being rolled out has all pods as soon as it may have pods, unless its Deployment is rejected.
		runs := g.Rollout != nil && g.Rollout.Gate != ConfirmRollout
		refused := slices.ContainsFunc(seen.Objects, func(c Object) bool { return c.Release == row.Release && c.Available == 0 && rejected[c.Failure] })
		// It also does not have all pods while it is waiting for the first pod of the active release.
		a := g.ActiveRow()
		waits := a != nil && objectOf(seen, a.Release).Failure == otherRunning && objectOf(seen, a.Release).Available == 0
		return !r.Delete && (runs && (row.Release != g.Rollout.Release || refused || waits) || !runs && row.Status != Active)
	}
	if r.Delete || g.Rollout == nil || !splitsByPods(seen, g) {
		return false
	}
	asked := max(1, min(w.spec.Replicas, seen.Spec.Replicas))
	if row.Status == Canary || row.Status == Pending {
		return r.Replicas >= PodShare(row.Weight, asked)
	}
	canary := g.Row(g.Rollout.Release)
	return row.Status == Active && canary.Weight > 0 && r.Replicas >= max(1, asked-PodShare(canary.Weight, asked)) &&
		r.Replicas+objectOf(seen, canary.Release).Available >= asked
}

func (w *world) minDrain() time.Duration { return 5 * time.Second }
