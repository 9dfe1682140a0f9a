package release

import (
	"fmt"
	"time"
)

// Observed is all that a plan is made from, in addition to the time.
type Observed struct {
	// Spec is what the user asks for.
	Spec Spec
	// Config is the hash of the current pod template; "": it has none that is
	// usable, and no candidates.
	Config string
	// SourceStale: Candidates are of an older specification, and start nothing.
	SourceStale bool
	// PullRequests: the groups are pull requests. One that a pin names may not be open yet.
	PullRequests bool
	// Candidates are the versions that are offered now, in any order.
	Candidates []Candidate
	// Withdrawn are the versions that are withdrawn, with proof. A version that is
	// merely absent from Candidates is unknown, not gone (rule 4).
	Withdrawn []Withdrawal
	// Objects are the releases' objects that exist.
	Objects []Object
	// Policies are the NetworkPolicies that name the Microservice, with what they
	// report.
	Policies []Policy
	// Peers are the Microservices whose releases go through their steps together with
	// this one's.
	Peers []Peer
	// State is the persisted record.
	State State
	// Began is when this manager began to look. What became of the releases before
	// is not known until they have had a moment to report. Zero: always.
	Began time.Time
}

// Spec holds the facts of a Microservice's specification, with all defaults.
type Spec struct {
	// Paused stops what starts automatically (rule 22).
	Paused bool
	// Freeze that applies to the Microservice now; nil: none (rule 45).
	Freeze *Freeze
	// Replicas of a release that serves or is about to; at least 1.
	Replicas int
	// Standby replicas of a retained release; StandbyFull overrides it.
	Standby int
	// StandbyFull keeps retained releases at full size.
	StandbyFull bool
	// MinimumAvailable is the number of retained releases, the active one included; at
	// least 1.
	MinimumAvailable int
	// Deadline for a release to become available, and for a step to be healthy.
	Deadline time.Duration
	// Drain is the time between the last route and the end of the pods.
	Drain time.Duration
	// Steps of a canary; none: promoted as soon as it is available.
	Steps []Step
	// Pins of groups to versions or releases.
	Pins []Pin
	// Ended are the groups that a user ends on purpose, by name, slug or number of a pull
	// request: they are drained, and start again when they are not named any more.
	Ended []string
	// Previews bound the groups that are pull requests.
	Previews Previews
	// Analysis must pass each step in which the canary can get traffic.
	Analysis bool
	// Gates are the points of a rollout, in addition to ConfirmTrafficIncrease, at which hooks
	// have to agree. ConfirmRollout and PreRollout hold the first release of a group too.
	Gates []Point
	// PreviewGates are those of ConfirmRollout and PreRollout at which hooks have to agree
	// to a preview.
	PreviewGates []Point
	// RollBack rolls a canary back when its version fails at a peer. Otherwise it waits.
	RollBack bool
	// MatchWeight gives a canary as many replicas as its next weight needs, instead of
	// all from the start.
	MatchWeight bool
}

// Freeze keeps what was never active from starting and from getting more traffic. What takes
// traffic away from a release, or returns it to one that was active, continues.
type Freeze struct {
	// Name of the object that asks for it, with its kind, for messages.
	Name string
	// Until is its end; zero: there is none yet.
	Until time.Time
	// Reason as the user wrote it.
	Reason string
}

// String is the freeze as messages have it.
func (f Freeze) String() string {
	until := "until it is deleted"
	if !f.Until.IsZero() {
		until = "until " + f.Until.UTC().Format(time.RFC3339)
	}
	return fmt.Sprintf("frozen %s by %s (%q)", until, f.Name, f.Reason)
}

// over reports whether a freeze has ended; nil has.
func (f *Freeze) over(now time.Time) bool {
	return f == nil || !f.Until.IsZero() && !now.Before(f.Until)
}

// Point of a rollout at which hooks are asked.
type Point string

// The points of a rollout. A hook of another type is called, and not waited for.
const (
	// ConfirmRollout is before the release gets its pods.
	ConfirmRollout Point = "ConfirmRollout"
	// PreRollout is once, before the first step.
	PreRollout Point = "PreRollout"
	// ConfirmTrafficIncrease is before a step that gives the canary more traffic
	// than it has.
	ConfirmTrafficIncrease Point = "ConfirmTrafficIncrease"
	// ConfirmPromotion is before the release becomes active.
	ConfirmPromotion Point = "ConfirmPromotion"
)

// Step of a canary.
type Step struct {
	// Name of the step; the number, from 1, names it too.
	Name string
	// Weight of the canary, in percent.
	Weight int
	// Pause while healthy; 0: none.
	Pause time.Duration
	// Approval waits for a person's Continue: for those of Approvers different persons (0: one), who are
	// members of one of the groups of ApproversFrom, if there are any.
	Approval      bool
	Approvers     int
	ApproversFrom []string
	// Match sends the requests that a policy's matches choose to the canary.
	Match bool
	// Mirror is the percentage of requests that the canary gets copies of.
	Mirror int
	// Confirm asks the hooks of ConfirmTrafficIncrease before this step, if it gives
	// the canary more traffic than it has.
	Confirm bool
	// Window in which the step may begin, and, of the last step, in which the release
	// may become active; nil: at any time.
	Window *Window
}

// traffic reports whether the canary can get requests in a step.
func (st Step) traffic() bool { return st.Weight > 0 || st.Match || st.Mirror > 0 }

// more reports whether a step gives a release more traffic than it has.
func (st Step) more(r Row) bool {
	return st.Weight > r.Weight || st.Match && !r.Match || st.Mirror > r.Mirror
}

// Window is a time in which traffic may be moved, as it is now.
type Window struct {
	// Open reports whether it is such a time.
	Open bool
	// Next is when that changes; zero: never.
	Next time.Time
}

// Pin of groups to a version.
type Pin struct {
	// Field of the specification that names the group.
	Field string
	// Group by name, slug or number of a pull request; empty: every group that holds
	// the version.
	Group string
	// Global pins hold back every group when no group holds the version (rule 15).
	Global bool
	// Version that is wanted; "" where Release is set.
	Version string
	// Release that is wanted, by name: what ran then, configuration included.
	Release string
	// Current asks for the current template instead of the retained one.
	Current bool
	// Expire ends the pin; zero: never.
	Expire time.Time
	// Reason as the user wrote it.
	Reason string
}

// Candidate is a version that is offered.
type Candidate struct {
	// Slug, Name and Level of the group.
	Slug, Name, Level string
	// PullRequest is the number of the pull request that the group is; 0: it is none.
	PullRequest int64
	// Version as offered; of a pull request, its head commit.
	Version string
	// Time at which it was published, or pushed; zero: not known.
	Time time.Time
	// Release is the name that its identity, with the current template, gives.
	Release string
}

// WithdrawReason reports why a version is withdrawn.
type WithdrawReason string

// The reasons for which a version is withdrawn.
const (
	Denied   WithdrawReason = "Denied"
	Excluded WithdrawReason = "Excluded"
	Gone     WithdrawReason = "Gone"
	Closed   WithdrawReason = "Closed"
)

// Withdrawal of a version, or, without Version, of a whole group.
type Withdrawal struct {
	Slug, Version string
	Reason        WithdrawReason
	// Time from which Spec.Previews.KeepAfterClose counts.
	Time time.Time
}

// Object is the object of a release, as it is.
type Object struct {
	// Release is its name.
	Release string
	// Slug and Name of the group, Level and Version.
	Slug, Name, Level, Version string
	// PullRequest is the number of the pull request that the group is; 0: it is none.
	PullRequest int64
	// Config is the hash of the template it was made from.
	Config string
	// Created is its creation time.
	Created time.Time
	// Terminating objects are neither present nor absent (rule 8).
	Terminating bool
	// Refused: the server rejects changes of the object, and the object is as it was read. It gets
	// no stamp, and is not revived; nothing else waits for it.
	Refused bool
	// Stamp is the rollout state sequence for which it was made or revived (rule 2).
	Stamp int64
	// NeverActive: its object carries the mark of [Plan.NeverActive].
	NeverActive bool
	// Reported is the last status that its object copied from the rollout state; "": none yet. It
	// may be older than the rollout state, and counts only if that is lost.
	Reported Status
	// Replicas in its specification.
	Replicas int
	// Available replicas, as last reported.
	Available int
	// Unsettled: the report is of an older generation, and proves nothing.
	Unsettled bool
	// Failure is why it is not available, in one word; "" when unknown.
	Failure Reason
	// Message says more about the failure.
	Message string
	// Decision is a person's word on it.
	Decision *Decision
	// Current is the number of replicas that its workload is to have now: above
	// Replicas where an autoscaler wants more, 0 when unknown.
	Current int
	// Analysis is the last verdict on it.
	Analysis *Verdict
	// Gates are the answers of hooks.
	Gates []GateFact
	// Rollback is the wish of a hook to go back.
	Rollback *RollbackFact
}

// VerdictPhase reports what the measurements of a step gave.
type VerdictPhase string

// The phases of a verdict.
const (
	VerdictRunning      VerdictPhase = "Running"
	VerdictPassed       VerdictPhase = "Passed"
	VerdictFailed       VerdictPhase = "Failed"
	VerdictInconclusive VerdictPhase = "Inconclusive"
	VerdictNoTraffic    VerdictPhase = "NoTraffic"
)

// Verdict of the measurements of a step. Failed is about the whole rollout; any other
// phase counts only for the step of that run, and for the wait, in which it was
// measured.
type Verdict struct {
	// Rollout is the rollout's Sequence, Step its Step.
	Rollout int64
	Step    int
	// Since is the rollout's WaitingSince from which it was measured.
	Since time.Time
	Phase VerdictPhase
	// Message says more.
	Message string
}

// GateFact is what the hooks of one point answer, all together.
type GateFact struct {
	// Rollout is the rollout's Sequence, Step the Step in which it waits.
	Rollout int64
	Step    int
	Point   Point
	// Since is the rollout's GateTime that they answer.
	Since time.Time
	// Open: all agree. Failed: one said no for good, and the rollout ends.
	Open, Failed bool
	// Unanswered: a hook whose no would fail the release was asked, and no one answered.
	Unanswered bool
	// Message says more.
	Message string
}

// RollbackFact is the wish of a hook to go back.
type RollbackFact struct {
	// Rollout is the Sequence of the rollout that it is about.
	Rollout int64
	// Message reports why.
	Message string
}

// ok reports whether the release object has all the replicas that it is to have.
func (c Object) ok() bool { return c.has(c.Replicas) && c.Replicas > 0 }

// has reports whether at least n replicas are available for sure.
func (c Object) has(n int) bool { return !c.Terminating && !c.Unsettled && c.Available >= n }

// Action is what a person decides.
type Action string

// The actions of a decision (rule 21).
const (
	Continue  Action = "Continue"
	Adopt     Action = "Adopt"
	Deprecate Action = "Deprecate"
	Retry     Action = "Retry"
)

// Decision is a person's word on a release.
type Decision struct {
	Action Action
	ID     string
	Step   string
	By     string
	// Groups of which the person is a member.
	Groups []string
}

// Policy is what a NetworkPolicy reports.
type Policy struct {
	Name   string
	Groups []Report
	// Unreported: it has no status. It was just created, or lost its status, and its objects may name any release.
	Unreported bool
}

// Report of one group by one policy.
type Report struct {
	// Slug of the group.
	Slug string
	// Revision that is carried and accepted; 0: never any.
	Revision int64
	// Confirmed is when Revision, with these references, was confirmed.
	Confirmed time.Time
	// References names every release in any object as written.
	References []string
	// Masked releases have weight and get nothing, having no ready endpoint.
	Withheld []string
	// Pinned releases are named by a domain with a version.
	Pinned []string
	// Active is the release that the group's Service selects.
	Active string
	// Newest: domains of the policy that route to the newest group route to this one.
	Newest bool
	// CanaryDomains: there are domains of the canary of this group, and Canary is the release
	// to which all of them route, as accepted.
	CanaryDomains bool
	Canary        string
	// Unrouted: no route of the group is programmed any more, and what was confirmed is
	// served nowhere, though Revision stays: the revision is about what was asked for, and
	// what it takes out of the routes is out of them all the same.
	Unrouted bool
	// Reason and Message where the revision is not confirmed.
	Reason, Message string

	policy string
	// unreported groups are those of which the policy reports nothing yet.
	unreported bool
}

// Previews bound the groups that are pull requests.
type Previews struct {
	// MaxGroups that run at a time; at least 1.
	MaxGroups int
	// MaxAge since the last push; 0: without limit.
	MaxAge time.Duration
	// KeepAfterClose is how long a group stays after its pull request was closed.
	KeepAfterClose time.Duration
}

// Peer is another Microservice whose releases go through their steps together with this
// one's.
type Peer struct {
	// Name of the Microservice.
	Name string
	// Groups of its rollout state.
	Groups []Group
}
