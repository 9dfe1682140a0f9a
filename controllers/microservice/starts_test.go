package microservice

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/startlimit"
)

// TestStartsInLine checks what waits while other rollouts are starting, and what does not.
func TestStartsInLine(t *testing.T) {
	t.Parallel()
	other := ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "other", Name: "service"}}
	crowd := func(s *story) *startlimit.Limit {
		s.reconciler.starts = &startlimit.Limit{Max: 1, Age: time.Hour, Clock: s.clock}
		s.reconciler.starts.Admit(other)
		return s.reconciler.starts
	}
	waits := func(s *story, what string) {
		s.Helper()
		writes := len(s.writes)
		result, err := s.pass()
		if err != nil || result.RequeueAfter == 0 || result.RequeueAfter > time.Hour {
			s.Errorf("%s: requeue after %s (%v), want at most an hour", what, result.RequeueAfter, err)
		}
		if more := s.writes[writes:]; len(more) > 0 {
			s.Errorf("%s: wrote %q, want no writes", what, more)
		}
	}

	t.Run("the first release", func(t *testing.T) {
		t.Parallel()
		s := begin(t)
		s.offer("1.0.0")
		s.clock.SetTime(s.ms().CreationTimestamp.Add(time.Second)) // Before the creation, the status is not delayed.
		starts := crowd(s)
		waits(s, "a new service")
		s.clock.Step(silenceInLine)
		s.pass()
		same(t, "Ready", condition(s.ms(), "Ready"), "False StartDelayed: 1.0.0 starts when fewer other rollouts are starting")
		starts.Done(other)
		s.play(s.until("1.0.0 pending"))
		if admitted, _ := starts.Counts(); admitted != 1 {
			t.Errorf("%d rollouts are starting, want this one", admitted)
		}
		s.play()
		if admitted, waiting := starts.Counts(); admitted+waiting > 0 {
			t.Errorf("%d rollouts are starting and %d are waiting, want none", admitted, waiting)
		}
	})

	t.Run("a new version", func(t *testing.T) {
		t.Parallel()
		s := begin(t)
		s.offer("1.0.0")
		s.play()
		starts := crowd(s)
		s.offer("1.0.0", "1.1.0")
		waits(s, "a new version")
		same(t, "Ready", condition(s.ms(), "Ready"), "True Succeeded: active: 1.0.0 in group release")
		starts.Done(other)
		s.play(s.until("1.1.0 canary 10%"))
		if now, _ := starts.Admit(other); now {
			t.Error("the other rollout starts before the canary has reached its pause")
		}
		s.play(func() bool { return strings.HasPrefix(condition(s.ms(), "Progressing"), "True Paused") })
		if now, _ := starts.Admit(other); !now {
			t.Error("the other rollout does not start while the canary pauses")
		}
		s.play()
		same(t, "Ready", condition(s.ms(), "Ready"), "True Succeeded: active: 1.1.0 in group release")
	})

	for name, change := range map[string]func(s *story){
		"an active release that was deleted": func(s *story) {
			for _, o := range s.objects() {
				if err := env.Client.Delete(s.Context(), o); err != nil {
					s.Fatal(err)
				}
			}
		},
		"another image of the same version": func(s *story) {
			p := &v1alpha1.ImagePolicy{}
			s.get("shop", p)
			p.Status.Releases[0].Images[0] = v1alpha1.ReleaseImage{Image: "r.example/shop:1.0.0@sha256:other", Digest: "sha256:other"}
			if err := env.Client.Status().Update(s.Context(), p); err != nil {
				s.Fatal(err)
			}
		},
		"a decision": func(s *story) {
			s.offer("1.0.0", "1.1.0")
			o := s.release("1.0.0")
			o.Spec.Decision = &v1alpha1.Decision{Action: v1alpha1.DecisionContinue, ID: "1", Step: "1"}
			if err := env.Client.Update(s.Context(), o); err != nil {
				s.Fatal(err)
			}
		},
		"no available active release": func(s *story) {
			s.offer("1.0.0", "1.1.0")
			o := s.release("1.0.0")
			before := o.DeepCopy()
			o.Status.Available = 0
			s.report(o, before)
			s.pass()
		},
		"a change to the specification": func(s *story) {
			s.edit(func(spec *v1alpha1.MicroserviceSpec) { spec.Template.Spec.Containers[0].Args = []string{"new"} })
		},
		"a new version of a pinned group": func(s *story) {
			s.edit(func(spec *v1alpha1.MicroserviceSpec) {
				spec.UpdateStrategy.Manual = &v1alpha1.ManualUpdateStrategy{SemVer: &v1alpha1.SemVer{Version: "1.1.0"}}
			})
			s.pass() // 1.1.0 is not offered yet.
			s.offer("1.0.0", "1.1.0")
		},
		"the replacement of a denied version": func(s *story) {
			s.offer("1.1.0")
			p := &v1alpha1.ImagePolicy{}
			s.get("shop", p)
			p.Status.Withdrawn = []v1alpha1.Withdrawal{{Group: "release", Version: "1.0.0", Reason: v1alpha1.WithdrawnDenied, Time: metav1.Now()}}
			if err := env.Client.Status().Update(s.Context(), p); err != nil {
				s.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := begin(t)
			s.offer("1.0.0")
			s.play()
			crowd(s)
			known := s.objects()
			change(s)
			s.pass()
			created := 0
			for name, o := range s.objects() {
				if known[name] == nil || known[name].UID != o.UID {
					created++
				}
			}
			if created != 1 {
				t.Errorf("%d releases were created, want 1: %s", created, s.rolloutState())
			}
		})
	}
}
