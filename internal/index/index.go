// Package index contains the indexes of the cache that several controllers read. With Once, the cache contains each of them only once.
package index

import (
	"context"
	"fmt"
	"reflect"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
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
	for _, x := range indexes {
		if err := mgr.GetFieldIndexer().IndexField(ctx, x.Object, x.Field, x.Values); err != nil {
			return fmt.Errorf("add index %s of %T: %w", x.Field, x.Object, err)
		}
	}
	return nil
}

// Once returns a manager that adds each index only once. An index with the name of an existing index of the same kind must have the same values.
func Once(mgr manager.Manager) manager.Manager {
	return &once{Manager: mgr, indexer: &indexer{indexer: mgr.GetFieldIndexer(), added: map[key]bool{}}}
}

type once struct {
	manager.Manager
	indexer *indexer
}

func (m *once) GetFieldIndexer() client.FieldIndexer { return m.indexer }

// key identifies an index. kind is empty for objects with a Go type.
type key struct {
	object reflect.Type
	kind   schema.GroupVersionKind
	field  string
}

type indexer struct {
	indexer client.FieldIndexer

	mu    sync.Mutex
	added map[key]bool
}

// IndexField implements client.FieldIndexer. An index whose addition failed can be added again.
func (i *indexer) IndexField(ctx context.Context, obj client.Object, field string, values client.IndexerFunc) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	k := key{reflect.TypeOf(obj), obj.GetObjectKind().GroupVersionKind(), field}
	if i.added[k] {
		return nil
	}
	if err := i.indexer.IndexField(ctx, obj, field, values); err != nil {
		return err
	}
	i.added[k] = true
	return nil
}
