package act

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/cmd/hlnr/cli"
	"github.com/heighliner/heighliner/test/await"
)

// TestPinOfTheCurrentConfigurationWithoutConfigMaps checks the output for a pin to the current configuration by a user who has only the heighliner-owner role,
// and is not allowed to read the objects from which the name of the next release is derived. The pin must not report that the version is active
// while another release of the version is starting.
func TestPinOfTheCurrentConfigurationWithoutConfigMaps(t *testing.T) {
	t.Parallel()
	p := begin(t)
	p.Microservice(t, p.namespace, "shop")
	p.offer("1.0.0")
	old := p.await("1.0.0", v1alpha1.ReleaseActive).Name
	p.want(cli.ExitYes, "the version is active, and newer versions wait", "pin", "shop", old)
	p.Edit(t, p.namespace, "shop", "ana", func(spec *v1alpha1.MicroserviceSpec) {
		spec.Template.Spec.Containers[0].Env = append(spec.Template.Spec.Containers[0].Env, corev1.EnvVar{Name: "COLOR", Value: "green"})
	})
	vic := metav1.ObjectMeta{Namespace: p.namespace, Name: "vic"}
	for _, o := range []client.Object{
		&rbacv1.Role{ObjectMeta: vic, Rules: []rbacv1.PolicyRule{{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"*"}, Verbs: []string{"*"}}}},
		&rbacv1.RoleBinding{
			ObjectMeta: vic, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "vic"},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "vic"}},
		},
	} {
		if err := p.Client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	var out string
	await.Nil(t, func(context.Context) error { // The authorizer applies the roles with a delay.
		code, stdout, stderr := p.as([]string{"--as", "vic"}, "pin", "shop", "1.0.0", "--current-configuration")
		if out = stdout; code != cli.ExitYes {
			return fmt.Errorf("exit code %d, %s", code, stderr)
		}
		return nil
	})
	await.Nil(t, func(context.Context) error {
		var ms v1alpha1.Microservice
		p.get("shop", &ms)
		for _, r := range ms.Status.ReleaseGroups[0].Releases {
			if r.Status == v1alpha1.ReleaseActive && r.VersionedMicroservice != old {
				return nil
			}
		}
		return fmt.Errorf("%s is active", old)
	})
	if strings.Contains(out, "the version is active, and newer versions wait") {
		t.Errorf("another release has replaced %s, but the pin reported: %s", old, out)
	}
}
