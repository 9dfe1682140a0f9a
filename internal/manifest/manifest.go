// Package manifest reads manifests of the hlnr.io API group and checks them as an API server does, but without a
// connection to an API server. It checks field names, types, lists and CEL rules against the embedded CRDs, and
// sets defaults. It does not check anything that depends on stored objects, such as whether an immutable field
// changes or whether a name already exists.
package manifest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
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

// Object is one document of a manifest.
type Object map[string]any

// APIVersion returns the apiVersion of the object, or an empty string if the field is missing.
func (o Object) APIVersion() string { return text(o, "apiVersion") }

// Kind returns the kind of the object, or an empty string if the field is missing.
func (o Object) Kind() string { return text(o, "kind") }

// Name returns the name of the object, or an empty string if the field is missing.
func (o Object) Name() string {
	metadata, _ := o["metadata"].(map[string]any)
	return text(metadata, "name")
}

// Namespace returns the namespace of the object, or an empty string if the field is missing.
func (o Object) Namespace() string {
	metadata, _ := o["metadata"].(map[string]any)
	return text(metadata, "namespace")
}

func text(object map[string]any, field string) string {
	t, _ := object[field].(string)
	return t
}

// Read reads a stream of YAML or JSON documents. It omits empty documents and replaces a List with its items.
// Duplicate keys are an error.
func Read(stream []byte) ([]Object, error) {
	var objects []Object
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(stream)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("split YAML into documents: %w", err)
		}
		object, err := decode(document)
		if err != nil {
			return nil, err
		}
		items, list := object["items"].([]any)
		switch {
		case len(object) == 0:
		case list && object.Kind() == "List":
			for _, item := range items {
				if o, ok := item.(map[string]any); ok {
					objects = append(objects, o)
				}
			}
		default:
			objects = append(objects, object)
		}
	}
}

// decode reads one document.
func decode(document []byte) (Object, error) {
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

// kinds contains the kinds of the hlnr.io API group, with their Go types.
var kinds = map[string]func() runtime.Object{
	"AnalysisTemplate":        func() runtime.Object { return &v1alpha1.AnalysisTemplate{} },
	"ClusterAnalysisTemplate": func() runtime.Object { return &v1alpha1.ClusterAnalysisTemplate{} },
	"ClusterFreeze":           func() runtime.Object { return &v1alpha1.ClusterFreeze{} },
	"Freeze":                  func() runtime.Object { return &v1alpha1.Freeze{} },
	"GitHubRepository":        func() runtime.Object { return &v1alpha1.GitHubRepository{} },
	"ImagePolicy":             func() runtime.Object { return &v1alpha1.ImagePolicy{} },
	"Microservice":            func() runtime.Object { return &v1alpha1.Microservice{} },
	"NetworkPolicy":           func() runtime.Object { return &v1alpha1.NetworkPolicy{} },
	"NotificationPolicy":      func() runtime.Object { return &v1alpha1.NotificationPolicy{} },
	"VersionedMicroservice":   func() runtime.Object { return &v1alpha1.VersionedMicroservice{} },
}

// Kinds returns the kinds that can be checked, sorted.
func Kinds() []string { return slices.Sorted(maps.Keys(kinds)) }

// Check checks an object, sets its defaults and removes its status. faults contains a description of each fault, with the field and, where possible,
// the fix. It is sorted, and empty if an API server would accept the object. err is set if the kind is unknown to
// this program, or if the check itself fails.
func Check(ctx context.Context, object Object) (typed runtime.Object, faults []string, err error) {
	newObject := kinds[object.Kind()]
	if newObject == nil {
		return nil, nil, fmt.Errorf("kind %q of %s is unknown: use one of %s", object.Kind(), v1alpha1.GroupVersion, Kinds())
	}
	delete(object, "status") // The status is not needed, and may contain fields of a newer version.
	typed = newObject()
	strict := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object, typed, true)
	if strict != nil && runtime.IsStrictDecodingError(strict) {
		return nil, []string{strict.Error()}, nil
	}
	rules, err := rulesOf(object.Kind())
	if err != nil {
		return nil, nil, err
	}
	defaulting.Default(map[string]any(object), rules.structural)
	found := validation.ValidateCustomResource(nil, map[string]any(object), rules.schema)
	found = append(found, listtype.ValidateListSetsAndMaps(nil, rules.structural, object)...)
	if len(found) == 0 { // CEL rules apply only to objects that match the schema.
		found, _ = rules.cel.Validate(ctx, nil, rules.structural, map[string]any(object), nil, math.MaxInt64)
	}
	if len(found) > 0 {
		for _, f := range found {
			faults = append(faults, f.Error())
		}
		slices.Sort(faults)
		return nil, slices.Compact(faults), nil
	}
	typed = newObject()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object, typed); err != nil {
		return nil, nil, fmt.Errorf("read %s: %w", object.Kind(), err)
	}
	return typed, nil, nil
}

// rules are the schema and the CEL rules of a CRD. They are read-only.
type rules struct {
	structural *schema.Structural
	schema     validation.SchemaValidator
	cel        *cel.Validator
}

// compiled caches the rules of each kind. Compiling the rules of one kind takes a tenth of a second.
var compiled = struct {
	sync.Mutex
	rules map[string]func() (*rules, error)
}{rules: map[string]func() (*rules, error){}}

func rulesOf(kind string) (*rules, error) {
	compiled.Lock()
	once := compiled.rules[kind]
	if once == nil {
		once = sync.OnceValues(func() (*rules, error) { return newRules(kind) })
		compiled.rules[kind] = once
	}
	compiled.Unlock()
	r, err := once()
	if err != nil {
		return nil, fmt.Errorf("read the schema of %s: %w", kind, err)
	}
	return r, nil
}

func newRules(kind string) (*rules, error) {
	definition, err := Definition(kind)
	if err != nil {
		return nil, err
	}
	var internal apiextensions.CustomResourceDefinition
	if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(definition, &internal, nil); err != nil {
		return nil, err
	}
	props := internal.Spec.Validation // the schema, if the CRD has only one version
	if props == nil {
		for _, v := range internal.Spec.Versions {
			if v.Name == v1alpha1.GroupVersion.Version {
				props = v.Schema
			}
		}
	}
	if props == nil {
		return nil, fmt.Errorf("version %s not found", v1alpha1.GroupVersion)
	}
	structural, err := schema.NewStructural(props.OpenAPIV3Schema)
	if err != nil {
		return nil, err
	}
	validator, _, err := validation.NewSchemaValidator(props.OpenAPIV3Schema)
	if err != nil {
		return nil, err
	}
	return &rules{structural, validator, cel.NewValidator(structural, true, celconfig.PerCallLimit)}, nil
}

// Definition returns the embedded CRD of a kind.
func Definition(kind string) (*apiextensionsv1.CustomResourceDefinition, error) {
	raw, err := crd.Definition(kind)
	if err != nil {
		return nil, err
	}
	var definition apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(raw, &definition); err != nil {
		return nil, err
	}
	return &definition, nil
}
