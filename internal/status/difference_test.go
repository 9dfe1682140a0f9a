package status

import (
	"encoding/json"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// withStatus returns a Microservice with a template, and with the given conditions in its status.
func withStatus(generation int64, conditions ...string) *v1alpha1.Microservice {
	ms := &v1alpha1.Microservice{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", ResourceVersion: "42"}}
	for range 10 {
		ms.Spec.Template.Spec.Containers = append(ms.Spec.Template.Spec.Containers, corev1.Container{Name: "web", Image: "web", Env: []corev1.EnvVar{{Name: "A", Value: "B"}}})
	}
	ms.Status.ObservedGeneration = generation
	for _, kind := range conditions {
		ms.Status.Conditions = append(ms.Status.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: "Succeeded"})
	}
	return ms
}

func TestDifference(t *testing.T) {
	t.Parallel()
	moved := withStatus(1)
	moved.Labels, moved.Spec.Template.Spec.Containers = map[string]string{"a": "b"}, nil
	node := func(status map[string]any) client.Object {
		u := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "x", "resourceVersion": "7"}}}
		if status != nil {
			u.Object["status"] = status
		}
		return u
	}
	for name, tc := range map[string]struct {
		obj, before client.Object
		locked      bool
		want        string
	}{
		"same":                       {withStatus(1, "Ready"), withStatus(1, "Ready"), true, ""},
		"differs outside its status": {moved, withStatus(1), false, ""},
		"changed":                    {withStatus(2), withStatus(1), false, `{"status":{"observedGeneration":2}}`},
		"changed, locked":            {withStatus(2), withStatus(1), true, `{"metadata":{"resourceVersion":"42"},"status":{"observedGeneration":2}}`},
		"removed":                    {withStatus(0), withStatus(1, "Ready"), false, `{"status":{"conditions":null,"observedGeneration":null}}`},
		"unstructured":               {node(map[string]any{"a": "b"}), node(nil), true, `{"metadata":{"resourceVersion":"7"},"status":{"a":"b"}}`},
		"unstructured, same":         {node(nil), node(nil), true, ""},
		"unstructured, removed":      {node(nil), node(map[string]any{"a": "b"}), false, `{"status":{"a":null}}`},
	} {
		got, err := difference(tc.obj, tc.before, tc.locked)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(tc.want, string(got)); diff != "" {
			t.Errorf("%s: -want +got\n%s", name, diff)
		}
		if tc.want == "" || tc.locked {
			continue
		}
		whole, err := client.MergeFrom(tc.before).Data(tc.obj)
		if err != nil {
			t.Fatal(err)
		}
		if name != "unstructured, removed" && string(whole) != string(got) {
			t.Errorf("%s: %s, but a patch of the whole object is %s", name, got, whole)
		}
	}
	if _, err := difference(&corev1.ConfigMap{}, &corev1.ConfigMap{}, false); err == nil {
		t.Error("no error for an object without a status")
	}
}

// TestMergePatch checks with random objects that the API server's merge (RFC 7386) of the patch results in the new object, and that the patch
// contains only fields that differ.
func TestMergePatch(t *testing.T) {
	t.Parallel()
	leaf := rapid.OneOf(rapid.Custom(func(r *rapid.T) any { return float64(rapid.IntRange(0, 2).Draw(r, "n")) }), rapid.SampledFrom([]any{"a", "", true, []any{}, []any{"a", map[string]any{"x": "y"}}}))
	names := rapid.SampledFrom([]string{"a", "b", "c", "<"})
	object := func(value *rapid.Generator[any]) *rapid.Generator[any] {
		return rapid.Custom(func(r *rapid.T) any { return rapid.MapOfN(names, value, 0, 3).Draw(r, "object") })
	}
	whole := object(rapid.OneOf(leaf, object(rapid.OneOf(leaf, object(leaf)))))
	rapid.Check(t, func(r *rapid.T) {
		encode := func(value any) []byte {
			text, err := json.Marshal(value)
			if err != nil {
				r.Fatal(err)
			}
			return text
		}
		from, to := encode(whole.Draw(r, "from")), encode(whole.Draw(r, "to"))
		patch, err := mergePatch(from, to)
		if err != nil {
			r.Fatal(err)
		}
		merged, err := jsonpatch.MergePatch(from, patch)
		if err != nil || !jsonpatch.Equal(merged, to) {
			r.Fatalf("the patch %s changes %s to %s, want %s (%v)", patch, from, merged, to, err)
		}
		want, err := jsonpatch.CreateMergePatch(from, to)
		if err != nil || !jsonpatch.Equal(want, patch) {
			r.Fatalf("the patch from %s to %s is %s, want %s (%v)", from, to, patch, want, err)
		}
	})
}

// BenchmarkDifference compares a patch of only the status with a patch of the whole object.
func BenchmarkDifference(b *testing.B) {
	obj, before := withStatus(2, "Ready", "Progressing"), withStatus(1, "Ready", "Progressing")
	b.Run("status", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := difference(obj, before, true); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("whole object", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}).Data(obj); err != nil {
				b.Fatal(err)
			}
		}
	})
}
