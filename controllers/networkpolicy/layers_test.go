package networkpolicy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	// maxFiles and maxLines are the maximum numbers of files in a package and of lines in a
	// function.
	maxFiles = 20
	maxLines = 80
)

// TestLayers checks that the package comments of this package and of the packages below it list
// their files in order, and that a file refers only to files that are listed after it.
func TestLayers(t *testing.T) {
	t.Parallel()
	exports := exportData(t)
	checked := 0
	err := filepath.WalkDir(".", func(dir string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		if entry.Name() == "testdata" {
			return fs.SkipDir
		}
		names, err := filepath.Glob(filepath.Join(dir, "*.go"))
		names = slices.DeleteFunc(names, func(name string) bool { return strings.HasSuffix(name, "_test.go") })
		if err == nil && len(names) > 0 {
			checked++
			t.Run(dir, func(t *testing.T) { checkLayers(t, dir, names, exports) })
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	want(t, "more than five packages are checked", checked > 5, true)
}

// exportData returns the export data files of the imported packages, by import path.
func exportData(t *testing.T) map[string]string {
	t.Helper()
	list := exec.Command("go", "list", "-trimpath", "-deps", "-export", "-json=ImportPath,Export", "./...")
	list.Env = append(os.Environ(), "CGO_ENABLED=0") // The Makefile has the same setting, so that the build cache is used.
	text, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for d := json.NewDecoder(bytes.NewReader(text)); ; {
		var p struct{ ImportPath, Export string }
		if err := d.Decode(&p); err == io.EOF {
			return out
		} else if err != nil {
			t.Fatal(err)
		}
		out[p.ImportPath] = p.Export
	}
}

// listed matches a file name in a package comment.
var listed = regexp.MustCompile(`(?m)^\t([a-z_]+\.go) `)

func checkLayers(t *testing.T, dir string, names []string, exports map[string]string) {
	fset := token.NewFileSet()
	var files []*ast.File
	var order []string
	for _, name := range names {
		f, err := parser.ParseFile(fset, name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
		for _, match := range listed.FindAllStringSubmatch(f.Doc.Text(), -1) {
			order = append(order, match[1])
		}
		for _, d := range f.Decls {
			if lines := fset.Position(d.End()).Line - fset.Position(d.Pos()).Line + 1; lines > maxLines && isFunc(d) {
				t.Errorf("%s: a function has %d lines, want at most %d: split it", fset.Position(d.Pos()), lines, maxLines)
			}
		}
	}
	if len(names) > maxFiles {
		t.Errorf("%d files, want at most %d: split the package", len(names), maxFiles)
	}
	if len(names) == 1 {
		return
	}
	var bases []string
	for _, name := range names {
		bases = append(bases, filepath.Base(name))
	}
	if !slices.Equal(slices.Sorted(slices.Values(order)), slices.Sorted(slices.Values(bases))) {
		t.Fatalf("the package comment lists %q, but the files are %q: list each file once, with a description of its content, before the files that it refers to", order, bases)
	}
	for _, problem := range upward(t, fset, files, order, exports) {
		t.Error(problem)
	}
}

func isFunc(d ast.Decl) bool { _, ok := d.(*ast.FuncDecl); return ok }

// upward returns the references to files that precede the referring file in the order.
func upward(t *testing.T, fset *token.FileSet, files []*ast.File, order []string, exports map[string]string) []string {
	lookup := func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) }
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	conf := types.Config{Importer: importer.ForCompiler(fset, "gc", lookup)}
	pkg, err := conf.Check(files[0].Name.Name, fset, files, info)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for id, o := range info.Uses {
		if _, imported := o.(*types.PkgName); imported || o.Pkg() != pkg {
			continue
		}
		from, to := filepath.Base(fset.Position(id.Pos()).Filename), filepath.Base(fset.Position(o.Pos()).Filename)
		if slices.Index(order, from) > slices.Index(order, to) {
			found[fmt.Sprintf("%s refers to %s in the earlier file %s: move one of the two", fset.Position(id.Pos()), id.Name, to)] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}
