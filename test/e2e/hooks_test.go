//go:build e2e && linux

package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// TestHooks runs rollouts whose gates are hooks. The receiver of the hooks checks each signature. Gates block
// until they are opened, even if the manager is killed in the meantime. A failing check keeps a release from
// getting traffic. A rollback that a hook requests is executed.
func TestHooks(t *testing.T) {
	const key = "a key that no one else has"
	r := receive(t, key)
	s := newService(t, "hooks").steps(
		v1alpha1.CanaryStep{Name: "some", Weight: 20},
		v1alpha1.CanaryStep{Name: "half", Weight: 50},
	)
	s.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "hook-key"}, Data: map[string][]byte{"key": []byte(key)}})
	hook := func(name string, kind v1alpha1.HookType, change ...func(*v1alpha1.Hook)) v1alpha1.Hook {
		h := v1alpha1.Hook{
			Name: name, Type: kind, URL: r.url, Timeout: "2s", SecretRef: &v1alpha1.Reference{Name: "hook-key"},
			Metadata: map[string]v1alpha1.HookMetadataValue{"team": "e2e"},
		}
		for _, c := range change {
			c(&h)
		}
		return h
	}
	often := func(h *v1alpha1.Hook) { h.Interval = "1s" }
	s.ms.Spec.UpdateStrategy.Canary.Hooks = []v1alpha1.Hook{
		hook("begin", v1alpha1.HookConfirmRollout, often),
		hook("smoke", v1alpha1.HookPreRollout),
		hook("more", v1alpha1.HookConfirmTrafficIncrease, often, func(h *v1alpha1.Hook) { h.Steps = []string{"half"} }),
		hook("promote", v1alpha1.HookConfirmPromotion, often),
		hook("back", v1alpha1.HookRollback, often),
		hook("done", v1alpha1.HookPostRollout),
		hook("event", v1alpha1.HookEvent),
	}
	r.answerAll("back", http.StatusConflict)
	s.start("1.0.0")
	l := s.load(30, false)
	k := &killer{random: rand.New(rand.NewPCG(1, 1)), wanted: 1}

	t.Run("gates block, even if the manager is killed", func(t *testing.T) {
		s := s.in(t)
		for _, gate := range []string{"begin", "more", "promote"} {
			r.answer(gate, "1.1.0", http.StatusConflict)
		}
		s.push("1.1.0")
		r.await(t, "begin", "1.1.0", 2)
		if pods, err := s.pods(t.Context(), "1.1.0"); err != nil || len(pods) > 0 {
			t.Errorf("before its first gate opened, the release had %d pods, %v", len(pods), err)
		}
		r.answer("begin", "1.1.0", http.StatusOK)

		s.weight("1.1.0", 20)
		r.await(t, "more", "1.1.0", 2)
		if err := k.kill(t.Context()); err != nil {
			t.Fatal(err)
		}
		asked := len(r.of("more", "1.1.0"))
		r.await(t, "more", "1.1.0", asked+3) // The next manager sends these calls.
		if row := s.release("1.1.0"); row.Status != v1alpha1.ReleaseCanary || row.Weight != 20 {
			t.Errorf("at a closed gate, the release is %s with %d%%", row.Status, row.Weight)
		}
		s.hooked(t, "1.1.0", "more", v1alpha1.HookWaiting)
		r.answer("more", "1.1.0", http.StatusOK)

		s.weight("1.1.0", 50)
		r.await(t, "promote", "1.1.0", 2)
		if row := s.release("1.1.0"); row.Status != v1alpha1.ReleaseCanary || row.Weight != 50 {
			t.Errorf("at the last gate, the release is %s with %d%%", row.Status, row.Weight)
		}
		r.answer("promote", "1.1.0", http.StatusOK)
		s.active("1.1.0")
		r.await(t, "done", "1.1.0", 1)

		for _, name := range []string{"begin", "smoke", "more", "promote", "done"} {
			calls := r.of(name, "1.1.0")
			if n := len(ids(calls)); n != 1 {
				t.Errorf("hook %s was called with %d different IDs for one call: %v", name, n, ids(calls))
			}
			t.Logf("hook %s was called %d times", name, len(calls))
			for _, c := range calls {
				if c.Namespace != s.namespace || c.Microservice != appName || c.Group != slug || c.PreviousVersion != "1.0.0" && name != "done" || c.Metadata["team"] != "e2e" {
					t.Errorf("hook %s received %+v", name, c)
				}
			}
		}
		if c := r.of("more", "1.1.0")[0]; c.Step != 2 || c.StepName != "half" || c.Weight != 20 {
			t.Errorf("before the second step, the gate received step %d %q, weight %d", c.Step, c.StepName, c.Weight)
		}
		if n := len(ids(r.of("event", "1.1.0"))); n < 2 {
			t.Errorf("%d transitions were reported, want at least the transitions to canary and to active", n)
		}
	})

	t.Run("a failing check keeps the release from getting traffic", func(t *testing.T) {
		s := s.in(t)
		r.answer("smoke", "1.2.0", http.StatusTeapot)
		l.Mark("1.2.0")
		s.push("1.2.0")
		if row := s.status("1.2.0", v1alpha1.ReleaseError); row.Reason != "HookFailed" {
			t.Errorf("1.2.0 ended with reason %s", row.Reason)
		}
		if f := l.Split("1.2.0").Fraction("1.2.0"); f > 0 {
			t.Errorf("1.2.0 got %.1f%% of the requests", f*100)
		}
		if n := len(r.of("more", "1.2.0")); n > 0 {
			t.Errorf("a later gate was called %d times", n)
		}
	})

	t.Run("a requested rollback is executed", func(t *testing.T) {
		s := s.in(t)
		r.answer("more", "1.3.0", http.StatusConflict)
		s.push("1.3.0")
		s.weight("1.3.0", 20)
		r.answer("back", "1.3.0", http.StatusOK)
		if row := s.status("1.3.0", v1alpha1.ReleaseError); row.Reason != "RollbackRequested" {
			t.Errorf("1.3.0 ended with reason %s", row.Reason)
		}
		s.sees(l, "1.1.0")
	})
	verdict(t, l)
}

// hooked waits until a hook has the given phase in a release's status.
func (s *service) hooked(t *testing.T, version, name string, want v1alpha1.HookPhase) {
	t.Helper()
	wait(t, fmt.Sprintf("hook %s of %s to be %s", name, version, want), func(ctx context.Context) (bool, string, error) {
		vsvc, err := s.versioned(ctx, version)
		if err != nil {
			return false, "", err
		}
		for _, h := range vsvc.Status.Hooks {
			if h.Name == name {
				return h.Phase == want, fmt.Sprintf("%s after %d calls: %s", h.Phase, h.Attempts, h.Message), nil
			}
		}
		return false, "not in the status", nil
	})
}

// await waits until a hook has been called the given number of times for a version.
func (r *receiver) await(t *testing.T, hook, version string, times int) {
	t.Helper()
	within(t, time.Minute, fmt.Sprintf("%d calls of hook %s for %s", times, hook, version), func(context.Context) (bool, string, error) {
		n := len(r.of(hook, version))
		return n >= times, fmt.Sprintf("%d calls", n), nil
	})
}
