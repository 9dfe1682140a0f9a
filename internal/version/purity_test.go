package version

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestImports checks that the package imports only the standard library and semver, and no package for the
// network, the clock, the environment or logs.
func TestImports(t *testing.T) {
	allowed := []string{"github.com/Masterminds/semver/v3", "github.com/heighliner/heighliner/internal/version"}
	out, err := exec.Command("go", "list", "-deps", "-f", `{{if not .Standard}}{{.ImportPath}}{{end}}`, ".").Output()
	if err != nil {
		t.Fatalf("list dependencies: %v", err)
	}
	for _, path := range strings.Fields(string(out)) {
		if !slices.Contains(allowed, path) {
			t.Errorf("depends on %s", path)
		}
	}
	out, err = exec.Command("go", "list", "-f", `{{join .Imports "\n"}}`, ".").Output()
	if err != nil {
		t.Fatalf("list imports: %v", err)
	}
	for _, path := range strings.Fields(string(out)) {
		if slices.Contains([]string{"time", "os", "log", "log/slog", "context", "math/rand"}, path) || strings.HasPrefix(path, "net") {
			t.Errorf("imports %s", path)
		}
	}
}
