package layout

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestIndexesAreReadByNamespace checks that the controllers always specify a namespace when they read an index that
// contains each object only under its namespace, and never when they read an index of all namespaces. Otherwise, the
// list would always be empty.
func TestIndexesAreReadByNamespace(t *testing.T) {
	t.Parallel()
	lists, everywhere := 0, indexesOfAllNamespaces(t)
	if len(everywhere) != 3 {
		t.Errorf("the indexes of all namespaces are %q, want 3", everywhere)
	}
	parsed(t, "controllers", func(files *token.FileSet, file *ast.File) {
		if strings.HasSuffix(files.Position(file.Pos()).Filename, "_test.go") {
			return
		}
		found, wrong := indexLists(files, file, everywhere)
		lists += found
		for _, fault := range wrong {
			t.Error(fault)
		}
	})
	if lists < 20 {
		t.Errorf("only %d lists by an index were found", lists)
	}
}

func TestIndexListsWithoutNamespace(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		text string
		want []string
	}{
		"with a namespace":                {`r.List(ctx, &l, client.InNamespace(o.Namespace), client.MatchingFields{indexPolicy: o.Name})`, nil},
		"without a namespace":             {`r.List(ctx, &l, client.MatchingFields{indexPolicy: o.Name})`, []string{"a.go:2:12 reads indexPolicy without a namespace"}},
		"of all namespaces":               {`r.requests(ctx, client.MatchingFields{indexHost: host})`, nil},
		"of all namespaces, read for one": {`r.List(ctx, &l, client.InNamespace("a"), client.MatchingFields{indexHost: host})`, []string{"a.go:2:12 reads indexHost with a namespace"}},
		"options":                         {`use([]client.ListOption{client.InNamespace("a"), client.MatchingFields{indexPolicy: "b"}})`, nil},
		"only one option":                 {`use([]client.ListOption{client.MatchingFields{indexPolicy: "b"}})`, []string{"a.go:2:16 reads indexPolicy without a namespace"}},
		"without an index":                {`r.List(ctx, &l, client.MatchingFields{})`, nil},
	} {
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, "a.go", "package a\nfunc f() { "+tc.text+" }", 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, wrong := indexLists(files, file, []string{"indexHost"}); !cmp.Equal(tc.want, wrong) {
			t.Errorf("%s: %q", name, wrong)
		}
	}
}

// indexesOfAllNamespaces returns the field names of all indexes with AllNamespaces, in the form in which other packages
// refer to them.
func indexesOfAllNamespaces(t *testing.T) []string {
	t.Helper()
	var names []string
	for _, path := range []string{"internal/index/index.go", "controllers/networkpolicy/index.go"} {
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, path), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			variable := ""
			literal, ok := n.(*ast.CompositeLit)
			if spec, is := n.(*ast.ValueSpec); is && len(spec.Values) == 1 {
				variable = "index." + spec.Names[0].Name + ".Field"
				literal, ok = spec.Values[0].(*ast.CompositeLit)
			}
			if !ok {
				return true
			}
			fields := map[string]string{}
			for _, e := range literal.Elts {
				if kv, is := e.(*ast.KeyValueExpr); is {
					fields[types.ExprString(kv.Key)] = types.ExprString(kv.Value)
				}
			}
			switch {
			case fields["AllNamespaces"] != "true":
			case variable != "":
				names = append(names, variable)
			case !strings.HasPrefix(fields["Field"], `"`):
				names = append(names, fields["Field"])
			}
			return true
		})
	}
	return names
}

// indexLists counts the list options in a file that select by an index. It describes each such option that is not
// accompanied by an option with a namespace, although the index requires a namespace, and each such option that is accompanied by an option
// with a namespace, although the index is an index of all namespaces.
func indexLists(files *token.FileSet, file *ast.File, everywhere []string) (found int, wrong []string) {
	is := func(e ast.Expr, name string) bool { return types.ExprString(e) == name }
	ast.Inspect(file, func(n ast.Node) bool {
		var options []ast.Expr
		switch n := n.(type) {
		case *ast.CallExpr:
			options = n.Args
		case *ast.CompositeLit:
			options = n.Elts
		}
		for _, option := range options {
			fields, ok := option.(*ast.CompositeLit)
			if !ok || fields.Type == nil || !is(fields.Type, "client.MatchingFields") || len(fields.Elts) == 0 {
				continue
			}
			key := types.ExprString(fields.Elts[0].(*ast.KeyValueExpr).Key)
			if strings.HasPrefix(key, `"`) || key == "fieldMicroservice" {
				continue // a field selector of the API server
			}
			found++
			namespace := func(e ast.Expr) bool {
				call, ok := e.(*ast.CallExpr)
				return ok && is(call.Fun, "client.InNamespace")
			}
			switch ofAll := slices.Contains(everywhere, key); {
			case !ofAll && !slices.ContainsFunc(options, namespace):
				wrong = append(wrong, files.Position(n.Pos()).String()+" reads "+key+" without a namespace")
			case ofAll && slices.ContainsFunc(options, namespace):
				wrong = append(wrong, files.Position(n.Pos()).String()+" reads "+key+" with a namespace")
			}
		}
		return true
	})
	return found, wrong
}
