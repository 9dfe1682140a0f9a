package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	routes "github.com/heighliner/heighliner/controllers/networkpolicy/traffic"
	"github.com/heighliner/heighliner/internal/watches"
	"github.com/heighliner/heighliner/test/apiserver"
	"github.com/heighliner/heighliner/test/await"
)

// roleOf returns the Role of the chart in a namespace.
func roleOf(t *testing.T, namespace string) *rbacv1.Role {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(apiserver.Root(t), "charts/heighliner/files/namespaced/role.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	role := &rbacv1.Role{}
	if err := yaml.UnmarshalStrict(text, role); err != nil {
		t.Fatal(err)
	}
	role.Namespace = namespace
	return role
}

// TestWatchedKinds tests that the controllers require exactly the kinds that the Role allows them to watch. Route kinds are not
// compared.
func TestWatchedKinds(t *testing.T) {
	ofRoutes := map[string]bool{}
	for _, kind := range routes.AllKinds() {
		ofRoutes[kind.Group] = true
		if kind.Previous != nil {
			ofRoutes[kind.Previous.Group] = true
		}
	}
	want := map[string][]string{}
	for _, rule := range roleOf(t, "").Rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				if slices.Contains(rule.Verbs, "watch") && !ofRoutes[group] {
					want[group] = append(want[group], resource)
				}
			}
		}
	}
	for _, resources := range want {
		slices.Sort(resources)
	}
	if d := cmp.Diff(want, watches.Kinds()); d != "" {
		t.Errorf("kinds (-role +watched):\n%s", d)
	}
}

// TestWrittenKinds tests that the Role allows the manager to write the kinds of all providers.
func TestWrittenKinds(t *testing.T) {
	t.Parallel()
	granted := map[schema.GroupResource]map[string]bool{}
	for _, rule := range roleOf(t, "").Rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				verbs := granted[schema.GroupResource{Group: group, Resource: resource}]
				if verbs == nil {
					verbs = map[string]bool{}
					granted[schema.GroupResource{Group: group, Resource: resource}] = verbs
				}
				for _, verb := range rule.Verbs {
					verbs[verb] = true
				}
			}
		}
	}
	kinds := routes.WrittenKinds()
	if len(kinds) == 0 {
		t.Fatal("no kinds")
	}
	for _, kind := range slices.Clone(kinds) {
		if kind.Previous != nil {
			kinds = append(kinds, *kind.Previous)
		}
	}
	for _, kind := range kinds {
		plural, _ := meta.UnsafeGuessKindToResource(schema.GroupVersionKind{Group: kind.Group, Version: kind.Versions[0], Kind: kind.Kind})
		for _, verb := range []string{"get", "list", "watch", "create", "patch", "delete"} {
			if !granted[plural.GroupResource()][verb] {
				t.Errorf("the Role does not allow the manager to %s %s: add a kubebuilder:rbac marker in controllers/networkpolicy/controller.go, unless the plural of the kind is irregular", verb, plural.GroupResource())
			}
		}
	}
}

// TestWatchedClusterKinds tests the same for the ClusterRole of a manager that watches only some namespaces.
func TestWatchedClusterKinds(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(apiserver.Root(t), "charts/heighliner/files/namespaced/cluster_role.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	role := &rbacv1.ClusterRole{}
	if err := yaml.UnmarshalStrict(text, role); err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{}
	for _, rule := range role.Rules {
		for _, group := range rule.APIGroups {
			if slices.Contains(rule.Verbs, "watch") && group != "networking.k8s.io" { // The ClusterRole also allows the manager to watch IngressClasses.
				want[group] = append(want[group], rule.Resources...)
			}
		}
	}
	if d := cmp.Diff(want, watches.ClusterKinds()); d != "" {
		t.Errorf("kinds (-role +watched):\n%s", d)
	}
}

// TestNamespacesWithoutRights tests that a manager that watches only some namespaces omits a namespace in which it
// lacks permissions, and exits when it gets them.
func TestNamespacesWithoutRights(t *testing.T) {
	t.Parallel()
	const user = "system:serviceaccount:heighliner-system:some-namespaces"
	bind := func(role *rbacv1.Role) {
		create(t, role)
		create(t, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: role.Namespace, Name: role.Name},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
		})
	}
	has, partly, without := env.Namespace(t), env.Namespace(t), env.Namespace(t)
	bind(roleOf(t, has))
	part := roleOf(t, partly)
	part.Rules = slices.DeleteFunc(part.Rules, func(r rbacv1.PolicyRule) bool { return slices.Contains(r.Resources, "pods") })
	bind(part)
	config := rest.CopyConfig(env.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:serviceaccounts", "system:authenticated"}}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}

	await.Nil(t, func(ctx context.Context) error { // The authorizer applies the roles with a delay.
		missing, err := permissions{client}.lacking(ctx, []string{has, partly})
		if err == nil && (missing[has] != "" || missing[partly] != "pods") {
			err = fmt.Errorf("missing permissions: %v", missing)
		}
		return err
	})
	for name, only := range map[string]string{"none": without, "one that does not exist": "no-such-namespace"} {
		if _, _, err := (permissions{client}).watchable(t.Context(), []string{only}, logr.Discard()); err == nil || !strings.Contains(err.Error(), only) {
			t.Errorf("%s: %v, want an error with %q", name, err, only)
		}
	}
	namespaces, lacking, err := permissions{client}.watchable(t.Context(), []string{has, partly, without, "no-such-namespace"}, logr.Discard())
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{has}, namespaces); d != "" {
		t.Errorf("watched (-want +got):\n%s", d)
	}
	if lacking[partly] != "pods" || !strings.Contains(lacking[without], "microservices.hlnr.io") || lacking["no-such-namespace"] == "" {
		t.Errorf("missing permissions: %v", lacking)
	}
	o := options{}
	if r, err := o.omitUnwatchable(t.Context(), config, logr.Discard()); r != nil || err != nil {
		t.Errorf("all namespaces: %v, %v", r, err)
	}
	o.namespaces = []string{has}
	if r, err := o.omitUnwatchable(t.Context(), config, logr.Discard()); r != nil || err != nil {
		t.Errorf("all with permissions: %v, %v", r, err)
	}

	bind(roleOf(t, without))
	r := restart{permissions: permissions{client}, lacks: lacking, every: 20 * time.Millisecond, after: time.Now().Add(time.Hour)}
	early, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := r.Start(early); err != nil {
		t.Errorf("before its minimum time: %v", err)
	}
	r.after = time.Now()
	ended := make(chan error, 1)
	go func() { ended <- r.Start(t.Context()) }()
	if err := <-ended; err == nil || !strings.Contains(err.Error(), without) {
		t.Errorf("ended with %v, want an error with %q", err, without)
	}
}
