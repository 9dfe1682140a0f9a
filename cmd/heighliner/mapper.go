package main

import (
	"net/http"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// knownMapper is a RESTMapper that remembers the mappings of Kubernetes and Heighliner kinds. The mapper of controller-runtime
// searches all API groups on each call, and controllers look up the kind of the owner for each event. The mappings of other
// kinds, such as HTTPRoute, are not remembered, because an administrator can replace or remove the versions of these kinds while the
// manager is running. Errors are not remembered either.
type knownMapper struct {
	meta.RESTMapper
	remembered *runtime.Scheme // the kinds whose mappings are remembered
	mappings   sync.Map        // *meta.RESTMapping by schema.GroupVersionKind
}

// newMapper returns the RESTMapper of the manager.
func newMapper(config *rest.Config, c *http.Client) (meta.RESTMapper, error) {
	mapper, err := apiutil.NewDynamicRESTMapper(config, c)
	if err != nil {
		return nil, err
	}
	return newKnownMapper(mapper)
}

func newKnownMapper(mapper meta.RESTMapper) (*knownMapper, error) {
	m := &knownMapper{RESTMapper: mapper, remembered: runtime.NewScheme()}
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(m.remembered); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// RESTMapping implements meta.RESTMapper. Callers must not change the result.
func (m *knownMapper) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	if len(versions) != 1 || !m.remembered.Recognizes(kind.WithVersion(versions[0])) {
		return m.RESTMapper.RESTMapping(kind, versions...)
	}
	if known, ok := m.mappings.Load(kind.WithVersion(versions[0])); ok {
		return known.(*meta.RESTMapping), nil
	}
	mapping, err := m.RESTMapper.RESTMapping(kind, versions...)
	if err != nil {
		return nil, err
	}
	m.mappings.Store(kind.WithVersion(versions[0]), mapping)
	return mapping, nil
}
