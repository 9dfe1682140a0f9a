package microservice

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// TestOrphanInAReplacement checks that Orphan keeps all running objects. During a replacement in an exclusive
// group, the next release has the pods or will get them, and the active release has no pods.
func TestOrphanInAReplacement(t *testing.T) {
	t.Parallel()
	s := begin(t, func(ms *v1alpha1.Microservice) {
		ms.Spec.DeletionPolicy = v1alpha1.DeletionOrphan
		ms.Spec.Availability.Exclusive = true
		ms.Spec.UpdateStrategy.Canary = nil
	})
	s.offer("1.0.0")
	s.play()
	s.broken["1.1.0"] = true // It takes some time to start.
	s.offer("1.1.0", "1.0.0")
	s.play(func() bool {
		for _, c := range s.objects() {
			if c.Spec.SemVer.Version == "1.1.0" && c.Spec.Replicas > 0 {
				return true
			}
		}
		return false
	})
	// The VersionedMicroservice controller reports that 1.1.0 is waiting only for the pods of 1.0.0,
	// and the Microservice stops these pods.
	next := s.release("1.1.0")
	next.Status.Failure, next.Status.ObservedGeneration = v1alpha1.FailureOtherReleaseRunning, next.Generation
	if err := env.Client.Status().Update(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		if _, err := s.pass(); err != nil {
			t.Fatal(err)
		}
	}
	if n := s.release("1.0.0").Spec.Replicas; n != 0 {
		t.Fatalf("no replacement: 1.0.0 has %d replicas", n)
	}
	s.deployments()
	s.remove()
	if _, err := s.pass(); err != nil {
		t.Fatal(err)
	}
	same(t, "gone", s.removed(), true)
	var list appsv1.DeploymentList
	if err := env.Client.List(t.Context(), &list, client.InNamespace(s.namespace)); err != nil {
		t.Fatal(err)
	}
	kept := int32(0)
	for i := range list.Items {
		if len(list.Items[i].OwnerReferences) == 0 {
			kept += *list.Items[i].Spec.Replicas
		}
	}
	if kept == 0 {
		t.Error("no pods remain after the deletion: the Deployment of the active release is kept with 0 replicas, and the Deployment of 1.1.0 is garbage collected")
	}
}
