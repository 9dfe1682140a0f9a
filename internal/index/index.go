// Package index contains the indexes of the cache that several controllers read. With Once, the cache of a manager contains each of them only once.
package index

import (
	"context"
	"fmt"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// Index is an index of the cache.
type Index struct {
	// Object has the type of the indexed objects.
	Object client.Object
	// Field is the name of the index, for client.MatchingFields.
	Field string
	// Values returns the values by which an object is found.
	Values client.IndexerFunc
}

var (
	// MicroservicesByImagePolicy finds Microservices by the name of their ImagePolicy.
	MicroservicesByImagePolicy = Index{&v1alpha1.Microservice{}, "microservice.imagePolicyRef", func(o client.Object) []string {
		return []string{o.(*v1alpha1.Microservice).Spec.ImagePolicyRef.Name}
	}}
	// NetworkPoliciesByMicroservice finds NetworkPolicies by the name of their Microservice.
	NetworkPoliciesByMicroservice = Index{&v1alpha1.NetworkPolicy{}, "networkpolicy.microservice", func(o client.Object) []string {
		return []string{o.(*v1alpha1.NetworkPolicy).MicroserviceName()}
	}}
	// ImagePoliciesByRepository finds ImagePolicies by the "namespace/name" of their GitHubRepository.
	ImagePoliciesByRepository = Index{&v1alpha1.ImagePolicy{}, "imagepolicy.repositoryRef", func(o client.Object) []string {
		key, ok := o.(*v1alpha1.ImagePolicy).GitHubRepositoryKey()
		if !ok {
			return nil
		}
		return []string{key.String()}
	}}
)

// Add adds indexes to the cache of a manager. It fails if an index exists, unless Once returned the manager, and if the cache has started.
func Add(ctx context.Context, mgr manager.Manager, indexes ...Index) error {
	shared, _ := mgr.(*once)
	for _, x := range indexes {
		if shared.has(x) {
			continue
		}
		if err := mgr.GetFieldIndexer().IndexField(ctx, x.Object, x.Field, x.Values); err != nil {
			return fmt.Errorf("add index %s of %T: %w", x.Field, x.Object, err)
		}
		shared.note(x)
	}
	return nil
}

// Once returns a manager to which Add adds each index only once. The informers of the indexed objects must not be removed from the cache, because
// the indexes would not be added again. Other indexes are added with GetFieldIndexer, which is not affected.
func Once(mgr manager.Manager) manager.Manager {
	return &once{Manager: mgr, added: map[string]bool{}}
}

type once struct {
	manager.Manager

	mu    sync.Mutex
	added map[string]bool
}

func (x Index) name() string { return fmt.Sprintf("%T %s", x.Object, x.Field) }

// has reports whether an index was added. It returns false for a nil manager.
func (m *once) has(x Index) bool {
	if m == nil {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.added[x.name()]
}

// note records that an index was added. It does nothing for a nil manager.
func (m *once) note(x Index) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.added[x.name()] = true
}
