// Package compact reduces the memory that objects use in a cache. Its functions are transforms of the cache: they run
// once for each object that a watch reports, before any reader gets the object.
package compact

import (
	"unique"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Transform compacts an object: it drops the managed fields, and shares equal strings of the metadata with other objects.
// It returns values that are not objects, such as those that the cache uses for deleted objects, as they are.
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
	labels := sharedStrings(o.GetLabels(), shared)
	o.SetLabels(labels)
	for _, value := range labels {
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

func shareOwner(owner *metav1.OwnerReference) {
	owner.APIVersion, owner.Kind, owner.Name = shared(owner.APIVersion), shared(owner.Kind), shared(owner.Name)
	owner.UID = unique.Make(owner.UID).Value()
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

// shared returns a string with the same content, whose memory all equal strings share while one of them is in use.
func shared(s string) string {
	if s == "" {
		return ""
	}
	return unique.Make(s).Value()
}
