package gitops

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/heighliner/heighliner/test/apiserver"
)

// overlay is a kustomization that changes the names of its objects.
const overlay = `
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
namePrefix: eu-
resources: [objects.yaml]
configurations: [names.yaml, images.yaml]
images: [{name: r.example/shop, newName: mirror.example/shop}]
configMapGenerator: [{name: settings, literals: [a=b]}]
secretGenerator: [{name: keys, literals: [a=b]}]
generatorOptions: {disableNameSuffixHash: true}
`

// named are objects that refer to each other.
const named = `
apiVersion: hlnr.io/v1alpha1
kind: GitHubRepository
metadata: {name: code}
spec: {owner: acme, repo: shop, credentialsSecretRef: {name: keys}, webhookSecretRef: {name: keys}}
---
apiVersion: hlnr.io/v1alpha1
kind: ImagePolicy
metadata: {name: images}
spec:
  image: r.example/shop
  imagePullSecrets: [{name: keys}]
  certSecretRef: {name: keys}
  verify: {cosign: {keySecretRef: {name: keys}}}
  source: {github: {repositoryRef: {name: code}, tags: {}}}
---
apiVersion: hlnr.io/v1alpha1
kind: AnalysisTemplate
metadata: {name: measured}
spec:
  provider: {prometheus: {address: "http://prometheus:9090", secretRef: {name: keys}, caSecretRef: {name: keys}}}
  metrics:
  - {name: web, web: {url: "https://metrics.example.com", value: "body.a", secretRef: {name: keys}, caSecretRef: {name: keys}}, thresholdRange: {min: 1}}
  - {name: aws, web: {url: "https://metrics.example.com", value: "body.a", aws: {region: a, secretRef: {name: keys}}}, thresholdRange: {min: 1}}
  - {name: google, web: {url: "https://metrics.example.com", value: "body.a", google: {secretRef: {name: keys}}}, thresholdRange: {min: 1}}
  - {name: header, web: {url: "https://metrics.example.com", value: "body.a", headers: [{name: X-Key, secretKeyRef: {name: keys, key: a}}]}, thresholdRange: {min: 1}}
---
apiVersion: hlnr.io/v1alpha1
kind: Microservice
metadata: {name: cart}
spec:
  imagePolicyRef: {name: images}
  updateStrategy:
    canary: {steps: [{weight: 10}], analysisTemplateRef: {name: measured}}
  template: {spec: {containers: [{name: cart, image: r.example/shop}]}}
---
apiVersion: hlnr.io/v1alpha1
kind: Microservice
metadata: {name: shop}
spec:
  imagePolicyRef: {name: images}
  updateStrategy:
    canary:
      steps: [{weight: 10}]
      hooks: [{name: test, type: PreRollout, url: "https://hooks.example.com", secretRef: {name: keys}, caSecretRef: {name: keys}}]
      analysis:
        interval: 1m
        count: 1
        provider: {prometheus: {address: "http://prometheus:9090", secretRef: {name: keys}, caSecretRef: {name: keys}}}
        metrics:
        - {name: web, web: {url: "https://metrics.example.com", value: "body.a", secretRef: {name: keys}, caSecretRef: {name: keys}}, thresholdRange: {min: 1}}
        - {name: aws, web: {url: "https://metrics.example.com", value: "body.a", aws: {region: a, secretRef: {name: keys}}}, thresholdRange: {min: 1}}
        - {name: google, web: {url: "https://metrics.example.com", value: "body.a", google: {secretRef: {name: keys}}}, thresholdRange: {min: 1}}
        - {name: header, web: {url: "https://metrics.example.com", value: "body.a", headers: [{name: X-Key, secretKeyRef: {name: keys, key: a}}]}, thresholdRange: {min: 1}}
  template:
    spec:
      imagePullSecrets: [{name: keys}]
      volumes:
      - {name: a, secret: {secretName: keys}}
      - {name: b, configMap: {name: settings}}
      - {name: c, projected: {sources: [{secret: {name: keys}}, {configMap: {name: settings}}]}}
      containers:
      - name: shop
        envFrom: [{secretRef: {name: keys}}, {configMapRef: {name: settings}}]
        env:
        - {name: A, valueFrom: {secretKeyRef: {name: keys, key: a}}}
        - {name: B, valueFrom: {configMapKeyRef: {name: settings, key: a}}}
---
apiVersion: hlnr.io/v1alpha1
kind: NotificationPolicy
metadata: {name: team}
spec:
  receivers:
  - {name: chat, type: Slack, secretRef: {name: keys}}
  - {name: bus, type: CloudEvents, secretRef: {name: keys}, caSecretRef: {name: keys}}
  - {name: commits, type: GitHubStatus, repositoryRef: {name: code}}
---
apiVersion: hlnr.io/v1alpha1
kind: NetworkPolicy
metadata: {name: traffic}
spec: {microserviceRef: {name: shop}, ports: [{name: http, port: 80}]}
`

// TestKustomize checks that kustomize changes the image of an ImagePolicy, and the names in the references between
// the objects in [named]. It also checks that the API server accepts the result.
func TestKustomize(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	files := map[string]string{"kustomization.yaml": overlay, "objects.yaml": named}
	for _, name := range []string{"names.yaml", "images.yaml"} {
		text, err := os.ReadFile(filepath.Join(apiserver.Root(t), "config", "gitops", "kustomize", name))
		if err != nil {
			t.Fatal(err)
		}
		files[name] = string(text)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, err := cluster.Kubectl(t, "", "kustomize", dir)
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, old := range []string{"name: keys", "secretName: keys", "name: settings", "name: images", "name: measured", "name: code", "image: r.example"} {
		for line := range strings.Lines(out) {
			if strings.HasSuffix(strings.TrimSpace(line), old) {
				t.Errorf("%q is not changed", strings.TrimSpace(line))
			}
		}
	}
	// The names of the container and of the hook do not change.
	if strings.Count(out, "name: shop\n") != 1 || !strings.Contains(out, "image: mirror.example/shop") {
		t.Errorf("changed:\n%s", out)
	}
	if got, err := cluster.Kubectl(t, out, "apply", "-n", cluster.Namespace(t), "--server-side", "-f", "-"); err != nil {
		t.Errorf("%v: %s", err, got)
	}
}
