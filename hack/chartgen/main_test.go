package main

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
)

// TestUpToDate tests that the generated files of the chart, and the reference page of its values, are up to date.
func TestUpToDate(t *testing.T) {
	t.Parallel()
	want, err := generate("../..")
	if err != nil {
		t.Fatal(err)
	}
	got, err := present("../..")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got))); diff != "" {
		t.Errorf("run make chart; files (-generated +present):\n%s", diff)
	}
	for name, text := range want {
		if diff := cmp.Diff(string(text), string(got[name])); diff != "" {
			t.Errorf("run make chart; %s (-generated +present):\n%s", name, diff)
		}
	}
}

// TestRun tests that run writes the output of generate. A second run restores edited files, and removes files
// that are not generated.
func TestRun(t *testing.T) {
	t.Parallel()
	root := copied(t)
	if err := run(root); err != nil {
		t.Fatal(err)
	}
	first, err := present(root)
	if err != nil {
		t.Fatal(err)
	}
	extra := chart + "/files/rbac/extra.yaml"
	write(t, root, extra, "a: b\n")
	write(t, root, chart+"/values.yaml", "a: b\n")
	if err := run(root); err != nil {
		t.Fatal(err)
	}
	second, err := present(root)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(first, second); diff != "" || len(first) < 10 {
		t.Errorf("%d files after the first run, which the second run must not change (-first +second):\n%s", len(first), diff)
	}
}

func TestSplit(t *testing.T) {
	t.Parallel()
	verbs := []string{"get"}
	cluster, within := split([]rbacv1.PolicyRule{
		{APIGroups: []string{"networking.k8s.io"}, Resources: []string{"ingresses", "ingressclasses"}, Verbs: verbs},
		{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: verbs},
		{APIGroups: []string{"hlnr.io"}, Resources: []string{"clusterfreezes/status"}, Verbs: verbs},
	}, []string{"ingressclasses", "clusterfreezes"})
	wantCluster := []rbacv1.PolicyRule{
		{APIGroups: []string{"networking.k8s.io"}, Resources: []string{"ingressclasses"}, Verbs: verbs},
		{APIGroups: []string{"hlnr.io"}, Resources: []string{"clusterfreezes/status"}, Verbs: verbs},
	}
	wantWithin := []rbacv1.PolicyRule{
		{APIGroups: []string{"networking.k8s.io"}, Resources: []string{"ingresses"}, Verbs: verbs},
		{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: verbs},
	}
	if diff := cmp.Diff(wantCluster, cluster); diff != "" {
		t.Errorf("cluster (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(wantWithin, within); diff != "" {
		t.Errorf("within (-want +got):\n%s", diff)
	}
}

// TestIncompleteSchema tests that a schema is rejected if it lacks parts that values.yaml and the reference page need.
func TestIncompleteSchema(t *testing.T) {
	t.Parallel()
	for name, schema := range map[string]string{
		"no description": `{"properties": {"a": {"type": "string", "default": ""}}}`,
		"no default":     `{"properties": {"a": {"type": "string", "description": "A."}}}`,
		"no properties":  `{"properties": []}`,
	} {
		if _, err := readSchema([]byte(schema)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// copied returns a folder with a copy of the sources of the generated files.
func copied(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for _, dir := range []string{"config", chart} {
		if err := os.CopyFS(filepath.Join(root, dir), os.DirFS(filepath.Join("../..", dir))); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(root, filepath.Dir(reference)), 0o755); err != nil {
		t.Fatal(err)
	}
	return root
}

func write(t *testing.T, root, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
