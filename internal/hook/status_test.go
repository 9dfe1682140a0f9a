package hook

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hlnr "github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/release"
)

func micro(t time.Time) *metav1.MicroTime {
	m := metav1.NewMicroTime(t)
	return &m
}

// one is a Microservice with one hook, at a point at which it is asked.
func one(t hlnr.HookType) *Place {
	ms := canary()
	hooks := ms.Spec.UpdateStrategy.Canary.Hooks
	for _, h := range hooks {
		if h.Type == t {
			ms.Spec.UpdateStrategy.Canary.Hooks = []hlnr.Hook{h}
		}
	}
	run := ms.Status.ReleaseGroups[0].Run
	if gates(t) {
		run.Gate, run.GateTime = hlnr.Gate(t), &gated
	}
	p := PlaceOf(ms, vsvc("new"))
	p.Round = waited
	p.Before = hlnr.ReleasePending
	if t == hlnr.HookPostRollout {
		p.Run, p.Row.Status = nil, hlnr.ReleaseActive
	}
	return p
}

func TestFold(t *testing.T) {
	t.Parallel()
	now := waited.Add(time.Hour)
	yes, no := Outcome{Yes: true, Attempts: 2, Message: "HTTP 200"}, Outcome{Attempts: 1, Message: "HTTP 409: not yet"}
	for kind, phases := range map[hlnr.HookType]struct{ unanswered, yes, no hlnr.HookPhase }{
		hlnr.HookConfirmRollout:         {hlnr.HookWaiting, hlnr.HookOpen, hlnr.HookWaiting},
		hlnr.HookPreRollout:             {hlnr.HookWaiting, hlnr.HookOpen, hlnr.HookFailed},
		hlnr.HookRollout:                {"", hlnr.HookDelivered, hlnr.HookFailed},
		hlnr.HookConfirmTrafficIncrease: {hlnr.HookWaiting, hlnr.HookOpen, hlnr.HookWaiting},
		hlnr.HookConfirmPromotion:       {hlnr.HookWaiting, hlnr.HookOpen, hlnr.HookWaiting},
		hlnr.HookPostRollout:            {hlnr.HookWaiting, hlnr.HookDelivered, hlnr.HookFailed},
		hlnr.HookRollback:               {hlnr.HookWaiting, hlnr.HookOpen, hlnr.HookWaiting},
		hlnr.HookEvent:                  {hlnr.HookWaiting, hlnr.HookDelivered, hlnr.HookFailed},
	} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			p := one(kind)
			questions := p.Questions(nil)
			if len(questions) != 1 {
				t.Fatalf("%d questions, want one", len(questions))
			}
			id := questions[0].Body.ID
			phase := func(known []hlnr.HookStatus) hlnr.HookPhase {
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
				t.Error("what nobody answered is not due")
			}
			for _, answer := range []struct {
				outcome Outcome
				want    hlnr.HookPhase
			}{{yes, phases.yes}, {no, phases.no}} {
				got := p.Fold(asked, questions, map[string]Outcome{id: answer.outcome, "of another question": no}, now)
				if phase(got) != answer.want {
					t.Fatalf("after %+v: %q, want %q", answer.outcome, phase(got), answer.want)
				}
				want := hlnr.HookStatus{
					Name: p.hooks()[0].Name, Type: kind, Run: questions[0].Body.Run, Step: questions[0].RunStep, Since: questions[0].Since, ID: id,
					Phase: answer.want, Attempts: int32(answer.outcome.Attempts), Time: micro(now), Message: answer.outcome.Message,
				}
				if diff := cmp.Diff(want, got[0]); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				if due := len(Due(got, questions)) == 1; due != (answer.want == hlnr.HookWaiting) {
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
	p := one(hlnr.HookConfirmPromotion)
	questions := p.Questions(nil)
	id := questions[0].Body.ID
	start := waited
	no := func(message string) map[string]Outcome {
		return map[string]Outcome{id: {Attempts: 1, Message: message}}
	}
	first := p.Fold(nil, questions, no("later"), start)

	t.Run("other words of the same no wait a minute", func(t *testing.T) {
		t.Parallel()
		if diff := cmp.Diff(first, p.Fold(first, questions, no("much later"), start.Add(59*time.Second))); diff != "" {
			t.Errorf("(-before +after):\n%s", diff)
		}
		if got := p.Fold(first, questions, no("much later"), start.Add(time.Minute)); got[0].Message != "much later" {
			t.Errorf("message after a minute: %q", got[0].Message)
		}
	})
	t.Run("a yes waits for nothing", func(t *testing.T) {
		t.Parallel()
		got := p.Fold(first, questions, map[string]Outcome{id: {Yes: true, Attempts: 2}}, start.Add(time.Second))
		if got[0].Phase != hlnr.HookOpen {
			t.Errorf("phase %q", got[0].Phase)
		}
	})
	t.Run("a no after the yes comes too late", func(t *testing.T) {
		t.Parallel()
		open := p.Fold(first, questions, map[string]Outcome{id: {Yes: true, Attempts: 2}}, start)
		if diff := cmp.Diff(open, p.Fold(open, questions, no("no"), start.Add(time.Hour))); diff != "" {
			t.Errorf("(-before +after):\n%s", diff)
		}
	})
	t.Run("an open gate stays when the run goes on", func(t *testing.T) {
		t.Parallel()
		open := p.Fold(first, questions, map[string]Outcome{id: {Yes: true, Attempts: 2}}, start)
		if diff := cmp.Diff(open, p.Fold(open, nil, nil, start.Add(time.Hour))); diff != "" {
			t.Errorf("(-before +after):\n%s", diff)
		}
	})
	t.Run("a yes opens no later gate", func(t *testing.T) {
		t.Parallel()
		open := p.Fold(first, questions, map[string]Outcome{id: {Yes: true, Attempts: 2}}, start)
		q := one(hlnr.HookConfirmPromotion)
		q.Run.GateTime = micro(gated.Add(time.Hour))
		got := q.Fold(open, q.Questions(open), map[string]Outcome{id: {Yes: true, Attempts: 2}}, start.Add(time.Hour))
		if got[0].Phase != hlnr.HookWaiting {
			t.Errorf("phase %q", got[0].Phase)
		}
	})
	t.Run("a hook that is no more goes", func(t *testing.T) {
		t.Parallel()
		q := one(hlnr.HookEvent)
		if got := q.Fold(first, nil, nil, start); len(got) != 0 {
			t.Errorf("left: %+v", got)
		}
	})
	t.Run("a hook of another type is another hook", func(t *testing.T) {
		t.Parallel()
		q := one(hlnr.HookConfirmPromotion)
		q.Microservice.Spec.UpdateStrategy.Canary.Hooks[0].Type = hlnr.HookConfirmRollout
		if got := q.Fold(first, nil, nil, start); len(got) != 0 {
			t.Errorf("left: %+v", got)
		}
	})
}

func TestGates(t *testing.T) {
	t.Parallel()
	strategy := func(hooks ...hlnr.Hook) *hlnr.CanaryStrategy {
		return &hlnr.CanaryStrategy{Steps: []hlnr.CanaryStep{{Name: "tenth"}, {Name: "half"}}, Hooks: hooks}
	}
	promotion := func(name string) hlnr.Hook { return hlnr.Hook{Name: name, Type: hlnr.HookConfirmPromotion} }
	answered := func(name string, phase hlnr.HookPhase, change ...func(*hlnr.HookStatus)) hlnr.HookStatus {
		s := hlnr.HookStatus{Name: name, Type: hlnr.HookConfirmPromotion, Run: 41, Step: 2, Since: &gated, Phase: phase, Message: string(phase)}
		for _, f := range change {
			f(&s)
		}
		return s
	}
	fact := func(open, failed bool, message string) release.GateFact {
		return release.GateFact{Run: 41, Step: 2, Point: release.ConfirmPromotion, Since: gated.Time, Open: open, Failed: failed, Message: message}
	}
	for name, test := range map[string]struct {
		canary *hlnr.CanaryStrategy
		known  []hlnr.HookStatus
		want   []release.GateFact
	}{
		"nothing asked":         {strategy(promotion("a")), nil, nil},
		"no canary":             {nil, []hlnr.HookStatus{answered("a", hlnr.HookOpen)}, nil},
		"one says yes":          {strategy(promotion("a")), []hlnr.HookStatus{answered("a", hlnr.HookOpen)}, []release.GateFact{fact(true, false, "")}},
		"one says no":           {strategy(promotion("a")), []hlnr.HookStatus{answered("a", hlnr.HookWaiting)}, []release.GateFact{fact(false, false, "a: Waiting")}},
		"both say yes":          {strategy(promotion("a"), promotion("b")), []hlnr.HookStatus{answered("a", hlnr.HookOpen), answered("b", hlnr.HookOpen)}, []release.GateFact{fact(true, false, "")}},
		"one of two says yes":   {strategy(promotion("a"), promotion("b")), []hlnr.HookStatus{answered("a", hlnr.HookOpen), answered("b", hlnr.HookWaiting)}, []release.GateFact{fact(false, false, "b: Waiting")}},
		"one of two is silent":  {strategy(promotion("a"), promotion("b")), []hlnr.HookStatus{answered("b", hlnr.HookOpen)}, []release.GateFact{fact(false, false, "a: no answer yet")}},
		"one of two was failed": {strategy(promotion("a"), promotion("b")), []hlnr.HookStatus{answered("a", hlnr.HookWaiting), answered("b", hlnr.HookFailed)}, []release.GateFact{fact(false, true, "b: Failed")}},
		"a yes of another run does not count": {
			strategy(promotion("a"), promotion("b")),
			[]hlnr.HookStatus{answered("a", hlnr.HookOpen), answered("b", hlnr.HookOpen, func(s *hlnr.HookStatus) { s.Run = 40 })},
			[]release.GateFact{
				fact(false, false, "b: no answer yet"),
				{Run: 40, Step: 2, Point: release.ConfirmPromotion, Since: gated.Time, Message: "a: no answer yet"},
			},
		},
		"a yes of an earlier gate does not count": {
			strategy(promotion("a"), promotion("b")),
			[]hlnr.HookStatus{answered("a", hlnr.HookOpen), answered("b", hlnr.HookOpen, func(s *hlnr.HookStatus) { s.Since = micro(began) })},
			[]release.GateFact{
				fact(false, false, "b: no answer yet"),
				{Run: 41, Step: 2, Point: release.ConfirmPromotion, Since: began, Message: "a: no answer yet"},
			},
		},
		"a hook for another step is not asked": {
			strategy(hlnr.Hook{Name: "a", Type: hlnr.HookConfirmTrafficIncrease}, hlnr.Hook{Name: "b", Type: hlnr.HookConfirmTrafficIncrease, Steps: []string{"tenth"}}),
			[]hlnr.HookStatus{answered("a", hlnr.HookOpen, func(s *hlnr.HookStatus) { s.Type, s.Step = hlnr.HookConfirmTrafficIncrease, 1 })},
			[]release.GateFact{{Run: 41, Step: 1, Point: release.ConfirmTrafficIncrease, Since: gated.Time, Open: true}},
		},
		"messages are no gates": {
			strategy(hlnr.Hook{Name: "a", Type: hlnr.HookEvent}),
			[]hlnr.HookStatus{answered("a", hlnr.HookDelivered, func(s *hlnr.HookStatus) { s.Type = hlnr.HookEvent })}, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, Gates(test.canary, test.known), cmpopts.EquateApproxTime(0)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestRollback(t *testing.T) {
	t.Parallel()
	asked := hlnr.HookStatus{Name: "watch", Type: hlnr.HookRollback, Run: 41, Phase: hlnr.HookOpen, Message: "HTTP 200: sales fell"}
	silent, gate := asked, asked
	silent.Phase, gate.Type = hlnr.HookWaiting, hlnr.HookConfirmPromotion
	for name, test := range map[string]struct {
		known []hlnr.HookStatus
		want  *release.RollbackFact
	}{
		"asked for":  {[]hlnr.HookStatus{gate, asked}, &release.RollbackFact{Run: 41, Message: "watch: HTTP 200: sales fell"}},
		"not":        {[]hlnr.HookStatus{silent}, nil},
		"by no gate": {[]hlnr.HookStatus{gate}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, Rollback(test.known)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
