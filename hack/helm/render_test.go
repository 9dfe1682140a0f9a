package helm

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	release "helm.sh/helm/v4/pkg/release/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// root and chartPath are the paths of the repository and of the chart, relative to this package.
const (
	root      = "../.."
	chartPath = root + "/charts/heighliner"
)

// system is the namespace of the release.
const system = "heighliner-system"

// image is the image of the manager in all variants.
var image = map[string]any{"repository": "registry.example.com/heighliner", "tag": "v0.1.0"}

// rendered renders the chart. It returns an error if the chart rejects the values.
func rendered(t *testing.T, values map[string]any) (*release.Release, error) {
	t.Helper()
	chart, err := loader.LoadDir(chartPath)
	if err != nil {
		t.Fatal(err)
	}
	result, err := dryRun(system).Run(chart, values)
	if err != nil {
		return nil, err
	}
	return result.(*release.Release), nil
}

// dryRun returns an install action that writes nothing.
func dryRun(namespace string) *action.Install {
	install := action.NewInstall(action.NewConfiguration())
	install.DryRunStrategy, install.ReleaseName, install.Namespace = action.DryRunClient, "heighliner", namespace
	install.KubeVersion = &common.KubeVersion{Version: "v1.35.0", Major: "1", Minor: "35"}
	return install
}

// object is an object of a manifest, decoded from JSON.
type object map[string]any

// key returns the kind, namespace and name of an object.
func (o object) key() string {
	m := o["metadata"].(map[string]any)
	return strings.TrimSpace(fmt.Sprintf("%s %v %v", o["kind"], m["namespace"], m["name"]))
}

// objects returns the objects of a manifest by key.
func objects(t *testing.T, manifest string) map[string]object {
	t.Helper()
	found := map[string]object{}
	for document := range strings.SplitSeq("\n"+manifest, "\n---\n") {
		var o object
		if err := yaml.UnmarshalStrict([]byte(document), &o); err != nil {
			t.Fatalf("%v in:\n%s", err, document)
		}
		if o == nil {
			continue
		}
		if _, ok := found[o.key()]; ok {
			t.Errorf("%s is rendered twice", o.key())
		}
		found[o.key()] = o
	}
	return found
}

// chartObjects returns the objects of the chart.
func chartObjects(t *testing.T, values map[string]any) map[string]object {
	t.Helper()
	r, err := rendered(t, with(values))
	if err != nil {
		t.Fatal(err)
	}
	return objects(t, r.Manifest)
}

// with returns a copy of values. If the values of the image are missing, it adds them to the copy.
func with(values map[string]any) map[string]any {
	values = maps.Clone(values)
	if values == nil {
		values = map[string]any{}
	}
	if _, ok := values["image"]; !ok {
		values["image"] = maps.Clone(image)
	}
	return values
}

// kustomized returns the objects of a kustomization. The paths in this kustomization begin with config.
func kustomized(t *testing.T, kustomization map[string]any) map[string]object {
	t.Helper()
	dir := t.TempDir()
	absolute, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	to, err := filepath.Rel(dir, absolute)
	if err != nil {
		t.Fatal(err)
	}
	kustomization = maps.Clone(kustomization)
	for _, field := range []string{"resources", "components"} {
		var paths []string
		for _, path := range strings.Fields(fmt.Sprint(kustomization[field])) {
			if path = strings.Trim(path, "[]<>"); path != "nil" && path != "" {
				paths = append(paths, filepath.Join(to, path))
			}
		}
		kustomization[field] = paths
	}
	kustomization["images"] = []any{map[string]any{"name": "heighliner/heighliner", "newName": image["repository"], "newTag": image["tag"]}}
	text, err := yaml.Marshal(kustomization)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := built.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	return objects(t, string(manifest))
}

// chartLabels are the labels that the chart, but not kustomize, sets on all objects.
var chartLabels = []string{
	"app.kubernetes.io/instance", "app.kubernetes.io/managed-by", "app.kubernetes.io/version", "helm.sh/chart",
	"app.kubernetes.io/name", // kustomize also sets this label on some objects
}

// onlyChart checks that each object has the labels and annotations that only the chart sets, and
// removes them from the objects.
func onlyChart(t *testing.T, all, others map[string]object) {
	t.Helper()
	for key, o := range all {
		m := o["metadata"].(map[string]any)
		labels, _ := m["labels"].(map[string]any)
		theirs := map[string]any{}
		if other := others[key]; other != nil {
			theirs, _ = other["metadata"].(map[string]any)["labels"].(map[string]any)
		}
		for _, label := range chartLabels {
			if labels[label] == nil {
				t.Errorf("%s has no label %s", key, label)
			}
			if theirs[label] == nil {
				delete(labels, label)
			}
		}
		if len(labels) == 0 {
			delete(m, "labels")
		}
		if o["kind"] == "CustomResourceDefinition" {
			annotations := m["annotations"].(map[string]any)
			if annotations["helm.sh/resource-policy"] != "keep" {
				t.Errorf("%s lacks the annotation that keeps it", key)
			}
			delete(annotations, "helm.sh/resource-policy")
		}
	}
}

// folded removes empty lines from expressions. Kustomize writes some empty lines into folded scalars, and CEL ignores empty lines.
func folded(value any) any {
	switch x := value.(type) {
	case map[string]any:
		for key := range x {
			x[key] = folded(x[key])
		}
	case []any:
		for i := range x {
			x[i] = folded(x[i])
		}
	case string:
		for strings.Contains(x, "\n\n") {
			x = strings.ReplaceAll(x, "\n\n", "\n")
		}
		return x
	}
	return value
}

// addArgs returns a patch that adds arguments to the board's Deployment, as an overlay does.
func addArgs(args ...string) map[string]any {
	var patch strings.Builder
	for _, arg := range args {
		fmt.Fprintf(&patch, "- op: add\n  path: /spec/template/spec/containers/0/args/-\n  value: %q\n", arg)
	}
	return map[string]any{"target": map[string]any{"kind": "Deployment", "name": "heighliner-web"}, "patch": patch.String()}
}

// noImpersonation is a patch that removes the board's permission to impersonate users.
var noImpersonation = map[string]any{"target": map[string]any{"kind": "ClusterRole", "name": "heighliner-web-impersonate"}, "patch": "- op: replace\n  path: /rules\n  value: []\n"}

// TestSameAsKustomize tests that the chart and kustomize render the same objects, except for the labels that only the
// chart sets, the annotation that keeps CRDs, empty lines in CEL, and the Namespace, which Helm must find or create before it
// installs the chart.
func TestSameAsKustomize(t *testing.T) {
	t.Parallel()
	install := map[string]any{"resources": []string{"config/default"}}
	for name, test := range map[string]struct {
		values map[string]any
		// kustomizations are built separately.
		kustomizations []map[string]any
	}{
		"default": {nil, []map[string]any{install}},
		"components/secrets-by-namespace": {
			map[string]any{"secrets": map[string]any{"access": "Granted"}},
			[]map[string]any{{"resources": []string{"config/default"}, "components": []string{"config/components/secrets-by-namespace"}}},
		},
		"components/read-secrets": {
			map[string]any{"secrets": map[string]any{"read": []any{"shop"}}},
			[]map[string]any{install, {"namespace": "shop", "components": []string{"config/components/read-secrets"}}},
		},
		"components/shards": {
			map[string]any{"replicas": 3, "shards": 3},
			[]map[string]any{{"resources": []string{"config/default"}, "components": []string{"config/components/shards"}}},
		},
		"components/alerts": {
			map[string]any{"metrics": map[string]any{"alerts": map[string]any{"enabled": true}}},
			[]map[string]any{{"resources": []string{"config/default"}, "components": []string{"config/components/alerts"}}},
		},
		"components/dashboards": {
			map[string]any{"metrics": map[string]any{"dashboards": map[string]any{"enabled": true}}},
			[]map[string]any{{"resources": []string{"config/default"}, "components": []string{"config/components/dashboards"}}},
		},
		"components/web": {
			map[string]any{"web": map[string]any{"enabled": true, "url": "https://board.example.com", "oidc": map[string]any{"issuerURL": "https://id.example.com", "clientID": "heighliner"}}},
			[]map[string]any{{"resources": []string{"config/default"}, "components": []string{"config/components/web"}, "patches": []any{addArgs("--url=https://board.example.com", "--oidc-issuer-url=https://id.example.com", "--oidc-client-id=heighliner")}}},
		},
		"components/web that only reads": {
			map[string]any{"web": behindProxy},
			[]map[string]any{{"resources": []string{"config/default"}, "components": []string{"config/components/web"}, "patches": []any{
				addArgs("--url=https://board.example.com:8443/", "--read-only", "--tls-cert-file=/etc/heighliner-web/tls.crt", "--tls-private-key-file=/etc/heighliner-web/tls.key",
					"--requestheader-client-ca-file=/etc/heighliner-web/ca.crt", "--requestheader-allowed-names=oauth2-proxy", "--requestheader-username-headers=X-User",
					"--requestheader-group-headers=X-Group", "--requestheader-group-separator=|"),
				noImpersonation,
			}}},
		},
		"components/secrets": {
			map[string]any{"secrets": map[string]any{"track": []any{"shop", "pay"}}},
			[]map[string]any{install, {"namespace": "shop", "components": []string{"config/components/secrets"}}, {"namespace": "pay", "components": []string{"config/components/secrets"}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := map[string]object{}
			for _, k := range test.kustomizations {
				maps.Copy(want, kustomized(t, k))
			}
			const namespace = "Namespace <nil> " + system
			if want[namespace] == nil {
				t.Errorf("kustomize does not render a Namespace")
			}
			delete(want, namespace)
			got := chartObjects(t, test.values)
			onlyChart(t, got, want)
			for _, all := range []map[string]object{want, got} {
				for _, o := range all {
					if o["kind"] == "ValidatingAdmissionPolicy" {
						o["spec"] = folded(o["spec"])
					}
				}
			}
			if diff := cmp.Diff(slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got))); diff != "" || len(want) < 20 {
				t.Errorf("objects (-kustomize +chart):\n%s", diff)
			}
			for key := range want {
				if !reflect.DeepEqual(want[key], got[key]) { // A diff of CRDs takes minutes.
					diff := cmp.Diff(want[key], got[key])
					t.Errorf("%s (-kustomize +chart):\n%s", key, diff)
				}
			}
		})
	}
}

// TestOtherNamespace tests that a release in another namespace uses the name of this namespace wherever kustomize uses
// heighliner-system, and in the commands of its notes.
func TestOtherNamespace(t *testing.T) {
	t.Parallel()
	chart, err := loader.LoadDir(chartPath)
	if err != nil {
		t.Fatal(err)
	}
	result, err := dryRun("platform").Run(chart, with(map[string]any{"secrets": map[string]any{"track": []any{"shop"}}}))
	if err != nil {
		t.Fatal(err)
	}
	r := result.(*release.Release)
	if strings.Contains(r.Manifest+r.Info.Notes, system) {
		t.Error("the manifest contains heighliner-system")
	}
	if want := "hlnr doctor -A --manager-namespace platform\n"; !strings.Contains(r.Info.Notes, want) {
		t.Errorf("the notes do not contain %q:\n%s", want, r.Info.Notes)
	}
	for _, want := range []string{"system:serviceaccount:platform:heighliner'", "namespace: platform"} {
		if !strings.Contains(r.Manifest, want) {
			t.Errorf("the manifest does not contain %q", want)
		}
	}
}

// TestRefusedValues tests that the chart rejects unknown and invalid values with an error that contains the expected text.
func TestRefusedValues(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		values map[string]any
		want   string
	}{
		"unknown value":              {map[string]any{"replicaCount": 2}, "replicaCount"},
		"unknown flag":               {map[string]any{"flags": map[string]any{"worker": 2}}, "worker"},
		"unknown value in image":     {map[string]any{"image": map[string]any{"name": "x"}}, "name"},
		"flag set by the chart":      {map[string]any{"flags": map[string]any{"namespace": "x"}}, "namespace"},
		"wrong type":                 {map[string]any{"replicas": "two"}, "replicas"},
		"wrong digest":               {map[string]any{"image": map[string]any{"digest": "sha256:12"}}, "digest"},
		"wrong access":               {map[string]any{"secrets": map[string]any{"access": "None"}}, "access"},
		"wrong namespace":            {map[string]any{"namespaces": []any{"Shop"}}, "namespaces"},
		"board without URL":          {map[string]any{"web": map[string]any{"enabled": true}}, "web.url is required"},
		"board over HTTP":            {map[string]any{"web": map[string]any{"url": "http://board.example.com"}}, "url"},
		"anonymous board":            {map[string]any{"web": map[string]any{"enabled": true, "url": "https://board.example.com"}}, "anonymous users are not supported"},
		"board, two sources":         {map[string]any{"web": map[string]any{"enabled": true, "url": "https://board.example.com", "oidc": map[string]any{"issuerURL": "https://id.example.com", "clientID": "x"}, "requestHeader": map[string]any{"enabled": true}}}, "anonymous users are not supported"},
		"board, no client":           {map[string]any{"web": map[string]any{"enabled": true, "url": "https://board.example.com", "oidc": map[string]any{"issuerURL": "https://id.example.com"}}}, "web.oidc.clientID is required"},
		"board, no TLS":              {map[string]any{"web": map[string]any{"enabled": true, "url": "https://board.example.com", "requestHeader": map[string]any{"enabled": true}}}, "web.requestHeader needs the keys"},
		"board, tls.crt only":        {map[string]any{"web": map[string]any{"enabled": true, "url": "https://board.example.com", "existingSecret": map[string]any{"keys": []any{"tls.crt"}}}}, "list both tls.crt and tls.key, or neither"},
		"unknown key":                {map[string]any{"web": map[string]any{"existingSecret": map[string]any{"keys": []any{"password"}}}}, "keys"},
		"unread Secrets":             {map[string]any{"namespaces": []any{"shop"}, "secrets": map[string]any{"read": []any{"shop", "bank"}}}, `secrets.read has "bank", which is not in namespaces`},
		"untracked Secrets":          {map[string]any{"namespaces": []any{"shop"}, "secrets": map[string]any{"track": []any{"bank"}}}, `secrets.track has "bank", which is not in namespaces`},
		"monitor without metrics":    {map[string]any{"metrics": map[string]any{"enabled": false, "serviceMonitor": map[string]any{"enabled": true}}}, "metrics.serviceMonitor.enabled needs metrics.enabled"},
		"dashboards without metrics": {map[string]any{"metrics": map[string]any{"enabled": false, "dashboards": map[string]any{"enabled": true}}}, "metrics.dashboards.enabled needs metrics.enabled"},
		"alerts without metrics":     {map[string]any{"metrics": map[string]any{"enabled": false, "alerts": map[string]any{"enabled": true}}}, "metrics.alerts.enabled needs metrics.enabled"},
		"image is not named":         {map[string]any{"image": map[string]any{"tag": "v1"}}, "image.repository is required"},
	} {
		if _, err := rendered(t, with(test.values)); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want an error with %q", name, err, test.want)
		}
	}
}

// TestLint tests that helm lint reports only the missing icon.
func TestLint(t *testing.T) {
	t.Parallel()
	version, err := common.ParseKubeVersion("v1.35.0")
	if err != nil {
		t.Fatal(err)
	}
	for name, values := range variants {
		linter := lint.RunAll(chartPath, with(values), system, lint.WithKubeVersion(version))
		for _, m := range linter.Messages {
			if m.Severity > support.InfoSev {
				t.Errorf("%s: %s", name, m.Error())
			}
		}
	}
}
