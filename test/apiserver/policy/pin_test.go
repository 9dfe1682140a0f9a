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
	"github.com/heighliner/heighliner/test/await"
)

// TestPinNamesItsAuthor: a pin names the user who sets or changes it, or no one.
func TestPinNamesItsAuthor(t *testing.T) {
	t.Parallel()
	const refused = "set by to 'alice@example.com' in spec.updateStrategy.manual, or remove it there"
	manual := func(text string) string { return `{"spec": {"updateStrategy": {"manual": ` + text + `}}}` }
	const bobs = `{"semVer": {"version": "1.0.0"}, "by": "bob", "reason": "sessions lost", "groups": [{"name": "2.x", "version": "2.0.0", "by": "bob"}]}`
	for name, tc := range map[string]struct{ before, patch, refused string }{
		"no author":                          {patch: `{"groups": [{"name": "1.x", "version": "1.0.0"}]}`},
		"the user":                           {patch: `{"groups": [{"name": "1.x", "version": "1.0.0", "by": "alice@example.com"}]}`},
		"another user":                       {patch: `{"groups": [{"name": "1.x", "version": "1.0.0", "by": "bob"}]}`, refused: refused},
		"the user, for all groups":           {patch: `{"semVer": {"version": "1.0.0"}, "by": "alice@example.com"}`},
		"another user, for all groups":       {patch: `{"semVer": {"version": "1.0.0"}, "by": "bob"}`, refused: refused},
		"another user's release":             {patch: `{"release": "shop-1-0-0-a", "by": "bob"}`, refused: refused},
		"a second pin":                       {before: bobs, patch: `{"groups": [{"name": "2.x", "version": "2.0.0", "by": "bob"}, {"name": "1.x", "version": "1.0.0", "by": "alice@example.com"}]}`},
		"a second pin by another user":       {before: bobs, patch: `{"groups": [{"name": "2.x", "version": "2.0.0", "by": "bob"}, {"name": "1.x", "version": "1.0.0", "by": "bob"}]}`, refused: refused},
		"another version, same author":       {before: bobs, patch: `{"groups": [{"name": "2.x", "version": "2.0.1", "by": "bob"}]}`, refused: refused},
		"another version, for all groups":    {before: bobs, patch: `{"semVer": {"version": "1.0.1"}}`, refused: refused},
		"another reason, for all groups":     {before: bobs, patch: `{"reason": "a holiday"}`, refused: refused},
		"another end, for all groups":        {before: bobs, patch: `{"expireTime": "2030-01-31T18:00:00Z"}`, refused: refused},
		"another author, for all groups":     {before: bobs, patch: `{"by": "carol"}`, refused: refused},
		"the user takes over a pin":          {before: bobs, patch: `{"reason": "a holiday", "by": "alice@example.com"}`},
		"the author is removed":              {before: bobs, patch: `{"by": null}`},
		"a pin is removed":                   {before: bobs, patch: `{"groups": null}`},
		"all pins are removed":               {before: bobs, patch: `null`},
		"what was pinned moves to a group":   {before: bobs, patch: `{"semVer": null, "by": null, "groups": [{"name": "2.x", "version": "1.0.0", "by": "bob"}]}`, refused: refused},
		"a pin for all groups, and the rest": {before: bobs, patch: `{"semVer": {"version": "1.0.1"}, "by": "alice@example.com"}`},
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

// TestPinOfACreation: a Microservice that is created with a pin names who creates it; a user who may impersonate the author, as an
// administrator who restores a backup, may name another one.
func TestPinOfACreation(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	bindDeployer(t, namespace, alice)
	pinned := func(name, by string) *hlnr.Microservice {
		ms := &hlnr.Microservice{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: hlnr.MicroserviceSpec{ImagePolicyRef: hlnr.Reference{Name: "shop"}, Template: newRelease(namespace).Spec.Template}}
		ms.Spec.Template.Spec.Containers[0].Name = name
		ms.Spec.UpdateStrategy.Manual = &hlnr.ManualUpdateStrategy{Groups: []hlnr.GroupPin{{Name: "1.x", Version: "1.0.0", By: by}}}
		return ms
	}
	check(t, env.As(t, alice).Create(t.Context(), pinned("first", "bob")), "set by to 'alice@example.com'")
	check(t, env.As(t, alice).Create(t.Context(), pinned("second", alice)), "")
	check(t, env.As(t, alice).Create(t.Context(), pinned("third", "")), "")
	check(t, env.As(t, "restore", masters).Create(t.Context(), pinned("fourth", "bob")), "")
	status := client.RawPatch(types.MergePatchType, []byte(`{"status": {"observedGeneration": 1}}`))
	check(t, env.As(t, "system:serviceaccount:heighliner-system:heighliner", masters).Status().Patch(t.Context(), pinned("fourth", "bob"), status), "")
}

// bindDeployer lets a user create and change Microservices of a namespace, and waits until that applies.
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
			return fmt.Errorf("the role of %s does not apply yet", user)
		}
		return nil
	})
}
