package resources

import (
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hlnr "github.com/heighliner/heighliner/apis/v1alpha1"
)

// Autoscaled says that a HorizontalPodAutoscaler decides about the replicas above
// those that the release is to have.
func Autoscaled(release *hlnr.VersionedMicroservice) bool {
	return release.Spec.Availability.Autoscaling != nil && release.Spec.Replicas > 0
}

// Autoscaler is the HorizontalPodAutoscaler of a release, nil where it has none. It
// goes down to the replicas that the release is to have, and no further: in a run
// these are more than the user's least, for the release that is on its way and for the
// one that it replaces (protocol rule 6). They are more than the user's most where a
// release takes over from one that has more.
func Autoscaler(release *hlnr.VersionedMicroservice) *autoscalingv2.HorizontalPodAutoscaler {
	if !Autoscaled(release) {
		return nil
	}
	least, want := release.Spec.Replicas, release.Spec.Availability.Autoscaling.DeepCopy()
	return &autoscalingv2.HorizontalPodAutoscaler{
		TypeMeta:   metav1.TypeMeta{APIVersion: autoscalingv2.SchemeGroupVersion.String(), Kind: "HorizontalPodAutoscaler"},
		ObjectMeta: metav1.ObjectMeta{Name: release.Name, Namespace: release.Namespace, Labels: Labels(release)},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{
				APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "Deployment", Name: release.Name,
			},
			MinReplicas: &least,
			MaxReplicas: max(least, want.MaxReplicas),
			Metrics:     want.Metrics,
			Behavior:    want.Behavior,
		},
	}
}
