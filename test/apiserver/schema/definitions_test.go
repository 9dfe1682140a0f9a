package schema_test

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/heighliner/heighliner/test/apiserver"
)

// TestDefinitionsAreSmall checks the size of CRDs. kubectl apply stores the whole CRD as JSON in an annotation, and
// the server rejects an annotation of more than 262144 bytes.
func TestDefinitionsAreSmall(t *testing.T) {
	const limit = 200_000
	for kind, definition := range definitions(t) {
		raw, err := json.Marshal(definition)
		if err != nil {
			t.Fatal(err)
		}
		if len(raw) >= limit {
			t.Errorf("%s: %d bytes as JSON, want less than %d", kind, len(raw), limit)
		}
	}
}

// TestDefinitionsAreApplied applies CRDs with kubectl, alternating between client-side and server-side apply,
// as users do.
func TestDefinitionsAreApplied(t *testing.T) {
	dir := filepath.Join(apiserver.Root(t), "config", "crd")
	for _, args := range [][]string{
		{"apply", "-k", dir},
		{"apply", "-k", dir, "--server-side", "--force-conflicts"},
		{"apply", "-k", dir},
	} {
		if out, err := env.Kubectl(t, "", args...); err != nil {
			t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

// TestOwnFieldsAreExplained checks that each of Heighliner's fields has a description, which kubectl explain
// shows, and that the description begins with the field's name.
func TestOwnFieldsAreExplained(t *testing.T) {
	for kind, definition := range definitions(t) {
		walk("", schemaOf(definition), func(path string, schema *apiextensionsv1.JSONSchemaProps) {
			switch {
			case path == "apiVersion", path == "kind", path == "metadata", strings.HasSuffix(path, "[]"):
			case strings.Contains(path, "conditions[]."): // metav1.Condition has its own descriptions.
			case strings.TrimSpace(schema.Description) == "":
				t.Errorf("%s %s has no description", kind, path)
			case path != "" && !startsWithName(schema.Description, path):
				t.Errorf("%s %s: the description %q does not start with the field's name", kind, path, firstLine(schema.Description))
			}
		})
	}
}

func startsWithName(description, path string) bool {
	name := path[strings.LastIndex(path, ".")+1:]
	rest, ok := strings.CutPrefix(description, name)
	return ok && (rest == "" || !regexp.MustCompile(`^[A-Za-z0-9]`).MatchString(rest))
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

func TestExplain(t *testing.T) {
	for path, want := range map[string]string{
		"imagepolicies.spec.versioning.groupBy":                     "which versions replace each other",
		"microservices.spec.updateStrategy.canary.steps.weight":     "percentage",
		"microservices.spec.template.spec.containers.livenessProbe": "FIELDS",
		"versionedmicroservices.spec.decision":                      "a user's decision",
		"networkpolicies.hlnr.io.spec.domains":                      "routed to releases",
		"msvc.status.releaseGroups.releases.status":                 "deprecated",
		"hnp.spec.provider":                                         "gateway",
	} {
		t.Run(path, func(t *testing.T) {
			args := []string{"explain", path}
			if strings.HasPrefix(path, "networkpolicies.hlnr.io") {
				args = []string{"explain", "hnp" + strings.TrimPrefix(path, "networkpolicies.hlnr.io")}
			}
			out, err := env.Kubectl(t, "", args...)
			if err != nil || !strings.Contains(out, want) {
				t.Errorf("kubectl explain = %v\n%s\nwant an output with %q", err, out, want)
			}
		})
	}
}

// TestTemplateIsStripped checks the fields below each field whose type belongs to another API, such as the pod template:
// none of them has a description, and only the keys of list maps among them have a default.
func TestTemplateIsStripped(t *testing.T) {
	var check func(t *testing.T, path string, keys []string, schema *apiextensionsv1.JSONSchemaProps)
	defaults := map[string]bool{}
	check = func(t *testing.T, path string, keys []string, schema *apiextensionsv1.JSONSchemaProps) {
		for name, property := range schema.Properties {
			below := path + "." + name
			if property.Description != "" {
				t.Errorf("%s has a description", below)
			}
			if property.Default != nil {
				defaults[name] = true
				isKey := false
				for _, key := range keys {
					isKey = isKey || key == name
				}
				if !isKey {
					t.Errorf("%s has the default %s", below, property.Default.Raw)
				}
			}
			check(t, below, nil, &property)
		}
		if schema.Items != nil && schema.Items.Schema != nil {
			check(t, path+"[]", schema.XListMapKeys, schema.Items.Schema)
		}
		if schema.XPreserveUnknownFields != nil && *schema.XPreserveUnknownFields {
			t.Errorf("%s accepts unknown fields", path)
		}
	}
	for _, kind := range []string{"Microservice", "VersionedMicroservice"} {
		for _, path := range foreign {
			schema := *schemaOf(definitions(t)[kind])
			for _, name := range strings.Split(path, ".") {
				schema = schema.Properties[name]
			}
			if schema.Description == "" {
				t.Errorf("%s: %s has no description, or is missing", kind, path)
			}
			check(t, kind+" "+path, nil, &schema)
		}
	}
	// These are the keys of containers[].ports and of imagePullSecrets.
	if diff := cmp.Diff(map[string]bool{"protocol": true, "name": true}, defaults); diff != "" {
		t.Errorf("fields with defaults (-want +got):\n%s", diff)
	}
}

// TestDefaultsAreScalarsOutsideLists checks that all defaults are scalars, and that no field inside a list has
// a default, because GitOps tools report defaults inside list items as drift. A default may also be an empty
// object, because the defaults of the object's fields would not apply otherwise.
func TestDefaultsAreScalarsOutsideLists(t *testing.T) {
	for kind, definition := range definitions(t) {
		walk("", schemaOf(definition), func(path string, schema *apiextensionsv1.JSONSchemaProps) {
			if schema.Default == nil {
				return
			}
			if strings.Contains(path, "[]") {
				t.Errorf("%s %s: default inside a list", kind, path)
			}
			if (schema.Type == "object" || schema.Type == "array") && string(schema.Default.Raw) != "{}" {
				t.Errorf("%s %s: default %s of a %s", kind, path, schema.Default.Raw, schema.Type)
			}
		})
	}
}

func TestDefaults(t *testing.T) {
	for kind, want := range map[string]string{
		"ImagePolicy": `
image: registry.example.com/shop
interval: 5m
timeout: 30s
versioning: {scheme: SemVer, level: Release, groupBy: All, twoParts: Deny}
limits: {releasesPerGroup: 10, tags: 10000}`,
		"GitHubRepository": `
owner: acme
repo: shop
interval: 1m`,
		"Microservice": `
imagePolicyRef: {name: shop}
availability: {replicas: 1}
updateStrategy: {minimumAvailable: 3, progressDeadlineSeconds: 600, drainDelay: 30s}
template: {spec: {containers: [{name: shop, ports: [{containerPort: 8080, protocol: TCP}]}]}}`,
		"VersionedMicroservice": `
microserviceName: shop
group: 1-x
semVer: {name: 1.x, version: 1.0.0}
images: [{image: "registry.example.com/shop:1.0.0@sha256:0", digest: "sha256:0"}]
template: {spec: {containers: [{name: shop, image: "registry.example.com/shop:1.0.0"}]}}
replicas: 1`,
		"NetworkPolicy": `
ports: [{name: http, port: 80}]
provider: {gateway: {parentRefs: [{name: public}]}}`,
	} {
		t.Run(kind, func(t *testing.T) {
			created := object(t, kind, env.Namespace(t), "")
			if err := env.Client.Create(t.Context(), created); err != nil {
				t.Fatal(err)
			}
			var spec map[string]any
			if err := yaml.Unmarshal([]byte(want), &spec); err != nil {
				t.Fatal(err)
			}
			got, err := json.Marshal(created.Object["spec"])
			if err != nil {
				t.Fatal(err)
			}
			var gotSpec map[string]any
			if err := json.Unmarshal(got, &gotSpec); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(spec, gotSpec); diff != "" {
				t.Errorf("spec as stored (-want +got):\n%s", diff)
			}
		})
	}
}

// TestColumns checks that each column refers to a scalar field of the schema, and that kubectl prints the names of
// the columns.
func TestColumns(t *testing.T) {
	want := map[string]string{
		"AnalysisTemplate":        "NAME INTERVAL COUNT SOURCE AGE",
		"ClusterAnalysisTemplate": "NAME INTERVAL COUNT SOURCE AGE",
		"ClusterFreeze":           "NAME ACTIVE UNTIL REASON SERVICES BY AGE",
		"Freeze":                  "NAME ACTIVE UNTIL REASON SERVICES BY AGE",
		"NotificationPolicy":      "NAME PENDING LAST READY REASON AGE",
		"GitHubRepository":        "NAME REPOSITORY PULLREQUESTS READY REASON AGE",
		"ImagePolicy":             "NAME IMAGE LATEST OFFERED READY REASON AGE",
		"Microservice":            "NAME ACTIVE CANARY GROUPS FAILED READY PROGRESSING AGE",
		"VersionedMicroservice":   "NAME MICROSERVICE GROUP VERSION RELEASE READY REASON AGE",
		"NetworkPolicy":           "NAME MICROSERVICE URL DOMAINS SPLIT READY REASON AGE",
	}
	condition := regexp.MustCompile(`^\.status\.conditions\[\?\(@\.type=="[A-Za-z]+"\)\]\.(status|reason|message)$`)
	for kind, definition := range definitions(t) {
		t.Run(kind, func(t *testing.T) {
			for _, column := range definition.Spec.Versions[0].AdditionalPrinterColumns {
				if condition.MatchString(column.JSONPath) {
					continue
				}
				schema := *schemaOf(definition)
				if strings.HasPrefix(column.JSONPath, ".metadata.") {
					continue
				}
				for _, name := range strings.Split(strings.TrimPrefix(column.JSONPath, "."), ".") {
					schema = schema.Properties[name]
				}
				if !slices.Contains([]string{"string", "integer", "boolean"}, schema.Type) {
					t.Errorf("column %s reads %s of type %q, want a scalar", column.Name, column.JSONPath, schema.Type)
				}
			}
			namespace := env.Namespace(t)
			if err := env.Client.Create(t.Context(), object(t, kind, namespace, "")); err != nil {
				t.Fatal(err)
			}
			short := definition.Spec.Names.ShortNames[0]
			out, err := env.Kubectl(t, "", "get", short, "--namespace", namespace)
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if got := strings.Join(strings.Fields(firstLine(out)), " "); got != want[kind] {
				t.Errorf("kubectl get %s prints %q, want %q", short, got, want[kind])
			}
		})
	}
}

// TestCategories checks that "kubectl get all" shows Microservices, and that "kubectl delete all" deletes no
// other Heighliner objects.
func TestCategories(t *testing.T) {
	for kind, definition := range definitions(t) {
		want := []string{"hlnr"}
		if kind == "Microservice" {
			want = append(want, "all")
		}
		if diff := cmp.Diff(want, definition.Spec.Names.Categories); diff != "" {
			t.Errorf("%s: categories (-want +got):\n%s", kind, diff)
		}
	}
}

func TestReleasesAreSelectedByField(t *testing.T) {
	namespace := env.Namespace(t)
	for name, microservice := range map[string]string{"a-1": "a", "a-2": "a", "b-1": "b"} {
		release := object(t, "VersionedMicroservice", namespace, `{metadata: {name: `+name+`}, spec: {microserviceName: `+microservice+`}}`)
		if err := env.Client.Create(t.Context(), release); err != nil {
			t.Fatal(err)
		}
	}
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion("hlnr.io/v1alpha1")
	list.SetKind("VersionedMicroserviceList")
	err := env.Client.List(t.Context(), list, client.InNamespace(namespace), client.MatchingFields{"spec.microserviceName": "a", "spec.group": "1-x"})
	if err != nil || len(list.Items) != 2 {
		t.Errorf("list by fields: %d releases, %v, want 2", len(list.Items), err)
	}
}

// TestUnknownFieldsAreRefused checks that both client-side and server-side kubectl apply reject unknown fields
// in objects of hlnr.io, including unknown fields below the template.
func TestUnknownFieldsAreRefused(t *testing.T) {
	typos := map[string]struct{ kind, patch, field string }{
		"own field":      {"ImagePolicy", `spec: {intervall: 5m}`, "spec.intervall"},
		"own list":       {"NetworkPolicy", `spec: {domains: [{domain: a.example.com, hostname: b}]}`, "spec.domains[0].hostname"},
		"pod":            {"Microservice", `spec: {template: {spec: {hostNetwrok: true}}}`, "spec.template.spec.hostNetwrok"},
		"pod's metadata": {"Microservice", `spec: {template: {metadata: {label: {a: b}}}}`, "spec.template.metadata.label"},
		"container":      {"Microservice", `spec: {template: {spec: {containers: [{name: shop, readinesProbe: {}}]}}}`, "spec.template.spec.containers[0].readinesProbe"},
	}
	for name, typo := range typos {
		for mode, args := range map[string][]string{
			"client-side": {"apply", "-f", "-"},
			"server-side": {"apply", "--server-side", "-f", "-"},
		} {
			t.Run(name+"/"+mode, func(t *testing.T) {
				raw, err := object(t, typo.kind, env.Namespace(t), typo.patch).MarshalJSON()
				if err != nil {
					t.Fatal(err)
				}
				out, err := env.Kubectl(t, string(raw), args...)
				if last := typo.field[strings.LastIndex(typo.field, ".")+1:]; err == nil || !strings.Contains(out, last) {
					t.Errorf("kubectl %s = %v\n%s\nwant an error about %q", strings.Join(args, " "), err, out, typo.field)
				}
			})
		}
	}
}

// TestSamples checks that the files in config/samples are accepted unchanged.
func TestSamples(t *testing.T) {
	dir := filepath.Join(apiserver.Root(t), "config", "samples")
	out, err := env.Kubectl(t, "", "apply", "--server-side", "-k", dir)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Cleanup(func() {
		if out, err := env.Kubectl(t, "", "delete", "--wait=false", "-k", dir); err != nil {
			t.Logf("delete samples: %v\n%s", err, out)
		}
	})
	for _, name := range []string{"freeze.yaml", "clusterfreeze.yaml"} { // A user signs these files, so the kustomization does not contain them.
		file := filepath.Join(dir, name)
		if out, err := env.Kubectl(t, "", "apply", "--server-side", "-f", file); err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
		t.Cleanup(func() {
			if out, err := env.Kubectl(t, "", "delete", "--wait=false", "-f", file); err != nil {
				t.Logf("delete %s: %v\n%s", name, err, out)
			}
		})
	}
	for _, resource := range []string{"imgp", "msvc", "hnp"} {
		if out, err := env.Kubectl(t, "", "get", resource, "shop", "--namespace", "shop"); err != nil {
			t.Errorf("get %s: %v\n%s", resource, err, out)
		}
	}
}

// TestMicroserviceFromBeforeTheRuleOnContainers checks that, if a Microservice was created before the server
// required spec.containerName, its status and other fields can be written. Otherwise its rollouts would stop.
func TestMicroserviceFromBeforeTheRuleOnContainers(t *testing.T) {
	t.Parallel()
	ms := microserviceFromBefore(t, "before.test", "spec.containerName is required", `{template: {spec: {containers: [{name: proxy}, {name: web}]}}}`)
	set := setterOf(t, ms)
	set(int64(1), "status", "observedGeneration")
	if err := env.Client.Status().Update(t.Context(), ms); err != nil {
		t.Errorf("write the status of the Microservice: %v", err)
	}
	set(true, "spec", "paused")
	if err := env.Client.Update(t.Context(), ms); err != nil {
		t.Errorf("write another field: %v", err)
	}
	set("web", "spec", "containerName")
	if err := env.Client.Update(t.Context(), ms); err != nil {
		t.Errorf("set the name of the container: %v", err)
	}
	unstructured.RemoveNestedField(ms.Object, "spec", "containerName")
	if err := env.Client.Update(t.Context(), ms); err == nil {
		t.Error("the name of the container can be removed again")
	}
}

// TestMicroserviceFromBeforeTheRuleOnMinReadySeconds checks that a Microservice that was created before the server compared minReadySeconds with the
// deadline can be scaled and paused. Its active release may be serving traffic.
func TestMicroserviceFromBeforeTheRuleOnMinReadySeconds(t *testing.T) {
	t.Parallel()
	ms := microserviceFromBefore(t, "earlier.test", "spec.availability.minReadySeconds must be less", `{availability: {minReadySeconds: 900}}`)
	set := setterOf(t, ms)
	set(int64(7), "spec", "availability", "replicas")
	set(true, "spec", "paused")
	if err := env.Client.Update(t.Context(), ms); err != nil {
		t.Errorf("write other fields: %v", err)
	}
	set(int64(599), "spec", "availability", "minReadySeconds")
	if err := env.Client.Update(t.Context(), ms); err != nil {
		t.Errorf("correct the value: %v", err)
	}
	set(int64(900), "spec", "availability", "minReadySeconds")
	if err := env.Client.Update(t.Context(), ms); err == nil {
		t.Error("the corrected value can be changed back")
	}
}

// setterOf returns a function that sets a field of an object.
func setterOf(t *testing.T, o *unstructured.Unstructured) func(value any, path ...string) {
	return func(value any, path ...string) {
		t.Helper()
		if err := unstructured.SetNestedField(o.Object, value, path...); err != nil {
			t.Fatal(err)
		}
	}
}

// withoutRule returns a copy of a schema without the rule whose message has the given prefix. ok is false if neither the schema nor its spec has such a rule.
func withoutRule(schema *apiextensionsv1.JSONSchemaProps, message string) (out *apiextensionsv1.JSONSchemaProps, ok bool) {
	out = schema.DeepCopy()
	named := func(r apiextensionsv1.ValidationRule) bool { return strings.HasPrefix(r.Message, message) }
	spec := out.Properties["spec"]
	before := len(out.XValidations) + len(spec.XValidations)
	out.XValidations, spec.XValidations = slices.DeleteFunc(out.XValidations, named), slices.DeleteFunc(spec.XValidations, named)
	out.Properties["spec"] = spec
	return out, len(out.XValidations)+len(spec.XValidations) < before
}

// microserviceFromBefore returns a Microservice, in a separate API group, that was created before the server had the rule whose message has the given prefix, and
// that breaks this rule.
func microserviceFromBefore(t *testing.T, group, message, spec string) *unstructured.Unstructured {
	t.Helper()
	definition := definitions(t)["Microservice"].DeepCopy()
	definition.Spec.Group, definition.Name = group, "microservices."+group
	definition.Spec.Names.ShortNames, definition.Spec.Names.Categories = nil, nil
	complete := schemaOf(definition).DeepCopy()
	earlier, ok := withoutRule(complete, message)
	if !ok {
		t.Fatal("the rule does not exist")
	}
	*schemaOf(definition) = *earlier
	scheme := runtime.NewScheme()
	if err := apiextensionsv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	server, err := client.New(env.Config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Create(t.Context(), definition); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Delete(context.WithoutCancel(t.Context()), definition); err != nil {
			t.Error(err)
		}
	})
	namespace := env.Namespace(t)
	text := "apiVersion: " + group + "/v1alpha1\nspec: " + spec
	eventually := func(what string, check func() error) {
		t.Helper()
		var last error
		if err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, 2*time.Minute, true, func(context.Context) (bool, error) {
			last = check()
			return last == nil, nil
		}); err != nil {
			t.Fatalf("%s: %v", what, last)
		}
	}
	ms := object(t, "Microservice", namespace, text)
	eventually("create it without the rule", func() error { return env.Client.Create(t.Context(), ms) })
	eventually("install the rule", func() error {
		live := &apiextensionsv1.CustomResourceDefinition{}
		if err := server.Get(t.Context(), client.ObjectKeyFromObject(definition), live); err != nil {
			return err
		}
		*schemaOf(live) = *complete
		return server.Update(t.Context(), live)
	})
	eventually("wait until the rule applies", func() error {
		other := object(t, "Microservice", namespace, text)
		other.SetName("other")
		if err := env.Client.Create(t.Context(), other, client.DryRunAll); err == nil {
			return errors.New("another Microservice is accepted")
		}
		return nil
	})
	return ms
}
