package policy_test

import (
	"context"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/test/await"
)

// TestFreezeAndGitOps checks that a tool that applies a Freeze from Git, signed with its own name, can apply
// the same manifest again after a user has added an exception for a hotfix. If the tool could not do this,
// each sync that includes the Freeze would fail until the exception is removed. The tool and the user both
// follow the documentation.
func TestFreezeAndGitOps(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	tool := env.As(t, "gitops", masters)
	apply := func(tool client.Client) error {
		manifest := `{"apiVersion": "hlnr.io/v1alpha1", "kind": "Freeze", "metadata": {"name": "fair", "namespace": "` + namespace + `", "annotations": {"hlnr.io/decided-by": "gitops"}},
			"spec": {"reason": "trade fair", "until": "2099-01-04T08:00:00Z"}}`
		return tool.Patch(t.Context(), newFreeze(namespace, ""), client.RawPatch(types.ApplyPatchType, []byte(manifest)), client.FieldOwner("argocd-controller"), client.ForceOwnership)
	}
	await.Nil(t, func(ctx context.Context) error { // Wait until the policy is in effect.
		if err := tool.Create(ctx, newFreeze(namespace, ""), client.DryRunAll); !apierrors.IsForbidden(err) {
			return fmt.Errorf("a freeze without a signature: %w", err)
		}
		return nil
	})
	check(t, apply(tool), "")
	check(t, apply(tool), "")

	// The user adds the exception from the guide, in the same way as kubectl edit does.
	exception := `{"metadata": {"annotations": {"hlnr.io/decided-by": "alice@example.com"}}, "spec": {"exceptions": [{"name": "cart", "reason": "hotfix 1.4.4"}]}}`
	check(t, env.As(t, alice, masters).Patch(t.Context(), newFreeze(namespace, ""), client.RawPatch(types.MergePatchType, []byte(exception)), client.FieldOwner("kubectl-edit")), "")

	check(t, apply(tool), "")
	f := newFreeze(namespace, "")
	if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(f), f); err != nil {
		t.Fatal(err)
	}
	if len(f.Spec.Exceptions) != 1 {
		t.Errorf("the exception, which is not in Git, was removed: %+v", f.Spec)
	}
}
