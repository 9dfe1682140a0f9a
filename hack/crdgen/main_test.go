package main

import (
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"
)

const definition = `
spec:
  versions:
  - name: v1alpha1
    schema:
      openAPIV3Schema:
        description: The kind.
        properties:
          spec:
            description: Our field.
            properties:
              own: {description: Our own field., default: 1, type: integer}
              template:
                description: template of the pods.
                properties:
                  description: {description: A core field of this name., type: string}
                  limits: {type: object, additionalProperties: {pattern: '^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$', x-kubernetes-int-or-string: true}}
                  metadata: {default: {}, type: object, additionalProperties: {description: A value., type: string}}
                  ports:
                    description: A list map.
                    items:
                      description: A port.
                      properties:
                        name: {default: web, type: string}
                        protocol: {default: TCP, description: A key., type: string}
                      type: object
                    type: array
                    x-kubernetes-list-map-keys: [protocol]
                    x-kubernetes-list-type: map
                type: object
`

const finished = `
spec:
  versions:
  - name: v1alpha1
    schema:
      openAPIV3Schema:
        description: The kind.
        properties:
          spec:
            description: Our field.
            properties:
              own: {description: Our own field., default: 1, type: integer}
              template:
                description: template of the pods.
                properties:
                  description: {type: string}
                  limits: {type: object, additionalProperties: {maxLength: 32, pattern: '^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?[0-9]{1,2}))?$', x-kubernetes-int-or-string: true}}
                  metadata: {type: object, additionalProperties: {type: string}}
                  ports:
                    items:
                      properties:
                        name: {type: string}
                        protocol: {default: TCP, type: string}
                      type: object
                    type: array
                    x-kubernetes-list-map-keys: [protocol]
                    x-kubernetes-list-type: map
                type: object
`

func TestFinish(t *testing.T) {
	out, err := finish([]byte(definition))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(parse(t, []byte(finished)), parse(t, out)); diff != "" {
		t.Errorf("finished definition (-want +got):\n%s", diff)
	}
	again, err := finish(out)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(out), string(again)); diff != "" {
		t.Errorf("a second run changed the definition (-first +second):\n%s", diff)
	}
}

func TestFinishRefuses(t *testing.T) {
	for name, in := range map[string]string{
		"not YAML":    "\t",
		"no versions": "spec: {}",
		"empty":       "",
	} {
		t.Run(name, func(t *testing.T) {
			if out, err := finish([]byte(in)); err == nil {
				t.Errorf("finish(%q) = %q, want an error", in, out)
			}
		})
	}
}

func TestFinishAllNeedsDefinitions(t *testing.T) {
	if err := finishAll(t.TempDir()); err == nil {
		t.Error("an empty folder resulted in no error")
	}
}

func parse(t *testing.T, in []byte) map[string]any {
	t.Helper()
	var out map[string]any
	if err := yaml.Unmarshal(in, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestQuantities checks which quantities the definitions accept, and that these can be parsed quickly: their exact value has at most 140 digits.
func TestQuantities(t *testing.T) {
	pattern := regexp.MustCompile(quantity)
	accepts := func(s string) bool { return len(s) <= maxQuantity && pattern.MatchString(s) }
	for _, valid := range []string{"1", "500m", "0.5", ".5", "1.", "-1", "+2", "128Mi", "1.5Gi", "1e3", "1E-3", "10n", "9e99", "100000000000000000000000000000m"} {
		q, err := resource.ParseQuantity(valid)
		if err != nil || !accepts(valid) || !regexp.MustCompile(anyQuantity).MatchString(valid) {
			t.Errorf("%s: parse error %v, accepted %t", valid, err, accepts(valid))
		}
		if digits := len(q.AsDec().String()); digits > 140 {
			t.Errorf("%s has %d digits", valid, digits)
		}
	}
	for _, invalid := range []string{"", "1x", "1e100", "1.00000000000000000000001e20000000", "1e1.5", "1000000000000000000000000000000000"} {
		if accepts(invalid) {
			t.Errorf("%q is accepted", invalid)
		}
	}
}
