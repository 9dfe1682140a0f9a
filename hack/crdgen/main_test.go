package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
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
