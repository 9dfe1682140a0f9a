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
	var controllers, withOptions int
	for _, folder := range []string{"cmd", "controllers", "internal"} {
		parsed(t, folder, func(files *token.FileSet, file *ast.File) {
			ast.Inspect(file, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok || len(call.Args) != 1 {
					return true
				}
				s, ok := call.Fun.(*ast.SelectorExpr)
				if ok && s.Sel.Name == "NewControllerManagedBy" {
					controllers++
				}
				if !ok || s.Sel.Name != "WithOptions" {
					return true
				}
				withOptions++
				options, ok := call.Args[0].(*ast.CallExpr)
				if !ok || types.ExprString(options.Fun) != "queue.Options" {
					t.Errorf("%s: use queue.Options", files.Position(call.Pos()))
				}
				return true
			})
		})
	}
	if controllers < 9 || withOptions != controllers {
		t.Errorf("%d controllers were found, want at least 9, and %d calls of WithOptions, want one for each controller", controllers, withOptions)
	}
}
