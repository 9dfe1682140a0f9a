package versionedmicroservice

import (
	"context"
	"net/http"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	cachetest "k8s.io/client-go/tools/cache/testing"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/randfill"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/compact"
)

// transformed returns what the cache contains for an object, after the given number of transforms.
func transformed(t *testing.T, o client.Object, times int) client.Object {
	t.Helper()
	all := map[string]toolscache.TransformFunc{
		"Pod": compact.Packed(trimPod, packPod), "Deployment": compact.Packed(trimDeployment, packDeployment),
	}
	transform := all[typeOf(o)]
	for range times {
		got, err := transform(o)
		if err != nil {
			t.Fatal(err)
		}
		o = got.(client.Object)
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
	t.Parallel()
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

// readyPodOf returns a ready pod of a release.
func readyPodOf(release string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: release, Labels: map[string]string{v1alpha1.LabelRelease: release}}}
	makeReady(pod)
	return pod
}

// makeReady changes the status of a pod so that the pod is ready.
func makeReady(pod *corev1.Pod) {
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses = nil, []corev1.ContainerStatus{{Name: "app", Ready: true}}
}

// TestCopiesOfPackedObjects checks that a change to a deep copy changes neither the packed object nor what all ready pods share.
func TestCopiesOfPackedObjects(t *testing.T) {
	t.Parallel()
	packed := transformed(t, readyPodOf("shop-1"), 1)
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
	t.Parallel()
	pod := &corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "app"}}}}
	if got := transformed(t, pod, 2); got != client.Object(pod) {
		t.Errorf("the cache contains %T", got)
	}
}

// TestPackedUnlessDetected checks that the cache contains packed objects, unless the mutation detector is enabled. "make test" enables it, and "make
// race" does not.
func TestPackedUnlessDetected(t *testing.T) {
	t.Parallel()
	detected, _ := strconv.ParseBool(os.Getenv("KUBE_CACHE_MUTATION_DETECTOR"))
	kinds := 0
	for kind, by := range CacheByObject() {
		o := map[string]client.Object{"Pod": readyPodOf("shop-1"), "Deployment": scene(2, 2).deployment.DeepCopy()}[typeOf(kind)]
		if o == nil {
			continue
		}
		kinds++
		got, err := by.Transform(o)
		if isPacked := typeOf(got.(client.Object)) == "other"; isPacked == detected || err != nil {
			t.Errorf("with the mutation detector (%t), the cache contains %T, error %v", detected, got, err)
		}
	}
	if kinds != 2 {
		t.Errorf("%d kinds, want 2", kinds)
	}
}

// TestReadsOfPackedObjects checks that a cache returns pods and Deployments for packed objects, and that reads without deep copies fail.
func TestReadsOfPackedObjects(t *testing.T) {
	t.Parallel()
	mapper := meta.NewDefaultRESTMapper(nil)
	for _, kind := range []schema.GroupVersionKind{corev1.SchemeGroupVersion.WithKind("Pod"), appsv1.SchemeGroupVersion.WithKind("Deployment")} {
		mapper.Add(kind, meta.RESTScopeNamespace)
	}
	informers := map[string]toolscache.SharedIndexInformer{}
	c, err := cache.New(&rest.Config{Host: "https://127.0.0.1:1"}, cache.Options{
		Scheme: clientgoscheme.Scheme, Mapper: mapper, HTTPClient: &http.Client{},
		NewInformer: func(_ toolscache.ListerWatcher, o runtime.Object, d time.Duration, i toolscache.Indexers) toolscache.SharedIndexInformer {
			informers[typeOf(o)] = toolscache.NewSharedIndexInformer(cachetest.NewFakeControllerSource(), o, d, i)
			return informers[typeOf(o)]
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stopped := make(chan error)
	go func() { stopped <- c.Start(ctx) }()
	if !c.WaitForCacheSync(ctx) {
		t.Fatal("the cache did not start")
	}
	t.Cleanup(func() {
		stop()
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	})
	for _, kind := range []client.Object{&corev1.Pod{}, &appsv1.Deployment{}} {
		if _, err := c.GetInformer(ctx, kind); err != nil { // It waits until the cache is filled.
			t.Fatal(err)
		}
	}
	d := scene(2, 2).deployment.DeepCopy()
	starting := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "starting"}}
	for _, o := range []client.Object{readyPodOf("ready"), starting, d} {
		o.SetNamespace(d.Namespace)
		if err := informers[typeOf(o)].GetIndexer().Add(transformed(t, o, 1)); err != nil {
			t.Fatal(err)
		}
	}
	var got appsv1.Deployment
	if err := c.Get(ctx, client.ObjectKeyFromObject(d), &got); err != nil || got.Spec.Replicas == nil || *got.Spec.Replicas != *d.Spec.Replicas || !trimmed(&got) {
		t.Errorf("read %+v, error %v", got.Status, err)
	}
	var pods corev1.PodList
	if err := c.List(ctx, &pods, client.InNamespace(d.Namespace)); err != nil || len(pods.Items) != 2 {
		t.Errorf("%d pods, error %v", len(pods.Items), err)
	}
	for name, err := range map[string]error{
		"Get":  c.Get(ctx, client.ObjectKeyFromObject(d), &got, client.UnsafeDisableDeepCopy),
		"List": c.List(ctx, &pods, client.InNamespace(d.Namespace), client.UnsafeDisableDeepCopy),
	} {
		if err == nil {
			t.Errorf("%s without deep copies succeeds", name)
		}
	}
}

// TestEventsOfPackedObjects checks the predicate for pods, the owners of Deployments, and the indexes with packed objects.
func TestEventsOfPackedObjects(t *testing.T) {
	t.Parallel()
	ready, starting := transformed(t, readyPodOf("shop-1"), 1), transformed(t, &corev1.Pod{}, 1)
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
	checked := 0
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
		checked++
	}
	if checked != 2 {
		t.Errorf("%d indexes were checked, want 2", checked)
	}
}
