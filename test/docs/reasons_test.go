package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// camelCase matches a word in the style of conditions, events, and failures.
var camelCase = regexp.MustCompile(`^[A-Z][a-z]+[A-Za-z]*$`)

// wordSections are those sections of a page about a kind whose words in code font are conditions and reasons.
var wordSections = []string{"Conditions", "Events", "Failures"}

// TestReasonsExist checks that the code contains each condition, reason, and failure on a page about a kind.
func TestReasonsExist(t *testing.T) {
	t.Parallel()
	known := words(t, "apis", "controllers", "internal")
	checked := 0
	for _, p := range files(t, "docs/reference", ".md") {
		for _, word := range reasons(p.text) {
			checked++
			if !slices.Contains(known, word) {
				t.Errorf("%s: the code does not contain %q: correct or remove the word", p.name, word)
			}
		}
	}
	if checked == 0 {
		t.Errorf("no word was found below the headings %q of docs/reference", wordSections)
	}
}

// TestReasonsDescribed checks that the pages about kinds describe each condition and failure of the API.
func TestReasonsDescribed(t *testing.T) {
	t.Parallel()
	var named []string
	for _, p := range files(t, "docs/reference", ".md") {
		named = append(named, reasons(p.text)...)
	}
	for _, c := range constants(t, "apis") {
		if !strings.HasPrefix(c.name, "Condition") && !strings.HasPrefix(c.name, "Failure") {
			continue
		}
		if !slices.Contains(named, c.value) {
			t.Errorf("no page of docs/reference documents %q (%s): add this word below Conditions or Failures", c.value, c.name)
		}
	}
}

func TestReasonsOfText(t *testing.T) {
	t.Parallel()
	text := "# K\n`Before`\n## Conditions\n`Ready`, `spec.image`, `READY`: `Ready` (`a b`)\n```\n`InBlock`\n```\n## Status\n`Not`\n### Failures\n`ImageNotFound`\n### Columns\n`Neither`\n"
	if diff := cmp.Diff([]string{"ImageNotFound", "Ready"}, reasons(text)); diff != "" {
		t.Error(diff)
	}
}

// reasons returns the CamelCase words in code font in the sections that wordSections lists.
func reasons(text string) []string {
	var found []string
	in := false
	for _, line := range strings.Split(prose(text), "\n") {
		if match := headings.FindStringSubmatch(line); match != nil {
			in = slices.Contains(wordSections, match[1])
		}
		if !in {
			continue
		}
		for _, span := range codeSpan.FindAllString(line, -1) {
			if word := strings.Trim(span, "`"); camelCase.MatchString(word) {
				found = append(found, word)
			}
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// words returns the CamelCase string literals of the code below dirs, except tests.
func words(t *testing.T, dirs ...string) []string {
	t.Helper()
	var found []string
	for _, file := range sources(t, dirs...) {
		ast.Inspect(file, func(n ast.Node) bool {
			if word, ok := literal(n); ok && camelCase.MatchString(word) {
				found = append(found, word)
			}
			return true
		})
	}
	return found
}

// constant is a named string constant.
type constant struct{ name, value string }

// constants returns the named string constants of the code below dir.
func constants(t *testing.T, dir string) []constant {
	t.Helper()
	var found []constant
	for _, file := range sources(t, dir) {
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok {
				return true
			}
			for i, name := range spec.Names {
				if i >= len(spec.Values) {
					break
				}
				if value, ok := literal(spec.Values[i]); ok {
					found = append(found, constant{name.Name, value})
				}
			}
			return true
		})
	}
	return found
}

func literal(n ast.Node) (string, bool) {
	lit, ok := n.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	value, err := strconv.Unquote(lit.Value)
	return value, err == nil
}

// sources returns the parsed Go files below dirs, except tests.
func sources(t *testing.T, dirs ...string) []*ast.File {
	t.Helper()
	var found []*ast.File
	for _, dir := range dirs {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			found = append(found, file)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return found
}
