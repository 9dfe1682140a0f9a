package hook

import (
	"regexp"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// Outcome of a delivery, retries included.
type Outcome struct {
	// Yes is an answer of 200 to 204.
	Yes bool
	// Refused is an answer of StatusRefused to a gate that waits otherwise.
	Refused bool
	// Unanswered: no one answered for the receiver, which is no verdict about a release.
	Unanswered bool
	// Attempts to deliver, since this process began to.
	Attempts int
	// Message is the first line of the answer, or why there was none.
	Message string
	// Time at which the last call ended.
	Time time.Time
	// Edited is when the hook was last found to be another one than was called before;
	// zero: never.
	Edited time.Time
}

// quiet is how long the same no, worded differently, is not written.
const quiet = time.Minute

// uncallable begins the message of a call that was never made, because its address is
// refused.
const uncallable = "cannot be called: "

// Uncallable says that a hook was not called, because its address is refused: asking
// again helps only when the hook, or the manager's flags, change.
func Uncallable(s v1alpha1.HookStatus) bool { return strings.HasPrefix(s.Message, uncallable) }

// port of ours in an error of a connection, another one each time.
var port = regexp.MustCompile(`[^ ]+->`)

// gist is what an answer comes to without the words that differ each time: the code, or
// why there was none.
func gist(message string) string {
	if code, _, found := strings.Cut(message, ": "); found && strings.HasPrefix(code, "HTTP ") {
		return code
	}
	return port.ReplaceAllString(message, "")
}

// Fold gives the status of a release's hooks after what came of its questions, by
// id. Entries of hooks that the specification no longer has go, and so do questions
// that were never answered and are not asked any more; the others stay until the hook
// is asked something else.
func (p *Place) Fold(known []v1alpha1.HookStatus, questions []Question, outcomes map[string]Outcome, now time.Time) []v1alpha1.HookStatus {
	var out []v1alpha1.HookStatus
	for _, h := range p.hooks() {
		old := find(known, h.Name)
		if old != nil && old.Type != h.Type {
			old = nil
		}
		s := old
		if i := slices.IndexFunc(questions, func(q Question) bool { return q.Hook.Name == h.Name }); i >= 0 {
			s = present(old, &questions[i], outcomes, now)
		} else if old != nil && !final(old) && !message(h.Type) && !(h.Type == v1alpha1.HookRollout && p.Run != nil) {
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

// present is the status of a hook that is asked something: what it was, if that is
// about this question, else that nobody answered yet. A round is written when it is
// over, and until then the last one stands.
func present(old *v1alpha1.HookStatus, q *Question, outcomes map[string]Outcome, now time.Time) *v1alpha1.HookStatus {
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

// answer is a status after an outcome. The first answer after the hook was edited is
// always taken over. Another wording of the same no is, once in a while only: it would
// cost a write each time.
func answer(s v1alpha1.HookStatus, o Outcome, now time.Time) v1alpha1.HookStatus {
	phase := phaseOf(s.Type, o)
	edited := s.Time != nil && o.Edited.After(s.Time.Time)
	recent := s.Time != nil && now.Sub(s.Time.Time) < quiet
	if s.Phase == phase && s.Attempts > 0 && !edited && (s.Message == o.Message || recent && gist(s.Message) == gist(o.Message)) {
		return s
	}
	at := metav1.NewMicroTime(now)
	s.Phase, s.Message, s.Attempts, s.Time = phase, o.Message, int32(o.Attempts), &at
	return s
}

// phaseOf says what an answer means.
func phaseOf(t v1alpha1.HookType, o Outcome) v1alpha1.HookPhase {
	switch {
	case o.Refused:
		return v1alpha1.HookFailed
	case o.Yes && (gates(t) || t == v1alpha1.HookRollback):
		return v1alpha1.HookOpen
	case o.Yes:
		return v1alpha1.HookDelivered
	case polled(t), checks(t) && o.Unanswered:
		return v1alpha1.HookWaiting
	}
	return v1alpha1.HookFailed
}

// Unanswered says that a check was called, and no one answered it: it is asked again.
func Unanswered(s v1alpha1.HookStatus) bool {
	return checks(s.Type) && s.Phase == v1alpha1.HookWaiting && s.Attempts > 0
}

// final says that the hook is not asked this again.
func final(s *v1alpha1.HookStatus) bool { return s.Phase != v1alpha1.HookWaiting }

// Due are the questions that have no final answer yet.
func Due(known []v1alpha1.HookStatus, questions []Question) []Question {
	var out []Question
	for _, q := range questions {
		if s := find(known, q.Hook.Name); s == nil || s.ID != q.Body.ID || !final(s) {
			out = append(out, q)
		}
	}
	return out
}
