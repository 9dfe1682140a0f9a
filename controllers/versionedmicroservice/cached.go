package versionedmicroservice

import (
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/apply"
	"github.com/heighliner/heighliner/internal/compact"
)

// CacheByObject configures a manager's cache for this controller. The cache contains only objects with the
// label of a release, and only those of their fields that the controllers read.
func CacheByObject() map[client.Object]cache.ByObject {
	if detects() {
		return cacheByObject(compact.Trimmed(trimPod), compact.Trimmed(trimDeployment))
	}
	return cacheByObject(compact.Packed(trimPod, packPod), compact.Packed(trimDeployment, packDeployment))
}

func cacheByObject(pods, deployments toolscache.TransformFunc) map[client.Object]cache.ByObject {
	ours, err := labels.NewRequirement(v1alpha1.LabelRelease, selection.Exists, nil)
	if err != nil {
		return nil // This cannot happen, because the label is a constant.
	}
	return map[client.Object]cache.ByObject{
		&corev1.Pod{}:                            {Label: labels.NewSelector().Add(*ours), Transform: pods},
		&appsv1.Deployment{}:                     {Label: labels.NewSelector().Add(*ours), Transform: deployments},
		&policyv1.PodDisruptionBudget{}:          {Label: labels.NewSelector().Add(*ours), Transform: compact.Trimmed(trimBudget)},
		&autoscalingv2.HorizontalPodAutoscaler{}: {Label: labels.NewSelector().Add(*ours)},
		&batchv1.Job{}:                           {Label: labels.NewSelector().Add(*ours), Transform: compact.Trimmed(trimJob)},
	}
}

// readyContainers are the container statuses that all ready pods in the cache share.
var readyContainers = []corev1.ContainerStatus{{Ready: true}}

// trimPod keeps a pod's basic metadata, its node, the labels that Heighliner sets, and the parts of its status that explain why it is not ready.
// From the status of a ready pod, it keeps only the phase, and it replaces the container statuses with a single status whose Ready field is true.
func trimPod(pod *corev1.Pod) {
	pod.Labels, pod.Annotations, pod.OwnerReferences, pod.GenerateName = ownLabels(pod.Labels), nil, nil, ""
	pod.Spec = corev1.PodSpec{NodeName: pod.Spec.NodeName}
	s := &pod.Status
	if len(s.ContainerStatuses) > 0 && &s.ContainerStatuses[0] == &readyContainers[0] {
		return // It is already trimmed.
	}
	if ready(pod) {
		*s = corev1.PodStatus{Phase: s.Phase, ContainerStatuses: readyContainers}
		return
	}
	*s = corev1.PodStatus{
		Phase: s.Phase, Reason: s.Reason, Message: s.Message, StartTime: s.StartTime, Conditions: s.Conditions,
		InitContainerStatuses: trimContainers(s.InitContainerStatuses), ContainerStatuses: trimContainers(s.ContainerStatuses),
	}
}

// ownLabels returns only the labels that Heighliner sets. It does not change its argument.
func ownLabels(all map[string]string) map[string]string {
	foreign := func(key, _ string) bool { return !strings.HasPrefix(key, v1alpha1.GroupVersion.Group+"/") }
	own := maps.Clone(all)
	maps.DeleteFunc(own, foreign)
	return own
}

// trimContainers returns trimmed copies of container statuses. It does not change its argument, because ready pods share their container statuses.
func trimContainers(all []corev1.ContainerStatus) (out []corev1.ContainerStatus) {
	for _, c := range all {
		out = append(out, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, State: c.State, LastTerminationState: c.LastTerminationState, Ready: c.Ready, RestartCount: c.RestartCount, Started: c.Started,
		})
	}
	return out
}

// ready reports whether a pod and all of its containers are ready, including sidecars. An init container that has ended is ready too.
func ready(pod *corev1.Pod) bool {
	return containersReady(pod) &&
		!slices.ContainsFunc(pod.Status.InitContainerStatuses, func(c corev1.ContainerStatus) bool { return !c.Ready }) &&
		slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		})
}

// trimJob keeps a Job's metadata, its status, and the timeout of its pods. The controller reads no other fields.
func trimJob(job *batchv1.Job) {
	timeout := job.Spec.Template.Spec.ActiveDeadlineSeconds
	job.Spec = batchv1.JobSpec{}
	job.Spec.Template.Spec.ActiveDeadlineSeconds = timeout
}

// trimBudget drops the status of a PodDisruptionBudget, because no controller reads this status.
func trimBudget(budget *policyv1.PodDisruptionBudget) {
	budget.Status = policyv1.PodDisruptionBudgetStatus{}
}

// trimDeployment drops the selector of a Deployment, and its conditions except ReplicaFailure. It replaces the pod template with an empty
// template whose name is the hash of the original template. The API server accepts no template without containers, so a template of this
// form can only be a trimmed template. If the original template cannot be hashed, it is kept.
func trimDeployment(d *appsv1.Deployment) {
	d.Spec.Selector = nil
	d.Status.Conditions = slices.DeleteFunc(d.Status.Conditions, func(c appsv1.DeploymentCondition) bool { return c.Type != appsv1.DeploymentReplicaFailure })
	if len(d.Status.Conditions) == 0 {
		d.Status.Conditions = nil
	}
	if hash, err := templateHash(d); err == nil {
		d.Spec.Template = hashedTemplate(hash)
	}
}

// hashedTemplate returns what replaces a pod template with a given hash.
func hashedTemplate(hash string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Name: hash}}
}

// templateHash returns the hash of the pod template of a Deployment that was read from the cache or from the API server.
func templateHash(d *appsv1.Deployment) (string, error) {
	if trimmed(d) {
		return d.Spec.Template.Name, nil
	}
	return apply.Hash(d.Spec.Template)
}

// trimmed reports whether a Deployment contains the hash of its pod template instead of the template.
func trimmed(d *appsv1.Deployment) bool { return len(d.Spec.Template.Spec.Containers) == 0 }
