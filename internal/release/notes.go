package release

import (
	"fmt"
	"slices"
	"time"
)

// Reason is a CamelCase word that identifies a decision or a wait.
type Reason string

// Reasons of notes, of releases, of targets, and of what a rollout waits for. Other reasons come
// from status.failure of a VersionedMicroservice.
const (
	// Why a group has its target, or has none.
	Latest               Reason = "Latest"
	Pinned               Reason = "Pinned"
	Held                 Reason = "Held"
	FinishFirst          Reason = "FinishFirst"
	PinnedVersionMissing Reason = "PinnedVersionMissing"
	PinnedReleaseFailed  Reason = "PinnedReleaseFailed"
	// PinsConflict is the reason of a group that two pins by name pin to different releases: none of
	// its releases starts.
	PinsConflict Reason = "PinsConflict"
	PinExpired   Reason = "PinExpired"
	// NoSlot: there is no slot for the preview among Spec.Previews.MaxGroups. It starts when a slot
	// becomes free.
	NoSlot Reason = "NoSlot"
	// NothingToStart is the reason of a preview without a release: its head commit is denied or gone.
	NothingToStart Reason = "NothingToStart"
	// MaxAge: the last push is too long ago. Only another head commit starts it again.
	MaxAge Reason = "MaxAge"

	// What a release waits for.
	Paused Reason = "Paused"
	// Frozen is the reason of a release that a Freeze keeps from starting or from getting more traffic.
	Frozen           Reason = "Frozen"
	Waiting          Reason = "Waiting"
	Terminating      Reason = "Terminating"
	AwaitingApproval Reason = "AwaitingApproval"
	// AwaitingEnd is the reason of a preview that has ended, and whose hooks have not responded.
	AwaitingEnd      Reason = "AwaitingPostPreview"
	AwaitingGate     Reason = "AwaitingGate"
	AwaitingGroup    Reason = "AwaitingGroup"
	AwaitingTogether Reason = "AwaitingTogether"
	AwaitingTurn     Reason = "AwaitingTurn"
	AwaitingWindow   Reason = "AwaitingWindow"
	AnalysisRunning  Reason = "AnalysisRunning"
	// Unhealthy is the reason of a rollout that is not healthy, and has not exceeded its deadline.
	Unhealthy Reason = "Unhealthy"
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
	// EndFailed: a hook of the end of a preview failed.
	EndFailed Reason = "PostPreviewFailed"

	// Causes of a rollout that is not healthy, in addition to status.failure of its release.
	progressDeadlineExceeded Reason = "ProgressDeadlineExceeded"
	availabilityLost         Reason = "AvailabilityLost"
	// notProgrammed is the cause of a rollout whose weight, or whose previous change of traffic, no
	// policy confirms.
	notProgrammed Reason = "TrafficNotProgrammed"
	// otherRunning is the cause of a rollout in an exclusive group whose release waits until the pods of
	// another release are gone.
	otherRunning Reason = "OtherReleaseRunning"
	// notCreated is the cause of a rollout whose release has no object, or an object without its
	// replicas, because the API server rejects the write.
	notCreated Reason = "NotCreated"
	// noDomains is the cause of a rollout whose PreRollout hooks are not asked, because the canary
	// domains do not route to its release.
	noDomains Reason = "CanaryDomainsNotProgrammed"
	// noAnswer is the cause of a rollout with a PreRollout hook whose receiver does not answer. Only an
	// answer counts for or against a release.
	noAnswer Reason = "HookUnanswered"
)

// Condition is the type of a condition of a Microservice that is true while a state lasts.
type Condition string

// The conditions that states set; the reason of the state is the reason of the condition.
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
	// ConditionTrafficDegraded: traffic does not follow the weights, or is not known to.
	ConditionTrafficDegraded Condition = "TrafficDegraded"
)

// Conditions maps each condition to the reasons of the states that set it, the most severe first.
var Conditions = map[Condition][]Reason{
	ConditionPinned:               {PinnedVersionMissing, PinsConflict, PinnedReleaseFailed, Pinned},
	ConditionBlocked:              {Blocked, TogetherHeld, OnlyServing, TooManyReleases, TooManyGroups, GroupExcluded, FinishFirst},
	ConditionFrozen:               {Frozen},
	ConditionAnalysisInconclusive: {AnalysisInconclusive, AnalysisNoTraffic},
	ConditionReleaseFailed:        {FailuresForgotten},
	ConditionTrafficDegraded:      {TrafficLost, DeniedServes, TrafficUnconfirmed, PolicyNotProgrammed, OrphanReferenced},
}

// Condition returns the condition that a note sets, or "".
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

// Note is the reason of a decision, or a state that users should know about.
type Note struct {
	Slug, Release, Version string
	Reason                 Reason
	Message                string
	// Event reports whether this happened in this plan; otherwise it is a state that lasts.
	Event bool
	// Warning: a user may have to do something.
	Warning bool
}

// wait describes what a release or group waits for: predicates return one, and the rule that
// evaluates them records it. nil means that there is nothing to wait for.
type wait struct {
	// Release and Version that wait; empty for the whole group.
	Release, Version string
	// Reason and Message of a state, for users; empty if there is nothing to report.
	Reason  Reason
	Message string
	// Warning: a user may have to do something.
	Warning bool
	// Until is when to plan again; zero: when something changes.
	Until time.Time
}

// newWait returns the wait of a release, or of the group if r is nil.
func newWait(r *Row, warning bool, reason Reason, format string, args ...any) *wait {
	w := &wait{Reason: reason, Warning: warning, Message: fmt.Sprintf(format, args...)}
	if r != nil {
		w.Release, w.Version = r.Release, r.Version
	}
	return w
}

// record notes waits, and when to plan again for them.
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

// stateOf returns the note of a state that lasts.
func (s *scope) stateOf(r *Row, warning bool, reason Reason, message string) Note {
	n := Note{Slug: s.g.Slug, Reason: reason, Message: message, Warning: warning}
	if r != nil {
		n.Release, n.Version = r.Release, r.Version
	}
	return n
}

// state notes a state that lasts.
func (s *scope) state(r *Row, warning bool, reason Reason, message string) {
	s.note(s.stateOf(r, warning, reason, message))
}

// event notes an event of a release.
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
