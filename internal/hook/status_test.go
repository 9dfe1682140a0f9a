package hook

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

func micro(t time.Time) *metav1.MicroTime {
	m := metav1.NewMicroTime(t)
	return &m
}

// one returns a Microservice with a single hook, in a state in which this hook is called.
func one(t v1alpha1.HookType) *Rollout {
	ms := canary()
	hooks := ms.Spec.UpdateStrategy.Canary.Hooks
	for _, h := range hooks {
		if h.Type == t {
			ms.Spec.UpdateStrategy.Canary.Hooks = []v1alpha1.Hook{h}
		}
	}
	run := ms.Status.ReleaseGroups[0].Rollout
	if IsGate(t) {
		run.Gate, run.GateTime = v1alpha1.Gate(t), &gated
	}
	p := RolloutOf(ms, vsvc("new"))
	p.Round = waited
	p.Before = v1alpha1.ReleasePending
	if t == v1alpha1.HookPostRollout {
		p.Rollout, p.Row.Status = nil, v1alpha1.ReleaseActive
	}
	return p
}

func TestFold(t *testing.T) {
	t.Parallel()
	now := waited.Add(time.Hour)
	yes, no := Outcome{Yes: true, Attempts: 2, Message: "HTTP 200"}, Outcome{Attempts: 1, Message: "HTTP 409: not yet"}
	refused := Outcome{Refused: true, Attempts: 3, Message: "HTTP 412: never"}
	away := Outcome{Unanswered: true, Attempts: 3, Message: "connection refused"}
	for kind, phases := range map[v1alpha1.HookType]struct{ unanswered, yes, no v1alpha1.HookPhase }{
		v1alpha1.HookConfirmRollout:         {v1alpha1.HookWaiting, v1alpha1.HookOpen, v1alpha1.HookWaiting},
		v1alpha1.HookPreRollout:             {v1alpha1.HookWaiting, v1alpha1.HookOpen, v1alpha1.HookFailed},
		v1alpha1.HookRollout:                {"", v1alpha1.HookDelivered, v1alpha1.HookFailed},
		v1alpha1.HookConfirmTrafficIncrease: {v1alpha1.HookWaiting, v1alpha1.HookOpen, v1alpha1.HookWaiting},
		v1alpha1.HookConfirmPromotion:       {v1alpha1.HookWaiting, v1alpha1.HookOpen, v1alpha1.HookWaiting},
		v1alpha1.HookPostRollout:            {v1alpha1.HookWaiting, v1alpha1.HookDelivered, v1alpha1.HookFailed},
		v1alpha1.HookRollback:               {v1alpha1.HookWaiting, v1alpha1.HookOpen, v1alpha1.HookWaiting},
		v1alpha1.HookEvent:                  {v1alpha1.HookWaiting, v1alpha1.HookDelivered, v1alpha1.HookFailed},
	} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			p := one(kind)
			questions := p.Calls(nil)
			if len(questions) != 1 {
				t.Fatalf("%d questions, want one", len(questions))
			}
			id := questions[0].Body.ID
			phase := func(known []v1alpha1.HookStatus) v1alpha1.HookPhase {
				if len(known) == 0 {
					return ""
				}
				return known[0].Phase
			}
			asked := p.Fold(nil, questions, nil, now)
			if got := phase(asked); got != phases.unanswered {
				t.Errorf("before any answer: %q, want %q", got, phases.unanswered)
			}
			if len(Due(asked, questions)) != 1 {
				t.Error("an unanswered call is not due")
			}
			answers := []struct {
				outcome Outcome
				want    v1alpha1.HookPhase
			}{{yes, phases.yes}, {no, phases.no}}
			if refuses(kind) {
				answers = append(answers, answers[0])
				answers[2].outcome, answers[2].want = refused, v1alpha1.HookFailed
			}
			if checks(kind) {
				answers = append(answers, answers[0])
				answers[2].outcome, answers[2].want = away, v1alpha1.HookWaiting
			}
			for _, answer := range answers {
				got := p.Fold(asked, questions, map[string]Outcome{id: answer.outcome, "of another question": no}, now)
				if phase(got) != answer.want {
					t.Fatalf("after %+v: %q, want %q", answer.outcome, phase(got), answer.want)
				}
				want := v1alpha1.HookStatus{
					Name: p.hooks()[0].Name, Type: kind, Run: questions[0].Body.Run, Step: questions[0].RunStep, Since: questions[0].Since, ID: id,
					Phase: answer.want, Attempts: int32(answer.outcome.Attempts), Time: micro(now), Message: answer.outcome.Message,
				}
				if diff := cmp.Diff(want, got[0]); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				if due := len(Due(got, questions)) == 1; due != (answer.want == v1alpha1.HookWaiting) {
					t.Errorf("after %q it is due: %t", answer.want, due)
				}
				if diff := cmp.Diff(got, p.Fold(got, questions, map[string]Outcome{id: answer.outcome}, now.Add(time.Hour))); diff != "" {
					t.Errorf("the same outcome again changes the status (-once +twice):\n%s", diff)
				}
			}
		})
	}
}

func TestFoldOverTime(t *testing.T) {
	t.Parallel()
	p := one(v1alpha1.HookConfirmPromotion)
	questions := p.Calls(nil)
	id := questions[0].Body.ID
	start := waited
	no := func(message string) map[string]Outcome {
		return map[string]Outcome{id: {Attempts: 1, Message: message}}
	}
	first := p.Fold(nil, questions, no("HTTP 409: later"), start)

	t.Run("another message for the same status code waits a minute", func(t *testing.T) {
		t.Parallel()
		if diff := cmp.Diff(first, p.Fold(first, questions, no("HTTP 409: much later"), start.Add(59*time.Second))); diff != "" {
			t.Errorf("(-before +after):\n%s", diff)
		}
		if got := p.Fold(first, questions, no("HTTP 409: much later"), start.Add(time.Minute)); got[0].Message != "HTTP 409: much later" {
			t.Errorf("message after a minute: %q", got[0].Message)
		}
	})
	t.Run("the same failed connection from another port also waits", func(t *testing.T) {
		t.Parallel()
		reset := func(port string) map[string]Outcome {
			return no("read tcp 10.0.0.1:" + port + "->10.0.0.2:80: read: connection reset by peer")
		}
		before := p.Fold(nil, questions, reset("4001"), start)
		if diff := cmp.Diff(before, p.Fold(before, questions, reset("4002"), start.Add(time.Second))); diff != "" {
			t.Errorf("(-before +after):\n%s", diff)
		}
	})
	t.Run("the same certificate error at another time also waits", func(t *testing.T) {
		t.Parallel()
		expired := func(now string) map[string]Outcome {
			return no("tls: failed to verify certificate: x509: certificate has expired or is not yet valid: current time " + now + " is after 2030-01-01T00:00:00Z")
		}
		before := p.Fold(nil, questions, expired("2030-01-31T12:00:07Z"), start)
		if diff := cmp.Diff(before, p.Fold(before, questions, expired("2030-01-31T13:00:17+01:00"), start.Add(time.Second))); diff != "" {
			t.Errorf("(-before +after):\n%s", diff)
		}
	})
	t.Run("another code or error does not wait", func(t *testing.T) {
		t.Parallel()
		for _, message := range []string{"HTTP 503: later", "HTTP 503", "no answer within 10s", "cannot be called: refuse 127.0.0.1"} {
			if got := p.Fold(first, questions, no(message), start.Add(time.Second)); got[0].Message != message {
				t.Errorf("message %q, want %q", got[0].Message, message)
			}
		}
	})
	t.Run("the first response after an edit is shown, and the next one waits", func(t *testing.T) {
		t.Parallel()
		edited := func(attempts int) map[string]Outcome {
			return map[string]Outcome{id: {Attempts: attempts, Message: "HTTP 409: later", Edited: start.Add(time.Second)}}
		}
		shown := p.Fold(first, questions, edited(2), start.Add(2*time.Second))
		if got := shown[0]; got.Attempts != 2 || !got.Time.Time.Equal(start.Add(2*time.Second)) {
			t.Errorf("after the edit: %+v", got)
		}
		if diff := cmp.Diff(shown, p.Fold(shown, questions, edited(3), start.Add(12*time.Second))); diff != "" {
			t.Errorf("(-before +after):\n%s", diff)
		}
	})
	t.Run("an approval does not wait", func(t *testing.T) {
		t.Parallel()
		got := p.Fold(first, questions, map[string]Outcome{id: {Yes: true, Attempts: 2}}, start.Add(time.Second))
		if got[0].Phase != v1alpha1.HookOpen {
			t.Errorf("phase %q", got[0].Phase)
		}
	})
	t.Run("a negative response after the approval comes too late", func(t *testing.T) {
		t.Parallel()
		open := p.Fold(first, questions, map[string]Outcome{id: {Yes: true, Attempts: 2}}, start)
		if diff := cmp.Diff(open, p.Fold(open, questions, no("no"), start.Add(time.Hour))); diff != "" {
			t.Errorf("(-before +after):\n%s", diff)
		}
	})
	t.Run("an open gate remains when the rollout continues", func(t *testing.T) {
		t.Parallel()
		open := p.Fold(first, questions, map[string]Outcome{id: {Yes: true, Attempts: 2}}, start)
		if diff := cmp.Diff(open, p.Fold(open, nil, nil, start.Add(time.Hour))); diff != "" {
			t.Errorf("(-before +after):\n%s", diff)
		}
	})
	t.Run("an approval does not open a later gate", func(t *testing.T) {
		t.Parallel()
		open := p.Fold(first, questions, map[string]Outcome{id: {Yes: true, Attempts: 2}}, start)
		q := one(v1alpha1.HookConfirmPromotion)
		q.Rollout.GateTime = micro(gated.Add(time.Hour))
		got := q.Fold(open, q.Calls(open), map[string]Outcome{id: {Yes: true, Attempts: 2}}, start.Add(time.Hour))
		if got[0].Phase != v1alpha1.HookWaiting {
			t.Errorf("phase %q", got[0].Phase)
		}
	})
	t.Run("a gate that never opened is removed when the rollout has continued", func(t *testing.T) {
		t.Parallel()
		if got := p.Fold(first, nil, no("no"), start.Add(time.Hour)); len(got) != 0 {
			t.Errorf("left: %+v", got)
		}
	})
	t.Run("an unanswered check of a round remains while the rollout continues", func(t *testing.T) {
		t.Parallel()
		q := one(v1alpha1.HookRollout)
		asked := q.Calls(nil)
		away := q.Fold(nil, asked, map[string]Outcome{asked[0].Body.ID: {Unanswered: true, Attempts: 1, Message: "HTTP 503"}}, start)
		if len(away) != 1 || !Unanswered(away[0]) {
			t.Fatalf("%+v", away)
		}
		if got := q.Fold(away, nil, nil, start.Add(time.Hour)); !cmp.Equal(away, got) {
			t.Errorf("between two rounds: %+v", got)
		}
		q.Rollout = nil
		if got := q.Fold(away, nil, nil, start.Add(time.Hour)); len(got) != 0 {
			t.Errorf("left after the rollout: %+v", got)
		}
	})
	t.Run("a late message is recorded when it arrives", func(t *testing.T) {
		t.Parallel()
		q := one(v1alpha1.HookPostRollout)
		reported := q.Calls(nil)
		late := q.Fold(nil, reported, nil, start)
		if got := q.Fold(late, nil, nil, start.Add(time.Hour)); !cmp.Equal(late, got) {
			t.Errorf("while it is in progress: %+v", got)
		}
		got := q.Fold(late, nil, map[string]Outcome{reported[0].Body.ID: {Yes: true, Attempts: 3}}, start.Add(time.Hour))
		if len(got) != 1 || got[0].Phase != v1alpha1.HookDelivered || got[0].Attempts != 3 {
			t.Errorf("when it arrived: %+v", got)
		}
	})
	t.Run("a hook that no longer exists is removed", func(t *testing.T) {
		t.Parallel()
		q := one(v1alpha1.HookEvent)
		if got := q.Fold(first, nil, nil, start); len(got) != 0 {
			t.Errorf("left: %+v", got)
		}
	})
	t.Run("a hook of another type is another hook", func(t *testing.T) {
		t.Parallel()
		q := one(v1alpha1.HookConfirmPromotion)
		q.Microservice.Spec.UpdateStrategy.Canary.Hooks[0].Type = v1alpha1.HookConfirmRollout
		if got := q.Fold(first, nil, nil, start); len(got) != 0 {
			t.Errorf("left: %+v", got)
		}
	})
}
