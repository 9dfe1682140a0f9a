// Package schema_test tests the CRDs in config/crd on an API server.
package schema_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/heighliner/heighliner/test/apiserver"
)

var env *apiserver.Env

func TestMain(m *testing.M) {
	os.Exit(apiserver.Run(m, apiserver.Options{}, &env))
}

// base contains the smallest accepted object of each kind. Rows change these objects with merge patches (RFC 7386).
var base = map[string]string{
	"ImagePolicy": `
apiVersion: hlnr.io/v1alpha1
kind: ImagePolicy
metadata: {name: shop}
spec: {image: registry.example.com/shop}`,
	"Microservice": `
apiVersion: hlnr.io/v1alpha1
kind: Microservice
metadata: {name: shop}
spec:
  imagePolicyRef: {name: shop}
  template: {spec: {containers: [{name: shop, ports: [{containerPort: 8080}]}]}}`,
	"VersionedMicroservice": `
apiVersion: hlnr.io/v1alpha1
kind: VersionedMicroservice
metadata: {name: shop-1}
spec:
  microserviceName: shop
  group: 1-x
  semVer: {name: 1.x, version: 1.0.0}
  images: [{image: "registry.example.com/shop:1.0.0@sha256:0", digest: "sha256:0"}]
  template: {spec: {containers: [{name: shop, image: "registry.example.com/shop:1.0.0"}]}}
  replicas: 1`,
	"NetworkPolicy": `
apiVersion: hlnr.io/v1alpha1
kind: NetworkPolicy
metadata: {name: shop}
spec:
  ports: [{name: http, port: 80}]
  provider: {gateway: {parentRefs: [{name: public}]}}`,
	"GitHubRepository": `
apiVersion: hlnr.io/v1alpha1
kind: GitHubRepository
metadata: {name: shop}
spec: {owner: acme, repo: shop}`,
	"NotificationPolicy": `
apiVersion: hlnr.io/v1alpha1
kind: NotificationPolicy
metadata: {name: team}
spec: {receivers: [{name: chat, type: Webhook, url: "https://chat.example.com/in"}]}`,
	"AnalysisTemplate": `
apiVersion: hlnr.io/v1alpha1
kind: AnalysisTemplate
metadata: {name: http}
spec: {metrics: [{name: errors, successRate: {}, thresholdRange: {min: 99}}]}`,
	"ClusterAnalysisTemplate": `
apiVersion: hlnr.io/v1alpha1
kind: ClusterAnalysisTemplate
metadata: {name: http}
spec: {metrics: [{name: errors, successRate: {}, thresholdRange: {min: 99}}]}`,
	"Freeze": `
apiVersion: hlnr.io/v1alpha1
kind: Freeze
metadata: {name: fair}
spec: {reason: trade fair, until: "2027-01-04T08:00:00Z"}`,
	"ClusterFreeze": `
apiVersion: hlnr.io/v1alpha1
kind: ClusterFreeze
metadata: {name: fair}
spec: {reason: trade fair, until: "2027-01-04T08:00:00Z"}`,
}

// object returns the base object of a kind in a namespace, with a merge patch applied.
func object(t testing.TB, kind, namespace, patch string) *unstructured.Unstructured {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(base[kind]))
	if err != nil {
		t.Fatal(err)
	}
	return patched(t, raw, namespace, patch)
}

func patched(t testing.TB, raw []byte, namespace, patch string) *unstructured.Unstructured {
	t.Helper()
	change, err := yaml.YAMLToJSON([]byte(patch))
	if err != nil {
		t.Fatal(err)
	}
	if patch != "" {
		if raw, err = jsonpatch.MergePatch(raw, change); err != nil {
			t.Fatal(err)
		}
	}
	out := &unstructured.Unstructured{}
	if err := json.Unmarshal(raw, &out.Object); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(out.GetKind(), "Cluster") {
		out.SetNamespace(namespace)
	}
	return out
}

// causes returns the fields and messages of an error from the server.
func causes(err error) (fields, messages []string) {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return nil, nil
	}
	for _, cause := range status.Status().Details.Causes {
		fields = append(fields, cause.Field)
		messages = append(messages, cause.Message)
	}
	return fields, messages
}

// definitions returns the CRDs in config/crd, by kind.
func definitions(t testing.TB) map[string]*apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(apiserver.Root(t), "config", "crd", "hlnr.io_*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]*apiextensionsv1.CustomResourceDefinition{}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		definition := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(raw, definition); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		out[definition.Spec.Names.Kind] = definition
	}
	if len(out) != len(base) {
		t.Fatalf("%d definitions in config/crd, want %d", len(out), len(base))
	}
	return out
}

func schemaOf(definition *apiextensionsv1.CustomResourceDefinition) *apiextensionsv1.JSONSchemaProps {
	return definition.Spec.Versions[0].Schema.OpenAPIV3Schema
}

// foreign lists the fields whose types are embedded core types.
var foreign = []string{"spec.template", "spec.availability.autoscaling.metrics", "spec.availability.autoscaling.behavior"}

// walk visits a schema and all schemas below it, except the schemas below the fields in foreign.
// Lists add "[]" to the path, as in spec.ports[].name.
func walk(path string, schema *apiextensionsv1.JSONSchemaProps, visit func(path string, schema *apiextensionsv1.JSONSchemaProps)) {
	visit(path, schema)
	if slices.Contains(foreign, path) {
		return
	}
	for name, property := range schema.Properties {
		walk(strings.TrimPrefix(path+"."+name, "."), &property, visit)
	}
	if schema.Items != nil && schema.Items.Schema != nil {
		walk(path+"[]", schema.Items.Schema, visit)
	}
}
