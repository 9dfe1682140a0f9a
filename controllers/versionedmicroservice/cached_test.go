package versionedmicroservice

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/heighliner/heighliner/internal/apply"
)

// TestTrimmedTemplate checks that a Deployment has the hash of its template before it is trimmed and after it is trimmed
// once or twice: the cache trims the objects that exist at its start twice.
func TestTrimmedTemplate(t *testing.T) {
	t.Parallel()
	d := scene(2, 2).deployment
	want, err := apply.Hash(d.Spec.Template)
	if err != nil {
		t.Fatal(err)
	}
	for times := range 3 {
		if got, err := templateHash(d); got != want || err != nil {
			t.Errorf("after %d trims, the hash is %q, %v; want %q", times, got, err, want)
		}
		trimDeployment(d)
	}
	if len(d.Spec.Template.Spec.Containers) > 0 {
		t.Error("the template still has containers")
	}
}

// TestUntrimmed checks that the template of a trimmed Deployment is read from the API server, and that a Deployment that was changed
// or deleted in the meantime is a conflict.
func TestUntrimmed(t *testing.T) {
	t.Parallel()
	complete := scene(2, 2).deployment
	for name, test := range map[string]struct {
		edit     func(live *appsv1.Deployment)
		conflict bool
	}{
		"unchanged": {func(*appsv1.Deployment) {}, false},
		"changed":   {func(live *appsv1.Deployment) { live.ResourceVersion = "8" }, true},
		"deleted":   {func(live *appsv1.Deployment) { live.Name = "another" }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			live := complete.DeepCopy()
			live.ResourceVersion = "7"
			cached := live.DeepCopy()
			trimDeployment(cached)
			test.edit(live)
			r := &reconciler{live: fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(live).Build()}
			got, err := r.untrimmed(t.Context(), cached)
			if apierrors.IsConflict(err) != test.conflict || err == nil == test.conflict {
				t.Fatalf("error %v, want a conflict: %t", err, test.conflict)
			}
			if err == nil {
				if diff := cmp.Diff(live.Spec.Template, got.Spec.Template); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			}
		})
	}
	// A complete Deployment is not read.
	if got, err := (&reconciler{live: client.Reader(nil)}).untrimmed(t.Context(), complete); got != complete || err != nil {
		t.Errorf("%v, error %v", got, err)
	}
}

// newFake returns the builder of a client that has the indexes of the cache.
func newFake(scheme *runtime.Scheme) *fake.ClientBuilder {
	b := fake.NewClientBuilder().WithScheme(scheme)
	for _, o := range indexed() {
		b = b.WithIndex(o, indexRelease, releaseOf)
	}
	return b
}
