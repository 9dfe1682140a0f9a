package index

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// fake is a manager whose cache rejects an index that it has, as the cache of controller-runtime does.
type fake struct {
	manager.Manager
	added []string
	fails bool
}

func (f *fake) GetFieldIndexer() client.FieldIndexer { return f }

func (f *fake) IndexField(_ context.Context, obj client.Object, field string, _ client.IndexerFunc) error {
	if f.fails {
		return errors.New("no connection")
	}
	name := strings.TrimSpace(obj.GetObjectKind().GroupVersionKind().Kind + " " + field)
	for _, known := range f.added {
		if known == name {
			return errors.New("indexer conflict")
		}
	}
	f.added = append(f.added, name)
	return nil
}

func TestAddOnce(t *testing.T) {
	t.Parallel()
	f := &fake{}
	mgr := Once(f)
	for range 2 {
		if err := Add(t.Context(), mgr, MicroservicesByImagePolicy, NetworkPoliciesByMicroservice); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"microservice.imagePolicyRef", "networkpolicy.microservice"}
	if diff := cmp.Diff(want, f.added); diff != "" {
		t.Error(diff)
	}
	if err := Add(t.Context(), f, MicroservicesByImagePolicy); err == nil {
		t.Error("an index was added twice to a manager that is not shared")
	}
}

// TestIndexerIsNotAffected checks that an index can be added again with the indexer, as after the removal of an informer.
func TestIndexerIsNotAffected(t *testing.T) {
	t.Parallel()
	f := &fake{}
	mgr := Once(f)
	for range 2 {
		if err := mgr.GetFieldIndexer().IndexField(t.Context(), &corev1.Service{}, "networkpolicy.policy", nil); err != nil {
			t.Fatal(err)
		}
		if len(f.added) != 1 {
			t.Fatal("the index was not added")
		}
		f.added = nil // The informer and its index are removed.
	}
}

func TestAddAgainAfterAnError(t *testing.T) {
	t.Parallel()
	f := &fake{fails: true}
	mgr := Once(f)
	x := Index{&corev1.Pod{}, "release", nil}
	if err := Add(t.Context(), mgr, x); err == nil || err.Error() != "add index release of *v1.Pod: no connection" {
		t.Errorf("error %v", err)
	}
	f.fails = false
	if err := Add(t.Context(), mgr, x); err != nil || len(f.added) != 1 {
		t.Errorf("error %v, added %v", err, f.added)
	}
}

func TestValues(t *testing.T) {
	t.Parallel()
	ms := &v1alpha1.Microservice{Spec: v1alpha1.MicroserviceSpec{ImagePolicyRef: v1alpha1.Reference{Name: "images"}}}
	np := &v1alpha1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "shop"}, Spec: v1alpha1.NetworkPolicySpec{MicroserviceRef: &v1alpha1.Reference{Name: "other"}}}
	for _, test := range []struct {
		name  string
		index Index
		obj   client.Object
		want  []string
	}{
		{"ImagePolicy of a Microservice", MicroservicesByImagePolicy, ms, []string{"images"}},
		{"Microservice of a NetworkPolicy", NetworkPoliciesByMicroservice, np, []string{"other"}},
		{"no repository", ImagePoliciesByRepository, &v1alpha1.ImagePolicy{}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, test.index.Values(test.obj)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
