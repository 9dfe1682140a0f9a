package resources

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// TestForksGetNoCredentials checks that pods with code from a fork get no credential for the API server: no projected token,
// no certificate, and no content of a Secret with a token.
func TestForksGetNoCredentials(t *testing.T) {
	t.Parallel()
	secret := func(name string) corev1.LocalObjectReference { return corev1.LocalObjectReference{Name: name} }
	container := func(name string) corev1.Container {
		return corev1.Container{
			Name: name,
			EnvFrom: []corev1.EnvFromSource{
				{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: secret("deployer-token")}},
				{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: secret("database")}},
			},
			Env: []corev1.EnvVar{
				{Name: "TOKEN", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: secret("deployer-token"), Key: "token"}}},
				{Name: "PASSWORD", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: secret("database"), Key: "password"}}},
				{Name: "PLAIN", Value: "x"},
			},
			VolumeMounts: []corev1.VolumeMount{{Name: "old", MountPath: "/old"}, {Name: "all", MountPath: "/all"}},
		}
	}
	pod := corev1.PodSpec{
		ServiceAccountName: "deployer",
		InitContainers:     []corev1.Container{container("migrate")},
		Containers:         []corev1.Container{container("shop")},
		Volumes: []corev1.Volume{
			{Name: "old", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "deployer-token"}}},
			{Name: "database", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "database"}}},
			{Name: "all", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
				{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}},
				{PodCertificate: &corev1.PodCertificateProjection{SignerName: "kubernetes.io/kube-apiserver-client-pod", KeyType: "ED25519"}},
				{Secret: &corev1.SecretProjection{LocalObjectReference: secret("deployer-token")}},
				{Secret: &corev1.SecretProjection{LocalObjectReference: secret("database")}},
			}}}},
		},
	}
	if diff := cmp.Diff([]string{"database", "deployer-token"}, slices.Sorted(maps.Keys(Secrets(&pod)))); diff != "" {
		t.Errorf("Secrets (-want +got):\n%s", diff)
	}
	confine(&pod)
	WithoutSecrets(&pod, func(name string) bool { return name == "deployer-token" })

	left := func(name string) corev1.Container {
		c := container(name)
		c.EnvFrom, c.Env = c.EnvFrom[1:], c.Env[1:]
		return c
	}
	want := corev1.PodSpec{
		ServiceAccountName: "default", AutomountServiceAccountToken: ptr.To(false),
		InitContainers: []corev1.Container{left("migrate")},
		Containers:     []corev1.Container{left("shop")},
		Volumes: []corev1.Volume{
			{Name: "old", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			{Name: "database", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "database"}}},
			{Name: "all", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
				{Secret: &corev1.SecretProjection{LocalObjectReference: secret("database")}},
			}}}},
		},
	}
	if diff := cmp.Diff(want, pod); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
