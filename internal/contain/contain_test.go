package contain

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr/funcr"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// TestPanics checks that the error of a function is returned, that a panic becomes an error without the cause, and that the log
// contains the cause and the stack.
func TestPanics(t *testing.T) {
	var mu sync.Mutex
	var logged strings.Builder
	log.SetLogger(funcr.New(func(_, args string) {
		mu.Lock()
		defer mu.Unlock()
		logged.WriteString(args)
	}, funcr.Options{}))
	if err := Panics(func() error { return nil }); err != nil {
		t.Errorf("without an error: %v", err)
	}
	failed := errors.New("failed")
	if err := Panics(func() error { return failed }); !errors.Is(err, failed) {
		t.Errorf("with an error: %v", err)
	}
	if logged.Len() > 0 {
		t.Errorf("without a panic, the log is %s", logged.String())
	}
	var response map[string]string
	for name, do := range map[string]func() error{
		"TestPanics.func":      func() error { panic("a secret of a tenant") },
		"assignment to entry":  func() error { response["a"] = "b"; return nil },
		"a secret of a tenant": func() error { panic("a secret of a tenant") },
	} {
		logged.Reset()
		err := Panics(do)
		if !errors.Is(err, ErrPanic) || strings.Contains(err.Error(), "secret") {
			t.Errorf("with a panic: %v", err)
		}
		if !strings.Contains(logged.String(), name) {
			t.Errorf("the log does not contain %q: %s", name, logged.String())
		}
	}
}
