package gitops

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"github.com/heighliner/heighliner/test/apiserver"
)

// otherNamed are objects that refer to cluster-scoped objects, and to objects of kinds that [named] does not contain.
const otherNamed = `
apiVersion: hlnr.io/v1alpha1
kind: ClusterAnalysisTemplate
metadata: {name: http}
spec: {metrics: [{name: a}]}
---
apiVersion: hlnr.io/v1alpha1
kind: Microservice
metadata: {name: cart}
spec:
  imagePolicyRef: {name: images}
  updateStrategy: {canary: {steps: [{weight: 10}], analysisTemplateRef: {kind: ClusterAnalysisTemplate, name: http}}}
  template: {spec: {volumes: [{name: d, persistentVolumeClaim: {claimName: data}}], containers: [{name: cart}]}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: hlnr.io/v1alpha1
kind: ImagePolicy
metadata: {name: images}
spec: {image: r.example/shop}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: report, labels: {hlnr.io/follow: cart}}
spec: {schedule: "0 3 * * *", jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: cart, image: cart}]}}}}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: web}
spec: {hostnames: [a.example.com]}
---
apiVersion: hlnr.io/v1alpha1
kind: NetworkPolicy
metadata: {name: traffic}
spec: {microserviceRef: {name: cart}, ports: [{name: web80, port: 80}], provider: {routeRef: {name: web}}}
`

// TestNamesOfOtherKinds checks that kustomize changes the names of ClusterAnalysisTemplates, claims, and
// routes in references, and the name of the Microservice in a CronJob's label.
func TestNamesOfOtherKinds(t *testing.T) {
	t.Parallel()
	fs := filesys.MakeFsInMemory()
	files := map[string]string{
		"objects.yaml":       otherNamed,
		"kustomization.yaml": "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nnamePrefix: eu-\nresources: [objects.yaml]\nconfigurations: [names.yaml, images.yaml]\n",
	}
	for _, name := range []string{"names.yaml", "images.yaml"} {
		text, err := os.ReadFile(filepath.Join(apiserver.Root(t), "config", "gitops", "kustomize", name))
		if err != nil {
			t.Fatal(err)
		}
		files[name] = string(text)
	}
	for name, text := range files {
		if err := fs.WriteFile("/k/"+name, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(fs, "/k")
	if err != nil {
		t.Fatal(err)
	}
	text, err := built.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	out := string(text)
	for want, times := range map[string]int{"name: eu-http\n": 2, "name: eu-web\n": 2, "name: eu-images\n": 2, "name: eu-cart\n": 2, "hlnr.io/follow: eu-cart\n": 1, "claimName: eu-data\n": 1} {
		if got := strings.Count(out, want); got != times {
			t.Errorf("%d times %q, want %d", got, want, times)
		}
	}
	if t.Failed() {
		t.Log(out)
	}
}
