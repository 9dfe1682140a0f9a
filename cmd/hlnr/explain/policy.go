package explain

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/config/crd"
)

const kindImagePolicy = "ImagePolicy"

// readPolicy reads the only ImagePolicy of a stream of YAML or JSON documents, or the one with
// the given name. It ignores other kinds. The policy is validated as by an API server, and has
// defaults. Errors name the field.
func readPolicy(ctx context.Context, stream []byte, name string) (*v1alpha1.ImagePolicy, error) {
	var found []map[string]any
	var names []string
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(stream)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("split YAML into documents: %w", err)
		}
		object, err := decode(document)
		if err != nil {
			return nil, err
		}
		if object["kind"] != kindImagePolicy || object["apiVersion"] != v1alpha1.GroupVersion.String() {
			continue
		}
		metadata, _ := object["metadata"].(map[string]any)
		if named, _ := metadata["name"].(string); name == "" || named == name {
			found, names = append(found, object), append(names, named)
		}
	}
	switch {
	case len(found) == 0 && name != "":
		return nil, fmt.Errorf("%s of %s with name %q not found: correct --name, or omit it", kindImagePolicy, v1alpha1.GroupVersion, name)
	case len(found) == 0:
		return nil, fmt.Errorf("%s of %s not found: set kind and apiVersion", kindImagePolicy, v1alpha1.GroupVersion)
	case len(found) > 1:
		return nil, fmt.Errorf("found %d objects of kind %s: select one with --name (%s)", len(found), kindImagePolicy, strings.Join(names, ", "))
	}
	return check(ctx, found[0])
}

// decode reads one document. Duplicate keys are an error.
func decode(document []byte) (map[string]any, error) {
	raw, err := yaml.YAMLToJSONStrict(document)
	if err != nil {
		return nil, fmt.Errorf("read YAML: %w", err)
	}
	var value any
	if err := json.Unmarshal(raw, &value); err != nil {
		return nil, fmt.Errorf("read YAML: %w", err)
	}
	object, ok := value.(map[string]any)
	if !ok && value != nil {
		return nil, errors.New("a document is not an object: write apiVersion, kind, metadata and spec")
	}
	return object, nil
}

// check validates the object as an API server does: it rejects unknown fields, sets defaults,
// and applies the schema with its rules.
func check(ctx context.Context, object map[string]any) (*v1alpha1.ImagePolicy, error) {
	delete(object, "status") // not needed, and possibly of a newer version
	var policy v1alpha1.ImagePolicy
	strict := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object, &policy, true)
	if strict != nil && runtime.IsStrictDecodingError(strict) {
		return nil, strict
	}
	rules, err := imagePolicyRules()
	if err != nil {
		return nil, err
	}
	defaulting.Default(object, rules.structural)
	faults := validation.ValidateCustomResource(nil, object, rules.schema)
	faults = append(faults, listtype.ValidateListSetsAndMaps(nil, rules.structural, object)...)
	if len(faults) == 0 { // rules apply only to objects that match the schema
		faults, _ = rules.cel.Validate(ctx, nil, rules.structural, object, nil, math.MaxInt64)
	}
	if len(faults) > 0 {
		lines := make([]string, len(faults))
		for i, f := range faults {
			lines[i] = f.Error()
		}
		slices.Sort(lines)
		return nil, errors.New(strings.Join(slices.Compact(lines), "\n  "))
	}
	policy = v1alpha1.ImagePolicy{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object, &policy); err != nil {
		return nil, fmt.Errorf("read %s: %w", kindImagePolicy, err)
	}
	return &policy, nil
}

// schemaRules are the schema of a CRD and what it demands of an object. They are read only.
type schemaRules struct {
	structural *schema.Structural
	schema     validation.SchemaValidator
	cel        *cel.Validator
}

// imagePolicyRules returns the rules of the CRD. Compiling them takes a tenth of a second, and is done once.
var imagePolicyRules = sync.OnceValues(func() (*schemaRules, error) {
	definition, structural, err := imagePolicySchema()
	if err != nil {
		return nil, err
	}
	validator, _, err := validation.NewSchemaValidator(definition)
	if err != nil {
		return nil, fmt.Errorf("read the schema of %s: %w", kindImagePolicy, err)
	}
	return &schemaRules{structural, validator, cel.NewValidator(structural, true, celconfig.PerCallLimit)}, nil
})

// imagePolicySchema returns the schema of the CRD, in the two forms that are needed.
func imagePolicySchema() (*apiextensions.JSONSchemaProps, *schema.Structural, error) {
	var definition apiextensionsv1.CustomResourceDefinition
	err := yaml.UnmarshalStrict(crd.ImagePolicies, &definition)
	var internal apiextensions.CustomResourceDefinition
	if err == nil {
		err = apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(&definition, &internal, nil)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read the schema of %s: %w", kindImagePolicy, err)
	}
	props := internal.Spec.Validation // of the only version
	if props == nil {
		for _, v := range internal.Spec.Versions {
			if v.Name == v1alpha1.GroupVersion.Version {
				props = v.Schema
			}
		}
	}
	if props == nil {
		return nil, nil, fmt.Errorf("read the schema of %s: version %s not found", kindImagePolicy, v1alpha1.GroupVersion)
	}
	structural, err := schema.NewStructural(props.OpenAPIV3Schema)
	if err != nil {
		return nil, nil, fmt.Errorf("read the schema of %s: %w", kindImagePolicy, err)
	}
	return props.OpenAPIV3Schema, structural, nil
}
