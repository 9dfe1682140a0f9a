package release

import (
	"fmt"
	"slices"
	"time"
)

// Reason is a CamelCase word that identifies a decision or a wait.
type Reason string

// Reasons for notes, for the status of releases and for targets, and reasons why a rollout is waiting. Other reasons
// come from status.failure of a VersionedMicroservice.
const (
	// Reasons for the target of a group, or for the lack of a target.
	Latest               Reason = "Latest"
	Pinned               Reason = "Pinned"
	Held                 Reason = "Held"
	FinishFirst          Reason = "FinishFirst"
	PinnedVersionMissing Reason = "PinnedVersionMissing"
	PinnedReleaseFailed  Reason = "PinnedReleaseFailed"
	// PinsConflict means that two pins that name the same group select different releases. None of the group's
	// releases starts.
	PinsConflict Reason = "PinsConflict"
	PinExpired   Reason = "PinExpired"
	// NoSlot means that a preview has none of the Spec.Previews.MaxGroups slots. The preview starts when a slot
	// becomes free.
	NoSlot Reason = "NoSlot"
	// NothingToStart means that a preview has no release, because its head commit is denied or gone.
	NothingToStart Reason = "NothingToStart"
	// MaxAge means that the last push to a preview was too long ago. Only another head commit starts the preview again.
	MaxAge Reason = "MaxAge"

	// Reasons why a release is waiting.
	Paused Reason = "Paused"
	// Frozen means that a Freeze keeps a release from starting or from getting more traffic.
	Frozen           Reason = "Frozen"
	Waiting          Reason = "Waiting"
	Terminating      Reason = "Terminating"
	AwaitingApproval Reason = "AwaitingApproval"
	// AwaitingEnd means that a preview has ended, and that its PostPreview hooks have not responded yet.
	AwaitingEnd Reason = "AwaitingPostPreview"
	// AwaitingJobs means that a group is ending, and that its releases have hook Jobs that have not ended yet.
	AwaitingJobs     Reason = "AwaitingJobs"
	AwaitingGate     Reason = "AwaitingGate"
	AwaitingGroup    Reason = "AwaitingGroup"
	AwaitingTogether Reason = "AwaitingTogether"
	AwaitingTurn     Reason = "AwaitingTurn"
	AwaitingWindow   Reason = "AwaitingWindow"
	AnalysisRunning  Reason = "AnalysisRunning"
	// Unhealthy means that a rollout is not healthy, but has not exceeded its deadline.
	Unhealthy Reason = "Unhealthy"
	// Blocked means that a rollout is blocked by a problem outside its release.
	Blocked              Reason = "Blocked"
	AnalysisInconclusive Reason = "AnalysisInconclusive"
	AnalysisNoTraffic    Reason = "AnalysisNoTraffic"
	TogetherHeld         Reason = "TogetherHeld"
	OnlyServing          Reason = "OnlyServing"

	// Problems with traffic, or with the rollout state.

	// TrafficLost means that a canary had traffic and no longer has a NetworkPolicy. The canary
	// waits indefinitely for a NetworkPolicy, and is not measured. Its clock is stopped.
	TrafficLost         Reason = "TrafficLost"
	TrafficUnconfirmed  Reason = "TrafficUnconfirmed"
	PolicyNotProgrammed Reason = "PolicyNotProgrammed"
	// DeniedServes means that the version of a release is denied, but that the release has traffic
	// because no other release can get this traffic.
	DeniedServes      Reason = "DeniedServes"
	OrphanReferenced  Reason = "OrphanReferenced"
	FailuresForgotten Reason = "FailuresForgotten"
	TooManyReleases   Reason = "TooManyReleases"
	TooManyGroups     Reason = "TooManyGroups"
	GroupExcluded     Reason = "GroupExcluded"
	OlderGroup        Reason = "OlderGroup"

	// Reasons for the status of a release, and for events about a release.
	Started              Reason = "Started"
	StepBegan            Reason = "Step"
	StepsEdited          Reason = "StepsEdited"
	First                Reason = "First"
	RolledBack           Reason = "RolledBack"
	Adopted              Reason = "Adopted"
	Promoted             Reason = "Promoted"
	Replaced             Reason = "Replaced"
	Rebuilt              Reason = "Rebuilt"
	ActiveLost           Reason = "ActiveLost"
	Superseded           Reason = "Superseded"
	Aborted              Reason = "Aborted"
	Retried              Reason = "Retried"
	RetriedAutomatically Reason = "RetriedAutomatically"
	Retrying             Reason = "Retry"
	// leftover means that the rule "Record referenced releases" added the row of the release.
	leftover          Reason = "Leftover"
	ReleaseFailed     Reason = "ReleaseFailed"
	HookFailed        Reason = "HookFailed"
	AnalysisFailed    Reason = "AnalysisFailed"
	RollbackRequested Reason = "RollbackRequested"
	// togetherFailed means that a release is rolled back because a release of another Microservice failed.
	togetherFailed   Reason = "TogetherFailed"
	TrafficGivenBack Reason = "TrafficGivenBack"
	Unblocked        Reason = "Unblocked"
	Removed          Reason = "Removed"
	DecisionTaken    Reason = "DecisionApplied"

	// Reasons for events about a group. Closed and Excluded are also reasons for withdrawals.
	GroupClosed   Reason = "Closed"
	GroupEnded    Reason = "Ended"
	GroupOut      Reason = "Excluded"
	GroupExpired  Reason = "Expired"
	GroupReopened Reason = "Reopened"
	// EndFailed means that a hook that is called at the end of a preview failed, or can no longer be called.
	EndFailed Reason = "PostPreviewFailed"

	// Causes of an unhealthy rollout, in addition to status.failure of its release.
	progressDeadlineExceeded Reason = "ProgressDeadlineExceeded"
	availabilityLost         Reason = "AvailabilityLost"
	// notProgrammed means that the weight of a rollout, or the previous traffic change, is not
	// confirmed.
	notProgrammed Reason = "TrafficNotProgrammed"
	// otherRunning means that, in an exclusive group, the release of a rollout is waiting until the
	// pods of another release are gone.
	otherRunning Reason = "OtherReleaseRunning"
	// notCreated means that the release of a rollout has no object, or an object with too few
	// replicas, because the API server rejects the write.
	notCreated Reason = "NotCreated"
	// noDomains means that the PreRollout hooks of a rollout are not called, because the canary
	// domains do not route to its release.
	noDomains Reason = "CanaryDomainsNotProgrammed"
	// noAnswer means that the receiver of a PreRollout hook does not respond. Without a response, the hook neither
	// approves nor rejects the release.
	noAnswer Reason = "HookUnanswered"
)

// Condition is the type of a Microservice condition. A note about an ongoing state sets its condition to true.
type Condition string

// The conditions that notes about ongoing states set. The reason of the note becomes the reason of the condition.
const (
	// ConditionPinned is true while there are pins. The reason Pinned means that all pins are
	// effective.
	ConditionPinned Condition = "Pinned"
	// ConditionBlocked is true while a version does not start or advance, and waiting alone does
	// not resolve the problem.
	ConditionBlocked Condition = "Blocked"
	// ConditionFrozen is true while a freeze prevents a version from starting or from getting more traffic.
	ConditionFrozen Condition = "Frozen"
	// ConditionAnalysisInconclusive is true while the measurements of a step are not conclusive.
	ConditionAnalysisInconclusive Condition = "AnalysisInconclusive"
	// ConditionReleaseFailed is true while the status lists failed versions.
	ConditionReleaseFailed Condition = "ReleaseFailed"
	// ConditionTrafficDegraded is true while traffic does not follow the weights, or while it is not known
	// whether traffic follows them.
	ConditionTrafficDegraded Condition = "TrafficDegraded"
)

// Conditions maps each condition to the reasons of the notes that set it, the most severe reason first.
var Conditions = map[Condition][]Reason{
	ConditionPinned:               {PinnedVersionMissing, PinsConflict, PinnedReleaseFailed, Pinned},
	ConditionBlocked:              {Blocked, TogetherHeld, OnlyServing, TooManyReleases, TooManyGroups, GroupExcluded, FinishFirst},
	ConditionFrozen:               {Frozen},
	ConditionAnalysisInconclusive: {AnalysisInconclusive, AnalysisNoTraffic},
	ConditionReleaseFailed:        {FailuresForgotten},
	ConditionTrafficDegraded:      {TrafficLost, DeniedServes, TrafficUnconfirmed, PolicyNotProgrammed, OrphanReferenced},
}

// Condition returns the condition that a note sets, or an empty string.
func (n Note) Condition() Condition {
	if n.Event {
		return ""
	}
	for c, reasons := range Conditions {
		if slices.Contains(reasons, n.Reason) {
			return c
		}
	}
	return ""
}

// Note is the reason for a decision, or a state that users should know about.
type Note struct {
	Slug, Release, Version string
	Reason                 Reason
	Message                string
	// Event reports whether the note is about something that happened in this plan. Otherwise, the note is about an ongoing state.
	Event bool
	// Warning reports whether a user may have to do something.
	Warning bool
}

// wait describes why a release or a group is waiting. Functions without side effects return a wait, and the rule
// that calls them records it. nil means that there is no wait.
type wait struct {
	// Release and Version identify the release that is waiting. They are empty if the whole group is
	// waiting.
	Release, Version string
	// Reason and Message describe the state for users. They are empty if there is nothing to report.
	Reason  Reason
	Message string
	// Warning reports whether a user may have to do something.
	Warning bool
	// Until is when to plan again. Zero means that the next plan is made only when something changes.
	Until time.Time
}

// newWait describes why a release is waiting, or why the whole group is waiting if r is nil.
func newWait(r *Row, warning bool, reason Reason, format string, args ...any) *wait {
	w := &wait{Reason: reason, Warning: warning, Message: fmt.Sprintf(format, args...)}
	if r != nil {
		w.Release, w.Version = r.Release, r.Version
	}
	return w
}

// record adds notes about waits, and requests another plan for the time at which each wait ends.
func (s *scope) record(ws ...*wait) {
	for _, w := range ws {
		if w == nil {
			continue
		}
		s.requeueAt(w.Until)
		if w.Reason != "" {
			s.note(Note{Slug: s.g.Slug, Release: w.Release, Version: w.Version, Warning: w.Warning, Reason: w.Reason, Message: w.Message})
		}
	}
}

// stateOf returns a note about an ongoing state.
func (s *scope) stateOf(r *Row, warning bool, reason Reason, message string) Note {
	n := Note{Slug: s.g.Slug, Reason: reason, Message: message, Warning: warning}
	if r != nil {
		n.Release, n.Version = r.Release, r.Version
	}
	return n
}

// state adds a note about an ongoing state.
func (s *scope) state(r *Row, warning bool, reason Reason, message string) {
	s.note(s.stateOf(r, warning, reason, message))
}

// event adds a note about an event of a release, or of the whole group if r is nil.
func (s *scope) event(r *Row, warning bool, reason Reason, message string) {
	n := Note{Slug: s.g.Slug, Reason: reason, Message: message, Event: true, Warning: warning}
	if r != nil {
		n.Release, n.Version = r.Release, r.Version
	}
	s.note(n)
}

func (b *planner) note(n Note) { b.notes = append(b.notes, n) }

// requeueAt requests another plan at t.
func (b *planner) requeueAt(t time.Time) {
	if t.After(b.now) && (b.requeue.IsZero() || t.Before(b.requeue)) {
		b.requeue = t
	}
}
