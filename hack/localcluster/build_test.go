package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestVersionsOfKubernetes tests that the version that a control plane reports is the version of its modules.
func TestVersionsOfKubernetes(t *testing.T) {
	t.Parallel()
	files := map[string]string{filepath.Join("kubernetes", "go.mod"): kubernetesVersion}
	for _, k := range otherKubernetes {
		files[filepath.Join("apiservers", k.modfile)] = k.version
		if bin, known := otherBinary(minorOf(k.version)); !known || !strings.Contains(strings.Join(bin.flags, " "), "gitVersion="+k.version+" ") {
			t.Errorf("unexpected binary for %s: %v", k.version, bin)
		}
	}
	for file, version := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"k8s.io/kubernetes " + version, "k8s.io/apiserver => k8s.io/apiserver v0." + strings.TrimPrefix(version, "v1.")} {
			if !strings.Contains(string(content), want) {
				t.Errorf("%s does not contain %q", file, want)
			}
		}
	}
	for _, minor := range []string{"", "1", "1.3", "1.35", "1.333", "v1.33"} {
		if _, known := otherBinary(minor); known {
			t.Errorf("%q is accepted as a minor version", minor)
		}
	}
}
