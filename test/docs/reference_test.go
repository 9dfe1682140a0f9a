package docs

import (
	"encoding/json"
	"go/ast"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestReferenceIsComplete checks that each page of the reference contains exactly the names in the code.
func TestReferenceIsComplete(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		page string
		// code returns the names in the code, and text returns the names on a page.
		code func(*testing.T) []string
		text *regexp.Regexp
	}{
		{"metrics.md", metricNames, regexp.MustCompile("`(heighliner_[a-z_]+)[`{]")},
		{"labels-and-annotations.md", keyNames, regexp.MustCompile("(?m)^\\| `(hlnr\\.io/[A-Za-z.-]+)")},
		{"flags.md", flagNames, regexp.MustCompile("`--([a-z-]*[a-z])`")},
	} {
		t.Run(test.page, func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(filepath.Join(root, "docs", "reference", test.page))
			if err != nil {
				t.Fatal(err)
			}
			var named []string
			for _, match := range test.text.FindAllStringSubmatch(string(text), -1) {
				named = append(named, match[1])
			}
			want := test.code(t)
			slices.Sort(want)
			slices.Sort(named)
			if diff := cmp.Diff(slices.Compact(want), slices.Compact(named)); diff != "" || len(want) == 0 {
				t.Errorf("docs/reference/%s (-code +page):\n%s", test.page, diff)
			}
		})
	}
}

var (
	metricName = regexp.MustCompile(`^heighliner_[a-z_]+$`)
	keyName    = regexp.MustCompile(`^hlnr\.io/[A-Za-z.-]+$`)
)

func metricNames(t *testing.T) []string {
	return literals(t, metricName, "cmd", "controllers", "internal")
}

// keyNames returns the labels, annotations, and finalizers of objects.
func keyNames(t *testing.T) []string {
	return slices.DeleteFunc(literals(t, keyName, "apis", "controllers", "internal/apply"), func(key string) bool {
		return key == "hlnr.io/hash" // This key exists only in memory.
	})
}

// flagNames returns the manager's flags, except library flags. A test in cmd/hlnr checks the generated pages
// that describe the flags of hlnr.
func flagNames(t *testing.T) []string { return append(flagNamesOf(t, "cmd/heighliner"), "kubeconfig") }

// flagNamesOf returns the flags that the code in a folder and its subfolders defines.
func flagNamesOf(t *testing.T, dir string) (found []string) {
	for _, file := range sources(t, dir) {
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) < 3 {
				return true
			}
			method, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || !strings.Contains(method.Sel.Name, "Var") {
				return true
			}
			if _, address := call.Args[0].(*ast.UnaryExpr); !address {
				return true
			}
			if name, ok := literal(call.Args[1]); ok {
				found = append(found, name)
			}
			return true
		})
	}
	return found
}

// TestChartFlags checks that the chart's values can set each of the manager's flags, except the flags that
// the chart's templates set.
func TestChartFlags(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(root, "charts", "heighliner", "values.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	var schema struct {
		Properties struct {
			Flags struct {
				Properties map[string]any `json:"properties"`
			} `json:"flags"`
		} `json:"properties"`
	}
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	var got []string
	for name := range schema.Properties.Flags.Properties {
		if !strings.HasPrefix(name, "zap-") { // These flags belong to a library.
			got = append(got, name)
		}
	}
	set := []string{
		"kubeconfig", "leader-elect", "leader-election-namespace", "health-probe-bind-address", "metrics-bind-address", "metrics-insecure",
		"webhook-bind-address", "namespace", "timeout", "shards",
	}
	set = append(set, flagNamesOf(t, "cmd/heighliner/web")...) // These flags belong to another command.
	want := slices.DeleteFunc(flagNames(t), func(name string) bool { return slices.Contains(set, name) })
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(slices.Compact(want), got); diff != "" || len(got) == 0 {
		t.Errorf("flags of charts/heighliner/values.schema.json (-manager +schema); after a change run make chart:\n%s", diff)
	}
}

// literals returns the string literals in the code below dirs that match a pattern.
func literals(t *testing.T, pattern *regexp.Regexp, dirs ...string) []string {
	var found []string
	for _, file := range sources(t, dirs...) {
		ast.Inspect(file, func(n ast.Node) bool {
			if text, ok := literal(n); ok && pattern.MatchString(text) {
				found = append(found, text)
			}
			return true
		})
	}
	return found
}

// TestIndexed checks that the README of each documentation folder links to each page in the folder.
func TestIndexed(t *testing.T) {
	t.Parallel()
	for _, folder := range []string{"tutorials", "how-to", "reference", "explanation"} {
		listed := map[string]bool{}
		for _, p := range files(t, "docs/"+folder, ".md") {
			if path.Base(p.name) == "README.md" {
				for _, link := range links(p.text) {
					listed[link] = true
				}
			}
		}
		for _, p := range files(t, "docs/"+folder, ".md") {
			if name := path.Base(p.name); name != "README.md" && !listed[name] {
				t.Errorf("docs/%s/README.md does not link to %s", folder, name)
			}
		}
	}
}
