package microservice

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// A template names the Secret of a ServiceAccount: the release of a fork is made without
// it, that of the repository's own pull request and other Secrets stay as they are.
func TestForksGetNoTokenOfAServiceAccount(t *testing.T) {
	t.Parallel()
	volume := func(name, secret string) corev1.Volume {
		return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: secret}}}
	}
	s := begin(t, func(ms *v1alpha1.Microservice) {
		ms.Spec.Template.Spec.Volumes = []corev1.Volume{volume("token", "deployer-token"), volume("database", "database"), volume("later", "not-there-yet")}
	})
	s.create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "deployer"}})
	s.create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "deployer-token", Annotations: map[string]string{corev1.ServiceAccountNameKey: "deployer"}},
		Type:       corev1.SecretTypeServiceAccountToken,
	})
	s.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "database"}})
	s.offer("1.1.0")
	p := &v1alpha1.ImagePolicy{}
	s.get("shop", p)
	fork := p.Status.Releases[0]
	fork.SemVer.Name, fork.Group, fork.Level, fork.PullRequest, fork.Fork = "patch-1", "patch-1-7", v1alpha1.LevelPreview, 7, true
	fork.SemVer.Version = "abc"
	p.Status.Releases = append(p.Status.Releases, fork)
	if err := env.Client.Status().Update(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	s.play()
	secrets := func(version string) (names []string) {
		for _, v := range s.release(version).Spec.Template.Spec.Volumes {
			if v.Secret != nil {
				names = append(names, v.Secret.SecretName)
			}
		}
		return names
	}
	same(t, "Secrets of the repository's own release", secrets("1.1.0"), []string{"deployer-token", "database", "not-there-yet"})
	same(t, "Secrets of the fork's release", secrets("abc"), []string{"database", "not-there-yet"})
}
