package docs

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// fieldName matches a part of a path such as "spec.domains[].groups.names".
var fieldName = regexp.MustCompile(`[A-Za-z]+`)

// TestFieldsDescribed checks that the page about a kind mentions, in code font, each field of the kind's
// specification and each first-level field of the kind's status.
func TestFieldsDescribed(t *testing.T) {
	t.Parallel()
	definitions := 0
	for _, file := range files(t, "config/crd", ".yaml") {
		var definition apiextensionsv1.CustomResourceDefinition
		if err := yaml.Unmarshal([]byte(file.text), &definition); err != nil {
			t.Fatalf("%s: %v", file.name, err)
		}
		if definition.Kind != "CustomResourceDefinition" {
			continue
		}
		definitions++
		name := "docs/reference/" + strings.ToLower(definition.Spec.Names.Kind) + ".md"
		page := slices.IndexFunc(pages(t), func(p page) bool { return p.name == name })
		if page < 0 {
			t.Errorf("%s is missing: %s has no page", name, definition.Spec.Names.Kind)
			continue
		}
		named := fieldsNamed(pages(t)[page].text)
		for _, version := range definition.Spec.Versions {
			root := version.Schema.OpenAPIV3Schema.Properties
			for _, path := range append(fields("spec", root["spec"], 20), fields("status", root["status"], 1)...) {
				if leaf := path[strings.LastIndex(path, ".")+1:]; !named[leaf] {
					t.Errorf("%s does not mention %s: document it", name, path)
				}
			}
		}
	}
	if definitions == 0 {
		t.Error("config/crd contains no CustomResourceDefinition")
	}
}

// fieldsNamed returns the words in code font on a page, outside of blocks.
func fieldsNamed(text string) map[string]bool {
	named := map[string]bool{}
	for _, span := range codeSpan.FindAllString(prose(text), -1) {
		for _, word := range fieldName.FindAllString(span, -1) {
			named[word] = true
		}
	}
	return named
}

// foreign lists the fields with Kubernetes types, which Kubernetes documents.
var foreign = []string{"spec.template", "spec.availability.autoscaling.metrics", "spec.availability.autoscaling.behavior"}

// fields returns the paths of fields below a schema, down to depth. Foreign fields are not expanded. Conditions are
// omitted, because they have a separate section.
func fields(path string, schema apiextensionsv1.JSONSchemaProps, depth int) []string {
	if depth == 0 || slices.Contains(foreign, path) {
		return nil
	}
	if schema.Items != nil && schema.Items.Schema != nil {
		return fields(path, *schema.Items.Schema, depth)
	}
	var found []string
	for name, property := range schema.Properties {
		below := path + "." + name
		if below == "status.conditions" {
			continue
		}
		found = append(found, below)
		found = append(found, fields(below, property, depth-1)...)
	}
	slices.Sort(found)
	return found
}
