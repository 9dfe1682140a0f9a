package providertest

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestConformance runs the suite for all providers of the project.
func TestConformance(t *testing.T) {
	for name, c := range Cases() {
		t.Run(name, func(t *testing.T) {
			t.Run("rollouts of a service", func(t *testing.T) { Play(t, c, inMemory(t, c)) })
			for rule, keep := range rules {
				t.Run(rule, func(t *testing.T) { keepRule(t, c, keep) })
			}
		})
	}
}

// TestConformanceOfSwitches switches a policy between the providers of each pair that Switches
// returns.
func TestConformanceOfSwitches(t *testing.T) {
	for name, c := range Switches() {
		t.Run(name, func(t *testing.T) {
			kinds := c[0]
			if kinds.Same == nil {
				kinds.Same, kinds.Serve = c[1].Same, c[1].Serve
			}
			PlaySwitch(t, c[0], c[1], inMemory(t, kinds))
		})
	}
}

// TestAddedProvider runs the test of the provider in docs/how-to/add-a-provider.md, with the command from that page.
func TestAddedProvider(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("go", "test", "-trimpath", "-count=1", "-v", "../providers/testdata/weighted").CombinedOutput() // The Makefile uses the same flags, so that the build cache is used.
	if err != nil || !strings.Contains(string(out), "--- PASS: TestConformance/rollouts_of_a_service") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestPageOfAddedProvider checks that add-a-provider.md contains the files of the provider in
// providers/testdata/weighted, with the import path providers/weighted.
func TestPageOfAddedProvider(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/how-to/add-a-provider.md")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("../providers/testdata/weighted/*.go")
	if err != nil || len(files) == 0 {
		t.Fatal("the files of the page's provider do not exist", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		text = bytes.ReplaceAll(text, []byte("providers/testdata/weighted"), []byte("providers/weighted"))
		if !strings.Contains(string(page), "```go\n"+string(text)+"```\n") {
			t.Errorf("the page does not contain the current content of %s: copy it there", file)
		}
	}
}
