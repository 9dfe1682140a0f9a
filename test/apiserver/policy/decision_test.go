// Package policy_test tests the admission policies of config/policies, and the
// roles of config/rbac, on a real API server with impersonated users.
package policy_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hlnr "github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/test/apiserver"
	"github.com/heighliner/heighliner/test/await"
)

var env *apiserver.Env

func TestMain(m *testing.M) {
	os.Exit(apiserver.Run(m, apiserver.Options{Policies: true, ControllerManager: true}, &env))
}

const (
	alice = "alice@example.com"
	// The masters group has all RBAC permissions, so these tests check admission and not RBAC.
	masters = "system:masters"
)

// release creates a release as the manager does.
func release(t *testing.T, namespace string, change func(*hlnr.VersionedMicroservice)) *hlnr.VersionedMicroservice {
	t.Helper()
	out := newRelease(namespace)
	if change != nil {
		change(out)
	}
	if err := env.As(t, apiserver.ManagerUser, masters).Create(t.Context(), out); err != nil {
		t.Fatalf("create release as the manager: %v", err)
	}
	return out
}

func newRelease(namespace string) *hlnr.VersionedMicroservice {
	return &hlnr.VersionedMicroservice{
		ObjectMeta: metav1.ObjectMeta{
			Name: "shop-1", Namespace: namespace,
			Labels:      map[string]string{hlnr.LabelMicroservice: "shop"},
			Annotations: map[string]string{hlnr.AnnotationIdentity: "v1.0"},
		},
		Spec: hlnr.VersionedMicroserviceSpec{
			MicroserviceName: "shop",
			Group:            "1-x",
			SemVer:           hlnr.SemVer{Name: "1.x", Version: "1.0.0"},
			Images:           []hlnr.ReleaseImage{{Image: "shop:1.0.0", Digest: "sha256:0"}},
			Template:         corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "shop", Image: "shop:1.0.0"}}}},
			Replicas:         2,
		},
	}
}

// TestDecision checks what a user with all RBAC permissions may change in a release.
func TestDecision(t *testing.T) {
	adopt := `"decision": {"action": "Adopt", "id": "1"}`
	signed := func(by string) string { return `"metadata": {"annotations": {"hlnr.io/decided-by": "` + by + `"}}` }
	for name, test := range map[string]struct {
		// before is a decision by another user.
		before string
		patch  string
		// refused is part of the expected message, and is empty if the change is allowed.
		refused string
	}{
		"a signed decision":                        {patch: `{` + signed(alice) + `, "spec": {` + adopt + `}}`},
		"a second decision":                        {before: "bob", patch: `{` + signed(alice) + `, "spec": {"decision": {"action": "Adopt", "id": "2"}}}`},
		"a withdrawn decision":                     {before: "bob", patch: `{` + signed(alice) + `, "spec": {"decision": null}}`},
		"no change":                                {patch: `{}`},
		"a decision without a signature":           {patch: `{"spec": {` + adopt + `}}`, refused: "set the annotation hlnr.io/decided-by to 'alice@example.com'"},
		"a decision in another user's name":        {patch: `{` + signed("bob") + `, "spec": {` + adopt + `}}`, refused: "set the annotation hlnr.io/decided-by to 'alice@example.com'"},
		"a decision with the previous signature":   {before: "bob", patch: `{"spec": {"decision": {"action": "Adopt", "id": "2"}}}`, refused: "set the annotation"},
		"a new reason for the same decision":       {before: "bob", patch: `{"spec": {"decision": {"reason": "because"}}}`, refused: "set the annotation"},
		"a decision withdrawn without a signature": {before: "bob", patch: `{"spec": {"decision": null}}`, refused: "set the annotation"},
		"a signature without a decision":           {patch: `{` + signed(alice) + `}`, refused: "set the annotation"},
		"a signature changed afterwards":           {before: "bob", patch: `{` + signed(alice) + `}`, refused: "set the annotation"},
		"a removed signature":                      {before: "bob", patch: `{"metadata": {"annotations": {"hlnr.io/decided-by": null}}}`, refused: "set the annotation"},
		"the user's own groups":                    {patch: `{` + signed(alice) + `, "spec": {"decision": {"action": "Adopt", "id": "1", "groups": ["system:masters", "system:authenticated"]}}}`},
		"groups of other users":                    {patch: `{` + signed(alice) + `, "spec": {"decision": {"action": "Adopt", "id": "1", "groups": ["system:masters", "sre", "owners"]}}}`, refused: "'alice@example.com' is not a member of sre, owners"},
		"replicas":                                 {patch: `{"spec": {"replicas": 5}}`, refused: "only spec.decision of a release may be changed"},
		"replicas next to a decision":              {patch: `{` + signed(alice) + `, "spec": {"replicas": 5, ` + adopt + `}}`, refused: "only spec.decision of a release may be changed"},
		"availability added":                       {patch: `{"spec": {"availability": {"minReadySeconds": 5}}}`, refused: "only spec.decision of a release may be changed"},
		"a label":                                  {patch: `{"metadata": {"labels": {"hlnr.io/microservice": "other"}}}`, refused: "only the annotation hlnr.io/decided-by"},
		"all labels":                               {patch: `{"metadata": {"labels": null}}`, refused: "only the annotation hlnr.io/decided-by"},
		"another annotation":                       {patch: `{"metadata": {"annotations": {"a": "b"}}}`, refused: "only the annotation hlnr.io/decided-by"},
		"the identity":                             {patch: `{"metadata": {"annotations": {"hlnr.io/identity": "v1.1"}}}`, refused: "only the annotation hlnr.io/decided-by"},
		"the identity removed":                     {patch: `{"metadata": {"annotations": {"hlnr.io/identity": null}}}`, refused: "only the annotation hlnr.io/decided-by"},
		"an owner":                                 {patch: `{"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "b"}]}}`, refused: "owner references and finalizers"},
		"a finalizer":                              {patch: `{"metadata": {"finalizers": ["example.com/keep"]}}`, refused: "owner references and finalizers"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			made := release(t, env.Namespace(t), func(r *hlnr.VersionedMicroservice) {
				if test.before != "" {
					r.Spec.Decision = &hlnr.Decision{Action: hlnr.DecisionRetry, ID: "0"}
					r.Annotations[hlnr.AnnotationDecidedBy] = test.before
				}
			})
			err := env.As(t, alice, masters).Patch(t.Context(), made, client.RawPatch(types.MergePatchType, []byte(test.patch)))
			check(t, err, test.refused)
		})
	}
}

// TestVerbs checks which decisions and which other changes the admission policy allows for each role.
func TestVerbs(t *testing.T) {
	installRoles(t)
	namespace := env.Namespace(t)
	roles := map[string]struct{ decides, changes []string }{
		"heighliner-view":     {},
		"heighliner-deployer": {[]string{"deprecate", "retry"}, []string{"imagepolicies"}},
		"heighliner-approver": {[]string{"continue", "deprecate"}, nil},
		"heighliner-decide":   {[]string{"continue", "adopt", "deprecate", "retry"}, nil},
		"heighliner-owner":    {[]string{"continue", "adopt", "deprecate", "retry"}, []string{"imagepolicies", "microservices", "networkpolicies", "githubrepositories", "freezes", "notificationpolicies"}},
	}
	for role := range roles {
		bind(t, namespace, role)
	}
	for role, may := range roles {
		for _, action := range []hlnr.DecisionAction{hlnr.DecisionContinue, hlnr.DecisionAdopt, hlnr.DecisionDeprecate, hlnr.DecisionRetry} {
			verb := strings.ToLower(string(action))
			t.Run(role+" "+verb, func(t *testing.T) {
				t.Parallel()
				made := release(t, namespace, func(r *hlnr.VersionedMicroservice) { r.Name = role + "-" + verb })
				decision := map[string]any{"action": action, "id": "1"}
				if action == hlnr.DecisionContinue {
					decision["step"] = "1"
				}
				patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{hlnr.AnnotationDecidedBy: role}}, "spec": map[string]any{"decision": decision}})
				if err != nil {
					t.Fatal(err)
				}
				await.Nil(t, func(ctx context.Context) error {
					err := env.As(t, role, "system:authenticated").Patch(ctx, made.DeepCopy(), client.RawPatch(types.MergePatchType, patch))
					want := slices.Contains(may.decides, verb)
					switch {
					case want == (err == nil) && (want || apierrors.IsForbidden(err)):
					default:
						return fmt.Errorf("%v, want allowed: %t", err, want)
					}
					if !want && role != "heighliner-view" && !strings.Contains(err.Error(), "this requires the verb "+verb) {
						return fmt.Errorf("the message does not contain the verb: %w", err)
					}
					_, named, _ := strings.Cut(fmt.Sprint(err), "which these ClusterRoles grant:")
					for other, has := range roles {
						if !want && role != "heighliner-view" && strings.Contains(named, other) != slices.Contains(has.decides, verb) {
							return fmt.Errorf("the message does not contain the roles with the verb: %w", err)
						}
					}
					return nil
				})
			})
		}
		for _, resource := range []string{"imagepolicies", "microservices", "networkpolicies", "githubrepositories", "freezes", "notificationpolicies", "versionedmicroservices"} {
			for _, verb := range []string{"create", "update", "delete"} {
				t.Run(role+" "+verb+" "+resource, func(t *testing.T) {
					t.Parallel()
					want := slices.Contains(may.changes, resource) && (verb != "delete" || role == "heighliner-owner")
					await.Nil(t, func(context.Context) error {
						out, err := env.Kubectl(t, "", "auth", "can-i", verb, resource+".hlnr.io", "--as", role, "--namespace", namespace)
						if got := strings.HasPrefix(out, "yes"); got != want {
							return fmt.Errorf("can-i: %t, want %t: %s %v", got, want, out, err)
						}
						return nil
					})
				})
			}
		}
	}
}

// bind creates a RoleBinding in a namespace. The RoleBinding grants a role to the user with the same
// name as the role.
func bind(t *testing.T, namespace, role string) {
	t.Helper()
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role, Namespace: namespace},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: role}},
	}
	if err := env.Client.Create(t.Context(), binding); err != nil {
		t.Fatal(err)
	}
}

// TestDecisionByKubectl checks the kubectl command that the documentation shows for a decision.
func TestDecisionByKubectl(t *testing.T) {
	t.Parallel()
	made := release(t, env.Namespace(t), nil)
	patch := `{"metadata":{"annotations":{"hlnr.io/decided-by":"` + alice + `"}},"spec":{"decision":{"action":"Continue","id":"1","step":"1"}}}`
	out, err := env.Kubectl(t, "", "--as", alice, "--as-group", masters, "--namespace", made.Namespace,
		"patch", "vsvc", made.Name, "--type", "merge", "--patch", patch)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

func TestOnlyTheManagerMakesReleases(t *testing.T) {
	t.Parallel()
	namespace := env.Namespace(t)
	for name, user := range map[string]string{
		"a user":                             alice,
		"another account in the namespace":   "system:serviceaccount:heighliner-system:default",
		"the same name in another namespace": "system:serviceaccount:shop:heighliner",
		"the garbage collector":              "system:serviceaccount:kube-system:generic-garbage-collector",
	} {
		t.Run(name, func(t *testing.T) {
			check(t, env.As(t, user, masters).Create(t.Context(), newRelease(namespace)), "releases are created only by the Heighliner manager")
		})
	}
}

func TestStatusAndScaleAreTheManagers(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	made := release(t, env.Namespace(t), nil)
	person, manager := env.As(t, alice, masters), env.As(t, apiserver.ManagerUser, masters)

	status := client.RawPatch(types.MergePatchType, []byte(`{"status": {"available": 7}}`))
	check(t, person.Status().Patch(ctx, made.DeepCopy(), status), "the status and scale of a release")
	check(t, manager.Status().Patch(ctx, made.DeepCopy(), status), "")

	scale := &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Name: made.Name, Namespace: made.Namespace}, Spec: autoscalingv1.ScaleSpec{Replicas: 9}}
	check(t, person.SubResource("scale").Update(ctx, made.DeepCopy(), client.WithSubResourceBody(scale.DeepCopy())), "the status and scale of a release")
	check(t, manager.SubResource("scale").Update(ctx, made.DeepCopy(), client.WithSubResourceBody(scale.DeepCopy())), "")
}

func TestTheManagerChangesItsReleases(t *testing.T) {
	t.Parallel()
	made := release(t, env.Namespace(t), nil)
	patch := `{"metadata": {"labels": {"a": "b"}, "annotations": {"hlnr.io/attempt": "2"}, "finalizers": ["hlnr.io/x"]}, "spec": {"replicas": 0, "decision": {"action": "Retry", "id": "1"}}}`
	manager := env.As(t, apiserver.ManagerUser, masters)
	check(t, manager.Patch(t.Context(), made, client.RawPatch(types.MergePatchType, []byte(patch))), "")
	check(t, manager.Patch(t.Context(), made, client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"finalizers": null}}`))), "")
}

// TestReleasesAreDeleted checks that releases can be deleted by users, by the garbage collector in each of
// its modes, and with their namespace.
func TestReleasesAreDeleted(t *testing.T) {
	owned := func(t *testing.T, namespace string) (*corev1.ConfigMap, *hlnr.VersionedMicroservice) {
		t.Helper()
		owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owner", Namespace: namespace}}
		if err := env.Client.Create(t.Context(), owner); err != nil {
			t.Fatal(err)
		}
		block := true
		return owner, release(t, namespace, func(r *hlnr.VersionedMicroservice) {
			r.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID, Controller: &block, BlockOwnerDeletion: &block}}
		})
	}
	for _, propagation := range []metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationForeground} {
		t.Run("with its owner, "+string(propagation), func(t *testing.T) {
			t.Parallel()
			owner, made := owned(t, env.Namespace(t))
			if err := env.Client.Delete(t.Context(), owner, client.PropagationPolicy(propagation)); err != nil {
				t.Fatal(err)
			}
			gone(t, made, owner)
		})
	}
	t.Run("orphaned by its owner", func(t *testing.T) {
		t.Parallel()
		owner, made := owned(t, env.Namespace(t))
		// If the garbage collector received a release only after the deletion of the release's owner, it would
		// delete the release. It receives releases in the order of their creation, so it has received this
		// release when the later release is deleted.
		later := release(t, made.Namespace, func(r *hlnr.VersionedMicroservice) {
			r.Name = "of-no-one"
			r.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "unknown", UID: "unknown"}}
		})
		gone(t, later)
		if err := env.Client.Delete(t.Context(), owner, client.PropagationPolicy(metav1.DeletePropagationOrphan)); err != nil {
			t.Fatal(err)
		}
		gone(t, owner)
		if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(made), made); err != nil || len(made.OwnerReferences) > 0 {
			t.Errorf("orphaned release: owners %v, %v, want a release without owners", made.OwnerReferences, err)
		}
	})
	t.Run("by a user, in the foreground", func(t *testing.T) {
		t.Parallel()
		made := release(t, env.Namespace(t), nil)
		if err := env.As(t, alice, masters).Delete(t.Context(), made, client.PropagationPolicy(metav1.DeletePropagationForeground)); err != nil {
			t.Fatal(err)
		}
		gone(t, made)
	})
	t.Run("with a finalizer that a user removes", func(t *testing.T) {
		t.Parallel()
		made := release(t, env.Namespace(t), func(r *hlnr.VersionedMicroservice) { r.Finalizers = []string{"hlnr.io/stuck"} })
		person := env.As(t, alice, masters)
		if err := person.Delete(t.Context(), made); err != nil {
			t.Fatal(err)
		}
		check(t, person.Patch(t.Context(), made, client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"finalizers": null}}`))), "")
		gone(t, made)
	})
	t.Run("with its namespace", func(t *testing.T) {
		t.Parallel()
		var made *hlnr.VersionedMicroservice
		t.Run("inner", func(t *testing.T) { made = release(t, env.Namespace(t), nil) })
		gone(t, made)
	})
}

// TestPoliciesAreTyped checks that the server reports no warnings about the expressions of the policies.
func TestPoliciesAreTyped(t *testing.T) {
	t.Parallel()
	await.Nil(t, func(ctx context.Context) error {
		for _, name := range []string{"decisions.hlnr.io", domainsPolicy} {
			policy := &admissionv1.ValidatingAdmissionPolicy{}
			if err := env.Client.Get(ctx, client.ObjectKey{Name: name}, policy); err != nil {
				return err
			}
			if policy.Status.TypeChecking == nil {
				return fmt.Errorf("policy %q has not been checked yet", name)
			}
			for _, warning := range policy.Status.TypeChecking.ExpressionWarnings {
				t.Errorf("%s: %s: %s", name, warning.FieldRef, warning.Warning)
			}
		}
		return nil
	})
}

// TestRoles checks the permissions of the roles in config/rbac, without admission.
func TestRoles(t *testing.T) {
	installRoles(t)
	namespace := env.Namespace(t)
	for _, role := range []string{"heighliner-view", "heighliner-edit", "heighliner-decide"} {
		bind(t, namespace, role)
	}
	for name, test := range map[string]struct {
		user, verb, resource string
		want                 bool
	}{
		"role view reads releases":                    {"heighliner-view", "list", "versionedmicroservices", true},
		"role view reads microservices":               {"heighliner-view", "watch", "microservices", true},
		"role view changes nothing":                   {"heighliner-view", "patch", "microservices", false},
		"role edit changes policies":                  {"heighliner-edit", "update", "imagepolicies", true},
		"role edit creates domains":                   {"heighliner-edit", "create", "networkpolicies", true},
		"role edit does not decide":                   {"heighliner-edit", "patch", "versionedmicroservices", false},
		"role edit does not write status":             {"heighliner-edit", "patch", "microservices/status", false},
		"role decide patches releases":                {"heighliner-decide", "patch", "versionedmicroservices", true},
		"role decide creates no releases":             {"heighliner-decide", "create", "versionedmicroservices", false},
		"role decide deletes no releases":             {"heighliner-decide", "delete", "versionedmicroservices", false},
		"the manager creates releases":                {apiserver.ManagerUser, "create", "versionedmicroservices", true},
		"the manager writes the rollout state":        {apiserver.ManagerUser, "patch", "microservices/status", true},
		"the manager removes its finalizer":           {apiserver.ManagerUser, "patch", "microservices", true}, // RBAC cannot restrict the fields
		"the manager does not update specifications":  {apiserver.ManagerUser, "update", "microservices", false},
		"the manager deletes no microservice":         {apiserver.ManagerUser, "delete", "microservices", false},
		"the manager does not update networkpolicies": {apiserver.ManagerUser, "update", "networkpolicies", false},
	} {
		t.Run(name, func(t *testing.T) {
			resource, subresource, _ := strings.Cut(test.resource, "/")
			args := []string{"auth", "can-i", test.verb, resource + ".hlnr.io", "--as", test.user, "--namespace", namespace}
			if subresource != "" {
				args = append(args, "--subresource", subresource)
			}
			await.Nil(t, func(context.Context) error {
				out, err := env.Kubectl(t, "", args...)
				if got := strings.HasPrefix(out, "yes"); got != test.want {
					return fmt.Errorf("can-i: %t, want %t: %s %v", got, test.want, out, err)
				}
				return nil
			})
		})
	}
}

// installRoles applies config/rbac unchanged.
func installRoles(t *testing.T) {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "heighliner-system"}}
	if err := env.Client.Create(t.Context(), namespace); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	out, err := env.Kubectl(t, "", "apply", "--server-side", "-k", filepath.Join(apiserver.Root(t), "config", "rbac"))
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// TestDefaultIsAccepted checks that a user can install all objects in config/default, and that the manager's
// pods comply with the namespace's Pod Security level, "restricted".
func TestDefaultIsAccepted(t *testing.T) {
	dir := filepath.Join(apiserver.Root(t), "config", "default")
	for _, args := range [][]string{{"apply", "-k", dir}, {"apply", "-k", dir}} {
		out, err := env.Kubectl(t, "", args...)
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if strings.Contains(out, "would violate PodSecurity") {
			t.Errorf("the manager's pods violate the Pod Security level of the namespace:\n%s", out)
		}
	}
	env.PlayKubelet(t, "heighliner-system", nil)
	await.Nil(t, func(ctx context.Context) error {
		pods := &corev1.PodList{}
		if err := env.Client.List(ctx, pods, client.InNamespace("heighliner-system")); err != nil {
			return err
		}
		if len(pods.Items) != 1 {
			return fmt.Errorf("%d pods of the manager, want 1", len(pods.Items))
		}
		return nil
	})
}

// TestManagerFollowsTheNamespace checks that the policy in config/default contains the ServiceAccount that
// config/default creates, and that the list of domains is in the namespace of this ServiceAccount.
func TestManagerFollowsTheNamespace(t *testing.T) {
	out, err := env.Kubectl(t, "", "kustomize", filepath.Join(apiserver.Root(t), "config", "default"))
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	objects, err := apiserver.Objects(strings.NewReader(out))
	if err != nil {
		t.Fatal(err)
	}
	accounts := 0
	for _, object := range objects {
		switch object.GetKind() {
		case "ServiceAccount":
			accounts++
			if user := "system:serviceaccount:" + object.GetNamespace() + ":" + object.GetName(); user != apiserver.ManagerUser {
				t.Errorf("the manager's user is %s, want %s", user, apiserver.ManagerUser)
			}
		case "ValidatingAdmissionPolicyBinding":
			list, found, err := unstructured.NestedString(object.Object, "spec", "paramRef", "namespace")
			if err != nil || found && "system:serviceaccount:"+list+":heighliner" != apiserver.ManagerUser {
				t.Errorf("binding %q reads its list in namespace %q (%v), want the manager's namespace", object.GetName(), list, err)
			}
		case "ValidatingAdmissionPolicy":
			if object.GetName() != "decisions.hlnr.io" {
				continue
			}
			raw, err := json.Marshal(object)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(raw), "'"+apiserver.ManagerUser+"'") {
				t.Errorf("the policy does not contain %s", apiserver.ManagerUser)
			}
		}
	}
	if accounts != 1 {
		t.Errorf("%d ServiceAccounts, want 1", accounts)
	}
}

// check compares the policy's error with the expected error.
func check(t *testing.T, err error, refused string) {
	t.Helper()
	switch {
	case refused == "" && err != nil:
		t.Errorf("refused: %v", err)
	case refused != "" && err == nil:
		t.Errorf("allowed, want an error with %q", refused)
	case refused != "" && !apierrors.IsForbidden(err):
		t.Errorf("error = %v, want Forbidden", err)
	case refused != "" && !strings.Contains(err.Error(), refused):
		t.Errorf("message = %q, want a message with %q", err, refused)
	}
}

func gone(t *testing.T, objects ...client.Object) {
	t.Helper()
	await.Nil(t, func(ctx context.Context) error {
		for _, object := range objects {
			err := env.Client.Get(ctx, client.ObjectKeyFromObject(object), object)
			if err == nil {
				return fmt.Errorf("%T %q still exists", object, object.GetName())
			}
			if !apierrors.IsNotFound(err) {
				return err
			}
		}
		return nil
	})
}
