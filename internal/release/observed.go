package release

import (
	"fmt"
	"time"
)

// Observed is the input of a plan, in addition to the time.
type Observed struct {
	// Spec is what the user asks for.
	Spec Spec
	// Config is the hash of the current pod template. It is empty if the template is not usable; then
	// there are no candidates.
	Config string
	// SourceStale: Candidates belong to an older specification of the ImagePolicy, and none of them
	// starts.
	SourceStale bool
	// PullRequests: the groups are pull requests. A pull request that a pin names may not be open yet.
	PullRequests bool
	// Candidates are the versions that are offered now, in any order.
	Candidates []Candidate
	// Withdrawn are the versions that are withdrawn, with proof. A version that is
	// merely absent from Candidates is unknown, not gone (rule 4).
	Withdrawn []Withdrawal
	// Objects are the existing objects of the releases.
	Objects []Object
	// Policies are the NetworkPolicies that reference the Microservice, with their reports.
	Policies []Policy
	// Peers are the Microservices whose releases are rolled out together with those of this one.
	Peers []Peer
	// State is the persisted record.
	State State
	// Began is when this manager started to observe. Earlier changes of the releases are known only
	// after they have had a moment to report. Zero means that it has always observed.
	Began time.Time
}

// Spec holds the facts of a Microservice's specification, with all defaults.
type Spec struct {
	// Paused keeps releases from starting automatically (rule 22).
	Paused bool
	// Freeze that applies to the Microservice now, or nil (rule 45).
	Freeze *Freeze
	// Replicas of a release that serves or is about to serve; at least 1.
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
	// Drain is the time between the removal of the last route and that of the pods.
	Drain time.Duration
	// Steps of a canary; none: promoted as soon as it is available.
	Steps []Step
	// Pins of groups to versions or releases.
	Pins []Pin
	// Ended are the groups that a user ends on purpose, by name, slug or number of a pull request: they
	// are drained, and start again when they are removed from this list.
	Ended []string
	// Previews bound the groups that are pull requests.
	Previews Previews
	// Analysis must pass each step in which the canary can get traffic.
	Analysis bool
	// Gates are the points of a rollout, in addition to ConfirmTrafficIncrease, at which hooks
	// have to agree. ConfirmRollout and PreRollout hold the first release of a group too.
	Gates []Point
	// FailureJobs: a Job is created when a release fails, except in previews.
	FailureJobs bool
	// PreviewGates are those of ConfirmRollout and PreRollout at which hooks have to agree
	// to a preview.
	PreviewGates []Point
	// EndHooks: hooks are called when the pods of a preview that ends are gone.
	EndHooks bool
	// RollBack rolls a canary back when its version fails at a peer. Otherwise it waits.
	RollBack bool
	// MatchWeight returns a canary as many replicas as its next weight needs, instead of all from the
	// start.
	MatchWeight bool
	// SplitBy is what splits work between the active release and a canary.
	SplitBy SplitBy
	// Exclusive: at most one release of a group has pods (rule 47), whatever SplitBy is.
	Exclusive bool
}

// Freeze keeps releases that were never active from starting and from getting more traffic. Changes
// that take traffic away from a release, or return it to one that was active, continue.
type Freeze struct {
	// Name of the object that defines the freeze, with its kind, for messages.
	Name string
	// Until is its end; zero if that is not known.
	Until time.Time
	// Reason as the user wrote it.
	Reason string
}

// String describes the freeze for messages.
func (f Freeze) String() string {
	until := "until it is deleted"
	if !f.Until.IsZero() {
		until = "until " + f.Until.UTC().Format(time.RFC3339)
	}
	return fmt.Sprintf("frozen %s by %s (%q)", until, f.Name, f.Reason)
}

// over reports whether a freeze has ended. A nil freeze has.
func (f *Freeze) over(now time.Time) bool {
	return f == nil || !f.Until.IsZero() && !now.Before(f.Until)
}

// Point of a rollout at which hooks are asked.
type Point string

// The points of a rollout. Hooks of other types are called, but nothing waits for them.
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
	// Pause while healthy; 0 for none.
	Pause time.Duration
	// Approval waits for the decision Continue of Approvers different users (0 means one), who must be
	// members of one of the groups of ApproversFrom if that is not empty.
	Approval      bool
	Approvers     int
	ApproversFrom []string
	// Match sends the requests that a policy's matches choose to the canary.
	Match bool
	// Mirror is the percentage of requests that are copied to the canary.
	Mirror int
	// Confirm asks the hooks of ConfirmTrafficIncrease before this step, if it gives
	// the canary more traffic than it has.
	Confirm bool
	// Window in which the step may begin and, for the last step, in which the release may become
	// active; nil means at any time.
	Window *Window
}

// traffic reports whether the canary can get requests in a step.
func (st Step) traffic() bool { return st.Weight > 0 || st.Match || st.Mirror > 0 }

// more reports whether a step increases the traffic of a release.
func (st Step) more(r Row) bool {
	return st.Weight > r.Weight || st.Match && !r.Match || st.Mirror > r.Mirror
}

// Window is the current state of a time window in which traffic may be moved.
type Window struct {
	// Open reports whether the window is open now.
	Open bool
	// Next is when that changes; zero: never.
	Next time.Time
}

// Pin of groups to a version.
type Pin struct {
	// Field of the specification that names the group.
	Field string
	// Group by name, slug or number of a pull request; empty for every group that has the version.
	Group string
	// A Global pin stops every group while no group has the version (rule 15).
	Global bool
	// Version to run; "" if Release is set.
	Version string
	// Release to run, by name: exactly what ran then, configuration included.
	Release string
	// Current selects the current template instead of the retained one.
	Current bool
	// Expire is when the pin ends; zero for never.
	Expire time.Time
	// Reason as the user wrote it.
	Reason string
	// By is the user who set the pin; "" if the pin has no author.
	By string
}

// Candidate is a version that is offered.
type Candidate struct {
	// Slug, Name and Level of the group.
	Slug, Name, Level string
	// PullRequest is the number of the group's pull request; 0 if the group is not a preview.
	PullRequest int64
	// Version as offered; for a pull request, its head commit.
	Version string
	// Time at which it was published or pushed; zero if not known.
	Time time.Time
	// Release is the name of the release, derived from the candidate's identity and the current
	// template.
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

// Object is the VersionedMicroservice of a release as observed.
type Object struct {
	// Release is its name.
	Release string
	// Slug and Name of the group, Level and Version.
	Slug, Name, Level, Version string
	// PullRequest is the number of the group's pull request; 0 if the group is not a preview.
	PullRequest int64
	// Config is the hash of the template it was made from.
	Config string
	// Created is its creation time.
	Created time.Time
	// Terminating objects are neither present nor absent (rule 8).
	Terminating bool
	// Refused: the API server rejects changes of the object, which stays as it was read. It gets no
	// stamp, and is not revived; nothing else waits for it.
	Refused bool
	// Stamp is the rollout state sequence for which it was made or revived (rule 2).
	Stamp int64
	// NeverActive: the object has the mark of [Result.NeverActive].
	NeverActive bool
	// Reported is the last status that the object copied from the rollout state; "" if none yet. It may
	// be older than the rollout state, and counts only if that is lost.
	Reported Status
	// Replicas in its specification.
	Replicas int
	// Available replicas, as last reported.
	Available int
	// Unsettled: the report belongs to an older generation, and proves nothing.
	Unsettled bool
	// Failure is the reason why it is not available; "" if not known.
	Failure Reason
	// Message describes the failure.
	Message string
	// Decision is a user's decision about it.
	Decision *Decision
	// Current is the number of replicas that its workload should have now: above Replicas if an
	// autoscaler wants more, 0 if not known.
	Current int
	// Analysis is the last verdict on it.
	Analysis *Verdict
	// Gates are the answers of hooks.
	Gates []GateFact
	// Rollback is the request of a hook to roll back.
	Rollback *RollbackFact
	// End is the combined answer of the hooks of the end of its preview.
	End *EndFact
	// ActiveJobs: Jobs of its hooks have not ended, or those of its failure cannot be created yet. They end with the object.
	ActiveJobs bool
}

// EndFact is the combined answer of the hooks of the end of a preview.
type EndFact struct {
	// Since is the time of the End that they answer.
	Since time.Time
	// Done: none of them is called any more. Failed: one failed.
	Done, Failed bool
	// Message says more.
	Message string
}

// VerdictPhase is the result of the measurements of a step.
type VerdictPhase string

// The phases of a result.
const (
	VerdictRunning      VerdictPhase = "Running"
	VerdictPassed       VerdictPhase = "Passed"
	VerdictFailed       VerdictPhase = "Failed"
	VerdictInconclusive VerdictPhase = "Inconclusive"
	VerdictNoTraffic    VerdictPhase = "NoTraffic"
)

// Verdict of the measurements of a step. Failed applies to the whole rollout; any other phase
// applies only to the step and the wait in which it was measured.
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

// GateFact is the combined answer of the hooks of one point.
type GateFact struct {
	// Rollout is the rollout's Sequence, Step the Step in which it waits.
	Rollout int64
	Step    int
	Point   Point
	// Since is the rollout's GateTime that they answer.
	Since time.Time
	// Open: all hooks agree. Failed: one refused permanently, and the rollout ends.
	Open, Failed bool
	// Unanswered: a hook whose refusal would fail the release was asked, and did not answer.
	Unanswered bool
	// Message says more.
	Message string
}

// RollbackFact is the request of a hook to roll back.
type RollbackFact struct {
	// Rollout is the Sequence of the rollout that it is about.
	Rollout int64
	// Message reports why.
	Message string
}

// ok reports whether the release has all its replicas available.
func (c Object) ok() bool { return c.has(c.Replicas) && c.Replicas > 0 }

// has reports whether at least n replicas are known to be available.
func (c Object) has(n int) bool { return !c.Terminating && !c.Unsettled && c.Available >= n }

// Action is what a user decides.
type Action string

// The actions of a decision (rule 21).
const (
	Continue  Action = "Continue"
	Adopt     Action = "Adopt"
	Deprecate Action = "Deprecate"
	Retry     Action = "Retry"
)

// Decision is a user's decision about a release.
type Decision struct {
	Action Action
	ID     string
	Step   string
	By     string
	// Groups that the user is a member of.
	Groups []string
}

// Policy is the report of a NetworkPolicy.
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
	// Revision of the routes that was accepted; 0 if there was none yet.
	Revision int64
	// Confirmed is when Revision, with these references, was confirmed.
	Confirmed time.Time
	// References are the names of all releases that any written object refers to.
	References []string
	// Withheld releases have a weight but get no traffic, because they have no ready endpoint.
	Withheld []string
	// Pinned releases are named by a domain with a version.
	Pinned []string
	// Active is the release that the group's Service selects.
	Active string
	// Newest: domains of the policy that route to the newest group route to this one.
	Newest bool
	// CanaryDomains: the group has canary domains, and Canary is the release to which all of them
	// route, as accepted by the gateway.
	CanaryDomains bool
	Canary        string
	// Unrouted: no route of the group is programmed any more. Revision stays: it describes the required
	// routes, and the releases that it removed from them are still out of them.
	Unrouted bool
	// Reason and Message if the revision is not confirmed.
	Reason, Message string

	policy string
	// unreported: the policy has not reported this group yet.
	unreported bool
}

// Previews bound the groups that are pull requests.
type Previews struct {
	// MaxGroups that run at a time; at least 1.
	MaxGroups int
	// MaxAge since the last push; 0 for no limit.
	MaxAge time.Duration
	// KeepAfterClose is how long a group stays after its pull request was closed.
	KeepAfterClose time.Duration
}

// Peer is another Microservice whose releases are rolled out together with those of this one.
type Peer struct {
	// Name of the Microservice.
	Name string
	// Groups of its rollout state.
	Groups []Group
}
