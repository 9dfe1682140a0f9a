package versionedmicroservice

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// TestBudgetOfANewRelease checks that the PodDisruptionBudget of a new release is created when all pods of the release are
// available, and no later than when the release first receives traffic.
func TestBudgetOfANewRelease(t *testing.T) {
	release := &v1alpha1.VersionedMicroservice{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "shop-1"}}
	release.Spec.Replicas = 2
	one := intstr.FromInt32(1)
	release.Spec.Availability.DisruptionBudget = &v1alpha1.DisruptionBudget{MaxUnavailable: &one}
	row := func(status v1alpha1.ReleaseStatus, promoted int64) *v1alpha1.Microservice {
		ms := &v1alpha1.Microservice{}
		ms.Status.ReleaseGroups = []v1alpha1.ReleaseGroup{{Releases: []v1alpha1.Release{{VersionedMicroservice: "shop-1", Status: status, Promoted: promoted}}}}
		return ms
	}
	available := func(n int32) *appsv1.Deployment {
		return &appsv1.Deployment{Status: appsv1.DeploymentStatus{AvailableReplicas: n}}
	}
	for name, test := range map[string]struct {
		o    observed
		want bool
	}{
		"before its Deployment":              {observed{microservice: row(v1alpha1.ReleasePending, 0)}, false},
		"before the rollout state":           {observed{microservice: &v1alpha1.Microservice{}, deployment: available(0)}, false},
		"with one pod of two":                {observed{microservice: row(v1alpha1.ReleasePending, 0), deployment: available(1)}, false},
		"available":                          {observed{microservice: row(v1alpha1.ReleasePending, 0), deployment: available(2)}, true},
		"with traffic, and one pod":          {observed{microservice: row(v1alpha1.ReleaseCanary, 0), deployment: available(1)}, true},
		"starting again after it was active": {observed{microservice: row(v1alpha1.ReleasePending, 1), deployment: available(0)}, true},
		"active without a pod":               {observed{microservice: row(v1alpha1.ReleaseActive, 1), deployment: available(0)}, true},
		"an existing budget is kept":         {observed{microservice: row(v1alpha1.ReleasePending, 0), deployment: available(1), budget: &policyv1.PodDisruptionBudget{}}, true},
		"a release without Microservice":     {observed{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			test.o.release = release
			var p plan
			if planBudget(&test.o, &p); (p.budget != nil) != test.want {
				t.Errorf("a budget is written: %t, want %t", p.budget != nil, test.want)
			}
		})
	}
}
