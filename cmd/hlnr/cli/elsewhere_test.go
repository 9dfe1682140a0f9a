package cli

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// TestUnknownMicroservice checks that the error for an unknown Microservice lists the other namespaces that have a Microservice with
// this name, if the user may list Microservices there.
func TestUnknownMicroservice(t *testing.T) {
	t.Parallel()
	scheme, err := Scheme()
	if err != nil {
		t.Fatal(err)
	}
	var objects []client.Object
	for _, name := range []string{"default", "judge", "copy"} {
		objects = append(objects, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	for _, name := range [][2]string{{"judge", "judge"}, {"judge", "shop"}, {"copy", "shop"}} {
		objects = append(objects, &v1alpha1.Microservice{ObjectMeta: metav1.ObjectMeta{Namespace: name[0], Name: name[1]}})
	}
	builder := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithIndex(&v1alpha1.Microservice{}, "metadata.name", func(o client.Object) []string { return []string{o.GetName()} })
	all := builder.Build()
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "anything"}, "", errors.New("no permission"))
	own := interceptor.NewClient(all, interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return forbidden
		},
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return forbidden
		},
	})
	for name, c := range map[string]struct {
		client          client.Client
		namespace, what string
		names           []string
		want            string
	}{
		"in one other namespace":  {all, "default", "judge", nil, `there is no Microservice with the name "judge" in namespace default; there is a Microservice judge in namespace judge: add -n judge`},
		"in two others":           {all, "default", "shop", nil, `there is no Microservice with the name "shop" in namespace default; there are Microservices named shop in the namespaces copy, judge: choose one with -n`},
		"in none":                 {all, "default", "cart", nil, `there is no Microservice in namespace default: use -n for another namespace`},
		"a near name":             {all, "copy", "shpo", []string{"shop"}, `there is no Microservice with the name "shpo" in namespace copy; did you mean "shop"?`},
		"without permissions":     {own, "default", "judge", nil, `there is no Microservice in namespace default: use -n for another namespace`},
		"in an unknown namespace": {all, "judgee", "judge", nil, `there is no namespace with the name "judgee"; did you mean "judge"?`},
		"in all":                  {all, "", "cart", []string{"shop"}, `there is no Microservice with the name "cart" in any namespace; available: shop`},
	} {
		err := UnknownMicroservice(t.Context(), c.client, "Microservice", c.namespace, c.what, c.names)
		if CodeOf(err) != ExitUsage || err.Error() != c.want {
			t.Errorf("%s: exit code %d, %v; want %s", name, CodeOf(err), err, c.want)
		}
	}
}
