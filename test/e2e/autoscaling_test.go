//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// TestAutoscaling checks that a release takes over the capacity of the previous release. There are no metrics
// for autoscaling here, so the HorizontalPodAutoscalers only enforce bounds, and the test scales manually.
func TestAutoscaling(t *testing.T) {
	s := newService(t, "autoscaling").steps(asking("some", 10))
	s.ms.Spec.Availability = v1alpha1.Availability{Replicas: 1, Autoscaling: &v1alpha1.Autoscaling{MinReplicas: new(int32(2)), MaxReplicas: 5}}
	s.start("1.0.0")
	l := s.load(30, false)
	s.scaled("1.0.0", 2)
	if hpa := s.autoscaler("1.0.0"); hpa == nil || hpa.Spec.MaxReplicas != 5 || *hpa.Spec.MinReplicas != 2 {
		t.Fatalf("1.0.0 has the autoscaler %+v", hpa)
	}

	t.Log("the autoscaler requests four replicas")
	kubectl(t, "", "scale", "-n", s.namespace, "deployment/"+s.release("1.0.0").VersionedMicroservice, "--replicas=4")
	s.scaled("1.0.0", 4)
	quiet(t, interval)
	s.scaled("1.0.0", 4)

	s.push("1.1.0")
	s.weight("1.1.0", 10)
	s.scaled("1.1.0", 4)
	s.decide("1.1.0", v1alpha1.DecisionContinue, "some")
	s.active("1.1.0")
	s.scaled("1.1.0", 4)
	s.standby("1.0.0")

	t.Log("in a rollback, the release gets the capacity before it gets the traffic")
	s.pin("1.0.0")
	s.active("1.0.0")
	s.sees(l, "1.0.0")
	s.scaled("1.0.0", 4)
	s.standby("1.1.0")
	verdict(t, l)
}

// autoscaler returns a version's autoscaler, or nil.
func (s *service) autoscaler(version string) *autoscalingv2.HorizontalPodAutoscaler {
	s.t.Helper()
	hpa := &autoscalingv2.HorizontalPodAutoscaler{}
	err := env.Client.Get(s.t.Context(), client.ObjectKey{Namespace: s.namespace, Name: s.release(version).VersionedMicroservice}, hpa)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return hpa
}

// scaled waits until a version has the given number of replicas, all of which are ready.
func (s *service) scaled(version string, want int32) {
	s.t.Helper()
	wait(s.t, fmt.Sprintf("%s to have %d replicas", version, want), func(ctx context.Context) (bool, string, error) {
		d := &appsv1.Deployment{}
		if err := env.Client.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: s.release(version).VersionedMicroservice}, d); err != nil {
			return false, "", err
		}
		return *d.Spec.Replicas == want && d.Status.ReadyReplicas == want, fmt.Sprintf("%d of %d ready", d.Status.ReadyReplicas, *d.Spec.Replicas), nil
	})
}

// standby waits until a version is retained with one pod and without an autoscaler.
func (s *service) standby(version string) {
	s.t.Helper()
	s.scaled(version, 1)
	wait(s.t, version+" to have no autoscaler", func(context.Context) (bool, string, error) {
		return s.autoscaler(version) == nil, "still exists", nil
	})
}
