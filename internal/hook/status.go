package hook

import (
	"regexp"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/release"
)

// Outcome is the outcome of a delivery, including retries.
type Outcome struct {
	// Yes reports whether the answer has a status code from 200 to 204, or, for a Job, whether the Job
	// succeeded.
	Yes bool
	// Refused reports whether a gate responded with StatusRefused, or whether the Job of a gate failed or was
	// deleted.
	Refused bool
	// Unanswered reports whether there is no answer from the receiver. An error from a proxy or from an overloaded
	// receiver is not an answer.
	Unanswered bool
	// Running reports whether a Job has not ended yet or cannot be created yet. There is no answer in this
	// case.
	Running bool
	// Job is the name of the Job that gives the answer, and Log is the end of its log. Both are empty if there is no Job.
	Job, Log string
	// Attempts is the number of calls that were made in this process.
	Attempts int
	// Message is the first line of the answer, or the reason why there is no answer.
	Message string
	// Time is the time at which the last call ended.
	Time time.Time
	// Edited is the time at which the latest edit of the hook between two calls was observed. It is zero if no edit
	// was observed.
	Edited time.Time
}

// quiet is the minimum time between writes of the same result with different messages.
const quiet = time.Minute

// uncallable is the prefix of the message for a call that was not made because its address is not
// allowed.
const uncallable = "cannot be called: "

// Uncallable reports whether a hook was not called because its address is not allowed. Only a change to the hook or
// to the manager's flags can change that.
func Uncallable(s v1alpha1.HookStatus) bool { return strings.HasPrefix(s.Message, uncallable) }

// notCreated is the prefix of the message for a call whose Job the API server rejected.
const notCreated = "cannot create Job "

// Uncreated reports whether the API server rejected the Job of a hook.
func Uncreated(s v1alpha1.HookStatus) bool {
	return s.Phase == v1alpha1.HookWaiting && strings.HasPrefix(s.Message, notCreated)
}

// changing matches the parts of a connection error that differ from call to call: the local port, and the current time
// in the error for an expired certificate.
var changing = regexp.MustCompile(`[^ ]+->|\bcurrent time [^ ]+`)

// gist returns the part of a message that is the same for the same result: the status code, or the
// reason why there is no answer.
func gist(message string) string {
	if code, _, found := strings.Cut(message, ": "); found && (strings.HasPrefix(code, "HTTP ") || strings.HasPrefix(code, notCreated)) {
		return code
	}
	return changing.ReplaceAllString(message, "")
}

// Fold updates the status of a release's hooks with the outcomes of calls, which are keyed by the ID of the call. It
// removes the statuses of hooks that the specification no longer contains, of gates of an earlier attempt, and of
// unanswered calls that are no longer needed. However, the status of an unanswered gate of the current attempt remains
// while its Job is still running, and the status of an unanswered notification remains. All other statuses remain until
// the next call of their hooks.
func (p *Rollout) Fold(known []v1alpha1.HookStatus, questions []Call, outcomes map[string]Outcome, now time.Time) []v1alpha1.HookStatus {
	var out []v1alpha1.HookStatus
	for _, h := range p.hooks() {
		old := find(known, h.Name)
		if old != nil && old.Type != h.Type {
			old = nil
		}
		s := old
		if i := slices.IndexFunc(questions, func(q Call) bool { return q.Hook.Name == h.Name }); i >= 0 {
			s = present(old, &questions[i], outcomes, now)
		} else if old != nil && p.obsolete(old, known, outcomes) {
			s = nil
		}
		if s == nil {
			continue
		}
		if outcome, answered := outcomes[s.ID]; answered && !final(s) {
			out = append(out, answer(*s, outcome, now))
			continue
		}
		out = append(out, *s)
	}
	return out
}

// obsolete reports whether to remove the status of a hook that is not called now. known contains the statuses of
// all hooks.
func (p *Rollout) obsolete(s *v1alpha1.HookStatus, known []v1alpha1.HookStatus, outcomes map[string]Outcome) bool {
	if IsGate(s.Type) && p.ofEarlierAttempt(s, known) {
		return true
	}
	continues := IsGate(s.Type) && outcomes[s.ID].Job != ""
	return !final(s) && !message(s.Type) && !(s.Type == v1alpha1.HookRollout && p.Rollout != nil) && !continues
}

// ofEarlierAttempt reports whether the status of a gate belongs to an attempt before the current attempt. A release whose traffic was
// removed begins another rollout of the same attempt: the gates that the release has already passed count as passed until their hooks
// are called again. While a release is waiting for its retry, no gate counts as passed, except while a PostRollout hook, which may
// revert what a gate did, has not yet been called after the release failed.
func (p *Rollout) ofEarlierAttempt(s *v1alpha1.HookStatus, known []v1alpha1.HookStatus) bool {
	run := p.Rollout
	switch {
	case run == nil:
		reverts := slices.ContainsFunc(known, func(h v1alpha1.HookStatus) bool { return h.Type == v1alpha1.HookPostRollout && uncalled(&h) })
		return p.Row.Status == v1alpha1.ReleasePending && final(s) && !reverts
	case s.Run == run.Sequence:
		return false
	}
	begins := run.Gate == v1alpha1.GateConfirmRollout || p.Row.Reason == string(release.Started) || p.Row.Reason == string(release.RetriedAutomatically)
	return s.Phase != v1alpha1.HookOpen || begins || p.Row.Promoted > 0
}

// uncalled reports whether a call has not begun because it is waiting for another Job, or because the API server
// rejected its Job. The message shows what the call is waiting for. A call that has begun has a Job or, until the
// receiver responds, no message.
func uncalled(s *v1alpha1.HookStatus) bool { return !final(s) && s.Job == "" && s.Message != "" }

// SetPassed sets Passed in the calls. Passed lists the hooks that let the release pass a gate in the current or most
// recent rollout.
func SetPassed(calls []Call, known []v1alpha1.HookStatus) {
	passed := []string{}
	for _, s := range known {
		if IsGate(s.Type) && s.Phase == v1alpha1.HookOpen {
			passed = append(passed, s.Name)
		}
	}
	for i := range calls {
		calls[i].Body.Passed = passed
	}
}

// present returns the status of a hook for a call. It returns the previous status if that status is for this
// call, and otherwise a status without an answer. The status of a Rollout hook for a round of the analysis
// is written when the call has an outcome. Until then, the status of the previous round remains.
func present(old *v1alpha1.HookStatus, q *Call, outcomes map[string]Outcome, now time.Time) *v1alpha1.HookStatus {
	if old != nil && old.ID == q.Body.ID {
		return old
	}
	if _, answered := outcomes[q.Body.ID]; q.Hook.Type == v1alpha1.HookRollout && !answered {
		return old
	}
	at := metav1.NewMicroTime(now)
	return &v1alpha1.HookStatus{
		Name: q.Hook.Name, Type: q.Hook.Type, Run: q.Body.Run, Step: q.RunStep, Since: q.Since,
		ID: q.Body.ID, Phase: v1alpha1.HookWaiting, Time: &at,
	}
}

// answer updates a status with an outcome. The first answer after an edit of the hook is always recorded.
// An answer with the same result but a different message is recorded only if the time in quiet has passed
// since the status was last written, because each record requires a write.
func answer(s v1alpha1.HookStatus, o Outcome, now time.Time) v1alpha1.HookStatus {
	phase := phaseOf(s.Type, o)
	edited := s.Time != nil && o.Edited.After(s.Time.Time)
	recent := s.Time != nil && now.Sub(s.Time.Time) < quiet
	if s.Phase == phase && (s.Attempts > 0 || o.Running && s.Message != "") && s.Job == o.Job && !edited && (s.Message == o.Message || recent && gist(s.Message) == gist(o.Message)) {
		return s
	}
	at := metav1.NewMicroTime(now)
	s.Phase, s.Message, s.Attempts, s.Time, s.Job, s.Log = phase, o.Message, int32(o.Attempts), &at, o.Job, o.Log
	return s
}

// phaseOf returns the phase after an outcome.
func phaseOf(t v1alpha1.HookType, o Outcome) v1alpha1.HookPhase {
	switch {
	case o.Running:
		return v1alpha1.HookWaiting
	case o.Refused:
		return v1alpha1.HookFailed
	case o.Yes && (IsGate(t) || t == v1alpha1.HookRollback):
		return v1alpha1.HookOpen
	case o.Yes:
		return v1alpha1.HookDelivered
	case polled(t), checks(t) && o.Unanswered:
		return v1alpha1.HookWaiting
	}
	return v1alpha1.HookFailed
}

// Unanswered reports whether a check was called but did not answer, and is therefore called again.
func Unanswered(s v1alpha1.HookStatus) bool {
	return checks(s.Type) && s.Phase == v1alpha1.HookWaiting && s.Attempts > 0
}

// final reports whether a status is final, in which case the same call is not made again.
func final(s *v1alpha1.HookStatus) bool { return s.Phase != v1alpha1.HookWaiting }

// Waiting returns an outcome for each call that is still waiting to be made, keyed by the ID of the call.
func Waiting(questions []Call) map[string]Outcome {
	out := map[string]Outcome{}
	for _, q := range questions {
		if q.Wait != "" {
			out[q.Body.ID] = Outcome{Running: true, Message: line(q.Wait)}
		}
	}
	return out
}

// Due returns the calls that have no final answer and do not have to wait.
func Due(known []v1alpha1.HookStatus, questions []Call) []Call {
	var out []Call
	for _, q := range questions {
		if q.Wait != "" {
			continue
		}
		if s := find(known, q.Hook.Name); s == nil || s.ID != q.Body.ID || !final(s) {
			out = append(out, q)
		}
	}
	return out
}
