package resources

import (
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// Autoscaled reports whether a HorizontalPodAutoscaler controls the replicas above the release's minimum.
func Autoscaled(release *v1alpha1.VersionedMicroservice) bool {
	return release.Spec.Availability.Autoscaling != nil && release.Spec.Replicas > 0
}

// Autoscaler returns a release's HorizontalPodAutoscaler; nil if the release has none. Its minimum is the release's spec.replicas.
// During a rollout, this minimum can be higher than the user's minimum, both for the new release and for the
// release that it replaces (protocol rule 6). If the replaced release has more replicas than the user's
// maximum, this minimum is also higher than the user's maximum.
func Autoscaler(release *v1alpha1.VersionedMicroservice) *autoscalingv2.HorizontalPodAutoscaler {
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
