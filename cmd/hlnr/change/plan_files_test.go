package change

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// TestImagePolicyOfTheFiles checks that a Microservice can use an ImagePolicy that is in the same files and does not exist in
// the cluster yet. If the ImagePolicy exists in the cluster, its stored form is used.
func TestImagePolicyOfTheFiles(t *testing.T) {
	t.Parallel()
	const policy = `{apiVersion: hlnr.io/v1alpha1, kind: ImagePolicy, metadata: {name: %NAME}, spec: {image: registry.example.com/shop}}`
	documents, err := files{"-"}.read(strings.NewReader(strings.ReplaceAll(policy, "%NAME", "new") + "\n---\n" + strings.ReplaceAll(policy, "%NAME", "stored")))
	if err != nil {
		t.Fatal(err)
	}
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	stored := &v1alpha1.ImagePolicy{}
	stored.Namespace, stored.Name, stored.Spec.Image = "shop", "stored", "registry.example.com/stored"
	c := withFiles(fake.NewClientBuilder().WithScheme(scheme).WithObjects(stored).Build(), documents, "shop")
	for key, want := range map[client.ObjectKey]string{
		{Namespace: "shop", Name: "new"}: "registry.example.com/shop", {Namespace: "shop", Name: "stored"}: "registry.example.com/stored",
		{Namespace: "shop", Name: "none"}: "", {Namespace: "other", Name: "new"}: "",
	} {
		var p v1alpha1.ImagePolicy
		err := c.Get(t.Context(), key, &p)
		if p.Spec.Image != want || (err == nil) != (want != "") {
			t.Errorf("%s: image %q, %v; want %q", key, p.Spec.Image, err, want)
		}
	}
}

// TestTemplatesOfTheFiles checks that a Microservice can refer to an analysis template that is in the same files and does not
// exist in the cluster yet.
func TestTemplatesOfTheFiles(t *testing.T) {
	t.Parallel()
	const shared = `{apiVersion: hlnr.io/v1alpha1, kind: %KIND, metadata: {name: errors}, spec: {metrics: [{name: errors, prometheus: {query: "1"}, thresholdRange: {max: 0}}]}}`
	documents, err := files{"-"}.read(strings.NewReader(strings.ReplaceAll(shared, "%KIND", "AnalysisTemplate") + "\n---\n" + strings.ReplaceAll(shared, "%KIND", "ClusterAnalysisTemplate")))
	if err != nil {
		t.Fatal(err)
	}
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c := withFiles(fake.NewClientBuilder().WithScheme(scheme).Build(), documents, "shop")
	for _, d := range documents {
		if _, faults := check(t.Context(), d.object); len(faults) > 0 {
			t.Fatal(faults)
		}
	}
	var namespaced v1alpha1.AnalysisTemplate
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "errors"}, &namespaced); err != nil || len(namespaced.Spec.Metrics) != 1 || namespaced.Namespace != "shop" {
		t.Errorf("the template of the namespace: %v, %v", namespaced, err)
	}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "other", Name: "errors"}, &namespaced); err == nil {
		t.Error("the template is found in another namespace")
	}
	var cluster v1alpha1.ClusterAnalysisTemplate
	if err := c.Get(t.Context(), client.ObjectKey{Name: "errors"}, &cluster); err != nil || len(cluster.Spec.Metrics) != 1 || cluster.Namespace != "" {
		t.Errorf("the template of the cluster: %v, %v", cluster, err)
	}
}

// TestNamespacesOfAPlan checks that cluster-scoped objects have no namespace in a plan, and that other objects default to the
// command's namespace.
func TestNamespacesOfAPlan(t *testing.T) {
	t.Parallel()
	documents, err := files{"-"}.read(strings.NewReader(`
{apiVersion: hlnr.io/v1alpha1, kind: ClusterFreeze, metadata: {name: fair}, spec: {reason: fair, until: "2099-01-31T08:00:00Z"}}
---
{apiVersion: hlnr.io/v1alpha1, kind: ClusterAnalysisTemplate, metadata: {name: errors, namespace: search}, spec: {metrics: [{name: errors, prometheus: {query: "1"}, thresholdRange: {max: 0}}]}}
---
{apiVersion: hlnr.io/v1alpha1, kind: Freeze, metadata: {name: fair}, spec: {reason: fair, until: "2099-01-31T08:00:00Z"}}
---
{apiVersion: hlnr.io/v1alpha1, kind: Freeze, metadata: {name: fair, namespace: search}, spec: {reason: fair, until: "2099-01-31T08:00:00Z"}}
`))
	if err != nil {
		t.Fatal(err)
	}
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c := fake.NewClientBuilder().WithScheme(scheme).Build()
	p := &planner{stored: c, client: withFiles(c, documents, "shop"), namespace: "shop"}
	var got []string
	for _, d := range documents {
		out, err := p.object(t.Context(), d)
		if err != nil || len(out.NotAllowed) > 0 {
			t.Fatal(err, out.NotAllowed)
		}
		got = append(got, out.Namespace)
	}
	if want := []string{"", "", "shop", "search"}; !slices.Equal(got, want) {
		t.Errorf("namespaces %q, want %q", got, want)
	}
}

// TestForbiddenChanges checks that a change that an admission policy rejects counts as not allowed, and that a missing permission is only a
// note. Both errors have the reason Forbidden.
func TestForbiddenChanges(t *testing.T) {
	t.Parallel()
	documents, err := files{"-"}.read(strings.NewReader(`{apiVersion: hlnr.io/v1alpha1, kind: Freeze, metadata: {name: fair}, spec: {reason: fair, until: "2099-01-31T08:00:00Z"}}`))
	if err != nil {
		t.Fatal(err)
	}
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	for cause, allowed := range map[string]bool{
		`User "ana" cannot create resource "freezes" in API group "hlnr.io" in the namespace "shop"`:                                                 true,
		`ValidatingAdmissionPolicy 'domains.hlnr.io' with binding 'domains.hlnr.io' denied request: domains cannot be checked: the list is too long`: false,
	} {
		c := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
			Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
				return apierrors.NewForbidden(schema.GroupResource{Group: v1alpha1.GroupVersion.Group, Resource: "freezes"}, "fair", errors.New(cause))
			},
		}).Build()
		p := &planner{stored: c, client: withFiles(c, documents, "shop"), namespace: "shop"}
		out, err := p.object(t.Context(), documents[0])
		if err != nil || (len(out.NotAllowed) == 0) != allowed || (len(out.Notes) > 0) != allowed {
			t.Errorf("%s: not allowed %q, notes %q, %v", cause, out.NotAllowed, out.Notes, err)
		}
	}
}
