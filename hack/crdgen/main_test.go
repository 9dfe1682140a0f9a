package main

import (
	"math/rand/v2"
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
                  limits: {type: object, additionalProperties: {maxLength: 32, pattern: '^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?0*[0-9]{1,2}))?$', x-kubernetes-int-or-string: true}}
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

// accepts reports whether a bound accepts a quantity.
func (b bound) accepts(q string) bool {
	return len(q) <= b.length && regexp.MustCompile(b.pattern).MatchString(q)
}

// TestQuantities checks which quantities the definitions accept, and that a release accepts the canonical forms of these quantities.
func TestQuantities(t *testing.T) {
	valid := []string{"1", "500m", "0.5", ".5", "1.", "-1", "+2", "128Mi", "1.5Gi", "1e3", "1E-3", "1e003", "10n", "9e99", "1000e99", "100000000000000000000000000000m",
		"96499999993199099990009099999.90", "080905960009507809000989.07909e1"}
	for range 20_000 {
		valid = append(valid, drawQuantity())
	}
	for _, q := range valid {
		parsed, err := resource.ParseQuantity(q)
		if err != nil || !users.accepts(q) || !regexp.MustCompile(anyQuantity).MatchString(q) {
			t.Fatalf("%s: parse error %v, accepted %t", q, err, users.accepts(q))
		}
		if written := parsed.String(); !canonical.accepts(written) {
			t.Errorf("%s, the canonical form of %s, is rejected", written, q)
		}
		if digits := len(parsed.AsDec().String()); digits > 200 {
			t.Errorf("%s has %d digits", q, digits)
		}
	}
	for _, invalid := range []string{"", "1x", "1e100", "1.00000000000000000000001e20000000", "1e1.5", "1000000000000000000000000000000000"} {
		if users.accepts(invalid) {
			t.Errorf("%q is accepted", invalid)
		}
	}
	if canonical.accepts("1e1000") {
		t.Error("a release accepts 1e1000")
	}
}

// drawQuantity draws a quantity of up to 32 characters.
func drawQuantity() string {
	digits := func(n int) (out string) {
		for range n {
			out += string("0099123456789"[rand.IntN(13)])
		}
		return out
	}
	suffixes := []string{"", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "e0", "e1", "e-1", "e9", "e-9", "e18", "e99", "e-99", "E+3"}
	for {
		q := []string{"", "-", "+"}[rand.IntN(3)] + digits(rand.IntN(30))
		if rand.IntN(2) == 0 {
			q += "." + digits(rand.IntN(25))
		}
		q += suffixes[rand.IntN(len(suffixes))]
		if users.accepts(q) {
			return q
		}
	}
}
