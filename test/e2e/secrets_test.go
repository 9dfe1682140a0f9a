//go:build e2e

package e2e

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// TestSecretRollback makes the content of a Secret part of the release. Without the optional component,
// nothing starts, and the status shows the fix. With the component, a rotation creates a release of the same
// version, which goes through the canary steps, and a pin to an older release restores the content with which that
// release ran. No status, event, or log contains the content, whether plain or encoded.
func TestSecretRollback(t *testing.T) {
	s := newService(t, "secrets").steps(pausing(50, 2*time.Second))
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "licence"}, Data: map[string][]byte{"APP": []byte("saffron")}}
	s.create(secret)
	s.ms.Spec.Configuration = &v1alpha1.Configuration{Track: v1alpha1.TrackAll}
	s.ms.Spec.Template.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{
		SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: secret.Name}},
	}}

	t.Log("without the permissions, nothing starts")
	s.push("1.0.0")
	s.create(s.images, s.ms, s.network)
	s.until("Ready to report the permissions", func(ms *v1alpha1.Microservice) (bool, string) {
		c := meta.FindStatusCondition(ms.Status.Conditions, v1alpha1.ConditionReady)
		return c != nil && c.Reason == "SecretsForbidden", fmt.Sprint(c)
	})
	if rows := s.rows(); len(rows) > 0 {
		t.Errorf("without the permissions, the releases %v started", rows)
	}
	s.component("secrets")
	s.active("1.0.0")
	l := s.load(30, false)
	s.answersWith("saffron 1.0.0")

	t.Log("a rotation creates a release of the same version")
	l.Mark("rotated")
	s.rotate(secret, "magenta", "1.0.0")
	s.active("1.0.0")
	s.answersWith("magenta 1.0.0")

	s.push("1.1.0")
	s.active("1.1.0")
	s.rotate(secret, "viridian", "1.1.0")
	s.active("1.1.0")
	s.answersWith("viridian 1.1.0")

	t.Log("a pin restores the old content")
	l.Mark("pinned")
	s.pin("1.0.0")
	s.active("1.0.0")
	s.sees(l, "1.0.0")
	s.answersWith("magenta 1.0.0")
	s.pin("")
	s.active("1.1.0")
	s.answersWith("viridian 1.1.0")

	s.sealed(secret)
	for _, content := range []string{"saffron", "magenta", "viridian"} {
		s.unreported(content, base64.StdEncoding.EncodeToString([]byte(content)))
	}
	verdict(t, l)
}

// component installs an optional component of the configuration in the namespace, as a guide describes.
func (s *service) component(name string) {
	s.t.Helper()
	dir := s.t.TempDir()
	from, err := filepath.Rel(dir, filepath.Join(env.root, "config", "components", name))
	if err != nil {
		s.t.Fatal(err)
	}
	text := fmt.Sprintf("apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nnamespace: %s\ncomponents:\n- %s\n", s.namespace, from)
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	kubectl(s.t, "", "apply", "-k", dir)
}

// rotate changes the content of the Secret, and waits until another release of the version is active.
func (s *service) rotate(secret *corev1.Secret, app, version string) {
	s.t.Helper()
	before, began := s.release(version).VersionedMicroservice, time.Now()
	change(s.t, secret, func(c *corev1.Secret) { c.Data["APP"] = []byte(app) })
	s.until("another release of "+version, func(ms *v1alpha1.Microservice) (bool, string) {
		r := row(ms, version)
		return r.VersionedMicroservice != before, r.VersionedMicroservice
	})
	took := time.Since(began)
	s.t.Logf("the rotation was detected after %s", took.Round(time.Second))
	if took > 90*time.Second {
		s.t.Errorf("the rotation was detected after %s, want at most 90s", took)
	}
}

// sealed waits until each release has an immutable copy of its Secret, and no other copy remains.
func (s *service) sealed(source *corev1.Secret) {
	s.t.Helper()
	wait(s.t, "a copy for each release", func(ctx context.Context) (bool, string, error) {
		var list corev1.SecretList
		if err := env.Client.List(ctx, &list, client.InNamespace(s.namespace), client.HasLabels{v1alpha1.LabelRelease}); err != nil {
			return false, "", err
		}
		var of []string
		for _, c := range list.Items {
			if c.Immutable == nil || !*c.Immutable || c.Type != source.Type {
				return false, fmt.Sprintf("%s of type %s is mutable, or its type is not %s", c.Name, c.Type, source.Type), nil
			}
			of = append(of, c.Labels[v1alpha1.LabelRelease])
		}
		slices.Sort(of)
		rows := s.rows()
		return slices.Equal(of, rows), fmt.Sprintf("copies of %v for releases %v", of, rows), nil
	})
}
