package release

import (
	"fmt"
	"slices"
	"time"
)

// Reason is one CamelCase word: why something was decided, or what it waits for.
type Reason string

// Reasons of notes, of releases, of targets, and of what a rollout waits for. What is
// not here comes from status.failure of a VersionedMicroservice.
const (
	// The target of a group, and what keeps it from one.
	Latest               Reason = "Latest"
	Pinned               Reason = "Pinned"
	Held                 Reason = "Held"
	FinishFirst          Reason = "FinishFirst"
	PinnedVersionMissing Reason = "PinnedVersionMissing"
	PinnedReleaseFailed  Reason = "PinnedReleaseFailed"
	// PinsConflict is the reason of a group that two pins by name pin to different
	// releases: nothing of it starts.
	PinsConflict Reason = "PinsConflict"
	PinExpired   Reason = "PinExpired"
	// NoSlot: there is no slot for the preview among Spec.Previews.MaxGroups. It starts
	// when one comes free.
	NoSlot Reason = "NoSlot"
	// MaxAge: the last push is too long ago. Only another head commit starts it again.
	MaxAge Reason = "MaxAge"

	// What a release waits for.
	Paused Reason = "Paused"
	// Frozen is the reason of what a Freeze keeps from starting or from more traffic.
	Frozen           Reason = "Frozen"
	Waiting          Reason = "Waiting"
	Terminating      Reason = "Terminating"
	AwaitingApproval Reason = "AwaitingApproval"
	AwaitingGate     Reason = "AwaitingGate"
	AwaitingGroup    Reason = "AwaitingGroup"
	AwaitingTogether Reason = "AwaitingTogether"
	AwaitingTurn     Reason = "AwaitingTurn"
	AwaitingWindow   Reason = "AwaitingWindow"
	AnalysisRunning  Reason = "AnalysisRunning"
	// Blocked is the reason of a rollout that waits for a cause outside of its release.
	Blocked              Reason = "Blocked"
	AnalysisInconclusive Reason = "AnalysisInconclusive"
	AnalysisNoTraffic    Reason = "AnalysisNoTraffic"
	TogetherHeld         Reason = "TogetherHeld"
	OnlyServing          Reason = "OnlyServing"

	// Problems with traffic, or with the record.
	// TrafficLost is the reason of a canary that had traffic and no longer has a NetworkPolicy:
	// it waits for one without limit, is not measured, and its clock is stopped.
	TrafficLost         Reason = "TrafficLost"
	TrafficUnconfirmed  Reason = "TrafficUnconfirmed"
	PolicyNotProgrammed Reason = "PolicyNotProgrammed"
	// DeniedServes is the reason of a release whose version is denied, and that has traffic
	// because there is nothing else to give it to.
	DeniedServes      Reason = "DeniedServes"
	OrphanReferenced  Reason = "OrphanReferenced"
	FailuresForgotten Reason = "FailuresForgotten"
	TooManyReleases   Reason = "TooManyReleases"
	TooManyGroups     Reason = "TooManyGroups"
	GroupExcluded     Reason = "GroupExcluded"
	OlderGroup        Reason = "OlderGroup"

	// Why a release has its status, and what happened to it.
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
	// leftover is the reason of a row that leftovers made.
	leftover          Reason = "Leftover"
	ReleaseFailed     Reason = "ReleaseFailed"
	HookFailed        Reason = "HookFailed"
	AnalysisFailed    Reason = "AnalysisFailed"
	RollbackRequested Reason = "RollbackRequested"
	// togetherFailed is the reason of a release that is rolled back because another failed.
	togetherFailed   Reason = "TogetherFailed"
	TrafficGivenBack Reason = "TrafficGivenBack"
	Unblocked        Reason = "Unblocked"
	Removed          Reason = "Removed"
	DecisionTaken    Reason = "DecisionApplied"

	// What happened to a group. Closed and Excluded are reasons of withdrawals too.
	GroupClosed   Reason = "Closed"
	GroupEnded    Reason = "Ended"
	GroupOut      Reason = "Excluded"
	GroupExpired  Reason = "Expired"
	GroupReopened Reason = "Reopened"

	// Causes of a rollout that is not healthy, in addition to status.failure of its release.
	progressDeadlineExceeded Reason = "ProgressDeadlineExceeded"
	availabilityLost         Reason = "AvailabilityLost"
	// notProgrammed is the cause of a run whose weight, or the change of traffic before it,
	// no policy confirms.
	notProgrammed Reason = "TrafficNotProgrammed"
	// notCreated is the cause of a run whose release has no object, or one that does not ask for
	// its pods, because the server refuses to create or change it.
	notCreated Reason = "NotCreated"
	// noDomains is the cause of a rollout about which no hook of PreRollout is asked, because
	// domains of the canary do not route to its release.
	noDomains Reason = "CanaryDomainsNotProgrammed"
	// noAnswer is the cause of a rollout at which no one answers a hook of PreRollout. Only what
	// its receiver says counts for or against a release.
	noAnswer Reason = "HookUnanswered"
)

// Condition is the type of a condition of a Microservice that stands while a state lasts.
type Condition string

// The conditions that states give rise to; the reason of the state is the reason of the
// condition.
const (
	// ConditionPinned: there are pins. With reason Pinned all of them hold.
	ConditionPinned Condition = "Pinned"
	// ConditionBlocked: a version does not start or advance, and waiting alone does not change that.
	ConditionBlocked Condition = "Blocked"
	// ConditionFrozen: a freeze keeps a version from starting or from more traffic.
	ConditionFrozen Condition = "Frozen"
	// ConditionAnalysisInconclusive: the measurements of a step prove nothing.
	ConditionAnalysisInconclusive Condition = "AnalysisInconclusive"
	// ConditionReleaseFailed: versions failed.
	ConditionReleaseFailed Condition = "ReleaseFailed"
	// ConditionTrafficDegraded: traffic is not, or not known to be, as weights ask for.
	ConditionTrafficDegraded Condition = "TrafficDegraded"
)

// Conditions gives for each condition the reasons of the states that give rise to it, the
// gravest first.
var Conditions = map[Condition][]Reason{
	ConditionPinned:               {PinnedVersionMissing, PinsConflict, PinnedReleaseFailed, Pinned},
	ConditionBlocked:              {Blocked, TogetherHeld, OnlyServing, TooManyReleases, TooManyGroups, GroupExcluded, Superseded},
	ConditionFrozen:               {Frozen},
	ConditionAnalysisInconclusive: {AnalysisInconclusive, AnalysisNoTraffic},
	ConditionReleaseFailed:        {FailuresForgotten},
	ConditionTrafficDegraded:      {TrafficLost, DeniedServes, TrafficUnconfirmed, PolicyNotProgrammed, OrphanReferenced},
}

// Condition is the condition that a note gives rise to; "": none.
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

// Note is the reason of a decision, or a state that a person should know of.
type Note struct {
	Slug, Release, Version string
	Reason                 Reason
	Message                string
	// Event: this happened in this plan; else it is a state that lasts.
	Event bool
	// Warning: a user may have to do something.
	Warning bool
}

// wait is what something waits for: predicates return one, and the rule that meets it
// records it. nil: there is nothing to wait for.
type wait struct {
	// Release and Version that wait; "": the group as a whole.
	Release, Version string
	// Reason and Message of a state, for users; "": there is nothing to report.
	Reason  Reason
	Message string
	// Warning: a user may have to do something.
	Warning bool
	// Until is when to plan again; zero: when something changes.
	Until time.Time
}

// newWait gives the wait of a release.
func newWait(r *Row, warning bool, reason Reason, format string, args ...any) *wait {
	w := &wait{Reason: reason, Warning: warning, Message: fmt.Sprintf(format, args...)}
	if r != nil {
		w.Release, w.Version = r.Release, r.Version
	}
	return w
}

// record notes what is waited for, and when to plan again for it.
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

// stateOf is the note of something that lasts.
func (s *scope) stateOf(r *Row, warning bool, reason Reason, message string) Note {
	n := Note{Slug: s.g.Slug, Reason: reason, Message: message, Warning: warning}
	if r != nil {
		n.Release, n.Version = r.Release, r.Version
	}
	return n
}

// state notes something that lasts.
func (s *scope) state(r *Row, warning bool, reason Reason, message string) {
	s.note(s.stateOf(r, warning, reason, message))
}

// event notes something that happened to a release.
func (s *scope) event(r *Row, warning bool, reason Reason, message string) {
	n := Note{Slug: s.g.Slug, Reason: reason, Message: message, Event: true, Warning: warning}
	if r != nil {
		n.Release, n.Version = r.Release, r.Version
	}
	s.note(n)
}

func (b *planner) note(n Note) { b.notes = append(b.notes, n) }

// requeueAt asks for another plan at t.
func (b *planner) requeueAt(t time.Time) {
	if t.After(b.now) && (b.requeue.IsZero() || t.Before(b.requeue)) {
		b.requeue = t
	}
}
