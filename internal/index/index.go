// Package index contains the cache indexes that several controllers read. With Once, the cache of a manager contains each index only once.
package index

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
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
	// AllNamespaces is true for an index that is read without a namespace. Such an index finds nothing with client.InNamespace. Other indexes contain
	// each object only under its namespace, and find nothing without client.InNamespace.
	AllNamespaces bool
}

var (
	// MicroservicesByImagePolicy finds Microservices by the name of their ImagePolicy.
	MicroservicesByImagePolicy = Index{Object: &v1alpha1.Microservice{}, Field: "microservice.imagePolicyRef", Values: func(o client.Object) []string {
		return []string{o.(*v1alpha1.Microservice).Spec.ImagePolicyRef.Name}
	}}
	// NetworkPoliciesByMicroservice finds NetworkPolicies by the name of their Microservice.
	NetworkPoliciesByMicroservice = Index{Object: &v1alpha1.NetworkPolicy{}, Field: "networkpolicy.microservice", Values: func(o client.Object) []string {
		return []string{o.(*v1alpha1.NetworkPolicy).MicroserviceName()}
	}}
	// ImagePoliciesByRepository finds ImagePolicies by the "namespace/name" of their GitHubRepository.
	ImagePoliciesByRepository = Index{AllNamespaces: true, Object: &v1alpha1.ImagePolicy{}, Field: "imagepolicy.repositoryRef", Values: func(o client.Object) []string {
		key, ok := o.(*v1alpha1.ImagePolicy).GitHubRepositoryKey()
		if !ok {
			return nil
		}
		return []string{key.String()}
	}}
	// ServicesByPolicy finds the Services of a NetworkPolicy by the name of the NetworkPolicy.
	ServicesByPolicy = ByPolicy(&corev1.Service{})
)

// FieldPolicy is the name of the indexes that ByPolicy returns.
const FieldPolicy = "networkpolicy.policy"

// ByPolicy returns the index that finds objects of a kind by the NetworkPolicy name in their hlnr.io/policy label.
func ByPolicy(kind client.Object) Index {
	return Index{Object: kind, Field: FieldPolicy, Values: func(o client.Object) []string {
		if name := o.GetLabels()[v1alpha1.LabelPolicy]; name != "" {
			return []string{name}
		}
		return nil
	}}
}

// Add adds indexes to the cache of a manager. It fails if an index already exists, unless the manager was returned by Once.
func Add(ctx context.Context, mgr manager.Manager, indexes ...Index) error {
	shared, _ := mgr.(*once)
	for _, x := range indexes {
		if shared.has(x) {
			continue
		}
		if err := AddAgain(ctx, mgr.GetCache(), x); err != nil {
			return err
		}
		shared.note(x)
	}
	return nil
}

// AddAgain adds an index to a cache, even if the index was already added to an informer that has since been removed.
func AddAgain(ctx context.Context, c cache.Cache, x Index) error {
	err := func() error {
		informer, err := c.GetInformer(ctx, x.Object, cache.BlockUntilSynced(false))
		if err != nil {
			return err
		}
		return informer.AddIndexers(toolscache.Indexers{"field:" + x.Field: x.keys})
	}()
	if err != nil {
		return fmt.Errorf("add index %s of %T: %w", x.Field, x.Object, err)
	}
	return nil
}

// allNamespaces is what a controller-runtime cache uses instead of a namespace in the keys of indexes that it reads without a namespace.
const allNamespaces = "__all_namespaces"

// keys returns the keys with which a controller-runtime cache finds an object by value. IndexField adds two keys for each value, one with the namespace
// and one for all namespaces. This function adds only one of them, because each key uses about 0.3 KB of memory, and no index is read in both ways.
func (x Index) keys(o any) ([]string, error) {
	object, ok := o.(client.Object)
	if !ok {
		return nil, fmt.Errorf("objects of type %T cannot be indexed", o)
	}
	namespace := object.GetNamespace()
	if x.AllNamespaces {
		namespace = allNamespaces
	}
	var keys []string
	for _, value := range x.Values(object) {
		keys = append(keys, namespace+"/"+value)
	}
	return keys, nil
}

// Once returns a manager to which Add adds each index only once. The informers of the indexed objects must not be removed from the cache, because Add
// would not add the indexes again. For informers that are removed, use AddAgain, which adds the index each time.
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
