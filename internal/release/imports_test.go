package release

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestImports checks that the package uses no client, network, clock, randomness, or log. Of its
// indirect imports, os, syscall, and context come from fmt and the version library.
func TestImports(t *testing.T) {
	deps, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	forbidden := []string{"net", "net/http", "net/url", "log", "log/slog", "os/exec", "os/user", "math/rand", "math/rand/v2", "crypto/rand", "plugin"}
	ours := []string{"github.com/heighliner/heighliner/internal/release", "github.com/heighliner/heighliner/internal/frozen", "github.com/heighliner/heighliner/internal/version", "github.com/Masterminds/semver/v3"}
	for dep := range strings.FieldsSeq(string(deps)) {
		first, _, _ := strings.Cut(dep, "/")
		if slices.Contains(forbidden, dep) || strings.Contains(first, ".") && !slices.Contains(ours, dep) {
			t.Errorf("the planner depends on %s", dep)
		}
	}
	direct, err := exec.Command("go", "list", "-f", `{{join .Imports "\n"}}`, ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, dep := range []string{"os", "syscall", "context", "runtime", "sync", "reflect/unsafe"} {
		if slices.Contains(strings.Fields(string(direct)), dep) {
			t.Errorf("the planner imports %s", dep)
		}
	}
	// grep exits with 1 if it finds nothing.
	out, err := exec.Command("sh", "-c", `grep -nE 'time\.(Now|Since|Until|After|AfterFunc|Sleep|Tick|NewTimer|NewTicker)\(' $(ls *.go | grep -v _test.go)`).CombinedOutput()
	if err == nil || len(out) > 0 {
		t.Errorf("the planner reads a clock:\n%s", out)
	}
}
