package microservice

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// TestResizeWaitsForTheCache checks that a release that was read before its last resize is not written again. The
// resize fails with a conflict, as if the API server had rejected the write, so the plan is dropped. A resize of
// the current release is written.
func TestResizeWaitsForTheCache(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	first := &v1alpha1.VersionedMicroservice{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "shop-1", UID: "1"}}
	first.Spec.Replicas = 2
	writes := 0
	r := &Reconciler{
		clock: testingclock.NewFakePassiveClock(time.Now()),
		Client: interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme).WithObjects(first).Build(), interceptor.Funcs{
			Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
				writes++
				return c.Patch(ctx, obj, patch, opts...)
			},
		}),
	}
	read := func() *v1alpha1.VersionedMicroservice {
		t.Helper()
		var now v1alpha1.VersionedMicroservice
		if err := r.Get(t.Context(), client.ObjectKeyFromObject(first), &now); err != nil {
			t.Fatal(err)
		}
		return &now
	}
	resize := func(object *v1alpha1.VersionedMicroservice, replicas int) error {
		w := &pass{}
		w.ms, w.objects = &v1alpha1.Microservice{}, map[string]*v1alpha1.VersionedMicroservice{"shop-1": object}
		return r.resize(t.Context(), w, "shop-1", replicas, 0)
	}
	cached := read()
	if err := resize(cached, 1); err != nil || writes != 1 {
		t.Fatalf("first resize: %d writes, %v", writes, err)
	}
	if err := resize(cached, 1); !outdated(err) || writes != 1 {
		t.Errorf("the same resize of the outdated release: %d writes, %v", writes, err)
	}
	if err := resize(cached, 3); !outdated(err) || writes != 1 {
		t.Errorf("another resize of the outdated release: %d writes, %v", writes, err)
	}
	if err := resize(read(), 3); err != nil || writes != 2 {
		t.Errorf("resize of the current release: %d writes, %v", writes, err)
	}
	if got := read().Spec.Replicas; got != 3 {
		t.Errorf("%d replicas, want 3", got)
	}
}
