package policy_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hlnr "github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/test/apiserver"
)

// newFreeze returns a Freeze that is signed by the user whose name is in by. If by is empty, the Freeze has
// no signature.
func newFreeze(namespace, by string) *hlnr.Freeze {
	end := metav1.NewTime(time.Now().Add(time.Hour))
	f := &hlnr.Freeze{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "fair"}}
	f.Spec.FreezeRules = hlnr.FreezeRules{Reason: "trade fair", Until: &end}
	if by != "" {
		f.Annotations = map[string]string{hlnr.AnnotationDecidedBy: by}
	}
	return f
}

// TestFreezeIsSigned checks that users who create or change a freeze must sign it with their own
// name.
func TestFreezeIsSigned(t *testing.T) {
	t.Parallel()
	person := env.As(t, alice, masters)
	const wanted = "set the annotation hlnr.io/decided-by to 'alice@example.com'"
	namespace := env.Namespace(t)
	check(t, person.Create(t.Context(), newFreeze(namespace, "")), wanted)
	check(t, person.Create(t.Context(), newFreeze(namespace, "bob")), wanted)
	check(t, person.Create(t.Context(), &hlnr.ClusterFreeze{ObjectMeta: metav1.ObjectMeta{Name: "fair"}, Spec: hlnr.ClusterFreezeSpec{FreezeRules: newFreeze("", "").Spec.FreezeRules}}), wanted)

	bobs := newFreeze(namespace, "bob")
	check(t, env.As(t, "bob", masters).Create(t.Context(), bobs), "")
	for name, tc := range map[string]struct{ patch, refused string }{
		"another reason, not signed": {`{"spec": {"reason": "a holiday"}}`, wanted},
		"another name":               {`{"metadata": {"annotations": {"hlnr.io/decided-by": "carol"}}}`, wanted},
		"the signature removed":      {`{"metadata": {"annotations": {"hlnr.io/decided-by": null}}}`, wanted},
		"a label":                    {`{"metadata": {"labels": {"team": "shop"}}}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			check(t, person.Patch(t.Context(), newFreeze(namespace, ""), client.RawPatch(types.MergePatchType, []byte(tc.patch))), tc.refused)
		})
	}
	// A GitOps tool signs the Freeze each time it applies it, even if nothing else has changed.
	check(t, person.Patch(t.Context(), newFreeze(namespace, ""), client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"annotations": {"hlnr.io/decided-by": "alice@example.com"}}}`))), "")
	exception := `{"metadata": {"annotations": {"hlnr.io/decided-by": "alice@example.com"}}, "spec": {"exceptions": [{"name": "shop", "reason": "hotfix"}]}}`
	check(t, person.Patch(t.Context(), newFreeze(namespace, ""), client.RawPatch(types.MergePatchType, []byte(exception))), "")
	status := client.RawPatch(types.MergePatchType, []byte(`{"status": {"active": true, "services": 1}}`))
	check(t, env.As(t, apiserver.ManagerUser, masters).Status().Patch(t.Context(), newFreeze(namespace, ""), status), "")
	check(t, person.Delete(t.Context(), newFreeze(namespace, "")), "")
}
