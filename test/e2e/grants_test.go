//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/cosign/cosigntest"
	"github.com/heighliner/heighliner/test/harness"
)

// TestSecretsByNamespace changes the installation so that namespaces grant the permission to read their
// Secrets. A namespace without Secrets works as before. In a namespace with Secrets, a service reports the
// missing permission, starts when the permission is granted, keeps serving when the permission is withdrawn,
// and continues when the permission is granted again.
func TestSecretsByNamespace(t *testing.T) {
	byNamespace(t)
	without := newService(t, "nosecret")
	without.push("1.0.0")
	without.create(without.images, without.ms, without.network)
	without.active("1.0.0")

	s := newService(t, "granted")
	key := cosigntest.NewKey(t)
	s.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "signers"}, Data: map[string][]byte{"cosign.pub": key.PEM(t)}})
	s.images.Spec.Verify = &v1alpha1.Verify{Cosign: v1alpha1.CosignVerify{KeySecretRef: v1alpha1.Reference{Name: "signers"}}}
	s.sign(key, s.pushImage(harness.Image{Tag: "1.0.0"}))
	s.create(s.images, s.ms, s.network)
	s.denied("spec.verify.cosign.keySecretRef.name")
	if rows := s.rows(); len(rows) > 0 {
		t.Errorf("without the permission, the releases %v started", rows)
	}
	s.component("read-secrets")
	s.active("1.0.0")
	l := s.load(30, false)

	l.Mark("withdrawn")
	kubectl(t, "", "-n", s.namespace, "delete", "rolebinding", "heighliner-read-secrets")
	s.sign(key, s.pushImage(harness.Image{Tag: "1.1.0"}))
	s.denied("spec.verify.cosign.keySecretRef.name")
	s.serves(l, 3*interval)
	s.sees(l, "1.0.0")
	s.neverRan("1.1.0")

	l.Mark("granted again")
	kubectl(t, "", "-n", s.namespace, "create", "rolebinding", "heighliner-read-secrets", "--clusterrole=heighliner-read-secrets",
		"--serviceaccount="+managerNamespace+":"+managerName)
	s.active("1.1.0")
	s.sees(l, "1.1.0")
	verdict(t, l)
}

// byNamespace applies the roles with the secrets-by-namespace component. After the test, it applies the roles of
// config/default again.
func byNamespace(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	config, err := filepath.Rel(dir, filepath.Join(env.root, "config"))
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources:\n- %s\ncomponents:\n- %s\n",
		filepath.Join(config, "rbac"), filepath.Join(config, "components", "secrets-by-namespace"))
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // The context of the test is already canceled.
		cmd := exec.Command(env.kubectl, "apply", "-k", filepath.Join(env.root, "config", "rbac"))
		cmd.Env = append(os.Environ(), "KUBECONFIG="+env.Kubeconfig)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("restore the roles: %v: %s", err, out)
		}
	})
	kubectl(t, "", "apply", "-k", dir)
}

// denied waits until the ImagePolicy reports the permission that is missing for a field, and how to grant
// this permission.
func (s *service) denied(field string) {
	s.t.Helper()
	forbidden := fmt.Sprintf("%s: the manager has no permission to get Secrets in namespace %q: apply config/components/read-secrets there", field, s.namespace)
	wait(s.t, "the ImagePolicy to report the missing permission", func(ctx context.Context) (bool, string, error) {
		var p v1alpha1.ImagePolicy
		if err := env.Client.Get(ctx, s.key(), &p); err != nil {
			return false, "", err
		}
		c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionReady)
		return c != nil && c.Reason == "SecretsForbidden" && strings.HasPrefix(c.Message, forbidden), fmt.Sprintf("%+v", c), nil
	})
}
