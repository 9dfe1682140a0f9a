// Package resources builds the child objects of a VersionedMicroservice. It is pure: the same release always
// results in the same objects.
//
//	deployment.go  the Deployment
//	autoscaler.go  the HorizontalPodAutoscaler
//	budget.go      the PodDisruptionBudget
//	job.go         hook Jobs
package resources

import (
	"maps"
	"math"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// AnnotationTemplate is the annotation on a Deployment that contains the hash of its pod template as the
// server stores it, including defaults and changes made during admission. If the current template has a
// different hash, it was edited.
const AnnotationTemplate = "hlnr.io/template"

// AnnotationRetry is an annotation on a Deployment. A change to it makes the ReplicaSet retry the creation of
// rejected pods.
const AnnotationRetry = "hlnr.io/retry"

// history is the number of old ReplicaSets to retain. An old ReplicaSet exists only if the
// template was edited.
const history = 1

// noDeadline disables the Deployment's own progress deadline, because only the Microservice controller
// enforces a deadline.
const noDeadline = math.MaxInt32

// Labels returns the labels of a release's child objects.
func Labels(release *v1alpha1.VersionedMicroservice) map[string]string {
	labels := map[string]string{
		v1alpha1.LabelMicroservice: release.Spec.MicroserviceName,
		v1alpha1.LabelGroup:        release.Spec.Group,
		v1alpha1.LabelRelease:      release.Name,
	}
	if number := release.Labels[v1alpha1.LabelPullRequest]; number != "" {
		labels[v1alpha1.LabelPullRequest] = number
	}
	return labels
}

// Selector returns the selector for a release's pods. It must never change, because a Deployment's selector
// is immutable.
func Selector(release *v1alpha1.VersionedMicroservice) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{v1alpha1.LabelRelease: release.Name}}
}

// Deployment returns the Deployment to create, with the release's unchanged pod template and the desired
// replicas. The controller reference is not set.
func Deployment(release *v1alpha1.VersionedMicroservice) *appsv1.Deployment {
	replicas := release.Spec.Replicas
	d := &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "Deployment"},
		ObjectMeta: metav1.ObjectMeta{Name: release.Name, Namespace: release.Namespace},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: Selector(release),
			Template: *release.Spec.Template.DeepCopy(),
		},
	}
	setOwned(d, release)
	Annotate(d, annotationRevision, "1")
	return d
}

// annotationRevision is the annotation with the revision number of a Deployment's current template. The
// Deployment controller sets it in a separate write. Because of this write, the Deployment controller's next
// status write fails with a conflict and is retried. To avoid this conflict, a new Deployment gets the number
// that the Deployment controller would set.
const annotationRevision = "deployment.kubernetes.io/revision"

// Amend returns a copy of live with the desired values of the fields that setOwned sets. It changes neither the
// pod template nor the replicas, so a new version of Heighliner does not restart pods. The copy shares all other
// fields with live, such as the pod template and the replicas: do not change them in place.
func Amend(live *appsv1.Deployment, release *v1alpha1.VersionedMicroservice) *appsv1.Deployment {
	d := new(*live)
	d.Labels = maps.Clone(live.Labels)
	setOwned(d, release)
	return d
}

// Restore returns the result of Amend with the release's pod template.
func Restore(live *appsv1.Deployment, release *v1alpha1.VersionedMicroservice) *appsv1.Deployment {
	d := Amend(live, release)
	d.Spec.Template = *release.Spec.Template.DeepCopy()
	return d
}

// setOwned sets the fields that this controller owns.
func setOwned(d *appsv1.Deployment, release *v1alpha1.VersionedMicroservice) {
	if d.Labels == nil {
		d.Labels = map[string]string{}
	}
	maps.Copy(d.Labels, Labels(release))
	// The attempt is copied to the Deployment. Starting the release again therefore changes the
	// Deployment's resourceVersion, and a scale-down by a previous leader results in a conflict (protocol rule 2).
	if attempt := release.Annotations[v1alpha1.AnnotationAttempt]; attempt != "" {
		Annotate(d, v1alpha1.AnnotationAttempt, attempt)
	}
	d.Spec.Strategy = strategy(release)
	d.Spec.MinReadySeconds = release.Spec.Availability.MinReadySeconds
	retained, deadline := int32(history), int32(noDeadline)
	d.Spec.RevisionHistoryLimit, d.Spec.ProgressDeadlineSeconds = &retained, &deadline
	d.Spec.Paused = false
}

// strategy returns the strategy of a release's Deployment. A Deployment's template changes only when a user
// edits it, and when the edit is then reverted. Even in these cases, the pods of an exclusive release do not overlap.
func strategy(release *v1alpha1.VersionedMicroservice) appsv1.DeploymentStrategy {
	if release.Spec.Availability.Exclusive {
		return appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
	}
	unavailable, surge := intstr.FromInt32(0), intstr.FromInt32(1)
	return appsv1.DeploymentStrategy{
		Type:          appsv1.RollingUpdateDeploymentStrategyType,
		RollingUpdate: &appsv1.RollingUpdateDeployment{MaxUnavailable: &unavailable, MaxSurge: &surge},
	}
}

// Annotate sets one annotation.
func Annotate(obj metav1.Object, key, value string) {
	annotations := maps.Clone(obj.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[key] = value
	obj.SetAnnotations(annotations)
}
