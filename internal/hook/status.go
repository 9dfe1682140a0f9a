package hook

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hlnr "github.com/heighliner/heighliner/apis/v1alpha1"
)

// Outcome of a delivery, retries included.
type Outcome struct {
	// Yes is an answer of 200 to 204.
	Yes bool
	// Attempts to deliver, since this process began to.
	Attempts int
	// Message is the first line of the answer, or why there was none.
	Message string
	// Time at which the last call ended.
	Time time.Time
}

// quiet is how long an answer that only words a no differently is not written.
const quiet = time.Minute

// Fold gives the status of a release's hooks after what came of its questions, by
// id. Entries of hooks that the specification no longer has go; the others stay until
// the hook is asked something else.
func (p *Place) Fold(known []hlnr.HookStatus, questions []Question, outcomes map[string]Outcome, now time.Time) []hlnr.HookStatus {
	var out []hlnr.HookStatus
	for _, h := range p.hooks() {
		old := find(known, h.Name)
		if old != nil && old.Type != h.Type {
			old = nil
		}
		i := slices.IndexFunc(questions, func(q Question) bool { return q.Hook.Name == h.Name })
		if i < 0 {
			if old != nil {
				out = append(out, *old)
			}
			continue
		}
		q := &questions[i]
		outcome, answered := outcomes[q.Body.ID]
		switch {
		case old != nil && old.ID == q.Body.ID && !answered:
			out = append(out, *old)
		case answered:
			out = append(out, answer(old, q, outcome, now))
		case h.Type == hlnr.HookRollout && old != nil:
			out = append(out, *old) // a round is written once, when it is over
		case h.Type != hlnr.HookRollout:
			out = append(out, fresh(q, now))
		}
	}
	return out
}

// fresh is the status of a question that nobody answered yet.
func fresh(q *Question, now time.Time) hlnr.HookStatus {
	at := metav1.NewMicroTime(now)
	return hlnr.HookStatus{
		Name: q.Hook.Name, Type: q.Hook.Type, Run: q.Body.Run, Step: q.RunStep, Since: q.Since,
		ID: q.Body.ID, Phase: hlnr.HookWaiting, Time: &at,
	}
}

// answer is the status of a question after an outcome. Another wording of the same no
// is taken over once in a while only: it would cost a write each time.
func answer(old *hlnr.HookStatus, q *Question, o Outcome, now time.Time) hlnr.HookStatus {
	s := fresh(q, now)
	if old != nil && old.ID == q.Body.ID {
		if final(old) {
			return *old
		}
		s = *old
	}
	phase := phaseOf(q.Hook.Type, o.Yes)
	if s.Phase == phase && s.Attempts > 0 && (s.Message == o.Message || s.Time != nil && now.Sub(s.Time.Time) < quiet) {
		return s
	}
	at := metav1.NewMicroTime(now)
	s.Phase, s.Message, s.Attempts, s.Time = phase, o.Message, int32(o.Attempts), &at
	return s
}

// phaseOf says what an answer means.
func phaseOf(t hlnr.HookType, yes bool) hlnr.HookPhase {
	switch {
	case yes && (gates(t) || t == hlnr.HookRollback):
		return hlnr.HookOpen
	case yes:
		return hlnr.HookDelivered
	case polled(t):
		return hlnr.HookWaiting
	}
	return hlnr.HookFailed
}

// final says that the hook is not asked this again.
func final(s *hlnr.HookStatus) bool { return s.Phase != hlnr.HookWaiting }

// Due are the questions that have no final answer yet.
func Due(known []hlnr.HookStatus, questions []Question) []Question {
	var out []Question
	for _, q := range questions {
		if s := find(known, q.Hook.Name); s == nil || s.ID != q.Body.ID || !final(s) {
			out = append(out, q)
		}
	}
	return out
}
