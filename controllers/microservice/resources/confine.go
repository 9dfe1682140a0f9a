package resources

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// confine removes, from a pod that runs code from a fork, the permissions that only the repository's own code
// may have: the ServiceAccount, and tokens and certificates for the API server.
func confine(pod *corev1.PodSpec) {
	pod.ServiceAccountName, pod.DeprecatedServiceAccount = "default", ""
	pod.AutomountServiceAccountToken = ptr.To(false)
	for i := range pod.Volumes {
		if projected := pod.Volumes[i].Projected; projected != nil {
			projected.Sources = slices.DeleteFunc(projected.Sources, func(s corev1.VolumeProjection) bool {
				return s.ServiceAccountToken != nil || s.PodCertificate != nil
			})
		}
	}
}

// Secrets returns the names of the Secrets that a pod uses. Each value reports whether the pod requires the
// Secret to start.
func Secrets(pod *corev1.PodSpec) map[string]bool {
	needed := map[string]bool{}
	visit(pod, func(s Source, _ *string, optional bool) {
		if s.Kind == KindSecret {
			needed[s.Name] = needed[s.Name] || !optional
		}
	})
	return needed
}

// WithoutSecrets removes from a pod the Secrets for which taken returns true. It removes the environment variables
// that refer to them, and replaces their volumes with empty volumes, because containers still mount these volumes.
func WithoutSecrets(pod *corev1.PodSpec, taken func(name string) bool) {
	for i := range pod.Volumes {
		v := &pod.Volumes[i]
		if v.Secret != nil && taken(v.Secret.SecretName) {
			v.VolumeSource = corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}
		}
		if v.Projected != nil {
			v.Projected.Sources = slices.DeleteFunc(v.Projected.Sources, func(s corev1.VolumeProjection) bool {
				return s.Secret != nil && taken(s.Secret.Name)
			})
		}
	}
	for _, containers := range [][]corev1.Container{pod.InitContainers, pod.Containers} {
		for i := range containers {
			c := &containers[i]
			c.EnvFrom = slices.DeleteFunc(c.EnvFrom, func(e corev1.EnvFromSource) bool {
				return e.SecretRef != nil && taken(e.SecretRef.Name)
			})
			c.Env = slices.DeleteFunc(c.Env, func(e corev1.EnvVar) bool {
				return e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil && taken(e.ValueFrom.SecretKeyRef.Name)
			})
		}
	}
}
