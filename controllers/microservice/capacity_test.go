package microservice

import (
	"errors"
	"strings"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/release"
	"github.com/heighliner/heighliner/internal/status"
)

func autoscaled(ms *v1alpha1.Microservice) {
	ms.Spec.Availability.Autoscaling = &v1alpha1.Autoscaling{MaxReplicas: 20, Metrics: []autoscalingv2.MetricSpec{{
		Type:     autoscalingv2.ResourceMetricSourceType,
		Resource: &autoscalingv2.ResourceMetricSource{Name: corev1.ResourceCPU, Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: new(int32(60))}},
	}}}
	ms.Spec.UpdateStrategy.Canary.Steps = []v1alpha1.CanaryStep{{Weight: 50, Pause: &v1alpha1.CanaryPause{Duration: "1h"}}}
}

// half starts a story and continues it until 1.1.0 is a canary with half of the traffic and 1.0.0
// is active.
func half(t *testing.T) *story {
	t.Helper()
	s := begin(t, autoscaled)
	s.route()
	s.offer("1.0.0")
	s.play()
	s.offer("1.1.0", "1.0.0")
	s.play(s.until("1.1.0 canary 50%"))
	s.gateway()
	if _, err := s.pass(); err != nil {
		t.Fatal(err)
	}
	return s
}

// grow simulates an autoscaler that adds replicas because the load has increased.
func (s *story) grow(version string, replicas int32) {
	s.Helper()
	c := s.release(version)
	before := c.DeepCopy()
	c.Status.Replicas, c.Status.Available = replicas, replicas
	s.report(c, before)
}

// keepsAutoscaler fails the test if a release has no autoscaler while routes refer to it.
func (s *story) keepsAutoscaler(version string) {
	s.Helper()
	c, p := s.release(version), &v1alpha1.NetworkPolicy{}
	s.get("shop", p)
	for _, g := range p.Status.Groups {
		for _, name := range g.References {
			if name == c.Name && c.Spec.Availability.Autoscaling == nil {
				s.Errorf("routes refer to %s, which has %d pods but no longer has an autoscaler", version, c.Status.Replicas)
			}
		}
	}
}

// TestAbortedCanaryKeepsItsAutoscaler checks that an aborted canary with half of the traffic keeps its
// autoscaler until no route refers to it and the drain has ended.
func TestAbortedCanaryKeepsItsAutoscaler(t *testing.T) {
	t.Parallel()
	s := half(t)
	s.grow("1.1.0", 10)
	c := s.release("1.1.0")
	c.Spec.Decision = &v1alpha1.Decision{Action: "Deprecate", ID: "1"}
	if err := env.Client.Update(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	s.before = func(what string) error {
		if what == "status" {
			s.keepsAutoscaler("1.1.0")
		}
		return nil
	}
	s.passed = func() { s.keepsAutoscaler("1.1.0") }
	s.play()
	if c := s.release("1.1.0"); c.Spec.Replicas != 0 || c.Spec.Availability.Autoscaling != nil {
		t.Errorf("at the end: 1.1.0 has %d replicas, autoscaling %v", c.Spec.Replicas, c.Spec.Availability.Autoscaling)
	}
}

// TestReplacedReleaseKeepsItsAutoscaler checks that, on promotion, the previous active release keeps the pods
// that its autoscaler added, because this release has half of the traffic until the routes change.
func TestReplacedReleaseKeepsItsAutoscaler(t *testing.T) {
	t.Parallel()
	s := half(t)
	s.grow("1.0.0", 10)
	s.grow("1.1.0", 10)
	if _, err := s.pass(); err != nil {
		t.Fatal(err)
	}
	s.clock.Step(2 * time.Hour)
	s.passed = func() { s.keepsAutoscaler("1.0.0") }
	s.play()
	if !strings.Contains(s.rolloutState(), "1.1.0 active 100%") {
		t.Errorf("1.1.0 is not active:\n%s", s.rolloutState())
	}
	if c := s.release("1.0.0"); c.Spec.Availability.Autoscaling != nil {
		t.Error("1.0.0 is a standby release after its drain, but has an autoscaler")
	}
}

// TestPromotedReleaseKeepsItsReplicas checks that the minimum of a promoted release's autoscaler, which had measured only half
// of the traffic, decreases only when the autoscaler has measured all of the traffic.
func TestPromotedReleaseKeepsItsReplicas(t *testing.T) {
	t.Parallel()
	s := half(t)
	s.grow("1.0.0", 10)
	if _, err := s.pass(); err != nil {
		t.Fatal(err)
	}
	s.clock.Step(2 * time.Hour)
	s.play(s.until("1.1.0 active 100%"))
	s.gateway()
	for _, later := range []time.Duration{0, 4 * time.Minute} {
		s.clock.Step(later)
		if _, err := s.pass(); err != nil {
			t.Fatal(err)
		}
		if n := s.release("1.1.0").Spec.Replicas; n != 10 {
			t.Errorf("%s after the gateway has confirmed the traffic, 1.1.0 has %d replicas, want 10", later, n)
		}
	}
	s.play()
	if n := s.release("1.1.0").Spec.Replicas; n != 2 {
		t.Errorf("at the end, 1.1.0 has %d replicas, want 2", n)
	}
}

// TestRefusedResizeKeepsNoTraffic checks that the rollout state is written, and removes the weight of a
// failing canary, although the API server rejects a write to the canary.
func TestRefusedResizeKeepsNoTraffic(t *testing.T) {
	t.Parallel()
	for name, refusal := range map[string]error{
		"by an unavailable webhook": apierrors.NewInternalError(errors.New("failed calling webhook")),
		"by a policy":               apierrors.NewForbidden(v1alpha1.GroupVersion.WithResource("versionedmicroservices").GroupResource(), "shop", errors.New("denied by policy")),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := half(t)
			s.broken["1.1.0"] = true
			s.kubelet()
			s.edit(func(spec *v1alpha1.MicroserviceSpec) { spec.Availability.Autoscaling.MaxReplicas = 30 })
			refused := 0
			s.before = func(what string) error {
				if strings.HasPrefix(what, "patch ") {
					refused++
					return refusal
				}
				return nil
			}
			s.clock.Step(24 * time.Hour)
			for range 20 {
				_, _ = s.pass() // the reconcile might return the rejection
				s.gateway()
				s.clock.Step(time.Hour)
			}
			if refused == 0 {
				t.Error("no write was refused")
			}
			if got := s.rolloutState(); !strings.Contains(got, "1.1.0 error 0%") {
				t.Errorf("a day after the deadline of 1.1.0, which has no pods:\n%s", got)
			}
			if got := condition(s.ms(), "Ready"); !strings.HasPrefix(got, "False ") {
				t.Errorf("Ready is %q, want the rejection", got)
			}
		})
	}
}

// TestRefusedRevivalKeepsNoTraffic checks that the rollout state is written and the canary loses its weight,
// although the API server rejects a write to the release that should be revived or that a user made a
// decision about.
func TestRefusedRevivalKeepsNoTraffic(t *testing.T) {
	t.Parallel()
	decide := func(s *story, version string, action v1alpha1.DecisionAction) {
		c := s.release(version)
		c.Spec.Decision = &v1alpha1.Decision{Action: action, ID: "1"}
		if err := env.Client.Update(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	for name, test := range map[string]struct {
		refuses  string // patches of this version
		abort    func(*story)
		after    string // the state after writes are no longer rejected
		reported bool   // whether the rejection is still reported at the end
	}{
		"by a pin to a retained release": {
			refuses: "1.0.0", abort: func(s *story) {
				s.edit(func(spec *v1alpha1.MicroserviceSpec) {
					spec.UpdateStrategy.Manual = &v1alpha1.ManualUpdateStrategy{Groups: []v1alpha1.GroupPin{{Name: "release", Version: "1.0.0"}}}
				})
			},
			after: "1.0.0 active 100%", reported: true,
		},
		"by decision Deprecate": {refuses: "1.2.0", abort: func(s *story) { decide(s, "1.2.0", "Deprecate") }, after: "1.1.0 active 100%"},
		"by decision Retry on another release": {
			refuses: "1.1.5", abort: func(s *story) {
				decide(s, "1.1.5", "Retry")
				s.broken["1.2.0"] = true
				s.kubelet()
			},
			after: "1.1.0 active 100%", reported: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := begin(t, func(ms *v1alpha1.Microservice) {
				ms.Spec.UpdateStrategy.Canary.Steps = []v1alpha1.CanaryStep{{Weight: 50, Pause: &v1alpha1.CanaryPause{Duration: "100h"}}}
				ms.Spec.UpdateStrategy.MinimumAvailable = 3
			})
			s.route()
			s.offer("1.0.0")
			s.play()
			s.edit(func(spec *v1alpha1.MicroserviceSpec) { spec.UpdateStrategy.Canary.Steps[0].Pause = nil })
			s.offer("1.1.0", "1.0.0")
			s.play(s.until("1.1.0 active 100%"))
			s.play()
			s.edit(func(spec *v1alpha1.MicroserviceSpec) {
				spec.UpdateStrategy.Canary.Steps[0].Pause = &v1alpha1.CanaryPause{Duration: "100h"}
			})
			s.broken["1.1.5"] = true
			s.offer("1.1.5", "1.1.0", "1.0.0")
			s.play()
			if test.refuses == "1.1.5" && !strings.Contains(s.rolloutState(), "1.1.5 error") {
				t.Fatalf("1.1.5 did not fail:\n%s", s.rolloutState())
			}
			s.offer("1.2.0", "1.1.5", "1.1.0", "1.0.0")
			s.play(s.until("1.2.0 canary 50%"))
			s.gateway()
			if _, err := s.pass(); err != nil {
				t.Fatal(err)
			}
			target, refused := s.release(test.refuses).Name, 0
			s.before = func(what string) error {
				if what == "patch "+target {
					refused++
					return apierrors.NewForbidden(v1alpha1.GroupVersion.WithResource("versionedmicroservices").GroupResource(), target, errors.New("denied by policy"))
				}
				return nil
			}
			test.abort(s)
			for range 5 {
				_, _ = s.pass() // the reconcile might return the rejection
				s.gateway()
				s.clock.Step(time.Hour)
			}
			if refused == 0 {
				t.Error("no write was refused")
			}
			if got := s.rolloutState(); strings.Contains(got, "1.2.0 canary") || !strings.Contains(got, "1.1.0 active 100%") {
				t.Errorf("after the abort:\n%s", got)
			}
			if got := condition(s.ms(), "Ready"); test.reported && (!strings.HasPrefix(got, "False ") || !strings.Contains(got, "denied by policy")) {
				t.Errorf("Ready is %q, want the rejection", got)
			}
			s.before = nil
			s.play()
			if got := s.rolloutState(); !strings.Contains(got, test.after) {
				t.Errorf("at the end:\n%s", got)
			}
		})
	}
}

// TestRefusedWriteOnOldFacts checks that the plan is dropped if a write is rejected and the object has
// changed since it was read, because a decision about the object may be outdated.
func TestRefusedWriteOnOldFacts(t *testing.T) {
	t.Parallel()
	s := half(t)
	c := s.release("1.1.0")
	c.Spec.Decision = &v1alpha1.Decision{Action: "Deprecate", ID: "1"}
	if err := env.Client.Update(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	s.before = func(what string) error {
		if what != "patch "+c.Name {
			return nil
		}
		s.before = nil
		newer := s.release("1.1.0")
		newer.Spec.Decision = &v1alpha1.Decision{Action: "Continue", ID: "2", Step: "1"}
		if err := env.Client.Update(t.Context(), newer); err != nil {
			t.Fatal(err)
		}
		return apierrors.NewInternalError(errors.New("failed calling webhook"))
	}
	if _, err := s.pass(); err != nil {
		t.Errorf("a plan with outdated facts is not dropped: %v", err)
	}
	if got := s.rolloutState(); !strings.Contains(got, "1.1.0 canary 50%") {
		t.Errorf("a replaced decision was applied:\n%s", got)
	}
}

// TestRefusedWriteKeepsTheTimeOfThePlan checks that the plan's requeue time applies while a write is
// temporarily rejected: pauses, deadlines, and drains do not wait for the back-off.
func TestRefusedWriteKeepsTheTimeOfThePlan(t *testing.T) {
	t.Parallel()
	s := begin(t)
	w := &pass{plan: plan{Result: release.Result{RequeueTime: s.clock.Now().Add(time.Second)}}}
	requeue, err := s.reconciler.next(w, status.Classify(apierrors.NewInternalError(errors.New("failed calling webhook"))))
	if requeue != time.Second || err == nil {
		t.Errorf("requeue after %v, error %v", requeue, err)
	}
}
