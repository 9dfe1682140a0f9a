package main

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

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
              from: {description: A time., format: date-time, type: string}
              target: {description: Our own port., x-kubernetes-int-or-string: true, x-kubernetes-validations: [{rule: self > 0}]}
              template:
                description: template of the pods.
                properties:
                  description: {description: A core field of this name., type: string}
                  port: {description: The port of a probe., anyOf: [{type: integer}, {type: string}], x-kubernetes-int-or-string: true}
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
              from: {description: A time., format: date-time, type: string, maxLength: 35, pattern: '^[0-9]{4}-[0-9]{2}-[0-9]{2}T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]+)?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$'}
              target: {description: Our own port., maxLength: 15, x-kubernetes-int-or-string: true, x-kubernetes-validations: [{rule: self > 0}]}
              template:
                description: template of the pods.
                properties:
                  description: {type: string}
                  port: {anyOf: [{type: integer}, {type: string}], maximum: 65535, maxLength: 15, minimum: 1, x-kubernetes-int-or-string: true}
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

// TestTimes checks that Go can parse all times that the definitions accept, and that usual times are accepted.
func TestTimes(t *testing.T) {
	pattern := regexp.MustCompile(rfc3339)
	for _, usual := range []string{"2030-01-01T00:00:00Z", "2030-01-01T23:59:59.123456789+05:30", "2030-01-01T00:00:00.5-12:00"} {
		if !pattern.MatchString(usual) {
			t.Errorf("%s is rejected", usual)
		}
	}
	accepted, alphabet := 0, "0123456789:+-.,TZtz "
	for range 200_000 {
		text := []byte("2030-01-01T12:30:45.5+01:30")
		for range 1 + rand.IntN(3) {
			switch at := rand.IntN(len(text)); rand.IntN(3) {
			case 0:
				text[at] = alphabet[rand.IntN(len(alphabet))]
			case 1:
				text = append(text[:at], text[at+1:]...)
			default:
				text = slices.Insert(text, at, alphabet[rand.IntN(len(alphabet))])
			}
		}
		if !pattern.Match(text) {
			continue
		}
		if _, err := time.Parse(time.DateOnly, string(text[:len(time.DateOnly)])); err != nil {
			continue // The API server also rejects days that do not exist.
		}
		accepted++
		if _, err := time.Parse(time.RFC3339, string(text)); err != nil {
			t.Errorf("%s is accepted: %v", text, err)
		}
	}
	if accepted < 1000 {
		t.Errorf("only %d changed times were accepted", accepted)
	}
}

// TestAllValuesAreBounded checks that, in the specs of the shipped definitions, each integer or string has a pattern, a maximum or a rule, and each time
// has a pattern. Otherwise, the API server could accept an object that no informer can decode.
func TestAllValuesAreBounded(t *testing.T) {
	files, err := filepath.Glob("../../config/crd/hlnr.io_*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("definitions %q, %v", files, err)
	}
	checked := 0
	for _, file := range files {
		in, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		versions, _ := parse(t, in)["spec"].(map[string]any)["versions"].([]any)
		for _, version := range versions {
			root, _ := version.(map[string]any)["schema"].(map[string]any)["openAPIV3Schema"].(map[string]any)
			each(property(root, []string{"spec"}), func(schema map[string]any) {
				bounded := schema["pattern"] != nil || schema["maximum"] != nil || schema["x-kubernetes-validations"] != nil
				switch {
				case schema["x-kubernetes-int-or-string"] == true && !bounded:
					t.Errorf("%s: an integer or string is not bounded: %v", file, schema)
				case schema["format"] == "date-time" && schema["pattern"] == nil:
					t.Errorf("%s: a time has no pattern: %v", file, schema)
				case schema["x-kubernetes-int-or-string"] == true || schema["format"] == "date-time":
					checked++
				}
			})
		}
	}
	if checked < 50 {
		t.Errorf("only %d values were checked", checked)
	}
}
