package policy_test

import (
	"context"
	"fmt"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hlnr "github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/test/apiserver"
	"github.com/heighliner/heighliner/test/await"
)

// TestPinNamesItsAuthor checks that the author of a pin is either the user who sets or changes the pin, or empty.
func TestPinNamesItsAuthor(t *testing.T) {
	t.Parallel()
	const refused = "set author.name to 'alice@example.com' in spec.updateStrategy.manual, or remove the author"
	manual := func(text string) string { return `{"spec": {"updateStrategy": {"manual": ` + text + `}}}` }
	author := func(name, pinned string) string {
		return `"author": {"name": "` + name + `", "pinned": "` + pinned + `"}`
	}
	group := func(name, version, by string) string {
		text := `{"name": "` + name + `", "version": "` + version + `"`
		if by != "" {
			text += ", " + author(by, version)
		}
		return text + "}"
	}
	bobs := `{"semVer": {"version": "1.0.0"}, ` + author("bob", "1.0.0") + `, "expireTime": "2030-01-31T19:00:00+01:00", "groups": [` + group("2.x", "2.0.0", "bob") + `]}`
	for name, tc := range map[string]struct{ before, patch, refused string }{
		"no author":                           {patch: `{"groups": [` + group("1.x", "1.0.0", "") + `]}`},
		"the user":                            {patch: `{"groups": [` + group("1.x", "1.0.0", alice) + `]}`},
		"another user":                        {patch: `{"groups": [` + group("1.x", "1.0.0", "bob") + `]}`, refused: refused},
		"the user, for all groups":            {patch: `{"semVer": {"version": "1.0.0"}, ` + author(alice, "1.0.0") + `}`},
		"another user, for all groups":        {patch: `{"semVer": {"version": "1.0.0"}, ` + author("bob", "1.0.0") + `}`, refused: refused},
		"another user's release":              {patch: `{"release": "shop-1-0-0-a", ` + author("bob", "shop-1-0-0-a") + `}`, refused: refused},
		"a second pin":                        {before: bobs, patch: `{"groups": [` + group("2.x", "2.0.0", "bob") + `, ` + group("1.x", "1.0.0", alice) + `]}`},
		"a second pin by another user":        {before: bobs, patch: `{"groups": [` + group("2.x", "2.0.0", "bob") + `, ` + group("1.x", "1.0.0", "bob") + `]}`, refused: refused},
		"another pin by another user":         {before: bobs, patch: `{"groups": [` + group("2.x", "2.0.1", "bob") + `]}`, refused: refused},
		"another choice, for all groups":      {before: bobs, patch: `{"semVer": {"version": "1.0.1"}, ` + author("bob", "1.0.1") + `}`, refused: refused},
		"a change that keeps the author":      {before: bobs, patch: `{"semVer": {"version": "1.0.1"}}`}, // The author is not shown, because author.pinned is another version.
		"another reason":                      {before: bobs, patch: `{"reason": "a holiday"}`},
		"another time zone":                   {before: bobs, patch: `{"expireTime": "2030-01-31T18:00:00Z"}`},
		"another author, for all groups":      {before: bobs, patch: `{"author": {"name": "carol"}}`, refused: refused},
		"the user takes over a pin":           {before: bobs, patch: `{"reason": "a holiday", ` + author(alice, "1.0.0") + `}`},
		"the author is removed":               {before: bobs, patch: `{"author": null}`},
		"a pin is removed":                    {before: bobs, patch: `{"groups": null}`},
		"all pins are removed":                {before: bobs, patch: `null`},
		"the pinned version moves to a group": {before: bobs, patch: `{"semVer": null, "author": null, "groups": [` + group("1.x", "1.0.0", "bob") + `]}`, refused: refused},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namespace := env.Namespace(t)
			for _, user := range []string{alice, "bob"} {
				bindDeployer(t, namespace, user)
			}
			ms := &hlnr.Microservice{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "shop"}, Spec: hlnr.MicroserviceSpec{ImagePolicyRef: hlnr.Reference{Name: "shop"}, Template: newRelease(namespace).Spec.Template}}
			if err := env.Client.Create(t.Context(), ms); err != nil {
				t.Fatal(err)
			}
			if tc.before != "" {
				check(t, env.As(t, "bob").Patch(t.Context(), ms, client.RawPatch(types.MergePatchType, []byte(manual(tc.before)))), "")
			}
			check(t, env.As(t, alice).Patch(t.Context(), ms, client.RawPatch(types.MergePatchType, []byte(manual(tc.patch)))), tc.refused)
		})
	}
}

// TestPinOfACreation checks that the author of a pin in a new Microservice is the user who creates the
// Microservice. A user who may impersonate others, such as an administrator who restores a backup, may set
// any author.
func TestPinOfACreation(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	bindDeployer(t, namespace, alice)
	pinned := func(name string, by ...string) *hlnr.Microservice {
		ms := &hlnr.Microservice{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: hlnr.MicroserviceSpec{ImagePolicyRef: hlnr.Reference{Name: "shop"}, Template: newRelease(namespace).Spec.Template}}
		ms.Spec.Template.Spec.Containers[0].Name = name
		ms.Spec.UpdateStrategy.Manual = &hlnr.ManualUpdateStrategy{}
		for i, user := range by {
			pin := hlnr.GroupPin{Name: fmt.Sprintf("%d.x", i), Version: "1.0.0"}
			if user != "" {
				pin.Author = &hlnr.PinAuthor{Name: user, Pinned: "1.0.0"}
			}
			ms.Spec.UpdateStrategy.Manual.Groups = append(ms.Spec.UpdateStrategy.Manual.Groups, pin)
		}
		return ms
	}
	check(t, env.As(t, alice).Create(t.Context(), pinned("first", "bob")), "set author.name to 'alice@example.com'")
	check(t, env.As(t, alice).Create(t.Context(), pinned("second", alice)), "")
	check(t, env.As(t, alice).Create(t.Context(), pinned("third", "")), "")
	many := make([]string, 32)
	for i := range many {
		many[i] = fmt.Sprintf("user-%d", i)
	}
	check(t, env.As(t, "restore", masters).Create(t.Context(), pinned("fourth", many...)), "")
	status := client.RawPatch(types.MergePatchType, []byte(`{"status": {"observedGeneration": 1}}`))
	check(t, env.As(t, apiserver.ManagerUser, masters).Status().Patch(t.Context(), pinned("fourth", many...), status), "")
}

// TestPinAndGitOps checks that a tool that applies a pin without an author, as documented, can change the pin after a user has set it.
func TestPinAndGitOps(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	bindDeployer(t, namespace, alice)
	bindDeployer(t, namespace, "gitops")
	ms := &hlnr.Microservice{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "shop"}, Spec: hlnr.MicroserviceSpec{ImagePolicyRef: hlnr.Reference{Name: "shop"}, Template: newRelease(namespace).Spec.Template}}
	if err := env.Client.Create(t.Context(), ms); err != nil {
		t.Fatal(err)
	}
	pin := `{"spec": {"updateStrategy": {"manual": {"groups": [{"name": "1.x", "version": "1.0.0", "author": {"name": "alice@example.com", "pinned": "1.0.0"}}]}}}}`
	check(t, env.As(t, alice).Patch(t.Context(), ms, client.RawPatch(types.MergePatchType, []byte(pin)), client.FieldOwner("hlnr")), "")
	apply := `{"apiVersion": "hlnr.io/v1alpha1", "kind": "Microservice", "metadata": {"name": "shop", "namespace": "` + namespace + `"}, "spec": {"updateStrategy": {"manual": {"groups": [{"name": "1.x", "version": "1.0.1"}]}}}}`
	check(t, env.As(t, "gitops").Patch(t.Context(), ms, client.RawPatch(types.ApplyPatchType, []byte(apply)), client.FieldOwner("kustomize-controller"), client.ForceOwnership), "")
	if by := ms.Spec.UpdateStrategy.Manual.Groups[0].Author.Of("1.0.1"); by != "" {
		t.Errorf("a pin set by a tool has the author %q", by)
	}
}

// bindDeployer lets a user create and change Microservices in a namespace, and waits until the permission is in effect.
func bindDeployer(t *testing.T, namespace, user string) {
	t.Helper()
	role := &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "deployer-"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{hlnr.GroupVersion.Group}, Resources: []string{"microservices"}, Verbs: []string{"create", "get", "patch"}}},
	}
	if err := env.Client.Create(t.Context(), role); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "deployer-"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}},
	}
	if err := env.Client.Create(t.Context(), binding); err != nil {
		t.Fatal(err)
	}
	await.Nil(t, func(ctx context.Context) error {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: "patch", Group: hlnr.GroupVersion.Group, Resource: "microservices"},
		}}
		if err := env.As(t, user).Create(ctx, review); err != nil {
			return err
		}
		if !review.Status.Allowed {
			return fmt.Errorf("the role of %s is not in effect yet", user)
		}
		return nil
	})
}
