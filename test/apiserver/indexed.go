package apiserver

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// Index is an index of a controller's cache.
type Index struct {
	// Field is the name of the index.
	Field string
	// Values returns the values of the index for an object.
	Values client.IndexerFunc
}

// Indexed returns a client that lists by an index without a cache, so that tests that call Reconcile directly always
// read the last write. The server filters by namespace and labels, and this client filters by the index.
func Indexed(c client.WithWatch, indexes ...Index) client.WithWatch {
	return interceptor.NewClient(c, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			var o client.ListOptions
			o.ApplyOptions(opts)
			if o.FieldSelector == nil || o.FieldSelector.Empty() {
				return c.List(ctx, list, opts...)
			}
			wanted := o.FieldSelector.Requirements()[0]
			i := slices.IndexFunc(indexes, func(x Index) bool { return x.Field == wanted.Field })
			if i < 0 {
				return c.List(ctx, list, &o) // The server evaluates this field selector, and rejects unknown selectors.
			}
			o.FieldSelector = nil
			if err := c.List(ctx, list, &o); err != nil {
				return err
			}
			items, err := meta.ExtractList(list)
			if err != nil {
				return err
			}
			items = slices.DeleteFunc(items, func(item runtime.Object) bool {
				object, ok := item.(client.Object)
				return !ok || !slices.Contains(indexes[i].Values(object), wanted.Value)
			})
			return meta.SetList(list, items)
		},
	})
}
