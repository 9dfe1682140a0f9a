package main

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// countedMapper counts the calls of RESTMapping.
type countedMapper struct {
	*meta.DefaultRESTMapper
	calls int
}

func (m *countedMapper) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	m.calls++
	return m.DefaultRESTMapper.RESTMapping(kind, versions...)
}

func TestMapperRemembersMappings(t *testing.T) {
	counted := &countedMapper{DefaultRESTMapper: meta.NewDefaultRESTMapper([]schema.GroupVersion{v1alpha1.GroupVersion})}
	m, err := newKnownMapper(counted)
	if err != nil {
		t.Fatal(err)
	}
	kind := schema.GroupVersionKind{Group: "hlnr.io", Version: "v1alpha1", Kind: "Microservice"}

	// A kind that is not installed yet is looked up again.
	for range 2 {
		if _, err := m.RESTMapping(kind.GroupKind(), kind.Version); !meta.IsNoMatchError(err) {
			t.Fatalf("the error for a missing kind is %v", err)
		}
	}
	counted.Add(kind, meta.RESTScopeNamespace)
	for range 3 {
		found, err := m.RESTMapping(kind.GroupKind(), kind.Version)
		if err != nil || found.Resource.Resource != "microservices" || found.Scope.Name() != meta.RESTScopeNameNamespace {
			t.Fatalf("got %+v, %v", found, err)
		}
	}
	if counted.calls != 3 {
		t.Errorf("the mapper was called %d times, want 3: twice without a result, and once with a result", counted.calls)
	}
	// Kinds of other projects are looked up each time.
	counted.calls = 0
	route := schema.GroupVersionKind{Group: "gateway.networking.k8s.io", Version: "v1", Kind: "HTTPRoute"}
	counted.Add(route, meta.RESTScopeNamespace)
	for range 2 {
		if _, err := m.RESTMapping(route.GroupKind(), route.Version); err != nil {
			t.Fatal(err)
		}
	}
	if counted.calls != 2 {
		t.Errorf("the kind of another project was looked up %d times, want 2", counted.calls)
	}
	// Another version of the same kind is another mapping, and calls without a version use the preferred version.
	if _, err := m.RESTMapping(kind.GroupKind(), "v2"); !meta.IsNoMatchError(err) {
		t.Errorf("the error for a missing version is %v", err)
	}
	if found, err := m.RESTMapping(kind.GroupKind()); err != nil || found.GroupVersionKind != kind {
		t.Errorf("without a version: got %+v, %v", found, err)
	}
}
