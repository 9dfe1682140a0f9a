// Command mutate changes one condition or statement of internal/release at a time, runs the package's tests
// on the changed code, and lists the changes that no test detected. It does not change the working tree: all
// changes to a file are compiled into one binary through a build overlay, each behind its own switch.
//
//	go run ./hack/mutate [-file hook_gates.go,target.go] [-line 7,9] [-run regexp] [-skip regexp] [-jobs 2]
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// limit is the time limit for the tests of one change. If the tests exceed it, the change counts as detected.
const limit = 2 * time.Minute

// variable is the environment variable that contains the number of the active change.
const variable = "MUTATE"

// switches is the source of the file that reads the variable. This file is added to the changed package.
const switches = `package %s

import "os"

var mutateNumber = os.Getenv(%q)

func mutate(number string) bool { return number == mutateNumber }
`

// mutant is a change, with its number in the file.
type mutant struct {
	n    int
	at   token.Position
	what string
}

// outcomes counts the changes by the result of their tests.
type outcomes struct{ changes, noticed, endless, missed int }

func main() {
	dir := flag.String("dir", "internal/release", "package to change")
	only := flag.String("file", "", "change only the files in this comma-separated list")
	run := flag.String("run", "", "regular expression of the tests that should detect changes; defaults to all tests")
	skip := flag.String("skip", "TestEveryRuleIsNeeded|TestHistoriesSurviveCrashes|TestLimits|TestSimulate|TestImports", "regular expression of the tests to omit; defaults to slow tests and tests of random histories")
	lines := flag.String("line", "", "change only the lines in this comma-separated list")
	jobs := flag.Int("jobs", 2, "number of concurrent tests")
	flag.Parse()
	files, err := filepath.Glob(filepath.Join(*dir, "*.go"))
	if err != nil {
		fail(err)
	}
	var sum outcomes
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") || *only != "" && !slices.Contains(strings.Split(*only, ","), filepath.Base(file)) {
			continue
		}
		if err := change(file, *lines, *run, *skip, *jobs, &sum); err != nil {
			fail(err)
		}
	}
	fmt.Printf("%d changes: %d detected, %d more did not end, %d not detected\n", sum.changes, sum.noticed, sum.endless, sum.missed)
	if sum.missed > 0 {
		os.Exit(1)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "mutate:", err)
	os.Exit(2)
}

// change tries all changes to a file, and prints the changes that no test detected.
func change(file, lines, run, skip string, jobs int, sum *outcomes) error {
	tmp, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	all, binary, err := build(file, tmp)
	if err != nil {
		return err
	}
	if err := try(binary, filepath.Dir(file), run, skip, 0); err != nil {
		return fmt.Errorf("%s: the tests fail without a change: %w", file, err)
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	next := make(chan mutant)
	for range jobs {
		wg.Go(func() {
			for m := range next {
				err := try(binary, filepath.Dir(file), run, skip, m.n)
				mu.Lock()
				sum.changes++
				switch {
				case err == nil:
					sum.missed++
					fmt.Printf("%s:%d:%d: %s\n", filepath.Base(m.at.Filename), m.at.Line, m.at.Column, m.what)
				case errors.Is(err, context.DeadlineExceeded):
					sum.endless++
				default:
					sum.noticed++
				}
				mu.Unlock()
			}
		})
	}
	for _, m := range all {
		if lines == "" || slices.Contains(strings.Split(lines, ","), strconv.Itoa(m.at.Line)) {
			next <- m
		}
	}
	close(next)
	wg.Wait()
	return nil
}

// build compiles the tests of a file's package with all changes to the file.
func build(file, tmp string) ([]mutant, string, error) {
	fset := token.NewFileSet()
	tree, err := parser.ParseFile(fset, file, nil, 0)
	if err != nil {
		return nil, "", err
	}
	w := weaver{fset: fset, own: map[ast.Node]bool{}}
	ast.Inspect(tree, w.weave)
	var out bytes.Buffer
	if err := format.Node(&out, fset, tree); err != nil {
		return nil, "", err
	}
	from, err := filepath.Abs(file)
	if err != nil {
		return nil, "", err
	}
	changed, asked, overlay, binary := filepath.Join(tmp, "changed.go"), filepath.Join(tmp, "switches.go"), filepath.Join(tmp, "overlay.json"), filepath.Join(tmp, "tests")
	replace, err := json.Marshal(map[string]any{"Replace": map[string]string{from: changed, filepath.Join(filepath.Dir(from), "mutate_switches.go"): asked}})
	if err != nil {
		return nil, "", err
	}
	for name, content := range map[string][]byte{
		changed: out.Bytes(), asked: fmt.Appendf(nil, switches, tree.Name.Name, variable), overlay: replace,
	} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			return nil, "", err
		}
	}
	if out, err := exec.Command("go", "test", "-c", "-o", binary, "-overlay="+overlay, "./"+filepath.ToSlash(filepath.Dir(file))).CombinedOutput(); err != nil {
		return nil, "", fmt.Errorf("compile %s with its changes: %w\n%s", file, err, out)
	}
	return w.all, binary, nil
}

// try runs the tests with one change. It returns nil if they did not detect the change.
func try(binary, dir, run, skip string, n int) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, "-test.short", "-test.failfast", "-test.run="+run, "-test.skip="+skip)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), variable+"="+strconv.Itoa(n))
	err := cmd.Run()
	return cmp.Or(ctx.Err(), err)
}

// weaver inserts changes into a syntax tree, each behind a switch.
type weaver struct {
	fset *token.FileSet
	all  []mutant
	// own contains the nodes that the weaver inserted. The weaver does not change these nodes.
	own map[ast.Node]bool
}

func (w *weaver) weave(n ast.Node) bool {
	if n == nil || w.own[n] {
		return true
	}
	switch n := n.(type) {
	case *ast.IfStmt:
		n.Cond = w.negated(n.Cond, "negate the condition")
	case *ast.SwitchStmt:
		if n.Tag != nil {
			return true
		}
		for _, c := range n.Body.List {
			for i, e := range c.(*ast.CaseClause).List {
				c.(*ast.CaseClause).List[i] = w.negated(e, "negate the case")
			}
		}
	case *ast.BinaryExpr:
		return w.binary(n)
	case *ast.BlockStmt:
		w.drop(n.List)
	case *ast.CaseClause:
		w.drop(n.Body)
	}
	return true
}

// on returns the switch of a new change.
func (w *weaver) on(at ast.Node, what string) ast.Expr {
	n := len(w.all) + 1
	w.all = append(w.all, mutant{n: n, at: w.fset.Position(at.Pos()), what: what})
	return &ast.CallExpr{Fun: ast.NewIdent("mutate"), Args: []ast.Expr{&ast.BasicLit{Kind: token.STRING, Value: strconv.Quote(strconv.Itoa(n))}}}
}

func (w *weaver) made(x ast.Expr, op token.Token, y ast.Expr) ast.Expr {
	b := &ast.BinaryExpr{X: &ast.ParenExpr{X: x}, Op: op, Y: &ast.ParenExpr{X: y}}
	w.own[b] = true
	return &ast.ParenExpr{X: b}
}

func (w *weaver) negated(e ast.Expr, what string) ast.Expr {
	return w.made(e, token.NEQ, w.on(e, what))
}

// binary inserts changes that drop one side of an && or || expression, and changes that include or exclude
// the bound of a comparison. It reports whether to descend into the expression.
func (w *weaver) binary(n *ast.BinaryExpr) bool {
	not := func(e ast.Expr) ast.Expr { return &ast.UnaryExpr{Op: token.NOT, X: e} }
	switch n.Op {
	case token.LAND:
		n.X = w.made(n.X, token.LOR, w.on(n.X, "drop the left side of &&"))
		n.Y = w.made(n.Y, token.LOR, w.on(n.Y, "drop the right side of &&"))
	case token.LOR:
		n.X = w.made(n.X, token.LAND, not(w.on(n.X, "drop the left side of ||")))
		n.Y = w.made(n.Y, token.LAND, not(w.on(n.Y, "drop the right side of ||")))
	case token.LSS, token.GTR, token.LEQ, token.GEQ:
		swap := map[token.Token]token.Token{token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR}[n.Op]
		x, y, on := n.X, n.Y, w.on(n, fmt.Sprintf("%s for %s", swap, n.Op))
		equal := w.made(on, token.LAND, w.made(x, token.EQL, y))
		n.X = w.made(x, n.Op, y)
		if n.Op == token.LSS || n.Op == token.GTR {
			n.Op, n.Y = token.LOR, equal
		} else {
			n.Op, n.Y = token.LAND, not(equal)
		}
		return false // The operands occur twice in the new expression.
	}
	return true
}

// drop inserts a change for each statement that neither declares a variable nor ends the function. The change omits the statement.
func (w *weaver) drop(list []ast.Stmt) {
	for i, s := range list {
		switch x := s.(type) {
		case *ast.ExprStmt:
			if call, ok := x.X.(*ast.CallExpr); ok {
				if name, ok := call.Fun.(*ast.Ident); ok && name.Name == "panic" {
					continue
				}
			}
		case *ast.IncDecStmt:
		case *ast.AssignStmt:
			if x.Tok == token.DEFINE {
				continue
			}
		default:
			continue
		}
		body := &ast.BlockStmt{List: []ast.Stmt{s}}
		cond := &ast.IfStmt{Cond: &ast.UnaryExpr{Op: token.NOT, X: w.on(s, "omit the statement")}, Body: body}
		w.own[body], w.own[cond] = true, true
		list[i] = cond
	}
}
