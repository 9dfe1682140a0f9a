package helm

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// These are values for a board with an identity provider, and for boards behind a proxy.
var (
	board = map[string]any{
		"enabled": true, "url": "https://board.example.com", "title": "production", "groups": []any{"oidc:shop", "oidc:ops"}, "sessionDuration": "30m",
		"existingSecret": map[string]any{"name": "board", "keys": []any{"client-secret", "session-key", "ca.crt"}},
		"oidc":           map[string]any{"issuerURL": "https://id.example.com", "clientID": "heighliner", "scopes": []any{"email"}, "usernameClaim": "email", "usernamePrefix": "-", "groupsClaim": "roles", "groupsPrefix": "team:"},
		"httpRoute":      map[string]any{"parentRefs": []any{map[string]any{"name": "public", "namespace": "infra"}}},
		"networkPolicy":  map[string]any{"egress": []any{map[string]any{"ports": []any{map[string]any{"port": 443}}}}},
		"resources":      map[string]any{"requests": map[string]any{"memory": "128Mi"}},
		"env":            []any{map[string]any{"name": "HTTPS_PROXY", "value": "http://proxy.example.com:3128"}},
	}
	behindProxy = map[string]any{
		"enabled": true, "url": "https://board.example.com:8443/", "readOnly": true,
		"existingSecret": map[string]any{"keys": []any{"tls.crt", "tls.key", "ca.crt"}},
		"requestHeader":  map[string]any{"enabled": true, "allowedNames": []any{"oauth2-proxy"}, "usernameHeaders": []any{"X-User"}, "groupHeaders": []any{"X-Group"}, "groupSeparator": "|"},
	}
	boardObjects = []string{
		"ServiceAccount heighliner-system heighliner-web", "ClusterRole <nil> heighliner-web", "ClusterRoleBinding <nil> heighliner-web",
		"ClusterRole <nil> heighliner-web-impersonate", "ClusterRoleBinding <nil> heighliner-web-impersonate", "Deployment heighliner-system heighliner-web",
		"Service heighliner-system heighliner-web", "NetworkPolicy heighliner-system heighliner-web",
	}
)

// variants are values for which the chart renders different objects.
var variants = map[string]map[string]any{
	"default":           {},
	"high availability": {"replicas": 2},
	"shards":            {"replicas": 3, "shards": 3},
	"namespaces":        {"namespaces": []any{"shop", "infra"}},
	"granted secrets":   {"namespaces": []any{"shop", "infra"}, "secrets": map[string]any{"access": "Granted", "read": []any{"shop"}, "track": []any{"shop"}}},
	"no receiver":       {"webhooks": map[string]any{"enabled": false}, "metrics": map[string]any{"enabled": false}, "crds": map[string]any{"install": false}},
	"board":             {"web": board},
	"everything": {
		"replicas": 3, "labels": map[string]any{"team": "platform"}, "podLabels": map[string]any{"team": "platform"}, "podAnnotations": map[string]any{"a": "b"},
		"serviceAccountAnnotations": map[string]any{"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/heighliner"},
		"imagePullSecrets":          []any{map[string]any{"name": "registry"}}, "priorityClassName": "system-cluster-critical",
		"env":          []any{map[string]any{"name": "HTTPS_PROXY", "value": "http://proxy.example.com:3128"}, map[string]any{"name": "NO_PROXY", "value": ".svc"}},
		"nodeSelector": map[string]any{"kubernetes.io/os": "linux"}, "tolerations": []any{map[string]any{"operator": "Exists"}},
		"affinity": map[string]any{"nodeAffinity": map[string]any{}},
		"flags":    map[string]any{"workers": 16, "outbound-allow": []any{"127.0.0.1:5000", "10.0.0.0/8"}, "zap-devel": true, "registry-requests-per-second": 0.5},
		"webhooks": map[string]any{"httpRoute": map[string]any{"parentRefs": []any{map[string]any{"name": "public", "namespace": "infra"}}, "hostnames": []any{"hooks.example.com"}}},
		"metrics": map[string]any{
			"readers":        []any{map[string]any{"name": "prometheus", "namespace": "monitoring"}},
			"dashboards":     map[string]any{"enabled": true},
			"alerts":         map[string]any{"enabled": true, "labels": map[string]any{"release": "prometheus"}},
			"serviceMonitor": map[string]any{"enabled": true, "interval": "30s", "labels": map[string]any{"release": "prometheus"}},
		},
		"firewall": map[string]any{
			"enabled": true, "webhooksFrom": []any{map[string]any{"namespaceSelector": map[string]any{}}},
			"egress": []any{map[string]any{"ports": []any{map[string]any{"port": 443}}}},
		},
	},
}

// field returns an object's field at a path, or nil if there is no such field.
func field(o object, path string) any {
	var at any = map[string]any(o)
	for step := range strings.SplitSeq(path, "/") {
		switch x := at.(type) {
		case map[string]any:
			at = x[step]
		case []any:
			var i int
			if _, err := fmt.Sscan(step, &i); err != nil || i >= len(x) {
				return nil
			}
			at = x[i]
		default:
			return nil
		}
	}
	return at
}

// TestVariants checks which objects a variant adds to the default objects, and which it removes.
func TestVariants(t *testing.T) {
	t.Parallel()
	standard := chartObjects(t, variants["default"])
	role := func(namespace string) []string {
		return []string{"Role " + namespace + " heighliner-manager", "RoleBinding " + namespace + " heighliner-manager"}
	}
	elsewhere := []string{
		"Role heighliner-system heighliner-domains", "RoleBinding heighliner-system heighliner-domains", "Role default heighliner-events", "RoleBinding default heighliner-events",
	}
	for name, want := range map[string]struct{ more, fewer []string }{
		"default":           {},
		"high availability": {more: []string{"PodDisruptionBudget heighliner-system heighliner"}},
		"namespaces":        {more: slices.Concat(role("shop"), role("infra"), elsewhere, []string{"RoleBinding shop heighliner-read-secrets", "RoleBinding infra heighliner-read-secrets"})},
		"granted secrets": {more: slices.Concat(role("shop"), role("infra"), elsewhere, []string{
			"RoleBinding shop heighliner-read-secrets", "Role shop heighliner-secrets", "RoleBinding shop heighliner-secrets",
		})},
		"board": {more: append(slices.Clone(boardObjects), "HTTPRoute heighliner-system heighliner-web")},
		"everything": {more: []string{
			"PodDisruptionBudget heighliner-system heighliner", "HTTPRoute heighliner-system heighliner-webhooks", "ServiceMonitor heighliner-system heighliner",
			"PrometheusRule heighliner-system heighliner", "ConfigMap heighliner-system heighliner-dashboard-discovery", "ConfigMap heighliner-system heighliner-dashboard-fleet",
			"ConfigMap heighliner-system heighliner-dashboard-manager", "ConfigMap heighliner-system heighliner-dashboard-service",
			"NetworkPolicy heighliner-system heighliner", "ClusterRoleBinding <nil> heighliner-metrics-reader",
		}},
		"no receiver": {fewer: []string{
			"Service heighliner-system heighliner-webhooks", "Service heighliner-system heighliner-metrics", "ClusterRole <nil> heighliner-metrics-auth",
			"ClusterRoleBinding <nil> heighliner-metrics-auth", "ClusterRole <nil> heighliner-metrics-reader",
		}},
	} {
		if name == "no receiver" {
			for _, plural := range kinds(t) {
				want.fewer = append(want.fewer, "CustomResourceDefinition <nil> "+plural+".hlnr.io")
			}
		}
		got := chartObjects(t, variants[name])
		expected := map[string]bool{}
		for key := range standard {
			expected[key] = true
		}
		for _, key := range want.more {
			expected[key] = true
		}
		for _, key := range want.fewer {
			if !expected[key] {
				t.Errorf("%s: the default does not contain %s", name, key)
			}
			delete(expected, key)
		}
		have := map[string]bool{}
		for key := range got {
			have[key] = true
		}
		if diff := cmp.Diff(expected, have); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestFields tests that values are rendered into the intended fields.
func TestFields(t *testing.T) {
	t.Parallel()
	all := chartObjects(t, variants["everything"])
	deployment := all["Deployment heighliner-system heighliner"]
	for path, want := range map[string]any{
		"spec/replicas":                                              3.0,
		"metadata/labels/team":                                       "platform",
		"spec/template/metadata/labels/team":                         "platform",
		"spec/template/metadata/annotations/a":                       "b",
		"spec/template/spec/imagePullSecrets/0":                      map[string]any{"name": "registry"},
		"spec/template/spec/priorityClassName":                       "system-cluster-critical",
		"spec/template/spec/tolerations/0/operator":                  "Exists",
		"spec/template/spec/nodeSelector":                            map[string]any{"kubernetes.io/os": "linux"},
		"spec/template/spec/containers/0/env/1":                      map[string]any{"name": "HTTPS_PROXY", "value": "http://proxy.example.com:3128"},
		"spec/template/spec/topologySpreadConstraints/0/topologyKey": "kubernetes.io/hostname",
		"spec/template/spec/topologySpreadConstraints/1/topologyKey": "topology.kubernetes.io/zone",
		"spec/template/spec/containers/0/args": []any{
			"--leader-elect", "--leader-election-namespace=$(NAMESPACE)", "--health-probe-bind-address=:8081", "--metrics-bind-address=:8443", "--webhook-bind-address=:8082",
			"--outbound-allow=127.0.0.1:5000,10.0.0.0/8", "--registry-requests-per-second=0.5", "--workers=16", "--zap-devel=true",
		},
	} {
		if diff := cmp.Diff(want, field(deployment, path)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
	for key, o := range all {
		if field(o, "metadata/labels/team") != "platform" {
			t.Errorf("%s does not have the label that all objects should have", key)
		}
	}
	namespaced := chartObjects(t, variants["granted secrets"])["Deployment heighliner-system heighliner"]
	if args := fmt.Sprint(field(namespaced, "spec/template/spec/containers/0/args")); !strings.Contains(args, "--namespace=shop,infra") {
		t.Errorf("the arguments of the manager lack the namespaces: %s", args)
	}
	for _, name := range []string{"namespaces", "granted secrets"} {
		if diff := cmp.Diff([]any{}, field(chartObjects(t, variants[name])["ClusterRoleBinding <nil> heighliner-read-secrets"], "subjects")); diff != "" {
			t.Errorf("%s: subjects that may read all Secrets (-want +got):\n%s", name, diff)
		}
	}
	for shards, want := range map[int]string{0: "--timeout=60s", 8: "--timeout=140s"} { // A single manager needs more than 70 seconds to take 8 shards.
		r, err := rendered(t, with(map[string]any{"shards": shards}))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(r.Hooks[0].Manifest, want) {
			t.Errorf("with %d shards, helm test lacks %s:\n%s", shards, want, r.Hooks[0].Manifest)
		}
	}
	digest := "sha256:" + strings.Repeat("0", 64)
	byDigest := chartObjects(t, map[string]any{"image": map[string]any{"repository": "localhost:5000/heighliner", "digest": digest, "tag": "v1"}})
	if got := field(byDigest["Deployment heighliner-system heighliner"], "spec/template/spec/containers/0/image"); got != "localhost:5000/heighliner@"+digest {
		t.Errorf("the image is %v", got)
	}
}

// TestBoard tests that the board's values are rendered into its flags, its role, and its NetworkPolicy.
func TestBoard(t *testing.T) {
	t.Parallel()
	all := chartObjects(t, map[string]any{"web": board, "nodeSelector": map[string]any{"kubernetes.io/os": "linux"}})
	const container = "spec/template/spec/containers/0/"
	for key, fields := range map[string]map[string]any{
		"Deployment heighliner-system heighliner-web": {
			container + "args": []any{
				"web", "--bind-address=:8080", "--health-probe-bind-address=:8081", "--url=https://board.example.com", "--title=production", "--groups=oidc:shop,oidc:ops", "--session-duration=30m",
				"--session-key-file=/etc/heighliner-web/session-key", "--oidc-issuer-url=https://id.example.com", "--oidc-client-id=heighliner",
				"--oidc-client-secret-file=/etc/heighliner-web/client-secret", "--oidc-ca-file=/etc/heighliner-web/ca.crt", "--oidc-scopes=email", "--oidc-username-claim=email",
				"--oidc-username-prefix=-", "--oidc-groups-claim=roles", "--oidc-groups-prefix=team:",
			},
			container + "image": "registry.example.com/heighliner:v0.1.0", container + "resources/requests/memory": "128Mi",
			container + "env": []any{map[string]any{"name": "HTTPS_PROXY", "value": "http://proxy.example.com:3128"}},
			"spec/template/spec/volumes/0/secret/secretName": "board", "spec/template/spec/nodeSelector": map[string]any{"kubernetes.io/os": "linux"},
		},
		"ClusterRole <nil> heighliner-web-impersonate":   {"rules/0/resourceNames": nil, "rules/1/resourceNames": []any{"oidc:shop", "oidc:ops"}},
		"NetworkPolicy heighliner-system heighliner-web": {"spec/egress": []any{map[string]any{"ports": []any{map[string]any{"port": 443.0}}}}},
		"HTTPRoute heighliner-system heighliner-web":     {"spec/hostnames": []any{"board.example.com"}},
		"ClusterRoleBinding <nil> heighliner-web":        {"subjects/0/namespace": system},
		"Deployment heighliner-system heighliner":        {"spec/template/spec/nodeSelector": map[string]any{"kubernetes.io/os": "linux"}},
	} {
		for path, want := range fields {
			if diff := cmp.Diff(want, field(all[key], path)); diff != "" {
				t.Errorf("%s: %s (-want +got):\n%s", key, path, diff)
			}
		}
	}
	proxy := chartObjects(t, map[string]any{"web": behindProxy})
	want := []any{
		"web", "--bind-address=:8080", "--health-probe-bind-address=:8081", "--url=https://board.example.com:8443/", "--read-only", "--tls-cert-file=/etc/heighliner-web/tls.crt",
		"--tls-private-key-file=/etc/heighliner-web/tls.key", "--requestheader-client-ca-file=/etc/heighliner-web/ca.crt", "--requestheader-allowed-names=oauth2-proxy",
		"--requestheader-username-headers=X-User", "--requestheader-group-headers=X-Group", "--requestheader-group-separator=|",
	}
	if diff := cmp.Diff(want, field(proxy["Deployment heighliner-system heighliner-web"], container+"args")); diff != "" {
		t.Errorf("behind a proxy (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]any{}, field(proxy["ClusterRole <nil> heighliner-web-impersonate"], "rules")); diff != "" {
		t.Errorf("rules of a read-only board (-want +got):\n%s", diff)
	}
}

// TestNamespacedRules tests that a manager that watches some namespaces has the same rules as a manager that watches all namespaces.
func TestNamespacedRules(t *testing.T) {
	t.Parallel()
	rules := func(o object) map[string]bool {
		found := map[string]bool{}
		for _, r := range o["rules"].([]any) {
			rule := r.(map[string]any)
			names := maps.Clone(rule)
			delete(names, "resources")
			for _, resource := range rule["resources"].([]any) {
				found[fmt.Sprint(resource, names)] = true
			}
		}
		return found
	}
	all, some := chartObjects(t, nil), chartObjects(t, variants["namespaces"])
	union := rules(some["ClusterRole <nil> heighliner-manager"])
	within := rules(some["Role shop heighliner-manager"])
	for _, resource := range []string{"namespaces", "ingressclasses", "clusterfreezes", "clusterfreezes/status", "customresourcedefinitions"} {
		for rule := range within {
			if strings.HasPrefix(rule, resource+" ") {
				t.Errorf("a Role cannot grant %s", rule)
			}
		}
	}
	if len(union) >= len(within) {
		t.Errorf("the ClusterRole has %d rules: %v", len(union), union)
	}
	maps.Copy(union, within)
	if diff := cmp.Diff(rules(all["ClusterRole <nil> heighliner-manager"]), union); diff != "" {
		t.Errorf("rules (-all +some):\n%s", diff)
	}
}

// TestNotes tests that the notes show the next steps for the release's values.
func TestNotes(t *testing.T) {
	t.Parallel()
	for name, want := range map[string][]string{
		"default":         {"helm test heighliner -n heighliner-system", "hlnr doctor -A\n", "may read every Secret in the cluster"},
		"granted secrets": {"watches shop, infra", "create rolebinding heighliner-read-secrets"},
	} {
		r, err := rendered(t, with(variants[name]))
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range want {
			if !strings.Contains(r.Info.Notes, text) {
				t.Errorf("%s: the notes do not contain %q:\n%s", name, text, r.Info.Notes)
			}
		}
		for path := range strings.FieldsSeq(r.Info.Notes) {
			if strings.HasPrefix(path, "docs/") {
				if _, err := os.Stat(filepath.Join(root, path)); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		}
	}
}
