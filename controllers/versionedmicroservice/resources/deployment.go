// Package resources builds the children of a VersionedMicroservice. It is pure:
// the same release gives the same objects.
//
//	deployment.go  the Deployment
//	autoscaler.go  the HorizontalPodAutoscaler
//	budget.go      the PodDisruptionBudget
package resources

import (
	"maps"
	"math"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	hlnr "github.com/heighliner/heighliner/apis/v1alpha1"
)

// AnnotationTemplate on a Deployment: the hash of its pod template as the server
// stored it, defaults and changes of admission included. Another hash means that
// somebody edited the template.
const AnnotationTemplate = "hlnr.io/template"

// AnnotationRetry on a Deployment changes when its ReplicaSet is to try again to create
// pods that were refused.
const AnnotationRetry = "hlnr.io/retry"

// history is the number of old ReplicaSets that are kept: there is one only where
// somebody edited the template.
const history = 1

// noDeadline switches the Deployment's own progress deadline off, as the
// Deployment controller reads it: the Microservice's planner holds the one
// deadline.
const noDeadline = math.MaxInt32

// Labels of the children of a release.
func Labels(release *hlnr.VersionedMicroservice) map[string]string {
	labels := map[string]string{
		hlnr.LabelMicroservice: release.Spec.MicroserviceName,
		hlnr.LabelGroup:        release.Spec.Group,
		hlnr.LabelRelease:      release.Name,
	}
	if number := release.Labels[hlnr.LabelPullRequest]; number != "" {
		labels[hlnr.LabelPullRequest] = number
	}
	return labels
}

// Selector of the pods of a release. It never changes, because a Deployment's
// cannot.
func Selector(release *hlnr.VersionedMicroservice) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{hlnr.LabelRelease: release.Name}}
}

// Deployment as it is created: with the finished pod template of the release, to
// which nothing is added, and with the replicas that are wanted now. The controller
// reference is not set.
func Deployment(release *hlnr.VersionedMicroservice) *appsv1.Deployment {
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
	own(d, release)
	return d
}

// Amend gives live with all that may change in place as it should be: labels,
// strategy, minReadySeconds. It leaves the pod template and the replicas alone, so
// that no new version of Heighliner rolls a pod. live is not changed.
func Amend(live *appsv1.Deployment, release *hlnr.VersionedMicroservice) *appsv1.Deployment {
	d := live.DeepCopy()
	own(d, release)
	return d
}

// Restore is Amend with the pod template of the release put back.
func Restore(live *appsv1.Deployment, release *hlnr.VersionedMicroservice) *appsv1.Deployment {
	d := Amend(live, release)
	d.Spec.Template = *release.Spec.Template.DeepCopy()
	return d
}

// own sets the fields that this controller keeps as they should be.
func own(d *appsv1.Deployment, release *hlnr.VersionedMicroservice) {
	if d.Labels == nil {
		d.Labels = map[string]string{}
	}
	maps.Copy(d.Labels, Labels(release))
	// The attempt goes with the Deployment, so that a release that is revived moves
	// the resourceVersion under a scale-down that an older leader still holds
	// (protocol rule 2).
	if attempt := release.Annotations[hlnr.AnnotationAttempt]; attempt != "" {
		Annotate(d, hlnr.AnnotationAttempt, attempt)
	}
	unavailable, surge := intstr.FromInt32(0), intstr.FromInt32(1)
	d.Spec.Strategy = appsv1.DeploymentStrategy{
		Type:          appsv1.RollingUpdateDeploymentStrategyType,
		RollingUpdate: &appsv1.RollingUpdateDeployment{MaxUnavailable: &unavailable, MaxSurge: &surge},
	}
	d.Spec.MinReadySeconds = release.Spec.Availability.MinReadySeconds
	kept, deadline := int32(history), int32(noDeadline)
	d.Spec.RevisionHistoryLimit, d.Spec.ProgressDeadlineSeconds = &kept, &deadline
	d.Spec.Paused = false
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
