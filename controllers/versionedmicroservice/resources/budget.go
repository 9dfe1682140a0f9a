package resources

import (
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hlnr "github.com/heighliner/heighliner/apis/v1alpha1"
)

// Budget is the PodDisruptionBudget of a release, nil where it has none. Pods that
// are not ready may always be evicted: they serve nobody, and a node that cannot be
// drained because of them helps nobody.
func Budget(release *hlnr.VersionedMicroservice) *policyv1.PodDisruptionBudget {
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
