package gitops

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/test/apiserver"
	"github.com/heighliner/heighliner/test/await"
)

// TestDeveloperDoesNotLeaveAFreeze checks that a user with the heighliner-edit role, which has no permissions
// for Freezes, cannot remove the label by which a Freeze selects a Microservice.
func TestDeveloperDoesNotLeaveAFreeze(t *testing.T) {
	t.Parallel()
	namespace := cluster.Namespace(t)
	roles, err := os.ReadFile(filepath.Join(apiserver.Root(t), "config", "rbac", "users.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if out, err := cluster.Kubectl(t, string(roles), "apply", "--server-side", "-f", "-"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	const dev = "dev@example.com"
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "dev"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "heighliner-edit"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: dev}},
	}
	freeze := &v1alpha1.Freeze{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "fair", Annotations: map[string]string{v1alpha1.AnnotationDecidedBy: "admin"}}}
	until := metav1.NewTime(time.Now().Add(time.Hour))
	freeze.Spec.FreezeRules = v1alpha1.FreezeRules{Reason: "trade fair", Until: &until, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "web"}}}
	cluster.Microservice(t, namespace, "shop")
	cluster.Offer(t, namespace, "shop", "1.0.0")
	cluster.Await(t, namespace, "shop", "1.0.0", v1alpha1.ReleaseActive)
	ms := managed(t, namespace)
	label := func(value string) client.Patch {
		return client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"metadata":{"labels":{"tier":%s}}}`, value))
	}
	if err := cluster.Client.Patch(t.Context(), ms, label(`"web"`)); err != nil {
		t.Fatal(err)
	}
	for _, o := range []client.Object{binding, freeze} {
		if err := cluster.Client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	frozen := func(context.Context) error {
		for _, c := range managed(t, namespace).Status.Conditions {
			if c.Type == "Frozen" && c.Status == metav1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("not frozen: %+v", managed(t, namespace).Status.Conditions)
	}
	cluster.Frozen(t, namespace, freeze.GetName())
	cluster.Offer(t, namespace, "shop", "1.1.0", "1.0.0")
	await.Nil(t, frozen)

	// The developer may not change the Freeze.
	person := cluster.As(t, dev)
	if err := person.Delete(t.Context(), freeze.DeepCopy()); !apierrors.IsForbidden(err) {
		t.Fatalf("delete the Freeze: %v", err)
	}
	// The developer cannot remove the label. The API server starts to read the objects of the
	// policies' parameter kinds only a few seconds after the policies are installed.
	await.Nil(t, func(ctx context.Context) error {
		err := person.Patch(ctx, managed(t, namespace), label("null"), client.DryRunAll)
		if err == nil || !strings.Contains(err.Error(), "freeze-selectors.hlnr.io") {
			return fmt.Errorf("without its label: %w", err)
		}
		return nil
	})
	if err := person.Patch(t.Context(), managed(t, namespace), label("null")); !apierrors.IsForbidden(err) {
		t.Fatalf("remove the label: %v", err)
	}
	// The owner of the freeze may remove the label.
	if err := cluster.Client.Patch(t.Context(), managed(t, namespace), label("null")); err != nil {
		t.Fatal(err)
	}
	cluster.Await(t, namespace, "shop", "1.1.0", v1alpha1.ReleaseActive)
}
