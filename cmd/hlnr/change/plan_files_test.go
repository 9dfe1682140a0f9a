package change

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// A Microservice of the same files may use an ImagePolicy that does not exist yet; a stored one is used as it is.
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
	c := withImagePolicies(fake.NewClientBuilder().WithScheme(scheme).WithObjects(stored).Build(), documents, "shop")
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
