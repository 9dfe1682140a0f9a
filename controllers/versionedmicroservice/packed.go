package versionedmicroservice

import (
	"reflect"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The structs of pods and Deployments contain large specifications, which are almost empty in trimmed objects. The cache therefore contains trimmed
// objects as packed objects, whose structs need a third of the memory or less. A deep copy of a packed object is a corev1.Pod or an appsv1.Deployment, so
// that reads from the cache, which copy objects by default, return these types. Reads of packed objects with UnsafeDisableDeepCopy fail. Event handlers,
// predicates and indexes get packed objects.

// detects reports whether the mutation detector of client-go is enabled. The detector compares each object in the cache with a deep copy, which must
// have the same type, so the cache then contains no packed objects.
func detects() bool {
	detector := toolscache.NewCacheMutationDetector("packed objects") // an empty struct if the detector is disabled, and otherwise a pointer
	return reflect.TypeOf(detector).Kind() == reflect.Pointer
}

// packedPod is a ready pod in the cache.
type packedPod struct {
	metav1.PartialObjectMetadata
	node  string
	phase corev1.PodPhase
}

// packPod packs a ready pod that is trimmed. Other pods are returned unchanged.
func packPod(pod *corev1.Pod) client.Object {
	if s := pod.Status.ContainerStatuses; len(s) == 0 || &s[0] != &readyContainers[0] {
		return pod
	}
	return &packedPod{metadata(pod.TypeMeta, pod.ObjectMeta), pod.Spec.NodeName, pod.Status.Phase}
}

// DeepCopyObject implements runtime.Object. It returns a corev1.Pod.
func (p *packedPod) DeepCopyObject() runtime.Object {
	shared := corev1.Pod{TypeMeta: p.TypeMeta, ObjectMeta: p.ObjectMeta, Spec: corev1.PodSpec{NodeName: p.node}, Status: p.status()}
	return shared.DeepCopy()
}

// status returns the status of the trimmed pod. The pod shares its container statuses with other pods.
func (p *packedPod) status() corev1.PodStatus {
	return corev1.PodStatus{Phase: p.phase, ContainerStatuses: readyContainers}
}

// podStatus returns the status of a pod in the cache. ok is false for other objects.
func podStatus(o client.Object) (status corev1.PodStatus, ok bool) {
	switch pod := o.(type) {
	case *corev1.Pod:
		return pod.Status, true
	case *packedPod:
		return pod.status(), true
	}
	return corev1.PodStatus{}, false
}

// packedDeployment is a trimmed Deployment in the cache.
type packedDeployment struct {
	metav1.PartialObjectMetadata
	template                         string // the hash of the pod template
	replicas, historyLimit, deadline *int32
	strategy                         appsv1.DeploymentStrategy
	minReadySeconds                  int32
	paused                           bool
	status                           appsv1.DeploymentStatus
}

// packDeployment packs a trimmed Deployment. A Deployment that still has its pod template is returned unchanged.
func packDeployment(d *appsv1.Deployment) client.Object {
	if !trimmed(d) {
		return d
	}
	s := &d.Spec
	return &packedDeployment{
		metadata(d.TypeMeta, d.ObjectMeta), s.Template.Name, s.Replicas, s.RevisionHistoryLimit, s.ProgressDeadlineSeconds,
		s.Strategy, s.MinReadySeconds, s.Paused, d.Status,
	}
}

// DeepCopyObject implements runtime.Object. It returns an appsv1.Deployment.
func (p *packedDeployment) DeepCopyObject() runtime.Object {
	shared := appsv1.Deployment{
		TypeMeta: p.TypeMeta, ObjectMeta: p.ObjectMeta,
		Spec: appsv1.DeploymentSpec{
			Replicas: p.replicas, RevisionHistoryLimit: p.historyLimit, ProgressDeadlineSeconds: p.deadline,
			Strategy: p.strategy, MinReadySeconds: p.minReadySeconds, Paused: p.paused, Template: hashedTemplate(p.template),
		},
		Status: p.status,
	}
	return shared.DeepCopy()
}

// deploymentStatus returns the status of a Deployment in the cache, or an empty status for other objects.
func deploymentStatus(o client.Object) (status appsv1.DeploymentStatus) {
	switch d := o.(type) {
	case *appsv1.Deployment:
		return d.Status
	case *packedDeployment:
		return d.status
	}
	return status
}

func metadata(t metav1.TypeMeta, o metav1.ObjectMeta) metav1.PartialObjectMetadata {
	return metav1.PartialObjectMetadata{TypeMeta: t, ObjectMeta: o}
}
