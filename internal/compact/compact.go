// Package compact reduces the memory that objects use in a cache. The functions of this package are cache transforms: they run for each object that a
// watch reports, before any reader gets the object. For the objects that exist when a watch starts, the transforms run twice.
//
//	compact.go  the transforms
//	share.go    the sharing of memory by equal strings and equal parts of objects
//	hash.go     the hash by which equal parts are found
//	table.go    the table of recently used values
package compact

import (
	"reflect"

	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Transform compacts an object: it drops the managed fields, and lets the object share memory with other objects that have equal strings in their
// metadata or status, equal labels or owner references, or equal parts in their specs, such as a probe or the environment of a container. Like
// everything in a cache, a compacted object must not be changed. Values that are not objects, such as DeletedFinalStateUnknown, are returned
// unchanged.
//
// The names of a Microservice and of a release occur in the metadata of about thirty objects of each service. The pod template of a Microservice
// occurs in each release of the Microservice.
func Transform(obj any) (any, error) {
	o, ok := obj.(client.Object)
	if !ok {
		return obj, nil
	}
	o.SetManagedFields(nil)
	parts := sharer{left: maxAdded}
	parts.shareMetadata(o)
	fields := reflect.ValueOf(o).Elem()
	if spec := fields.FieldByName("Spec"); spec.IsValid() {
		parts.share(spec)
	}
	// The status of most pods in the cache consists of parts that already share memory. In the status of other objects, only strings share memory,
	// because most other parts occur only once, and the trim functions change them.
	if _, isPod := obj.(*corev1.Pod); isPod {
		return o, nil
	}
	if status := fields.FieldByName("Status"); status.IsValid() {
		parts.stringsOnly = true
		parts.share(status)
	}
	return o, nil
}

// Trimmed returns a transform that trims objects of type T, and then compacts them. trim may change its argument, but not the values to which the
// spec, the labels and the owner references of the argument refer, because other objects may refer to the same values. trim must have no effect on an
// object that is already trimmed.
func Trimmed[T client.Object](trim func(T)) toolscache.TransformFunc {
	return func(obj any) (any, error) {
		if o, ok := obj.(T); ok {
			trim(o)
		}
		return Transform(obj)
	}
}

// Packed returns a transform that does what Trimmed does, and then packs objects of type T. pack returns an object that represents its argument and needs
// less memory, or it returns its argument unchanged. The cache contains the returned object, whose deep copy must have type T.
func Packed[T client.Object](trim func(T), pack func(T) client.Object) toolscache.TransformFunc {
	trimmed := Trimmed(trim)
	return func(obj any) (any, error) {
		obj, err := trimmed(obj)
		if o, ok := obj.(T); ok && err == nil {
			return pack(o), nil
		}
		return obj, err
	}
}

// shareMetadata shares the memory of the parts of an object's metadata that are likely to occur in other objects.
func (s *sharer) shareMetadata(o client.Object) {
	o.SetNamespace(s.text(o.GetNamespace()))
	labels := o.GetLabels()
	s.share(reflect.ValueOf(&labels).Elem())
	o.SetLabels(labels)
	for _, value := range labels {
		if value == o.GetName() {
			o.SetName(value)
		}
	}
	o.SetAnnotations(s.sharedKeys(o.GetAnnotations()))
	owners := o.GetOwnerReferences()
	s.share(reflect.ValueOf(&owners).Elem())
	o.SetOwnerReferences(owners)
}

// sharedKeys returns a copy of annotations whose keys share memory with equal strings. The values are not shared, because most values, such as hashes
// and times, occur only once. sharedKeys does not change the map itself, because an assignment to an existing key would keep the previous string of
// the key.
func (s *sharer) sharedKeys(annotations map[string]string) map[string]string {
	if len(annotations) == 0 {
		return annotations
	}
	out := make(map[string]string, len(annotations))
	for k, v := range annotations {
		out[s.text(k)] = v
	}
	return out
}
