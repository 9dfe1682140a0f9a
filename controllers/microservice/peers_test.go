package microservice

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// TestTogether checks that a Microservice reads the rollout states of the Microservices with the same
// together.name and passes its steps together with them, and independently of all other Microservices.
func TestTogether(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		onFailure v1alpha1.TogetherFailure
		end       string // state of 1.1.0 after it failed in the other Microservice
	}{
		"held":        {v1alpha1.TogetherHold, "1.1.0 canary 10%"},
		"rolled back": {v1alpha1.TogetherRollBack, "1.1.0 error 0% TogetherFailed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			together := &v1alpha1.TogetherStrategy{Name: "checkout", OnFailure: test.onFailure}
			s := begin(t, steps(v1alpha1.CanaryStrategy{Steps: []v1alpha1.CanaryStep{{Weight: 10}, {Weight: 50}}, Together: together}))
			s.other("cart", together)
			s.other("blog", &v1alpha1.TogetherStrategy{Name: "another"})
			s.other("alone", nil)
			s.route()
			s.offer("1.0.0")
			s.play()
			s.offer("1.1.0", "1.0.0")
			s.play()
			if run := s.inProgress(); run == nil || run.Gate != v1alpha1.GateTogether || !s.until("1.1.0 canary 10%")() {
				t.Fatalf("the rollout does not wait: %+v\n%s", run, s.rolloutState())
			}
			same(t, "Progressing", condition(s.ms(), "Progressing"), "True Together: 1.1.0 is waiting at 10% for Microservice cart")
			s.stands("cart", v1alpha1.ReleaseError, nil)
			s.play()
			if !s.until(test.end)() {
				t.Errorf("after the version failed in the other Microservice: %s", s.rolloutState())
			}
			if held := condition(s.ms(), "Blocked"); strings.Contains(held, "it failed in Microservice cart (CrashLoopBackOff)") == (test.onFailure == v1alpha1.TogetherRollBack) {
				t.Errorf("Blocked is %q", held)
			}
			if test.onFailure == v1alpha1.TogetherRollBack {
				return
			}
			s.stands("cart", v1alpha1.ReleaseCanary, &v1alpha1.Rollout{Release: "cart-x", Step: 1, Gate: v1alpha1.GateTogether, StartedTime: metav1.NewMicroTime(s.clock.Now())})
			s.play()
			if !s.until("1.1.0 canary 50%")() {
				t.Errorf("after the other Microservice reached the same step: %s", s.rolloutState())
			}
			s.stands("cart", v1alpha1.ReleaseActive, nil)
			s.play()
			if !s.until("1.1.0 active 100%")() {
				t.Errorf("after the other Microservice completed the step: %s", s.rolloutState())
			}
		})
	}
}

// TestForPeers checks that changes to a Microservice's rollout state, and its deletion, enqueue the
// Microservices that are waiting for it.
func TestForPeers(t *testing.T) {
	t.Parallel()
	s := begin(t, steps(v1alpha1.CanaryStrategy{Steps: []v1alpha1.CanaryStep{{Weight: 10}}, Together: &v1alpha1.TogetherStrategy{Name: "checkout"}}))
	cart := s.other("cart", &v1alpha1.TogetherStrategy{Name: "checkout"})
	blog := s.other("blog", &v1alpha1.TogetherStrategy{Name: "another"})
	if got := s.reconciler.forPeers(t.Context(), cart); len(got) != 1 || got[0].Name != "shop" || got[0].Namespace != s.namespace {
		t.Errorf("requests for cart: %v", got)
	}
	if got := s.reconciler.forPeers(t.Context(), blog); len(got) != 0 {
		t.Errorf("requests for blog: %v", got)
	}
	written, touched := cart.DeepCopy(), cart.DeepCopy()
	written.Status.Internal = &v1alpha1.MicroserviceInternal{Sequence: written.Status.Sequence() + 1}
	touched.Status.Summary.Active = "1.0.0"
	if changed := stateChanged(); !changed.Update(event.UpdateEvent{ObjectOld: cart, ObjectNew: written}) ||
		changed.Update(event.UpdateEvent{ObjectOld: cart, ObjectNew: touched}) || !changed.Delete(event.DeleteEvent{Object: cart}) {
		t.Error("stateChanged does not exactly match the changes to the rollout state")
	}
}

// other creates another Microservice, which is not reconciled.
func (s *story) other(name string, together *v1alpha1.TogetherStrategy) *v1alpha1.Microservice {
	s.Helper()
	ms := s.ms()
	ms.ObjectMeta = metav1.ObjectMeta{Namespace: s.namespace, Name: name}
	ms.Spec.ContainerName = "shop"
	ms.Spec.UpdateStrategy.Canary = &v1alpha1.CanaryStrategy{Steps: []v1alpha1.CanaryStep{{Weight: 10}}, Together: together}
	s.create(ms)
	return ms
}

// stands writes the state of 1.1.0 to the status of another Microservice.
func (s *story) stands(name string, as v1alpha1.ReleaseStatus, run *v1alpha1.Rollout) {
	s.Helper()
	ms := &v1alpha1.Microservice{}
	s.get(name, ms)
	ms.Status.Internal = &v1alpha1.MicroserviceInternal{Sequence: ms.Status.Sequence() + 1}
	ms.Status.ReleaseGroups = []v1alpha1.ReleaseGroup{{
		Name: "release", Slug: "release", Phase: v1alpha1.GroupLive, Rollout: run,
		Releases: []v1alpha1.Release{{
			VersionedMicroservice: "cart-x", SemVer: v1alpha1.SemVer{Name: "release", Version: "1.1.0"}, Status: as,
			Reason: "CrashLoopBackOff", LastTransitionTime: metav1.NewMicroTime(s.clock.Now()),
		}},
	}}
	if err := env.Client.Status().Update(s.Context(), ms); err != nil {
		s.Fatal(err)
	}
}
