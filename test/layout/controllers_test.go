package layout

import (
	"go/ast"
	"go/token"
	"go/types"
	"testing"
)

// TestControllersUseOneBackOff checks that each controller gets its options from queue.Options. With the default back-off of
// controller-runtime, an object with errors would wait for up to 1,000 seconds after an outage of the API server has ended.
func TestControllersUseOneBackOff(t *testing.T) {
	t.Parallel()
	controllers := 0
	for _, folder := range []string{"cmd", "controllers", "internal"} {
		parsed(t, folder, func(files *token.FileSet, file *ast.File) {
			ast.Inspect(file, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok || len(call.Args) != 1 {
					return true
				}
				if s, ok := call.Fun.(*ast.SelectorExpr); !ok || s.Sel.Name != "WithOptions" {
					return true
				}
				controllers++
				options, ok := call.Args[0].(*ast.CallExpr)
				if !ok || types.ExprString(options.Fun) != "queue.Options" {
					t.Errorf("%s: use queue.Options", files.Position(call.Pos()))
				}
				return true
			})
		})
	}
	if controllers < 9 {
		t.Errorf("only %d controllers were found, want at least 9", controllers)
	}
}
