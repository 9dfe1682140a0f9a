// Package layout tests the layout of the code: packages are small, and their comments list their files. It also finds calls that compile
// but are wrong, such as requests with the default HTTP client.
package layout

import (
	"fmt"
	"go/ast"
	"go/build/constraint"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// root is the root of the repository, relative to this package.
const root = "../.."

// maxFiles is the maximum number of files in a package, without tests and generated files.
const maxFiles = 20

// unlisted contains the packages whose comment does not list their files yet. Do not add packages to this list.
var unlisted []string

// large contains the packages with more than maxFiles files. Do not add packages to this list.
var large []string

// TestPackageComments checks that a package's comment lists exactly the package's files, except tests,
// generated files, and a file that contains only the comment (doc.go).
func TestPackageComments(t *testing.T) {
	t.Parallel()
	for _, p := range packages(t) {
		missing, extra := p.differences()
		switch lists := !slices.Contains(unlisted, p.path); {
		case p.comment == "":
			t.Errorf("%s has no comment", p.path)
		case lists && len(missing) > 0:
			t.Errorf("%s: the package comment does not list %s", p.path, strings.Join(missing, ", "))
		case lists && len(extra) > 0:
			t.Errorf("%s: the package comment lists %s, which does not exist", p.path, strings.Join(extra, ", "))
		case !lists && len(missing) == 0 && len(extra) == 0:
			t.Logf("%s lists its files: remove it from unlisted", p.path)
		}
	}
}

// TestPure checks that the packages in the PURE list of the Makefile cannot have races: they start no goroutines, and
// do not share state between goroutines of their callers.
func TestPure(t *testing.T) {
	t.Parallel()
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^PURE := (.*)$`).FindSubmatch(makefile)
	if line == nil {
		t.Fatal("the Makefile has no PURE list")
	}
	for folder := range strings.FieldsSeq(string(line[1])) {
		paths, err := filepath.Glob(filepath.Join(root, folder, "*.go"))
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s: %d files, %v", folder, len(paths), err)
		}
		paths = slices.DeleteFunc(paths, func(path string) bool { return strings.HasSuffix(path, "_test.go") })
		texts := map[string]string{}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			texts[path] = string(text)
		}
		for _, fault := range impure(t, texts) {
			t.Error(fault)
		}
	}
}

// TestImpure checks that every way in which a package can share state between goroutines is detected.
func TestImpure(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		files []string
		want  []string
	}{
		"nothing":   {[]string{"package a\nvar seen = map[string]int{}\nfunc f() int { seen := 1; seen++; seen = 2; return seen }"}, nil},
		"import":    {[]string{"package a\nimport \"sync\"\nvar mu sync.Mutex"}, []string{"0.go imports sync"}},
		"goroutine": {[]string{"package a\nfunc f() { go f() }"}, []string{"0.go:2:12 starts a goroutine"}},
		"channel":   {[]string{"package a\nfunc f(c chan int) {}"}, []string{"0.go:2:10 has a channel"}},
		"variable":  {[]string{"package a\nvar seen int", "package a\nfunc f() { seen = 1 }"}, []string{"1.go:2:12 changes the package variable seen"}},
		"same file": {[]string{"package a\nvar seen int\nfunc f() { seen++ }"}, []string{"0.go:3:12 changes the package variable seen"}},
		"map":       {[]string{"package a\nvar seen = map[string][]int{}\nfunc f() { seen[\"a\"][0] += 1 }"}, []string{"0.go:3:12 changes the package variable seen"}},
		"field":     {[]string{"package a\nvar seen struct{ n int }\nfunc f() { (&seen).n, _ = 1, 2 }"}, []string{"0.go:3:14 changes the package variable seen"}},
		"no name":   {[]string{"package a\nvar _ = 1\nfunc f() { _ = 2 }"}, nil},
		"deletion":  {[]string{"package a\nvar seen = map[string]int{}\nfunc f() { delete(seen, \"a\") }"}, []string{"0.go:3:19 changes the package variable seen"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			texts := map[string]string{}
			for i, text := range tc.files {
				texts[strconv.Itoa(i)+".go"] = text
			}
			if diff := cmp.Diff(tc.want, impure(t, texts)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// impure describes the state that a package's files share between goroutines. texts contains the files, by name.
func impure(t *testing.T, texts map[string]string) (faults []string) {
	t.Helper()
	files, parsed := token.NewFileSet(), map[string]*ast.File{}
	variables := map[string]bool{}
	shared := map[any]bool{} // The declarations of the variables.
	for _, path := range slices.Sorted(maps.Keys(texts)) {
		file, err := parser.ParseFile(files, path, texts[path], 0)
		if err != nil {
			t.Fatal(err)
		}
		parsed[path] = file
		for _, decl := range file.Decls {
			if g, ok := decl.(*ast.GenDecl); ok && g.Tok == token.VAR {
				for _, spec := range g.Specs {
					shared[spec] = true
					for _, name := range spec.(*ast.ValueSpec).Names {
						variables[name.Name] = name.Name != "_"
					}
				}
			}
		}
	}
	note := func(at token.Pos, format string, args ...any) {
		faults = append(faults, fmt.Sprintf("%s %s", files.Position(at), fmt.Sprintf(format, args...)))
	}
	change := func(e ast.Expr) {
		// The parser resolves a name that is declared in the same file, but not a name that is declared in another file.
		if name := rootOf(e); name != nil && variables[name.Name] && (name.Obj == nil || shared[name.Obj.Decl]) {
			note(name.Pos(), "changes the package variable %s", name.Name)
		}
	}
	for _, path := range slices.Sorted(maps.Keys(texts)) {
		for _, i := range parsed[path].Imports {
			if name := strings.Trim(i.Path.Value, `"`); name == "sync" || name == "sync/atomic" || name == "context" {
				faults = append(faults, fmt.Sprintf("%s imports %s", path, name))
			}
		}
		ast.Inspect(parsed[path], func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				note(n.Pos(), "starts a goroutine")
			case *ast.ChanType:
				note(n.Pos(), "has a channel")
			case *ast.IncDecStmt:
				change(n.X)
			case *ast.AssignStmt:
				for _, e := range n.Lhs {
					if n.Tok != token.DEFINE {
						change(e)
					}
				}
			case *ast.CallExpr:
				if f, ok := n.Fun.(*ast.Ident); ok && (f.Name == "delete" || f.Name == "clear") && f.Obj == nil {
					change(n.Args[0])
				}
			}
			return true
		})
	}
	return faults
}

// rootOf returns the variable with which an expression begins, such as a in a.b[0], or nil.
func rootOf(e ast.Expr) *ast.Ident {
	for {
		switch x := e.(type) {
		case *ast.Ident:
			return x
		case *ast.ParenExpr:
			e = x.X
		case *ast.SelectorExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		case *ast.UnaryExpr:
			e = x.X
		default:
			return nil
		}
	}
}

// TestSizes checks that no package has more than maxFiles files.
func TestSizes(t *testing.T) {
	t.Parallel()
	for _, p := range packages(t) {
		if len(p.files) > maxFiles && !slices.Contains(large, p.path) {
			t.Errorf("%s has %d files, want at most %d", p.path, len(p.files), maxFiles)
		}
	}
}

func TestDifferences(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		comment        string
		files          []string
		missing, extra []string
	}{
		"listed":       {"\tplan.go   decides\n\tapply.go  writes", []string{"apply.go", "doc.go", "plan.go"}, nil, nil},
		"missing":      {"\tplan.go  decides, unlike apply.go", []string{"apply.go", "plan.go"}, []string{"apply.go"}, nil},
		"another one":  {"\told.go  decides", []string{"apply.go", "old.go", "plan.go"}, []string{"apply.go", "plan.go"}, nil},
		"one file":     {"Package p decides.", []string{"plan.go"}, nil, nil},
		"in text":      {"Files: plan.go (decides), apply.go.\n\n\tcommand -file other.go", []string{"apply.go", "plan.go"}, nil, nil},
		"other folder": {"as cmd/main.go does", []string{"plan.go"}, nil, nil},
	} {
		missing, extra := pkg{comment: c.comment, files: c.files}.differences()
		if diff := cmp.Diff([][]string{c.missing, c.extra}, [][]string{missing, extra}); diff != "" {
			t.Errorf("%s: -want +got\n%s", name, diff)
		}
	}
}

// pkg is a package with its files, except tests and generated files.
type pkg struct {
	path, comment string
	files         []string
}

// listed matches the name of a file at the start of a line of a list. mentioned matches the name of a file, without
// a folder, in other text.
var (
	listed    = regexp.MustCompile(`^\t(\w+\.go)\b`)
	mentioned = regexp.MustCompile(`(?:^|[\s(])(\w+\.go)\b`)
)

func (p pkg) differences() (missing, extra []string) {
	var named []string
	for line := range strings.Lines(p.comment) {
		if item := listed.FindStringSubmatch(line); item != nil {
			named = append(named, item[1])
		} else if !strings.HasPrefix(line, "\t") {
			for _, match := range mentioned.FindAllStringSubmatch(line, -1) {
				named = append(named, match[1])
			}
		}
	}
	files := slices.DeleteFunc(slices.Clone(p.files), func(f string) bool { return f == "doc.go" })
	for _, f := range files {
		if len(files) > 1 && !slices.Contains(named, f) {
			missing = append(missing, f)
		}
	}
	for _, f := range named {
		if !slices.Contains(p.files, f) && !strings.HasSuffix(f, "_test.go") {
			extra = append(extra, f)
		}
	}
	return missing, extra
}

// packages returns the packages of the product, its tools, and its tests that contain files other than tests,
// ordered by path.
func packages(t *testing.T) []pkg {
	t.Helper()
	found := map[string]*pkg{}
	if err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := filepath.Base(path)
		if d.IsDir() {
			// Programs that hack/localcluster builds are separate modules, and replace parts of other projects.
			if path != root && (strings.HasPrefix(name, ".") || name == "testdata" || name == "bin" || filepath.Base(filepath.Dir(path)) == "localcluster") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "zz_generated") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.PackageClauseOnly)
		if err != nil {
			return err
		}
		folder, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		folder = filepath.ToSlash(folder)
		if found[folder] == nil {
			found[folder] = &pkg{path: folder}
		}
		found[folder].files = append(found[folder].files, name)
		if text := packageComment(file.Doc); text != "" {
			found[folder].comment += text
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	var all []pkg
	for _, path := range slices.Sorted(maps.Keys(found)) {
		all = append(all, *found[path])
	}
	if len(all) == 0 {
		t.Fatal("no package was found")
	}
	return all
}

// parsed parses each Go file in a folder of the module and its subfolders, and calls visit with the result.
func parsed(t *testing.T, folder string, visit func(*token.FileSet, *ast.File)) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(root, folder), func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") {
			return err
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, 0)
		if err == nil {
			visit(files, file)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// packageComment returns the text of a package comment. It returns "" if the comment contains only a build
// constraint.
func packageComment(doc *ast.CommentGroup) string {
	if doc == nil || len(doc.List) == 1 && constraint.IsGoBuild(doc.List[0].Text) {
		return ""
	}
	return doc.Text()
}
