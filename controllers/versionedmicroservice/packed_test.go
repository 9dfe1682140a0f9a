package versionedmicroservice

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/randfill"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// transformed returns what the cache contains for an object, after the given number of transforms.
func transformed(t *testing.T, o client.Object, times int) client.Object {
	t.Helper()
	for kind, by := range CacheByObject() {
		if a, b := kind.DeepCopyObject(), o.DeepCopyObject(); cmp.Equal(typeOf(a), typeOf(b)) {
			for range times {
				got, err := by.Transform(o)
				if err != nil {
					t.Fatal(err)
				}
				o = got.(client.Object)
			}
		}
	}
	return o
}

func typeOf(o runtime.Object) string {
	switch o.(type) {
	case *corev1.Pod:
		return "Pod"
	case *appsv1.Deployment:
		return "Deployment"
	}
	return "other"
}

// TestPackedObjectsAreComplete checks that a deep copy of a random packed object is equal to the trimmed object, so that a field that a
// new version of Kubernetes adds to Deployments, for example, is not lost.
func TestPackedObjectsAreComplete(t *testing.T) {
	t.Setenv("KUBE_CACHE_MUTATION_DETECTOR", "")
	seed := time.Now().UnixNano()
	t.Logf("seed %d", seed)
	fill := randfill.NewWithSeed(seed).NilChance(0.2).NumElements(1, 2).MaxDepth(10).Funcs(
		func(q *resource.Quantity, c randfill.Continue) {
			*q = *resource.NewMilliQuantity(c.Int63n(1000), resource.DecimalSI)
		},
		func(x *intstr.IntOrString, c randfill.Continue) { *x = intstr.FromInt32(c.Int31n(100)) },
		func(m *metav1.Time, c randfill.Continue) { m.Time = time.Unix(c.Int63n(1000), 0) },
	)
	for range 200 {
		d := &appsv1.Deployment{}
		fill.Fill(d)
		d.Spec.Template = corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app"}}}}
		want := d.DeepCopy()
		trimDeployment(want)
		want.ManagedFields = nil
		pod := &corev1.Pod{}
		fill.Fill(pod)
		makeReady(pod)
		wantPod := pod.DeepCopy()
		trimPod(wantPod)
		wantPod.ManagedFields = nil
		for times := 1; times <= 2; times++ {
			got := transformed(t, d.DeepCopy(), times)
			if _, ok := got.(*packedDeployment); !ok {
				t.Fatalf("the cache contains a %T", got)
			}
			if diff := cmp.Diff(runtime.Object(want), got.DeepCopyObject()); diff != "" {
				t.Fatalf("Deployment after %d transforms (-trimmed +packed):\n%s", times, diff)
			}
			got = transformed(t, pod.DeepCopy(), times)
			if _, ok := got.(*packedPod); !ok {
				t.Fatalf("the cache contains a %T", got)
			}
			if diff := cmp.Diff(runtime.Object(wantPod), got.DeepCopyObject()); diff != "" {
				t.Fatalf("pod after %d transforms (-trimmed +packed):\n%s", times, diff)
			}
		}
	}
}

// makeReady changes the status of a pod so that the pod is ready.
func makeReady(pod *corev1.Pod) {
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses = nil, []corev1.ContainerStatus{{Name: "app", Ready: true}}
}

// TestCopiesOfPackedObjects checks that a change to a deep copy does not change the packed object, nor what all ready pods share.
func TestCopiesOfPackedObjects(t *testing.T) {
	t.Setenv("KUBE_CACHE_MUTATION_DETECTOR", "")
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1alpha1.LabelRelease: "shop-1"}}}
	makeReady(pod)
	packed := transformed(t, pod, 1)
	edited := packed.DeepCopyObject().(*corev1.Pod)
	edited.Labels[v1alpha1.LabelRelease], edited.Status.ContainerStatuses[0].Ready = "other", false
	if again := packed.DeepCopyObject().(*corev1.Pod); again.Labels[v1alpha1.LabelRelease] != "shop-1" || !readyContainers[0].Ready {
		t.Errorf("labels %v, shared status %+v", again.Labels, readyContainers[0])
	}
	d := scene(2, 2).deployment.DeepCopy()
	d.Annotations = map[string]string{"a": "b"}
	packed = transformed(t, d, 1)
	copied := packed.DeepCopyObject().(*appsv1.Deployment)
	*copied.Spec.Replicas, copied.Annotations["a"] = 7, "c"
	if again := packed.DeepCopyObject().(*appsv1.Deployment); *again.Spec.Replicas != 2 || again.Annotations["a"] != "b" {
		t.Errorf("replicas %d, annotations %v", *again.Spec.Replicas, again.Annotations)
	}
}

// TestPodsThatAreNotReady checks that the cache contains the complete trimmed pod, which explains why the pod is not ready.
func TestPodsThatAreNotReady(t *testing.T) {
	t.Setenv("KUBE_CACHE_MUTATION_DETECTOR", "")
	pod := &corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "app"}}}}
	if got := transformed(t, pod, 2); got != client.Object(pod) {
		t.Errorf("the cache contains %T", got)
	}
}

// TestDetectorGetsObjects checks that the cache contains no packed objects if the mutation detector is enabled.
func TestDetectorGetsObjects(t *testing.T) {
	t.Setenv("KUBE_CACHE_MUTATION_DETECTOR", "true")
	pod := &corev1.Pod{}
	makeReady(pod)
	for _, o := range []client.Object{pod, scene(2, 2).deployment} {
		if got := transformed(t, o, 2); typeOf(got) == "other" {
			t.Errorf("the cache contains %T", got)
		}
	}
}

// TestListsOfPackedObjects checks that lists of pods accept the deep copies of ready and other pods.
func TestListsOfPackedObjects(t *testing.T) {
	t.Setenv("KUBE_CACHE_MUTATION_DETECTOR", "")
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "ready"}}
	makeReady(pod)
	var list corev1.PodList
	all := []runtime.Object{transformed(t, pod, 1).DeepCopyObject(), transformed(t, &corev1.Pod{}, 1).DeepCopyObject()}
	if err := meta.SetList(&list, all); err != nil || len(list.Items) != 2 || list.Items[0].Name != "ready" {
		t.Errorf("%v, error %v", list.Items, err)
	}
}

// TestEventsOfPackedObjects checks the predicate of pods, the owners of Deployments, and the indexes with packed objects.
func TestEventsOfPackedObjects(t *testing.T) {
	t.Setenv("KUBE_CACHE_MUTATION_DETECTOR", "")
	labeled := metav1.ObjectMeta{Labels: map[string]string{v1alpha1.LabelRelease: "shop-1"}}
	pod := &corev1.Pod{ObjectMeta: labeled}
	makeReady(pod)
	ready, starting := transformed(t, pod, 1), transformed(t, &corev1.Pod{ObjectMeta: labeled}, 1)
	for name, test := range map[string]struct {
		before, now client.Object
		want        bool
	}{
		"becomes ready":   {starting, ready, true},
		"becomes unready": {ready, starting, true},
		"stays ready":     {ready, ready, false},
		"of another kind": {&appsv1.Deployment{}, ready, false},
	} {
		if got := podChanged().Update(event.UpdateEvent{ObjectOld: test.before, ObjectNew: test.now}); got != test.want {
			t.Errorf("%s: admitted %t", name, got)
		}
	}
	d := scene(2, 2).deployment.DeepCopy()
	owner := metav1.GetControllerOf(d)
	d.Status.Conditions = []appsv1.DeploymentCondition{{
		Type: appsv1.DeploymentReplicaFailure, Status: "True", Reason: "FailedCreate", Message: `pods "a" is forbidden: exceeded quota: small, requested: pods=1, used: pods=1, limited: pods=1`,
	}}
	packed := transformed(t, d, 1)
	if got := metav1.GetControllerOf(packed); owner == nil || got == nil || got.UID != owner.UID {
		t.Errorf("controller %v, want %v", got, owner)
	}
	for _, x := range indexes {
		var want string
		o := packed
		switch {
		case x.Field == indexQuota && typeOf(x.Object) == "Deployment":
			want = rejectedByQuota
		case x.Field == indexRelease && typeOf(x.Object) == "Pod":
			o, want = ready, "shop-1"
		default:
			continue
		}
		if got := x.Values(o); len(got) != 1 || got[0] != want {
			t.Errorf("index %s of %T: %v, want %s", x.Field, o, got, want)
		}
	}
}
