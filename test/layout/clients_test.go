package layout

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// sharedClients are the functions and variables of package net/http that use http.DefaultTransport.
var sharedClients = []string{"http.DefaultClient", "http.Get", "http.Head", "http.Post", "http.PostForm"}

// TestClientsAreNotShared checks that nothing uses the default client: httptest.Server.Close also closes its idle
// connections, so a request in a parallel test can fail.
func TestClientsAreNotShared(t *testing.T) {
	t.Parallel()
	searched := 0
	for _, folder := range []string{"cmd", "controllers", "internal", "test", "hack/dashboards"} {
		parsed(t, folder, func(files *token.FileSet, file *ast.File) {
			searched++
			for _, use := range usesOfSharedClients(files, file) {
				t.Errorf("%s: use test/httpclient or the client of the test server", use)
			}
		})
	}
	if searched < 500 {
		t.Errorf("only %d files were searched", searched)
	}
}

func TestUsesOfSharedClients(t *testing.T) {
	t.Parallel()
	const text = `package a
func f() {
	http.Get("http://127.0.0.1")
	http.DefaultClient.Do(nil)
	http.NewRequest("GET", "http://127.0.0.1", nil)
	client.Get("http://127.0.0.1")
}`
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, "a.go", text, 0)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"a.go:3:2: http.Get", "a.go:4:2: http.DefaultClient"}
	if diff := cmp.Diff(want, usesOfSharedClients(files, file)); diff != "" {
		t.Errorf("uses, -want +got:\n%s", diff)
	}
}

// usesOfSharedClients returns the positions in a file that mention one of sharedClients.
func usesOfSharedClients(files *token.FileSet, file *ast.File) (uses []string) {
	ast.Inspect(file, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok && slices.Contains(sharedClients, types.ExprString(s)) {
			uses = append(uses, files.Position(s.Pos()).String()+": "+types.ExprString(s))
		}
		return true
	})
	return uses
}
