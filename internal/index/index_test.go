package index

import (
	"context"
	"errors"
	"net/http"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	cachetest "k8s.io/client-go/tools/cache/testing"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// fake is a manager with a controller-runtime cache whose informers do not read from an API server. If fails is true, the cache
// returns no informers.
type fake struct {
	manager.Manager
	*informers
}

func (f fake) GetCache() cache.Cache { return f.informers }

type informers struct {
	cache.Cache
	ofType map[reflect.Type]toolscache.SharedIndexInformer
	fails  bool
}

func (f *informers) GetInformer(ctx context.Context, o client.Object, opts ...cache.InformerGetOption) (cache.Informer, error) {
	if f.fails {
		return nil, errors.New("no connection")
	}
	return f.Cache.GetInformer(ctx, o, opts...)
}

func newFake(t *testing.T) fake {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	for gvk := range scheme.AllKnownTypes() {
		mapper.Add(gvk, meta.RESTScopeNamespace)
	}
	f := fake{informers: &informers{ofType: map[reflect.Type]toolscache.SharedIndexInformer{}}}
	var err error
	f.Cache, err = cache.New(&rest.Config{Host: "https://127.0.0.1:1"}, cache.Options{
		Scheme: scheme, Mapper: mapper, HTTPClient: &http.Client{},
		NewInformer: func(_ toolscache.ListerWatcher, o runtime.Object, d time.Duration, i toolscache.Indexers) toolscache.SharedIndexInformer {
			f.ofType[reflect.TypeOf(o)] = toolscache.NewSharedIndexInformer(cachetest.NewFakeControllerSource(), o, d, i)
			return f.ofType[reflect.TypeOf(o)]
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// start fills the cache with objects.
func (f *informers) start(t *testing.T, objects ...client.Object) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	stopped := make(chan error)
	go func() { stopped <- f.Cache.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	})
	if !f.WaitForCacheSync(ctx) {
		t.Fatal("the cache is not filled")
	}
	for _, o := range objects {
		if err := f.ofType[reflect.TypeOf(o)].GetIndexer().Add(o); err != nil {
			t.Fatal(err)
		}
	}
}

// TestLists checks that the cache finds objects by namespace and value, and with AllNamespaces only by value.
func TestLists(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	label := func(o client.Object) []string { return []string{o.GetLabels()["a"], "all"} }
	for _, x := range []Index{{Object: &corev1.Pod{}, Field: "release", Values: label}, {Object: &corev1.Pod{}, Field: "host", Values: label, AllNamespaces: true}} {
		if err := Add(t.Context(), f, x); err != nil {
			t.Fatal(err)
		}
	}
	pod := func(namespace, name, value string) client.Object {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"a": value}}}
	}
	f.start(t, pod("one", "a", "x"), pod("one", "b", "y"), pod("one", "c", "x"), pod("two", "d", "x"))
	for _, test := range []struct {
		name string
		by   []client.ListOption
		want []string
	}{
		{"a value in a namespace", []client.ListOption{client.InNamespace("one"), client.MatchingFields{"release": "x"}}, []string{"a", "c"}},
		{"a value of each object", []client.ListOption{client.InNamespace("two"), client.MatchingFields{"release": "all"}}, []string{"d"}},
		{"a value that no object has", []client.ListOption{client.InNamespace("one"), client.MatchingFields{"release": "z"}}, nil},
		{"an index of all namespaces, read for one namespace", []client.ListOption{client.InNamespace("two"), client.MatchingFields{"host": "x"}}, nil},
		{"an index of all namespaces", []client.ListOption{client.MatchingFields{"host": "x"}}, []string{"a", "c", "d"}},
	} {
		var list corev1.PodList
		if err := f.List(t.Context(), &list, test.by...); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, p := range list.Items {
			got = append(got, p.Name)
		}
		slices.Sort(got)
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s: %s", test.name, diff)
		}
	}
	for field, want := range map[string][]string{
		"release": {"one/all", "one/x", "one/y", "two/all", "two/x"},
		"host":    {"__all_namespaces/all", "__all_namespaces/x", "__all_namespaces/y"},
	} {
		values := f.ofType[reflect.TypeOf(&corev1.Pod{})].GetIndexer().ListIndexFuncValues("field:" + field)
		slices.Sort(values)
		if diff := cmp.Diff(want, values); diff != "" {
			t.Errorf("the index %s contains other values: %s", field, diff)
		}
	}
}

func TestAddOnce(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	mgr := Once(f)
	for range 2 {
		if err := Add(t.Context(), mgr, MicroservicesByImagePolicy, NetworkPoliciesByMicroservice); err != nil {
			t.Fatal(err)
		}
	}
	if err := Add(t.Context(), f, MicroservicesByImagePolicy); err == nil {
		t.Error("an index was added twice to a manager that is not shared")
	}
}

// TestAddAgain checks that an index can be added again after the removal of an informer.
func TestAddAgain(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	mgr := Once(f)
	for range 2 {
		if err := AddAgain(t.Context(), mgr.GetCache(), Index{Object: &corev1.Service{}, Field: "policy"}); err != nil {
			t.Fatal(err)
		}
		if err := f.RemoveInformer(t.Context(), &corev1.Service{}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAddAfterAnError(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.fails = true
	mgr := Once(f)
	x := Index{Object: &corev1.Pod{}, Field: "release"}
	if err := Add(t.Context(), mgr, x); err == nil || err.Error() != "add index release of *v1.Pod: no connection" {
		t.Errorf("error %v", err)
	}
	f.fails = false
	if err := Add(t.Context(), mgr, x); err != nil || len(f.ofType) != 1 {
		t.Errorf("error %v, informers %v", err, f.ofType)
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
