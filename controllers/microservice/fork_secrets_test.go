package microservice

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// TestForksGetNoTokenOfAServiceAccount checks a template that refers to the token Secret of a
// ServiceAccount: a fork's release is created without this Secret. Other Secrets, and releases of the
// repository's own pull requests, are not affected.
func TestForksGetNoTokenOfAServiceAccount(t *testing.T) {
	t.Parallel()
	volume := func(name, secret string) corev1.Volume {
		return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: secret}}}
	}
	s := begin(t, func(ms *v1alpha1.Microservice) {
		ms.Spec.Template.Spec.Volumes = []corev1.Volume{volume("token", "deployer-token"), volume("database", "database"), volume("later", "not-there-yet")}
		ms.Spec.Template.Spec.Volumes[2].Secret.Optional = new(true)
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
	same(t, "Secrets of the fork's release", secrets("abc"), []string{"database"})
}

// TestForksWhereSecretsAreForbidden checks a namespace whose Secrets the manager is not permitted to read.
// No release of a fork is created, because its template might refer to credentials; the missing permission is
// reported; and other releases are created.
func TestForksWhereSecretsAreForbidden(t *testing.T) {
	t.Parallel()
	s := begin(t, func(ms *v1alpha1.Microservice) {
		ms.Spec.Template.Spec.Volumes = []corev1.Volume{{Name: "database", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "database"}}}}
	})
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
	limited := interceptor.NewClient(s.client, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if _, ok := obj.(*corev1.Secret); ok {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, key.Name, errors.New("no"))
			}
			return c.Get(ctx, key, obj, opts...)
		},
	})
	s.reconciler = s.make(limited, limited)
	for range 3 {
		if result, err := s.pass(); err != nil || result.RequeueAfter == 0 {
			t.Errorf("reconcile = %v, %v", result, err)
		}
	}
	want := fmt.Sprintf("the manager has no permission to get Secrets in namespace %q: apply config/components/read-secrets there", s.namespace)
	if got := condition(s.ms(), "Stalled"); !strings.HasPrefix(got, "True SecretsForbidden: ") || !strings.Contains(got, want) {
		t.Errorf("Stalled is %q", got)
	}
	var versions []string
	for _, object := range s.objects() {
		versions = append(versions, object.Spec.SemVer.Version)
	}
	same(t, "releases", versions, []string{"1.1.0"})
}

// TestForksWaitForSecrets checks that a fork's release waits for a missing Secret that its pods require, and is
// created without a missing optional Secret. Otherwise, its pods would use a Secret that was created later and
// was never checked.
func TestForksWaitForSecrets(t *testing.T) {
	t.Parallel()
	s := begin(t, func(ms *v1alpha1.Microservice) {
		ms.Spec.Template.Spec.Volumes = []corev1.Volume{{Name: "token", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "deployer-token"}}}}
	})
	s.offer("1.1.0")
	p := &v1alpha1.ImagePolicy{}
	s.get("shop", p)
	fork := p.Status.Releases[0]
	fork.SemVer.Name, fork.Group, fork.Level, fork.PullRequest, fork.Fork = "patch-1", "patch-1-7", v1alpha1.LevelPreview, 7, true
	fork.SemVer.Version = "abc"
	p.Status.Releases = []v1alpha1.OfferedRelease{fork}
	if err := env.Client.Status().Update(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		_, _ = s.pass() // The reconcile might return the rejection.
	}
	var releases v1alpha1.VersionedMicroserviceList
	if err := env.Client.List(t.Context(), &releases, client.InNamespace(s.namespace)); err != nil {
		t.Fatal(err)
	}
	ms := &v1alpha1.Microservice{}
	s.get("shop", ms)
	if conditions := fmt.Sprint(ms.Status.Conditions); len(releases.Items) > 0 || !strings.Contains(conditions, `Secret "deployer-token"`) {
		t.Errorf("%d releases exist before their Secret; Ready: %s", len(releases.Items), conditions)
	}
	s.create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "deployer"}})
	s.create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "deployer-token", Annotations: map[string]string{corev1.ServiceAccountNameKey: "deployer"}},
		Type:       corev1.SecretTypeServiceAccountToken,
	})
	s.play()
	if v := s.release("abc").Spec.Template.Spec.Volumes[0]; v.Secret != nil {
		t.Errorf("the fork's pods get Secret %q", v.Secret.SecretName)
	}
}
