package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// failures is the page with known failures of other products, and failureRows is the number of its rows.
const (
	failures    = "docs/design/known-failures.md"
	failureRows = 72
)

var (
	failureRow = regexp.MustCompile(`(?m)^\| (\d+) \| (.+?) \| (.+?) \| (.+?) \|$`)
	testName   = regexp.MustCompile("`([a-z][a-z0-9/]*)\\.((?:Test|Fuzz)[A-Za-z0-9]+)(?:/([^`]+))?`")
	// ofRow matches case names that begin with the number of a row.
	ofRow = regexp.MustCompile(`^(\d\d) .`)
)

// TestKnownFailures checks that each row in the list refers to existing tests or explains why the failure
// cannot occur, and that each row mentions all of its tests.
func TestKnownFailures(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(root, failures))
	if err != nil {
		t.Fatal(err)
	}
	known := testsOf(t)
	rows := failureRow.FindAllStringSubmatch(string(text), -1)
	cells := map[string]string{}
	for i, row := range rows {
		number, bug, refs, here := row[1], row[2], row[3], row[4]
		if number != strconv.Itoa(i+1) {
			t.Errorf("%s: row %s is at the position of row %d", failures, number, i+1)
		}
		cells[number] = here
		if bug == "" || refs == "" {
			t.Errorf("%s: row %s does not refer to a failure of another product", failures, number)
		}
		if !testName.MatchString(here) && !strings.HasPrefix(here, "Cannot occur: ") {
			t.Errorf("%s: row %s refers to no test, and does not explain after \"Cannot occur: \" why the failure cannot occur", failures, number)
		}
	}
	if len(rows) != failureRows {
		t.Errorf("%s has %d rows, want %d", failures, len(rows), failureRows)
	}
	namesTests(t, failures, string(text), known)
	for dir, p := range known {
		for _, word := range p.cases {
			number := strings.TrimPrefix(ofRow.FindStringSubmatch(word)[1], "0")
			if !strings.Contains(cells[number], "/"+word+"`") {
				t.Errorf("%s: the case %q of %s is missing from row %s", failures, word, dir, number)
			}
		}
		for _, test := range p.written {
			if !strings.Contains(string(text), "`"+dir+"."+test) {
				t.Errorf("%s does not mention %s.%s", failures, dir, test)
			}
		}
	}
}

// findings is the page that lists the findings of reviews.
const findings = "docs/design/findings.md"

// TestFindings checks that each test in the list of findings exists.
func TestFindings(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(root, findings))
	if err != nil {
		t.Fatal(err)
	}
	if names := namesTests(t, findings, string(text), testsOf(t)); names < 100 {
		t.Errorf("%s refers to only %d tests, want more than 100", findings, names)
	}
}

// namesTests checks that all tests to which a page refers exist, and returns the number of
// references.
func namesTests(t *testing.T, page, text string, known map[string]*tested) int {
	t.Helper()
	names := testName.FindAllStringSubmatch(text, -1)
	for _, name := range names {
		dir, test, part := name[1], name[2], name[3]
		p := known[dir]
		switch {
		case p == nil || !slices.Contains(p.tests, test):
			t.Errorf("%s refers to %s, but %s has no such test", page, name[0], dir)
		case part != "" && !slices.Contains(p.words, part):
			t.Errorf("%s refers to %s, but no case of %s has this name", page, name[0], dir)
		}
	}
	return len(names)
}

// tested contains the names of the tests in a folder.
type tested struct {
	// tests contains the functions, and words contains all strings that may be the name of a case.
	tests, words []string
	// written contains the tests in the files named known_failures_test.go. cases contains the names in these files that begin
	// with the number of a row.
	written, cases []string
}

// testsOf returns the tests in all folders, regardless of their build tags.
func testsOf(t *testing.T) map[string]*tested {
	t.Helper()
	found := map[string]*tested{}
	for _, top := range []string{"apis", "cmd", "controllers", "hack", "internal", "test"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			dir, err := filepath.Rel(root, filepath.Dir(path))
			if err != nil {
				return err
			}
			dir = filepath.ToSlash(dir)
			if found[dir] == nil {
				found[dir] = &tested{}
			}
			return found[dir].read(path, dir != "test/docs" && filepath.Base(path) == "known_failures_test.go")
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return found
}

func (p *tested) read(path string, forTheList bool) error {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	if err != nil {
		return err
	}
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name != "TestMain" && (strings.HasPrefix(f.Name.Name, "Test") || strings.HasPrefix(f.Name.Name, "Fuzz")) {
			p.tests = append(p.tests, f.Name.Name)
			if forTheList {
				p.written = append(p.written, f.Name.Name)
			}
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			word, err := strconv.Unquote(lit.Value)
			if err != nil {
				return true
			}
			p.words = append(p.words, word)
			if forTheList && ofRow.MatchString(word) && !slices.Contains(p.cases, word) {
				p.cases = append(p.cases, word)
			}
		}
		return true
	})
	return nil
}

func TestFailureRowsOfText(t *testing.T) {
	t.Parallel()
	text := "| row | their failure | seen at | here |\n|---|---|---|---|\n| 7 | lost | A#1 | `internal/x.TestY/07 a case`, `cmd/heighliner.TestZ` |\n"
	row := failureRow.FindStringSubmatch(text)
	if diff := cmp.Diff([]string{"7", "lost", "A#1", "`internal/x.TestY/07 a case`, `cmd/heighliner.TestZ`"}, row[1:]); diff != "" {
		t.Error(diff)
	}
	var names [][]string
	for _, n := range testName.FindAllStringSubmatch(text, -1) {
		names = append(names, n[1:])
	}
	if diff := cmp.Diff([][]string{{"internal/x", "TestY", "07 a case"}, {"cmd/heighliner", "TestZ", ""}}, names); diff != "" {
		t.Error(diff)
	}
}
