package compact

import (
	"reflect"
	"runtime"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// meta returns metadata whose strings do not share memory with those returned by other calls.
func meta(t *testing.T) metav1.ObjectMeta {
	t.Helper()
	var m metav1.ObjectMeta
	text := `{"name": "shop-1.0.0", "namespace": "shops", "uid": "8a6a", "resourceVersion": "7",
		"labels": {"hlnr.io/release": "shop-1.0.0", "hlnr.io/group": "1-x"},
		"annotations": {"hlnr.io/applied": "0123456789abcdef"},
		"ownerReferences": [
			{"apiVersion": "hlnr.io/v1alpha1", "kind": "VersionedMicroservice", "name": "shop-1.0.0", "uid": "4f1b", "controller": true, "blockOwnerDeletion": false},
			{"apiVersion": "hlnr.io/v1alpha1", "kind": "Microservice", "name": "shop", "uid": "5a2c", "controller": false, "blockOwnerDeletion": true},
			{"apiVersion": "v1", "kind": "Pod", "name": "shop", "uid": "6b3d"}],
		"managedFields": [{"manager": "heighliner"}]}`
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		t.Fatal(err)
	}
	return m
}

// objects returns objects for each way of decoding: from Protobuf, from JSON, and without a Go type.
func objects(t *testing.T) map[string]client.Object {
	t.Helper()
	release := &v1alpha1.VersionedMicroservice{}
	if err := json.Unmarshal([]byte(`{"spec": {"microserviceName": "shop", "template": {"spec": {"containers": [{"name": "shop", "image": "shop:1"}]}}}}`), release); err != nil {
		t.Fatal(err)
	}
	release.ObjectMeta = meta(t)
	untyped := &unstructured.Unstructured{Object: map[string]any{"kind": "ApisixRoute", "spec": map[string]any{"http": []any{"a"}}}}
	untyped.SetLabels(meta(t).Labels)
	return map[string]client.Object{
		"Deployment":            &appsv1.Deployment{ObjectMeta: meta(t), Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}}},
		"EndpointSlice":         &discoveryv1.EndpointSlice{ObjectMeta: meta(t), Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}}}},
		"VersionedMicroservice": release,
		"ApisixRoute":           untyped,
		"no metadata":           &corev1.Pod{},
	}
}

// TestObjectsDoNotChange checks that an object that was compacted once or twice differs from the original only in
// its managed fields.
func TestObjectsDoNotChange(t *testing.T) {
	t.Parallel()
	for name, obj := range objects(t) {
		t.Run(name, func(t *testing.T) {
			want := obj.DeepCopyObject().(client.Object)
			want.SetManagedFields(nil)
			got := any(obj)
			for range 2 {
				var err error
				if got, err = Transform(got); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(any(want), got); diff != "" {
					t.Errorf("the object changed (-want +got):\n%s", diff)
				}
			}
		})
	}
}

// TestOtherValuesDoNotChange checks that a value without metadata, such as the value for the deletion of an unknown object, is returned unchanged.
func TestOtherValuesDoNotChange(t *testing.T) {
	t.Parallel()
	unknown := toolscache.DeletedFinalStateUnknown{Key: "shops/shop"}
	got, err := Transform(unknown)
	if diff := cmp.Diff(any(unknown), got); diff != "" || err != nil {
		t.Errorf("%s, error %v", diff, err)
	}
}

// TestMetadataShareMemory checks that equal strings of different objects have the same address.
func TestMetadataShareMemory(t *testing.T) {
	t.Parallel()
	a, b := &corev1.Pod{ObjectMeta: meta(t)}, &appsv1.Deployment{ObjectMeta: meta(t)}
	for _, o := range []client.Object{a, b} {
		if _, err := Transform(o); err != nil {
			t.Fatal(err)
		}
		runtime.GC() // Strings remain shared after a garbage collection.
	}
	key := func(m map[string]string) string {
		for k := range m {
			return k
		}
		return ""
	}
	for name, equal := range map[string][2]string{
		"namespace":         {a.Namespace, b.Namespace},
		"name":              {a.Name, b.Labels[v1alpha1.LabelRelease]},
		"value of a label":  {a.Labels[v1alpha1.LabelGroup], b.Labels[v1alpha1.LabelGroup]},
		"key of annotation": {key(a.Annotations), key(b.Annotations)},
		"kind of an owner":  {a.OwnerReferences[0].Kind, b.OwnerReferences[0].Kind},
		"name of an owner":  {a.OwnerReferences[0].Name, b.Name},
		"UID of an owner":   {string(a.OwnerReferences[0].UID), string(b.OwnerReferences[0].UID)},
	} {
		if equal[0] != equal[1] || unsafe.StringData(equal[0]) != unsafe.StringData(equal[1]) {
			t.Errorf("%s: %q and %q do not share memory", name, equal[0], equal[1])
		}
	}
}

// TestTrimmed checks that only objects of the given type are trimmed, and that all are compacted.
func TestTrimmed(t *testing.T) {
	t.Parallel()
	transform := Trimmed(func(p *corev1.Pod) { p.Spec = corev1.PodSpec{} })
	for _, o := range []client.Object{&corev1.Pod{ObjectMeta: meta(t), Spec: corev1.PodSpec{NodeName: "a"}}, &corev1.Service{ObjectMeta: meta(t)}} {
		got, err := transform(o)
		if err != nil {
			t.Fatal(err)
		}
		if fields := got.(client.Object).GetManagedFields(); fields != nil {
			t.Errorf("%T has managed fields: %v", o, fields)
		}
		if p, ok := got.(*corev1.Pod); ok && p.Spec.NodeName != "" {
			t.Error("the pod is not trimmed")
		}
	}
}

// TestLabelsShareMemory checks that objects with equal labels share one map, even after a second transform, and that objects with
// other labels do not share it.
func TestLabelsShareMemory(t *testing.T) {
	t.Parallel()
	a, b, other := &corev1.Pod{ObjectMeta: meta(t)}, &appsv1.Deployment{ObjectMeta: meta(t)}, &corev1.Service{ObjectMeta: meta(t)}
	other.Labels["role"] = "canary"
	for _, o := range []client.Object{a, b, other, a} {
		if _, err := Transform(o); err != nil {
			t.Fatal(err)
		}
	}
	address := func(o client.Object) uintptr { return reflect.ValueOf(o.GetLabels()).Pointer() }
	if address(a) != address(b) {
		t.Error("equal labels do not share memory")
	}
	if address(a) == address(other) || len(a.Labels) != 2 || len(other.Labels) != 3 {
		t.Errorf("different labels share memory: %v and %v", a.Labels, other.Labels)
	}
}
