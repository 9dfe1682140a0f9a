package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// values contains a valid and an invalid value for each type of flag.
var values = map[string]struct{ good, bad string }{
	"bool": {"true", "perhaps"}, "int": {"3", "three"}, "duration": {"7s", "7"}, "string": {"x", ""}, "stringSlice": {"a,b", ""},
}

// TestEachFlagTakesItsValue tests that each flag accepts a value, stores it, and rejects an invalid value. In other
// products, overrides were accepted but had no effect.
func TestEachFlagTakesItsValue(t *testing.T) {
	checked := 0
	command().Flags().VisitAll(func(f *pflag.Flag) {
		v, ok := values[f.Value.Type()]
		if !ok || f.Name == "help" || f.Name == "kubeconfig" {
			return // These flags belong to libraries and have their own types.
		}
		checked++
		fresh := command()
		if err := fresh.ParseFlags([]string{"--" + f.Name + "=" + v.good}); err != nil {
			t.Errorf("--%s=%s: %v", f.Name, v.good, err)
		}
		if got := strings.Trim(fresh.Flags().Lookup(f.Name).Value.String(), "[]"); got != v.good {
			t.Errorf("--%s=%s is read as %q", f.Name, v.good, got)
		}
		if got := f.Value.String(); got == v.good {
			t.Errorf("--%s: %s is the default: choose another value", f.Name, got)
		}
		if v.bad != "" && command().ParseFlags([]string{"--" + f.Name + "=" + v.bad}) == nil {
			t.Errorf("--%s=%s is accepted", f.Name, v.bad)
		}
	})
	if checked < 5 {
		t.Errorf("only %d flags were checked", checked)
	}
}

// TestNoOverrideByEnvironment tests that no part of the manager reads environment variables, so that the command line
// shows all settings.
func TestNoOverrideByEnvironment(t *testing.T) {
	for _, dir := range []string{"cmd/heighliner", "controllers", "internal", "apis"} {
		err := filepath.WalkDir(filepath.Join("..", "..", dir), func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.IsDir() && strings.HasSuffix(entry.Name(), "test") {
				return fs.SkipDir // These folders contain code for tests only, such as githubtest.
			}
			if err == nil && entry.IsDir() && entry.Name() == "workloadidentity" {
				return fs.SkipDir // Cloud providers define the identity of a process in environment variables.
			}
			if err != nil || entry.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if call, ok := n.(*ast.SelectorExpr); ok {
					if x, ok := call.X.(*ast.Ident); ok && x.Name == "os" && strings.Contains(strings.ToLower(call.Sel.Name), "env") {
						t.Errorf("%s reads the environment with os.%s", path, call.Sel.Name)
					}
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
