//go:build !e2e

package e2e

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestGroups checks that each end-to-end test is in exactly one group.
func TestGroups(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	var tests []string
	for _, path := range paths {
		if path == "groups_test.go" {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") && f.Name.Name != "TestMain" {
				tests = append(tests, f.Name.Name)
			}
		}
	}
	slices.Sort(tests)
	grouped := slices.Sorted(slices.Values(slices.Concat(slices.Collect(maps.Values(groups))...)))
	if diff := cmp.Diff(tests, grouped); diff != "" {
		t.Errorf("groups.go must contain each test once: -tests +groups\n%s", diff)
	}
}

func TestPattern(t *testing.T) {
	t.Parallel()
	got, err := pattern("freeze")
	if err != nil || got != "^(TestFreeze)$" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := pattern("none"); err == nil || !strings.Contains(err.Error(), "traffic") {
		t.Errorf("the error does not list the groups: %v", err)
	}
}
