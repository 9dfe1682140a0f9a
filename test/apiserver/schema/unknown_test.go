package schema_test

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hlnr "github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/status"
)

// TestUnknownStatusFieldsAreRefused checks that a manager that is newer than its CRDs does not silently lose
// status fields. By default, the server drops unknown fields without an error.
func TestUnknownStatusFieldsAreRefused(t *testing.T) {
	t.Parallel()
	m := typed[hlnr.Microservice](t, "Microservice", "newer")
	m.Namespace = env.Namespace(t)
	m.Status = hlnr.MicroserviceStatus{}
	if err := env.Client.Create(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	read := func() *unstructured.Unstructured {
		u := &unstructured.Unstructured{}
		u.SetGroupVersionKind(hlnr.GroupVersion.WithKind("Microservice"))
		if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(m), u); err != nil {
			t.Fatal(err)
		}
		return u
	}
	before := read()
	after := before.DeepCopy()
	for path, value := range map[string]int64{"observedGeneration": 1, "fieldOfTomorrow": 2} {
		if err := unstructured.SetNestedField(after.Object, value, "status", path); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := status.Patch(t.Context(), env.Client, "test", after.DeepCopy(), before, status.AtResourceVersion, status.KnownFields); !apierrors.IsInvalid(err) {
		t.Errorf("an unknown status field results in %v, want Invalid", err)
	}
	if got := read(); got.GetResourceVersion() != before.GetResourceVersion() {
		t.Error("a status with an unknown field was written")
	}
	if _, err := status.Patch(t.Context(), env.Client, "test", after.DeepCopy(), before); err != nil {
		t.Errorf("without the option KnownFields, the result is %v", err)
	}
	if _, there, _ := unstructured.NestedFieldNoCopy(read().Object, "status", "fieldOfTomorrow"); there {
		t.Error("the server knows the field, so the test proves nothing")
	}
}
