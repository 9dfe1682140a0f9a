// Package compact reduces the memory that objects use in a cache. Its functions are transforms of the cache: they run
// for each object that a watch reports, before any reader gets the object. For the objects that exist when a watch starts, they
// run twice.
//
//	compact.go  the transforms
//	table.go    strings and maps that share memory
package compact

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// metadata contains strings of the metadata of objects, and labels contains their labels. All caches of a process share them.
var (
	metadata table
	labels   maps
)

// shared returns a string with the same content that shares memory with equal strings.
func shared(s string) string { return metadata.shared(s) }

// Transform compacts an object: it drops the managed fields, and shares equal strings of the metadata, and equal labels, with other objects.
// Like all content of a cache, the labels must not be changed. Transform returns values that are not objects, such as those that the cache uses
// for deleted objects, as they are.
//
// The names of a Microservice and of a release occur in the metadata of about thirty objects of each service.
func Transform(obj any) (any, error) {
	o, ok := obj.(client.Object)
	if !ok {
		return obj, nil
	}
	o.SetManagedFields(nil)
	shareMetadata(o)
	return o, nil
}

// Trimmed returns a transform that trims objects of type T, and then compacts them. trim may change its argument. It
// must have no effect on an object that is already trimmed.
func Trimmed[T client.Object](trim func(T)) toolscache.TransformFunc {
	return func(obj any) (any, error) {
		if o, ok := obj.(T); ok {
			trim(o)
		}
		return Transform(obj)
	}
}

// shareMetadata replaces those strings of an object's metadata that are likely to occur in other objects.
func shareMetadata(o client.Object) {
	o.SetNamespace(shared(o.GetNamespace()))
	own := labels.shared(sharedStrings(o.GetLabels(), shared))
	o.SetLabels(own)
	for _, value := range own {
		if value == o.GetName() {
			o.SetName(value)
		}
	}
	// Most values of annotations, such as hashes and times, occur only once.
	o.SetAnnotations(sharedStrings(o.GetAnnotations(), func(value string) string { return value }))
	owners := o.GetOwnerReferences()
	for i := range owners {
		shareOwner(&owners[i])
	}
	o.SetOwnerReferences(owners)
}

// isTrue and isFalse are the values of the pointers in all owner references.
var isTrue, isFalse = true, false

func sharedBool(b *bool) *bool {
	switch {
	case b == nil:
		return nil
	case *b:
		return &isTrue
	}
	return &isFalse
}

func shareOwner(owner *metav1.OwnerReference) {
	owner.Controller, owner.BlockOwnerDeletion = sharedBool(owner.Controller), sharedBool(owner.BlockOwnerDeletion)
	owner.APIVersion, owner.Kind, owner.Name = shared(owner.APIVersion), shared(owner.Kind), shared(owner.Name)
	owner.UID = types.UID(shared(string(owner.UID)))
}

// sharedStrings returns a copy of a map with shared keys. It does not change the map, because an assignment to a key that
// exists would keep the previous string.
func sharedStrings(m map[string]string, value func(string) string) map[string]string {
	if len(m) == 0 {
		return m
	}
	out := make(map[string]string, len(m))
	for k, v := range m {
		out[shared(k)] = value(v)
	}
	return out
}
