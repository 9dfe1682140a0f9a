package release

import (
	"time"

	"github.com/heighliner/heighliner/internal/frozen"
)

// Observed is, together with the time, the input to a plan.
type Observed struct {
	// Spec contains the facts of the Microservice's specification.
	Spec Spec
	// Config is the hash of the current pod template. Config is empty if the template is not usable. In
	// that case there are no candidates.
	Config string
	// SourceStale reports whether Candidates belong to an older specification of the ImagePolicy. In that case
	// no candidate starts.
	SourceStale bool
	// PullRequests reports whether the groups belong to pull requests. A pin may select a pull request that is not open yet.
	PullRequests bool
	// Candidates are the versions that are offered now, in any order.
	Candidates []Candidate
	// Withdrawn are the versions that are proven to be withdrawn. A version that is merely missing from Candidates
	// is unknown, not withdrawn (rule 4).
	Withdrawn []Withdrawal
	// Objects are the existing objects of the releases.
	Objects []Object
	// Policies are the NetworkPolicies that reference the Microservice, with their reports.
	Policies []Policy
	// Peers are the other Microservices whose releases are rolled out together with the releases of this Microservice.
	Peers []Peer
	// State is the persisted rollout state.
	State State
	// Began is when this manager started to observe. Reports might not yet show changes that were made
	// shortly before that time. Zero means that the manager has always been observing.
	Began time.Time
}

// Spec contains the facts of a Microservice's specification, with all defaults.
type Spec struct {
	// Paused keeps releases from starting automatically (rule 22).
	Paused bool
	// Freeze is the freeze that applies to the Microservice now, or nil (rule 45).
	Freeze *Freeze
	// Replicas is the number of replicas of a release that is serving or is about to serve. The minimum
	// is 1.
	Replicas int
	// Standby is the number of replicas of a retained release. StandbyFull overrides it.
	Standby int
	// StandbyFull keeps retained releases at full size.
	StandbyFull bool
	// MinimumAvailable is the number of retained releases, including the active release. The minimum is 1.
	MinimumAvailable int
	// Deadline is the time within which a release must become available, and within which a step must become healthy.
	Deadline time.Duration
	// Drain is the time between the removal of a release from the last route and the removal of its pods.
	Drain time.Duration
	// Steps are the steps of a canary. Without steps, a release is promoted as soon as it is available.
	Steps []Step
	// Pins select versions or releases for groups.
	Pins []Pin
	// Ended lists the groups that a user ends on purpose. Each entry is the name, slug or pull request number
	// of a group. These groups are drained. They start again when they are removed from this list.
	Ended []string
	// Previews limits the groups that belong to pull requests.
	Previews Previews
	// Analysis reports whether measurements must pass in each step in which the canary can get traffic.
	Analysis bool
	// Gates are the points in a rollout, in addition to ConfirmTrafficIncrease, at which hooks
	// must approve. ConfirmRollout and PreRollout also apply to the first release of a group.
	Gates []Point
	// FailureJobs reports whether a Job is created when a release fails. Previews never get such a Job.
	FailureJobs bool
	// GateJobs reports whether Jobs provide answers at gates. These Jobs start when the controller of the release observes that
	// the rollout is waiting at the gate.
	GateJobs bool
	// PreviewGates are the points (ConfirmRollout, PreRollout or both) at which hooks must approve a
	// preview.
	PreviewGates []Point
	// EndHooks reports whether hooks are called when a preview ends and its pods are gone.
	EndHooks bool
	// RollBack reports whether a canary is rolled back when its version fails in a peer. Otherwise the canary waits.
	RollBack bool
	// MatchWeight reports whether a canary gets only as many replicas as its next weight needs. Otherwise
	// it gets all replicas from the start.
	MatchWeight bool
	// Autoscaled reports whether each release that serves has an autoscaler whose minimum is the number of replicas of the release.
	Autoscaled bool
	// SplitBy determines how work is split between the active release and a canary.
	SplitBy SplitBy
	// Exclusive reports whether at most one release of a group has pods (rule 47), regardless of
	// SplitBy.
	Exclusive bool
}

// Freeze prevents releases that were never active from starting and from getting more traffic. Changes
// that remove traffic from a release, or that return traffic to a previously active release, continue.
type Freeze struct {
	// Name is the kind and name of the object that defines the freeze, for messages.
	Name string
	// Until is the end of the freeze. Zero means that the freeze has no end.
	Until time.Time
	// Reason is the reason that the user gave.
	Reason string
}

// String describes the freeze for messages.
func (f Freeze) String() string { return frozen.Freeze(f.Until, f.Name, f.Reason) }

// wait returns a wait for the end of the freeze. clause describes what is waiting.
func (f Freeze) wait(clause string) frozen.Wait {
	return frozen.Wait{Clause: clause, Freeze: f.String()}
}

// over reports whether a freeze has ended. For a nil freeze, over returns true.
func (f *Freeze) over(now time.Time) bool {
	return f == nil || !f.Until.IsZero() && !now.Before(f.Until)
}

// Point is a point in a rollout at which hooks are called.
type Point string

// The points in a rollout. Hooks of other types are called, but the rollout does not wait for them.
const (
	// ConfirmRollout is the point before the release gets its pods.
	ConfirmRollout Point = "ConfirmRollout"
	// PreRollout is the point before the first step.
	PreRollout Point = "PreRollout"
	// ConfirmTrafficIncrease is the point before a step that gives the canary more traffic
	// than it has.
	ConfirmTrafficIncrease Point = "ConfirmTrafficIncrease"
	// ConfirmPromotion is the point before the release becomes active.
	ConfirmPromotion Point = "ConfirmPromotion"
)

// Step is a step of a canary.
type Step struct {
	// Name is the name of the step. Users can also refer to a step by its number, counted from 1.
	Name string
	// Weight is the weight of the canary, in percent.
	Weight int
	// Pause is how long the step waits while healthy. 0 means no pause.
	Pause time.Duration
	// Approval makes the step wait for the Continue decision. Approvers is the number of different users who
	// must make this decision (0 means one user). If ApproversFrom is not empty, each of these users must be
	// a member of at least one of the groups that it lists.
	Approval      bool
	Approvers     int
	ApproversFrom []string
	// Match reports whether the canary gets the requests that a policy's matches select.
	Match bool
	// Mirror is the percentage of requests that are copied to the canary.
	Mirror int
	// Confirm calls the ConfirmTrafficIncrease hooks before this step if the step gives
	// the canary more traffic than it has.
	Confirm bool
	// Window is the time window in which the step may begin. For the last step, it is also the window in which
	// the release may become active. nil means at any time.
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
	// Next is when Open changes. Zero means never.
	Next time.Time
}

// Pin selects a version or a release for groups.
type Pin struct {
	// Field is the field of the specification that contains the pin.
	Field string
	// Group is the name, slug or pull request number of the group. If Group is empty, the pin applies to every group that has the version
	// or the release.
	Group string
	// Global reports whether the pin keeps releases of all groups from starting while no group has the version or the
	// release (rule 15).
	Global bool
	// Version is the version to run. Version is empty if Release is set.
	Version string
	// Release is the name of the release to run. The release keeps the configuration that it had.
	Release string
	// Current selects the current template instead of the retained template.
	Current bool
	// Expire is when the pin ends. Zero means never.
	Expire time.Time
	// Reason is the reason that the user gave.
	Reason string
	// By is the user who set the pin. By is empty if the user is not known.
	By string
}

// Candidate is an offered version.
type Candidate struct {
	// Slug, Name and Level belong to the group.
	Slug, Name, Level string
	// PullRequest is the number of the group's pull request. 0 means that the group is not a preview.
	PullRequest int64
	// Version is the offered version. For a pull request, it is the head commit.
	Version string
	// Time is when the version was published or pushed. Zero means unknown.
	Time time.Time
	// Release is the name of the release, derived from the candidate's identity and the current
	// template.
	Release string
}

// WithdrawReason is the reason why a version is withdrawn.
type WithdrawReason string

// The reasons why a version is withdrawn.
const (
	Denied   WithdrawReason = "Denied"
	Excluded WithdrawReason = "Excluded"
	Gone     WithdrawReason = "Gone"
	Closed   WithdrawReason = "Closed"
)

// Withdrawal is the withdrawal of a version or, if Version is empty, of a whole group.
type Withdrawal struct {
	Slug, Version string
	Reason        WithdrawReason
	// Time is the start of the Spec.Previews.KeepAfterClose period.
	Time time.Time
}

// Object is the observed VersionedMicroservice of a release.
type Object struct {
	// Release is the name of the release.
	Release string
	// Slug, Name and Level belong to the group, and Version to the release.
	Slug, Name, Level, Version string
	// PullRequest is the number of the group's pull request. 0 means that the group is not a preview.
	PullRequest int64
	// Config is the hash of the template from which the release was created.
	Config string
	// Created is the creation time of the object.
	Created time.Time
	// Terminating reports whether the object is being deleted. Such an object counts as neither present nor absent (rule 8).
	Terminating bool
	// Refused reports whether the API server rejects changes to the object. The object then remains unchanged, gets no stamp,
	// and is not revived. Only the release of this object waits until the API server accepts changes again.
	Refused bool
	// Stamp is the sequence number of the rollout state for which the object was created or revived
	// (rule 2).
	Stamp int64
	// NeverActive reports whether the object is marked as belonging to a release in
	// [Result.NeverActive].
	NeverActive bool
	// Reported is the latest status that was copied from the rollout state to the object, or empty if there is none yet.
	// Reported may be older than the rollout state. Reported is used only if the rollout state is lost, and for hook Jobs.
	Reported Status
	// Replicas is the number of replicas in the specification of the object.
	Replicas int
	// Available is the number of available replicas, as last reported.
	Available int
	// Unsettled reports whether the status belongs to an older generation. Such a status does not describe the current specification.
	Unsettled bool
	// Failure is the reason why the release is not available. Failure is empty if the reason is not known.
	Failure Reason
	// Message describes the failure.
	Message string
	// Decision is a user's decision about the release.
	Decision *Decision
	// Current is the number of replicas that the workload should have now. It is above Replicas if an
	// autoscaler wants more, and 0 if it is not known.
	Current int
	// Analysis is the latest result of the release's measurements.
	Analysis *Verdict
	// Gates are the answers of hooks.
	Gates []GateFact
	// Rollback is a hook's request to roll back.
	Rollback *RollbackFact
	// End is the combined answer of the hooks that are called at the end of the preview.
	End *EndFact
	// ActiveJobs reports whether any hook Job has not ended, or whether any Job that should run after a failure
	// cannot be created yet. The deletion of the object terminates its Jobs.
	ActiveJobs bool
	// GateJobs reports whether any gate Job, such as a migration, has not ended.
	GateJobs bool
	// UncreatedJob is the name of a hook whose Job should run after a failure, but was rejected by the API server. It
	// is empty if there is no such hook.
	UncreatedJob string
}

// EndFact is the combined answer of the hooks that are called at the end of a preview.
type EndFact struct {
	// Since identifies the wait that the hooks responded to: it is the Time of the group's End.
	Since time.Time
	// Done reports whether the calls to all hooks are complete. Failed reports whether a hook failed.
	Done, Failed bool
	// Message contains details.
	Message string
}

// VerdictPhase is the result of the measurements in a step.
type VerdictPhase string

// The phases of the result of a step's measurements.
const (
	VerdictRunning      VerdictPhase = "Running"
	VerdictPassed       VerdictPhase = "Passed"
	VerdictFailed       VerdictPhase = "Failed"
	VerdictInconclusive VerdictPhase = "Inconclusive"
	VerdictNoTraffic    VerdictPhase = "NoTraffic"
)

// Verdict is the result of the measurements in a step. Failed applies to the whole rollout. Any other phase
// applies only to the measured step and wait.
type Verdict struct {
	// Rollout is the Sequence of the rollout, and Step is its Step.
	Rollout int64
	Step    int
	// Since identifies the measured wait: it is the WaitingSince of the rollout.
	Since time.Time
	Phase VerdictPhase
	// Message contains details.
	Message string
}

// GateFact is the combined answer of the hooks at one point.
type GateFact struct {
	// Rollout is the Sequence of the rollout, and Step is the Step in which the rollout is waiting.
	Rollout int64
	Step    int
	Point   Point
	// Since identifies the gate that the hooks responded to: it is the GateTime of the rollout.
	Since time.Time
	// Open reports whether all hooks approve. Failed reports whether a hook rejected the release permanently. Such a rejection ends
	// the rollout.
	Open, Failed bool
	// Unanswered reports whether a hook whose negative response would fail the release was called and has not
	// responded.
	Unanswered bool
	// Message contains details.
	Message string
}

// RollbackFact is a hook's request to roll back.
type RollbackFact struct {
	// Rollout is the Sequence of the rollout to which the request applies.
	Rollout int64
	// Message is the reason for the request.
	Message string
}

// ok reports whether the release has replicas, and all of them are available.
func (c Object) ok() bool { return c.has(c.Replicas) && c.Replicas > 0 }

// has reports whether at least n replicas are known to be available.
func (c Object) has(n int) bool { return !c.Terminating && !c.Unsettled && c.Available >= n }

// Action is the action that a user decides on.
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
	// Groups are the groups of which the user is a member.
	Groups []string
}

// Policy contains the reports of a NetworkPolicy.
type Policy struct {
	Name   string
	Groups []Report
	// Unreported reports whether the policy has no status. This is the case if the policy was just created, or has lost its status. Its
	// objects may refer to any release.
	Unreported bool
}

// Report is a policy's report about a group.
type Report struct {
	// Slug is the slug of the group.
	Slug string
	// Revision is the accepted revision of the routes. 0 means that no revision has been accepted yet.
	Revision int64
	// Confirmed is when Revision, or the latest change to References, was confirmed.
	Confirmed time.Time
	// References are the names of all releases to which any object that was written for the policy refers.
	References []string
	// Withheld are the releases that have a weight but get no traffic, because they have no ready endpoint.
	Withheld []string
	// Pinned are the releases that a domain, listener or routeRef selects by version.
	Pinned []string
	// Active is the release that the group's Service selects.
	Active string
	// Newest reports whether this is the group to which the newest domains of the policy route.
	Newest bool
	// CanaryDomains reports whether the group has canary domains. Canary is the release to which all of them
	// route, as accepted by the gateway.
	CanaryDomains bool
	Canary        string
	// Unrouted reports whether the group no longer has a programmed route. Revision then keeps its value,
	// because it describes the required routes, and because the releases that were removed from the routes up to this
	// revision are still not in any route.
	Unrouted bool
	// Reason and Message describe why the revision is not confirmed. They are empty if it is confirmed.
	Reason, Message string

	policy string
	// unreported reports whether the policy has not reported this group yet.
	unreported bool
}

// Previews contains the limits for the groups that belong to pull requests.
type Previews struct {
	// MaxGroups is the maximum number of these groups that may run at a time. The minimum is 1.
	MaxGroups int
	// MaxAge is the maximum time since the last push. 0 means no limit.
	MaxAge time.Duration
	// KeepAfterClose is how long a group is kept after its pull request is closed.
	KeepAfterClose time.Duration
}

// Peer is another Microservice whose releases are rolled out together with the releases of this Microservice.
type Peer struct {
	// Name is the name of the Microservice.
	Name string
	// Groups are the groups in the rollout state of that Microservice.
	Groups []Group
}
