package versionedmicroservice

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// autoscaledRelease creates a release that requests 100 millicores per pod. It returns the release, and the
// load, which the test sets in millicores for all pods.
func autoscaledRelease(t *testing.T, replicas int32, autoscaling *v1alpha1.Autoscaling) (*v1alpha1.VersionedMicroservice, *atomic.Int64) {
	t.Helper()
	release := newRelease(namespace(t, nil), replicas)
	release.Spec.Template.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}
	release.Spec.Availability.Autoscaling = autoscaling
	load := &atomic.Int64{}
	world.env.PlayLoad(t, release.Namespace, client.MatchingLabels{v1alpha1.LabelRelease: release.Name}, load)
	return create(t, release), load
}

func halfUsed(most int32) *v1alpha1.Autoscaling {
	return &v1alpha1.Autoscaling{MaxReplicas: most, Metrics: []autoscalingv2.MetricSpec{{
		Type: autoscalingv2.ResourceMetricSourceType,
		Resource: &autoscalingv2.ResourceMetricSource{
			Name: corev1.ResourceCPU, Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: new(int32(50))},
		},
	}}}
}

// sizes are the successive numbers of replicas in a Deployment's specification.
type sizes struct {
	mu   sync.Mutex
	seen []int32
}

// follow starts to record the sizes of a release's Deployment.
func follow(t *testing.T, release *v1alpha1.VersionedMicroservice) *sizes {
	t.Helper()
	w, err := world.env.Client.Watch(t.Context(), &appsv1.DeploymentList{}, client.InNamespace(release.Namespace))
	if err != nil {
		t.Fatal(err)
	}
	s := &sizes{}
	go func() {
		for e := range w.ResultChan() {
			if d, ok := e.Object.(*appsv1.Deployment); ok && d.Spec.Replicas != nil {
				s.mu.Lock()
				if n := len(s.seen); n == 0 || s.seen[n-1] != *d.Spec.Replicas {
					s.seen = append(s.seen, *d.Spec.Replicas)
				}
				s.mu.Unlock()
			}
		}
	}()
	t.Cleanup(w.Stop)
	return s
}

func (s *sizes) all() []int32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.seen)
}

// mark forgets all sizes except the current size.
func (s *sizes) mark() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = s.seen[max(0, len(s.seen)-1):]
}

// size waits until the Deployment has the desired number of replicas, and the release reports that all of them
// are available.
func size(t *testing.T, release *v1alpha1.VersionedMicroservice, want int32) {
	t.Helper()
	d := deploymentOf(release)
	eventually(t, func() string {
		if text := fetch(t, d); text != "" {
			return text
		}
		if text := fetch(t, release); text != "" {
			return text
		}
		if *d.Spec.Replicas != want || d.Status.AvailableReplicas != want || release.Status.Replicas != want || release.Status.Available != want {
			return fmt.Sprintf("the Deployment requests %d replicas, and %d replicas are available; the release reports %d of %d", *d.Spec.Replicas, d.Status.AvailableReplicas, release.Status.Available, release.Status.Replicas)
		}
		return ""
	})
}

func autoscalerOf(release *v1alpha1.VersionedMicroservice) *autoscalingv2.HorizontalPodAutoscaler {
	a := &autoscalingv2.HorizontalPodAutoscaler{}
	a.Name, a.Namespace = release.Name, release.Namespace
	return a
}

// held waits until the autoscaler has read the load, and until its minimum prevents it from using fewer
// replicas.
func held(t *testing.T, release *v1alpha1.VersionedMicroservice, least int32) {
	t.Helper()
	a := autoscalerOf(release)
	eventually(t, func() string {
		if text := fetch(t, a); text != "" {
			return text
		}
		if *a.Spec.MinReplicas != least {
			return fmt.Sprintf("its minimum is %d, want %d", *a.Spec.MinReplicas, least)
		}
		for _, c := range a.Status.Conditions {
			if c.Type == autoscalingv2.ScalingLimited && c.Status == corev1.ConditionTrue && c.Reason == "TooFewReplicas" && a.Status.DesiredReplicas == least {
				return ""
			}
		}
		return fmt.Sprintf("the autoscaler is not limited by its minimum: %+v", a.Status)
	})
}

// TestAutoscalingSwitchedOn tests protocol rule 6 (a): the number of replicas is not reset when an autoscaler is
// enabled, edited, or disabled.
func TestAutoscalingSwitchedOn(t *testing.T) {
	t.Parallel()
	release, load := autoscaledRelease(t, 3, nil)
	size(t, release, 3)
	seen := follow(t, release)
	load.Store(290) // 97% of three pods, 58% of five, 48% of six: it reaches six from any size
	change(t, release, func(r *v1alpha1.VersionedMicroservice) { r.Spec.Availability.Autoscaling = halfUsed(6) })
	size(t, release, 6)

	written := len(world.writes.in(release.Namespace))
	change(t, release, func(r *v1alpha1.VersionedMicroservice) { r.Spec.Availability.Autoscaling = halfUsed(8) })
	a := autoscalerOf(release)
	eventually(t, func() string {
		fetch(t, a)
		if a.Spec.MaxReplicas != 8 {
			return "its maximum is not 8"
		}
		if n := len(world.writes.in(release.Namespace)); n < written+2 {
			return fmt.Sprintf("%d writes", n-written)
		}
		return ""
	})
	size(t, release, 6)
	if all := seen.all(); slices.Min(all) < 3 || !slices.IsSorted(all) {
		t.Errorf("while scaling from 3 to 6 replicas, the Deployment had %v replicas", all)
	}

	// The load requires no further change, so reconciles must write nothing.
	steady(t, release)

	change(t, release, func(r *v1alpha1.VersionedMicroservice) { r.Spec.Availability.Autoscaling, r.Spec.Replicas = nil, 6 })
	eventually(t, func() string {
		if fetch(t, a) == "" {
			return "the autoscaler still exists"
		}
		return ""
	})
	size(t, release, 6)
	if all := seen.all(); !slices.IsSorted(all) {
		t.Errorf("autoscaling was disabled at 6 replicas, but the Deployment had %v replicas", all)
	}
}

// TestIdleCanaryKeepsItsCapacity tests protocol rule 6 (b): the autoscaler of an idle canary does not remove
// the capacity that the canary gets before it receives traffic.
func TestIdleCanaryKeepsItsCapacity(t *testing.T) {
	t.Parallel()
	release, _ := autoscaledRelease(t, 1, halfUsed(4))
	size(t, release, 1)
	seen := follow(t, release)
	for _, want := range []int32{3, 6} { // more than the maximum, because the active release has this number
		change(t, release, func(r *v1alpha1.VersionedMicroservice) { r.Spec.Replicas = want })
		size(t, release, want)
		held(t, release, want)
		size(t, release, want)
	}
	if all := seen.all(); !slices.IsSorted(all) {
		t.Errorf("the canary had %v replicas", all)
	}
}

// TestActiveKeepsItsCapacity tests protocol rule 6 (c): the autoscaler of the active release does not remove
// capacity that an abort of the canary would require. After the rollout, only the autoscaler scales
// down.
func TestActiveKeepsItsCapacity(t *testing.T) {
	t.Parallel()
	release, load := autoscaledRelease(t, 2, halfUsed(8))
	load.Store(300)
	size(t, release, 6)
	seen := follow(t, release)
	change(t, release, func(r *v1alpha1.VersionedMicroservice) { r.Spec.Replicas = 6 }) // the minimum during the rollout
	eventually(t, func() string {
		a := autoscalerOf(release)
		if text := fetch(t, a); text != "" {
			return text
		}
		if least := *a.Spec.MinReplicas; least != 6 {
			return fmt.Sprintf("the minimum is %d", least)
		}
		return ""
	})
	load.Store(150) // the canary has half of the load
	held(t, release, 6)
	size(t, release, 6)
	if all := seen.all(); len(all) != 1 {
		t.Errorf("during the rollout: %v replicas", all)
	}

	seen.mark()
	change(t, release, func(r *v1alpha1.VersionedMicroservice) { r.Spec.Replicas = 2 })
	size(t, release, 3) // the load requires three: the controller does not scale below this number
	if all := seen.all(); slices.Min(all) < 3 {
		t.Errorf("after the rollout: %v replicas", all)
	}

	change(t, release, func(r *v1alpha1.VersionedMicroservice) { r.Spec.Availability.Autoscaling, r.Spec.Replicas = nil, 1 }) // standby
	size(t, release, 1)
	if a := autoscalerOf(release); fetch(t, a) == "" {
		t.Error("a standby release has an autoscaler")
	}
	change(t, release, func(r *v1alpha1.VersionedMicroservice) {
		r.Spec.Availability.Autoscaling, r.Spec.Replicas = halfUsed(8), 0
	})
	size(t, release, 0)
	if a := autoscalerOf(release); fetch(t, a) == "" {
		t.Error("a release without pods has an autoscaler")
	}
}

// TestAutoscalerIsKept checks that an autoscaler that a user edits or deletes is restored.
func TestAutoscalerIsKept(t *testing.T) {
	t.Parallel()
	release, _ := autoscaledRelease(t, 2, halfUsed(4))
	size(t, release, 2)
	a := autoscalerOf(release)
	right := func() string {
		if text := fetch(t, a); text != "" {
			return text
		}
		if a.Spec.MaxReplicas != 4 || *a.Spec.MinReplicas != 2 {
			return fmt.Sprintf("from %d to %d", *a.Spec.MinReplicas, a.Spec.MaxReplicas)
		}
		return ""
	}
	eventually(t, right)
	change(t, a, func(a *autoscalingv2.HorizontalPodAutoscaler) {
		a.Spec.MaxReplicas, a.Spec.MinReplicas = 9, new(int32(1))
	})
	eventually(t, right)
	if err := world.Delete(context.WithoutCancel(t.Context()), a); err != nil {
		t.Fatal(err)
	}
	eventually(t, right)
}
