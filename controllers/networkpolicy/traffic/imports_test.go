package traffic

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestImports checks that this package, the providers, and the resource builders are pure: they
// import no packages for clients, networks, clocks, randomness, or logs, and do not read the time.
func TestImports(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, ".", "../providers/...", "../resources").Output()
	if err != nil {
		t.Fatal(err)
	}
	forbidden := []string{"context", "log", "log/slog", "math/rand", "math/rand/v2", "crypto/rand", "net/http", "os", "os/exec", "sync", "syscall"}
	for line := range strings.Lines(string(out)) {
		imports := strings.Fields(line)
		for _, path := range imports[1:] {
			if slices.Contains(forbidden, path) || strings.HasPrefix(path, "k8s.io/client-go") ||
				strings.HasPrefix(path, "sigs.k8s.io/controller-runtime") && path != "sigs.k8s.io/controller-runtime/pkg/scheme" {
				t.Errorf("%s imports %s: only the controller reads, writes, and logs", imports[0], path)
			}
		}
	}
	// grep exits with 1 if it finds nothing.
	found, err := exec.Command("sh", "-c", `grep -nE 'time\.(Now|Since|Until|After|AfterFunc|Sleep|Tick|NewTimer|NewTicker)\(' $(find . ../providers ../resources -name '*.go' ! -name '*_test.go')`).CombinedOutput()
	if err == nil || len(found) > 0 {
		t.Errorf("a pure package reads a clock:\n%s", found)
	}
}
