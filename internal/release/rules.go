package release

import (
	"fmt"
	"slices"

	"github.com/heighliner/heighliner/internal/frozen"
)

// rule is a named decision about one group. Rules apply in order. Each rule reads the facts, and the
// group as changed by the previous rules.
type rule struct {
	name  string
	apply func(*scope)
}

// rules are the rules of a group, in the order in which they apply. The comments list the status changes that the rules make ("none" means that the
// release has no row), and name some of the files that contain the rules. A test removes one rule at a time, and expects at least one history to fail
// without it.
var rules = []rule{
	// Existing objects: lost_state.go.
	{"Rebuild the rollout state", rebuildState},      // none to active, deprecated or pending: the rollout state is lost
	{"Record referenced releases", recordReferenced}, // none to deprecated: a route refers to the release
	{"Record routes", recordRoutes},
	{"Replace a lost active release", replaceLostActive}, // deprecated or canary to active, active to none: the object is gone
	{"Drop lost releases", dropLost},                     // any to none: the object is gone

	// Decisions and the target.
	{"Apply decisions", decide},     // pending or canary to error (Deprecate), error to pending (Retry)
	{"Close the group", closeGroup}, // any to deprecated: the group ends; deprecated to active: the group is offered again
	{"Choose the target", chooseTarget},
	{"Finish first", finishFirst},
	{"Supersede", supersede}, // pending or canary to deprecated: another release is the target
	{"Start", start},         // none, deprecated or error to pending: the release is the target

	// Gates and failures.
	{"Open the gate", openGate},
	{"Count healthy time", countHealthyTime},
	{"Fail", fail}, // fail_and_retry.go: pending or canary to error, or back to pending because of a problem outside the release; deprecated to error: a rollback failed

	// Steps and promotions: steps_and_promotion.go.
	{"Apply edited steps", editedSteps},
	{"Promote the first release", promoteFirst}, // pending to active: no other release is active
	{"Roll back", promoteRetained},              // deprecated to active: the release was active before
	{"Adopt", promoteAdopted},                   // pending or canary to active: a user skips the steps
	{"Step", step},                              // pending to canary, canary to active: the current step is complete
	{"Report the freeze", noteFreeze},

	// Traffic.
	{"Stop waiting for policies", stopWaiting},
	{"Record availability", recordAvailability},
	{"Raise the traffic revision", raiseRevision},

	// Rows that are dropped.
	{"Forget failures", forgetFailures},      // error to none: the release cannot be chosen again; error to deprecated: hooks of type PostPreview have not ended
	{"End preview", endPreview},              // previews.go
	{"Drop drained releases", dropDrained},   // retain_and_remove.go: deprecated to none: the release is drained, and not retained; error to none: only failed releases remain
	{"Stay within limits", stayWithinLimits}, // error to none: the group is full
}

// decide applies users' decisions, each decision ID only once (rule 21). The object of the release then gets a
// stamp, which prevents a plan that read an older decision from replacing this decision in the rollout state.
func decide(s *scope) {
	for i := range s.g.Releases {
		r := &s.g.Releases[i]
		c, _ := s.object(r.Release)
		d := c.Decision
		if d == nil || r.Decision != nil && r.Decision.ID == d.ID {
			continue
		}
		if c.Refused && d.Action != Deprecate {
			// This object cannot get a stamp. Without a stamp, only decisions that remove traffic can be applied.
			s.state(r, true, Blocked, fmt.Sprintf("decision %s on %s is waiting: the API server rejects updates to its VersionedMicroservice", d.Action, r.Version))
			continue
		}
		s.handle(r, *d, cut(s.applyDecision(r, *d), maxOutcome))
	}
}

// closeGroup starts closing a group whose source is closed (rule 14). It also starts closing a group that a user ends, as
// soon as the group's domains have moved to the newer group. It reopens a closing group that is offered again, unless the
// group is a preview, which needs a slot first.
func closeGroup(s *scope) {
	if end, closed := s.keptUntil(s.g.Slug); closed && s.g.Phase == Live {
		s.requeueAt(end)
	}
	ended := s.ended(s.g.Slug, s.g.Name, s.g.PullRequest)
	switch {
	case s.g.Phase == Live && s.closed(s.g.Slug), s.g.Phase == Expired && s.groupWithdrawn(s.g.Slug, Closed):
		s.close(GroupClosed)
	case ended && s.g.Phase != Closing:
		if w := s.endWait(); w != nil {
			s.record(w)
			return
		}
		s.close(GroupEnded)
	case ended:
	case s.g.Level != preview && s.opensAgain():
		s.g.Phase = Live
		s.event(nil, false, GroupReopened, fmt.Sprintf("group %s is offered again", s.g.Name))
		s.resume()
	}
}

// opensAgain reports whether a closing group is to be reopened because it is offered again, or because a user
// canceled the request to end the group.
func (s *scope) opensAgain() bool {
	if s.g.Phase != Closing || s.ending() || s.withdrawnGroup(s.g.Slug) || s.ended(s.g.Slug, s.g.Name, s.g.PullRequest) {
		return false
	}
	return len(s.candidates) > 0 || slices.ContainsFunc(s.g.Releases, func(r Row) bool { return r.Reason == GroupEnded })
}

// resume makes a release of a closing or expired group active again: of the releases that can still serve, the
// one that was active last. A release can serve if an object that a policy wrote still refers to it, if it has an
// available pod, or if its pods terminated because the group is exclusive. A newer version then goes through its
// steps. A preview that was excluded resumes only an offered commit, because the approval of another commit may
// have been removed.
func (s *scope) resume() {
	var next *Row
	excluded := s.g.Level == preview && slices.ContainsFunc(s.g.Releases, func(r Row) bool { return r.Reason == Reason(Excluded) })
	for i := range s.g.Releases {
		r := &s.g.Releases[i]
		c, there := s.object(r.Release)
		serves := there && !c.Terminating && (c.Available > 0 || s.referenced(r.Release) || s.o.Spec.Exclusive)
		offered := !excluded || slices.ContainsFunc(s.candidates, func(c Candidate) bool { return c.Version == r.Version })
		if serves && offered && r.Promoted > 0 && r.Status == Deprecated && !s.denied(r.Version) && (next == nil || s.precedes(*r, *next)) {
			next = r
		}
	}
	if next == nil {
		return
	}
	s.promote(next, GroupReopened)
	s.touch(next.Release)
}

// chooseTarget sets the target of the group.
func chooseTarget(s *scope) {
	if s.g.Phase != Live {
		return
	}
	target, notes := s.choose()
	s.g.Target = target
	s.notes = append(s.notes, notes...)
}

// finishFirst lets the rollout in progress finish before a newer version starts, for example if too many releases
// were superseded, or if the rollout is in its last step (rule 28).
func finishFirst(s *scope) {
	if !s.finishes(s.g.Target) {
		return
	}
	_, r, _ := s.rollout()
	next, first := s.distinct(s.g.Target.Release, r)
	s.state(r, false, FinishFirst, fmt.Sprintf("%s is waiting: the rollout of %s must finish first", next, first))
	s.g.Target = Target{Release: r.Release, Reason: FinishFirst}
}

// distinct returns, for messages, the versions of another release and of r, or their names if both have the same version.
func (s *scope) distinct(other string, r *Row) (string, string) {
	if version := s.versionOf(other); version != r.Version {
		return version, r.Version
	}
	return other, r.Release
}

// supersede ends the rollout in progress if its release is no longer the target (rule 24).
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
		if next := s.g.Target.Release; s.g.Target.Reason == Latest && !s.isWithdrawn(r) && s.halted(s.g.Row(next)) {
			if r.Status == Pending {
				s.record(s.haltWait(s.g.Row(next), frozen.Release(s.versionOf(next))))
			}
			continue
		}
		if running {
			s.returnPods()
			s.endRollout()
			if s.g.Target.Reason == Latest {
				s.g.Superseded++
			}
		}
		r.leave()
		if r.Status == Pending || r.Status == Canary {
			s.turn(r, Deprecated, Superseded)
		}
		next, earlier := s.distinct(s.g.Target.Release, r)
		message := fmt.Sprintf("%s is superseded by %s", earlier, next)
		if s.g.Target.Release == "" {
			message = fmt.Sprintf("%s is not rolled out, because no version of the group may be deployed", r.Version)
		}
		s.event(r, false, Superseded, message)
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
		if !s.freeRow() {
			s.crowded(cand.Version)
			return
		}
		s.g.Releases = append(s.g.Releases, Row{Release: target, Name: cand.Name, Version: cand.Version, Config: s.o.Config, Status: Pending, Reason: Started, Since: s.now, Decision: s.handled[target]})
		r = s.g.Row(target)
		if s.g.LastSuperseded == target {
			s.g.LastSuperseded = ""
		}
		s.rejectEarlier(r)
	}
	switch {
	case r.Status == Error:
		s.retryRow(r, RetriedAutomatically)
		s.event(r, false, Retrying, fmt.Sprintf("retrying %s (attempt %d): a problem outside the release caused the previous failure", r.Version, r.Attempt+1))
	case r.Promoted == 0:
		s.turn(r, Pending, Started)
	}
	s.touch(target)
	s.g.Rollout = s.newRollout(target)
	s.g.Rollout.Gate, s.g.Rollout.GateTime = ConfirmRollout, s.now
	if s.hasGate(ConfirmRollout, r) && s.jobsWait(r) != nil {
		s.g.Rollout.GateTime = noTime
	}
	if from, rival := s.rival(); rival != nil {
		s.g.Rollout.Floor = from.serving(rival)
	}
	what := "rollout of"
	if a := s.g.ActiveRow(); r.Promoted > 0 && a != nil && compare(r.Version, a.Version) > 0 {
		what = "return to" // For example, a pin to a lower version was removed.
	} else if r.Promoted > 0 {
		what = "rollback to"
	}
	s.event(r, false, Started, fmt.Sprintf("%s %s (%s) starts in group %s", what, r.Version, r.Release, s.g.Name))
}

// openGate allows a release to have pods. If there are no hooks, it does so immediately. Otherwise the hooks must
// approve the rollout, or must no longer apply. The clock of the rollout starts when the gate opens.
func openGate(s *scope) {
	run, r, c := s.rollout()
	if run == nil || run.Gate != ConfirmRollout {
		return
	}
	if run.GateTime.IsZero() && !s.halted(r) && (!s.hasGate(ConfirmRollout, r) || s.jobsWait(r) == nil) {
		run.GateTime = s.now
	}
	if w := s.podsWait(run, r, c); w != nil {
		s.record(w)
		return
	}
	if from, rival := s.rival(); rival != nil {
		from.raiseFloor(run, rival) // An autoscaler may have scaled up the active release in the meantime.
	}
	run.begin(0, s.now)
}

// countHealthyTime adds up the time that a step waits while the release is healthy, and records when the wait is
// interrupted or continues (rules 13 and 23).
func countHealthyTime(s *scope) {
	run, r, c := s.rollout()
	if run == nil {
		return
	}
	run.From = ""
	if from := s.older(); from != nil {
		run.From = from.g.Slug
	}
	s.resetCalls(run, r)
	healthy, cause, _ := s.health(run, r, c)
	if r.Reason == TrafficLost && len(s.reports) > 0 { // The clock of the step restarts, because the time without a policy does not count.
		run.Started, run.Waited, run.WaitingSince, run.Interrupted, run.Grace = s.now, 0, noTime, false, noTime
		s.turn(r, r.Status, StepBegan)
		healthy, cause, _ = s.health(run, r, c)
	}
	obstacle, w := s.obstacle(run, r, c)
	s.record(w)
	gaveWay := run.WaitsFor == otherRunning // If so, this plan may be the first plan that gives the release replicas.
	s.block(run, r, obstacle, c)
	switch {
	case cause == notCreated && s.outgrown(run):
		run.interrupt(s.now)
	case s.uncreated(run, cause) && !gaveWay, cause == otherRunning, slices.Contains([]Reason{noDomains, noAnswer, notProgrammed}, run.WaitsFor):
		// The wait has lasted long enough to be recorded, and is recorded from its start.
		s.idle(run, s.stepClock(run))
		run.Interrupted = false
	case run.WaitsFor != "":
		s.idle(run, s.now)
		run.Interrupted = false
	case cause == TrafficLost:
		s.idle(run, s.now)
		run.Interrupted = true
		s.turn(r, r.Status, TrafficLost)
		s.state(r, true, TrafficLost, fmt.Sprintf("%s is waiting at %d%%: it had traffic, but no networkpolicies.hlnr.io object routes to this Microservice any longer; create one, or %s", r.Version, r.Weight, howToDecide(r.Release, Deprecate)))
	case healthy && run.Interrupted:
		run.Interrupted, run.WaitingSince = false, s.now
	case !healthy && !run.WaitingSince.IsZero():
		run.interrupt(s.now)
	case !healthy && s.onlyPauses(run) && s.confirmed(run.StepRevision):
		run.Interrupted = true // The pause is not recorded yet.
	}
}

// stopWaiting stops waiting for a policy if the policy has not confirmed the traffic of the group within the
// deadline and no traffic is moving (rule 10).
func stopWaiting(s *scope) {
	if s.g.Phase == Expired && len(s.g.Releases) == 0 {
		return // The group has no traffic.
	}
	run, canary, _ := s.rollout()
	moves := run != nil && !run.beforeTraffic(canary) || !s.before[s.g.Slug].equal(traffic(s.g))
	for _, r := range s.reports {
		switch {
		case r.Revision >= s.g.TrafficRevision:
			continue
		case r.Revision == 0 && !s.serves():
			continue // The first release of the group has no traffic yet.
		case r.Revision == 0 && s.now.Before(s.g.TrafficTime.Add(s.unshown())):
			s.requeueAt(s.g.TrafficTime.Add(s.unshown())) // The traffic was moved only a moment ago.
		case r.Revision == 0 || r.Revision < s.g.SettledRevision:
			s.state(nil, true, PolicyNotProgrammed, fmt.Sprintf("rollouts do not wait for networkpolicies.hlnr.io %q: %s", r.policy, or(r.Message, or(r.Reason, "it has not confirmed the traffic of a group"))))
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

// serves reports whether a release of the group should have traffic.
func (s *scope) serves() bool {
	return slices.ContainsFunc(s.g.Releases, func(r Row) bool { return r.Status == Active || r.Weight > 0 })
}

// recordAvailability records which active and canary releases have all their replicas.
func recordAvailability(s *scope) {
	for i := range s.g.Releases {
		r := &s.g.Releases[i]
		c, _ := s.object(r.Release)
		switch {
		case r.Status != Active && r.Status != Canary:
			r.Available = false
		case !c.Unsettled:
			r.Available = s.available(*r, c)
		}
	}
}

// raiseRevision raises the traffic revision when the required content of the routes changes, and marks the
// releases that this change removes from the routes (rules 1 and 11). A revision is the sequence
// number of the rollout state that introduces it. Therefore it is unique even if a group ends and begins again.
func raiseRevision(s *scope) {
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
			r.Zero = before.zero(r.Release)
		}
		switch {
		case serving:
			r.Zero = nil
		case before.has(r.Release), r.Zero == nil && s.referenced(r.Release):
			r.Zero = &Zero{Revision: s.g.TrafficRevision, Time: s.now}
		}
		s.markNamed(r)
	}
}

// markNamed begins the drain of a release when a policy that never confirmed the group no longer refers to that release. A
// policy without a status may refer to any release until it has a status. In both cases, no confirmed revision shows when
// the traffic of the release ended.
func (s *scope) markNamed(r *Row) {
	z, named := r.Zero, s.unreported() || s.unanswered(r.Release)
	switch {
	case z == nil || z.Named == named:
	case named:
		r.Zero = &Zero{Revision: z.Revision, Time: z.Time, Named: true}
	default:
		r.Zero = &Zero{Revision: z.Revision, Time: s.now}
	}
}

// forgetFailures drops failed releases that cannot be chosen again (rule 3). A failed release cannot be chosen again if its
// version is withdrawn, is below the active version, or is not the head commit of its pull request, or if its
// template or the image of its tag has changed. A retained release keeps its row even if a rollback to it
// failed.
func forgetFailures(s *scope) {
	if !slices.ContainsFunc(s.g.Releases, func(r Row) bool { return r.Status == Error }) {
		return
	}
	var active Row // This is a copy, because rows move when other rows are dropped.
	if a := s.g.ActiveRow(); a != nil {
		active = *a
	}
	_, free := s.withdrawn(active.Version) // If the active version is withdrawn, the target may be below it.
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
		if !(out || moved || below || pushed || s.o.Config != "" && r.Config != s.o.Config) {
			continue
		}
		if w, keep := s.endHooksWait(r); keep {
			s.record(w)
			if s.g.Phase == Live {
				s.turn(s.g.Row(r.Release), Deprecated, Superseded)
			}
			continue
		}
		s.dropRow(r.Release)
	}
}

// onlyFailures reports whether a closing group contains only failed releases. They are dropped last, so that they are not
// tried again if the group is reopened before it has ended.
func (s *scope) onlyFailures() bool {
	return s.g.Phase == Closing && !slices.ContainsFunc(s.g.Releases, func(r Row) bool { return r.Status != Error })
}

// stayWithinLimits limits the releases of a group to the group's share of the status. It drops the group's Failed mark when
// no version that the mark covers can be chosen any longer.
func stayWithinLimits(s *scope) {
	for len(s.g.Releases) > s.quota() && s.forget() {
	}
	f := s.g.Failed
	if f.Version == "" {
		return
	}
	if s.g.Phase == Closing {
		return // The group may be reopened.
	}
	if a := s.g.ActiveRow(); s.g.Phase != Live || s.o.Config != "" && f.Config != s.o.Config || a != nil && compare(f.Version, a.Version) <= 0 && !s.isWithdrawn(a) {
		s.g.Failed = Failed{}
		return
	}
	s.state(nil, true, FailuresForgotten, fmt.Sprintf("versions of group %s up to %s are not started automatically, because more versions failed than status.releaseGroups can list: pin one of them, or push a newer version", s.g.Name, f.Version))
}

// turn sets the status of a row and the reason for that status.
func (s *scope) turn(r *Row, to Status, reason Reason) {
	if r.Status == to && r.Reason == reason {
		return
	}
	if r.Status != to {
		r.Since = s.now
	}
	r.Status, r.Reason = to, reason
}

// endRollout ends the rollout without a promotion, and removes all traffic from its release.
func (s *scope) endRollout() {
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
