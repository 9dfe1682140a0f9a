package v1alpha1_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// foreign matches the fields whose types Kubernetes defines. The Kubernetes documentation
// describes these types.
var foreign = regexp.MustCompile(`^spec\.(template|availability\.autoscaling\.(metrics|behavior))$|^status\.conditions$`)

// TestDescriptionsNameValues checks that the description of each field, which kubectl explain
// shows, contains each enum value and the default value of the field.
func TestDescriptionsNameValues(t *testing.T) {
	t.Parallel()
	enums, defaults := 0, 0
	for kind, schema := range schemas(t) {
		visit("", schema, func(path string, field apiextensionsv1.JSONSchemaProps) {
			description := strings.Join(strings.Fields(field.Description), " ")
			values := field.Enum
			if field.Items != nil && field.Items.Schema != nil {
				values = append(values, field.Items.Schema.Enum...)
			}
			for _, value := range values {
				enums++
				if text := textOf(t, value); !named(description, text) {
					t.Errorf("%s %s: the description %q does not name the value %s: explain this value in the field's comment", kind, path, description, text)
				}
			}
			if field.Default == nil || strings.HasPrefix(string(field.Default.Raw), "{") {
				return
			}
			defaults++
			if want := "Defaults to " + textOf(t, *field.Default); !strings.Contains(description, want+".") && !strings.Contains(description, want+",") {
				t.Errorf("%s %s: the description %q does not contain %q", kind, path, description, want+".")
			}
		})
	}
	if enums == 0 || defaults == 0 {
		t.Errorf("checked %d enum values and %d defaults, want at least one of each", enums, defaults)
	}
}

// schemas returns the schemas of the generated CustomResourceDefinitions, by kind and version.
func schemas(t *testing.T) map[string]apiextensionsv1.JSONSchemaProps {
	t.Helper()
	names, err := filepath.Glob("../../config/crd/hlnr.io_*.yaml")
	if err != nil || len(names) == 0 {
		t.Fatalf("found the definitions %v: %v", names, err)
	}
	found := map[string]apiextensionsv1.JSONSchemaProps{}
	for _, name := range names {
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var definition apiextensionsv1.CustomResourceDefinition
		if err := yaml.Unmarshal(raw, &definition); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, version := range definition.Spec.Versions {
			found[definition.Spec.Names.Kind+" "+version.Name] = *version.Schema.OpenAPIV3Schema
		}
	}
	return found
}

// visit calls f for the fields below a schema, at any depth. It omits the fields matched
// by foreign, and the fields below them.
func visit(path string, schema apiextensionsv1.JSONSchemaProps, f func(string, apiextensionsv1.JSONSchemaProps)) {
	if schema.Items != nil && schema.Items.Schema != nil {
		visit(path, *schema.Items.Schema, f)
	}
	for name, property := range schema.Properties {
		below := strings.TrimPrefix(path+"."+name, ".")
		if foreign.MatchString(below) {
			continue
		}
		f(below, property)
		visit(below, property, f)
	}
}

// named reports whether a description contains a value as a word.
func named(description, value string) bool {
	return regexp.MustCompile(`\b` + regexp.QuoteMeta(value) + `\b`).MatchString(description)
}

// textOf returns a scalar as a user writes it in YAML.
func textOf(t *testing.T, value apiextensionsv1.JSON) string {
	t.Helper()
	var scalar any
	decoder := json.NewDecoder(strings.NewReader(string(value.Raw)))
	decoder.UseNumber()
	if err := decoder.Decode(&scalar); err != nil {
		t.Fatalf("read %s: %v", value.Raw, err)
	}
	return fmt.Sprint(scalar)
}
