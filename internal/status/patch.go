package status

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Option changes how Patch writes.
type Option int

// AtResourceVersion makes the resourceVersion of the object that was read a
// precondition: when anybody has written since, the server answers a conflict and
// nothing is written.
const AtResourceVersion Option = iota

// Patch writes the status of obj, in which before is obj as it was read. It is the
// one status write of a reconcile. It makes no call when nothing differs, and says
// whether it wrote. Only the status may differ: everything else in obj is ignored
// by the server. owner is the field manager.
//
// After a write obj is the server's answer.
func Patch(ctx context.Context, c client.Client, owner string, obj, before client.Object, options ...Option) (bool, error) {
	data, err := difference(obj, before, slices.Contains(options, AtResourceVersion))
	if err != nil {
		return false, fmt.Errorf("compare status of %q: %w", obj.GetName(), err)
	}
	if data == nil {
		return false, nil
	}
	if err := c.Status().Patch(ctx, obj, client.RawPatch(types.MergePatchType, data), client.FieldOwner(owner)); err != nil {
		return false, fmt.Errorf("write status of %q: %w", obj.GetName(), err)
	}
	return true, nil
}
