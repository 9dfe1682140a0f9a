package apply_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/internal/apply"
)

// TestShare checks that a field of another owner's object is set, replaced and removed again, and that nothing else changes.
func TestShare(t *testing.T) {
	b := newBench(t)
	theirs := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: "theirs"}, Data: map[string]string{"a": "1", "b": "1"}}
	if err := b.Create(t.Context(), theirs); err != nil {
		t.Fatal(err)
	}
	live := &corev1.ConfigMap{}
	share := func(data map[string]any, want apply.Outcome) {
		t.Helper()
		if err := b.Get(t.Context(), client.ObjectKeyFromObject(theirs), live); err != nil {
			t.Fatal(err)
		}
		before := live.ResourceVersion
		got, err := b.writer.Share(t.Context(), live, intentOf(b.namespace, data))
		if err != nil || got != want {
			t.Fatalf("Share: %s, %v, want %s", got, err, want)
		}
		if err := b.Get(t.Context(), client.ObjectKeyFromObject(theirs), live); err != nil {
			t.Fatal(err)
		}
		if (live.ResourceVersion == before) != (want == apply.Unchanged) {
			t.Errorf("%s, and resource version %s after %s", want, live.ResourceVersion, before)
		}
		if live.Data["b"] != "1" || len(live.OwnerReferences) > 0 {
			t.Errorf("other fields changed: %v, owners %v", live.Data, live.OwnerReferences)
		}
	}
	share(map[string]any{"a": "2", "c": "2"}, apply.Updated)
	share(map[string]any{"a": "2", "c": "2"}, apply.Unchanged)
	share(map[string]any{"a": "2"}, apply.Updated)
	if _, has := live.Data["c"]; has || live.Data["a"] != "2" {
		t.Errorf("data %v, want a=2 and no c", live.Data)
	}
	live.Data["a"] = "1"
	if err := b.Update(t.Context(), live); err != nil {
		t.Fatal(err)
	}
	share(map[string]any{"a": "2"}, apply.Updated)

	// For an object that was replaced or deleted, Share returns a conflict and does not create the object.
	old := live.DeepCopy()
	if err := b.Delete(t.Context(), live); err != nil {
		t.Fatal(err)
	}
	for _, exists := range []bool{false, true} {
		if exists {
			if err := b.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: "theirs"}}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := b.writer.Share(t.Context(), old, intentOf(b.namespace, map[string]any{"a": "3"})); !apierrors.IsConflict(err) {
			t.Errorf("exists %t: %v, want a conflict", exists, err)
		}
	}
}

func intentOf(namespace string, data map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"namespace": namespace, "name": "theirs"}, "data": data,
	}}
}
