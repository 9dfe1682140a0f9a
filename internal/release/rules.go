package release

import (
	"fmt"
	"slices"
)

// rule is one named decision about one group. Rules apply in order; each reads
// the facts and what the rules before it made of the group.
type rule struct {
	name  string
	apply func(*scope)
}

// rules of a group, in the order in which they apply; next to each the statuses that it
// changes. A test takes each of them out and expects a history to fail.
var rules = []rule{
	// What is there.
	{"Rebuild", rebuild},             // none to active, deprecated or pending: the record was lost
	{"Take in leftovers", leftovers}, // none to deprecated: a route names it
	{"Note routes", noteRoutes},
	{"Vanished active", vanishedActive}, // deprecated or canary to active, active to none: its object is gone
	{"Vanished others", vanishedOthers}, // any to none: its object is gone

	// What is wanted.
	{"Decide", decide},    // pending or canary to error (Deprecate), error to pending (Retry)
	{"Close", closeGroup}, // any to deprecated: the group ends
	{"Aim", aim},
	{"Finish first", finishFirst},
	{"Supersede", supersede}, // pending or canary to deprecated: another one is the target
	{"Start", start},         // none, deprecated or error to pending: it is the target

	// How it gets there.
	{"Open the gate", openGate},
	{"Keep the clock", keepClock},
	{"Fail", fail}, // pending or canary to error, or back to pending for a cause outside of it
	{"Edited steps", editedSteps},
	{"First release", promoteFirst}, // pending to active: nothing else is active
	{"Roll back", promoteKept},      // deprecated to active: it was active before
	{"Adopt", promoteAdopted},       // pending or canary to active: a person skips the steps
	{"Step", step},                  // pending to canary, canary to active: the step is passed

	// What follows for traffic.
	{"Settle", settle},
	{"Note availability", noteAvailability},
	{"Revise", revise},

	// What goes.
	{"Forget errors", forgetErrors}, // error to none: it cannot be chosen again
	{"Let go", letGo},               // deprecated to none: it is drained, and not kept
	{"Within limits", withinLimits}, // error to none: the group is full
}

// rebuild makes rows for a group that has children but no record (rule 31), because
// the rollout state was lost or not written yet: their stamps are ahead of it, or a route
// names them. Children that a rollout state let go, and that a late write made again, stay
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
		if c.Slug == s.g.Slug && !c.Terminating && !s.isTouched(c.Release) && (c.Stamp > s.o.State.Sequence || s.referenced(c.Release)) {
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
		func(c Child) bool { return c.Replicas > 0 && c.Stamp > s.o.State.Sequence+1 },
	} {
		if active < 0 {
			active = slices.IndexFunc(cs, func(c Child) bool { return !c.NeverActive && c.Reported != Error && sign(c) })
		}
	}
	if len(cs) > 0 {
		s.g.TrafficRevision, s.g.TrafficTime = s.next, s.now
	}
	if s.arrives() { // What has a part of the newest domains begins its steps again.
		active, s.arrived[s.g.Slug] = -1, true
	}
	cs, active = s.fit(cs, active)
	for i, c := range cs {
		row := Row{Release: c.Release, Name: c.Name, Version: c.Version, Config: c.Config, Since: s.now, Reason: Rebuilt, Status: Pending}
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
		s.event(&row, true, Rebuilt, fmt.Sprintf("the record was lost: %s taken over as %s", c.Version, row.Status))
	}
	s.before[s.g.Slug] = askedOf(s.g) // routes may carry what is active now
}

// leftovers gives a row to a child without one that a route names: it is drained like
// any other, from the time at which no route names it.
func leftovers(s *scope) {
	for _, c := range s.sorted {
		if c.Slug != s.g.Slug || c.Terminating || !s.referenced(c.Release) {
			continue
		}
		if s.g.Row(c.Release) == nil && s.makeRoom() {
			s.g.Releases = append(s.g.Releases, Row{Release: c.Release, Name: c.Name, Version: c.Version, Config: c.Config, Status: Deprecated, Reason: leftover, Since: s.now})
		}
		if r := s.g.Row(c.Release); r == nil || r.Reason == leftover {
			s.state(r, true, OrphanReferenced, fmt.Sprintf("%s had no row and a route names it: it is kept until none does", c.Release))
		}
	}
}

// noteRoutes remembers which releases ever were in a route (rules 10 and 18).
func noteRoutes(s *scope) {
	for i := range s.g.Releases {
		r := &s.g.Releases[i]
		r.Routed = r.Routed || s.referenced(r.Release)
	}
}

// vanishedActive repairs a group whose active release's object is gone (rule 31).
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
	s.event(a, true, ActiveLost, fmt.Sprintf("the object of the active release %s is gone and cannot be made again", a.Version))
	lost := a.Release
	if next := s.successor(); next != nil {
		s.endRun()
		s.promote(next, ActiveLost)
		s.touch(next.Release)
	}
	s.dropRow(lost)
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
		running := s.g.Rollout != nil && s.g.Rollout.Release == r.Release
		if _, can := s.offered(r.Release); can && running {
			continue // made again by size
		}
		if running {
			s.endRun()
		}
		s.dropRow(r.Release)
	}
}

// decide applies people's decisions, each id once (rule 21). The stamp keeps a plan
// that read an older decision from taking the place of this one in the rollout state.
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

// closeGroup begins the end of a group whose source shows that it is closed
// (rule 14), or that a user ends, once its domains have moved to the next group, and opens one again that is offered again; a preview needs a slot for it.
func closeGroup(s *scope) {
	if end, closed := s.keptUntil(s.g.Slug); closed && s.g.Phase == Live {
		s.requeueAt(end)
	}
	ended := s.ended(s.g.Slug, s.g.Name, s.g.PullRequest)
	switch {
	case s.g.Phase == Live && s.closed(s.g.Slug), s.g.Phase == Expired && s.groupWithdrawn(s.g.Slug, Closed):
		s.close(GroupClosed)
	case ended && s.g.Phase != Closing:
		if to := s.successorGroup(); to != nil {
			s.state(s.g.ActiveRow(), true, GroupExcluded, fmt.Sprintf("group %s is to end: it closes when its domains have moved to group %s, which has nothing active yet%s; name both in spec.endedGroups to end both", s.g.Name, to.Name, to.standing()))
			return
		}
		s.close(GroupEnded)
	case ended:
	case s.g.Phase == Closing && s.g.Level != preview && !s.withdrawnGroup(s.g.Slug) && len(s.candidates) > 0:
		s.g.Phase = Live
		s.event(nil, false, GroupReopened, "the group is offered again")
	}
}

// aim finds the release that the group is to move to.
func aim(s *scope) {
	if s.g.Phase != Live {
		return
	}
	target, notes := s.choose()
	s.g.Target = target
	s.notes = append(s.notes, notes...)
}

// finishFirst keeps newer versions from displacing a release for ever, or one
// that is at its last step (rule 28).
func finishFirst(s *scope) {
	if !s.finishes(s.g.Target) {
		return
	}
	_, r, _ := s.rollout()
	s.state(r, false, Superseded, fmt.Sprintf("%s is finished before %s starts", r.Version, s.versionOf(s.g.Target.Release)))
	s.g.Target = Target{Release: r.Release, Reason: FinishFirst}
}

// supersede retires the rollout in progress and not wanted any more (rule 24).
func supersede(s *scope) {
	if s.g.Phase != Live {
		return
	}
	for i := range s.g.Releases {
		r := &s.g.Releases[i]
		running := s.g.Rollout != nil && s.g.Rollout.Release == r.Release
		if r.Release == s.g.Target.Release || r.Status != Pending && r.Status != Canary && !running {
			continue
		}
		if s.g.Target.Reason == Latest && !s.free(r) && s.halted(s.g.Row(s.g.Target.Release)) {
			continue
		}
		if running {
			s.endRun()
			if s.g.Target.Reason == Latest {
				s.g.Superseded++
			}
		}
		r.leave()
		if r.Status == Pending || r.Status == Canary {
			s.turn(r, Deprecated, Superseded)
		}
		s.event(r, false, Superseded, fmt.Sprintf("%s is superseded by %s", r.Version, s.versionOf(s.g.Target.Release)))
	}
}

// start begins the rollout of the target.
func start(s *scope) {
	target := s.g.Target.Release
	active := s.g.ActiveRow()
	if s.g.Phase != Live || s.g.Rollout != nil || target == "" || active != nil && active.Release == target {
		return
	}
	r := s.g.Row(target)
	if s.o.SourceStale && (r == nil || r.Promoted == 0) {
		return
	}
	if w := s.startWaits(target, r); w != nil {
		s.record(w)
		return
	}
	if r == nil {
		cand, ok := s.offered(target)
		if !ok {
			return
		}
		if !s.makeRoom() {
			s.crowded(cand.Version)
			return
		}
		s.g.Releases = append(s.g.Releases, Row{Release: target, Name: cand.Name, Version: cand.Version, Config: s.o.Config, Status: Pending, Reason: Started, Since: s.now, Decision: s.handled[target]})
		r = s.g.Row(target)
	}
	switch {
	case r.Status == Error:
		s.retryRow(r, RetriedAutomatically)
		s.event(r, false, Retrying, fmt.Sprintf("attempt %d of %s: the cause of the failure was outside of it", r.Attempt+1, r.Version))
	case r.Promoted == 0:
		s.turn(r, Pending, Started)
	}
	s.touch(target)
	s.g.Rollout = s.newRollout(target)
	s.g.Rollout.Gate, s.g.Rollout.GateTime = ConfirmRollout, s.now
	if from, rival := s.rival(); rival != nil {
		s.g.Rollout.Floor = from.serving(rival)
	}
	how := "starts"
	if r.Promoted > 0 {
		how = "comes back, kept as it was,"
	}
	s.event(r, false, Started, fmt.Sprintf("%s (%s) %s in group %s", r.Version, r.Release, how, s.g.Name))
}

// openGate lets a release have its pods: at once, or, where hooks are asked, when they
// agree or have no say any more. Its clock starts then.
func openGate(s *scope) {
	run, r, c := s.rollout()
	if run == nil || run.Gate != ConfirmRollout {
		return
	}
	if w := s.podsWait(run, r, c); w != nil {
		s.record(w)
		return
	}
	run.begin(0, s.now)
}

// keepClock adds up the healthy waiting of a step, and notices when it breaks
// off or continues (rules 13 and 23).
func keepClock(s *scope) {
	run, r, c := s.rollout()
	if run == nil {
		return
	}
	run.From = ""
	if from := s.older(); from != nil {
		run.From = from.g.Slug
	}
	healthy, cause, _ := s.health(run, r, c)
	if r.Reason == TrafficLost && len(s.reports) > 0 { // what it waited for proved nothing
		run.Started, run.Waited, run.WaitingSince, run.Interrupted, run.Grace = s.now, 0, noTime, false, noTime
		s.turn(r, r.Status, StepBegan)
		healthy, cause, _ = s.health(run, r, c)
	}
	obstacle, w := s.obstacle(run, r, c)
	s.record(w)
	s.block(run, r, obstacle, c)
	switch {
	case run.WaitsFor != "":
		s.idle(run, s.now)
		run.Interrupted = false
	case cause == TrafficLost:
		s.idle(run, s.now)
		run.Interrupted = true
		s.turn(r, r.Status, TrafficLost)
		s.state(r, true, TrafficLost, fmt.Sprintf("%s waits at %d%%: it had traffic, and there is no networkpolicies.hlnr.io any more; make one, or decide Deprecate on %s", r.Version, r.Weight, r.Release))
	case healthy && run.Interrupted:
		run.Interrupted, run.WaitingSince = false, s.now
	case !healthy && !run.WaitingSince.IsZero():
		run.Waited += max(0, s.now.Sub(run.WaitingSince))
		run.Interrupted, run.WaitingSince = true, noTime
	}
}

// fail ends a run whose clock passed the deadline; the last active release
// serves (invariant 7).
func fail(s *scope) {
	run, r, c := s.rollout()
	if run == nil {
		return
	}
	if reason, message := s.condemned(run, r, c); reason != "" {
		s.failRow(r, reason)
		s.event(r, true, ReleaseFailed, fmt.Sprintf("%s is rolled back (%s): %s", r.Version, reason, message))
		return
	}
	healthy, cause, _ := s.health(run, r, c)
	if healthy || run.WaitsFor != "" || cause == TrafficLost || s.o.Spec.Paused && run.Step == 0 && s.available(*r, c) {
		return
	}
	end := s.ends(run)
	if !s.now.Before(end) && run.Grace.IsZero() && s.began() {
		run.Grace = stored(s.now.Add(s.moment()))
		end = s.ends(run)
	}
	if s.now.Before(end) {
		s.requeueAt(end)
		return
	}
	if from, a := s.rival(); a != nil && r.Status == Canary && from.dead(a) && !s.dead(r) {
		s.state(r, true, OnlyServing, fmt.Sprintf("%s is past its deadline (%s) and is not rolled back: %s, which is active, has nothing that answers", r.Version, cause, a.Version))
		return
	}
	message := fmt.Sprintf("%s was not healthy within %s: %s", r.Version, s.o.Spec.Deadline, s.inWords(cause, c))
	if outside[cause] != "" {
		s.giveBack(run, r, cause, message)
		return
	}
	s.failRow(r, cause)
	s.event(r, true, ReleaseFailed, message)
}

// editedSteps finds the place of a rollout in steps that were edited (rule 32): the
// first one with at least the present weight, else the last one, which takes weight away.
// Without any step it is promoted.
func editedSteps(s *scope) {
	run, r, _ := s.rollout()
	hash := stepsHash(s.steps())
	if run == nil || run.StepsHash == hash {
		return
	}
	run.StepsHash = hash
	if run.Gate == ConfirmTrafficIncrease {
		run.GateTime = s.now // what hooks agreed to is not what comes now
	}
	if run.Step == 0 {
		return
	}
	steps := s.steps()
	next := slices.IndexFunc(steps, func(st Step) bool { return st.Weight >= r.Weight })
	if next < 0 {
		next = max(0, len(steps)-1)
	}
	s.event(r, false, StepsEdited, fmt.Sprintf("%s continues at step %d of %d", r.Version, min(next+1, len(steps)), len(steps)))
	if next < len(steps) && !steps[next].more(*r) {
		s.enter(run, r, next+1)
		return
	}
	// What is before the next step is passed; that one waits for health and size.
	run.begin(next, s.now)
	run.Continued = next
}

// promoteFirst makes the first release of a group active as soon as it is
// available, whatever the gateway says (rule 12), but where the newest domains move to
// it by steps.
func promoteFirst(s *scope) {
	run, r, c := s.rollout()
	if run == nil || s.g.ActiveRow() != nil || s.older() != nil || s.arrived[s.g.Slug] || s.o.Spec.Paused {
		return
	}
	if !c.ok() || !c.has(s.full()) {
		return
	}
	_, _, since := s.health(run, r, c)
	if !s.passGates(run, r, c) {
		s.idle(run, since)
		return
	}
	s.promote(r, First)
}

// promoteKept brings back a release that was active: without steps, and with as
// many replicas as the one that it replaces, unless that one is dead (rule 27).
func promoteKept(s *scope) {
	run, r, c := s.rollout()
	active := s.g.ActiveRow()
	if run == nil || active == nil || r.Promoted == 0 || s.halted(r) {
		return
	}
	if s.dead(active) {
		if c.has(1) {
			s.promote(r, RolledBack)
		}
		return
	}
	s.raiseFloor(run, active)
	if c.has(s.full()) {
		s.promote(r, RolledBack)
	}
}

// promoteAdopted makes a release active whose steps a person skipped, once it is
// available at full size.
func promoteAdopted(s *scope) {
	run, r, c := s.rollout()
	from, active := s.rival()
	if run == nil || !r.Adopted || active == nil {
		return
	}
	from.raiseFloor(run, active)
	if c.ok() && c.has(s.full()) && s.stable() {
		s.promote(r, Adopted)
	}
}

// step takes the next step of a canary, when this one has passed.
func step(s *scope) {
	run, r, c := s.rollout()
	from, active := s.rival()
	if run == nil || active == nil || r.Promoted > 0 || s.stepped || run.Gate == ConfirmRollout || r.Adopted {
		return
	}
	healthy, _, since := s.health(run, r, c)
	if !healthy {
		return
	}
	if ws := s.stepWaits(run, r, c, since); len(ws) > 0 {
		s.idle(run, since)
		s.record(ws...)
		return
	}
	from.raiseFloor(run, active)
	if !c.has(s.nextSize(run)) {
		run.Continued = run.Step // what waits for pods has waited for all else
		return
	}
	if !s.passGates(run, r, c) {
		s.idle(run, since)
		return
	}
	if steps := s.steps(); run.Step < len(steps) {
		s.enter(run, r, run.Step+1)
		s.event(r, false, StepBegan, fmt.Sprintf("%s gets %d%% in step %s of %d", r.Version, r.Weight, s.stepName(run.Step), len(steps)))
		return
	}
	s.promote(r, Promoted)
}

// settle lets a policy that does not confirm block nothing any more, when
// nothing was in progress for the deadline (rule 10).
func settle(s *scope) {
	if s.g.Phase == Expired && len(s.g.Releases) == 0 {
		return // it has no traffic
	}
	moves := s.g.Rollout != nil && s.g.Rollout.Step > 0 || !s.before[s.g.Slug].equal(traffic(s.g))
	for _, r := range s.reports {
		switch {
		case r.Revision >= s.g.TrafficRevision:
			continue
		case r.Revision == 0 || r.Revision < s.g.SettledRevision:
			s.state(nil, true, PolicyNotProgrammed, fmt.Sprintf("networkpolicies.hlnr.io %q blocks nothing: %s", r.policy, or(r.Message, or(r.Reason, "it has not confirmed this group"))))
		case !moves:
			end := s.deadline(s.g.TrafficTime)
			if s.now.Before(end) {
				s.requeueAt(end)
				continue
			}
			s.g.SettledRevision = s.g.TrafficRevision
		}
	}
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

// revise raises the traffic revision when what routes have to carry changed, and
// marks the releases that this takes out of them (rules 1 and 11). A revision is the
// sequence of the rollout state write that makes it: no two are alike, also where a group
// ends and begins again.
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
	if s.stepped && s.g.Rollout != nil {
		s.g.Rollout.StepRevision = s.g.TrafficRevision
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

// forgetErrors drops failures whose identity cannot be chosen again (rule 3):
// those that are withdrawn, below the active release, of another template, of a tag
// that moved, or not the head of their pull request. A retained release to which a rollback failed stays.
func forgetErrors(s *scope) {
	var active Row // a copy: rows move as others are dropped
	if a := s.g.ActiveRow(); a != nil {
		active = *a
	}
	_, free := s.withdrawn(active.Version) // then the target may be below it
	kept := s.retained()
	for _, r := range slices.Clone(s.g.Releases) {
		ok, w := s.forgettable(r, kept)
		if s.record(w); !ok {
			continue
		}
		_, out := s.withdrawn(r.Version)
		moved := slices.ContainsFunc(s.candidates, func(c Candidate) bool { return c.Version == r.Version && c.Release != r.Release })
		below := active.Release != "" && !free && s.g.Level != preview && compare(r.Version, active.Version) < 0
		pushed := s.g.Level == preview && len(s.candidates) > 0 && s.candidates[0].Release != r.Release
		if out || moved || below || pushed || s.o.Config != "" && r.Config != s.o.Config || s.g.Phase == Closing {
			s.dropRow(r.Release)
		}
	}
}

// letGo drops the rows of releases that are not kept, when their drain is over
// (rules 11, 24 and 39). While the target is one that has just failed, the next pass aims
// again, and may aim at one of them.
func letGo(s *scope) {
	s.noteDenied()
	if t := s.g.Row(s.g.Target.Release); t != nil && t.Status == Error && s.g.Target.Reason == Latest {
		return
	}
	kept := s.retained()
	for _, r := range slices.Clone(s.g.Releases) {
		running := s.g.Rollout != nil && s.g.Rollout.Release == r.Release
		if r.Status != Deprecated || running || r.Release == s.g.Target.Release || slices.Contains(kept, r.Release) {
			continue
		}
		if r.Promoted > 0 && s.g.Phase == Live {
			if s.o.Spec.Paused {
				continue
			}
			if w := s.replacedLeaving(); w != nil {
				s.record(w)
				continue
			}
		}
		if w := s.undrained(r); w != nil {
			s.record(w)
			continue
		}
		s.event(&r, false, Removed, fmt.Sprintf("%s is drained and removed", r.Version))
		s.dropRow(r.Release)
	}
	sortRows(s.g.Releases)
}

// withinLimits keeps a group within its share of the status, and drops the mark of
// forgotten failures when nothing below it could be chosen any more.
func withinLimits(s *scope) {
	for len(s.g.Releases) > s.quota() && s.forget() {
	}
	f := s.g.Failed
	if f.Version == "" {
		return
	}
	if a := s.g.ActiveRow(); s.g.Phase != Live || s.o.Config != "" && f.Config != s.o.Config || a != nil && compare(f.Version, a.Version) <= 0 && !s.free(a) {
		s.g.Failed = Failed{}
		return
	}
	s.state(nil, true, FailuresForgotten, fmt.Sprintf("versions of group %s up to %s are not tried automatically: more failed than status.releaseGroups holds; pin one of them, or push a newer version", s.g.Name, f.Version))
}

// turn gives a row another status.
func (s *scope) turn(r *Row, to Status, reason Reason) {
	if r.Status == to && r.Reason == reason {
		return
	}
	if r.Status != to {
		r.Since = s.now
	}
	r.Status, r.Reason = to, reason
}

// failRow turns a release down, and takes its weight away.
func (s *scope) failRow(r *Row, reason Reason) {
	if s.g.Rollout != nil && s.g.Rollout.Release == r.Release {
		s.endRun()
	}
	r.leave()
	s.turn(r, Error, reason)
}

// retryRow starts a failed release again, from before the first step.
func (s *scope) retryRow(r *Row, reason Reason) {
	r.Attempt++
	r.RetryTime = noTime
	s.turn(r, Pending, reason)
	s.touch(r.Release)
}

// promote makes a release active, and the previous one deprecated.
func (s *scope) promote(r *Row, reason Reason) {
	last := int64(0)
	for i := range s.g.Releases {
		x := &s.g.Releases[i]
		last = max(last, x.Promoted)
		x.Weight, x.Match, x.Mirror = 0, false, 0
		if x.Status == Active && x != r {
			x.Available = false
			s.turn(x, Deprecated, Replaced)
		}
	}
	r.Weight, r.Promoted, r.Adopted, r.Attempt, r.RetryTime = 100, last+1, false, 0, noTime
	s.turn(r, Active, reason)
	s.g.Rollout, s.g.Superseded = nil, 0
	s.event(r, false, Promoted, fmt.Sprintf("%s (%s) is active in group %s", r.Version, r.Release, s.g.Name))
}

// endRun breaks the rollout off, and gives its weight back.
func (s *scope) endRun() {
	if s.g.Rollout == nil {
		return
	}
	if r := s.g.Row(s.g.Rollout.Release); r != nil && r.Status != Active {
		r.leave()
	}
	if a := s.g.ActiveRow(); a != nil {
		a.Weight = 100
	}
	s.g.Rollout = nil
}

func (s *scope) dropRow(release string) {
	if r := s.g.Row(release); r.Decision != nil {
		s.handled[release] = r.Decision
	}
	s.g.Releases = slices.DeleteFunc(s.g.Releases, func(r Row) bool { return r.Release == release })
}
