package docs

import (
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// deliverable are GitHub's webhook events, with their names in GitHub's settings. The name is empty for
// events that every GitHub App receives and that cannot be selected.
var deliverable = map[string]string{
	"create": "Branch or tag creation", "delete": "Branch or tag deletion", "pull_request": "Pull requests", "push": "Pushes",
	"release": "Releases", "repository": "Repositories", "package": "Packages", "registry_package": "Registry packages",
	"installation": "", "installation_repositories": "",
}

// chosen matches the events of a webhook in the guide.
var (
	chosen = regexp.MustCompile(`(?s)On GitHub, create the webhook.*?Select the\s+events (.*?)\n\n`)
	named  = regexp.MustCompile(`\*([A-Z][^*]+)\*`)
)

// TestEventsOfWebhooks checks that the guide contains exactly the events that the code handles.
func TestEventsOfWebhooks(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(root, "docs", "how-to", "previews.md"))
	if err != nil {
		t.Fatal(err)
	}
	var guide []string
	for _, list := range chosen.FindAllStringSubmatch(string(text), -1) {
		for _, event := range named.FindAllStringSubmatch(list[1], -1) {
			guide = append(guide, strings.Join(strings.Fields(event[1]), " "))
		}
	}
	var followed []string
	for _, event := range keysOf(t, "controllers/githubrepository", "pollEvents", "packageEvents") {
		name, ok := deliverable[event]
		if !ok {
			t.Errorf("the code handles the event %q: add this event, with its name in GitHub's settings, to deliverable", event)
		}
		if name != "" {
			followed = append(followed, name)
		}
	}
	slices.Sort(guide)
	slices.Sort(followed)
	if diff := cmp.Diff(followed, guide); diff != "" || len(guide) == 0 {
		t.Errorf("webhook events (-code +guide):\n%s", diff)
	}
}

// keysOf returns the keys of the maps that initialize variables below dir.
func keysOf(t *testing.T, dir string, variables ...string) []string {
	t.Helper()
	var keys []string
	for _, file := range sources(t, dir) {
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Names) != 1 || len(spec.Values) != 1 || !slices.Contains(variables, spec.Names[0].Name) {
				return true
			}
			if made, ok := spec.Values[0].(*ast.CompositeLit); ok {
				for _, element := range made.Elts {
					if pair, ok := element.(*ast.KeyValueExpr); ok {
						if key, ok := literal(pair.Key); ok {
							keys = append(keys, key)
						}
					}
				}
			}
			return true
		})
	}
	return keys
}
