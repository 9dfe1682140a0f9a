package resources

import (
	"maps"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/hook"
)

// Job returns the Job for a hook call. Its pod is the release's pod without additional containers: the init
// containers run first, and then the main container runs the hook's command. The pod does not have
// the template's labels, so that no user-defined Service, budget, or policy selects it. The controller reference
// is not set.
func Job(release *v1alpha1.VersionedMicroservice, q hook.Call) *batchv1.Job {
	spec := q.Hook.Job
	labels := Labels(release)
	labels[v1alpha1.LabelHook] = q.Hook.Name
	pod := release.Spec.Template.Spec.DeepCopy()
	runs := jobContainer(release, q)
	if !Confined(release) { // The last lines of the log explain a failure.
		runs.TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
	}
	pod.Containers = []corev1.Container{runs}
	for i := range pod.InitContainers { // If the restartPolicy is Never, the API server rejects a resizePolicy that restarts a container.
		pod.InitContainers[i].ResizePolicy = nil
	}
	setLabelVariables(pod, release)
	pod.RestartPolicy = corev1.RestartPolicyNever
	pod.ActiveDeadlineSeconds = ptr.To(int64(hook.JobTimeout(spec).Seconds()))
	pod.TopologySpreadConstraints, pod.ReadinessGates, pod.SchedulingGates = nil, nil, nil
	if pod.Affinity != nil {
		pod.Affinity.PodAffinity, pod.Affinity.PodAntiAffinity = nil, nil
	}
	return &batchv1.Job{
		TypeMeta: metav1.TypeMeta{APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "Job"},
		ObjectMeta: metav1.ObjectMeta{
			Name: hook.JobName(q), Namespace: release.Namespace, Labels: labels,
			Annotations: map[string]string{v1alpha1.AnnotationHookCall: q.Body.ID, v1alpha1.AnnotationHookType: string(q.Hook.Type)},
		},
		Spec: batchv1.JobSpec{
			BackoffLimit: ptr.To(spec.BackoffLimit),
			// An eviction is not caused by the release. It neither fails the Job nor counts as a retry.
			PodFailurePolicy: &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{
				Action:          batchv1.PodFailurePolicyActionIgnore,
				OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}},
			}}},
			// Two pods never run at the same time: the next pod starts when the previous pod has ended.
			PodReplacementPolicy: ptr.To(batchv1.Failed),
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{
					Labels:      map[string]string{v1alpha1.LabelHook: q.Hook.Name},
					Annotations: maps.Clone(release.Spec.Template.Annotations),
				},
				Spec: *pod,
			},
		},
	}
}

// jobContainer returns the release's container as it runs in the Job for a call.
func jobContainer(release *v1alpha1.VersionedMicroservice, q hook.Call) corev1.Container {
	spec := q.Hook.Job
	c := *MainContainer(release).DeepCopy()
	c.LivenessProbe, c.ReadinessProbe, c.StartupProbe, c.Lifecycle, c.Ports = nil, nil, nil, nil, nil
	c.RestartPolicy, c.RestartPolicyRules, c.ResizePolicy, c.Stdin, c.TTY = nil, nil, nil, false, false
	if spec.Image != "" {
		c.Image, c.ImagePullPolicy = spec.Image, ""
	}
	if len(spec.Command) > 0 {
		c.Command, c.Args = slices.Clone(spec.Command), nil
	}
	if len(spec.Args) > 0 {
		c.Args = slices.Clone(spec.Args)
	}
	if spec.Resources != nil {
		own := spec.Resources.DeepCopy()
		c.Resources = corev1.ResourceRequirements{Limits: own.Limits, Requests: own.Requests}
	}
	added := hook.Variables(q)
	c.Env = append(slices.DeleteFunc(c.Env, func(e corev1.EnvVar) bool {
		return slices.ContainsFunc(added, func(a corev1.EnvVar) bool { return a.Name == e.Name })
	}), added...)
	return c
}

// setLabelVariables replaces references to pod labels in environment variables with the values of these labels in
// the release's pods, because a Job's pod does not have these labels. The variables therefore have the same values
// in the release's pods and in the Job's pod.
func setLabelVariables(pod *corev1.PodSpec, release *v1alpha1.VersionedMicroservice) {
	labels := maps.Clone(release.Spec.Template.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, Labels(release))
	for _, containers := range [][]corev1.Container{pod.InitContainers, pod.Containers} {
		for i := range containers {
			for j := range containers[i].Env {
				e := &containers[i].Env[j]
				if e.ValueFrom == nil || e.ValueFrom.FieldRef == nil {
					continue
				}
				key, isLabel := strings.CutPrefix(e.ValueFrom.FieldRef.FieldPath, "metadata.labels['")
				key, ends := strings.CutSuffix(key, "']")
				if value, known := labels[key]; isLabel && ends && known {
					e.Value, e.ValueFrom = value, nil
				}
			}
		}
	}
}

// MainContainer returns the container that runs the release's image. This is the image without a
// containerName. Images with a containerName are additional images.
func MainContainer(release *v1alpha1.VersionedMicroservice) *corev1.Container {
	containers := release.Spec.Template.Spec.Containers
	for _, image := range release.Spec.Images {
		for i := range containers {
			if image.ContainerName == "" && containers[i].Image == image.Image {
				return &containers[i]
			}
		}
	}
	return &containers[0] // The API server requires a container.
}

// Confined reports whether a release's pods use the default ServiceAccount without a mounted token, as is the
// case for pods that run the code of forks. Messages of such pods are not shown.
func Confined(release *v1alpha1.VersionedMicroservice) bool {
	pod := &release.Spec.Template.Spec
	return pod.ServiceAccountName == "default" && pod.AutomountServiceAccountToken != nil && !*pod.AutomountServiceAccountToken
}
