package resources

import (
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// Budget returns a release's PodDisruptionBudget; nil if the release has none. Pods that are not ready may always be evicted,
// because they serve no traffic and must not block node drains.
func Budget(release *v1alpha1.VersionedMicroservice) *policyv1.PodDisruptionBudget {
	want := release.Spec.Availability.DisruptionBudget
	if want == nil {
		return nil
	}
	always := policyv1.AlwaysAllow
	return &policyv1.PodDisruptionBudget{
		TypeMeta:   metav1.TypeMeta{APIVersion: policyv1.SchemeGroupVersion.String(), Kind: "PodDisruptionBudget"},
		ObjectMeta: metav1.ObjectMeta{Name: release.Name, Namespace: release.Namespace, Labels: Labels(release)},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable:               want.MinAvailable,
			MaxUnavailable:             want.MaxUnavailable,
			Selector:                   Selector(release),
			UnhealthyPodEvictionPolicy: &always,
		},
	}
}
