package explain

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/manifest"
)

const kindImagePolicy = "ImagePolicy"

// readPolicy reads the only ImagePolicy in a stream of YAML or JSON documents, or the ImagePolicy with the given name.
// It ignores other kinds. It validates the policy and sets defaults as an API server does. Validation errors name the field.
func readPolicy(ctx context.Context, stream []byte, name string) (*v1alpha1.ImagePolicy, error) {
	objects, err := manifest.Read(stream)
	if err != nil {
		return nil, err
	}
	var found []manifest.Object
	var names []string
	for _, object := range objects {
		if object.Kind() != kindImagePolicy || object.APIVersion() != v1alpha1.GroupVersion.String() {
			continue
		}
		if named := object.Name(); name == "" || named == name {
			found, names = append(found, object), append(names, named)
		}
	}
	switch {
	case len(found) == 0 && name != "":
		return nil, fmt.Errorf("no %s with apiVersion %s and name %q found: correct --name, or omit it", kindImagePolicy, v1alpha1.GroupVersion, name)
	case len(found) == 0:
		return nil, fmt.Errorf("no %s with apiVersion %s found: set kind and apiVersion", kindImagePolicy, v1alpha1.GroupVersion)
	case len(found) > 1:
		return nil, fmt.Errorf("found %d objects of kind %s: select one with --name (%s)", len(found), kindImagePolicy, strings.Join(names, ", "))
	}
	typed, faults, err := manifest.Check(ctx, found[0])
	if err != nil {
		return nil, err
	}
	if len(faults) > 0 {
		return nil, errors.New(strings.Join(faults, "\n  "))
	}
	policy, ok := typed.(*v1alpha1.ImagePolicy)
	if !ok {
		return nil, fmt.Errorf("read %s: the object is a %T", kindImagePolicy, typed)
	}
	return policy, nil
}
